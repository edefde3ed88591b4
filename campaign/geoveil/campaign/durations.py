"""Read durations as people write them: 7d, 12h, 30m, 1w, 1y."""

import re
from datetime import timedelta

from geoveil.gp import ParameterError

_UNITS = {
    "y": timedelta(days=365),
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
}


def parse_period(name: str, text: str, most: timedelta = timedelta.max) -> timedelta:
    """Return the duration of a text like "7d".

    Args:
        text: a whole number above 0 and a unit.
        most: the longest that it may be.

    Example:
        >>> parse_period("every", "36h")
        datetime.timedelta(days=1, seconds=43200)
    """
    match = re.fullmatch(r"([0-9]{1,6})([mhdwy])", text)
    length = int(match[1]) * _UNITS[match[2]] if match else timedelta()
    if not timedelta() < length <= most:
        expected = "a whole number above 0 and m, h, d, w or y, for example 7d"
        bound = "" if most == timedelta.max else f", at most {most.days}d"
        raise ParameterError(name, text, expected + bound)
    return length
