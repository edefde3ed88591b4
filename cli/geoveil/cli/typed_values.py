"""A person's own value as it is typed. No error here repeats it, or holds it as its cause."""

import re
import sys
from collections.abc import Callable

from geoveil.campaign import Campaign
from geoveil.gp import PrivateValueError

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_THOUSANDS = re.compile(
    # The same mark between all groups of three. A single point is one before decimals.
    r"[+-]?[1-9]\d{0,2}(?:(?P<mark>[,'’_ \u00a0\u2009\u202f])\d{3}(?:(?P=mark)\d{3})*(?:\.\d*)?"
    r"|(?:\.\d{3}){2,})"
)
_ZEROS = re.compile(r"[+-]?0\d.*")


def given_in(campaign: Campaign) -> str:
    """Return what numbers a campaign asks for."""
    if campaign.attribute.coordinates is not None:
        return "degrees: longitude,latitude"
    return campaign.attribute.unit


def read_value(campaign: Campaign, ask: Callable[[str], str]) -> float | list[float]:
    """Return the numbers that were typed, or piped in.

    Args:
        campaign: which asks.
        ask: shows a prompt, if there is a terminal, and returns a line that nobody sees.

    Raises:
        PrivateValueError: if they are not the numbers that the campaign asks for; it says only
            what is expected.
    """
    places = campaign.attribute.coordinates is not None
    count = 2 if places else campaign.dimension
    try:
        text = ask("Your value (not shown)") if sys.stdin.isatty() else sys.stdin.readline()
    except UnicodeDecodeError:
        text = ""
    numbers = parse(text, count)
    if numbers is not None:
        return numbers if count > 1 else numbers[0]
    if places:
        expected = "a longitude and a latitude in degrees, with a comma between, like -73.98,40.75"
    elif count == 1:
        expected = (
            f"a number in {given_in(campaign)}, like 87500, 87,500 or 0.5: commas stand between"
            " thousands, a point before decimals"
        )
    else:
        expected = (
            f"{count} numbers in {given_in(campaign)}, with commas between, like 1500,0.5; none"
            " between thousands"
        )
    raise PrivateValueError(expected)


def parse(text: str, count: int) -> list[float] | None:
    """Return so many numbers; None if it is not clear that these are meant.

    Example:
        >>> parse("100,000", 1), parse("-73.98, 40.75", 2), parse("1.000.000", 1)
        ([100000.0], [-73.98, 40.75], [1000000.0])
        >>> parse("1,5", 1), parse("100,000", 2), parse("12,34,567", 1)
        (None, None, None)
    """
    parts = [part.strip() for part in ([text] if count == 1 else text.split(","))]
    if count == 1 and (grouped := _THOUSANDS.fullmatch(parts[0])):
        parts = [parts[0].replace(grouped["mark"] or ".", "")]
    if len(parts) != count or not all(map(_NUMBER.fullmatch, parts)):
        return None
    # The rest of a number with commas between its thousands looks like a number of its own.
    if count > 1 and any(map(_ZEROS.fullmatch, parts)):
        return None
    return [float(part) for part in parts]
