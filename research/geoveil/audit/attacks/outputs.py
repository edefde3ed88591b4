"""Attacks on outputs: by reachability and by spacing.

Noise on a computer is a function of a uniform number with finitely many bits. By bisection, since
reports rise with the number, the adversary counts those that lead from an input to exactly this
output: of 53 bits for `simulate`, intervals for `release`.

*Reachable outputs* (Mironov, CCS 2012). Float noise takes finitely many values, with gaps, and
adding f(x) moves the gaps: an output that no number leads to from x' can't be from x'.

*Precision of the addition* (Haney, Desfontaines, Hartman, Shrestha and Hay, 2022). For f(x') ≠ 0
every float f(x') + noise is a multiple of half the spacing of doubles at f(x'). For f(x) = 0 it has
the noise's own spacing, finer near 0: one such output is proof.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.audit.attacks.guesses import Guesses
from geoveil.gp import AdditiveMechanism, LazyUniform, RandomSource, SeededSource

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_FLOAT_BITS = 53
_GRID_BITS = 62
"""Leading bits that are searched. On the default grid an integer has up to 2^21 such numbers."""
_WIDE = 1 << 24
"""Half-width of the first search for an output's numbers, around the float estimate."""
_NEAR = 64
"""Half-width of the search around the first number, since float noise may not rise strictly."""


class OutputPath(ABC):
    """A method of making reports, from the adversary's view."""

    name: str
    """The name of the method: simulate or release."""
    must_break: bool
    """Whether attacks must succeed, as on floats."""
    bits: int
    """Bits of the searched uniform numbers: j stands for j/2^bits."""
    count_error: int
    """The largest difference of a count of preimages from the measure of all uniform numbers."""

    def __init__(self, mechanism: AdditiveMechanism) -> None:
        self.mechanism = mechanism

    @abstractmethod
    def draw(self, x: float, count: int, seed: int) -> NDArray[Any]:
        """Return independent outputs for one point, (count,); the same seed draws the same."""

    @abstractmethod
    def reach(self, x: float, numbers: Integers) -> NDArray[Any]:
        """Return the outputs for uniform numbers, in the shape of `numbers`."""

    @abstractmethod
    def preimages(self, x: float, outputs: NDArray[Any]) -> Integers:
        """Return the number of uniform numbers that lead from x to exactly each output, (n,)."""

    def first(
        self,
        x: float,
        outputs: NDArray[Any],
        *,
        above: bool = False,
        between: tuple[Integers, Integers] | None = None,
    ) -> Integers:
        """Return the least number that leads from x to each output (n,) or above it.

        `above` asks for more than the output; `between` holds bounds of the answers.
        """
        if between is None:
            between = np.ones(outputs.shape, np.int64), np.full(outputs.shape, 2**self.bits - 1)
        low, high = between
        while (low < high).any():
            middle = low + (high - low) // 2
            reached = self.reach(x, middle)
            enough = reached > outputs if above else reached >= outputs
            high = np.where(enough, middle, high)
            low = np.where(enough, low, np.minimum(middle + 1, high))
        return high


class FloatPath(OutputPath):
    """`simulate`: float64 noise from 53 bits, one value per report, on points of dimension 1."""

    name = "simulate"
    must_break = True
    count_error = 0
    bits = _FLOAT_BITS

    def draw(self, x: float, count: int, seed: int) -> Array:
        return self.mechanism.simulate(np.full(count, x), np.random.default_rng(seed))

    def reach(self, x: float, numbers: Integers) -> Array:
        flat = numbers.ravel()
        outputs = self.mechanism.simulate(np.full(flat.shape, x), _Chosen(flat / 2.0**self.bits))
        return np.asarray(outputs.reshape(numbers.shape))

    def preimages(self, x: float, outputs: NDArray[Any]) -> Integers:
        """Return the number of preimages next to the first one."""
        near = self.first(x, outputs)[:, None] + np.arange(-_NEAR, _NEAR + 1)
        inside = (near >= 1) & (near < 2**self.bits)
        same = self.reach(x, np.clip(near, 1, 2**self.bits - 1)) == outputs[:, None]
        return np.asarray((same & inside).sum(axis=1))


class GridPath(OutputPath):
    """`release`: an integer on a public grid, from as many random bits as needed."""

    name = "release"
    must_break = False
    count_error = 1
    bits = _GRID_BITS

    def draw(self, x: float, count: int, seed: int) -> Integers:
        source = SeededSource(seed)
        return np.array([self.mechanism.release(x, source) for _ in range(count)], np.int64)

    def reach(self, x: float, numbers: Integers) -> Integers:
        outputs = [self.mechanism.release(x, _Leading(j)) for j in numbers.ravel().tolist()]
        return np.array(outputs, np.int64).reshape(numbers.shape)

    def preimages(self, x: float, outputs: NDArray[Any]) -> Integers:
        """Return the ends of an interval: release never falls as the number rises."""
        near = FloatPath(self.mechanism).first(x, outputs * self.mechanism.step)
        near <<= self.bits - FloatPath.bits
        most = 2**self.bits - 1
        low, high = np.clip(near - _WIDE, 1, most), np.clip(near + _WIDE, 1, most)
        around = (self.reach(x, low) < outputs).all() and (self.reach(x, high) > outputs).all()
        between = (low, high) if around else None
        start = self.first(x, outputs, between=between)
        return self.first(x, outputs, above=True, between=between) - start


class _Chosen(np.random.Generator):
    """A generator that returns given uniform numbers, in order."""

    def __init__(self, uniform: Array) -> None:
        super().__init__(np.random.PCG64(0))
        self._left = 1 - uniform  # a sample is the quantile at 1 − random()

    def random(self, size: Any = None, *_: Any, **__: Any) -> Any:
        count = int(np.prod(size))
        given, self._left = self._left[:count], self._left[count:]
        return given.reshape(size)


class _Leading(RandomSource):
    """Bits that begin with a chosen number and continue with zeros."""

    def __init__(self, number: int) -> None:
        self._next = number << (LazyUniform.FIRST - _GRID_BITS)

    def bits(self, count: int) -> int:
        given, self._next = self._next, 0
        return given


@dataclass(frozen=True, slots=True)
class Reached:
    """The result of the reachability attack."""

    guesses: Guesses
    unreachable: float
    """Share of outputs that are unreachable from the other input."""
    largest_loss: float
    """The largest |log-ratio| of an output's two probabilities that the counts prove."""


def reachable_attack(
    path: OutputPath, x: float, other: float, *, samples: int, seed: int, failure_probability: float
) -> Reached:
    """Guess the input of single outputs, between two.

    The guess is the input from which more uniform numbers lead to exactly that output: the
    likelihood-ratio test, which no other guess beats. A coin decides a tie.

    Args:
        path: the method of making reports.
        x: one input.
        other: the other.
        samples: outputs of each.
        seed: for the outputs and the coins.
        failure_probability: probability, in (0, 1), that a bound of the guesses exceeds the truth.
    """
    rng = np.random.default_rng([seed, 2])
    called = []
    unreachable = 0
    loss = 0.0
    for index, truth in enumerate((x, other)):
        outputs = path.draw(truth, samples, 2 * seed + index)
        counts = [path.preimages(point, outputs) for point in (x, other)]
        coin = rng.random(samples) < 0.5
        called.append(int(np.where(counts[0] == counts[1], coin, counts[0] > counts[1]).sum()))
        unreachable += int((counts[1 - index] == 0).sum())
        loss = max(loss, _largest_ratio(counts[0], counts[1], path.count_error))
    guesses = Guesses(called[0], called[1], samples, failure_probability)
    return Reached(guesses, unreachable / (2 * samples), loss)


def _largest_ratio(first: NDArray[np.int64], second: NDArray[np.int64], error: int) -> float:
    more = np.maximum(first, second) - error
    less = np.minimum(first, second) + error
    if (less == 0).any():
        return math.inf
    return max(0.0, float(np.log(np.maximum(more, 1) / less).max()))


_NONE = 2000
"""A placeholder for the lowest bit of 0, above the exponent of every double."""


def lowest_bit(values: ArrayLike) -> NDArray[np.int64]:
    """Return the largest e with each double a multiple of 2^e; 2000 for 0.

    Example:
        >>> lowest_bit([1.0, 0.75, 12.0, 0.0]).tolist()
        [0, -2, 2, 2000]
    """
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)  # 53 bits: exact
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    return np.where(whole == 0, _NONE, lowest + exponent - 53).astype(np.int64)


def spacing_attack(
    path: OutputPath, x: float, other: float, *, samples: int, seed: int, failure_probability: float
) -> Guesses:
    """Guess the input of single outputs between two, from their lowest bit.

    `samples` outputs of each input determine which lowest bits are attributed to the first input.
    The result is from as many other, fresh outputs. Arguments as in `reachable_attack`.
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
