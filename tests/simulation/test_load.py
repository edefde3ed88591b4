"""Test that load on a real aggregator is counted to the last report, even if answers are lost."""

import json
import signal
from collections import Counter
from dataclasses import replace

import pytest
import typer
from typer.testing import CliRunner

from geoveil.aggregator import Aggregator, Settings, SQLiteStore
from geoveil.aggregator.store import CampaignRecord
from geoveil.analyst import Analyst
from geoveil.campaign import encode, seal
from geoveil.cli import simulate
from geoveil.cli.connection import CommandError
from geoveil.cli.simulate import fleet
from geoveil.client import (
    CampaignNotFound,
    GrpcAioTransport,
    InMemoryAsyncTransport,
    InMemoryCollector,
    InMemoryTransport,
    Policy,
    Timing,
    TransportError,
)
from geoveil.gp import ParameterError
from geoveil.proto.v1 import collector_pb2
from geoveil.simulation.demo import experiments
from geoveil.simulation.fleet import by_batches, by_devices, prepared
from geoveil.simulation.local_server import local_server
from tests.campaigns import above_100k

CAMPAIGN = above_100k("load")
POLICY = Policy({"household income": CAMPAIGN.privacy})
VALUES = [1_000.0 * i for i in range(120)]


class Clock:
    """Time that passes when somebody waits."""

    def __init__(self):
        self.now = 0.0

    async def sleep(self, seconds):
        self.now += seconds

    @property
    def timing(self):
        return Timing(clock=lambda: self.now, jitter=lambda: 0.5, sleep_async=self.sleep)


class Flaky:
    """A collector whose answers to some submissions are lost, or that pushes back."""

    def __init__(self, faults):
        self.collector = InMemoryCollector([CAMPAIGN])
        self.faults = iter(faults)

    def __call__(self, request):
        fault = None
        if isinstance(request, collector_pb2.SubmitReportsRequest):
            fault = next(self.faults, None)
        if fault == "RESOURCE_EXHAUSTED":  # before anything is counted
            raise TransportError(fault, "the queue is full")
        answer = self.collector(request)
        if fault is not None:
            raise TransportError(fault, "the answer got lost")
        return answer

    @property
    def transport(self):
        return InMemoryTransport(self).aio


def batches(size, values=VALUES):
    return list(prepared("load", encode(CAMPAIGN), values, policy=POLICY, batch_size=size))


async def load_by(way, transport, **options):
    if way == "devices":
        return await by_devices("load", VALUES, transport=transport, policy=POLICY, **options)
    return await by_batches(batches(20), transport=transport, **options)


@pytest.mark.deep
@pytest.mark.parametrize("way", ["devices", "batches"])
async def test_a_real_aggregator_counts_every_report(tmp_path, way):
    seen = []
    settings = Settings(database=tmp_path / "a.db", port=0)
    with SQLiteStore(settings.database) as store:
        store.create_campaign(
            CampaignRecord(campaign_id="load", published=seal(encode(CAMPAIGN)), queries=1)
        )
    async with Aggregator(settings) as running:
        transport = GrpcAioTransport(running.address)
        try:
            load = await load_by(way, transport, concurrency=20, on_reports=seen.append)
        finally:
            await transport.aclose()
    with SQLiteStore(settings.database) as store:
        assert store.get_campaign("load").reports == 120
    assert (load.devices, load.acknowledged, load.accepted, load.lost) == (120, 120, 120, 0)
    assert (load.duplicates, load.rejected, load.failures) == (0, 0, Counter())
    assert len(load.latencies_s) == (120 if way == "devices" else 6)
    assert sum(seen) == 120
    assert 0 < load.latency_s(0.5) <= load.latency_s(0.99) <= load.latency_s(1) < load.seconds
    assert load.throughput == 120 / load.seconds
    assert load.cpu_seconds > 0


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("way", ["devices", "batches"])
async def test_lost_answers_become_duplicates_and_nothing_is_lost(way):
    server = Flaky(["UNAVAILABLE", None, "DEADLINE_EXCEEDED", "UNAVAILABLE"])
    load = await load_by(way, server.transport, concurrency=3, timing=Clock().timing)
    assert len(server.collector.reports("load")) == 120
    assert (load.acknowledged, load.lost, load.rejected) == (120, 0, 0)
    assert load.failures == {"UNAVAILABLE": 2, "DEADLINE_EXCEEDED": 1}
    repeated = load.duplicates // (1 if way == "devices" else 20)
    assert 1 <= repeated <= 3
    assert load.accepted + load.duplicates == 120


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("way", ["devices", "batches"])
async def test_who_is_pushed_back_comes_again(way):
    server = Flaky(["RESOURCE_EXHAUSTED"] * 5)
    load = await load_by(way, server.transport, concurrency=2, timing=Clock().timing)
    assert (load.accepted, load.duplicates, load.lost) == (120, 0, 0)
    assert load.failures == {"RESOURCE_EXHAUSTED": 5}


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("way", ["devices", "batches"])
async def test_an_aggregator_that_never_answers_loses_everything(way):
    collector = InMemoryCollector([CAMPAIGN])

    def nobody(request):
        if isinstance(request, collector_pb2.SubmitReportsRequest):
            raise TransportError("UNAVAILABLE", "nobody is there")
        return collector(request)

    load = await load_by(
        way, InMemoryTransport(nobody).aio, timing=Clock().timing, timeout_s=2.0, concurrency=4
    )
    assert (load.devices, load.acknowledged, load.lost) == (120, 0, 120)
    assert load.throughput == 0
    assert load.latency_s(0.5) is None


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("way", ["devices", "batches"])
async def test_rejected_reports_are_lost(way):
    server = Flaky([])
    load = await load_by(way, Closing(server), concurrency=1)
    assert load.accepted + load.rejected == 120
    assert load.lost == load.rejected > 0
    assert load.acknowledged == load.accepted > 0


class Closing:
    """A transport whose campaign is closed after the second submission."""

    def __init__(self, server):
        self.server, self.left = server, 2

    async def get_campaign(self, request, timeout_s):
        return self.server(request)

    async def submit_reports(self, request, timeout_s):
        if self.left == 0:
            self.server.collector.close("load")
        self.left -= 1
        return self.server(request)


async def test_a_campaign_that_is_not_there_is_an_error():
    with pytest.raises(CampaignNotFound):
        await by_devices(
            "other", VALUES, transport=Flaky([]).transport, policy=POLICY, concurrency=2
        )


def test_prepared_batches_hold_every_report_once():
    made = batches(28)
    assert [len(batch.contributions) for batch in made] == [28, 28, 28, 28, 8]
    ids = [r.report_id for batch in made for r in batch.request().reports]
    assert len(set(ids)) == 120
    assert batches(28, []) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("concurrency", 0), ("timeout_s", 0.0), ("timeout_s", float("nan"))],
)
async def test_settings_out_of_range_are_refused(name, value):
    for way in ("devices", "batches"):
        with pytest.raises(ParameterError, match=name):
            await load_by(way, Flaky([]).transport, **{name: value})


@pytest.mark.parametrize("size", [0, 1.5])
def test_batch_sizes_out_of_range_are_refused(size):
    with pytest.raises(ParameterError, match="batch_size"):
        batches(size)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with local_server(tmp_path_factory.mktemp("load") / "a.db") as address:
        yield address


def run(*arguments):
    return CliRunner().invoke(APP, arguments, env={"COLUMNS": "80"})


APP = typer.Typer()
APP.command("fleet")(fleet)


def listed(server):
    with Analyst(server) as analyst:
        return {s.campaign.campaign_id: s for s in analyst.campaigns()}


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("options", [[], ["--batch-size", "40"]])
def test_the_command_loads_a_campaign_of_its_own_and_closes_it(server, options):
    before = listed(server)
    result = run("--server", server, "--devices", "120", "--json", *options)
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert (report["devices"], report["acknowledged"], report["counted"]) == (120, 120, 120)
    assert report["latency_s"]["median"] <= report["latency_s"]["longest"]
    (made,) = listed(server).keys() - before.keys()
    assert made.startswith("load-test-")
    assert listed(server)[made].reports == 120
    assert listed(server)[made].state == "closed"


@pytest.mark.deep(keep=0)
def test_the_command_loads_a_campaign_that_is_named_and_leaves_it_open(server):
    with Analyst(server) as analyst:
        analyst.create(experiments()[1].campaign)
    for reports in (50, 100):
        result = run("--server", server, "--devices", "50", "--campaign", "collisions")
        assert result.exit_code == 0
        assert "nothing was lost" in result.stdout
        assert all(len(line) <= 80 for line in result.stdout.splitlines())
        assert listed(server)["collisions"].reports == reports
    assert listed(server)["collisions"].state == "open"


@pytest.mark.deep
def test_the_command_fails_if_reports_are_lost(server):
    with Analyst(server) as analyst:
        analyst.create(replace(CAMPAIGN, campaign_id="shut"))
        analyst.close_campaign("shut")
    result = run("--server", server, "--devices", "9", "--campaign", "shut", "--batch-size", "9")
    assert result.exit_code == 1
    assert "reports were lost" in result.stdout


def test_the_command_fails_if_the_count_does_not_hold_what_was_acknowledged(server, monkeypatch):
    """An aggregator that acknowledges and forgets."""
    monkeypatch.setattr(simulate, "_look", lambda *_: (CAMPAIGN, encode(CAMPAIGN), 0))
    monkeypatch.setattr(
        simulate, "GrpcAioTransport", lambda *_, **__: Closeable(Flaky([]).collector)
    )
    result = run("--server", server, "--devices", "30", "--campaign", "load", "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert (report["not_acknowledged"], report["missing_from_count"]) == (0, 30)


def test_ctrl_c_ends_the_drawing_at_once(server, monkeypatch):
    """As a terminal sends it while the second of a thousand batches is drawn."""
    drawn = []

    def interrupted(*_, **__):
        for number in range(1_000):
            if number == 1:
                signal.raise_signal(signal.SIGINT)
            drawn.append(number)
            yield number

    monkeypatch.setattr("geoveil.cli.simulate.prepared", interrupted)
    result = run("--server", server, "--devices", "9", "--batch-size", "9")
    assert result.exit_code == 130
    assert drawn == [0]


class Closeable(InMemoryAsyncTransport):
    async def aclose(self):
        pass


def test_the_command_reports_a_campaign_that_is_not_there(server):
    result = run("--server", server, "--campaign", "nobody")
    assert isinstance(result.exception, CommandError)
