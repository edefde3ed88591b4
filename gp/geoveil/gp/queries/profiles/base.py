"""The contract of a profile φ: R → R, the function of a query's signed distance."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

from geoveil.gp.arithmetic import FLOAT, Arithmetic, Exact, Real
from geoveil.gp.arrays import Array, np
from geoveil.gp.errors import UnsupportedError
from geoveil.gp.smooth.frontier import Frontier
from geoveil.gp.smooth.growth import Smoothness

_BESIDE = 1e-6
"""Distance from a cell's end, relative to its length, of the test point inside."""
_AWAY = 10
"""Distance of values from 0 that counts as far, in multiples of their range."""
_STEEPEST = 32
"""Bound of a degree-4 polynomial's slope, relative to its range over the length."""
_AT_ONCE = 1 << 20
"""The most pairs of a number and a mesh point compared at once."""


class Profile(ABC):
    """A bounded function φ of a signed distance s; s is in the unit of the points."""

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """Supremum of |φ'|, in 1/(unit of s)."""

    @property
    @abstractmethod
    def length_scale(self) -> float:
        """Length over which φ varies, in the unit of s."""

    @property
    @abstractmethod
    def breakpoints(self) -> tuple[float, ...]:
        """Increasing; φ is smooth between them and equals its limits outside."""

    @property
    def band(self) -> tuple[float, float]:
        """The ends of where φ varies; on a ray, of the distances ≥ 0 where it does."""
        return self.breakpoints[0], self.breakpoints[-1]

    @property
    def tails(self) -> tuple[Array, Array]:
        """How φ may vary beyond the band: distances (m,) and changes (m,).

        Each point there is at most one of the distances from the band's other end, and φ changes
        by at most the change that belongs to it from that point to any farther out.
        """
        return np.zeros(1), np.zeros(1)

    @property
    def settled(self) -> tuple[float, float]:
        """The distances that a `Cap` must leave unclipped, so that answers do not change."""
        return self.breakpoints[0], self.breakpoints[-1]

    @property
    @abstractmethod
    def limits(self) -> tuple[float, float]:
        """φ(−∞) and φ(∞)."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of φ."""
        return (0.0, 1.0)

    @property
    def origin(self) -> float:
        """Where moments do not cancel: the bound of φ nearest to 0 if that is far away, or 0."""
        nearest = min(self.bounds, key=abs)
        return nearest if abs(nearest) > _AWAY * np.ptp(self.bounds) else 0.0

    @property
    def plateaus(self) -> tuple[tuple[float, float, float], ...]:
        """(low, high, φ) of the intervals on which φ is constant."""
        return ()

    def on_ray(self) -> Profile:
        """Return the profile for distances that are never negative, such as those to a centre."""
        return self

    @abstractmethod
    def value(self, s: Real, ops: Arithmetic = FLOAT) -> Real:
        """Return φ(s)."""

    def value_bounds(self, s: Array) -> Array:
        """Return bounds of φ, (2, *s.shape), but for the rounding of float64."""
        return np.stack([np.asarray(self.value(s))] * 2)

    def frontier(self, growth: str, reach: float) -> Frontier:
        """Return the frontier of rates of f and B; the rectangle is valid for all profiles."""
        return Frontier.RECTANGLE

    @abstractmethod
    def smooth_bound(self, s: Real, smoothness: Smoothness, ops: Arithmetic = FLOAT) -> Real:
        """Return B(s): see `Query.smooth_bound`."""

    def noise_bound(self, s: Real, smoothness: Smoothness, ops: Arithmetic = FLOAT) -> Real:
        """Return the B that scales noise, equal in every arithmetic and ≥ `smooth_bound`."""
        return self.smooth_bound(s, smoothness, ops)

    # Noise before the function: g = φ − b²φ'' has E[g(s + Laplace(b))] = φ(s) [MATH §5.1].
    # With b = 0 it is φ itself, and the noise leaves a bias.

    def debiased(self, v: Real, b: Exact, ops: Arithmetic = FLOAT) -> Real:
        """Return g(v) for the noisy signed distance v and the noise scale b ≥ 0."""
        if b == 0:
            return self.value(v, ops)
        raise self._not_debiasable()

    def debiased_range(self, b: float) -> tuple[float, float]:
        """Return the least and the greatest value of g."""
        if b == 0:
            return self.bounds
        raise self._not_debiasable()

    def estimated_variance(self, v: Array, b: float) -> Array:
        """Return h(v) = 2b²φ'² + b⁴φ''²; E[h(s + Laplace(b))] is the variance of g [MATH §8]."""
        raise self._not_debiasable()

    @abstractmethod
    def cells(self, b: float) -> Array:
        """Return increasing edges of cells for `ranges`; g (φ for b = 0) is constant beyond."""

    def panels(self, b: float) -> Array:
        """Return edges of cells on which g and h are smooth, `cells` among them."""
        return self.cells(b)

    def ranges(self, edges: Array, b: float) -> tuple[Array, Array]:
        """Return bounds of g and of h (0 for b = 0) on n cells, each of shape (2, n).

        The edges (n + 1,) are those of `cells` and others between them.
        """
        low, high = edges[:-1], edges[1:]
        inside = (high - low) * _BESIDE
        ends = np.stack([low + inside, np.minimum(high - inside, np.nextafter(high, -np.inf))])
        g = np.sort(np.asarray(self.debiased(ends, b, FLOAT)), axis=0)
        h = np.sort(self.estimated_variance(ends, b), axis=0) if b else np.zeros_like(g)
        for bounds in (g, h):  # what is beside the ends, after Markov's inequality
            bounds += np.diff(bounds, axis=0) * np.array([[-1.0], [1.0]]) * _STEEPEST * _BESIDE
        return g, h

    def bounds_within(self, edges: Array, smoothness: Smoothness) -> Array:
        """Return bounds of B on cells, (2, n), beyond those from its values at both ends.

        `turns` are among the edges: where there are no others, the ends do.
        """
        return np.repeat([[math.inf], [0.0]], len(edges) - 1, axis=1)

    def turns(self, reach: float) -> tuple[float, ...]:
        """Return possible turning points of B, unless `bounds_within` covers them."""
        return ()

    def near_zero(self) -> tuple[Profile, float]:
        """Return c and the profile φ(s + c), of numbers that floats resolve better; exactly."""
        return self, 0.0

    @abstractmethod
    def debiased_preimages(self, y: Array, b: float) -> tuple[Array, Array]:
        """Return all v with g(v) = y at which g is not constant, and |g'(v)|: (m, *y.shape).

        v is NaN where there are fewer than m solutions; b ≥ 0.
        """

    def _not_debiasable(self) -> UnsupportedError:
        return UnsupportedError(
            f"{self!r} has no bounded debiased form, because its slope jumps:"
            " use the smoothstep profile"
        )


def solutions(function: Callable[[Array], Array], mesh: Array, y: Array) -> Array:
    """Return the points where a function equals each y, by bisection: (m, *y.shape), increasing.

    NaN where there are fewer than m solutions. Between points of the mesh, which increase and have
    a pair of close neighbours around every jump, the function must not turn.
    """
    values = function(mesh)
    flat = np.asarray(y, dtype=np.float64).ravel()
    rows, cells = [], []
    block = max(1, _AT_ONCE // len(mesh))
    for start in range(0, max(flat.size, 1), block):
        above = values > flat[start : start + block, None]
        row, cell = np.nonzero(above[:, 1:] != above[:, :-1])
        rows.append(row + start)
        cells.append(cell)
    row, cell = np.concatenate(rows), np.concatenate(cells)
    low, high = mesh[cell], mesh[cell + 1]
    rising, target = values[cell + 1] > values[cell], flat[row]
    for _ in range(60):
        middle = (low + high) / 2
        short = (function(middle) < target) == rising
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    # Where the function jumps over y it does not take it.
    apart = np.abs(function(low) - target) + np.abs(function(high) - target)
    taken = apart < 1e-9 * np.ptp(values)
    row, v = row[taken], (low + high)[taken] / 2
    order = np.arange(len(row)) - np.searchsorted(row, row)  # rows are sorted
    result = np.full((int(order.max(initial=0)) + 1, flat.size), np.nan)
    result[order, row] = v
    return result.reshape(len(result), *np.shape(y))
