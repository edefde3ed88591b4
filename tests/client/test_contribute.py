"""The whole way of one value, for both shells: once per campaign, through refusals and crashes."""

import asyncio
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from geoveil.campaign import Allocation, Campaign, digest, encode
from geoveil.client import (
    AsyncClient,
    CampaignChanged,
    CampaignInvalid,
    CampaignNotFound,
    CampaignNotOpen,
    Client,
    ClientClosed,
    DeliveryFailed,
    FlushResult,
    InMemoryCollector,
    InMemoryTransport,
    ParameterError,
    PlaintextRefused,
    Policy,
    PolicyRefused,
    PrivateValueError,
    Receipt,
    ReportRejected,
    TransportError,
)
from geoveil.client.contribution import Contribution
from geoveil.client.journal import Entry
from geoveil.client.sqlite_journal import SqliteJournal
from geoveil.gp import GeoPrivacy, SeededSource, Threshold
from geoveil.proto.v1 import campaign_pb2, collector_pb2, report_pb2

Make = Callable[..., Any]


class Crash(BaseException):
    """The process ends here."""


def unavailable(request: Any) -> None:
    if isinstance(request, collector_pb2.SubmitReportsRequest):
        raise TransportError("UNAVAILABLE", "no route")


@pytest.fixture(params=["memory", "disk"])
def state_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "state" if request.param == "disk" else None


def test_a_value_becomes_one_report(
    make_either: Make, state_dir: Path | None, tape: Any, collector: Any, campaign: Campaign
) -> None:
    receipt = make_either(state_dir=state_dir).contribute("income", 52_000)
    (report,) = collector.reports("income")
    assert receipt == Receipt(
        campaign_id="income",
        report_id=report.report_id.hex(),
        digest=digest(encode(campaign)).hex(),
        answers=receipt.answers,
        privacy=GeoPrivacy(1, 8000, "dollar"),
        acknowledged=True,
    )
    assert [(a.query_index, a.value) for a in receipt.answers] == [
        (a.query_index, a.value) for a in report.answers
    ]
    assert [type(r).__name__ for r in tape.requests] == [
        "GetCampaignRequest",
        "SubmitReportsRequest",
    ]
    assert tape.requests[1].campaign_digest == digest(encode(campaign))


def test_a_second_contribution_is_the_first_one_without_any_network(
    make_either: Make, state_dir: Path | None, tape: Any
) -> None:
    client = make_either(state_dir=state_dir)
    first = client.contribute("income", 52_000)
    asked = len(tape.requests)
    for value in (52_000, 1e9, "not even a number"):
        assert client.contribute("income", value) == first
    assert len(tape.requests) == asked


def test_both_shells_do_the_same(
    collector: InMemoryCollector, policy: Policy, make_source: Any, fake_time: Any
) -> None:
    def script() -> Callable[[Any], Any]:
        """Fail twice, lose an answer, then work; keep nothing from one run to the next."""
        failures = ["UNAVAILABLE", "ABORTED", "", "lost", "DATA_LOSS"]
        fresh = InMemoryCollector([collector._held["income"].campaign])

        def handler(request: Any) -> Any:
            failure = failures.pop(0) if failures else ""
            if failure not in ("", "lost"):
                raise TransportError(failure)
            response = fresh(request)
            if failure == "lost":
                raise TransportError("UNAVAILABLE", "the answer was lost")
            return response

        return handler

    settings: dict[str, Any] = {"policy": policy, "timing": fake_time.timing()}
    with Client(
        transport=InMemoryTransport(script()), source=make_source(5), **settings
    ) as blocking:
        first = blocking.contribute("income", 99_000), blocking.flush()

    async def run() -> tuple[Receipt, FlushResult]:
        transport = InMemoryTransport(script()).aio
        async with AsyncClient(transport=transport, source=make_source(5), **settings) as client:
            return await client.contribute("income", 99_000), await client.flush()

    paused = len(fake_time.slept)
    assert asyncio.run(run()) == first
    assert fake_time.slept[paused:] == fake_time.slept[:paused] == [0.1, 0.2, 0.1, 0.2]


def test_clients_do_not_share_what_they_remember(make_either: Make, collector: Any) -> None:
    ids = {make_either().contribute("income", 1).report_id for _ in range(5)}
    assert len(ids) == len(collector.reports("income")) == 5


BAD: dict[str, Any] = {
    "string": "87654",
    "bool": True,
    "nan": float("nan"),
    "too many": [87654, 1],
    "none": None,
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_value_leaves_no_trace(
    make_either: Make, tmp_path: Path, tape: Any, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client = make_either(state_dir=tmp_path / "state")
    with pytest.raises(PrivateValueError):
        client.contribute("income", BAD[kind])
    assert SqliteJournal(tmp_path / "state").find("income") is None
    assert tape.submitted == []
    assert "87654" not in caplog.text
    # The campaign was kept, and a good value still counts.
    assert client.contribute("income", 87_654).acknowledged
    assert tape.fetched == 1
    assert "87654" not in caplog.text
    stored = (tmp_path / "state" / "journal.sqlite3").read_bytes()
    assert b"87654" not in stored


@pytest.mark.parametrize("place", [(181.0, 0.0), (0.0, -90.5), (1.0,), 7.0])
def test_a_bad_place_leaves_no_trace(make_either: Make, tape: Any, place: Any) -> None:
    client = make_either()
    with pytest.raises(PrivateValueError):
        client.contribute("places", place)
    assert tape.submitted == []
    assert client.contribute("places", (-73.98, 40.72)).acknowledged


def test_refusals_draw_and_send_nothing(
    make_either: Make, tape: Any, collector: Any, make_source: Any, make_campaign: Any
) -> None:
    source = make_source(0)
    client = make_either(source=source)
    collector.add(make_campaign("greedy", privacy=GeoPrivacy(3, 8000, "dollar")))
    collector.add(make_campaign("late"))
    collector.close("late")
    for campaign_id, error in (
        ("greedy", PolicyRefused),
        ("late", CampaignNotOpen),
        ("unknown", CampaignNotFound),
    ):
        with pytest.raises(error, match=campaign_id):
            client.contribute(campaign_id, 52_000)
    for bad in ("", "x" * 65, 3, None):
        with pytest.raises(ParameterError, match="campaign_id"):
            client.contribute(bad, 52_000)
    assert source.draws == []
    assert tape.submitted == []


def test_a_campaign_not_open_yet_is_asked_for_again(make_either: Make, tape: Any) -> None:
    states = [campaign_pb2.CAMPAIGN_STATE_PENDING, campaign_pb2.CAMPAIGN_STATE_OPEN]
    genuine = tape.handler

    def handler(request: Any) -> Any:
        response = genuine(request)
        if isinstance(request, collector_pb2.GetCampaignRequest):
            response.state = states.pop(0)
        return response

    tape.handler = handler
    client = make_either()
    with pytest.raises(CampaignNotOpen, match="is pending"):
        client.contribute("income", 52_000)
    assert client.contribute("income", 52_000).acknowledged


@pytest.mark.parametrize("published", [b"", b"\xff" * 1000, b"\x00" * (3 << 20), None])
def test_a_hostile_server_gets_nothing(
    make_either: Make, tape: Any, places: Campaign, make_source: Any, published: bytes | None
) -> None:
    envelope = campaign_pb2.CampaignEnvelope(
        campaign=encode(places) if published is None else published
    )
    tape.handler = lambda request: collector_pb2.GetCampaignResponse(envelope=envelope)
    source = make_source(0)
    client = make_either(source=source)
    with pytest.raises(CampaignInvalid):
        client.contribute("income", 52_000)
    assert source.draws == []
    assert tape.submitted == []


class TestCrashes:
    """A process that ends at any step, and one that comes after it."""

    @pytest.fixture(autouse=True)
    def _setup(self, tmp_path: Path, make_either: Make, tape: Any, collector: Any) -> None:
        self.directory = tmp_path / "state"
        self.make, self.tape, self.collector = make_either, tape, collector

    def crash(self) -> None:
        with pytest.raises(Crash):
            self.make(state_dir=self.directory).contribute("income", 52_000)

    def recover(self, value: Any = 52_000) -> Receipt:
        self.tape.before = self.tape.after = lambda request: None
        receipt: Receipt = self.make(state_dir=self.directory).contribute("income", value)
        assert receipt.acknowledged
        (counted,) = self.collector.reports("income")
        assert receipt.report_id == counted.report_id.hex()
        assert len(set(self.tape.submitted)) == 1  # the same bytes, however often
        return receipt

    def at_submit(self, request: Any) -> None:
        if isinstance(request, collector_pb2.SubmitReportsRequest):
            raise Crash

    def test_after_the_draw_before_the_record(self, monkeypatch: pytest.MonkeyPatch) -> None:
        drawn: list[Contribution] = []

        def record(journal: SqliteJournal, entry: Entry) -> Entry:
            drawn.append(entry.contribution)
            raise Crash

        with monkeypatch.context() as patched:
            patched.setattr(SqliteJournal, "record", record)
            self.crash()
        assert len(drawn) == 1
        assert self.tape.submitted == []
        # Nothing had left the device, so another draw costs nothing.
        self.recover()

    def test_after_the_record_before_the_send(self) -> None:
        self.tape.before = self.at_submit
        self.crash()
        assert self.collector.reports("income") == ()
        self.recover(value="whatever it is now")
        assert len(self.tape.submitted) == 2
        assert self.tape.fetched == 1

    def test_after_the_send_before_the_answer(self) -> None:
        self.tape.after = self.at_submit
        self.crash()
        assert len(self.collector.reports("income")) == 1
        self.recover()
        assert len(self.tape.submitted) == 2

    def test_after_the_answer_before_it_is_noted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def settle(*args: Any) -> Entry:
            raise Crash

        with monkeypatch.context() as patched:
            patched.setattr(SqliteJournal, "settle", settle)
            self.crash()
        assert len(self.collector.reports("income")) == 1
        self.recover()

    def test_again_and_again(self) -> None:
        self.tape.after = self.at_submit
        for _ in range(5):
            self.crash()
        assert len(self.tape.submitted) == 5
        first = self.recover()
        assert self.recover() == first
        assert len(self.tape.submitted) == 6

    def test_flush_finishes_what_a_crash_left(self) -> None:
        self.tape.after = self.at_submit
        self.crash()
        self.tape.after = lambda request: None
        client = self.make(state_dir=self.directory)
        assert client.flush() == FlushResult(acknowledged=1, rejected=0, pending=0)
        assert client.flush() == FlushResult(acknowledged=0, rejected=0, pending=0)
        self.recover()
        assert len(self.tape.submitted) == 2


KILLED = """
import os, signal, sys
from datetime import UTC, datetime
from geoveil.client import Client, InMemoryTransport, Policy
from geoveil.gp import GeoPrivacy
from geoveil.proto.v1 import campaign_pb2, collector_pb2

published = bytes.fromhex(sys.stdin.readline())

def handler(request):
    if isinstance(request, collector_pb2.GetCampaignRequest):
        envelope = campaign_pb2.CampaignEnvelope(campaign=published)
        return collector_pb2.GetCampaignResponse(envelope=envelope)
    print(request.reports[0].SerializeToString(deterministic=True).hex(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

policy = Policy({"household income": GeoPrivacy(1, 8000, "dollar")})
Client(policy=policy, state_dir=sys.argv[1], transport=InMemoryTransport(handler)).contribute(
    "income", 52_000
)
"""


def test_a_killed_process_is_continued_by_another(
    tmp_path: Path, campaign: Campaign, make_client: Make, tape: Any
) -> None:
    state_dir = tmp_path / "state"
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(state_dir)],
        input=encode(campaign).hex() + "\n",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert make_client(state_dir=state_dir).contribute("income", 1).acknowledged
    assert [report.hex() for report in tape.submitted] == killed.stdout.split()


RACER = """
import json, sys
from geoveil.client import Client, InMemoryCollector, InMemoryTransport, Policy
from geoveil.campaign import decode
from geoveil.gp import GeoPrivacy
from geoveil.proto.v1 import collector_pb2

collector = InMemoryCollector([decode(bytes.fromhex(sys.stdin.readline()))])

def handler(request):
    if isinstance(request, collector_pb2.GetCampaignRequest):
        print("ready", flush=True)  # looked into the journal, found nothing, about to draw
        sys.stdin.readline()
    else:
        print(request.SerializeToString(deterministic=True).hex(), flush=True)
    return collector(request)

policy = Policy({"household income": GeoPrivacy(1, 8000, "dollar")})
with Client(policy=policy, state_dir=sys.argv[1], transport=InMemoryTransport(handler)) as client:
    print(client.contribute("income", float(sys.argv[2])).report_id)
"""


def test_two_processes_that_race_send_the_same_report(tmp_path: Path, campaign: Campaign) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(tmp_path / "state"), value],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for value in ("52000", "152000")
    ]
    try:
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write(encode(campaign).hex() + "\n")
            racer.stdin.flush()
        for racer in racers:
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        outputs = [racer.communicate(timeout=60)[0].split() for racer in racers]
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()
    assert [racer.returncode for racer in racers] == [0, 0]
    assert outputs[0][-1] == outputs[1][-1]  # the report's id on both receipts
    # One may have heard from the journal that the other was done, and sent nothing.
    assert len({request for output in outputs for request in output[:-1]}) == 1


def test_threads_that_race_send_the_same_report(
    make_client: Make, state_dir: Path | None, tape: Any, collector: Any
) -> None:
    together = threading.Barrier(6)

    def wait(request: Any) -> None:
        if isinstance(request, collector_pb2.GetCampaignRequest):
            together.wait(timeout=30)

    tape.before = wait
    clients = [make_client(state_dir=state_dir) for _ in range(6)]
    if state_dir is None:
        clients = [clients[0]] * 6  # one client, and its memory, in six threads
    receipts: list[Receipt] = []
    threads = [
        threading.Thread(target=lambda c=c: receipts.append(c.contribute("income", 52_000)))
        for c in clients
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(receipts) == 6
    assert len(set(receipts)) == 1
    assert len(collector.reports("income")) == 1
    assert len(set(tape.submitted)) == 1


class TestChangedCampaigns:
    """A server that shows different campaigns under one id."""

    def test_the_one_recorded_by_a_faster_process_counts(
        self, make_either: Make, tmp_path: Path, tape: Any, make_campaign: Any, campaign: Campaign
    ) -> None:
        """Another process records version 1 while the server shows version 2 to this one."""
        other = encode(make_campaign(title="Another question"))
        faster = make_either(state_dir=tmp_path / "state")
        genuine = tape.handler

        def handler(request: Any) -> Any:
            if isinstance(request, collector_pb2.SubmitReportsRequest):
                raise TransportError("INTERNAL")
            tape.handler = genuine
            tape.before = unavailable
            envelope = campaign_pb2.CampaignEnvelope(campaign=other)
            blocking = Client(
                policy=Policy({"household income": GeoPrivacy(1, 8000, "dollar")}),
                state_dir=tmp_path / "state",
                transport=InMemoryTransport(InMemoryCollector([campaign])),
            )
            with blocking:
                blocking.contribute("income", 1)
            return collector_pb2.GetCampaignResponse(envelope=envelope)

        tape.handler = handler
        with pytest.raises(CampaignChanged) as raised:
            faster.contribute("income", 52_000)
        assert raised.value.pinned == digest(encode(campaign)).hex()
        assert raised.value.found == digest(other).hex()
        assert raised.value.pinned in str(raised.value)
        assert raised.value.found in str(raised.value)
        assert tape.submitted == []

    def test_a_pending_report_is_for_the_campaign_it_was_made_for(
        self, make_either: Make, state_dir: Path | None, tape: Any, collector: Any,
        make_campaign: Any, campaign: Campaign
    ) -> None:  # fmt: skip
        client = make_either(state_dir=state_dir)
        tape.before = unavailable
        with pytest.raises(DeliveryFailed):
            client.contribute("income", 52_000)
        tape.before = lambda request: None
        other = make_campaign(title="Another question")
        collector.add(other)
        for _ in range(2):
            with pytest.raises(CampaignChanged) as raised:
                client.contribute("income", 52_000)
            assert raised.value.pinned == digest(encode(campaign)).hex()
            assert raised.value.found == digest(encode(other)).hex()
        assert client.flush() == FlushResult(acknowledged=0, rejected=0, pending=1)
        assert collector.reports("income") == ()
        assert len(set(tape.submitted)) == 1
        # Were the campaign itself to come back, the report would still be good.
        collector.add(campaign)
        assert client.contribute("income", 52_000).acknowledged

    def test_a_precondition_for_no_visible_reason_keeps_the_report(
        self, make_either: Make, tape: Any
    ) -> None:
        def refuse(request: Any) -> None:
            if isinstance(request, collector_pb2.SubmitReportsRequest):
                raise TransportError("FAILED_PRECONDITION", "no")

        client = make_either()
        tape.before = refuse
        with pytest.raises(DeliveryFailed, match="FAILED_PRECONDITION: no"):
            client.contribute("income", 52_000)
        assert tape.fetched == 2


class TestAnswers:
    """What a server may say about a report."""

    def answer(self, tape: Any, *results: report_pb2.ReportResult) -> None:
        genuine = tape.handler

        def handler(request: Any) -> Any:
            if isinstance(request, collector_pb2.SubmitReportsRequest):
                return collector_pb2.SubmitReportsResponse(results=results)
            return genuine(request)

        tape.handler = handler

    def test_duplicate_means_counted(self, make_either: Make, tape: Any) -> None:
        self.answer(tape, report_pb2.ReportResult(status=report_pb2.REPORT_STATUS_DUPLICATE))
        assert make_either().contribute("income", 1).acknowledged

    @pytest.mark.parametrize(
        ("number", "name"),
        [(5, "NOT_OPEN"), (2, "ID_CONFLICT"), (0, "UNSPECIFIED"), (99, "99")],
    )
    def test_rejected_is_for_good(
        self, make_either: Make, state_dir: Path | None, tape: Any, number: Any, name: str
    ) -> None:
        self.answer(
            tape,
            report_pb2.ReportResult(
                status=report_pb2.REPORT_STATUS_REJECTED,
                reason=number,
                detail="closes was\n2026-01-01" + "!" * 5000,
            ),
        )
        client = make_either(state_dir=state_dir)
        for _ in range(3):
            with pytest.raises(ReportRejected, match=name) as raised:
                client.contribute("income", 1)
            assert raised.value.reason == name
            assert "closes was\\n2026-01-01" in str(raised.value)
            assert len(str(raised.value)) < 600
            assert not raised.value.receipt.acknowledged
        assert len(tape.submitted) == 1
        assert client.flush() == FlushResult(acknowledged=0, rejected=0, pending=0)

    @pytest.mark.parametrize(
        "results",
        [
            [],
            [report_pb2.ReportResult(status=report_pb2.REPORT_STATUS_ACCEPTED)] * 2,
            [report_pb2.ReportResult()],
            [report_pb2.ReportResult(status=17)],  # type: ignore[arg-type]
        ],
    )
    def test_nonsense_proves_nothing(self, make_either: Make, tape: Any, results: Any) -> None:
        genuine = tape.handler
        self.answer(tape, *results)
        client = make_either()
        with pytest.raises(DeliveryFailed, match=r"INTERNAL.*it is kept"):
            client.contribute("income", 1)
        tape.handler = genuine
        assert client.contribute("income", 1).acknowledged
        assert len(tape.submitted) == 2
        assert len(set(tape.submitted)) == 1


def test_flush_counts_what_became_of_each(
    make_either: Make, state_dir: Path | None, tape: Any, collector: Any, make_campaign: Any
) -> None:
    client = make_either(state_dir=state_dir)
    tape.before = unavailable
    for name in ("good", "closed", "gone", "income"):
        collector.add(make_campaign(name))
        with pytest.raises(DeliveryFailed) as raised:
            client.contribute(name, 52_000)
        assert raised.value.receipt.campaign_id == name
        assert not raised.value.receipt.acknowledged
    kept = set(tape.submitted)
    collector.close("closed")
    del collector._held["gone"]
    tape.before = lambda request: None
    assert client.flush() == FlushResult(acknowledged=2, rejected=1, pending=1)
    assert client.flush() == FlushResult(acknowledged=0, rejected=0, pending=1)
    assert set(tape.submitted) == kept
    assert len(kept) == 4


def test_campaigns_are_fetched_once_per_client_and_not_all_kept(
    make_either: Make, tape: Any, collector: Any, make_campaign: Any
) -> None:
    client = make_either()
    for i in range(70):
        collector.add(make_campaign(f"c{i}"))
        for _ in range(2):
            with pytest.raises(PrivateValueError):
                client.contribute(f"c{i}", "no number")
    assert tape.fetched == 70


def test_a_closed_client_says_so(make_either: Make, tape: Any) -> None:
    client = make_either()
    client.close()
    client.close()
    for use in (lambda: client.contribute("income", 1), client.flush):
        with pytest.raises(ClientClosed, match="make a new one"):
            use()
    assert tape.requests == []


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan"), float("inf"), "10", None])
def test_timeouts_are_finite(make_either: Make, timeout_s: Any) -> None:
    with pytest.raises(ParameterError, match="timeout_s"):
        make_either(timeout_s=timeout_s)


def test_predictable_bits_are_refused(make_either: Make) -> None:
    with pytest.raises(ParameterError, match="source must be a RandomSource whose bits nobody"):
        make_either(source=SeededSource(1))


def test_a_target_or_a_transport_is_needed(make_either: Make) -> None:
    with pytest.raises(ParameterError, match="target"):
        make_either(transport=None)
    with pytest.raises(PlaintextRefused, match=r"give tls=TLS\(\)"):
        make_either(transport=None, target="collector.example:443")


def test_a_slow_campaign_does_not_stop_the_loop(
    policy: Policy, make_campaign: Any, collector: Any
) -> None:
    """With asyncio, a large campaign is read and drawn for in a thread, which close ends."""
    many = tuple(Threshold(1000.0 * i, 16_000, "smoothstep") for i in range(150))
    collector.add(make_campaign("many", queries=many, allocation=Allocation.SPLIT))
    before = set(threading.enumerate())

    async def run() -> Receipt:
        transport = InMemoryTransport(collector).aio
        async with AsyncClient(policy=policy, transport=transport) as client:
            receipt = await client.contribute("many", 52_000)
            assert set(threading.enumerate()) - before
            return receipt

    receipt = asyncio.run(run())
    assert [a.query_index for a in receipt.answers] == list(range(150))
    assert set(threading.enumerate()) == before


async def test_a_cancelled_call_is_continued(
    policy: Policy, tape: Any, collector: Any, tmp_path: Path, fake_time: Any
) -> None:
    paused = asyncio.Event()

    async def forever(seconds: float) -> None:
        paused.set()
        await asyncio.Event().wait()

    tape.before = unavailable
    timing = replace(fake_time.timing(), sleep_async=forever)
    transport = InMemoryTransport(tape).aio
    settings: dict[str, Any] = {"policy": policy, "transport": transport, "timing": timing}
    async with AsyncClient(state_dir=tmp_path / "state", **settings) as client:
        task = asyncio.create_task(client.contribute("income", 1))
        await paused.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        tape.before = lambda request: None
        assert (await client.contribute("income", 1)).acknowledged
    assert len(set(tape.submitted)) == 1
