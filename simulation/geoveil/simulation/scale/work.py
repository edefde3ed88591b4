"""Work that is a sum over numbered blocks: the order and place of their computation are free.

Sums are exact, of n, Σk and Σk² of 64-bit integers, which no 64-bit number can hold.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.estimation import Accumulator

_LIMB_BITS = 21
_CHUNK = 1 << 20
"""Products of limbs are below 2^42 (the top one is in [-2^21, 2^21)), so 2^20 of them fit."""


def integers(reports: NDArray[np.float64], step_exponent: int) -> NDArray[np.int64]:
    """Return the integers on the grid nearest to simulated reports, saturated as a release is.

    Example:
        >>> integers(np.array([0.3, -1.0, 1e300]), step_exponent=-1).tolist()
        [1, -2, 9223372036854775807]
    """
    scaled = np.ldexp(reports, -step_exponent)
    np.rint(scaled, out=scaled)
    low, high = -(2.0**63), 2.0**63
    if scaled.size and (scaled.min() < low or scaled.max() >= high):
        above = scaled >= high
        whole = np.clip(scaled, low, np.nextafter(high, 0)).astype(np.int64)
        whole[above] = np.iinfo(np.int64).max
        return whole
    return scaled.astype(np.int64)


def accumulate(k: NDArray[np.int64]) -> Accumulator:
    """Return the exact sums of integers, shape (n,): those of `Accumulator.of`, a chunk at a time.

    Example:
        >>> accumulate(np.array([2**62, -(2**63)])).total_of_squares == 2**124 + 2**126
        True
    """
    total = squares = 0
    for start in range(0, len(k), _CHUNK):
        limbs = _limbs(k[start : start + _CHUNK])
        total += sum(int(limb.sum()) << _LIMB_BITS * i for i, limb in enumerate(limbs))
        for i, first in enumerate(limbs):
            squares += int(np.dot(first, first)) << 2 * _LIMB_BITS * i
            for j, second in enumerate(limbs[:i]):
                squares += int(np.dot(first, second)) << _LIMB_BITS * (i + j) + 1
    return Accumulator(len(k), total, squares)


def _limbs(k: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return a, b, … with k = a + b·2^21 + …: as few as the extremes need, the last one signed."""
    limbs = []
    while k.min() < -(1 << _LIMB_BITS) or k.max() >= 1 << _LIMB_BITS:
        limbs.append(k & ((1 << _LIMB_BITS) - 1))
        k = k >> _LIMB_BITS
    return [*limbs, k]


Sums = list[Accumulator]
"""One per query."""


class BlockedWork(ABC):
    """Blocks, each with exact integer sums that depend on its number alone.

    Integers add up to the same bits in any order, so the result does not depend on how the blocks
    are grouped, who computes them and when. Instances are pickled to the workers.
    """

    @property
    @abstractmethod
    def blocks(self) -> int:
        """How many there are."""

    @property
    @abstractmethod
    def queries(self) -> int:
        """How many sums a block has."""

    @abstractmethod
    def block(self, number: int) -> Sums:
        """Return the sums of one block: the same, wherever and however often it is asked."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a hash, in hexadecimal, that is the same for work with the same sums only."""


def add(first: Sequence[Accumulator], second: Sequence[Accumulator]) -> Sums:
    """Return the sums of two parts of the work."""
    return [a + b for a, b in zip(first, second, strict=True)]


def of_blocks(work: BlockedWork, blocks: range) -> Sums:
    """Return the sums of a group of blocks."""
    sums = [Accumulator()] * work.queries
    for number in blocks:
        sums = add(sums, work.block(number))
    return sums


def groups(missing: Sequence[range], size: int) -> list[range]:
    """Return ranges of at most `size` blocks that cover the missing ones.

    Example:
        >>> groups([range(0, 5), range(9, 10)], 3)
        [range(0, 3), range(3, 5), range(9, 10)]
    """
    return [
        range(start, min(start + size, part.stop))
        for part in missing
        for start in range(part.start, part.stop, size)
    ]
