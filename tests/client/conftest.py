"""Shared objects of the client's tests: campaigns, a policy, a collector, fast clocks."""

import asyncio
import random
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from geoveil.campaign import (
    Allocation,
    Attribute,
    Campaign,
    DebiasedLaplaceSpec,
    MechanismSpec,
    Question,
)
from geoveil.client import (
    AsyncClient,
    Client,
    InMemoryCollector,
    InMemoryTransport,
    Limit,
    Place,
    Policy,
    Timing,
)
from geoveil.gp import GaussianKernel, GeoPrivacy, Query, RandomSource, Threshold
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.proto.v1 import collector_pb2, report_pb2
from tests.campaigns import campaign_of


class RecordingSource(RandomSource):
    """Bits of a test that pass as secure; remembers every draw as (count, value)."""

    is_secure = True

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.draws: list[tuple[int, int]] = []

    def bits(self, count: int) -> int:
        value = self._random.getrandbits(count) if count else 0
        self.draws.append((count, value))
        return value


def dollars(epsilon: float, per: float = 8000.0) -> GeoPrivacy:
    return GeoPrivacy(epsilon, per, "dollar")


def threads() -> set[threading.Thread]:
    """Return the threads that run, without the one in which gRPC waits.

    That one comes and goes when the collector of garbage finds a channel of an earlier test.
    """
    return {thread for thread in threading.enumerate() if "_poll_wrapper" not in thread.name}


def in_threads(count: int, life: Callable[[int], object]) -> None:
    """Call life(0), life(1), ... at once, each in its thread; raise their first error."""
    gate, errors = threading.Barrier(count), list[BaseException]()

    def run(number: int) -> None:
        try:
            gate.wait()
            life(number)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    started = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if errors:
        raise errors[0]


@dataclass
class FakeTime:
    """Clocks that only sleeping, handlers and tests move."""

    now_s: float = 0.0
    date: datetime = datetime(2026, 5, 1, tzinfo=UTC)
    """What the device takes for the date; it goes on with `now_s`, and can be set."""
    slept: list[float] = field(default_factory=list)
    jitter: Callable[[], float] = lambda: 0.5

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)

    def timing(self) -> Timing:
        return Timing(
            clock=lambda: self.now_s,
            now=lambda: self.date + timedelta(seconds=self.now_s),
            jitter=self.jitter,
            sleep=self.sleep,
            sleep_async=self.sleep_async,
        )


@dataclass
class Tape:
    """A handler that remembers requests, and runs hooks before and after the real one."""

    handler: Callable[[Any], Any]
    before: Callable[[Any], None] = lambda request: None
    after: Callable[[Any], None] = lambda request: None
    requests: list[Any] = field(default_factory=list)

    def __call__(self, request: Any) -> Any:
        self.requests.append(request)
        self.before(request)
        response = self.handler(request)
        self.after(request)
        return response

    @property
    def submitted(self) -> list[bytes]:
        """The bytes of all reports sent, in order."""
        return [
            report.SerializeToString(deterministic=True)
            for request in self.requests
            if isinstance(request, collector_pb2.SubmitReportsRequest)
            for report in request.reports
        ]

    @property
    def fetched(self) -> int:
        """How often a campaign was asked for."""
        return sum(isinstance(r, collector_pb2.GetCampaignRequest) for r in self.requests)


def _campaign(
    campaign_id: str = "income",
    *,
    attribute: Attribute | None = None,
    privacy: GeoPrivacy | None = None,
    queries: tuple[Query, ...] = (Threshold(100_000, 16_000, "smoothstep"),),
    mechanism: MechanismSpec | None = None,
    allocation: Allocation = Allocation.PARTITION,
    title: str = "Households above a line",
    **more: Any,
) -> Campaign:
    year: dict[str, Any] = {
        "opens": datetime(2026, 1, 1, tzinfo=UTC),
        "closes": datetime(2027, 1, 1, tzinfo=UTC),
    }
    return campaign_of(
        campaign_id=campaign_id,
        title=title,
        attribute=attribute or Attribute(name="household income", unit="dollar"),
        privacy=privacy or GeoPrivacy(1, 8000, "dollar"),
        questions=tuple(Question(f"question {i}", q) for i, q in enumerate(queries)),
        mechanism=mechanism or DebiasedLaplaceSpec(),
        allocation=allocation,
        **(year | more),
    )


@pytest.fixture(scope="session")
def make_campaign():
    return _campaign


@pytest.fixture(scope="session")
def campaign():
    return _campaign()


@pytest.fixture(scope="session")
def places():
    """One question about where people are, around a point in New York."""
    return _campaign(
        "places",
        attribute=Attribute(
            name="location",
            unit="metre",
            coordinates=AzimuthalEquidistant(-73.98, 40.72, 60_000),
        ),
        privacy=GeoPrivacy(1, 1000, "metre"),
        queries=(GaussianKernel((0.0, 0.0), 3000.0),),
    )


@pytest.fixture(scope="session")
def policy():
    return Policy(
        {
            "household income": Limit(campaign=GeoPrivacy(1, 8000, "dollar"), lifetime="unbounded"),
            "location": Limit(
                campaign=GeoPrivacy(1, 1000, "metre"), lifetime="unbounded", value=Place(None)
            ),
        }
    )


@pytest.fixture
def collector(campaign, places):
    return InMemoryCollector([campaign, places])


@pytest.fixture
def tape(collector):
    return Tape(collector)


@pytest.fixture
def fake_time():
    return FakeTime()


@pytest.fixture
def make_source():
    return RecordingSource


@pytest.fixture(params=["memory", "disk"])
def state_dir(request, tmp_path):
    return tmp_path / "state" if request.param == "disk" else None


@dataclass
class Blocking:
    """An `AsyncClient` behind the face of a `Client`, so that one test serves both."""

    client: AsyncClient
    run: Callable[[Coroutine[Any, Any, Any]], Any]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.client, "aclose" if name == "close" else name)
        return lambda *given, **named: self.run(method(*given, **named))

    def __enter__(self) -> "Blocking":
        self.run(self.client.__aenter__())
        return self

    def __exit__(self, *error: Any) -> None:
        self.run(self.client.__aexit__(*error))


class Shells:
    """Makes clients of one kind on a tape, and closes them."""

    def __init__(self, tape: Tape, policy: Policy, time: FakeTime) -> None:
        self.transport = InMemoryTransport(tape)
        self.defaults: dict[str, Any] = {
            "policy": policy,
            "timing": time.timing(),
            "background": False,
            "release_floor_s": 0,
        }
        self.made: list[Any] = []

    def blocking(self, *, fetched: tuple[str, ...] = (), **settings: Any) -> Client:
        """Return a `Client` that has fetched some campaigns and has no thread."""
        chosen: dict[str, Any] = self.defaults | {"transport": self.transport} | settings
        client = Client(**chosen)
        self._keep(client, fetched)
        return client

    def awaited(
        self, runner: asyncio.Runner, *, fetched: tuple[str, ...] = (), **settings: Any
    ) -> Blocking:
        """Return an `AsyncClient` likewise, behind the same face."""
        if "transport" in settings and settings["transport"] is not None:
            settings["transport"] = settings["transport"].aio
        chosen: dict[str, Any] = self.defaults | {"transport": self.transport.aio} | settings
        client = Blocking(AsyncClient(**chosen), runner.run)
        self._keep(client, fetched)
        return client

    def close(self) -> None:
        while self.made:
            self.made.pop().close(0)

    def _keep(self, client: Any, fetched: tuple[str, ...]) -> None:
        self.made.append(client)
        for campaign_id in fetched:
            client.fetch(campaign_id)


@pytest.fixture
def shells(tape, policy, fake_time):
    made = Shells(tape, policy, fake_time)
    yield made
    made.close()


@pytest.fixture
def make_client(shells):
    """Return a factory of blocking clients on the tape; see `Shells.blocking`."""
    return shells.blocking


@pytest.fixture(params=["blocking", "asyncio"])
def make_either(request, shells):
    """Return a factory of clients of either kind on the tape, all with the blocking face."""
    with asyncio.Runner() as runner:
        makers: dict[str, Callable[..., Any]] = {
            "blocking": shells.blocking,
            "asyncio": partial(shells.awaited, runner),
        }
        yield makers[request.param]
        shells.close()


@dataclass
class Steering:
    """What stands between a tape and its collector: fails what a test asks it to fail."""

    collector: Callable[[Any], Any]
    failures: dict[str, Any] = field(default_factory=dict)
    """Campaign, or "" for every one → a TransportError for all reports to it."""
    results: list[report_pb2.ReportResult] | None = None
    """Answered to every batch, if not None."""
    asked: list[str] = field(default_factory=list)
    """Campaigns of the batches that arrived."""

    def __call__(self, request: Any) -> Any:
        if isinstance(request, collector_pb2.GetCampaignRequest):
            return self.collector(request)
        self.asked.append(request.campaign_id)
        error = self.failures.get(request.campaign_id) or self.failures.get("")
        if error is not None:
            raise error
        if self.results is not None:
            return collector_pb2.SubmitReportsResponse(results=self.results)
        return self.collector(request)


@pytest.fixture
def steering(tape):
    steering = Steering(tape.handler)
    tape.handler = steering
    return steering
