"""Where the argmax integrand has features: panels that a quadrature rule begins with."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from geoveil.gp.noise.base import Array
from geoveil.gp.selection.smooth_law import LOG_LEAST, Law

_RIVALS = 16
"""How many of the best rivals bound the chance that a far outcome wins where its noise is small."""
_NEGLIGIBLE = 46.0
"""e^−46 is 1e-20."""
_MOST_CENTRES = 256
_KNEES = 1 << 20
"""Knees times outcomes that get an edge; others are left to refinement."""
_RESIDUE = 1e-14
_FARTHEST = 1e280


class Panels(NamedTuple):
    """Intervals from centre + low to centre + high; offsets keep what a sum would round away."""

    centre: Array
    low: Array
    high: Array


def panels(law: Law, positions: Array, counts: Array) -> Panels:
    """Return panels, in order, over the range that matters of the largest noisy utility.

    They are dense near each centre, where the noise of one outcome is about 0 and the outcome may
    still win, and twice as wide as before with every step away. One-sided noise has one centre: the
    largest noisy utility is not below the largest utility, and nothing happens at the others.

    Args:
        law: of the noise.
        positions: the distinct utilities in units of the noise, decreasing from 0.
        counts: how many outcomes share each.
    """
    centres = np.zeros(1) if law.nonnegative else _centres(law, positions, counts)
    top = _end(lambda v: float((counts * law.survival(v - positions)).sum()) <= _RESIDUE)
    # Beyond the middle between two centres, the other one's panels are dense enough.
    between = np.diff(centres) / 2
    left = [_below(law, positions, counts, float(centres[0])), *between]
    right = [*between, top]
    knees = [positions[: _KNEES // len(positions)] + knee for knee in law.knees]
    parts = []
    for centre, before, after in zip(centres, left, right, strict=True):
        steps = 2.0 ** np.arange(-2, np.ceil(np.log2(max(before, after, 1))) + 1)
        edges = np.unique(np.concatenate([-steps, steps, *knees, [0.0, -before, after]]))
        edges = edges[(edges >= -before) & (edges <= after)]
        parts.append((np.full(len(edges) - 1, centre), edges[:-1], edges[1:]))
    return Panels(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _centres(law: Law, positions: Array, counts: Array) -> Array:
    """Return the places of those outcomes that may win where their own noise is about 0."""
    nearby = law.log_cdf(positions[:, None] - positions[None, :_RIVALS]) @ counts[:_RIVALS]
    own = np.maximum(np.log(np.maximum(law.survival(-positions), 1e-300)), LOG_LEAST)
    kept = positions[(nearby >= own - _NEGLIGIBLE) | (positions == 0)]
    # Centres closer than this to one that is kept already need no panels of their own.
    apart = np.concatenate([[True], -np.diff(np.floor(4 * kept)) > 0])
    return np.sort(kept[apart][:_MOST_CENTRES])


def _below(law: Law, positions: Array, counts: Array, centre: float) -> float:
    """Return how far below a centre the largest noisy utility has negligible probability to be."""
    if law.nonnegative:
        return 0.0
    rarest = float(np.log(np.maximum(law.survival(1 - positions[-1:]), 1e-300))[0])
    limit = max(rarest, LOG_LEAST) - _NEGLIGIBLE

    def is_negligible(v: float) -> bool:
        return float((counts * law.log_cdf(-v + (centre - positions))).sum()) <= limit

    return _end(is_negligible)


def _end(enough: Callable[[float], bool]) -> float:
    """Return the first power of two for which `enough` holds."""
    v = 2.0
    while v < _FARTHEST and not enough(v):
        v *= 2
    return v
