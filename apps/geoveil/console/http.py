"""Requests and responses of pages, and their routes."""

import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qs

from geoveil.analyst import ServerError
from geoveil.gp import GeoVeilError, ParameterError, enum_repr

if TYPE_CHECKING:
    from geoveil.console.page_analyst import PageAnalyst
    from geoveil.console.sessions import Session

PREFIX = "/console"
"""Under which all pages of the console are."""
STATUS = MappingProxyType(
    {
        "NOT_FOUND": 404,
        "INVALID_ARGUMENT": 400,
        "FAILED_PRECONDITION": 409,
        "ALREADY_EXISTS": 409,
        "PERMISSION_DENIED": 403,
        "UNAUTHENTICATED": 401,
        "RESOURCE_EXHAUSTED": 429,
    }
)
"""Codes of the server and the status of the page that tells them; 503 for all others."""
# The largest form has 40; each takes microseconds of the process that answers.
_MOST_FIELDS = 200
_NO_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
Event: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]


class Lane(Enum):
    """The threads that make a page, never the event loop."""

    __repr__ = enum_repr

    QUICK = "quick"
    """What takes milliseconds: a few threads."""
    WORK = "work"
    """What may take seconds, such as a statistic or a plan: one thread, so that the event loop
    always has a processor."""
    PLAN = "plan"
    """What waits for the process that plans, and does nothing meanwhile."""


class RefusedError(GeoVeilError):
    """A refused request, with the reason."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Response:
    """The response."""

    content: bytes
    kind: str = "text/html; charset=utf-8"
    status: int = 200
    headers: Headers = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """The request for a page by a signed-in user, in whatever process makes the page."""

    method: str
    path: str
    """Without the prefix, beginning with a slash."""
    query: Mapping[str, Sequence[str]]
    fields: Mapping[str, Sequence[str]]
    """The fields of a form that was sent."""
    files: Mapping[str, bytes]
    """The files that were sent before, by the names of the fields that they were chosen in."""
    named: Mapping[str, str]
    """What stands in the places of the route."""
    session: "Session"
    analyst: "PageAnalyst"
    """Queries the server for the signed-in user. It blocks, so only lanes may use it."""
    now: datetime
    """The time of the request."""
    address: str
    """The server's address, as Python that asks it names it."""
    render: Callable[..., Response] = field(repr=False)
    """Makes a page of the name of a template and what stands in it."""
    note: Callable[..., None] = field(repr=False)
    """Writes an action into the audit log: its name, and words about it."""

    def text(self, name: str, default: str = "") -> str:
        """Return the value of a name in a form, otherwise in the address, without blanks."""
        values = self.fields.get(name) or self.query.get(name) or (default,)
        return values[-1].strip()

    def number(self, name: str, default: float | None = None) -> float | None:
        """Return the number that was sent for a name.

        Raises:
            ParameterError: if it is none.
        """
        said = self.text(name)
        if not said:
            return default
        try:
            return float(said.replace(",", "").replace("\u2009", ""))
        except ValueError:
            raise ParameterError(name, said[:40], "a number") from None

    def integer(self, name: str, default: int | None = None) -> int | None:
        """Return the whole number that was sent for a name.

        Raises:
            ParameterError: if it is none.
        """
        number = self.number(name)
        if number is None:
            return default
        if number != number or not number.is_integer() or abs(number) > 1e15:
            raise ParameterError(name, self.text(name)[:40], "a whole number")
        return int(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayRequest(PageRequest):
    """The request for a page that the gateway's process makes."""

    begin_asking: Callable[[], None] = field(repr=False)
    """Starts the process that queries points, if necessary, so that its first page comes sooner."""


@dataclass(frozen=True, slots=True)
class Route:
    """A page: its route, and the function that makes it.

    Args:
        method: GET or POST. What is sent by POST comes from a form of the console, which is checked
            before.
        path: below the prefix, such as "/surveys/{campaign_id}".
        answer: makes the page, on a thread.
    """

    method: str
    path: str
    answer: Callable[[GatewayRequest], Response]
    lane: Lane = Lane.QUICK

    def match(self, method: str, path: str) -> Mapping[str, str] | None:
        """Return the values of the route's parameters; None if the path is another page's."""
        matched = self._pattern.fullmatch(path) if method == self.method else None
        return None if matched is None else matched.groupdict()

    @property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/.]{1,200})", self.path))


def refusal_of(error: GeoVeilError) -> tuple[int, str]:
    """Return the status and the words of an error page."""
    if isinstance(error, RefusedError):
        return error.status, error.text
    if isinstance(error, ServerError):
        return STATUS.get(error.code, 503), error.detail or error.code
    return 400, str(error)


def seen_at(path: str) -> Response:
    """Return the response that redirects a browser to another page, after a form.

    Args:
        path: below the prefix, with its query.
    """
    where = f"{PREFIX}{path}".encode("ascii", "strict")
    return Response(b"", status=303, headers=[(b"location", where)])


def download(content: bytes, kind: str, name: str) -> Response:
    """Return a file that a browser keeps and does not show.

    Args:
        name: of ASCII letters, digits, dots, "-" and "_".
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
    headers = [(b"content-disposition", f'attachment; filename="{safe}"'.encode())]
    return Response(content, kind, headers=headers)


def guards(frames: bytes) -> Headers:
    """Return the headers of every page, which loads nothing from elsewhere.

    Args:
        frames: origins of pages that may hold it in a frame, with blanks between; "'none'": none.
    """
    policy = (
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        b"connect-src 'self'; form-action 'self'; frame-ancestors %b; base-uri 'none'"
    )
    refused = [(b"x-frame-options", b"DENY")] if frames == b"'none'" else []
    return (
        (b"content-security-policy", policy % frames),
        *refused,
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"same-origin"),  # with none, browsers say that forms are of no origin
        (b"permissions-policy", b"geolocation=(), camera=(), microphone=()"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"cache-control", b"no-store"),
    )


async def write(send: Send, method: str, response: Response, around: Headers) -> None:
    """Send a response.

    Args:
        around: headers of every response of its kind.
    """
    headers = [
        *around,
        (b"content-type", response.kind.encode()),
        (b"content-length", b"%d" % len(response.content)),
        *response.headers,
    ]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    body = b"" if method == "HEAD" else response.content
    await send({"type": "http.response.body", "body": body, "more_body": False})


def query_of(text: str) -> dict[str, list[str]]:
    """Return the query string of an address.

    Raises:
        RefusedError: if that is too much, or no browser writes it so.
    """
    if _NO_ESCAPE.search(text):  # each would take a third of a microsecond
        raise RefusedError(400, "a percent sign must be written as %25")
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise RefusedError(400, "there are too many fields") from None


def form_of(kind: str, content: bytes) -> dict[str, list[str]]:
    """Return the fields of a form.

    Args:
        content: its bytes.

    Raises:
        RefusedError: if it is no form.
    """
    if kind.partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise RefusedError(415, "what is sent must be a form")
    return query_of(content.decode("utf-8", "replace"))
