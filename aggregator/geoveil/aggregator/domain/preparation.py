"""Preparation of one request's reports for the store, and the outcome of each."""

from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import NamedTuple

from geoveil.aggregator.domain.campaign_cache import Publication
from geoveil.aggregator.domain.reports import (
    PackedReport,
    Report,
    ReportColumns,
    ReportResult,
    Status,
    UnreadReports,
    not_shown,
)
from geoveil.aggregator.domain.store_contract import Outcome
from geoveil.campaign import Admission, Reason

NOT_BEGUN = "period must be one that has begun"
"""The reason for rejecting a report for a later period."""
_FEW, _FEW_WITH_TOKENS, _MODERATE = 200, 20, 2_500
"""The numbers of reports that take about a millisecond: one by one, with tokens, by NumPy."""
_RESULTS = MappingProxyType(
    {
        Outcome.ACCEPTED: ReportResult(Status.ACCEPTED),
        Outcome.DUPLICATE: ReportResult(Status.DUPLICATE),
        Outcome.ID_CONFLICT: ReportResult(
            Status.REJECTED,
            Reason.ID_CONFLICT,
            "report_id must be new, or come with the answers and period it came with before",
        ),
        Outcome.NOT_OPEN: ReportResult(
            Status.REJECTED, Reason.NOT_OPEN, "the campaign must be open to take a new report"
        ),
    }
)
_EARLY_RESULTS = MappingProxyType(
    {**_RESULTS, Outcome.NOT_OPEN: ReportResult(Status.REJECTED, Reason.WRONG_PERIOD, NOT_BEGUN)}
)


@not_shown
class Prepared(NamedTuple):
    """The part of a request that goes to the store."""

    faults: Sequence[ReportResult | None]
    """The fault of each report of the request; None for valid ones."""
    early: Sequence[bool]
    """For each valid report, whether its period has not begun; empty if none is early."""
    packed: tuple[Sequence[PackedReport], Sequence[PackedReport]]
    """The valid reports for periods that have begun, and those for later periods."""

    def results(self, in_time: Iterator[Outcome], early: Iterator[Outcome]) -> list[ReportResult]:
        """Return the results in the reports' order from the store's outcomes of both parts."""
        if self.early:
            sound = iter(
                [
                    _EARLY_RESULTS[next(early)] if is_early else _RESULTS[next(in_time)]
                    for is_early in self.early
                ]
            )
        else:
            sound = map(_RESULTS.__getitem__, in_time)
        if not any(self.faults):
            return list(sound)
        return [next(sound) if fault is None else fault for fault in self.faults]


def takes_little(publication: Publication, reports: Sequence[Report] | UnreadReports) -> bool:
    """Return whether `prepare` takes no more than about a millisecond."""
    if type(reports) is ReportColumns:
        return len(reports) < _MODERATE and _all_sound(publication.admission, reports)
    return len(reports) < (_FEW if publication.campaign.token_key is None else _FEW_WITH_TOKENS)


def prepare(
    publication: Publication, reports: Sequence[Report] | UnreadReports, latest: int
) -> Prepared:
    """Read, check and pack reports, up to the latest period that has begun.

    Raises:
        ParameterError: if a report can't be read.
    """
    if isinstance(reports, UnreadReports):
        reports = reports.read(publication.campaign.columns)
    admission, pack = publication.admission, publication.layout.pack
    if type(reports) is ReportColumns and _all_sound(admission, reports):
        faults: list[ReportResult | None] = [None] * len(reports)
        if not (reports.periods > latest).any():
            return Prepared(faults, (), (pack(reports), ()))
    else:
        faults = [
            (fault := admission.fault(*report)) and ReportResult(Status.REJECTED, *fault)
            for report in reports
        ]
    sound = reports
    if any(faults):
        sound = [report for report, fault in zip(reports, faults, strict=True) if fault is None]
    early = [report.period > latest for report in sound]
    if not any(early):
        return Prepared(faults, (), (pack(sound), ()))
    in_time = [r for r, is_early in zip(sound, early, strict=True) if not is_early]
    later = [r for r, is_early in zip(sound, early, strict=True) if is_early]
    return Prepared(faults, early, (pack(in_time), pack(later)))


def _all_sound(admission: Admission, reports: ReportColumns) -> bool:
    return admission.all_sound(reports.indices, reports.values, reports.periods)
