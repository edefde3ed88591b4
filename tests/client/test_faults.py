"""Test exactly-once reports at every point at which a device can die.

The server's reports are then one per campaign and period, it has never seen two different ones, and
the ledger has all that it has seen.
"""

import os
import signal
import stat
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from geoveil.client import Client, DeliveryStatus, InMemoryCollector, JournalError, TransportError
from geoveil.client.testing import InMemoryCollector as Collector
from geoveil.proto.v1 import collector_pb2, report_pb2
from tests.client.mortal import (
    POLICY,
    PRIVACY,
    Lab,
    WireTransport,
    campaign,
    every_point,
    unhurried,
)

NAMES = ("one", "two")
# Where there is memory to write to, flushing costs nothing; no death here depends on it, as what a
# process has written outlives it. Each flush is a point of its own either way.
FOLDER = next((str(p) for p in [Path("/dev/shm")] if p.is_dir()), None)


@pytest.fixture
def stride(request):
    """Every point of all tests; elsewhere every 29th, others for each server."""
    return 1 if request.config.getoption("tier") == "all" else 29


@pytest.fixture
def tmp_path():
    """Every point has a state directory of its own, in which its lives flush many times."""
    with TemporaryDirectory(dir=FOLDER) as folder:
        yield Path(folder)


def take_part(transport: WireTransport, state_dir: Path) -> dict[str, Any]:
    """What an app does in one life: fetch, contribute, send; returns what it believes."""
    with Client(
        policy=POLICY,
        state_dir=state_dir,
        transport=transport,
        background=False,
        timing=unhurried(),
    ) as client:
        for name in NAMES:
            client.fetch(name, 0.5)
            client.contribute(name, 52_000.0)
            client.contribute(name, 152_000.0)  # no second draw, whatever the value
        client.flush(0.5)
        (budget,) = client.budgets() or (None,)
        return {
            "history": client.history(),
            "spent": None if budget is None else budget.spent,
        }


def lost_answer(collector: Collector, request: Any) -> Any:
    collector(request)
    raise TransportError("UNAVAILABLE", "the answer is lost")


def down(collector: Collector, request: Any) -> Any:
    raise TransportError("UNAVAILABLE", "down")


def slow(collector: Collector, request: Any) -> Any:
    collector(request)
    raise TransportError("DEADLINE_EXCEEDED", "counted, but too late")


def garbage(collector: Collector, request: Any) -> Any:
    status = report_pb2.ReportStatus.REPORT_STATUS_UNSPECIFIED
    return collector_pb2.SubmitReportsResponse(results=[report_pb2.ReportResult(status=status)])


def sound(collector: Collector, request: Any) -> Any:
    return collector(request)


SUBMITTED_TO = {
    "sound": sound,
    "loses answers": lost_answer,
    "down": down,
    "too slow": slow,
    "answers garbage": garbage,
}


def behaving(name: str) -> Any:
    """Return a server that behaves so towards reports, and soundly when asked for campaigns."""

    def answer(collector: Collector, request: Any) -> Any:
        submitted = isinstance(request, collector_pb2.SubmitReportsRequest)
        return (SUBMITTED_TO[name] if submitted else sound)(collector, request)

    return answer


def check_once(lab: Lab, believed: dict[str, Any]) -> None:
    """Fail unless each campaign has exactly one report, which the device knows of."""
    for name in NAMES:
        (counted,) = lab.collector.reports(name)
        assert lab.seen[name, 0] == {counted.SerializeToString(deterministic=True)}
    receipts = {r.campaign_id: r for r in believed["history"]}
    assert receipts.keys() == set(NAMES)
    for name, receipt in receipts.items():
        assert receipt.status is DeliveryStatus.ACKNOWLEDGED
        assert receipt.report_id == lab.collector.reports(name)[0].report_id.hex()


@pytest.mark.deep(rest=3)
@pytest.mark.parametrize("server", SUBMITTED_TO)
def test_a_device_killed_at_any_point_counts_once(server, stride, tmp_path):
    def lives(point: int) -> bool:
        lab = Lab(InMemoryCollector([campaign(name) for name in NAMES]))
        state = tmp_path / str(point)
        lab.answer = behaving(server)
        (first,) = lab.run(lambda transport: take_part(transport, state), kill_at=point)
        if first.killed:
            (again,) = lab.run(lambda transport: take_part(transport, state), kill_at=point)
            again.killed or again.returned()
        else:
            first.returned()
        lab.answer = sound
        (last,) = lab.run(lambda transport: take_part(transport, state))
        check_once(lab, last.returned())
        return first.killed

    first = 3 * list(SUBMITTED_TO).index(server) % stride
    points = list(every_point(lives, stride, first))
    # Fewer would mean that the device was not watched.
    assert points[-1] >= 60


def test_the_enumeration_finds_a_device_that_sends_before_it_keeps(tmp_path):
    """The control: a client that draws anew in every life is caught."""

    def forgetful(transport: WireTransport) -> Any:
        with Client(policy=POLICY, transport=transport, background=False) as client:
            client.fetch("one")
            client.contribute("one", 52_000.0)
            return client.flush().acknowledged

    caught = []

    def lives(point: int) -> bool:
        lab = Lab(InMemoryCollector([campaign("one")]))
        (first,) = lab.run(forgetful, kill_at=point)
        lab.run(forgetful)
        caught.append(len(lab.seen["one", 0]) > 1)
        return first.killed

    list(every_point(lives))
    assert any(caught)


@pytest.mark.deep
def test_a_disk_that_is_full_at_any_page_loses_nothing_and_draws_nothing_twice(tmp_path):
    """The limit on the size of files stands in for a full disk: writes beyond it fail."""
    import resource

    refused = 0
    for size in range(0, 60 * 4096, 3 * 4096):
        lab = Lab(InMemoryCollector([campaign(name) for name in NAMES]))
        state = tmp_path / str(size)

        def full(size: int = size) -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

        def scenario(transport: WireTransport, state: Path = state) -> Any:
            try:
                take_part(transport, state)
            except JournalError as error:
                return str(error)
            return None

        (first,) = lab.run(scenario, setup=full)
        refused += first.returned() is not None
        (last,) = lab.run(lambda transport, state=state: take_part(transport, state))
        check_once(lab, last.returned())
    assert 3 <= refused <= 18  # the limits tried span those too small for all and those for none


def test_a_state_directory_that_cannot_be_written_refuses_before_anything_leaves(tmp_path):
    lab = Lab(InMemoryCollector([campaign(name) for name in NAMES]))
    state = tmp_path / "state"
    nobody = 65534
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:  # pytest keeps its folders to root; another user must pass
        if parent.stat().st_uid == os.getuid() and not parent.stat().st_mode & stat.S_IXOTH:
            parent.chmod(parent.stat().st_mode | stat.S_IXOTH)
    state.mkdir(mode=0o700)

    def unprivileged() -> None:
        if os.getuid() == 0:
            os.setgid(nobody)
            os.setuid(nobody)

    if os.getuid() == 0:
        os.chown(state, nobody, nobody)
    lab.run(
        lambda transport: Client(policy=POLICY, state_dir=state, transport=transport).close(),
        setup=unprivileged,
    )[0].returned()
    for path in state.iterdir():
        path.chmod(0o400)
    state.chmod(0o500)

    def scenario(transport: WireTransport) -> Any:
        try:
            with Client(policy=POLICY, state_dir=state, transport=transport) as client:
                client.fetch("one")
        except JournalError as error:
            return str(error)
        return ""

    (ended,) = lab.run(scenario, setup=unprivileged)
    assert "readonly" in ended.returned() or "read-only" in ended.returned()
    assert lab.seen == {}


def test_the_ledger_never_counts_less_than_the_server_has_seen(stride, tmp_path):
    """At every point: what has arrived anywhere is in the ledger of the next life, in full."""

    def lives(point: int) -> bool:
        lab = Lab(InMemoryCollector([campaign(name) for name in NAMES]))
        state = tmp_path / str(point)
        (first,) = lab.run(lambda transport: take_part(transport, state), kill_at=point)

        def ledger(transport: WireTransport) -> Any:
            with Client(policy=POLICY, state_dir=state, transport=transport) as client:
                found = [r.privacy.exact_rate for r in client.history()]
                client.close(0.0)
                return sum(found, Fraction(0))

        (after,) = lab.run(ledger)
        arrived = sum(len(reports) for reports in lab.seen.values())
        assert after.returned() >= arrived * PRIVACY.exact_rate
        return first.killed

    assert list(every_point(lives, stride))[-1] >= 60
