"""Typed numbers with their meanings by locale, written by hand, not by a parser."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from geoveil.cli.numbers import Separators

LOCALES: Mapping[str, Separators] = MappingProxyType(
    {
        "en-US": Separators(),
        "en-GB": Separators(),
        "en-IN": Separators(indian=True),
        "de-CH": Separators(".", "’"),
        "de-DE": Separators(",", "."),
        "es-ES": Separators(",", "."),
        "fr-FR": Separators(",", "\u202f"),
        "sv-SE": Separators(",", "\u00a0"),
        "ar-EG": Separators("٫", "٬"),
    }
)
"""How numbers are written in each locale, as Intl has it."""

_POINT, _COMMA = ("en-US", "en-GB", "en-IN", "de-CH"), ("de-DE", "es-ES", "fr-FR", "sv-SE")
_ENGLISH, _DOTTED = ("en-US", "en-GB", "en-IN"), ("de-DE", "es-ES")
_INDIA, _ALL, _NOBODY = ("en-IN",), tuple(LOCALES), ()
_TABLE: tuple[tuple[str, Sequence[float], Sequence[str]], ...] = (
    # Typed text; its possible meanings, the last of which is certain in the named locales.
    ("52000", [52_000], _ALL),
    ("52,000", [52, 52_000], _ENGLISH),
    ("52.000", [52, 52_000], _DOTTED),
    ("52 000", [52_000], _ALL),
    ("52\u00a0000", [52_000], _ALL),
    ("52\u202f000", [52_000], _ALL),
    ("52'000", [52_000], _ALL),
    ("52’000", [52_000], _ALL),
    ("52_000", [52_000], _ALL),
    ("52000,5", [52_000.5], _COMMA),
    ("52000.5", [52_000.5], _POINT),
    ("$52,000", [52, 52_000], _ENGLISH),
    ("52.000 €", [52, 52_000], _DOTTED),
    ("52000 dollars", [52_000], _ALL),
    ("52k", [52_000], _ALL),
    ("52.5k", [52_500], _POINT),
    ("1,50,000", [150_000], _INDIA),
    ("12,34,567", [1_234_567], _INDIA),
    ("1,234", [1.234, 1_234], _ENGLISH),
    ("12.500", [12.5, 12_500], _DOTTED),
    ("1.234.567", [1_234_567], _ALL),
    ("1,234,567", [1_234_567], _ALL),
    ("1,234,567.89", [1_234_567.89], _ALL),
    ("1.234.567,89", [1_234_567.89], _ALL),
    ("1 234 567,89", [1_234_567.89], _ALL),
    ("1’234’567.89", [1_234_567.89], _ALL),
    ("0,5", [0.5], _COMMA),
    ("0.500", [0.5], _POINT),
    (".5", [0.5], _POINT),
    ("1,5000", [1.5], _COMMA),
    ("-5", [-5], _ALL),
    ("\u22125", [-5], _ALL),
    ("+3", [3], _ALL),
    ("1e5", [100_000], _ALL),
    ("999999999999", [999_999_999_999], _ALL),
    ("\u0665\u0662\u0660\u0660\u0660", [52_000], _ALL),
    ("\u0665\u0662\u066c\u0660\u0660\u0660", [52_000], _ALL),
    ("\u0660\u066b\u0665", [0.5], _ALL),
    ("1.5.2", [], _NOBODY),
    ("1 2", [], _NOBODY),
    ("1,000.000.000", [], _NOBODY),
    ("52m", [], _NOBODY),
    ("--5", [], _NOBODY),
    ("nan", [], _NOBODY),
    ("0x10", [], _NOBODY),
    ("fifty", [], _NOBODY),
    ("", [], _NOBODY),
)
_SPELLED: Mapping[float, str] = MappingProxyType(
    {
        0.0: "zero",
        12.5: "twelve point five",
        52.0: "fifty-two",
        52_000.0: "fifty-two thousand",
        150_000.0: "one hundred fifty thousand",
        -12_500.0: "minus twelve thousand five hundred",
        1_000_019.0: "one million nineteen",
        999_999_999_999.0: "nine hundred ninety-nine billion nine hundred ninety-nine million"
        " nine hundred ninety-nine thousand nine hundred ninety-nine",
        0.25: "zero point two five",
        1e15: "",
    }
)


def number_vectors() -> list[dict[str, Any]]:
    """Return typed texts with their meanings in each locale, and numbers with their words."""
    found: list[dict[str, Any]] = [
        {"locale": locale, "decimal": at.decimal, "group": at.group, "indian": at.indian}
        for locale, at in LOCALES.items()
    ]
    found += [{"text": text, "numbers": list(can), "sure": list(at)} for text, can, at in _TABLE]
    return found + [{"number": number, "spelled": words} for number, words in _SPELLED.items()]
