"""Estimates as rows of tables and JSON; ε always with its unit."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from geoveil.campaign import Campaign, decode
from geoveil.proto.v1 import analyst_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One query's estimate. None where there are too few reports; ε is of a whole report."""

    name: str
    estimate: float | None
    standard_error: float | None
    ci_low: float | None
    ci_high: float | None
    n: int
    epsilon: float
    per: float
    unit: str

    def to_json(self) -> dict[str, object]:
        """Return the fields by name."""
        return asdict(self)


def read(response: analyst_pb2.GetEstimateResponse) -> tuple[Campaign, list[Record]]:
    """Return the campaign of a response and a record per query."""
    campaign = decode(response.envelope.campaign)
    return campaign, list(_records(campaign, response))


def _records(campaign: Campaign, response: analyst_pb2.GetEstimateResponse) -> Iterator[Record]:
    for estimate in response.estimates:
        shown = estimate.HasField("standard_error")
        yield Record(
            name=estimate.label,
            estimate=estimate.value if estimate.HasField("value") else None,
            standard_error=estimate.standard_error if shown else None,
            ci_low=estimate.ci_low if shown else None,
            ci_high=estimate.ci_high if shown else None,
            n=estimate.n,
            epsilon=campaign.report_privacy.epsilon,
            per=campaign.report_privacy.per,
            unit=campaign.report_privacy.unit,
        )
