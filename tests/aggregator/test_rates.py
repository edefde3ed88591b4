"""Test token buckets against a brute-force count, and their use in a service."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from geoveil.aggregator import Code, Service, ServiceError, Settings
from geoveil.aggregator.domain.rates import Rate, RateLimits, TokenBuckets, peer_address
from geoveil.aggregator.domain.reports import Report, Status
from geoveil.campaign import seal
from geoveil.gp import ParameterError


class Seconds:
    """A clock that stands where a test puts it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 6)), max_size=60))
def test_no_stretch_of_time_lets_more_through_than_the_rate(asked):
    """Rate 1/4 per second, burst 8, in whole numbers: exact in floats."""
    clock, granted = Seconds(), []
    buckets = TokenBuckets(Rate(per_second=0.25, burst=8.0), clock)
    for pause, tokens in asked:
        clock.now += pause
        wait = buckets.take(b"a", tokens)
        if wait == 0:
            granted.append((clock.now, tokens))
        else:
            assert buckets.take(b"a", tokens) == wait  # a refusal costs nothing
            clock.now += wait
            assert buckets.take(b"a", tokens) == 0
            granted.append((clock.now, tokens))
    for i, (start, _) in enumerate(granted):
        for j, (end, _) in enumerate(granted[i:], i):
            let_through = sum(tokens for _, tokens in granted[i : j + 1])
            assert let_through <= 8 + 0.25 * (end - start)


def test_a_request_larger_than_the_burst_is_let_through_and_owes():
    clock = Seconds()
    buckets = TokenBuckets(Rate(per_second=2.0, burst=10.0), clock)
    assert buckets.take(b"a", 30) == 0
    assert buckets.take(b"a", 1) == 10.5
    clock.now = 10.5
    assert buckets.take(b"a", 1) == 0
    assert buckets.take(b"a", 30) == 5.0


def test_one_connection_in_200_calls_of_an_address_may_give_up():
    clock = Seconds()
    limits = RateLimits(calls=Rate(per_second=400.0, burst=600.0), clock=clock)
    one, other = "ipv4:192.0.2.1:1", "ipv4:192.0.2.2:1"
    assert [limits.admit_given_up(one) for _ in range(4)] == [True, True, True, False]
    assert limits.admit_given_up(other)
    clock.now = 0.5
    assert [limits.admit_given_up(one) for _ in range(2)] == [True, False]
    assert all(RateLimits().admit_given_up(one) for _ in range(1000))


def test_keys_do_not_share_and_memory_is_bounded():
    buckets = TokenBuckets(Rate(per_second=1.0, burst=1.0), Seconds(), most=100)
    for number in range(10_000):
        assert buckets.take(number.to_bytes(4, "big"), 1) == 0
    assert len(buckets._levels) == 100
    assert buckets.take((9_999).to_bytes(4, "big"), 1) == 1.0
    assert buckets.take((0).to_bytes(4, "big"), 1) == 0  # forgotten


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf")])
def test_rates_are_positive_numbers(bad):
    with pytest.raises(ParameterError, match="per_second"):
        Rate(per_second=bad, burst=1.0)
    with pytest.raises(ParameterError, match="burst"):
        Rate(per_second=1.0, burst=min(bad, 0.5))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("ipv4:192.0.2.1:50000", "ipv4:192.0.2.1:50001", True),
        ("ipv4:192.0.2.1:50000", "ipv4:192.0.2.2:50000", False),
        ("ipv6:%5B2001:db8::1%5D:1", "ipv6:%5B2001:db8::ffff:ffff:ffff:ffff%5D:2", True),
        ("ipv6:%5B2001:db8::1%5D:1", "ipv6:%5B2001:db8:0:1::1%5D:1", False),
        ("ipv6:[::ffff:192.0.2.1]:1", "ipv4:192.0.2.1:2", True),
        ("ipv6:[fe80::1%25eth0]:1", "ipv6:[fe80::2%25eth0]:1", True),
        ("unix:", "", False),
    ],
)
def test_peers_are_addresses_without_ports(one, other, same):
    assert (peer_address(one) == peer_address(other)) is same


def test_no_address_is_kept():
    limits = RateLimits(per_peer=Rate(per_second=1.0, burst=1.0), clock=Seconds())
    limits.peers.admit("ipv4:192.0.2.77:50000")
    assert "192" not in repr(limits)
    assert limits.peers._addresses is not None
    ((key, _),) = limits.peers._addresses._levels.items()
    assert peer_address("ipv4:192.0.2.77:50000") not in key
    again = RateLimits(per_peer=Rate(per_second=1.0, burst=1.0), clock=Seconds())
    again.peers.admit("ipv4:192.0.2.77:50000")
    assert again.peers._addresses is not None
    assert list(again.peers._addresses._levels) != [key]  # each process has a key of its own


def waits(limits: RateLimits, peer: str, reports: int) -> float | None:
    """Return how long a peer is told to wait, in seconds; 0 if it may pass."""
    try:
        limits.peers.admit(peer, reports)
    except ServiceError as error:
        return error.retry_after_s
    return 0.0


def test_one_connection_uses_up_nothing_that_others_of_its_address_need():
    clock = Seconds()
    limits = RateLimits(per_peer=Rate(per_second=1000.0, burst=5000.0), clock=clock)
    greedy, modest = "ipv4:192.0.2.1:1", "ipv4:192.0.2.1:2"
    assert waits(limits, greedy, 5000) == 0
    assert waits(limits, greedy, 1) == 0.001
    assert [waits(limits, modest, 1) for _ in range(6)] == [0, 0, 0, 0, 0, 0.001]
    clock.now = 1000.0
    assert waits(limits, greedy, 4000) == 0


def test_a_connection_gets_no_more_than_its_part_when_its_address_has_none():
    """A thousandth part: with 10 connections beside the first, a hundredth more in all."""
    clock = Seconds()
    limits = RateLimits(per_peer=Rate(per_second=1000.0, burst=10_000.0), clock=clock)
    assert waits(limits, "ipv4:192.0.2.1:0", 10_000) == 0
    passed = 0
    for step in range(1000):
        clock.now = step / 1e6
        passed += waits(limits, f"ipv4:192.0.2.1:{step % 10 + 1}", 1) == 0
    assert passed == 100


def test_new_connections_bring_no_large_requests_past_the_rate_of_their_address():
    limits = RateLimits(per_peer=Rate(per_second=1000.0, burst=10_000.0), clock=Seconds())
    assert waits(limits, "ipv4:192.0.2.1:0", 10_000) == 0
    assert [waits(limits, f"ipv4:192.0.2.1:{port}", 10) for port in (1, 2)] == [0, 0]
    assert [waits(limits, f"ipv4:192.0.2.1:{port}", 11) for port in (3, 4)] == [0.011, 0.011]


def test_what_is_owed_is_owed():
    clock = Seconds()
    limits = RateLimits(per_peer=Rate(per_second=10.0, burst=100.0), clock=clock)
    peer = "ipv4:192.0.2.1:1"
    limits.peers.charge(peer, 200)
    assert waits(limits, peer, 1) == pytest.approx(10.1)
    clock.now = 10.2
    assert waits(limits, peer, 1) == 0


def test_calls_have_a_rate_of_their_own():
    limits = RateLimits(calls=Rate(per_second=1.0, burst=2.0), clock=Seconds())
    for _ in range(2):
        limits.calls.admit("ipv4:192.0.2.1:1")
    with pytest.raises(ServiceError, match="too many requests"):
        limits.calls.admit("ipv4:192.0.2.1:2")
    limits.calls.admit("ipv4:192.0.2.2:1")
    limits.peers.admit("ipv4:192.0.2.1:1", 1000)


@pytest.fixture
async def limited(start_service, clock):
    running = await start_service()

    def make(**rates: Any) -> Service:
        return Service(
            running.writer,
            running.reader,
            Settings(database=Path("unused.db")),
            clock,
            limits=RateLimits(**rates),
        )

    return make


async def test_reports_above_the_rates_are_refused_with_the_time_to_wait(limited, publish, store):
    seconds = Seconds()
    service = limited(
        per_campaign=Rate(per_second=2.0, burst=10.0),
        per_peer=Rate(per_second=1.0, burst=6.0),
        clock=seconds,
    )
    published = [publish("a"), publish("b")]
    for campaign in published:
        await service.create_campaign(seal(campaign.published))
    numbers = iter(range(1000))

    async def submit(campaign: Any, peer: str, count: int) -> float:
        """Return how long to wait; 0 if all were taken."""
        batch = [Report(next(numbers).to_bytes(16, "big"), [(0, 1)]) for _ in range(count)]
        sent = service.submit(
            campaign.campaign_id, campaign.digest, batch, f"ipv4:192.0.2.{peer}:1"
        )
        (result,) = await asyncio.gather(sent, return_exceptions=True)
        if isinstance(result, list):
            assert [r.status for r in result] == [Status.ACCEPTED] * count
            return 0.0
        assert isinstance(result, ServiceError)
        assert result.code is Code.RATE_LIMITED
        assert result.retry_after_s is not None
        return result.retry_after_s

    a, b = published
    assert await submit(a, "1", 6) == 0
    assert await submit(a, "1", 2) == 2.0  # the peer's
    assert await submit(a, "2", 5) == 0.5  # the campaign's
    assert await submit(b, "3", 5) == 0
    assert store.get_campaign("a").reports == 6
    seconds.now = 5.0
    assert await submit(a, "1", 5) == 0
    for wrong_digest in range(20):  # who does not know the campaign can't use up its rate
        with pytest.raises(ServiceError):
            await service.submit(
                "b", bytes(32), [Report(bytes(16), [(0, 1)])], f"ipv4:203.0.113.{wrong_digest}:1"
            )
    assert await submit(b, "4", 6) == 0


async def test_a_report_that_can_never_count_counts_as_ten(limited, publish):
    service = limited(per_peer=Rate(per_second=1.0, burst=12.0), clock=Seconds())
    campaign = publish()
    await service.create_campaign(seal(campaign.published))

    async def submit(report_id: bytes) -> Status:
        batch = [Report(report_id, [(0, 1)])]
        (result,) = await service.submit(
            campaign.campaign_id, campaign.digest, batch, "ipv4:192.0.2.1:1"
        )
        return result.status

    assert await submit(b"too short") is Status.REJECTED
    for number in (1, 2):
        assert await submit(bytes([number] * 16)) is Status.ACCEPTED
    with pytest.raises(ServiceError, match="too many requests"):
        await submit(bytes([3] * 16))


async def test_reading_counts_as_one_report(limited, publish):
    service = limited(per_peer=Rate(per_second=1.0, burst=2.0), clock=Seconds())
    await service.create_campaign(seal(publish().published))
    await service.get_campaign("income", peer="ipv4:192.0.2.1:1")
    await service.browse_campaigns(peer="ipv4:192.0.2.1:2")
    with pytest.raises(ServiceError, match="too many requests"):
        await service.get_campaign("income", peer="ipv4:192.0.2.1:3")
    for _ in range(5):  # analysts are not devices
        await service.get_campaign("income")
        await service.list_campaigns()
