"""Profiles certified by enclosures on cells: formulas and tables [MATH §2.2, §5.1].

Slope, smooth bound and debiased form follow from what φ does on each cell of the line.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial

from geoveil.gp.arithmetic import FLOAT, Arithmetic, Exact, Real
from geoveil.gp.arrays import Array, distinct, np
from geoveil.gp.errors import UnsupportedError
from geoveil.gp.exact import round_down
from geoveil.gp.queries.profiles.base import Profile, solutions
from geoveil.gp.smooth.cells import CORNER, SHARPEST, SlopeCells
from geoveil.gp.smooth.certified import BOUNDS, CertifiedBound
from geoveil.gp.smooth.chords import reached
from geoveil.gp.smooth.envelope import greatest_between
from geoveil.gp.smooth.growth import Smoothness
from geoveil.gp.smooth.jet import Jet

_FEW = 25
"""Number of cells at the start of an analysis of a profile."""
_SETTLED = 1e-9
"""Difference from its limit below which a profile counts as constant in moments."""


class EnclosedProfile(Profile):
    """φ(s) at u = s/scale, held constant beyond two ends; on a ray, φ(|s|)."""

    scale: float
    """The unit of u, > 0, in the unit of the points."""
    ray: bool

    @abstractmethod
    def on_ray(self) -> EnclosedProfile:
        """Return the profile for distances that are never negative."""

    @property
    @abstractmethod
    def _cells(self) -> SlopeCells:
        """Enclosures between the ends. Every access returns the same object."""

    @property
    @abstractmethod
    def _ends(self) -> tuple[float, float]:
        """The values of u beyond which φ is constant; from 0 on a ray."""

    @abstractmethod
    def _at(self, u: Real, ops: Arithmetic) -> Real:
        """Return φ at a u between the ends."""

    @abstractmethod
    def _jet(self, u: Real, ops: Arithmetic) -> Jet:
        """Return φ, φ' and φ'' by u at a u between the ends."""

    @property
    def lipschitz(self) -> float:
        """The steepest slope |φ'|: certified, up to half a percent above.

        More for a formula whose corners coincide (see `FormulaProfile`), or that varies over less
        than 2^-40 of its distance from 0.
        """
        return self._cells.lipschitz / self.scale

    @property
    def length_scale(self) -> float:
        low, high = self.bounds
        return self.scale * min(1.0, (high - low) / self._cells.lipschitz)

    @property
    def breakpoints(self) -> tuple[float, ...]:
        cells = self._cells
        low, high = settled(cells)
        inner = [u for u in cells.knots if low < u < high]
        if self.ray:
            mirrored = [-u for u in reversed(inner)]
            return tuple(u * self.scale for u in (-high, *mirrored, 0.0, *inner, high))
        return tuple(u * self.scale for u in (low, *inner, high))

    @property
    def band(self) -> tuple[float, float]:
        low, high = settled(self._cells)
        return low * self.scale, high * self.scale

    @property
    def tails(self) -> tuple[Array, Array]:
        cells = self._cells
        first, last = settled(cells)
        low, high = cells.edges[:-1], cells.edges[1:]
        left, right = (np.abs(cells.value - limit).max(axis=0) for limit in cells.limits)
        left = np.maximum.accumulate(left) * (low < first)  # the band may end within a cell
        right = np.maximum.accumulate(right[::-1])[::-1] * (high > last)
        return np.maximum(last - low, high - first) * self.scale, 2 * np.maximum(left, right)

    @property
    def limits(self) -> tuple[float, float]:
        low, high = self._cells.limits
        return (high, high) if self.ray else (low, high)

    @property
    def bounds(self) -> tuple[float, float]:
        low, high = self._cells.value
        return float(low.min()), float(high.max())

    @property
    def plateaus(self) -> tuple[tuple[float, float, float], ...]:
        cells, scale = self._cells, self.scale
        flat = np.concatenate([[not self.ray], cells.steepest == 0, [True]])
        edges = np.concatenate([[-math.inf], cells.edges, [math.inf]])
        starts = np.flatnonzero(flat & ~np.concatenate([[False], flat[:-1]]))
        ends = np.flatnonzero(flat & ~np.concatenate([flat[1:], [False]])) + 1
        flats = []
        for low, high in zip(edges[starts].tolist(), edges[ends].tolist(), strict=True):
            inside = low if math.isfinite(low) else high
            level = float(self.value(np.asarray(inside * scale)))
            flats.append((low * scale, high * scale, level))
            if self.ray:
                flats.append((-high * scale, -low * scale, level))
        return tuple(flats)

    def value(self, s: Real, ops: Arithmetic = FLOAT) -> Real:
        return self._at(self._inside(s / ops.constant(self.scale), ops), ops)

    def smooth_bound(self, s: Real, smoothness: Smoothness, ops: Arithmetic = FLOAT) -> Real:
        u = (ops.absolute(s) if self.ray else s) / ops.constant(self.scale)
        return self._bound(smoothness)(u, ops) / ops.constant(self.scale)

    def _bound(self, smoothness: Smoothness) -> CertifiedBound:
        """Return B as a function of u, in units of the scale."""
        rate = round_down(Fraction(smoothness.beta) * Fraction(self.scale))
        reach = smoothness.reach / self.scale * (1 + 1e-15)
        return _bound(self._cells, rate, smoothness.growth, reach)

    def debiased(self, v: Real, b: Exact, ops: Arithmetic = FLOAT) -> Real:
        """Return g(v). On a ray φ is extended to v < 0 by φ(−v), or 2φ(0) − φ(−v) [MATH §5.1].

        The latter, for a slope at 0, has no corner: g is 2φ(0) − g(−v) there.
        """
        if b == 0:
            return self.value(v, ops)
        u, c = v / ops.constant(self.scale), ops.constant(b) / ops.constant(self.scale)
        if not self._odd:
            return self._undone(u, c, ops)
        zero = ops.constant(0)
        twice = 2 * self._at(zero, ops)

        def mirrored(u: Real) -> Real:
            return twice - self._undone(-u, c, ops)

        return ops.piecewise(u, (zero,), (mirrored, partial(self._undone, c=c, ops=ops)))

    def _undone(self, u: Real, c: Real, ops: Arithmetic) -> Real:
        """Return φ − c²φ'' at u, in units of the scale; on a ray, at |u|."""
        low, high = self._ends
        ends = [ops.constant(end) for end in (-high if self.ray else low, high)]
        first, last = (self._at(self._inside(end, ops), ops) for end in ends)

        def inside(u: Real) -> Real:
            j = self._jet(self._inside(u, ops), ops)
            return j.value - c * c * j.curvature

        return ops.piecewise(u, ends, (lambda u: first, inside, lambda u: last))

    def _inside(self, u: Real, ops: Arithmetic) -> Real:
        """Return the point between the ends at which φ has its value at u."""
        low, high = map(ops.constant, self._ends)
        return ops.minimum(ops.absolute(u), high) if self.ray else ops.clip(u, low, high)

    @property
    def _odd(self) -> bool:
        """Whether the profile on a ray has a slope at 0, and so needs the odd extension."""
        slope = float(self._jet(1e-9, FLOAT).slope)  # beyond a meeting of pieces at 0
        return self.ray and abs(slope) > CORNER * self._cells.lipschitz

    def debiased_range(self, b: float) -> tuple[float, float]:
        if b == 0:
            return self.bounds
        cells, c2 = self._cells, (b / self.scale) ** 2
        if cells.corners:
            at = cells.corners[0]
            within = SHARPEST * max(1.0, abs(at)) * self.scale
            raise UnsupportedError(
                f"{self!r} has no bounded debiased form, because its slope jumps at"
                f" {at * self.scale:g}, or turns there within about {within:g}: use a formula"
                " with a continuous slope that turns less sharply"
            )
        if not np.isfinite(cells.curvature).all():
            raise UnsupportedError(
                f"{self!r} has no bounded debiased form, because its curvature is not bounded"
            )
        low = float((cells.value[0] - c2 * cells.curvature[1]).min())
        high = float((cells.value[1] - c2 * cells.curvature[0]).max())
        low, high = min(low, *cells.limits), max(high, *cells.limits)
        if not self._odd:
            return low, high
        twice = 2 * float(self._at(0.0, FLOAT))
        return min(low, twice - high), max(high, twice - low)

    def estimated_variance(self, v: Array, b: float) -> Array:
        u, c2 = np.asarray(v, dtype=np.float64) / self.scale, (b / self.scale) ** 2
        low, high = self._ends
        j = self._jet(self._inside(u, FLOAT), FLOAT)  # both extensions have the same squares
        variance = 2 * c2 * np.square(j.slope) + np.square(c2 * np.asarray(j.curvature))
        return np.where((u > (-high if self.ray else low)) & (u < high), variance, 0.0)

    def cells(self, b: float) -> Array:
        edges = self._cells.edges  # as many as it takes to tell where the profile varies
        return self._both_sides(
            edges[distinct(np.linspace(0, len(edges) - 1, _FEW)).astype(np.intp)]
        )

    def panels(self, b: float) -> Array:
        return self._both_sides(self._cells.edges)

    def _both_sides(self, u: Array) -> Array:
        """Return edges of cells in the unit of s; on a ray, those before the centre too."""
        return (np.concatenate([-u[:0:-1], u]) if self.ray else u) * self.scale

    def ranges(self, edges: Array, b: float) -> tuple[Array, Array]:
        cells, c2 = self._cells, (b / self.scale) ** 2
        u = np.asarray(self._inside(self._folded(edges), FLOAT))  # beyond, φ has the end's value
        value, slope, curvature = (
            np.stack(
                [
                    over(cells.edges, bounds[0], u, np.minimum),
                    over(cells.edges, bounds[1], u, np.maximum),
                ]
            )
            for bounds in (cells.value, cells.slope, cells.curvature)
        )
        # What is cut finer than the profile has been is enclosed anew.
        short = np.diff(u, axis=0)[0] < 0.75 * over(
            cells.edges, np.diff(cells.edges), u, np.maximum
        )
        for i in np.flatnonzero(short).tolist():
            parts = self._enclosure(*u[:, i].tolist())
            for bounds, (low, high) in zip((value, slope, curvature), parts, strict=True):
                bounds[:, i] = max(bounds[0, i], low), min(bounds[1, i], high)
        if b == 0:
            g, h = value, np.zeros_like(value)
        else:
            g = value - c2 * curvature[::-1]
            h = 2 * c2 * squares(slope) + c2 * c2 * squares(curvature)
        if self._odd:
            mirrored = 2 * float(self._at(0.0, FLOAT)) - g[::-1]
            g = np.where(edges[:-1] < 0, mirrored, g)
        return g, h

    def _enclosure(self, low: float, high: float) -> tuple[tuple[float, float], ...]:
        """Return bounds of φ, φ' and φ'' by u, for u in a cell that is part of one of `cells`."""
        return ((-math.inf, math.inf),) * 3

    def bounds_within(self, edges: Array, smoothness: Smoothness) -> Array:
        bound = self._bound(smoothness)
        u, (at, least) = self._folded(edges), bound.least
        around = np.array([-math.inf, *at, math.inf]), np.array([0.0, *least, 0.0])
        low = over(*around, u, np.minimum) * (1 - 1e-12)
        return np.stack([low, over(bound.edges, bound.steepest, u, np.maximum)]) / self.scale

    def _folded(self, edges: Array) -> Array:
        """Return the two ends of each cell in units of the scale, (2, n); on a ray, of |u|."""
        u = np.stack([edges[:-1], edges[1:]]) / self.scale
        return np.sort(np.abs(u), axis=0) if self.ray else u

    def debiased_preimages(self, y: Array, b: float) -> tuple[Array, Array]:
        """Return all v with g(v) = y, by bisection between the edges of the cells."""
        function, mesh = _searched(self, b)
        v, step = solutions(function, mesh, y), 1e-7 * self.length_scale
        at = v[np.isfinite(v)]
        slope = np.full_like(v, np.nan)
        slope[np.isfinite(v)] = np.abs(function(at + step) - function(at - step)) / (2 * step)
        return v, np.where(slope > 0, slope, np.nan)


def over(edges: Array, numbers: Array, u: Array, choose: np.ufunc) -> Array:
    """Return the greatest (or least) of the numbers (n,) of all cells that an interval meets.

    The n + 1 edges bound the cells; u holds the ends of intervals, (2, m); beyond the edges the
    outermost cell counts.
    """
    count = len(numbers)
    first = np.clip(np.searchsorted(edges, u[0], side="right") - 1, 0, count - 1)
    last = np.clip(np.searchsorted(edges, u[1], side="left"), first + 1, count)
    padded = np.append(numbers, numbers[-1])
    return np.asarray(choose.reduceat(padded, np.stack([first, last], axis=1).ravel())[::2])


def squares(bounds: Array) -> Array:
    """Return bounds of squares, (2, n), from those of the numbers."""
    ends = np.sort(np.square(bounds), axis=0)
    ends[0] = np.where((bounds[0] < 0) & (bounds[1] > 0), 0.0, ends[0])
    return ends


def settled(cells: SlopeCells) -> tuple[float, float]:
    """Return the ends of the interval beyond which φ nearly equals its limits, and is smooth."""
    span = float(cells.value[1].max() - cells.value[0].min())
    moving = [
        np.flatnonzero(np.abs(cells.value - limit).max(axis=0) > _SETTLED * span)
        for limit in cells.limits
    ]
    low, high = cells.edges[moving[0][0]], cells.edges[moving[1][-1] + 1]
    return float(min([low, *cells.knots[:1]])), float(max([high, *cells.knots[-1:]]))


_reached = lru_cache(maxsize=64)(reached)


@lru_cache(maxsize=256)
def _bound(cells: SlopeCells, beta: float, growth: str, reach: float) -> CertifiedBound:
    kind = BOUNDS[growth]
    everywhere = kind.everywhere or reach == math.inf
    return kind(*_reached(cells, reach, everywhere=everywhere), beta)


@lru_cache(maxsize=64)
def _searched(profile: EnclosedProfile, b: float) -> tuple[Callable[[Array], Array], Array]:
    """Return g, and a mesh between whose points it does not turn."""

    def moving(v: Array) -> Array:
        return np.asarray(profile.debiased(v, b, FLOAT))

    step, jumps = 1e-6 * profile.length_scale, np.array(profile.breakpoints)
    edges = profile._both_sides(profile._cells.edges)
    mesh = distinct(np.concatenate([edges, jumps - step, jumps + step]))
    return moving, distinct(np.append(mesh, _turns(moving, mesh)))


def _turns(function: Callable[[Array], Array], mesh: Array) -> Array:
    """Return the turning points of the function between mesh points, at most one in three."""
    step = np.sign(np.diff(function(mesh)))
    at = np.flatnonzero(step[1:] * step[:-1] < 0)
    low, high, rising = mesh[at], mesh[at + 2], step[at]
    return greatest_between(lambda v: function(v) * rising, low, high)
