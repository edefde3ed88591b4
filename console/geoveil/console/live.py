"""Estimates as they come: one look a second at each survey, however many pages show it.

A page listens to server-sent events. The first that opens a survey starts a feed of it, the last
that leaves ends it; what a feed saw last is what whoever comes later gets at once.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import suppress

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.domain.watching import PollTimer, watch
from geoveil.aggregator.grpc.servicers import AnalystServicer
from geoveil.aggregator.ops.diagnostics import traceback_without_values
from geoveil.aggregator.web.calls import Receive, Send
from geoveil.aggregator.web.mounts import Inside
from geoveil.analyst.messages import estimates_in
from geoveil.console.http import Lane, RefusedError
from geoveil.console.rendering import templates
from geoveil.console.survey import answers_shown
from geoveil.console.workers import Workers
from geoveil.gp import GeoVeilError
from geoveil.proto.v1 import analyst_pb2

_LOG = logging.getLogger(__name__)
INTERVAL_S = 1.0
"""Between two looks at a survey."""
_MOST_PAGES = 1_000
"""Pages that listen at once."""
_SPREAD_S = 0.5
"""Seconds over which pages are told the same, one after the other: between two of them the event
loop takes reports. The first page is told at once."""
_GOLDEN = (5**0.5 - 1) / 2
"""Multiples of it lie evenly between whole numbers, however many there are."""
_BEAT_S = 15.0
"""Seconds until a page that nothing is told is told that it still listens."""


class _Feed:
    """What a survey says, for all who listen to it."""

    def __init__(self) -> None:
        self.listeners = 0
        self.joined = 0
        """How many have ever listened."""
        self.latest: bytes | None = None
        self.ended = False
        self.told = 0
        """How many times something was told."""
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def tell(self, event: bytes) -> None:
        self.latest = event
        self.told += 1
        self.changed.set()
        self.changed = asyncio.Event()


class Live:
    """The feeds of the surveys that are open in some page.

    Args:
        inside: of the server.
        workers: make what is sent.
    """

    def __init__(self, inside: Inside, workers: Workers) -> None:
        self._service = inside.service
        self._servicer = AnalystServicer(inside.service)
        self._workers = workers
        self._feeds: dict[str, _Feed] = {}
        self._template = templates().get_template("answers.html")
        self.looks = 0
        """How many estimates were asked for."""

    @property
    def feeds(self) -> int:
        """How many surveys are looked at."""
        return len(self._feeds)

    async def aclose(self) -> None:
        """End all feeds."""
        for feed in [*self._feeds.values()]:
            feed.ended = True
            feed.changed.set()
            if feed.task is not None:
                feed.task.cancel()

    async def send_events(
        self, campaign_id: str, permitted: Callable[[], bool], receive: Receive, send: Send
    ) -> None:
        """Send events of a survey until the listener is gone or may not listen any more.

        Args:
            campaign_id: of the survey.
            permitted: whether the listener still may, asked before each event; raises why not.
            receive: tells when the listener is gone.
            send: takes the events.

        Raises:
            RefusedError: if too many listen, before anything is sent.
            GeoVeilError: if the listener may not, before anything is sent.
        """
        if not permitted():
            raise RefusedError(401, "you are not signed in any more")
        if sum(feed.listeners for feed in self._feeds.values()) >= _MOST_PAGES:
            raise RefusedError(503, "too many pages are open")
        feed = self._feeds.get(campaign_id)
        if feed is None:
            feed = self._feeds[campaign_id] = _Feed()
            feed.task = asyncio.create_task(self._follow(campaign_id, feed), name="console feed")
        feed.listeners += 1
        delay = _SPREAD_S * (feed.joined * _GOLDEN % 1)
        feed.joined += 1
        gone = asyncio.create_task(_gone(receive), name="console listener")
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await self._send_all(feed, delay, permitted, gone, send)
        finally:
            gone.cancel()
            feed.listeners -= 1
            if not feed.listeners:
                if self._feeds.get(campaign_id) is feed:
                    del self._feeds[campaign_id]
                if feed.task is not None:
                    feed.task.cancel()

    async def _send_all(
        self,
        feed: _Feed,
        delay: float,
        permitted: Callable[[], bool],
        gone: "asyncio.Task[None]",
        send: Send,
    ) -> None:
        told = 0
        while not gone.done():
            changed = feed.changed
            event = b": still here\n\n"
            if feed.latest is not None and told != feed.told:
                await asyncio.sleep(delay)
                event, told = feed.latest, feed.told
            elif feed.ended:
                break
            else:
                waiting = asyncio.create_task(changed.wait())
                try:
                    await asyncio.wait(
                        (waiting, gone), timeout=_BEAT_S, return_when=asyncio.FIRST_COMPLETED
                    )
                finally:
                    waiting.cancel()
                if changed.is_set() or gone.done():
                    continue
            try:
                may = permitted()
            except GeoVeilError:
                may = False
            if not may:
                event = _event("signed-out", {})
            await send({"type": "http.response.body", "body": event, "more_body": True})
            if not may:
                break
        ended = _event("ended", {})
        await send({"type": "http.response.body", "body": ended, "more_body": False})

    async def _follow(self, campaign_id: str, feed: _Feed) -> None:
        """Look at a survey once a second, and tell what changed, until it is closed."""

        async def show() -> bytes:
            self.looks += 1
            request = analyst_pb2.GetEstimateRequest(campaign_id=campaign_id)
            answer = None
            try:
                answer = await self._servicer.GetEstimate(request, None)
            except ServiceError as error:
                if error.code is not Code.TOO_FEW_REPORTS:
                    raise
            standing = await self._service.get_campaign(campaign_id)
            return await self._workers.run(
                Lane.QUICK,
                lambda: self._told(answer, standing.record.reports, standing.state.value),
            )

        try:
            looking = watch(
                lambda: self._service.get_campaign(campaign_id), show, PollTimer(), INTERVAL_S
            )
            async for event in looking:
                feed.tell(event)
        except GeoVeilError:
            pass  # the pages say what they last knew, and ask again
        except Exception as error:  # noqa: BLE001 - logged, without content of requests
            _LOG.error("defect", extra={"exception": traceback_without_values(error)})
        feed.ended = True
        feed.changed.set()

    def _told(
        self, answer: analyst_pb2.GetEstimateResponse | None, reports: int, state: str
    ) -> bytes:
        found = None if answer is None else estimates_in(answer)
        html = self._template.render(answers_shown(found))
        return _event("estimate", {"html": html, "reports": f"{reports:,}", "state": state})


_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


async def _gone(receive: Receive) -> None:
    with suppress(asyncio.CancelledError):
        while (await receive())["type"] != "http.disconnect":
            pass


def _event(name: str, told: dict[str, str]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(told)}\n\n".encode()
