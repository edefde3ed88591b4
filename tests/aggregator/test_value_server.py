"""Points and forms over the wire: whole reports in; queries and whole rows out."""

import asyncio
from datetime import timedelta
from typing import Any

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray

from geoveil.aggregator import SQLiteStore
from geoveil.aggregator.domain.values import PointSums
from geoveil.aggregator.store import StoredAnswers
from geoveil.campaign import (
    Attribute,
    ChoiceField,
    FormCampaign,
    MultipleField,
    NumberField,
    OrdinalField,
    PointQuestion,
    encode_point_question,
)
from geoveil.gp import (
    Disc,
    GaussianKernel,
    GeoPrivacy,
    SeededSource,
    SmoothedRegion,
)
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.proto.v1 import analyst_pb2, campaign_pb2, report_pb2

from .conftest import CLOSES, OPENS, Published, RunningServer, Wire, report_of, value_campaign
from .refusals import refused

PEOPLE = 150
QUESTIONS = [
    PointQuestion("bell", GaussianKernel((100.0, 50.0), 500.0)),
    PointQuestion("disc", SmoothedRegion(Disc((0.0, 0.0), 700.0, 1.0), 300.0)),
]


def published(**changes: Any) -> Published:
    return Published.of(value_campaign(**changes))


def released(asked: Published, count: int = PEOPLE) -> NDArray[np.int64]:
    mechanism = asked.campaign.point_mechanism
    source = SeededSource(1)
    places = np.random.default_rng(1).normal(0, 400, (count, 2))
    return np.array([mechanism.release(place, source) for place in places])


def reports_of(points: NDArray[np.int64], first: int = 0, period: int = 0) -> list[Any]:
    return [
        report_of(number, *enumerate(point.tolist()), period=period)
        for number, point in enumerate(points, first)
    ]


def ask(questions: list[PointQuestion] = QUESTIONS, **more: Any) -> Any:
    queries = [encode_point_question(question) for question in questions]
    return analyst_pb2.EstimateQueriesRequest(campaign_id="points", queries=queries, **more)


async def rows(wire: Wire, **more: Any) -> tuple[Any, list[tuple[int, ...]]]:
    request = analyst_pb2.ExportReportsRequest(campaign_id="points", **more)
    first, *rest = [part async for part in wire.analyst.ExportReports(request)]
    assert not first.columns
    found = []
    for part in rest:
        named = [part.query_indices] if part.query_indices else []
        columns = [column.values for column in part.columns]
        found += list(zip(part.periods, *named, *columns, strict=True))
    return first.envelope, found


async def test_points_are_counted_once_and_every_query_is_answered_later(running):
    wire, asked = running.wire, published()
    await wire.create(asked)
    points = released(asked)
    await wire.submit(asked, *reports_of(points))
    again = await wire.submit(asked, *reports_of(points))
    assert {result.status for result in again} == {report_pb2.REPORT_STATUS_DUPLICATE}

    mean = await wire.analyst.GetEstimate(analyst_pb2.GetEstimateRequest(campaign_id="points"))
    step = asked.campaign.point_mechanism.step
    assert [e.label for e in mean.estimates] == ["x", "y"]
    assert [int(e.sum) for e in mean.estimates] == points.sum(axis=0).tolist()
    assert [e.value for e in mean.estimates] == pytest.approx((points * step).mean(axis=0))
    assert "mean of each coordinate" in mean.unbiased_for

    later = await wire.analyst.EstimateQueries(ask(confidence=0.9))
    assert later.envelope.campaign == asked.published
    assert (later.privacy.epsilon, later.privacy.per) == (1.0, 200.0)
    assert "mean of the soft query over all who took part" in later.unbiased_for
    for shown, question in zip(later.estimates, QUESTIONS, strict=True):
        estimator = asked.campaign.point_mechanism.estimator(question.query, debias=True)
        values = estimator.value(points * step)
        assert (shown.label, shown.n, shown.confidence) == (question.label, PEOPLE, 0.9)
        assert shown.value == pytest.approx(values.mean(), abs=1e-9)
        assert shown.standard_error == pytest.approx(values.std(ddof=1) / np.sqrt(PEOPLE))
        assert int(shown.sum) == round(shown.value * 2**30 * PEOPLE)

    envelope, found = await rows(wire)
    assert envelope.campaign == asked.published
    assert found == sorted((0, *point) for point in points.tolist())


@pytest.mark.parametrize(
    "answers", [[(0, 1)], [(1, 1), (0, 1)], [(0, 1), (1, 1), (2, 1)], [(0, 1), (0, 1)]]
)
async def test_what_is_no_point_is_rejected(running, wire_report, answers):
    asked = published()
    await running.wire.create(asked)
    (result,) = await running.wire.submit(asked, wire_report(1, *answers))
    assert result.reason == report_pb2.REJECTION_REASON_WRONG_ANSWERS
    assert "all the numbers from 0 to 1" in result.detail


@pytest.mark.deep(keep=0)
async def test_nothing_is_shown_of_fewer_than_the_minimum(running):
    wire, asked = running.wire, published(minimum_participants=20)
    await wire.create(asked)
    points = released(asked, 20)
    await wire.submit(asked, *reports_of(points[:19]))
    request = analyst_pb2.ExportReportsRequest(campaign_id="points")
    for call in (wire.analyst.EstimateQueries(ask()), wire.analyst.ExportReports(request).read()):
        error = await refused(grpc.StatusCode.FAILED_PRECONDITION, call)
        assert "20 answers" in error.details()
    await wire.submit(asked, *reports_of(points[19:], first=19))
    assert (await wire.analyst.EstimateQueries(ask())).estimates[0].n == 20
    assert len((await rows(wire))[1]) == 20


@pytest.mark.deep
async def test_periods_are_shown_apart_and_only_those_with_enough(running):
    wire, asked = running.wire, published(period=timedelta(days=5), minimum_participants=10)
    await wire.create(asked)  # the clock stands in the third period
    points = released(asked, 30)
    for period, part in enumerate((points[:12], points[12:17], points[17:])):
        await wire.submit(asked, *reports_of(part, first=100 * period, period=period))
    shown = (await wire.analyst.EstimateQueries(ask())).estimates
    assert [(e.label, e.period, e.n) for e in shown] == [
        (q.label, period, n) for period, n in ((0, 12), (2, 13)) for q in QUESTIONS
    ]
    alone = (await wire.analyst.EstimateQueries(ask(period=2))).estimates
    assert list(alone) == list(shown[2:])
    assert {period for period, *_ in (await rows(wire))[1]} == {0, 2}
    assert {period for period, *_ in (await rows(wire, period=0))[1]} == {0}
    await refused(grpc.StatusCode.FAILED_PRECONDITION, wire.analyst.EstimateQueries(ask(period=1)))
    error = await refused(
        grpc.StatusCode.INVALID_ARGUMENT, wire.analyst.EstimateQueries(ask(period=3))
    )
    assert "later ones have not begun" in error.details()


@pytest.mark.deep
async def test_covariances_come_with_the_estimates_where_they_are_asked_for(running):
    wire, asked = running.wire, published()
    await wire.create(asked)
    points = released(asked, 40)
    await wire.submit(asked, *reports_of(points))
    assert not (await wire.analyst.EstimateQueries(ask())).covariances
    shown = await wire.analyst.EstimateQueries(ask(joint=True))
    (found,) = shown.covariances
    mechanism = asked.campaign.point_mechanism
    answers = [
        mechanism.estimator(question.query, debias=True).value(points * mechanism.step)
        for question in QUESTIONS
    ]
    expected = (np.cov(answers) / 40)[np.tril_indices(len(QUESTIONS))]
    assert found.period == 0
    assert list(found.lower_triangle) == pytest.approx(expected.tolist(), rel=1e-4, abs=1e-9)


async def test_points_are_read_again_only_when_some_were_counted(start_server, database):
    class Counting(SQLiteStore):
        reads = 0

        def answers(
            self, campaign_id: str, after: bytes = b"", limit: int = 1 << 16
        ) -> StoredAnswers:
            type(self).reads += 1
            return super().answers(campaign_id, after, limit)

    running = await start_server(open_store=lambda: Counting(database))
    wire, asked = running.wire, published()
    await wire.create(asked)
    await wire.submit(asked, *reports_of(released(asked, 5)))
    first, reads = await wire.analyst.EstimateQueries(ask()), Counting.reads
    assert await wire.analyst.EstimateQueries(ask()) == first
    assert Counting.reads == reads > 0
    await wire.submit(asked, *reports_of(released(asked, 1), first=50))
    assert (await wire.analyst.EstimateQueries(ask())).estimates[0].n == 6
    assert Counting.reads > reads


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (ask(confidence=1.5), "confidence"),
        (ask([PointQuestion("hard", Disc((0.0, 0.0), 500.0, 100.0))]), "'hard'"),
        (
            analyst_pb2.EstimateQueriesRequest(
                campaign_id="points", queries=[campaign_pb2.Query(label="none")]
            ),
            "queries[0].kind",
        ),
        (
            analyst_pb2.EstimateQueriesRequest(
                campaign_id="points", queries=[campaign_pb2.Query()] * 4_097
            ),
            "1 to 4,096",
        ),
    ],
)
async def test_what_cannot_be_asked_is_refused_and_named(running, request_, told):
    await running.wire.create(published())
    call = running.wire.analyst.EstimateQueries(request_)
    error = await refused(grpc.StatusCode.INVALID_ARGUMENT, call)
    assert told in error.details()


async def test_statistic_campaigns_are_exported_but_not_asked_later(running, publish, wire_report):
    asked = publish("points", queries=2)
    await running.wire.create(asked)
    await running.wire.submit(asked, wire_report(1, (1, 7)), wire_report(2, (0, -3)))
    assert (await rows(running.wire))[1] == [(0, 0, -3), (0, 1, 7)]
    call = running.wire.analyst.EstimateQueries(ask())
    error = await refused(grpc.StatusCode.INVALID_ARGUMENT, call)
    assert "value campaign" in error.details()


async def test_unknown_campaigns_are_not_found(running):
    request = analyst_pb2.ExportReportsRequest(campaign_id="points")
    for call in (
        running.wire.analyst.EstimateQueries(ask()),
        running.wire.analyst.ExportReports(request).read(),
    ):
        await refused(grpc.StatusCode.NOT_FOUND, call)


@pytest.mark.deep(keep=0)
async def test_places_are_asked_in_the_plane_and_unbiased_for_the_area(running):
    plane = AzimuthalEquidistant(-73.95, 40.72, 60_000.0)
    asked = published(attribute=Attribute(name="location", unit="metre", coordinates=plane))
    await running.wire.create(asked)
    await running.wire.submit(asked, *reports_of(released(asked, 5)))
    response = await running.wire.analyst.EstimateQueries(ask())
    assert "moved into it" in response.unbiased_for
    mean = await running.wire.analyst.GetEstimate(
        analyst_pb2.GetEstimateRequest(campaign_id="points")
    )
    assert [e.label for e in mean.estimates] == ["metres east", "metres north"]


class Endless(SQLiteStore):
    """Never comes to the end of its answers; counts how often it is asked."""

    asked = 0

    def answers(self, campaign_id: str, after: bytes = b"", limit: int = 1 << 16) -> StoredAnswers:
        type(self).asked += 1
        found = super().answers(campaign_id, b"", limit)
        return StoredAnswers(found.packed, b"again")


@pytest.mark.deep
async def test_a_deadline_ends_the_reading_and_frees_the_next_call(start_server, database):
    running = await start_server(open_store=lambda: Endless(database))
    asked = published()
    await running.wire.create(asked)
    await running.wire.submit(asked, *reports_of(released(asked, 5)))
    PointSums(asked.campaign, QUESTIONS)  # what is imported and built once takes longest
    for _ in range(3):  # the last would wait for ever if the first two went on
        Endless.asked = 0
        call = running.wire.analyst.EstimateQueries(ask(), timeout=1.0)
        await refused(grpc.StatusCode.DEADLINE_EXCEEDED, call)
        assert Endless.asked > 1
    await asyncio.sleep(0.2)
    ended = Endless.asked
    await asyncio.sleep(0.2)
    assert Endless.asked == ended


async def test_other_calls_are_answered_while_points_are_read(start_server, database):
    running = await start_server(open_store=lambda: Endless(database))
    asked = published()
    await running.wire.create(asked)
    await running.wire.submit(asked, *reports_of(released(asked, 5)))
    endless = running.wire.analyst.EstimateQueries(ask())
    for number in range(3):
        await running.wire.submit(asked, *reports_of(released(asked, 1), first=50 + number))
        await running.wire.sums(asked)
    assert not endless.done()
    endless.cancel()


PERSONS = 60
WORDS = tuple(f"word {i}" for i in range(130))
FIELDS = (
    NumberField(
        attribute=Attribute(name="income", unit="dollar", least=0, most=500_000),
        privacy=GeoPrivacy(1, 8000, "dollar"),
    ),
    ChoiceField(name="rents", options=("yes", "no"), epsilon=1.0),
    OrdinalField(name="mood", options=("bad", "so so", "good"), epsilon=1.0),
    MultipleField(name="ways", options=("bus", "train", "car"), epsilon=1.0),
    ChoiceField(name="word", options=WORDS, epsilon=1.0),
    ChoiceField(name="region", options=("north", "south")),
)
COLUMNS = 8


def form_of(**changes: Any) -> Published:
    common = {"campaign_id": "form", "title": "A form", "opens": OPENS, "closes": CLOSES}
    return Published.of(FormCampaign(**{**common, "fields": FIELDS} | changes))


def rows_of_people(asked: Published, count: int = PERSONS) -> list[tuple[int, ...]]:
    assert isinstance(asked.campaign, FormCampaign)
    source = SeededSource(3)
    rows = []
    for person in range(count):
        prepared = asked.campaign.prepare(
            {"income": 1000.0 * person, "rents": "no", "mood": "good", "ways": ["bus"],
             "word": WORDS[person], "region": "south"}
        )  # fmt: skip
        rows.append(tuple(asked.campaign.release(prepared, source)))
    return rows


async def exported(running: RunningServer, **more: Any) -> list[tuple[int, ...]]:
    request = analyst_pb2.ExportReportsRequest(campaign_id="form", **more)
    call: Any = running.wire.analyst.ExportReports(request)
    first, *rest = [part async for part in call]
    assert first.envelope.campaign
    found: list[tuple[int, ...]] = []
    for part in rest:
        assert not part.query_indices
        found += zip(part.periods, *(column.values for column in part.columns), strict=True)
    return found


async def test_a_form_goes_in_and_comes_out_whole(running):
    asked = form_of()
    assert asked.campaign.columns == COLUMNS
    await running.wire.create(asked)
    people = rows_of_people(asked)
    reports = [report_of(i, *enumerate(row)) for i, row in enumerate(people)]
    await running.wire.submit(asked, *reports)
    again = await running.wire.submit(asked, *reports)
    assert {result.status for result in again} == {report_pb2.REPORT_STATUS_DUPLICATE}
    counted = [
        tuple(asked.campaign.counted(i, value) for i, value in enumerate(row)) for row in people
    ]
    assert await exported(running) == sorted((0, *row) for row in counted)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({0: 2**63 - 1}, None),  # counts as the nearest end
        ({1: -1}, "OUT_OF_RANGE"),
        ({3: 8}, "OUT_OF_RANGE"),  # a fourth tick of three
        ({6: 1 << 6}, "OUT_OF_RANGE"),  # of 130 options 6 are in the third column
    ],
)
async def test_what_no_device_sends_is_rejected(running, change, reason):
    asked = form_of()
    await running.wire.create(asked)
    (row,) = rows_of_people(asked, 1)
    values = [change.get(i, value) for i, value in enumerate(row)]
    (result,) = await running.wire.submit(asked, report_of(1, *enumerate(values)))
    expected = "UNSPECIFIED" if reason is None else reason
    assert report_pb2.RejectionReason.Name(result.reason) == f"REJECTION_REASON_{expected}"


@pytest.mark.parametrize(
    "indices",
    [range(7), [0] * 8, [1, 0, *range(2, 8)], range(8, 16), [], [2**32 - 1] * 8],
)
async def test_columns_that_are_not_the_form_s_are_rejected(running, indices):
    asked = form_of()
    await running.wire.create(asked)
    (result,) = await running.wire.submit(asked, report_of(1, *((i, 0) for i in indices)))
    assert result.reason == report_pb2.REJECTION_REASON_WRONG_ANSWERS


async def test_no_estimate_is_made_of_a_form_and_the_words_say_why(running):
    asked = form_of()
    await running.wire.create(asked)
    analyst = running.wire.analyst
    queries = [encode_point_question(question) for question in QUESTIONS]
    for call in (
        analyst.GetEstimate(analyst_pb2.GetEstimateRequest(campaign_id="form")),
        analyst.WatchEstimate(analyst_pb2.WatchEstimateRequest(campaign_id="form")).read(),
        analyst.EstimateQueries(
            analyst_pb2.EstimateQueriesRequest(campaign_id="form", queries=queries)
        ),
    ):
        error = await asyncio.wait_for(refused(grpc.StatusCode.INVALID_ARGUMENT, call), 10)
        assert "is a form of several fields, whose reports are exported" in error.details()


async def test_fewer_than_the_minimum_are_not_exported(running):
    asked = form_of(minimum_participants=20, period=timedelta(days=5))
    await running.wire.create(asked)
    reports = [report_of(i, *enumerate(row)) for i, row in enumerate(rows_of_people(asked, 25))]
    for report in reports[:20:5]:
        report.period = 1
    await running.wire.submit(asked, *reports[:20])
    call = running.wire.analyst.ExportReports(analyst_pb2.ExportReportsRequest(campaign_id="form"))
    await refused(grpc.StatusCode.FAILED_PRECONDITION, call.read())
    await running.wire.submit(asked, *reports[20:])
    assert {row[0] for row in await exported(running)} == {0}
    assert len(await exported(running)) == 21
