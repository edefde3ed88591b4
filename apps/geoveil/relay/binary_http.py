"""HTTP requests and responses as bytes (RFC 9292).

This module writes messages of known length, and reads those and messages of indeterminate length.
Lengths are QUIC integers (RFC 9000, 16): the first two bits say how many bytes they take. Zeros
follow a message, so that all messages have one of two sizes.
"""

from dataclasses import dataclass
from typing import TypeAlias

from geoveil.gp import GeoVeilError

Fields: TypeAlias = tuple[tuple[bytes, bytes], ...]
_REQUEST, _RESPONSE, _INDETERMINATE = 0, 1, 2
"""The first byte of messages; the last one stands for indeterminate length."""


class MessageInvalid(GeoVeilError):  # noqa: N818 - says what happened, as the client's errors do
    """A message from a relay can't be read, for a reason. The error does not quote it."""

    def __str__(self) -> str:
        return f"the message can't be read: {self.args[0]}"


@dataclass(frozen=True, slots=True, repr=False)
class InnerRequest:
    """A request inside a sealed message."""

    method: bytes
    scheme: bytes
    authority: bytes
    path: bytes
    fields: Fields = ()
    content: bytes = b""


@dataclass(frozen=True, slots=True, repr=False)
class InnerResponse:
    """A response inside a sealed message."""

    status: int
    fields: Fields = ()
    content: bytes = b""


def write_request(request: InnerRequest) -> bytes:
    """Return the bytes of a request.

    Example:
        >>> write_request(InnerRequest(b"GET", b"https", b"example.com", b"/")).hex()
        '00034745540568747470730b6578616d706c652e636f6d012f000000'
    """
    control = (request.method, request.scheme, request.authority, request.path)
    head = bytes([_REQUEST]) + b"".join(map(_sized, control))
    return head + _rest(request.fields, request.content)


def write_response(response: InnerResponse) -> bytes:
    """Return the bytes of a response.

    Example:
        >>> write_response(InnerResponse(200)).hex()
        '0140c8000000'
    """
    head = bytes([_RESPONSE]) + _integer(response.status)
    return head + _rest(response.fields, response.content)


def read_request(data: bytes) -> InnerRequest:
    """Return the request at the beginning of the bytes.

    Raises:
        MessageInvalid: if there is none, or anything except zeros follows it.
    """
    reader = _Reader(data)
    reader.begin(_REQUEST)
    method, scheme, authority, path = (reader.sized() for _ in range(4))
    return InnerRequest(method, scheme, authority, path, *reader.rest())


def read_response(data: bytes) -> InnerResponse:
    """Return the final response at the beginning of the bytes.

    Raises:
        MessageInvalid: if there is none, or anything except zeros follows it.
    """
    reader = _Reader(data)
    reader.begin(_RESPONSE)
    while 100 <= (status := reader.integer()) < 200:
        reader.fields()
    if not 200 <= status < 600:
        raise MessageInvalid("its status is not one of HTTP")
    return InnerResponse(status, *reader.rest())


def _rest(fields: Fields, content: bytes) -> bytes:
    lines = b"".join(_sized(name) + _sized(value) for name, value in fields)
    return _sized(lines) + _sized(content) + _integer(0)


def _sized(data: bytes) -> bytes:
    return _integer(len(data)) + data


def _integer(value: int) -> bytes:
    power = next(power for power in range(4) if value < 1 << ((8 << power) - 2))
    size = 1 << power
    return (value | power << (8 * size - 2)).to_bytes(size, "big")


class _Reader:
    """Reads a message from its beginning; missing trailing parts count as empty."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._indeterminate = False

    def begin(self, kind: int) -> None:
        form = self.integer()
        self._indeterminate = form == kind + _INDETERMINATE
        if form != kind and not self._indeterminate:
            raise MessageInvalid("it is of the wrong kind")

    def integer(self) -> int:
        size = 1 << (self._take(1)[0] >> 6)
        self._at -= 1
        return int.from_bytes(self._take(size), "big") & ((1 << (8 * size - 2)) - 1)

    def sized(self) -> bytes:
        return self._take(self.integer())

    def fields(self) -> Fields:
        """Read a section of fields."""
        end = None if self._indeterminate else self.integer() + self._at
        lines = []
        while self._at != end:
            name = self.sized()
            if not name:
                if end is None:
                    break
                raise MessageInvalid("a field has no name")
            lines.append((name.lower(), self.sized()))
            if end is not None and self._at > end:
                raise MessageInvalid("a field is longer than its section")
        return tuple(lines)

    def rest(self) -> tuple[Fields, bytes]:
        """Return fields and content; drop trailers, and check that only zeros follow."""
        lines = () if self._ended else self.fields()
        content = b"" if self._ended else self.sized()
        while self._indeterminate and content and not self._ended and (more := self.sized()):
            content += more
        if not self._ended:
            self.fields()
        if self._data[self._at :].strip(b"\0"):
            raise MessageInvalid("more than padding follows it")
        return lines, content

    @property
    def _ended(self) -> bool:
        return self._at == len(self._data)

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise MessageInvalid("it ends too early")
        self._at += size
        return taken
