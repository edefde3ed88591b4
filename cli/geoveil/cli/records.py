"""Estimates as rows of tables and JSON; ε always with its unit."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from geoveil.campaign import Campaign, decode
from geoveil.proto.v1 import analyst_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One query's estimate. None where there are too few reports; ε is of a whole report.

    `one_report` is how far a single report can move the estimate: None where there are none, and
    where the query was asked later.
    """

    name: str
    estimate: float | None
    standard_error: float | None
    ci_low: float | None
    ci_high: float | None
    n: int
    one_report: float | None
    epsilon: float
    per: float
    unit: str

    def to_json(self) -> dict[str, object]:
        """Return the fields by name."""
        return asdict(self)


def read(
    response: analyst_pb2.GetEstimateResponse, *, later: bool = False
) -> tuple[Campaign, list[Record]]:
    """Return the campaign of a response and a record per query.

    Args:
        response: of the server.
        later: whether its queries were asked of the points of a value campaign.
    """
    campaign = decode(response.envelope.campaign)
    return campaign, list(_records(campaign, response, later))


def _records(
    campaign: Campaign, response: analyst_pb2.GetEstimateResponse, later: bool
) -> Iterator[Record]:
    for number, estimate in enumerate(response.estimates):
        counted = estimate.n > 0 and not later
        column = number % campaign.columns  # period after period
        shown = estimate.HasField("standard_error")
        yield Record(
            name=estimate.label,
            estimate=estimate.value if estimate.HasField("value") else None,
            standard_error=estimate.standard_error if shown else None,
            ci_low=estimate.ci_low if shown else None,
            ci_high=estimate.ci_high if shown else None,
            n=estimate.n,
            one_report=campaign.most_from_one(column) / estimate.n if counted else None,
            epsilon=campaign.report_privacy.epsilon,
            per=campaign.report_privacy.per,
            unit=campaign.report_privacy.unit,
        )
