"""Reports as the service sees them, and what becomes of each.

A report is perturbed before it leaves the device, but it is one person's: it is shown nowhere, so
the representations here hide it.
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import chain
from struct import Struct
from typing import NamedTuple

from geoveil.campaign.admission import Reason

_ANSWER = Struct("<Iq")


class Report(NamedTuple):
    """What one participant sent."""

    report_id: bytes
    answers: Sequence[tuple[int, int]]
    """(query index, integer on the campaign's grid) pairs."""
    period: int = 0
    """The period of a recurring campaign, from 0."""

    def __repr__(self) -> str:
        return "Report(not shown)"


class PackedReport(NamedTuple):
    """A validated report, small, in the form that is stored."""

    report_id: bytes
    answers: bytes
    """What `pack` returns."""

    def __repr__(self) -> str:
        return "PackedReport(not shown)"


class Status(Enum):
    """What became of a report."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    REJECTED = "rejected"


class Result(NamedTuple):
    """The answer to one report."""

    status: Status
    reason: Reason | None = None
    detail: str = ""
    """Names the field, its value and what is permitted. For the sender only: it goes in no log."""

    def __repr__(self) -> str:
        return f"Result({self.status}, {self.reason}, detail not shown)"


def pack(answers: Sequence[tuple[int, int]]) -> bytes:
    """Return 12 bytes per answer: the index as uint32 and the value as int64, little-endian.

    The index is of the sum that the answer is added to: see `Layout`.
    """
    if len(answers) == 1:
        return _ANSWER.pack(*answers[0])
    return Struct("<" + "Iq" * len(answers)).pack(*chain.from_iterable(answers))


def unpack(answers: bytes) -> Iterator[tuple[int, int]]:
    """Return the answers of one report, or of many joined."""
    return _ANSWER.iter_unpack(answers)


def count_answers(reports: Sequence[PackedReport]) -> int:
    """Return how many answers reports hold."""
    return sum(len(answers) for _, answers in reports) // _ANSWER.size
