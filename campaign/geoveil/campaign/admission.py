"""Checks of a report against its campaign, except its time and whether it is new."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

from geoveil.campaign.model import Campaign
from geoveil.campaign.tokens import TokenRule
from geoveil.gp import INT64_MAX, INT64_MIN, NDArray, ParameterError, enum_repr, lazy, np

REPORT_ID_BYTES = 16
"""The length of a report's random id, by which it counts only once."""
MOST_REPORTS = 10_000
"""The most reports in one request."""
_MOST_SHOWN = 5
_ONE = "one number from 0 to {last}"
_EVERY = "all the numbers from 0 to {last}, in order"
_EVERY_OF_COHORT = "{many} numbers in order, up to {last}, the first a multiple of {many}"


class Reason(Enum):
    """The reason why a report can never be counted."""

    __repr__ = enum_repr

    MALFORMED_ID = "malformed id"
    ID_CONFLICT = "id conflict"
    WRONG_ANSWERS = "wrong answers"
    OUT_OF_RANGE = "out of range"
    NOT_OPEN = "not open"
    WRONG_PERIOD = "wrong period"
    WRONG_TOKEN = "wrong token"  # noqa: S105 - no password


class Fault(NamedTuple):
    """A fault of a report."""

    reason: Reason
    detail: str
    """Field, value and permitted range, only for the sender; logs never contain it."""

    def __repr__(self) -> str:
        return f"Fault({self.reason}, detail not shown)"


class Admission:
    """The checks of one campaign, ready for many reports."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._periods = campaign.periods
        self._tokens = TokenRule.of(campaign)
        self._many = campaign.answers
        """The number of answers in a report."""
        # An answer that the mechanism can't produce comes from a client that does not follow it.
        # Unbounded noise has no such answers; `Campaign.counted` says how its reports count.
        self._ranges = [
            (INT64_MIN, INT64_MAX) if clamps else (max(low, INT64_MIN), min(high, INT64_MAX))
            for (low, high), clamps in zip(campaign.ranges, campaign.clamps, strict=True)
        ] * campaign.cohorts

    @lazy
    def _bounds(self) -> NDArray[np.int64]:
        return np.array(self._ranges, np.int64).T

    def fault(
        self,
        report_id: bytes,
        answers: Sequence[tuple[int, int]],
        period: int,
        token: bytes = b"",
    ) -> Fault | None:
        """Return why a report can never be counted, or None if it is valid.

        Answers are pairs of a query index and an integer on the campaign's grid; periods count
        from 0, and may lie in the future. `token` matters only for campaigns that need tokens.
        """
        if len(report_id) != REPORT_ID_BYTES:
            return _fault(
                Reason.MALFORMED_ID,
                "length of report_id",
                len(report_id),
                f"{REPORT_ID_BYTES} bytes",
            )
        if not 0 <= period < self._periods:
            return _fault(
                Reason.WRONG_PERIOD, "period", period, f"an integer from 0 to {self._periods - 1}"
            )
        if self._tokens is not None and not self._tokens.is_sound(report_id, token, period):
            expected = "one that the campaign's issuer made for this report_id and period"
            return _fault(Reason.WRONG_TOKEN, "token", f"{len(token)} bytes", expected)
        indices = [index for index, _ in answers]
        first, many = indices[0] if indices else -1, self._many
        of_group = 0 <= first < len(self._ranges) and first % many == 0
        if not of_group or indices != list(range(first, first + many)):
            return self._wrong_answers(indices)
        for index, value in answers:
            low, high = self._ranges[index]
            if not low <= value <= high:
                expected = f"an integer from {low} to {high}"
                return _fault(Reason.OUT_OF_RANGE, f"answer to query {index}", value, expected)
        return None

    def all_sound(
        self,
        indices: NDArray[np.uint32],
        values: NDArray[np.int64],
        periods: NDArray[np.uint32],
    ) -> bool:
        """Return whether many reports with one answer each and valid ids are all free of faults.

        All arrays have shape (n,); values are on the campaign's grid, and periods as in `fault`.
        """
        if self._tokens is not None or self._many != 1 or (indices >= len(self._ranges)).any():
            return False
        lows, highs = self._bounds
        in_range = (lows[indices] <= values) & (values <= highs[indices])
        return bool(in_range.all() and (periods < self._periods).all())

    def _wrong_answers(self, indices: list[int]) -> Fault:
        shown: object = indices
        if len(indices) > _MOST_SHOWN:
            shown = f"{indices[:_MOST_SHOWN]} and {len(indices) - _MOST_SHOWN} more"
        campaign = self._campaign
        words = _ONE if self._many == 1 else _EVERY if campaign.cohorts == 1 else _EVERY_OF_COHORT
        expected = words.format(last=campaign.indices - 1, many=campaign.columns)
        return _fault(Reason.WRONG_ANSWERS, "query_index of the answers", shown, expected)


def _fault(reason: Reason, name: str, value: Any, expected: str) -> Fault:
    return Fault(reason, str(ParameterError(name, value, expected)))
