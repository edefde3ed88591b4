"""Categories: one of several options, a place on an ordered scale, or a set of options [MATH §15].

A device draws integers. With M = 2³² and T = ⌊e^ε·M⌋ every probability is made of T and M, and
T/M ≤ e^ε is the only ratio that a proof needs. Estimators undo what devices draw, e^ε rounded down.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, TypeAlias

from geoveil.gp import validation
from geoveil.gp.arrays import Array, ArrayLike, NDArray, np
from geoveil.gp.errors import ParameterError, PrivateValueError
from geoveil.gp.exact import BALL, lower, working_precision
from geoveil.gp.not_private import warn_beside_holder
from geoveil.gp.privacy import GeoPrivacy, LocalPrivacy
from geoveil.gp.randomness import RandomSource, chosen_source
from geoveil.gp.report_moments import ReportMoments

MOST_EPSILON = 16.0
"""The largest ε of categories: beyond it fewer than one answer in a million is a lie."""
ONE = 1 << 32
"""M: the weight of a lie."""
BITS_A_COLUMN = 62
"""Options whose bits one integer of a report holds."""
_BITS = 128
_WORD = 32
_BLOCK = 1 << 22
"""Bits simulated together."""
Estimator: TypeAlias = "Callable[[NDArray[np.int64]], Array]"
"""Returns one number for each row of reports."""


@dataclass(frozen=True)
class CategoryMechanism(ABC):
    """A randomised category of a person, of K options counted from 0; ε in (0, 16] nats."""

    options: int
    epsilon: float

    fewest_options: ClassVar[int] = 2
    most_options: ClassVar[int] = 10_000

    def __post_init__(self) -> None:
        validation.require_count("options", self.options, self.fewest_options, self.most_options)
        validation.between("epsilon", self.epsilon, 0, MOST_EPSILON, low_open=True)

    @property
    def weight(self) -> int:
        """T = ⌊e^ε·2³²⌋."""
        return _weight(self.epsilon)

    @property
    def privacy(self) -> LocalPrivacy | GeoPrivacy:
        """The guarantee of one report."""
        return LocalPrivacy(self.epsilon)

    @property
    def largest_epsilon(self) -> float:
        """How distinguishable (nats) any two values may be."""
        return self.epsilon

    @property
    def columns(self) -> int:
        """Number of integers in a report."""
        return 1

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The least and greatest integer of each column."""
        return ((0, self.options - 1),)

    def release(self, value: int, source: RandomSource | None = None) -> tuple[int, ...]:
        """Return one exact, private report. The value is read after the last draw.

        Args:
            value: the option's index; for `SubsetResponse` a mask of bits.

        Raises:
            PrivateValueError: if there is no such value.
        """
        drawn = self._draw(chosen_source(source))
        if type(value) is not int or not self._takes(value):
            raise PrivateValueError(self._expected)
        return self._report(value, drawn)

    def simulate(self, values: ArrayLike, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return reports (n, columns) for n values. NOT private on a computer: for experiments.

        Values are indices (n,), or for `SubsetResponse` masks (n, columns).
        """
        warn_beside_holder()
        return self._simulate(np.asarray(values, np.int64), rng)

    @abstractmethod
    def estimator(self, scores: ArrayLike) -> Estimator:
        """Return h, which maps reports (n, columns) to numbers with a person's score as mean.

        Args:
            scores: K finite numbers, one for each option; those of a set add up.

        Raises:
            ParameterError: if scores are not K finite numbers, or ε < 2^-32: reports say nothing.
        """

    @abstractmethod
    def limits(self, scores: ArrayLike) -> tuple[float, float]:
        """Return the least and greatest value of h from `estimator(scores)`."""

    def variance(self, scores: ArrayLike) -> Array:
        """Return the variance of h for each true option, (K,)."""
        return self._central(self._scores(scores), 2)

    def moments(self, scores: ArrayLike) -> ReportMoments:
        """Return the moments of h for each true option; of a set, for one option alone."""
        scores = self._scores(scores)
        variance = self.variance(scores)
        origin = float(scores[np.abs(scores).argmin()])
        away = scores - origin
        cubes = self._central(scores, 3) + 3 * away * variance + away**3
        points = np.stack([away, variance + away**2, cubes], axis=1)
        return ReportMoments(np.unique(points, axis=0), origin=origin)

    @abstractmethod
    def _central(self, scores: Array, power: int) -> Array:
        """Return the second or third central moment of h for each true option, (K,)."""

    @property
    def _expected(self) -> str:
        return f"the index of an option, from 0 to {self.options - 1}"

    def _takes(self, value: int) -> bool:
        return 0 <= value < self.options

    @abstractmethod
    def _draw(self, source: RandomSource) -> tuple[int, ...]:
        """Return all random integers of a report."""

    @abstractmethod
    def _report(self, value: int, drawn: tuple[int, ...]) -> tuple[int, ...]:
        """Return the report of a value."""

    @abstractmethod
    def _simulate(self, values: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return reports for checked values."""

    @property
    def _more(self) -> int:
        """T − M, the excess weight of the true option."""
        if self.weight == ONE:
            raise ParameterError("epsilon", self.epsilon, "at least 2^-32 for an estimate")
        return self.weight - ONE

    def _scores(self, scores: ArrayLike) -> Array:
        array = validation.float_array(scores)
        if array is None or array.shape != (self.options,) or not np.isfinite(array).all():
            raise ParameterError("scores", scores, f"{self.options} finite numbers")
        return array


class _IndexMechanism(CategoryMechanism):
    """A mechanism whose report is the index of an option, with a table as h."""

    @abstractmethod
    def _table(self, scores: Array) -> Array:
        """Return h of each reported index."""

    def estimator(self, scores: ArrayLike) -> Estimator:
        table = self._table(self._scores(scores))
        return lambda reports: np.asarray(table[reports[:, 0]])

    def limits(self, scores: ArrayLike) -> tuple[float, float]:
        table = self._table(self._scores(scores))
        return float(table.min()), float(table.max())


@dataclass(frozen=True)
class KaryResponse(_IndexMechanism):
    """k-ary randomised response, Warner's for K options: ε between any two options [MATH §15].

    One of T + (K − 1)·M integers is drawn: T of them give the true option, and M each other option.

    Example:
        >>> response = KaryResponse(4, 1.0)
        >>> round(float(response.variance([1, 0, 0, 0])[1]), 4), str(response.privacy)
        (1.5981, 'ε = 1 between any two values')
    """

    def _draw(self, source: RandomSource) -> tuple[int, ...]:
        return (source.below(self.weight + (self.options - 1) * ONE) - self.weight,)

    def _report(self, value: int, drawn: tuple[int, ...]) -> tuple[int, ...]:
        if drawn[0] < 0:
            return (value,)
        other = drawn[0] // ONE
        return (other + (other >= value),)

    def _simulate(self, values: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        lies = rng.random(len(values)) * (self.weight / ONE + self.options - 1) >= self.weight / ONE
        away = rng.integers(1, self.options, len(values)) * lies
        return np.asarray((values + away) % self.options)[:, None]

    def _table(self, scores: Array) -> Array:
        # p − q is (T − M)/(T + (K − 1)M), and h is (s − q·Σs)/(p − q).
        rest = self.options * scores - scores.sum()
        return np.asarray(scores + rest * (ONE / self._more))

    def _central(self, scores: Array, power: int) -> Array:
        table, mean = self._table(scores), scores.mean()
        lies, own = table - mean, scores - mean  # the mean of both is 0
        alike = (lies**power).sum() + self.options * (-own) ** power
        if power == 3:
            alike = alike - 3 * own * np.square(lies).sum()
        total = self.weight + (self.options - 1) * ONE
        return np.asarray((alike * ONE + self._more * (table - scores) ** power) / total)


@dataclass(frozen=True)
class OrdinalResponse(_IndexMechanism):
    """The index plus two-sided geometric noise, clamped to the scale: ε per step.

    With a = M/T the noise N has P(N = ±n) = aⁿ(1 − a)/(1 + a), exactly [MATH §15]. For small ε the
    variance grows as 1/ε², and as 1/ε³ for scores that are not linear in the index.

    Example:
        >>> response = OrdinalResponse(5, 1.0)
        >>> response.variance([0, 1, 2, 3, 4]).round(3).tolist()
        [1.156, 1.56, 1.659, 1.56, 1.156]
        >>> str(response.privacy), response.largest_epsilon
        ('ε = 1 per 1 step', 4.0)
    """

    most_options: ClassVar[int] = 100

    @property
    def privacy(self) -> GeoPrivacy:
        return GeoPrivacy(self.epsilon, 1.0, "step")

    @property
    def largest_epsilon(self) -> float:
        return (self.options - 1) * self.epsilon

    def _draw(self, source: RandomSource) -> tuple[int, ...]:
        # As many draws for small noise as for large, so that their time does not tell it; steps
        # beyond K − 1 end at the same option, from every value.
        side = source.below(self.weight + ONE)
        further = _events(source, self.options - 2, ONE, self.weight)
        if ONE <= side < self.weight:
            return (0,)
        steps = 1 + [*further, False].index(False)
        return (steps if side < ONE else -steps,)

    def _report(self, value: int, drawn: tuple[int, ...]) -> tuple[int, ...]:
        return (min(max(value + drawn[0], 0), self.options - 1),)

    def _simulate(self, values: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        stops = self._more / self.weight
        noise = rng.geometric(stops, len(values)) - rng.geometric(stops, len(values))
        return np.clip(values + noise, 0, self.options - 1)[:, None]

    def _table(self, scores: Array) -> Array:
        # The inverse of the geometric channel has three diagonals.
        odds = ONE / self._more
        weights = np.full(self.options, odds * (1 + odds))
        weights[[0, -1]] = odds
        return np.asarray(scores - weights * np.diff(np.diff(scores), prepend=0, append=0))

    def _central(self, scores: Array, power: int) -> Array:
        table, index = self._table(scores), np.arange(self.options)
        law = (ONE / self.weight) ** np.abs(index[:, None] - index)
        law[:, 1:-1] *= self._more / self.weight
        law /= 1 + ONE / self.weight
        return np.asarray((law * (table - scores[:, None]) ** power).sum(axis=1))


class _MaskMechanism(CategoryMechanism):
    """A mechanism whose report has one bit for each option, 62 in a column, the first the least.

    h adds s·(slope·bit − offset) over the options.
    """

    _factor: ClassVar[int]
    """The slope in units of (T + M)/(T − M), and the offset in units of M/(T − M)."""

    @property
    def columns(self) -> int:
        return -(-self.options // BITS_A_COLUMN)

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return tuple((0, (1 << bits) - 1) for bits in self._bits)

    @property
    def _bits(self) -> tuple[int, ...]:
        """Number of bits of each column."""
        last = self.options - (self.columns - 1) * BITS_A_COLUMN
        return (BITS_A_COLUMN,) * (self.columns - 1) + (last,)

    def _draw(self, source: RandomSource) -> tuple[int, ...]:
        """Return masks whose bits are each on with probability M/(T + M) = 1/(T/M + 1)."""
        return tuple(
            sum(event << bit for bit, event in enumerate(_events(source, bits, ONE, self._total)))
            for bits in self._bits
        )

    @property
    def _total(self) -> int:
        return self.weight + ONE

    def _simulate(self, values: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        rows = max(1, _BLOCK // self.options)
        blocks = [values[i : i + rows] for i in range(0, len(values), rows)]
        return np.concatenate([self._block(block, rng) for block in blocks])

    @abstractmethod
    def _block(self, values: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return reports for a block of values."""

    def _drawn(self, people: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Return bits (people, K) that are on with probability M/(T + M), for experiments."""
        digits, rest = divmod(256 * ONE, self._total)
        words = rng.integers(0, 256, (people, self.options), np.uint8)
        bits = words < digits
        open_ = words == digits
        bits[open_] = rng.random(int(open_.sum())) < rest / self._total
        return np.asarray(bits)

    def _packed(self, bits: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return bits (n, K) as columns."""
        padded = np.zeros((len(bits), self.columns, 64), np.bool_)
        for column, many in enumerate(self._bits):
            start = column * BITS_A_COLUMN
            padded[:, column, :many] = bits[:, start : start + many]
        packed = np.packbits(padded, axis=-1, bitorder="little").view("<i8")
        return packed[..., 0].astype(np.int64)

    def _per_bit(self) -> tuple[float, float]:
        """Return slope and offset."""
        scale = self._factor / self._more
        return self._total * scale, ONE * scale

    def estimator(self, scores: ArrayLike) -> Estimator:
        scores = self._scores(scores)
        slope, offset = self._per_bit()
        padded = np.zeros((self.columns, 64))
        padded[:, :BITS_A_COLUMN].flat[: self.options] = slope * scores
        bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
        # The sum over eight options is looked up, by a byte of the report.
        tables = [(i, bits @ eight) for i, eight in enumerate(padded.reshape(-1, 8)) if eight.any()]
        least = -offset * float(scores.sum())

        def value(reports: NDArray[np.int64]) -> Array:
            read = np.ascontiguousarray(reports, "<i8").view(np.uint8)
            total = np.full(len(reports), least)
            for i, table in tables:
                total += table[read[:, i]]
            return total

        return value

    def limits(self, scores: ArrayLike) -> tuple[float, float]:
        scores = self._scores(scores)
        slope, offset = self._per_bit()
        ends = np.stack([-offset * scores, (slope - offset) * scores])
        return float(ends.min(axis=0).sum()), float(ends.max(axis=0).sum())

    def _central(self, scores: Array, power: int) -> Array:
        if power == 3:
            lie = ONE / self._total
            cubes = lie * (1 - lie) * (1 - 2 * lie) * (self._per_bit()[0] * scores) ** 3
            # The bit of the true option is even, or inverted.
            return np.asarray(cubes.sum() - 2 // self._factor * cubes)
        squares = np.square(scores)
        lies = self.weight * ONE * (self._factor / self._more) ** 2
        return np.asarray(lies * squares.sum() + (self._factor - 1) * squares)


@dataclass(frozen=True)
class UnaryEncoding(_MaskMechanism):
    """Optimised unary encoding: ε between any two options, for more than 3e^ε + 2 of them.

    The bit of the true option is on with probability ½, each other one with M/(T + M) [MATH §15].

    Example:
        >>> encoding = UnaryEncoding(100, 1.0)
        >>> round(float(encoding.variance([1] + 99 * [0])[1]), 4), encoding.columns
        (3.6827, 2)
    """

    _factor: ClassVar[int] = 2

    def _draw(self, source: RandomSource) -> tuple[int, ...]:
        return (source.bits(1), *super()._draw(source))

    def _report(self, value: int, drawn: tuple[int, ...]) -> tuple[int, ...]:
        kept, *masks = drawn
        column, bit = divmod(value, BITS_A_COLUMN)
        masks[column] = masks[column] & ~(1 << bit) | kept << bit
        return tuple(masks)

    def _block(self, values: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        bits = self._drawn(len(values), rng)
        bits[np.arange(len(values)), values] = rng.random(len(values)) < 0.5
        return self._packed(bits)


@dataclass(frozen=True)
class SubsetResponse(_MaskMechanism):
    """A set of options, with a yes or no about each: ε for each option in which two sets differ.

    A value is a mask: bit j is on where option j is in the set. Each bit is inverted with
    probability M/(T + M) [MATH §15].

    Args:
        most: how many options a set may hold; None: all. A device refuses more, so two sets differ
            in at most 2·most options.

    Example:
        >>> response = SubsetResponse(6, 1.0, most=2)
        >>> str(response.privacy), response.largest_epsilon
        ('ε = 1 per 1 option', 4.0)
        >>> response.variance([1, 0, 0, 0, 0, 0]).round(4).tolist()[0]
        0.9207
    """

    most: int | None = None

    fewest_options: ClassVar[int] = 1
    _factor: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.most is not None:
            validation.require_count("most", self.most, 1, self.options)

    @property
    def privacy(self) -> GeoPrivacy:
        return GeoPrivacy(self.epsilon, 1.0, "option")

    @property
    def largest_epsilon(self) -> float:
        return min(2 * (self.most or self.options), self.options) * self.epsilon

    @property
    def _expected(self) -> str:
        return f"at most {self.most or self.options} of {self.options} options, as a mask of bits"

    def _takes(self, value: int) -> bool:
        return 0 <= value < 1 << self.options and value.bit_count() <= (self.most or self.options)

    def _report(self, value: int, drawn: tuple[int, ...]) -> tuple[int, ...]:
        full = (1 << BITS_A_COLUMN) - 1
        return tuple(flips ^ (value >> i * BITS_A_COLUMN & full) for i, flips in enumerate(drawn))

    def _block(self, values: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        masks = values.reshape(len(values), self.columns)
        return np.asarray(self._packed(self._drawn(len(values), rng)) ^ masks)


def category_mechanism(options: int, epsilon: float) -> KaryResponse | UnaryEncoding:
    """Return the mechanism with the smaller variance for the share of a rare option.

    Example:
        >>> [type(category_mechanism(k, 1.0)).__name__ for k in (10, 11)]
        ['KaryResponse', 'UnaryEncoding']
    """
    response = KaryResponse(options, epsilon)
    # 3e^ε + 2, in integers: devices of every language decide alike.
    return (
        response if (options - 2) * ONE <= 3 * response.weight else UnaryEncoding(options, epsilon)
    )


@lru_cache
def _weight(epsilon: float) -> int:
    with working_precision(_BITS):
        weight = lower(BALL.constant(epsilon).exp() * BALL.constant(ONE))
    return math.floor(weight)


def _events(source: RandomSource, many: int, part: int, total: int) -> list[bool]:
    """Return whether each of several independent events of probability part/total happens.

    Random binary digits are compared with those of the probability, 32 at a time until all events
    are decided: exact.
    """
    digits, rest = divmod(part << _WORD, total)
    drawn = source.bits(_WORD * many)
    words = [drawn >> _WORD * event & (1 << _WORD) - 1 for event in range(many)]
    return [
        word < digits or (word == digits and rest > 0 and _events(source, 1, rest, total)[0])
        for word in words
    ]
