"""The cap of a campaign for a wished central ε."""

from dataclasses import replace

from geoveil.analyst.central import CentralWish
from geoveil.analyst.planner import Prior
from geoveil.analyst.planner.caps import ChosenCap, cheapest_cap
from geoveil.campaign import AttributeCampaign, StatisticCampaign
from geoveil.gp import ParameterError, UnsupportedError


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
