"""Every error of the service: a closed list of codes, each with a gRPC status and a public text.

    GeoVeilError
    ├── ServiceError      what the service refuses or can't do: names its `Code`
    └── ParameterError …  what the domain refuses: INVALID_ARGUMENT, with its own text

Anything else is a defect: the caller learns that there was one, and no more.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from geoveil.gp import GeoVeilError

_LONGEST_TEXT = 400
"""Characters of a public text: a status travels in a header of at most 8 KiB."""


class Code(Enum):
    """What went wrong."""

    CAMPAIGN_NOT_FOUND = "campaign not found"
    CAMPAIGN_ID_TAKEN = "campaign id taken"
    DATABASE_UNUSABLE = "database unusable"
    DIGEST_MISMATCH = "digest mismatch"
    INTERNAL = "internal"
    QUEUE_FULL = "queue full"
    STOPPING = "stopping"
    STORE_UNAVAILABLE = "store unavailable"


class Row(NamedTuple):
    """How a code is told to the caller."""

    status: str
    """The name of a `grpc.StatusCode`; a name, so that the domain need not import gRPC."""
    text: str
    """Public."""


CATALOGUE: Mapping[Code, Row] = MappingProxyType(
    {
        Code.CAMPAIGN_NOT_FOUND: Row("NOT_FOUND", "there is no such campaign"),
        Code.CAMPAIGN_ID_TAKEN: Row(
            "ALREADY_EXISTS", "the campaign_id is taken by other content: choose another"
        ),
        Code.DATABASE_UNUSABLE: Row("FAILED_PRECONDITION", "the database can't be used"),
        Code.DIGEST_MISMATCH: Row(
            "FAILED_PRECONDITION",
            "campaign_digest is not that of the campaign: fetch the campaign again",
        ),
        Code.INTERNAL: Row("INTERNAL", "internal error"),
        Code.QUEUE_FULL: Row(
            "RESOURCE_EXHAUSTED", "too many reports wait to be written: send again later"
        ),
        Code.STOPPING: Row("UNAVAILABLE", "the server is stopping: send again later"),
        Code.STORE_UNAVAILABLE: Row(
            "UNAVAILABLE", "the database can't be reached or written: send again later"
        ),
    }
)


class ServiceError(GeoVeilError):
    """The service refuses a request, or can't serve it.

    Attributes:
        code: what went wrong.
        detail: for the operator of this process; never sent to a caller.

    Example:
        >>> str(ServiceError(Code.DATABASE_UNUSABLE, "schema version 2"))
        "the database can't be used: schema version 2"
    """

    def __init__(self, code: Code, detail: str = "") -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        text = CATALOGUE[self.code].text
        return f"{text}: {self.detail}" if self.detail else text


def public(error: Exception) -> Row:
    """Return what a caller may learn of an error.

    Example:
        >>> public(ValueError("anything"))
        Row(status='INTERNAL', text='internal error')
    """
    if isinstance(error, ServiceError):
        return CATALOGUE[error.code]
    if isinstance(error, GeoVeilError):
        return Row("INVALID_ARGUMENT", _shorten(str(error)))
    return CATALOGUE[Code.INTERNAL]


def _shorten(text: str) -> str:
    """Return the text cut in its middle, as both ends of a message matter."""
    if len(text) <= _LONGEST_TEXT:
        return text
    half = (_LONGEST_TEXT - 3) // 2
    return f"{text[:half]}...{text[-half:]}"
