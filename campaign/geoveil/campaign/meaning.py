"""The quantity that a campaign's estimates are unbiased for, in words."""

import math
from decimal import ROUND_CEILING, Context

from geoveil.campaign.attribute_campaign import AttributeCampaign, require_attribute
from geoveil.campaign.statistic import StatisticCampaign
from geoveil.campaign.words import digits

_EVERYBODY = "the mean of the soft query over all who took part{period}"
_SAMPLED = ", of whom those who answered it are a random sample"
_OF_COHORTS = ", or over those of them who are in the cohort that is named"
_CARRIED = ", as each of them was when their device last read the value"
_EXTRAPOLATED = (
    ", if it goes on as it went between two readings of each device, whose clock was right at both;"
    " left out are devices whose readings lie too close together, until they read again"
)
_MEAN_POINT = "the mean of each coordinate over all who took part{period}"
_MEAN_LOGARITHM = (
    "the mean of the logarithm over all who took part{period}, whose exponential is the geometric"
    " mean"
)


def unbiased_for(campaign: AttributeCampaign, *, later: bool = False) -> str:
    """Return the quantity that a campaign's estimates target; `later` for questions to points."""
    bias = max(
        (mechanism.bias_bound for mechanism in require_attribute(campaign).mechanisms), default=0.0
    )
    if bias == math.inf:
        return "Unbiased for nothing: the noise has no mean."
    nearly = _within(bias) if bias else ""
    if later:
        mean = _EVERYBODY
    elif isinstance(campaign, StatisticCampaign):
        mean = _EVERYBODY if campaign.answers_all else _EVERYBODY + _SAMPLED
    else:
        mean = _MEAN_POINT if campaign.attribute.scale is None else _MEAN_LOGARITHM
    period = " in the period" if campaign.period else ""
    mean += _OF_COHORTS if campaign.cohorts > 1 and not later else ""
    moved = ""
    if campaign.attribute.coordinates is not None:
        moved = ", with places outside the campaign's area moved into it"
    if campaign.attribute.scale is not None:
        least = f"{campaign.attribute.scale.floor:,.15g} {campaign.attribute.value_unit}"
        moved = f", with values below {least} counted as that"
    if campaign.clamped:
        low, high = map(digits, (campaign.attribute.least or 0.0, campaign.attribute.most or 0.0))
        moved = f", of values clamped to [{low}, {high}] {campaign.attribute.value_unit}"
    when = ""
    if campaign.readings is not None:
        when = _EXTRAPOLATED if campaign.readings.extrapolated else _CARRIED
    return f"Unbiased{nearly} for {mean.format(period=period)}{moved}{when}."


def _within(bias: float) -> str:
    """Return a clause on a small bias, rounded up."""
    shown = Context(prec=2, rounding=ROUND_CEILING).create_decimal(bias)
    return f", except for a bias of at most {shown:g},"
