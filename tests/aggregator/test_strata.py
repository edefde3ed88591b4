"""Campaigns with strata over the wire: labels in, estimates within groups out, of both stores."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from geoveil.aggregator import SQLiteStore
from geoveil.aggregator.store.postgres import PostgresStore
from geoveil.analyst import (
    Analyst,
    AsyncAnalyst,
    ByGroup,
    GroupEstimates,
    Means,
    Quantiles,
    SmoothedDistribution,
    reports_of,
)
from geoveil.analyst.statistics.report_files import ReportRows
from geoveil.campaign import (
    Allocation,
    Attribute,
    PlanarLaplaceSpec,
    PointQuestion,
    Question,
    Strata,
    digest,
    encode,
    seal,
)
from geoveil.client import Policy, ReportBuilder
from geoveil.gp import GeoPrivacy, ParameterError, RandomSource, SeededSource, Threshold
from geoveil.gp.estimation import Accumulator
from geoveil.proto.v1 import analyst_pb2, report_pb2
from tests.campaigns import campaign_of
from tools.vectors.examples import ONE_BY_ONE

from .conftest import CLOSES, OPENS, Published, RunningServer, ServerStarter

LABELS = ("north", "middle", "south")
OPEN = Strata(name="region", labels=LABELS)
LIES = Strata(name="region", labels=LABELS, epsilon=2.0)
ABOVE = Threshold(50_000, 24_000, "smoothstep")
PEOPLE = 900


class Secure(SeededSource):
    """Bits of a test that pass as secure."""

    is_secure = True


def published(strata: Strata | None = OPEN, points: bool = False, **changes: Any) -> Published:
    fields: dict[str, Any] = {
        "campaign_id": "groups",
        "title": "Groups",
        "attribute": Attribute(name="income", unit="dollar"),
        "privacy": GeoPrivacy(1.0, 8_000.0, "dollar"),
        "questions": tuple(
            Question(f"above {at:,}", Threshold(at, 24_000, "smoothstep"))
            for at in (50_000, 90_000)
        ),
        "opens": OPENS,
        "closes": CLOSES,
        "strata": strata,
    }
    if points:
        fields["mechanism"] = PlanarLaplaceSpec(1)
    campaign = campaign_of(**(fields | changes))
    content = encode(campaign)
    return Published(campaign, content, digest(content))


def people(count: int = PEOPLE) -> list[tuple[float, str]]:
    """Return incomes, which are higher in the south, and labels."""
    rng = np.random.default_rng(4)
    labels = rng.choice(3, count, p=[0.5, 0.3, 0.2])
    incomes = rng.lognormal(10.6, 0.5, count) * np.array([0.8, 1.0, 1.6])[labels]
    return [(float(x), LABELS[label]) for x, label in zip(incomes, labels, strict=True)]


def drawn(asked: Published, count: int = PEOPLE, period: int = 0) -> list[report_pb2.Report]:
    source: RandomSource = Secure(9)
    builder = ReportBuilder(policy=Policy.permitting(asked.campaign), source=source)
    accepted = builder.accept(asked.campaign_id, seal(asked.published))
    reports = [
        builder.prepare(accepted, x, stratum=label, period=period) for x, label in people(count)
    ]
    return [report_pb2.Report.FromString(made.report) for made in reports]


def by_index(asked: Published, reports: list[report_pb2.Report]) -> dict[int, Accumulator]:
    values: dict[int, list[int]] = {i: [] for i in range(asked.campaign.indices)}
    for report in reports:
        for answer in report.answers:
            values[answer.query_index].append(answer.value)
    return {i: Accumulator.of(v) for i, v in values.items()}


@pytest.fixture(params=["sqlite", "postgres"])
def open_store(request: pytest.FixtureRequest) -> Callable[[], Any]:
    if request.param == "sqlite":
        path: Path = request.getfixturevalue("database")
        return lambda: SQLiteStore(path)
    url: str = request.getfixturevalue("postgres_url")
    return lambda: PostgresStore(url)


async def started(start_server: ServerStarter, asked: Published, **changes: Any) -> RunningServer:
    running = await start_server(**changes)
    await running.wire.create(asked)
    return running


def of_analyst(running: RunningServer, work: Callable[[Analyst], Any]) -> Any:
    def done() -> Any:
        with Analyst(running.address, timeout_s=60) as analyst:
            return work(analyst)

    return asyncio.to_thread(done)


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("allocation", ONE_BY_ONE)
async def test_groups_are_those_of_the_reports(
    start_server: ServerStarter, open_store: Callable[[], Any], allocation: Allocation
) -> None:
    asked = published(allocation=allocation)
    running = await started(start_server, asked, open_store=open_store)
    reports = drawn(asked)
    await running.wire.submit(asked, *reports)
    again = await running.wire.submit(asked, *reports)
    assert {result.status for result in again} == {report_pb2.REPORT_STATUS_DUPLICATE}

    sums, columns = by_index(asked, reports), asked.campaign.columns
    request = analyst_pb2.GetEstimateRequest(campaign_id="groups")
    rows = list((await running.wire.analyst.GetEstimate(request)).estimates)
    assert [(e.stratum, e.label) for e in rows] == [
        (stratum, label) for stratum in ("", *LABELS) for label in asked.campaign.labels
    ]
    for number, shown in enumerate(rows[columns:]):
        own = sums[number]
        assert (shown.n, int(shown.sum), int(shown.sum_of_squares)) == (
            own.n,
            own.total,
            own.total_of_squares,
        )
        step = 2.0**asked.campaign.grid_exponent
        assert shown.value == pytest.approx(own.total / own.n * step)
    for column, shown in enumerate(rows[:columns]):
        assert shown.n == sum(sums[g * columns + column].n for g in range(3))

    found = await of_analyst(running, lambda analyst: analyst.estimate("groups"))
    assert len(found.estimates) == columns
    groups = found.by_group("above 50,000")
    assert groups.labels == LABELS
    assert groups.n == tuple(sums[g * columns].n for g in range(3))
    low, high = groups.intervals(0.95)
    assert [low[0], high[0]] == pytest.approx([rows[columns].ci_low, rows[columns].ci_high])
    whole = groups.post_stratify({"north": 0.5, "middle": 0.3, "south": 0.2})
    assert whole.privacy == asked.campaign.report_privacy
    assert groups.differences(against="north").rows()[-1]["p_value"] < 0.05


async def test_randomised_labels_are_undone(start_server: ServerStarter) -> None:
    asked = published(LIES, questions=(Question("above", ABOVE),))
    running = await started(start_server, asked)
    reports = drawn(asked)
    await running.wire.submit(asked, *reports)
    sums = list(by_index(asked, reports).values())
    limits, exponent = asked.campaign.limits[0], asked.campaign.grid_exponent
    assert LIES.randomized is not None
    undone = LIES.randomized.means(sums, exponent, 0.95, limits)
    found = await of_analyst(running, lambda analyst: analyst.estimate("groups"))
    groups = found.by_group()
    assert groups.values == pytest.approx(undone.values)
    assert groups.covariance == pytest.approx(undone.covariance)
    assert groups.n is None
    low, high = groups.intervals(0.95)
    assert (low.tolist(), high.tolist()) == (undone.low.tolist(), undone.high.tolist())
    request = analyst_pb2.GetEstimateRequest(campaign_id="groups")
    rows = list((await running.wire.analyst.GetEstimate(request)).estimates)
    assert [e.value for e in rows[1:]] == pytest.approx(undone.values)
    assert [e.n for e in rows[1:]] == [s.n for s in sums]
    assert [e.ci_low for e in rows[1:]] == pytest.approx(undone.low)
    assert "lies" in groups.notes[-1]
    assert groups.differences().rows()
    assert found.groups[0] is groups


async def test_nothing_is_shown_before_every_label_has_the_minimum(
    start_server: ServerStarter,
) -> None:
    """Else the label that is left out is all less the others."""
    asked = published(minimum_participants=5, allocation=Allocation.SPLIT)
    running = await started(start_server, asked)
    reports = drawn(asked)
    south = [r for r in reports if r.answers[0].query_index == 4]
    others = [r for r in reports if r.answers[0].query_index != 4]
    await running.wire.submit(asked, *others, *south[:4])
    for call in (
        running.wire.analyst.GetEstimate(analyst_pb2.GetEstimateRequest(campaign_id="groups")),
        running.wire.analyst.ExportReports(analyst_pb2.ExportReportsRequest(campaign_id="groups")),
    ):
        with pytest.raises(grpc.aio.AioRpcError, match="5 answers of every region") as caught:
            _ = [part async for part in call] if hasattr(call, "__aiter__") else await call
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    await running.wire.submit(asked, south[4])
    assert len(await running.wire.sums(asked)) == 2 * (1 + 3)


@pytest.mark.parametrize("points", [False, True])
async def test_rows_are_exported_with_their_labels(
    start_server: ServerStarter, points: bool
) -> None:
    asked = published(points=points)
    running = await started(start_server, asked)
    reports = drawn(asked, 200)
    await running.wire.submit(asked, *reports)
    columns = asked.campaign.columns
    expected = sorted(
        (a.query_index % columns, a.query_index // columns, a.value)
        for r in reports
        for a in r.answers
    )

    def exported(analyst: Analyst) -> list[ReportRows]:
        return [part for part in analyst.export("groups") if isinstance(part, ReportRows)]

    (rows,) = await of_analyst(running, exported)
    indices = np.zeros(len(rows.periods)) if rows.query_indices is None else rows.query_indices
    found = list(zip(indices, rows.strata, rows.columns[0], strict=True))
    assert found == expected


QUESTIONS = [
    PointQuestion("above", ABOVE),
    PointQuestion("high", Threshold(9e4, 3e4, "smoothstep")),
]


@pytest.mark.parametrize("strata", [OPEN, LIES])
async def test_points_are_asked_by_group(start_server: ServerStarter, strata: Strata) -> None:
    asked = published(strata, points=True)
    running = await started(start_server, asked)
    reports = drawn(asked)
    await running.wire.submit(asked, *reports)
    labels = np.array([r.answers[0].query_index for r in reports])
    step = asked.campaign.point_mechanism.step
    points = np.array([r.answers[0].value for r in reports]) * step
    groups: tuple[GroupEstimates, ...] = await of_analyst(
        running, lambda analyst: analyst.ask_by_group("groups", QUESTIONS)
    )
    assert [g.question for g in groups] == ["above", "high"]
    for question, found in zip(QUESTIONS, groups, strict=True):
        values = asked.campaign.point_mechanism.estimator(question.query, debias=True).value(points)
        if strata is OPEN:
            means = [values[labels == g].mean() for g in range(3)]
            n = np.bincount(labels)
            errors = [values[labels == g].std(ddof=1) / n[g] ** 0.5 for g in range(3)]
        else:
            assert LIES.randomized is not None
            integers = np.rint(values * 2.0**30).astype(int)
            sums = [Accumulator.of(integers[labels == g].tolist()) for g in range(3)]
            undone = LIES.randomized.means(sums, -30, 0.95, found.limits)
            means, errors = undone.values, np.sqrt(np.diag(undone.covariance))
        assert found.values == pytest.approx(means, abs=1e-8)
        assert found.standard_errors == pytest.approx(errors, rel=1e-6)

    async with AsyncAnalyst(running.address, timeout_s=60) as analyst:
        again = await analyst.ask_by_group("groups", QUESTIONS)
    assert again[0].values.tolist() == groups[0].values.tolist()


async def test_any_statistic_is_asked_of_one_group(start_server: ServerStarter) -> None:
    """Where labels are open, the server and reports at hand say the same."""
    asked = published(points=True)
    running = await started(start_server, asked)
    reports = drawn(asked)
    await running.wire.submit(asked, *reports)
    south = np.array([r.answers[0].value for r in reports if r.answers[0].query_index == 2])
    values = asked.campaign.point_mechanism.estimator(ABOVE, debias=True).value(
        south * asked.campaign.point_mechanism.step
    )
    means = Means(tuple(QUESTIONS))

    def ask(analyst: Analyst) -> Any:
        rows = [part for part in analyst.export("groups") if isinstance(part, ReportRows)]
        return (
            analyst.ask("groups", means, stratum="south"),
            reports_of(rows, asked.campaign).ask(means, stratum="south"),
            analyst.ask("groups", QUESTIONS, stratum="south").estimates[0],
            analyst.ask("groups", QUESTIONS).estimates[0].n,
        )

    found, at_hand, row, everybody = await of_analyst(running, ask)
    assert found.values[0] == pytest.approx(values.mean(), abs=1e-8)
    assert at_hand.values.tolist() == found.values.tolist()
    assert at_hand.covariance == pytest.approx(found.covariance)
    assert (found.n, row.n, everybody) == (len(south), len(south), PEOPLE)
    async with AsyncAnalyst(running.address, timeout_s=60) as analyst:
        again = await analyst.ask("groups", means, stratum="south")
        assert again.values.tolist() == found.values.tolist()
        row = (await analyst.ask("groups", QUESTIONS, stratum="south")).estimates[0]
        assert row.n == len(south)
    with pytest.raises(ParameterError, match="stratum must be of"):
        await of_analyst(running, lambda a: a.ask("groups", means, stratum="west"))


@pytest.mark.deep(keep=0)
async def test_statistics_of_groups_and_of_all_weighted(start_server: ServerStarter) -> None:
    """From the server, its cells counted from what it sends, and from reports at hand alike."""
    asked = published(points=True)
    running = await started(start_server, asked)
    await running.wire.submit(asked, *drawn(asked))
    sizes = {"north": 500.0, "middle": 300.0, "south": 200.0}
    median, smooth = Quantiles(levels=[0.5]), SmoothedDistribution(samples=20)

    def ask(analyst: Analyst) -> Any:
        rows = [part for part in analyst.export("groups") if isinstance(part, ReportRows)]
        held = reports_of(rows, asked.campaign)
        assert analyst.ask("groups", smooth).to_dict() == held.ask(smooth).to_dict()
        return (
            analyst.ask_by_group("groups", median),
            held.ask_by_group(median),
            analyst.ask("groups", median, sizes=sizes),
            held.ask(median, sizes=sizes),
            analyst.ask("groups", smooth, stratum="south"),
        )

    groups, at_hand, weighted, again, south = await of_analyst(running, ask)
    assert isinstance(groups, ByGroup)
    numbers = [row["estimate"] for row in groups.rows()]
    assert numbers == pytest.approx([row["estimate"] for row in at_hand.rows()], rel=1e-6)
    assert numbers[2] > max(numbers[:2])
    assert weighted.values == pytest.approx(again.values, rel=1e-6)
    assert south.n == sum(label == "south" for _, label in people())
    async with AsyncAnalyst(running.address, timeout_s=60) as analyst:
        found = await analyst.ask_by_group("groups", median)
        assert found.rows() == groups.rows()
        assert (await analyst.ask("groups", median, sizes=sizes)).rows() == weighted.rows()
        curve = await analyst.ask("groups", smooth, stratum="south")
        assert curve.to_dict() == south.to_dict()


async def test_what_makes_no_sense_is_refused(start_server: ServerStarter) -> None:
    lies, plain = published(LIES, points=True), published(None, points=True, campaign_id="plain")
    running = await started(start_server, lies)
    await running.wire.create(plain)
    for call, said in (
        (lambda a: a.ask("groups", QUESTIONS, stratum="south"), "ask_by_group"),
        (lambda a: a.ask("plain", QUESTIONS, stratum="south"), "no strata"),
        (lambda a: a.ask_by_group("plain", QUESTIONS), "with strata"),
        (lambda a: a.ask("groups", Quantiles(), stratum="west"), "stratum must be of"),
        (lambda a: a.ask("plain", QUESTIONS, sizes={"south": 1.0}), "Means"),
        (lambda a: a.estimate("groups").by_group(), "none: no strata"),
    ):
        with pytest.raises(ParameterError, match=said):
            await of_analyst(running, call)
    for stratum, asked in ((3, lies), (0, plain)):
        request = analyst_pb2.EstimateQueriesRequest(campaign_id=asked.campaign_id, stratum=stratum)
        with pytest.raises(grpc.aio.AioRpcError, match="stratum") as caught:
            await running.wire.analyst.EstimateQueries(request)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_groups_of_each_period_are_apart(start_server: ServerStarter) -> None:
    asked = published(period=timedelta(days=7), allocation=Allocation.REPEAT)
    running = await started(start_server, asked)
    for period in (0, 1):
        reports = drawn(asked, 300 + 60 * period, period)
        for number, report in enumerate(reports):
            report.report_id = (1000 * period + number).to_bytes(16, "big")
        await running.wire.submit(asked, *reports)
    found = await of_analyst(running, lambda analyst: analyst.estimate("groups"))
    for period in (0, 1):
        n = found.by_group("above 50,000", period).n
        assert n is not None
        assert sum(n) == 300 + 60 * period
    with pytest.raises(ParameterError, match="one of a period with groups"):
        found.by_group("above 50,000", 3)
