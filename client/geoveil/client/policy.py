"""What the app permits, whatever a server asks for."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, Self, TypeVar

from geoveil.campaign import (
    LABEL_UNIT,
    MECHANISMS,
    MOST_COHORTS,
    QUERIES,
    AttributeCampaign,
    PublicKey,
    Readings,
    days_in,
    encode,
    to_one,
)
from geoveil.client.errors import PolicyRefused, exactly
from geoveil.client.values import Number, Place, Point, ValueKind, kind_of
from geoveil.gp import GeoPrivacy, LocalPrivacy, ParameterError, ReprByArguments, validation
from geoveil.proto.v1 import campaign_pb2 as pb


@dataclass(frozen=True, slots=True)
class Demand:
    """What a campaign asks of a device."""

    queries: int
    """Questions; 0 of a value campaign."""
    work: int
    """Microseconds of a processor, at most, to read the campaign and draw one report."""

    @classmethod
    def of(cls, campaign: bytes) -> "Demand":
        """Return what a serialised Campaign asks.

        Args:
            campaign: anything; whether it is sound is not looked at.

        Raises:
            DecodeError: if it is no message.
            ParameterError: if a question or the mechanism is of no kind.
            NotInstalled: if it is of a family that no package here provides.
        """
        message = pb.Campaign.FromString(campaign)
        answer = MECHANISMS.named_by(message.mechanism).drawn(message.mechanism)
        read, drawn = 0, []
        for query in message.queries:
            work, size = QUERIES.named_by(query).work, query.ByteSize()
            read += work.read + size // 2
            drawn.append(answer + (work.drawn + size // 10 if work.drawn else 0))
        if not drawn:
            most = answer * message.mechanism.planar_laplace.dimension
        elif message.allocation == pb.ALLOCATION_PARTITION:
            most = max(drawn)
        else:
            most = sum(drawn)
        read += message.mechanism.ByteSize() // 12
        return cls(len(message.queries), read + most)


_LIMIT = (
    'a GeoPrivacy with its unit, for example GeoPrivacy(epsilon=1, per=8000, unit="dollar"); it'
    " has a reach only with a delta, the most slack that is permitted"
)
_PURE = (
    'a pure GeoPrivacy with its unit, for example GeoPrivacy(epsilon=1, per=8000, unit="dollar")'
)
_Item = TypeVar("_Item")
MOST_QUERIES = 100
MOST_WORK = 10_000
LONGEST = timedelta(days=36_525)
"""The longest window or epoch; one that reaches back beyond the calendar is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The most that what leaves in any stretch of time of one length may cost.

    A report that waits to be sent counts until it is settled; a reading of an epoch counts
    in every stretch in which anything made from it leaves, whenever it was read.

    Raises:
        ParameterError: if the limit has no unit, or the length is not positive or more than a
            century.
    """

    limit: GeoPrivacy
    """The largest privacy loss, in the attribute's unit."""
    length: timedelta
    """How long a stretch is; it slides: the limit holds from any moment to that much later."""

    def __post_init__(self) -> None:
        _check_limit("limit", self.limit)
        _check_length(self.length)


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """A value is read once in a stretch of time, and perturbed once for all that is asked in it.

    The stretches follow each other; when the first begins, the device draws. The first `contribute`
    in one reads the value, at the rate of `privacy`, which is what all answers of the stretch cost
    together: those to value campaigns, and to questions about one number with `DebiasedLaplace`. To
    campaigns of a smaller rate they are made from a point that is coarser, drawn once for each
    campaign [MATH §13]. Places are read once for each plane, that is for each area that campaigns
    ask about. Other answers have noise of their own, and cost their own rates.

    Raises:
        ParameterError: if a privacy has no unit or is not pure, the length is not positive or more
            than a century, or `finest` is a larger rate than `privacy` or in another unit.

    Example:
        >>> print(Epoch(privacy=GeoPrivacy(1, 8000, "dollar"), length=timedelta(days=365)))
        read once in each stretch of 365 days, when it is first asked for, at ε = 1 per 8000\
 dollar; any 365 days touch two stretches, so that their readings cost at most ε = 2 per 8000\
 dollar (of places: for each area). What no reading answers costs its own ε
    """

    privacy: GeoPrivacy
    """What one reading costs."""
    length: timedelta
    """How long it is answered from."""
    finest: GeoPrivacy | None = None
    """The largest rate that a campaign may ask for; None: that of `privacy`. A smaller one makes
    every campaign's point a coarser one, so that two campaigns seldom see the same: at half the
    rate one time in 16 on a line, in 64 in the plane. It costs `privacy` all the same."""

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
        """The largest rate that a campaign may ask for."""
        return self.privacy if self.finest is None else self.finest

    def __str__(self) -> str:
        days, twice = in_days(self.length), exactly(self.privacy.repeated(2))
        return (
            f"read once in each stretch of {days}, when it is first asked for, at"
            f" {exactly(self.privacy)}; any {days} touch two stretches, so that their readings"
            f" cost at most {twice} (of places: for each area). What no reading answers costs its"
            " own ε"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How much privacy one attribute may cost.

    Raises:
        ParameterError: if a limit has no unit, the units differ, or those of a place are not
            metres; if points of its kind can't be perturbed once an epoch, or one reading
            costs more than one campaign may.

    Example:
        >>> from geoveil.client import Place, Point
        >>> from geoveil.gp.coordinates import Area
        >>> city = Area(longitude_deg=2.35, latitude_deg=48.86, radius_m=15_000)
        >>> home = Limit(campaign=GeoPrivacy(1, 500, "metre"), value=Place(city))
        >>> on_the_shop_floor = Limit(campaign=GeoPrivacy(1, 10, "metre"), value=Point(2))
    """

    campaign: GeoPrivacy
    """The most that one campaign may cost, with all its periods if it recurs. Its delta, 0 unless
    it is given, is the most slack δ, up to its reach; likewise in the others."""
    lifetime: GeoPrivacy | Literal["unbounded"] | None = None
    """The most that all campaigns together may ever cost, or "unbounded". None: as `campaign`,
    unless `windows` bound it."""
    windows: tuple[Window, ...] = ()
    """The most that all campaigns together may cost in any stretch of time."""
    value: ValueKind = field(default_factory=Number)
    """What the attribute is: `Number()`, `Point(2)`, or `Place(area)`. A campaign that takes it for
    anything else is refused, so that no server decides how a value is read."""
    epoch: Epoch | None = None
    """How long one perturbed value answers campaigns. None: every report is drawn anew, unless the
    campaign asks for readings of its own (`Campaign.readings`)."""
    cohorts: int = 0
    """Into how many parts an epoch is cut, of which campaigns may learn the one that this device's
    epochs begin in; 2 to 16. They may ask for as many or a divisor, and for epochs of the same
    length. It links a person's reports for years. 0: no campaign may."""
    any_two: LocalPrivacy | None = None
    """The most that one campaign may tell of any two values, however far apart, with all its
    periods: `LocalPrivacy(math.log(1000))` for odds of 1,000 to 1. Then only campaigns with a cap
    are answered, and none from an epoch. None: no cap is required."""

    def __post_init__(self) -> None:
        _check_limit("campaign", self.campaign)
        object.__setattr__(self, "windows", _all_of(Window, "windows", self.windows))
        if self.lifetime is None and not self.windows:
            object.__setattr__(self, "lifetime", self.campaign)
        ever = None if self.lifetime == "unbounded" else self.lifetime
        if ever is not None:
            _check_limit("lifetime", ever)
        if not isinstance(self.value, ValueKind):
            raise ParameterError("value", self.value, "a Number, a Point or a Place")
        if self.epoch is not None and not isinstance(self.epoch, Epoch):
            raise ParameterError("epoch", self.epoch, "an Epoch, or None")
        reading = None if self.epoch is None else self.epoch.privacy
        limits = (self.campaign, ever, *(w.limit for w in self.windows), reading)
        units = {limit.unit for limit in limits if limit is not None}
        if len(units) > 1:
            raise ParameterError("units of the limits", sorted(units), "all the same")
        reaches = {limit.reach for limit in limits if limit is not None and limit.delta > 0}
        if len(reaches) > 1:
            raise ParameterError("reaches of the limits", sorted(reaches), "all the same")
        if isinstance(self.value, Place) and units != {"metre"}:
            raise ParameterError("unit of the limits", self.campaign.unit, "'metre' for a Place")
        if reading is not None and reading.exact_rate > self.campaign.exact_rate:
            raise ParameterError(
                "epoch.privacy", exactly(reading), f"at most {exactly(self.campaign)}"
            )
        if validation.require_count("cohorts", self.cohorts, 0) == 1 or self.cohorts > MOST_COHORTS:
            raise ParameterError("cohorts", self.cohorts, f"0, or 2 to {MOST_COHORTS}")
        if self.cohorts and self.epoch is not None and self.epoch.finest is not None:
            apart = "0 beside `finest`, which keeps campaigns apart"
            raise ParameterError("cohorts", self.cohorts, apart)
        if not isinstance(self.any_two, LocalPrivacy | None):
            raise ParameterError("any_two", self.any_two, "a LocalPrivacy, or None")
        if reading is not None and isinstance(self.value, Point) and self.value.dimension > 3:
            raise ParameterError("value", str(self.value), "of at most 3 coordinates for an epoch")


@dataclass(frozen=True, slots=True, repr=False)
class Policy(ReprByArguments):
    """What may be asked of a person, for each attribute that the app answers about.

    The policy is the app's own, so that no server decides how much privacy a person has.

    Args:
        limits: name of an attribute → its `Limit`. A GeoPrivacy stands for the limit that is the
            same for one campaign and for all of them ever, about one number. An attribute that is
            not listed is never answered about.
        trusted_keys: whose campaigns are answered. None: anybody's, signed or not, within the
            limits.
        latest_close: campaigns that close later are refused; with a time zone. None: no bound.
        minimum_participants: campaigns that promise to show estimates of fewer are refused. The
            server makes the promise; a device can't check that it is kept.
        most_queries: campaigns with more questions are refused.
        strata: name of what labels are of, for example "region" → how they may be sent: the most
            that all campaigns together may ever cost, as ε between any two labels, or "openly". A
            campaign that asks for a label which is not listed is refused.
        most_work: campaigns that ask more of the device's processor are refused: microseconds to
            read the campaign and draw one report, as `Demand` tells them from its bytes. The
            default keeps `contribute` below 10 ms: 60 questions that are all answered, a polygon
            of 900 corners, or the largest table that `geoveil plan` makes.

    Raises:
        ParameterError: if a limit has no unit, or something else is out of range.

    Example:
        >>> policy = Policy({"household income": GeoPrivacy(epsilon=1, per=8000, unit="dollar")})
        >>> print(policy.limit("household income").lifetime)
        ε = 1 per 8000 dollar
        >>> yearly = Window(limit=GeoPrivacy(1, 500, "metre"), length=timedelta(days=365))
        >>> from geoveil.gp.coordinates import Area
        >>> where = Place(Area(longitude_deg=2.35, latitude_deg=48.86, radius_m=15_000))
        >>> location = Limit(campaign=GeoPrivacy(1, 1000, "metre"), windows=(yearly,), value=where)
        >>> policy = Policy(
        ...     {"location": location},
        ...     trusted_keys=[PublicKey.parse("ed25519:" + 32 * "0a")],
        ... )
        >>> Policy({"household income": GeoPrivacy(epsilon=1, per=8000)})
        Traceback (most recent call last):
        ...
        geoveil.gp.errors.ParameterError: limits['household income'] must be a GeoPrivacy with\
 its unit, for example GeoPrivacy(epsilon=1, per=8000, unit="dollar"); it has a reach only with a\
 delta, the most slack that is permitted, got\
 limits['household income']='ε = 1 per 8000'
    """

    limits: Mapping[str, Limit | GeoPrivacy]
    trusted_keys: Collection[PublicKey] | None = field(default=None, kw_only=True)
    latest_close: datetime | None = field(default=None, kw_only=True)
    minimum_participants: int = field(default=0, kw_only=True)
    strata: Mapping[str, LocalPrivacy | Literal["openly"]] = field(
        default_factory=dict, kw_only=True
    )
    most_queries: int = field(default=MOST_QUERIES, kw_only=True)
    most_work: int = field(default=MOST_WORK, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.limits, Mapping):
            raise ParameterError("limits", self.limits, "a mapping from attributes to Limit")
        limits = {name: _limit(name, limit) for name, limit in self.limits.items()}
        object.__setattr__(self, "limits", MappingProxyType(limits))
        if self.trusted_keys is not None:
            keys = _all_of(PublicKey, "trusted_keys", self.trusted_keys)
            object.__setattr__(self, "trusted_keys", frozenset(keys))
        latest = self.latest_close
        if latest is not None and (not isinstance(latest, datetime) or latest.tzinfo is None):
            raise ParameterError("latest_close", str(latest), "a date with a time zone, or None")
        object.__setattr__(self, "strata", MappingProxyType(_strata(self.strata)))
        for name in ("minimum_participants", "most_queries", "most_work"):
            validation.require_count(name, getattr(self, name), 0)

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping that can't be changed can't be pickled either.
        options = {name: value for name, value in self._arguments().items() if name != "limits"}
        if "strata" in options:
            options["strata"] = dict(self.strata)
        return partial(type(self), **options), (dict(self.limits),)

    @classmethod
    def permitting(cls, campaign: AttributeCampaign, epoch: Epoch | None = None) -> Self:
        """Return what somebody permits who was shown a campaign and agreed: it, in all its periods.

        Not what an app permits: that must not come from a server.

        Args:
            campaign: what was shown.
            epoch: how long one perturbed value answers it and others; None: as it asks.

        Raises:
            ParameterError: if the epoch is of another unit than the campaign.
        """
        most = campaign.total_privacy
        if epoch is not None and campaign.nests:
            # As many readings as its dates touch, and two before them to go on from.
            touched = Readings(every=epoch.length).most(campaign.closes - campaign.opens)
            readings = epoch.privacy.repeated(touched + 2)
            most = max(most, readings, key=lambda privacy: privacy.exact_rate)
        cohorts = campaign.groups if campaign.tells_cohorts else 0
        limit = Limit(
            campaign=most,
            lifetime="unbounded",  # of other campaigns nothing was said
            value=kind_of(campaign),
            epoch=epoch,
            cohorts=cohorts,
        )
        demand = Demand.of(encode(campaign))
        return cls(
            {campaign.attribute.name: limit},
            strata=_permitting(campaign),
            most_queries=max(demand.queries, MOST_QUERIES),
            most_work=max(demand.work, MOST_WORK),
        )

    def limit(self, attribute: str) -> Limit | None:
        """Return the limit of an attribute; None if the policy does not list it."""
        own = self.limits.get(attribute)
        assert not isinstance(own, GeoPrivacy)  # __post_init__ made it a Limit
        return own

    def label_limit(self, strata: str) -> Limit | None:
        """Return the limit of labels; None if they may be sent openly, or not at all."""
        limit = self.strata.get(strata)
        if not isinstance(limit, LocalPrivacy):
            return None
        most = GeoPrivacy(limit.epsilon, 1.0, LABEL_UNIT)
        return Limit(campaign=most, lifetime=most)

    def check(self, campaign: AttributeCampaign, signer: PublicKey | None) -> Limit:
        """Refuse a campaign that no ledger need be asked about; return its attribute's limit.

        Rates are compared as exact fractions: not an ulp more than the limit is permitted.

        Args:
            campaign: what was asked.
            signer: whose valid signature it has; None if nobody's.

        Raises:
            PolicyRefused: naming what the campaign asks for and what is permitted.
        """
        self._check_origin(campaign, signer)
        attribute = campaign.attribute
        limit = self.limit(attribute.name)
        if limit is None:
            permitted = ", ".join(map(repr, self.limits)) or "nothing"
            raise PolicyRefused(campaign.campaign_id, "attribute", repr(attribute.name), permitted)
        shared = limit.epoch is not None and campaign.nests
        privacy = campaign.answer_privacy if shared else campaign.report_privacy
        most = limit.campaign
        if exceeds(privacy, most):
            raise PolicyRefused(
                campaign.campaign_id,
                f"privacy loss of {attribute.name!r}",
                exactly(privacy),
                f"at most {exactly(most)}",
            )
        if limit.epoch is not None and shared:
            most = limit.epoch.most
            if exceeds(privacy, most):
                raise PolicyRefused(
                    campaign.campaign_id,
                    f"privacy loss of {attribute.name!r} in an epoch",
                    exactly(privacy),
                    f"at most {exactly(most)}",
                )
        far = math.inf if shared else campaign.largest_epsilon * campaign.periods
        if limit.any_two is not None and far > limit.any_two.epsilon:
            raise PolicyRefused(
                campaign.campaign_id,
                f"cap on the odds of any two values of {attribute.name!r}",
                to_one(far) or "none that protects",
                f"at most {to_one(limit.any_two.epsilon) or limit.any_two}",
            )
        self._check_strata(campaign, limit)
        kind = kind_of(campaign)
        if not limit.value.permits(kind):
            raise PolicyRefused(
                campaign.campaign_id, f"value of {attribute.name!r}", str(kind), str(limit.value)
            )
        return limit

    def check_demand(self, campaign_id: str, demand: Demand) -> None:
        """Refuse a campaign that asks too much of the device, before anything is made of it.

        Raises:
            PolicyRefused: naming what the campaign asks for and what is permitted.
        """
        for aspect, needed, most in (
            ("number of questions", demand.queries, self.most_queries),
            ("work in microseconds", demand.work, self.most_work),
        ):
            if needed > most:
                raise PolicyRefused(campaign_id, aspect, f"{needed:,}", f"at most {most:,}")

    def _check_strata(self, campaign: AttributeCampaign, limit: Limit) -> None:
        strata, readings = campaign.strata, campaign.readings
        if strata is None:
            return
        if campaign.tells_cohorts and readings is not None:
            length = readings.every if limit.epoch is None else limit.epoch.length
            if limit.cohorts % campaign.groups or not limit.cohorts or length != readings.every:
                raise PolicyRefused(
                    campaign.campaign_id,
                    f"label {strata.name!r}",
                    f"which of {campaign.groups} parts of {in_days(readings.every)} it begins in",
                    f"of {limit.cohorts} parts of {in_days(length)}" if limit.cohorts else "none",
                )
            return
        permitted = self.strata.get(strata.name)
        if permitted == "openly" or (
            isinstance(permitted, LocalPrivacy)
            and strata.epsilon is not None
            and strata.epsilon <= permitted.epsilon
        ):
            return
        raise PolicyRefused(
            campaign.campaign_id,
            f"label {strata.name!r}",
            "sent as it is" if strata.epsilon is None else str(LocalPrivacy(strata.epsilon)),
            "none" if permitted is None else f"at most {permitted}",
        )

    def _check_origin(self, campaign: AttributeCampaign, signer: PublicKey | None) -> None:
        if self.trusted_keys is not None and signer not in self.trusted_keys:
            raise PolicyRefused(
                campaign.campaign_id,
                "signature",
                "nobody's" if signer is None else str(signer),
                "one of a trusted key",
            )
        if self.latest_close is not None and campaign.closes > self.latest_close:
            raise PolicyRefused(
                campaign.campaign_id,
                "closing date",
                campaign.closes.isoformat(),
                f"at latest {self.latest_close.isoformat()}",
            )
        if campaign.minimum_participants < self.minimum_participants:
            raise PolicyRefused(
                campaign.campaign_id,
                "minimum of participants",
                f"{campaign.minimum_participants:,}",
                f"at least {self.minimum_participants:,}",
            )


def _check_length(length: object) -> None:
    if not isinstance(length, timedelta) or not timedelta(0) < length <= LONGEST:
        raise ParameterError(
            "length", str(length), f"a timedelta > 0 and at most {LONGEST.days:,} days"
        )


def _strata(given: object) -> dict[str, LocalPrivacy | Literal["openly"]]:
    if not isinstance(given, Mapping):
        raise ParameterError("strata", given, "a mapping from names to LocalPrivacy or 'openly'")
    for name, permitted in given.items():
        if not isinstance(name, str) or not name:
            raise ParameterError("name in strata", name, "a name")
        if not isinstance(permitted, LocalPrivacy) and permitted != "openly":
            raise ParameterError(f"strata[{name!r}]", permitted, "a LocalPrivacy, or 'openly'")
    return dict(given)


def _permitting(campaign: AttributeCampaign) -> dict[str, LocalPrivacy | Literal["openly"]]:
    if campaign.strata is None or campaign.tells_cohorts:
        return {}
    if campaign.strata.epsilon is None:
        return {campaign.strata.name: "openly"}
    each = LocalPrivacy(campaign.strata.epsilon)
    return {campaign.strata.name: each.repeated(campaign.periods)}


def _limit(attribute: str, limit: object) -> Limit:
    if not isinstance(attribute, str) or not attribute:
        raise ParameterError("attribute in limits", attribute, "a name")
    if isinstance(limit, Limit):
        return limit
    privacy = _check_limit(f"limits[{attribute!r}]", limit)
    return Limit(campaign=privacy, lifetime=privacy)


def _all_of(kind: type[_Item], name: str, items: object) -> tuple[_Item, ...]:
    all_items = tuple(items) if isinstance(items, Iterable) else ()
    if not isinstance(items, Iterable) or not all(isinstance(item, kind) for item in all_items):
        raise ParameterError(name, items, f"a collection of {kind.__name__} objects")
    return all_items


def in_days(length: timedelta) -> str:
    """Return how long something is, in days if it is at least one, for people: not longer."""
    return f"{days_in(length)} days" if length >= timedelta(days=1) else str(length)


def exceeds(asked: GeoPrivacy, most: GeoPrivacy) -> bool:
    """Return whether a guarantee promises less than a limit, in rate, δ or reach, or in its unit.

    A δ promises less where it is stated for shorter distances only.
    """
    return (
        asked.unit != most.unit
        or asked.exact_rate > most.exact_rate
        or asked.delta > most.delta
        or (asked.delta > 0 and asked.reach < most.reach)
    )


def _check_limit(name: str, limit: object) -> GeoPrivacy:
    if (
        not isinstance(limit, GeoPrivacy)
        or not limit.unit
        or (limit.delta == 0 and limit.reach != math.inf)
    ):
        raise ParameterError(name, str(limit), _LIMIT)
    return limit


def _check_pure(name: str, limit: object) -> GeoPrivacy:
    if (
        not isinstance(limit, GeoPrivacy)
        or not limit.unit
        or limit.delta != 0
        or limit.reach != math.inf
    ):
        raise ParameterError(name, str(limit), _PURE)
    return limit
