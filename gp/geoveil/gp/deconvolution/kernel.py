"""Estimators of the Gaussian kernel from perturbed points, in any dimension [MATH §5.2].

Lengths are in bandwidths, c = b/h. Expectations are integrals over a noise radius s ~ Gamma(k, c)
and an angle, in polar coordinates around the true point, of smooth and positive functions: so they
are accurate relative to themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from geoveil.gp._convolution import gauss_legendre
from geoveil.gp.arrays import Array, np
from geoveil.gp.deconvolution.base import PointEstimator, any_query, point_estimator
from geoveil.gp.deconvolution.line import ProfileEstimator, radial_on_the_line
from geoveil.gp.deconvolution.raster import RasterGrid
from geoveil.gp.errors import UnsupportedError
from geoveil.gp.limits import Limits
from geoveil.gp.queries.profiles import Gaussian
from geoveil.gp.queries.projected import GaussianKernel, Radial
from geoveil.gp.report_laws import law_in_boxes
from geoveil.gp.report_moments import ReportMoments

_GHOSTS = 2
_BLOCK = 2**15
"""Points interpolated at once, few enough for the cache."""


class InterpolationTable:
    """An even function of r ≤ reach, cubic between nodes that are equidistant in asinh(r/near).

    The interpolant is the cubic Hermite, slopes by the central difference of fourth order; its
    error is about Δ⁴/384 times the fourth derivative in asinh, Δ = `step`. The function varies over
    `near` next to 0; farther out nodes are sparse.
    """

    def __init__(
        self, function: Callable[[Array], Array], near: float, reach: float, step: float
    ) -> None:
        self._near = near
        self._step = step
        self.reach = reach
        self._last = int(np.ceil(np.arcsinh(reach / near) / step))
        nodes = near * np.sinh(step * np.arange(self._last + 1 + _GHOSTS))
        right = function(nodes)
        value = np.concatenate([right[_GHOSTS:0:-1], right])  # even
        slope = (8 * (value[3:-1] - value[1:-3]) - (value[4:] - value[:-4])) / 12
        value = value[_GHOSTS:-_GHOSTS]
        rise = np.diff(value)
        self._coefficients = np.stack(
            [
                value[:-1],
                slope[:-1],
                3 * rise - 2 * slope[:-1] - slope[1:],
                slope[:-1] + slope[1:] - 2 * rise,
            ],
            axis=1,
        )

    def __call__(self, r: Array, beyond: float) -> Array:
        """Return the function at r ≥ 0, and `beyond` where r exceeds the reach."""
        flat = np.ravel(r)
        result = np.empty_like(flat)
        for start in range(0, flat.size, _BLOCK):
            at = flat[start : start + _BLOCK]
            t = np.arcsinh(at / self._near) / self._step
            cell = np.minimum(t, self._last - 1).astype(np.intp)
            t -= cell
            c = self._coefficients.take(cell, axis=0)  # faster than an index by far
            value = c[:, 0] + t * (c[:, 1] + t * (c[:, 2] + t * c[:, 3]))
            result[start : start + _BLOCK] = np.where(at > self.reach, beyond, value)
        return result.reshape(np.shape(r))


TABLE_ERROR = 1e-12
"""Bound on the error of `debiased_bell` for even k, relative to its value at the centre."""
_BELL_STEP = 2.0**-10
_MIXTURE_BLOCK = 4096


def debiased_bell(r: Array, c: float, dimension: int) -> Array:
    """Return g at distances r ≥ 0 from the centre, for the noise scale c > 0, both in bandwidths.

    Closed form for odd dimensions. For even ones a table, made once for each (c, k), with an error
    of at most `TABLE_ERROR` times g(0).
    """
    if dimension % 2:
        return _mixed(np.asarray(r * r / 2), (dimension + 1) // 2, dimension, c)
    return _bell_table(c, dimension)(r, 0.0)


def reach(c: float) -> float:
    """Return the distance, in bandwidths, beyond which g is below e^{−36} of its height.

    In the mixture v² + r²/2σ² is at least r/c − 1/(2c²) for rc ≥ 1, and r²/2 for rc < 1.
    """
    return max(12.0, 36 * c + 1 / (2 * c)) if c > 1 / 12 else 12.0


def bell_by_mixture(r: Array, c: float, dimension: int) -> Array:
    """Return g for even k without a table, to about 1e-15 of g(0)."""
    v, weight = _mixture(c)
    variance = 1 + 2 * (c * v) ** 2
    weight = weight * variance ** (-dimension / 2)
    flat = np.ravel(r)
    result = np.empty_like(flat)
    for start in range(0, flat.size, _MIXTURE_BLOCK):
        block = flat[start : start + _MIXTURE_BLOCK, None]
        q = block * block / (2 * variance)
        bells = _mixed(q, dimension // 2 + 1, dimension, c / np.sqrt(variance))
        result[start : start + _MIXTURE_BLOCK] = bells @ weight
    return np.asarray(result.reshape(np.shape(r)))


def _mixed(q: Array, power: int, dimension: int, c: float | Array) -> Array:
    """Return e^{−q} Σ_n C(m, n) n! (2c²)ⁿ L_n^{(k/2−1)}(q), m = `power`."""
    alpha = dimension / 2 - 1
    before, laguerre = np.zeros_like(q), np.ones_like(q)
    total = np.ones_like(q)
    factor: float | Array = 1.0
    for n in range(power):
        # (n+1) L_{n+1} = (2n + 1 + α − q) L_n − (n + α) L_{n−1}
        step = ((2 * n + 1 + alpha - q) * laguerre - (n + alpha) * before) / (n + 1)
        before, laguerre = laguerre, step
        factor = factor * (2 * (power - n) * c * c)  # C(m, n) n! = m!/(m − n)!
        total = total + factor * laguerre
    return np.asarray(np.exp(-q) * total)


def _mixture(c: float) -> tuple[Array, Array]:
    """Return nodes v ≥ 0 and weights of (2/√π) ∫₀^∞ e^{−v²} F(1 + 2c²v²) dv.

    F is analytic in a strip of half-width 0.7 around the real line for c ≤ 1. For c > 1 the
    variable y with √2 cv = sinh y, σ = cosh y, has one of π/4. The rule counts v = 0 half.
    """
    step, last = 1 / 12, 6.5
    end = last if c <= 1 else math.asinh(math.sqrt(2) * c * last)
    y = step * np.arange(int(end / step) + 1, dtype=np.float64)
    v, slope = np.asarray(y), np.ones_like(y)
    if c > 1:
        v, slope = np.sinh(y) / (math.sqrt(2) * c), np.cosh(y) / (math.sqrt(2) * c)
    weight = 2 / math.sqrt(math.pi) * step * np.exp(-v * v) * slope
    weight[0] /= 2
    return np.asarray(v), weight


@lru_cache(maxsize=32)
def _bell_table(c: float, dimension: int) -> InterpolationTable:
    return InterpolationTable(lambda r: bell_by_mixture(r, c, dimension), 1.0, reach(c), _BELL_STEP)


_FADE = 40.0
"""Parts of the integrand below e^{−40} of its largest are left out."""
_CELLS = 50_000
"""Nodes at a time: few enough for the cache of a processor."""


def planar_expectation(
    function: Callable[[Array, Array], Array], r: Array, c: float, dimension: int
) -> Array:
    """Return E[function(|x + N|, r)] for |x| = r, (n,), accurate to about 1e-7 of a positive one.

    The function of the distance ρ and of r, broadcast together, is analytic in ρ², and far from the
    centre of the order of e^{−ρ²/2} or e^{−ρ/c}; for c < 1 a constant may be added. Distances r and
    the noise scale c are in units of the length over which it varies; k = `dimension` ≥ 2.
    """
    (radii_at, radius_weights), (angles, angle_weights) = gauss_legendre(8), gauss_legendre(40)
    phi = math.pi / 2 * (1 + angles)
    tangent = np.tan(phi / 2)
    norm = math.gamma(dimension / 2) / (math.sqrt(math.pi) * math.gamma((dimension - 1) / 2))
    result = np.empty_like(r)
    radii = _edges(r[:1], c).shape[1] * radii_at.size if r.size else 1
    block = max(1, _CELLS // (radii * phi.size))
    for start in range(0, r.size, block):
        at = r[start : start + block, None]
        edges = _edges(at[:, 0], c)
        half = np.diff(edges, axis=1)[..., None] / 2
        s = (edges[:, :-1, None] + half * (1 + radii_at)).reshape(at.size, -1)
        density = (s / c) ** (dimension - 1) * np.exp(-s / c) / (math.gamma(dimension) * c)
        weight = density * (half * radius_weights).reshape(s.shape)
        # tan(θ/2) = λ tan(φ/2) spreads the arc near the centre over all φ.
        product = at * s
        narrow = 1 / np.sqrt(np.maximum(1.0, product))[..., None]
        square = (narrow * tangent) ** 2
        sine2 = square / (1 + square)  # sin²(θ/2)
        rho = np.sqrt((at - s)[..., None] ** 2 + 4 * product[..., None] * sine2)
        jacobian = narrow * (1 + tangent**2) / (1 + square)
        sine = 2 * np.sqrt(sine2 * (1 - sine2)) if dimension > 2 else np.ones_like(sine2)
        around = norm * math.pi / 2 * jacobian * sine ** (dimension - 2) * angle_weights
        inner = np.sum(function(rho, at[..., None]) * around, axis=-1)
        result[start : start + block] = np.sum(inner * weight, axis=1)
    return result


def _edges(r: Array, c: float) -> Array:
    """Return increasing edges of panels in s, graded around s = 0, s = r and s = r − 1/(2c).

    The noise, the function and their product are large around these. Beyond the last edge the noise
    or the product is below e^{−40} of its largest.
    """
    steps, width = [0.0], 0.4
    while steps[-1] < _FADE * c + 16:
        steps.append(steps[-1] + width)
        width = max(width, 0.4 * steps[-1])
    around = np.asarray(steps)
    noise = c * np.array([0.0, 0.25, 0.5, 1, 2, 3, 4.5, 6, 8, 11, 14, 18, 23, 30, _FADE])
    bulk = np.maximum(r - 1 / (2 * c), 0)[:, None]
    edges = np.concatenate(
        [
            r[:, None] - around,
            r[:, None] + around,
            bulk + 0.8 * np.arange(-8.0, 9.0),
            np.broadcast_to(noise, (r.size, noise.size)),
        ],
        axis=1,
    )
    last = np.maximum(_FADE * c, bulk + 9 + _FADE / 2.5 * c)
    return np.asarray(np.sort(np.clip(edges, 0.0, last), axis=1))


_NOISIEST = 1000.0
"""Noise scale in bandwidths beyond which the variance for k = 2 exceeds 10¹²."""
_FARTHEST = 100.0
_STEP = 1 / 80
_MEANS = 0.0, 1.0
_NARROW = 3.0
"""Noise scale in bandwidths up to which moments for a bell are computed on a raster."""
_SURE, _ROUNDING = 1.25, 1e-7
"""Bound of second differences, as a multiple of those at nearby distances; fraction of the largest
moment below which moments count as 0."""
_DISTANCES = 161
"""Number of distances for moments of reports, equidistant in the inverse of sinh."""


class KernelEstimator(PointEstimator):
    """A Gaussian kernel in k ≥ 2 dimensions, debiased or not.

    The variance is a quadrature, tabulated at its first use (about a second). For b from 10⁻⁵
    bandwidths it is accurate to 1e-6 of itself within 100 noise scales of the centre; beyond, where
    it is negligible, it is 0.

    Raises:
        UnsupportedError: if b exceeds 1000 bandwidths.
    """

    def __init__(self, query: GaussianKernel, scale: float, debias: bool) -> None:
        super().__init__(query.dimension, scale, debias)
        self.query = query
        self._c = scale / query.bandwidth
        if self._c > _NOISIEST:
            raise UnsupportedError(
                f"the noise has {self._c:.3g} times the bandwidth of {query!r}; beyond"
                f" {_NOISIEST:g} times no number of points gives an estimate: widen the kernel"
            )

    def at(self, r: Array) -> Array:
        """Return the value at r bandwidths from the centre."""
        return _function(r, self._c, self.dimension, self.debias)

    @property
    def limits(self) -> Limits:
        if not self.debias:
            return Limits(_MEANS, _MEANS, self._moments)
        return Limits(_ends(self._c, self.dimension), _MEANS, self._moments)

    def _moments(self) -> ReportMoments:
        return _report_moments(self._c, self.dimension, self.debias)

    def variance_at(self, r: Array) -> Array:
        """Return the estimated variance at r bandwidths from the centre, if it is debiased."""
        return _estimated_variance(r, self._c, self.dimension)

    @property
    def variance_limits(self) -> tuple[float, float] | None:
        return _variance_ends(self._c, self.dimension) if self.debias else None

    def _value(self, points: Array) -> Array:
        return self.at(self._distance(points))

    def _estimated_variance(self, points: Array) -> Array:
        if not self.debias:
            return super()._estimated_variance(points)
        return self.variance_at(self._distance(points))

    def _distance(self, x: Array) -> Array:
        return np.asarray(self.query.signed_distance(x)) / self.query.bandwidth

    def _mean(self, x: Array) -> Array:
        if self.debias:
            return self.query.value(x)
        return _mean(self._distance(x), self._c, self.dimension, self.debias)

    def _variance(self, x: Array) -> Array:
        table = _log_variance(self._c, self.dimension, self.debias)
        return np.asarray(np.exp(table(self._distance(x), -np.inf)))


@lru_cache(maxsize=32)
def _ends(c: float, dimension: int) -> tuple[float, float]:
    """Return the least and the greatest g, to 1e-6; it is greatest at the centre."""
    g = debiased_bell(_everywhere(c), c, dimension)
    return float(g.min()), float(g.max())


@lru_cache(maxsize=32)
def _variance_ends(c: float, dimension: int) -> tuple[float, float]:
    """Return the least and the greatest estimated variance, to 1e-6 of the greatest."""
    h = _estimated_variance(_everywhere(c), c, dimension)
    return min(float(h.min()), 0.0), float(h.max())


def _everywhere(c: float) -> Array:
    """Return distances that are dense where g varies, for any extent of g."""
    return np.asarray(np.sinh(np.linspace(0.0, math.asinh(reach(c)), 1 << 14)))


def _estimated_variance(r: Array, c: float, dimension: int) -> Array:
    """Return g² minus the debiased form of f², which is a bell of bandwidth h/√2."""
    root = math.sqrt(2)
    square = debiased_bell(root * r, root * c, dimension)
    return np.asarray(np.square(debiased_bell(r, c, dimension)) - square)


@lru_cache(maxsize=32)
def _report_moments(c: float, dimension: int, debias: bool) -> ReportMoments:
    """Return points whose hull contains the moments of values of people at any distance.

    In the plane, except for wide noise, a raster with proved bounds between its nodes; else
    distances between which the moments are measured.
    """
    if dimension == 2 and c <= _NARROW:
        grid = RasterGrid.around((0.0, 0.0, 0.0, 0.0), 1 / 8, 12 + 20 * c)
        square = sum(k * k for k in grid.frequencies())
        bell, noise = 2 * math.pi / grid.cell**2 * np.exp(-square / 2), (1 + c * c * square) ** -1.5
        return grid.law((bell / noise if debias else bell).astype(np.complex128), noise)
    t = np.linspace(0.0, math.asinh(6.0 + _FADE * c), _DISTANCES)

    def power(k: int) -> Callable[[Array, Array], Array]:
        return lambda rho, _: _function(rho, c, dimension, debias) ** k

    powers = np.array([planar_expectation(power(k), np.sinh(t), c, dimension) for k in (1, 2, 3)])
    bends = np.abs(np.diff(powers[:, np.r_[1, : len(t), -1]], 2)) * (_SURE / 8)
    bends = np.maximum(bends, np.maximum(np.roll(bends, 1, 1), np.roll(bends, -1, 1)))
    return law_in_boxes(powers, bends + _ROUNDING * np.abs(powers).max(axis=1, keepdims=True))


def _function(r: Array, c: float, dimension: int, debias: bool) -> Array:
    """Return g, or f, at r bandwidths from the centre."""
    return debiased_bell(r, c, dimension) if debias else np.asarray(np.exp(-r * r / 2))


def _mean(r: Array, c: float, dimension: int, debias: bool) -> Array:
    if debias:
        return np.asarray(np.exp(-r * r / 2))
    return np.asarray(np.exp(_log_mean(c, dimension)(r, -np.inf)))


@lru_cache(maxsize=16)
def _log_mean(c: float, dimension: int) -> InterpolationTable:

    def mean(r: Array) -> Array:
        return np.log(planar_expectation(lambda rho, _: np.exp(-rho * rho / 2), r, c, dimension))

    return InterpolationTable(mean, min(1.0, c), _FARTHEST * c + 13, _STEP)


@lru_cache(maxsize=16)
def _log_variance(c: float, dimension: int, debias: bool) -> InterpolationTable:
    """Return the logarithm of the variance.

    For narrow noise E[g²] − mean² would cancel: moments are then taken about the mean.
    """

    def square(rho: Array, r: Array) -> Array:
        g = _function(rho, c, dimension, debias)
        return np.square(g - _mean(r, c, dimension, debias) if c < 1 else g)

    def variance(r: Array) -> Array:
        second = planar_expectation(square, r, c, dimension)
        return np.log(second - (_mean(r, c, dimension, debias) ** 2 if c >= 1 else 0))

    return InterpolationTable(variance, min(1.0, c), _FARTHEST * c + 13, _STEP)


@point_estimator.register
def _(query: GaussianKernel, scale: float, debias: bool) -> PointEstimator:
    if query.dimension == 1:
        return ProfileEstimator(query.profile, query.center[0], scale, debias)
    return KernelEstimator(query, scale, debias)


@point_estimator.register
def _(query: Radial, scale: float, debias: bool) -> PointEstimator:
    if query.dimension == 1:
        return radial_on_the_line(query, scale, debias)
    if isinstance(query.profile, Gaussian):
        return KernelEstimator(GaussianKernel(query.center, query.profile.bandwidth), scale, debias)
    return any_query(query, scale, debias)
