"""Test that pages of listed origins may call, and no others, in a real browser."""

from pathlib import Path
from typing import Any

import pytest

from geoveil.aggregator import Aggregator, Settings
from tests.gateways import gateway_of

ASK = """async ({door, path, type, body}) => {
    try {
        const answer = await fetch(door + path, {
            method: "POST", body,
            headers: {"content-type": type, "connect-protocol-version": "1"}});
        return {status: answer.status, text: await answer.text()};
    } catch (error) { return {error: error.name}; }
}"""
BROWSE = "/geoveil.proto.v1.Collector/BrowseCampaigns"
CLOSE = "/geoveil.proto.v1.Analyst/CloseCampaign"


@pytest.mark.deep
@pytest.mark.parametrize("listed", [True, False])
async def test_only_listed_pages_may_call(tmp_path, context, listed):
    async with (
        Aggregator(_settings(tmp_path / "page.db")) as server,
        gateway_of(server) as pages,
    ):
        origin = f"http://{pages.address}"
        async with gateway_of(server, origins=(origin,) if listed else ()) as gateway:
            page = await context.new_page()
            await page.goto(f"{origin}/anything")
            asked = {"door": f"http://{gateway.address}", "path": BROWSE, "body": "{}"}
            sound = await page.evaluate(ASK, {**asked, "type": "application/json"})
            forms = [
                await page.evaluate(ASK, {**asked, "path": CLOSE, "type": kind})
                for kind in ("text/plain", "application/x-www-form-urlencoded")
            ]
    assert sound == ({"status": 200, "text": "{}"} if listed else {"error": "TypeError"})
    # Without the header that makes a browser ask first, no other way in is left.
    assert all("error" in one or one["status"] == 415 for one in forms)


def _settings(database: Path, **more: Any) -> Settings:
    return Settings(database=database, port=0, web="127.0.0.1:0", **more)
