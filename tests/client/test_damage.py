"""A damaged row of a state directory: it is given up, and shown; nothing else waits for it."""

import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from geoveil.client import (
    BudgetExceeded,
    InMemoryCollector,
    JournalError,
    Limit,
    Policy,
    Status,
)
from geoveil.client.journal import FILE_NAME
from geoveil.gp import GeoPrivacy

Make = Callable[..., Any]
NAMES = ("first", "second", "third")
UNREADABLE = [
    "digest = 7",
    "attribute = CAST(x'ff' AS TEXT)",
    "epsilon = -1",
    "epsilon = 'much'",
    "per = 0",
    "step_exponent = 0.5",
    "closes = 'soon'",
    "drawn = 1e30",
]
"""What leaves no entry at all."""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def permits_two() -> Policy:
    most = GeoPrivacy(1, 8000, "dollar"), GeoPrivacy(3, 8000, "dollar")
    return Policy({"household income": Limit(campaign=most[0], lifetime=most[1])})


@pytest.fixture
def waiting(
    make_either: Make, make_campaign: Any, collector: InMemoryCollector, state: Path,
    permits_two: Policy, make_source: Any,
) -> Any:  # fmt: skip
    """A client with three reports that wait."""
    for name in NAMES:
        collector.add(make_campaign(name))
    client = make_either(state_dir=state, policy=permits_two, fetched=NAMES, source=make_source(0))
    for name in NAMES:
        client.contribute(name, 97_000)
    return client


def damage(state: Path, change: str, name: str = "second") -> None:
    with closing(sqlite3.connect(state / FILE_NAME)) as connection, connection:
        where = f"WHERE campaign_id = '{name}'"
        assert connection.execute(f"UPDATE entry SET {change} {where}").rowcount == 1


def statuses(state: Path) -> dict[str, int]:
    with closing(sqlite3.connect(state / FILE_NAME)) as connection:
        return dict(connection.execute("SELECT campaign_id, status FROM entry"))


@pytest.mark.parametrize("change", ["report = x'ff'", "report = x'0a10ff'", *UNREADABLE])
def test_the_others_are_delivered_and_it_is_counted(
    waiting: Any, state: Path, collector: InMemoryCollector, change: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    damage(state, change)
    with caplog.at_level(logging.WARNING, "geoveil.client"):
        result = waiting.flush()
        again = waiting.flush()
    assert (result.acknowledged, result.rejected, result.pending) == (2, 0, 0)
    assert (again.acknowledged, again.pending) == (0, 0)
    counts = waiting.counts()
    assert (counts.acknowledged, counts.undeliverable, counts.pending) == (2, 1, 0)
    assert [len(collector.reports(name)) for name in NAMES] == [1, 0, 1]
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(str(state))
    assert said.endswith("is damaged: 1 of the reports that wait can't be read, and are given up")


def test_without_damage_nothing_is_given_up(waiting: Any) -> None:
    """The control."""
    assert waiting.flush().acknowledged == 3
    assert waiting.counts().undeliverable == 0


def test_the_history_keeps_it_with_its_price(waiting: Any, state: Path) -> None:
    damage(state, "report = x'ff'")
    waiting.flush()
    first, second, third = waiting.history()
    assert (first.status, third.status) == (Status.ACKNOWLEDGED, Status.ACKNOWLEDGED)
    assert (second.campaign_id, second.status) == ("second", Status.UNDELIVERABLE)
    assert second.privacy == GeoPrivacy(1, 8000, "dollar")
    assert (second.report_id, second.answers, second.perturbed) == ("", (), ())
    assert second.settled is not None
    assert not second.acknowledged
    (budget,) = waiting.budgets()
    assert budget.spent == 3.0  # it was drawn, and may have left before it was damaged


def test_it_is_never_drawn_for_again(
    waiting: Any, state: Path, collector: InMemoryCollector, make_campaign: Any
) -> None:
    damage(state, "report = x'ff'")
    waiting.flush()
    receipt = waiting.contribute("second", 1.0)
    assert receipt.status is Status.UNDELIVERABLE
    assert waiting.flush().acknowledged == 0
    assert collector.reports("second") == ()
    collector.add(make_campaign("fourth"))
    waiting.fetch("fourth")
    with pytest.raises(BudgetExceeded):  # nor is its price forgotten
        waiting.contribute("fourth", 97_000)


@pytest.mark.parametrize("change", ["epsilon = -1", "per = 0", "drawn = 1e30"])
def test_a_history_without_a_price_or_a_date_is_none(
    waiting: Any, state: Path, change: str
) -> None:
    damage(state, change)
    waiting.flush()
    with pytest.raises(JournalError, match="row of 'second'"):
        waiting.history()
    with pytest.raises(JournalError, match="row of 'second'"):
        waiting.contribute("second", 97_000)  # closed, not open: no second draw
    assert waiting.contribute("first", 1.0).acknowledged


def test_what_was_counted_before_its_row_was_damaged_stays_counted(
    waiting: Any, state: Path
) -> None:
    assert waiting.flush().acknowledged == 3
    damage(state, "report = x'ff'")
    waiting.flush()
    assert [receipt.status for receipt in waiting.history()] == [Status.ACKNOWLEDGED] * 3
    assert [len(receipt.answers) for receipt in waiting.history()] == [1, 0, 1]
    assert waiting.counts().undeliverable == 0


@pytest.mark.parametrize("status", [9, -1, "'sent'"])
def test_a_status_that_nobody_wrote_is_counted_as_damage(
    waiting: Any, state: Path, status: object
) -> None:
    damage(state, f"status = {status}")
    assert waiting.flush().acknowledged == 2
    assert waiting.counts().undeliverable == 1


def test_all_that_waits_may_be_damaged(waiting: Any, state: Path) -> None:
    for name in NAMES:
        damage(state, "report = x'ff'", name)
    assert waiting.flush().pending == 0
    assert statuses(state) == dict.fromkeys(NAMES, int(Status.UNDELIVERABLE))
    assert waiting.counts().pending_bytes == 0  # there is room for others


def test_the_background_passes_over_it(
    make_client: Make, make_campaign: Any, collector: InMemoryCollector, state: Path, tape: Any,
    permits_two: Policy,
) -> None:  # fmt: skip
    for name in NAMES[:2]:
        collector.add(make_campaign(name))
    device: dict[str, Any] = {"state_dir": state, "policy": permits_two}
    make_client(**device, fetched=NAMES[:2]).contribute("first", 97_000)
    damage(state, "report = x'ff'", "first")
    client = make_client(**device, fetched=(), background=True)
    sent = threading.Event()
    tape.after = lambda request: sent.set()
    client.contribute("second", 97_000)
    assert sent.wait(30)
    client.close()
    assert statuses(state)["first"] == Status.UNDELIVERABLE
    assert len(collector.reports("second")) == 1
