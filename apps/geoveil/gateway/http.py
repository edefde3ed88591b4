"""Writing HTTP responses and reading request bodies."""

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, TypeAlias

from geoveil.gateway.ledger import HeldConnection, Ledger

Event: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]
CLOSE: tuple[bytes, bytes] = (b"connection", b"close")
MESSAGE_S = 60.0
"""Seconds within which a request must be complete."""
_PIECE = 16 << 10
"""Bytes of a response handed over at once; the next follow when most of them are sent."""


async def answer(send: Send, status: int, text: str, headers: Headers = ()) -> None:
    """Answer an unreadable request, and close the connection."""
    fields = [(b"content-type", b"text/plain; charset=utf-8"), CLOSE, *headers]
    await respond(send, status, f"{text}\n".encode(), fields)


async def answer_later(send: Send, wait_s: float) -> None:
    """Tell a caller beyond its budget when to come back."""
    text = "too many requests: try again later"
    await answer(send, 429, text, [(b"retry-after", b"%d" % wait_s)])


async def respond(send: Send, status: int, content: bytes, headers: Headers) -> None:
    """Send a whole response, with its length if it may have a body."""
    fields = [*headers]
    if status not in (204, 304):
        fields.append((b"content-length", b"%d" % len(content)))
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await write(send, content)


async def write(send: Send, content: bytes, *, more: bool = False) -> None:
    """Send part of a response in pieces, so that unread bytes are in memory only once."""
    whole = memoryview(content)
    for at in range(0, len(content), _PIECE):
        last = not more and at + _PIECE >= len(content)
        piece = bytes(whole[at : at + _PIECE])
        await send({"type": "http.response.body", "body": piece, "more_body": not last})
    if not more and not content:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def after(content: bytes, receive: Receive) -> Receive:
    """Return a receiver that first gives an already received body."""
    first: list[Event] = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive_next() -> Event:
        return first.pop() if first else await receive()

    return receive_next


class GoneError(Exception):
    """The sender disconnected before the whole request arrived."""


class TooMuchError(Exception):
    """A request is too long, or its address holds too much memory."""


class Body:
    """The body of a request, which the ledger counts while it is in memory."""

    def __init__(self, receive: Receive, ledger: Ledger, connection: HeldConnection) -> None:
        self._receive = receive
        self._ledger = ledger
        self._connection = connection
        self.content = bytearray()
        self.complete = False
        """Whether the whole body has arrived."""

    async def more(self) -> None:
        """Wait for more bytes; GoneError without a sender, TooMuchError without memory."""
        event = await self._receive()
        if event["type"] == "http.disconnect":
            raise GoneError
        came = event.get("body", b"")
        if not self._ledger.hold(self._connection, len(came)):
            raise TooMuchError
        self.content += came
        self.complete = not event.get("more_body", False)

    def take(self, size: int) -> bytes:
        """Return leading bytes, which still count for the connection."""
        taken = bytes(memoryview(self.content)[:size])
        del self.content[:size]
        return taken

    async def whole(self, most: int) -> bytes:
        """Return the whole body, as `more`; TooMuchError if it is longer than `most`."""
        while not self.complete:
            await self.more()
            if len(self.content) > most:
                raise TooMuchError
        return self.take(len(self.content))
