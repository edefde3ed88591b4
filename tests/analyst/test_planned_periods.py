"""Test plans of many periods against the weekly experiment and drawn reports."""

from typing import Any

import numpy as np
import pytest

from geoveil.analyst import (
    LogNormalPrior,
    PlanRequest,
    PublicPrior,
    ShareAbove,
    ShareBetween,
    plan_for,
    planned_periods,
)
from geoveil.analyst.planning import PlannedQuestions, Searches
from geoveil.analyst.questions import AnalystQuestion
from geoveil.gp import ParameterError

N = 30_000


@pytest.fixture(scope="module")
def found() -> Any:
    return planned(ShareAbove(100_000.0))


def planned(*asked: AnalystQuestion) -> Any:
    source = PublicPrior.of_numbers(LogNormalPrior(11.0, 0.8), "dollar", "income")
    people: dict[str, Any] = {"source": source, "participants": N, "unit": "dollar"}
    request = PlanRequest.of(asked, epsilon=1.0, per=8_000.0, **people)
    return plan_for(request)


def error(told: Any, way: str) -> float:
    (found,) = (row["error"] for row in told["ways"] if row["way"] == way)
    return float(found)


@pytest.mark.parametrize(
    "asked", [ShareAbove(100_000.0), ShareBetween(80_000.0, 110_000.0)], ids=["above", "between"]
)
def test_errors_are_those_of_drawn_reports(asked: AnalystQuestion) -> None:
    """The variance of 200,000 reports, within 5 %, of f − b²f'' of points, and of distances.

    Control: of a range points have over a fifth more noise where four answers divide ε.
    """
    found = planned(asked)
    told, query = planned_periods(found, 4), found.result.choice.query
    rng, above = np.random.default_rng(1), isinstance(asked, ShareAbove)
    people = rng.lognormal(11.0, 0.8, 200_000)
    for way, b in (("one reading, carried", 8e3), ("fresh", 8e3), ("split", 32e3)):
        noise = rng.laplace(scale=b, size=len(people))
        at = query.signed_distance(people + noise)
        drawn, far = (
            (query.profile.debiased(s, b) - query.value(people)).var()
            for s in (at, query.signed_distance(people) + noise)
        )
        of = drawn if way == "one reading, carried" else far
        assert error(told, way) == pytest.approx((of / N) ** 0.5, rel=0.05)
    assert above == (drawn < 1.2 * far)
    assert [row["epsilon"] for row in told["ways"]] == [1.0, 1.0, 1.0, 4.0]


def test_a_plan_whose_bands_have_corners_says_that_no_number_answers_it() -> None:
    """Noise added to a straight ramp is best here, and no kept number answers through one."""
    with pytest.raises(ParameterError, match="no perturbed number answers"):
        planned_periods(planned(ShareBetween(90_000.0, 95_000.0)), 4)


def test_the_ways_cross_where_it_is_said(found: Any) -> None:
    told = planned_periods(found, 52)
    for drift, other in (
        (told["drift_carried"], "one reading, extrapolated"),
        (told["drift_split"], "split"),
    ):
        below, above = (planned_periods(found, 52, factor * drift) for factor in (0.99, 1.01))
        assert error(below, "one reading, carried") < error(below, other)
        assert error(above, "one reading, carried") > error(above, other)


@pytest.mark.parametrize("periods", [2, 12])
def test_a_reading_is_as_old_as_devices_draw(found: Any, periods: int) -> None:
    """N devices that answer once a period, drawn 200 times: the noise that is extrapolated, and
    the bias of the mean of carried answers where a share rises by 0.001 a period.

    Within 2 %, six standard errors or more. Control: one device errs by a fifth more at least.
    """
    ages = np.random.default_rng(2).integers(0, periods, (200, N))
    still, moving = (planned_periods(found, periods, drift) for drift in (0.0, 0.001))
    moved = error(moving, "one reading, carried") ** 2 - error(still, "one reading, carried") ** 2
    drawn = float(np.square(0.001 * ages.mean(axis=1)).mean())
    assert moved == pytest.approx(drawn, rel=0.02)
    assert float(np.square(0.001 * ages).mean()) > 1.2 * drawn
    part = ages / periods
    noise = error(still, "fresh") * float(((1 + part) ** 2 + part**2).mean()) ** 0.5
    assert error(moving, "one reading, extrapolated") == pytest.approx(noise, rel=0.02)


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
