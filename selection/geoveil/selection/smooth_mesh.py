"""Where the argmax integrand has features: panels that a quadrature rule begins with."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.noise.base import Array
from geoveil.selection.smooth_law import FARTHEST_GAP, LOG_LEAST, Law

_RIVALS = 16
"""How many of the best rivals bound the chance that a far outcome wins where its noise is small."""
_NEGLIGIBLE = 46.0
"""e^−46 is 1e-20."""
_NEAR = 0.25
_MOST_CENTRES = 256
_KNEES = 1 << 20
"""Knees times outcomes that get an edge; others are left to refinement."""
_RESIDUE = 1e-14
_FARTHEST = 1e280


@dataclass(frozen=True, slots=True)
class Positions:
    """Distinct utilities, seen from any of them.

    Attributes:
        utilities: decreasing, shape (K,).
        scale: of the noise.
        counts: how many outcomes share each, float64 of shape (K,).
    """

    utilities: Array
    scale: float
    counts: Array

    def behind(self, place: NDArray[np.intp] | int) -> Array:
        """Return how far all are behind one of them, in units of the noise, shape (n, K).

        Of utilities far from the largest a difference between two positions would keep nothing:
        here it is as accurate, relative to itself, as the utilities are.
        """
        chosen = np.atleast_1d(self.utilities[place])[:, None]
        with np.errstate(over="ignore"):
            apart = (chosen - self.utilities) / self.scale
        return np.clip(apart, -FARTHEST_GAP, FARTHEST_GAP)


class Panels(NamedTuple):
    """Intervals from centre + low to centre + high; offsets keep what a sum would round away."""

    centre: NDArray[np.intp]
    """Numbers of positions."""
    low: Array
    high: Array


def panels(law: Law, positions: Positions) -> Panels:
    """Return panels, in order, over the range that matters of the largest noisy utility.

    They are dense near each centre, where the noise of one outcome is about 0 and the outcome may
    still win, and twice as wide as before with every step away. One-sided noise has one centre: the
    largest noisy utility is not below the largest utility, and nothing happens at the others.

    Args:
        law: of the noise.
        positions: of the utilities.
    """
    counts, gaps = positions.counts, positions.behind(0)[0]
    centres = np.zeros(1, dtype=np.intp) if law.nonnegative else _centres(law, positions)
    top = _end(lambda v: float((counts * law.survival(v + gaps)).sum()) <= _RESIDUE)
    # Beyond the middle between two centres, the other one's panels are dense enough.
    between = [
        float(positions.behind(int(high))[0, low]) / 2 for low, high in pairwise(centres.tolist())
    ]
    left = [_below(law, positions, int(centres[0])), *between]
    right = [*between, top]
    knees = [knee - gaps[: _KNEES // len(gaps)] for knee in law.knees]
    parts = []
    for centre, before, after in zip(centres, left, right, strict=True):
        steps = 2.0 ** np.arange(-2, np.ceil(np.log2(max(before, after, 1))) + 1)
        edges = np.unique(np.concatenate([-steps, steps, *knees, [0.0, -before, after]]))
        edges = edges[(edges >= -before) & (edges <= after)]
        parts.append((np.full(len(edges) - 1, centre), edges[:-1], edges[1:]))
    return Panels(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _centres(law: Law, positions: Positions) -> NDArray[np.intp]:
    """Return the positions of those outcomes that may win where their own noise is about 0.

    Any other loses less than 1e-20 of its chance there. Where the top is far ahead, its factor is
    all that they have; so beyond the top the others lie within some 1,000 units of the 16 best, and
    those left out, if there are too many, are resolved to 1e-12 from the last of them.
    """
    rivals = np.arange(min(_RIVALS, len(positions.counts)))
    nearby = positions.counts[rivals] @ law.log_cdf(-positions.behind(rivals))
    gaps = positions.behind(0)[0]
    own = np.maximum(np.log(np.maximum(law.survival(gaps), 1e-300)), LOG_LEAST)
    kept = np.flatnonzero((nearby >= own - _NEGLIGIBLE) | (gaps == 0))
    # Centres closer than this to one that is kept already need no panels of their own.
    steps = -np.diff(positions.utilities[kept]) / positions.scale
    apart = (np.diff(np.floor(4 * gaps[kept])) > 0) | (steps >= _NEAR)
    centres: NDArray[np.intp] = kept[np.append(True, apart)][:_MOST_CENTRES]
    return centres[::-1]


def _below(law: Law, positions: Positions, centre: int) -> float:
    """Return how far below a centre the largest noisy utility has negligible probability to be."""
    if law.nonnegative:
        return 0.0
    farthest = positions.behind(0)[0, -1:]
    rarest = float(np.log(np.maximum(law.survival(1 + farthest), 1e-300))[0])
    limit = max(rarest, LOG_LEAST) - _NEGLIGIBLE
    behind = positions.behind(centre)[0]

    def is_negligible(v: float) -> bool:
        return float((positions.counts * law.log_cdf(behind - v)).sum()) <= limit

    return _end(is_negligible)


def _end(enough: Callable[[float], bool]) -> float:
    """Return the first power of two for which `enough` holds."""
    v = 2.0
    while v < _FARTHEST and not enough(v):
        v *= 2
    return v
