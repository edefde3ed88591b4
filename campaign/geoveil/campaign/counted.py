"""The range within which reports count: what one report, drawn or made up, can weigh at most."""

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from geoveil.gp.exact.release import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from geoveil.campaign.model import Campaign

LIKELY_BEYOND = 2.0**-41
"""Share of reports that honest noise takes out of the range, at most: of a million, one in two
million times any."""
_ABOVE_RADIUS = 1 + Fraction(1, 10**9)
"""Above the rounding of places that are projected."""


def counted_ranges(campaign: "Campaign") -> tuple[tuple[int, int], ...]:
    """Return the least and greatest integer that counts in each column; see `Campaign.ranges`."""
    if not campaign.is_value:
        beyond = LIKELY_BEYOND / campaign.answers
        return tuple(mechanism.likely_range(beyond) for mechanism in campaign.mechanisms)
    if campaign.attribute.coordinates is None:
        return ((INT64_MIN, INT64_MAX),) * campaign.columns  # numbers have no ends
    # Places lie in a disc around the origin of the plane, moved onto it from outside.
    mechanism = campaign.point_mechanism
    reach = Fraction(campaign.attribute.coordinates.radius_m) * _ABOVE_RADIUS
    reach += Fraction(mechanism.likely_reach(LIKELY_BEYOND))
    most = min(math.ceil(reach / Fraction(mechanism.step)), INT64_MAX)
    return ((-most, most),) * campaign.columns


def columns_that_clamp(campaign: "Campaign") -> tuple[bool, ...]:
    """Return for each column whether reports go beyond what counts; see `Campaign.clamps`."""
    if campaign.is_value:
        released = ((INT64_MIN, INT64_MAX),) * campaign.columns
    else:
        released = tuple(mechanism.grid_range for mechanism in campaign.mechanisms)
    return tuple(of_one != counts for of_one, counts in zip(released, campaign.ranges, strict=True))
