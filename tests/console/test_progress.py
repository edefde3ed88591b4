"""Test reports over time against the plan: daily counts, and the page."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from geoveil.aggregator.ops.tokens import Scope, TokenFile
from geoveil.analyst import PublishedCampaign
from geoveil.campaign import encode, seal
from geoveil.console.charts import filling
from geoveil.console.page_analyst import CampaignProgress
from geoveil.console.progress import ReportsOverTime
from geoveil.console.survey_head import central_words
from geoveil.gp import Cap
from geoveil.proto.v1.campaign_pb2 import CampaignEnvelope
from tests.console.served import form_token, served, survey

OPENS = datetime(2026, 5, 1, 6, tzinfo=UTC)
FIRST = (OPENS - datetime(1970, 1, 1, tzinfo=UTC)).days


def filled(
    days: int,
    planned: int | None,
    counted: Sequence[tuple[int, int]],
    reports: int,
    **changes: object,
) -> ReportsOverTime:
    given = {"opens": OPENS, "closes": OPENS + timedelta(days=10)} | changes
    envelope = CampaignEnvelope.FromString(seal(encode(survey(**given))))
    now = OPENS + timedelta(days=days)
    published = PublishedCampaign(envelope, "open", reports)
    return ReportsOverTime.of(CampaignProgress(planned, counted, published), now)


def test_days_are_told_one_by_one_beside_the_plan():
    found = filled(4, 1_000, [(FIRST, 50), (FIRST + 3, 260)], 300)
    rows = [tuple(row.values()) for row in found.rows()]
    assert rows == [
        ("2026-05-01", 50, 50, 75),  # 18 of 240 hours
        ("2026-05-04", 210, 260, 375),
        ("2026-05-05", 40, 300, 400),
    ]
    assert found.words == "75 % of the 400 that the plan expects by now"
    assert found.behind
    assert [count for _, count in found.line()] == [0, 50, 50, 260, 300]  # level where none came
    times = [when for when, _ in found.line()]
    assert times == sorted(times)
    assert 'stroke-dasharray="6 4"' in str(filling(found))


def test_what_came_before_days_were_counted_is_no_days():
    found = filled(4, None, [(0, 900), (FIRST + 3, 960)], 960)
    assert [tuple(row.values()) for row in found.rows()] == [("2026-05-04", 60, 960, None)]
    assert "900 came before this server counted by the day." in found.notes
    assert not found.words
    assert not found.behind


def test_a_survey_that_recurs_plans_its_people_in_every_period():
    found = filled(5, 100, [], 600, period=timedelta(days=1))
    assert found.planned == 1_000
    assert found.words.startswith("120 % of the 500")
    assert not found.behind


def test_nothing_came_is_no_picture_without_a_plan():
    assert filling(filled(2, None, [], 0)) is None
    assert filled(2, None, [], 0).rows() == []
    assert filling(filled(0, 10, [], 0)) is not None


@pytest.mark.deep
async def test_a_plan_is_kept_by_who_may_publish(tmp_path):
    async with served(tmp_path, tokens=True) as console:
        campaign = survey(opens=datetime.now(UTC) - timedelta(days=5))
        await console.publish(campaign)
        await console.report(campaign, 30)
        await console.aggregator._service.note_day()
        path = "/console/surveys/income"
        file = TokenFile(tmp_path / "tokens.json")
        reading = file.create("reader", [Scope.LIST, Scope.ESTIMATE], None)
        other = file.create("other", Scope, None, campaigns=["another"])
        for token, status in ((reading, 403), (other, 403), (console.token, 303)):
            async with console.signed_in(token) as client:
                page = (await client.get("/console/")).text
                sent = {"form_token": form_token(page), "planned": "3000"}
                assert (await client.post(f"{path}/planned", data=sent)).status_code == status
        async with console.signed_in() as client:
            page = (await client.get(path)).text
            assert "3 % of the 1,0" in page
            assert 'value="3000"' in page
            assert "behind its plan: 3 %" in (await client.get("/console/")).text
            rows = (await client.get(f"{path}/reports.csv")).text.splitlines()
            assert rows[0] == "day,reports,in_all,planned_in_all"
            assert rows[1].split(",")[1:3] == ["30", "30"]
            assert "dasharray" in (await client.get(f"{path}/reports.svg")).text
            sent = {"form_token": form_token(page), "planned": "0"}
            refused = await client.post(f"{path}/planned", data=sent)
            assert refused.status_code == 400
            assert "participants" in refused.text
            sent["planned"] = ""
            assert (await client.post(f"{path}/planned", data=sent)).status_code == 303
            assert "that the plan has" not in (await client.get(path)).text


@pytest.mark.deep
async def test_a_server_notes_the_day_by_itself(tmp_path, monkeypatch):
    monkeypatch.setattr("geoveil.aggregator.grpc.server._NOTE_FIRST_S", 0.05)
    monkeypatch.setattr("geoveil.aggregator.grpc.server._NOTE_S", 0.05)
    async with served(tmp_path) as console:
        campaign = survey()
        await console.publish(campaign)
        await console.report(campaign, 20)
        for _ in range(100):
            found = await console.aggregator._service.progress(["income"])
            if found["income"].days:
                break
            await asyncio.sleep(0.05)
        today = (datetime.now(UTC) - datetime(1970, 1, 1, tzinfo=UTC)).days
        assert found["income"].days == [(today, 20)]


def test_the_page_says_what_random_order_would_be_worth_under_a_cap():
    capped = survey(cap=Cap(2.0, 2.0))
    assert "If 900 honest reports reach the analyst" in central_words(capped, 900)
    assert central_words(capped, 0) == central_words(survey(), 900) == ""
    weekly = replace(capped, period=timedelta(days=7), minimum_participants=50)
    assert "If 50 honest reports reach the analyst" in central_words(weekly, 900)
