"""Parse numbers as people write them, and ask about ambiguous ones.

`client/typescript/src/numbers.ts` reads and spells the same: proto/vectors/numbers.json has what
both make of forty inputs in nine locales.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple
from unicodedata import decimal

from geoveil.campaign import digits, written

_UNSEEN = dict.fromkeys(map(ord, "\u200e\u200f\u061c"))
_AROUND = re.compile(r"([+-]?)\s*[$€£¥₹]?\s*([+-]?)(.*?)\s*([kK]?)\s*[$€£¥₹]?")
_BLANKS = re.compile(r"[\u00a0\u2009\u202f]")
_GROUPED = re.compile(r"[1-9][0-9]{0,2}(?:(?P<mark>[ '’_٬.,])[0-9]{3})(?:(?P=mark)[0-9]{3})*")
_INDIAN = re.compile(r"[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}")
_PART = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
"""One of several numbers."""
_ZEROS = re.compile(r"[+-]?0\d.*")
_POWER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]{1,3}")


@dataclass(frozen=True, slots=True)
class Separators:
    """The separators of a number format."""

    decimal: str = "."
    group: str = ","
    indian: bool = False
    """Whether groups above the thousands have two digits: 1,50,000."""


STATED = Separators()
"""The command's own notation: a point before decimals, commas between thousands."""


class _Reading(NamedTuple):
    number: str
    point: str
    mark: str
    indian: bool = False


def read(text: str, written: Separators = STATED, unit: str = "") -> tuple[list[float], bool]:
    """Return the numbers that a text can mean, and whether it is unambiguous.

    A text that a reader could take for two numbers is ambiguous, except for thousands as in
    `written`. Digits may be of any script.

    Args:
        text: the typed text.
        written: how numbers are written in the typist's locale.
        unit: may follow the number; a currency sign may be around it, and k means thousands.

    Example:
        >>> read("52,000"), read("$52k"), read("12.500"), read("fifty")
        (([52000.0], True), ([52000.0], True), ([12.5, 12500.0], False), ([], False))
    """
    body = "".join(str(decimal(c, c)) for c in text.translate(_UNSEEN))
    body = _BLANKS.sub(" ", body).replace("−", "-").strip()
    if unit:
        body = re.sub(rf"\s*{re.escape(unit)}s?$", "", body, flags=re.IGNORECASE)
    around = _AROUND.fullmatch(body)
    if around is None or (around[1] and around[2]):
        return [], False
    factor = (-1.0 if "-" in around[1] + around[2] else 1.0) * (1000.0 if around[4] else 1.0)
    readings = list(_readings(around[3]))
    numbers = [factor * float(reading.number) + 0.0 for reading in readings]
    if len(readings) == 2:
        return (numbers[1:], True) if readings[1].mark == written.group else (numbers, False)
    return numbers, bool(readings) and _fits(readings[0], written)


def _readings(body: str) -> Iterator[_Reading]:
    """Yield each number that digits and separators can mean: with decimals, then without."""
    if _POWER.fullmatch(body):
        yield _Reading(body, "", "")
    for point in ".,٫":
        whole, separator, part = body.rpartition(point)
        if separator and re.fullmatch("[0-9]*", part) and (whole or part):
            grouped, indian = _GROUPED.fullmatch(whole), bool(_INDIAN.fullmatch(whole))
            mark = grouped["mark"] if grouped else "," if indian else ""
            if re.fullmatch("[0-9]*", whole) or (mark and mark != point):
                number = whole.replace(mark, "") if mark else whole
                yield _Reading(f"{number}.{part}", point, mark, indian)
    if re.fullmatch("[0-9]+", body):
        yield _Reading(body, "", "")
    elif grouped := _GROUPED.fullmatch(body):
        yield _Reading(body.replace(grouped["mark"], ""), "", grouped["mark"])
    elif _INDIAN.fullmatch(body):
        yield _Reading(body.replace(",", ""), "", ",", indian=True)


def _fits(reading: _Reading, written: Separators) -> bool:
    """Return whether a number follows a format, or its separators are unambiguous."""
    if reading.indian:
        return written.indian
    return reading.point in ("", "٫", written.decimal) or reading.mark != ""


_SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_LARGE = ("", " thousand", " million", " billion", " trillion")


def spelled(x: float) -> str:
    """Return a number in English words, which reveals slips by thousands; "" beyond trillions.

    Example:
        >>> spelled(52_000), spelled(-12.5), spelled(1_000_001)
        ('fifty-two thousand', 'minus twelve point five', 'one million one')
    """
    whole, _, part = digits(abs(x)).replace(",", "").partition(".")
    if len(whole) > 15:
        return ""
    words = [_spelled_below_1000(int(whole[max(i - 3, 0) : i]), (len(whole) - i) // 3)
             for i in range(len(whole), 0, -3)]  # fmt: skip
    said = " ".join(filter(None, reversed(words))) or "zero"
    said += " point " + " ".join(_SMALL[int(digit)] for digit in part) if part else ""
    return f"minus {said}" if x < 0 else said


def _spelled_below_1000(x: int, thousands: int) -> str:
    hundreds, rest = divmod(x, 100)
    words = [f"{_SMALL[hundreds]} hundred"] if hundreds else []
    if rest >= 20:
        tens, ones = divmod(rest, 10)
        words.append(_TENS[tens - 2] + (f"-{_SMALL[ones]}" if ones else ""))
    elif rest:
        words.append(_SMALL[rest])
    return " ".join(words) + (_LARGE[thousands] if words else "")


def parse(text: str, count: int) -> list[float] | None:
    """Return a given count of numbers; None if the text is ambiguous.

    Example:
        >>> parse("100,000", 1), parse("-73.98, 40.75", 2), parse("1.000.000", 1)
        ([100000.0], [-73.98, 40.75], [1000000.0])
        >>> parse("1,5", 1), parse("100,000", 2), parse("12.500", 1)
        (None, None, None)
    """
    if count == 1:
        group, point = written()
        numbers, sure = read(text.strip(), Separators(point, group))
        return numbers if sure else None
    parts = [part.strip() for part in text.split(",")]
    # The rest of a number with commas between its thousands looks like a number of its own.
    fit = len(parts) == count and not any(map(_ZEROS.fullmatch, parts))
    return [float(part) for part in parts] if fit and all(map(_PART.fullmatch, parts)) else None
