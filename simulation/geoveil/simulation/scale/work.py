"""Work that is a sum over numbered blocks: the order and place of their computation are free."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from geoveil.gp.estimation import Accumulator

Sums = list[Accumulator]
"""One per query."""


class Work(ABC):
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


def of_blocks(work: Work, blocks: range) -> Sums:
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
