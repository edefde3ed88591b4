"""The app's limits on privacy costs, with windows and epochs."""

import math
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from geoveil.campaign import MOST_COHORTS, days_in, say
from geoveil.client.errors import exactly
from geoveil.client.values import Number, Point, ValueKind
from geoveil.gp import GeoPrivacy, LocalPrivacy, ParameterError, validation

_LIMIT = (
    'a GeoPrivacy with its unit, for example GeoPrivacy(epsilon=1, per=8000, unit="dollar"); it'
    " has a reach only with a delta, the most slack that is permitted"
)
_PURE = (
    'a pure GeoPrivacy with its unit, for example GeoPrivacy(epsilon=1, per=8000, unit="dollar")'
)
LONGEST = timedelta(days=36_525)
"""The longest window or epoch, so that none reaches back beyond the calendar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A limit on the cost of the reports that leave within any sliding window of one length.

    A waiting report counts until it is settled; a reading counts in every window in which a report
    from it leaves, regardless of when it was made.

    Raises:
        ParameterError: if the limit has no unit, or the length is not in (0, a century].
    """

    limit: GeoPrivacy
    """The largest privacy loss, in the attribute's unit."""
    length: timedelta
    """The length of the sliding window."""

    def __post_init__(self) -> None:
        check_limit("limit", self.limit)
        _check_length(self.length)


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """A value is read once per epoch, and perturbed once for all questions in that epoch.

    The device draws the start of its first epoch; the others follow. The first `contribute` in an
    epoch makes a reading at the rate of `privacy`, which is the joint cost of the epoch's answers
    to value campaigns and to questions about one number with `DebiasedLaplace`. Campaigns with a
    smaller rate get a coarser point, drawn once for each [MATH §13]. Places have one reading per
    campaign area, and ratios one per floor. Other answers have their own noise, and cost their own
    rates.

    Raises:
        ParameterError: if a guarantee has no unit or a δ, the length is not in (0, a century], or
            `finest` has a larger rate than `privacy` or another unit.

    Example:
        >>> print(Epoch(privacy=GeoPrivacy(1, 8000, "dollar"), length=timedelta(days=365)))
        read once in each stretch of 365 days, when it is first asked for, at ε = 1 per 8000\
 dollar; any 365 days touch two stretches, so that their readings cost at most ε = 2 per 8000\
 dollar (separately for each area of places, least value of ratios, and number of coordinates).\
 Answers without a reading cost their own ε
    """

    privacy: GeoPrivacy
    """The cost of one reading."""
    length: timedelta
    """The time for which a reading answers campaigns."""
    finest: GeoPrivacy | None = None
    """A campaign's largest permitted rate; None for that of `privacy`. A smaller rate gives every
    campaign a coarser point, so that two campaigns seldom get the same: at half the rate one time
    in 16 on a line, and one in 64 in the plane. The epoch still costs `privacy`."""

    def __post_init__(self) -> None:
        _check_pure("privacy", self.privacy)
        _check_length(self.length)
        finest = self.finest
        if finest is not None and (
            _check_pure("finest", finest).unit != self.privacy.unit
            or finest.exact_rate > self.privacy.exact_rate
        ):
            raise ParameterError("finest", exactly(finest), f"at most {exactly(self.privacy)}")

    @property
    def most(self) -> GeoPrivacy:
        """A campaign's largest permitted rate."""
        return self.privacy if self.finest is None else self.finest

    def __str__(self) -> str:
        days, twice = days_in(self.length), exactly(self.privacy.repeated(2))
        return say("epoch", days=days, privacy=exactly(self.privacy), twice=twice)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Limits on the privacy cost of one attribute.

    Raises:
        ParameterError: if a limit has no unit, the units differ or, for a place, are not metres,
            its points can't be perturbed once per epoch, or a reading costs more than a campaign's
            limit.

    Example:
        >>> from geoveil.client import Place, Point
        >>> from geoveil.gp.coordinates import Area
        >>> city = Area(longitude_deg=2.35, latitude_deg=48.86, radius_m=15_000)
        >>> home = Limit(campaign=GeoPrivacy(1, 500, "metre"), value=Place(city))
        >>> on_the_shop_floor = Limit(campaign=GeoPrivacy(1, 10, "metre"), value=Point(2))
    """

    campaign: GeoPrivacy
    """The largest cost of one campaign over all its periods. Its delta, 0 by default, limits the
    slack δ, up to its reach; the same holds for the other limits."""
    lifetime: GeoPrivacy | Literal["unbounded"] | None = None
    """The largest cost of all campaigns together, or "unbounded". None: the limit of `campaign`, or
    none if there are `windows`."""
    windows: tuple[Window, ...] = ()
    """The largest costs of all campaigns together in sliding windows."""
    value: ValueKind = field(default_factory=Number)
    """`Number()`, `Point(2)`, `Place(area)`; for forms also `Choice()`, `Ordinal()`, `Multiple()`.
    Campaigns for another kind are refused, so no server decides how to interpret a value."""
    epoch: Epoch | None = None
    """The epoch in which one perturbed value answers campaigns. None: every report is drawn anew,
    unless the campaign has `readings`."""
    cohorts: int = 0
    """With 2 to 16, campaigns with equal epochs may learn in which of that many parts of an epoch,
    or of a divisor's, this device's epochs begin, which links a person's reports for years. With 0
    no campaign may."""
    any_two: LocalPrivacy | None = None
    """The limit on any two values for one campaign over all its periods, for example
    `LocalPrivacy(math.log(1000))` for odds of 1,000 to 1. It permits only campaigns with a cap, and
    none from an epoch. None: no cap is required."""

    def __post_init__(self) -> None:
        check_limit("campaign", self.campaign)
        object.__setattr__(self, "windows", validation.items("windows", self.windows, Window))
        if self.lifetime is None and not self.windows:
            object.__setattr__(self, "lifetime", self.campaign)
        ever = None if self.lifetime == "unbounded" else self.lifetime
        if ever is not None:
            check_limit("lifetime", ever)
        validation.require_kind("value", self.value, ValueKind)
        validation.require_kind("epoch", self.epoch, Epoch | None)
        reading = None if self.epoch is None else self.epoch.privacy
        limits = (self.campaign, ever, *(w.limit for w in self.windows), reading)
        units = {limit.unit for limit in limits if limit is not None}
        if len(units) > 1:
            raise ParameterError("units of the limits", sorted(units), "all the same")
        reaches = {limit.reach for limit in limits if limit is not None and limit.delta > 0}
        if len(reaches) > 1:
            raise ParameterError("reaches of the limits", sorted(reaches), "all the same")
        if self.value.unit is not None and units != {self.value.unit}:
            expected = f"{self.value.unit!r} for a value of kind {type(self.value).__name__}"
            raise ParameterError("unit of the limits", self.campaign.unit, expected)
        if reading is not None and reading.exact_rate > self.campaign.exact_rate:
            raise ParameterError(
                "epoch.privacy", exactly(reading), f"at most {exactly(self.campaign)}"
            )
        if validation.require_count("cohorts", self.cohorts, 0, MOST_COHORTS) == 1:
            raise ParameterError("cohorts", self.cohorts, f"0, or 2 to {MOST_COHORTS}")
        if self.cohorts and self.epoch is not None and self.epoch.finest is not None:
            apart = "0 beside `finest`, which keeps campaigns apart"
            raise ParameterError("cohorts", self.cohorts, apart)
        validation.require_kind("any_two", self.any_two, LocalPrivacy | None)
        if reading is not None and isinstance(self.value, Point) and self.value.dimension > 3:
            raise ParameterError("value", str(self.value), "of at most 3 coordinates for an epoch")


def _check_length(length: object) -> None:
    if not isinstance(length, timedelta) or not timedelta(0) < length <= LONGEST:
        raise ParameterError(
            "length", str(length), f"a timedelta > 0 and at most {LONGEST.days:,} days"
        )


def exceeds(asked: GeoPrivacy, most: GeoPrivacy) -> bool:
    """Return whether a guarantee exceeds a limit in rate, δ, reach or unit."""
    return (
        asked.unit != most.unit
        or asked.exact_rate > most.exact_rate
        or asked.delta > most.delta
        or asked.reach < most.reach
    )


def check_limit(name: str, limit: object) -> GeoPrivacy:
    """Return a guarantee that is valid as an attribute's limit.

    Raises:
        ParameterError: if it has no unit, or a reach without a delta.
    """
    if (
        not isinstance(limit, GeoPrivacy)
        or not limit.unit
        or (limit.delta == 0 and limit.reach != math.inf)
    ):
        raise ParameterError(name, str(limit), _LIMIT)
    return limit


def _check_pure(name: str, limit: object) -> GeoPrivacy:
    privacy = check_limit(name, limit)
    if privacy.delta != 0:
        raise ParameterError(name, str(limit), _PURE)
    return privacy
