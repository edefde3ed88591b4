"""Find the first sufficient number of three digits, by bracketing and bisection."""

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

_DIGITS = 3


def first_enough(
    excess: Callable[[float], float], start: float, factor: float, end: float
) -> float | None:
    """Return the first number of three digits without an excess, from start towards end.

    Args:
        excess: positive for insufficient numbers; decreases in the direction of `end`.
        start: > 0; returned if it is sufficient.
        factor: > 0, not 1: the factor between the numbers tried.
        end: > 0; the function returns None if no number before it is sufficient.

    Example:
        >>> first_enough(lambda x: 700.5 - x, start=10, factor=4, end=1e9)
        701.0
        >>> first_enough(lambda x: 700.5 - x, start=10, factor=4, end=500) is None
        True
        >>> first_enough(lambda x: 700.5 - x, start=800, factor=4, end=1e9)
        800
    """
    if excess(start) <= 0:
        return start
    up = factor > 1
    bad, good = start, rounded(start * factor, up=up)
    while excess(good) > 0:
        bad, good = good, rounded(good * factor, up=up)
        if (good > end) == up:
            return None
    while (middle := rounded((bad + good) / 2, up=up)) != good:
        bad, good = (middle, good) if excess(middle) > 0 else (bad, middle)
    return good


def rounded(number: float, *, up: bool) -> float:
    """Return a number > 0 with three digits, not below it (or not above it).

    Example:
        >>> rounded(61_349.2, up=True), rounded(0.0123456, up=False)
        (61400.0, 0.0123)
    """
    exact = Decimal(number)
    place = Decimal(1).scaleb(exact.adjusted() - _DIGITS + 1)
    return float(exact.quantize(place, ROUND_CEILING if up else ROUND_FLOOR))
