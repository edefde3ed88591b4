"""Reports in the service, and their outcomes.

A perturbed report still belongs to one person, so no repr here shows its content.
"""

import struct
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import Any, ClassVar, NamedTuple, TypeVar, final, overload

import numpy as np
from numpy.typing import NDArray

from geoveil.campaign import REPORT_ID_BYTES, Reason
from geoveil.gp import Accumulator, sums_of

_Row = TypeVar("_Row")
_ANSWER = struct.Struct("<Iq")
ANSWER_BYTES = _ANSWER.size
PACKED_ANSWER = np.dtype([("sum_index", "<u4"), ("value", "<i8")])
"""NumPy's type of a packed answer."""
_FEW = 64
"""Up to this many answers, adding one by one is faster than a call of NumPy."""
_BLOCK = 1 << 18
"""The number of answers added at once."""


def not_shown(kind: type[_Row]) -> type[_Row]:
    """Let the repr of a class show its name alone, since its objects hold reports."""
    changed: Any = kind
    changed.__repr__ = lambda _: f"{kind.__name__}(not shown)"
    return kind


@not_shown
class Report(NamedTuple):
    """The report of one participant."""

    report_id: bytes
    answers: Sequence[tuple[int, int]]
    """(query index, integer on the campaign's grid) pairs."""
    period: int = 0
    """The period of a recurring campaign, from 0."""
    token: bytes = b""
    """The proof of one report per person; empty if the campaign requires none."""


class UnreadReports(ABC):
    """Reports that are counted, but read only once they are admitted."""

    __slots__ = ()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read(self, most_answers: int) -> list[Report]:
        """Return the reports; one with too many answers keeps one more than the limit.

        Raises:
            ParameterError: if one is not a report, or far longer than its answers need.
        """


class _Columns(Sequence[_Row]):
    """A sequence whose elements are made when they are needed."""

    __slots__ = ()

    @abstractmethod
    def _row(self, at: int) -> _Row:
        """Return the element at a position."""

    @overload
    def __getitem__(self, index: int) -> _Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[_Row]: ...
    def __getitem__(self, index: int | slice) -> _Row | list[_Row]:
        if isinstance(index, slice):
            return [self._row(at) for at in range(len(self))[index]]
        return self._row(range(len(self))[index])

    def __iter__(self) -> Iterator[_Row]:
        return map(self._row, range(len(self)))


@final
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ReportColumns(_Columns[Report]):
    """Many reports with one answer each, as arrays, the usual content of large requests.

    It is a sequence of reports; fast paths test `type(reports) is ReportColumns`, which is ten
    times as fast as `isinstance` with an abstract base. `ids` joins 16 bytes per report, `indices`
    has query indices, `values` has integers on the campaign's grid, and `periods` are 0 unless the
    campaign recurs.

    Example:
        >>> columns = ReportColumns(
        ...     bytes(16) + b"another report's", np.array([0, 2], np.uint32),
        ...     np.array([-5, 7]), np.zeros(2, np.uint32))
        >>> len(columns), columns[1].answers
        (2, [(2, 7)])
    """

    ids: bytes
    indices: NDArray[np.uint32]
    values: NDArray[np.int64]
    periods: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.values)

    def _row(self, at: int) -> Report:
        return Report(
            self.ids[REPORT_ID_BYTES * at : REPORT_ID_BYTES * (at + 1)],
            [(int(self.indices[at]), int(self.values[at]))],
            int(self.periods[at]),
        )


@not_shown
class PackedReport(NamedTuple):
    """A validated report in its compact, stored form."""

    report_id: bytes
    answers: bytes
    """The result of `pack`."""


@final
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PackedColumns(_Columns[PackedReport]):
    """Many packed reports with one answer each, in their stored form, without an object per report.

    It joins 16 bytes of id and 12 bytes of answer per report.

    Example:
        >>> columns = PackedColumns(b"a report's id..." * 2, pack([(0, 7), (1, 8)]))
        >>> len(columns), columns[1].answers == pack([(1, 8)])
        (2, True)
    """

    ids: bytes
    answers: bytes

    def __len__(self) -> int:
        return len(self.ids) // REPORT_ID_BYTES

    def _row(self, at: int) -> PackedReport:
        return PackedReport(
            self.ids[REPORT_ID_BYTES * at : REPORT_ID_BYTES * (at + 1)],
            self.answers[ANSWER_BYTES * at : ANSWER_BYTES * (at + 1)],
        )

    @property
    def distinct(self) -> bool:
        """Whether the first halves of all ids differ; if not, compare the ids one by one."""
        halves = np.sort(np.frombuffer(self.ids, np.uint64)[::2])
        return not (halves[1:] == halves[:-1]).any()


def in_columns(reports: Sequence[PackedReport]) -> tuple[bytes, bytes]:
    """Return the joined ids of reports, and their joined answers.

    Example:
        >>> in_columns([PackedReport(b"id", b"an"), PackedReport(b"of", b"swer")])
        (b'idof', b'answer')
    """
    if type(reports) is PackedColumns:
        return reports.ids, reports.answers
    return b"".join([r.report_id for r in reports]), b"".join([r.answers for r in reports])


class Status(Enum):
    """The outcome of a report."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    REJECTED = "rejected"


class ReportResult(NamedTuple):
    """The result of one report."""

    status: Status
    reason: Reason | None = None
    detail: str = ""
    """Field, value and permitted range, only for the sender; logs never contain it."""

    def __repr__(self) -> str:
        return f"ReportResult({self.status}, {self.reason}, detail not shown)"


def pack(answers: Sequence[tuple[int, int]]) -> bytes:
    """Return 12 bytes per answer: its sum's index (`Layout`) as uint32, and its value as int64."""
    return struct.pack("<" + "Iq" * len(answers), *chain.from_iterable(answers))


unpack: Callable[[bytes], Iterator[tuple[int, int]]] = _ANSWER.iter_unpack
"""Returns the answers of one report, or of many joined reports."""


@final
@dataclass(frozen=True, slots=True)
class Bins:
    """Rows that count a campaign's answers by bin, after the rows of its sums.

    A row of counts is an `Accumulator` with only n. `first` is the row after the last sum; `ends`
    has for each column the last integer of each bin except the last, at most 63.
    """

    first: int
    ends: tuple[tuple[int, ...], ...]

    WIDTH: ClassVar[int] = 64
    """The number of rows per sum."""

    def row(self, sum_index: int, bin_index: int = 0) -> int:
        """Return the row of a sum's bin."""
        return self.first + self.WIDTH * sum_index + bin_index

    def row_of(self, sum_index: int, value: int) -> int:
        """Return the row that counts an answer."""
        return self.row(sum_index, bisect_left(self.ends[sum_index % len(self.ends)], value))

    def rows_of(self, sum_index: int, values: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
        """Yield the rows that count answers to one sum, each with its count."""
        ends = self.ends[sum_index % len(self.ends)]
        counts = np.bincount(np.searchsorted(ends, values))
        for at in np.flatnonzero(counts).tolist():
            yield self.row(sum_index, at), int(counts[at])


def tally(answers: bytes, bins: Bins | None = None) -> dict[int, Accumulator]:
    """Return the exact sums of packed answers, and their counts in bins, by index.

    Example:
        >>> tally(pack([(7, -(2**63)), (7, -1), (2, 5)]))[7].total == -(2**63) - 1
        True
    """
    if len(answers) <= _FEW * ANSWER_BYTES:
        few: dict[int, tuple[int, int, int]] = {}
        for index, value in unpack(answers):
            n, total, squares = few.get(index, (0, 0, 0))
            few[index] = n + 1, total + value, squares + value * value
            if bins is not None:
                row = bins.row_of(index, value)
                few[row] = few.get(row, (0, 0, 0))[0] + 1, 0, 0
        return {index: Accumulator(*of_one) for index, of_one in few.items()}
    sums: dict[int, Accumulator] = {}
    packed = np.frombuffer(answers, PACKED_ANSWER)
    for start in range(0, len(packed), _BLOCK):
        for index, of_block in _tally_block(packed[start : start + _BLOCK], bins).items():
            sums[index] = sums[index] + of_block if index in sums else of_block
    return sums


def _tally_block(answers: NDArray[np.void], bins: Bins | None) -> Mapping[int, Accumulator]:
    indices = answers["sum_index"]
    order = np.argsort(indices, kind="stable")
    indices, values = indices[order], answers["value"][order]
    starts = np.flatnonzero(np.concatenate([[True], indices[1:] != indices[:-1]]))
    sums = dict(zip(indices[starts].tolist(), sums_of(values, starts), strict=True))
    if bins is not None:
        for index, part in zip(list(sums), np.split(values, starts[1:]), strict=True):
            sums |= {row: Accumulator(count) for row, count in bins.rows_of(index, part)}
    return sums
