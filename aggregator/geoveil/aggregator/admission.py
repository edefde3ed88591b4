"""What a report to a campaign must look like, apart from when it comes and whether it is new."""

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np

from geoveil.aggregator.report_columns import ReportColumns
from geoveil.aggregator.reports import ID_BYTES, Reason, Report, Result, Status
from geoveil.campaign import Allocation, Campaign
from geoveil.gp import ParameterError

_INT64 = (-(2**63), 2**63 - 1)
_MOST_SHOWN = 5
_EVERY = "all the numbers from 0 to {last}, in order"
_ANSWERS = MappingProxyType(
    {
        Allocation.PARTITION: "one number from 0 to {last}",
        Allocation.SPLIT: _EVERY,
        Allocation.REPEAT: _EVERY,
    }
)
"""What `Campaign.admits` asks for, in words."""
NOT_BEGUN = "period must be one that has begun"
"""Why a report of a later period is rejected."""


class Admission:
    """The checks of one campaign, ready for many reports.

    Args:
        campaign: that reports are made for.
    """

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._periods = campaign.periods
        self._one_answer = all(campaign.admits([index]) for index in range(campaign.columns))
        # An answer that the mechanism can't produce comes from a client that does not follow it.
        # Where noise knows no bound there is none; what it counts as is for the layout to say.
        self._ranges = [
            _INT64 if clamps else (max(low, _INT64[0]), min(high, _INT64[1]))
            for (low, high), clamps in zip(campaign.ranges, campaign.clamps, strict=True)
        ]
        self._lows, self._highs = np.array(self._ranges, np.int64).T
        # Nor is a value between the outputs of a channel one that it can produce.
        self._outputs = {i: o for i, o in enumerate(campaign.outputs) if o is not None}
        self._tables = {i: np.array(sorted(o), np.int64) for i, o in self._outputs.items()}

    def faults(self, reports: Sequence[Report]) -> list[Result | None]:
        """Return the fault of each report; of a request without any, at the cost of one."""
        if isinstance(reports, ReportColumns) and self._sound(reports):
            return [None] * len(reports)
        return [self.fault(report) for report in reports]

    def fault(self, report: Report) -> Result | None:
        """Return why the report can never be counted, or None if nothing is wrong with it.

        Whether its period has begun is for the clock to say.
        """
        report_id, answers, period = report
        if len(report_id) != ID_BYTES:
            return _rejected(
                Reason.MALFORMED_ID, "length of report_id", len(report_id), f"{ID_BYTES} bytes"
            )
        if not 0 <= period < self._periods:
            return _rejected(
                Reason.WRONG_PERIOD, "period", period, f"an integer from 0 to {self._periods - 1}"
            )
        indices = [index for index, _ in answers]
        if not self._campaign.admits(indices):
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
            outputs = self._outputs.get(index)
            if outputs is not None and value not in outputs:
                expected = f"one of the {len(outputs)} outputs of its channel"
                return _rejected(Reason.OUT_OF_RANGE, f"answer to query {index}", value, expected)
        return None

    def _sound(self, reports: ReportColumns) -> bool:
        """Return whether no report has a fault."""
        if not self._one_answer or (reports.indices >= len(self._ranges)).any():
            return False
        low, high = self._lows[reports.indices], self._highs[reports.indices]
        in_range = (low <= reports.values) & (reports.values <= high)
        if not in_range.all() or (reports.periods >= self._periods).any():
            return False
        return all(
            np.isin(reports.values[reports.indices == index], outputs).all()
            for index, outputs in self._tables.items()
        )

    def _wrong_answers(self, indices: list[int]) -> Result:
        shown: object = indices
        if len(indices) > _MOST_SHOWN:
            shown = f"{indices[:_MOST_SHOWN]} and {len(indices) - _MOST_SHOWN} more"
        campaign = self._campaign
        words = _EVERY if campaign.is_value else _ANSWERS[campaign.allocation]
        expected = words.format(last=campaign.columns - 1)
        return _rejected(Reason.WRONG_ANSWERS, "query_index of the answers", shown, expected)


def _rejected(reason: Reason, name: str, value: object, expected: str) -> Result:
    return Result(Status.REJECTED, reason, str(ParameterError(name, value, expected)))
