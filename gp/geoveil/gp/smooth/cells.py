"""What a formula does on each cell of the line, enclosed: the ground of every certified bound.

An interval is cut into cells, finer where the slope changes and where pieces meet. On each cell
ball arithmetic encloses value, slope and curvature, so what the cells say holds for all numbers in
them, not for those tried.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from flint import arb
from numpy.typing import NDArray

from geoveil.gp.arithmetic import Arithmetic, Real
from geoveil.gp.errors import ParameterError
from geoveil.gp.exact.ball import working_precision
from geoveil.gp.smooth.jet import FORMULA, Jet, enclosure

Array = NDArray[np.float64]
Formula = Callable[[Real, Arithmetic], Real]
"""φ(u), written against an `Arithmetic`: the same lines for floats, balls and jets."""

_PRECISION = 64
_TIGHT = 1.005
"""A cell is cut until its largest slope is at most this times its least."""
_NEGLIGIBLE = 1e-13
"""Slopes below this fraction of the largest need no tight cells."""
_FINEST = 2.0**-9
"""Cells are not cut below this length, or this fraction of their distance from 0."""
_KNOT = 1e-10
"""Width to which the meeting point of two pieces is located."""
_CORNER = 1e-6
"""A smaller jump of the slope, relative to the largest slope, is none."""


@dataclass(frozen=True, slots=True)
class Cells:
    """Enclosures on n cells. Lengths are in units of the formula's own variable u."""

    edges: Array
    """(n + 1,), increasing."""
    value: Array
    """(2, n): lower and upper bounds of φ."""
    slope: Array
    """(2, n): bounds of φ'."""
    curvature: Array
    """(2, n): bounds of φ'' wherever it exists; infinite if none was found."""
    knots: tuple[float, ...]
    """Where pieces meet, to 1e-10."""
    corners: tuple[float, ...]
    """The knots and ends at which the slope jumps; φ is constant beyond the ends."""
    limits: tuple[float, float]
    """φ at the two ends."""
    steepest: Array = field(init=False, repr=False)
    """(n,): upper bounds of |φ'|."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "steepest", np.max(np.abs(self.slope), axis=0))

    @property
    def lipschitz(self) -> float:
        """Upper bound of |φ'| everywhere."""
        return float(self.steepest.max())


def enclose(formula: Formula, low: float, high: float) -> Cells:
    """Return the cells of a formula on [low, high].

    Args:
        formula: φ, a function of (u, arithmetic).
        low: beyond it φ is constant; or 0, and nothing is beyond it.
        high: beyond it φ is constant.

    Raises:
        ParameterError: if φ jumps, its slope is not bounded, or it is constant.
    """
    with working_precision(_PRECISION):
        return _Search(formula).cells(low, high)


class _Search:
    """One enclosure in the making."""

    def __init__(self, formula: Formula) -> None:
        self._formula = formula

    def cells(self, low: float, high: float) -> Cells:
        edges = _first_cut(low, high)
        # A slope that is attained: what is small beside it may stay uncertain.
        slopes = [_gentlest(self._on(u, u)[0]) for u in edges]
        steepest = max(u for u in slopes if u < math.inf)
        stack = [(a, b, *self._on(a, b)) for a, b in pairwise(edges)][::-1]
        found: list[tuple[float, float, Jet]] = []
        knots: list[tuple[float, float]] = []
        while stack:
            a, b, j, undecided = stack.pop()
            if self._coarse(a, b, j, steepest, undecided):
                middle = (a + b) / 2
                stack.append((middle, b, *self._on(middle, b)))
                stack.append((a, middle, *self._on(a, middle)))
                continue
            found.append((a, b, j))
            if undecided:
                knots.append((a, b))
        return self._assemble(found, _merge(knots))

    def _on(self, low: float, high: float) -> tuple[Jet, bool]:
        """Return the jet on a cell, and whether several pieces meet in it."""
        return enclosure(self._formula, arb((low + high) / 2, (high - low) / 2))

    def _coarse(self, low: float, high: float, j: Jet, steepest: float, undecided: bool) -> bool:
        """Return whether the cell has to be cut."""
        length, unit = high - low, max(1.0, abs(low), abs(high))
        if undecided:
            return length > _KNOT * unit
        if not j.slope.is_finite():
            if length <= _FINEST * unit:
                raise ParameterError("formula", f"an unbounded slope near {low:g}", FORMULA)
            return True
        most, least = _steepest(j), _gentlest(j)
        if most <= _TIGHT * least or most <= _NEGLIGIBLE * steepest:
            return False
        return length > _FINEST * unit

    def _assemble(
        self, found: list[tuple[float, float, Jet]], knots: list[tuple[float, float]]
    ) -> Cells:
        value, slope, curvature = (
            np.array([_bounds(part) for part in parts]).T
            for parts in zip(*(_parts(j) for _, _, j in found), strict=True)
        )
        steepest = float(np.abs(slope).max())
        if steepest == 0:
            raise ParameterError("formula", "a constant", "one that varies")
        if not steepest < math.inf:
            at = found[int(np.argmax(np.abs(slope).max(axis=0)))][0]
            raise ParameterError("formula", f"an unbounded slope near {at:g}", FORMULA)
        low, high = found[0][0], found[-1][1]
        inner = [(a, b) for a, b in knots if a > low and b < high]
        jumps = {(a + b) / 2: self._jump(a, b) for a, b in inner}
        jumps |= {end: self._slope_at(end) for end in (low, high) if end != 0}
        return Cells(
            np.array([a for a, _, _ in found] + [high]),
            value,
            slope,
            curvature,
            tuple((a + b) / 2 for a, b in inner),
            tuple(sorted(at for at, jump in jumps.items() if abs(jump) > _CORNER * steepest)),
            (self._at(low), self._at(high)),
        )

    def _jump(self, low: float, high: float) -> float:
        """Return how much the slope changes across a knot."""
        return self._slope_at(high) - self._slope_at(low)

    def _slope_at(self, u: float) -> float:
        return float(self._on(u, u)[0].slope.mid())

    def _at(self, u: float) -> float:
        return float(self._on(u, u)[0].value.mid())


def _first_cut(low: float, high: float) -> list[float]:
    """Return edges that are close around 0 and spread outwards."""
    right = np.concatenate([np.linspace(0, 16, 65), 16 * 1.25 ** np.arange(1, 64)])
    line = np.concatenate([-right[:0:-1], right])
    return [low, *line[(line > low) & (line < high)].tolist(), high]


def _parts(j: Jet) -> tuple[Real, Real, Real]:
    return j.value, j.slope, j.curvature


def _steepest(j: Jet) -> float:
    """Return an upper bound of |φ'|."""
    return float(j.slope.abs_upper()) * (1 + 1e-15) if j.slope.is_finite() else math.inf


def _gentlest(j: Jet) -> float:
    """Return a lower bound of |φ'|."""
    return float(j.slope.abs_lower()) * (1 - 1e-15) if j.slope.is_finite() else 0.0


def _bounds(ball: arb) -> tuple[float, float]:
    """Return doubles below and above all of a ball."""
    if not ball.is_finite():
        return -math.inf, math.inf
    low, high = float(ball.lower()), float(ball.upper())
    # Conversion rounds to the nearest double; what is exactly 0 stays 0.
    return (math.nextafter(low, -math.inf) if low else 0.0), (
        math.nextafter(high, math.inf) if high else 0.0
    )


def _merge(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the intervals, those that touch joined."""
    merged: list[tuple[float, float]] = []
    for low, high in sorted(intervals):
        if merged and low <= merged[-1][1] + 1e-9:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged
