"""Estimates as they come: one look a second at each survey, however many pages show it.

A page listens to server-sent events. The first that opens a survey starts a feed of it, the last
that leaves ends it; what a feed saw last is what whoever comes later gets at once.
"""

import asyncio
import json
import logging
from collections.abc import Callable

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.domain.watching import PollTimer, watch
from geoveil.aggregator.grpc.servicers import AnalystServicer
from geoveil.aggregator.ops.diagnostics import traceback_without_values
from geoveil.aggregator.web.calls import Send
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
_SPREAD_S = 0.8
"""Seconds over which pages are told the same, one after the other: between two of them the event
loop takes reports."""
_BEAT_S, _BEAT = 15.0, b": still here\n\n"
"""Seconds until a page that nothing is told is told that it still listens, and how."""


class _Page:
    """A page that listens, and the newest of what it was not told yet.

    Args:
        event: that it is told first; None: nothing was said yet.
    """

    def __init__(self, event: bytes | None) -> None:
        self._event = event
        self._ended = False
        self._waiting: asyncio.Future[None] | None = None

    def tell(self, event: bytes) -> None:
        if event is not _BEAT or self._event is None:
            self._event = event
        self._wake()

    def end(self) -> None:
        self._ended = True
        self._wake()

    async def next(self) -> bytes | None:
        """Return what it is told next; None once the survey has ended."""
        if self._event is None and not self._ended:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        event, self._event = self._event, None
        return event

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class _Feed:
    """What a survey says, for all who listen to it: made once, and told to one page at a time."""

    def __init__(self) -> None:
        self.pages: dict[_Page, None] = {}
        self.task: asyncio.Task[None] | None = None
        self.closed = False
        """Whether the survey takes no reports any more; else who listens may ask again."""
        self._loop = asyncio.get_running_loop()
        self._latest: bytes | None = None
        self._ended = False
        self._beat = self._loop.call_later(_BEAT_S, self._tell, _BEAT)

    def join(self) -> _Page:
        """Return a page more, which is told at once what was told last."""
        page = _Page(self._latest)
        self.pages[page] = None
        if self._ended:
            page.end()
        return page

    def tell(self, event: bytes) -> None:
        """Tell all pages."""
        self._latest = event
        self._tell(event)

    def end(self) -> None:
        """Tell all pages that nothing more comes."""
        self._ended = True
        for page in self.pages:
            page.end()

    def close(self) -> None:
        """Look no more."""
        self._beat.cancel()
        if self.task is not None:
            self.task.cancel()

    def _tell(self, event: bytes) -> None:
        self._beat.cancel()
        self._beat = self._loop.call_later(_BEAT_S, self._tell, _BEAT)
        for number, page in enumerate(self.pages):
            self._loop.call_later(_SPREAD_S * number / len(self.pages), page.tell, event)


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
        for feed in self._feeds.values():
            feed.end()
            feed.close()

    async def send_events(
        self, campaign_id: str, permitted: Callable[[], bool], send: Send
    ) -> None:
        """Send events of a survey until it has ended or the listener may not listen any more.

        A listener who is gone is noticed by who called, who then cancels.

        Args:
            campaign_id: of the survey.
            permitted: whether the listener still may, asked before each event; raises why not.
            send: takes the events.

        Raises:
            RefusedError: if too many listen, before anything is sent.
            GeoVeilError: if the listener may not, before anything is sent.
        """
        if not permitted():
            raise RefusedError(401, "you are not signed in any more")
        if sum(len(feed.pages) for feed in self._feeds.values()) >= _MOST_PAGES:
            raise RefusedError(503, "too many pages are open")
        feed = self._feeds.get(campaign_id)
        if feed is None:
            feed = self._feeds[campaign_id] = _Feed()
            feed.task = asyncio.create_task(self._follow(campaign_id, feed), name="console feed")
        page = feed.join()
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            while (event := await page.next()) is not None:
                may = _still(permitted)
                event = event if may else _event("signed-out", {})
                await send({"type": "http.response.body", "body": event, "more_body": may})
                if not may:
                    return
            ended = _event("ended", {}) if feed.closed else b""
            await send({"type": "http.response.body", "body": ended, "more_body": False})
        finally:
            del feed.pages[page]
            if not feed.pages:
                feed.close()
                if self._feeds.get(campaign_id) is feed:
                    del self._feeds[campaign_id]

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
            feed.closed = True
        except GeoVeilError:
            pass  # the pages say what they last knew, and ask again
        except Exception as error:  # noqa: BLE001 - logged, without content of requests
            _LOG.error("defect", extra={"exception": traceback_without_values(error)})
        await asyncio.sleep(_SPREAD_S)  # the last is told to all
        feed.end()

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


def _still(permitted: Callable[[], bool]) -> bool:
    try:
        return permitted()
    except GeoVeilError:
        return False


def _event(name: str, told: dict[str, str]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(told)}\n\n".encode()
