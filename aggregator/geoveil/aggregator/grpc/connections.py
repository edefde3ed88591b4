"""List, count, silence and close the connections to this process's ports.

gRPC for Python cannot close a connection, so this module searches the descriptors in /dev/fd where
the system has it. It works on duplicates of descriptors, so it never closes another connection.
"""

import ctypes
import os
import socket
import stat
import struct
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from heapq import heapify, heappop, heapreplace
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit, setrlimit
from typing import TypeAlias
from urllib.parse import unquote

from geoveil.aggregator.domain.rates import IPV6_SITE, packed

Endpoint: TypeAlias = tuple[bytes, int]
"""The other side's address and port."""
_DESCRIPTORS = "/dev/fd"
_RESET = struct.pack("ii", 1, 0)
"""The value of SO_LINGER with which a close drops unsent data."""
_ATTACH_FILTER = 26
"""SO_ATTACH_FILTER in Linux's <asm-generic/socket.h>."""
_BYTE, _WORD, _MASK, _SKIP_UNLESS, _KEEP = 0x30, 0x20, 0x54, 0x15, 0x06
"""Classic BPF instructions: load byte, load word, and, jump if unequal, return kept length."""
_NETWORK_HEADER = 0xFFF00000
"""The offset of the IP header in a program: SKF_NET_OFF of <linux/filter.h>."""
_SOURCES = {4: (0x40, 12), 8: (0x60, 8)}
"""Number of compared address bytes → the version in the header, and the address's offset."""
_DISCARDED = 1 << 20
_RECEIVED = slice(128, 136)
"""The place of tcpi_bytes_received in struct tcp_info of <linux/tcp.h>."""
MARGIN = 3
"""The ratio of accepted to lasting connections, since new ones come before old ones close."""
_SPARE = 128
"""Descriptors reserved for the database, its threads and files."""


def endpoint(peer: str) -> Endpoint | None:
    """Return the address of a gRPC peer; None if it is not a network address.

    Example:
        >>> endpoint("ipv4:192.0.2.1:50000") == endpoint("ipv6:%5B::ffff:192.0.2.1%5D:50000")
        True
    """
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    try:
        return packed(host.strip("[]")), int(port)
    except ValueError:
        return None


def count_descriptors() -> int:
    """Return the number of open descriptors, or 0 if the system does not tell."""
    with suppress(OSError):
        return len(os.listdir(_DESCRIPTORS))
    return 0


def connections(ports: Collection[int]) -> list[Endpoint]:
    """Return the other sides of the connections to given ports."""
    return [other for other, _ in _connected(ports)]


def close(ports: Collection[int], others: Collection[Endpoint]) -> int:
    """Close connections to given ports, drop their unsent data, and return their number."""
    return _each(ports, others, _close)


def silence(ports: Collection[int], others: Collection[Endpoint]) -> int:
    """Silence connections to given ports, and return their number.

    The other side does not notice, so it waits instead of reconnecting. If the kernel can't do
    this, connections are closed.
    """
    return _each(ports, others, _silence if sys.platform == "linux" else _close)


def shut_out(ports: Collection[int], addresses: Collection[bytes]) -> int:
    """Refuse new connections from these addresses (`peer_address`); return the number of sockets.

    The kernel drops them (Linux only), so the other side waits. A new list replaces the old one.
    """
    program = []
    for address in addresses:
        if version_and_place := _SOURCES.get(len(address)):
            version, place = version_and_place
            rest = len(address) // 2 + 1
            program += [(_BYTE, 0, _NETWORK_HEADER), (_MASK, 0, 0xF0)]
            program.append((_SKIP_UNLESS, rest, version))
            for at in range(0, len(address), 4):
                rest -= 2
                program.append((_WORD, 0, _NETWORK_HEADER + place + at))
                word = int.from_bytes(address[at : at + 4], "big")
                program.append((_SKIP_UNLESS, rest, word))
            program.append((_KEEP, 0, 0))
    program.append((_KEEP, 0, 0xFFFFFFFF))
    count = 0
    for listener in _sockets(ports) if sys.platform == "linux" else ():
        if listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            _attach(listener, program)
            count += 1
    return count


def received(ports: Collection[int], others: Collection[Endpoint]) -> dict[Endpoint, int]:
    """Return the bytes that connections to these ports have received, where Linux counts them."""
    if sys.platform != "linux":
        return {}
    of_peer = {}
    for other, connection in _connected(ports):
        if other in others:
            tcp_info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED.stop)
            of_peer[other] = int.from_bytes(tcp_info[_RECEIVED], sys.byteorder)
    return of_peer


def allowed(wanted: int) -> int:
    """Return how many connections may stay open: fewer than wanted if descriptors are scarce."""
    soft, _ = getrlimit(RLIMIT_NOFILE)
    return wanted if soft == RLIM_INFINITY else min(wanted, max(1, (soft - _SPARE) // MARGIN))


def descriptors_for(wanted: int) -> int:
    """Return the number of descriptors that a server with so many lasting connections needs."""
    return MARGIN * wanted + _SPARE


def allow(wanted: int) -> None:
    """Raise the process's descriptor limit for a number of connections, as far as permitted."""
    soft, hard = getrlimit(RLIMIT_NOFILE)
    needed = descriptors_for(wanted)
    if soft != RLIM_INFINITY and soft < needed:
        raised = needed if hard == RLIM_INFINITY else min(needed, hard)
        with suppress(OSError, ValueError):
            setrlimit(RLIMIT_NOFILE, (raised, hard))


def idlest(found: Mapping[Endpoint, tuple[bool, float]], many: int) -> list[Endpoint]:
    """Return at most `many` connections to close, to make room for others.

    Each comes from the address that then has the most (IPv6 by /64): first those without a call,
    oldest first. `found` has, for each, whether it has a call, and the time of its discovery.

    Example:
        >>> here, there = b"here", b"there"
        >>> found = {(here, 1): (True, 1.0), (here, 2): (False, 2.0),
        ...          (here, 3): (False, 3.0), (there, 1): (False, 0.0)}
        >>> [port for _, port in idlest(found, 2)]
        [2, 3]
    """
    of_address: dict[bytes, list[Endpoint]] = {}
    for peer in sorted(found, key=found.__getitem__, reverse=True):
        of_address.setdefault(peer[0][:IPV6_SITE], []).append(peer)
    most_first = [(-len(own), found[own[-1]], own) for own in of_address.values()]
    heapify(most_first)
    chosen = []
    for _ in range(min(many, len(found))):
        _, _, own = most_first[0]
        chosen.append(own.pop())
        if own:
            heapreplace(most_first, (-len(own), found[own[-1]], own))
        else:
            heappop(most_first)
    return chosen


def _each(
    ports: Collection[int], others: Collection[Endpoint], change: Callable[[socket.socket], object]
) -> int:
    count = 0
    for other, connection in _connected(ports):
        if other in others:
            with suppress(OSError):  # the other side closed it first
                change(connection)
                count += 1
    return count


def _close(channel: socket.socket) -> None:
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    channel.shutdown(socket.SHUT_RDWR)


def _silence(channel: socket.socket) -> None:
    _attach(channel, [(_KEEP, 0, 0)])
    with suppress(BlockingIOError):  # until no received data is left
        while channel.recv(_DISCARDED, socket.MSG_TRUNC | socket.MSG_DONTWAIT):
            pass


def _attach(channel: socket.socket, program: Sequence[tuple[int, int, int]]) -> None:
    """Attach a kernel filter to a socket and the sockets that it accepts.

    Each instruction has a code, a number of instructions to skip, and an operand.
    """
    instructions = b"".join(struct.pack("HBBI", code, 0, skip, k) for code, skip, k in program)
    place = ctypes.create_string_buffer(instructions)
    described = struct.pack("HP", len(program), ctypes.addressof(place))
    channel.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, described)


def _connected(ports: Collection[int]) -> Iterator[tuple[Endpoint, socket.socket]]:
    """Yield duplicates of the connections to given ports; each is closed before the next."""
    for connected in _sockets(ports):
        with suppress(OSError):  # it is not connected
            host, of_other = connected.getpeername()[:2]
            yield (packed(host), of_other), connected


def _sockets(ports: Collection[int]) -> Iterator[socket.socket]:
    """Yield duplicates of the sockets at given local ports; each is closed before the next."""
    try:
        names = os.listdir(_DESCRIPTORS)
    except OSError:
        return
    for name in names:
        with suppress(OSError):  # it was closed
            duplicate = _duplicate(int(name))
            if duplicate is not None:
                with duplicate:
                    if duplicate.getsockname()[1] in ports:
                        yield duplicate


def _duplicate(descriptor: int) -> socket.socket | None:
    """Return a duplicate of a descriptor's TCP socket; None if it is not a TCP socket."""
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        return None
    duplicate = socket.socket(fileno=os.dup(descriptor))
    if (
        duplicate.family in (socket.AF_INET, socket.AF_INET6)
        and duplicate.type == socket.SOCK_STREAM
    ):
        return duplicate
    duplicate.close()
    return None
