"""Test forms: permitted fields, bytes, and the promise of a report."""

import itertools
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from geoveil.campaign import (
    Attribute,
    ChoiceField,
    Condition,
    Field,
    FormCampaign,
    MultipleField,
    NumberField,
    OrdinalField,
    PlaceField,
    Wording,
    decode,
    decode_attribute_campaign,
)
from geoveil.gp import (
    AzimuthalEquidistant,
    GeoPrivacy,
    KaryResponse,
    OrdinalResponse,
    ParameterError,
    PrivateValueError,
    SystemSource,
    UnaryEncoding,
    UnsupportedError,
)
from geoveil.proto.v1 import campaign_pb2 as pb

OPENS = datetime(2026, 1, 1, tzinfo=UTC)
INCOME = NumberField(
    attribute=Attribute(name="income", unit="dollar", least=0, most=500_000),
    privacy=GeoPrivacy(1, 8000, "dollar"),
    wordings=(Wording(text="What do you earn?"), Wording(language="de", text="Einkommen?")),
)
HOME = PlaceField(
    attribute=Attribute(
        name="home", unit="metre", coordinates=AzimuthalEquidistant(2.35, 48.86, 15_000)
    ),
    privacy=GeoPrivacy(1, 500, "metre"),
)
RENTS = ChoiceField(name="rents", options=("yes", "no"), epsilon=2.0)
RENT = NumberField(
    attribute=Attribute(name="rent", unit="dollar", least=0, most=5000),
    privacy=GeoPrivacy(1, 1000, "dollar"),
    applies=Condition(field="rents", options=("yes",)),
)
MOOD = OrdinalField(name="mood", options=("bad", "fair", "good"), epsilon=1.0)
TRAVEL = MultipleField(name="goes by", options=("bus", "train", "car"), epsilon=0.5, most=2)
REGION = ChoiceField(name="region", options=("north", "south"))
ANSWERS = {
    "income": 52_000,
    "home": (2.36, 48.85),
    "rents": "yes",
    "rent": 900,
    "mood": "good",
    "goes by": ["bus", "car"],
    "region": "north",
}


def form(*fields: Field, **changes: Any) -> FormCampaign:
    given = {
        "campaign_id": "household",
        "title": "Household",
        "fields": fields,
        "opens": OPENS,
        "closes": OPENS + timedelta(days=30),
    }
    return FormCampaign(**(given | changes))


HOUSEHOLD = form(INCOME, HOME, RENTS, RENT, MOOD, TRAVEL, REGION)


def test_a_form_travels() -> None:
    again = decode(HOUSEHOLD.encoded)
    assert again == HOUSEHOLD
    assert again.encoded == HOUSEHOLD.encoded


def test_a_form_recurs_and_travels() -> None:
    weekly = form(INCOME, MOOD, period=timedelta(days=7), minimum_participants=50)
    assert decode(weekly.encoded) == weekly
    assert weekly.slots == 2 * 5


def test_a_form_has_no_attribute_of_its_own() -> None:
    with pytest.raises(UnsupportedError, match="is a form of several fields"):
        decode_attribute_campaign(HOUSEHOLD.encoded)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda form: setattr(form.readings, "cohorts", 2), "canonical"),
        (lambda form: setattr(form.attribute, "name", "income"), "canonical"),
        (lambda form: form.fields[2].ClearField("choice"), "kind"),
    ],
)
def test_a_form_with_what_it_has_not_is_refused(change: Any, words: str) -> None:
    message = pb.Campaign.FromString(HOUSEHOLD.encoded)
    change(message)
    with pytest.raises((ParameterError, UnsupportedError), match=words):
        decode(message.SerializeToString(deterministic=True))


def test_columns_are_of_fields_in_order() -> None:
    assert HOUSEHOLD.columns == len(HOUSEHOLD.labels) == len(HOUSEHOLD.ranges) == 8
    assert HOUSEHOLD.columns_of("home") == slice(1, 3)
    assert HOUSEHOLD.labels[HOUSEHOLD.columns_of("rent")] == ("rent",)


def test_a_report_has_an_integer_of_the_range_in_each_column() -> None:
    source = SystemSource()
    for _ in range(50):
        report = HOUSEHOLD.release(HOUSEHOLD.prepare(ANSWERS), source)
        for k, (low, high) in zip(report, HOUSEHOLD.releasable, strict=True):
            assert type(k) is int
            assert low <= k <= high


def test_one_number_of_a_form_is_a_value_campaign() -> None:
    alone = HOUSEHOLD.campaign_of("home")
    assert alone.ranges == HOME.ranges
    assert alone.point_mechanism == HOME.mechanism
    assert alone.largest_epsilon == HOME.largest_epsilon
    with pytest.raises(ParameterError, match="a number or a place"):
        HOUSEHOLD.campaign_of("mood")


def test_mechanisms_follow_the_number_of_options() -> None:
    assert isinstance(RENTS.mechanism, KaryResponse)
    many = ChoiceField(name="job", options=tuple(map(str, range(100))), epsilon=1.0)
    assert isinstance(many.mechanism, UnaryEncoding)
    assert many.columns == 2
    assert isinstance(MOOD.mechanism, OrdinalResponse)
    assert REGION.mechanism is None


def test_open_answers_are_sent_as_they_are() -> None:
    small = form(REGION)
    assert small.release(small.prepare({"region": "south"}), SystemSource()) == [1]
    assert small.charges == ()
    assert small.largest_epsilon == math.inf


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"mood": "52000 secret"}, "mood: one of bad, fair, good"),
        ({"income": "52000"}, "a finite number"),
        ({"goes by": ["bus", "train", "car"]}, "goes by: at most 2"),
        ({"goes by": "bus"}, "in a list"),
        ({"goes by": ["bus", "bus"]}, "at most 2 distinct"),
        ({"rent": None}, "an answer to rent"),
        ({"income": None}, "an answer to income"),
        ({"shoe size": 43}, "by the names of the fields"),
    ],
)
def test_an_answer_that_is_none_is_refused_and_not_shown(given: dict[str, Any], says: str) -> None:
    with pytest.raises(PrivateValueError, match=says) as caught:
        HOUSEHOLD.prepare(ANSWERS | given)
    for value in (52_000, 43, "secret", 900):
        assert str(value) not in str(caught.value).replace(says, "")


def test_who_is_not_asked_sends_the_middle_whatever_is_given() -> None:
    asked = form(RENTS, RENT)
    owner = {"rents": "no"}
    assert asked.prepare(owner) == asked.prepare(owner | {"rent": 4000}) == [1, 2500.0]
    elsewhere = form(RENTS, replace(RENT, otherwise=800.0))
    assert elsewhere.prepare({"rents": "no"}) == [1, 800.0]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ((), "number of fields"),
        ((MOOD, replace(MOOD, epsilon=2.0)), "names of fields"),
        ((RENT, RENTS), "rent: applies.field"),
        ((RENT,), "rent: applies.field"),
        ((RENTS, replace(RENT, applies=Condition(field="rents", options=()))), "applies.options"),
        ((RENTS, replace(RENT, applies=Condition(field="rents", options=("x",)))), "options"),
        ((INCOME, replace(RENT, applies=Condition(field="income", options=("1",)))), "field"),
        (
            (
                RENTS,
                replace(MOOD, applies=RENT.applies, otherwise="bad"),
                replace(RENT, applies=Condition(field="mood", options=("bad",))),
            ),
            "rent: applies.options must be without 'bad'",
        ),
        ((RENTS, replace(REGION, applies=RENT.applies, otherwise="north")), "region: epsilon"),
        (
            [
                ChoiceField(name=str(i), options=tuple(map(str, range(10_000))), epsilon=1.0)
                for i in range(6)
            ],
            "size of a report",
        ),
        ([replace(MOOD, name=str(i)) for i in range(65)], "number of fields"),
        ((MOOD, "mood"), "fields"),
    ],
)
def test_forms_that_promise_what_they_can_not_keep_are_refused(fields: Any, named: str) -> None:
    with pytest.raises(ParameterError, match=named):
        form(*fields)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: ChoiceField(name="a", options=("x",)), "a: options"),
        (lambda: ChoiceField(name="a", options=("x", "x")), "a: options"),
        (lambda: ChoiceField(name="a", options="xy"), "a: options"),
        (lambda: ChoiceField(name="a\n", options=("x", "y")), "name of a field"),
        (lambda: ChoiceField(name="a", options=("x", "y"), epsilon=17.0), "a: epsilon"),
        (lambda: ChoiceField(name="a", options=("x", "y"), otherwise="x"), "a: otherwise"),
        (lambda: OrdinalField(name="a", options=tuple(map(str, range(101)))), "a: options"),
        (lambda: MultipleField(name="a", options=("x", "y"), most=3), "a: most"),
        (lambda: MultipleField(name="a", options=tuple(map(str, range(63)))), "a: options"),
        (lambda: replace(INCOME, privacy=GeoPrivacy(1, 1, "euro")), "income: privacy"),
        (lambda: replace(INCOME, privacy=GeoPrivacy(1, 1, "dollar", reach=5)), "income: privacy"),
        (
            lambda: replace(HOME, attribute=replace(HOME.attribute, least=0.0)),
            "home: least and most",
        ),
        (lambda: replace(INCOME, attribute=HOME.attribute), "coordinates"),
        (lambda: replace(HOME, attribute=INCOME.attribute), "coordinates"),
        (lambda: replace(INCOME, otherwise=3.0), "income: otherwise"),
        (
            lambda: replace(RENT, attribute=Attribute(name="rent", unit="dollar")),
            "rent: least and most",
        ),
        (lambda: Wording(language="Deutsch, bitte"), "wording.language"),
        (lambda: Wording(unit="a\u202eb"), "wording.unit"),
        (lambda: replace(MOOD, wordings=(Wording(unit="Schritt"),)), "wording.unit"),
        (lambda: replace(MOOD, wordings=(Wording(options=("x",)),)), "wording.options"),
        (lambda: replace(MOOD, wordings=(Wording(), Wording())), "languages"),
        (lambda: replace(MOOD, wordings="How are you?"), "wordings must be a sequence of Wording"),
        (lambda: replace(MOOD, wordings=("How are you?",)), "must be a Wording"),
        (lambda: replace(RENT, applies="rents"), "applies must be a Condition, or None"),
        (lambda: Condition(field="rents", options="yes"), "applies.options must be a sequence"),
        (lambda: Wording(options=3), "wording.options must be a sequence"),
    ],
)
def test_fields_out_of_range_are_refused(make: Any, named: str) -> None:
    with pytest.raises(ParameterError, match=named):
        make()


def test_the_middle_of_numbers_near_the_end_of_doubles_is_a_double() -> None:
    far = Attribute(name="rent", unit="dollar", least=1e308, most=1.5e308)
    assert replace(RENT, attribute=far).not_asked == 1.25e308


def test_all_answers_together_cost_what_each_costs() -> None:
    each = [INCOME, MOOD, RENTS]
    total = sum(Fraction(field.largest_epsilon) for field in each)
    assert form(*each).largest_epsilon == pytest.approx(float(total), rel=1e-15, abs=0)
    assert form(*each).largest_epsilon >= total


def channel(field: Field, prepared: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the law of a report, from the formulas of its mechanism: no code of it is used."""
    assert isinstance(field, (ChoiceField, OrdinalField))
    many, epsilon = len(field.options), field.epsilon
    assert epsilon is not None
    if isinstance(field, ChoiceField):
        law = np.full(many, 1.0)
        law[prepared] = math.exp(epsilon)
        return law / law.sum()
    a = math.exp(-epsilon)
    law = np.array([a ** abs(k - prepared) for k in range(many)])
    law[1:-1] *= 1 - a
    return law / (1 + a)


def test_what_a_condition_tells_is_charged_to_the_field_that_decides_it() -> None:
    asks = ChoiceField(name="works", options=("yes", "no"), epsilon=0.7)
    applies = Condition(field="works", options=("yes",))
    liked = OrdinalField(
        name="likes it", options=tuple("12345"), epsilon=0.4, otherwise="2", applies=applies
    )
    deeper = ChoiceField(
        name="why",
        options=("money", "people", "not asked"),
        epsilon=0.3,
        otherwise="not asked",
        applies=Condition(field="likes it", options=("4", "5")),
    )
    asked = form(asks, liked, deeper)
    (works, likes, why) = asked.charges
    assert works.privacy.epsilon == pytest.approx(0.7 + 3 * 0.4 + 0.3)
    assert likes.privacy.epsilon == pytest.approx(0.4 + 0.3)
    assert why.privacy.epsilon == 0.3

    def law(answers: dict[str, str]) -> Any:
        prepared = asked.prepare(answers)
        each = [channel(f, k) for f, k in zip(asked.fields, prepared, strict=True)]
        return np.einsum("i,j,k->ijk", *each)

    forms = [
        {"works": "yes", "likes it": grade, "why": reason}
        for grade, reason in itertools.product("12345", ("money", "people"))
    ]
    worst = max(np.abs(np.log(law({"works": "no"}) / law(one))).max() for one in forms)
    assert worst == pytest.approx(works.privacy.epsilon)
    assert worst > 0.7 + 1.0  # a charge of the answer alone would be too low
    for one, other in itertools.combinations(forms, 2):
        steps = abs(int(one["likes it"]) - int(other["likes it"]))
        bound = likes.privacy.epsilon * steps + (one["why"] != other["why"]) * 0.3
        assert np.abs(np.log(law(one) / law(other))).max() <= bound + 1e-12
