"""Delivery: the same bytes until the server has answered; what answers mean, and what waits."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from geoveil.client import (
    DeliveryStatus,
    FlushResult,
    InMemoryCollector,
    InMemoryTransport,
    Limit,
    OutboxFull,
    ParameterError,
    Policy,
    Rejection,
    ReportCounts,
    TransportError,
)
from geoveil.gp import GeoPrivacy
from geoveil.proto.v1 import collector_pb2, report_pb2

NAMES = ("a", "b", "c")
ONE = FlushResult(acknowledged=1, rejected=0, pending=0)
KEPT = FlushResult(acknowledged=0, rejected=0, pending=1)


@pytest.fixture
def client(make_either, state_dir, collector, make_campaign):
    """A client that has three campaigns besides the usual ones."""
    for name in NAMES:
        collector.add(make_campaign(name))
    return make_either(state_dir=state_dir, fetched=("income", *NAMES))


def test_what_waits_is_sent_and_noted(client, tape, collector):
    receipt = client.contribute("income", 52_000)
    assert client.flush() == ONE
    (report,) = collector.reports("income")
    assert report.report_id.hex() == receipt.report_id
    assert client.history()[0].acknowledged
    assert client.flush() == FlushResult(acknowledged=0, rejected=0, pending=0)
    assert len(tape.submitted) == 1


def test_an_empty_flush_needs_no_network(client, tape):
    asked = len(tape.requests)
    assert client.flush() == FlushResult(acknowledged=0, rejected=0, pending=0)
    assert len(tape.requests) == asked


@pytest.mark.parametrize("code", ["UNAVAILABLE", "ABORTED"])
def test_what_may_pass_is_tried_again_with_the_same_bytes(client, tape, steering, fake_time, code):
    client.contribute("income", 52_000)
    tries = iter(range(3))

    def recover(request: Any) -> None:
        steering.failures[""] = TransportError(code) if next(tries, None) is not None else None

    tape.before = recover
    assert client.flush() == ONE
    assert len(tape.submitted) == 4
    assert len(set(tape.submitted)) == 1
    assert fake_time.slept == pytest.approx([0.1, 0.2, 0.4])


@pytest.mark.parametrize("code", ["INTERNAL", "UNAUTHENTICATED"])
def test_what_can_not_pass_is_tried_once_per_flush(client, tape, steering, fake_time, code):
    client.contribute("income", 52_000)
    steering.failures["income"] = TransportError(code, "no")
    assert client.flush() == KEPT
    assert steering.asked == ["income"]
    assert fake_time.slept == []
    (receipt,) = client.history()
    assert receipt.failure == f"{code}: no"
    assert receipt.status is DeliveryStatus.PENDING
    steering.failures.clear()
    assert client.flush() == ONE
    assert client.history()[0].failure is None
    assert len(set(tape.submitted)) == 1


def test_exhaustion_is_waited_out_for_as_long_as_the_server_says(client, tape, steering, fake_time):
    client.contribute("income", 52_000)
    errors = [TransportError("RESOURCE_EXHAUSTED", retry_after_s=2.0)]

    def once(request: Any) -> None:
        steering.failures[""] = errors.pop() if errors else None

    tape.before = once
    assert client.flush() == ONE
    assert fake_time.slept == pytest.approx([0.1 + 2.0 * 1.5])


def test_a_wait_beyond_the_deadline_is_not_begun(client, steering, fake_time):
    client.contribute("income", 52_000)
    steering.failures[""] = TransportError("UNAVAILABLE", retry_after_s=60.0)
    assert client.flush(timeout_s=10.0) == KEPT
    assert fake_time.slept == []
    assert steering.asked == ["income"]


@pytest.mark.deep(keep=9)
@pytest.mark.parametrize("timeout_s", [0.5, 3.0, 60.0])
def test_one_deadline_is_over_all_tries(client, tape, steering, fake_time, timeout_s):
    """Requests take a second each, and none is given more time than is left."""
    client.contribute("income", 52_000)
    given: list[float] = []
    steering.failures[""] = TransportError("UNAVAILABLE")

    def slow(request: Any) -> None:
        fake_time.now_s += min(1.0, max(0.0, start + timeout_s - fake_time.now_s))
        given.append(fake_time.now_s - start)

    start = fake_time.now_s
    tape.before = slow
    assert client.flush(timeout_s=timeout_s) == KEPT
    assert fake_time.now_s - start <= timeout_s
    assert 1 <= len(given) <= timeout_s + 1


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan"), float("inf"), 1e10, "10"])
def test_the_time_of_a_flush_is_finite(client, timeout_s):
    with pytest.raises(ParameterError, match="timeout_s"):
        client.flush(timeout_s)
    with pytest.raises(ParameterError, match="timeout_s"):
        client.fetch("income", timeout_s)


def test_a_lost_answer_is_no_second_report(client, tape, collector):
    client.contribute("income", 52_000)
    lost = iter([True])

    def lose(request: Any) -> None:
        if next(lost, False):
            raise TransportError("DEADLINE_EXCEEDED", "the answer was lost")

    tape.after = lose
    assert client.flush() == ONE
    assert len(tape.submitted) == 2
    assert len(set(tape.submitted)) == 1
    assert len(collector.reports("income")) == 1


def test_flush_counts_what_became_of_each(client, tape, collector):
    for name in ("income", *NAMES):
        client.contribute(name, 52_000)
    collector.close("a")
    del collector._held["b"]
    assert client.flush() == FlushResult(acknowledged=2, rejected=1, pending=1)
    assert client.flush() == FlushResult(acknowledged=0, rejected=0, pending=1)
    counts = client.counts()
    assert (counts.acknowledged, counts.rejected, counts.pending) == (2, 1, 1)
    assert len(set(tape.submitted)) == 4


@pytest.mark.parametrize(
    "failure",
    [TransportError("INTERNAL"), TransportError("RESOURCE_EXHAUSTED", retry_after_s=60.0)],
    ids=["for good", "later"],
)
def test_a_campaign_that_fails_does_not_hold_up_another(client, steering, fake_time, failure):
    """Each is tried as its own answers permit: another time, as often as there is time, once."""
    for name in NAMES:
        client.contribute(name, 52_000)
    steering.failures["a"] = failure
    steering.failures["b"] = TransportError("ABORTED")
    assert client.flush(timeout_s=5.0) == FlushResult(acknowledged=1, rejected=0, pending=2)
    assert steering.asked.count("a") == 1
    assert steering.asked.count("b") > 3
    assert steering.asked.count("c") == 1


def test_a_server_that_is_down_is_not_asked_for_every_campaign(client, steering):
    for name in NAMES:
        client.contribute(name, 52_000)
    steering.failures[""] = TransportError("UNAUTHENTICATED", "who are you?")
    assert client.flush() == FlushResult(acknowledged=0, rejected=0, pending=3)
    assert len(steering.asked) == 1


def test_the_date_of_the_first_departure_stays(client, steering, fake_time):
    receipt = client.contribute("income", 1)
    assert receipt.sent is None
    steering.failures[""] = TransportError("INTERNAL")
    client.flush()
    (left,) = client.history()
    assert left.sent == receipt.drawn
    fake_time.now_s += 60
    steering.failures.clear()
    client.flush()
    (arrived,) = client.history()
    assert arrived.sent == left.sent
    assert (arrived.settled - arrived.drawn).total_seconds() == 60


class ForeignError(Exception):
    """An error of a transport that does not keep its promise."""


def test_a_foreign_error_loses_nothing(make_either, tape, collector):
    client = make_either(fetched=("income",))
    client.contribute("income", 52_000)

    def fail(request: Any) -> None:
        raise ForeignError

    tape.before = fail
    with pytest.raises(ForeignError):
        client.flush()
    tape.before = lambda request: None
    assert client.flush() == ONE
    assert len(collector.reports("income")) == 1


def test_both_shells_take_the_same_steps(shells, make_source, collector, fake_time):
    """Fail twice, lose an answer, then work: the same requests, pauses and receipts from both."""
    campaign = collector._held["income"].campaign

    def run(make: Callable[..., Any]) -> Any:
        failures = ["UNAVAILABLE", "ABORTED", "", "", "lost", "DEADLINE_EXCEEDED"]
        fresh, seen, paused = InMemoryCollector([campaign]), [], len(fake_time.slept)

        def handler(request: Any) -> Any:
            seen.append(request.SerializeToString(deterministic=True))
            failure = failures.pop(0) if failures else ""
            if failure not in ("", "lost"):
                raise TransportError(failure)
            response = fresh(request)
            if failure == "lost":
                raise TransportError("UNAVAILABLE", "the answer was lost")
            return response

        client = make(transport=InMemoryTransport(handler), source=make_source(5))
        fake_time.now_s = 0.0
        said = [client.fetch("income"), client.fetch("income")]
        said += [client.contribute("income", 99_000), client.flush(), client.history()]
        return said, seen, fake_time.slept[paused:]

    with asyncio.Runner() as runner:
        first = run(shells.blocking)
        assert run(lambda **settings: shells.awaited(runner, **settings)) == first
        shells.close()
    assert first[2] == pytest.approx([0.1, 0.2, 0.1, 0.2])
    submitted = [collector_pb2.SubmitReportsRequest.FromString(s) for s in first[1][-3:]]
    assert len({s.reports[0].SerializeToString() for s in submitted}) == 1


Make = Callable[..., Any]


def result(status: Any, **more: Any) -> report_pb2.ReportResult:
    return report_pb2.ReportResult(status=status, **more)


@pytest.fixture
def device(make_either, state_dir):
    return make_either(state_dir=state_dir, fetched=("income",))


def test_half_of_what_waits_can_be_refused(
    make_either: Make, state_dir: Path | None, collector: Any, make_campaign: Any, steering: Any,
    fake_time: Any, tape: Any,
) -> None:  # fmt: skip
    collector.add(make_campaign("daily", period=timedelta(days=1)))
    policy = Policy({"household income": Limit(campaign=GeoPrivacy(9, 8000, "dollar"))})
    device = make_either(state_dir=state_dir, policy=policy, fetched=("daily",))
    for _ in range(4):
        device.contribute("daily", 52_000)
        fake_time.date += timedelta(days=1)
    refused = result(3, reason=4, detail="answer = 9")
    answers = iter([result(1), refused, result(2), refused])

    def answer(request: Any) -> None:
        steering.results = [next(answers)]

    tape.before = answer
    assert device.flush() == FlushResult(acknowledged=2, rejected=2, pending=0)
    rejection = Rejection("OUT_OF_RANGE", "answer = 9")
    assert [receipt.rejection for receipt in device.history()] == [None, rejection] * 2
    assert [receipt.acknowledged for receipt in device.history()] == [True, False] * 2


@pytest.mark.parametrize(
    ("number", "name"), [(5, "NOT_OPEN"), (2, "ID_CONFLICT"), (0, "UNSPECIFIED"), (99, "99")]
)
def test_rejected_is_for_good(device, tape, steering, number, name):
    detail = "closes was\n2026-01-01" + "!" * 5000
    steering.results = [result(3, reason=number, detail=detail)]
    device.contribute("income", 1)
    assert device.flush() == FlushResult(acknowledged=0, rejected=1, pending=0)
    assert device.flush() == FlushResult(acknowledged=0, rejected=0, pending=0)
    (receipt,) = device.history()
    assert receipt.status is DeliveryStatus.REJECTED
    assert receipt.rejection is not None
    assert receipt.rejection.reason == name
    assert receipt.rejection.detail.startswith("closes was\\n2026-01-01!!!")
    assert len(receipt.rejection.detail) < 400
    assert device.contribute("income", 2) == receipt
    assert len(tape.submitted) == 1


@pytest.mark.parametrize("results", [[], [result(1)] * 2, [result(0)], [result(17)]])
def test_an_answer_that_breaks_the_contract_proves_nothing(device, tape, steering, results):
    steering.results = results
    device.contribute("income", 1)
    assert device.flush() == KEPT
    (receipt,) = device.history()
    assert receipt.failure is not None
    assert receipt.failure.startswith("INTERNAL: the server gave")
    steering.results = None
    assert device.flush() == ONE
    assert len(set(tape.submitted)) == 1


def test_an_answer_that_is_no_message_proves_nothing(device, tape):
    device.contribute("income", 1)
    genuine, tape.handler = tape.handler, lambda request: b"<html>"
    assert device.flush() == KEPT
    tape.handler = genuine
    assert device.flush() == ONE


DAY = timedelta(days=1)


@pytest.fixture
def daily(collector, make_campaign, fake_time):
    campaign = make_campaign("daily", period=DAY)
    collector.add(campaign)
    fake_time.date = campaign.opens
    return campaign


@pytest.fixture
def make(make_either, daily, state_dir):
    policy = Policy({"household income": Limit(campaign=GeoPrivacy(400, 8000, "dollar"))})

    def make(**settings: Any) -> Any:
        return make_either(state_dir=state_dir, policy=policy, fetched=("daily",), **settings)

    return make


def fill(client: Any, fake_time: Any, days: int) -> None:
    for _ in range(days):
        client.contribute("daily", 52_000)
        fake_time.date += DAY


def test_the_report_that_is_too_many_is_not_drawn(make, fake_time, make_source):
    source = make_source(0)
    client = make(most_pending=3, source=source)
    fill(client, fake_time, 3)
    drawn, spent = list(source.draws), client.counts()
    for tries in (1, 2):
        with pytest.raises(OutboxFull) as raised:
            client.contribute("daily", 52_000)
        error = raised.value
        assert (error.reports, error.most_reports) == (3, 3)
        assert error.size == spent.pending_bytes
        assert "3 reports" in str(error)
        assert client.counts().refused == tries
    assert source.draws == drawn
    assert len(client.history()) == 3
    # The day is not lost: once there is room, it can be answered.
    assert client.flush().acknowledged == 3
    assert client.contribute("daily", 52_000).period == 3
    assert client.counts() == ReportCounts(
        pending=1, pending_bytes=client.counts().pending_bytes, acknowledged=3, rejected=0,
        expired=0, refused=2,
    )  # fmt: skip


def test_receipts_are_shown_although_the_outbox_is_full(make, fake_time):
    client = make(most_pending=1)
    receipt = client.contribute("daily", 52_000)
    assert client.contribute("daily", 1) == receipt
    assert client.counts().refused == 0


def test_the_bound_holds_over_restarts(make_either, daily, fake_time, tmp_path):
    policy = Policy({"household income": Limit(campaign=GeoPrivacy(400, 8000, "dollar"))})
    settings: dict[str, Any] = {
        "state_dir": tmp_path / "state", "policy": policy, "most_pending": 2
    }  # fmt: skip
    client = make_either(fetched=("daily",), **settings)
    fill(client, fake_time, 2)
    client.close(0)
    again = make_either(**settings)
    with pytest.raises(OutboxFull):
        again.contribute("daily", 52_000)
    other = make_either(**settings)
    assert other.flush() == FlushResult(acknowledged=2, rejected=0, pending=0)
    assert again.contribute("daily", 52_000)


@pytest.mark.parametrize("name", ["most_pending", "most_pending_bytes"])
@pytest.mark.parametrize("value", [0, 1.5, True])
def test_bounds_are_positive_integers(make_either, name, value):
    with pytest.raises(ParameterError, match=name):
        make_either(**{name: value})


@pytest.mark.parametrize(("later", "expired"), [(timedelta(0), False), (DAY / 86_400, True)])
def test_what_waits_is_given_up_thirty_days_after_its_campaign_closed(
    make, fake_time, steering, daily, later, expired
):
    client = make()
    client.contribute("daily", 52_000)
    steering.failures[""] = TransportError("INTERNAL")
    fake_time.date = daily.closes + 30 * DAY + later
    result = client.flush()
    (receipt,) = client.history()
    assert (receipt.status is DeliveryStatus.EXPIRED) == expired
    assert result.pending == (0 if expired else 1)
    assert client.counts().expired == (1 if expired else 0)
    if expired:
        assert receipt.settled == fake_time.date
        assert steering.asked == []


def test_a_campaign_that_expired_makes_room(
    make, fake_time, steering, daily, collector, make_campaign
):
    client = make(most_pending=1)
    client.contribute("daily", 52_000)
    fake_time.date = daily.closes + 31 * DAY
    collector.add(make_campaign("next", closes=fake_time.date + DAY))
    client.fetch("next")
    with pytest.raises(OutboxFull):
        client.contribute("next", 52_000)
    client.flush()
    assert client.contribute("next", 52_000)


def test_an_answer_that_comes_after_the_report_was_given_up_counts(
    make_client, daily, fake_time, tmp_path, tape
):
    """Two processes: one gives up while the other's request is under way."""
    policy = Policy({"household income": Limit(campaign=GeoPrivacy(400, 8000, "dollar"))})
    settings: dict[str, Any] = {"state_dir": tmp_path / "state", "policy": policy}
    slow, other = make_client(fetched=("daily",), **settings), make_client(**settings)
    slow.contribute("daily", 52_000)
    handler = tape.handler

    def give_up_meanwhile(request: Any) -> Any:
        tape.handler = handler
        fake_time.date = daily.closes + 31 * DAY
        assert other.flush() == FlushResult(acknowledged=0, rejected=0, pending=0)
        assert other.history()[0].status is DeliveryStatus.EXPIRED
        return handler(request)

    tape.handler = give_up_meanwhile
    assert slow.flush().acknowledged == 1
    assert slow.history()[0].status is DeliveryStatus.ACKNOWLEDGED
