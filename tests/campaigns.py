"""Campaigns of either kind, for many tests."""

from collections.abc import Iterable
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from geoveil.campaign import (
    Attribute,
    AttributeCampaign,
    PlanarLaplaceSpec,
    Question,
    StatisticCampaign,
    ValueCampaign,
)
from geoveil.campaign.admission import REPORT_ID_BYTES, Admission, Reason
from geoveil.gp import GeoPrivacy, Threshold

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)
HOME_AND_INCOME = """
[[field]]
kind = "place"
name = "home"
epsilon = 1
per = 500
area = {longitude_deg = 2.35, latitude_deg = 48.86, radius_m = 15000}
[[field]]
kind = "number"
name = "income"
unit = "dollar"
least = 0
most = 200000
epsilon = 1
per = 8000
"""
"""Fields of a form, as in its file."""


def _of_incomes(campaign_id: str) -> dict[str, Any]:
    return {
        "campaign_id": campaign_id,
        "title": "Household income",
        "attribute": Attribute(name="household income", unit="dollar"),
        "privacy": GeoPrivacy(1.0, 8_000.0, "dollar"),
        "opens": NOW - DAY,
        "closes": NOW + DAY,
    }


def above_100k(campaign_id: str = "income", **changes: Any) -> StatisticCampaign:
    """Return an open campaign on the share of incomes above 100,000 dollar."""
    asked = (Question("above 100,000", Threshold(100_000, 24_000, "smoothstep")),)
    return StatisticCampaign(**(_of_incomes(campaign_id) | {"questions": asked} | changes))


def perturbed_incomes(campaign_id: str = "incomes", **changes: Any) -> ValueCampaign:
    """Return an open campaign to which everybody sends a perturbed income."""
    mechanism = PlanarLaplaceSpec(1)
    return ValueCampaign(**(_of_incomes(campaign_id) | {"mechanism": mechanism} | changes))


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
