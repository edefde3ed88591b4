"""Test whether a user's mechanism draws reports from the density that it states.

Otherwise the exact auditor and the black box audit two different mechanisms.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.audit.case import Audited, Case
from geoveil.audit.counts import Counts, crowds, crowds_of_atoms
from geoveil.audit.dependence import (
    chance_of_even_counts,
    chance_of_order,
    likeliest_either_way,
    order_of,
)
from geoveil.audit.draw_points import points_afar, points_along, points_beside
from geoveil.audit.refinement import FAINT
from geoveil.audit.repeats import (
    OFF_GRID,
    atoms_of,
    logs_at,
    repeated,
    single_values,
    text_of,
)

Array = NDArray[np.float64]
Point = tuple[float, ...]

FAILURE_PROBABILITY = 1e-6
"""The probability of a false alarm for any mechanism of a table."""
_TAIL = np.array([5e-4, 2e-3, 8e-3])
_LEVELS = np.unique(np.concatenate([_TAIL, np.arange(5, 508) / 512, 1 - _TAIL]))
"""Shares of the reports below each edge of a bin."""
_PARTS, _FINER = 2, 4
"""The number of parts of a bin in its two quadratures: of equal length, and of equal shares."""
_UNSETTLED = 3e-4
"""Error of integrated shares above which they are not compared."""
_SMOOTH, _WHOLE, _RESOLVED = 1e-5, 1e-4, 4
"""Error of integrated shares, and of their sum, above which a density may have jumps, and how many
times finer their parts are then."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_BINS, _HALF = np.arange(len(_LEVELS) - 1), np.arange(len(_LEVELS) // 2)
_FIRST = np.concatenate([0 * _BINS, _BINS, _HALF])
_LAST = np.concatenate([_BINS + 1, _BINS + 1, len(_BINS) - _HALF])
"""The edges between which reports are counted: from the first to any other, where a shift shows, of
each bin, and about the middle, where the width of the noise shows."""
_BEYOND = 2.0 ** np.arange(-8, 17)
"""How far beyond the outermost edges a density is integrated, relative to their distance."""
_CALLS = 10
"""Calls that draw the counted reports, because a mechanism may remember earlier calls."""
_FEWER = 10
"""Factor by which fewer reports are drawn along the path than near the row's points."""
_TIES = 0.01
"""Share of repeated reports, without atoms, above which floats are too coarse for a density."""
_RECOGNIZED = 0.95
"""Probability of the recognized atoms of a law without other reports, from which it is compared."""


@dataclass(frozen=True, slots=True)
class DensityComparison:
    """The comparison of a row's reports with their stated density."""

    mechanism: str
    query: str
    points: int
    """Points at which reports were drawn."""
    skipped: int
    """Points at which reports were only compared with each other, not with the density."""
    difference: str
    """The disagreement in words; '' if they agree."""
    reasons: tuple[str, ...] = ()
    """Why points were skipped."""

    @property
    def agrees(self) -> bool:
        """Whether reports were compared with the density, and agree."""
        return not self.difference and self.skipped < self.points


def compare(cases: Sequence[Case], *, samples: int, seed: int) -> tuple[DensityComparison, ...]:
    """Compare the reports of rows with their densities, and with each other.

    Half of the reports (of one number) come from one generator and half from another, each with a
    mechanism in the same state: the first half choose intervals, the others are counted, in ten
    calls.
    Atoms are values that occur three times among the first, or three that occur twice, where
    rounding to floats makes so many improbable; the density has the other reports.
    Reports may not depend on those of the other generator, nor on others at any lag
    (`geoveil.audit.dependence`; Fisher's exact law of ranks). Points lie close to those of the row,
    at the ends of its path and, with a tenth of the reports, all along it and far beyond; one has
    calls of its own. The probability of a difference in a row that agrees is at most 10⁻⁶ in
    total. `samples` reports are drawn at each of a row's points.
    """
    rng = np.random.default_rng(seed)
    tests: list[tuple[Case, tuple[Any, Any], int, Array]] = []
    for case in cases:
        starts = np.array([start for start, _ in case.pairs])
        both = case.two_alike()
        tests.append((case, both, samples, points_beside(case, starts, rng)))
        tests.append((case, both, samples // _FEWER, points_along(case, rng, samples)))
        tests += [(case, both, samples // _FEWER, x[None]) for x in points_afar(case, 1)]
        tests.append((case, both, samples, case.path[:1]))  # alone in a call
    failure = FAILURE_PROBABILITY / max(sum(len(points) for *_, points in tests), 1)
    by_row: dict[tuple[str, str], DensityComparison] = {}
    for case, both, count, points in tests:
        row = case.name, case.query
        before = by_row.get(row, DensityComparison(*row, 0, 0, ""))
        if before.difference:
            continue
        skipped, difference = _compare(case, both, count, points, rng, failure)
        by_row[row] = replace(
            before,
            points=before.points + len(points),
            skipped=before.skipped + len(skipped),
            reasons=tuple(sorted({*before.reasons, *skipped})),
            difference=difference,
        )
    return tuple(by_row.values())


def _compare(
    case: Case,
    both: tuple[Any, Any],
    samples: int,
    points: Array,
    rng: np.random.Generator,
    failure: float,
) -> tuple[list[str], str]:
    """Return why points are skipped, of each, and the difference at the first that shows one."""
    from scipy.stats import binom

    each = samples // 2 // _CALLS
    first_rng, other = rng.spawn(2)
    firsts, seconds = (
        np.concatenate([_drawn(mechanism, points, each, series) for _ in range(_CALLS)], axis=1)
        for mechanism, series in zip(both, (first_rng, other), strict=True)
    )
    if firsts.ndim != 2:  # reports of several numbers
        return ["reports have several numbers"] * len(points), ""
    share = failure / 5
    together: tuple[list[tuple[Counts, Counts]], ...] = [], []  # of densities, and of atoms
    if repeats := repeated(case, points, firsts, seconds, share):
        return [], repeats
    ranks, tests = _as_drawn(firsts, rng), _as_drawn(seconds, rng)
    for follows, tested in likeliest_either_way(ranks, tests):
        if _dependent(*follows.sides(tested), share / 6, rng):
            return [], f"reports follow from others {abs(follows.place)} before or after"
    skipped: list[str] = []
    query: Any = getattr(case.mechanism, "query", None)
    answers = np.zeros(len(points)) if query is None else query.value(points)
    for point, answer, first, second in zip(points, answers, firsts, seconds, strict=True):
        if _dependent(first, second, share / 3, rng):
            return skipped, f"at {text_of(point)}, reports of two generators are alike"
        half = len(first) // 2 * 2
        if _dependent(first[:half:2], first[1::2], share / 3, rng):
            return skipped, f"at {text_of(point)}, reports follow from the one before"
        laws = list(_laws(case, point, answer, first, second))
        for law in laws:
            if isinstance(law, str):
                skipped.append(law)
                continue
            drawn_by = law.others.reshape(_CALLS, each)
            calls = np.array([np.histogram(part, law.edges)[0] for part in drawn_by])
            counted = np.concatenate([calls, calls.sum(axis=0)[None]])
            n = np.append(np.full(_CALLS, each), each * _CALLS)[:, None]
            stated, again, part = law.stated, law.again, share / (2 * len(laws))
            even = chance_of_even_counts(calls, each * stated)
            if min(even, chance_of_even_counts(counted[-1:], n[-1] * stated)) < part:
                return (
                    skipped,
                    f"at {text_of(point)}, reports are more even than independent noise is",
                )
            counted, stated, again = map(_between, (counted, stated, again))
            whole = Counts.of(law.others.size, counted[-1], stated, again, law.missed)
            missed = min(law.missed, _UNSETTLED)  # the rest is farther out, or of rare atoms
            least, most = Counts.of(1, stated, stated, again, missed).shares()
            chances = 2 * np.minimum(binom.cdf(counted, n, least), binom.sf(counted - 1, n, most))
            call, worst = np.unravel_index(int(np.argmin(chances)), chances.shape)
            if chances[call, worst] < part / chances.size:
                ends = float(law.edges[_FIRST[worst]]), float(law.edges[_LAST[worst]])
                drawn = counted[call, worst] / n[call, 0]
                return skipped, _unlike(point, *ends, drawn, stated[worst])
            together[law.of_atoms].append((whole, law.narrow))
            if law.narrow.chances().min() * len(law.narrow.drawn) < part:
                return skipped, f"at {text_of(point)}, reports crowd where their density does not"
    failure = share * len(points) / 4
    return skipped, _unlike_together(together[0], failure) or _unlike_together(together[1], failure)


@dataclass(frozen=True, slots=True)
class _Law:
    """The density of a law, or its atoms: their shares of parts, and who reports them."""

    of_atoms: bool
    edges: Array
    stated: Array
    again: Array
    missed: float
    others: Array
    """The counted reports, ∞ for those that the other law has."""
    narrow: Counts


def _laws(
    case: Case, point: Array, answer: float, first: Array, second: Array
) -> Iterator[_Law | str]:
    """Yield the laws of the atoms and of other reports at a point, or why there is none."""
    atoms = atoms_of(case, point, first)
    rest = first[~np.isin(first, atoms)]
    values = np.unique(rest)
    between = values[:-1] + OFF_GRID * np.diff(values)
    masses = np.exp(logs_at(case, atoms, point))
    # A float between values of a grid may be one of its values by chance.
    only_atoms = not len(between) or bool(
        (logs_at(case, between, point) < FAINT).mean() > 1 - _TIES
    )
    if only_atoms and masses.sum() < _RECOGNIZED:
        yield "single values are too rare there"
        return
    if len(atoms):
        below = np.cumsum(masses)
        parted = np.searchsorted(below, _LEVELS * below[-1])
        parts = np.diff(np.insert(below, 0, 0.0)[parted])
        others = np.where(np.isin(second, atoms), second, np.inf)
        narrow = crowds_of_atoms(atoms, below, others, answer)
        edges = atoms[parted]  # each part ends before its edge, also the last
        others = np.where(others < edges[-1], others, np.inf)
        yield _Law(True, edges, parts, parts, 0.0, others, narrow)
    if only_atoms:
        return
    rare = np.union1d(single_values(case, np.union1d(first, second), point), atoms)
    rest, others = rest[~np.isin(rest, rare)], np.where(np.isin(second, rare), np.inf, second)
    if len(np.unique(rest)) < max((1 - _TIES) * len(rest), 2):
        yield "floats are too coarse there"
        return
    edges, shares = np.quantile(rest, _LEVELS), partial(_shares, case, at=point[None])
    settled = _settled(rest, edges, shares, float(masses.sum()))
    if settled is None:
        yield "the density can't be integrated"
        return
    narrow = crowds(rest, others, answer, shares, settled[2])
    yield _Law(False, edges, *settled, others, narrow)


def _unlike_together(together: list[tuple[Counts, Counts]], failure: float) -> str:
    """Return which counts differ from those stated at all points together; '' if none do."""
    if not together:
        return ""
    whole, narrow = (reduce(add, counts) for counts in zip(*together, strict=True))
    if narrow.chances().min() * len(narrow.drawn) < failure:
        return f"at {len(together)} points together, reports crowd where their density does not"
    chances = whole.chances()
    worst = int(np.argmin(chances))
    if chances[worst] * len(chances) >= failure:
        return ""
    low, high = _LEVELS[[_FIRST[worst], _LAST[worst]]]
    drawn, stated = (counts[worst] / whole.reports for counts in (whole.drawn, whole.least))
    return (
        f"at {len(together)} points together, {drawn:.3%} of reports are from the {low:.2%}"
        f" to the {high:.2%} quantile, where {stated:.3%} should be"
    )


def _drawn(mechanism: Audited, points: Array, count: int, rng: np.random.Generator) -> Array:
    """Return `count` reports for each point, (points, count, ...)."""
    reports = np.asarray(mechanism.simulate(np.repeat(points, count, axis=0), rng))
    return reports.reshape(len(points), count, *reports.shape[1:])


def _dependent(one: Array, other: Array, failure: float, rng: np.random.Generator) -> bool:
    return chance_of_order(one, other, rng)[0] < failure


def _between(shares: Array) -> Array:
    """Return the sums of bins (..., bins) between the first and last edges that are compared."""
    below = np.insert(np.cumsum(shares, axis=-1), 0, 0, axis=-1)
    return np.asarray(below[..., _LAST] - below[..., _FIRST])


def _as_drawn(reports: Array, rng: np.random.Generator) -> Array:
    """Return ranks in (0, 1) among reports of the same point, call by call: (n, 1).

    Of reports (points, calls·n); ties are in any order.
    """
    ranks = np.empty(reports.shape)
    np.put_along_axis(ranks, order_of(reports, rng), np.arange(reports.shape[1]) + 0.5, axis=1)
    by_call = ranks.reshape(len(reports), _CALLS, -1).swapaxes(0, 1)
    return np.asarray(by_call.reshape(-1, 1) / reports.shape[1])


def _unlike(point: Array, low: float, high: float, drawn: float, stated: float) -> str:
    return (
        f"at {text_of(point)}, {drawn:.2%} of reports are from {low:.6g} to {high:.6g}, where"
        f" {stated:.2%} should be"
    )


def _settled(
    rest: Array, edges: Array, shares: Callable[[Array], Array], elsewhere: float
) -> tuple[Array, Array, float] | None:
    """Return two quadratures of the shares of bins, the better first, and what it misses of 1.

    One takes parts of equal length, the other parts of equal shares, which resolve a peak. Returns
    None if they differ, unless one adds up to 1 with the tails and the atoms `elsewhere`, and does
    not change with finer parts.
    """
    ordered = np.sort(rest)

    def quadrature(of_shares: int, finer: int) -> Array:
        if not of_shares:
            return shares(np.linspace(edges[:-1], edges[1:], _PARTS * finer + 1, axis=-1))
        levels = np.linspace(_LEVELS[:-1], _LEVELS[1:], _FINER * finer + 1, axis=-1)
        return shares(np.interp(levels * (len(rest) - 1), np.arange(len(rest)), ordered))

    away = np.append(0.0, _BEYOND) * (edges[-1] - edges[0])
    low, high = edges[0] - away[::-1], edges[-1] + away
    starts = np.concatenate([low[:-1], high[:-1]])
    ends = np.concatenate([low[1:], high[1:]])
    coarse, tails = (float(shares(np.linspace(starts, ends, n, axis=-1)).sum()) for n in (2, 4))
    for finer in 1, _RESOLVED:
        both = [quadrature(of_shares, finer) for of_shares in (0, 1)]
        # Errors of the tails and of the rest may cancel in the sum.
        inside = [float(part.sum()) for part in both]
        missed = [abs(1 - elsewhere - tails - share) + abs(tails - coarse) for share in inside]
        if _apart(*both) < _SMOOTH and min(missed) < _WHOLE:
            break
    better = int(missed[1] < missed[0])
    if _apart(*both) > _UNSETTLED:
        if missed[better] > _UNSETTLED:
            return None
        finest = quadrature(better, 2 * _RESOLVED)
        if _apart(both[better], finest) > _UNSETTLED:  # it adds up to 1 by chance
            return None
    return both[better], both[1 - better], missed[better]


def _apart(one: Array, other: Array) -> float:
    return float(np.abs(np.cumsum(one - other)).max())


def _shares(case: Case, steps: Array, at: Array) -> Array:
    """Return the integral of the density over each bin, by Gauss-Legendre in its parts.

    `steps` are the ends of the parts, (bins, parts + 1).
    """
    middle, half = (steps[:, 1:] + steps[:, :-1]) / 2, np.diff(steps, axis=-1) / 2
    y = middle[..., None] + half[..., None] * _NODES
    density = np.exp(case.mechanism.log_density(y.reshape(-1, 1), at)).reshape(y.shape)
    return np.asarray(((density @ _WEIGHTS) * half).sum(axis=-1))
