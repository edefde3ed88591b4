"""Test that the gateway's bounds apply to everything that other parts serve by it."""

import asyncio
import logging
from typing import Any

import httpx

from geoveil.gateway import ledger as ledger_module, site
from geoveil.gateway.pages import Files
from geoveil.gateway.site import Mount

from .conftest import RunningGateway

ELSEWHERE = "https://survey.example.org"
LONGEST = 1 << 20


class Echo:
    """Answers with what it is sent; breaks, or goes on and on, if it is asked to."""

    def __init__(self) -> None:
        self.ended = self.closed = False

    def longest(self, scope: Any) -> int:
        return LONGEST

    async def __call__(self, scope: Any, body: Any, send: Any) -> None:
        if scope["path"].endswith("broken"):
            raise KeyError("4711")
        headers = [(b"content-security-policy", b"default-src 'none'")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            while scope["path"].endswith("stream"):
                await send({"type": "http.response.body", "body": b"data\n\n", "more_body": True})
                await asyncio.sleep(0.02)
        finally:
            self.ended = True
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async def aclose(self) -> None:
        self.closed = True


async def started(start_web: Any, **changes: Any) -> tuple[RunningGateway, httpx.AsyncClient, Echo]:
    running, echo = await start_web(**changes), Echo()
    running.gateway._site._mounts["/echo/"] = Mount(echo, Files("geoveil.gateway", "files"))
    return running, httpx.AsyncClient(base_url=f"http://{running.web}", timeout=10), echo


async def test_a_mount_answers_what_comes_under_its_prefix(start_web):
    running, client, echo = await started(start_web)
    async with client:
        found = await client.post("/echo/any/where?x=1", content=b"some")
        assert (found.status_code, found.content) == (200, b"some")
        # What it says of itself stays, and the door says the rest.
        assert found.headers["content-security-policy"] == "default-src 'none'"
        assert found.headers["cross-origin-opener-policy"] == "same-origin"
        assert found.headers["x-content-type-options"] == "nosniff"
        assert (await client.get("/echo")).headers["location"] == "/echo/"
        assert (await client.get("/echoes/")).status_code == 404
        assert (await client.put("/echo/", content=b"")).status_code == 405
        assert (await client.get("/take-part/")).status_code == 200
        assert (await client.get("/echo/files/icon.svg")).status_code == 200
    await running.gateway.stop()
    assert echo.closed


async def test_pages_of_other_origins_do_not_reach_a_mount(start_web):
    _, client, _ = await started(start_web, web_origins=(ELSEWHERE,))
    async with client:
        for origin in (ELSEWHERE, "http://evil.org", "null"):
            for method in ("GET", "POST", "OPTIONS"):
                found = await client.request(method, "/echo/", headers={"origin": origin})
                assert found.status_code == 403
                assert "access-control-allow-origin" not in found.headers
        assert (await client.get("/echo/", headers={"host": "evil.org"})).status_code == 421


async def test_requests_to_a_mount_have_bounds(start_web, monkeypatch):
    monkeypatch.setattr(site, "MESSAGE_S", 0.1)
    running, client, _ = await started(start_web)
    async with client:
        assert (await client.post("/echo/", content=b"a" * LONGEST)).status_code == 200
        assert (await client.post("/echo/", content=b"a" * (LONGEST + 1))).status_code == 413
        reader, writer = await asyncio.open_connection(*running.web.split(":"))
        writer.write(b"POST /echo/ HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nsome")
        assert b" 408 " in await asyncio.wait_for(reader.readline(), 5)
        writer.close()
        ledger = running.gateway.ledger
        assert ledger.held == 0
        account = ledger.account("127.0.0.1")
        account.credit = 1_000.0  # enough for a request, and not for a page
        monkeypatch.setattr(ledger_module, "_SHARE", 1e-6)
        refused = await client.get("/echo/")
    assert (refused.status_code, "retry-after" in refused.headers) == (429, True)


async def test_a_defect_of_a_mount_says_nothing(start_web, caplog):
    _, client, _ = await started(start_web)
    async with client:
        found = await client.get("/echo/broken")
    assert (found.status_code, found.text) == (500, "internal error\n")
    assert "4711" not in caplog.text
    assert [one.message for one in caplog.records if one.levelno >= logging.ERROR] == ["defect"]


async def test_a_stream_ends_when_its_reader_is_gone(start_web):
    running, client, echo = await started(start_web)
    async with client, client.stream("GET", "/echo/stream") as stream:
        assert await anext(stream.aiter_raw()) == b"data\n\n"
        assert not echo.ended
    for _ in range(50):
        if echo.ended:
            break
        await asyncio.sleep(0.02)
    assert echo.ended
    assert running.gateway.ledger.held == 0
