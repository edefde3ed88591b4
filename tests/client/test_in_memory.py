"""Test that the collector for apps' tests answers like the real one, and fails on demand."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from geoveil.aggregator import Aggregator, Settings
from geoveil.campaign import (
    Allocation,
    Campaign,
    LipschitzLaplaceSpec,
    SigningKey,
    decode,
    digest,
    encode,
    seal,
)
from geoveil.client import (
    GrpcAioTransport,
    InMemoryCollector,
    InMemoryTransport,
    TransportError,
)
from geoveil.gp import Threshold
from geoveil.proto.v1 import analyst_pb2, campaign_pb2, collector_pb2, report_pb2
from geoveil.proto.v1.analyst_pb2_grpc import AnalystStub
from tests.client.conftest import in_threads

TWO = (Threshold(100_000, 16_000, "smoothstep"), Threshold(50_000, 16_000, "smoothstep"))
OPENS = datetime(2026, 1, 1, tzinfo=UTC)
CLOSES = datetime(2027, 1, 1, tzinfo=UTC)
MONTH = timedelta(days=30)


def report(
    campaign: Campaign,
    number: int = 0,
    *,
    report_id: bytes | None = None,
    values: dict[int, int] | None = None,
    period: int = 0,
) -> report_pb2.Report:
    """Return a report without a fault, but for what is given."""
    if values is None:
        asked = (
            [0] if campaign.allocation is Allocation.PARTITION else range(len(campaign.questions))
        )
        values = {i: campaign.mechanisms[i].grid_range[0] + number for i in asked}
    return report_pb2.Report(
        report_id=number.to_bytes(16) if report_id is None else report_id,
        answers=[report_pb2.Answer(query_index=i, value=v) for i, v in values.items()],
        period=period,
    )


def batch(campaign: Campaign, *reports: report_pb2.Report) -> collector_pb2.SubmitReportsRequest:
    return collector_pb2.SubmitReportsRequest(
        campaign_id=campaign.campaign_id,
        campaign_digest=digest(encode(campaign)),
        reports=reports,
    )


def said(response: collector_pb2.SubmitReportsResponse) -> list[tuple[str, str]]:
    """Return the name of each result's status and reason."""
    return [
        (
            report_pb2.ReportStatus.Name(result.status).removeprefix("REPORT_STATUS_"),
            report_pb2.RejectionReason.Name(result.reason).removeprefix("REJECTION_REASON_"),
        )
        for result in response.results
    ]


ACCEPTED = ("ACCEPTED", "UNSPECIFIED")
DUPLICATE = ("DUPLICATE", "UNSPECIFIED")


def rejected(reason: str) -> tuple[str, str]:
    return ("REJECTED", reason)


class Clock:
    """Stands still until it is set."""

    now = OPENS + MONTH / 2

    def __call__(self) -> datetime:
        return self.now


class Both:
    """The real server over gRPC and the one in memory, asked the same."""

    def __init__(self, address: str, channel: Any, clock: Clock, key: SigningKey | None) -> None:
        self.real = GrpcAioTransport(address)
        self.memory = InMemoryCollector(key=key, clock=clock)
        self._transport = InMemoryTransport(self.memory).aio
        self._analyst = AnalystStub(channel)
        self._key = key

    async def add(self, campaign: Campaign) -> None:
        self.memory.add(campaign)
        envelope = campaign_pb2.CampaignEnvelope.FromString(seal(encode(campaign), self._key))
        create: Any = self._analyst.CreateCampaign
        await create(analyst_pb2.CreateCampaignRequest(envelope=envelope), timeout=30.0)

    async def close(self, campaign_id: str) -> None:
        self.memory.close(campaign_id)
        close: Any = self._analyst.CloseCampaign
        await close(analyst_pb2.CloseCampaignRequest(campaign_id=campaign_id), timeout=30.0)

    async def ask(self, request: Any) -> tuple[Any, Any]:
        """Return what both answer: a message without its free text, or an error's code."""
        return await self._one(self.real, request), await self._one(self._transport, request)

    async def _one(self, transport: Any, request: Any) -> Any:
        try:
            if isinstance(request, collector_pb2.GetCampaignRequest):
                return await transport.get_campaign(request, 30.0)
            response = await transport.submit_reports(request, 30.0)
        except TransportError as error:
            return error.code
        assert all(bool(r.detail) == (r.reason != 0) for r in response.results)
        return said(response)


@asynccontextmanager
async def both(folder: Path, clock: Clock, key: SigningKey | None = None) -> AsyncIterator[Both]:
    settings = Settings(database=folder / "reports.db", port=0)
    async with (
        Aggregator(settings, clock=clock) as server,
        grpc.aio.insecure_channel(server.address) as channel,
    ):
        servers = Both(server.address, channel, clock, key)
        try:
            yield servers
        finally:
            await servers.real.aclose()


def requests(campaigns: list[Campaign], seed: int) -> Iterator[Any]:
    """Yield random requests, sound and not, that meet each other's ids."""
    pick = random.Random(seed)
    ids = [number.to_bytes(16) for number in range(6)] + [b"", bytes(15), bytes(17)]
    while True:
        campaign = pick.choice(campaigns)
        if pick.random() < 0.2:
            name = pick.choice([campaign.campaign_id, "nothing", ""])
            yield collector_pb2.GetCampaignRequest(campaign_id=name)
            continue
        low, high = campaign.ranges[0]
        values = [low, high, 0, 0, low - 1, high + 1, 2**63 - 1, -(2**63)]
        reports = [
            report_pb2.Report(
                report_id=pick.choice(ids),
                answers=[
                    report_pb2.Answer(query_index=index, value=pick.choice(values))
                    for index in pick.choice([[0], [1], [0, 1], [0, 1], [1, 0], [2], [], [0, 0]])
                ],
                period=pick.choice([0, 0, 0, 1]) if campaign.period is None else pick.randrange(14),
            )
            # With periods, one at a time: the real server looks at those to come before others.
            for _ in range(pick.choice([0, 1, 2, 5, 5, 5]) if campaign.period is None else 1)
        ]
        request = batch(campaign, *reports)
        if pick.random() < 0.1:
            request.campaign_digest = pick.choice([b"", bytes(32)])
        if pick.random() < 0.1:
            request.campaign_id = "nothing"
        yield request


@pytest.mark.deep
async def test_the_real_server_says_the_same(make_campaign, tmp_path):
    """1,500 random requests, over the dates and past a closing; every kind of answer occurs."""
    campaigns = [
        make_campaign("one-of-two", queries=TWO),
        make_campaign("both", queries=TWO, allocation=Allocation.SPLIT),
        replace(make_campaign("monthly"), period=MONTH),
        replace(make_campaign("lipschitz"), mechanism=LipschitzLaplaceSpec(), step_exponent=None),
    ]
    clock, seen = Clock(), set[Any]()
    second = timedelta(seconds=1)
    times = [
        *(OPENS - 61 * second, OPENS - 60 * second, OPENS - second, OPENS),
        *(OPENS + MONTH - 61 * second, OPENS + MONTH - 60 * second, OPENS + 7.5 * MONTH),
        *(CLOSES - second, CLOSES, CLOSES + 59 * second, CLOSES + 60 * second),
    ]
    async with both(tmp_path, clock) as servers:
        for campaign in campaigns:
            await servers.add(campaign)
        asked = requests(campaigns, seed=7)
        for step in range(1500):
            if step % 10 == 0:
                clock.now = times[step // 10 % len(times)]
            if step == 1200:
                clock.now = OPENS  # the real server closes nothing that its date has closed
                await servers.close("both")
            request = next(asked)
            real, in_memory = await servers.ask(request)
            assert in_memory == real, (step, clock.now, request)
            seen |= set(real) if isinstance(real, list) else {str(real)[:30]}
        counted = {c.campaign_id: len(servers.memory.reports(c.campaign_id)) for c in campaigns}
    reasons = (
        *("WRONG_PERIOD", "MALFORMED_ID", "WRONG_ANSWERS"),
        *("OUT_OF_RANGE", "ID_CONFLICT", "NOT_OPEN"),
    )
    assert {ACCEPTED, DUPLICATE, *map(rejected, reasons)} <= seen
    assert {"NOT_FOUND", "FAILED_PRECONDITION", "INVALID_ARGUMENT"} <= seen
    assert all(1 <= n <= 6 for n in counted.values())


@pytest.mark.deep
async def test_both_take_ten_thousand_reports_and_no_more(make_campaign, tmp_path):
    campaign = make_campaign("income")
    async with both(tmp_path, Clock()) as servers:
        await servers.add(campaign)
        sound = [report(campaign, report_id=i.to_bytes(16)) for i in range(10_001)]
        assert await servers.ask(batch(campaign, *sound)) == ("INVALID_ARGUMENT",) * 2
        real, in_memory = await servers.ask(batch(campaign, *sound[:-1]))
        assert real == in_memory == [ACCEPTED] * 10_000


async def test_signed_and_recurring_campaigns_are_the_same_on_both(make_campaign, tmp_path):
    campaign, clock = replace(make_campaign("income"), period=MONTH), Clock()
    async with both(tmp_path, clock, SigningKey.generate()) as servers:
        await servers.add(campaign)
        request = collector_pb2.GetCampaignRequest(campaign_id="income")
        real, in_memory = await servers.ask(request)
        assert real == in_memory
        for days in (-1, 0, 29, 30, 31, 364, 366, 1000):
            clock.now = OPENS + timedelta(days=days)
            reports = [report(campaign, 20 * days + p + 30, period=p) for p in (0, 1, 2, 12, 13)]
            real, in_memory = await servers.ask(batch(campaign, *reports, *reports))
            assert real == in_memory, days


def submit(collector: InMemoryCollector, request: Any) -> list[tuple[str, str]]:
    return said(InMemoryTransport(collector).submit_reports(request, 1.0))


def test_without_a_clock_dates_do_not_matter(campaign):
    collector = InMemoryCollector([replace(campaign, period=MONTH)])
    transport = InMemoryTransport(collector)
    answer = transport.get_campaign(
        collector_pb2.GetCampaignRequest(campaign_id=campaign.campaign_id), 1.0
    )
    assert answer.state == campaign_pb2.CAMPAIGN_STATE_OPEN
    recurring = decode(answer.envelope.campaign)
    assert submit(collector, batch(recurring, report(recurring, period=12))) == [ACCEPTED]


def test_a_closed_campaign_still_knows_what_it_counted(campaign):
    collector = InMemoryCollector([campaign])
    first = report(campaign, 1)
    submit(collector, batch(campaign, first))
    collector.close(campaign.campaign_id)
    assert submit(collector, batch(campaign, first, report(campaign, 2))) == [
        *(DUPLICATE, rejected("NOT_OPEN"))
    ]
    answer = collector(collector_pb2.GetCampaignRequest(campaign_id=campaign.campaign_id))
    assert answer.state == campaign_pb2.CAMPAIGN_STATE_CLOSED
    for unknown in (collector.close, collector.reports):
        with pytest.raises(KeyError):
            unknown("nothing")


def test_a_campaign_put_in_place_of_another_refuses_its_reports(make_campaign):
    before, after = make_campaign(title="Before"), make_campaign(title="After")
    collector = InMemoryCollector([before])
    submit(collector, batch(before, report(before)))
    collector.add(after)
    assert collector.reports("income") == ()
    with pytest.raises(TransportError, match="FAILED_PRECONDITION"):
        submit(collector, batch(before, report(before)))
    assert submit(collector, batch(after, report(after))) == [ACCEPTED]


@pytest.mark.parametrize("answer", [None, b"<html>", report_pb2.Report()])
def test_an_answer_that_is_no_message_is_a_transport_error(answer):
    transport = InMemoryTransport(lambda request: answer)
    for call, request in (
        (transport.get_campaign, collector_pb2.GetCampaignRequest()),
        (transport.submit_reports, collector_pb2.SubmitReportsRequest()),
    ):
        with pytest.raises(TransportError, match="INTERNAL"):
            call(request, 1.0)  # type: ignore[operator]
        awaited: Any = getattr(transport.aio, call.__name__)
        with pytest.raises(TransportError, match="INTERNAL"):
            asyncio.run(awaited(request, 1.0))


def test_threads_share_a_collector(campaign):
    """Eight send the same 200 reports: each is accepted for one of them."""
    collector = InMemoryCollector([campaign])
    sound = [report(campaign, report_id=i.to_bytes(16)) for i in range(200)]
    accepted: list[int] = []

    def send(number: int) -> None:
        results = [submit(collector, batch(campaign, one)) for one in sound]
        accepted.append(results.count([ACCEPTED]))

    in_threads(8, send)
    assert sum(accepted) == len(collector.reports(campaign.campaign_id)) == 200


@pytest.fixture
def documented(campaign):
    """Return the names that the examples in the module's documentation define."""
    import doctest

    from geoveil.client import testing

    names: dict[str, Any] = vars(testing).copy()
    for example in doctest.DocTestParser().get_examples(testing.__doc__ or ""):
        if example.exc_msg is None:
            exec(example.source, names)
    names["collector"].add(campaign)
    return names


def test_the_documented_server_is_down_at_first(documented, campaign):
    transport = InMemoryTransport(documented["down_at_first"])
    request = batch(campaign, report(campaign))
    for _ in range(2):
        with pytest.raises(TransportError, match="UNAVAILABLE") as raised:
            transport.submit_reports(request, 1.0)
        assert raised.value.retry_after_s == 0.5
    assert said(transport.submit_reports(request, 1.0)) == [ACCEPTED]


def test_the_documented_server_counts_and_loses_its_answer(documented, campaign):
    transport = InMemoryTransport(documented["losing_an_answer"])
    request = batch(campaign, report(campaign))
    with pytest.raises(TransportError, match="DEADLINE_EXCEEDED"):
        transport.submit_reports(request, 1.0)
    assert said(transport.submit_reports(request, 1.0)) == [DUPLICATE]


def test_the_documented_server_refuses_half(documented, campaign):
    transport = InMemoryTransport(documented["refusing_half"])
    request = batch(campaign, *(report(campaign, number) for number in range(4)))
    assert said(transport.submit_reports(request, 1.0)) == [ACCEPTED, rejected("UNSPECIFIED")] * 2
    assert len(documented["collector"].reports("income")) == 2
