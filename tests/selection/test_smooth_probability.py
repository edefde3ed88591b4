"""The distribution of the argmax by quadrature: against other quadrature, balls and draws."""

import math
from fractions import Fraction
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from flint import acb, arb, fmpq

from geoveil.gp.exact import working_precision
from geoveil.gp.noise import Laplace
from geoveil.selection.argmax_probability import argmax_probabilities
from geoveil.selection.noise_law import Law, one_sided_law, two_sided_law
from geoveil.selection.one_sided import ExponentialPareto, HalfStudentT
from geoveil.selection.two_sided import HeavyGeneralizedCauchy, HeavyStudentT

LAWS: dict[str, Law] = {
    "cauchy": two_sided_law(HeavyStudentT(1.0)),
    "t3": two_sided_law(HeavyStudentT(3.0)),
    "gc20": two_sided_law(HeavyGeneralizedCauchy(20.0)),
    "laplace": two_sided_law(Laplace()),
    "half t3": one_sided_law(HalfStudentT(3.0)),
    "exponential-pareto 1": one_sided_law(ExponentialPareto(1.0)),
    "exponential-pareto 5": one_sided_law(ExponentialPareto(5.0)),
}
UTILITIES = {
    "two": [0.0, 1.5],
    "ties": [2.0, 2.0, 0.0, 0.0, 0.0, -7.0],
    "far": [0.0, 1e4, 9.9e3],
    "farther": [0.0, 1e12],
}


@pytest.fixture(params=list(LAWS))
def law(request):
    """Every kind of noise."""
    return LAWS[request.param]


def by_gauss(law: Law, utilities: list[float], outcome: int) -> float:
    """The defining integral by 40 nodes on every one of many panels, denser near the utilities."""
    tops = sorted(set(utilities))
    steps = [*(k / 8 for k in range(32)), *(2.0**k for k in range(2, 60))]
    points = {t + sign * step for t in tops for step in steps for sign in (1, -1)}
    points |= {t + knee for t in tops for knee in law.knees}
    edges = np.array(sorted(p for p in points if p >= max(tops) or not law.nonnegative))
    x, w = np.polynomial.legendre.leggauss(40)
    half = np.diff(edges)[:, None] / 2
    z = (edges[:-1, None] + half + half * x)[..., None] - np.array(utilities)
    rest = np.delete(law.log_cdf(z), outcome, axis=-1).sum(axis=-1)
    with np.errstate(under="ignore"):
        return float((np.exp(law.logpdf(z)[..., outcome] + rest) * half * w).sum())


@pytest.mark.parametrize("utilities", [UTILITIES["two"], UTILITIES["ties"], UTILITIES["far"]])
def test_probabilities_are_those_of_the_defining_integral(law, utilities):
    p, _ = argmax_probabilities(law, np.array(utilities), 1.0)
    for outcome in {0, len(utilities) - 1}:
        expected = by_gauss(law, utilities, outcome)
        assert p[outcome] == pytest.approx(expected, rel=1e-10, abs=1e-250)


@pytest.mark.parametrize("name", UTILITIES)
def test_probabilities_sum_to_one_within_the_stated_errors(law, name):
    p, error = argmax_probabilities(law, np.array(UTILITIES[name]), 0.7)
    assert abs(p.sum() - 1) <= error.sum()
    assert (error < 1e-10).all()


@pytest.mark.parametrize("gap", [0.0, 0.4, 60.0])
def test_the_error_covers_what_certified_quadrature_finds(gap):
    # P[Z_1 > Z_0 + gap] for half Student-t with ν = 3, whose F is elementary, in ball arithmetic.
    def cdf(t: acb) -> acb:
        x = t / acb(3).sqrt()
        return (x.atan() + x / (1 + x * x)) * 2 / acb.pi()

    def density(t: acb) -> acb:
        return 2 * 2 / (acb.pi() * acb(3).sqrt()) / (1 + t * t / 3) ** 2

    with working_precision(120):
        end = arb(2) ** 24
        inside = acb.integral(lambda t, _: density(t + gap) * cdf(t), 0, end).real
        # Beyond the end F is within 1e-20 of 1, and the tail is at most 6√3/π t^−3.
        tail = 1 - cdf(acb(end + gap)).real
        exact = inside + tail
    p, error = argmax_probabilities(LAWS["half t3"], np.array([0.0, gap]), 1.0)
    assert abs(arb(float(p[0])) - exact) < arb(float(error[0])) + exact.rad()
    assert error[0] < 1e-11 * p[0]


@pytest.mark.deep
def test_a_light_tail_agrees_with_mpmath():
    # The last of six, nine units behind, under 1/(1+|z|^20); F by its series near 0 as well.
    with mp.workdps(25):
        gamma = mp.mpf(20)
        height, k = gamma * mp.sin(mp.pi / gamma) / (2 * mp.pi), 1 / gamma

        def cdf(z: mp.mpf) -> mp.mpf:
            power = abs(z) ** gamma
            if abs(z) < 1:
                share = power / (1 + power)
                return 0.5 + mp.sign(z) * mp.betainc(k, 1 - k, 0, share, regularized=True) / 2
            tail = mp.betainc(1 - k, k, 0, 1 / (1 + power), regularized=True) / 2
            return 1 - tail if z > 0 else tail

        def integrand(v: mp.mpf) -> mp.mpf:
            return height / (1 + (v + 7) ** gamma) * cdf(v - 2) ** 2 * cdf(v) ** 3

        edges = [*(mp.mpf(k) / 8 for k in range(-16, 128)), *(2**k for k in range(4, 16))]
        exact = mp.quad(integrand, edges)
    p, error = argmax_probabilities(LAWS["gc20"], np.array(UTILITIES["ties"]), 1.0)
    assert abs(p[5] - float(exact)) <= error[5] < 1e-11 * p[5]


def test_a_laplace_lead_has_the_closed_form():
    # Both variables, P[Z_0 − Z_1 > gap] = e^{−gap}(2 + gap)/4.
    for gap in (0.0, 0.3, 5.0, 80.0):
        p, error = argmax_probabilities(LAWS["laplace"], np.array([0.0, gap]), 1.0)
        exact = math.exp(-gap) * (2 + gap) / 4
        assert abs(p[0] - exact) <= error[0]


@pytest.mark.parametrize("outcomes", [10, 1000, 10_000])
def test_indicators_of_many_outcomes_sum_to_one(law, outcomes):
    utilities = np.zeros(outcomes)
    utilities[3] = 40.0
    p, error = argmax_probabilities(law, utilities, 1.0)
    assert abs(p.sum() - 1) < 1e-10
    assert np.ptp(np.delete(p, 3)) == 0
    assert p[3] == p.max()
    assert error.max() < 1e-11


@pytest.mark.deep
def test_ten_thousand_different_utilities(p_value):
    utilities = np.random.default_rng(2).normal(size=10_000) * 3
    law, noise = LAWS["exponential-pareto 5"], ExponentialPareto(5.0)
    p, error = argmax_probabilities(law, utilities, 0.5)
    assert abs(p.sum() - 1) < 1e-11
    assert error.max() < 1e-12
    # 4,000 draws of the argmax, seed 9; alpha = 1e-6, and the control is beyond it.
    rng = np.random.default_rng(9)
    winners = [(utilities + 0.5 * noise.sample(rng, 10_000)).argmax() for _ in range(4000)]
    group = np.argsort(np.argsort(-utilities)) // 500
    counts = np.bincount(group[winners], minlength=20)
    assert p_value(counts, np.bincount(group, weights=p)) > 1e-6
    wrong, _ = argmax_probabilities(law, utilities, 0.6)
    assert p_value(counts, np.bincount(group, weights=wrong)) < 1e-6


@pytest.mark.parametrize("name", ["t3", "exponential-pareto 1"])
def test_draws_agree_with_the_probabilities(name, p_value):
    # 200,000 draws, seed 4; alpha = 1e-6, and the control is beyond it.
    utilities, rng = np.array([0.0, 1.0, 1.5, -3.0, 1.0]), np.random.default_rng(4)
    noise = HeavyStudentT(3.0) if name == "t3" else ExponentialPareto(1.0)
    winners = (utilities + 0.8 * noise.sample(rng, (200_000, 5))).argmax(axis=1)
    counts = np.bincount(winners, minlength=5)
    assert p_value(counts, argmax_probabilities(LAWS[name], utilities, 0.8)[0]) > 1e-6
    assert p_value(counts, argmax_probabilities(LAWS[name], utilities, 0.84)[0]) < 1e-6


def test_equal_utilities_are_equally_likely_whatever_the_scale(law):
    p, _ = argmax_probabilities(law, np.full(7, 1e80), 1e-80)
    assert p.tolist() == [1 / 7] * 7
    assert argmax_probabilities(law, np.array([5.0]), 1.0)[0].tolist() == [1.0]


def test_gaps_beyond_every_double_are_resolved_as_far_behind(law):
    p, error = argmax_probabilities(law, np.array([1e90, -1e90, 1e90]), 1e-80)
    assert p[1] < 1e-90
    assert p[[0, 2]] == pytest.approx([0.5, 0.5], abs=1e-10)
    assert (error < 1e-10).all()


@pytest.mark.parametrize("gap", [1e7, 1e25])
@pytest.mark.parametrize(("name", "ways"), [("t3", 2), ("cauchy", 2), ("half t3", 1)])
def test_far_behind_it_takes_one_large_noise(name, ways, gap):
    # The one noise is large upwards, or, two-sided, the other one's downwards.
    law = LAWS[name]
    p, error = argmax_probabilities(law, np.array([0.0, gap]), 1.0)
    assert p[0] == pytest.approx(ways * float(law.survival(np.array(gap))), rel=1e-4)
    assert error[0] < 1e-10 * p[0]


def t3_winner(utilities: list[int], outcome: int) -> arb:
    """Return the probability for Student-t noise with ν = 3, in 80 digits; its F is elementary."""
    root = arb(3).sqrt()

    def cdf(z: arb) -> arb:
        if z < -1:  # without the cancellation of 1/2 and the arc
            return ((-root / z).atan() + root * z / (z * z + 3)) / arb.pi()
        return arb(1) / 2 + ((z / root).atan() + root * z / (z * z + 3)) / arb.pi()

    x, w = ([arb(float(v)) for v in values] for values in np.polynomial.legendre.leggauss(24))
    steps = [Fraction(0), *(Fraction(2) ** k for k in range(-2, 90))]
    centres = (utilities[0], utilities[1])
    edges = sorted({u + sign * step for u in centres for step in steps for sign in (1, -1)})
    total = arb(0)
    for low, high in pairwise(arb(fmpq(*edge.as_integer_ratio())) for edge in edges):
        for node, weight in zip(x, w, strict=True):
            v = (low + high) / 2 + node * (high - low) / 2
            density = 6 * root / (arb.pi() * (3 + (v - utilities[outcome]) ** 2) ** 2)
            others = arb(1)
            for i, u in enumerate(utilities):
                if i != outcome:
                    others *= cdf(v - u)
            total += density * others * weight * (high - low) / 2
    return total


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("gap", [1, 2**10, 2**44, 2**56])
def test_rivals_far_behind_but_near_each_other_are_within_the_stated_error(gap):
    # At 2^56 the gaps themselves are doubles that are 16 apart.
    utilities = [gap, 0, 1, 3]
    p, error = argmax_probabilities(LAWS["t3"], np.array(utilities, dtype=float), 1.0)
    with working_precision(270):
        for outcome in (1, 3):
            exact = t3_winner(utilities, outcome)
            assert exact.rad() < abs(exact.mid()) * 1e-40
            assert abs(arb(float(p[outcome])) - exact) <= arb(float(error[outcome]))
    assert (error <= 1e-11 * p).all()


@pytest.mark.deep(keep=4)
@pytest.mark.parametrize("gap", [3.0, 1e4, 1e16, 1e30])
def test_no_error_exceeds_what_the_tails_leave_open(law, gap):
    p, error = argmax_probabilities(law, np.array([gap, *np.arange(400.0) * gap / 800]), 1.0)
    most = law.most(gap - np.arange(400.0) * gap / 800)
    assert (error[1:] <= np.maximum(p[1:], most - p[1:])).all()
    assert (p[1:] <= most * (1 + 1e-9)).all()


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("noise", [HeavyStudentT(0.5), HeavyStudentT(3.0)])
@pytest.mark.parametrize("spacing", [0.1, 1.0, 1000.0])
def test_far_rivals_compete_as_they_would_alone(noise, spacing):
    """At a gap g either the one noise exceeds g, or the top's falls below −g and the rest compete.

    So P(r)/F̄(g) is 1 and what r has among the rest alone, more rivals than there are centres.
    """
    law, gap, rest = two_sided_law(noise), 1e60, spacing * np.arange(400.0)
    alone, _ = argmax_probabilities(law, rest, 1.0)
    p, error = argmax_probabilities(law, np.array([gap, *rest]), 1.0)
    tail = float(law.survival(np.array(gap)))
    assert np.abs(p[1:] / tail - 1 - alone).max() < 1e-9
    assert (error[1:] < 1e-9 * p[1:]).all()
