"""Test that a session's plans equal plans made without a cache."""

from dataclasses import replace

import pytest

from geoveil.analyst import (
    PlanningSession,
    PlanRequest,
    SamplePrior,
    ShareInside,
    plan_for,
    questions_in,
)
from geoveil.analyst.planner import HardThreshold, LogNormalPrior
from geoveil.analyst.planner.allocation import Searches
from geoveil.gp import GeoPrivacy, ParameterError
from geoveil.simulation.populations import collisions
from geoveil.simulation.priors import public_prior

LOG_NORMAL = public_prior("lognormal:98000,0.83")
INCOMES = public_prior("incomes")
DOUBTED = LOG_NORMAL.doubted({"a survey": INCOMES}, scale=0.1)
PLACES = replace(
    public_prior("collisions"),
    make=lambda plane: SamplePrior(plane.project(collisions().values[::100])),
)
NUMBERS = {"per": 8_000.0, "unit": "dollar"}
BEFORE = ((1.0, 50_000), (2.0, 50_000))
"""ε and participants of what is asked first, which must not matter."""
ABOVE = {"threshold": ("100000",)}
CASES = {
    "law": (LOG_NORMAL, ABOVE, NUMBERS),
    "points": (LOG_NORMAL, ABOVE, NUMBERS | {"allocation": "points"}),
    "scenarios": (DOUBTED, ABOVE, NUMBERS),
    "sample": (INCOMES, ABOVE, NUMBERS),
    "two": (LOG_NORMAL, {"threshold": ("50000", "100000")}, NUMBERS),
    "circle": (PLACES, {"circle": ("-73.9855,40.758,2000",)}, {"per": 500.0}),
    "place": (PLACES, {"place": ("-73.98,40.75",)}, {"per": 500.0}),
}


def numbers(report):
    """Return what a slider shows."""
    return report["choice"], report["targets"], report["price_of_privacy"], report["from_prior"]


@pytest.mark.parametrize(
    "case",
    [c if c in ("law", "points") else pytest.param(c, marks=pytest.mark.deep) for c in CASES],
)
def test_plans_of_a_session_are_those_made_alone(case):
    source, asked, wish = CASES[case]
    session = PlanningSession(source)
    for epsilon, people in BEFORE:
        session.forecast(request_of(session, asked, wish, epsilon, people))
    request = request_of(session, asked, wish, 0.9, 20_000)
    forecast, plan = session.forecast(request), session.plan(request)
    said = wish | {"epsilon": 0.9, "participants": 20_000}
    made = PlanRequest.of(questions_in(asked), source=source, **said)
    alone = plan_for(made).report()
    assert plan.report() == alone
    assert forecast.met
    quick = forecast.planned.report()
    if quick["choice"] != alone["choice"]:
        assert case in ("place", "circle")
        assert not forecast.settled
    elif len(request.questions) == 1:
        assert numbers(quick) == numbers(alone)
    else:
        assert quick == alone


@pytest.mark.deep
def test_a_session_plans_regions():
    """Its cache hashes them. Control: the corners of the question are lists, which have no hash."""
    corners = [[[[-74.0, 40.7], [-73.95, 40.7], [-73.97, 40.78]]]]
    session, asked = PlanningSession(PLACES), [ShareInside(corners, "triangle")]
    wish = {"epsilon": 1.0, "per": 500.0, "participants": 20_000}
    request = session.request(asked, **wish)
    made = PlanRequest.of(asked, source=PLACES, **wish)
    assert session.plan(request).report() == plan_for(made).report()
    with pytest.raises(TypeError):
        hash(asked[0]._projected(request.plane))


def request_of(session, asked, wish, epsilon, people):
    return session.request(questions_in(asked), epsilon=epsilon, participants=people, **wish)


@pytest.mark.deep
def test_a_wish_that_cannot_be_met_is_said_so_at_once_and_refused_with_the_nearest():
    wish = NUMBERS | {"epsilon": 1.0, "participants": 5_000, "target_error": 0.001}
    asked = questions_in({"threshold": ("100000",)})
    session = PlanningSession(LOG_NORMAL)
    request = session.request(asked, **wish)
    assert not session.forecast(request).met
    with pytest.raises(ParameterError) as alone:
        plan_for(PlanRequest.of(asked, source=LOG_NORMAL, **wish))
    for _ in range(2):  # found, then kept
        with pytest.raises(ParameterError) as caught:
            session.plan(request)
        assert str(caught.value) == str(alone.value)
    assert "participants at least" in str(caught.value)


def test_what_cannot_be_planned_is_refused_by_a_forecast():
    session = PlanningSession(LOG_NORMAL)
    asked = questions_in({"threshold": ("100000",)})
    with pytest.raises(ParameterError, match="participants"):
        session.forecast(session.request(asked, epsilon=1.0, participants=0, **NUMBERS))
    asked = questions_in({"threshold": ("-5",)})
    with pytest.raises(ParameterError, match="everybody"):
        session.forecast(session.request(asked, epsilon=1.0, participants=10, **NUMBERS))


def test_one_question_may_be_asked_of_a_value_campaign():
    session = PlanningSession(INCOMES)
    asked = questions_in({"threshold": ("100000",)})
    wish = NUMBERS | {"epsilon": 1.0, "participants": 50_000, "allocation": "points"}
    planned = session.plan(session.request(asked, **wish))
    assert planned.report()["choice"] == "PlanarLaplace"
    assert planned.chosen().questions == ()


def test_what_is_kept_is_bounded():
    known, prior = Searches(most=3), LogNormalPrior(11.5, 0.8)

    def search(step):
        return known.of(0, HardThreshold(1e5), GeoPrivacy(1 + step / 100, per=8_000.0), prior)

    first, *_, last = map(search, range(4))
    assert search(3) is last
    assert search(0) is not first
