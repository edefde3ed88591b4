"""Test η on the exact frontier and by the seed paper's formula, and the resulting variances."""

import math
from typing import Any

import pytest

from geoveil.gp import (
    GaussianKernel,
    GeneralizedCauchy,
    GeoPrivacy,
    Laplace,
    LaplacePareto,
    Noise,
    ParameterError,
    PowerLaw,
    SmoothMechanism,
    StudentT,
    Threshold,
    UnsupportedError,
)

UNIT = GeoPrivacy(1.0, per=1.0)
RAMP = Threshold(0.0, 2.0, "linear")
STEP = Threshold(0.0, 2.0, "smoothstep")
BELL = GaussianKernel(0.0, 2.0)
NOISES_OF_ANY_KIND: list[Noise] = [
    StudentT(2.5),
    StudentT(3),
    StudentT(5),
    GeneralizedCauchy(3.2),
    GeneralizedCauchy(4),
    GeneralizedCauchy(6),
    LaplacePareto(1, 0.3),
    LaplacePareto(4, 0.8),
    PowerLaw(1, 0.3),
    PowerLaw(0.2, 0.04),
]
TABLE = {
    # MATH §4, variances at ε = 1 and B = 1.
    0.05: (7.192, 6.471, 5.536, 4.482, 2.3687, 2.0000),
    0.1: (10.604, 8.459, 8.163, 5.195, 2.8476, 2.0004),
    1 / 9: (11.691, 9.056, 9.000, 5.400, 2.9736, 2.0009),
    0.2: (32.476, 18.750, 25.000, 8.333, 4.3747, 2.0535),
    0.3: (519.6, 144.1, 400.0, 30.77, 7.6757, 2.4050),
}
DECIMALS = {7.192: 3, 519.6: 1, 144.1: 1, 400.0: 1, 30.77: 2}


@pytest.mark.parametrize("noise", NOISES_OF_ANY_KIND, ids=repr)
@pytest.mark.parametrize("fraction", [1e-4, 0.02, 0.1, 0.149, 0.19])
def test_exact_eta_on_the_rectangle(oracles, noise, fraction):
    expected = oracles.largest_eta(noise, fraction)
    for query in (BELL, STEP):
        eta = SmoothMechanism(query, UNIT, noise=noise, beta=fraction).eta
        assert eta <= expected * (1 + 1e-12), "not private"
        assert eta >= expected * (1 - 1e-8), "more noise than needed"


@pytest.mark.parametrize("noise", NOISES_OF_ANY_KIND, ids=repr)
def test_exact_eta_on_the_cross(noise):
    """sup ηψ ≤ ε: η = 1/max_score, whatever β is, at both reaches."""
    for fraction in (1e-3, 0.1, 0.19):
        for reach in (0.0, math.inf):
            m = SmoothMechanism(RAMP, UNIT, noise=noise, beta=fraction, reach=reach)
            assert m.eta == pytest.approx(1 / noise.max_score, rel=1e-12, abs=0)
            assert m.eta <= 1 / noise.max_score * (1 + 1e-15)


def test_smoothstep_and_kernel_are_never_calibrated_as_a_cross():
    for query in (STEP, BELL):
        for reach in (0.0, math.inf):
            mechanism = SmoothMechanism(query, UNIT, beta=0.2, reach=reach)
            assert isinstance(mechanism.noise, PowerLaw)
            with pytest.raises(ParameterError, match="beta"):
                SmoothMechanism(query, UNIT, noise=LaplacePareto(1.0, 0.2), beta=0.2, reach=reach)
    assert isinstance(SmoothMechanism(RAMP, UNIT, beta=0.2).noise, LaplacePareto)


@pytest.mark.parametrize("scale", [1e-20, 1e-6, 1e6, 1e14, 1e20])
def test_calibration_sees_noise_of_any_scale(scale):
    """η·Z is the same noise whatever the unit of Z."""
    for family in (LaplacePareto, PowerLaw):
        unit = SmoothMechanism(BELL, UNIT, noise=family(1.0, 0.15), beta=0.1)
        scaled = SmoothMechanism(BELL, UNIT, noise=family(scale, 0.15 * scale), beta=0.1)
        assert scaled.eta * scale == pytest.approx(unit.eta, rel=1e-6, abs=0)


@pytest.mark.parametrize("fraction", [0.01, 0.1, 1 / 9, 0.3])
def test_paper_eta_is_the_sum_of_two_suprema(fraction):
    """ε = (γ−1)β + (γ−1)^{(γ−1)/γ} η [SGP 3.3] and ε = νβ + (ν+1)/(2√ν) η [SGP 3.5]."""
    privacy = GeoPrivacy(2.0, per=5.0)
    beta = fraction * privacy.rate
    for query in (RAMP, STEP, BELL):
        for noise, scale_cost, max_score in (
            (GeneralizedCauchy(4), 3.0, 3**0.75),
            (StudentT(3), 3.0, 2 / math.sqrt(3)),
        ):
            m = SmoothMechanism(
                query, privacy, noise=noise, beta=beta, calibration="paper", reach=math.inf
            )
            assert scale_cost * m.beta + max_score * m.eta == pytest.approx(
                privacy.rate, rel=1e-13, abs=0
            )
            assert m.eta < SmoothMechanism(query, privacy, noise=noise, beta=beta).eta


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("beta", TABLE)
def test_table_of_variances(oracles, beta):
    """All thirty numbers, from the library and from the oracles, to the digits printed."""

    def best(query: Any) -> float:
        m = SmoothMechanism(query, UNIT, beta=beta)
        return m.noise.variance / m.eta**2

    def seed(noise: Noise, calibration: str) -> float:
        m = SmoothMechanism(BELL, UNIT, noise=noise, beta=beta, calibration=calibration)
        return noise.variance / m.eta**2

    def oracle(noise: Noise, eta: float) -> float:
        return float(oracles.noise_variance(noise)) / eta**2

    cauchy, student = GeneralizedCauchy(4), StudentT(3)
    ours = (
        seed(cauchy, "paper"),
        seed(cauchy, "exact"),
        seed(student, "paper"),
        seed(student, "exact"),
        best(BELL),
        best(RAMP),
    )
    independent = (
        oracle(cauchy, (1 - 3 * beta) / 3**0.75),
        oracle(cauchy, oracles.largest_eta(cauchy, beta)),
        oracle(student, (1 - 3 * beta) / (2 / math.sqrt(3))),
        oracle(student, oracles.largest_eta(student, beta)),
        oracle(PowerLaw(1, beta), 1.0),
        oracle(LaplacePareto(1, beta), 1.0),
    )
    for column, (printed, value, reference) in enumerate(
        zip(TABLE[beta], ours, independent, strict=True)
    ):
        digits = DECIMALS.get(printed, 4 if column > 3 else 3)
        half = 0.5 * 10.0**-digits * (1 + 1e-6)
        assert abs(value - printed) <= half, (beta, column)
        assert value == pytest.approx(reference, rel=1e-8, abs=0)


def test_what_cannot_be_private_is_refused():
    for query in (RAMP, STEP, BELL):
        with pytest.raises(UnsupportedError, match="power-law tail"):
            SmoothMechanism(query, UNIT, noise=Laplace())
        for noise, too_large in ((StudentT(3), 0.334), (GeneralizedCauchy(4), 0.34)):
            with pytest.raises(ParameterError, match="beta"):
                SmoothMechanism(query, UNIT, noise=noise, beta=too_large)
            with pytest.raises(ParameterError, match="beta"):
                SmoothMechanism(query, UNIT, noise=noise, beta=1 / 3, calibration="paper")
        for noise in (LaplacePareto(1, 0.1), PowerLaw(1, 0.1)):
            with pytest.raises(ParameterError, match="beta"):
                SmoothMechanism(query, UNIT, noise=noise, beta=0.11)
            with pytest.raises(UnsupportedError, match="not in the paper"):
                SmoothMechanism(query, UNIT, noise=noise, beta=0.05, calibration="paper")
    # On the rectangle the tail of Student-t alone uses up ε at β = ε/ν.
    with pytest.raises(ParameterError, match="beta"):
        SmoothMechanism(BELL, UNIT, noise=StudentT(3), beta=1 / 3)
