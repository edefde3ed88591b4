"""Forms in TOML files, which an analyst writes with one table for each field.

[[field]]
kind = "number"
name = "income"
unit = "dollar"
least = 0
most = 500000
epsilon = 1
per = 8000
text = "What did your household earn last year?"
"""

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import tomli_w

from geoveil.analyst.questions import Place, area_of
from geoveil.analyst.vocabulary import all_given, left_out
from geoveil.campaign import (
    CATEGORIES,
    Asker,
    Attribute,
    CategoryField,
    Condition,
    Field,
    NumberField,
    PlaceField,
    PointField,
    Translation,
    Wording,
    check_fields,
    kind_of_category,
)
from geoveil.gp import AzimuthalEquidistant, GeoPrivacy, LogScale, ParameterError

OPEN = "open"
"""In place of ε: the answer is sent unperturbed."""
_COMMON = frozenset({"kind", "name", "epsilon", "text", "wordings", "applies"})
_NUMBER = _COMMON | {"unit", "per", "least", "most", "ratios_above", "otherwise"}
"""With `ratios_above` ε is per factor `per`, for numbers above that floor."""
_KEYS: Mapping[str, frozenset[str]] = {
    "number": _NUMBER,
    "place": _COMMON | {"per", "area"},
    "choice": _COMMON | {"options", "otherwise"},
    "ordinal": _COMMON | {"options", "otherwise"},
    "multiple": _COMMON | {"options", "most"},
}
_MOST_BYTES = 1 << 21


def fields_of_toml(text: str) -> tuple[Field, ...]:
    """Return the fields of a form.

    Args:
        text: TOML with a table `[[field]]` for each.

    Raises:
        ParameterError: naming the field, its key, the value and what is permitted.

    Example:
        >>> rents, = fields_of_toml('''
        ... [[field]]
        ... kind = "choice"
        ... name = "rents"
        ... options = ["yes", "no"]
        ... epsilon = 2
        ... ''')
        >>> rents.options, str(rents.privacy)
        (('yes', 'no'), 'ε = 2 per 1 option')
    """
    read = read_toml("form", text, _MOST_BYTES)
    tables = read.get("field")
    if set(read) != {"field"} or not isinstance(tables, list):
        raise ParameterError("tables of the form", sorted(read), "[[field]], one for each field")
    return check_fields([_field(number, table) for number, table in enumerate(tables, 1)])


def read_toml(name: str, text: object, most: int) -> dict[str, Any]:
    """Return the contents of a TOML text of at most `most` characters; errors state the name."""
    if not isinstance(text, str) or len(text) > most:
        raise ParameterError(name, type(text).__name__, f"a text of at most {most:,}")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        wrong = str(error)
        expected = f"TOML: {wrong[:1].lower()}{wrong[1:]}"
        raise ParameterError(name, f"{len(text):,} characters", expected) from None


def toml_of(fields: Sequence[Field]) -> str:
    """Return TOML from which `fields_of_toml` makes the same fields."""
    return tomli_w.dumps({"field": [_written(field) for field in check_fields(fields)]})


def _field(number: int, table: Any) -> Field:
    name = table.get("name", number) if isinstance(table, dict) else number
    try:
        return _read(table)
    except ParameterError as error:
        at = f"field {name}: {error.name.removeprefix(f'{name}: ')}"
        raise ParameterError(at, error.value, error.expected) from None


def _read(table: Any) -> Field:
    kind: Any = table.get("kind") if isinstance(table, dict) else None
    if kind not in _KEYS:
        raise ParameterError("kind", kind, "one of " + ", ".join(_KEYS))
    unknown = sorted(set(table) - _KEYS[kind])
    if unknown:
        raise ParameterError("keys", unknown, f"among {', '.join(sorted(_KEYS[kind]))}")
    epsilon, name = _needed(table, "epsilon"), _needed(table, "name")
    common: dict[str, Any] = {
        "wordings": tuple(_wordings(table)),
        "applies": _made("applies", Condition, table["applies"]) if "applies" in table else None,
    }
    if kind in CATEGORIES:
        common |= {key: table[key] for key in ("otherwise", "most") if key in table}
        return CATEGORIES[kind](
            name=name,
            options=tuple(_listed("options", _needed(table, "options"))),
            epsilon=None if epsilon == OPEN else epsilon,
            **common,
        )
    if kind == "place":
        plane = _made("area", AzimuthalEquidistant, _needed(table, "area"))
        attribute = Attribute(name=name, unit="metre", coordinates=plane)
        privacy = GeoPrivacy(epsilon, _needed(table, "per"), "metre")
        return PlaceField(attribute=attribute, privacy=privacy, **common)
    scale = LogScale(table["ratios_above"]) if "ratios_above" in table else None
    attribute = Attribute(
        name=name,
        unit=("" if scale is None else "log ") + _needed(table, "unit"),
        scale=scale,
        least=table.get("least"),
        most=table.get("most"),
    )
    per = _needed(table, "per")
    if scale is None:
        privacy = GeoPrivacy(epsilon, per, attribute.unit)
    else:
        privacy = GeoPrivacy.per_factor(epsilon, per, attribute.value_unit)
    otherwise = table.get("otherwise")
    return NumberField(attribute=attribute, privacy=privacy, otherwise=otherwise, **common)


def _needed(table: Mapping[str, Any], key: str) -> Any:
    if key not in table:
        raise ParameterError(key, "none", "stated")
    return table[key]


def _listed(key: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ParameterError(key, value, "a list")
    return value


def _made(key: str, make: Callable[..., Any], table: Any) -> Any:
    try:
        return make(**table)
    except TypeError:
        raise ParameterError(key, table, f"a table of {make.__name__}") from None


def _wordings(table: Mapping[str, Any]) -> Iterator[Wording]:
    if "text" in table:
        yield Wording(text=table["text"])
    for wording in _listed("wordings", table.get("wordings", [])):
        yield _made("wordings", Wording, wording)


def _written(field: Field) -> dict[str, Any]:
    """Return a field's table."""
    if isinstance(field, PointField):
        attribute, per = field.attribute, field.privacy.per
        plane, scale = attribute.coordinates, attribute.scale
        table: dict[str, Any] = {
            "kind": "number" if plane is None else "place",
            "name": field.name,
            "unit": attribute.value_unit if plane is None else None,
            "epsilon": field.privacy.epsilon,
            "per": per if scale is None else math.exp(per),
            "area": plane and asdict(plane),
            "ratios_above": scale and scale.floor,
            "least": attribute.least,
            "most": attribute.most,
        }
    else:
        assert isinstance(field, CategoryField)  # there are no others
        table = {
            "kind": kind_of_category(field),
            "name": field.name,
            "options": list(field.options),
            "epsilon": OPEN if field.epsilon is None else field.epsilon,
            "most": getattr(field, "most", None),
        }
    table["otherwise"] = getattr(field, "otherwise", None)
    if field.applies is not None:
        table["applies"] = {"field": field.applies.field, "options": list(field.applies.options)}
    if field.wordings:
        table["wordings"] = [_wording(wording) for wording in field.wordings]
    return _stated(table)


def _wording(wording: Wording) -> dict[str, Any]:
    table = {"language": wording.language, "text": wording.text}
    more = {"options": list(wording.options) or None, "unit": wording.unit or None}
    return _stated(table | more)


def _stated(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}


_MOST_TEXT_BYTES = 1 << 20
_OF_ASKER = tuple(each.name for each in fields(Asker))
_TEXT_KEYS = ("title", *_OF_ASKER, "attribute", "unit", "labels")


def texts_of_toml(text: str, asker: Asker | None = None) -> tuple[str, tuple[Translation, ...]]:
    """Return the language of the campaign itself, "" if not stated, and its translations.

    What a table does not say of the asker is as `asker` says it.

    Raises:
        ParameterError: naming the table and its key, the value and what is permitted.

    Example:
        >>> language, (german,) = texts_of_toml('''
        ... language = "en"
        ... [de]
        ... title = "Haushaltseinkommen"
        ... ''')
        >>> language, german.language, german.title
        ('en', 'de', 'Haushaltseinkommen')
    """
    tables = read_toml("texts", text, _MOST_TEXT_BYTES)
    own = tables.pop("language", "")
    if not isinstance(own, str):
        raise ParameterError("texts", own, "language = TAG, a text")
    return own, tuple(_translation(tag, table, asker) for tag, table in tables.items())


def _translation(tag: str, table: Any, asker: Asker | None) -> Translation:
    if not isinstance(table, dict):
        raise ParameterError("texts", tag, "language = TAG, and a table [TAG] for each language")
    if unknown := sorted(set(table) - set(_TEXT_KEYS)):
        raise ParameterError(f"[{tag}]", unknown, f"among {', '.join(_TEXT_KEYS)}")
    given = {name: table[name] for name in _OF_ASKER if name in table}
    absent = dict.fromkeys(_OF_ASKER, "") if asker is None else asdict(asker)
    own = {name: table[name] for name in table if name not in _OF_ASKER}
    try:
        return Translation(language=tag, asker=Asker(**absent | given) if given else None, **own)
    except ParameterError as error:
        raise ParameterError(f"[{tag}] {error.name}", error.value, error.expected) from None


def fields_of_mask(
    form: Sequence[Field] | None,
    name: str,
    epsilon: float | None,
    per: float | None,
    center: Place | None,
    radius: float,
) -> tuple[Field, ...]:
    """Return the fields of a mask: those of a form, or else a place.

    Args:
        form: says all of it, if it is given.
        epsilon: ε of the promise to two places that are `per` apart.
        per: in metres.
        center: longitude and latitude of the area's centre, a public fact.
        radius: of the area, in metres.

    Raises:
        ParameterError: if one is missing, or given beside a form.
    """
    given = {"epsilon": epsilon, "per": per, "center": center}
    if form is not None:
        left_out(given, "left out: the form states it")
        return tuple(form)
    all_given(given, ", or --form in its place")
    assert epsilon is not None
    assert per is not None
    area = Attribute(name=name, unit="metre", coordinates=area_of((), center, radius))
    return (PlaceField(attribute=area, privacy=GeoPrivacy(epsilon, per, "metre")),)
