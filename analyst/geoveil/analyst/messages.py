"""Parse the messages of a server: campaigns, estimates, reports."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from geoveil.analyst.estimates import CampaignEstimates, joint_of
from geoveil.analyst.labelled_estimate import LabelledEstimate, RobustInterval
from geoveil.analyst.statistics.joint import JointEstimates
from geoveil.analyst.statistics.report_files import ReportRows
from geoveil.campaign import (
    AttributeCampaign,
    Campaign,
    StatisticCampaign,
    ValueCampaign,
    decode,
    decode_attribute_campaign,
    decode_privacy,
)
from geoveil.gp import (
    UNLIMITED,
    Basis,
    ForgedShare,
    GeoPrivacy,
    IntervalMethod,
    Limits,
    NoiseVariance,
    UnsupportedError,
)
from geoveil.proto.v1 import analyst_pb2, campaign_pb2

_STATES: dict[int, str] = {
    number: name.removeprefix("CAMPAIGN_STATE_").lower()
    for name, number in campaign_pb2.CampaignState.items()
}
_METHODS: dict[int, IntervalMethod] = {
    analyst_pb2.IntervalMethod.Value(f"INTERVAL_METHOD_{method.name}"): method
    for method in IntervalMethod
}
POINTS_EXPONENT = -30
"""Estimates from points are rounded to 2 to this power, as the protocol says."""


@dataclass(frozen=True, slots=True)
class PublishedCampaign:
    """A campaign as a server lists it."""

    envelope: campaign_pb2.CampaignEnvelope
    """Its bytes and their signature: see `geoveil.campaign.signer`."""
    state: str
    """pending, open or closed."""
    reports: int
    """The number of reports counted so far, over all queries and periods."""

    @property
    def campaign(self) -> Campaign:
        """The campaign, of any kind.

        Raises:
            GeoVeilError: if the bytes are not a valid campaign.
        """
        return decode(self.envelope.campaign)


def published(message: analyst_pb2.CampaignSummary) -> PublishedCampaign:
    """Return the campaign of a message."""
    return PublishedCampaign(message.envelope, _state(message.state), message.reports)


def estimates_in(
    message: analyst_pb2.GetEstimateResponse, *, of_points: bool = False
) -> CampaignEstimates:
    """Return the estimates of a message.

    Args:
        of_points: whether its queries were asked of the points of a value campaign.
    """
    campaign = decode_attribute_campaign(message.envelope.campaign)
    rows: dict[bool, list[LabelledEstimate]] = {False: [], True: []}
    for shown in message.estimates:  # period after period, in each all people and cohorts
        of = rows[shown.HasField("cohort")]
        of.append(_estimate(campaign, len(of) % campaign.columns, shown, of_points))
    return CampaignEstimates(
        campaign,
        _state(message.state),
        tuple(rows[False]),
        message.unbiased_for,
        _privacy(campaign, message.privacy),
        _privacy(campaign, message.privacy_at_most),
        of_cohorts=tuple(rows[True]),
    )


def joint_in(message: analyst_pb2.GetEstimateResponse, *, together: bool) -> JointEstimates:
    """Return two or more answers of a message about the points of one period.

    Args:
        together: whether they have covariances.

    Raises:
        UnsupportedError: if they lack them, since the server is too old.
    """
    estimates = estimates_in(message, of_points=True)
    size = len(estimates.estimates)
    covariance = np.array([row.standard_error or 0.0 for row in estimates.estimates]) ** 2
    if together:
        if not message.covariances:
            raise UnsupportedError("the estimates came without covariances: an old server")
        covariance = np.zeros((size, size))
        covariance[np.tril_indices(size)] = message.covariances[0].lower_triangle
        covariance += np.tril(covariance, -1).T
    return joint_of(estimates.campaign, estimates.estimates, covariance)


def rows_in(message: analyst_pb2.ExportReportsResponse) -> ReportRows:
    """Return the rows of a message."""

    def array(numbers: Any, kind: Any) -> Any:
        return np.fromiter(numbers, kind, len(numbers))

    return ReportRows(
        array(message.periods, np.uint32),
        array(message.query_indices, np.uint32) if message.query_indices else None,
        tuple(array(column.values, np.int64) for column in message.columns),
        array(message.cohorts, np.uint32) if message.cohorts else None,
    )


def _estimate(
    campaign: AttributeCampaign, column: int, shown: analyst_pb2.Estimate, of_points: bool
) -> LabelledEstimate:
    several = shown.HasField("standard_error")
    weight = math.inf if of_points else campaign.most_from_one(column)
    robust = shown.median_of_means
    return LabelledEstimate(
        label=shown.label,
        value=shown.value if shown.HasField("value") else None,
        standard_error=shown.standard_error if several else None,
        ci_low=shown.ci_low if several else None,
        ci_high=shown.ci_high if several else None,
        method=_METHODS.get(shown.interval_method),
        confidence=shown.confidence,
        n=shown.n,
        one_report=weight / shown.n if shown.n > 0 and math.isfinite(weight) else None,
        privacy=campaign.report_privacy,
        period=shown.period,
        cohort=shown.cohort if shown.HasField("cohort") else None,
        forged=(
            ForgedShare(shown.forged_share_at_least)
            if shown.HasField("forged_share_at_least")
            else None
        ),
        robust=(
            RobustInterval(robust.value, robust.ci_low, robust.ci_high, robust.blocks)
            if shown.HasField("median_of_means")
            else None
        ),
        sums=(int(shown.sum or 0), int(shown.sum_of_squares or 0)),
        step_exponent=POINTS_EXPONENT if of_points else campaign.grid_exponent,
        limits=_limits(campaign, shown, of_points),
        softness=(
            campaign.questions[column].softness
            if isinstance(campaign, StatisticCampaign) and not of_points
            else None
        ),
        noise=_noise(campaign, column, shown, of_points),
        mechanism=campaign.mechanisms[column] if isinstance(campaign, StatisticCampaign) else None,
    )


def _limits(campaign: AttributeCampaign, shown: analyst_pb2.Estimate, of_points: bool) -> Limits:
    """Return the server's limits, with the mechanism's law from the campaign."""
    if not shown.HasField("limits"):
        return UNLIMITED
    limits, own = shown.limits, UNLIMITED
    if not of_points:
        own = campaign.limits[campaign.labels.index(shown.label)]
    return Limits(
        (limits.least_answer, limits.greatest_answer),
        (limits.least_mean, limits.greatest_mean),
        own.moments,
        own.possible,
    )


def _noise(
    campaign: AttributeCampaign, column: int, shown: analyst_pb2.Estimate, of_points: bool
) -> NoiseVariance | None:
    """Return the noise variance of the server or the campaign."""
    if shown.HasField("noise_variance"):
        noise = shown.noise_variance
        return NoiseVariance(noise.value, noise.ci_low, noise.ci_high, Basis.ESTIMATED)
    if not isinstance(campaign, ValueCampaign) or of_points:
        return None
    mechanism = campaign.point_mechanism
    of_point = np.ravel(mechanism.variance(np.zeros((1, mechanism.dimension))))
    exact = float(of_point[column])
    return NoiseVariance(exact, exact, exact, Basis.EXACT)


def _privacy(campaign: AttributeCampaign, message: campaign_pb2.Privacy) -> GeoPrivacy:
    return decode_privacy(message, campaign.privacy.unit)


def _state(number: int) -> str:
    return _STATES.get(number, f"state {number}")
