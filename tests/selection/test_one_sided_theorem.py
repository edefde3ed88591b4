"""R_m against its definition by quadrature; the split of a budget in exact arithmetic."""

import math
from fractions import Fraction

import mpmath as mp
import pytest

from geoveil.gp.errors import ParameterError
from geoveil.selection.one_sided import ExponentialPareto
from geoveil.selection.smooth_privacy import (
    best_share,
    scale_price,
    split_budget,
    tilted_depth,
)


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
