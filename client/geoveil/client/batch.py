"""Reports of many participants in few requests, and what the server's answers mean.

For a host that acts for many devices: each `ReportBuilder.prepare` makes one report, `gather` fills
requests with them, any transport sends these, and `Batch.outcomes` reads the answers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Self

from geoveil.campaign.admission import MOST_REPORTS
from geoveil.campaign.connection import shown
from geoveil.client.contribution import Contribution, Rejection, Status
from geoveil.client.errors import TransportError
from geoveil.proto.v1 import collector_pb2, report_pb2

MOST_BYTES = 4 << 20
"""Of one request; gRPC's limit unless a server raises it."""
_FIELD_OVERHEAD = 6
"""At most, for the tag and length of one report of up to 4 GiB."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one report."""

    status: Status
    """ACKNOWLEDGED or REJECTED."""
    rejection: Rejection | None = None
    """Why it was rejected."""


_OUTCOMES = {
    report_pb2.REPORT_STATUS_ACCEPTED: lambda result: Outcome(Status.ACKNOWLEDGED),
    report_pb2.REPORT_STATUS_DUPLICATE: lambda result: Outcome(Status.ACKNOWLEDGED),
    report_pb2.REPORT_STATUS_REJECTED: lambda result: Outcome(
        Status.REJECTED, Rejection(_reason(result.reason), shown(result.detail))
    ),
}


@dataclass(slots=True)
class Batch:
    """One request under way to its limits."""

    campaign_id: str
    """Of the campaign that all its reports answer."""
    digest: bytes
    """SHA-256 of the campaign bytes they were made for."""
    contributions: list[Contribution] = field(default_factory=list)
    """In the order of the request."""
    _size: int = field(init=False)

    def __post_init__(self) -> None:
        self._size = self.request().ByteSize()

    @classmethod
    def of(cls, contribution: Contribution) -> Self:
        """Return a request with one report."""
        return cls(contribution.campaign_id, contribution.digest, [contribution])

    def add(self, contribution: Contribution) -> bool:
        """Add a contribution to the same campaign, unless it makes the request too large."""
        size = self._size + len(contribution.report) + _FIELD_OVERHEAD
        if size > MOST_BYTES or len(self.contributions) == MOST_REPORTS:
            return False
        self.contributions.append(contribution)
        self._size = size
        return True

    def request(self) -> collector_pb2.SubmitReportsRequest:
        """Return the request, with the very bytes of the reports."""
        return collector_pb2.SubmitReportsRequest(
            campaign_id=self.campaign_id,
            campaign_digest=self.digest,
            reports=[report_pb2.Report.FromString(c.report) for c in self.contributions],
        )

    def outcomes(self, response: collector_pb2.SubmitReportsResponse) -> tuple[Outcome, ...]:
        """Return what became of each contribution, in their order.

        Raises:
            TransportError: with code INTERNAL, if the answer breaks the contract. Nothing is then
                known of any report; all of them may be sent again.
        """
        if len(response.results) != len(self.contributions):
            raise TransportError(
                "INTERNAL",
                f"the server gave {len(response.results)} results for"
                f" {len(self.contributions)} reports",
            )
        unknown = {r.status for r in response.results} - _OUTCOMES.keys()
        if unknown:
            raise TransportError("INTERNAL", f"the server gave the unknown status {min(unknown)}")
        return tuple(_OUTCOMES[r.status](r) for r in response.results)


def gather(contributions: Iterable[Contribution]) -> Iterator[Batch]:
    """Yield batches of at most 10,000 reports and 4 MiB, each for one period of one campaign.

    A participant has one report in each, so that no request shows which reports belong together.

    Args:
        contributions: in any order; those of one campaign and period keep theirs. They are read as
            batches are asked for: at most one unfinished batch of each is held.

    Example:
        >>> [batch.request() for batch in gather([])]
        []
    """
    open_batches: dict[tuple[str, bytes, int], Batch] = {}
    for contribution in contributions:
        key = (contribution.campaign_id, contribution.digest, contribution.period)
        batch = open_batches.get(key)
        if batch is not None and batch.add(contribution):
            continue
        open_batches[key] = Batch.of(contribution)
        if batch is not None:
            yield batch
    yield from open_batches.values()


def _reason(number: report_pb2.RejectionReason.ValueType) -> str:
    """Return the name of a rejection reason; a number if it is newer than this version."""
    if number not in report_pb2.RejectionReason.values():
        return str(number)
    return report_pb2.RejectionReason.Name(number).removeprefix("REJECTION_REASON_")
