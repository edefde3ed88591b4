"""The language of texts for people.

data/LANGUAGE.json has all texts; `python -m tools.messages` writes client/typescript's files from
it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from geoveil.gp import ParameterError

if TYPE_CHECKING:
    from geoveil.campaign.translation import Translation, Wording

_MARKS = MappingProxyType(
    {"en": (",", "."), "de": (".", ","), "es": (".", ","), "fr": ("\u202f", ",")}
)
"""Language → the separator of thousands and the decimal mark."""
LANGUAGES = tuple(_MARKS)
_UNGROUPED = 10_000
"""Spanish does not separate the thousands of smaller numbers."""
_LANGUAGE = ContextVar("language", default="en")


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Produce all texts within the block in a language: "en", "de", "es" or "fr".

    Only the language of a tag such as "de-AT" or "de_AT.UTF-8" counts.

    Raises:
        ParameterError: if there is no catalogue for it.

    Example:
        >>> with speaking("de_AT.UTF-8"):
        ...     say("range.least", x=digits(52_000.5))
        'mindestens 52.000,5'
    """
    short = str(language).replace("_", "-").partition("-")[0].lower()
    if short not in LANGUAGES:
        raise ParameterError("language", language, f"one of {', '.join(LANGUAGES)}")
    token = _LANGUAGE.set(short)
    try:
        yield
    finally:
        _LANGUAGE.reset(token)


def say(key: str, **values: str | float) -> str:
    """Return a message, in the plural form for the number `n`, which digits() formats."""
    message = _messages(_LANGUAGE.get())[key]
    if "n" in values:
        n = float(values["n"])
        if isinstance(message, Mapping):
            message = message["one" if n == 1 or (_LANGUAGE.get() == "fr" and n < 2) else "other"]
        values["n"] = digits(n)
    return str(message.format_map(values))


def written() -> tuple[str, str]:
    """Return the current separator of thousands and decimal mark."""
    return _MARKS[_LANGUAGE.get()]


_Texts = TypeVar("_Texts", "Translation", "Wording")


def in_language(texts: Sequence[_Texts]) -> _Texts:
    """Return the texts in the current language, of any region, or the first ones."""
    spoken = _LANGUAGE.get()
    tags = [each.language.lower() for each in texts]
    for fitting in (tags, [tag.partition("-")[0] for tag in tags]):
        if spoken in fitting:
            return texts[fitting.index(spoken)]
    return texts[0]


def digits(x: float) -> str:
    """Return a number with separated thousands, to 15 significant digits, without exponents.

    Example:
        >>> digits(52_000.0), digits(1e15), digits(-0.5), digits(-0.0)
        ('52,000', '1,000,000,000,000,000', '-0.5', '0')
    """
    language = _LANGUAGE.get()
    group, point = written()
    if language == "es" and abs(x) < _UNGROUPED:
        group = ""
    marks = str.maketrans({",": group, ".": point})
    return format(Decimal(f"{x or 0.0:.15g}"), ",f").translate(marks)


@cache
def _messages(language: str) -> dict[str, Any]:
    text = resources.files("geoveil.campaign").joinpath(f"data/{language}.json").read_text("utf-8")
    return {key: message for of in json.loads(text).values() for key, message in of.items()}
