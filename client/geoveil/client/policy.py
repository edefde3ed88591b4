"""The app's permissions, independent of any server's requests."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any, Self

from geoveil.campaign import (
    MECHANISMS,
    QUERIES,
    AttributeCampaign,
    Campaign,
    CategoryField,
    Charge,
    FormCampaign,
    PointField,
    PublicKey,
    Readings,
    days_in,
    encode,
    require_attribute,
    to_one,
)
from geoveil.client.errors import PolicyRefused, exactly
from geoveil.client.limits import Epoch, Limit, check_limit, exceeds
from geoveil.client.values import Choice, ValueKind, kind_of
from geoveil.gp import GeoPrivacy, LocalPrivacy, ParameterError, ReprByArguments, validation
from geoveil.proto.v1 import campaign_pb2 as pb


@dataclass(frozen=True, slots=True)
class CampaignCost:
    """A campaign's cost for a device."""

    queries: int
    """The number of questions, or of a form's fields; 0 for a value campaign."""
    work: int
    """The most processor microseconds to read the campaign and draw one report."""

    @classmethod
    def of(cls, campaign: bytes) -> "CampaignCost":
        """Return the cost of a serialised Campaign, valid or not.

        Raises:
            DecodeError: if it is not a message.
            ParameterError: if the kind of a question or of the mechanism is unknown.
            NotInstalled: if no installed package provides a family.
        """
        message = pb.Campaign.FromString(campaign)
        if message.fields:
            each = (_FIELD + field.ByteSize() // 2 + _drawn(field) for field in message.fields)
            return cls(len(message.fields), sum(each))
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


def _drawn(field: pb.Field) -> int:
    """Return the most microseconds for drawing the answer to a field."""
    options = field.choice.options or field.ordinal.options or field.multiple.options
    return _OPTIONS + _OPTION * len(options) if options else _POINT


_FIELD, _POINT, _OPTIONS, _OPTION = 300, 160, 60, 2
"""Microseconds, as in a family's `Work`: for a field, besides 1 per 2 bytes; for drawing a number
or place; for drawing an option, and for each further option."""
MOST_QUERIES = 100
MOST_WORK = 10_000


@dataclass(frozen=True, slots=True, repr=False)
class Policy(ReprByArguments):
    """The permitted questions and costs for each attribute on which the app answers.

    The policy is the app's own, so that no server decides how much privacy a person has.

    Args:
        limits: name of an attribute → its `Limit`, or a GeoPrivacy as the limit of one campaign and
            of all together, about one number. Campaigns on other attributes are refused.
        trusted_keys: the signers whose campaigns are answered. None: any campaign, signed or not.
        latest_close: campaigns that close later are refused; with a time zone. None: no bound.
        minimum_participants: campaigns that promise a smaller minimum are refused. A device can't
            check that the server keeps the promise.
        openly: name of a field → `Choice()`, `Ordinal()` or `Multiple()`: forms may request it
            without any protection. Other open fields are refused.
        form_any_two: the limit on any two answers to all of a form's fields together, over all its
            periods. It refuses forms with an open field, or a number without a range. None: no
            limit.
        most_queries: campaigns with more questions, and forms with more fields, are refused.
        most_work: the most microseconds of the device to read a campaign and draw a report, by
            `CampaignCost`. The default keeps `contribute` below 10 ms: 60 questions with all
            answers, a polygon of 900 corners, or the largest table of `geoveil plan`.

    Raises:
        ParameterError: if a limit has no unit, or an argument is out of range.

    Example:
        >>> policy = Policy({"household income": GeoPrivacy(epsilon=1, per=8000, unit="dollar")})
        >>> print(policy.limit("household income").lifetime)
        ε = 1 per 8000 dollar
        >>> from datetime import timedelta
        >>> from geoveil.client import Place, Window
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
    openly: Mapping[str, Choice] = field(default_factory=dict, kw_only=True)
    form_any_two: LocalPrivacy | None = field(default=None, kw_only=True)
    most_queries: int = field(default=MOST_QUERIES, kw_only=True)
    most_work: int = field(default=MOST_WORK, kw_only=True)

    def __post_init__(self) -> None:
        validation.require_kind("limits", self.limits, Mapping)
        limits = {name: _limit(name, limit) for name, limit in self.limits.items()}
        object.__setattr__(self, "limits", MappingProxyType(limits))
        if self.trusted_keys is not None:
            keys = validation.items("trusted_keys", self.trusted_keys, PublicKey)
            object.__setattr__(self, "trusted_keys", frozenset(keys))
        latest = self.latest_close
        if latest is not None and (not isinstance(latest, datetime) or latest.tzinfo is None):
            raise ParameterError("latest_close", str(latest), "a date with a time zone, or None")
        object.__setattr__(self, "openly", MappingProxyType(_openly(self.openly)))
        validation.require_kind("form_any_two", self.form_any_two, LocalPrivacy | None)
        for name in ("minimum_participants", "most_queries", "most_work"):
            validation.require_count(name, getattr(self, name), 0)

    def __reduce__(self) -> tuple[Any, ...]:
        # An immutable mapping can't be pickled.
        options = {name: value for name, value in self._arguments().items() if name != "limits"}
        if "openly" in options:
            options["openly"] = dict(options["openly"])
        return partial(type(self), **options), (dict(self.limits),)

    @classmethod
    def permitting(cls, campaign: Campaign, epoch: Epoch | None = None) -> Self:
        """Return the policy of a person who has seen a campaign, which permits all its periods.

        An app must not take its policy from a server in this way. `epoch` says how long one
        perturbed value answers it and others; None for the campaign's own. Answers to a form are
        always drawn anew.

        Raises:
            ParameterError: if the epoch has another unit than the campaign.
        """
        cost = CampaignCost.of(encode(campaign))
        permit = partial(
            cls,
            most_queries=max(cost.queries, MOST_QUERIES),
            most_work=max(cost.work, MOST_WORK),
        )
        if isinstance(campaign, FormCampaign):
            kinds = _kinds(campaign)
            limits = {
                name: Limit(campaign=privacy, lifetime="unbounded", value=kinds[name])
                for name, privacy, _ in campaign.privacy_of(campaign.periods)
            }
            return permit(limits, openly=_open(campaign))
        campaign = require_attribute(campaign)
        most = campaign.total_privacy
        if epoch is not None and campaign.nests:
            # As many readings as its dates touch, and two earlier ones for extrapolation.
            touched = Readings(every=epoch.length).most(campaign.closes - campaign.opens)
            readings = epoch.privacy.repeated(touched + 2)
            most = max(most, readings, key=lambda privacy: privacy.exact_rate)
        cohorts = 0 if campaign.readings is None else campaign.readings.cohorts
        limit = Limit(
            campaign=most,
            lifetime="unbounded",  # the person has not decided about other campaigns
            value=kind_of(campaign),
            epoch=epoch,
            cohorts=cohorts,
        )
        return permit({campaign.attribute.name: limit})

    def limit(self, attribute: str) -> Limit | None:
        """Return an attribute's limit; None if the policy does not list it."""
        own = self.limits.get(attribute)
        assert not isinstance(own, GeoPrivacy)  # __post_init__ made it a Limit
        return own

    def check(self, campaign: Campaign, signer: PublicKey | None) -> tuple[Limit, ...]:
        """Return the limits of a campaign's charges, if the policy permits it before any spending.

        Rates are compared as exact fractions. `signer` is the key of its valid signature; None if
        it is unsigned.

        Raises:
            PolicyRefused: if the policy does not permit it.
        """
        self._check_origin(campaign, signer)
        if isinstance(campaign, FormCampaign):
            return self._check_form(campaign)
        campaign = require_attribute(campaign)
        (charge,) = campaign.charges
        own = self.limit(charge.attribute)
        shared = own is not None and own.epoch is not None and campaign.nests
        if shared:
            charge = charge._replace(privacy=campaign.answer_privacy, any_two=math.inf)
        limit = self._check_charge(campaign, charge, kind_of(campaign))
        if limit.epoch is not None and shared:
            most = limit.epoch.most
            if exceeds(charge.privacy, most):
                raise PolicyRefused(
                    campaign.campaign_id,
                    f"privacy loss of {charge.attribute!r} in an epoch",
                    exactly(charge.privacy),
                    f"at most {exactly(most)}",
                )
        self._check_cohorts(campaign, limit)
        return (limit,)

    def _check_form(self, form: FormCampaign) -> tuple[Limit, ...]:
        kinds = _kinds(form)
        for name, kind in _open(form).items():
            permitted = self.openly.get(name)
            if permitted is None or not permitted.permits(kind):
                raise PolicyRefused(
                    form.campaign_id,
                    f"open field {name!r}",
                    f"sent as it is: {kind}",
                    "none" if permitted is None else str(permitted),
                )
        far = form.largest_epsilon * form.periods
        if self.form_any_two is not None and far > self.form_any_two.epsilon:
            raise PolicyRefused(
                form.campaign_id,
                "cap on the odds of any two forms",
                to_one(far) or "none that protects",
                f"at most {to_one(self.form_any_two.epsilon) or self.form_any_two}",
            )
        return tuple(
            self._check_charge(form, charge, kinds[charge.attribute]) for charge in form.charges
        )

    def _check_charge(self, campaign: Campaign, charge: Charge, kind: ValueKind) -> Limit:
        name, privacy, any_two = charge
        limit = self.limit(name)
        if limit is None:
            permitted = ", ".join(map(repr, self.limits)) or "nothing"
            raise PolicyRefused(campaign.campaign_id, "attribute", repr(name), permitted)
        if exceeds(privacy, limit.campaign):
            raise PolicyRefused(
                campaign.campaign_id,
                f"privacy loss of {name!r}",
                exactly(privacy),
                f"at most {exactly(limit.campaign)}",
            )
        far = any_two * campaign.periods
        if limit.any_two is not None and far > limit.any_two.epsilon:
            raise PolicyRefused(
                campaign.campaign_id,
                f"cap on the odds of any two values of {name!r}",
                to_one(far) or "none that protects",
                f"at most {to_one(limit.any_two.epsilon) or limit.any_two}",
            )
        if not limit.value.permits(kind):
            raise PolicyRefused(
                campaign.campaign_id, f"value of {name!r}", str(kind), str(limit.value)
            )
        return limit

    def check_cost(self, campaign_id: str, cost: CampaignCost) -> None:
        """Raise PolicyRefused, before building it, if a campaign costs the device too much work."""
        for aspect, needed, most in (
            ("number of questions", cost.queries, self.most_queries),
            ("work in microseconds", cost.work, self.most_work),
        ):
            if needed > most:
                raise PolicyRefused(campaign_id, aspect, f"{needed:,}", f"at most {most:,}")

    def _check_cohorts(self, campaign: AttributeCampaign, limit: Limit) -> None:
        readings = campaign.readings
        if readings is None or not readings.cohorts:
            return
        length = readings.every if limit.epoch is None else limit.epoch.length
        if limit.cohorts % readings.cohorts or not limit.cohorts or length != readings.every:
            raise PolicyRefused(
                campaign.campaign_id,
                "cohort of a device",
                f"which of {readings.cohorts} parts of {days_in(readings.every)} it begins in",
                f"of {limit.cohorts} parts of {days_in(length)}" if limit.cohorts else "none",
            )

    def _check_origin(self, campaign: Campaign, signer: PublicKey | None) -> None:
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


def _openly(given: Mapping[str, Choice]) -> dict[str, Choice]:
    validation.require_kind("openly", given, Mapping)
    for name, kind in given.items():
        if not isinstance(name, str) or not name:
            raise ParameterError("name in openly", name, "a name")
        validation.require_kind(f"openly[{name!r}]", kind, Choice)
    return dict(given)


def _kinds(form: FormCampaign) -> dict[str, ValueKind]:
    return {
        field.name: kind_of(field)
        for field in form.fields
        if isinstance(field, PointField | CategoryField)
    }


def _open(form: FormCampaign) -> dict[str, Choice]:
    """Return the fields that are sent without noise."""
    kinds = _kinds(form).items()
    return {
        name: kind
        for name, kind in kinds
        if isinstance(kind, Choice) and form.field(name).privacy is None
    }


def _limit(attribute: str, limit: object) -> Limit:
    if not isinstance(attribute, str) or not attribute:
        raise ParameterError("attribute in limits", attribute, "a name")
    if isinstance(limit, Limit):
        return limit
    privacy = check_limit(f"limits[{attribute!r}]", limit)
    return Limit(campaign=privacy, lifetime=privacy)
