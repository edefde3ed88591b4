"""Enclose a formula on each cell of the line, the basis of every certified bound.

Cells are finer where the slope changes and where pieces meet. Balls enclose value, slope and
curvature for all numbers in a cell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import pairwise
from operator import itemgetter

from flint import arb

from geoveil.gp.arithmetic import Real
from geoveil.gp.arrays import Array, np
from geoveil.gp.errors import ParameterError
from geoveil.gp.exact import working_precision
from geoveil.gp.smooth.jet import FORMULA, Jet, enclosure
from geoveil.gp.smooth.tape import Formula, Tape, recorded

_PRECISION = 64
_TIGHT = 1.005
"""A cell is cut until its largest slope is at most this times its least."""
_NEGLIGIBLE = 1e-13
"""Slopes below this fraction of the largest need no tight cells."""
_FINEST = 2.0**-9
"""Length, relative to a distance, below which cells need to be tight only beside the steepest slope
around them: see `_is_short`."""
_LOOSE = 1.02
"""The same ratio for cells that cannot hold the steepest slope of all."""
_MOST = 1_000_000
"""The most operations, a few seconds; half as many before, for cells finer than they must be."""
_STRAY = 0.005
"""How far bounds of values may reach beyond attained ones, relative to how far these are apart."""
_OVERHEAD = 4
"""Overhead of an enclosure, in operations."""
_KNOT = 1e-10
"""Width to which the meeting point of two pieces is located."""
_NARROWEST = 2.0**-50
"""The least length of other cells, a few steps of float64. Both in units of |u|, or of 1 below."""
CORNER = 1e-6
"""Largest change of slope where pieces meet, relative to the largest slope, that is no jump. It
leaves a debiased profile, with noise of scale b, a bias of at most this fraction of L·b/2."""
SHARPEST = _KNOT / CORNER
"""The length, in units of |u|, or of 1 below, within which a turn of the slope where pieces meet
can't be told from a jump."""


@dataclass(frozen=True, slots=True, eq=False)
class SlopeCells:
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
    """The points where pieces meet, to 1e-10."""
    corners: tuple[float, ...]
    """The knots and ends at which the slope jumps; φ is constant beyond the ends."""
    limits: tuple[float, float]
    """φ at the two ends."""
    ray: bool
    """Whether the line starts at the first edge, 0; otherwise φ is constant before it."""
    steepest: Array = field(init=False, repr=False)
    """(n,): upper bounds of |φ'|."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "steepest", np.max(np.abs(self.slope), axis=0))

    @property
    def lipschitz(self) -> float:
        """Upper bound of |φ'| everywhere."""
        return float(self.steepest.max())


def enclose(formula: Formula, extent: float, *, ray: bool) -> SlopeCells:
    """Return the cells of a formula φ of (u, arithmetic), constant beyond |u| = extent.

    Raises:
        ParameterError: if φ jumps, its slope is not bounded, it is constant, or it fails.
    """
    low = 0.0 if ray else -extent
    with working_precision(_PRECISION):
        try:
            return _Search(formula, ray, fine=True).cells(low, extent)
        except ParameterError:  # it may be too intricate for the finer cells only
            return _Search(formula, ray, fine=False).cells(low, extent)


@lru_cache(maxsize=1 << 14)
def enclosed_on(tape: Tape, low: float, high: float) -> tuple[tuple[float, float], ...]:
    """Return bounds of φ, φ' and φ'' for u in [low, high]."""
    with working_precision(_PRECISION):
        enclosed, _ = enclosure(tape, arb(low).union(arb(high)))
        return tuple(map(bounds_of, _parts(enclosed)))


@lru_cache(maxsize=1 << 14)
def exactly(tape: Tape, u: float) -> tuple[float, float, float]:
    """Return φ, φ' and φ'' at u; NaN if one does not exist."""
    with working_precision(_PRECISION):
        value, slope, curvature = _parts(enclosure(tape, arb(u))[0])
        return float(value.mid()), float(slope.mid()), float(curvature.mid())


class _Search:
    """One enclosure in the making."""

    def __init__(self, formula: Formula, ray: bool, *, fine: bool) -> None:
        self._ray, self._fine = ray, fine
        self._tape = recorded(formula)
        self._cost = self._tape.cost + _OVERHEAD
        self._left = _MOST // 2 if fine else _MOST
        self._steepest, self._at_steepest = 0.0, 0.0  # the largest slope known to be attained
        self._least, self._most = math.inf, -math.inf  # values that are attained

    def cells(self, low: float, high: float) -> SlopeCells:
        edges = _first_cut(low, high)
        self._attained(edges)
        # The longest first, each with the slope attained around it, once it is short.
        heap: list[tuple[float, float, float, float | None]] = [
            (a - b, a, b, None) for a, b in pairwise(edges)
        ]
        heapify(heap)
        enclosed: list[tuple[float, float, Jet]] = []
        knots: list[tuple[float, float]] = []
        while heap:
            _, a, b, around = heappop(heap)
            j, undecided = self._on(a, b)
            if around is None and self._is_short(a, b) and not self._enough(j):
                around = self._attained(np.linspace(a, b, 9).tolist())
                if not self._is_short(a, b):  # beside the steepest slope so far
                    around = None
            if self._coarse(a, b, j, undecided, around):
                middle = (a + b) / 2
                attained = self._attained([middle])
                if around is not None:
                    around = max(around, attained)
                heappush(heap, (middle - b, middle, b, around))
                heappush(heap, (a - middle, a, middle, around))
                continue
            enclosed.append((a, b, j))
            if undecided:
                knots.append((a, b))
        enclosed.sort(key=itemgetter(0))
        return self._assemble(enclosed, _merge(sorted(knots)))

    def _on(self, low: float, high: float) -> tuple[Jet, bool]:
        """Return the jet on a cell, and whether several pieces meet in it."""
        j, ways = enclosure(self._tape, arb(low).union(arb(high)) if low < high else arb(low))
        self._left -= ways * self._cost
        if self._left < 0:
            reason = "too intricate" if _steepest(j) < math.inf else "no bounded slope"
            raise ParameterError("formula", f"{reason} near {low:g}", FORMULA)
        return j, ways > 1

    def _attained(self, points: list[float]) -> float:
        """Return a slope that φ attains at one of the points; smaller ones may stay uncertain."""
        jets = [self._on(u, u)[0] for u in points]
        values = [float(j.value.mid()) for j in jets]
        slope, at = max(zip(map(_gentlest, jets), points, strict=True))
        if slope > self._steepest:
            self._steepest, self._at_steepest = slope, at
        self._least, self._most = min(self._least, *values), max(self._most, *values)
        return slope

    def _is_short(self, low: float, high: float) -> bool:
        """Return whether a cell is short beside its distances from 0 and from the steepest slope.

        Either counts as 1, or as the length over which φ varies, if it is less.
        """
        away = max(low - self._at_steepest, self._at_steepest - high)
        beside = max(away * self._steepest, self._most - self._least)
        length = (high - low) / _FINEST
        close = not self._fine or length * self._steepest <= beside
        return length <= _unit(low, high) and close

    def _tight(self, j: Jet) -> bool:
        """Return whether the largest slope of a cell is tight."""
        return _steepest(j) <= max(_NEGLIGIBLE * self._steepest, _TIGHT * _gentlest(j))

    def _enough(self, j: Jet, around: float = 0.0) -> bool:
        """Return whether the largest slope of a short cell is tight enough."""
        attained = max(_gentlest(j), around)
        return self._tight(j) or _steepest(j) <= min(_LOOSE * attained, _TIGHT * self._steepest)

    def _coarse(
        self, low: float, high: float, j: Jet, undecided: bool, around: float | None
    ) -> bool:
        """Return whether the cell must be cut."""
        if undecided:
            return high - low > _KNOT * _unit(low, high)
        cuttable = high - low > _NARROWEST * _unit(low, high)
        if not cuttable and _steepest(j) == math.inf:
            raise ParameterError("formula", f"no bounded slope near {low:g}", FORMULA)
        short = self._is_short(low, high)
        enough = self._enough(j, around or 0.0) if short else self._tight(j)
        return cuttable and not (enough and self._near_attained(j))

    def _near_attained(self, j: Jet) -> bool:
        """Return whether the values of a cell are nearly attained, if cells are to be fine."""
        low, high = bounds_of(j.value)
        stray = max(self._least - low, high - self._most)
        return not self._fine or stray <= _STRAY * (self._most - self._least)

    def _assemble(
        self, found: list[tuple[float, float, Jet]], knots: list[tuple[float, float]]
    ) -> SlopeCells:
        value, slope, curvature = (
            np.array([bounds_of(part) for part in parts]).T
            for parts in zip(*(_parts(j) for _, _, j in found), strict=True)
        )
        steepest = max(_steepest(j) for _, _, j in found)
        if steepest == 0:
            raise ParameterError("formula", "a constant", "one that varies")
        if not steepest < math.inf:
            at = next(a for a, _, j in found if _steepest(j) == math.inf)
            raise ParameterError("formula", f"no bounded slope near {at:g}", FORMULA)
        low, high = found[0][0], found[-1][1]
        edges = np.array([a for a, _, _ in found] + [high])
        inner = [(a, b) for a, b in knots if a > low and b < high]
        ends = (high,) if self._ray else (low, high)
        jumps = {end: float(self._on(end, end)[0].slope.abs_upper()) for end in ends}
        for a, b in knots:
            if a > low or not self._ray:  # beside the end of a ray there is nothing to join
                within = (a <= edges[:-1]) & (edges[1:] <= b)
                jumps[(a + b) / 2] = _spread(slope[:, within])
        return SlopeCells(
            edges,
            value,
            slope,
            curvature,
            tuple((a + b) / 2 for a, b in inner),
            tuple(sorted(at for at, jump in jumps.items() if not jump <= CORNER * steepest)),
            (self._at(low), self._at(high)),
            self._ray,
        )

    def _at(self, u: float) -> float:
        return float(self._on(u, u)[0].value.mid())


def _first_cut(low: float, high: float) -> list[float]:
    right = np.concatenate([np.linspace(0, 16, 65), 16 * 1.25 ** np.arange(1, 64)])
    line = np.concatenate([-right[:0:-1], right])
    return [low, *line[(line > low) & (line < high)].tolist(), high]


def _unit(low: float, high: float) -> float:
    return max(1.0, abs(low), abs(high))


def _parts(j: Jet) -> tuple[Real, Real, Real]:
    return j.value, j.slope, j.curvature


def _steepest(j: Jet) -> float:
    """Return an upper bound of |φ'|, infinite if φ has no bound."""
    finite = j.slope.is_finite() and j.value.is_finite()
    return float(j.slope.abs_upper()) * (1 + 1e-15) if finite else math.inf


def _gentlest(j: Jet) -> float:
    return float(j.slope.abs_lower()) * (1 - 1e-15) if j.slope.is_finite() else 0.0


def bounds_of(ball: arb) -> tuple[float, float]:
    """Return doubles below and above all of a ball."""
    if not ball.is_finite():
        return -math.inf, math.inf
    # Conversion rounds to the nearest double; only what is exactly 0 may become 0.
    low, high = ball.lower(), ball.upper()
    return (
        0.0 if low == 0 else math.nextafter(float(low), -math.inf),
        0.0 if high == 0 else math.nextafter(float(high), math.inf),
    )


def _spread(bounds: Array) -> float:
    """Return the widths of bounds, (2, n)."""
    return float(bounds[1].max() - bounds[0].min())


def _merge(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for low, high in sorted(intervals):
        if merged and low <= merged[-1][1] + 1e-9:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged
