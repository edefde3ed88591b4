"""State a result in one sentence: a number with its unit and interval, then its meaning."""

import math
from dataclasses import dataclass
from functools import singledispatch
from types import MappingProxyType

from geoveil.campaign import Attribute, digits
from geoveil.gp import Query, Range, SoftIndicator, Threshold

_SIGNS = MappingProxyType({"dollar": "$", "euro": "€", "pound": "£"})
"""Name of a currency → the sign before its amounts."""
_LEAST_P = 0.001


@dataclass(frozen=True, slots=True)
class Answer:
    """A result in one sentence, shown before its details.

    Example:
        >>> print(Answer(0.495, "49.5 %", "48.8 to 50.3", "of people are left-handed"))
        49.5 % (48.8 to 50.3) of people are left-handed.
    """

    exact: float | None
    """The number as programs read it; None if there is none."""
    number: str
    """The number with its unit, rounded to its error."""
    interval: str
    """The two ends of its interval; empty if there is none."""
    rest: str
    """The end of the sentence, without a full stop."""

    def __str__(self) -> str:
        ends = f"({self.interval})" if self.interval else ""
        return " ".join(filter(None, (self.number, ends, self.rest))) + "."


def share_answer(value: float, low: float | None, high: float | None, rest: str) -> Answer:
    """Return a share of people as an answer in per cent.

    Example:
        >>> print(share_answer(0.4951, 0.4877, 0.5026, "of people cycle"))
        49.5 % (48.8 to 50.3) of people cycle.
    """

    def cent(x: float) -> float:
        return 100 * min(max(x, 0.0), 1.0)

    number, ends = _rounded(cent(value), low and cent(low), high and cent(high))
    return Answer(value, f"{number} %", " to ".join(ends), rest)


def amount_answer(
    value: float, low: float | None, high: float | None, unit: str, rest: str
) -> Answer:
    """Return an amount as an answer.

    Example:
        >>> print(amount_answer(59_754.0, 58_542.0, 61_037.0, "dollar", "is the median income"))
        $59,800 ($58,500 to $61,000) is the median income.
        >>> print(amount_answer(34.2, None, None, "year", "is the mean age"))
        34.2 years is the mean age.
    """
    number, ends = _rounded(value, low, high)
    sign = _SIGNS.get(unit, "")
    return Answer(value, measured(number, unit), " to ".join(sign + end for end in ends), rest)


def measured(number: str, unit: str) -> str:
    """Return an amount with its unit: the sign of a currency before it, other units after it.

    Example:
        >>> measured("100,000", "dollar"), measured("34", "year"), measured("2", "kg")
        ('$100,000', '34 years', '2 kg')
    """
    if unit in _SIGNS:
        return (_SIGNS[unit] + number).replace(f"{_SIGNS[unit]}-", f"−{_SIGNS[unit]}")
    is_word = unit.isalpha() and unit.islower() and len(unit) > 3 and unit[-1] != "s"
    return f"{number} {unit}{'s' if is_word and number != '1' else ''}".rstrip()


def chance_words(p: float) -> str:
    """Return the p value of a test in words.

    Example:
        >>> chance_words(0.0412), chance_words(3e-9)
        ('p = 0.041', 'p < 0.001')
    """
    return f"p < {_LEAST_P}" if p < _LEAST_P else f"p = {p:.2g}"


@singledispatch
def of_people(query: Query, label: str, attribute: Attribute, about: str) -> str:
    """Return the end of a sentence that says which people a share counts.

    Args:
        label: of the query.
        about: "about " where its edge is soft; empty where it is sharp.
    """
    return f"is the mean of “{label}”"


@of_people.register(SoftIndicator)
def _(query: SoftIndicator, label: str, attribute: Attribute, about: str) -> str:
    return f"of people have {_one(attribute.name)} {about}within “{label}”"


@of_people.register
def _(query: Threshold, label: str, attribute: Attribute, about: str) -> str:
    return f"of people have {_one(attribute.name)} of more than {about}{_edge(query.at, attribute)}"


@of_people.register
def _(query: Range, label: str, attribute: Attribute, about: str) -> str:
    low, high = _edge(query.low, attribute), _edge(query.high, attribute)
    return f"of people have {_one(attribute.name)} between {about}{low} and {high}"


def _edge(coordinate: float, attribute: Attribute) -> str:
    if attribute.scale is not None:
        coordinate = float(attribute.scale.from_log(coordinate))
    return measured(digits(float(f"{coordinate:.12g}")), attribute.value_unit)


def _one(name: str) -> str:
    """Return a name with its article, or without one if it is a plural."""
    if name.endswith("s"):
        return name
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _rounded(value: float, low: float | None, high: float | None) -> tuple[str, list[str]]:
    """Return a number and the ends of its interval, rounded to the first digit of the error."""
    ends = [end for end in (low, high) if end is not None and math.isfinite(end)]
    length = ends[1] - ends[0] if len(ends) == 2 else 0.0
    size = length / 4 if length > 0 else abs(value) / 100
    places = -math.floor(math.log10(size)) if size > 0 else 0
    shown = [digits(round(x, places)) for x in (value, *ends)]
    if places > 0:
        shown = [f"{x:z,.{places}f}" for x in (value, *ends)]
    return shown[0], shown[1:] if len(ends) == 2 else []
