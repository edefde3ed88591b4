"""A user's profile: any formula, with certified bounds [SGP Lemma 4.8; MATH §2.2, §5.1].

The formula is recorded once (`smooth.tape`). Slope and curvature follow by the chain rule, the
smooth bound from enclosures on intervals, and exact release from the same operations in balls.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache

from geoveil.gp import validation
from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.arrays import Array, np
from geoveil.gp.errors import GeoVeilError, ParameterError
from geoveil.gp.exact import BALL, working_precision
from geoveil.gp.queries.profiles.enclosed import EnclosedProfile
from geoveil.gp.reprs import ReprByArguments
from geoveil.gp.smooth.cells import SlopeCells, bounds_of, enclose, enclosed_on, exactly
from geoveil.gp.smooth.jet import FLOAT_JETS, Jet, enclosure, jet
from geoveil.gp.smooth.tape import Formula, Tape, recorded

_FLOAT_ERROR = 1e-6
"""Permitted error of a formula in float64, relative to its range."""
_PRECISION = 256
"""Bits of the arithmetic that checks float64."""
_LEVEL = 1e-15
"""Slope and curvature that count as 0 if float64 gives none, relative to the largest slope."""
_WITHIN = 0.618
"""Places in a cell at which float64 is checked, besides its ends."""
_WRITTEN = "a function of (u, ops), made of + - * / ** and the functions of ops"


@dataclass(frozen=True, slots=True, repr=False)
class FormulaProfile(ReprByArguments, EnclosedProfile):
    """φ(s) = formula(u), u = s/scale, held constant beyond ±extent.

    A campaign holds no formula, which is code that devices would run unseen, but a table of it:
    `TabulatedProfile.of`.

    Args:
        formula: a function of (u, ops) that uses + − × ÷, integer powers and the functions of
            `ops`, an `Arithmetic`: ops.exp, log, sqrt, power, minimum, maximum, clip, absolute,
            piecewise, constant. It must be continuous, with a bounded slope. It is called once,
            here. Doubles are exact, so pieces that meet at a third need
            ops.constant(Fraction(1, 3)). A base below 0 needs an integer exponent. Where corners
            coincide, as of two ramps that touch, or lie at the centre of a ray, bounds count
            slopes that f does not have; those of a table, `TabulatedProfile.of`, do not.
        scale: the unit of u, > 0, in the unit of the points.
        extent: |u| from which φ keeps its value, in [0.001, 1e6].
        ray: whether s is never negative; `Radial` sets it.

    Raises:
        ParameterError: if a number is out of range, or the formula fails, jumps, is constant, or
            no bound of its slope is found.

    Example:
        >>> def epanechnikov(u, ops):
        ...     return ops.maximum(1 - u * u, ops.constant(0))
        >>> bump = FormulaProfile(epanechnikov, scale=1000.0)
        >>> bump.value(np.array([0.0, 500.0, 2000.0]))
        array([1.  , 0.75, 0.  ])
    """

    formula: Formula = field(compare=False)
    scale: float
    extent: float = 256.0
    ray: bool = False
    _tape: Tape = field(init=False)

    def __post_init__(self) -> None:
        if not callable(self.formula):
            raise ParameterError("formula", self.formula, "a function of (u, arithmetic)")
        object.__setattr__(self, "scale", validation.positive("scale", self.scale))
        object.__setattr__(self, "extent", validation.between("extent", self.extent, 1e-3, 1e6))
        validation.require_flag("ray", self.ray)
        try:  # a formula that does not qualify is refused here
            if not hasattr(self, "_tape"):
                object.__setattr__(self, "_tape", recorded(self.formula))
            self._require_floats(self._cells)
        except GeoVeilError:
            raise
        except (TypeError, ValueError, AttributeError, ArithmeticError, LookupError) as error:
            raise ParameterError("formula", f"one that fails: {error}", _WRITTEN) from error

    def _require_floats(self, cells: SlopeCells) -> None:
        """Check that float64 gives the same numbers as ball arithmetic."""
        inside = cells.edges[:-1] + np.diff(cells.edges) * _WITHIN
        u = np.concatenate([cells.edges, inside])
        value = np.broadcast_to(np.asarray(self._at(u, FLOAT), dtype=np.float64), u.shape)
        with np.errstate(invalid="ignore"):  # NaN if there are no bounds
            exact = _at_edges(self._tape, cells).mean(axis=0)
        low, high = (np.append(exact, bounds) for bounds in cells.value)
        error = np.maximum(low - value, value - high)
        wrong = ~(error <= _FLOAT_ERROR * np.ptp(exact))
        wrong[: len(exact)] |= ~np.isfinite(self._jet(cells.edges, FLOAT).slope)
        if wrong.any():
            at = float(u[wrong][0])
            raise ParameterError(
                "formula",
                f"one that float64 cannot evaluate at {at:g}",
                "a formula that stays accurate in float64, or has a smaller extent",
            )

    @property
    def _cells(self) -> SlopeCells:
        return _enclosed(self._tape, self.extent, ray=self.ray)

    def on_ray(self) -> FormulaProfile:
        profile = copy(self)  # which does not call the formula again
        object.__setattr__(profile, "ray", True)
        profile.__post_init__()
        return profile

    @property
    def _ends(self) -> tuple[float, float]:
        return 0.0 if self.ray else -self.extent, self.extent

    def _at(self, u: Real, ops: Arithmetic) -> Real:
        # A number may overflow on the way, or belong to a piece that is not taken.
        with np.errstate(all="ignore"):
            return self._tape(u, ops)

    def value_bounds(self, s: Array) -> Array:
        """Return bounds from the values at both ends of a cell, and its slopes."""
        cells = self._cells
        u = np.asarray(self._inside(s / self.scale, FLOAT))
        i = np.clip(np.searchsorted(cells.edges, u) - 1, 0, len(cells.steepest) - 1)
        ends, (least, most) = _at_edges(self._tape, cells), cells.slope[:, i]
        before, after = u - cells.edges[i], cells.edges[i + 1] - u
        low = np.maximum(ends[0, i] + least * before, ends[0, i + 1] - most * after)
        high = np.minimum(ends[1, i] + most * before, ends[1, i + 1] - least * after)
        return np.stack([low, high])

    def _enclosure(self, low: float, high: float) -> tuple[tuple[float, float], ...]:
        return enclosed_on(self._tape, low, high)

    def _jet(self, u: Real, ops: Arithmetic) -> Jet:
        if not ops.rounded:
            return enclosure(self._tape, u)[0]
        with np.errstate(all="ignore"):
            j = jet(self._tape(Jet(u, 1.0, 0.0), FLOAT_JETS))
        parts = np.array(np.broadcast_arrays(j.value, j.slope, j.curvature, u)[:3], np.float64)
        lost = ~np.isfinite(parts).all(axis=0)
        if lost.any():  # a number has overflowed on the way, which it cannot in balls
            parts[:, lost] = self._beyond_floats(np.broadcast_to(u, lost.shape)[lost])
        return Jet(*parts)

    def _beyond_floats(self, u: Array) -> Array:
        """Return φ, φ' and φ'' at n points, (3, n), without float64."""
        cells, (at, which) = self._cells, np.unique(u, return_inverse=True)
        index = np.clip(np.searchsorted(cells.edges, at) - 1, 0, len(cells.steepest) - 1)
        steep = np.abs([cells.slope, cells.curvature]).max(axis=(0, 1))[index]
        jets = [
            (cells.value[0, i], 0.0, 0.0) if level else exactly(self._tape, x)
            for x, i, level in zip(at, index, steep <= _LEVEL * cells.lipschitz, strict=True)
        ]
        return np.array(jets)[which].T


_enclosed = lru_cache(maxsize=64)(enclose)


@lru_cache(maxsize=64)
def _at_edges(tape: Tape, cells: SlopeCells) -> Array:
    """Return bounds of φ at the edges of its cells, (2, n + 1)."""
    with working_precision(_PRECISION):
        return np.array([bounds_of(tape(BALL.private(u), BALL)) for u in cells.edges]).T
