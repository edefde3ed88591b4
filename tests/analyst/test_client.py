"""Test the analyst's blocking and asyncio clients against a real server."""

import asyncio
import math
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import count

import numpy as np
import pytest

from geoveil.analyst import (
    TLS,
    Analyst,
    AsyncAnalyst,
    DensityAt,
    Map,
    Means,
    ReportRows,
    ServerError,
    ShareAbove,
    Softness,
    TLSMissingError,
    TokenInClearError,
    area_of,
    asked_of_points,
    campaign_asking,
    campaign_for_points,
    softness_of_points,
)
from geoveil.campaign import SigningKey, encode, signer
from geoveil.client import Client, Policy
from geoveil.gp import GeoPrivacy, ParameterError
from geoveil.simulation.local_server import local_server

NUMBERS = count()
PRIVACY = GeoPrivacy(1.0, 8_000.0, "dollar")


class Blocking:
    """The blocking client, with the calls of the other."""

    def __init__(self, target, **more):
        self._client = Analyst(target, **more)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        self._client.close()

    def __getattr__(self, name):
        method = getattr(self._client, name)

        async def each(*arguments, **named) -> AsyncIterator:
            for found in method(*arguments, **named):
                yield found

        async def once(*arguments, **named):
            return method(*arguments, **named)

        return each if name in ("campaigns", "watch", "export") else once


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with local_server(tmp_path_factory.mktemp("server") / "aggregator.db") as address:
        yield address


@pytest.fixture(params=[Blocking, AsyncAnalyst], ids=["blocking", "asyncio"])
def client(request):
    return request.param


@pytest.fixture
def campaign():
    now = datetime.now(UTC)
    return campaign_asking(
        [ShareAbove(100_000), ShareAbove(50_000)],
        attribute="household income",
        privacy=PRIVACY,
        campaign_id=f"income-{next(NUMBERS)}",
        title="Income",
        opens=now - timedelta(minutes=1),
        closes=now + timedelta(days=1),
    )


def contribute(server, campaign, values, tmp_path):
    """Let a device answer with each value."""
    for number, value in enumerate(values):
        with Client(
            server,
            policy=Policy.permitting(campaign),
            state_dir=tmp_path / str(number),
            background=False,
        ) as device:
            device.fetch(campaign.campaign_id)
            device.contribute(campaign.campaign_id, value)
            device.flush()


@pytest.mark.deep
async def test_the_way_of_a_question(client, server, campaign, tmp_path):
    key = SigningKey.generate()
    async with client(server) as analyst:
        first = await analyst.create(campaign, key)
        assert await analyst.create(campaign, key) == first  # is idempotent
        assert await analyst.campaign(campaign.campaign_id) == campaign
        contribute(server, campaign, [60_000.0, 120_000.0, 30_000.0], tmp_path)
        listed = {c.campaign.campaign_id: c async for c in analyst.campaigns()}
        found = listed[campaign.campaign_id]
        assert (found.state, found.reports) == ("open", 3)
        assert found.envelope.campaign == encode(campaign)
        assert signer(found.envelope) == key.public
        shown = await analyst.estimate(campaign.campaign_id, 0.9)
        assert shown.campaign == campaign
        assert shown.privacy == PRIVACY == shown.privacy_at_most
        assert [e.label for e in shown.estimates] == ["above 100,000", "above 50,000"]
        assert sum(e.n for e in shown.estimates) == 3
        assert {e.confidence for e in shown.estimates} == {0.9}
        await analyst.close_campaign(campaign.campaign_id)
        watched = [e async for e in analyst.watch(campaign.campaign_id)]
        assert watched[-1].state == "closed"
        content, *parts = [part async for part in analyst.export(campaign.campaign_id)]
        assert content == encode(campaign)
        assert all(isinstance(part, ReportRows) for part in parts)
        assert sum(len(part.periods) for part in parts) == 3


@pytest.mark.deep(keep=0)
async def test_points_are_asked_later(client, server, tmp_path):
    now = datetime.now(UTC)
    here = DensityAt(-73.98, 40.75, "here")
    campaign = campaign_for_points(
        attribute="location",
        privacy=GeoPrivacy(1.0, 500.0, "metre"),
        plane=area_of([here]),
        campaign_id=f"where-{next(NUMBERS)}",
        title="Where",
        opens=now - timedelta(minutes=1),
        closes=now + timedelta(days=1),
    )
    async with client(server) as analyst:
        await analyst.create(campaign)
        contribute(server, campaign, [(-73.98, 40.75), (-73.97, 40.76)], tmp_path)
        questions = asked_of_points(campaign, [here], softness_of_points(campaign))
        (found,) = (await analyst.ask(campaign.campaign_id, questions)).estimates
        assert (found.label, found.n, found.one_report) == ("here", 2, None)
        assert found.value is not None
        drawn = await analyst.ask(campaign.campaign_id, Map((-73.99, 40.74, -73.97, 40.76), (3, 3)))
        kernel = asked_of_points(campaign, [here], Softness(500.0, bandwidth=drawn.bandwidth))
        (alone,) = (await analyst.ask(campaign.campaign_id, kernel)).estimates
        assert alone.value is not None
        per_km2 = 1e6 / (2 * math.pi * drawn.bandwidth**2)
        assert drawn.values[1, 1] == pytest.approx(alone.value * per_km2, rel=1e-6)
        joint = await analyst.ask(campaign.campaign_id, Means(questions))
        assert joint.values.tolist() == [found.value]
        assert joint.standard_errors == pytest.approx([found.standard_error], rel=1e-4, abs=1e-5)
        with pytest.raises(ParameterError, match="period"):
            await analyst.ask(campaign.campaign_id, Means(questions), period=-1)


async def test_what_is_refused_is_an_error_that_says_whether_to_try_again(client, server):
    async with client(server) as analyst:
        with pytest.raises(ServerError, match="no such campaign") as caught:
            await analyst.estimate("nobody")
        assert caught.value.code == "NOT_FOUND"
        assert caught.value.answered
        assert not caught.value.retryable
        with pytest.raises(ServerError, match="no such campaign"):
            assert [e async for e in analyst.watch("nobody")] == []
        with pytest.raises(ParameterError, match="period must be"):
            await analyst.estimate("nobody", period=-1)
    with pytest.raises(ServerError, match="closed"):
        await analyst.estimate("nobody")


@pytest.mark.parametrize("asked", [None, 5, "x", Map(), [Means(())], ShareAbove(1.0)])
async def test_what_is_no_question_is_refused_in_words(client, server, asked):
    with pytest.raises(ParameterError, match="asked must be one statistic, or a sequence of quest"):
        async with client(server) as analyst:
            await analyst.ask("nobody", [asked] if isinstance(asked, Map) else asked)


async def test_nobody_answers_within_the_time_given(client):
    async with client("127.0.0.1:1", timeout_s=0.5) as analyst:
        with pytest.raises(ServerError) as caught:
            await analyst.campaign("income")
        assert caught.value.retryable
        assert not caught.value.answered


def test_elsewhere_takes_tls_and_so_does_a_token(client):
    with pytest.raises(TLSMissingError, match=r"give tls=TLS\(\)"):
        client("collector.example:443")
    with pytest.raises(TokenInClearError) as caught:
        client("collector.example:443", tls=TLS(insecure=True), token="geoveil_secret")
    assert "geoveil_secret" not in str(caught.value)
    for wrong in ({"timeout_s": 0.0}, {"timeout_s": np.nan}, {"token": "tökén"}):
        with pytest.raises(ParameterError):
            client("127.0.0.1:1", **wrong)


@pytest.mark.deep
async def test_a_watch_that_is_left_ends_at_once(server, campaign):
    """Its stream is cancelled, so that no thread waits for what nobody reads."""
    async with AsyncAnalyst(server) as analyst:
        await analyst.create(campaign)
        stream = analyst.watch(campaign.campaign_id)
        await anext(stream)

        async def next_one():
            await anext(stream)

        waiting = asyncio.create_task(next_one())
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await analyst.estimate(campaign.campaign_id)).state == "open"
        await analyst.close_campaign(campaign.campaign_id)
