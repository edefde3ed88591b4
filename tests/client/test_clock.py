"""Test wrong clocks: at the ends of the calendar, without a time zone, jumping."""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from geoveil.client import (
    BudgetExceeded,
    CampaignNotOpen,
    Limit,
    ParameterError,
    Policy,
    Window,
)
from geoveil.client.device_session import _say_that_all_is_forgotten
from tests.client.conftest import dollars

Make = Callable[..., Any]
CENTURY = timedelta(days=36_525)
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
EAST, WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))
ENDS = {
    "first": FIRST,
    "first, further east": datetime.min.replace(tzinfo=EAST),
    "first year": FIRST + timedelta(days=300),
    "last": LAST,
    "last, further west": datetime.max.replace(tzinfo=WEST),
    "last year": LAST - timedelta(days=300),
}


@pytest.fixture
def policy():
    """One answer in a century."""
    window = Window(limit=dollars(1), length=CENTURY)
    return Policy({"household income": Limit(campaign=dollars(1), windows=(window,))})


@pytest.mark.parametrize("end", ENDS)
def test_every_call_works_at_the_ends_of_the_calendar(
    make_either: Make, state_dir: Path | None, collector: Any, make_campaign: Any,
    fake_time: Any, end: str,
) -> None:  # fmt: skip
    now = ENDS[end]
    early = now.year == 1
    dates = {"opens": FIRST if early else LAST - timedelta(days=3650)}
    dates["closes"] = FIRST + timedelta(days=3650) if early else LAST
    asked = dates | ({} if now < LAST else {"closes": LAST})
    for name in ("one", "other"):
        collector.add(make_campaign(name, **asked))
    timing = replace(fake_time.timing(), now=lambda: now)
    client = make_either(state_dir=state_dir, timing=timing, fetched=("one", "other"))
    assert [b.spent for b in client.budgets()] == [0.0]
    if now >= LAST:  # the last moment of the calendar is when the campaign closes
        with pytest.raises(CampaignNotOpen):
            client.contribute("one", 52_000)
        return
    receipt = client.contribute("one", 52_000)
    assert receipt.drawn == max(now, FIRST)
    assert [b.spent for b in client.budgets()] == [1.0]
    with pytest.raises(BudgetExceeded) as refused:
        client.contribute("other", 52_000)
    assert refused.value.frees == (receipt.drawn + CENTURY if early else None)
    assert client.flush().acknowledged == 1
    assert client.history()[0].sent == receipt.drawn
    assert client.counts().acknowledged == 1


@pytest.mark.parametrize("now", [datetime(2026, 5, 1), datetime.min, "2026-05-01", None, 1.8e9])
def test_a_clock_that_tells_no_date_is_refused(make_either, fake_time, now):
    client = make_either(timing=replace(fake_time.timing(), now=lambda: now))
    with pytest.raises(ParameterError, match=r"timing\.now must be a date with a time zone"):
        client.budgets()


def test_a_clock_that_jumps_opens_no_window_when_it_comes_back(
    make_either, state_dir, collector, make_campaign, fake_time
):
    collector.add(make_campaign("other"))
    client = make_either(state_dir=state_dir, fetched=("income", "other"))
    today = fake_time.date
    client.contribute("income", 52_000)
    client.flush(1)
    day = timedelta(days=1)
    for date, spent in ((FIRST, 1.0), (today - day, 1.0), (LAST - day, 0.0), (today, 1.0)):
        fake_time.date = date
        assert [b.spent for b in client.budgets()] == [spent]
    with pytest.raises(BudgetExceeded):
        client.contribute("other", 52_000)


def test_a_client_that_forgets_says_so_once(make_either, tmp_path, caplog):
    _say_that_all_is_forgotten.cache_clear()
    # A fleet simulated in this process before may have kept that module quiet.
    with caplog.at_level(logging.WARNING, "geoveil.client.device_session"):
        make_either(state_dir=tmp_path / "state")
        assert caplog.records == []
        for _ in range(3):
            make_either()
    (record,) = caplog.records
    assert "starts with full limits" in record.getMessage()
