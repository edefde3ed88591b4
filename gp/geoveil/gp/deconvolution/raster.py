"""A region of the plane on a raster, smoothed in the frequency domain.

Cells that lie inside count fully. Cells that the boundary may cross are divided into 8 × 8, each
weighted with the part of it that lies inside, at its centre of mass: of a polygon exactly, of other
regions with the boundary taken for straight there. The Fourier transform of this arrangement of
squares is evaluated, not that of samples, so that nothing is aliased: the full cells form a
function that is constant on cells, and the parts are spread on the grid by cubic B-splines, whose
transform is divided out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from geoveil.gp.arrays import Array, NDArray, np
from geoveil.gp.errors import UnsupportedError
from geoveil.gp.report_laws import law_in_boxes
from geoveil.gp.report_moments import ReportMoments

Spectrum: TypeAlias = "NDArray[np.complex128]"

_PARTS = 8
_MOST_CELLS = 2**24
_BLOCK = 2**18
_ACROSS = 8
"""Cells across a block."""
_FLAT = 1e-6
_FINELY = 2**18
"""The most nodes for which moments of reports are also computed halfway between them."""
_WEIGHTS = (*(1 / 8,) * 2, *(5 / 192,) * 2, 1 / 32, *(137 / 23_040,) * 2, *(13 / 1_536,) * 2)
"""Weights of second, fourth and sixth differences in the error of interpolation from corners."""


@dataclass(frozen=True, slots=True)
class RasterGrid:
    """A periodic grid of square cells, the first of them centred at `origin`.

    Origin and cell width are in the unit of the points; `shape` counts cells along each axis.
    """

    origin: tuple[float, float]
    cell: float
    shape: tuple[int, int]

    @classmethod
    def around(
        cls, bounds: tuple[float, float, float, float], cell: float, margin: float
    ) -> RasterGrid:
        """Return a grid that covers (x₀, y₀, x₁, y₁) and a margin around it.

        Raises:
            UnsupportedError: if it would have more than 2²⁴ cells.
        """
        from scipy.fft import next_fast_len

        size = [(bounds[i + 2] - bounds[i] + 2 * margin) / cell for i in range(2)]
        if size[0] * size[1] > _MOST_CELLS:
            raise UnsupportedError(
                f"the region with a margin of {margin:.3g} has {size[0]:.3g} × {size[1]:.3g} cells"
                f" of {cell:.3g}, more than {_MOST_CELLS} in all: take a larger bandwidth, smaller"
                " bounds or less noise"
            )
        fast: Any = next_fast_len
        first, second = (fast(int(np.ceil(n)) + 2, real=True) for n in size)
        return cls((bounds[0] - margin, bounds[1] - margin), cell, (first, second))

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.shape[0] * self.shape[1]

    def frequencies(self) -> tuple[Array, Array]:
        """Return the angular frequencies of a real transform, per axis, shaped to broadcast."""
        first: Array = 2 * np.pi * np.fft.fftfreq(self.shape[0], self.cell).astype(np.float64)
        second: Array = 2 * np.pi * np.fft.rfftfreq(self.shape[1], self.cell).astype(np.float64)
        return first[:, None], second[None, :]

    def transform(self, values: Array) -> Spectrum:
        """Return the Fourier transform of values at the cells."""
        from scipy.fft import rfft2

        spectrum: Any = rfft2(values)
        return np.asarray(spectrum)

    def inverse(self, spectrum: Spectrum) -> Array:
        """Return the values at the cells."""
        from scipy.fft import irfft2

        values: Any = irfft2(spectrum, s=self.shape)
        return np.asarray(values)

    def off_nodes(self, values: Array, spectrum: Spectrum) -> Array:
        """Bound the error of bilinear interpolation of `values` in the cells around a node.

        It is proved [MATH §8]: by second to sixth differences at the corners, and a bound of all
        higher ones that holds everywhere.
        """
        from scipy.ndimage import maximum_filter

        def second(values: Array, axis: int) -> Array:
            return np.asarray(np.roll(values, 1, axis) + np.roll(values, -1, axis) - 2 * values)

        def largest(*differences: tuple[Array, float]) -> Array:
            sum_of_all = sum(weight * np.abs(difference) for difference, weight in differences)
            return np.asarray(maximum_filter(sum_of_all, 3, mode="wrap")) * len(differences)

        x, y = second(values, 0), second(values, 1)
        xx, xy, yy = second(x, 0), second(x, 1), second(y, 1)
        sixth = [second(xx, 0), second(yy, 1), second(xx, 1), second(yy, 0)]
        bound = sum(map(largest, zip((x, y, xx, yy, xy), _WEIGHTS, strict=False)))
        bound = bound + largest(*zip(sixth, _WEIGHTS[5:], strict=True))
        x, y = ((k * self.cell) ** 2 / 8 for k in self.frequencies())
        a, b = (4 * np.sin(np.sqrt(2 * k)) ** 2 for k in (x, y))
        left = sum((x + y) ** power for power in (1, 2, 3, 4))
        symbols = a, b, a * a, b * b, a * b, a**3, b**3, a * a * b, a * b * b
        for symbol, weight in zip(symbols, _WEIGHTS, strict=True):
            left = left - weight * symbol
        twice = 2 * float(
            (np.abs(spectrum) * left).sum()
        )  # all but the first column stands for two
        return np.asarray(bound + twice / values.size)

    def law(self, spectrum: Spectrum, noise: Array) -> ReportMoments:
        """Return points whose hull contains the moments of a point's value, for people everywhere.

        `spectrum` is the transform of a point's contribution, `noise` the characteristic function.
        """
        counted = self.inverse(spectrum)
        grid = self
        if counted.size <= _FINELY:  # between the nodes, too
            grid = replace(self, cell=self.cell / 2, shape=(2 * self.shape[0], 2 * self.shape[1]))
        middle, half = np.empty((2, 3, *grid.shape))
        for power in (1, 2, 3):
            transform = self.transform(counted**power) * noise
            if grid is not self:
                transform = _padded(transform, grid.shape) * (grid.size / self.size)
            middle[power - 1] = grid.inverse(transform)
            half[power - 1] = grid.off_nodes(middle[power - 1], transform)
        return law_in_boxes(middle.reshape(3, -1), half.reshape(3, -1))


def _padded(spectrum: Spectrum, shape: tuple[int, int]) -> Spectrum:
    """Return a spectrum padded with zeros at the higher frequencies of a larger grid."""
    n, m = spectrum.shape
    wide = np.zeros((shape[0], shape[1] // 2 + 1), np.complex128)
    wide[: (n + 1) // 2, :m], wide[-(n // 2) :, :m] = np.split(spectrum, [(n + 1) // 2])
    return wide


def region_spectrum(
    signed_distance: Callable[[Array], Array],
    bounds: tuple[float, float, float, float],
    grid: RasterGrid,
    polygon: Any = None,
) -> Spectrum:
    """Return the Fourier transform of the indicator of a region, on the frequencies of the grid.

    The signed distance of points (n, 2) is 1-Lipschitz, positive inside, and negative beyond the
    bounds (x₀, y₀, x₁, y₁), which the grid covers. `polygon` is the shapely geometry from which the
    bounds cut it, if there is one.
    """
    if polygon is not None:
        polygon = _cut(polygon, np.array(bounds[:2]), np.array(bounds[2:]))
    first, second = (
        np.arange(
            np.floor((bounds[i] - grid.origin[i]) / grid.cell) - 1,
            np.ceil((bounds[i + 2] - grid.origin[i]) / grid.cell) + 2,
        )
        for i in (0, 1)
    )
    full = np.zeros(grid.shape)
    spread = np.zeros(grid.shape)
    columns = slice(int(second[0]), int(second[-1]) + 1)
    rows = max(1, _BLOCK // second.size)
    for start in range(0, first.size, rows):
        at = np.stack(np.meshgrid(first[start : start + rows], second, indexing="ij"), axis=-1)
        s = signed_distance(np.asarray(grid.origin) + grid.cell * at.reshape(-1, 2))
        s = s.reshape(at.shape[:2]) / grid.cell
        begin = int(first[start])
        full[begin : begin + len(s), columns] = s > np.sqrt(0.5)
        crossed = at[np.abs(s) <= np.sqrt(0.5)]
        for part in range(0, len(crossed), _BLOCK // _PARTS**2):
            cells = crossed[part : part + _BLOCK // _PARTS**2]
            _spread_parts(signed_distance, grid, cells, spread, polygon)
    kx, ky = (k * grid.cell / (2 * np.pi) for k in grid.frequencies())
    box = np.sinc(kx) * np.sinc(ky)
    small = np.sinc(kx / _PARTS) * np.sinc(ky / _PARTS)
    return np.asarray(grid.transform(full) * box + grid.transform(spread) * (small / box**4))


def _spread_parts(
    signed_distance: Callable[[Array], Array],
    grid: RasterGrid,
    crossed: Array,
    spread: Array,
    polygon: Any,
) -> None:
    """Add the inner parts of the cells that the boundary crosses to `spread`."""
    offset = (np.arange(_PARTS, dtype=np.float64) + 0.5) / _PARTS - 0.5
    parts = np.stack(np.meshgrid(offset, offset, indexing="ij"), axis=-1).reshape(-1, 2)
    at = (crossed[:, None, :] + parts).reshape(-1, 2)
    s = signed_distance(np.asarray(grid.origin) + grid.cell * at) / grid.cell * _PARTS
    if polygon is None:
        weight, at = _straight(s, at)
    else:
        weight, cut = np.where(s > 0, 1.0, 0.0), np.flatnonzero(np.abs(s) <= np.sqrt(0.5))
        weight[cut], at[cut] = _clipped(polygon, grid, crossed, cut // _PARTS**2, at[cut])
    weight = weight / _PARTS**2
    at, weight = at[weight > 0], weight[weight > 0]
    base = np.floor(at).astype(np.intp)
    taps = _cubic(at - base)
    for i in range(4):
        for j in range(4):
            index = (
                (base[:, 0] + i - 1) % grid.shape[0],
                (base[:, 1] + j - 1) % grid.shape[1],
            )
            np.add.at(spread, index, weight * taps[i][:, 0] * taps[j][:, 1])


def _straight(s: Array, at: Array) -> tuple[Array, Array]:
    """Return the shares of parts inside a region, and their centres of mass.

    The boundary is taken for straight. Of each part there are its middle, in cells of the grid, and
    the signed distance there, in parts.
    """
    slopes = np.gradient(s.reshape(-1, _PARTS, _PARTS), axis=(1, 2))
    slope = np.stack(slopes, axis=-1).reshape(-1, 2)
    share = _share_inside(s, np.abs(slope[:, 0]), np.abs(slope[:, 1]))
    # Its centre of mass: exact for cuts along an axis, within 1/5 of a part for others.
    inwards = slope / np.maximum(np.linalg.norm(slope, axis=1, keepdims=True), _FLAT)
    return share, at + (1 - share[:, None]) / (2 * _PARTS) * inwards


def _clipped(
    polygon: Any, grid: RasterGrid, cells: Array, home: NDArray[np.intp], middle: Array
) -> tuple[Array, Array]:
    """Return the same for parts of cells and a polygon, exactly.

    `home` is each part's index among the cells, and `middle` its middle, in cells of the grid.
    """
    import shapely

    def squares(shapes: Any, middle: Array, size: float) -> Any:
        ends = (grid.cell * (middle + side * size / 2) + grid.origin for side in (-1, 1))
        return _cut(shapes, *ends)

    # Of a polygon with many corners few are in a block of cells.
    blocks, block = np.unique(cells // _ACROSS, axis=0, return_inverse=True)
    inside = squares(polygon, blocks * _ACROSS + (_ACROSS - 1) / 2, _ACROSS)
    inside = squares(inside[block.ravel()], cells, 1.0)
    inside = squares(inside[home], middle, 1 / _PARTS)
    share = shapely.area(inside) * (_PARTS / grid.cell) ** 2
    held, at = share > 0, middle.copy()
    at[held] = (shapely.get_coordinates(shapely.centroid(inside[held])) - grid.origin) / grid.cell
    return share, at


def _cut(shapes: Any, low: Array, high: Array) -> Any:
    """Return what of shapes is in rectangles between two corners each."""
    import shapely

    inside = shapely.intersection(shapes, shapely.box(*low.T, *high.T))
    # Sides that meet may leave a line beside an area, which GEOS of old does not cut again.
    mixed = shapely.get_type_id(inside) == shapely.GeometryType.GEOMETRYCOLLECTION
    return np.where(mixed, shapely.buffer(np.where(mixed, inside, None), 0.0), inside)


def _share_inside(s: Array, rise: Array, climb: Array) -> Array:
    """Return the part of a unit square where a linear function is positive.

    It is s at the centre, with slopes ≥ 0 along both axes.
    """
    a, b = np.maximum(rise, _FLAT) / 2, np.maximum(climb, _FLAT) / 2
    # The second antiderivative of a step, differenced along both axes.
    corners = [(s + i * a + j * b, i * j) for i in (1, -1) for j in (1, -1)]
    total = sum(sign * np.square(np.maximum(value, 0)) for value, sign in corners)
    return np.asarray(np.clip(total / (8 * a * b), 0, 1))


def _cubic(t: Array) -> list[Array]:
    """Return the four weights of the cubic B-spline at the fraction t of a cell."""
    u = 1 - t
    return [
        u**3 / 6,
        (4 - 6 * t**2 + 3 * t**3) / 6,
        (4 - 6 * u**2 + 3 * u**3) / 6,
        t**3 / 6,
    ]


class GridFunction:
    """A smooth function on a grid, interpolated by quintic splines, and 0 beyond the grid."""

    def __init__(self, grid: RasterGrid, spectrum: Spectrum) -> None:
        self._grid = grid
        kx, ky = (np.cos(k * grid.cell) for k in grid.frequencies())
        # The transform of the quintic B-spline: (66 + 52 cos ω + 2 cos 2ω)/120.
        spline = [(64 + 52 * cosine + 4 * cosine**2) / 120 for cosine in (kx, ky)]
        self._coefficients = grid.inverse(spectrum / (spline[0] * spline[1]))

    def __call__(self, points: Array) -> Array:
        """Return the function at points (..., 2)."""
        from scipy.ndimage import map_coordinates

        at = (points.reshape(-1, 2) - np.asarray(self._grid.origin)) / self._grid.cell
        coordinates = np.clip(at, -10, np.add(self._grid.shape, 10)).T
        values = map_coordinates(
            self._coefficients, coordinates, order=5, mode="constant", prefilter=False
        )
        return np.asarray(values).reshape(points.shape[:-1])
