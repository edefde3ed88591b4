"""Noise scaled to a smooth bound of the slope at the person's point [SGP §3; MATH §3, §4]."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

from geoveil.gp import validation
from geoveil.gp.arithmetic import Arithmetic, Real
from geoveil.gp.arrays import Array, NDArray, np
from geoveil.gp.errors import ParameterError
from geoveil.gp.exact import round_down
from geoveil.gp.lazy import lazy
from geoveil.gp.mechanisms.additive import AdditiveMechanism
from geoveil.gp.noise import Noise, best_noise
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.base import Query
from geoveil.gp.smooth.frontier import CALIBRATIONS, Frontier, default_fraction
from geoveil.gp.smooth.growth import DECAYS, EXPONENTIAL, Smoothness

_FAR = 600.0
"""Logarithm of a ratio of scales that counts as infinite; no scale times it overflows."""


class SmoothlyScaled:
    """A mechanism that adds (B(x)/η)·Z, B a β-smooth bound of the slope."""

    noise: Noise
    privacy: GeoPrivacy
    frontier: Frontier
    growth: str = EXPONENTIAL
    """Growth of B."""
    reach: float
    """Reach Λ of B, in the unit of x."""
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

    @lazy
    def _smoothness(self) -> Smoothness:
        return Smoothness(self._beta, self.growth, self.reach)

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
        validation.require_kind("noise", noise, Noise | None, "StudentT(3)")
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

    def _bound_range(
        self, query: Query, edges: Array, beyond: NDArray[np.bool_] | None = None
    ) -> Array:
        """Return the least and the greatest B of a query, (2, n), as `_scale_range` its scale.

        Its logarithm has slopes of at most β.
        """
        profile = query.profile
        at = np.asarray(profile.noise_bound(edges, self._smoothness))
        if beyond is not None:
            return np.stack([np.zeros_like(at), at])[:, beyond]
        low, high = np.sort([at[:-1], at[1:]], axis=0)
        moved = np.exp(np.minimum(np.diff(edges) * float(self._beta) / 2, _FAR))
        middle = np.sqrt(low) * np.sqrt(high)
        least, steepest = profile.bounds_within(edges, self._smoothness)
        most = np.minimum(np.maximum(high, steepest), middle * moved)
        least = np.minimum(np.maximum(middle / moved, least), low)
        return np.stack([least, np.maximum(most, high)])


def turns_of(query: Query, reach: float) -> Array:
    """Return at which distances B of a query may turn."""
    turns = np.array(query.profile.turns(reach))
    return np.asarray(turns[np.isfinite(turns)])


class BoundedMechanism(SmoothlyScaled, AdditiveMechanism):
    """f(x) + (B(x)/η)·Z, B a smooth bound of the query."""

    privacy: GeoPrivacy

    @property
    def largest_scale(self) -> float:
        """The largest noise scale: L/η."""
        return self.query.lipschitz / self.eta

    @property
    def _length(self) -> float:
        return 1 / self.beta

    def _turns(self) -> Array:
        return turns_of(self.query, self.reach)

    def _scale(self, s: Real, ops: Arithmetic) -> Real:
        bound = self.query.profile.noise_bound(s, self._smoothness, ops)
        return bound / ops.constant(self._eta)

    def _scale_range(self, edges: Array, beyond: NDArray[np.bool_] | None = None) -> Array:
        return self._bound_range(self.query, edges, beyond)[None] / float(self._eta)


class SmoothMechanism(BoundedMechanism):
    """M(x) = f(x) + (B(x)/η)·Z, ε-GP and unbiased.

    Args:
        query: f, with its smooth bound B.
        privacy: the guarantee; a mechanism with delta = 0 meets it for every delta and reach.
        noise: the family of Z; by default the best for the query's frontier.
        beta: smoothness of B, in 1/(unit of x), in (0, rate/scale_cost of the noise]. By default,
            for the default noise, 0.3 of the rate on the cross frontier and 0.15 on the rectangle;
            for another, the largest that leaves three quarters of the η it could have.
        reach: Λ of the bound: 0, which suffices, or ∞, the seed paper's.
        growth: "exponential", or "linear" for a bound that falls more slowly.
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
        growth: str = EXPONENTIAL,
        calibration: str = "exact",
        step: float | None = None,
    ) -> None:
        super().__init__(
            query,
            privacy,
            noise=noise,
            beta=beta,
            reach=reach,
            growth=growth,
            calibration=calibration,
            step=step,
        )
        self.reach = validation.non_negative("reach", reach)
        self.growth = validation.choice("growth", growth, DECAYS)
        self.frontier = query.profile.frontier(self.growth, self.reach)
        best = self.frontier.default_beta_fraction, partial(best_noise, self.frontier)
        self._calibrate(noise, beta, calibration, default=best)
        self._choose_step(step)
