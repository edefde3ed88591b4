"""What other parts serve by the web door: the door's bounds hold for them, whatever they do."""

import asyncio
import logging
from typing import Any

import httpx
import pytest

from geoveil.aggregator import Aggregator, Settings
from geoveil.aggregator.web import mounts
from geoveil.gp import ParameterError

WEB = "127.0.0.1:0"
ELSEWHERE = "https://survey.example.org"


class Echo:
    """Answers with what it is sent; breaks, or goes on and on, if it is asked to."""

    def __init__(self, inside: mounts.Inside) -> None:
        self.inside = inside
        self.ended = self.closed = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        event = await receive()
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
        await send({"type": "http.response.body", "body": event["body"], "more_body": False})

    async def aclose(self) -> None:
        self.closed = True


async def started(
    start_server: Any, http2: bool = False, **changes: Any
) -> tuple[Aggregator, httpx.AsyncClient, Echo]:
    made: list[Echo] = []

    def make(inside: mounts.Inside) -> Echo:
        made.append(Echo(inside))
        return made[0]

    aggregator = (await start_server(web=WEB, mounts={"/echo/": make}, **changes)).aggregator
    return (
        aggregator,
        httpx.AsyncClient(
            base_url=f"http://{aggregator.web_address}", timeout=10, http1=not http2, http2=http2
        ),
        made[0],
    )


async def test_a_mount_answers_what_comes_under_its_prefix(start_server: Any) -> None:
    aggregator, client, echo = await started(start_server)
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
    assert echo.inside.settings.web == WEB
    await aggregator.stop()
    assert echo.closed


async def test_pages_of_other_origins_do_not_reach_a_mount(start_server: Any) -> None:
    _, client, _ = await started(start_server, web_origins=(ELSEWHERE,))
    async with client:
        for origin in (ELSEWHERE, "http://evil.org", "null"):
            for method in ("GET", "POST", "OPTIONS"):
                found = await client.request(method, "/echo/", headers={"origin": origin})
                assert found.status_code == 403
                assert "access-control-allow-origin" not in found.headers
        assert (await client.get("/echo/", headers={"host": "evil.org"})).status_code == 421


async def test_requests_to_a_mount_have_bounds(
    start_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "MESSAGE_S", 0.1)
    aggregator, client, _ = await started(start_server, call_rate=0.1, call_burst=4)
    longest = mounts.LONGEST_BODY
    async with client:
        assert (await client.post("/echo/", content=b"a" * longest)).status_code == 200
        assert (await client.post("/echo/", content=b"a" * (longest + 1))).status_code == 413
        reader, writer = await asyncio.open_connection(*aggregator.web_address.split(":"))
        writer.write(b"POST /echo/ HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nsome")
        assert b" 408 " in await asyncio.wait_for(reader.readline(), 5)
        writer.close()
        await client.get("/echo/")
        refused = await client.get("/echo/")
    assert (refused.status_code, "retry-after" in refused.headers) == (429, True)
    assert aggregator._keeper.holdings.held == 0


async def test_a_defect_of_a_mount_says_nothing(
    start_server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    _, client, _ = await started(start_server)
    async with client:
        found = await client.get("/echo/broken")
    assert (found.status_code, found.text) == (500, "internal error\n")
    assert "4711" not in caplog.text
    assert [one.message for one in caplog.records if one.levelno >= logging.ERROR] == ["defect"]


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
async def test_a_stream_ends_when_its_reader_is_gone(start_server: Any, http2: bool) -> None:
    aggregator, client, echo = await started(start_server, http2)
    async with client, client.stream("GET", "/echo/stream") as stream:
        assert await anext(stream.aiter_raw()) == b"data\n\n"
        assert not echo.ended
        assert aggregator._keeper.holdings.held > 0
    for _ in range(50):
        if aggregator._keeper.holdings.held == 0:
            break
        await asyncio.sleep(0.02)
    assert echo.ended
    assert aggregator._keeper.holdings.held == 0


def test_mounts_need_a_door_and_a_prefix() -> None:
    for settings, prefix in (
        (Settings(), "/echo/"),
        (Settings(web=WEB), "echo"),
        (Settings(web=WEB), "/"),
    ):
        with pytest.raises(ParameterError):
            Aggregator(settings, mounts={prefix: Echo})


async def test_cookies_that_a_browser_sends_apart_come_together(start_server: Any) -> None:
    """HTTP/2 lets a browser do so; whoever looks for a session looks into one header."""
    found: list[Any] = []

    class Looking(Echo):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            found.append([value for name, value in scope["headers"] if name == b"cookie"])
            await super().__call__(scope, receive, send)

    aggregator = (await start_server(web=WEB, mounts={"/echo/": Looking})).aggregator
    base = f"http://{aggregator.web_address}"
    async with httpx.AsyncClient(base_url=base, http1=False, http2=True) as client:
        await client.get("/echo/", headers=[("cookie", "a=1"), ("cookie", "b=2")])
    assert found == [[b"a=1; b=2"]]
