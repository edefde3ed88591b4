"""Forms: answers and bits with the report that devices draw from them, and its cost."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

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
    what_a_form_tells,
)
from geoveil.gp import AzimuthalEquidistant, GeoPrivacy, GeoVeilError, LogScale
from geoveil.proto.v1 import campaign_pb2 as pb
from tools.vectors.hostile import changed, difference
from tools.vectors.tape import Tape

_OPENS = datetime(2026, 1, 1, tzinfo=UTC)
_REUSED = 10
"""The least number of successive tuples of one form."""
_FORMS = 20_000
"""The most forms in many tuples, as reading a form takes longer than answering it."""
_FAR = (0.0, -0.0, 5e-324, 1e-50, 1e50, 1e90, 2.0**53, -1e30)
"""Numbers at the limits of doubles and of releases."""


def form_vectors() -> list[dict[str, Any]]:
    """Return forms with reports and charges, and changed forms, refused if they have none."""
    draw = Random(2026)
    found: list[dict[str, Any]] = []
    for name, form in _forms().items():
        cases = [_tuple(form, _answers(draw, form), f"{name}/{i}") for i in range(2)]
        found.append({"name": name, "form": form.encoded.hex(), "cases": cases, **_stated(form)})
    return found + list(_hostile())


def form_tuples(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield random forms, answers and reports.

    When the form changes, the new one is included, with what people are told about it.
    """
    draw = Random(seed)
    form = _by_chance(draw)
    reused = max(_REUSED, count // _FORMS)
    for i in range(count):
        new = i % reused == 0
        if new and i:
            form = _by_chance(draw)
        answers = _answers(draw, form)
        for field in form.fields:
            if isinstance(field, NumberField) and field.name in answers and draw.random() < 0.1:
                answers[field.name] = draw.choice(_FAR)
        told = _tuple(form, answers, f"{seed}/{i}")
        shown = {"form": form.encoded.hex(), "tells": what_a_form_tells(form)}
        yield told | (shown if new else {})


def hostile_tuples(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield random forms with errors in their fields; those without charges are refused."""
    draw = Random(seed)
    sound = b""
    for i in range(count):
        if i % _REUSED == 0:
            sound = _by_chance(draw).encoded
        made = pb.Campaign.FromString(sound)
        for _ in range(draw.randint(1, 2)):
            _slip(draw, draw.choice(made.fields))
        slipped = made.SerializeToString(deterministic=True)
        yield {"changed": slipped.hex(), **_judged(slipped)}


def _slip(draw: Random, message: Any) -> None:
    """Set, add or remove a random part of a message, at any depth."""
    held = [field for field, _ in message.ListFields()]
    field = draw.choice(held if held and draw.random() < 0.7 else message.DESCRIPTOR.fields)
    value: Any = getattr(message, field.name)
    many = hasattr(value, "append")
    if draw.random() < 0.1:
        message.ClearField(field.name)
    elif many and len(value) and draw.random() < 0.3:
        del value[draw.randrange(len(value))]
    elif field.message_type:
        if many:
            value = draw.choice(value) if len(value) and draw.random() < 0.8 else value.add()
        _slip(draw, value)
    elif many:  # only texts are repeated
        value.append(draw.choice(_SLIPS[str]))
    else:
        setattr(message, field.name, draw.choice(_SLIPS[type(field.default_value)]))


def _form(fields: Sequence[Field], **more: Any) -> FormCampaign:
    dates: dict[str, Any] = {"opens": _OPENS, "closes": _OPENS + timedelta(days=30)}
    return FormCampaign(campaign_id="f", title="Form", fields=tuple(fields), **dates, **more)


def _stated(form: FormCampaign) -> dict[str, Any]:
    """Return the cost of a report, leaving out any infinite ε."""
    charges = [
        {
            "attribute": attribute,
            "unit": privacy.unit,
            "epsilon": privacy.epsilon,
            "per": privacy.per,
            **_finite("any_two", any_two),
        }
        for attribute, privacy, any_two in form.charges
    ]
    whole = _finite("any_two", form.largest_epsilon)
    return {"columns": form.columns, "charges": charges, **whole}


def _finite(name: str, epsilon: float) -> dict[str, float]:
    return {name: epsilon} if epsilon < math.inf else {}


def _tuple(form: FormCampaign, answers: dict[str, Any], seed: str) -> dict[str, Any]:
    """Return answers, the values released for them, and the report from seeded bits."""
    tape = Tape(seed)
    prepared = form.prepare(answers)
    name = tape.bits(128)
    report = form.release(prepared, tape)
    points = {True: lambda x: str(x), False: lambda x: getattr(x, "tolist", lambda: [x])()}
    return {
        "answers": answers,
        "prepared": [points[isinstance(x, int)](x) for x in prepared],
        "seed": seed,
        "drawn": tape.drawn,
        "id": f"{name:032x}",
        "report": [str(integer) for integer in report],
    }


def _answers(draw: Random, form: FormCampaign) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in form.fields:
        if isinstance(field, PlaceField):
            plane = field.attribute.coordinates
            assert plane is not None
            far = 1.5 * plane.radius_m / 111_000
            centre = plane.longitude_deg, plane.latitude_deg
            found[field.name] = [x + draw.uniform(-far, far) for x in centre]
        elif isinstance(field, NumberField):
            found[field.name] = draw.choice([draw.gauss(50.0, 30.0), draw.randint(-20, 200)])
        elif isinstance(field, MultipleField):
            most = field.most or len(field.options)
            found[field.name] = draw.sample(field.options, draw.randint(0, most))
        else:
            found[field.name] = draw.choice(field.attribute_options)
        if field.applies is not None and draw.random() < 0.3:
            rule = field.applies
            if found.get(rule.field) not in rule.options:
                del found[field.name]
    return found


def _by_chance(draw: Random) -> FormCampaign:
    fields = [_field(draw, at) for at in range(draw.choice([1, 2, 3, 4, 5, 12]))]
    for at, later in enumerate(fields):
        filters = [f for f in fields[:at] if isinstance(f, (ChoiceField, OrdinalField))]
        limited = not isinstance(later, NumberField) or later.largest_epsilon < math.inf
        if not filters or not limited or later.privacy is None or draw.random() < 0.4:
            continue
        decides = draw.choice(filters)
        asked = [option for option in decides.options if option != decides.otherwise]
        options = tuple(draw.sample(asked, 1 + len(asked) // 2))
        more: dict[str, Any] = {"applies": Condition(field=decides.name, options=options)}
        if isinstance(later, (ChoiceField, OrdinalField)):
            more["otherwise"] = draw.choice(later.options)
        elif isinstance(later, NumberField):
            more["otherwise"] = draw.choice([None, draw.uniform(0.0, 100.0)])
        fields[at] = replace(later, **more)
    return _form(fields, period=draw.choice([None, None, timedelta(hours=1), timedelta(days=7)]))


def _field(draw: Random, at: int) -> Field:
    name, epsilon = f"f{at}", draw.choice([1.0, draw.uniform(0.05, 4.0), 10 ** draw.uniform(-3, 1)])
    kind = draw.choice(["number", "log", "place", "choice", "choice", "ordinal", "multiple"])
    if kind == "place":
        plane = AzimuthalEquidistant(
            draw.uniform(-170, 170), draw.uniform(-70, 70), draw.uniform(5e3, 5e4)
        )
        return _place(name, plane, epsilon)
    if kind in ("number", "log"):
        least, most = draw.choice([(None, None), (0.0, 100.0)])
        unit, scale = ("log dollar", LogScale(1.0)) if kind == "log" else ("dollar", None)
        attribute = Attribute(name=name, unit=unit, scale=scale, least=least, most=most)
        return NumberField(
            attribute=attribute,
            privacy=GeoPrivacy(epsilon, draw.uniform(0.1, 20), unit),
            step_exponent=draw.choice([None, None, draw.randint(-60, 10)]),
        )
    many = draw.choice([2, 2, 3, 9, 40, 130])
    options = tuple(
        f"o{i}" for i in range(min(many, {"ordinal": 100, "multiple": 62}.get(kind, 130)))
    )
    if kind == "multiple":
        most = draw.choice([None, 1, len(options)])
        return MultipleField(name=name, options=options, epsilon=epsilon, most=most)
    made = OrdinalField if kind == "ordinal" else ChoiceField
    return made(name=name, options=options, epsilon=draw.choice([None, epsilon, epsilon, epsilon]))


def _place(name: str, plane: AzimuthalEquidistant, epsilon: float) -> PlaceField:
    attribute = Attribute(name=name, unit="metre", coordinates=plane)
    return PlaceField(attribute=attribute, privacy=GeoPrivacy(epsilon, 500.0, "metre"))


def _forms() -> dict[str, FormCampaign]:
    rents = ChoiceField(name="rents", options=("yes", "no"), epsilon=2.0)
    german = Wording(language="de", text="Wohnen Sie zur Miete?", options=("ja", "nein"))
    rule = Condition(field="rents", options=("yes",))
    rent = Attribute(name="rent", unit="dollar", least=0.0, most=4000.0)
    wage = Attribute(name="wage", unit="log dollar", scale=LogScale(1000.0))
    mood = ("bad", "fair", "good")
    return {
        "small": _form([ChoiceField(name="a", options=("x", "y"), epsilon=1.0)]),
        "several": _form(
            [
                ChoiceField(
                    name="rents", options=rents.options, epsilon=2.0, wordings=(Wording(), german)
                ),
                NumberField(
                    attribute=rent,
                    privacy=GeoPrivacy(1.0, 500.0, "dollar"),
                    wordings=(Wording(), Wording(language="de", unit="Euro")),
                    applies=rule,
                ),
                OrdinalField(
                    name="mood", options=mood, epsilon=0.5, otherwise="fair", applies=rule
                ),
                ChoiceField(
                    name="why",
                    options=mood,
                    epsilon=1.0,
                    otherwise="bad",
                    applies=Condition(field="mood", options=("bad", "good")),
                ),
                MultipleField(name="by", options=("bus", "bike", "foot"), epsilon=0.7, most=2),
            ],
            period=timedelta(days=7),
        ),
        "places": _form(
            [
                _place("home", AzimuthalEquidistant(-73.94, 40.8, 30e3), 1.0),
                NumberField(attribute=wage, privacy=GeoPrivacy(1.0, 0.3, "log dollar")),
                ChoiceField(name="county", options=tuple(f"c{i}" for i in range(70)), epsilon=1.0),
                ChoiceField(name="wave", options=("1", "2")),
            ]
        ),
        "conditions": _form(
            [
                rents,
                NumberField(
                    attribute=rent,
                    privacy=GeoPrivacy(1.0, 500.0, "dollar"),
                    otherwise=900.0,
                    applies=rule,
                ),
                MultipleField(name="by", options=("bus", "bike"), epsilon=0.7, applies=rule),
                ChoiceField(name="open", options=("x", "y")),
            ]
        ),
    }


_LONG = "x" * 201
_SLIPS: dict[type, Sequence[Any]] = {
    float: (
        *(0.0, -0.0, 1.0, -1.0, 50.0, 16.0, math.nextafter(16.0, 17.0), 1e-50, 1e-51, 5e-324),
        *(1e50, 1e51, 1e90, 1e91, -1e90, math.inf, -math.inf, math.nan),
    ),
    int: (0, 1, 2, 3, 62, 63, 64, 200, 201, 2**31 - 1),
    str: (
        *("", "f0", "f1", "f2", "o0", "o1", "dollar", "log dollar", "metre", "option", "step"),
        *("x" * 64, "x" * 65, "a ", "\n", "é", "e\u0301", "\u200b", "\ufeff", "\ufefff0", "\u202e"),
        *("😀" * 64, "😀" * 65, "de", "DE-at"),
    ),
}
_CHANGES: dict[str, Sequence[tuple[str, Any]]] = {
    "small": [
        *((f"attribute.{name}", value) for name, value in (
            ("name", ""), ("name", "a "), ("name", "x" * 65), ("unit", "step"), ("unit", ""),
            ("least", 0.0), ("most", 1.0), ("log_scale_floor", 1.0),
            ("azimuthal_equidistant.radius_m", 1.0),
        )),
        *(("choice.epsilon", x) for x in (0.0, -1.0, 16.000001, math.nan, math.inf, 1e-51)),
        *(("choice.options", x) for x in (
            [], ["x"], ["x", "x"], ["x", ""], ["x", "x" * 65], ["x", "y\n"], ["x", "\u200by"]
        )),
        ("choice.otherwise", "x"), ("choice.most", 1), ("ordinal.epsilon", 1.0),
        ("multiple.epsilon", 1.0), ("kind", None), ("applies.field", "a"),
        ("applies.options", ["x"]),
        *(("wordings", x) for x in (
            [("en", "Q", []), ("en", "R", [])], [("en", "Q", []), ("EN", "R", [])],
            [("e", "", [])], [("de_CH", "", [])],
            [("", "Q ", [])], [("", "\ufeffQ", [])], [("", "", ["x"])], [("", "", ["x", _LONG])],
            [("abcdefghi", "", [])], [("a", "", [])], [("de", "", [], "Euro")],
        )),
    ],
    "several": [
        *((f"2.{path}", value) for path, value in (
            ("attribute.least", 5000.0), ("attribute.least", math.nan), ("attribute.unit", ""),
            ("attribute.log_scale_floor", 1.0), ("point.privacy.epsilon", 0.0),
            ("point.privacy.per", math.nan), ("point.privacy.delta", 1e-6),
            ("point.privacy.reach", 5.0), ("point.privacy.reach", math.inf),
            ("point.privacy", None), ("point.step_exponent", 201), ("point.otherwise", 4001.0),
            ("point.otherwise", math.nan), ("attribute.most", None), ("attribute.name", "rents"),
            ("attribute.azimuthal_equidistant.radius_m", 1.0), ("applies", None),
            ("applies.field", "mood"), ("applies.field", "by"), ("applies.options", []),
            ("applies.options", ["maybe"]), ("wordings", [("", "", ["x"])]),
            ("wordings", [("de", "", [], "x" * 64)]), ("wordings", [("de", "", [], "x" * 65)]),
            ("wordings", [("de", "", [], "a\u202eb")]),
        )),
        *((f"3.{path}", value) for path, value in (
            ("ordinal.otherwise", ""), ("ordinal.otherwise", "x"), ("ordinal.epsilon", None),
            ("ordinal.most", 2), ("attribute.unit", "option"), ("applies.field", "mood"),
        )),
        ("4.applies.options", ["fair"]),
        *((f"5.{path}", value) for path, value in (
            ("multiple.most", 4), ("multiple.otherwise", "bus"),
        )),
    ],
    "places": [
        *((f"1.{path}", value) for path, value in (
            ("point.otherwise", 0.0), ("attribute.least", 0.0), ("attribute.unit", "dollar"),
            ("attribute.azimuthal_equidistant.latitude_deg", 91.0),
        )),
        ("2.applies.field", "wave"), ("3.applies.field", "wave"),
    ],
}  # fmt: skip


def _hostile() -> Iterator[dict[str, Any]]:
    """Yield changed forms: the bytes that differ, and a device's verdict."""
    forms = {name: form.encoded for name, form in _forms().items()}
    for base, changes in _CHANGES.items():
        for path, value in changes:
            index, _, rest = path.partition(".")
            place = f"{int(index) - 1}.{rest}" if index.isdigit() else f"0.{path}"
            after = changed(forms[base], [(f"fields.{place}", value)])
            yield _changed(f"{path} = {str(value)[:30]}", base, forms[base], after)
    small = forms["small"]
    for name in ("attribute.unit", "privacy.epsilon", "grid.step_exponent",
                 "readings.extrapolated", "cap.below", "allocation"):  # fmt: skip
        after = changed(small, [(name, "x" if name == "attribute.unit" else 1)])
        yield _changed(f"form with {name}", "small", small, after)
    for name, change in (
        ("form with a query", lambda m: m.queries.add(label="q")),
        ("form with a mechanism", lambda m: m.mechanism.planar_laplace.SetInParent()),
        ("no dates", lambda m: m.ClearField("opens")),
        ("a title in German", lambda m: m.translations.add(language="de", title="Wohnen")),
        ("a form's attribute", lambda m: m.translations.add(language="de", attribute="Miete")),
        ("a form's unit", lambda m: m.translations.add(language="de", unit="Euro")),
        ("a form's labels", lambda m: m.translations.add(language="de", labels=["Miete"])),
        ("two fields of a name", lambda m: m.fields.append(m.fields[0])),
        ("too many periods", lambda m: m.period.FromSeconds(20)),
    ):
        made = pb.Campaign.FromString(small)
        change(made)
        after = made.SerializeToString(deterministic=True)
        yield _changed(name, "small", small, after)


def _changed(name: str, base: str, before: bytes, after: bytes) -> dict[str, Any]:
    return {"name": name, "base": base} | difference(before, after) | _judged(after)


def _judged(encoded: bytes) -> dict[str, Any]:
    """Return the cost of a report; nothing for a form that is refused."""
    try:
        form = decode(encoded)
    except (GeoVeilError, ArithmeticError):
        return {}
    assert isinstance(form, FormCampaign)
    return _stated(form)
