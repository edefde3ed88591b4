"""Rows between nodes: quadratic splines of probabilities, private at every s.

The range of s is cut into segments, a segment into N cells of equal width Δ. A segment has N + 2
rows P_0 … P_N+1; on a cell with the three rows A, B, C and θ ∈ [0, 1] the channel is

    P(s) = (1−θ)² b₀ + 2θ(1−θ) b₁ + θ² b₂,   b₀ = (A+B)/2,  b₁ = B,  b₂ = (B+C)/2,

but b₀ = A in the first cell of a segment and b₂ = C in the last. Neighbouring segments share a
row, so that P is continuous everywhere; within a segment its slope is, too. The weights of the
three rows are ≥ 0 and add up to 1: every P(s) is a distribution, and its mean is the same spline of
the means.

**Theorem.** If every entry satisfies A/ρ ≤ B ≤ ρA and B/σ ≤ C ≤ σB, and e = εΔ ≤ 2, then
|∂_s log P(s)| ≤ ε on the cell for all (A, B, C) if it holds for the triples (1/ρ, 1, σ) and
(ρ, 1, 1/σ). *Proof.* For ∂_s log P ≤ ε we need K = eP − ∂_θP ≥ 0. K is linear in (A, B, C). With
a = 1/2 or 1 for an inner or a first cell A has the coefficient a(e(1−θ)² + 2(1−θ)) ≥ 0, and C has
c(eθ² − 2θ) ≤ 0, as e ≤ 2. So K is least at A = B/ρ, C = σB. The other direction is
the mirror image.
On the triple, K is a quadratic in θ with the Bernstein coefficients k₀ = e b₀ − 2(b₁ − b₀),
k₁ = e b₁ − (b₂ − b₀), k₂ = e b₂ − 2(b₂ − b₁); it is ≥ 0 on [0, 1] if and only if k₀, k₂ ≥ 0 and
k₁ ≥ −√(k₀k₂). All this is decided in fractions, here.

For an inner cell and ρ = σ the condition is √ρ − 1/√ρ ≤ e, that is 2 sinh(½ ln ρ) ≤ εΔ: with
u = 1 + θ(ρ−1) the triple has ∂_θP/P = 2(ρ−1)u/(u² + ρ), largest at u = √ρ. Rows that are
interpolated linearly would have to satisfy ρ − 1 ≤ εΔ, which wastes half of εΔ of the rate where
this wastes (εΔ)²/24.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from geoveil.gp.arithmetic import Real
from geoveil.gp.arrays import Array, NDArray, np
from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.queries.profiles.base import Profile
from geoveil.gp.validation import FARTHEST

_BITS = 40
"""Ratios are multiples of 2^-40: what is lost is below 10^-12."""


@dataclass(frozen=True, slots=True)
class SplineCell:
    """One cell: which rows it mixes, and how its Bernstein coefficients follow from them."""

    row: int
    """The first of its three rows."""
    start: Fraction
    width: Fraction
    first: bool
    last: bool

    def bernstein(self, triple: tuple[Real, Real, Real]) -> tuple[Real, Real, Real]:
        """Return (b₀, b₁, b₂)."""
        a, b, c = triple
        return (a if self.first else (a + b) / 2), b, (c if self.last else (b + c) / 2)

    def weights(self, theta: Real) -> tuple[Real, Real, Real]:
        """Return the shares of the three rows at θ, a ball or an array."""
        left, right = (1 - theta) * (1 - theta), theta * theta
        if not self.first:
            left = left / 2
        if not self.last:
            right = right / 2
        return left, 1 - left - right, right


@dataclass(frozen=True, slots=True)
class SplineGrid:
    """The cells of all segments, from the lowest s up.

    Args:
        edges: ends of the segments, increasing: doubles, exactly.
        counts: number of cells of each segment.

    Raises:
        ParameterError: if edges do not increase or are not finite, or a segment has no cell.

    Example:
        >>> SplineGrid((0.0, 1.0, 3.0), (2, 1)).knots.tolist()
        [0.0, 0.5, 1.0, 3.0]
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        edges, counts = self.edges, self.counts
        if not counts or len(edges) != len(counts) + 1:
            raise ParameterError("edges", f"{len(edges)} numbers", f"{len(counts) + 1}, at least 2")
        if not max(map(abs, edges)) <= FARTHEST or not all(a < b for a, b in pairwise(edges)):
            raise ParameterError("edges", edges, f"increasing numbers, at most {FARTHEST:g}")
        if min(counts) < 1:
            raise ParameterError("counts", counts, "integers >= 1")

    @property
    def rows(self) -> int:
        """Number of rows, of all segments together."""
        return sum(self.counts) + len(self.counts) + 1

    @property
    def cells(self) -> tuple[SplineCell, ...]:
        """All cells, from left to right."""
        return _cells(self)

    @property
    def knots(self) -> Array:
        """Ends of the cells, as doubles."""
        return _cell_arrays(self)[0]

    def ratios(self, rate: Fraction) -> tuple[Fraction, ...]:
        """Return, for each row but the last, how much it and the next may differ by a factor."""
        return _ratios(self, rate)

    def locate(self, s: Array) -> tuple[NDArray[np.intp], Array]:
        """Return the first of the three rows at each s, and their shares, (n, 3)."""
        knots, widths, rows, lead, trail = _cell_arrays(self)
        s = np.clip(s, self.edges[0], self.edges[-1])
        index = np.clip(np.searchsorted(knots, s, side="right") - 1, 0, len(rows) - 1)
        theta = np.clip((s - knots[index]) / widths[index], 0.0, 1.0)
        left, right = lead[index] * (1 - theta) ** 2, trail[index] * theta**2
        shares = np.stack([left, 1 - left - right, right], axis=-1)
        return rows[index], shares

    def mix(self, rows: Array, s: Array) -> Array:
        """Return Σ_j share_j(s)·rows[j] at each s; rows has shape (M,) or (M, m)."""
        first, shares = self.locate(s)
        picked = rows[first[..., None] + np.arange(3)]
        flat = np.einsum("...j,...jk->...k", shares, picked.reshape((*shares.shape, -1)))
        return np.asarray(flat).reshape((*np.shape(s), *rows.shape[1:]))

    def mass(self, s: Array, weights: Array) -> Array:
        """Return how much of a prior each row gets, (M,)."""
        first, shares = self.locate(s)
        total = np.zeros(self.rows)
        np.add.at(total, first[:, None] + np.arange(3), shares * weights[:, None])
        return total


@lru_cache(maxsize=64)
def _cells(grid: SplineGrid) -> tuple[SplineCell, ...]:
    found, row = [], 0
    for (low, high), count in zip(pairwise(grid.edges), grid.counts, strict=True):
        start = Fraction(low)
        width = (Fraction(high) - start) / count
        found += [
            SplineCell(row + i, start + i * width, width, i == 0, i == count - 1)
            for i in range(count)
        ]
        row += count + 1
    return tuple(found)


@lru_cache(maxsize=64)
def _cell_arrays(grid: SplineGrid) -> tuple[Array, Array, NDArray[np.intp], Array, Array]:
    """Return the knots; of each cell its width, its first row, and the shares of its end rows."""
    cells = grid.cells
    knots = np.array([*(float(cell.start) for cell in cells), grid.edges[-1]])
    arrays = (
        knots,
        np.diff(knots),
        np.array([cell.row for cell in cells], dtype=np.intp),
        np.array([1.0 if cell.first else 0.5 for cell in cells]),
        np.array([1.0 if cell.last else 0.5 for cell in cells]),
    )
    for array in arrays:
        array.setflags(write=False)
    return arrays


def keeps(cell: SplineCell, rate: Fraction, left: Fraction, right: Fraction) -> bool:
    """Return whether |∂_s log P| ≤ rate on the cell, whatever rows the two ratios permit."""
    return _keeps(cell, rate * cell.width, left, right)


def _keeps(cell: SplineCell, e: Real, left: Real, right: Real) -> bool:
    mirror = SplineCell(cell.row, cell.start, cell.width, cell.last, cell.first)
    return e <= 2 and _rises_within(cell, e, left, right) and _rises_within(mirror, e, right, left)


def _rises_within(cell: SplineCell, e: Real, left: Real, right: Real) -> bool:
    b0, b1, b2 = cell.bernstein((1 / left, 1, right))
    k0, k1, k2 = e * b0 - 2 * (b1 - b0), e * b1 - (b2 - b0), e * b2 - 2 * (b2 - b1)
    return bool(k0 >= 0 and k2 >= 0 and (k1 >= 0 or k1 * k1 <= k0 * k2))


@lru_cache(maxsize=64)
def _ratios(grid: SplineGrid, rate: Fraction) -> tuple[Fraction, ...]:
    found: list[Fraction] = []
    for (low, high), count in zip(pairwise(grid.edges), grid.counts, strict=True):
        inner, end = _links(rate * (Fraction(high) - Fraction(low)) / count, count == 1)
        found += [end, *[inner] * (count - 1), end]
    # Most cells of a segment are alike.
    kinds = {(c.width, c.first, c.last, found[c.row], found[c.row + 1]): c for c in grid.cells}
    if not all(keeps(c, rate, found[c.row], found[c.row + 1]) for c in kinds.values()):
        raise UnsupportedError("the grid is too coarse for the guarantee: use more cells")
    return tuple(found)


@lru_cache(maxsize=256)
def _links(e: Fraction, single: bool) -> tuple[Fraction, Fraction]:
    """Return the ratio between inner rows, then that at the ends of a segment, for e = εΔ."""
    zero, one = Fraction(0), Fraction(1)
    inside, end = SplineCell(0, zero, one, False, False), SplineCell(0, zero, one, True, single)
    inner = _largest(lambda r, rate: _keeps(inside, rate, r, r), e, 1 + 3 * e)
    beside = _largest(lambda r, rate: _keeps(end, rate, r, r if single else inner), e, 1 + e)
    return inner, beside


def _largest(holds: Callable[[Real, Real], bool], e: Fraction, most: Fraction) -> Fraction:
    """Return the largest multiple r of 2^-40, from 1 up to `most`, for which holds(r, e).

    By bisection, all smaller ones hold: with floats first, which leaves few steps to be exact. What
    holds is checked again where it is used.
    """
    unit = 1 << _BITS
    low, high = unit, math.ceil(most * unit)
    rough = float(e)

    def exact(k: int) -> bool:
        return holds(Fraction(k, unit), e)

    near = _last(low, high, lambda k: holds(k / unit, rough))
    for reach in (2, 1 << 10, high):
        a, b = max(low, near - reach), min(high, near + reach)
        if (a == low or exact(a)) and (b == high or not exact(b)):
            break
    return Fraction(_last(a, b, exact), unit)


def _last(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the last integer from `low` up to, not including, `high` for which all hold."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


_SAMPLES = 64
"""Points per cell at which the error is computed; a bound on its curvature covers the rest."""
_OUTSIDE = 1 << 14
_WIDE = 1e3
_ROUNDING = 1e-15


def bias_bound(profile: Profile, grid: SplineGrid, means: Array, even: bool) -> float:
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
        means: mean report of each row, shape (M,).
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
