"""What a report to a campaign must look like, apart from when it comes and whether it is new."""

from types import MappingProxyType

from geoveil.aggregator.reports import ID_BYTES, Reason, Report, Result, Status
from geoveil.campaign import Allocation, Campaign
from geoveil.gp import ParameterError

_INT64 = (-(2**63), 2**63 - 1)
_MOST_SHOWN = 5
_ANSWERS = MappingProxyType(
    {
        Allocation.PARTITION: "one number from 0 to {last}",
        Allocation.SPLIT: "all the numbers from 0 to {last}, in order",
    }
)
"""What `Allocation.admits` asks for, in words."""


class Admission:
    """The checks of one campaign, ready for many reports.

    Args:
        campaign: that reports are made for.
    """

    def __init__(self, campaign: Campaign) -> None:
        self._allocation = campaign.allocation
        self._queries = len(campaign.questions)
        # An answer that the mechanism can't produce comes from a client that does not follow it.
        ranges = [mechanism.grid_range for mechanism in campaign.mechanisms]
        self._ranges = [(max(low, _INT64[0]), min(high, _INT64[1])) for low, high in ranges]

    def fault(self, report: Report) -> Result | None:
        """Return why the report can never be counted, or None if nothing is wrong with it."""
        report_id, answers = report
        if len(report_id) != ID_BYTES:
            return _rejected(
                Reason.MALFORMED_ID, "length of report_id", len(report_id), f"{ID_BYTES} bytes"
            )
        indices = [index for index, _ in answers]
        if not self._allocation.admits(indices, self._queries):
            return self._wrong_answers(indices)
        for index, value in answers:
            low, high = self._ranges[index]
            if not low <= value <= high:
                return _rejected(
                    Reason.OUT_OF_RANGE,
                    f"answer to query {index}",
                    value,
                    f"an integer from {low} to {high}",
                )
        return None

    def _wrong_answers(self, indices: list[int]) -> Result:
        shown: object = indices
        if len(indices) > _MOST_SHOWN:
            shown = f"{indices[:_MOST_SHOWN]} and {len(indices) - _MOST_SHOWN} more"
        expected = _ANSWERS[self._allocation].format(last=self._queries - 1)
        return _rejected(Reason.WRONG_ANSWERS, "query_index of the answers", shown, expected)


def _rejected(reason: Reason, name: str, value: object, expected: str) -> Result:
    return Result(Status.REJECTED, reason, str(ParameterError(name, value, expected)))
