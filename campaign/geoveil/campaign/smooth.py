"""The spec of noise scaled to a smooth bound [SGP §3; MATH §3, §4]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from geoveil.campaign.families import MechanismSpec, not_together
from geoveil.campaign.queries import name_of
from geoveil.gp import (
    CALIBRATIONS,
    DECAYS,
    EXPONENTIAL,
    LINEAR,
    ApproximateLaplace,
    Frontier,
    Gaussian,
    GeneralizedCauchy,
    GeoPrivacy,
    Noise,
    ParameterError,
    Query,
    QueryMechanism,
    SmoothMechanism,
    SoftStep,
    StudentT,
    VectorSmoothMechanism,
    paper_cost,
    round_down,
    validation,
)
from geoveil.proto.v1 import campaign_pb2 as pb

BEST, STUDENT_T, CAUCHY, LAPLACE = "best", "student-t", "generalized-cauchy", "laplace"
NOISES = (BEST, STUDENT_T, CAUCHY, LAPLACE)
"""The noises that a campaign can declare."""
_BEST_FRACTIONS = MappingProxyType(
    {Frontier.CROSS: Fraction(0.3), Frontier.RECTANGLE: Fraction(0.15)}
)
"""The default β as a fraction of the rate; fractions of doubles, as on the wire."""
_STUDENT_SHARE, _CAUCHY_SHARE = Fraction(1, 3), Fraction(1, 5)
"""The parts of ε that the seed paper's authors spend on changes of scale."""
_LAPLACE_SHARE = Fraction(1, 4)
_GROWTHS = MappingProxyType({EXPONENTIAL: pb.GROWTH_EXPONENTIAL, LINEAR: pb.GROWTH_LINEAR})
_CALIBRATIONS = MappingProxyType({"exact": pb.CALIBRATION_EXACT, "paper": pb.CALIBRATION_PAPER})
BROWSER_NU = range(3, 31)
BROWSER_GAMMA = range(4, 13, 2)
"""Exponents with finite formulas for distribution functions, which TypeScript supports."""


@dataclass(frozen=True, slots=True)
class SmoothSpec(MechanismSpec):
    """Noise scaled to a smooth bound of the slope: `SmoothMechanism`, or `ApproximateLaplace`.

    Raises:
        ParameterError: if a parameter is out of range, or incompatible with others.

    Example:
        >>> SmoothSpec(noise="student-t", nu=3.0, calibration="paper", reach=math.inf).nu
        3.0
    """

    beta_fraction: float | None = None
    """β (for a vector of m queries mβ) as a fraction of the privacy rate, in (0, 1). None: 0.3 for
    the best noise of a straight ramp, 0.15 (in a vector 0.1) for the best of other queries, 1/(3ν)
    for Student-t and 1/(5(γ − 1)) for generalized Cauchy noise; for Laplace noise
    1/(4·max(1, log(1/δ))), or more if it is calibrated exactly and η hardly loses."""
    noise: str = BEST
    """"best", the best for the query's frontier, "student-t", "generalized-cauchy" or "laplace"."""
    nu: float | None = None
    """ν of Student-t noise, in (2, 100]; None for 3."""
    gamma: float | None = None
    """γ of generalized Cauchy noise, in (3, 101]; None for 4."""
    reach: float | None = None
    """Λ of the bound. None: 0 or, for Laplace noise, the guarantee's reach, its only permitted
    value."""
    growth: str = ""
    """"exponential" or "linear"; "" for "linear" with Laplace noise, else for "exponential"."""
    calibration: str = "exact"
    """"exact", or "paper" as the seed paper prints it."""

    def __post_init__(self) -> None:
        validation.choice("noise", self.noise, NOISES)
        validation.choice("calibration", self.calibration, CALIBRATIONS)
        if self.beta_fraction is not None:
            validation.between(
                "beta_fraction", self.beta_fraction, 0, 1, low_open=True, high_open=True
            )
        self._default("nu", 3.0, STUDENT_T)
        self._default("gamma", 4.0, CAUCHY)
        if self.noise == BEST and self.calibration != "exact":
            raise ParameterError(
                "calibration", self.calibration, "'exact' for the best noise: no paper has it"
            )
        is_laplace = self.noise == LAPLACE
        permitted = (LINEAR,) if is_laplace else DECAYS
        growth = self.growth or (LINEAR if is_laplace else EXPONENTIAL)
        name = "growth" + " of laplace noise" * is_laplace
        object.__setattr__(self, "growth", validation.choice(name, growth, permitted))
        if self.reach is None and not is_laplace:
            object.__setattr__(self, "reach", 0.0)
        if self.reach is not None:
            object.__setattr__(self, "reach", validation.non_negative("reach", self.reach))
        _ = self._made  # raises the noise's errors

    def _default(self, name: str, value: float, noise: str) -> None:
        given = getattr(self, name)
        if self.noise == noise:
            object.__setattr__(self, name, float(value if given is None else given))
        elif given is not None:
            raise ParameterError(name, given, f"left out, except for {noise} noise")

    @property
    def _made(self) -> Noise | None:
        if self.nu is not None:
            return StudentT(self.nu)
        return None if self.gamma is None else GeneralizedCauchy(self.gamma)

    @property
    def has_slack(self) -> bool:
        """Whether it requires a guarantee with a δ."""
        return self.noise == LAPLACE

    @property
    def profile(self) -> str:
        return "linear" if self.calibration == "paper" else "smoothstep"

    def build(self, query: Query, privacy: GeoPrivacy, step: float | None = None) -> QueryMechanism:
        beta = self._beta(query, privacy)
        if self.noise != LAPLACE:
            assert self.reach is not None
            return SmoothMechanism(
                query,
                privacy,
                noise=self._made,
                beta=beta,
                reach=self.reach,
                growth=self.growth,
                calibration=self.calibration,
                step=step,
            )
        if self.reach not in (None, privacy.reach):
            raise ParameterError(
                "reach", self.reach, f"left out, or {privacy.reach:g}, that of the guarantee"
            )
        return ApproximateLaplace(
            query, privacy, beta=beta, calibration=self.calibration, step=step
        )

    def build_together(
        self, queries: Sequence[Query], privacy: GeoPrivacy, step: float | None = None
    ) -> VectorSmoothMechanism:
        if self.noise == LAPLACE or self.growth == LINEAR:
            raise not_together(repr(self))
        assert self.reach is not None
        share = self._stated_share
        return VectorSmoothMechanism(
            queries,
            privacy,
            noise=self._made,
            beta=None if share is None else round_down(share / len(queries) * privacy.exact_rate),
            reach=self.reach,
            calibration=self.calibration,
            step=step,
        )

    @property
    def _stated_share(self) -> Fraction | None:
        """β as a fraction of the rate if it does not depend on the query; otherwise None."""
        if self.beta_fraction is not None:
            return Fraction(self.beta_fraction)
        if self.nu is not None:
            return _STUDENT_SHARE / Fraction(self.nu)
        return None if self.gamma is None else _CAUCHY_SHARE / (Fraction(self.gamma) - 1)

    def _beta(self, query: Query, privacy: GeoPrivacy) -> float | None:
        """Return β, rounded down to a double; None for the mechanism's own choice."""
        share = self._stated_share
        if share is None and self.noise == BEST:
            assert self.reach is not None
            share = _BEST_FRACTIONS[query.profile.frontier(self.growth, self.reach)]
        elif share is None:
            if self.calibration == "exact" or privacy.delta == 0:
                return None
            share = _LAPLACE_SHARE / paper_cost(privacy.delta)
        return round_down(share * privacy.exact_rate)

    def unserved(self, queries: Sequence[Query]) -> str | None:
        """Return why browsers' devices refuse it, as a clause; None if they don't."""
        if self.nu is not None and self.nu not in BROWSER_NU:
            return f"they have Student-t noise for whole ν from {BROWSER_NU[0]} to {BROWSER_NU[-1]}"
        if self.gamma is not None and self.gamma not in BROWSER_GAMMA:
            served = ", ".join(map(str, BROWSER_GAMMA))
            return f"they have generalized Cauchy noise for γ = {served}"
        if self.noise == LAPLACE and self.calibration == "exact":
            return "they calibrate Laplace noise as in the paper only"
        reach = math.inf if self.reach is None else self.reach
        if 0 < reach < math.inf:
            return "they have bounds of reach 0 and ∞"
        if (reach, self.growth) == (0.0, EXPONENTIAL):
            return None
        closed = (SoftStep, Gaussian) if reach == math.inf else SoftStep
        for query in queries:
            if not isinstance(query.profile, closed):
                return f"they have no such bound for {query!r}"
        return None


def dearer(message: pb.Smooth) -> int:
    """Return an answer's microseconds in addition to one with closed-form noise."""
    inverted = message.WhichOneof("noise") in ("student_t", "generalized_cauchy")
    far = message.HasField("reach") or message.growth == pb.GROWTH_LINEAR
    return 300 * inverted + 200 * far


def encode_smooth(spec: SmoothSpec) -> pb.Smooth:
    """Return the spec in wire form."""
    message = pb.Smooth(
        beta_fraction=spec.beta_fraction,
        growth=_GROWTHS[spec.growth],
        calibration=_CALIBRATIONS[spec.calibration],
    )
    if spec.nu is not None:
        message.student_t.nu = spec.nu
    if spec.gamma is not None:
        message.generalized_cauchy.gamma = spec.gamma
    if spec.noise == LAPLACE:
        message.laplace.SetInParent()
    if spec.reach:
        message.reach = spec.reach
    return message


def decode_smooth(message: pb.Smooth) -> SmoothSpec:
    """Return the spec from its wire form."""
    kind = message.WhichOneof("noise")
    noise = {"student_t": STUDENT_T, "generalized_cauchy": CAUCHY, "laplace": LAPLACE}
    given: dict[str, Any] = {
        "noise": BEST if kind is None else noise[kind],
        "growth": name_of(_GROWTHS, message.growth, "growth"),
        "calibration": name_of(_CALIBRATIONS, message.calibration, "calibration"),
    }
    if kind == "student_t":
        given["nu"] = message.student_t.nu
    if kind == "generalized_cauchy":
        given["gamma"] = message.generalized_cauchy.gamma
    for name in ("beta_fraction", "reach"):
        if message.HasField(name):
            given[name] = getattr(message, name)
    return SmoothSpec(**given)
