"""Servers with surveys for the page on which people take part, with helpers for tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from playwright.async_api import BrowserContext, Page, Request

from geoveil.aggregator import Aggregator, Settings
from geoveil.campaign import Campaign, SigningKey, encode, seal
from geoveil.gateway.server import Gateway
from geoveil.proto.v1 import analyst_pb2, campaign_pb2
from geoveil.proto.v1.analyst_pb2_grpc import AnalystStub
from geoveil.proto.v1.collector_pb2 import SubmitReportsRequest
from tests.gateways import gateway_of


class Survey:
    """A server, and what analysts see of it."""

    def __init__(self, gateway: Gateway, analyst: Any) -> None:
        self.gateway = gateway
        self._analyst = analyst
        self._key = SigningKey.generate()
        self.key = str(self._key.public)

    def url(self, campaign_id: str = "income") -> str:
        return f"http://{self.gateway.address}/take-part/{campaign_id}"

    async def open(self, page: Page, campaign_id: str = "income") -> None:
        """Open the page of a survey, and wait until it is shown."""
        await page.goto(self.url(campaign_id))
        await page.wait_for_selector("#survey:not([hidden])")

    async def create(self, campaign: Campaign) -> None:
        envelope = campaign_pb2.CampaignEnvelope.FromString(seal(encode(campaign), self._key))
        await self._analyst.CreateCampaign(analyst_pb2.CreateCampaignRequest(envelope=envelope))

    async def close(self, campaign_id: str) -> None:
        request = analyst_pb2.CloseCampaignRequest(campaign_id=campaign_id)
        await self._analyst.CloseCampaign(request)

    @asynccontextmanager
    async def out_of_reach(self) -> AsyncIterator[None]:
        """Stop the web door meanwhile: a browser that is set offline still lets workers through."""
        settings = replace(self.gateway._settings, web=self.gateway.address)
        await self.gateway.stop(0)
        yield
        self.gateway = Gateway(settings)
        await self.gateway.start()

    async def counted(self) -> dict[str, int]:
        listed = await self._analyst.ListCampaigns(analyst_pb2.ListCampaignsRequest(page_size=1000))
        return {
            campaign_pb2.Campaign.FromString(one.envelope.campaign).campaign_id: one.reports
            for one in listed.campaigns
        }


@asynccontextmanager
async def running(database: Path, **changes: Any) -> AsyncIterator[Survey]:
    settings = Settings(database=database, port=0, web="127.0.0.1:0", grace_s=0.5, **changes)
    async with (
        Aggregator(settings) as aggregator,
        gateway_of(aggregator) as gateway,
        grpc.aio.insecure_channel(aggregator.address) as channel,
    ):
        survey = Survey(gateway, AnalystStub(channel))
        yield survey
        await survey.gateway.stop(settings.grace_s)


async def counted(page: Page) -> None:
    await page.wait_for_selector("#state.good", timeout=30_000)


async def axe(page: Page, *rules: str) -> list[str]:
    """Return what some or all rules of accessibility find, of any weight."""
    await page.evaluate((resources.files("axe_playwright_python") / "axe.min.js").read_text())
    found = await page.evaluate("(rules) => axe.run(rules.length ? { runOnly: rules } : {})", rules)
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found["violations"]]


def submitted(context: BrowserContext) -> list[bytes]:
    """Return the list to which every request with reports is added."""
    found: list[bytes] = []

    def keep(request: Request) -> None:
        body = request.post_data_buffer
        if request.url.endswith("/SubmitReports") and body:
            found.append(body)

    context.on("request", keep)
    return found


def report_of(request: bytes) -> bytes:
    (report,) = SubmitReportsRequest.FromString(request).reports
    return report.SerializeToString()
