"""Whether reports are drawn from the density that a mechanism states, as one of one's own may not.

The exact auditor believes densities, the black box believes draws: where the two are of different
mechanisms, what both say together is of neither.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geoveil.audit.case import Case

Array = NDArray[np.float64]
Point = tuple[float, ...]

FAILURE_PROBABILITY = 1e-6
"""The probability that any mechanism of a table is said to disagree which does not."""
_BINS = 32
_PARTS = 8
"""Parts of a bin, in each of which the density is integrated."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
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

    Reports of one number are looked at, with a density: half of them choose intervals, the others
    are counted. That a row which agrees is returned has a probability of at most 10⁻⁶ in all.

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

    for point, _ in case.pairs:
        at = np.asarray(point)[None]
        reports = case.mechanism.simulate(np.repeat(at, samples, axis=0), rng)
        if reports.size != samples:  # of several numbers
            return None
        reports = reports.ravel()
        if len(np.unique(reports)) < (1 - _TIES) * samples:
            return None
        edges = np.quantile(reports[::2], np.linspace(0, 1, _BINS + 1)[1:-1])
        counted = np.histogram(reports[1::2], edges)[0]
        stated = _shares(case, edges, at)
        n = len(reports[1::2])
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
            return Disagreement(
                case.name,
                case.query,
                tuple(np.ravel(point).tolist()),
                *map(float, (*ends, drawn, stated[worst])),
            )
    return None


def _shares(case: Case, edges: Array, at: Array) -> Array:
    """Return the integral of the density between each two edges, by Gauss-Legendre."""
    steps = np.linspace(edges[:-1], edges[1:], _PARTS + 1, axis=-1)  # (bins, parts + 1)
    middle, half = (steps[:, 1:] + steps[:, :-1]) / 2, np.diff(steps, axis=-1) / 2
    y = middle[..., None] + half[..., None] * _NODES
    density = np.exp(case.mechanism.log_density(y.reshape(-1, 1), at)).reshape(y.shape)
    return np.asarray(((density @ _WEIGHTS) * half).sum(axis=-1))
