"""Test bounds on the cost and memory of addresses, for any order of events."""

from random import Random

import pytest

from geoveil.gateway.ledger import HeldConnection, Ledger


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_address_has_its_share_and_no_more():
    time = Time()
    ledger = Ledger(10, 1_000, clock=time)
    account = ledger.account("192.0.2.1")
    paid = sum(ledger.charge(account, 1_000) for _ in range(10_000))
    assert paid == 2_000  # two seconds of a processor at once
    time.now = 4.0
    assert sum(ledger.charge(account, 1_000) for _ in range(10_000)) == 1_000  # a quarter since
    assert ledger.charge(ledger.account("192.0.2.2"), 1_000)
    assert ledger.wait_s(account) >= 1


def test_who_has_most_gives_way_and_others_stay():
    ledger, ended = Ledger(6, 100, clock=Time()), []

    def opened(host: str, name: str) -> HeldConnection:
        made = ledger.connect(host, lambda: ended.append(name))
        assert made is not None
        return made

    honest = opened("198.51.100.1", "honest")
    for number in range(20):
        opened("192.0.2.1", f"greedy {number}").busy = number == 0
    assert "honest" not in ended
    assert "greedy 0" not in ended  # its request is being answered
    assert ledger.open == 6
    assert ledger.hold(honest, 10)
    large = opened("192.0.2.1", "large")
    assert ledger.hold(large, 80)
    assert not ledger.hold(large, 40)  # it holds most, so it gets no more
    assert ledger.hold(honest, 30)
    assert ended[-1] == "large"
    assert ledger.held == 40


@pytest.mark.deep(keep=0)
def test_accounts_balance_whatever_happens():
    rng, time = Random(7), Time()
    ledger = Ledger(30, 5_000, clock=time)
    kept: list[tuple[str, HeldConnection]] = []
    for _ in range(20_000):
        time.now += rng.expovariate(100)
        host = f"192.0.2.{rng.randrange(8)}"
        act = rng.random()
        if act < 0.4:
            made = ledger.connect(host, lambda: None)
            if made is not None:
                kept.append((host, made))
        elif kept and act < 0.7:
            _, one = rng.choice(kept)
            if one in one.account.connections:
                ledger.hold(one, rng.choice((rng.randrange(500), -one.held)))
        elif kept:
            host, one = kept.pop(rng.randrange(len(kept)))
            ledger.close(one, host)
            ledger.close(one, host)
        alive = [one for one in (one for _, one in kept) if one in one.account.connections]
        assert ledger.open == len(alive) <= 30
        assert ledger.held == sum(one.held for one in alive) <= 5_000
    for host, one in kept:
        ledger.close(one, host)
    assert (ledger.open, ledger.held) == (0, 0)
