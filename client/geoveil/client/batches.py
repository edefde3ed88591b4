"""Reports packed into requests, and the server's result for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Self

from geoveil.campaign import MOST_REPORTS, one_line
from geoveil.client.contributions import Contribution, DeliveryStatus, Rejection
from geoveil.client.errors import TransportError
from geoveil.proto.v1 import collector_pb2, report_pb2

MOST_BYTES = 4 << 20
"""The most bytes of one request: gRPC's limit unless a server raises it."""
_FIELD_OVERHEAD = 6
"""The most bytes of the tag and length of a report of up to 4 GiB."""


@dataclass(frozen=True, slots=True)
class SubmissionResult:
    """The outcome of one report."""

    status: DeliveryStatus
    """ACKNOWLEDGED or REJECTED."""
    rejection: Rejection | None = None


_COUNTED = (report_pb2.REPORT_STATUS_ACCEPTED, report_pb2.REPORT_STATUS_DUPLICATE)


@dataclass(slots=True)
class ReportBatch:
    """The reports of one request, up to its limits."""

    campaign_id: str
    """The id of the campaign that all its reports answer."""
    digest: bytes
    """SHA-256 of the campaign bytes that the reports answer."""
    contributions: list[Contribution] = field(default_factory=list)
    """The reports in the request's order."""
    _size: int | None = field(default=None, init=False)

    @classmethod
    def of(cls, contribution: Contribution) -> Self:
        """Return a request with one report."""
        return cls(contribution.campaign_id, contribution.digest, [contribution])

    def add(self, contribution: Contribution) -> bool:
        """Add a contribution to the same campaign, unless it makes the request too large."""
        size = self.request().ByteSize() if self._size is None else self._size
        size += len(contribution.report) + _FIELD_OVERHEAD
        if size > MOST_BYTES or len(self.contributions) == MOST_REPORTS:
            return False
        self.contributions.append(contribution)
        self._size = size
        return True

    def request(self) -> collector_pb2.SubmitReportsRequest:
        """Return the request, with the reports' bytes unchanged."""
        return collector_pb2.SubmitReportsRequest(
            campaign_id=self.campaign_id,
            campaign_digest=self.digest,
            reports=[report_pb2.Report.FromString(c.report) for c in self.contributions],
        )

    def results(
        self, response: collector_pb2.SubmitReportsResponse
    ) -> tuple[SubmissionResult, ...]:
        """Return the result of each contribution, in order.

        Raises:
            TransportError: INTERNAL if the response breaks the contract; all reports may be sent
                again.
        """
        if len(response.results) != len(self.contributions):
            raise TransportError(
                "INTERNAL",
                f"the server gave {len(response.results)} results for"
                f" {len(self.contributions)} reports",
            )
        each = []
        for result in response.results:
            if result.status in _COUNTED:
                each.append(SubmissionResult(DeliveryStatus.ACKNOWLEDGED))
            elif result.status == report_pb2.REPORT_STATUS_REJECTED:
                why = Rejection(_reason(result.reason), one_line(result.detail))
                each.append(SubmissionResult(DeliveryStatus.REJECTED, why))
            else:
                unknown = f"the server gave the unknown status {result.status}"
                raise TransportError("INTERNAL", unknown)
        return tuple(each)


def gather(contributions: Iterable[Contribution]) -> Iterator[ReportBatch]:
    """Yield batches of at most 10,000 reports and 4 MiB, each for one period of one campaign.

    A batch has at most one report per participant, so no request shows which reports belong
    together. Reports of one campaign and period keep their order; at most one unfinished batch of
    each is in memory.

    Example:
        >>> [batch.request() for batch in gather([])]
        []
    """
    open_batches: dict[tuple[str, bytes, int], ReportBatch] = {}
    for contribution in contributions:
        key = (contribution.campaign_id, contribution.digest, contribution.period)
        batch = open_batches.get(key)
        if batch is not None and batch.add(contribution):
            continue
        open_batches[key] = ReportBatch.of(contribution)
        if batch is not None:
            yield batch
    yield from open_batches.values()


def _reason(number: report_pb2.RejectionReason.ValueType) -> str:
    """Return the name of a rejection reason, or its number if it is newer than this version."""
    if number not in report_pb2.RejectionReason.values():
        return str(number)
    return report_pb2.RejectionReason.Name(number).removeprefix("REJECTION_REASON_")
