"""Forms: several values of one person, perturbed separately and sent as one tuple."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from geoveil.campaign.fields import Condition, Field, PlaceField, PointField, SingleField
from geoveil.campaign.mechanisms import PlanarLaplaceSpec
from geoveil.campaign.model import Campaign, Charge
from geoveil.campaign.value import PLACE_AXES, ValueCampaign
from geoveil.gp import (
    GeoPrivacy,
    ParameterError,
    PrivateValueError,
    RandomSource,
    lazy,
    round_up,
    validation,
)

Answers: TypeAlias = Mapping[str, Any]
"""Name of a field → answer. Private."""
MOST_FIELDS = 64
MOST_REPORT_BYTES = 16_384
"""The most bytes of a form's report on the wire."""
_ID_BYTES, _COLUMN_BYTES = 32, 17
"""The most bytes of a report without answers, and of each of its integers."""


@dataclass(frozen=True, kw_only=True)
class FormCampaign(Campaign):
    """A request for several answers from each device, all or none.

    Two forms that differ by d_j in field j are at most Σ ε_j d_j distinguishable: each answer has
    its own noise, so the fields' guarantees add up.

    Raises:
        ParameterError: if a parameter is out of range.
    """

    fields: tuple[Field, ...]
    """1 to 64 fields with distinct names."""

    def field(self, name: str) -> Field:
        """Return the field with a name; ParameterError if there is none."""
        for field in self.fields:
            if field.name == name:
                return field
        raise ParameterError("field", name, "one of " + ", ".join(f.name for f in self.fields))

    def columns_of(self, name: str) -> slice:
        """Return a field's columns in a report."""
        field = self.field(name)
        first = sum(before.columns for before in self.fields[: self.fields.index(field)])
        return slice(first, first + field.columns)

    def campaign_of(self, name: str) -> ValueCampaign:
        """Return a campaign for a single number or place, which the field's columns answer.

        Raises:
            ParameterError: if there is no such field, or it has another kind.
        """
        field = self.field(name)
        if not isinstance(field, PointField):
            raise ParameterError("field", name, "a number or a place")
        return ValueCampaign(
            campaign_id=self.campaign_id,
            title=self.title,
            attribute=field.attribute,
            privacy=field.privacy,
            mechanism=PlanarLaplaceSpec(field.dimension),
            step_exponent=field.step_exponent,
            opens=self.opens,
            closes=self.closes,
            period=self.period,
            minimum_participants=self.minimum_participants,
        )

    @lazy
    def columns(self) -> int:
        return sum(field.columns for field in self.fields)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(label for field in self.fields for label in _labels(field))

    @lazy
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return tuple(ends for field in self.fields for ends in field.ranges)

    @property
    def releasable(self) -> tuple[tuple[int, int], ...]:
        return tuple(ends for field in self.fields for ends in field.releasable)

    @lazy
    def charges(self) -> tuple[Charge, ...]:
        """The cost of one report for each attribute; an open field has no ε.

        A report reveals whether a field applies, which is charged to the deciding field.
        """
        return tuple(
            self._charge(field, field.privacy) for field in self.fields if field.privacy is not None
        )

    def _charge(self, field: Field, privacy: GeoPrivacy) -> Charge:
        followers = self._followers(field)
        if not followers:
            return Charge(field.name, privacy, field.largest_epsilon)
        more = sum((Fraction(f.epsilon_if_not_asked) for f in followers), Fraction())
        epsilon = round_up(Fraction(privacy.epsilon) + more)
        any_two = round_up(Fraction(field.largest_epsilon) + more)
        return Charge(field.name, GeoPrivacy(epsilon, privacy.per, privacy.unit), any_two)

    def _followers(self, field: Field) -> list[Field]:
        """Return the fields that depend directly or indirectly on a field."""
        names, followers = {field.name}, []
        for later in self.fields:
            if later.applies is not None and later.applies.field in names:
                names.add(later.name)
                followers.append(later)
        return followers

    @lazy
    def largest_epsilon(self) -> float:
        """ε between any two forms; infinite if some have no guarantee."""
        each = [field.largest_epsilon for field in self.fields]
        return math.inf if math.inf in each else round_up(sum(map(Fraction, each), Fraction()))

    def applying(self, values: Answers) -> tuple[Field, ...]:
        """Return the fields that apply to a person with these answers. Private."""
        given: dict[str, str | None] = {}
        for field in self.fields:
            answer, rule = values.get(field.name), field.applies
            if rule is None or given.get(rule.field) in rule.options:
                given[field.name] = answer if isinstance(answer, str) else None
        return tuple(field for field in self.fields if field.name in given)

    def prepare(self, values: Answers) -> Sequence[Any]:
        """Return one person's answers, by field, in the form for `release`. Private.

        An answer to a field that does not apply has no effect, since refusing it would reveal the
        earlier answer.

        Raises:
            PrivateValueError: if an answer is missing, invalid, or has no field; it shows none.
        """
        if not isinstance(values, Mapping) or not set(values) <= {f.name for f in self.fields}:
            names = ", ".join(field.name for field in self.fields)
            raise PrivateValueError(f"answers by the names of the fields: {names}")
        applies = {field.name for field in self.applying(values)}
        prepared: list[Any] = []
        for field in self.fields:
            answer = values.get(field.name)
            if field.name not in applies:
                prepared.append(field.not_asked)
            elif answer is None:
                raise PrivateValueError(f"an answer to {field.name}")
            else:
                prepared.append(field.prepare(answer))
        return prepared

    def release(self, prepared: Sequence[Any], source: RandomSource) -> list[int]:
        """Return a report's integers, one per column, from `prepare`'s result."""
        answered = zip(self.fields, prepared, strict=True)
        return [k for field, answer in answered for k in field.release(answer, source)]

    def privacy_of(self, periods: int) -> tuple[Charge, ...]:
        """Return the charges of a participant who reports in this many periods."""
        return tuple(
            Charge(name, privacy.repeated(periods), any_two * periods)
            for name, privacy, any_two in self.charges
        )

    def _check_content(self) -> None:
        object.__setattr__(self, "fields", check_fields(self.fields))

    def _complete(self) -> None:
        _ = self.charges


def _labels(field: Field) -> list[str]:
    if isinstance(field, PlaceField):
        return [f"{field.name}: {axis}" for axis in PLACE_AXES]
    if field.columns == 1:
        return [field.name]
    return [f"{field.name}: part {part}" for part in range(1, field.columns + 1)]


def check_fields(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Return the fields if one form may have them all; ParameterError says why not."""
    fields = validation.items("fields", fields, Field)
    validation.require_count("number of fields", len(fields), 1, MOST_FIELDS)
    names = [field.name for field in fields]
    if len(set(names)) != len(names):
        expected = "distinct: two answers about one attribute would tell more than either"
        raise ParameterError("names of fields", names, expected)
    for at, field in enumerate(fields):
        if field.applies is not None:
            _check_condition(field, field.applies, fields[:at])
    size = _ID_BYTES + _COLUMN_BYTES * sum(field.columns for field in fields)
    if size > MOST_REPORT_BYTES:
        largest = max(fields, key=lambda field: field.columns)
        expected = f"at most {MOST_REPORT_BYTES:,} bytes; most of it is {largest.name!r}"
        raise ParameterError("size of a report", size, expected)
    return fields


def _check_condition(field: Field, condition: Condition, before: Sequence[Field]) -> None:
    filters = {f.name: f for f in before if isinstance(f, SingleField)}
    decides = filters.get(condition.field)
    if decides is None:
        expected = "an earlier choice or ordinal field: " + (", ".join(filters) or "there is none")
        raise ParameterError(f"{field.name}: applies.field", condition.field, expected)
    if not condition.options or not set(condition.options) <= set(decides.options):
        expected = f"some of the options of {decides.name}: {', '.join(decides.options[:20])}"
        raise ParameterError(f"{field.name}: applies.options", condition.options, expected)
    if decides.otherwise in condition.options:
        expected = f"without {decides.otherwise!r}, which stands for those not asked"
        raise ParameterError(f"{field.name}: applies.options", condition.options, expected)
    if field.privacy is None and decides.privacy is not None:
        expected = f"stated: sent as it is, it would tell {decides.name}"
        raise ParameterError(f"{field.name}: epsilon", None, expected)
