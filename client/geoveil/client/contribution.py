"""What leaves the device, and what the person gets to see of it."""

from dataclasses import dataclass

from geoveil.gp import GeoPrivacy
from geoveil.proto.v1 import report_pb2


@dataclass(frozen=True, slots=True)
class Answer:
    """A perturbed answer, as it left the device."""

    query_index: int
    """Counts from 0 in the campaign's list of queries."""
    value: int
    """An integer on the campaign's grid: it stands for value · 2^step_exponent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What left the device for one campaign. All of it is perturbed or public."""

    campaign_id: str
    """Of the campaign."""
    report_id: str
    """Of the report, in hexadecimal: random, and tied to nothing else."""
    digest: str
    """SHA-256 of the campaign's bytes, in hexadecimal."""
    answers: tuple[Answer, ...]
    """All that the server learns about the value."""
    privacy: GeoPrivacy
    """The guarantee for the whole campaign, with its unit."""
    acknowledged: bool
    """Whether the server has confirmed that the report is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """One report to one campaign, drawn once and ready to be sent as often as it takes."""

    campaign_id: str
    """Of the campaign."""
    digest: bytes
    """SHA-256 of the campaign bytes that the report was made for."""
    report: bytes
    """A serialised Report. These bytes are sent; they are never made again."""
    privacy: GeoPrivacy
    """The guarantee for the whole campaign."""

    def receipt(self, *, acknowledged: bool) -> Receipt:
        """Return what the person may see of it."""
        report = report_pb2.Report.FromString(self.report)
        return Receipt(
            campaign_id=self.campaign_id,
            report_id=report.report_id.hex(),
            digest=self.digest.hex(),
            answers=tuple(Answer(a.query_index, a.value) for a in report.answers),
            privacy=self.privacy,
            acknowledged=acknowledged,
        )
