"""Campaigns that are answered from readings, and clients that have fetched them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from geoveil.campaign import (
    Allocation,
    Attribute,
    Campaign,
    PlanarLaplaceSpec,
    Question,
    Readings,
    StatisticCampaign,
    ValueCampaign,
)
from geoveil.client import (
    Client,
    Epoch,
    InMemoryCollector,
    InMemoryTransport,
    Limit,
    Policy,
    Receipt,
)
from geoveil.gp import GaussianKernel, GeoPrivacy, Range, Threshold
from tests.client.conftest import FakeTime, dollars

OPENS = datetime(2026, 1, 1, tzinfo=UTC)
YEAR, WEEK = timedelta(days=365), timedelta(days=7)
INCOME = Attribute(name="income", unit="dollar")


def campaign(name: str, epsilon: float = 1.0, **changes: Any) -> ValueCampaign:
    fields: dict[str, Any] = {
        "campaign_id": name,
        "title": name,
        "attribute": INCOME,
        "privacy": dollars(epsilon),
        "mechanism": PlanarLaplaceSpec(1),
        "opens": OPENS,
        "closes": OPENS + 10 * YEAR,
    }
    return ValueCampaign(**(fields | changes))


def finest(privacy: GeoPrivacy) -> Epoch:
    return Epoch(privacy=dollars(1.0), length=YEAR, finest=privacy)


def limit(most: float = 10.0, lifetime: float = 100.0, **changes: Any) -> Limit:
    fields: dict[str, Any] = {
        "campaign": dollars(most),
        "lifetime": dollars(lifetime),
        "epoch": Epoch(privacy=dollars(1.0), length=YEAR),
    }
    return Limit(**(fields | changes))


def client_of(
    campaigns: Sequence[Campaign], of: Limit | None, time: FakeTime, **settings: Any
) -> Client:
    """Return a client that has fetched all campaigns, which are about one attribute."""
    client = Client(
        policy=Policy({campaigns[0].attribute.name: limit() if of is None else of}),
        transport=InMemoryTransport(InMemoryCollector(campaigns)),
        timing=time.timing(),
        release_floor_s=0,
        **settings,
    )
    for asked in campaigns:
        client.fetch(asked.campaign_id)
    return client


def spent(client: Client) -> float:
    """Return what all campaigns together have cost, ε per $8,000."""
    return {budget.scope: budget.spent for budget in client.budgets()}["lifetime"]


def number(receipt: Receipt) -> float:
    (answer,) = receipt.perturbed
    return answer


def readings(client: Client) -> Any:
    return client._session.journal.readings("income", "dollar", "Number()")


def question(name: str, epsilon: float = 1.0, **changes: Any) -> StatisticCampaign:
    soft = partial(Threshold, width=32_000, profile="smoothstep")
    fields: dict[str, Any] = {
        "campaign_id": name,
        "title": name,
        "attribute": INCOME,
        "privacy": dollars(epsilon),
        "questions": (
            Question("above 50", soft(50_000)),
            Question("near 40", GaussianKernel(40_000.0, 20_000.0)),
            Question("between", Range(20_000, 80_000, 32_000, "smoothstep")),
        ),
        "allocation": Allocation.REPEAT,
        "opens": OPENS,
        "closes": OPENS + 10 * YEAR,
    }
    return StatisticCampaign(**(fields | changes))


def extrapolated(name: str, **changes: Any) -> StatisticCampaign:
    return question(name, period=WEEK, readings=Readings(every=YEAR, extrapolated=True), **changes)


def of_cohorts(length: timedelta, cohorts: int) -> StatisticCampaign:
    """Return a campaign that asks in which of so many parts of an epoch a device's begin."""
    return question(
        f"parts-{length.days}-{cohorts}",
        period=WEEK,
        readings=Readings(every=length, cohorts=cohorts),
    )
