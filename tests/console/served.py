"""A server with a console, surveys on it, reports to them, and browsers without a screen."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import numpy as np

from geoveil.aggregator import Aggregator, Settings
from geoveil.aggregator.ops.tokens import Scope, TokenFile
from geoveil.analyst import Analyst
from geoveil.campaign import (
    Attribute,
    Campaign,
    PlanarLaplaceSpec,
    SigningKey,
    ValueCampaign,
    digest,
    encode,
    seal,
)
from geoveil.console.app import Console
from geoveil.gateway.server import Gateway
from geoveil.gp import GeoPrivacy
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.proto.v1 import analyst_pb2, campaign_pb2, report_pb2
from geoveil.proto.v1.analyst_pb2_grpc import AnalystStub
from geoveil.proto.v1.collector_pb2 import SubmitReportsRequest
from geoveil.proto.v1.collector_pb2_grpc import CollectorStub
from tests.campaigns import NOW, above_100k, perturbed_incomes
from tests.gateways import gateway_of

OPEN: dict[str, Any] = {"opens": NOW - timedelta(hours=1), "closes": NOW + timedelta(days=10)}
_BATCH = 2_000


def survey(campaign_id: str = "income", **changes: Any) -> Campaign:
    """A survey of incomes, with one question."""
    return above_100k(campaign_id, **(OPEN | changes))


def numbers(campaign_id: str = "incomes", **changes: Any) -> Campaign:
    """A survey to which everybody sends one perturbed number."""
    return perturbed_incomes(campaign_id, **(OPEN | {"title": "Incomes, point by point"} | changes))


def places(campaign_id: str = "places", **changes: Any) -> Campaign:
    """A survey to which everybody sends one perturbed place in New York."""
    centre = AzimuthalEquidistant(-73.97, 40.72, 40_000.0)
    own = {
        "title": "Where people live",
        "attribute": Attribute(name="home", unit="metre", coordinates=centre),
        "privacy": GeoPrivacy(1.0, 1_000.0, "metre"),
        "mechanism": PlanarLaplaceSpec(2),
    }
    return numbers(campaign_id, **(own | changes))


class Served:
    """A server with a console."""

    def __init__(
        self, aggregator: Aggregator, gateway: Gateway, channel: Any, token: str | None
    ) -> None:
        self.aggregator = aggregator
        self.gateway = gateway
        self.console: Console = gateway.console
        self.token = token
        self.key = SigningKey.generate()
        self.base = f"http://{gateway.address}"
        metadata = [] if token is None else [("authorization", f"Bearer {token}")]
        self._metadata = tuple(metadata)
        self._analyst: Any = AnalystStub(channel)
        self._collector: Any = CollectorStub(channel)
        self._rng = np.random.default_rng(7)

    async def publish(self, *campaigns: Campaign, key: SigningKey | None = None) -> None:
        for campaign in campaigns:
            sealed = seal(encode(campaign), key or self.key)
            envelope = campaign_pb2.CampaignEnvelope.FromString(sealed)
            request = analyst_pb2.CreateCampaignRequest(envelope=envelope)
            await self._analyst.CreateCampaign(request, metadata=self._metadata)

    async def report(
        self, campaign: Campaign, count: int, *, period: int = 0, around: Any = None
    ) -> None:
        """Send reports of so many people, as they are drawn for demonstrations: not private."""
        step, rng = 2.0**campaign.grid_exponent, self._rng
        cohorts = campaign.cohorts
        for first in range(0, count, _BATCH):
            size = min(_BATCH, count - first)
            cohort = rng.integers(cohorts, size=size)
            if isinstance(campaign, ValueCampaign):
                one = campaign.dimension == 1
                usual = [(60_000.0,)] if one else [(0.0, 0.0), (9_000.0, 7_000.0)]
                middles = np.asarray(usual if around is None else [around])
                points = rng.normal(size=(size, campaign.dimension)) * (25_000 if one else 3_000)
                points += middles[rng.integers(len(middles), size=size)]
                if campaign.attribute.scale is not None:
                    points = campaign.attribute.scale.to_log(points).reshape(-1, 1)
                points += rng.laplace(size=points.shape) * campaign.privacy.per
                indices = [range(campaign.columns)] * size
            else:
                share = 0.4 if around is None else around
                points = (rng.random((size, 1)) < share) + rng.laplace(size=(size, 1)) * 0.6
                indices = [(int(one),) for one in rng.integers(campaign.columns, size=size)]
            low, high = zip(*campaign.releasable, strict=True)
            drawn = np.rint(points / step).astype(np.int64)
            reports = []
            for one, row, own in zip(indices, drawn.tolist(), cohort.tolist(), strict=True):
                answers = [
                    report_pb2.Answer(
                        query_index=column + own * campaign.columns,
                        value=min(max(value, low[column]), high[column]),
                    )
                    for column, value in zip(one, row, strict=True)
                ]
                reports.append(
                    report_pb2.Report(report_id=rng.bytes(16), answers=answers, period=period)
                )
            results = await self.send(campaign, reports)
            assert all(one.status == report_pb2.REPORT_STATUS_ACCEPTED for one in results)

    async def send(self, campaign: Campaign, reports: list[report_pb2.Report]) -> list[Any]:
        """Send reports as they are, and return what became of each."""
        request = SubmitReportsRequest(
            campaign_id=campaign.campaign_id,
            campaign_digest=digest(encode(campaign)),
            reports=reports,
        )
        return [*(await self._collector.SubmitReports(request)).results]

    async def analyst(self, ask: Callable[[Analyst], Any]) -> Any:
        """Return what an analyst's client is told over gRPC."""

        def run() -> Any:
            with Analyst(self.aggregator.address, token=self.token) as analyst:
                return ask(analyst)

        return await asyncio.to_thread(run)

    @asynccontextmanager
    async def browser(self, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
        """A browser without a screen, which tells its origin and keeps cookies."""
        own = {"origin": self.base, "sec-fetch-site": "same-origin"} | headers
        async with httpx.AsyncClient(base_url=self.base, headers=own, timeout=60) as client:
            yield client

    @asynccontextmanager
    async def signed_in(self, token: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
        """A browser whose reader is signed in."""
        async with self.browser() as client:
            told = {"next": "/", "token": token or self.token or ""}
            answer = await client.post("/console/sign-in", data=told)
            assert answer.status_code == 303, answer.text
            yield client


def form_token(page: str) -> str:
    """Return what the forms of a page carry."""
    return page.partition('name="form_token" value="')[2].partition('"')[0]


@asynccontextmanager
async def served(
    folder: Path, *, tokens: bool = False, clock: Any = None, **changes: Any
) -> AsyncIterator[Served]:
    """A running server with a console.

    Args:
        folder: of its database.
        tokens: whether analysts need one; `Served.token` then has every scope.
        clock: tells the time.
        changes: of the settings.
    """
    given: dict[str, Any] = {"database": folder / "reports.db", "port": 0, "web": "127.0.0.1:0"}
    token = None
    if tokens:
        given["tokens_file"] = folder / "tokens.json"
        token = TokenFile(given["tokens_file"]).create("alice", Scope, None)
    settings = Settings(**(given | {"console": True, "grace_s": 0.05} | changes))
    more = {} if clock is None else {"clock": clock}
    async with (
        Aggregator(settings, **more) as aggregator,
        gateway_of(aggregator) as gateway,
        grpc.aio.insecure_channel(aggregator.address) as channel,
    ):
        if clock is not None:
            gateway.console._clock = clock
        yield Served(aggregator, gateway, channel, token)


async def uploaded(client: httpx.AsyncClient, name: str, content: bytes) -> dict[str, str]:
    """Send a file as the script of the pages does, and return the field that names it."""
    token = form_token((await client.get("/console/plan")).text)
    headers = {"content-type": "application/octet-stream", "x-form-token": token}
    answer = await client.post("/console/uploads", content=content, headers=headers)
    assert answer.status_code == 200, answer.text
    return {f"upload:{name}": answer.text}
