"""Test from a plan to an estimate, through every part, that the error is the planned one.

`geoveil plan --out`, `geoveil campaign create --plan`, devices with the SDK, `geoveil estimate`,
over a real server. The people are a systematic sample of the prior, as the prediction has it: who
takes part is no source of error.
"""

import json
import tomllib

import numpy as np
import pytest
from typer.testing import CliRunner

from geoveil.analyst.planner import ALLOCATIONS, SamplePrior
from geoveil.cli.app import app
from geoveil.client import DeliveryStatus, GrpcTransport, Policy, ReportBuilder, gather
from geoveil.gp import DebiasedLaplace, GeoPrivacy, SeededSource, Threshold
from geoveil.proto.v1.collector_pb2 import GetCampaignRequest
from geoveil.simulation.local_server import local_server
from geoveil.simulation.populations import household_incomes

PEOPLE = 4_000
THRESHOLDS = (50_000.0, 100_000.0, 150_000.0)
PERMITTED = GeoPrivacy(3.0, per=1_000.0, unit="dollar")
INCOMES = ("--participants", PEOPLE, "--epsilon", 1, "--prior", "incomes")
FINE = ("--per", 1_000)
SOFT = ("--per", 8_000, "--soft", "--width")
NORMAL_95 = 1.959963984540054
Z = 4.417
"""Two-sided, α = 1e-5 for each of 31 estimates: any of them fails by chance with less than 4e-4."""
OF_DEVIATION = 0.14
"""Relative error of a standard error: 4.5 of its standard deviations, the largest of which is 0.031
(200 draws of all answers, for every question and allocation below); α < 1e-5 for each."""


class Seeded(SeededSource):
    """For a test that is the same every time; it says that it is secure, which it is not."""

    is_secure = True


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with local_server(tmp_path_factory.mktemp("server") / "aggregator.db") as address:
        yield address


@pytest.fixture(scope="module")
def people():
    """Incomes at the middles of 4,000 equal parts of the weighted survey."""
    survey = household_incomes()
    values, weights = SamplePrior(survey.values, survey.weights).nodes()
    places = (np.arange(PEOPLE) + 0.5) / PEOPLE
    return values[np.searchsorted(np.cumsum(weights), places)]


def run(*arguments):
    result = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def answered(server, name, people, source):
    """Let devices answer a campaign."""
    transport = GrpcTransport(server)
    try:
        shown = transport.get_campaign(GetCampaignRequest(campaign_id=name), 10.0)
        limits = {"household income": PERMITTED}
        device = ReportBuilder(policy=Policy(limits), source=source)
        accepted = device.accept(name, shown.envelope.SerializeToString())
        reports = (device.prepare(accepted, income) for income in people.tolist())
        for batch in gather(reports):
            outcomes = batch.results(transport.submit_reports(batch.request(), 30.0))
            assert {outcome.status for outcome in outcomes} == {DeliveryStatus.ACKNOWLEDGED}
    finally:
        transport.close()


ONE_LOOK = ("--interval", "weighted-ends")
"""The interval of a plan: while a campaign is open, `estimate` prints one for all looks."""


@pytest.fixture
def carried_out(server, people, tmp_path):
    """Plan, publish, let everybody contribute; return what was planned, and the campaign's id."""

    def carry_out(name, *asked):
        file = tmp_path / "plan.toml"
        run("plan", *asked, *INCOMES, "--out", file)
        run("campaign", "create", name, "--plan", file, "--id", name, "--server", server)
        answered(server, name, people, Seeded(len(name)))
        return tomllib.loads(file.read_text())["planned"]

    return carry_out


@pytest.mark.deep
def test_a_rare_answer_of_few_people_is_as_uncertain_as_planned(server, people, tmp_path):
    """200 people of whom seven are near the question: the mean of ten printed intervals.

    Control: 1.96 standard errors, as they are expected, are less than nine tenths of it.
    """
    file, few, at = tmp_path / "plan.toml", people[10::20], 500_000
    known = ("--epsilon", 1, "--prior", "incomes", *SOFT, 24_000)
    run("plan", *above([at]), "--participants", len(few), *known, "--out", file)
    planned = tomllib.loads(file.read_text())["planned"]["population_error_95"]
    printed = []
    for number in range(10):
        name = f"rare-{number}"
        run("campaign", "create", name, "--plan", file, "--id", name, "--server", server)
        answered(server, name, few, Seeded(number))
        (found,) = estimates(server, name, *ONE_LOOK)
        printed.append((found["ci_high"] - found["ci_low"]) / 2)
    assert planned == pytest.approx(np.mean(printed), rel=0.1)
    mechanism = DebiasedLaplace(Threshold(at, 24_000.0, "smoothstep"), GeoPrivacy(1.0, per=8_000.0))
    variance = mechanism.variance(people).mean() + mechanism.mean(people).var()
    assert NORMAL_95 * np.sqrt(variance / len(few)) < 0.9 * np.mean(printed)


def estimates(server, name, *more):
    printed = run("estimate", name, "--json", *more, "--server", server)
    return json.loads(printed)["estimates"]


def share_above(incomes, at):
    return float(np.mean(incomes > at))


def within(estimate, truth, error_95):
    return abs(estimate["estimate"] - truth) <= Z * error_95 / NORMAL_95


def above(thresholds):
    return [argument for at in thresholds for argument in ("--threshold", at)]


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_every_allocation_keeps_the_error_that_was_planned(allocation, carried_out, server, people):
    """Control: for people with half as much income again the same estimates are outside."""
    name = f"round-{allocation}"
    planned = carried_out(name, *above(THRESHOLDS), "--allocation", allocation, *FINE)
    assert planned["allocation"] == allocation
    answers = planned["answers"]
    if allocation == "points":
        found = [
            estimates(
                server, name, "--threshold", a["center"][0], "--width", a["width"], *ONE_LOOK
            )[0]
            for a in answers
        ]
    else:
        found = estimates(server, name, *ONE_LOOK)
    for at, answer, estimate in zip(THRESHOLDS, answers, found, strict=True):
        assert within(estimate, share_above(people, at), answer["error_95"])
        assert not within(estimate, share_above(1.5 * people, at), answer["error_95"])
        printed = (estimate["ci_high"] - estimate["ci_low"]) / 2
        assert answer["population_error_95"] == pytest.approx(printed, rel=0.1)


EACH = {"partition": (1 / 3, 1.0), "split": (1.0, 1 / 3), "repeat": (1.0, 1.0)}
"""The part of people who answer a question, for three questions, and the part of ε they spend."""


@pytest.mark.deep
@pytest.mark.parametrize("allocation", EACH)
def test_an_answer_spends_what_its_allocation_gives_it(allocation, carried_out, server, people):
    """The standard error is that of the planned part of ε, by the planned part of people.

    Control: it is none of the other allocations'.
    """
    name = f"spent-{allocation}"
    planned = carried_out(name, *above(THRESHOLDS), "--allocation", allocation, *SOFT, 24_000)
    found = estimates(server, name)
    for at, answer, estimate in zip(THRESHOLDS, planned["answers"], found, strict=True):
        soft = Threshold(at, 24_000.0, "smoothstep")
        assert within(estimate, float(soft.value(people).mean()), answer["error_95"])
        for other, (part, rate) in EACH.items():
            mechanism = DebiasedLaplace(soft, GeoPrivacy(rate, per=8_000.0))
            # That people differ is counted, though it is no error where all of them answer.
            variance = mechanism.variance(people).mean() + mechanism.mean(people).var()
            expected = pytest.approx(np.sqrt(variance / (part * PEOPLE)), rel=OF_DEVIATION)
            assert (estimate["standard_error"] == expected) == (other == allocation)
