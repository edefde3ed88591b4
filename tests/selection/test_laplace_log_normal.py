"""Test Laplace log-normal noise against its defining integral, and its (ε, δ)."""

import math

import mpmath as mp
import numpy as np
import pytest
from flint import arb
from scipy.stats import kstest

from geoveil.gp import ParameterError, SeededSource, UnsupportedError
from geoveil.gp.exact import working_precision
from geoveil.gp.randomness import LazyUniform
from geoveil.selection import (
    LaplaceLogNormal,
    PublishedCalibrationWarning,
    SmoothNoisyMax,
    SmoothPrivateSelection,
    SmoothUtilities,
)
from geoveil.selection.smooth_privacy import LogNormalScaleCost

DELTA = 1e-3
SIGMAS = [0.1, 0.5, 1.0, 2.0]


def transform(sigma: float, t: float, power: int) -> arb:
    """E[e^{−kσY} exp(−t e^{−σY})] in 40 digits."""
    with working_precision(133):
        s, t = arb(sigma), arb(t)
        top = (s * s * (power * s * s).exp() * t).lambertw() / s - power * s
        total = arb(0)
        # The trapezoidal rule, four times as fine as the library's.
        for k in range(-1600, 1601):
            y = top + arb(k) / 128
            total += (-y * y / 2 - power * s * y - t * (-s * y).exp()).exp()
        return total / 128 / (2 * arb.pi()).sqrt()


def score(noise: LaplaceLogNormal, t: float | np.ndarray) -> np.ndarray:
    """−(ln h)'(t): the density is h(t) = e^{σ²/2} M(t e^{σ²})/2, and M'(t) = −2h(t)."""
    square = noise.sigma**2
    return np.exp(1.5 * square + noise.logpdf(t * math.exp(square)) - noise.logpdf(t))


@pytest.mark.deep
@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("t", [1e-12, 1e-3, 0.7, 9.0, 1e4, 1e9])
def test_survival_density_and_score_are_their_integrals(sigma, t):
    noise, exact = LaplaceLogNormal(sigma), [transform(sigma, t, k) for k in range(3)]
    if exact[0] < 1e-280:
        assert noise.survival(t) < 1e-270
        return
    assert noise.survival(t) == pytest.approx(float(exact[0] / 2), rel=2e-12)
    assert noise.logpdf(-t) == pytest.approx(float((exact[1] / 2).log()), abs=2e-12)
    assert score(noise, t) == pytest.approx(float(exact[2] / exact[1]), rel=4e-12)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_score_falls_from_what_a_shift_costs(sigma):
    noise = LaplaceLogNormal(sigma)
    slopes = score(noise, np.geomspace(1e-15, 1e15, 400))
    assert (np.diff(slopes) <= 1e-10 * slopes[0]).all()
    assert score(noise, 0.0) == pytest.approx(noise.max_score, rel=1e-12)
    assert noise.max_score == pytest.approx(math.exp(1.5 * sigma**2), rel=1e-15, abs=0)


def test_moments_are_those_of_the_product():
    noise = LaplaceLogNormal(0.5)
    assert noise.variance == pytest.approx(2 * math.exp(0.5), rel=1e-14, abs=0)
    draws = noise.sample(np.random.default_rng(1), 200_000)
    assert np.mean(draws**2) == pytest.approx(noise.variance, rel=0.05)


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize(("factor", "agrees"), [(1.0, True), (0.9, False)])
def test_exact_noise_has_its_distribution(factor, agrees):
    # 4,000 draws, seed 3; alpha = 1e-6, and the control is beyond it.
    noise, source = LaplaceLogNormal(1.0), SeededSource(3)
    with working_precision(160):
        drawn = [
            factor**10 * float(noise.ball_noise(LazyUniform(source)).mid()) for _ in range(4000)
        ]
    p = kstest(drawn, noise.cdf).pvalue
    assert (p > 1e-6) == agrees


def test_more_bits_narrow_the_noise_down():
    noise, uniform = LaplaceLogNormal(1.0), LazyUniform(SeededSource(4))
    with working_precision(400):
        first = noise.ball_noise(uniform)
        uniform.refine()
        second = noise.ball_noise(uniform)
        assert first.contains(second)
        assert second.rad() < first.rad() / 1000


def test_it_has_no_quantile():
    with pytest.raises(UnsupportedError, match="product"):
        LaplaceLogNormal(1.0).ppf(0.3)
    for sigma in (0.0, 3.0, math.nan):
        with pytest.raises(ParameterError, match="sigma"):
            LaplaceLogNormal(sigma)


def excess(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """Return the least δ with P[A] ≤ e^ε Q[A] + δ for all A."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def neighbours(m: SmoothPrivateSelection, outcomes: int, growth: float) -> list[tuple]:
    """Pairs at which S grows by e^growth, and utilities move by up to S against each other."""
    result = []
    for gap in (0.0, 1.0, 3.0, 30.0, 300.0, 3000.0):
        for winner in (1.0, -1.0):
            base = np.zeros(outcomes)
            base[0] = winner * gap
            moved = base + 1.0
            moved[0] = base[0] - 1.0
            result.extend(
                tuple(
                    SmoothUtilities(u, s, beta=m.beta)
                    for u, s in zip((base, moved), sizes, strict=True)
                )
                for sizes in ((1.0, math.exp(growth)), (math.exp(growth), 1.0), (1.0, 1.0))
            )
    return result


@pytest.mark.deep
@pytest.mark.parametrize("outcomes", [2, 10, 100])
@pytest.mark.parametrize("sigma", [0.5, 1.0])
def test_no_pair_exceeds_epsilon_and_delta(outcomes, sigma):
    m = SmoothPrivateSelection(1.0, outcomes, LaplaceLogNormal(sigma), delta=DELTA)
    assert m.guarantee.epsilon <= 1.0
    assert m.guarantee.epsilon == pytest.approx(1.0, rel=1e-12)
    assert m.guarantee.delta == DELTA
    worst = 0.0
    for x, y in neighbours(m, outcomes, m.beta):
        p, q = m.probabilities(x), m.probabilities(y)
        worst = max(worst, excess(p, q, 1.0), excess(q, p, 1.0))
    assert worst <= DELTA


@pytest.mark.deep(keep=0)
def test_too_fast_a_change_of_scale_is_found_out():
    """The control: sensitivities that differ by more than e^β."""
    m = SmoothPrivateSelection(0.5, 2, LaplaceLogNormal(0.5), delta=1e-6)
    worst = 0.0
    for x, y in neighbours(m, 2, 1.5):
        p, q = m.probabilities(x), m.probabilities(y)
        worst = max(worst, excess(p, q, 0.5), excess(q, p, 0.5))
    assert worst > 1e-3


def test_without_delta_the_log_ratio_has_no_bound():
    m = SmoothPrivateSelection(1.0, 2, LaplaceLogNormal(0.5), delta=DELTA)
    ratios = []
    for gap in (1e3, 1e5, 1e7):
        rows = [
            m.probabilities(SmoothUtilities([0.0, gap], s, beta=m.beta))[0]
            for s in (1.0, math.exp(m.beta))
        ]
        ratios.append(math.log(rows[1] / rows[0]))
    assert ratios[0] < ratios[1] < ratios[2]


@pytest.mark.parametrize("outcomes", [1, 7, 1000])
def test_the_price_grows_with_the_root_of_the_outcomes(outcomes):
    price = LogNormalScaleCost(0.8)
    beta, shift = 0.01, 0.01 * math.sqrt(outcomes) / 0.8
    expected = shift**2 / 2 + shift * math.sqrt(2 * math.log(1e5))
    cost = price.cost(beta, outcomes, 1e-5)
    assert float(cost) == pytest.approx(expected, rel=1e-12)
    assert float(price.affordable(cost, outcomes, 1e-5)) == pytest.approx(beta, rel=1e-12)
    # P[N(μ²/2, μ²) > cost] ≤ δ, by the normal distribution.
    z = (mp.mpf(float(cost)) - shift**2 / 2) / shift
    assert mp.erfc(z / mp.sqrt(2)) / 2 <= 1e-5


def test_delta_is_asked_for():
    for delta in (0.0, 0.7):
        with pytest.raises(ParameterError, match="delta"):
            SmoothPrivateSelection(1.0, 2, LaplaceLogNormal(), delta=delta)


def test_published_is_one_variable_and_says_so():
    """[SNM Corollary 4.5]: ε = e^{3σ²/2} α + β/σ is half of ε² in zCDP, for one variable."""
    with pytest.warns(PublishedCalibrationWarning, match="not proved"):
        m = SmoothNoisyMax(1.0, 10, LaplaceLogNormal(0.5), calibration="published", delta=1e-5)
    assert math.exp(1.5 * 0.25) * m.alpha + m.beta / 0.5 == pytest.approx(1.0, rel=1e-12)
    assert m.guarantee.epsilon > 2
    assert m.guarantee.delta == 1e-5
    assert m.guarantee.source == "[proof: docs/selection.md]"
