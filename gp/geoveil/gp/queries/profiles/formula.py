"""A profile of one's own: any formula, its bounds certified [SGP Lemma 4.8; MATH §2.2, §5.1].

The formula is written once, against `Arithmetic`, and taken down once (`smooth.program`). Its slope
and curvature come from it by the chain rule, its smooth bound from enclosures that hold on whole
intervals, and its exact release from the same operations in ball arithmetic.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from geoveil.gp import validation
from geoveil.gp.arithmetic import FLOAT, Arithmetic, Exact, Real
from geoveil.gp.errors import GeoVeilError, ParameterError, UnsupportedError
from geoveil.gp.exact.ball import BALL, working_precision
from geoveil.gp.privacy.rounding import round_down
from geoveil.gp.queries.profiles.base import Array, Profile
from geoveil.gp.queries.profiles.preimages import preimages
from geoveil.gp.smooth.cells import CORNER, Cells, enclose
from geoveil.gp.smooth.certified import BOUNDS, CertifiedBound
from geoveil.gp.smooth.chords import reached
from geoveil.gp.smooth.growth import EXPONENTIAL
from geoveil.gp.smooth.jet import FLOAT_JETS, Jet, enclosure, jet
from geoveil.gp.smooth.program import Formula, recorded

_SETTLED = 1e-9
"""A profile that differs from its limit by less counts as having reached it, in moments."""
_FLOAT_ERROR = 1e-6
"""Error of float64 that is no reason to refuse a formula, relative to its range."""
_PRECISION = 256
"""Bits with which float64 is compared."""
_WRITTEN = "a function of (u, ops), made of + - * / ** and the functions of ops"


@dataclass(frozen=True, slots=True, repr=False)
class FormulaProfile(Profile):
    """φ(s) = formula(u), u = s/scale, held constant beyond ±extent.

    Args:
        formula: a function of (u, ops) that uses + − × ÷, integer powers and the functions of
            `ops`, an `Arithmetic`: ops.exp, log, sqrt, power, minimum, maximum, clip, absolute,
            piecewise, constant. It must be continuous, with a bounded slope. It is called once,
            here: the profile keeps the operations, so that nothing the function looks up elsewhere
            can change them later. Doubles are taken at their word, so pieces that meet at a third
            need ops.constant(Fraction(1, 3)). A base below 0 needs an integer exponent.
        scale: the unit of u, > 0, in the unit of the points.
        extent: |u| from which φ keeps its value, in [0.001, 1e6].
        ray: whether s is never negative; `Radial` sets it.

    No campaign can hold one: campaigns name queries whose formulas every device has.

    Raises:
        ParameterError: if a number is out of range, or the formula fails, jumps, is constant, or
            no bound of its slope is found.

    Example:
        >>> def epanechnikov(u, ops):
        ...     return ops.maximum(1 - u * u, ops.constant(0))
        >>> bump = FormulaProfile(epanechnikov, scale=1000.0)
        >>> bump.value(np.array([0.0, 500.0, 2000.0]))
        array([1.  , 0.75, 0.  ])
        >>> 0.002 <= bump.lipschitz < 0.002001
        True
    """

    formula: Formula
    scale: float
    extent: float = 256.0
    ray: bool = False

    def __post_init__(self) -> None:
        if not callable(self.formula):
            raise ParameterError("formula", self.formula, "a function of (u, arithmetic)")
        object.__setattr__(self, "scale", validation.positive("scale", self.scale))
        object.__setattr__(self, "extent", validation.between("extent", self.extent, 1e-3, 1e6))
        if not isinstance(self.ray, bool):
            raise ParameterError("ray", self.ray, "True or False")
        try:  # a formula that does not qualify is refused here
            object.__setattr__(self, "formula", recorded(self.formula))
            self._require_floats(self._cells)
        except GeoVeilError:
            raise
        except (TypeError, ValueError, AttributeError, ArithmeticError, LookupError) as error:
            raise ParameterError("formula", f"one that fails: {error}", _WRITTEN) from error

    def _require_floats(self, cells: Cells) -> None:
        """Check that float64 finds the same numbers as ball arithmetic."""
        j = self._jet(cells.edges, FLOAT)
        value = np.broadcast_to(np.asarray(j.value, dtype=np.float64), cells.edges.shape)
        with working_precision(_PRECISION):
            exact = [float(self.formula(BALL.private(u), BALL).mid()) for u in cells.edges]
        wrong = ~(np.abs(value - exact) <= _FLOAT_ERROR * np.ptp(exact))
        wrong |= ~np.isfinite(np.broadcast_to(j.slope, cells.edges.shape))
        if wrong.any():
            at = float(cells.edges[wrong][0])
            raise ParameterError(
                "formula",
                f"one that float64 cannot evaluate at {at:g}",
                "a formula that stays accurate in float64, or has a smaller extent",
            )

    @property
    def _cells(self) -> Cells:
        return _enclosed(self.formula, self.extent, self.ray)

    @property
    def lipschitz(self) -> float:
        """See `Profile.lipschitz`: certified, up to half a percent above."""
        return self._cells.lipschitz / self.scale

    @property
    def feature(self) -> float:
        """See `Profile.feature`."""
        low, high = self.bounds
        return self.scale * min(1.0, (high - low) / self._cells.lipschitz)

    @property
    def knots(self) -> tuple[float, ...]:
        """See `Profile.knots`: where pieces meet, up to where φ has settled at its limits."""
        cells = self._cells
        low, high = _settled(cells)
        inner = [u for u in cells.knots if low < u < high]
        if self.ray:
            mirrored = [-u for u in reversed(inner)]
            return tuple(u * self.scale for u in (-high, *mirrored, 0.0, *inner, high))
        return tuple(u * self.scale for u in (low, *inner, high))

    @property
    def limits(self) -> tuple[float, float]:
        """See `Profile.limits`."""
        low, high = self._cells.limits
        return (high, high) if self.ray else (low, high)

    @property
    def bounds(self) -> tuple[float, float]:
        """See `Profile.bounds`: certified."""
        low, high = self._cells.value
        return float(low.min()), float(high.max())

    @property
    def plateaus(self) -> tuple[tuple[float, float, float], ...]:
        """See `Profile.plateaus`: cells on which the slope is 0, and what is beyond the ends."""
        cells, scale = self._cells, self.scale
        flat = np.concatenate([[not self.ray], cells.steepest == 0, [True]])
        edges = np.concatenate([[-math.inf], cells.edges, [math.inf]])
        starts = np.flatnonzero(flat & ~np.concatenate([[False], flat[:-1]]))
        ends = np.flatnonzero(flat & ~np.concatenate([flat[1:], [False]])) + 1
        found = []
        for low, high in zip(edges[starts].tolist(), edges[ends].tolist(), strict=True):
            inside = low if math.isfinite(low) else high
            level = float(self.value(np.asarray(inside * scale)))
            found.append((low * scale, high * scale, level))
            if self.ray:
                found.append((-high * scale, -low * scale, level))
        return tuple(found)

    def on_ray(self) -> "FormulaProfile":
        """See `Profile.on_ray`."""
        return replace(self, ray=True)

    def value(self, s: Real, ops: Arithmetic = FLOAT) -> Real:
        """See `Profile.value`."""
        return self._at(self._inside(s / ops.constant(self.scale), ops), ops)

    def smooth_bound(
        self,
        s: Real,
        beta: Exact,
        ops: Arithmetic = FLOAT,
        *,
        growth: str = EXPONENTIAL,
        reach: float = 0.0,
    ) -> Real:
        """See `Profile.smooth_bound`."""
        rate = round_down(Fraction(beta) * Fraction(self.scale))
        bound = _bound(
            self.formula, self.extent, self.ray, rate, growth, reach / self.scale * (1 + 1e-15)
        )
        u = (ops.absolute(s) if self.ray else s) / ops.constant(self.scale)
        return bound(u, ops) / ops.constant(self.scale)

    def debiased(self, v: Real, b: Exact, ops: Arithmetic = FLOAT) -> Real:
        """See `Profile.debiased`. On a ray φ is extended to v < 0 [MATH §5.1].

        If φ'(0+) = 0 the even extension φ(−v) will do, else it has a corner at 0. The odd one,
        2φ(0) − φ(−v), has the same value and slope on both sides, and for it g is
        2φ(0) − g(−v): bounded, and constant wherever φ is.
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
        extent = ops.constant(self.extent)
        first, last = (self._at(self._inside(end, ops), ops) for end in (-extent, extent))

        def inside(u: Real) -> Real:
            j = self._jet(self._inside(u, ops), ops)
            return j.value - c * c * j.curvature

        return ops.piecewise(u, (-extent, extent), (lambda u: first, inside, lambda u: last))

    def _inside(self, u: Real, ops: Arithmetic) -> Real:
        """Return the point of the formula's interval whose value φ has at u."""
        extent = ops.constant(self.extent)
        return ops.minimum(ops.absolute(u), extent) if self.ray else ops.clip(u, -extent, extent)

    def _at(self, u: Real, ops: Arithmetic) -> Real:
        # A number may overflow on the way, or belong to a piece that is not taken.
        with np.errstate(all="ignore"):
            return self.formula(u, ops)

    def _jet(self, u: Real, ops: Arithmetic) -> Jet:
        if ops is not FLOAT:
            return enclosure(self.formula, u)[0]
        with np.errstate(all="ignore"):
            return jet(self.formula(Jet(u, 1.0, 0.0), FLOAT_JETS))

    @property
    def _odd(self) -> bool:
        """Whether a ray has a slope at 0, and needs the odd extension."""
        slope = float(self._jet(1e-9, FLOAT).slope)  # beyond a meeting of pieces at 0
        return self.ray and abs(slope) > CORNER * self._cells.lipschitz

    def debiased_range(self, b: float) -> tuple[float, float]:
        """See `Profile.debiased_range`: certified, from the cells."""
        if b == 0:
            return self.bounds
        cells, c2 = self._cells, (b / self.scale) ** 2
        if cells.corners:
            raise UnsupportedError(
                f"{self!r} has no bounded debiased form, because its slope jumps at"
                f" {cells.corners[0] * self.scale:g}: use a formula with a continuous slope"
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

    def debiased_preimages(self, y: Array, b: float) -> tuple[Array, Array]:
        """See `Profile.debiased_preimages`: by bisection between the edges of the cells."""
        step = 1e-6 * self.feature
        edges = self._cells.edges * self.scale
        if self.ray:
            edges = np.concatenate([-edges[:0:-1], edges])
        jumps = np.array(self.knots)
        mesh = np.unique(np.concatenate([edges, jumps - step, jumps + step]))

        def moving(v: Array) -> Array:
            return np.asarray(self.debiased(v, b, FLOAT))

        v, slope = preimages(moving, mesh, y, step / 10)
        return v, np.where(slope > 0, slope, np.nan)

    def __repr__(self) -> str:
        name, ray = recorded(self.formula).name, ", ray=True" if self.ray else ""
        return f"FormulaProfile({name}, scale={self.scale:g}, extent={self.extent:g}{ray})"


def _settled(cells: Cells) -> tuple[float, float]:
    """Return the ends of the interval beyond which φ is as good as its limits, and smooth."""
    span = float(cells.value[1].max() - cells.value[0].min())
    moving = [
        np.flatnonzero(np.abs(cells.value - limit).max(axis=0) > _SETTLED * span)
        for limit in cells.limits
    ]
    low, high = cells.edges[moving[0][0]], cells.edges[moving[1][-1] + 1]
    return float(min([low, *cells.knots[:1]])), float(max([high, *cells.knots[-1:]]))


@lru_cache(maxsize=64)
def _enclosed(formula: Formula, extent: float, ray: bool) -> Cells:
    return enclose(formula, 0.0 if ray else -extent, extent)


@lru_cache(maxsize=64)
def _reached(
    formula: Formula, extent: float, ray: bool, reach: float, everywhere: bool
) -> tuple[Array, Array]:
    return reached(_enclosed(formula, extent, ray), reach, everywhere=everywhere)


@lru_cache(maxsize=256)
def _bound(
    formula: Formula, extent: float, ray: bool, beta: float, growth: str, reach: float
) -> CertifiedBound:
    kind = BOUNDS[growth]
    everywhere = kind.everywhere or reach == math.inf
    return kind(*_reached(formula, extent, ray, reach, everywhere), beta)
