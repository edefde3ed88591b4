"""Rate limits per campaign and per peer: token buckets in bounded memory.

A peer is an address, stored as a hash with a secret key of this process. IPv6 addresses count by
their /64, which is usually one customer's.
"""

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from socket import AF_INET, inet_pton
from urllib.parse import unquote

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.gp import validation

Monotonic = Callable[[], float]
"""Seconds from an arbitrary start, never decreasing."""

_PARTS = 1000
"""Each connection is guaranteed its address's limit divided by this."""
_CALLS_PER_GIVEN_UP = 200
"""An address may cancel one call per connection for this many permitted calls."""
IPV6_SITE = 8
"""The number of leading bytes of an IPv6 address that identify its owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A limit on events per second and on a burst after a pause."""

    per_second: float
    """Events per second, > 0."""
    burst: float
    """Events, at least 1. A larger request takes them from a full bucket, which then has a debt."""

    def __post_init__(self) -> None:
        validation.between("per_second", self.per_second, 0, 1e9, low_open=True)
        validation.between("burst", self.burst, 1, 1e12)


class TokenBuckets:
    """A bucket per hashed key, at most `most`; the longest unused are dropped and restart full.

    Example:
        >>> buckets = TokenBuckets(Rate(per_second=2.0, burst=3.0), clock=lambda: 0.0)
        >>> [buckets.take(b"me", 1) for _ in range(4)]
        [0.0, 0.0, 0.0, 0.5]
    """

    def __init__(
        self, rate: Rate, clock: Monotonic = time.monotonic, *, most: int = 100_000
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._most = most
        self._secret = secrets.token_bytes(32)
        self._levels: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def take(self, key: bytes, tokens: float, *, owe: bool = False) -> float:
        """Take tokens and return 0, or take none and return the seconds to wait.

        With `owe` it always takes them, and missing tokens become a debt.
        """
        now, rate = self._clock(), self._rate
        hidden = hashlib.blake2b(key, key=self._secret, digest_size=16).digest()
        level, then = self._levels.get(hidden, (rate.burst, now))
        level = min(rate.burst, level + (now - then) * rate.per_second)
        missing = min(tokens, rate.burst) - level
        if missing > 0 and not owe:
            return missing / rate.per_second
        self._levels[hidden] = (level - tokens, now)
        self._levels.move_to_end(hidden)
        if len(self._levels) > self._most:
            self._levels.popitem(last=False)
        return 0.0


class RateLimits:
    """Rate limits that the server checks before any work; without rates it permits everything.

    Everybody behind an address shares its limit, so each connection is guaranteed a thousandth of
    it. `per_peer` counts reports, and each other call of a device as one; `calls` counts all calls.

    Raises:
        ServiceError: RATE_LIMITED with the time to wait, from every method.
    """

    def __init__(
        self,
        *,
        per_campaign: Rate | None = None,
        per_peer: Rate | None = None,
        calls: Rate | None = None,
        clock: Monotonic = time.monotonic,
    ) -> None:
        self._campaigns = None if per_campaign is None else TokenBuckets(per_campaign, clock)
        self.peers = PeerLimit(per_peer, clock)
        """Counts reports, and large responses to a peer as equivalent reports."""
        self.calls = PeerLimit(calls, clock)
        self._given_up = None
        if calls is not None:
            few = Rate(
                per_second=calls.per_second / _CALLS_PER_GIVEN_UP,
                burst=max(1.0, calls.burst / _CALLS_PER_GIVEN_UP),
            )
            self._given_up = TokenBuckets(few, clock)

    def admit_given_up(self, peer: str) -> bool:
        """Return whether another connection of a peer's address may give up a call."""
        return self._given_up is None or not self._given_up.take(peer_address(peer), 1)

    def admit_campaign(self, campaign_id: str, reports: int) -> None:
        """Admit or refuse reports to a campaign that exists."""
        if self._campaigns is not None and (
            wait_s := self._campaigns.take(campaign_id.encode(), reports)
        ):
            raise ServiceError(Code.RATE_LIMITED, retry_after_s=wait_s)


class PeerLimit:
    """An address's rate (None for no limit), and each connection's guaranteed fraction of it."""

    def __init__(self, rate: Rate | None, clock: Monotonic) -> None:
        self._addresses = None if rate is None else TokenBuckets(rate, clock)
        self._connections: TokenBuckets | None = None
        self._part = 0.0 if rate is None else rate.burst / _PARTS
        if rate is not None and self._part >= 1:
            part = Rate(per_second=rate.per_second / _PARTS, burst=self._part)
            self._connections = TokenBuckets(part, clock)

    def admit(self, peer: str, tokens: float = 1) -> None:
        """Take tokens for a peer such as "ipv4:192.0.2.1:50000", or "" if unknown.

        Raises:
            ServiceError: RATE_LIMITED with the time until there are enough tokens.
        """
        if self._addresses is None:
            return
        wait_s = self._addresses.take(peer_address(peer), tokens)
        # No guarantee for large requests, since each new connection could incur such a debt.
        if self._connections is not None and not (wait_s and tokens > self._part):
            taken = self._connections.take(peer.encode(), tokens, owe=not wait_s)
            wait_s = min(wait_s, taken)
        if wait_s:
            raise ServiceError(Code.RATE_LIMITED, retry_after_s=wait_s)

    def charge(self, peer: str, tokens: float) -> None:
        """Take tokens, even if there are too few."""
        if self._addresses is None:
            return
        self._addresses.take(peer_address(peer), tokens, owe=True)
        if self._connections is not None:
            self._connections.take(peer.encode(), tokens, owe=True)


def peer_address(peer: str) -> bytes:
    """Return the part of a peer's address that identifies its owner, without the port.

    Example:
        >>> peer_address("ipv4:192.0.2.1:50000") == peer_address("ipv4:192.0.2.1:50001")
        True
        >>> peer_address("ipv6:%5B2001:db8::1%5D:50000") == peer_address("ipv6:[2001:db8::2]:5")
        True
        >>> peer_address("unix:")
        b'unix:'
    """
    kind, _, place = peer.partition(":")
    if kind == "ipv4":
        with suppress(OSError):
            return inet_pton(AF_INET, place.partition(":")[0])
    try:
        return packed(unquote(place).rpartition(":")[0].strip("[]"))[:IPV6_SITE]
    except ValueError:
        return kind.encode() + b":"


def packed(host: str) -> bytes:
    """Return the bytes of an IP address, also of IPv4 within IPv6; ValueError if it is none."""
    address = ip_address(host.partition("%")[0])
    return (getattr(address, "ipv4_mapped", None) or address).packed
