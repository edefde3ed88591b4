"""Test plans of many periods against the weekly experiment and drawn reports."""

from typing import Any

import numpy as np
import pytest

from geoveil.analyst import (
    LogNormalPrior,
    PlanRequest,
    PublicPrior,
    ShareAbove,
    plan_for,
    planned_periods,
)
from geoveil.analyst.planning import PlannedQuestions, Searches
from geoveil.gp import GeoPrivacy, ParameterError, PlanarLaplace

N = 30_000


@pytest.fixture(scope="module")
def found() -> Any:
    return planned(100_000.0)


def planned(*at: float) -> Any:
    source = PublicPrior.of_numbers(LogNormalPrior(11.0, 0.8), "dollar", "income")
    asked = [ShareAbove(one) for one in at]
    people: dict[str, Any] = {"source": source, "participants": N, "unit": "dollar"}
    request = PlanRequest.of(asked, epsilon=1.0, per=8_000.0, **people)
    return plan_for(request)


def error(told: Any, way: str) -> float:
    (found,) = (row["error"] for row in told["ways"] if row["way"] == way)
    return float(found)


def test_errors_are_those_of_drawn_reports(found: Any) -> None:
    """Fresh noise and noise split over four: the variance of 200,000 reports, within 5 %."""
    told = planned_periods(found, 4)
    rng = np.random.default_rng(1)
    people = rng.lognormal(11.0, 0.8, 200_000)
    query = found.result.choice.query
    for way, epsilon in (("fresh", 1.0), ("split", 0.25)):
        point = PlanarLaplace(GeoPrivacy(epsilon, 8_000.0, "dollar"), 1)
        read = point.estimator(query, debias=True).value(point.simulate(people, rng))
        drawn = (read - query.value(people)).var()
        assert error(told, way) == pytest.approx((drawn / N) ** 0.5, rel=0.05)
    assert [row["epsilon"] for row in told["ways"]] == [1.0, 1.0, 1.0, 4.0]


def test_the_ways_cross_where_it_is_said(found: Any) -> None:
    told = planned_periods(found, 52)
    for drift, other in (
        (told["drift_carried"], "one reading, extrapolated"),
        (told["drift_split"], "split"),
    ):
        below, above = (planned_periods(found, 52, factor * drift) for factor in (0.99, 1.01))
        assert error(below, "one reading, carried") < error(below, other)
        assert error(above, "one reading, carried") > error(above, other)


def test_a_carried_answer_is_as_old_as_devices_draw(found: Any) -> None:
    """Bias of a share that rises by 0.001 a period: the mean square over ages up to 12 periods."""
    ages = 12 * (np.arange(100_000) + 0.5) / 100_000
    moved = error(planned_periods(found, 12, 0.001), "one reading, carried") ** 2
    still = error(planned_periods(found, 12), "one reading, carried") ** 2
    assert moved - still == pytest.approx(float(np.square(0.001 * ages).mean()), rel=1e-6)


@pytest.mark.parametrize(
    ("periods", "drift", "name"), [(1, 0.0, "periods"), (20_000, 0.0, "periods"), (4, 2.0, "drift")]
)
def test_what_is_out_of_range_is_refused(found: Any, periods: int, drift: float, name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        planned_periods(found, periods, drift)
    assert caught.value.name == name


def test_several_questions_are_refused(found: Any) -> None:
    several = PlannedQuestions(found.request, found.result, Searches())
    with pytest.raises(ParameterError, match="one question"):
        planned_periods(several, 4)
