"""A web service that takes part in campaigns for its users, each with a budget of their own.

Each person has a state directory of their own. `create_app` is what the service ships, with
GrpcAioTransport("collector.example:443", tls=TLS()) as its transport; below it, the service is
tried with an in-memory collector and no network.

Run: pip install . fastapi httpx
     python examples/fastapi_app.py
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import httpx
from fastapi import Body, FastAPI, HTTPException

from geoveil.campaign import Attribute, Question, StatisticCampaign
from geoveil.client import (
    AsyncClient,
    AsyncTransport,
    BudgetExceeded,
    CampaignError,
    InMemoryCollector,
    InMemoryTransport,
    Limit,
    Policy,
    PrivateValueError,
    TransportError,
    Window,
)
from geoveil.gp import GeoPrivacy, Threshold

CAMPAIGN = "income-2026"
POLICY = Policy(
    {
        "household income": Limit(
            campaign=GeoPrivacy(1.0, 8_000.0, "dollar"),
            windows=(Window(limit=GeoPrivacy(2.0, 8_000.0, "dollar"), length=timedelta(days=365)),),
        )
    }
)


class People:
    """One client per person. They share the connection, and nothing else."""

    def __init__(self, directory: Path, transport: AsyncTransport) -> None:
        self._directory = directory
        self._transport = transport
        self._clients: dict[str, AsyncClient] = {}

    def client(self, person: str) -> AsyncClient:
        """Return the client of a person; it lives as long as the service."""
        if person not in self._clients:
            # A name is not a safe name of a folder; its digest is.
            folder = self._directory / sha256(person.encode()).hexdigest()
            self._clients[person] = AsyncClient(
                policy=POLICY, state_dir=folder, transport=self._transport
            )
        return self._clients[person]

    async def aclose(self) -> None:
        """Close all clients: each sends what waits, for two seconds; the rest stays on the disk."""
        for client in self._clients.values():
            await client.aclose()


def create_app(directory: Path, transport: AsyncTransport) -> FastAPI:
    """Return the service."""
    people = People(directory, transport)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await people.aclose()

    app = FastAPI(lifespan=lifespan)

    @app.post("/people/{person}/income")
    async def answer(person: str, income: Annotated[float, Body(embed=True)]) -> dict[str, object]:
        client = people.client(person)
        with suppress(TransportError):  # known from before, or contribute says that it isn't
            await client.fetch(CAMPAIGN, timeout_s=1.0)
        try:
            receipt = await client.contribute(CAMPAIGN, income)
        except (BudgetExceeded, CampaignError, PrivateValueError) as refusal:
            raise HTTPException(409, str(refusal)) from None  # holds nothing private
        return {"report": receipt.report_id, "privacy": str(receipt.privacy)}

    @app.get("/people/{person}/history")
    async def history(person: str) -> list[dict[str, object]]:
        receipts = await people.client(person).history()
        return [
            {"campaign": r.campaign_id, "sent": r.perturbed, "counted": r.acknowledged}
            for r in receipts
        ]

    return app


async def main() -> None:
    """Try the service."""
    now = datetime.now(UTC)
    campaign = StatisticCampaign(
        campaign_id=CAMPAIGN,
        title="Income above $100,000",
        attribute=Attribute(name="household income", unit="dollar"),
        privacy=GeoPrivacy(1.0, 8_000.0, "dollar"),
        questions=(Question("above", Threshold(100_000, 24_000, "smoothstep")),),
        opens=now,
        closes=now + timedelta(days=1),
    )
    collector = InMemoryCollector([campaign])
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(Path(folder), InMemoryTransport(collector).aio)
        browser = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service")
        async with app.router.lifespan_context(app), browser:
            for person, income in (("ada", 87_500), ("ada", 87_500), ("bob", 131_000)):
                answer = await browser.post(f"/people/{person}/income", json={"income": income})
                print(person, answer.json())
            print("ada", (await browser.get("/people/ada/history")).json())
    print(f"the collector counted {len(collector.reports(CAMPAIGN))} reports, of two people")


if __name__ == "__main__":
    asyncio.run(main())
