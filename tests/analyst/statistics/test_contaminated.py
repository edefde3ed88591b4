"""Test that intervals of statistics hold with worst-case false reports."""

import numpy as np
import pytest

from geoveil.analyst import (
    Contaminated,
    DistributionFunction,
    Gini,
    Histogram,
    Means,
    MeanValue,
    Quantiles,
)
from geoveil.campaign import PointQuestion
from geoveil.gp import ParameterError, Threshold

from .populations import NOISE, campaigns, incomes, reports

AT, WIDTH, FRACTION = 100_000.0, 24_000.0, 0.02
ABOVE = Threshold(AT, WIDTH, "smoothstep")


@pytest.fixture(scope="module")
def lying():
    """Two in a hundred of 20,000 points are where one counts for most of the share above."""
    (points,) = campaigns(incomes(), 20_000, 1, seed=3)
    grid = np.linspace(AT - WIDTH, AT + WIDTH, 2_001)
    worst = grid[np.argmax(NOISE.estimator(ABOVE, debias=True).value(grid))]
    points[: int(FRACTION * len(points))] = worst
    return reports(points)


def test_a_share_is_held_with_liars_only(lying):
    true = ABOVE.value(incomes()).mean()
    question = Means([PointQuestion("above", ABOVE)])
    (plain,) = lying.ask(question).rows()
    (wide,) = lying.ask(Contaminated(question, FRACTION)).rows()
    assert wide["ci_low"] <= true <= wide["ci_high"]
    assert not plain["ci_low"] <= true <= plain["ci_high"]  # the control
    assert wide["estimate"] == plain["estimate"]
    assert wide["standard_error"] == plain["standard_error"]
    assert (
        "2 % of the reports say anything" in lying.ask(Contaminated(question, FRACTION)).notes[-1]
    )


@pytest.mark.parametrize(
    "statistic", [DistributionFunction(low=0.0, high=3e5), Histogram(edges=(5e4, AT)), Quantiles()]
)
def test_every_interval_is_wider_and_says_why(lying, statistic):
    plain, wide = (lying.ask(one) for one in (statistic, Contaminated(statistic, FRACTION)))
    assert (wide.low <= plain.low + 1e-12).all()
    assert (wide.high >= plain.high - 1e-12).all()
    assert (wide.high - wide.low).sum() > 1.5 * (plain.high - plain.low).sum()
    assert any("say anything" in note for note in wide.notes)
    assert not any("say anything" in note for note in plain.notes)


def test_the_interquartile_range_is_widened_by_what_both_quartiles_are(lying):
    plain, wide = (lying.ask(one) for one in (Quantiles(), Contaminated(Quantiles(), FRACTION)))
    thin, thick = plain.interquartile_range, wide.interquartile_range
    moved = (plain.low - wide.low)[[0, 2]], (wide.high - plain.high)[[0, 2]]
    assert min(map(min, moved)) > 500
    assert thin.ci_low - thick.ci_low == pytest.approx(moved[0][1] + moved[1][0], rel=0.05)
    assert thick.ci_high - thin.ci_high == pytest.approx(moved[1][1] + moved[0][0], rel=0.05)


@pytest.mark.parametrize("statistic", [MeanValue(), Gini()])
def test_what_nothing_bounds_is_refused(lying, statistic):
    with pytest.raises(ParameterError, match="nothing bounds"):
        lying.ask(Contaminated(statistic, FRACTION))


@pytest.mark.parametrize("fraction", [-0.1, 1.0, float("nan")])
def test_a_fraction_is_below_1(fraction):
    with pytest.raises(ParameterError, match="contamination"):
        Contaminated(Quantiles(), fraction)
