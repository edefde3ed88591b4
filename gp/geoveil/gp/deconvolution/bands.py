"""Totals of many thresholds and ranges on the line, from points sorted once.

A debiased smoothstep threshold is a cubic inside its band. Each cell between the edges of all bands
keeps the number of its points and Σv … Σv⁶, v ∈ [0, 1) the place in it, in integers of 2⁻⁴⁴, so
that the order of points does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import ldexp

from geoveil.gp.arrays import Array, NDArray, np
from geoveil.gp.deconvolution.base import PointEstimator
from geoveil.gp.deconvolution.line import ProfileEstimator, RangeEstimator
from geoveil.gp.deconvolution.totals import (
    GRID_EXPONENT,
    LARGEST,
    MOST_AT_ONCE,
    Groups,
    Integers,
    Sums,
    Totals,
    VarianceSum,
    covariance_of,
    rounder,
    sums_of_parts,
)
from geoveil.gp.estimation import Accumulator
from geoveil.gp.exact import INT64_MAX, INT64_MIN
from geoveil.gp.queries.profiles.soft_step import Smoothstep

_POWERS = 6
_BITS = 44
"""Powers are rounded to 2⁻⁴⁴: the sums of 2¹⁷ stay below 2⁶¹."""
_ROUNDER, _ROUNDER_BITS = rounder(_BITS)
_CELLS_AT_ONCE = 1 << 8
"""The most cells whose cubics are in memory at once for all queries."""
_ONE = 1 << -GRID_EXPONENT


@dataclass(frozen=True)
class DebiasedBand:
    """The band of a debiased threshold: from the grid integer `low` up to, but not at, `high`."""

    step: ProfileEstimator
    low: int
    high: int


def bands_of(estimator: PointEstimator, step: float) -> tuple[DebiasedBand, ...]:
    """Return the band of a debiased threshold, or the two of a range; () for anything else.

    Bands do not overlap. () too where a value at a point may be too large to be counted. `step` is
    the spacing of the grid of the points, in their unit.
    """
    if isinstance(estimator, RangeEstimator):
        low, high = (_band(end, step) for end in estimator.ends)
        return (low, high) if low and high and low.high <= high.low else ()
    band = _band(estimator, step)
    return (band,) if band else ()


def _band(estimator: PointEstimator, step: float) -> DebiasedBand | None:
    if not (
        isinstance(estimator, ProfileEstimator)
        and estimator.debias
        and isinstance(estimator.profile, Smoothstep)
        and estimator.profile.debiased_range(estimator.scale)[1] < LARGEST
    ):
        return None
    half = estimator.profile.width / 2
    sign = estimator.sign

    def reached(edge: float) -> Callable[[int], bool]:
        """Return whether the signed distance of a point is beyond the edge."""
        return lambda k: bool((sign * (float(k) * step) - estimator.offset < edge) == (sign < 0))

    edges = (-half, half) if sign > 0 else (half, -half)
    low, high = (_first(reached(edge)) for edge in edges)
    return DebiasedBand(estimator, low, high)


def _first(reached: Callable[[int], bool]) -> int:
    """Return the first 64-bit integer with a monotone property, or 2⁶³ if none has it."""
    low, high = INT64_MIN, INT64_MAX + 1
    while low < high:
        middle = (low + high) // 2
        if reached(middle):
            high = middle
        else:
            low = middle + 1
    return low


class BandTotals(Totals):
    """All thresholds and ranges together; values differ from `EachTotals` by less than 2⁻³⁰.

    `bands` are those of each label, from `bands_of`; `step` is the spacing of the points' grid.
    """

    def __init__(self, bands: Mapping[str, tuple[DebiasedBand, ...]], step: float) -> None:
        super().__init__(tuple(bands), step)
        self._bands = tuple(bands.values())
        ends = {
            end for of_one in bands.values() for band in of_one for end in (band.low, band.high)
        }
        self._cuts = sorted(ends)
        self._index = {cut: i for i, cut in enumerate(self._cuts)}
        # No point is at 2⁶³: what begins there is empty.
        self._edges = np.array([min(cut, INT64_MAX) for cut in self._cuts], np.int64)
        self._never = len(self._cuts) - (self._cuts[-1] > INT64_MAX)
        self._starts = np.array(self._cuts[:-1], np.float64)
        self._widths = np.diff(np.array(self._cuts, dtype=object)).astype(np.float64)
        self._counts: dict[int, Integers] = {}
        """Points before the first cut, between cuts, beyond the last."""
        self._sums: dict[int, NDArray[np.int64]] = {}
        """Sums of each power in each cell between cuts: whole units, and the rest in units of
        2⁻⁴⁴."""

    @staticmethod
    def cells(bands: Mapping[str, tuple[DebiasedBand, ...]]) -> int:
        """Return an upper bound of the number of cells."""
        return 1 + sum(2 * len(of_one) for of_one in bands.values())

    def add(self, points: Integers, groups: Groups) -> None:
        assert len(points) <= MOST_AT_ONCE
        for group, part in groups:
            if group not in self._sums:
                self._counts[group] = np.zeros(len(self._cuts) + 1, np.int64)
                self._sums[group] = np.zeros((2, _POWERS, len(self._cuts) - 1), np.int64)
            self._add(np.sort(points[part, 0]), self._counts[group], self._sums[group])

    def _add(self, ordered: Integers, counts: Integers, sums: NDArray[np.int64]) -> None:
        before = np.searchsorted(ordered, self._edges)
        before[self._never :] = len(ordered)
        sizes = np.diff(before, prepend=0, append=len(ordered))
        counts += sizes
        sizes = sizes[1:-1]
        (filled,) = np.nonzero(sizes)
        if not len(filled):
            return
        inside = ordered[before[0] : before[-1]]
        starts = before[filled] - before[0]
        sizes = sizes[filled]
        # In unsigned integers differences are right whatever the sizes of the two.
        origins = np.repeat(self._edges[filled].view(np.uint64), sizes)
        v = (inside.view(np.uint64) - origins).astype(np.float64)
        v *= np.repeat(1 / self._widths[filled], sizes)
        power = v.copy()
        rounded = np.empty_like(v)
        for row in range(_POWERS):
            np.add(power, _ROUNDER, out=rounded)
            # Sums of the bits wrap around, and what the rounder adds to each is taken off again.
            of_starts = np.add.reduceat(rounded.view(np.int64), starts)
            of_starts -= np.multiply(sizes, np.int64(_ROUNDER_BITS))
            rest = sums[1, row, filled] + of_starts
            sums[0, row, filled] += rest >> _BITS
            sums[1, row, filled] = rest & ((1 << _BITS) - 1)
            if row < _POWERS - 1:
                power *= v

    def of(self, group: int) -> Iterator[Sums]:
        counts = self._counts.get(group)
        if counts is None:
            yield from (Sums(Accumulator(), VarianceSum(0, 0.0)) for _ in self._bands)
            return
        whole, rest = self._sums[group].astype(np.float64)
        moments: Array = np.concatenate(
            [counts[None, 1:-1].astype(np.float64), whole + rest * ldexp(1.0, -_BITS)]
        )
        n = int(counts.sum())
        for bands in self._bands:
            # A range is the sum of two thresholds less 1, and one of the two is 1 at every point.
            excess = n * (len(bands) - 1)
            totals, squares, variances = zip(
                *(self._of_band(band, counts, moments) for band in bands), strict=True
            )
            values = sums_of_parts(
                n, sum(totals) - excess * _ONE, sum(squares) - excess * _ONE * _ONE
            )
            yield Sums(values, VarianceSum(n, sum(variances)))

    def covariance(self, group: int) -> Array:
        """Return the mean products of deviations from the means, (m, m); 0 without points."""
        size = len(self._bands)
        if group not in self._counts:
            return np.zeros((size, size))
        counts = self._counts[group].astype(np.float64)
        whole, rest = self._sums[group].astype(np.float64)
        moments = np.zeros((_POWERS + 1, len(counts)))
        moments[0] = counts
        moments[1:, 1:-1] = whole + rest * ldexp(1.0, -_BITS)
        totals, products = np.zeros(size), np.zeros((size, size))
        (filled,) = np.nonzero(counts)
        for start in range(0, len(filled), _CELLS_AT_ONCE):
            cells = filled[start : start + _CELLS_AT_ONCE]
            cubics = self._cubics(cells)
            totals += np.einsum("qjc,jc->q", cubics, moments[:4, cells])
            weighted = np.stack(
                [np.einsum("qjc,jc->qc", cubics, moments[i : i + 4, cells]) for i in range(4)],
                axis=1,
            )
            products += cubics.reshape(size, -1) @ weighted.reshape(size, -1).T
        return covariance_of(int(counts.sum()), totals, (products + products.T) / 2)

    def _cubics(self, cells: Integers) -> Array:
        """Return each query in some cells, as coefficients of v⁰ … v³: (queries, 4, cells).

        Cell 0 is before the first cut, and the last one beyond the last cut.
        """
        cubics = np.zeros((len(self._bands), 4, len(cells)))
        for pieces, bands in zip(cubics, self._bands, strict=True):
            pieces[0] = 1 - len(bands)
            for band in bands:
                ends = self._index[band.low] + 1, self._index[band.high] + 1
                start, stop = np.searchsorted(cells, ends).tolist()
                pieces[:, start:stop] += _cubic(*self._place(band, cells[start:stop] - 1))
                pieces[0, slice(stop, None) if band.step.sign > 0 else slice(start)] += 1
        return cubics

    def _of_band(
        self, band: DebiasedBand, counts: Integers, moments: Array
    ) -> tuple[int, int, float]:
        """Return the sums of a threshold, of its squares (units of the grid) and of variances."""
        low, high = self._index[band.low], self._index[band.high]
        ones = int((counts[high + 1 :] if band.step.sign > 0 else counts[: low + 1]).sum())
        place, inside = self._place(band, slice(low, high)), moments[:, low:high]
        cubic = _cubic(*place)
        total = float((cubic * inside[:4]).sum())
        weighted = [(cubic * inside[i : i + 4]).sum(axis=0) for i in range(4)]
        square = float((cubic * weighted).sum())
        return (
            ones * _ONE + round(ldexp(total, -GRID_EXPONENT)),
            ones * _ONE * _ONE + round(ldexp(square, -2 * GRID_EXPONENT)),
            max(float(_variances(*place, inside).sum()), 0.0),
        )

    def _place(self, band: DebiasedBand, cells: Integers | slice) -> tuple[Array, Array, float]:
        """Return the start of each cell in a band, its relative length, and 6c², c = b/w."""
        estimator = band.step
        assert isinstance(estimator.profile, Smoothstep)
        width, sign = estimator.profile.width, estimator.sign
        t = (sign * (self._starts[cells] * self._step) - estimator.offset) / width + 0.5
        lift = 6 * (estimator.scale / width) ** 2
        return t, self._widths[cells] * (sign * self._step / width), lift


def _cubic(t: Array, across: Array, lift: float) -> Array:
    """Return the coefficients of v⁰ … v³ of a debiased threshold in each cell."""
    return np.array(
        [
            t * t * (3 - 2 * t) - lift * (1 - 2 * t),
            (6 * t * (1 - t) + 2 * lift) * across,
            (3 - 6 * t) * across**2,
            -2 * across**3,
        ]
    )


def _variances(t: Array, across: Array, lift: float, moments: Array) -> Array:
    """Return the sum of 9c²(1 − u²)²/2 + 36c⁴u², u = 1 − 2t, from Σv⁰ … Σv⁴ in each cell."""
    start, step = 1 - 2 * t, -2 * across
    zero, first, two = start * start, 2 * start * step, step * step
    m = moments
    squares = zero * m[0] + first * m[1] + two * m[2]
    fourths = zero * squares + first * (zero * m[1] + first * m[2] + two * m[3])
    fourths += two * (zero * m[2] + first * m[3] + two * m[4])
    return np.asarray(0.75 * lift * (m[0] - 2 * squares + fourths) + lift * lift * squares)
