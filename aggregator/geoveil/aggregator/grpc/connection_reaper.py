"""Closes excess connections and those that hold much memory; shuts out persistent callers."""

import asyncio
import logging
import time
from collections.abc import Collection

from geoveil.aggregator.domain.rates import peer_address
from geoveil.aggregator.grpc.connections import (
    Endpoint,
    close,
    connections,
    count_descriptors,
    endpoint,
    idlest,
    received,
    shut_out,
    silence,
)
from geoveil.aggregator.grpc.memory_budget import MemoryBudget

_LOG = logging.getLogger(__name__)
_LOOK_S = 0.1
"""Seconds between two checks of the memory of calls."""
_COUNT_EVERY = 2
"""The number of checks between two counts of the connections."""
_SILENT_S = 10.0
"""Seconds until a silenced connection is closed."""
_SHUT_OUT_S = 60.0
"""Seconds until a shut-out address may open connections again."""
_MOST_SHUT_OUT = 256
"""The most shut-out addresses; each takes up to 8 of a filter's 4,096 instructions."""


class ConnectionReaper:
    """Works on the event loop, with system calls in threads.

    At most `most` connections stay open, and all their calls together hold at most `limit` bytes.
    """

    def __init__(self, most: int, limit: int, most_message: int) -> None:
        self.memory = MemoryBudget(limit, most_message, close=self.close)
        """The memory of calls, for the middleware."""
        self._most = most
        self._ports: Collection[int] = ()
        self._unwanted: set[Endpoint] = set()
        self._noisy: set[Endpoint] = set()
        self._silenced: dict[Endpoint, asyncio.TimerHandle] = {}
        self._shut_out: dict[bytes, asyncio.TimerHandle] = {}
        self._shut_out_changed = False
        self._closing: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._since: dict[Endpoint, float] = {}

    def start(self, ports: Collection[int]) -> None:
        """Watch the connections to given ports."""
        self._ports = ports
        self._looking = asyncio.create_task(self._look(), name="look after connections")

    async def stop(self) -> None:
        """Stop watching; idempotent."""
        tasks = [task for task in (self._looking, self._closing) if task is not None]
        self._looking = self._closing = None
        for task in tasks:
            task.cancel()
        for timer in (*self._silenced.values(), *self._shut_out.values()):
            timer.cancel()
        self._silenced.clear()
        self._shut_out.clear()
        await asyncio.gather(*tasks, return_exceptions=True)

    def close(self, peer: str) -> None:
        """Close a peer's connection soon."""
        other = endpoint(peer)
        if other is not None:
            self._close([other])

    def silence(self, peer: str) -> None:
        """Silence a peer's connection soon and close it later; after a close it would reconnect."""
        other = endpoint(peer)
        if other is not None and other not in self._silenced:
            loop = asyncio.get_running_loop()
            self._silenced[other] = loop.call_later(_SILENT_S, self._end_silence, other)
            self._noisy.add(other)
            self._start()

    def shut_out(self, peer: str) -> None:
        """Soon refuse new connections from a peer's address for a while."""
        address = peer_address(peer)
        if address not in self._shut_out and len(self._shut_out) < _MOST_SHUT_OUT:
            loop = asyncio.get_running_loop()
            self._shut_out[address] = loop.call_later(_SHUT_OUT_S, self._let_in, address)
            self._shut_out_changed = True
            self._start()
            _LOG.warning("address_shut_out")

    def _let_in(self, address: bytes) -> None:
        del self._shut_out[address]
        self._shut_out_changed = True
        self._start()

    def _end_silence(self, other: Endpoint) -> None:
        del self._silenced[other]
        self._close([other])

    def _close(self, others: Collection[Endpoint]) -> None:
        self._unwanted.update(others)
        self._start()

    def _start(self) -> None:
        if self._closing is None or self._closing.done():
            self._closing = asyncio.create_task(self._close_all(), name="close connections")

    async def _close_all(self) -> None:
        while self._unwanted or self._noisy or self._shut_out_changed:
            if self._shut_out_changed:
                self._shut_out_changed = False
                await asyncio.to_thread(shut_out, self._ports, [*self._shut_out])
            unwanted, self._unwanted = self._unwanted, set()
            noisy, self._noisy = self._noisy, set()
            for change, others in ((silence, noisy), (close, unwanted)):
                if others:
                    await asyncio.to_thread(change, self._ports, others)

    async def _look(self) -> None:
        while True:
            for _ in range(_COUNT_EVERY):
                await asyncio.sleep(_LOOK_S)
                if slow := self.memory.slow():
                    await self._count_slow(slow)
            # Listing connections is slow, and most of the time there are too few to need it.
            if count_descriptors() > self._most:
                await self._make_room()

    async def _count_slow(self, peers: Collection[str]) -> None:
        of_peers = {peer: endpoint(peer) for peer in peers}
        wanted = {other for other in of_peers.values() if other is not None}
        bytes_received = await asyncio.to_thread(received, self._ports, wanted)
        self.memory.count_slow(
            {peer: bytes_received.get(other) if other else None for peer, other in of_peers.items()}
        )

    async def _make_room(self) -> None:
        connected = await asyncio.to_thread(connections, self._ports)
        now, busy = time.monotonic(), set(map(endpoint, self.memory.busy()))
        self._since = {other: self._since.get(other, now) for other in connected}
        self._close(
            idlest(
                {other: (other in busy, since) for other, since in self._since.items()},
                len(connected) - self._most,
            )
        )
