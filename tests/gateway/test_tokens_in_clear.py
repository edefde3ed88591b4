"""Tokens over plain HTTP: on the machine itself, or behind a proxy that speaks HTTPS."""

import httpx
import pytest

from geoveil.aggregator.ops.tokens import Scope, TokenFile
from geoveil.gateway import site

from .web_client import ANALYST

LIST = ANALYST + "ListCampaigns"


@pytest.mark.parametrize(
    ("told", "proxies", "status"),
    [
        ({}, (), 403),
        ({"x-forwarded-proto": "https"}, (), 403),  # of somebody who is no proxy
        ({"x-forwarded-proto": "https"}, ("127.0.0.1",), 200),
        ({"x-forwarded-proto": "http"}, ("127.0.0.1",), 403),
    ],
)
async def test_a_token_off_the_machine_needs_https(
    start_web, tmp_path, monkeypatch, told, proxies, status
):
    file = TokenFile(tmp_path / "tokens.json")
    token = file.create("alice", [Scope.LIST], None)
    running = await start_web(
        gateway={"proxies": proxies}, tokens_file=tmp_path / "tokens.json", console=True
    )
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=f"http://{running.web}") as client:
        # The control: on the machine itself.
        assert (await client.post(LIST, json={}, headers=headers)).status_code == 200
        monkeypatch.setattr(site, "is_loopback", lambda _: False)
        calls = await client.post(LIST, json={}, headers=headers | told)
        page = await client.get("/console/sign-in", headers=told)
        devices = await client.get("/take-part/", headers=told)
    assert [calls.status_code, page.status_code, devices.status_code] == [status, status, 200]
