"""Estimators from perturbed numbers, k = 1: g = f − b²f'' [MATH §5.1, §5.2].

A threshold, a kernel and a radial query that is smooth through its centre are a profile of x − T. A
range is the sum of two, less 1: where one varies, the other is 1.
"""

from __future__ import annotations

from dataclasses import replace

from geoveil.gp._convolution import laplace_expectation, laplace_variance
from geoveil.gp.arrays import Array, np
from geoveil.gp.deconvolution.base import PlugIn, PointEstimator, any_query, point_estimator
from geoveil.gp.errors import UnsupportedError
from geoveil.gp.limits import Limits
from geoveil.gp.queries.indicator import Range, Threshold
from geoveil.gp.queries.profiles import Profile
from geoveil.gp.queries.projected import Linear, Radial
from geoveil.gp.report_laws import greatest_estimated_variance, law_of_profile, law_of_range
from geoveil.gp.report_moments import ReportMoments


class ProfileEstimator(PointEstimator):
    """A profile φ of s = ±x − offset, debiased or not.

    `sign` is 1 or −1, that of x in s. Lengths are in the unit of x.

    Raises:
        UnsupportedError: if φ has a slope that jumps and `debias` is set.
    """

    def __init__(
        self, profile: Profile, offset: float, scale: float, debias: bool, sign: float = 1.0
    ) -> None:
        super().__init__(1, scale, debias)
        if debias:
            profile.debiased_range(scale)  # refuses where there is no form
        self.profile = profile
        self.offset = offset
        self.sign = sign

    @property
    def limits(self) -> Limits:
        ends = self.profile.debiased_range(self.debias_scale)
        return Limits(ends, self.profile.bounds, self._moments)

    def _moments(self) -> ReportMoments:
        return law_of_profile(self.profile, self.scale, self.debias_scale)

    @property
    def variance_limits(self) -> tuple[float, float] | None:
        if not self.debias:
            return None
        return 0.0, greatest_estimated_variance(self.profile, self.scale)

    def _value(self, points: Array) -> Array:
        return self._function(self._distance(points))

    def _estimated_variance(self, points: Array) -> Array:
        if not self.debias:
            return super()._estimated_variance(points)
        return np.asarray(self.profile.estimated_variance(self._distance(points), self.scale))

    def _distance(self, x: Array) -> Array:
        return np.asarray((x if self.sign > 0 else -x) - self.offset)

    def _function(self, s: Array) -> Array:
        return np.asarray(self.profile.debiased(s, self.debias_scale))

    def _mean(self, x: Array) -> Array:
        if self.debias:
            return np.asarray(self.profile.value(self._distance(x)))
        return laplace_expectation(
            self._function,
            self._distance(x),
            self.scale,
            panels=self.profile.panels(0.0),
            limits=self.profile.limits,
        )

    def _variance(self, x: Array) -> Array:
        return laplace_variance(self.profile, self._distance(x), self.scale, self.debias_scale)


class RangeEstimator(PointEstimator):
    """A range as two thresholds: above the low end and not above the high end."""

    def __init__(self, query: Range, scale: float, debias: bool) -> None:
        super().__init__(1, scale, debias)
        self.query = query
        self._low = ProfileEstimator(query.profile, query.low, scale, debias)
        self._high = ProfileEstimator(query.profile, -query.high, scale, debias, sign=-1.0)

    @property
    def ends(self) -> tuple[ProfileEstimator, ProfileEstimator]:
        """The estimators of values above the low end, and of values not above the high end."""
        return self._low, self._high

    @property
    def limits(self) -> Limits:
        # Where one of the two varies, the other is 1.
        return replace(self._low.limits, moments=self._moments)

    def _moments(self) -> ReportMoments:
        query = self.query
        return law_of_range(query.profile, query.high - query.low, self.scale, self.debias_scale)

    @property
    def variance_limits(self) -> tuple[float, float] | None:
        return self._low.variance_limits

    def _value(self, points: Array) -> Array:
        return self._low._value(points) + (self._high._value(points) - 1)

    def _estimated_variance(self, points: Array) -> Array:
        return self._low._estimated_variance(points) + self._high._estimated_variance(points)

    def _mean(self, x: Array) -> Array:
        return self._low._mean(x) + (self._high._mean(x) - 1)

    def _variance(self, x: Array) -> Array:
        """Return the variance of the sum; the covariance is −(1 − E g_low)(1 − E g_high)."""
        covariance = -(1 - self._low._mean(x)) * (1 - self._high._mean(x))
        total = self._low._variance(x) + self._high._variance(x) + 2 * covariance
        return np.asarray(np.maximum(total, 0.0))


point_estimator.register(Range, RangeEstimator)


@point_estimator.register
def _(query: Threshold, scale: float, debias: bool) -> PointEstimator:
    return ProfileEstimator(query.profile, query.at, scale, debias)


@point_estimator.register
def _(query: Linear, scale: float, debias: bool) -> PointEstimator:
    if query.dimension > 1:
        return any_query(query, scale, debias)
    sign = float(np.sign(query.direction[0]))
    return ProfileEstimator(query.profile, query.offset, scale, debias, sign)


def radial_on_the_line(query: Radial, scale: float, debias: bool) -> PointEstimator:
    """Return the estimator of φ(|x − c|) for k = 1; debiasing needs φ(|s|) without a corner."""
    if _is_even(query.profile, scale if debias else 0.0):
        return ProfileEstimator(query.profile, query.center[0], scale, debias)
    if debias:
        raise UnsupportedError(
            f"{query!r} has no bounded debiased form, because its slope jumps at the centre: use"
            " DebiasedLaplace on the query, or a profile that is flat there"
        )
    return PlugIn(query, scale)


def _is_even(profile: Profile, b: float) -> bool:
    """Return whether φ(−s) = φ(s) and, for b > 0, φ' is continuous at 0, so that g is even too."""
    profile.debiased_range(b)  # refuses where there is no form
    s = profile.length_scale * np.array([1e-4, 1e-2, 0.2, 1.0])
    return all(
        np.allclose(profile.debiased(-s, c), profile.debiased(s, c), rtol=1e-9, atol=1e-12)
        for c in {0.0, b}
    )
