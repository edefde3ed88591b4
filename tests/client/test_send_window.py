"""Test that reports leave a window at independent random times."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare, ks_2samp, kstest

from geoveil.analyst import central_privacy
from geoveil.campaign import Campaign, decode, seal
from geoveil.client import CampaignNotOpen, Limit, Policy, ReportBuilder
from geoveil.gp import Cap, DebiasedLaplace, GeoPrivacy, ParameterError, Threshold
from tests.analyst.test_shuffle import black_box

Make = Callable[..., Any]
ALPHA = 1e-6
OPENS = datetime(2026, 5, 1, tzinfo=UTC)
DAY, TICK = timedelta(days=1), timedelta(microseconds=1)
CLOSES = OPENS + 10 * DAY
BEGINS = CLOSES - 2 * DAY
POLICY = Policy({"household income": Limit(campaign=GeoPrivacy(100, 8000, "dollar"))})


@pytest.fixture
def windowed(make_campaign):
    made: Campaign = make_campaign("windowed", opens=OPENS, closes=CLOSES, window=2 * DAY)
    return made


@pytest.fixture
def make(make_either, collector, windowed, fake_time, make_source):
    collector.add(windowed)
    fake_time.date = OPENS

    def made(**settings: Any) -> Any:
        chosen = {"policy": POLICY, "source": make_source(3)} | settings
        return make_either(**chosen)

    return made


def move(fake_time: Any, when: datetime) -> None:
    fake_time.date = when - timedelta(seconds=fake_time.now_s)


def test_a_report_leaves_at_its_time_and_no_sooner(make, fake_time, tape):
    client = make(fetched=("windowed",))
    receipt = client.contribute("windowed", 52_000)
    assert BEGINS <= receipt.departs < CLOSES
    assert receipt.to_dict()["departs"] == receipt.departs.isoformat()
    assert client.contribute("windowed", 52_000).departs == receipt.departs
    for when in (OPENS, BEGINS, receipt.departs - timedelta(minutes=1)):
        move(fake_time, when)
        assert client.flush().pending == 1
    assert tape.submitted == []
    assert client.flush(timeout_s=120).acknowledged == 1  # which waits for it
    assert client.history()[0].sent == receipt.departs


def test_other_reports_do_not_wait_for_it(make, tape):
    client = make(fetched=("windowed", "income"))
    client.contribute("windowed", 52_000)
    client.contribute("income", 52_000)
    done = client.flush()
    assert (done.acknowledged, done.pending) == (1, 1)
    assert [r.departs is None for r in client.history()] == [True, False]


def test_a_restart_and_a_clock_that_is_set_keep_its_time(
    make_either, collector, windowed, fake_time, tmp_path
):
    collector.add(windowed)
    fake_time.date = OPENS
    chosen: dict[str, Any] = {"policy": POLICY, "state_dir": tmp_path / "state"}
    client = make_either(**chosen, fetched=("windowed",))
    departs = client.contribute("windowed", 52_000).departs
    client.close(0)
    for when in (OPENS - 400 * DAY, BEGINS, departs - timedelta(minutes=1), OPENS):
        move(fake_time, when)
        client = make_either(**chosen)
        assert client.flush().pending == 1
        assert client.history()[0].departs == departs
        client.close(0)
    move(fake_time, departs)  # set forward
    assert make_either(**chosen).flush().acknowledged == 1


def test_one_that_is_late_leaves_at_once(make, fake_time):
    client = make(fetched=("windowed",))
    client.contribute("windowed", 52_000)
    move(fake_time, CLOSES - TICK)
    assert client.flush().acknowledged == 1


def test_answers_end_where_the_window_begins(make, fake_time, tape):
    client = make(fetched=("windowed",))
    move(fake_time, BEGINS)
    with pytest.raises(CampaignNotOpen, match="is in its window: it takes no answers now"):
        client.contribute("windowed", 52_000)
    move(fake_time, BEGINS - TICK)
    drawn = client.contribute("windowed", 52_000)
    move(fake_time, BEGINS)
    assert client.contribute("windowed", 1.0) == drawn  # what is kept is shown


def test_each_period_has_one(make, collector, make_campaign, fake_time):
    closes = OPENS + 9 * DAY + DAY / 2  # the last period is short
    weekly = make_campaign("p", opens=OPENS, closes=closes, period=3 * DAY, window=DAY / 4)
    collector.add(weekly)
    client = make(fetched=("p",))
    for period, ends in enumerate((OPENS + 3 * DAY, OPENS + 6 * DAY, OPENS + 9 * DAY, closes)):
        assert weekly.answered_until(period) == ends - DAY / 4
        move(fake_time, ends - DAY / 4 - TICK)
        departs = client.contribute("p", 52_000).departs
        assert ends - DAY / 4 <= departs < ends
        move(fake_time, departs)
        assert client.flush().acknowledged == 1


def test_the_background_looks_again(make_client, collector, make_campaign):
    # On the real clock: answers end and the window of a minute begins in a moment.
    now = datetime.now(UTC)
    minute = timedelta(minutes=1)
    soon = make_campaign("s", opens=now - DAY, closes=now + minute + DAY / 86_400, window=minute)
    collector.add(soon)
    client = make_client(policy=POLICY, timing=None, fetched=("s",))
    receipt = client.contribute("s", 1.0)
    wait_s = client._sender._to_departure_s([receipt.departs])
    assert 0 <= wait_s <= 61
    steps = client._sender.work()
    assert client._effects.run(steps, client._stop) == pytest.approx(min(wait_s, 60), abs=1)


def departures(campaign: Campaign, source: Any, count: int) -> np.ndarray:
    """Return the parts of the window at which reports leave."""
    builder = ReportBuilder(policy=POLICY, source=source)
    accepted = builder.accept(campaign.campaign_id, seal(campaign.encoded))
    made = (builder.prepare(accepted, 52_000.0 + i) for i in range(count))
    return np.array([(m.departs - BEGINS) / campaign.window for m in made])


def of_answering(hours: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """The planted fault: a time in what is left of a window that begins with the answer."""
    return hours + draws * (1 - hours)


def test_times_are_uniform_whatever_the_hour(windowed, make_source):
    # n = 500, seed 17, α = 1e-6; hours at which people answer, early or late, are of no matter.
    times = departures(windowed, make_source(17), 500)
    hours = np.random.default_rng(17).random(500)
    late = hours > 0.5
    assert kstest(times, "uniform").pvalue > ALPHA
    assert ks_2samp(times[late], times[~late]).pvalue > ALPHA
    planted = of_answering(hours, times)  # control
    assert kstest(planted, "uniform").pvalue < ALPHA
    assert ks_2samp(planted[late], planted[~late]).pvalue < ALPHA


def test_reports_come_in_any_order_alike(windowed, make_source):
    # 200 histories of three who answer one after the other, in which of six orders; seed 19.
    times = departures(windowed, make_source(19), 600).reshape(200, 3)

    def of_orders(histories: np.ndarray) -> float:
        counted = Counter(map(tuple, np.argsort(histories, axis=1).tolist()))
        counts = [*counted.values()] + [0] * (6 - len(counted))
        return float(chisquare(counts).pvalue)

    assert of_orders(times) > ALPHA
    assert of_orders(of_answering(np.array([0.1, 0.3, 0.5]), times)) < ALPHA  # control


@pytest.mark.parametrize(
    "changed",
    [
        {"window": DAY / 86_400},
        {"window": 10 * DAY},
        {"window": "2d"},
        {"window": -DAY},
        {"window": DAY, "period": DAY},
        {"window": DAY, "period": 3 * DAY},  # the last period is as short
    ],
)
def test_windows_that_leave_no_time_to_answer_are_refused(windowed, changed):
    with pytest.raises(ParameterError, match=r"window must be a minute or more, less than the"):
        replace(windowed, **changed)


def test_a_window_is_signed(windowed):
    assert decode(windowed.encoded) == windowed
    assert replace(windowed, window=None).encoded != windowed.encoded


@pytest.mark.deep(keep=0, rest=0)
def test_a_black_box_finds_no_more_than_the_central_epsilon_in_what_arrives():
    # 2 × 50,000 histories of 100 capped reports in the order in which they leave: of somebody who
    # answers first, at either value, with weights for early and for all arrivals; seed 23.
    draw, n, lots, unit = np.random.default_rng(23), 100, 50_000, GeoPrivacy(1.0, per=1.0)
    query = Cap(1.0, 1.0).on(Threshold(0.0, 2.0, "smoothstep"), unit.exact_rate)
    mechanism = DebiasedLaplace(query, unit)
    bound = central_privacy(2.0, n, delta=1e-3)
    window_us = 2 * DAY // TICK

    def most(of_answering_at: float | None) -> float:
        """Return the most that is proven; of times from the hour of the others' answers, if any."""

        def lot(value: float) -> np.ndarray:
            values = np.column_stack([np.full((lots, 1), value), np.full((lots, n - 1), -90.0)])
            reports = mechanism.simulate(values, draw)
            times = draw.integers(window_us, size=(lots, n)) / window_us
            if of_answering_at is not None:
                times = of_answering(np.array([0.0] + [of_answering_at] * (n - 1)), times)
            return np.take_along_axis(reports, np.argsort(times, axis=1), axis=1)

        arrived = [lot(90.0), lot(-90.0)]
        weights = (np.ones(n), np.arange(n) == 0, np.exp(-np.arange(n)))
        return max(black_box(arrived, partial(np.dot, w), bound.delta) for w in weights)

    assert most(None) <= bound.epsilon < 2.0
    assert most(0.98) > bound.epsilon  # control: the hour of answering shows
