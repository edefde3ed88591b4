"""The memory of calls under way, by connection and address, with one limit for all.

Beyond the limit the largest connection of the largest address gives way: its request is refused, or
it is closed; until its calls end, it may begin only one at a time. The size of a request is unknown
until it is complete, so slow requests count as the bytes that their connections have received.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import takewhile

from geoveil.aggregator.domain.errors import Code, ServiceError
from geoveil.aggregator.domain.rates import Monotonic, peer_address

CALL_BYTES = 32 << 10
"""The least memory of a call: objects of gRPC and Python, including small messages."""
_COPIES = 2
"""The copies of a message in memory: one in gRPC and one in Python."""
_PATIENCE_S = 0.1
"""Seconds after which an incomplete request is examined."""


@dataclass(eq=False, slots=True)
class _Address:
    """The memory held by the connections of one address."""

    name: bytes
    held: int = 0
    connections: dict[str, "_Connection"] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class _Connection:
    """The memory held by the calls of one connection."""

    peer: str
    address: _Address
    held: int = 0
    calls: int = 0
    closed: bool = False


@dataclass(eq=False, slots=True)
class HeldCall:
    """The memory held by one call."""

    connection: _Connection
    held: int = 0


class MemoryBudget:
    """The accounts of all calls under way, at most `limit` bytes. Not thread-safe.

    Example:
        >>> memory = MemoryBudget(1 << 20, 1 << 16, close=print)
        >>> call, other = memory.begin("ipv4:192.0.2.1:5"), memory.begin("ipv4:192.0.2.2:5")
        >>> memory.resize(call, 400_000)
        >>> memory.resize(other, 200_000)
        ipv4:192.0.2.1:5
        >>> memory.held
        400000
    """

    def __init__(
        self,
        limit: int,
        most_message: int,
        *,
        close: Callable[[str], object],
        clock: Monotonic = time.monotonic,
    ) -> None:
        self._limit = limit
        self._most_message = most_message
        self._close = close
        self._clock = clock
        self._connections: dict[str, _Connection] = {}
        self._addresses: dict[bytes, _Address] = {}
        self._reading: dict[HeldCall, float] = {}
        self._held = 0
        self._ending = 0

    @property
    def held(self) -> int:
        """The bytes of all calls, except those whose connection was closed."""
        return self._held

    def busy(self) -> Collection[str]:
        """Return the peers with calls under way."""
        return self._connections.keys()

    def begin(self, peer: str) -> HeldCall:
        """Begin a call, which waits for its first request.

        Raises:
            ServiceError: RATE_LIMITED, if its connection must give way.
        """
        connection = self._connections.get(peer)
        if connection is None:
            name = peer_address(peer)
            address = self._addresses.setdefault(name, _Address(name))
            connection = _Connection(peer, address)
            address.connections[peer] = self._connections[peer] = connection
        connection.calls += 1
        call = HeldCall(connection)
        try:
            if connection.calls > 1 and self._held + self._ending + CALL_BYTES > self._limit:
                raise ServiceError(Code.RATE_LIMITED)
            self.resize(call, 0)
        except ServiceError:
            self.end(call)
            raise
        self._reading[call] = self._clock()
        return call

    def end(self, call: HeldCall, _: object = None) -> None:
        """Forget a call. gRPC also calls this with the context when the call is done."""
        self._reading.pop(call, None)
        connection = call.connection
        connection.calls -= 1
        self._add(call, -call.held)
        if not connection.calls and not connection.closed:
            self._forget(connection)

    def resize(self, call: HeldCall, message: int) -> None:
        """Set the size of a call's message in bytes; 0 for none.

        Raises:
            ServiceError: RATE_LIMITED, if its connection must give way; nothing changes then.
        """
        self._reading.pop(call, None)
        before, after = call.held, max(CALL_BYTES, _COPIES * message)
        if after == before:
            return
        self._add(call, after - before)
        while self._held > self._limit:
            greediest = self._greediest()
            if greediest is call.connection:
                self._add(call, before - after)
                raise ServiceError(Code.RATE_LIMITED)
            self._drop(greediest)

    def read(self, call: HeldCall) -> None:
        """Mark a call as waiting for a further request, until it is resized or ends."""
        self._reading[call] = self._clock()

    def slow(self) -> Collection[str]:
        """Return the peers whose slow requests might exceed the limit, for `count_slow`."""
        calls = [call for call in self._slow() if not call.connection.closed]
        more = sum(max(0, _COPIES * self._most_message - call.held) for call in calls)
        if self._held + more <= self._limit:
            return ()
        return {call.connection.peer for call in calls}

    def count_slow(self, received: Mapping[str, int | None]) -> None:
        """Count slow requests as the bytes that each connection received; None if unknown."""
        calls = [call for call in self._slow() if call.connection.peer in received]
        shares = Counter(call.connection for call in calls)
        for call in calls:
            came = received[call.connection.peer]
            message = self._most_message
            if came is not None:
                message = min(message, came // shares[call.connection])
            self._add(call, max(0, _COPIES * message - call.held))
        while self._held > self._limit:
            self._drop(self._greediest())

    def _slow(self) -> list[HeldCall]:
        """Return the calls whose requests arrive slowly, longest wait first."""
        until = self._clock() - _PATIENCE_S
        return [*takewhile(lambda call: self._reading[call] <= until, self._reading)]

    def _add(self, call: HeldCall, more: int) -> None:
        call.held += more
        connection = call.connection
        if connection.closed:
            self._ending += more
        else:
            connection.held += more
            connection.address.held += more
            self._held += more

    def _greediest(self) -> _Connection:
        address = max(self._addresses.values(), key=lambda one: one.held)
        return max(address.connections.values(), key=lambda one: one.held)

    def _drop(self, connection: _Connection) -> None:
        """Close a connection; its calls will end by themselves."""
        connection.closed = True
        connection.address.held -= connection.held
        self._held -= connection.held
        self._ending += connection.held
        self._forget(connection)
        self._close(connection.peer)

    def _forget(self, connection: _Connection) -> None:
        del self._connections[connection.peer], connection.address.connections[connection.peer]
        if not connection.address.connections:
            del self._addresses[connection.address.name]
