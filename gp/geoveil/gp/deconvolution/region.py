"""Regions of the plane with an edge smooth enough for the noise to be undone [MATH §5.2]."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from geoveil.gp import validation
from geoveil.gp.arrays import Array, ArrayLike, np
from geoveil.gp.deconvolution.base import PointEstimator, point_estimator
from geoveil.gp.deconvolution.raster import GridFunction, RasterGrid, Spectrum, region_spectrum
from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.limits import Limits
from geoveil.gp.queries.base import Query
from geoveil.gp.queries.indicator import Disc, SoftIndicator
from geoveil.gp.queries.polygon import Polygon, geometry
from geoveil.gp.report_moments import ReportMoments

Bounds = tuple[float, float, float, float]

_CELLS_PER_BANDWIDTH = 8
_LEAST_AREA = 0.008
"""The least area of a region, in multiples of h², that of a disc of radius h/20: of that disc f is
off by up to a fortieth of its greatest value, of smaller ones by more."""
_REGION = (
    "a soft indicator in two dimensions, what Polygon takes, or a callable that returns the signed"
    " distances of points (n, 2) to its boundary, shape (n,), positive inside"
)


@dataclass(frozen=True)
class SmoothedRegion:
    """f: the indicator of a region of the plane, convolved with a Gaussian of deviation h.

    f(x) is the probability that x, moved by a Gaussian, lies inside. It is smooth in every
    direction, corners included, so that planar Laplace noise can be undone. Cells of h/8 rasterise
    the region, and 8 × 8 parts of them its boundary: f, and the mean of its estimator, are off by
    less than 1e-7 for polygons, 1e-6 if dozens of strips lie within h. For other regions they are
    by less than 1e-6 at straight edges, by 3e-5 at right corners and small discs, and by up to
    0.003 at what is narrower than h/40.

    Args:
        region: what is inside: a soft indicator in two dimensions (where its signed distance is
            positive); what `Polygon` takes; or a callable: signed distances of points (n, 2), shape
            (n,), 1-Lipschitz, positive inside.
        bandwidth: h > 0, in the unit of the points.
        bounds: (x₀, y₀, x₁, y₁), in the same unit; the region ends there. Discs and polygons have
            their own.

    Raises:
        ParameterError: if the bandwidth is not positive, the bounds are missing or out of order, or
            the region is none of these.

    Example:
        >>> from geoveil.gp import Disc, GeoPrivacy, PlanarLaplace
        >>> q = SmoothedRegion(Disc((0.0, 0.0), radius=1000.0, width=100.0), bandwidth=400.0)
        >>> q.value([[0.0, 0.0], [1000.0, 0.0]]).round(4).tolist()
        [0.9561, 0.4184]
        >>> estimator = PlanarLaplace(GeoPrivacy(1.0, per=200.0)).estimator(q, debias=True)
        >>> estimator.value([[900.0, 0.0], [1500.0, 700.0]]).round(3).tolist()
        [0.593, -0.01]
    """

    region: Any
    bandwidth: float
    bounds: Bounds | None = None
    _shape: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bandwidth", validation.positive("bandwidth", self.bandwidth))
        shape = _shape_of(self.region)
        given = _bounds_of(shape) if self.bounds is None else self.bounds
        if given is None:
            raise ParameterError("bounds", None, "(x0, y0, x1, y1), as this region has none")
        bounds = validation.numbers("bounds", given)
        if len(bounds) != 4 or not (bounds[0] < bounds[2] and bounds[1] < bounds[3]):
            raise ParameterError("bounds", self.bounds, "(x0, y0, x1, y1), x0 < x1 and y0 < y1")
        object.__setattr__(self, "bounds", bounds)
        object.__setattr__(self, "_shape", shape)

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point: 2."""
        return 2

    def signed_distance(self, points: ArrayLike) -> Array:
        """Return a signed distance to the region within its bounds, for points (n, 2)."""
        at = validation.points(points, 2)
        s = self._checked(at)
        assert self.bounds is not None
        x0, y0, x1, y1 = self.bounds
        x, y = at[..., 0], at[..., 1]
        return np.asarray(np.minimum.reduce([s, x - x0, x1 - x, y - y0, y1 - y]))

    def value(self, x: ArrayLike) -> Array:
        """Return f(x) at points (n, 2).

        Raises:
            PrivateValueError: if a coordinate is not finite or the shape does not fit.
        """
        return self._field(validation.points(x, 2))

    @cached_property
    def _field(self) -> GridFunction:
        grid = self.grid(0.0)
        return GridFunction(grid, self.spectrum(grid))

    def grid(self, scale: float) -> RasterGrid:
        """Return the grid for a noise scale b ≥ 0.

        Its margin is 12h + 20b. Beyond, g and the chance that noise brings a point back to the
        region have fallen by e^{−20}, and are taken for 0.
        """
        margin = 12 * self.bandwidth + 20 * scale
        assert self.bounds is not None
        return RasterGrid.around(self.bounds, self.bandwidth / _CELLS_PER_BANDWIDTH, margin)

    def spectrum(self, grid: RasterGrid) -> Spectrum:
        """Return the Fourier transform of f on the frequencies of a grid."""
        kx, ky = (k * self.bandwidth for k in grid.frequencies())
        bell = np.exp(-kx * kx / 2) * np.exp(-ky * ky / 2)
        assert self.bounds is not None
        polygon = geometry(self._shape.region) if isinstance(self._shape, Polygon) else None
        spectrum = region_spectrum(self.signed_distance, self.bounds, grid, polygon)
        return np.asarray(spectrum * bell)

    def _checked(self, at: Array) -> Array:
        shape = self._shape
        soft = isinstance(shape, SoftIndicator)
        returned = np.asarray(shape.signed_distance(at) if soft else shape(at))
        s = validation.float_array(returned)
        if s is None or returned.dtype == bool or s.shape != at.shape[:-1] or np.isnan(s).any():
            raise ParameterError("region", self.region, _REGION)
        return s


class RegionEstimator(PointEstimator):
    """A smoothed region, debiased or not.

    The variance is E[g²] − mean², all by the fast Fourier transform: g² times the transform of the
    noise. Its absolute error is about 1e-5 of its largest value, or twice the relative error of f
    if that is more, as for small regions that are no polygons.

    Raises:
        UnsupportedError: if the raster would be too large, or the region is smaller than it tells.
    """

    def __init__(self, query: SmoothedRegion, scale: float, debias: bool) -> None:
        super().__init__(2, scale, debias)
        self.query = query
        self._grid = query.grid(scale)
        self._smooth = query.spectrum(self._grid)
        least = _LEAST_AREA * query.bandwidth**2
        if float(self._smooth[0, 0].real) * self._grid.cell**2 < least:
            raise UnsupportedError(
                f"a bandwidth of {query.bandwidth:,.6g} resolves a region only if its area is at"
                f" least {least:,.6g}: ask for the density at a place in it, or for a larger one"
            )
        kx, ky = (k * scale for k in self._grid.frequencies())
        self._noise = (1 + kx * kx + ky * ky) ** -1.5
        self._g = GridFunction(self._grid, self._spectrum)

    @property
    def _spectrum(self) -> Spectrum:
        return np.asarray(self._smooth / self._noise if self.debias else self._smooth)

    @property
    def _average(self) -> Spectrum:
        """The transform of the mean over the noise."""
        return np.asarray(self._smooth if self.debias else self._smooth * self._noise)

    @property
    def limits(self) -> Limits:
        return self._limits

    @cached_property
    def _limits(self) -> Limits:
        low, high = self._ends(self._spectrum)
        return Limits((low, max(high, 1.0)), (0.0, 1.0), lambda: self._moments)

    @cached_property
    def _moments(self) -> ReportMoments:
        return self._grid.law(self._spectrum, self._noise)

    @property
    def variance_limits(self) -> tuple[float, float] | None:
        return self._variance_limits if self.debias else None

    @cached_property
    def _variance_limits(self) -> tuple[float, float]:
        return self._ends(self._variance_spectrum)

    def _ends(self, spectrum: Spectrum) -> tuple[float, float]:
        """Return the range of a function at and between the nodes; it is 0 beyond the grid."""
        values = self._grid.inverse(spectrum)
        off = self._grid.off_nodes(values, spectrum)
        return min(float((values - off).min()), 0.0), max(float((values + off).max()), 0.0)

    def _value(self, points: Array) -> Array:
        return self._g(points)

    def _mean(self, x: Array) -> Array:
        return self._means(x)

    def _variance(self, x: Array) -> Array:
        return np.maximum(self._variances(x), 0.0)

    def _estimated_variance(self, points: Array) -> Array:
        if not self.debias:
            return super()._estimated_variance(points)
        return self._variance_estimates(points)

    @cached_property
    def _variance_estimates(self) -> GridFunction:
        return GridFunction(self._grid, self._variance_spectrum)

    @cached_property
    def _variance_spectrum(self) -> Spectrum:
        """The transform of g² minus the debiased form of f²."""
        return np.asarray(self._squared(self._spectrum) - self._squared(self._smooth) / self._noise)

    def _squared(self, spectrum: Spectrum) -> Spectrum:
        """Return the transform of the square of a function."""
        return self._grid.transform(self._grid.inverse(spectrum) ** 2)

    @cached_property
    def _means(self) -> GridFunction:
        return GridFunction(self._grid, self._average)

    @cached_property
    def _variances(self) -> GridFunction:
        second = self._squared(self._spectrum) * self._noise
        return GridFunction(self._grid, second - self._squared(self._average))


point_estimator.register(SmoothedRegion, RegionEstimator)


def _shape_of(region: Any) -> Any:
    """Return a soft indicator, or the signed distance as a function."""
    if callable(region) or (isinstance(region, SoftIndicator) and region.dimension == 2):
        return region
    if isinstance(region, Query):
        raise ParameterError("region", region, _REGION)
    return Polygon(region, width=1.0)  # refuses what is none


def _bounds_of(shape: object) -> Bounds | None:
    """Return the bounds of a disc or polygon; None of others."""
    if isinstance(shape, Disc):
        (x, y), r = shape.center, shape.radius
        return x - r, y - r, x + r, y + r
    return geometry(shape.region).bounds if isinstance(shape, Polygon) else None
