"""Test hard shares, quantiles, histograms and curves for people crowded within a noise scale.

200 campaigns of 2,000 people, 40 for each spread of the crowd: exact intervals of 95 % hold in
fewer than 180 of 200 once in 1,000 (α = 1e-3), and in fewer than 5 of 8 once in 2,000. The seed is
fixed. The intervals of what is smooth at b are the control. 199 or 200 hold, of the control 57 to
121.
"""

from typing import Any

import numpy as np
import pytest

from geoveil.analyst import ChosenBands, ShareAbove, ShareBetween
from geoveil.analyst.results import SMOOTH
from geoveil.analyst.statistics.distribution import DistributionFunction
from geoveil.analyst.statistics.partition import Histogram
from geoveil.analyst.statistics.quantiles import Quantiles
from tests.analyst.test_chosen_bands import answered

from .populations import Array, campaign, reports

B, N = 8_000.0, 2_000
T = 100_000.0
EDGES = (60_000.0, T, 160_000.0)
AT = np.arange(40_000.0, 170_000.0, 10_000.0)
SPREADS = (0.0, 0.25, 0.5, 1.0, 2.0)
"""Spreads of the crowd, in noise scales."""


def people(spread: float, count: int, rng: np.random.Generator) -> Array:
    """Return incomes of which half are crowded just above T, a quarter just below 60,000."""
    where = rng.random(count)
    crowd = spread * B * rng.standard_normal(count)
    spread_out = rng.lognormal(11.3, 0.8, count)
    low = np.where(where < 0.75, EDGES[0] - 0.2 * B + crowd, spread_out)
    return np.where(where < 0.5, T + 0.2 * B + crowd, low)


def inside(low: Any, truth: Any, high: Any) -> bool:
    return bool(np.all((np.asarray(low) <= truth) & (truth <= np.asarray(high))))


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize(
    ("spreads", "campaigns", "least"),
    [((0.25,), 8, 5), pytest.param(SPREADS, 40, 180, marks=pytest.mark.deep(keep=0, rest=0))],
)
def test_any_crowd_holds_what_is_sharp_and_the_smooth_interval_does_not(spreads, campaigns, least):
    rng = np.random.default_rng(37)
    held: dict[str, list[bool]] = {}
    smooth: dict[str, list[bool]] = {}

    def count(name: str, truth: Any, any_crowd: Any, low: Any, high: Any) -> None:
        held.setdefault(name, []).append(inside(any_crowd[0], truth, any_crowd[1]))
        smooth.setdefault(name, []).append(inside(low, truth, high))

    bands = ChosenBands(campaign(), [ShareAbove(T), ShareBetween(EDGES[0], T)])
    for spread in spreads:
        all_of_them = np.sort(people(spread, 1_000_000, rng))

        def up_to(at: Any, all_of_them: Array = all_of_them) -> Any:
            return np.searchsorted(all_of_them, at, "right") / len(all_of_them)

        shares = np.diff([0.0, *up_to(EDGES), 1.0])
        median = np.quantile(all_of_them, 0.5)
        for _ in range(campaigns):
            points = people(spread, N, rng) + rng.laplace(0.0, B, N)
            above, between = answered(bands, points).estimates
            for row, truth in ((above, 1 - up_to(T)), (between, shares[1])):
                assert row.hard is not None
                count(row.label, truth, row.any_crowd, row.hard.ci_low, row.hard.ci_high)
            found = reports(points)
            bins = found.ask(Histogram(edges=EDGES))
            count("histogram", shares, bins.any_crowd, bins.low, bins.high)
            curve = found.ask(DistributionFunction(at=AT.tolist()))
            count("curve", up_to(AT), curve.any_crowd, curve.low, curve.high)
            middle = found.ask(Quantiles(levels=(0.5,)))
            count("median", median, middle.any_crowd, middle.low, middle.high)
            for result in (bins, curve, middle):
                assert {row["holds"] for row in result.rows()} == {SMOOTH}
                assert "any crowd interval" in str(result)
    assert all(sum(each) >= least for each in held.values()), held
    assert all(sum(each) < least for each in smooth.values()), smooth
