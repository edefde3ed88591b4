"""Test live estimates: one query a second for any number of pages."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import aclosing

import httpx
import pytest

from geoveil.console import sessions

from .served import form_token, served, survey


async def events(client: httpx.AsyncClient) -> AsyncIterator[tuple[str, dict[str, str]]]:
    async with client.stream("GET", "/console/events?campaign=income") as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        name = ""
        async for line in answer.aiter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield name, json.loads(line.removeprefix("data: "))


@pytest.mark.deep(keep=0)
async def test_many_pages_cost_one_look_a_second(tmp_path):
    pages, seen = 20, []
    async with served(tmp_path) as made, made.signed_in() as client:
        campaign = survey()
        await made.publish(campaign)
        began = time.monotonic()

        async def listen() -> None:
            async with aclosing(events(client)) as told:
                async for name, said in told:
                    assert name == "estimate"
                    if said["reports"] == "120":
                        seen.append(said["html"])
                        return

        listening = [asyncio.create_task(listen()) for _ in range(pages)]
        for _ in range(6):
            await made.report(campaign, 20)
            await asyncio.sleep(0.1)
        async with asyncio.timeout(30):
            await asyncio.gather(*listening)
        assert len(seen) == pages
        assert len(set(seen)) == 1
        assert made.console._live.looks <= time.monotonic() - began + 2
        for _ in range(200):
            if made.console._live._feeds:
                await asyncio.sleep(0.05)
        assert not made.console._live._feeds


@pytest.mark.deep
async def test_who_signs_out_hears_no_more(tmp_path):
    async with served(tmp_path, tokens=True) as made, made.signed_in() as client:
        campaign = survey()
        await made.publish(campaign)
        async with aclosing(events(client)) as told:
            assert (await anext(told))[0] == "estimate"
            token = form_token((await client.get("/console/")).text)
            await client.post("/console/sign-out", data={"form_token": token})
            await made.report(campaign, 20)
            assert [name async for name, _ in told] == ["signed-out"]


@pytest.mark.deep(keep=0)
async def test_only_a_survey_that_is_closed_is_said_to_have_ended(tmp_path):
    """Else pages would not ask again after a server began anew."""
    async with served(tmp_path) as made, made.signed_in() as client:
        await made.publish(survey())
        async with aclosing(events(client)) as told:
            assert (await anext(told))[0] == "estimate"
            await made.console.aclose()
            assert [name async for name, _ in told] == []
    (tmp_path / "other").mkdir()
    async with served(tmp_path / "other") as made, made.signed_in() as client:
        await made.publish(survey())
        async with aclosing(events(client)) as told:
            assert (await anext(told))[0] == "estimate"
            await made.analyst(lambda analyst: analyst.close_campaign("income"))
            assert [name async for name, _ in told] == ["estimate", "ended"]


async def test_a_page_that_stands_open_does_not_keep_its_session(tmp_path):
    assert sessions.IDLE_S == 1_800
    async with served(tmp_path, tokens=True) as made, made.signed_in() as client:
        await made.publish(survey())
        cookie = client.cookies[sessions.COOKIE]
        session = made.console._sessions.find(cookie)
        assert session is not None
        session.seen -= sessions.IDLE_S + 1
        assert (await client.get("/console/events?campaign=income")).status_code == 303
