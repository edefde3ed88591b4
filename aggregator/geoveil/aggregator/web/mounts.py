"""What other parts serve by the web door, under a prefix each, within the bounds that it keeps.

A mount is an ASGI application. Before it runs, its request has come in full, is accounted for, and
is known to come from no page of another origin; what it does not say of itself is said for it.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from geoveil.aggregator.domain.errors import ServiceError, public
from geoveil.aggregator.domain.service import Clock, Service
from geoveil.aggregator.grpc.holdings import Call, Holdings
from geoveil.aggregator.ops.authorizer import Authorizer
from geoveil.aggregator.ops.metrics import Metrics
from geoveil.aggregator.ops.rates import RateLimits
from geoveil.aggregator.ops.settings import Settings
from geoveil.aggregator.ops.tls import Certificates
from geoveil.aggregator.store.writer import Writer
from geoveil.aggregator.web.calls import (
    MESSAGE_S,
    Calls,
    Event,
    Receive,
    Scope,
    Send,
    answer,
    peer_of,
)
from geoveil.aggregator.web.page_files import GUARDS, admitted

LONGEST_BODY = 1 << 20
"""Bytes of a request to a mount."""


@dataclass(frozen=True, slots=True)
class Inside:
    """What a mount may use of the server that it belongs to.

    Args:
        calls: the services, as the web door calls them: with every layer that is around them.
        gate: tells what a token of analysts may do.
        service: what the calls do, without those layers.
        limits: the rates of addresses and campaigns.
        metrics: what is counted.
        settings: of the server.
        clock: tells the time.
        tls: the certificates; None if there are none.
        writer: writes reports; tells how many wait.
    """

    calls: Calls
    gate: Authorizer
    service: Service
    limits: RateLimits
    metrics: Metrics
    settings: Settings
    clock: Clock
    tls: Certificates | None
    writer: Writer


class Mounted(Protocol):
    """An ASGI application for requests by GET, HEAD and POST."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; `receive` returns all of its body at once, and then who is gone."""
        ...

    async def aclose(self) -> None:
        """Be told that the server stops, before its connections are closed."""
        ...


class Mounts:
    """The mounts of a web door.

    Args:
        mounted: prefix → mount; a prefix begins and ends with "/".
        admit: lets a call of a peer pass, or raises.
        holdings: what requests hold.
    """

    def __init__(
        self, mounted: Mapping[str, Mounted], admit: Callable[[str], object], holdings: Holdings
    ) -> None:
        self._mounted = dict(mounted)
        self._admit = admit
        self._holdings = holdings

    def have(self, path: str) -> bool:
        """Return whether a path is a mount's, or its prefix without the last "/"."""
        return any(f"{path}/".startswith(prefix) for prefix in self._mounted)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request whose path is a mount's."""
        path, peer = scope["path"], peer_of(scope)
        if not await admitted(self._admit, peer, send):
            return
        if scope["method"] not in ("GET", "HEAD", "POST"):
            await answer(send, 405, "pages take GET and POST", [(b"allow", b"GET, HEAD, POST")])
            return
        if path not in self._mounted and f"{path}/" in self._mounted:
            await answer(send, 308, "it ends with a slash", [(b"location", f"{path}/".encode())])
            return
        prefix = max((one for one in self._mounted if path.startswith(one)), key=len)
        held: Call | None = None
        try:
            held = self._holdings.begin(peer)
            async with asyncio.timeout(MESSAGE_S):
                body = await self._body(held, receive)
        except ServiceError as error:
            await answer(send, 429, public(error).text)
        except TimeoutError:
            await answer(send, 408, f"a request must come within {MESSAGE_S:g} s")
        except _Gone:
            pass
        else:
            if body is None:
                await answer(send, 413, f"a request has at most {LONGEST_BODY:,} bytes")
            else:
                await _answered(self._mounted[prefix], scope, body, receive, send)
        finally:
            if held is not None:
                self._holdings.end(held)

    async def _body(self, held: Call, receive: Receive) -> bytes | None:
        """Return the body of a request; None if it is too long."""
        body, more = bytearray(), True
        while more:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise _Gone
            body += event.get("body", b"")
            if len(body) > LONGEST_BODY:
                return None
            self._holdings.resize(held, len(body))
            more = event.get("more_body", False)
        return bytes(body)

    async def aclose(self) -> None:
        """Tell all mounts that the server stops."""
        for one in self._mounted.values():
            await one.aclose()


class _Gone(Exception):  # noqa: N818 - not an error
    """Who sends a request is gone before all of it has come."""


async def _answered(
    mounted: Mounted, scope: Scope, body: bytes, receive: Receive, send: Send
) -> None:
    """Have a mount answer a request that has come, until its caller is gone."""
    gone, given, answered = asyncio.Event(), False, False

    async def receive_rest() -> Event:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send_guarded(event: Event) -> None:
        nonlocal answered
        if event["type"] == "http.response.start":
            said = {name.lower() for name, _ in event["headers"]}
            more = [pair for pair in GUARDS if pair[0] not in said]
            event["headers"] = [*event["headers"], *more]
        else:
            answered = not event.get("more_body", False)
        await send(event)

    async def notice() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()
        if not answered:
            answering.cancel()

    answering = asyncio.ensure_future(mounted(scope, receive_rest, send_guarded))
    noticing = asyncio.create_task(notice(), name="notice who is gone")
    try:
        await answering
    except asyncio.CancelledError:
        if not gone.is_set():
            raise
    finally:
        noticing.cancel()
