"""Test retries in the background: by campaign, with pauses, and only for passing failures."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from geoveil.client import CampaignNotFetched, JournalError, TransportError
from geoveil.client.report_sender import LONGEST_S, SERVER, Backoff, concerns

Make = Callable[..., Any]
DOWN = TransportError("UNAVAILABLE", "down")
BROKEN = TransportError("INTERNAL", "broken")
AGAIN = TransportError("ABORTED", "again")


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_pauses_grow_from_a_second_to_five_minutes():
    clock = Clock()
    backoff = Backoff(clock, lambda: 0.5)
    waits = []
    for _ in range(12):
        backoff.failed("a", AGAIN)
        waits.append(backoff.next_s())
    assert waits == pytest.approx([0.5, 1, 2, 4, 8, 16, 32, 64, 128, 150, 150, 150])
    backoff.succeeded("a")
    assert backoff.next_s() is None
    backoff.failed("a", AGAIN)
    assert backoff.next_s() == pytest.approx(0.5)


def test_a_pause_of_the_server_that_is_over_at_once_is_no_reason_to_give_up():
    backoff = Backoff(Clock(), lambda: 0.0)
    assert backoff.next_s() is None
    backoff.failed(SERVER, DOWN)
    assert backoff.next_s() == 0.0
    backoff.succeeded("a")
    assert backoff.next_s() is None


@pytest.mark.parametrize("error", [BROKEN, JournalError("/state", "disk full")])
def test_what_another_try_can_not_mend_waits_the_longest(error):
    backoff = Backoff(Clock(), lambda: 0.5)
    backoff.failed("a", error)
    assert backoff.next_s() == LONGEST_S
    assert not backoff.ready("a")


@pytest.mark.parametrize("code", ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL"])
def test_nobody_comes_back_before_the_server_asks(code):
    backoff = Backoff(Clock(), lambda: 0.0)
    backoff.failed("a", TransportError(code, retry_after_s=900.0))
    wait_s = backoff.next_s()
    assert wait_s is not None
    assert wait_s >= 900.0


@pytest.mark.parametrize(
    ("error", "key"),
    [
        (DOWN, SERVER),
        (TransportError("DEADLINE_EXCEEDED"), SERVER),
        (TransportError("UNAUTHENTICATED"), SERVER),
        (BROKEN, "a"),
        (TransportError("FAILED_PRECONDITION"), "a"),
        (TransportError("RESOURCE_EXHAUSTED", retry_after_s=1.0), "a"),
        (JournalError("/state", "disk full"), "a"),
    ],
)
def test_an_error_puts_off_the_campaign_or_the_whole_server(error, key):
    assert concerns(error, "a") == key
    backoff = Backoff(Clock(), lambda: 0.5)
    backoff.failed(key, error)
    assert not backoff.ready("a")
    assert backoff.ready("b") == (key != SERVER)


def test_only_the_first_failure_is_news():
    backoff = Backoff(Clock(), lambda: 0.5)
    assert [backoff.failed("a", AGAIN) for _ in range(3)] == [True, False, False]
    backoff.succeeded("a")
    assert backoff.failed("a", AGAIN)


def test_what_nobody_waits_for_is_forgotten():
    backoff = Backoff(Clock(), lambda: 0.5)
    for key in ("a", "b", SERVER):
        backoff.failed(key, BROKEN)
    backoff.retain({"a"})
    backoff.succeeded(SERVER)
    assert not backoff.ready("a")
    assert backoff.ready("b")


ERRORS = st.sampled_from([DOWN, BROKEN, AGAIN])
EVENTS = st.one_of(
    st.tuples(st.just("failed"), st.sampled_from("abc"), ERRORS),
    st.tuples(st.just("succeeded"), st.sampled_from("abc"), st.none()),
    st.tuples(st.just("wait"), st.floats(0, 400), st.none()),
)


@pytest.mark.deep
@settings(max_examples=5 * settings().max_examples)
@given(st.lists(EVENTS, max_size=30), st.floats(0, 0.999))
def test_the_wait_is_none_if_something_is_ready_and_long_enough_if_nothing_is(events, jitter):
    """So that the background neither sleeps through nor spins."""
    clock = Clock()
    backoff = Backoff(clock, lambda: jitter)
    put_off: set[str] = set()
    for kind, what, error in events:
        if kind == "wait":
            clock.now_s += what
        elif kind == "failed":
            key = concerns(error, what)
            backoff.failed(key, error)
            put_off.add(key)
        else:
            for key in (SERVER, what):
                backoff.succeeded(key)
                put_off.discard(key)
        campaigns = put_off - {SERVER} or ({"a"} if put_off else set())
        wait_s = backoff.next_s()
        if wait_s is None:
            assert not put_off - {SERVER}
            assert backoff.ready("x")
            continue
        assert any(backoff.ready(key) for key in campaigns) == (wait_s == 0)
        clock.now_s += wait_s + 1e-9
        # The server is ready again, or a campaign; the others know how long they still have.
        assert any(backoff.ready(key) for key in campaigns) or backoff.next_s()
        assert backoff.ready("x")
        clock.now_s -= wait_s + 1e-9


class Background:
    """Does what the thread does, on clocks that nobody waits for."""

    def __init__(self, client: Any, time: Any) -> None:
        self._client, self._time = client, time
        self.rounds = 0

    def run(self, seconds: float) -> None:
        """Work as the background would in so many seconds."""
        end = self._time.now_s + seconds
        while True:
            self.rounds += 1
            wait_s = self._client._effects.run(self._client._sender.work(), self._client._stop)
            if wait_s is None or self._time.now_s + wait_s > end:
                self._time.now_s = end
                return
            self._time.now_s += max(wait_s, 1e-6)


@pytest.fixture
def client(make_client, state_dir, collector, make_campaign):
    for name in "abc":
        collector.add(make_campaign(name))
    return make_client(state_dir=state_dir, fetched=("a", "b", "c"))


@pytest.fixture
def background(client, fake_time):
    return Background(client, fake_time)


@pytest.mark.deep
def test_a_server_that_is_down_for_a_day_is_asked_a_few_times(client, background, steering):
    for name in "abc":
        client.contribute(name, 52_000)
    steering.failures[""] = DOWN
    background.run(86_400)
    # Pauses of at most 150 s with this jitter: 576 and the first few.
    assert 570 <= len(steering.asked) <= 590
    assert background.rounds <= 2 * len(steering.asked)
    steering.failures.clear()
    background.run(300)
    assert client.counts().acknowledged == 3


def test_what_can_not_pass_is_asked_every_five_minutes_and_holds_up_nothing(
    client, background, steering
):
    for name in "abc":
        client.contribute(name, 52_000)
    steering.failures["a"] = BROKEN
    background.run(3_600)
    assert 12 <= steering.asked.count("a") <= 13
    assert (steering.asked.count("b"), steering.asked.count("c")) == (1, 1)
    assert background.rounds <= 30


def test_one_failure_after_another_never_makes_it_spin(client, background, steering, fake_time):
    """A campaign's wait runs out while the server is put off, and the other way round."""
    client.contribute("a", 52_000)
    steering.failures["a"] = AGAIN
    background.run(20)
    steering.failures[""] = steering.failures["a"] = DOWN
    background.run(2_000)
    steering.failures[""] = None
    steering.failures["a"] = BROKEN
    background.run(2_000)
    assert background.rounds <= 100


def test_a_contribution_does_not_end_the_wait(client, background, steering):
    """A host that contributes a thousand times asks a server that is down no more often."""
    steering.failures[""] = DOWN
    client.contribute("a", 52_000)
    background.run(0)
    for _ in range(1_000):
        client.contribute("a", 52_000)
        background.run(0)
    assert len(steering.asked) == 1


def test_a_campaign_that_is_wanted_is_fetched(make_client, tape, fake_time):
    client = make_client()
    background = Background(client, fake_time)
    with pytest.raises(CampaignNotFetched):
        client.contribute("income", 52_000)
    background.run(1)
    assert client.contribute("income", 52_000)
    background.run(1)
    assert client.counts().acknowledged == 1
    assert tape.fetched == 1


def test_a_campaign_that_can_not_be_had_says_why_and_is_asked_for_seldom(
    make_client, tape, fake_time
):
    client = make_client()
    background = Background(client, fake_time)
    for campaign_id in ("unknown", "income"):
        with pytest.raises(CampaignNotFetched):
            client.contribute(campaign_id, 52_000)
    background.run(3_600)
    with pytest.raises(CampaignNotFetched, match="it was tried: the server has no") as raised:
        client.contribute("unknown", 52_000)
    assert type(raised.value.cause).__name__ == "CampaignNotFound"
    assert 12 <= tape.fetched - 1 <= 14
    assert client.contribute("income", 52_000)
