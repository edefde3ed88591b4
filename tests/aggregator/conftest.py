"""Campaigns, clocks and running servers for the tests of the aggregator."""

import asyncio
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from geoveil.aggregator import Aggregator, Service, Settings, SQLiteStore, Store, Writer
from geoveil.aggregator.domain.campaign_cache import Publication, publish as publish_envelope
from geoveil.aggregator.domain.threads import Reader
from geoveil.campaign import (
    Allocation,
    Attribute,
    Campaign,
    LipschitzLaplaceSpec,
    MechanismSpec,
    PlanarLaplaceSpec,
    Question,
    ValueCampaign,
    digest,
    encode,
    seal,
)
from geoveil.gp import GeoPrivacy, Threshold
from geoveil.proto.v1 import analyst_pb2, campaign_pb2, collector_pb2, report_pb2
from geoveil.proto.v1.analyst_pb2_grpc import AnalystStub
from geoveil.proto.v1.collector_pb2_grpc import CollectorStub
from tests.campaigns import campaign_of

from .postgres import running_server

OPENS = datetime(2030, 1, 1, tzinfo=UTC)
CLOSES = datetime(2030, 2, 1, tzinfo=UTC)


class Clock:
    """A clock that stands where a test puts it."""

    def __init__(self) -> None:
        self.opens = OPENS
        self.closes = CLOSES
        self.now = OPENS + timedelta(days=10)

    def __call__(self) -> datetime:
        return self.now


@dataclass(frozen=True)
class Published:
    """A campaign, its bytes and their digest."""

    campaign: Campaign
    published: bytes
    digest: bytes

    @classmethod
    def of(cls, campaign: Campaign) -> "Published":
        content = encode(campaign)
        return cls(campaign, content, digest(content))

    @property
    def campaign_id(self) -> str:
        return self.campaign.campaign_id


def _publish(
    campaign_id: str = "income",
    *,
    queries: int = 3,
    allocation: Allocation = Allocation.PARTITION,
    mechanism: MechanismSpec | None = None,
    title: str = "Household income",
) -> Published:
    """Return a campaign; by default answers beyond its ranges count as their ends."""
    campaign = campaign_of(
        campaign_id=campaign_id,
        title=title,
        attribute=Attribute(name="household income", unit="dollar"),
        privacy=GeoPrivacy(1.0, 8000.0, "dollar"),
        questions=tuple(
            Question(f"above {i}", Threshold(1000.0 * i, 16_000.0, "smoothstep"))
            for i in range(1, queries + 1)
        ),
        opens=OPENS,
        closes=CLOSES,
        mechanism=mechanism or LipschitzLaplaceSpec(),
        allocation=allocation,
    )
    return Published.of(campaign)


def value_campaign(dimension: int = 2, **changes: Any) -> ValueCampaign:
    """Return a campaign whose reports are perturbed points."""
    fields: dict[str, Any] = {
        "campaign_id": "points",
        "title": "Points",
        "attribute": Attribute(name="position", unit="metre"),
        "privacy": GeoPrivacy(1.0, 200.0, "metre"),
        "mechanism": PlanarLaplaceSpec(dimension),
        "opens": OPENS,
        "closes": CLOSES,
    }
    return ValueCampaign(**(fields | changes))


def publication_of(campaign: Campaign) -> Publication:
    """Return a campaign as a server has it at hand."""
    record, _ = publish_envelope(seal(encode(campaign)))
    return Publication(record)


@pytest.fixture
def publish():
    return _publish


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(scope="session")
def postgres_server():
    """One server per test process."""
    with running_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server):
    """URL of an empty database, one per test."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture
def database(tmp_path):
    return tmp_path / "reports.sqlite"


@pytest.fixture(params=["sqlite", "postgresql"])
def target(request):
    """A database of each kind, empty."""
    return request.getfixturevalue("database" if request.param == "sqlite" else "postgres_url")


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """Returns a function that puts a database without campaigns where there is no file yet.

    A copy takes less time than making its tables.
    """
    empty = tmp_path_factory.mktemp("empty") / "empty.sqlite"
    with SQLiteStore(empty):
        pass

    def prepare(path: Path) -> Path:
        if not path.exists():
            shutil.copy(empty, path)  # with its mode
        return path

    return prepare


@pytest.fixture
def store(database, prepared):
    """A second pair of eyes on the database of a service or server under test."""
    with SQLiteStore(prepared(database)) as opened:
        yield opened


@dataclass
class RunningService:
    service: Service
    writer: Writer
    reader: Reader


@pytest.fixture
async def start_service(database, clock, prepared):
    """Starts services on the test's database, stopped when the test ends."""
    async with AsyncExitStack() as stack:

        async def start(
            open_store: Callable[[], Store] | None = None, **changes: Any
        ) -> RunningService:
            settings = Settings(database=database, **changes)
            opener = open_store or partial(SQLiteStore, prepared(database))
            writer = Writer(
                opener, queue_limit=settings.queue_limit, commit_limit=settings.commit_limit
            )
            reader = Reader(lambda: SQLiteStore(database))
            for part in (writer, reader):
                await part.start()
                stack.push_async_callback(part.stop)
            return RunningService(Service(writer, reader, settings, clock), writer, reader)

        yield start


@pytest.fixture
async def service(start_service):
    return (await start_service()).service


class Wire:
    """A client of a running server; speaks the wire contract and nothing else."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self.collector = CollectorStub(channel)
        self.analyst = AnalystStub(channel)

    async def create(self, campaign: Published) -> bytes:
        envelope = campaign_pb2.CampaignEnvelope(campaign=campaign.published)
        request = analyst_pb2.CreateCampaignRequest(envelope=envelope)
        return (await self.analyst.CreateCampaign(request)).campaign_digest

    async def submit(self, campaign: Published, *reports: report_pb2.Report) -> list[Any]:
        request = collector_pb2.SubmitReportsRequest(
            campaign_id=campaign.campaign_id, campaign_digest=campaign.digest, reports=reports
        )
        return list((await self.collector.SubmitReports(request, timeout=30)).results)

    async def sums(self, campaign: Published) -> list[tuple[int, int, int]]:
        request = analyst_pb2.GetEstimateRequest(campaign_id=campaign.campaign_id)
        response = await self.analyst.GetEstimate(request, timeout=30)
        return [(e.n, int(e.sum), int(e.sum_of_squares)) for e in response.estimates]


@pytest.fixture
def wire_of():
    return Wire


def report_of(number: int, *answers: tuple[int, int], **more: Any) -> report_pb2.Report:
    """Return a report of (query, value) pairs whose id is the number."""
    return report_pb2.Report(
        report_id=number.to_bytes(16),
        answers=[report_pb2.Answer(query_index=q, value=v) for q, v in answers],
        **more,
    )


@pytest.fixture
def wire_report():
    return report_of


@dataclass
class RunningServer:
    aggregator: Aggregator
    address: str
    wire: Wire


@pytest.fixture
async def start_server(database, clock, prepared):
    """Starts servers on the test's database, stopped when the test ends."""
    async with AsyncExitStack() as stack:

        async def start(
            open_store: Callable[[], Store] | None = None,
            **changes: Any,
        ) -> RunningServer:
            settings = Settings(**{"database": database, "port": 0, "grace_s": 0.5, **changes})
            if open_store is None and isinstance(settings.database, Path):
                prepared(settings.database)
            aggregator = Aggregator(settings, clock=clock, open_store=open_store)
            address = await aggregator.start()
            stack.push_async_callback(aggregator.stop)
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(address))
            return RunningServer(aggregator, address, Wire(channel))

        yield start


@pytest.fixture
async def running(start_server):
    return await start_server()


@pytest.fixture
def wire(running):
    """A client of a running server."""
    return running.wire


@pytest.fixture
async def campaign(wire, publish):
    """A campaign of that server."""
    published = publish()
    await wire.create(published)
    return published


_PROGRAM = """
import sys
from datetime import datetime
from pathlib import Path
import asyncio
from geoveil.aggregator import Settings, serve

settings = Settings(database=Path(sys.argv[1]), port=0, commit_limit=int(sys.argv[3]))
now = datetime.fromisoformat(sys.argv[2])
asyncio.run(serve(settings, clock=lambda: now, started=lambda address: print(address, flush=True)))
"""


@dataclass
class ServerProcess:
    process: asyncio.subprocess.Process
    address: str


@pytest.fixture
async def start_process(database, clock):
    """Starts servers in processes of their own, which a test may kill."""
    started: list[asyncio.subprocess.Process] = []

    async def start(commit_limit: int = 16_384) -> ServerProcess:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", "-c", _PROGRAM),
            *(str(database), clock.now.isoformat(), str(commit_limit)),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        started.append(process)
        assert process.stdout is not None
        address = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
        return ServerProcess(process, address)

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
            await process.wait()
