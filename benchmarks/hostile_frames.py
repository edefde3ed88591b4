"""HTTP/2 frames made by hand, against the rules, for servers on this machine.

Sources: RFC 9113 (frames), RFC 7541 (headers, here always literal), the gRPC protocol over HTTP/2.
"""

import select
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import IntEnum

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
END_STREAM, END_HEADERS = 0x1, 0x4
_INITIAL_WINDOW = 0x4
_WINDOW = 65_535
"""Bytes that a connection may receive initially, and a stream unless settings say otherwise."""
_HEAD = 9
_ACKNOWLEDGED = 0x1
_PATIENCE_S = 0.5
_PAUSE_S = 0.001
_UNSIGNED = struct.Struct(">I")


class FrameKind(IntEnum):
    """The kind of a frame."""

    DATA = 0x0
    HEADERS = 0x1
    RST_STREAM = 0x3
    SETTINGS = 0x4
    PING = 0x6
    GOAWAY = 0x7
    WINDOW_UPDATE = 0x8
    CONTINUATION = 0x9


def frame(kind: FrameKind, stream: int = 0, payload: bytes = b"", flags: int = 0) -> bytes:
    length = struct.pack(">I", len(payload))[1:]
    return length + bytes([kind, flags]) + _UNSIGNED.pack(stream) + payload


def settings(window: int) -> bytes:
    """Return a SETTINGS frame that lets the other side send this many bytes of each answer."""
    return frame(FrameKind.SETTINGS, payload=struct.pack(">HI", _INITIAL_WINDOW, window))


def fields(*pairs: tuple[str, str]) -> bytes:
    """Return encoded header fields, none of them indexed."""
    return b"".join(
        b"\x00" + _length(name) + name.encode() + _length(value) + value.encode()
        for name, value in pairs
    )


def call(
    stream: int,
    method: str,
    messages: Iterable[bytes] = (),
    *,
    more: bytes = b"",
    kind: str = "application/grpc",
) -> bytes:
    """Return the frames of a call: headers, whole messages, and perhaps more bytes.

    More bytes begin a message that never ends; without them, the stream is closed.
    """
    headers = fields(
        (":method", "POST"),
        (":scheme", "http"),
        (":path", method),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", kind),
    )
    content = b"".join(b"\x00" + _UNSIGNED.pack(len(one)) + one for one in messages) + more
    pieces = [content[at : at + 16_384] for at in range(0, len(content), 16_384)]
    last = b"" if more else frame(FrameKind.DATA, stream, flags=END_STREAM)
    return b"".join(
        [
            frame(FrameKind.HEADERS, stream, headers, END_HEADERS),
            *(frame(FrameKind.DATA, stream, piece) for piece in pieces),
            last,
        ]
    )


def reset(stream: int) -> bytes:
    return frame(FrameKind.RST_STREAM, stream, _UNSIGNED.pack(8))


class Connection:
    """A client's connection that reads only how much it may send.

    Attributes:
        sent: bytes sent so far.
        ended: the number of answers whose end `granted` has seen.
    """

    def __init__(self, address: str, window: int, preface: bool, source: str = "") -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), _PATIENCE_S, (source, 0))
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLRDHUP)
        self._came = b""
        self._granted = _WINDOW
        self.sent = self.ended = 0
        if preface:
            self._socket.sendall(PREFACE + settings(window=window))
            self._socket.recv(1 << 16)  # the other side's settings
            self._socket.sendall(frame(FrameKind.SETTINGS, flags=_ACKNOWLEDGED))

    def send(self, data: bytes) -> None:
        """Send bytes, or only some of them if the other side takes no more."""
        self.sent += len(data)
        self._granted -= len(data)
        with suppress(OSError):
            self._socket.sendall(data)

    def granted(self) -> int:
        """Return how many bytes of messages may now be sent."""
        with suppress(OSError):
            while data := self._socket.recv(1 << 16, socket.MSG_DONTWAIT):
                self._came += data
        while len(self._came) >= _HEAD:
            end = _HEAD + int.from_bytes(self._came[:3], "big")
            if len(self._came) < end:
                break
            stream = int.from_bytes(self._came[5:_HEAD], "big")
            if self._came[3] == FrameKind.WINDOW_UPDATE and not stream:
                self._granted += int.from_bytes(self._came[_HEAD:end], "big")
            self.ended += self._came[3] == FrameKind.DATA and self._came[4] & END_STREAM
            self._came = self._came[end:]
        return self._granted

    def pong(self) -> bool:
        """Return whether the other side answers a ping with anything within half a second."""
        with suppress(OSError):
            while self._socket.recv(1 << 16, socket.MSG_DONTWAIT):
                pass
        self.send(frame(FrameKind.PING, payload=bytes(8)))
        with suppress(OSError):
            return bool(self._socket.recv(1))
        return False

    def alive(self) -> bool:
        """Return whether the other side has kept the connection open."""
        return self._socket.fileno() >= 0 and not self._poll.poll(0)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


class Connections:
    """Several connections, each reopened when the other side closes it.

    Args:
        count: the number of connections.
        window: how many bytes of each answer the server may send.
        preface: whether they send the HTTP/2 preface.
        source: the address that they come from; empty for any of this machine's.
    """

    def __init__(
        self,
        address: str,
        count: int,
        *,
        window: int = _WINDOW,
        preface: bool = True,
        source: str = "",
    ) -> None:
        self._open = lambda: Connection(address, window, preface, source)
        self._connections: list[Connection | None] = [None] * count

    def rounds(self, seconds: float) -> Iterator[Connection]:
        """Yield the connections in turn, repeatedly, for this many seconds."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for n, connection in enumerate(self._connections):
                if time.monotonic() >= until:
                    break
                with suppress(OSError):
                    if connection is None or not connection.alive():
                        if connection is not None:
                            connection.close()
                        self._connections[n] = None
                        connection = self._connections[n] = self._open()
                    yield connection
            time.sleep(_PAUSE_S)

    def __enter__(self) -> "Connections":
        return self

    def __exit__(self, *error: object) -> None:
        for connection in self._connections:
            if connection is not None:
                connection.close()


def _length(text: str) -> bytes:
    number = len(text)
    if number < 0x7F:
        return bytes([number])
    number -= 0x7F
    rest = bytearray()
    while number > 0x7F:
        rest.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([0x7F, *rest, number])
