"""One campaign in memory: which reports it counts, as the real server would."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias

from geoveil.campaign import Campaign, State
from geoveil.proto.v1 import campaign_pb2, report_pb2

_ID_BYTES = 16
_CLOCK_SKEW = timedelta(minutes=1)
"""By how much the clocks of devices and server may differ; the real one's default."""


@dataclass(slots=True)
class HeldCampaign:
    """A campaign, and the reports it has counted."""

    campaign: Campaign
    envelope: campaign_pb2.CampaignEnvelope
    closed: bool = False
    reports: dict[bytes, report_pb2.Report] = field(default_factory=dict)

    def state(self, now: datetime | None) -> State:
        """Return the state at a time; None for one at which every campaign not closed is open."""
        return self.campaign.state(self.campaign.opens if now is None else now, closed=self.closed)

    def takes(self, now: datetime | None) -> bool:
        """Return whether new reports are counted."""
        if self.closed or now is None:
            return not self.closed
        return self.campaign.opens - now <= _CLOCK_SKEW and now - self.campaign.closes < _CLOCK_SKEW

    def begun(self, period: int, now: datetime | None) -> bool:
        """Return whether a period has begun; None for a time at which all have."""
        return now is None or period <= self.campaign.period_at(now + _CLOCK_SKEW)

    def counted(self, report: report_pb2.Report) -> report_pb2.Report:
        """Return a sound report with its answers as they count."""
        counted = report_pb2.Report()
        counted.CopyFrom(report)
        for answer in counted.answers:
            answer.value = self.campaign.counted(answer.query_index, answer.value)
        return counted

    def admit(self, report: report_pb2.Report, now: datetime | None) -> report_pb2.ReportResult:
        """Count a report, unless there is a reason not to."""
        for reason, holds in _CHECKS:
            if not holds(self, report, now):
                name = report_pb2.RejectionReason.Name(reason)
                return report_pb2.ReportResult(
                    status=report_pb2.REPORT_STATUS_REJECTED,
                    reason=reason,
                    detail=f"refused for {name.removeprefix('REJECTION_REASON_')}",
                )
        if report.report_id in self.reports:
            return report_pb2.ReportResult(status=report_pb2.REPORT_STATUS_DUPLICATE)
        self.reports[report.report_id] = self.counted(report)
        return report_pb2.ReportResult(status=report_pb2.REPORT_STATUS_ACCEPTED)


def _in_range(held: HeldCampaign, answer: report_pb2.Answer) -> bool:
    low, high = held.campaign.ranges[answer.query_index]
    outputs = held.campaign.outputs[answer.query_index]
    inside = low <= held.campaign.counted(answer.query_index, answer.value) <= high
    return inside and (outputs is None or answer.value in outputs)


def _content(report: report_pb2.Report) -> tuple[int, list[tuple[int, int]]]:
    return report.period, [(a.query_index, a.value) for a in report.answers]


_Check: TypeAlias = Callable[[HeldCampaign, report_pb2.Report, datetime | None], bool]
_CHECKS: tuple[tuple[report_pb2.RejectionReason.ValueType, _Check], ...] = (
    (
        report_pb2.REJECTION_REASON_MALFORMED_ID,
        lambda held, report, now: len(report.report_id) == _ID_BYTES,
    ),
    (
        report_pb2.REJECTION_REASON_WRONG_PERIOD,
        lambda held, report, now: report.period < held.campaign.periods,
    ),
    (
        report_pb2.REJECTION_REASON_WRONG_ANSWERS,
        lambda held, report, now: held.campaign.admits([a.query_index for a in report.answers]),
    ),
    (
        report_pb2.REJECTION_REASON_OUT_OF_RANGE,
        lambda held, report, now: all(_in_range(held, a) for a in report.answers),
    ),
    (
        report_pb2.REJECTION_REASON_ID_CONFLICT,
        lambda held, report, now: (
            report.report_id not in held.reports
            or _content(held.reports[report.report_id]) == _content(held.counted(report))
        ),
    ),
    # What was counted before is a duplicate, whatever has become of clock and campaign.
    (
        report_pb2.REJECTION_REASON_WRONG_PERIOD,
        lambda held, report, now: (
            report.report_id in held.reports or held.begun(report.period, now)
        ),
    ),
    (
        report_pb2.REJECTION_REASON_NOT_OPEN,
        lambda held, report, now: report.report_id in held.reports or held.takes(now),
    ),
)
"""What holds for a report that is counted, in the order in which the server looks."""
