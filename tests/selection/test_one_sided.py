"""One-sided noise: its law, its supremum, and the theorem's guarantee."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from flint import arb
from scipy import stats

from geoveil.gp.errors import GeoVeilError, ParameterError
from geoveil.gp.exact import BALL, working_precision
from geoveil.selection import one_sided
from geoveil.selection.one_sided import (
    TOLERANCE,
    ExponentialPareto,
    HalfGeneralizedCauchy,
    HalfStudentT,
    OneSidedNoise,
    supremum,
)
from geoveil.selection.smooth_privacy import best_share, scale_price, split_budget, tilted_depth

NOISES: list[OneSidedNoise] = [
    *(HalfStudentT(nu) for nu in (0.5, 1.0, 3.0, 7.5)),
    *(HalfGeneralizedCauchy(gamma) for gamma in (1.5, 3.0, 4.0, 12.0)),
    *(ExponentialPareto(nu) for nu in (0.5, 1.0, 3.0, 20.0)),
]
POINTS = [1e-6, 0.01, 0.3, 0.9, 1.0, 1.7, 4.0, 25.0, 1e3]


def density(noise: OneSidedNoise, t: mp.mpf) -> mp.mpf:
    """The density from its definition, in mpmath."""
    if isinstance(noise, HalfStudentT):
        nu = mp.mpf(noise.nu)
        norm = 2 * mp.gamma((nu + 1) / 2) / (mp.gamma(nu / 2) * mp.sqrt(nu * mp.pi))
        return norm * (1 + t * t / nu) ** (-(nu + 1) / 2)
    if isinstance(noise, HalfGeneralizedCauchy):
        gamma = mp.mpf(noise.gamma)
        return gamma * mp.sin(mp.pi / gamma) / mp.pi / (1 + t**gamma)
    assert isinstance(noise, ExponentialPareto)
    nu = mp.mpf(noise.nu)
    return mp.exp(-t) if t <= nu else mp.exp(-nu) * (t / nu) ** (-nu - 1)


def upper_share(a: mp.mpf, b: mp.mpf, odds: mp.mpf) -> mp.mpf:
    """I_{1/(1+odds)}(a, b), without cancellation on either side."""
    if odds > 1:
        return mp.betainc(a, b, 0, 1 / (1 + odds), regularized=True)
    return 1 - mp.betainc(b, a, 0, odds / (1 + odds), regularized=True)


def survival(noise: OneSidedNoise, t: mp.mpf) -> mp.mpf:
    """The integral of the density from t on, in mpmath's special functions."""
    if isinstance(noise, HalfStudentT):
        nu = mp.mpf(noise.nu)
        return upper_share(nu / 2, mp.mpf(0.5), t * t / nu)
    if isinstance(noise, HalfGeneralizedCauchy):
        gamma = mp.mpf(noise.gamma)
        return upper_share(1 - 1 / gamma, 1 / gamma, t**gamma)
    assert isinstance(noise, ExponentialPareto)
    nu = mp.mpf(noise.nu)
    return mp.exp(-t) if t <= nu else mp.exp(-nu) * (t / nu) ** -nu


@pytest.fixture(params=NOISES, ids=repr)
def noise(request):
    """Every family, with several parameters."""
    return request.param


def test_the_oracle_s_survival_is_the_integral_of_its_density(noise):
    """It is 1 at 0, and falls to 0 as fast as the density says."""
    assert float(survival(noise, mp.mpf(0))) == pytest.approx(1, rel=1e-12)
    assert survival(noise, mp.mpf(10) ** 60) < 1e-29
    for t in POINTS:
        slope = mp.diff(lambda s: survival(noise, s), mp.mpf(t))
        assert float(-slope) == pytest.approx(float(density(noise, mp.mpf(t))), rel=1e-10)


def test_density_and_survival_are_those_of_the_definition(noise):
    for t in POINTS:
        assert float(noise.pdf(t)) == pytest.approx(float(density(noise, mp.mpf(t))), rel=1e-12)
        assert float(noise.survival(t)) == pytest.approx(
            float(survival(noise, mp.mpf(t))), rel=1e-9
        )


def test_nothing_is_below_zero(noise):
    assert noise.survival([-3.0, 0.0]) == pytest.approx([1, 1], rel=1e-12)
    assert noise.pdf([-3.0])[0] == 0
    assert noise.log_cdf([-3.0, 0.0]).tolist() == [-math.inf, -math.inf]


def test_the_ball_quantile_inverts_the_distribution(noise):
    with working_precision(200):
        for p in (1e-6, 0.1, 0.5, 0.75, 0.999, 1 - 1e-9):
            t = noise.quantile(arb(p), BALL)
            assert t.rad() < abs(t.mid()) * 1e-20
            assert float(noise.survival(float(t))) == pytest.approx(1 - p, rel=1e-9)
            assert float(noise.quantile(p)) == pytest.approx(float(t), rel=1e-7)


@pytest.mark.deep(keep=9)
def test_draws_have_the_distribution_and_others_do_not(noise):
    # n = 20,000 draws, seed 5; alpha = 1e-6 for the test, and the control must be beyond it.
    draws = noise.sample(np.random.default_rng(5), 20_000)

    def cdf(t: np.ndarray) -> np.ndarray:
        return 1 - noise.survival(t)

    assert stats.kstest(draws, cdf).pvalue > 1e-6
    assert stats.kstest(draws * 1.2, cdf).pvalue < 1e-6


def quotient(noise: OneSidedNoise, t: mp.mpf) -> tuple[mp.mpf, mp.mpf, mp.mpf]:
    """Hazard, t f/F̄ and t f/(F (−ln F)) at t, from the definition."""
    f, tail = density(noise, t), survival(noise, t)
    return f / tail, t * f / tail, t * f / ((1 - tail) * -mp.log1p(-tail))


@pytest.mark.deep(keep=3)
def test_constants_are_above_the_suprema_and_close(noise):
    grid = [
        *(mp.exp(mp.mpf(y) / 2) for y in range(-5, 13)),
        *(mp.mpf(y) / 16 for y in range(9, 27)),
    ]
    knees = [mp.mpf(k) * (1 - mp.mpf(2) ** -40) for k in noise.knees]
    values = [quotient(noise, t) for t in (*grid, *knees)]
    slack = 1 + 1e-9
    hazard, index, scale_cost = (max(column) for column in zip(*values, strict=True))
    assert hazard <= noise.hazard * slack
    assert index <= noise.tail_index * slack
    assert scale_cost <= noise.log_cdf_scale_cost * slack
    assert max(scale_cost, noise.tail_index) == pytest.approx(noise.log_cdf_scale_cost, rel=2e-2)
    assert max(hazard, float(noise.pdf(0))) == pytest.approx(noise.hazard, rel=2e-2)


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize(
    ("noise", "ratio"),
    [
        (HalfStudentT(1), 1.0482),
        (HalfStudentT(3), 1.0),
        (HalfGeneralizedCauchy(3), 1.0038),
        (ExponentialPareto(1), 1.2688),
        (ExponentialPareto(3), 1.0260),
    ],
    ids=repr,
)
def test_price_of_the_losers_over_that_of_the_winner(noise, ratio):
    assert noise.log_cdf_scale_cost / noise.tail_index == pytest.approx(ratio, abs=6e-5)
    assert noise.log_cdf_scale_cost >= noise.tail_index


def test_the_half_cauchy_constant_is_that_of_its_closed_form():
    def g(t: mp.mpf) -> mp.mpf:
        cdf = 2 / mp.pi * mp.atan(t)
        return 2 * t / mp.pi / (1 + t * t) / (cdf * -mp.log(cdf))

    top = mp.findroot(lambda t: mp.diff(g, t), 3.2)
    for noise in (HalfStudentT(1), HalfGeneralizedCauchy(2)):
        assert 0 <= noise.log_cdf_scale_cost - float(g(top)) < 1e-5


@pytest.mark.parametrize(
    ("family", "name", "wrong"),
    [
        (HalfStudentT, "nu", 0.4),
        (HalfGeneralizedCauchy, "gamma", 22.0),
        (ExponentialPareto, "nu", "3"),
    ],
)
def test_parameters_out_of_range_are_refused(family, name, wrong):
    with pytest.raises(ParameterError, match=name):
        family(wrong)


def gaussian_bump(low: arb, high: arb) -> tuple[arb, arb]:
    """Log of e^{−(t−1)²}·7."""
    t = low.union(high) - 1
    return arb(7).log() - t * t, -2 * t


def test_the_bound_is_above_the_supremum_and_within_the_tolerance():
    bound = float(supremum(gaussian_bump, arb(0), arb(5), arb("1e-9")))
    assert 7 <= bound <= 7 * (1 + 2 * TOLERANCE)


def test_the_floor_counts():
    bound = float(supremum(gaussian_bump, arb(4), arb(5), arb(3)))
    assert 3 <= bound <= 3 * (1 + 2 * TOLERANCE)


def test_a_function_that_stays_unknown_is_reported(monkeypatch):
    monkeypatch.setattr(one_sided, "_MOST_CELLS", 1 << 10)
    with pytest.raises(GeoVeilError, match="supremum"):
        supremum(lambda low, high: (arb(0), arb("nan")), arb(0), arb(1), arb(1))


def defining_integral(r: mp.mpf, outcomes: int) -> mp.mpf:
    """E[(min(kτ, R+1) − R) e^{−min(kτ, R+1)}], τ exponential, k = m − 1."""
    k = outcomes - 1

    def integrand(tau: mp.mpf) -> mp.mpf:
        h = min(k * tau, r + 1)
        return (h - r) * mp.exp(-h - tau)

    knee = (r + 1) / k
    return mp.quad(integrand, [0, knee / 2, knee, knee + 1, knee + 10, mp.inf])


@pytest.mark.deep
@pytest.mark.parametrize("outcomes", [2, 3, 7, 50, 1000, 10**6])
def test_depth_solves_its_defining_equation_and_is_rounded_up(outcomes):
    r = mp.mpf(tilted_depth(outcomes))
    with mp.workdps(30):
        root = mp.findroot(lambda x: defining_integral(x, outcomes), r)
        assert 0 <= r - root < 1e-14
        assert defining_integral(r, outcomes) <= 0


@pytest.mark.parametrize(
    ("outcomes", "published"),
    [(2, 0.524), (10, 1.439), (100, 2.899), (10000, 6.504)],
)
def test_depth_has_the_values_of_the_table(outcomes, published):
    assert round(tilted_depth(outcomes), 3) == published


def test_depth_grows_but_never_beyond_the_logarithm():
    counts = [*range(2, 300), 10**4, 10**6, 10**12]
    depths = [tilted_depth(m) for m in counts]
    assert depths == sorted(depths)
    assert all(depth <= math.log(m) for depth, m in zip(depths, counts, strict=True))
    assert tilted_depth(1) == 0


@pytest.mark.parametrize("wrong", [0, 2.0])
def test_depth_refuses_what_counts_nothing(wrong):
    with pytest.raises(ParameterError, match="outcomes"):
        tilted_depth(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 1 / 3, 17.3])
@pytest.mark.parametrize("share", [1e-3, 0.3, 0.9])
@pytest.mark.parametrize("outcomes", [1, 2, 10, 10**5])
def test_split_never_exceeds_the_budget_and_wastes_nothing(epsilon, share, outcomes):
    price = scale_price(ExponentialPareto(1.3), outcomes)
    hazard = 1.0617
    split = split_budget(epsilon, hazard, price, share)
    spent = Fraction(split.alpha) * Fraction(hazard) + Fraction(split.beta) * price
    assert spent <= Fraction(epsilon)
    assert spent <= Fraction(split.epsilon) <= Fraction(epsilon)
    more = Fraction(math.nextafter(split.alpha, 2 * split.alpha)) * Fraction(hazard)
    assert more + Fraction(split.beta) * price > Fraction(epsilon)
    assert split.beta * float(price) == pytest.approx(share * epsilon, rel=1e-12)


def test_price_is_the_tail_index_for_two_outcomes_and_grows_as_the_logarithm():
    noise = ExponentialPareto(2.0)
    assert scale_price(noise, 2) == 2
    assert scale_price(noise, 1000) == Fraction(noise.log_cdf_scale_cost) * Fraction(
        tilted_depth(1000)
    )


@pytest.mark.parametrize("margin", [3, 10, 40])
def test_best_share_beats_every_other_share(margin):
    price, epsilon = Fraction(5, 2), 1.0

    def scale(share: float) -> float:
        split = split_budget(epsilon, 1.0, price, share)
        return math.exp(-(margin - 1) * split.beta) / split.alpha

    best = best_share(epsilon, price, lambda beta: math.exp(-(margin - 1) * beta))
    assert all(scale(best) <= scale(k / 200) * (1 + 1e-9) for k in range(1, 200))


@pytest.mark.parametrize(("epsilon", "share"), [(0, 0.5), (math.inf, 0.5), (1, 0), (1, 1)])
def test_split_refuses_what_is_out_of_range(epsilon, share):
    with pytest.raises(ParameterError):
        split_budget(epsilon, 1.0, Fraction(3), share)
