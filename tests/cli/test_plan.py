"""`plan` and `rehearse`: their output, their refusals, and the campaigns of a plan."""

import json
import re
import tomllib
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np
import pytest

from geoveil.analyst import Analyst, DensityAt, PlanRequest, ShareAbove, campaign_of, plan_for
from geoveil.analyst.report import odds
from geoveil.campaign import (
    Allocation,
    DebiasedLaplaceSpec,
    PlanarLaplaceSpec,
    StatisticCampaign,
)
from geoveil.cli import plan as command
from geoveil.cli.console import out
from geoveil.cli.plan_text import odds_text, print_plan
from geoveil.gp import GeoPrivacy, ParameterError, Threshold
from geoveil.simulation.priors import public_prior

from .conftest import INCOME, LOG_NORMAL

PRIVACY = LOG_NORMAL[:4]
INCOMES = (*PRIVACY, "--prior", "incomes")
COLLISIONS = ("--epsilon", "1", "--per", "500", "--prior", "collisions")


@pytest.fixture
def dates():
    now = datetime.now(UTC)
    return {"opens": now, "closes": now + timedelta(days=1)}


@pytest.fixture
def plan(geoveil):
    return partial(geoveil, "plan", to_server=False)


@pytest.fixture
def planned(record):
    return partial(record, "plan", to_server=False)


def test_a_threshold_on_the_incomes_that_ship(plan):
    shown = plan("--threshold", 100_000, "--participants", 50_000, *INCOMES)
    assert shown.exit_code == 0
    assert "DebiasedLaplace has the least expected error at n = 50,000: ±0.00446" in shown.output
    doubt = "With values 10 % higher than the prior says, the answer would be off by 0.005, which"
    assert doubt in " ".join(shown.output.split())
    assert "8,000 dollar apart (ε = 1): from even odds to at most 73.2:26.8" in shown.output
    assert "40,000 dollar apart (ε = 5): from even odds to at most 99.34:0.66" in shown.output


def test_a_central_epsilon_is_said_of_a_cap(plan, planned):
    asked = "--threshold", 100_000, "--participants", 50_000, *INCOMES
    central = planned(*asked, "--honest", 20_000, "--central-delta", 1e-6)["central"]
    assert (central["honest"], central["delta"]) == (20_000, 1e-6)
    assert central["epsilon"] < 1
    assert "central" not in planned(*asked)
    for name, given in (("honest", 20_000), ("central", 0.4)):
        with pytest.raises(ParameterError, match=f"{name} must be left out without a cap"):
            plan(*asked, f"--{name}", given, "--cap", "none")


def test_the_cap_for_a_wished_central_epsilon_is_said_with_its_price(plan, tmp_path):
    asked = "--threshold", 100_000, "--participants", 100_000, *INCOMES
    wished = "--central", 0.4, "--central-delta", 1e-6, "--out", tmp_path / "plan.toml"
    shown = plan(*asked, *wished).stdout
    assert "If 100,000 honest reports reach" in shown
    assert "their central ε is 0.198 between two values 8,000 dollar apart and 0.383" in shown
    assert "The cap for that is 3.125 noise scales outside and 3 inside" in shown
    assert "errors are up to ±0.00348, at most 1.035 times those of a plan without" in shown
    assert "below = 3.125" in (tmp_path / "plan.toml").read_text()


def test_the_table_says_what_the_json_says(monkeypatch):
    request = PlanRequest.of(
        [ShareAbove(98_000.0)], participants=20_000, source=public_prior("lognormal:98000,0.83"),
        unit="dollar", epsilon=1.0, per=8_000.0,
    )  # fmt: skip
    report = plan_for(request).report()
    monkeypatch.setattr(out, "width", 200)
    with out.capture() as printed:
        print_plan(report)
    text = printed.get()
    cells = [line.split() for line in text.splitlines()]
    for row in report["alternatives"]:
        line = next(line for line in text.splitlines() if line.split()[:1] == [row["mechanism"]])
        assert line.split()[1:] == [
            row["profile"], f"{row['center'][0]:,.6g}", f"{row['width']:,.6g}",
            f"{row['error_95']:.3g}", f"{row['share_of_bias']:.0%}", f"{row['times']:.3g}",
        ]  # fmt: skip
    for row in report["errors"]:
        assert [f"{row['participants']:,}", f"±{row['error_95']:.3g}"] in cells
    assert report["reason"] in " ".join(text.split())


@pytest.mark.deep
def test_a_plan_for_stated_scenarios_is_for_the_worst(plan, planned, tmp_path, dates):
    """The table, the JSON and the signed campaign say the same; what is unstated is only told."""
    asked = ("--threshold", 100_000, "--participants", 20_000, *LOG_NORMAL)
    doubts = ("--scenario-scale", 0.1, "--scenario", "2015=lognormal:80000,0.9")
    told = planned(*asked)["scenarios"]
    assert not told["stated"]
    assert len(told["rows"]) == 3
    file = tmp_path / "plan.toml"
    report = planned(*asked, *doubts, "--heap", "100000=0.01", "--out", file)
    found = report["scenarios"]
    assert found["stated"]
    names = ["as the prior says", "values 10 % lower", "values 10 % higher", "2015"]
    assert [row["scenario"] for row in found["rows"]] == names
    errors = {row["scenario"]: row["hard_question"]["error_95"] for row in found["rows"]}
    assert errors[found["worst"]] == max(errors.values())
    assert max(errors.values()) <= 1.02 * report["targets"]["hard_question"]["error_95"]
    campaign = campaign_of(file, campaign_id="a", title="A", **dates)
    assert isinstance(campaign, StatisticCampaign)
    signed = campaign.questions[0].softness
    assert signed is not None
    for row in found["rows"]:
        assert abs(row["bias"] - signed.expected) <= signed.bound
    assert tomllib.loads(file.read_text())["planned"]["scenarios"] == names[1:]
    shown = " ".join(plan(*asked, *doubts).output.split())
    assert "values 10 % higher" in shown
    assert "The worst scenario is " in shown
    several = plan(*asked, "--threshold", 50_000, "--scenario-scale", 0.1).output
    assert "above 50,000: the worst scenario is values 10 %" in " ".join(several.split())


@pytest.mark.deep
def test_a_scenario_of_rows_stands_beside_a_prior_without_columns(planned, plan, tmp_path):
    file = tmp_path / "older.csv"
    file.write_text("income\n" + "\n".join(str(70_000 + 900 * i) for i in range(80)))
    asked = ("--threshold", 100_000, "--participants", 20_000, *LOG_NORMAL)
    found = planned(*asked, "--scenario", f"older={file}", "--prior-column", "income")
    assert [row["scenario"] for row in found["scenarios"]["rows"]][1:] == ["older"]
    with pytest.raises(ParameterError, match="NAME=PRIOR, --prior-column one column of values"):
        plan(*asked, "--scenario", f"older={file}")
    with pytest.raises(ParameterError, match="--prior-column must be left out"):
        plan(*asked, "--prior-column", "income")


def test_more_people_err_less_and_the_choice_errs_least(planned):
    report = planned("--threshold", 98_000, "--participants", 20_000, *LOG_NORMAL)
    errors = [row["error_95"] for row in report["errors"]]
    assert errors == sorted(errors, reverse=True)
    assert [row["participants"] for row in report["errors"]] == [
        2_000, 6_000, 20_000, 60_000, 200_000,
    ]  # fmt: skip
    times = [row["times"] for row in report["alternatives"]]
    assert times[0] == 1
    assert times == sorted(times)


@pytest.mark.deep
def test_a_density_with_a_free_bandwidth_is_answered_to_a_tenth(planned):
    asked = ("--place", "-73.9855,40.758", "--participants", 50_000, *COLLISIONS)
    report = planned(*asked)
    width = report["alternatives"][0]["width"]
    request = PlanRequest.of(
        [DensityAt(-73.9855, 40.758)], participants=50_000, source=public_prior("collisions"),
        epsilon=1.0, per=500.0, bandwidth=width,
    )  # fmt: skip
    points, weights = request.prior.nodes()
    expected = float(weights @ request.questions[0].truth(points))
    errors = {row["mechanism"]: row["error_95"] / expected for row in report["alternatives"]}
    assert 0.097 < errors["DebiasedLaplace"] <= 0.1
    assert min(errors.values()) <= 0.1


def test_an_allocation_that_is_asked_for_is_planned(plan, tmp_path, dates):
    """The output says why it was chosen and what was left out; the file holds its errors."""
    file = tmp_path / "plan.toml"
    thresholds = ("--threshold", 50_000, "--threshold", 98_000, "--soft")
    asked = (*thresholds, "--participants", 20_000, *LOG_NORMAL)
    shown = plan(*asked, "--allocation", "split", "--out", file).output
    assert "split is what was asked for: each answers all of them" in shown
    assert campaign_of(file, campaign_id="a", title="A", **dates).allocation is Allocation.SPLIT
    planned = tomllib.loads(file.read_text())["planned"]
    assert planned["allocation"] == "split"
    for answer in planned["answers"]:
        row = rf"{answer['question']} +±\S+ +±{answer['population_error_95']:.3g} "
        assert re.search(row, shown)


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize(
    ("arguments", "mechanism", "questions"),
    [
        (("--threshold", 100_000, *INCOMES), DebiasedLaplaceSpec, 1),
        (("--threshold", 50_000, "--threshold", 100_000, "--threshold", 150_000, *INCOMES),
         PlanarLaplaceSpec, 0),
        (("--place", "-73.98,40.75", "--bandwidth", 500, *COLLISIONS), DebiasedLaplaceSpec, 1),
    ],
)  # fmt: skip
def test_a_plan_becomes_a_campaign_that_the_server_takes(
    arguments, mechanism, questions, planned, create, server, tmp_path, dates
):
    file = tmp_path / "plan.toml"
    report = planned(*arguments, "--participants", 20_000, "--out", file)
    name = f"planned-{mechanism.__name__.lower()}-{len(arguments)}"
    campaign = campaign_of(file, campaign_id=name, title="Planned", **dates)
    assert type(campaign.mechanism) is mechanism
    asked = campaign.questions if isinstance(campaign, StatisticCampaign) else ()
    assert len(asked) == questions
    assert str(campaign.privacy).startswith(f"ε = {report['privacy']['epsilon']:g} per")
    if questions == 1 and campaign.dimension == 1:
        query = asked[0].query
        assert isinstance(query, Threshold)
        best = report["alternatives"][0]
        assert ([query.at], query.width, query.profile.name) == (
            best["center"], best["width"], best["profile"],
        )  # fmt: skip
    assert f"{name}  ε = 1 per" in create("Planned", "--plan", file, "--id", name).output
    with Analyst(server) as analyst:
        published = {c.campaign_id: c for c in (s.campaign for s in analyst.campaigns())}[name]
    assert published.mechanism == campaign.mechanism
    assert getattr(published, "questions", ()) == asked
    assert published.grid_exponent == campaign.grid_exponent
    assert published.attribute == campaign.attribute


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize(
    "contradiction",
    [("--epsilon", "2"), ("--threshold", "5"), ("--unit", "metre")],
)
def test_what_a_plan_says_is_not_said_twice(contradiction, create, geoveil, plan, tmp_path):
    file = tmp_path / "plan.toml"
    plan("--threshold", 98_000, "--participants", 20_000, *LOG_NORMAL, "--out", file)
    with pytest.raises(ParameterError, match=f"{contradiction[0]} must be left out: the plan says"):
        create("Not published", "--plan", file, *contradiction)
    assert "not-published" not in geoveil("campaign", "list").output


@pytest.mark.parametrize("text", ["a = [", "[privacy]\nepsilon = 1", "[mechanism.unknown]\nx = 1"])
def test_a_file_that_is_no_plan_makes_no_campaign(text, tmp_path, dates):
    file = tmp_path / "plan.toml"
    file.write_text(text)
    with pytest.raises(ParameterError):
        campaign_of(file, campaign_id="a", title="A", **dates)


def test_all_that_is_missing_is_named_at_once(plan):
    with pytest.raises(ParameterError) as caught:
        plan("--threshold", 98_000, "--prior", "incomes")
    said = "--participants must be given, and so must --epsilon, --per"
    assert str(caught.value) == said
    with pytest.raises(ParameterError) as caught:
        plan("--per", 8_000)
    for flag in ("--threshold", "--quantile", "--participants", "--prior", "--epsilon"):
        assert flag in caught.value.expected
    assert "--per" not in caught.value.expected


@pytest.mark.deep(keep=0)
def test_the_figure_is_drawn(plan, tmp_path):
    file = tmp_path / "plan.png"
    asked = ("--threshold", 98_000, "--threshold", 50_000)
    plan(*asked, "--participants", 20_000, *LOG_NORMAL, "--figure", file)
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(command, "at_terminal", lambda: True)


@pytest.mark.usefixtures("terminal")
def test_at_a_terminal_what_is_missing_is_asked_for(plan):
    answers = "threshold 98000\n20000\nlognormal:98000,0.83\ndollar\n1\n8000\n"
    asked = plan(stdin=answers)
    given = plan("--threshold", 98_000, "--participants", 20_000, *LOG_NORMAL)
    assert given.stdout in asked.stdout
    assert "How many people" in asked.stderr


@pytest.mark.usefixtures("terminal")
def test_at_a_terminal_a_slip_is_told_and_asked_again(plan):
    slips = (
        "theshold 98000", "threshold many", "threshold 98000", "20,000", "0", "20000", "incoms",
        "lognormal:98000,0.83", "dollar", "-1", "one", "1", "0", "8_000",
    )  # fmt: skip
    asked = plan(stdin="\n".join(slips) + "\n")
    given = plan("--threshold", 98_000, "--participants", 20_000, *LOG_NORMAL)
    assert given.stdout in asked.stdout
    assert asked.stderr.count("must be") == 6
    assert asked.stderr.count(": write a number like 20000, without commas or a unit") == 2


@pytest.mark.parametrize(
    ("epsilon", "said"),
    [(1.0, "73.2:26.8"), (5.0, "99.34:0.66"), (800.0, "certainty")],
)
def test_odds_in_words(epsilon, said):
    assert odds_text(odds(GeoPrivacy(epsilon, per=1.0))[0]) == said


@pytest.mark.deep
def test_a_query_about_places_is_planned_as_the_place_that_it_is(plan, planned):
    more = ("--participants", 20_000, *COLLISIONS)
    bell = ("--query", "gaussian-kernel:center=0 0,bandwidth=2000")
    (asked,) = planned(*bell, "--center=-73.98,40.75", *more)["alternatives"][:1]
    (place,) = planned("--place=-73.98,40.75", "--bandwidth", 2000, *more)["alternatives"][:1]
    assert asked == place
    with pytest.raises(ParameterError, match="--center must be given: the numbers of a query are"):
        plan(*bell, *more)
    with pytest.raises(ParameterError, match="--prior must be a prior of places"):
        plan(*bell, "--participants", 20_000, *INCOMES)


@pytest.mark.deep(keep=0)
def test_a_pilot_at_a_server_or_in_a_file_is_a_prior(create, geoveil, record, planned, tmp_path):
    """300 simulated devices answer a value campaign; the next plan is made from their reports."""
    create("A pilot", *INCOME, "--attribute", "income", "--points")
    geoveil("simulate", "fleet", "--devices", "300", "--batch-size", "300", "--campaign", "a-pilot")
    file = tmp_path / "pilot.parquet"
    geoveil("campaign", "export", "a-pilot", "--out", file)
    asked = ("--threshold", "98000", "--participants", "20000", *PRIVACY)
    told = record("plan", *asked, "--prior", "pilot:a-pilot")
    assert told["prior"]["name"] == "pilot a-pilot, 300 reports"
    assert told["prior"]["worth_people"] == pytest.approx(300)
    assert told["privacy"]["unit"] == "dollar"
    assert told == planned(*asked, "--prior", f"pilot:{file}")


def test_a_quantile_is_planned_by_points(plan, planned, tmp_path):
    median = ("--quantile", "0.5", "--participants", 50_000, *INCOMES)
    (row,) = planned(*median)["quantiles"]
    assert 90_000 < row["value"] < 105_000
    assert 900 < row["error_95"] < 1_150
    out = tmp_path / "median.toml"
    assert f"known to ±{row['error_95']:,.4g}" in " ".join(
        plan(*median, "--out", out).stdout.split()
    )
    assert "planar_laplace" in out.read_text()
    with pytest.raises(ParameterError, match="places have no quantiles"):
        plan("--quantile", "0.5", "--participants", 50_000, *COLLISIONS)


FORM = """
[[field]]
kind = "number"
name = "income"
unit = "k"
epsilon = 1
per = 8

[[field]]
kind = "choice"
name = "rents"
options = ["yes", "no"]
epsilon = 1
"""


@pytest.fixture
def form(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "form.toml").write_text(FORM)
    rows = "".join(f"{20 + k % 50},{'yes' if k % 3 else 'no'}\n" for k in range(60))
    (tmp_path / "people.csv").write_text("income,rents\n" + rows)
    return "--form", "form.toml"


SAMPLE = ("--prior-sample", "people.csv")


def test_a_form_is_planned_and_written(plan, planned, form, tmp_path):
    wanted = ("--mean", "income @ 0.5", "--shares", "rents", "--participants", "1000")
    report = planned(*form, *SAMPLE, *wanted, "--epsilon-sum", "2", "--out", "best.toml")
    shares, mean = report["statistics"]
    (row,) = mean["rows"]
    assert row["error_95"] * (1000 / mean["participants"]) ** 0.5 == pytest.approx(0.5, rel=0.05)
    assert shares["participants"] is None
    assert [row["row"] for row in shares["rows"]] == ["yes", "no"]
    best = tomllib.loads((tmp_path / "best.toml").read_text())
    epsilons = [field["epsilon"] for field in best["field"]]
    assert sum(epsilons) == pytest.approx(2)
    assert epsilons[0] > epsilons[1]
    text = plan(*form, *SAMPLE, "--participants", "300").stdout
    assert "as the form states" in text
    assert "shares rents" in text


@pytest.mark.parametrize(
    ("more", "says"),
    [((), "prior-sample"), ((*SAMPLE, "--mean", "height@1"), "income, rents")],
)
def test_what_a_plan_of_a_form_lacks_is_said(plan, form, more, says):
    with pytest.raises(ParameterError, match=says):
        plan(*form, *more)


def test_what_is_of_forms_takes_a_form(plan):
    with pytest.raises(ParameterError, match="where there is no --form, got statistics="):
        plan("--threshold", "100000", "--mean", "x")


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A file of 1,000 people, of whom many hold the same."""
    file = tmp_path_factory.mktemp("people") / "people.csv"
    incomes = np.random.default_rng(1).lognormal(11.2, 0.7, 1_000).round(-3)
    file.write_text("income\n" + "\n".join(f"{income:.0f}" for income in incomes) + "\n")
    return file, incomes


@pytest.fixture
def rehearse(geoveil, people):
    """Go from the file to an answer, without a server."""
    of_people = ("rehearse", people[0], "--value", "income")
    return lambda line: geoveil(*of_people, *line.split(), to_server=False)


LINE = "--unit dollar --per 8000"


def test_a_question_is_planned_asked_and_answered(rehearse, people):
    done = rehearse(f"{LINE} --threshold 60000")
    assert done.exit_code == 0, done.output
    assert "The plan: DebiasedLaplace; the 95 % interval should be ±0.0" in done.stderr
    assert re.search(r"above 60,000 +0\.\d{4}", done.stdout)
    assert "1,000 simulated people" in done.stdout
    share = f"{np.mean(people[1] > 60_000):.4f}"
    assert f"themselves: above 60,000 {share}." in " ".join(done.stdout.split())


@pytest.mark.deep
def test_a_curve_of_a_file_is_drawn(rehearse, tmp_path):
    picture = tmp_path / "curve.png"
    assert rehearse(f"{LINE} --curve --plot {picture} -q").exit_code == 0
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_statistics_are_read_from_one_value_each(rehearse, people):
    (row,) = json.loads(rehearse(f"{LINE} --quantile 0.5 --json").stdout)["rows"]
    assert abs(row["estimate"] - np.median(people[1])) < 6 * row["standard_error"] + 2_000


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"{LINE}", "question must be given: at least one, such as --threshold"),
        ("--unit dollar --threshold 1", "--per must be given"),
        ("--per 8000 --threshold 1", "--unit must be given"),
        (f"{LINE} --threshold 1 --epsilon -1", "--epsilon must be"),
        (f"{LINE} --curve --participants 0", "--participants must be"),
    ],
)
def test_what_a_rehearsal_lacks_is_named(rehearse, line, said):
    with pytest.raises(ParameterError, match=said):
        rehearse(line)
