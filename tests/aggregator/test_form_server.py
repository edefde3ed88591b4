"""Test forms over the wire: whole reports in, whole rows out, no estimate, no hostile report."""

import asyncio
from datetime import timedelta
from typing import Any

import grpc
import pytest

from geoveil.campaign import (
    Attribute,
    ChoiceField,
    FormCampaign,
    MultipleField,
    NumberField,
    OrdinalField,
    encode_point_question,
)
from geoveil.gp import GeoPrivacy, SeededSource
from geoveil.proto.v1 import analyst_pb2, campaign_pb2, report_pb2

from .conftest import CLOSES, OPENS, Published, RunningServer, report_of
from .refusals import refused
from .test_value_server import QUESTIONS

PEOPLE = 60
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


def published(**changes: Any) -> Published:
    common = {"campaign_id": "form", "title": "A form", "opens": OPENS, "closes": CLOSES}
    return Published.of(FormCampaign(**{**common, "fields": FIELDS} | changes))


def rows_of_people(asked: Published, count: int = PEOPLE) -> list[tuple[int, ...]]:
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
    asked = published()
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
    asked = published()
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
    asked = published()
    await running.wire.create(asked)
    (result,) = await running.wire.submit(asked, report_of(1, *((i, 0) for i in indices)))
    assert result.reason == report_pb2.REJECTION_REASON_WRONG_ANSWERS


async def test_no_estimate_is_made_of_a_form_and_the_words_say_why(running):
    asked = published()
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
    asked = published(minimum_participants=20, period=timedelta(days=5))
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


def tampered(change: Any) -> campaign_pb2.CampaignEnvelope:
    message = campaign_pb2.Campaign.FromString(published().published)
    change(message)
    return campaign_pb2.CampaignEnvelope(campaign=message.SerializeToString(deterministic=True))


def an_attribute(message: Any) -> None:
    message.attribute.name = "income"


def no_kind(message: Any) -> None:
    message.fields[1].ClearField("choice")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (an_attribute, "campaign"),
        (no_kind, "kind"),
    ],
)
async def test_a_form_that_is_none_is_not_published(running, change, words):
    request = analyst_pb2.CreateCampaignRequest(envelope=tampered(change))
    call = running.wire.analyst.CreateCampaign(request)
    error = await refused(grpc.StatusCode.INVALID_ARGUMENT, call)
    assert words in error.details()
