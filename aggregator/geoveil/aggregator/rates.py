"""How fast reports may come, per campaign and per peer: token buckets in bounded memory.

A peer is an address. It is held as a hash under a key that this process drew and never tells, so
that nothing which could be written anywhere names it; IPv6 addresses count by their /64, which is
what one customer gets.
"""

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address
from urllib.parse import unquote

from geoveil.aggregator.errors import Code, ServiceError
from geoveil.gp import ParameterError
from geoveil.gp.validation import between

Monotonic = Callable[[], float]
"""Seconds from some moment on, never backwards."""

_IPV6_SITE = 8
"""Bytes of an IPv6 address that say whose it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """So many in the long run, and so many at once after a pause."""

    per_second: float
    """Reports per second, > 0."""
    burst: float
    """Reports, at least 1. A larger request is taken from a full bucket, which then owes."""

    def __post_init__(self) -> None:
        between("per_second", self.per_second, 0, 1e9, low_open=True)
        between("burst", self.burst, 1, 1e12)


class TokenBuckets:
    """One bucket per key; the ones used longest ago are forgotten, that is, full again.

    Args:
        rate: of each bucket.
        clock: tells the seconds.
        most: buckets kept.

    Example:
        >>> buckets = TokenBuckets(Rate(per_second=2.0, burst=3.0), clock=lambda: 0.0)
        >>> [buckets.take(b"me", 1) for _ in range(4)]
        [0.0, 0.0, 0.0, 0.5]
    """

    def __init__(
        self, rate: Rate, clock: Monotonic = time.monotonic, *, most: int = 100_000
    ) -> None:
        if most < 1:
            raise ParameterError("most", most, "an integer >= 1")
        self._rate = rate
        self._clock = clock
        self._most = most
        self._levels: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def take(self, key: bytes, tokens: float) -> float:
        """Take tokens and return 0; or take none and return how long to wait, in seconds."""
        now = self._clock()
        level, then = self._levels.get(key, (self._rate.burst, now))
        level = min(self._rate.burst, level + (now - then) * self._rate.per_second)
        missing = min(tokens, self._rate.burst) - level
        if missing > 0:
            return missing / self._rate.per_second
        self._levels[key] = (level - tokens, now)
        self._levels.move_to_end(key)
        if len(self._levels) > self._most:
            self._levels.popitem(last=False)
        return 0.0

    def __len__(self) -> int:
        return len(self._levels)


class RateLimits:
    """What the collector asks before it works. Without rates it permits everything.

    Args:
        per_campaign: reports to one campaign.
        per_peer: reports, and other calls counting one each, from one address.
        clock: tells the seconds.

    Raises:
        ServiceError: RATE_LIMITED, from every method, with the time to wait.
    """

    def __init__(
        self,
        *,
        per_campaign: Rate | None = None,
        per_peer: Rate | None = None,
        clock: Monotonic = time.monotonic,
    ) -> None:
        self._campaigns = None if per_campaign is None else TokenBuckets(per_campaign, clock)
        self._peers = None if per_peer is None else TokenBuckets(per_peer, clock)
        self._secret = secrets.token_bytes(32)

    def admit_peer(self, peer: str, reports: int = 1) -> None:
        """Let a peer pass, or refuse it.

        Args:
            peer: as gRPC names it, "ipv4:192.0.2.1:50000"; "" if it is not known.
            reports: that it brings.
        """
        if self._peers is not None:
            name = hashlib.blake2b(peer_address(peer), key=self._secret, digest_size=16).digest()
            _refuse_early(self._peers.take(name, reports))

    def admit_campaign(self, campaign_id: str, reports: int) -> None:
        """Let reports to a campaign that exists pass, or refuse them."""
        if self._campaigns is not None:
            _refuse_early(self._campaigns.take(campaign_id.encode(), reports))

    def __repr__(self) -> str:
        return "RateLimits(peers not shown)"


def peer_address(peer: str) -> bytes:
    """Return what of a peer's address says whose it is, without the port.

    Example:
        >>> peer_address("ipv4:192.0.2.1:50000") == peer_address("ipv4:192.0.2.1:50001")
        True
        >>> peer_address("ipv6:%5B2001:db8::1%5D:50000") == peer_address("ipv6:[2001:db8::2]:5")
        True
        >>> peer_address("unix:")
        b'unix:'
    """
    kind, _, place = unquote(peer).partition(":")
    host = place.rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return kind.encode() + b":"
    inner = address if isinstance(address, IPv4Address) else address.ipv4_mapped
    return address.packed[:_IPV6_SITE] if inner is None else inner.packed


def _refuse_early(wait_s: float) -> None:
    if wait_s > 0:
        raise ServiceError(Code.RATE_LIMITED, retry_after_s=wait_s)
