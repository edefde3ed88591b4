"""Approximate geo-privacy: Laplace noise scaled to a bound that grows linearly [SGP Lemma 3.6]."""

from bisect import bisect_left
from fractions import Fraction

from geoveil.gp import validation
from geoveil.gp.errors import ParameterError
from geoveil.gp.exact import BALL, BITS, settled_up, working_precision
from geoveil.gp.mechanisms.smooth import BoundedMechanism
from geoveil.gp.noise.base import Laplace
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.base import Query
from geoveil.gp.smooth.frontier import CALIBRATIONS
from geoveil.gp.smooth.growth import LINEAR
from geoveil.gp.smooth.hockey_stick import largest_eta

_SHARES = tuple(Fraction(part, 16) for part in (4, 6, 8, 10, 12, 13, 14, 15))
"""Choices of β, in units of the rate over max(1, log(1/δ))."""
_KEPT = Fraction(19, 20)
"""Fraction of the first choice's η that a larger β must leave; it always leaves the paper's η."""


class ApproximateLaplace(BoundedMechanism):
    """M(x) = f(x) + (B(x)/η)·Laplace(1): (ε, δ, Λ)-GP and unbiased, with light tails.

    B is a smooth bound for *linear* growth at rate β of the slopes of all chords up to Λ: a δ does
    not chain, and exponential growth would break the guarantee. The paper's calibration is any
    η ≤ ε − βc with c = max(1, log(1/δ)) [SGP Lemma 3.6]; the exact one takes the largest η that
    [MATH §3] proves for every pair of points, rounded down: to a per cent, or more with corners,
    wide bands or a large δ.

    Args:
        query: f, with its smooth bound B.
        privacy: the guarantee, with delta > 0; its `reach` is Λ.
        beta: smoothness of B, in 1/(unit of x), in (0, rate/c). By default a quarter of that, at
            which the paper's scale is nowhere more than 4/3 of its least; for the exact calibration
            up to 15/16, as long as η loses at most a twentieth: B then falls faster.
        calibration: "exact" or "paper".
        step: see `Mechanism`.

    Raises:
        ParameterError: if a parameter is out of range, such as delta = 0.

    Example:
        >>> from geoveil.gp import GeoPrivacy, Threshold
        >>> privacy = GeoPrivacy(1.0, per=8000.0, delta=1e-6)
        >>> m = ApproximateLaplace(Threshold(at=100_000, width=16_000), privacy)
        >>> round(m.eta / privacy.rate, 2)
        0.99
        >>> m.variance([100_000, 150_000]).round(2).tolist()
        [0.51, 0.29]
    """

    privacy: GeoPrivacy
    growth = LINEAR

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
        self.calibration = validation.choice("calibration", calibration, CALIBRATIONS)
        self.noise = Laplace()
        self.reach = privacy.reach
        if beta is None:
            self._beta = self._default_beta()
        else:
            self._beta = Fraction(validation.positive("beta", beta))
        self._eta = self._largest_eta(self._beta)
        # An η that is next to nothing is noise without end.
        if self._eta <= privacy.exact_rate / 10**9:
            cost = paper_cost(privacy.delta)
            raise ParameterError(
                "beta",
                beta,
                f"in (0, {float(privacy.exact_rate / cost):g}), less than the rate of {privacy}"
                f" over {float(cost):g}",
            )
        self._choose_step(step)

    def _default_beta(self) -> Fraction:
        unit = self.privacy.exact_rate / paper_cost(self.privacy.delta)
        least = _SHARES[0] * unit
        if self.calibration == "paper":
            return least
        enough = max(_KEPT * self._largest_eta(least), (1 - _SHARES[0]) * self.privacy.exact_rate)
        first = bisect_left(
            _SHARES[1:], True, key=lambda share: self._largest_eta(share * unit) < enough
        )
        return _SHARES[first] * unit

    def _largest_eta(self, beta: Fraction) -> Fraction:
        rate, delta = self.privacy.exact_rate, self.privacy.delta
        paper = rate - beta * paper_cost(delta)
        if self.calibration == "paper":
            return paper
        exact = largest_eta(self.query.profile, float(rate), delta, self.privacy.reach, beta)
        return max(paper, Fraction(exact))


def paper_cost(delta: float) -> Fraction:
    """Return max(1, log(1/δ)), rounded up to a double [SGP Lemma 3.6]."""
    with working_precision(BITS):
        return max(Fraction(settled_up(-BALL.constant(delta).log())), Fraction(1))
