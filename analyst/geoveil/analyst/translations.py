"""The texts of a campaign in other languages as a TOML file, with one table for each language.

language = "en"

[de]
title = "Was verdienen Haushalte?"
organisation = "Stadt Bergen"
attribute = "Haushaltseinkommen"
unit = "Dollar"
labels = ["über 100.000"]
"""

from dataclasses import asdict, fields
from typing import Any

from geoveil.analyst.form_files import read_toml
from geoveil.campaign import Asker, Translation
from geoveil.gp import ParameterError

_MOST_BYTES = 1 << 20
_OF_ASKER = tuple(each.name for each in fields(Asker))
_KEYS = ("title", *_OF_ASKER, "attribute", "unit", "labels")


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
    tables = read_toml("texts", text, _MOST_BYTES)
    own = tables.pop("language", "")
    if not isinstance(own, str):
        raise ParameterError("texts", own, "language = TAG, a text")
    return own, tuple(_translation(tag, table, asker) for tag, table in tables.items())


def _translation(tag: str, table: Any, asker: Asker | None) -> Translation:
    if not isinstance(table, dict):
        raise ParameterError("texts", tag, "language = TAG, and a table [TAG] for each language")
    if unknown := sorted(set(table) - set(_KEYS)):
        raise ParameterError(f"[{tag}]", unknown, f"among {', '.join(_KEYS)}")
    given = {name: table[name] for name in _OF_ASKER if name in table}
    absent = dict.fromkeys(_OF_ASKER, "") if asker is None else asdict(asker)
    own = {name: table[name] for name in table if name not in _OF_ASKER}
    try:
        return Translation(language=tag, asker=Asker(**absent | given) if given else None, **own)
    except ParameterError as error:
        raise ParameterError(f"[{tag}] {error.name}", error.value, error.expected) from None
