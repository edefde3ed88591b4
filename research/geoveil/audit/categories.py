"""Rows for categories, with the law of a release by enumeration of its draws.

A row follows a chain of values, a step apart: all options, or sets that grow by one option. Its
coordinate counts them, with log-probabilities interpolated, and constant beyond the ends.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.audit.case import Case
from geoveil.gp import (
    CategoryMechanism,
    GeoPrivacy,
    KaryResponse,
    LocalPrivacy,
    OrdinalResponse,
    RandomSource,
    SubsetResponse,
    UnaryEncoding,
)

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
_LIE, _WORD = 1 << 32, 32


class _OpenError(Exception):
    """A draw beyond the script, with its ranges as first, last and probability."""


class _Script(RandomSource):
    """Returns the integers of a script, then raises the ranges of the next draw.

    All integers of a stretch lead to the same report. Stretches end at multiples of the weight of a
    lie, from 0 or from that of the truth, and words at the digits of an event's probability.
    """

    def __init__(self, script: Sequence[int], weight: int) -> None:
        self._rest, self._weight = list(script), weight

    def _next(self, ends: set[int], bound: int) -> list[tuple[int, int, float]]:
        pairs = itertools.pairwise(sorted(ends | {0, bound}))
        return [(start, end - 1, (end - start) / bound) for start, end in pairs]

    def below(self, bound: int) -> int:
        if self._rest:
            return self._rest.pop(0)
        ends = {*range(_LIE, bound, _LIE), *range(self._weight, bound, _LIE)}
        raise _OpenError(self._next(ends, bound))

    def bits(self, count: int) -> int:
        if self._rest:
            return self._rest.pop(0)
        if count % _WORD:
            raise _OpenError(self._next(set(range(1 << count)), 1 << count))
        digits = [(_LIE << _WORD) // total for total in (self._weight, self._weight + _LIE)]
        ends = {*digits, *(digit + 1 for digit in digits)}
        # A word has one integer that leaves the event undecided, of probability 2^-32: ignore it.
        words = [word for word in self._next(ends, _LIE) if word[0] < word[1]]
        raise _OpenError(
            [
                (
                    sum(word[0] << _WORD * i for i, word in enumerate(chosen)),
                    sum(word[1] << _WORD * i for i, word in enumerate(chosen)),
                    math.prod(word[2] for word in chosen),
                )
                for chosen in itertools.product(words, repeat=count // _WORD)
            ]
        )


def enumerated(
    mechanism: CategoryMechanism, value: int, script: tuple[int, ...] = (), share: float = 1.0
) -> Iterator[tuple[int, float]]:
    """Yield the possible reports with probabilities that add up to 1 within 2^-29.

    Both ends of each stretch of integers are released, and each has half of its probability.
    """
    try:
        yield mechanism.release(value, _Script(script, mechanism.weight))[0], share
    except _OpenError as drawn:
        for first, last, part in drawn.args[0]:
            for integer in (first, last):
                yield from enumerated(mechanism, value, (*script, integer), share * part / 2)


class Chain:
    """A mechanism of one column at numbered values, each a step apart.

    A `faulty` one simulates by the law of its releases, which differs from its class's law.
    """

    step = 1.0

    def __init__(
        self, mechanism: CategoryMechanism, values: Sequence[int], *, faulty: bool = False
    ) -> None:
        self.mechanism, self.values, self.faulty = mechanism, np.array(values), faulty
        self.outputs = np.arange(mechanism.ranges[0][1] + 1)
        self.law = np.zeros((len(values), len(self.outputs)))
        for i, value in enumerate(values):
            for report, share in enumerated(mechanism, value):
                self.law[i, report] += share

    @property
    def privacy(self) -> GeoPrivacy | LocalPrivacy:
        """The promise."""
        return self.mechanism.privacy

    def _at(self, x: ArrayLike) -> Integers:
        """Return the number of the nearest value."""
        return np.asarray(np.rint(np.clip(x, 0, len(self.values) - 1)), np.int64)

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one report per number."""
        at = self._at(x)
        if self.faulty:
            u = rng.random((len(at), 1))
            return np.asarray((self.law.cumsum(axis=1)[at, :-1] < u).sum(axis=1, dtype=np.float64))
        return self.mechanism.simulate(self.values[at], rng)[:, 0].astype(np.float64)

    def release_many(self, x: ArrayLike, source: RandomSource) -> Integers:
        """Return one release per number."""
        return np.array(
            [self.mechanism.release(v, source)[0] for v in self.values[self._at(x)].tolist()]
        )

    def mean(self, x: ArrayLike) -> Array:
        """Return the mean report for each number."""
        return np.asarray(self.law[self._at(x)] @ self.outputs)

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-probability of reports given the number of a value."""
        x = np.clip(x, 0, len(self.values) - 1)
        before = np.minimum(x.astype(np.int64), len(self.values) - 2)
        report, share = np.rint(y).astype(np.int64), x - before
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(self.law)
            low, high = logs[before, report], logs[before + 1, report]
            mixed = low + share * (high - low)
        return np.select(
            [share == 0, share == 1, np.isneginf(low + high)], [low, high, -math.inf], mixed
        )

    def placed(self, x: Array, reports: Integers) -> tuple[Array, Array, Array, Array]:
        """Return the probabilities of less, of more, of the report, and of all as improbable."""
        law = self.law[self._at(x)]
        inside = np.isin(reports, self.outputs)
        at = np.where(inside, reports, 0)
        once = np.where(inside, law[at], 0.0)
        below = np.where(inside, (law.cumsum() - law)[at], 0.0)
        rare = (law * (law <= once[:, None])).sum(axis=1)
        return below[:, None], (1 - below - once)[:, None], once, rare


class _TruthfulBit(UnaryEncoding):
    """The true option's bit is on with probability ¾."""

    def _draw(self, source: RandomSource) -> tuple[int, ...]:
        kept, *masks = super()._draw(source)
        return (kept | source.bits(1), *masks)


class _OpenEnd(OrdinalResponse):
    """The first option is sent unperturbed."""

    def _report(self, value: int, drawn: tuple[int, ...]) -> tuple[int, ...]:
        return super()._report(value, drawn) if value else (0,)


class _OnlyTicked(SubsetResponse):
    """Only bits of options in the set are inverted."""

    def _report(self, value: int, drawn: tuple[int, ...]) -> tuple[int, ...]:
        return (value & ~drawn[0],)


class _NeverLast(KaryResponse):
    """A lie may be the truth, but is never the last option."""

    def _report(self, value: int, drawn: tuple[int, ...]) -> tuple[int, ...]:
        return (value if drawn[0] < 0 else drawn[0] // _LIE,)


def _row(mechanism: CategoryMechanism, name: str, variant: str = "") -> Case:
    subset, many = isinstance(mechanism, SubsetResponse), mechanism.options
    values = [(1 << i) - 1 for i in range(many + 1)] if subset else range(many)
    chain = Chain(mechanism, values, faulty=bool(variant))
    ends = ((0, 1), (1, 3), (0, len(values) - 1))
    return Case(
        name=name,
        variant=variant,
        query=f"sets of {many} options" if subset else f"{many} options",
        mechanism=chain,
        path=np.arange(float(len(values))),
        outputs=chain.outputs.astype(np.float64),
        pairs=tuple((np.array(float(a)), np.array(float(b))) for a, b in ends),
    )


def categories(name: str) -> Iterator[Case]:
    """Yield the row of the mechanism of a name."""
    yield _row(CATEGORIES[name](4, 1.0), name)


CATEGORIES: dict[str, type[CategoryMechanism]] = {
    kind.__name__: kind for kind in (KaryResponse, UnaryEncoding, OrdinalResponse, SubsetResponse)
}


def category_faults() -> Iterator[Case]:
    """Yield faulty mechanisms."""
    yield _row(_NeverLast(4, 1.0), "KaryResponse", "never the last option")
    yield _row(_TruthfulBit(4, 1.0), "UnaryEncoding", "the true bit at ¾")
    yield _row(_OpenEnd(4, 1.0), "OrdinalResponse", "an end as it is")
    yield _row(_OnlyTicked(4, 1.0), "SubsetResponse", "only ticks inverted")
