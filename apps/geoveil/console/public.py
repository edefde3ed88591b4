"""Public results: surveys that the operator lets everybody read without a token.

The operator gives the gateway a token that may estimate those campaigns. The pages show no other
campaign, and no result of a campaign with fewer answers than its promised minimum.
"""

import logging
import re
import time
from pathlib import Path
from urllib.parse import unquote

import grpc

from geoveil.analyst import CampaignEstimates, PublishedCampaign, ServerError
from geoveil.campaign import AttributeCampaign
from geoveil.console.http import (
    Lane,
    RefusedError,
    Response,
    Scope,
    Send,
    guards,
    refusal_of,
    write,
)
from geoveil.console.kept import Newest
from geoveil.console.page_analyst import ChannelAnalyst
from geoveil.console.rendering import templates
from geoveil.console.survey import answers_shown, estimates_as
from geoveil.console.survey_head import told_of
from geoveil.console.workers import Workers
from geoveil.gp import GeoVeilError

_LOG = logging.getLogger(__name__)
_PATH = re.compile(
    r"/results/(?P<campaign_id>[a-z0-9][a-z0-9_-]{0,63})(?:\.(?P<kind>csv|json|svg))?"
)
_KEPT_S, _MOST_KEPT = 5.0, 500
"""Seconds for which a result is cached, and the most cached results."""
_Results = tuple[PublishedCampaign, CampaignEstimates | None]


class PublicResults:
    """A mount of `geoveil.gateway` that answers every path below "/results/" except static files.

    Args:
        token_file: holds the operator's token; it is read again for each uncached result.
        frames: the origins of other sites that may frame a result.
    """

    def __init__(self, channel: grpc.Channel, token_file: Path, frames: tuple[str, ...]) -> None:
        self._channel = channel
        self._token_file = token_file
        self._guards = guards(" ".join(frames).encode() or b"'none'")
        self._workers = Workers()
        self._kept: Newest[str, tuple[float, _Results]] = Newest(_MOST_KEPT)

    async def aclose(self) -> None:
        """Close everything that is open."""
        self._workers.close()

    def longest(self, scope: Scope) -> int:
        """Return the largest permitted request body in bytes: these pages take none."""
        return 0

    async def __call__(self, scope: Scope, body: bytes, send: Send) -> None:
        """Answer a request."""
        try:
            named = _PATH.fullmatch(unquote(scope["path"]))
            if named is None or scope["method"] == "POST":
                raise RefusedError(404, "there is no such page")
            response = await self._workers.run(
                Lane.QUICK, lambda: self._answer(**named.groupdict())
            )
        except GeoVeilError as error:
            status, text = refusal_of(error)
            template = templates().get_template("public_refused.html")
            response = Response(template.render(text=text).encode(), status=status)
        await write(send, scope["method"], response, self._guards)

    def _answer(self, campaign_id: str, kind: str | None) -> Response:
        published, estimates = self._published(campaign_id)
        if kind is not None:
            if estimates is None:
                raise RefusedError(409, "there are too few answers to show any yet")
            return estimates_as(estimates, kind)
        html = (
            templates()
            .get_template("public.html")
            .render(
                **told_of(published.campaign),
                **answers_shown(estimates),
                state=published.state,
                reports=published.reports,
                least=published.campaign.minimum_participants,
                first="" if estimates is None else " ".join(map(str, estimates.sentences[:1])),
            )
        )
        return Response(html.encode())

    def _published(self, campaign_id: str) -> _Results:
        """Return a campaign and its estimates, which are None while there are too few answers.

        Raises:
            RefusedError: if the operator does not publish its results.
        """
        then, kept = self._kept.get(campaign_id, (0.0, None))
        if kept is not None and time.monotonic() - then < _KEPT_S:
            return kept
        try:
            analyst = ChannelAnalyst(self._channel, self._token_file.read_text("utf-8").strip())
            published = analyst.status_of(campaign_id).published
        except (OSError, ServerError) as error:
            if isinstance(error, ServerError) and error.retryable:
                raise
            if not isinstance(error, ServerError) or error.code == "UNAUTHENTICATED":
                _LOG.warning("results_token_wrong", extra={"exception": type(error).__name__})
            raise RefusedError(404, "no results are shown here") from None
        if not isinstance(published.campaign, AttributeCampaign):
            raise RefusedError(404, "no results of forms are shown here")
        estimates = analyst.estimate_or_none(campaign_id)
        self._kept[campaign_id] = time.monotonic(), (published, estimates)
        return published, estimates
