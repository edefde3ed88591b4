"""The cost and memory of each address, counted before its bytes are parsed.

Costs are processor microseconds, at fixed prices for a connection, a handshake, a piece of data or
a request. An address earns a share of a processor; when it has spent its budget, it is disconnected
or told to come back later. When connections or memory are scarce, the address that holds most gives
way, so that it can't lock out many addresses that hold little.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address

CONNECT, HANDSHAKE, PIECE, REQUEST, CALL = 100.0, 2_000.0, 15.0, 400.0, 600.0
"""Microseconds for a connection, its TLS handshake, a piece of data, a request, a call."""
BYTE, BYTE_OF_JSON = 0.02, 1.0
"""Microseconds per received byte, and per byte of a JSON request."""
_SHARE = 0.25
"""The fraction of a processor that an address earns."""
_BURST = 2e6
"""An address's budget in microseconds after a pause."""
_MOST_IDLE = 20_000
"""The most remembered addresses without a connection."""
_SITE = 8
"""The leading bytes of an IPv6 address that identify its owner, who usually has a /64."""


@dataclass(eq=False, slots=True)
class Account:
    """An address's budget, and the bytes it holds."""

    credit: float = _BURST
    seen: float = 0.0
    held: int = 0
    connections: "dict[HeldConnection, None]" = field(default_factory=dict)
    """The open connections, oldest first."""


@dataclass(eq=False, slots=True)
class HeldConnection:
    """A connection, and the bytes it holds."""

    account: Account
    abort: Callable[[], object]
    """Ends the connection at once."""
    held: int = 0
    busy: bool = False
    """Whether a request on it is being answered."""


class Ledger:
    """The accounts of all addresses, with limits of all connections and bytes. Not thread-safe.

    Proxies act for others and are not charged themselves.

    Example:
        >>> ledger = Ledger(2, 100, clock=lambda: 0.0)
        >>> opened = [ledger.connect("192.0.2.1", lambda: print("gone")) for _ in range(3)]
        gone
        >>> ledger.open
        2
    """

    def __init__(
        self,
        connections: int,
        held_bytes: int,
        *,
        proxies: tuple[str, ...] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = connections
        self._most_held = held_bytes
        self._proxies = {address_of(proxy) for proxy in proxies}
        self._clock = clock
        self._accounts: dict[bytes, Account] = {}
        self._idle: OrderedDict[bytes, Account] = OrderedDict()
        self.open = 0
        """The number of open connections."""
        self.held = 0
        """The bytes held by all connections."""

    def account(self, host: str) -> Account:
        """Return the account of an address."""
        key = address_of(host)
        kept = self._accounts.get(key) or self._idle.get(key)
        if kept is None:
            credit = float("inf") if key in self._proxies else _BURST
            kept = self._idle[key] = Account(credit, self._clock())
            if len(self._idle) > _MOST_IDLE:
                self._idle.popitem(last=False)
        return kept

    def trusts(self, host: str) -> bool:
        """Return whether an address is a proxy's."""
        return address_of(host) in self._proxies

    def connect(self, host: str, abort: Callable[[], object]) -> HeldConnection | None:
        """Admit a connection from an address, or return None.

        If there are too many, it ends a connection of the address with most: the oldest without a
        request, or else the oldest.
        """
        account = self.account(host)
        if not self.charge(account, CONNECT):
            return None
        key = address_of(host)
        self._idle.pop(key, None)
        self._accounts[key] = account
        made = HeldConnection(account, abort)
        account.connections[made] = None
        self.open += 1
        if self.open > self._most:
            own = max(self._accounts.values(), key=lambda one: len(one.connections)).connections
            last = next((connection for connection in own if not connection.busy), None) or next(
                iter(own)
            )
            self._end(last)
        return made

    def close(self, connection: HeldConnection, host: str) -> None:
        """Forget a connection that has ended; idempotent."""
        account = connection.account
        self.hold(connection, -connection.held)
        if account.connections.pop(connection, connection) is None:
            self.open -= 1
        key = address_of(host)
        if not account.connections and self._accounts.pop(key, None) is not None:
            self._idle[key] = account

    def charge(self, account: Account, microseconds: float) -> bool:
        """Charge a cost; return whether the budget sufficed."""
        now = self._clock()
        earned = account.credit + (now - account.seen) * _SHARE * 1e6
        account.credit = min(earned, _BURST) if account.credit <= _BURST else account.credit
        account.seen = now
        if account.credit < microseconds:
            return False
        account.credit -= microseconds
        return True

    def wait_s(self, account: Account) -> float:
        """Return the seconds for which an address without budget should wait."""
        return max(1.0, (0.1 * _BURST - account.credit) / (_SHARE * 1e6))

    def hold(self, connection: HeldConnection, more: int) -> bool:
        """Count more bytes for a connection; return whether it may hold them.

        If the total is too much, the address that holds most loses its largest connection; if that
        is this one, it gets no more bytes.
        """
        while more > 0 and self.held + more > self._most_held:
            account = max(self._accounts.values(), key=lambda one: one.held)
            greedy = max(account.connections, key=lambda one: one.held, default=connection)
            if account.held <= connection.account.held + more or not greedy.held:
                return False
            self._end(greedy)
        connection.held += more
        connection.account.held += more
        self.held += more
        return True

    def _end(self, connection: HeldConnection) -> None:
        """End a connection, and release its bytes."""
        self.hold(connection, -connection.held)
        if connection.account.connections.pop(connection, connection) is None:
            self.open -= 1
        connection.abort()


@lru_cache(1024)  # a connection asks four times
def address_of(host: str) -> bytes:
    """Return the part of an address that identifies its owner.

    Example:
        >>> address_of("2001:db8::1") == address_of("2001:db8::2")
        True
        >>> address_of("::ffff:192.0.2.1") == address_of("192.0.2.1")
        True
    """
    with suppress(ValueError):
        address = ip_address(host.partition("%")[0])
        inner = getattr(address, "ipv4_mapped", None)
        return inner.packed if inner is not None else address.packed[:_SITE]
    return host.encode()
