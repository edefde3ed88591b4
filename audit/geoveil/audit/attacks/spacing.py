"""The precision attack on the addition (Haney, Desfontaines, Hartman, Shrestha and Hay, 2022).

A sum of two doubles is a multiple of the smaller of their two spacings. For f(x') ≠ 0 every float
output f(x') + noise is a multiple of half the spacing of doubles at f(x'): noise at least half as
large has that spacing or a wider one, and with smaller noise the sum itself has. For f(x) = 0 the
output has the noise's own spacing, which near 0 is finer. One output finer than that is proof.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.audit.attacks.guesses import Guesses
from geoveil.audit.attacks.preimages import Path

_NONE = 2000
"""Above the exponent of every double; stands for the lowest bit of 0, which has none."""


def lowest_bit(values: ArrayLike) -> NDArray[np.int64]:
    """Return the largest e with each value a multiple of 2^e; 2000 for 0.

    Args:
        values: doubles, or integers that doubles hold exactly.

    Example:
        >>> lowest_bit([1.0, 0.75, 12.0, 0.0]).tolist()
        [0, -2, 2, 2000]
    """
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)  # 53 bits: exact
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    return np.where(whole == 0, _NONE, lowest + exponent - 53).astype(np.int64)


def spacing_attack(
    path: Path, x: float, other: float, *, samples: int, seed: int, failure_probability: float
) -> Guesses:
    """Guess, from the lowest bit of single outputs, which of two inputs they are from.

    One half of the outputs chooses up to which lowest bit, or from which on, an output is called
    the first input's. The other half, which the choice has not seen, is what is reported.

    Args:
        path: how the reports are made.
        x: one input.
        other: the other.
        samples: outputs of each, in each half.
        seed: for the outputs.
        failure_probability: see `Guesses`.
    """
    halves = [
        np.split(lowest_bit(path.draw(point, 2 * samples, 2 * seed + index)), 2)
        for index, point in enumerate((x, other))
    ]
    (train, test), (other_train, other_test) = halves
    levels = np.unique(np.concatenate([train, other_train]))
    rules = [(level, finer) for level in levels.tolist() for finer in (True, False)]

    def called(bits: NDArray[np.int64], rule: tuple[int, bool]) -> int:
        level, finer = rule
        return int((bits <= level if finer else bits > level).sum())

    def trained(rule: tuple[int, bool]) -> Guesses:
        counts = called(train, rule), called(other_train, rule)
        return Guesses(*counts, samples, failure_probability)

    best = max(rules, key=lambda rule: trained(rule).epsilon)
    return Guesses(called(test, best), called(other_test, best), samples, failure_probability)
