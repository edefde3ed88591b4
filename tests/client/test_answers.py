"""Test the meaning of a server's answers: counted, refused for good, or unknown."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from geoveil.client import (
    DeliveryStatus,
    FlushResult,
    Limit,
    Policy,
    Rejection,
)
from geoveil.gp import GeoPrivacy
from geoveil.proto.v1 import report_pb2

Make = Callable[..., Any]
ONE = FlushResult(acknowledged=1, rejected=0, pending=0)
KEPT = FlushResult(acknowledged=0, rejected=0, pending=1)


def result(status: Any, **more: Any) -> report_pb2.ReportResult:
    return report_pb2.ReportResult(status=status, **more)


@pytest.fixture
def client(make_either, state_dir):
    return make_either(state_dir=state_dir, fetched=("income",))


def test_half_of_what_waits_can_be_refused(
    make_either: Make, state_dir: Path | None, collector: Any, make_campaign: Any, steering: Any,
    fake_time: Any, tape: Any,
) -> None:  # fmt: skip
    collector.add(make_campaign("daily", period=timedelta(days=1)))
    policy = Policy({"household income": Limit(campaign=GeoPrivacy(9, 8000, "dollar"))})
    client = make_either(state_dir=state_dir, policy=policy, fetched=("daily",))
    for _ in range(4):
        client.contribute("daily", 52_000)
        fake_time.date += timedelta(days=1)
    refused = result(3, reason=4, detail="answer = 9")
    answers = iter([result(1), refused, result(2), refused])

    def answer(request: Any) -> None:
        steering.results = [next(answers)]

    tape.before = answer
    assert client.flush() == FlushResult(acknowledged=2, rejected=2, pending=0)
    rejection = Rejection("OUT_OF_RANGE", "answer = 9")
    assert [receipt.rejection for receipt in client.history()] == [None, rejection] * 2
    assert [receipt.acknowledged for receipt in client.history()] == [True, False] * 2


@pytest.mark.parametrize(
    ("number", "name"), [(5, "NOT_OPEN"), (2, "ID_CONFLICT"), (0, "UNSPECIFIED"), (99, "99")]
)
def test_rejected_is_for_good(client, tape, steering, number, name):
    detail = "closes was\n2026-01-01" + "!" * 5000
    steering.results = [result(3, reason=number, detail=detail)]
    client.contribute("income", 1)
    assert client.flush() == FlushResult(acknowledged=0, rejected=1, pending=0)
    assert client.flush() == FlushResult(acknowledged=0, rejected=0, pending=0)
    (receipt,) = client.history()
    assert receipt.status is DeliveryStatus.REJECTED
    assert receipt.rejection is not None
    assert receipt.rejection.reason == name
    assert receipt.rejection.detail.startswith("closes was\\n2026-01-01!!!")
    assert len(receipt.rejection.detail) < 400
    assert client.contribute("income", 2) == receipt
    assert len(tape.submitted) == 1


def test_duplicate_means_counted(client, steering):
    steering.results = [result(2)]
    client.contribute("income", 1)
    assert client.flush() == ONE


@pytest.mark.parametrize("results", [[], [result(1)] * 2, [result(0)], [result(17)]])
def test_an_answer_that_breaks_the_contract_proves_nothing(client, tape, steering, results):
    steering.results = results
    client.contribute("income", 1)
    assert client.flush() == KEPT
    (receipt,) = client.history()
    assert receipt.failure is not None
    assert receipt.failure.startswith("INTERNAL: the server gave")
    steering.results = None
    assert client.flush() == ONE
    assert len(set(tape.submitted)) == 1


def test_an_answer_that_is_no_message_proves_nothing(client, tape):
    client.contribute("income", 1)
    genuine, tape.handler = tape.handler, lambda request: b"<html>"
    assert client.flush() == KEPT
    tape.handler = genuine
    assert client.flush() == ONE
