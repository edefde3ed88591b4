"""Test smooth noisy max and smooth private selection: promises, refusals, and false claims."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.noise import GeneralizedCauchy, Laplace, LaplacePareto, StudentT
from geoveil.selection.one_sided import ExponentialPareto, HalfStudentT
from geoveil.selection.scores import SmoothUtilities, Utilities
from geoveil.selection.smooth import (
    PublishedCalibrationWarning,
    SmoothNoisyMax,
    SmoothPrivateSelection,
    SmoothSelection,
)
from geoveil.selection.smooth_privacy import scale_price
from geoveil.selection.two_sided import HeavyGeneralizedCauchy, HeavyStudentT


def published(epsilon: float, outcomes: int, noise: object = None, **more: float) -> SmoothNoisyMax:
    """Algorithm 1 as printed."""
    with pytest.warns(PublishedCalibrationWarning, match="not proved"):
        return SmoothNoisyMax(epsilon, outcomes, noise, calibration="published", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("outcomes", [1, 2])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_what_is_promised_is_what_alpha_and_beta_cost(outcomes, share):
    noise = HalfStudentT(3.0)
    m = SmoothNoisyMax(0.7, outcomes, noise, share=share)
    cost = Fraction(m.alpha) * Fraction(noise.hazard)
    cost += Fraction(m.beta) * scale_price(noise, outcomes)
    assert cost <= Fraction(m.guarantee.epsilon) <= Fraction(0.7)
    assert m.guarantee.epsilon == pytest.approx(0.7, rel=1e-12)
    assert m.guarantee.proved
    assert m.guarantee.delta == 0


@pytest.mark.parametrize("outcomes", [2, 9])
@pytest.mark.parametrize("share", [0.2, 0.5])
@pytest.mark.parametrize(
    ("noise", "alpha", "beta"),
    [
        (GeneralizedCauchy(4.0), 1 / (2 * 3**0.75), 1 / 6),
        (HeavyGeneralizedCauchy(2.0), 1 / 2, 1 / 2),
        (StudentT(3.0), math.sqrt(3) / 4, 1 / 6),
    ],
)
def test_two_sided_constants_are_those_of_the_papers(noise, alpha, beta, share, outcomes):
    m = SmoothPrivateSelection(2.0, outcomes, noise, share=share)
    k, ell = 1 - share, 2 * share / outcomes
    assert m.alpha == pytest.approx(alpha * k * 2.0, rel=1e-12)
    assert m.beta == pytest.approx(beta * ell * 2.0, rel=1e-12)
    assert m.scale(0.3) == pytest.approx(0.3 / m.alpha, rel=1e-12)
    assert m.guarantee.epsilon == pytest.approx(2.0, rel=1e-12)
    assert m.guarantee.epsilon <= 2.0


def test_laplace_pays_with_delta():
    m = SmoothPrivateSelection(1.0, 4, Laplace(), delta=1e-6)
    # β(lε) = lε/(2 ln(2/δ')) with l = 2·share/m and δ' = δ/m.
    assert m.beta == pytest.approx(0.25 / (2 * math.log(8e6)), rel=1e-9)
    far = math.expm1(m.beta) * math.log(4e6) - m.beta
    assert m.guarantee.epsilon == pytest.approx(2 * m.alpha + 4 * far, rel=1e-9)
    assert m.guarantee.epsilon <= 1
    assert m.guarantee.delta == 1e-6


def test_published_states_the_proved_bound_and_warns():
    m = published(1.0, 10)
    assert m.alpha == pytest.approx(math.sqrt(3) / 4, rel=1e-12)
    assert m.beta == pytest.approx(1 / 6, rel=1e-12)
    assert m.guarantee.epsilon == pytest.approx(5.5, rel=1e-9)
    laplace = published(1.0, 10, Laplace(), delta=1e-5)
    assert laplace.beta == pytest.approx(1 / (2 * math.log(2e5)), rel=1e-12)
    assert laplace.guarantee.delta == 1e-5
    assert laplace.guarantee.epsilon > 2


def test_monotone_utilities_need_half_the_noise():
    for family in (SmoothNoisyMax, SmoothPrivateSelection):
        both, one = family(1.0, 3), family(1.0, 3, monotone=True)
        assert one.scale(1.0) == both.scale(1.0) / 2
        assert one.beta == both.beta


def log_ratio(a: np.ndarray, b: np.ndarray) -> float:
    """The largest |log of a quotient of probabilities|."""
    return float(np.abs(np.log(a / b)).max())


def test_utilities_of_another_beta_are_refused():
    with pytest.raises(ParameterError, match="beta"):
        published(1.0, 2).probabilities(SmoothUtilities([1.0, 0.0], 0.5, beta=1.0))


@pytest.mark.parametrize("beta", [1e-3, 0.1, 1.0])
def test_scale_free_weights_are_not_private_for_any_beta(beta):
    # [SNM Theorem 7.2] is right: ε u/2S at u = (0, g) and sensitivities S and e^β S.
    epsilon = 1.0

    def log_share(gap: float, s: float) -> float:
        return -float(np.logaddexp(0, epsilon * gap / (2 * s)))

    def loss(gap: float) -> float:
        return log_share(gap, math.exp(beta)) - log_share(gap, 1.0)

    losses = [loss(gap) for gap in (1, 1e2, 1e3, 1e4)]
    assert losses == sorted(losses)
    gap = 4 / -math.expm1(-beta)
    assert loss(gap) > epsilon
    m = SmoothNoisyMax(epsilon, 2)
    p = m.probabilities(SmoothUtilities([-gap, 0.0], 1.0, beta=m.beta))
    q = m.probabilities(SmoothUtilities([-gap, 0.0], math.exp(m.beta), beta=m.beta))
    assert log_ratio(p, q) <= epsilon


def margin_needed(make: Callable[[int], SmoothSelection], outcomes: int, offset: int = 1) -> int:
    """The least margin j whose S = e^{−(j−offset)β} gives the winner 95 %; 51 if beyond 50."""
    utilities = np.zeros(outcomes)
    utilities[0] = 1.0
    for j in range(2, 51):
        m = make(j)
        s = math.exp(-(j - offset) * m.beta)
        if m.probabilities(SmoothUtilities(utilities, s, beta=m.beta))[0] >= 0.95:
            return j
    return 51


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize(
    ("outcomes", "nu", "one_sided", "two_sided", "printed", "misprinted"),
    [(2, 0.5, 5, 30, 18, 17), (10, 1.0, 16, 51, 22, 21), (100, 1.0, 41, 51, 26, 25)],
)
def test_margins_that_win_in_95_of_100(outcomes, nu, one_sided, two_sided, printed, misprinted):
    def planned(j: int) -> SmoothNoisyMax:
        return SmoothNoisyMax.planned(
            1.0, outcomes, lambda beta: math.exp(-(j - 1) * beta), ExponentialPareto(nu)
        )

    # The best share for margin j: S/α' is least at share 1 − K/(ε(j−1)), K = m·(γ−1) nats.
    def private(j: int) -> SmoothPrivateSelection:
        share = min(max(1 - 3 * outcomes / (j - 1), 0.02), 0.98) if j > 1 else 0.5
        return SmoothPrivateSelection(1.0, outcomes, share=share)

    algorithm_1 = published(1.0, outcomes)
    assert margin_needed(planned, outcomes) == one_sided
    assert margin_needed(private, outcomes) == two_sided
    assert margin_needed(lambda j: algorithm_1, outcomes) == printed
    assert margin_needed(lambda j: algorithm_1, outcomes, offset=0) == misprinted


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: SmoothNoisyMax(0.0, 2), "epsilon"),
        (lambda: SmoothNoisyMax(1.0, 0), "outcomes"),
        (lambda: SmoothNoisyMax(1.0, 2, share=1.0), "share"),
        (lambda: SmoothNoisyMax(1.0, 2, StudentT(3.0)), "noise"),
        (lambda: SmoothNoisyMax(1.0, 2, delta=0.1), "delta"),
        (lambda: SmoothNoisyMax(1.0, 2, calibration="best"), "calibration"),
        (lambda: SmoothPrivateSelection(1.0, 2, HalfStudentT(3.0)), "noise"),
        (lambda: SmoothPrivateSelection(1.0, 2, Laplace()), "delta"),
        (lambda: HeavyStudentT(0.1), "nu"),
    ],
)
def test_bad_parameters_are_named(make, name):
    with pytest.raises(ParameterError, match=name):
        make()


def test_noise_without_a_bounded_scale_cost_is_refused():
    class Unbounded(LaplacePareto):
        @property
        def exact_scale_cost(self) -> None:
            return None

    with pytest.raises(UnsupportedError, match="change of scale"):
        SmoothPrivateSelection(1.0, 2, Unbounded())


@pytest.mark.parametrize("family", [SmoothNoisyMax, SmoothPrivateSelection])
def test_scores_that_do_not_fit_are_refused(family):
    m = family(1.0, 3)  # type: ignore[call-arg]
    for wrong in (Utilities([1.0, 2.0]), [1.0, 2.0]):
        with pytest.raises(ParameterError, match="SmoothUtilities"):
            m.select(wrong)
    with pytest.raises(ParameterError, match="outcomes"):
        m.probabilities(SmoothUtilities(np.zeros(4), 1.0, beta=m.beta))
    with pytest.raises(ParameterError, match="beta"):
        m.probabilities(SmoothUtilities(np.zeros(3), 1.0, beta=2 * m.beta))
    assert m.probabilities(SmoothUtilities(np.zeros(2), 1.0, beta=m.beta)).tolist() == [0.5, 0.5]
