"""Whether reports are drawn from the density that a mechanism states, as one of one's own may not.

The exact auditor believes densities, the black box believes draws: where the two are of different
mechanisms, what both say together is of neither.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geoveil.audit.case import Case
from geoveil.audit.draws import at_least

Array = NDArray[np.float64]
Point = tuple[float, ...]

FAILURE_PROBABILITY = 1e-6
"""The probability that any mechanism of a table is said to disagree which does not."""
_BINS = 32
_PARTS = 8
"""Parts of a bin, in each of which the density is integrated."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_ASIDE = 0.02
"""Points lie so many `per` at most beside those of a row."""
_OFTEN = 3
"""A number of a density comes less often, whatever is drawn."""
_TIES = 0.01
"""With more reports equal to another one, a mechanism has no density to compare."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Where a mechanism draws reports more or less often than its density says."""

    mechanism: str
    query: str
    point: Point
    """The participant's."""
    low: float
    """Lower end of the reports that were counted."""
    high: float
    """Their upper end."""
    drawn: float
    """Their share, as drawn."""
    stated: float
    """Their share, as the density says."""


def disagreements(cases: Sequence[Case], *, samples: int, seed: int) -> tuple[Disagreement, ...]:
    """Return the rows whose reports are not drawn from their density, each with where it shows.

    Reports of one number are looked at, half of them from one generator and half from another: the
    first choose intervals, the others are counted. What comes three times among the first has a
    probability of its own, which `log_density` then is the logarithm of: the others are counted
    there, too, as is what both draw alike. Points lie a little beside those of the row. That a row
    which agrees is returned has a probability of at most 10⁻⁶ in all.

    Args:
        cases: the rows.
        samples: reports drawn at each of a row's points.
        seed: ≥ 0.
    """
    rng = np.random.default_rng(seed)
    points = sum(len(case.pairs) for case in cases)
    found = (_disagreement(case, samples, rng, FAILURE_PROBABILITY / points) for case in cases)
    return tuple(one for one in found if one is not None)


def _disagreement(
    case: Case, samples: int, rng: np.random.Generator, failure: float
) -> Disagreement | None:
    """Return where the first point shows it, of those at which a row's pairs begin."""
    from scipy.stats import binomtest

    per = getattr(case.mechanism.privacy, "per", 1.0)
    starts = [p + rng.uniform(-_ASIDE, _ASIDE) * per for p, _ in case.pairs]
    generators = rng.spawn(2)
    firsts, seconds = (_drawn(case, starts, samples // 2, one) for one in generators)
    if firsts.ndim != 2:  # reports of several numbers
        return None
    if found := _repeated(case, starts, firsts, seconds, failure):
        return found
    for point, first, second in zip(starts, firsts, seconds, strict=True):
        at = np.asarray(point)[None]
        if len(np.unique(first)) < (1 - _TIES) * len(first):
            return None
        edges = np.quantile(first, np.linspace(0, 1, _BINS + 1)[1:-1])
        counted = np.histogram(second, edges)[0]
        stated = _shares(case, edges, at)
        n = len(second)
        # What is beyond the first and the last edge is one more event.
        counted = np.append(counted, n - counted.sum())
        stated = np.append(stated, 1 - stated.sum())
        chances = [
            float(binomtest(int(k), n, float(np.clip(p, 0.0, 1.0))).pvalue)
            for k, p in zip(counted, stated, strict=True)
        ]
        worst = int(np.argmin(chances))
        if chances[worst] < failure / len(chances):
            inside = worst < len(edges) - 1
            ends = (edges[worst], edges[worst + 1]) if inside else (edges[0], edges[-1])
            drawn = counted[worst] / n
            if not inside:
                drawn, stated[worst] = 1 - drawn, 1 - stated[worst]
            return _told(case, point, ends, drawn, stated[worst])
    return None


def _drawn(case: Case, points: list[Array], count: int, rng: np.random.Generator) -> Array:
    """Return so many reports for each point, (points, count, ...)."""
    at = np.repeat(np.array(points), count, axis=0)
    reports = np.asarray(case.mechanism.simulate(at, rng))
    return reports.reshape(len(points), count, *reports.shape[1:])


def _repeated(
    case: Case, points: list[Array], first: Array, second: Array, failure: float
) -> Disagreement | None:
    """Return where numbers that come again and again have another share than is stated."""
    from scipy.stats import binom

    n = second.shape[1]
    for drawn in first:
        values, counts = np.unique(drawn, return_counts=True)
        atoms = values[counts >= _OFTEN]
        if not len(atoms):
            continue
        for point, others in zip(points, second, strict=True):
            logs = case.mechanism.log_density(atoms[:, None], np.asarray(point)[None])
            masses = np.exp(logs[:, 0])
            at = np.minimum(np.searchsorted(atoms, others), len(atoms) - 1)
            hits = np.bincount(at[atoms[at] == others], minlength=len(atoms))
            # Each of them by itself, and all together.
            k, stated = np.append(hits, hits.sum()), np.append(masses, masses.sum())
            p = np.minimum(stated, 1.0)
            chance = 2 * np.minimum(binom.cdf(k, n, p), binom.sf(k - 1, n, p))
            worst = int(np.argmin(chance))
            if stated[-1] > 1 + 1e-6:
                worst = len(atoms)
            elif chance[worst] >= failure / (4 * len(points) ** 2 * len(k)):
                continue
            ends = (atoms[0], atoms[-1]) if worst == len(atoms) else (atoms[worst], atoms[worst])
            return _told(case, point, ends, k[worst] / n, float(stated[worst]))
    for point, drawn, others in zip(points, first, second, strict=True):
        values, back, counts = np.unique(drawn, return_inverse=True, return_counts=True)
        logs = case.mechanism.log_density(drawn[:, None], np.asarray(point)[None])[:, 0]
        mass = np.where(counts[back] >= _OFTEN, np.minimum(np.exp(logs), 1.0), 0.0)
        alike = float((drawn == others).mean())
        if at_least(round(alike * n), mass) < failure / (4 * len(points)):
            return _told(case, point, (values[0], values[-1]), alike, float(mass.mean()))
    return None


def _told(
    case: Case, point: Array, ends: tuple[float, float], drawn: float, stated: float
) -> Disagreement:
    at = tuple(np.ravel(point).tolist())
    return Disagreement(case.name, case.query, at, *map(float, (*ends, drawn, stated)))


def _shares(case: Case, edges: Array, at: Array) -> Array:
    """Return the integral of the density between each two edges, by Gauss-Legendre."""
    steps = np.linspace(edges[:-1], edges[1:], _PARTS + 1, axis=-1)  # (bins, parts + 1)
    middle, half = (steps[:, 1:] + steps[:, :-1]) / 2, np.diff(steps, axis=-1) / 2
    y = middle[..., None] + half[..., None] * _NODES
    density = np.exp(case.mechanism.log_density(y.reshape(-1, 1), at)).reshape(y.shape)
    return np.asarray(((density @ _WEIGHTS) * half).sum(axis=-1))
