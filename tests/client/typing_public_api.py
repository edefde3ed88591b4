"""Code for mypy in test_public.py, never run.

Each `type: ignore` marks a call that must be an error; one that is none is reported as unused.
"""

from datetime import timedelta
from typing import Literal, assert_type

import numpy as np
from numpy.typing import NDArray

from geoveil.campaign import Campaign
from geoveil.client import (
    TLS,
    AcceptedCampaign,
    AsyncClient,
    AsyncTransport,
    Budget,
    Client,
    Contribution,
    DeliveryStatus,
    Epoch,
    FlushResult,
    GrpcAioTransport,
    GrpcTransport,
    InMemoryAsyncTransport,
    InMemoryCollector,
    InMemoryTransport,
    Limit,
    Policy,
    PublicKey,
    Receipt,
    ReportBatch,
    ReportBuilder,
    ReportCounts,
    SubmissionResult,
    Timing,
    Transport,
    Window,
    gather,
)
from geoveil.gp import GeoPrivacy
from geoveil.proto.v1 import collector_pb2


def of_the_blocking_client(client: Client) -> None:
    assert_type(client.fetch("income"), Campaign)
    assert_type(client.fetch("income", 2.0), Campaign)
    assert_type(client.fetch("income", timeout_s=2.0), Campaign)
    assert_type(client.contribute("income", 52_000), Receipt)
    assert_type(client.flush(), FlushResult)
    assert_type(client.flush(timeout_s=1.0), FlushResult)
    assert_type(client.history(), tuple[Receipt, ...])
    assert_type(client.budgets(), tuple[Budget, ...])
    assert_type(client.counts(), ReportCounts)
    client.close()
    client.close(0)
    with client as entered:
        assert_type(entered, Client)


async def of_the_awaited_client(client: AsyncClient) -> None:
    assert_type(await client.fetch("income"), Campaign)
    assert_type(await client.fetch("income", timeout_s=2.0), Campaign)
    assert_type(await client.contribute("income", 52_000), Receipt)
    assert_type(await client.flush(), FlushResult)
    assert_type(await client.history(), tuple[Receipt, ...])
    assert_type(await client.budgets(), tuple[Budget, ...])
    assert_type(await client.counts(), ReportCounts)
    await client.aclose()
    await client.aclose(0)
    async with client as entered:
        assert_type(entered, AsyncClient)


def of_values(client: Client, array: NDArray[np.float64]) -> None:
    client.contribute("income", 52_000)
    client.contribute("income", 52_000.5)
    client.contribute("places", (-73.98, 40.72))
    client.contribute("places", [-73.98, 40.72])
    client.contribute("places", array)
    client.contribute("income", "52000")  # type: ignore[arg-type]
    client.contribute("income", None)  # type: ignore[arg-type]
    client.contribute("income", 1j)  # type: ignore[arg-type]
    client.contribute("income")  # type: ignore[call-arg]
    client.contribute(3, 52_000)  # type: ignore[arg-type]


def of_construction(policy: Policy, transport: Transport, awaited: AsyncTransport) -> None:
    Client("collector.example:443", policy=policy, tls=TLS(), state_dir="state")
    Client(policy=policy, transport=transport, background=False, timing=Timing())
    AsyncClient(policy=policy, transport=awaited, most_pending=10, release_floor_s=0.005)
    Client(policy=policy, transport=InMemoryTransport(InMemoryCollector()))
    AsyncClient(policy=policy, transport=InMemoryTransport(InMemoryCollector()).aio)
    Client(policy=policy, transport=GrpcTransport("localhost:1"))
    AsyncClient(policy=policy, transport=GrpcAioTransport("localhost:1"))
    Client("collector.example:443")  # type: ignore[call-arg]
    Client("collector.example:443", policy)  # type: ignore[call-arg]
    Client(policy={"income": 1.0})  # type: ignore[arg-type]
    Client(policy=policy, transport=awaited)  # type: ignore[arg-type]
    AsyncClient(policy=policy, transport=transport)  # type: ignore[arg-type]
    Client(policy=policy, timeout_s="10")  # type: ignore[arg-type]
    Client(policy=policy, timeout_ms=10)  # type: ignore[call-arg]
    TLS(b"certificates")  # type: ignore[call-arg]


def of_use(client: Client, awaited: AsyncClient) -> None:
    client.aclose()  # type: ignore[attr-defined]
    awaited.close()  # type: ignore[attr-defined]
    awaited.history().index(3)  # type: ignore[attr-defined]
    with awaited:  # type: ignore[attr-defined]
        pass


def of_policies(key: PublicKey) -> None:
    dollars = GeoPrivacy(1, 8000, "dollar")
    window = Window(limit=dollars, length=timedelta(days=365))
    once = Epoch(privacy=dollars, length=timedelta(days=365))
    limit = Limit(campaign=dollars, lifetime=dollars, windows=(window,), epoch=once)
    policy = Policy({"income": limit}, trusted_keys=[key], minimum_participants=100)
    assert_type(policy.limit("income"), Limit | None)
    Policy({"income": dollars})
    Policy({"income": 1.0})  # type: ignore[dict-item]
    Policy({"income": limit}, [key])  # type: ignore[call-arg]
    Policy({"income": limit}, trusted_keys=["ed25519:00"])  # type: ignore[list-item]
    Policy({"income": limit}, latest_close="2027-01-01")  # type: ignore[arg-type]
    Limit(dollars)  # type: ignore[call-arg]
    Window(limit=dollars, length=365)  # type: ignore[arg-type]
    policy.minimum_participants = 0  # type: ignore[misc]


def of_receipts(receipt: Receipt) -> None:
    assert_type(receipt.perturbed, tuple[float, ...])
    assert_type(receipt.privacy, GeoPrivacy)
    assert_type(receipt.acknowledged, bool)
    receipt.acknowledged = True  # type: ignore[misc]
    receipt.value.hex()  # type: ignore[attr-defined]


def of_bulk_hosts(builder: ReportBuilder, envelope: bytes, transport: Transport) -> None:
    accepted = builder.accept("income", envelope)
    assert_type(accepted, AcceptedCampaign)
    assert_type(accepted.campaign, Campaign)
    assert_type(accepted.signer, PublicKey | None)
    contributions = [builder.prepare(accepted, 52_000, period=3)]
    assert_type(contributions, list[Contribution])
    for batch in gather(contributions):
        assert_type(batch, ReportBatch)
        response = transport.submit_reports(batch.request(), 1.0)
        assert_type(response, collector_pb2.SubmitReportsResponse)
        assert_type(batch.results(response), tuple[SubmissionResult, ...])
    builder.accept("income", "envelope")  # type: ignore[arg-type]
    builder.prepare(envelope, 52_000)  # type: ignore[arg-type]
    builder.prepare(accepted, 52_000, 3)  # type: ignore[call-arg]


def of_tests_of_apps(collector: InMemoryCollector) -> None:
    assert_type(InMemoryTransport(collector).aio, InMemoryAsyncTransport)
    assert_type(DeliveryStatus.PENDING, Literal[DeliveryStatus.PENDING])
    InMemoryTransport()  # type: ignore[call-arg]
