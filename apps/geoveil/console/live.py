"""Live estimates: one query a second per reader and survey, however many pages show it.

A page listens to server-sent events. A reader's first page starts a feed of the survey with their
token, and closing the last page ends it. A page that opens later gets the feed's last message at
once.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from datetime import datetime
from functools import partial

from geoveil.analyst import ServerError
from geoveil.console.http import Lane, RefusedError, Send
from geoveil.console.page_analyst import CampaignProgress, PageAnalyst
from geoveil.console.rendering import templates
from geoveil.console.survey import answers_shown
from geoveil.console.survey_head import standing
from geoveil.console.workers import Workers
from geoveil.gp import GeoVeilError

_LOG = logging.getLogger(__name__)
INTERVAL_S = 1.0
"""Seconds between two queries of a survey."""
_MOST_PAGES = 1_000
"""The most pages that may listen at once."""
_SPREAD_S = 0.8
"""Seconds over which an update is sent page by page, so that the event loop can take reports in
between."""
_BEAT_S, _BEAT = 15.0, b": still here\n\n"
"""Seconds of silence after which a page gets a keep-alive message, and that message."""


class _Page:
    """A listening page, and its newest unsent message.

    Args:
        event: its first message; None if there is none yet.
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
        """Return the next message; None once the survey has ended."""
        if self._event is None and not self._ended:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        event, self._event = self._event, None
        return event

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class _Feed:
    """A survey's results for all listening pages, computed once and sent page by page."""

    def __init__(self) -> None:
        self.pages: dict[_Page, None] = {}
        self.task: asyncio.Task[None] | None = None
        self.last = b""
        """The event that says why the feed ended; empty if the page should reconnect."""
        self._loop = asyncio.get_running_loop()
        self._latest: bytes | None = None
        self._ended = False
        self._beat = self._loop.call_later(_BEAT_S, self._tell, _BEAT)

    def join(self) -> _Page:
        """Return a new listening page, which gets the last message at once."""
        page = _Page(self._latest)
        self.pages[page] = None
        if self._ended:
            page.end()
        return page

    def tell(self, event: bytes) -> None:
        """Send all pages an event."""
        self._latest = event
        self._tell(event)

    def end(self) -> None:
        """Tell all pages that the feed has ended."""
        self._ended = True
        for page in self.pages:
            page.end()

    def close(self) -> None:
        """Stop querying the survey."""
        self._beat.cancel()
        if self.task is not None:
            self.task.cancel()

    def _tell(self, event: bytes) -> None:
        self._beat.cancel()
        self._beat = self._loop.call_later(_BEAT_S, self._tell, _BEAT)
        for number, page in enumerate(self.pages):
            self._loop.call_later(_SPREAD_S * number / len(self.pages), page.tell, event)


class Live:
    """The feeds of all surveys that are open in a page.

    Args:
        workers: query the server and render the messages.
        clock: returns the current time.
    """

    def __init__(self, workers: Workers, clock: Callable[[], datetime]) -> None:
        self._workers = workers
        self._clock = clock
        self._feeds: dict[tuple[str, str | None], _Feed] = {}
        self._opening = asyncio.Lock()
        self._answers, self._standing = map(
            templates().get_template, ("answers.html", "standing.html")
        )
        self.looks = 0
        """The number of queries to the server."""

    async def aclose(self) -> None:
        """End all feeds."""
        for feed in self._feeds.values():
            feed.end()
            feed.close()

    async def send_events(
        self,
        campaign_id: str,
        token: str | None,
        analyst: PageAnalyst,
        permitted: Callable[[], bool],
        send: Send,
    ) -> None:
        """Send events of a survey until it ends or the listener loses permission.

        The caller cancels this call when the listener disconnects.

        Args:
            token: the listener's token.
            analyst: calls the server with it.
            permitted: returns whether the listener is still signed in; called before each event.
            send: takes the events.

        Raises:
            RefusedError: if too many pages listen; nothing is sent.
            ServerError: if the listener has no permission; nothing is sent.
        """
        if sum(len(feed.pages) for feed in self._feeds.values()) >= _MOST_PAGES:
            raise RefusedError(503, "too many pages are open")
        async with self._opening:
            feed = self._feeds.get((campaign_id, token))
            if feed is None:  # an existing feed queries by itself
                await self._look(campaign_id, analyst)
                feed = self._feeds[campaign_id, token] = _Feed()
                following = self._follow(campaign_id, analyst, feed)
                feed.task = asyncio.create_task(following, name="console feed")
        page = feed.join()
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            while (event := await page.next()) is not None:
                may = permitted()
                event = event if may else _SIGNED_OUT
                await send({"type": "http.response.body", "body": event, "more_body": may})
                if not may:
                    return
            await send({"type": "http.response.body", "body": feed.last, "more_body": False})
        finally:
            del feed.pages[page]
            if not feed.pages:
                feed.close()
                if self._feeds.get((campaign_id, token)) is feed:
                    del self._feeds[campaign_id, token]

    async def _follow(self, campaign_id: str, analyst: PageAnalyst, feed: _Feed) -> None:
        """Query a survey once a second and send changes until it closes."""
        seen: tuple[int, str] | None = None
        try:
            while True:
                progress = await self._look(campaign_id, analyst)
                campaign = progress.published
                if (campaign.reports, campaign.state) != seen:
                    seen = campaign.reports, campaign.state
                    feed.tell(
                        await self._workers.run(Lane.QUICK, partial(self._told, progress, analyst))
                    )
                if campaign.state == "closed":
                    feed.last = _event("ended", {})
                    break
                await asyncio.sleep(INTERVAL_S)
        except ServerError as error:
            # The pages keep their last results and reconnect, unless they lost permission.
            if error.code in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
                feed.last = _SIGNED_OUT
        except GeoVeilError:
            pass
        except Exception as error:  # noqa: BLE001 - logged, without content of requests
            _LOG.error("defect", extra={"exception": type(error).__name__})
        await asyncio.sleep(_SPREAD_S)  # until all pages have the last event
        feed.end()

    async def _look(self, campaign_id: str, analyst: PageAnalyst) -> CampaignProgress:
        self.looks += 1
        return await self._workers.run(Lane.QUICK, lambda: analyst.status_of(campaign_id))

    def _told(self, progress: CampaignProgress, analyst: PageAnalyst) -> bytes:
        stands = standing(progress, self._clock())
        estimates = analyst.estimate_or_none(progress.published.campaign.campaign_id)
        event = {
            "html": self._answers.render(answers_shown(estimates)),
            "standing": self._standing.render(stands),
            "reports": f"{stands['reports']:,}",
            "state": stands["state"],
        }
        return _event("estimate", event)


_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


def _event(name: str, told: dict[str, str]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(told)}\n\n".encode()


_SIGNED_OUT = _event("signed-out", {})
