"""Noise scaled to the smooth sensitivity at the person's own point [SGP §3; MATH §3, §4]."""

from fractions import Fraction

from geoveil.gp import validation
from geoveil.gp.arithmetic import Arithmetic, Real
from geoveil.gp.errors import ParameterError
from geoveil.gp.mechanisms.additive import BoundedMechanism
from geoveil.gp.noise import Noise, best_noise
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.base import Query
from geoveil.gp.smooth.frontier import CALIBRATIONS, default_fraction
from geoveil.gp.smooth.growth import EXPONENTIAL


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
        validation.choice("calibration", calibration, CALIBRATIONS)
        self.reach = validation.non_negative("reach", reach)
        self.calibration = calibration
        self.frontier = query.profile.frontier(EXPONENTIAL, self.reach)
        if noise is not None and not isinstance(noise, Noise):
            raise ParameterError("noise", noise, "a Noise, for example StudentT(3)")
        # Exact numbers, from the double that the noise is made for: B, η and Z fit together.
        fraction = self._beta_fraction(privacy, beta, noise)
        self.noise = best_noise(self.frontier, fraction) if noise is None else noise
        exact = Fraction(fraction)
        eta = CALIBRATIONS[calibration](self.noise, self.frontier, exact, 1)
        self._beta, self._eta = exact * privacy.exact_rate, eta * privacy.exact_rate
        self._choose_step(step)

    def _beta_fraction(self, privacy: GeoPrivacy, beta: float | None, noise: Noise | None) -> float:
        if beta is None:
            if noise is None:
                return self.frontier.default_beta_fraction
            return default_fraction(noise, self.frontier, self.calibration)
        beta = validation.positive("beta", beta)
        if beta > privacy.rate:
            raise ParameterError(
                "beta", beta, f"in (0, {privacy.rate:g}], at most the rate of {privacy}"
            )
        return min(float(Fraction(beta) / privacy.exact_rate), 1.0)

    def _scale(self, s: Real, ops: Arithmetic) -> Real:
        bound = self.query.profile.noise_bound(
            s, self._beta, ops, growth=EXPONENTIAL, reach=self.reach
        )
        return bound / ops.constant(self._eta)
