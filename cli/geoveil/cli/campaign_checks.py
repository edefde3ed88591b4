"""What a campaign can be expected to find, and campaigns that can't be meant."""

import math

import numpy as np

from geoveil.campaign import Campaign, StatisticCampaign, ValueCampaign
from geoveil.cli.campaign_flags import Places
from geoveil.gp import ParameterError
from geoveil.gp.coordinates import AzimuthalEquidistant

_MOST_EPSILON = 10.0
"""Over PER, within which values are to look alike: e^10 is 22,026."""
_MOST_TOLD_APART = 10_000.0
"""Distances PER/ε from one end of the values to the other."""
_INHABITED = (-60.0, 84.0)
"""Degrees of latitude."""


def expected_text(campaign: Campaign, participants: int) -> str:
    """Return what error an estimate will have, in words."""
    if isinstance(campaign, ValueCampaign):
        rate = campaign.point_mechanism.privacy.rate
        moved = campaign.dimension / rate  # the mean of a gamma distribution [MATH §9]
        return (
            f"each point is moved by {moved:,.4g} {campaign.attribute.unit} on average; 'geoveil"
            " plan' tells the error of a question that is asked of them"
        )
    assert isinstance(campaign, StatisticCampaign)
    error, label = max(_errors(campaign, participants))
    of = "" if len(campaign.questions) == 1 else f" ({label!r}, the largest)"
    return (
        f"expect a standard error of at most {error:.2g}{of} with {participants:,} participants,"
        " and half of it with four times as many"
    )


def refuse_unlikely(campaign: Campaign, participants: int, places: Places) -> None:
    """Refuse what is hardly meant: useless estimates, privacy in name only, misplaced places.

    Args:
        campaign: to be published.
        participants: that are expected.
        places: label → longitude and latitude, as they were given.

    Raises:
        ParameterError: naming what to change, or --force.
    """
    _check_places(campaign, places)
    _check_hidden(campaign)
    if not isinstance(campaign, StatisticCampaign):
        return
    error, label = max(_errors(campaign, participants))
    if not error <= 0.5:
        raise ParameterError(
            "standard error",
            f"{error:.3g} of {label!r}",
            f"at most 0.5 with {participants:,} participants: ask with a larger --width or"
            " --bandwidth, expect more --participants, or publish it all the same with --force",
        )


def _errors(campaign: StatisticCampaign, participants: int) -> list[tuple[float, str]]:
    """Return the largest standard error of each question, noise and sampling together."""
    answers = participants / (1 if campaign.allocation.answers_all else campaign.columns)
    found = []
    for question, mechanism in zip(campaign.questions, campaign.mechanisms, strict=True):
        low, high = question.query.profile.bounds
        variance = mechanism.largest_variance + ((high - low) / 2) ** 2
        found.append((math.sqrt(variance / answers), question.label))
    return found


def _check_hidden(campaign: Campaign) -> None:
    privacy = campaign.privacy
    if privacy.epsilon > _MOST_EPSILON:
        raise ParameterError(
            "--epsilon",
            privacy.epsilon,
            f"at most {_MOST_EPSILON:g}, as values PER apart are to look alike: give the distance"
            " within which they are, or publish it all the same with --force",
        )
    diameter = _diameter(campaign)
    if privacy.rate * diameter > _MOST_TOLD_APART:
        raise ParameterError(
            "--per",
            privacy.per,
            f"such that PER/ε is at least a {_MOST_TOLD_APART:,.0f}th of the {diameter:,.6g}"
            f" {privacy.unit} that values differ by, else next to nothing is hidden; publish it all"
            " the same with --force",
        )


def _diameter(campaign: Campaign) -> float:
    """Return how far values differ: over the area of places, or from 0 to where it is asked."""
    plane = campaign.attribute.coordinates
    if plane is not None:
        return 2 * plane.radius_m
    origin = np.zeros(1 if campaign.dimension == 1 else (1, campaign.dimension))
    if not isinstance(campaign, StatisticCampaign):
        return 0.0
    return max(float(q.query.clearance(origin)[0]) for q in campaign.questions)


def _check_places(campaign: Campaign, places: Places) -> None:
    plane = campaign.attribute.coordinates
    if plane is None:
        return
    for label, (longitude, latitude) in {
        "center": (plane.longitude_deg, plane.latitude_deg), **places
    }.items():  # fmt: skip
        where = f"{label}={longitude:.15g},{latitude:.15g}"
        if not _INHABITED[0] <= latitude <= _INHABITED[1]:
            raise ParameterError(
                "place",
                where,
                "where people live; the longitude comes first. Publish it all the same with"
                " --force",
            )
        if not _inside(plane, longitude, latitude):
            swapped = abs(longitude) <= 90 and _inside(plane, latitude, longitude)
            hint = "; the longitude comes first" if swapped else ", or --radius larger"
            raise ParameterError(
                "place",
                where,
                f"within {plane.radius_m:,.0f} metre of {plane.longitude_deg:.15g},"
                f"{plane.latitude_deg:.15g}{hint}. Publish it all the same with --force",
            )


def _inside(plane: AzimuthalEquidistant, longitude: float, latitude: float) -> bool:
    place = np.array([longitude, latitude])
    return np.array_equal(plane.area.contract(place), place)
