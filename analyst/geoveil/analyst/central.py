"""The central privacy of a campaign's reports in random order."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from geoveil.analyst.planner import Prior
from geoveil.analyst.planner.caps import ChosenCap, cheapest_cap
from geoveil.analyst.shuffle import central_privacy
from geoveil.campaign import (
    Allocation,
    AttributeCampaign,
    StatisticCampaign,
    digits,
    ratio,
    rounded_up,
    to_one,
)
from geoveil.gp import GeoPrivacy, ParameterError, UnsupportedError, validation

_EIGHTHS, _MOST = 8, 48
"""The search for ε of a report goes in steps of an eighth, like that of caps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CentralWish:
    """A central ε between any two values that the cap of a campaign is to keep.

    Raises:
        ParameterError: if a field is out of range.
    """

    epsilon: float
    """In (0, 48]."""
    honest: int
    """How many honest reports answer the same question, from 1 to 10⁸."""
    delta: float | None = None
    """In (0, 1); None: 10⁻⁶, or 0.01/honest if that is less."""

    def __post_init__(self) -> None:
        validation.between("central", self.epsilon, 0, _MOST, low_open=True)
        self.of(1.0)

    def of(self, largest_epsilon: float) -> float:
        """Return the central ε of reports, each with this ε between any two values."""
        return central_privacy(largest_epsilon, self.honest, delta=self.delta).epsilon

    @property
    def largest_epsilon(self) -> float:
        """The largest permitted ε of a report, in eighths; 0 if an eighth is too much."""
        tried = range(1, _MOST * _EIGHTHS + 1)
        return bisect_right(tried, self.epsilon, key=lambda i: self.of(i / _EIGHTHS)) / _EIGHTHS


def central_record(
    campaign: AttributeCampaign, honest: int, delta: float | None = None
) -> dict[str, Any] | None:
    """Return the central ε of honest people's reports, one each, in uniformly random order.

    Args:
        campaign: public.
        honest: how many honest people answer the same question.
        delta: in (0, 1); None: 10⁻⁶, or 0.01/honest if that is less.

    Returns:
        None if no central ε is proven: without a cap that protects far values, with a δ, or for
        answers from readings; and if nobody is honest.

    Raises:
        ParameterError: if the number is not from 0 to 10⁸, or δ out of range.
    """
    privacy = campaign.report_privacy
    if (
        honest == 0
        or privacy.delta
        or to_one(campaign.largest_epsilon) is None
        or campaign.readings is not None
    ):
        return None
    of_any = central_privacy(campaign.largest_epsilon, honest, delta=delta)
    of_pair = central_privacy(campaign.largest_epsilon, honest, privacy.epsilon, delta)
    return {
        "honest": honest,
        "delta": of_any.delta,
        "any_two_epsilon": of_any.epsilon,
        "epsilon": of_pair.epsilon,
        "per": privacy.per,
        "in_window": campaign.window is not None,
    }


def of_one_question(campaign: AttributeCampaign, people: int) -> int:
    """Return how many people answer the same question, if all questions are equally likely."""
    parts = isinstance(campaign, StatisticCampaign) and campaign.allocation is Allocation.PARTITION
    return people // campaign.columns if parts else people


def central_text(record: Mapping[str, Any], privacy: GeoPrivacy) -> str:
    """Return the record of `central_record` as a sentence.

    Args:
        record: not None.
        privacy: the guarantee of a report.
    """
    apart = f"{digits(privacy.per)} {privacy.unit}"
    if privacy.value_unit is not None:
        apart = f"a factor {ratio(privacy.per)}"
    near, far = (rounded_up(record[name], 3) for name in ("epsilon", "any_two_epsilon"))
    how = "which takes a relay and a campaign with a window"
    if record["in_window"]:
        how = "as the campaign's window has it behind a relay for devices connected all through it"
    return (
        f"If {record['honest']:,} honest reports reach the analyst in uniformly random order with"
        f" no sender, {how}, their central ε is {near:g} between two values {apart} apart and"
        f" {far:g} between any two, at δ = {record['delta']:g}."
    )


def central_cap(campaign: AttributeCampaign, wish: CentralWish, prior: Prior) -> ChosenCap:
    """Return the cap that adds the least variance among those that keep a central ε.

    Args:
        campaign: without a cap.
        prior: a public law of points, in the coordinates of the queries.

    Raises:
        ParameterError: naming `central`, if no cap keeps it, with the least that there is.
    """
    if not isinstance(campaign, StatisticCampaign) or campaign.report_privacy.delta:
        expected = "left out with a delta, and of points; the allocation partition asks none"
        raise ParameterError("central", wish.epsilon, expected)
    refused = ParameterError("central", wish.epsilon, "left out: no cap serves these answers")
    try:
        widest, least = cheapest_cap(campaign.mechanisms, prior)
    except UnsupportedError:
        raise refused from None
    if widest is None:
        raise refused
    whole = replace(campaign, cap=widest.cap).largest_epsilon
    # A report of several answers has so many times their ε.
    times = whole / (widest.cap.below + widest.cap.above)
    chosen, _ = cheapest_cap(campaign.mechanisms, prior, wish.largest_epsilon / times)
    if chosen is None:
        raise out_of_reach(wish, least * times)
    return chosen


def out_of_reach(wish: CentralWish, largest_epsilon: float) -> ParameterError:
    """Return the error for a wish that needs a smaller ε of a report than any cap gives."""
    least = wish.of(min(largest_epsilon, 500.0))
    expected = (
        f"at least {least:.3g}, which {wish.honest:,} honest reports have with the least cap that"
        " these questions settle within; more of them, or fewer questions, allow less"
    )
    return ParameterError("central", wish.epsilon, expected)
