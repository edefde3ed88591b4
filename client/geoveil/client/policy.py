"""What the app permits, whatever a server asks for."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from geoveil.campaign import Campaign
from geoveil.client.errors import PolicyRefused
from geoveil.gp import GeoPrivacy, ParameterError


@dataclass(frozen=True, slots=True)
class Policy:
    """The largest privacy loss per campaign, for each attribute that the app answers about.

    The policy is the app's own, so that no server decides how much privacy a person has. It
    bounds one campaign; several campaigns about one attribute add up.

    Args:
        limits: name of an attribute → the largest privacy loss, in that attribute's unit. An
            attribute that is not listed is never answered about.

    Raises:
        ParameterError: if a limit has no unit, or is not pure (delta = 0, any distance).

    Example:
        >>> policy = Policy({"household income": GeoPrivacy(epsilon=1, per=8000, unit="dollar")})
        >>> Policy({"household income": GeoPrivacy(epsilon=1, per=8000)})
        Traceback (most recent call last):
        ...
        geoveil.gp.errors.ParameterError: limits['household income'] must be a pure GeoPrivacy with\
 its unit, for example GeoPrivacy(epsilon=1, per=8000, unit="dollar"), got\
 limits['household income']='ε = 1 per 8000'
    """

    limits: Mapping[str, GeoPrivacy]

    def __post_init__(self) -> None:
        if not isinstance(self.limits, Mapping):
            raise ParameterError("limits", self.limits, "a mapping from attributes to GeoPrivacy")
        for attribute, limit in self.limits.items():
            if not isinstance(attribute, str) or not attribute:
                raise ParameterError("attribute in limits", attribute, "a name")
            sound = isinstance(limit, GeoPrivacy) and limit.unit
            if not sound or limit.delta != 0 or limit.reach != math.inf:
                raise ParameterError(
                    f"limits[{attribute!r}]",
                    str(limit),
                    "a pure GeoPrivacy with its unit, for example"
                    ' GeoPrivacy(epsilon=1, per=8000, unit="dollar")',
                )
        object.__setattr__(self, "limits", MappingProxyType(dict(self.limits)))

    def check(self, campaign: Campaign) -> None:
        """Refuse a campaign that asks for more than the limit of its attribute.

        Rates are compared as exact fractions: not an ulp more than the limit is permitted.

        Raises:
            PolicyRefused: if the attribute is not listed, the unit differs, or the rate is larger.
        """
        asked = campaign.privacy
        limit = self.limits.get(campaign.attribute.name)
        if limit is None or asked.unit != limit.unit or asked.exact_rate > limit.exact_rate:
            raise PolicyRefused(campaign.campaign_id, campaign.attribute.name, asked, limit)
