"""Campaigns of either kind, for tests that make both."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from geoveil.campaign import AttributeCampaign, PlanarLaplaceSpec, StatisticCampaign, ValueCampaign
from geoveil.campaign.admission import REPORT_ID_BYTES, Admission, Reason


def campaign_of(**given: Any) -> AttributeCampaign:
    """Return a value campaign if the mechanism perturbs points, otherwise a statistic campaign."""
    if isinstance(given.get("mechanism"), PlanarLaplaceSpec):
        return ValueCampaign(
            **{name: given[name] for name in given if name not in ("questions", "allocation")}
        )
    return StatisticCampaign(**given)


def asked_for_points(campaign: AttributeCampaign, dimension: int, **changes: Any) -> ValueCampaign:
    """Return a value campaign that says what a campaign says, but for its questions."""
    common = {each.name: getattr(campaign, each.name) for each in fields(AttributeCampaign)}
    own = {"mechanism": PlanarLaplaceSpec(dimension), "step_exponent": None}
    return ValueCampaign(**(common | own | changes))


def admits(campaign: AttributeCampaign, indices: Iterable[int]) -> bool:
    """Return whether a report may have answers with these query indices, in this order."""
    answers = [(index, 0) for index in indices]
    fault = Admission(campaign).fault(bytes(REPORT_ID_BYTES), answers, 0)
    return fault is None or fault.reason is not Reason.WRONG_ANSWERS
