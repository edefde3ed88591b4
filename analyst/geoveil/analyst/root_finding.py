"""Find the least sufficient number by bracketing and Brent's method, and round it for people."""

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

_TOLERANCE = 1e-3
"""Relative error of the root."""
_DIGITS = 3


def boundary(
    excess: Callable[[float], float], start: float, factor: float, end: float
) -> float | None:
    """Return where an excess vanishes, within 0.1 %, going from start towards end.

    Args:
        excess: positive for what will not do; falls in the direction of `end`.
        start: > 0; returned if it will do.
        factor: > 0, not 1: of the steps by which a change of sign is looked for.
        end: > 0; if there is none before it, None is returned.

    Example:
        >>> round(boundary(lambda x: 700 - x, start=10, factor=4, end=1e9), -1)
        700.0
        >>> boundary(lambda x: 700 - x, start=10, factor=4, end=500) is None
        True
        >>> boundary(lambda x: 700 - x, start=800, factor=4, end=1e9)
        800
    """
    from scipy.optimize import brentq

    if excess(start) <= 0:
        return start
    bad, good = start, start * factor
    while excess(good) > 0:
        bad, good = good, good * factor
        if (good > end) == (factor > 1):
            return None
    last, first = math.log(bad), math.log(good)

    def falling(x: float) -> float:
        return excess(math.exp(x))

    if falling(last) <= 0 or falling(first) > 0:  # by rounding, where an excess jumps
        return bad if falling(last) <= 0 else good
    root: Any = brentq(falling, *sorted((last, first)), xtol=_TOLERANCE)
    return math.exp(root)


def enough(excess: Callable[[float], float], found: float, *, up: bool) -> float | None:
    """Return the next number of three digits without an excess, from a root of it on.

    None if there is none as far on as a third of it: then that was no root.

    Args:
        excess: as of `boundary`.
        found: what that returned.
        up: whether greater numbers have less excess.

    Example:
        >>> enough(lambda x: 700.5 - x, 700.4, up=True)
        701.0
        >>> enough(lambda x: 1.0 + 1 / x, 700.4, up=True) is None
        True
    """
    number = rounded(found, up=up)
    if excess(number) <= 0:
        return number
    last = rounded(found * (4 / 3 if up else 3 / 4), up=up)
    if excess(last) > 0:
        return None
    while True:
        number = rounded(number * (1 + 2e-3 if up else 1 - 2e-3), up=up)
        if (number < last) != up:
            return last
        if excess(number) <= 0:
            return number


def rounded(number: float, *, up: bool) -> float:
    """Return a number > 0 with three digits, not below it (or not above it).

    Example:
        >>> rounded(61_349.2, up=True), rounded(0.0123456, up=False)
        (61400.0, 0.0123)
    """
    exact = Decimal(number)
    place = Decimal(1).scaleb(exact.adjusted() - _DIGITS + 1)
    return float(exact.quantize(place, ROUND_CEILING if up else ROUND_FLOOR))
