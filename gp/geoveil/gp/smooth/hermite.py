"""Piecewise cubics given by values and slopes at their ends, evaluated and enclosed.

On [a, b] with h = b − a, t = (u − a)/h and d = (y_b − y_a)/h, φ = (1−t)y_a + ty_b +
ht(1−t)((1−t)(m_a − d) − t(m_b − d)): continuous, its slope a parabola on each piece.
"""

from __future__ import annotations

from dataclasses import dataclass

from geoveil.gp.arithmetic import Arithmetic, Real
from geoveil.gp.arrays import Array, NDArray, distinct, np
from geoveil.gp.smooth.cells import SlopeCells
from geoveil.gp.smooth.jet import Jet

_ROUNDING = 1e-14
"""Bound on the rounding of a dozen float operations, relative to the largest number among them."""
_TIGHT = 0.005
"""Largest change of slope over a cell, relative to the largest slope."""
_CELLS = 1024
"""Approximate total number of cells; a piece has at least `_FEW` if its slope changes enough."""
_FEW = 4


@dataclass(frozen=True, eq=False)
class Hermite:
    """A piecewise cubic with given values at n + 1 knots, and slopes at both ends of each piece."""

    knots: Array
    values: Array
    slopes: Array

    def jet(self, u: Real, ops: Arithmetic) -> Jet:
        """Return value, slope and curvature at a u between the first and the last knot."""
        if ops.rounded:
            piece = np.asarray(np.searchsorted(self.knots[1:-1], u, side="right"))
            return _jet(u, *self._piece(piece))
        # One piece more on either side than the rounded ends of the ball say.
        first = int(np.searchsorted(self.knots, float(u.lower()))) - 2
        last = int(np.searchsorted(self.knots, float(u.upper()))) + 1
        joined: Jet | None = None
        for i in range(max(first, 0), min(last, len(self.slopes))):
            a, b, *ends = (ops.constant(float(x)) for x in self._piece(i))
            if not (u < a or u > b):
                j = _jet(u, a, b, *ends)
                joined = j if joined is None else joined.union(j)
        # A ball around the first or the last knot may lie outside by its rounding.
        assert joined is not None
        return joined

    def _piece(self, i: int | NDArray[np.intp]) -> tuple[Array, ...]:
        return (
            self.knots[:-1][i], self.knots[1:][i], self.values[:-1][i], self.values[1:][i],
            self.slopes[:, 0][i], self.slopes[:, 1][i],
        )  # fmt: skip

    @property
    def _controls(self) -> Array:
        """Bernstein coefficients of each piece's slope, (3, n); their hull contains the slope."""
        a, b, ya, yb, ma, mb = self._piece(np.arange(len(self.slopes)))
        return np.stack([ma, 3 * (yb - ya) / (b - a) - ma - mb, mb])

    @property
    def steepest(self) -> float:
        """Upper bound of the largest slope, up to rounding, and at most a few times the slope."""
        return float(np.abs(self._controls).max())

    def turns(self, b: float) -> Array:
        """Return the knots and the turning points of φ − b²φ'' or 2b²φ'² + b⁴φ''², increasing.

        φ' is a parabola with a constant second derivative D: the former turns where φ' = b²D, the
        latter where φ'' is 0 or 2φ' = −b²D.
        """
        start, middle, end = self._controls
        h = np.diff(self.knots)
        a, half = start - 2 * middle + end, middle - start
        with np.errstate(all="ignore"):  # what is not in (0, 1) is left out, NaN with it
            places = [-half / a]
            for k in (2 * a * (b / h) ** 2, -a * (b / h) ** 2):
                root = -(half + np.copysign(np.sqrt(half * half - a * (start - k)), half))
                places += [root / a, (start - k) / root]
            t = np.stack(places)
            t = np.where((t > 0) & (t < 1), t, 0.0)
        return distinct(np.append((self.knots[:-1] + h * t).ravel(), self.knots))

    def cells(self, *, ray: bool) -> SlopeCells:
        """Return enclosures, certain despite rounding; on a ray the first knot is not a corner."""
        a, b, ya, yb, ma, mb = self._piece(np.arange(len(self.slopes)))
        h = b - a
        controls = self._controls
        middle = controls[1]
        still = (controls == 0).all(axis=0)  # exactly: there is nothing to round
        # Of the slope, which does not feel how far the values are from 0, and of the value.
        loose = 64 * _ROUNDING * (np.abs(yb - ya) / h + np.abs(ma) + np.abs(mb))
        loose = np.where(still, 0.0, loose)
        loose_value = loose * h + 64 * _ROUNDING * (np.abs(ya) + np.abs(yb))
        parts = np.ceil(np.ptp(controls, axis=0) / (_TIGHT * self.steepest))
        parts = np.clip(parts, 1, max(_FEW, _CELLS // len(h))).astype(np.intp)
        piece = np.repeat(np.arange(len(h)), parts)
        step = np.arange(len(piece)) - np.repeat(np.cumsum(parts) - parts, parts)
        low = a[piece] + h[piece] * (step / parts[piece])
        edges = np.append(low, b[-1])
        j, k = (_jet(u, *self._piece(piece)) for u in (edges[:-1], np.minimum(edges[1:], b[piece])))
        length, margin = np.diff(edges), loose[piece]
        # Not from the slope half way: far from 0 the middle of two edges is rounded.
        slope = _hull([j.slope, j.slope + length * j.curvature / 2, k.slope], margin)
        value = _hull(
            [j.value, j.value + length * j.slope / 3, k.value - length * k.slope / 3, k.value],
            loose_value[piece],
        )
        # A piece that does not turn stays between its ends.
        rising = (ma >= 0) & (middle > loose) & (mb >= 0)
        falling = (ma <= 0) & (middle < -loose) & (mb <= 0)
        between = np.clip(value, np.minimum(ya, yb)[piece], np.maximum(ya, yb)[piece])
        value = np.where((rising | falling | still)[piece], between, value)
        curvature = _hull([j.curvature, k.curvature], margin / h[piece])
        before = np.append(0.0, mb)
        after = np.append(ma, 0.0)
        corner = before != after
        corner[0] &= not ray
        return SlopeCells(
            edges, value, slope, curvature,
            tuple(self.knots[1:-1].tolist()),
            tuple(self.knots[corner].tolist()),
            (float(self.values[0]), float(self.values[-1])),
            ray,
        )  # fmt: skip


def _jet(u: Real, a: Real, b: Real, ya: Real, yb: Real, ma: Real, mb: Real) -> Jet:
    h = b - a
    t, d = (u - a) / h, (yb - ya) / h
    start, end = ma - d, mb - d  # slopes against the chord
    bend = start + end
    return Jet(
        (1 - t) * ya + t * yb + h * t * (1 - t) * ((1 - t) * start - t * end),
        d + start - t * (2 * (bend + start) - 3 * t * bend),
        (6 * t * bend - 2 * (bend + start)) / h,
    )


def _hull(numbers: list[Array], margin: Array) -> Array:
    return np.stack([np.min(numbers, axis=0) - margin, np.max(numbers, axis=0) + margin])
