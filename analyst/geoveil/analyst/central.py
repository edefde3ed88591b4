"""The central privacy of a campaign's reports in random order."""

from collections.abc import Mapping
from typing import Any

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
from geoveil.gp import GeoPrivacy


def central_record(
    campaign: AttributeCampaign, honest: int, delta: float | None = None
) -> dict[str, Any] | None:
    """Return the central ε of one report each of honest people, in uniformly random order.

    Args:
        campaign: public.
        honest: how many people are that answer the same question.
        delta: in (0, 1); None: 10⁻⁶, or 0.01/honest if that is less.

    Returns:
        None where none is proven: without a cap that protects far values, with a δ, or for answers
        from readings; and if nobody is honest.

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
        privacy: of a report.
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
