"""Reads by GET, against the same call by POST."""

import base64

import httpx
import pytest

from geoveil.proto.v1.collector_pb2 import BrowseCampaignsResponse, GetCampaignRequest

from .test_site import ELSEWHERE, url
from .web_client import ANALYST, COLLECTOR

BROWSE, GET = COLLECTOR + "BrowseCampaigns", COLLECTOR + "GetCampaign"
JSON = {"connect": "v1", "encoding": "json"}


async def test_a_read_by_get_is_answered_as_by_post(start_web):
    running = await start_web(web_origins=(ELSEWHERE,))
    async with httpx.AsyncClient() as client:

        async def asked(path, **query):
            return await client.get(url(running, path), params=query)

        text = '{"campaignId": "née +&="}'
        got = await asked(GET, **JSON, message=text)
        posted = await client.post(
            url(running, GET), content=text, headers={"content-type": "application/json"}
        )
        assert (got.status_code, got.content) == (posted.status_code, posted.content)
        assert got.json()["code"] == "not_found"
        assert "née +&=" in got.json()["message"]
        message = GetCampaignRequest(campaign_id="née +&=").SerializeToString()
        packed = base64.urlsafe_b64encode(message).decode().rstrip("=")
        assert (await asked(GET, encoding="proto", base64="1", message=packed)).json() == got.json()
        # As any page may fetch it that is listed, without asking first.
        listed = await client.get(
            url(running, BROWSE), params={**JSON, "message": "{}"}, headers={"origin": ELSEWHERE}
        )
        assert (listed.status_code, listed.json()) == (200, {})
        assert listed.headers["access-control-allow-origin"] == ELSEWHERE
        binary = await asked(BROWSE, encoding="proto", message="")
        assert binary.headers["content-type"] == "application/proto"
        assert BrowseCampaignsResponse.FromString(binary.content) == BrowseCampaignsResponse()


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ({}, "encoding"),
        ({"encoding": "xml", "message": "{}"}, "encoding"),
        ({"encoding": "json"}, "message"),
        ({"encoding": "proto", "base64": "1", "message": "!"}, "message"),
        ({"encoding": "json", "message": "{}", "compression": "gzip"}, "compression"),
    ],
)
async def test_a_query_that_is_no_call_is_refused(running, query, name):
    async with httpx.AsyncClient() as client:
        refused = await client.get(url(running, BROWSE), params=query)
    assert refused.status_code == 400
    assert refused.text.startswith(f"{name} must be ")


async def test_what_writes_or_belongs_to_analysts_is_no_get(running):
    """A page elsewhere can have a browser get anything, unasked."""
    async with httpx.AsyncClient() as client:
        for path in (
            COLLECTOR + "SubmitReports",
            ANALYST + "ListCampaigns",
            ANALYST + "CloseCampaign",
        ):
            assert (
                await client.get(url(running, path), params={**JSON, "message": "{}"})
            ).status_code == 404
