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
"""The path of all the console's pages."""
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
"""HTTP status by the server's error code; 503 for all other codes."""
# The largest form has 40; each takes microseconds of the process that answers.
_MOST_FIELDS = 200
_NO_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
Event: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]


class Lane(Enum):
    """The kind of thread that makes a page; the event loop makes none."""

    __repr__ = enum_repr

    QUICK = "quick"
    """A few threads, for pages that take milliseconds."""
    WORK = "work"
    """One thread, for pages that may take seconds, so that the event loop always has a
    processor."""
    PLAN = "plan"
    """Threads that only wait for the planning process."""


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
    """The response to a request."""

    content: bytes
    kind: str = "text/html; charset=utf-8"
    status: int = 200
    headers: Headers = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A signed-in user's request for a page, in the process that makes the page."""

    method: str
    path: str
    """Without the prefix, beginning with a slash."""
    query: Mapping[str, Sequence[str]]
    fields: Mapping[str, Sequence[str]]
    """The fields of the submitted form."""
    files: Mapping[str, bytes]
    """Files uploaded before, by the names of their form fields."""
    named: Mapping[str, str]
    """The values of the route's parameters."""
    session: "Session"
    analyst: "PageAnalyst"
    """Queries the server for the signed-in user. It blocks, so only lanes may use it."""
    now: datetime
    """The time of the request."""
    address: str
    """The server's address in the Python code that pages show."""
    render: Callable[..., Response] = field(repr=False)
    """Makes a page from the name of a template and its data."""
    note: Callable[..., None] = field(repr=False)
    """Writes an action to the audit log: its name and details."""

    def text(self, name: str, default: str = "") -> str:
        """Return a value from the form, otherwise from the query string, stripped of blanks."""
        values = self.fields.get(name) or self.query.get(name) or (default,)
        return values[-1].strip()

    def number(self, name: str, default: float | None = None) -> float | None:
        """Return a field's number; the default if it is empty.

        Raises:
            ParameterError: if it is not a number.
        """
        said = self.text(name)
        if not said:
            return default
        try:
            return float(said.replace(",", "").replace("\u2009", ""))
        except ValueError:
            raise ParameterError(name, said[:40], "a number") from None

    def integer(self, name: str, default: int | None = None) -> int | None:
        """Return a field's whole number; the default if it is empty.

        Raises:
            ParameterError: if it is not a whole number.
        """
        number = self.number(name)
        if number is None:
            return default
        if number != number or not number.is_integer() or abs(number) > 1e15:
            raise ParameterError(name, self.text(name)[:40], "a whole number")
        return int(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayRequest(PageRequest):
    """A request for a page that the gateway's own process makes."""

    begin_asking: Callable[[], None] = field(repr=False)
    """Starts the process for statistics of points early, so that its first page comes sooner."""


@dataclass(frozen=True, slots=True)
class Route:
    """A page: its path, and the function that makes it.

    Args:
        method: GET or POST; the console first checks that a POST comes from one of its own
            forms.
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
    """Return the status and text of an error page."""
    if isinstance(error, RefusedError):
        return error.status, error.text
    if isinstance(error, ServerError):
        return STATUS.get(error.code, 503), error.detail or error.code
    return 400, str(error)


def seen_at(path: str) -> Response:
    """Return a response that redirects the browser to another page after a form.

    Args:
        path: below the prefix, with its query.
    """
    where = f"{PREFIX}{path}".encode("ascii", "strict")
    return Response(b"", status=303, headers=[(b"location", where)])


def download(content: bytes, kind: str, name: str) -> Response:
    """Return a file that a browser saves instead of showing it.

    Args:
        name: of ASCII letters, digits, dots, "-" and "_".
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
    headers = [(b"content-disposition", f'attachment; filename="{safe}"'.encode())]
    return Response(content, kind, headers=headers)


def guards(frames: bytes) -> Headers:
    """Return the headers of every page; they forbid content from other sites.

    Args:
        frames: the origins that may frame the page, separated by blanks; "'none'" for none.
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
        (b"referrer-policy", b"same-origin"),  # "no-referrer" makes browsers send origin "null"
        (b"permissions-policy", b"geolocation=(), camera=(), microphone=()"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"cache-control", b"no-store"),
    )


async def write(send: Send, method: str, response: Response, around: Headers) -> None:
    """Send a response.

    Args:
        around: headers to add to the response's own.
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
    """Return the fields of a query string.

    Raises:
        RefusedError: if it has too many fields, or a percent sign that is not an escape.
    """
    if _NO_ESCAPE.search(text):  # the parser spends a third of a microsecond on each
        raise RefusedError(400, "a percent sign must be written as %25")
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise RefusedError(400, "there are too many fields") from None


def form_of(kind: str, content: bytes) -> dict[str, list[str]]:
    """Return the fields of a form.

    Raises:
        RefusedError: if it is not a form.
    """
    if kind.partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise RefusedError(415, "the request must be a form")
    return query_of(content.decode("utf-8", "replace"))
