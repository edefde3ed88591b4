"""Mechanisms of smooth sensitivity: chances, argmax, adversary."""

import json
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from geoveil.gp import RandomSource, SeededSource
from geoveil.gp.errors import GeoVeilError, ParameterError, UnsupportedError
from geoveil.gp.noise import GeneralizedCauchy, Laplace, LaplacePareto, StudentT
from geoveil.gp.randomness import LazyUniform
from geoveil.selection import SelectionMechanism
from geoveil.selection.base import SmoothUtilities, Utilities
from geoveil.selection.draws import exact_argmax
from geoveil.selection.noise_law import by_quantile
from geoveil.selection.one_sided import ExponentialPareto, HalfGeneralizedCauchy, HalfStudentT
from geoveil.selection.smooth import (
    PublishedCalibrationWarning,
    SmoothNoisyMax,
    SmoothPrivateSelection,
    SmoothSelection,
)
from geoveil.selection.smooth_privacy import scale_price
from geoveil.selection.two_sided import HeavyGeneralizedCauchy, HeavyStudentT, LaplaceLogNormal

from .adversary import GOLDEN, MAKERS, Neighbours, cases, row


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


MECHANISMS: dict[str, Callable[[], SmoothNoisyMax | SmoothPrivateSelection]] = {
    "exponential-pareto": lambda: SmoothNoisyMax(2.0, 6),
    "half t": lambda: SmoothNoisyMax(2.0, 6, HalfStudentT(3.0)),
    "half cauchy": lambda: SmoothNoisyMax(2.0, 6, HalfGeneralizedCauchy(4.0)),
    "cauchy": lambda: SmoothPrivateSelection(2.0, 6, HeavyGeneralizedCauchy(2.0)),
    "t": lambda: SmoothPrivateSelection(2.0, 6, HeavyStudentT(3.0), monotone=True),
    "log-normal": lambda: SmoothPrivateSelection(2.0, 6, LaplaceLogNormal(0.7), delta=1e-5),
}


def uniforms(count: int, source: RandomSource) -> list[LazyUniform]:
    return [LazyUniform(source) for _ in range(count)]


class CountedSource(SeededSource):
    """Says how many bits were asked for."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.drawn = 0

    def bits(self, count: int) -> int:
        self.drawn += count
        return super().bits(count)


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("name", MECHANISMS)
def test_draws_have_the_stated_probabilities(name, p_value):
    # 1,500 draws, seed 3; alpha = 1e-6, and the control is beyond it.
    mechanism, source = MECHANISMS[name](), SeededSource(3)
    scores = SmoothUtilities([0.0, 4.0, 4.0, 9.0, -2.0, 6.0], 0.5, beta=mechanism.beta)
    winners = [mechanism.select(scores, source) for _ in range(1500)]
    counts = np.bincount(winners, minlength=6)
    assert p_value(counts, mechanism.probabilities(scores)) > 1e-6
    doubled = SmoothUtilities(scores.values, 1.5, beta=mechanism.beta)
    assert p_value(counts, mechanism.probabilities(doubled)) < 1e-6


def test_ten_thousand_outcomes_are_few_in_balls():
    mechanism = SmoothNoisyMax(1.0, 10_000, HalfStudentT(3.0))
    utilities = np.random.default_rng(1).normal(size=10_000)
    source = CountedSource(1)
    winner = mechanism.select(SmoothUtilities(utilities, 0.01, beta=mechanism.beta), source)
    assert 0 <= winner < 10_000
    # Nobody needed more than the first bits: the outcomes compared were far apart.
    assert source.drawn == 10_000 * LazyUniform.FIRST


def uniform(p: arb) -> arb:
    """The quantile of the uniform distribution."""
    return p


class Replayed(RandomSource):
    """The given words, each of the length that is asked for."""

    def __init__(self, words: list[int]) -> None:
        self.words = words

    def bits(self, count: int) -> int:
        return self.words.pop(0) % (1 << count)


def test_a_tie_of_the_first_bits_is_decided_by_more():
    source = Replayed([7, 7, 1, 4])
    assert exact_argmax([0.0, 0.0], lambda: arb(1), by_quantile(uniform), uniforms(2, source)) == 1
    assert not source.words


def test_a_lead_below_the_last_bit_is_seen():
    # U_0 leads by 2^-128, the utility of 1 by a little less or a little more.
    step = 2.0**-128
    for lead, expected in ((0.25 * step, 0), (3.75 * step, 1)):
        source = Replayed([8, 7, 1 << 63, 1 << 63])
        assert (
            exact_argmax([0.0, lead], lambda: arb(1), by_quantile(uniform), uniforms(2, source))
            == expected
        )


def test_a_source_that_never_decides_is_reported():
    class Stuck(RandomSource):
        def bits(self, count: int) -> int:
            return 0

    with pytest.raises(GeoVeilError, match="random source"):
        exact_argmax([0.0, 0.0], lambda: arb(1), by_quantile(uniform), uniforms(2, Stuck()))


def test_a_mechanism_is_one_of_the_contract():
    for make in MECHANISMS.values():
        assert isinstance(make(), SelectionMechanism)


ROWS = json.loads(GOLDEN.read_text())
NAMES = [f"{r['name']}, share {r['share']}, {r['outcomes']}, size {r['size']}" for r in ROWS]


def test_every_case_has_its_row():
    assert [(r["name"], r["share"], r["outcomes"], r["size"]) for r in ROWS] == cases()


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("expected", ROWS[5::12], ids=NAMES[5::12])
def test_the_search_finds_what_the_file_says(expected):
    found = row(expected["name"], expected["share"], expected["outcomes"], expected["size"])
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-3)


@pytest.mark.parametrize("worst", ROWS, ids=NAMES)
def test_the_worst_neighbours_lose_what_is_promised_and_more_with_too_little_noise(worst):
    m = MAKERS[worst["name"]](worst["outcomes"], worst["share"])
    neighbours = Neighbours(tuple(worst["leads"]), worst["split"], worst["sign"])
    loss = neighbours.loss(m, worst["size"])
    assert loss == pytest.approx(worst["loss"], rel=1e-6)
    if worst["size"] == 1:
        assert loss <= m.guarantee.epsilon
    else:
        assert loss > m.guarantee.epsilon


def test_a_change_of_scale_beyond_beta_is_found_out():
    m = SmoothNoisyMax(1.0, 2, share=0.9)
    x = SmoothUtilities([0.0, 1e6], 1.0, beta=m.beta)
    y = SmoothUtilities([0.0, 1e6], math.exp(-m.beta), beta=m.beta)
    z = SmoothUtilities([0.0, 1e6], math.exp(-1.2 * m.beta), beta=m.beta)
    p, q, r = (m.probabilities(s)[0] for s in (x, y, z))
    assert math.log(p / q) == pytest.approx(0.9, rel=1e-3)
    assert math.log(p / r) > 1
