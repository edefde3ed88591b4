"""How far the mean of a channel, a quadratic spline, can be from φ: a bound, not an estimate."""

import math

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.errors import UnsupportedError
from geoveil.gp.mechanisms.channel_grid import Grid
from geoveil.gp.queries.profiles.base import Profile

Array = NDArray[np.float64]

_SAMPLES = 64
"""Points per cell at which the error is computed; a bound on its curvature covers the rest."""
_OUTSIDE = 1 << 14
_WIDE = 1e3
_ROUNDING = 1e-15


def bias_bound(profile: Profile, grid: Grid, means: Array, even: bool) -> float:
    """Return a bound on |mean(s) − φ(s)| over all s, to the rounding of float64.

    On a cell the error E is computed at points δ apart. Between them it is larger by at most
    K·δ²/8, K a Lipschitz constant of E', and by at most L·δ/2, L one of E. Where φ climbs as fast
    as it ever may from one end of the cell to the other, it is straight there: with d the
    difference of its ends, it is within LΔ − d of its chord, and the mean is as near to it as its
    Bernstein coefficients are.
    Outside the grid the mean is constant.

    Args:
        profile: φ.
        grid: the cells.
        means: of the rows, (M,).
        even: whether the distance is |s|; else s below the grid counts as well.
    """
    knots, cells = grid.knots, grid.cells
    widths = np.diff(knots)
    lead = np.array([1.0 if cell.first else 0.5 for cell in cells])
    trail = np.array([1.0 if cell.last else 0.5 for cell in cells])
    a, b, c = means[np.array([cell.row for cell in cells]) + np.arange(3)[:, None]]
    bernstein = np.stack([lead * a + (1 - lead) * b, b, (1 - trail) * b + trail * c])
    theta = np.linspace(0.0, 1.0, _SAMPLES + 1)[:, None]
    shape = np.stack([(1 - theta) ** 2, 2 * theta * (1 - theta), theta**2])
    value = np.asarray(profile.value(knots[:-1] + theta * widths))
    error = np.abs(np.einsum("bt...,bc->tc", shape[..., 0], bernstein) - value).max(axis=0)
    slope = profile.lipschitz + 2 * np.abs(np.diff(bernstein, axis=0)).max(axis=0) / widths
    bend = _curvature(profile) + 2 * np.abs(np.diff(bernstein, 2, axis=0))[0] / widths**2
    step = widths / _SAMPLES
    sampled = error + np.minimum(slope * step / 2, bend * step**2 / 8)
    climb = profile.lipschitz * widths - np.abs(value[-1] - value[0])
    chord = value[0] + np.array([[0.0], [0.5], [1.0]]) * (value[-1] - value[0])
    straight = np.abs(bernstein - chord).max(axis=0) + np.maximum(climb, 0.0)
    flat = np.full(len(cells), np.inf)
    for low, high, level in profile.plateaus:
        inside = (knots[:-1] >= low) & (knots[1:] <= high)
        flat[inside] = np.abs(bernstein - level).max(axis=0)[inside]
    worst = float(np.minimum(np.minimum(sampled, straight), flat).max())
    ends = [(knots[-1], max(profile.breakpoints[-1], knots[-1]), means[-1], profile.limits[1])]
    if not even:
        ends.append((min(profile.breakpoints[0], knots[0]), knots[0], means[0], profile.limits[0]))
    return max(worst, *(_beyond(profile, *end) for end in ends)) + _ROUNDING


def _beyond(profile: Profile, low: float, high: float, mean: float, limit: float) -> float:
    """Return a bound on |mean − φ| between two points, and beyond them, where φ is at its limit."""
    s = np.linspace(low, high, _OUTSIDE + 1)
    step = float(s[1] - s[0])
    between = min(profile.lipschitz * step / 2, _curvature(profile) * step**2 / 8)
    for start, end, _ in profile.plateaus:
        if start <= low and high <= end:
            between = 0.0
    return max(float(np.abs(profile.value(s) - mean).max()) + between, abs(limit - mean))


def _curvature(profile: Profile) -> float:
    """Return a bound on |φ''|, from that on φ − b²φ'' for a large b; infinite at corners."""
    b = _WIDE * profile.length_scale
    try:
        low, high = profile.debiased_range(b)
    except UnsupportedError:
        return math.inf
    return (max(abs(low), abs(high)) + max(map(abs, profile.bounds))) / b**2
