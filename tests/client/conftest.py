"""What the client's tests share: campaigns, a policy, a collector, clocks nobody waits for."""

import random
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
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
    Policy,
    Timing,
)
from geoveil.gp import GaussianKernel, GeoPrivacy, Query, RandomSource, Threshold
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.proto.v1 import collector_pb2


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


@dataclass
class FakeTime:
    """A clock that only sleeping and handlers move."""

    now_s: float = 0.0
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
            now=lambda: datetime(2026, 5, 1, tzinfo=UTC) + timedelta(seconds=self.now_s),
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
) -> Campaign:
    return Campaign(
        campaign_id=campaign_id,
        title=title,
        attribute=attribute or Attribute(name="household income", unit="dollar"),
        privacy=privacy or GeoPrivacy(1, 8000, "dollar"),
        questions=tuple(Question(f"question {i}", q) for i, q in enumerate(queries)),
        opens=datetime(2026, 1, 1, tzinfo=UTC),
        closes=datetime(2027, 1, 1, tzinfo=UTC),
        mechanism=mechanism or DebiasedLaplaceSpec(),
        allocation=allocation,
    )


@pytest.fixture(scope="session")
def make_campaign() -> Callable[..., Campaign]:
    return _campaign


@pytest.fixture(scope="session")
def campaign() -> Campaign:
    return _campaign()


@pytest.fixture(scope="session")
def places() -> Campaign:
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
def policy() -> Policy:
    return Policy(
        {
            "household income": GeoPrivacy(1, 8000, "dollar"),
            "location": GeoPrivacy(1, 1000, "metre"),
        }
    )


@pytest.fixture
def collector(campaign: Campaign, places: Campaign) -> InMemoryCollector:
    return InMemoryCollector([campaign, places])


@pytest.fixture
def tape(collector: InMemoryCollector) -> Tape:
    return Tape(collector)


@pytest.fixture
def fake_time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def make_source() -> Callable[[int], RecordingSource]:
    return RecordingSource


@pytest.fixture
def make_client(tape: Tape, policy: Policy, fake_time: FakeTime) -> Iterator[Callable[..., Client]]:
    """Return a factory of clients on the tape."""
    clients: list[Client] = []

    def make(**settings: Any) -> Client:
        defaults: dict[str, Any] = {
            "policy": policy,
            "transport": InMemoryTransport(tape),
            "timing": fake_time.timing(),
        }
        clients.append(Client(**(defaults | settings)))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@dataclass
class Blocking:
    """An `AsyncClient` behind the face of a `Client`, so that one test serves both."""

    client: AsyncClient
    run: Callable[[Coroutine[Any, Any, Any]], Any]

    def contribute(self, campaign_id: str, value: Any) -> Any:
        return self.run(self.client.contribute(campaign_id, value))

    def flush(self) -> Any:
        return self.run(self.client.flush())

    def close(self) -> None:
        self.run(self.client.aclose())


@pytest.fixture(params=["blocking", "asyncio"])
def make_either(
    request: pytest.FixtureRequest, tape: Tape, policy: Policy, fake_time: FakeTime
) -> Iterator[Callable[..., Any]]:
    """Return a factory of clients of either kind on the tape, all with the blocking face."""
    import asyncio

    made: list[Any] = []
    with asyncio.Runner() as runner:

        def make(**settings: Any) -> Any:
            defaults: dict[str, Any] = {"policy": policy, "timing": fake_time.timing()}
            if request.param == "blocking":
                defaults["transport"] = InMemoryTransport(tape)
                made.append(Client(**(defaults | settings)))
            else:
                defaults["transport"] = InMemoryTransport(tape).aio
                made.append(Blocking(AsyncClient(**(defaults | settings)), runner.run))
            return made[-1]

        yield make
        for client in made:
            client.close()
