"""A profile as data: a table of values and slopes, joined by cubics [SGP Lemma 4.8; MATH §2.2].

A campaign carries a table, not a formula; every device certifies for itself how steep it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Self

from geoveil.gp import validation
from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.arrays import Array, distinct, np
from geoveil.gp.errors import ParameterError
from geoveil.gp.queries.profiles.base import Profile
from geoveil.gp.queries.profiles.enclosed import EnclosedProfile, settled
from geoveil.gp.queries.profiles.formula import FormulaProfile
from geoveil.gp.smooth.cells import CORNER, SlopeCells
from geoveil.gp.smooth.hermite import Hermite
from geoveil.gp.smooth.jet import Jet

MOST_PIECES = 256
"""The most pieces for a device to check; a formula needs ten to fifty."""
_CLOSEST = 2.0**-30
"""Least length of a piece, relative to the total."""
_FARTHEST = 2.0**10
"""Largest distance of a knot from 0, relative to the total length."""
_BESIDE = 1e-7
"""Distance from a piece's end at which its end slope is taken, relative to its length."""
_TRIED = 129
"""Points of a piece at which table and profile are compared."""
_STEPS = 16
"""Parts of an enclosure in which a profile and its table are compared."""


@dataclass(frozen=True, slots=True, repr=False)
class TabulatedProfile(EnclosedProfile):
    """φ(s) as cubics in pieces, held constant beyond the first and the last.

    On a piece φ is the cubic that has the given values and slopes at both ends. φ never jumps;
    where neighbours do not share a slope it has a corner.

    Args:
        at: 2 to 257 increasing numbers, the ends of the pieces, in the unit of s.
        values: φ at each of them.
        slopes: two for each piece, at its start and at its end, in 1/(unit of s).
        ray: whether s is never negative; `Radial` sets it. Then `at` is from 0 on.

    Raises:
        ParameterError: if a number is out of range, a length does not fit, `at` does not increase
            or has ends too close, or φ is constant.

    Example:
        >>> ramp = TabulatedProfile(at=(0.0, 100.0), values=(1.0, 0.0), slopes=(-0.01, -0.01))
        >>> ramp.value(np.array([-10.0, 25.0, 300.0])).tolist()
        [1.0, 0.75, 0.0]
        >>> ramp
        TabulatedProfile(1 piece from 0 to 100)
    """

    at: tuple[float, ...]
    values: tuple[float, ...]
    slopes: tuple[float, ...]
    ray: bool = False
    scale: float = field(init=False, compare=False)
    _hermite: Hermite = field(init=False, compare=False)
    _enclosures: SlopeCells = field(init=False, compare=False)

    def __post_init__(self) -> None:
        u, y, m = (_numbers(name, getattr(self, name)) for name in ("at", "values", "slopes"))
        require_pieces(len(u), len(y), len(m))
        _require_apart(u)
        validation.require_flag("ray", self.ray)
        if self.ray and u[0] < 0 < u[-1] and 0.0 in u:  # what is before the centre is never asked
            first = int(np.flatnonzero(u == 0)[0])
            u, y, m = u[first:], y[first:], m[2 * first :]
        if self.ray and u[0] < 0:
            raise ParameterError("at[0]", float(u[0]), ">= 0, as a distance is never negative")
        if self.ray and u[0] > 0:  # constant from the centre on
            u, y, m = np.append(0.0, u), np.append(y[0], y), np.append([0.0, 0.0], m)
            require_pieces(len(u), len(y), len(m))
            _require_apart(u)
        steepest = Hermite(u, y, m.reshape(-1, 2)).steepest
        if steepest == 0:
            raise ParameterError("values", "all the same", "numbers that differ")
        varied = validation.positive("range of the values", np.ptp(y) or steepest * np.ptp(u))
        # A power of two, by which nothing is rounded, near the length over which φ varies.
        mantissa, exponent = math.frexp(varied / validation.positive("slope", steepest))
        scale = math.ldexp(1.0, exponent - (mantissa == 0.5))
        hermite = Hermite(u / scale, y, (m * scale).reshape(-1, 2))
        with np.errstate(all="ignore"):  # a bound that overflows is refused by the grid
            cells = hermite.cells(ray=self.ray)
        canonical = {
            "at": tuple(u.tolist()), "values": tuple(y.tolist()), "slopes": tuple(m.tolist()),
            "scale": scale, "_hermite": hermite, "_enclosures": cells,
        }  # fmt: skip
        for name, value in canonical.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, profile: Profile, tolerance: float = 1e-4, *, ray: bool = False) -> Self:
        """Return a table of a profile φ, proved on the whole line.

        Args:
            profile: φ: a user's formula, or any other.
            tolerance: largest difference from φ, relative to the range of φ, in [1e-5, 0.1].
            ray: whether s is never negative.

        Raises:
            ParameterError: if that takes more than 256 pieces.

        Example:
            >>> from geoveil.gp import FormulaProfile
            >>> walk = FormulaProfile(lambda u, ops: ops.exp(-u), scale=500.0, ray=True)
            >>> table = TabulatedProfile.of(walk, tolerance=1e-3)
            >>> s = np.linspace(0.0, 20_000.0, 9_999)
            >>> bool(np.abs(table.value(s) - walk.value(s)).max() <= 1e-3)
            True
        """
        validation.require_kind("profile", profile, Profile)
        share = validation.between("tolerance", tolerance, 1e-5, 0.1)
        enclosed = _enclosed(profile, ray)
        if isinstance(enclosed, cls):
            return enclosed
        low, high = enclosed.bounds
        at, values, slopes = _fitted(enclosed, share * (high - low))
        table = cls(at, values, slopes, enclosed.ray)
        if not _largest_difference(enclosed, table) <= share * (high - low):
            raise ParameterError("tolerance", tolerance, "larger, for this profile")
        return table

    @property
    def _cells(self) -> SlopeCells:
        return self._enclosures

    @property
    def _ends(self) -> tuple[float, float]:
        return self.at[0] / self.scale, self.at[-1] / self.scale

    @property
    def length_scale(self) -> float:
        # Also longer than the scale, which values that hardly differ at the knots make tiny.
        low, high = self.bounds
        return self.scale * ((high - low) / self._cells.lipschitz)

    def on_ray(self) -> TabulatedProfile:
        return replace(self, ray=True)

    def cells(self, b: float) -> Array:
        return self._both_sides(self._hermite.turns(b / self.scale))

    def panels(self, b: float) -> Array:
        return self.cells(b)

    def ranges(self, edges: Array, b: float) -> tuple[Array, Array]:
        return Profile.ranges(self, edges, b)

    @property
    def _odd(self) -> bool:
        return self.ray and bool(abs(self._hermite.slopes[0, 0]) > CORNER * self._cells.lipschitz)

    def near_zero(self) -> tuple[Profile, float]:
        nearest = min(self.at[0], self.at[-1], key=abs)
        if abs(nearest) < self.at[-1] - self.at[0]:
            return self, 0.0  # differences of its ends may be rounded
        return replace(self, at=tuple(u - nearest for u in self.at)), nearest

    def _at(self, u: Real, ops: Arithmetic) -> Real:
        return self._hermite.jet(u, ops).value

    def _jet(self, u: Real, ops: Arithmetic) -> Jet:
        return self._hermite.jet(u, ops)

    def __repr__(self) -> str:
        pieces = len(self.at) - 1
        ray = ", ray=True" if self.ray else ""
        return (
            f"TabulatedProfile({pieces} piece{'s' * (pieces > 1)} from {self.at[0]:g} to"
            f" {self.at[-1]:g}{ray})"
        )


def require_pieces(at: int, values: int, slopes: int) -> None:
    """Refuse a table with too many numbers to check, or with missing or extra numbers."""
    validation.require_count("number of at", at, 2, MOST_PIECES + 1)
    for name, size, expected in (("values", values, at), ("slopes", slopes, 2 * (at - 1))):
        if size != expected:
            raise ParameterError(f"number of {name}", size, f"{expected}, for {at} of at")


def _numbers(name: str, numbers: tuple[float, ...]) -> Array:
    array = np.array(validation.numbers(name, numbers))
    if np.abs(array).max(initial=0.0) > validation.MOST:
        raise ParameterError(name, "some", f"numbers up to {validation.MOST:g}")
    return array


def _require_apart(at: Array) -> None:
    length = float(at[-1] - at[0])
    if not (np.diff(at) >= _CLOSEST * length).all() or not length > 0:
        raise ParameterError("at", "some", "increasing, each by 2^-30 of the whole or more")
    if np.abs(at).max() > _FARTHEST * length:
        raise ParameterError("at", "some", "within 1,024 times their length of 0")


def _enclosed(profile: Profile, ray: bool) -> EnclosedProfile:
    """Return a profile with enclosures, also for the library's own, written as a formula."""
    if isinstance(profile, EnclosedProfile):
        return profile.on_ray() if ray else profile

    def formula(u: Real, ops: Arithmetic) -> Real:
        return profile.value(u * ops.constant(profile.length_scale), ops)

    extent = 2 * max(map(abs, profile.breakpoints)) / profile.length_scale
    return FormulaProfile(formula, scale=profile.length_scale, extent=extent, ray=ray)


def _fitted(profile: EnclosedProfile, error: float) -> Iterator[tuple[float, ...]]:
    """Yield the numbers of a table, halving pieces until they seem close enough."""
    cells, last = profile._cells, profile._cells.limits[1]
    low, high = (_corner_at(end, cells) for end in settled(cells))
    low, limits = (0.0, {high: last}) if profile.ray else (low, {low: cells.limits[0], high: last})
    u = [low, *(k for k in cells.knots if low < k < high), high]

    def value(u: float) -> float:
        return limits[u] if u in limits else float(profile._at(np.asarray(u), FLOAT))

    def slope(u: float) -> float:
        return float(profile._jet(np.asarray(u), FLOAT).slope)

    stack = []
    for a, b in reversed(list(pairwise(u))):
        inside = (b - a) * _BESIDE
        stack.append((a, b, slope(a + inside), slope(b - inside)))
    pieces: list[tuple[float, float, float, float]] = []
    while stack:
        a, b, start, end = stack.pop()
        if len(pieces) + len(stack) >= MOST_PIECES:
            raise ParameterError("tolerance", "so small that it takes over 256 pieces", "larger")
        piece = Hermite(np.array([a, b]), np.array([value(a), value(b)]), np.array([[start, end]]))
        tried = np.linspace(a, b, _TRIED)
        missed = piece.jet(tried, FLOAT).value - profile._at(tried, FLOAT)
        if np.abs(missed).max() <= error / 2:
            pieces.append((a, b, start, end))
        else:
            middle = (a + b) / 2
            stack += [(middle, b, slope(middle), end), (a, middle, start, slope(middle))]
    at = [a for a, *_ in pieces] + [u[-1]]
    slopes = np.array([pair for _, _, *pair in pieces])
    before, after = np.append(0.0, slopes[:, 1]), np.append(slopes[:, 0], 0.0)
    if profile.ray and abs(after[0]) > CORNER * np.abs(slopes).max():
        before[0] = after[0]
    # Only where φ has a corner has the table one; beyond the last end its slope is 0.
    corner = np.isin(at, cells.corners)
    after[-1] = before[-1] if corner[-1] else 0.0
    slopes[:, 0] = np.where(corner, after, before)[:-1]
    slopes[-1, 1] = after[-1]
    yield tuple((np.array(at) * profile.scale).tolist())
    yield tuple(value(u) for u in at)
    yield tuple((slopes.ravel() / profile.scale).tolist())


def _corner_at(end: float, cells: SlopeCells) -> float:
    """Return the corner that an end of where φ varies can't be told from, or the end itself."""
    nearest = min(cells.knots, key=lambda knot: abs(knot - end), default=end)
    return nearest if abs(nearest - end) <= _CLOSEST * max(1.0, abs(end)) else end


def _largest_difference(profile: EnclosedProfile, table: TabulatedProfile) -> float:
    """Return an upper bound of the difference of two profiles, from their enclosed slopes.

    Between two points: the mean of the ends, and half the distance times the largest slope.
    """
    both = (profile, table)
    edges = distinct(np.concatenate([p._cells.edges * p.scale for p in both]))
    steps = np.linspace(edges[:-1], edges[1:], _STEPS, endpoint=False, axis=1)
    s = np.append(steps.ravel(), edges[-1])
    middle, slopes = (s[1:] + s[:-1]) / 2, []
    for p in both:
        cell = np.searchsorted(p._cells.edges * p.scale, middle) - 1
        slope = np.concatenate([[[0.0], [0.0]], p._cells.slope / p.scale, [[0.0], [0.0]]], axis=1)
        slopes.append(slope[:, cell + 1])
    (low, high), (least, most) = slopes
    apart = np.abs(np.asarray(profile.value(s)) - np.asarray(table.value(s)))
    steepest = np.maximum(high - least, most - low)
    return float((apart[1:] + apart[:-1] + np.diff(s) * steepest).max() / 2)
