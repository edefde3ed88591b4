"""Exactly once, whatever happens: random faults against a model of what a server may have seen.

Each run is a sequence of contributions and flushes on one state directory, by clients that come
and go. Any request or answer may be lost, and the process may end at any step. It fails if

* the server ever sees two different reports for one campaign, or counts more than one;
* a receipt says acknowledged for a report that is not counted, or names another report;
* a campaign is not counted once after the faults have stopped.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from geoveil.client import ClientError, InMemoryCollector, InMemoryTransport, TransportError
from geoveil.client.sqlite_journal import SqliteJournal
from geoveil.proto.v1 import collector_pb2

FAULTS = ("", "", "", "lose request", "lose answer", "crash before", "crash after")
NAMES = ("income", "other")


class Crash(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("seed", range(25))
def test_every_report_counts_exactly_once(
    seed: int,
    make_client: Callable[..., Any],
    make_campaign: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = random.Random(seed)
    faulty = True
    collector = InMemoryCollector([make_campaign(name) for name in NAMES])
    seen: dict[str, set[bytes]] = {name: set() for name in NAMES}

    def through(act: Callable[[], Any]) -> Any:
        """Do something, or part of it."""
        fault = rng.choice(FAULTS) if faulty else ""
        if fault == "lose request":
            raise TransportError(rng.choice(["UNAVAILABLE", "INTERNAL"]))
        if fault == "crash before":
            raise Crash
        result = act()
        if fault == "lose answer":
            raise TransportError(rng.choice(["UNAVAILABLE", "RESOURCE_EXHAUSTED"]))
        if fault == "crash after":
            raise Crash
        return result

    def handler(request: Any) -> Any:
        def arrive() -> Any:
            if isinstance(request, collector_pb2.SubmitReportsRequest):
                seen[request.campaign_id].update(
                    r.SerializeToString(deterministic=True) for r in request.reports
                )
            return collector(request)

        return through(arrive)

    def crashing(method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **more: Any) -> Any:
            try:
                return through(lambda: method(*args, **more))
            except TransportError:
                raise Crash from None

        return wrapped

    for name in ("find", "record", "settle", "pending"):
        monkeypatch.setattr(SqliteJournal, name, crashing(getattr(SqliteJournal, name)))

    def fresh() -> Any:
        return make_client(
            state_dir=tmp_path / "state", transport=InMemoryTransport(handler), timeout_s=2.0
        )

    client = fresh()
    for _ in range(12):
        name = rng.choice(NAMES)
        try:
            if rng.random() < 0.2:
                client.flush()
            else:
                receipt = client.contribute(name, rng.uniform(0, 200_000))
                (counted,) = collector.reports(name)
                assert receipt.acknowledged
                assert receipt.report_id == counted.report_id.hex()
        except ClientError:
            pass
        except Crash:
            client = fresh()
        assert all(len(collector.reports(name)) <= 1 for name in NAMES)
        assert all(len(reports) <= 1 for reports in seen.values())
    faulty = False
    for name in NAMES:
        receipt = client.contribute(name, 0.0)
        (counted,) = collector.reports(name)
        assert receipt.report_id == counted.report_id.hex()
        assert len(seen[name]) == 1
    assert client.flush().pending == 0
