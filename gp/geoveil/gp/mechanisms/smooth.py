"""Noise scaled to a smooth bound of the slope at the person's own point [SGP §3; MATH §3, §4]."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from types import MappingProxyType

from geoveil.gp import validation
from geoveil.gp.arithmetic import Arithmetic, Real
from geoveil.gp.errors import ParameterError
from geoveil.gp.exact import BALL, BITS, lower, round_down, upper, working_precision
from geoveil.gp.mechanisms.additive import AdditiveMechanism
from geoveil.gp.noise import Noise, best_noise
from geoveil.gp.noise.base import Laplace
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.base import Query
from geoveil.gp.smooth.frontier import CALIBRATIONS, Frontier, default_fraction
from geoveil.gp.smooth.growth import EXPONENTIAL, LINEAR


class SmoothlyScaled:
    """A mechanism that adds (B(x)/η)·Z, B a β-smooth bound of the slope."""

    noise: Noise
    privacy: GeoPrivacy
    frontier: Frontier
    _beta: Fraction
    _eta: Fraction

    @property
    def beta(self) -> float:
        """Smoothness β of the bound, in 1/(unit of x), rounded down."""
        return round_down(self._beta)

    @property
    def eta(self) -> float:
        """η, rounded down: the noise is scaled by B(x)/η; in 1/(unit of x)."""
        return round_down(self._eta)

    def _calibrate(
        self,
        noise: Noise | None,
        beta: float | None,
        calibration: str,
        *,
        default: tuple[float, Callable[[float], Noise]],
        reports: int = 1,
    ) -> None:
        """Set noise, β and η; `default` holds a β/ε, and the best noise for any β/ε."""
        self.calibration = validation.choice("calibration", calibration, CALIBRATIONS)
        if noise is not None and not isinstance(noise, Noise):
            raise ParameterError("noise", noise, "a Noise, for example StudentT(3)")
        most = self.privacy.rate / reports
        if beta is not None:
            each = f" over {reports} queries" if reports > 1 else ""
            expected = f"in (0, {most:g}], at most the rate of {self.privacy}{each}"
            if validation.positive("beta", beta) > most:
                raise ParameterError("beta", beta, expected)
            fraction = min(float(Fraction(float(beta)) / self.privacy.exact_rate), 1.0)
        elif noise is None:
            fraction = default[0]
        else:
            fraction = default_fraction(noise, self.frontier, calibration, reports)
        # Exact numbers, from the double that the noise is made for: B, η and Z fit together.
        self.noise = default[1](fraction) if noise is None else noise
        exact = Fraction(fraction)
        eta = CALIBRATIONS[calibration](self.noise, self.frontier, exact, reports)
        self._beta, self._eta = exact * self.privacy.exact_rate, eta * self.privacy.exact_rate


class BoundedMechanism(SmoothlyScaled, AdditiveMechanism):
    """f(x) + (B(x)/η)·Z, B a smooth bound of the query."""

    privacy: GeoPrivacy

    @property
    def largest_scale(self) -> float:
        """The largest noise scale: L/η."""
        return self.query.lipschitz / self.eta


class SmoothMechanism(BoundedMechanism):
    """M(x) = f(x) + (B(x)/η)·Z, ε-GP and unbiased.

    Args:
        query: f, with its smooth bound B.
        privacy: the guarantee; a mechanism with delta = 0 meets it for every delta and reach.
        noise: the family of Z; by default the one that is provably best for the query's frontier.
        beta: smoothness of B, in 1/(unit of x), in (0, rate/scale_cost of the noise]. By default,
            for the default noise, 0.3 of the rate on the cross frontier and 0.15 on the rectangle;
            for another, the largest that leaves three quarters of the η it could have.
        reach: Λ of the bound: 0, which suffices, or ∞, the seed paper's.
        calibration: "exact", the largest η that the frontier allows, or "paper", the seed's sum
            of two suprema (Student-t and generalized Cauchy only).
        step: see `Mechanism`.

    Raises:
        ParameterError: if a parameter is out of range, beta too large for the noise included.
        UnsupportedError: if the noise can't be private with a data-dependent scale.

    Example:
        >>> from geoveil.gp import GeoPrivacy, Threshold
        >>> m = SmoothMechanism(Threshold(at=100_000, width=16_000), GeoPrivacy(1.0, per=8000.0))
        >>> m.noise
        LaplacePareto(epsilon=1.0, beta=0.3)
        >>> m.variance([100_000, 150_000]).round(6).tolist()
        [0.601256, 0.025765]
    """

    privacy: GeoPrivacy

    def __init__(
        self,
        query: Query,
        privacy: GeoPrivacy,
        *,
        noise: Noise | None = None,
        beta: float | None = None,
        reach: float = 0.0,
        calibration: str = "exact",
        step: float | None = None,
    ) -> None:
        super().__init__(
            query,
            privacy,
            noise=noise,
            beta=beta,
            reach=reach,
            calibration=calibration,
            step=step,
        )
        self.reach = validation.non_negative("reach", reach)
        self.frontier = query.profile.frontier(EXPONENTIAL, self.reach)
        best = self.frontier.default_beta_fraction, partial(best_noise, self.frontier)
        self._calibrate(noise, beta, calibration, default=best)
        self._choose_step(step)

    def _scale(self, s: Real, ops: Arithmetic) -> Real:
        bound = self.query.profile.noise_bound(
            s, self._beta, ops, growth=EXPONENTIAL, reach=self.reach
        )
        return bound / ops.constant(self._eta)


_APPROXIMATE_SHARE = Fraction(1, 4)


class ApproximateLaplace(BoundedMechanism):
    """M(x) = f(x) + (B(x)/η)·Laplace(1): (ε, δ, Λ)-GP and unbiased, with light tails.

    B is a smooth bound for *linear* growth at rate β of the slopes of all chords up to Λ, and
    η = ε − β·c with a tail cost c ≥ 1: c = max(1, log(1/δ)) in the paper [SGP Lemma 3.6], and
    c = max(1, log(1/δ) − gain) exactly, gain = log((1 + k)/k) + log(1 + k)/k, k = βΛ. The gain
    is 0 for Λ = ∞, where the two agree.

    Proof. Let d = |x − x'| ≤ Λ, write b, b' for B(x), B(x') and y = f(x) + (b/η)z. From
    |f(x) − f(x')| ≤ b'd, the privacy loss log p_x(y)/p_x'(y) is at most

        ηd + |z|(r − 1) − log r,   r = b/b' ∈ [1/(1 + βd), 1 + βd].

    For r ≤ 1 this is at most ηd + log(1 + βd) ≤ (η + β)d ≤ εd. For r > 1 it is at most
    ηd + |z|βd, which exceeds εd only if |z| > c: for the paper's c, with probability
    e^{−c} ≤ δ. Exactly: P[M(x) ∈ S] − e^{εd} P[M(x') ∈ S] ≤ E[max(1 − e^{εd − loss}, 0)], and
    with t = r − 1 ≤ βd the loss exceeds εd from |z| = T = ((ε − η)d + log r)/t on, so that the
    expectation is ∫_T^∞ e^{−z}(1 − e^{−(z−T)t})dz = e^{−T}·t/(1 + t). As (ε − η)d ≥ ct, that is
    at most e^{−c}·h(t), h(t) = (1 + t)^{−1/t}·t/(1 + t), which increases to h(k) = e^{−gain};
    so δ suffices for c = log(1/δ) − gain. ∎

    The bound must reach as far as the guarantee: an additive δ does not chain from small steps to
    large ones. With exponential growth r may be e^{βd}, and the guarantee fails.

    Args:
        query: f, with its smooth bound B.
        privacy: the guarantee, with delta > 0; its `reach` is Λ.
        beta: smoothness of B, in 1/(unit of x), in (0, rate/c); by default a quarter of the
            rate/max(1, log(1/δ)). The scale is at most 1/(1 − t) of what is possible where B is
            largest and, where B decays like 1/(βd), 1/(4t(1 − t)), t the share; both are 4/3 at
            t = 1/4, and no share is better for both.
        calibration: "exact" or "paper", see above.
        step: see `Mechanism`.

    Raises:
        ParameterError: if a parameter is out of range; for delta = 0 in particular.

    Example:
        >>> from geoveil.gp import GeoPrivacy, Threshold
        >>> privacy = GeoPrivacy(1.0, per=8000.0, delta=1e-6)
        >>> m = ApproximateLaplace(Threshold(at=100_000, width=16_000), privacy)
        >>> round(m.eta / privacy.rate, 6)
        0.75
        >>> m.variance([100_000, 150_000]).round(6).tolist()
        [0.888889, 0.74134]
    """

    privacy: GeoPrivacy

    def __init__(
        self,
        query: Query,
        privacy: GeoPrivacy,
        *,
        beta: float | None = None,
        calibration: str = "exact",
        step: float | None = None,
    ) -> None:
        super().__init__(query, privacy, beta=beta, calibration=calibration, step=step)
        if privacy.delta == 0:
            raise ParameterError(
                "privacy.delta",
                privacy.delta,
                "a number in (0, 1); for delta = 0 use SmoothMechanism or LipschitzMechanism",
            )
        validation.choice("calibration", calibration, TAIL_COSTS)
        self.calibration = calibration
        self.noise = Laplace()
        self._beta, self._eta = self._calibrated(beta)
        self._choose_step(step)

    def _calibrated(self, beta: float | None) -> tuple[Fraction, Fraction]:
        rate, delta = self.privacy.exact_rate, self.privacy.delta
        if beta is None:
            exact_beta = _APPROXIMATE_SHARE * rate / paper_cost(delta)
        else:
            exact_beta = Fraction(validation.positive("beta", beta))
        cost = TAIL_COSTS[self.calibration](delta, exact_beta, self.privacy.reach)
        eta = rate - exact_beta * cost
        # An η that is next to nothing is noise without end.
        if eta <= rate / 10**9:
            most = float(rate / cost)
            raise ParameterError(
                "beta",
                beta,
                f"in (0, {most:g}), less than the rate of {self.privacy} over {float(cost):g}",
            )
        return exact_beta, eta

    def _scale(self, s: Real, ops: Arithmetic) -> Real:
        bound = self.query.profile.noise_bound(
            s, self._beta, ops, growth=LINEAR, reach=self.privacy.reach
        )
        return bound / ops.constant(self._eta)


def paper_cost(delta: float, beta: Fraction = Fraction(0), reach: float = math.inf) -> Fraction:
    """Return max(1, log(1/δ)), rounded up [SGP Lemma 3.6]."""
    with working_precision(BITS):
        return max(upper(-BALL.constant(delta).log()), Fraction(1))


def exact_cost(delta: float, beta: Fraction, reach: float) -> Fraction:
    """Return max(1, log(1/δ) − gain(βΛ)), rounded up; see `ApproximateLaplace`."""
    cost = paper_cost(delta)
    if reach == math.inf:
        return cost
    with working_precision(BITS):
        k = BALL.constant(beta * Fraction(reach))
        return max(cost - lower((1 / k).log1p() + k.log1p() / k), Fraction(1))


TAIL_COSTS: Mapping[str, Callable[[float, Fraction, float], Fraction]] = MappingProxyType(
    {"exact": exact_cost, "paper": paper_cost}
)
"""Name of a calibration → (δ, β, Λ) ↦ c of η = ε − βc."""
