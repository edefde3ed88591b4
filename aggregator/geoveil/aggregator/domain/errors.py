"""The service's errors: a closed list of codes, each with a gRPC status and a public text.

    GeoVeilError
    ├── ServiceError      what the service refuses or can't do: names its `Code`
    └── ParameterError …  what the domain refuses: INVALID_ARGUMENT, with its own text

Anything else is a defect, of which the caller sees only "internal error".
"""

import traceback
from enum import Enum
from typing import NamedTuple

from geoveil.campaign import SignatureInvalid
from geoveil.gp import GeoVeilError, ParameterError, enum_repr

_LONGEST_TEXT = 300
"""The most characters of a public text; with its details it must fit in headers of 8 KiB."""
_LONGEST_FIELD = 100


class StatusOfCode(NamedTuple):
    """The status and text that a caller gets for a code."""

    status: str
    """The name of a `grpc.StatusCode`, so that the domain need not import gRPC."""
    text: str
    """The public text."""
    retry_after_s: float | None = None
    """Seconds until the same request may be sent again; None if it must be changed."""


class Code(Enum):
    """The kind of error. Its name is the reason in google.rpc.ErrorInfo, and never changes."""

    __repr__ = enum_repr

    CAMPAIGN_NOT_FOUND = StatusOfCode("NOT_FOUND", "there is no such campaign")
    CAMPAIGN_FULL = StatusOfCode(
        "RESOURCE_EXHAUSTED",
        "the campaign has reached its limit of reports",
        retry_after_s=3600.0,
    )
    CAMPAIGN_ID_TAKEN = StatusOfCode(
        "ALREADY_EXISTS",
        "another campaign, or this one with another signature, has this campaign_id: choose "
        "another",
    )
    DATABASE_UNUSABLE = StatusOfCode("FAILED_PRECONDITION", "the database can't be used")
    DIGEST_MISMATCH = StatusOfCode(
        "FAILED_PRECONDITION",
        "campaign_digest does not match the campaign: fetch the campaign again",
    )
    DISK_FULL = StatusOfCode(
        "RESOURCE_EXHAUSTED", "there is no room for more: send again later", retry_after_s=60.0
    )
    INTERNAL = StatusOfCode("INTERNAL", "internal error")
    INVALID_ARGUMENT = StatusOfCode("INVALID_ARGUMENT", "a field is out of range")
    QUEUE_FULL = StatusOfCode(
        "RESOURCE_EXHAUSTED",
        "too many reports wait to be written: send again later",
        retry_after_s=1.0,
    )
    RATE_LIMITED = StatusOfCode(
        "RESOURCE_EXHAUSTED", "too many requests: send again later", retry_after_s=1.0
    )
    REPORTS_DELETED = StatusOfCode(
        "FAILED_PRECONDITION",
        "single reports are deleted after the campaign's signed date, and only sums are kept",
    )
    SIGNATURE_INVALID = StatusOfCode(
        "INVALID_ARGUMENT", "the signature of the campaign is not valid"
    )
    SIGNER_NOT_TRUSTED = StatusOfCode(
        "PERMISSION_DENIED", "this server only takes campaigns signed by a key that it trusts"
    )
    STOPPING = StatusOfCode(
        "UNAVAILABLE", "the server is stopping: send again later", retry_after_s=2.0
    )
    STORE_UNAVAILABLE = StatusOfCode(
        "UNAVAILABLE",
        "the database can't be reached or written: send again later",
        retry_after_s=5.0,
    )
    TOO_COSTLY = StatusOfCode("FAILED_PRECONDITION", "this is too much to compute in one call")
    TOO_FEW_REPORTS = StatusOfCode(
        "FAILED_PRECONDITION", "there are too few reports to show an estimate"
    )


class ServiceError(GeoVeilError):
    """The service refuses a request, or can't serve it.

    Args:
        code: the kind of error.
        detail: a text for this server's operator, never sent to a caller.
        told: a text for the caller in addition to the code's.
        retry_after_s: seconds until a new attempt, instead of the code's.

    Example:
        >>> str(ServiceError(Code.DATABASE_UNUSABLE, "schema version 2"))
        "the database can't be used: schema version 2"
    """

    def __init__(
        self, code: Code, detail: str = "", *, told: str = "", retry_after_s: float | None = None
    ) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail
        self.told = told
        self.retry_after_s = code.value.retry_after_s if retry_after_s is None else retry_after_s

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.code.value.text, self.told, self.detail)))


class Violation(NamedTuple):
    """A field of the request that is out of range."""

    field: str
    permitted: str


class PublicError(NamedTuple):
    """The public part of an error, for the caller."""

    code: Code
    text: str
    retry_after_s: float | None = None
    violation: Violation | None = None

    @property
    def status(self) -> str:
        """The name of a `grpc.StatusCode`."""
        return self.code.value.status


def public(error: Exception) -> PublicError:
    """Return the public part of an error, for the caller.

    Example:
        >>> public(ValueError("anything")).text
        'internal error'
    """
    if isinstance(error, ServiceError):
        parts = (error.code.value.text, error.told)
        return PublicError(
            error.code, _shorten(": ".join(filter(None, parts))), error.retry_after_s
        )
    if isinstance(error, SignatureInvalid):
        return PublicError(Code.SIGNATURE_INVALID, _shorten(str(error)))
    if isinstance(error, GeoVeilError):
        violation = None
        if isinstance(error, ParameterError):
            violation = Violation(
                _shorten(error.name, _LONGEST_FIELD), _shorten(error.expected, _LONGEST_FIELD)
            )
        return PublicError(Code.INVALID_ARGUMENT, _shorten(str(error)), violation=violation)
    return PublicError(Code.INTERNAL, Code.INTERNAL.value.text)


def _shorten(text: str, longest: int = _LONGEST_TEXT) -> str:
    """Cut out the middle of a long text, since both ends of a message matter."""
    if len(text) <= longest:
        return text
    half = (longest - 3) // 2
    return f"{text[:half]}...{text[-half:]}"


def traceback_without_values(error: BaseException) -> str:
    """Return an exception's traceback and causes, without messages, which may quote reports."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    parts = []
    for link in reversed(chain):
        kind = type(link)
        frames = "".join(traceback.format_tb(link.__traceback__))
        parts.append(
            f"Traceback (most recent call last):\n{frames}"
            f"{kind.__module__}.{kind.__qualname__} (message not shown)\n"
        )
    return "while handling or because of it:\n".join(parts)
