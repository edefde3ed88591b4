"""Test the background thread and task: wake-up, survival and end.

What they do, and when they try again, is in test_backoff.py, on clocks that nobody waits for.
"""

import asyncio
import gc
import logging
import subprocess
import sys
import threading
from typing import Any

import pytest

from geoveil.client import AsyncClient, CampaignNotFetched, Client, InMemoryTransport, JournalError
from geoveil.proto.v1 import collector_pb2
from tests.client.conftest import threads

SECONDS = 30
"""Until a test gives up waiting for what takes milliseconds."""


class ForeignError(Exception):
    """An error of a transport that does not keep its promise."""


class Signal(logging.Handler):
    """Says when something was logged."""

    def __init__(self) -> None:
        super().__init__()
        self.logged = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.logged.set()


@pytest.fixture
def signal():
    handler = Signal()
    logging.getLogger("geoveil.client").addHandler(handler)
    yield handler
    logging.getLogger("geoveil.client").removeHandler(handler)


def is_submit(request: Any) -> bool:
    return isinstance(request, collector_pb2.SubmitReportsRequest)


def test_an_idle_thread_wakes_for_the_next_contribution(
    make_client, tape, collector, make_campaign
):
    names = ("a", "b", "c")
    for name in names:
        collector.add(make_campaign(name))
    sent = threading.Semaphore(0)
    tape.after = lambda request: sent.release() if is_submit(request) else None
    client = make_client(background=True, fetched=names)
    for name in names:
        client.contribute(name, 52_000)
        assert sent.acquire(timeout=SECONDS)
    assert [len(collector.reports(name)) for name in names] == [1, 1, 1]


def test_a_thread_outlives_an_error_that_is_not_the_client_s_and_says_only_its_kind(
    make_client, tape, signal, caplog
):
    sent = threading.Event()

    def fail_once(request: Any) -> None:
        tape.before = lambda request: None
        raise ForeignError("98765")

    client = make_client(background=True, fetched=("income", "places"))
    tape.before = fail_once
    tape.after = lambda request: sent.set() if is_submit(request) else None
    client.contribute("income", 52_000)
    assert signal.logged.wait(SECONDS)
    client.contribute("places", (-73.98, 40.72))  # wakes it
    assert sent.wait(SECONDS)
    client.close()
    assert "the background failed: ForeignError" in caplog.text
    assert "98765" not in caplog.text


def test_a_thread_outlives_a_disk_that_fails(make_client, tmp_path, tape, signal):
    path = tmp_path / "state" / "journal.sqlite3"
    client = make_client(background=True, fetched=("income",), state_dir=tmp_path / "state")
    path.rename(path.with_suffix(".away"))
    with pytest.raises(JournalError):
        client.contribute("income", 52_000)
    assert signal.logged.wait(SECONDS)
    path.with_suffix(".away").rename(path)
    sent = threading.Event()
    tape.after = lambda request: sent.set() if is_submit(request) else None
    client.contribute("income", 52_000)
    assert sent.wait(SECONDS)


def test_a_client_that_is_forgotten_takes_its_thread_along(policy, tape):
    """A host that makes one for each request and never closes it must not gather threads."""
    before = threads()
    client = Client(policy=policy, transport=InMemoryTransport(tape))
    client.fetch("income")
    client.contribute("income", 52_000)
    (thread,) = threads() - before
    del client
    gc.collect()
    thread.join(SECONDS)
    assert not thread.is_alive()


def test_without_a_background_there_is_no_thread(make_client, tape):
    before = threads()
    client = make_client(background=False, fetched=("income",))
    client.contribute("income", 52_000)
    with pytest.raises(CampaignNotFetched):
        client.contribute("places", (0.0, 0.0))
    assert threads() == before
    assert tape.submitted == []


def test_a_flush_and_the_thread_send_one_after_the_other(make_client, tape, collector):
    arrived, free = threading.Event(), threading.Event()

    def slow(request: Any) -> None:
        if is_submit(request):
            arrived.set()
            assert free.wait(SECONDS)

    client = make_client(background=True, fetched=("income",))
    tape.before = slow
    client.contribute("income", 52_000)
    assert arrived.wait(SECONDS)
    assert client.flush(timeout_s=0.001).pending == 1  # its time is up before the thread is done
    free.set()
    client.flush()
    assert len(tape.submitted) == 1
    assert len(collector.reports("income")) == 1


async def test_the_task_does_the_same(policy, tape, collector, tmp_path, caplog):
    """It fetches what is wanted, outlives a foreign error, wakes, and ends with the client."""
    before, running = asyncio.all_tasks(), threads()
    sent = asyncio.Event()
    failed = asyncio.Event()

    def fail_once(request: Any) -> None:
        tape.before = lambda request: None
        failed.set()
        raise ForeignError("98765")

    tape.before = fail_once
    tape.after = lambda request: sent.set() if is_submit(request) else None
    async with AsyncClient(
        policy=policy, transport=InMemoryTransport(tape).aio, state_dir=tmp_path / "state"
    ) as client:
        with pytest.raises(CampaignNotFetched):
            await client.contribute("income", 52_000)
        async with asyncio.timeout(SECONDS):
            await failed.wait()
        await client.fetch("income")
        await client.contribute("income", 52_000)
        async with asyncio.timeout(SECONDS):
            await sent.wait()
        assert [task.get_name() for task in asyncio.all_tasks() - before] == ["geoveil-client"]
    assert (asyncio.all_tasks(), threads()) == (before, running)
    assert len(collector.reports("income")) == 1
    assert "98765" not in caplog.text


EXIT = """
import sys
from geoveil.campaign import decode
from geoveil.client import Client, InMemoryCollector, InMemoryTransport, Policy

campaign = decode(bytes.fromhex(sys.argv[1]))
collector = InMemoryCollector([campaign])

def handler(request):
    if hasattr(request, "reports"):
        print(len(request.reports), flush=True)
    return collector(request)

client = Client(
    policy=Policy({campaign.attribute.name: campaign.privacy}),
    transport=InMemoryTransport(handler),
    state_dir=sys.argv[2] or None,
    background=False,
)
client.fetch(campaign.campaign_id)
print(client.contribute(campaign.campaign_id, 52_000).report_id, flush=True)
"""


@pytest.mark.deep
@pytest.mark.parametrize("durable", [False, True])
def test_an_exit_without_close_loses_nothing(durable, make_client, campaign, tmp_path):
    """In memory it is sent, as it would be lost; what is on the disk is left for the next run."""
    from geoveil.campaign import encode

    state = str(tmp_path / "state") if durable else ""
    done = subprocess.run(
        [sys.executable, "-c", EXIT, encode(campaign).hex(), state],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    said = "a client without a state_dir forgets what was answered"
    assert [line[: len(said)] for line in done.stderr.splitlines()] == [said] * (not durable)
    report_id, *sent = done.stdout.split()
    assert sent == ([] if durable else ["1"])
    if durable:
        assert [r.report_id for r in make_client(state_dir=state).history()] == [report_id]
