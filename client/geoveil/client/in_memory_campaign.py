"""One campaign in memory: which reports it counts, as the real server would."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from geoveil.campaign import Campaign, State
from geoveil.campaign.admission import Admission, Reason
from geoveil.proto.v1 import campaign_pb2, report_pb2

_CLOCK_SKEW = timedelta(minutes=1)
"""By how much the clocks of devices and server may differ; the real one's default."""


@dataclass(slots=True)
class HeldCampaign:
    """A campaign, and the reports it has counted."""

    campaign: Campaign
    envelope: campaign_pb2.CampaignEnvelope
    closed: bool = False
    reports: dict[bytes, report_pb2.Report] = field(default_factory=dict)
    _admission: Admission = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._admission = Admission(self.campaign)

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
        fault = self._admission.fault(report.report_id, _answers(report), report.period)
        reason = fault.reason if fault else self._untimely(report, now)
        if reason is not None:
            return report_pb2.ReportResult(
                status=report_pb2.REPORT_STATUS_REJECTED,
                reason=report_pb2.RejectionReason.Value(f"REJECTION_REASON_{reason.name}"),
                detail=f"refused: {reason.value}",
            )
        if report.report_id in self.reports:
            return report_pb2.ReportResult(status=report_pb2.REPORT_STATUS_DUPLICATE)
        self.reports[report.report_id] = self.counted(report)
        return report_pb2.ReportResult(status=report_pb2.REPORT_STATUS_ACCEPTED)

    def _untimely(self, report: report_pb2.Report, now: datetime | None) -> Reason | None:
        """Return why a sound report is not counted at a time, or None if it is."""
        held = self.reports.get(report.report_id)
        if held is not None:  # a duplicate is one whatever has become of clock and campaign
            same = _content(held) == _content(self.counted(report))
            return None if same else Reason.ID_CONFLICT
        if not self.begun(report.period, now):
            return Reason.WRONG_PERIOD
        return None if self.takes(now) else Reason.NOT_OPEN


def _answers(report: report_pb2.Report) -> list[tuple[int, int]]:
    return [(answer.query_index, answer.value) for answer in report.answers]


def _content(report: report_pb2.Report) -> tuple[int, list[tuple[int, int]]]:
    return report.period, _answers(report)
