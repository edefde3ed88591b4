"""Many reports of one answer each, as arrays: what most large requests hold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from geoveil.aggregator.domain.reports import Report
from geoveil.campaign.admission import REPORT_ID_BYTES


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ReportColumns(Sequence[Report]):
    """A sequence of reports to whoever takes them one by one.

    Args:
        ids: 16 bytes per report, joined.
        indices: query index of each.
        values: integers on the campaign's grid.
        periods: of a recurring campaign, else 0.

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

    @overload
    def __getitem__(self, index: int) -> Report: ...
    @overload
    def __getitem__(self, index: slice) -> list[Report]: ...
    def __getitem__(self, index: int | slice) -> Report | list[Report]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        return Report(
            self.ids[REPORT_ID_BYTES * at : REPORT_ID_BYTES * (at + 1)],
            [(int(self.indices[at]), int(self.values[at]))],
            int(self.periods[at]),
        )

    def __iter__(self) -> Iterator[Report]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"ReportColumns({len(self)}, not shown)"


def any_later(reports: Sequence[Report], period: int) -> bool:
    """Return whether a report is of a later period.

    Example:
        >>> any_later([Report(bytes(16), [(0, 1)], period=3)], 3)
        False
    """
    if isinstance(reports, ReportColumns):
        return bool((reports.periods > period).any())
    return any(report.period > period for report in reports)
