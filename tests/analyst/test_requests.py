"""Test that infeasible requests are refused with the nearest feasible one, proved by planning."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from geoveil.analyst import PlanRequest, plan_for, questions_in
from geoveil.analyst.feasible_alternatives import (
    UnmetWishError,
    check_comparison,
    check_people,
    check_plan,
    check_prior,
    excess,
)
from geoveil.analyst.planner import HistogramPrior, compare_allocations
from geoveil.analyst.planner.allocation import Searches
from geoveil.analyst.planner.candidates import KINDS
from geoveil.analyst.planner.plan import CLOSE, screened
from geoveil.analyst.planner.problem import MOST_REPEATED
from geoveil.analyst.report import odds
from geoveil.gp import DebiasedLaplace, GeoPrivacy, GeoVeilError, ParameterError, Threshold
from geoveil.simulation.people_files import TableFileError
from geoveil.simulation.priors import public_prior
from tests.analyst.planner.plans import plan

LOG_NORMAL = public_prior("lognormal:98000,0.83")
INCOMES, COLLISIONS = public_prior("incomes"), public_prior("collisions")
ABOVE = {
    "threshold": (98_000.0,), "participants": 5_000, "source": LOG_NORMAL, "unit": "dollar",
    "epsilon": 1.0, "per": 8_000.0,
}  # fmt: skip
WORDS = ("threshold", "range", "place", "circle", "region")


FEWER = 0.95
"""What is proposed is at most 5 % more than would do: the bands of two plans differ by a quarter of
an octave, and the variance of the soft query with them, which jumps by a few per cent."""


def but(**changes):
    """Return the request above, with changes."""
    said = {**ABOVE, **changes}
    asked = questions_in({word: said.pop(word) for word in WORDS if word in said})
    return PlanRequest.of(asked, **said)


def planned(request):
    asked = request.questions[0], request.plane_privacy, request.prior, request.participants
    return plan(*asked, kinds=("DebiasedLaplace",))


def missed(request):
    """Return by how much a plan with one kind misses the request."""
    return excess(request, planned(request))


def refused(request):
    with pytest.raises(ParameterError) as caught:
        check_plan(request, planned(request))
    return str(caught.value)


def found(pattern, message):
    match = re.search(pattern, message)
    assert match is not None, message
    return match[1]


def proposed(message, flag):
    """Return the number that a message proposes for a flag; `name must be at least` counts, too."""
    pattern = rf"{flag} (?:must be )?at (?:least|most) ([0-9.e,+-]*[0-9])"
    return float(found(pattern, message).replace(",", ""))


@pytest.mark.deep
def test_the_people_that_are_proposed_will_do_and_hardly_less():
    """No distance will: sampling 5,000 people alone errs by 1.96 × 0.5/√5,000 = ±0.0139."""
    request = but(target_error=0.004)
    message = refused(request)
    people = int(proposed(message, "participants"))
    assert "per at most" not in message
    assert people >= (0.9 * 1.96 * 0.5 / 0.004) ** 2
    assert missed(replace(request, participants=people)) <= 0
    assert missed(replace(request, participants=round(FEWER * people))) > 0
    least = proposed(message, "target_error")
    assert missed(but(target_error=0.999 * least)) > 0 >= missed(but(target_error=least))


@pytest.mark.deep
def test_the_people_that_are_proposed_for_several_questions_will_do_and_hardly_less():
    request = but(threshold=(60_000.0, 98_000.0), target_error=0.004)

    def compared(people):
        searches = Searches()
        asked = (request.questions, request.plane_privacy, request.prior, people)
        return compare_allocations(*asked, searches=searches), searches

    with pytest.raises(ParameterError) as caught:
        check_comparison(request, *compared(5_000))
    people = int(proposed(str(caught.value), "participants"))
    check_comparison(request, *compared(people))
    with pytest.raises(ParameterError):
        check_comparison(request, *compared(round(FEWER * people)))


@pytest.mark.deep
def test_an_allocation_that_leaves_an_answer_to_the_prior_is_refused():
    """Only the one that is asked for counts; among a third of the people bands get too wide."""
    request = but(threshold=(60_000.0, 98_000.0, 150_000.0), allocation="partition")
    searches = Searches()
    found = compare_allocations(
        request.questions, request.plane_privacy, request.prior, 5_000, searches=searches
    )
    with pytest.raises(ParameterError, match="of an answer would be the prior's") as caught:
        check_comparison(request, found, searches)
    people = int(proposed(str(caught.value), "participants"))
    more = compare_allocations(request.questions, request.plane_privacy, request.prior, people)
    check_comparison(request, more, Searches())
    check_comparison(replace(request, allocation="repeat"), found, searches)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"allocation": "partition"}, "allocation must be left out unless there are several"),
        ({"allocation": "both", "threshold": (1.0, 2.0)}, "allocation must be one of 'partition'"),
    ],
)
def test_an_allocation_is_one_of_several_questions(changes, match):
    with pytest.raises(ParameterError, match=match):
        but(**changes)


def test_a_target_below_what_the_prior_can_tell_needs_less_privacy():
    """No number of people removes the bias, whose variance is that of the prior's 10,000."""
    message = refused(but(target_error=1e-4, participants=10**9, per=80_000.0))
    assert "participants at" not in message
    assert "per at most" in message


@pytest.mark.deep(keep=0)
def test_an_epsilon_that_leaves_the_answer_to_the_prior_is_refused():
    request = but(epsilon=1e-4)
    message = refused(request)
    assert "the prior's, not people's" in message
    epsilon = proposed(message, "epsilon")
    assert missed(but(epsilon=epsilon)) <= 1e-3
    assert missed(but(epsilon=0.97 * epsilon)) > 0


def test_nobody_is_told_how_many_would_do():
    request = but(participants=0, target_error=0.004)
    with pytest.raises(ParameterError, match="would do for ±0") as caught:
        check_people(request)
    people = int(found(r"([0-9,]+) would do", str(caught.value)).replace(",", ""))
    assert (
        missed(replace(request, participants=people))
        <= 0
        < missed(replace(request, participants=round(FEWER * people)))
    )


def test_a_threshold_that_nobody_passes_is_told_the_range(tmp_path):
    file = tmp_path / "people.csv"
    file.write_text("income\n10\n20\n30\n")
    people = {"source": public_prior(str(file), ("income",))}
    for outside, who in ((30.0, "nobody"), (5.0, "everybody")):
        with pytest.raises(ParameterError, match=who) as caught:
            check_prior(but(threshold=(outside,), **people), Searches())
        assert found(r"(\[.*\)) would do", str(caught.value)) == "[10, 30)"
    for inside in (10.0, 29.999):
        check_prior(but(threshold=(inside,), **people), Searches())


@pytest.mark.deep(keep=0)
def test_a_circle_with_nobody_is_told_a_radius():
    collisions = {
        "threshold": (), "participants": 50_000, "source": COLLISIONS, "per": 500.0,
        "unit": None,
    }  # fmt: skip
    with pytest.raises(ParameterError, match="nobody") as caught:
        check_prior(but(circle=("-73.9,40.45,1000",), **collisions), Searches())
    radius = found(r"radius from ([0-9.]+) to", str(caught.value))
    check_prior(but(circle=(f"-73.9,40.45,{radius}",), **collisions), Searches())


@pytest.mark.parametrize(
    ("changes", "flag"),
    [
        ({"threshold": ()}, "question"),
        ({"unit": None}, "unit"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"range": ("5",)}, "range"),
        ({"range": ("9,5",)}, "range"),
        ({"source": COLLISIONS}, "source"),
        ({"source": INCOMES, "unit": "euro"}, "unit"),
        ({"place": ("-73.9,40.7",)}, "questions"),
        ({"threshold": (), "circle": ("-73.9,40.7,500",)}, "source"),
        ({"threshold": (), "circle": ("-73.9,40.7",), "source": COLLISIONS}, "circle"),
        ({"threshold": (), "circle": ("1,2,-5",), "source": COLLISIONS}, "circle"),
        ({"threshold": (), "place": ("40.7,-97.9",), "source": COLLISIONS}, "place"),
        ({"threshold": (), "region": ("nowhere.geojson",), "source": COLLISIONS}, "region"),
        ({"width": 5.0}, "width"),
        ({"bandwidth": 5.0}, "bandwidth"),
        ({"target_error": 0.0}, "target_error"),
    ],
)
def test_rubbish_is_refused_by_name(changes, flag):
    with pytest.raises(ParameterError) as caught:
        but(**changes)
    assert caught.value.name == flag


@pytest.mark.parametrize(
    ("text", "columns", "flag"),
    [
        ("somebody", (), "prior"),
        ("lognormal:-5,1", (), "prior"),
        ("lognormal:5", (), "prior"),
        ("lognormal:5,0", (), "prior"),
        ("people.csv", (), "prior"),
        ("lognormal:98000,0.83", ("income",), "columns"),
    ],
)
def test_priors_that_are_none_are_refused_by_name(text, columns, flag):
    with pytest.raises(ParameterError) as caught:
        public_prior(text, columns)
    assert caught.value.name == flag


def test_files_that_are_no_priors_are_refused_without_a_row(tmp_path):
    file = tmp_path / "brackets.csv"
    for text in (
        "low,high,count\n0,1,31415\n2,3,4\n",
        "low,high\n0,1\n",
        "low,high,count\n0,1,x\n",
    ):
        file.write_text(text)
        with pytest.raises(TableFileError) as caught:
            public_prior(f"histogram:{file}")
        assert "31415" not in str(caught.value)
    for text in ("low,high,count\n1,0,3\n", "low,high,count\n"):
        file.write_text(text)
        with pytest.raises(GeoVeilError):
            public_prior(f"histogram:{file}")
    file.write_text("low,high,count\n0,50000,10\n50000,200000,-30\n")
    with pytest.raises(TableFileError, match=r"brackets\.csv: row 2, column 'count'"):
        public_prior(f"histogram:{file}")


def test_a_histogram_and_rows_are_read(tmp_path):
    file = tmp_path / "brackets.csv"
    file.write_text("low,high,count\n0,50000,30\n50000,100000,50\n100000,200000,20\n")
    found = public_prior(f"histogram:{file}").make(None)
    assert isinstance(found, HistogramPrior)
    assert found.expectation(lambda x: x > 75_000, breaks=[75_000]) == pytest.approx(0.45)
    rows = tmp_path / "rows.csv"
    rows.write_text("income,people\n10,1\n20,3\n")
    read = public_prior(str(rows), ("income",), "people").make(None)
    assert read.expectation(lambda x: x) == pytest.approx(17.5)


def test_the_odds_are_what_a_report_can_tell():
    """Bayes with the densities of a mechanism: never above, and almost reached."""
    privacy = GeoPrivacy(1.0, per=2.0)
    mechanism = DebiasedLaplace(Threshold(0.0, 8.0, "smoothstep"), privacy)
    y = np.linspace(-4.0, 5.0, 4_001)
    x = np.linspace(-12.0, 12.0, 97)
    logs = np.stack([mechanism.log_density(y, place) for place in x])
    possible = np.isfinite(logs).all(axis=0)
    for row in odds(privacy):
        apart = round(row["distance"] / (x[1] - x[0]))
        gain = np.abs(logs[apart:, possible] - logs[:-apart, possible]).max()
        posterior = 1 / (1 + np.exp(-gain))
        assert 0.75 * row["epsilon"] < gain or row["distance"] > 8
        assert posterior <= row["probability"] + 1e-12
        assert row["probability"] + row["other_probability"] == pytest.approx(1)


@pytest.mark.deep
@pytest.mark.parametrize("participants", [2, 3])
def test_a_wish_that_screening_takes_for_met_is_refused_with_others_that_are(participants):
    """Two or three people tell nothing of a share; four would, or next to no noise."""
    asked = questions_in({"threshold": ["100000"]})
    wish = PlanRequest.of(asked, epsilon=1, per=8_000, source=INCOMES, participants=participants)
    with pytest.raises(UnmetWishError) as refused:
        plan_for(wish)
    assert set(refused.value.nearest) == {"participants", "per", "epsilon"}
    for name in ("participants", "per"):
        change = {"participants": participants, "per": 8_000} | {name: refused.value.nearest[name]}
        assert plan_for(PlanRequest.of(asked, epsilon=1, source=INCOMES, **change))


@pytest.mark.deep
def test_a_plan_asks_people_where_it_can():
    """The least error would take nine tenths of the answer from the prior."""
    request = PlanRequest.of(
        questions_in({"circle": ["-74.1,40.6,800"]}),
        source=public_prior("collisions"),
        epsilon=1.0,
        per=1_000.0,
        participants=20_000,
    )
    plan = plan_for(request).result
    assert plan.problem.repeated(plan.choice.prediction) <= MOST_REPEATED
    least = screened(plan.search, KINDS, lambda p: p.expected_error(20_000), CLOSE)[0].prediction
    assert plan.problem.repeated(least) > 0.8
    assert least.expected_error(20_000) < plan.choice.prediction.expected_error(20_000)
