"""Numbers in sentences for people: digits, odds and chances. No risk is rounded down.

`client/typescript/src/saying.ts` writes exactly the same texts; proto/vectors/consent.json tests
both.
"""

import math
from collections.abc import Sequence
from datetime import timedelta
from decimal import ROUND_DOWN, Context, Decimal
from functools import reduce

from geoveil.campaign.words import digits, say

_MOST_TIMES = 1e6
_MOST_FAR = 10.0
"""The ε between any two values above which their promise is practically worthless."""
_ALMOST_SURE = 0.999
FARTHEST = 700.0
"""The largest logarithm of a double."""
_ROUNDING = 1e-9
"""The error of doubles in the last digit, which a stated risk may ignore."""


def between(least: float | None, most: float | None) -> str:
    """Return a range in words; "" without limits.

    Example:
        >>> between(0, 10_000_000), between(None, 5.5), between(None, None)
        ('at least 0 and at most 10,000,000', 'at most 5.5', '')
    """
    ends = (("least", least), ("most", most))
    return both([say(f"range.{name}", x=digits(end)) for name, end in ends if end is not None])


def both(texts: Sequence[str]) -> str:
    """Return texts joined by "and"."""
    return reduce(lambda one, other: say("and", one=one, other=other), texts) if texts else ""


def times(nats: float) -> str | None:
    """Return e^nats to three digits, rounded up; None above a million.

    Example:
        >>> times(1.0), times(5.0), times(0.001), times(20.0)
        ('2.72', '149', '1.01', None)
    """
    if nats > math.log(_MOST_TIMES):
        return None
    return digits(rounded_up(math.exp(nats), 3))


def to_one(nats: float) -> str | None:
    """Return e^nats as odds to four digits, rounded up; None from 22,027 to 1: no protection.

    Example:
        >>> to_one(8.0), to_one(math.log(1000)), to_one(10.5)
        ('2,981 to 1', '1,000 to 1', None)
    """
    if nats > _MOST_FAR:
        return None
    return say("odds", one=digits(rounded_up(math.exp(nats), 4)), other="1")


def of_far_values(nats: float) -> str:
    """Return the promise for any two values as a clause that follows the one for near values.

    Example:
        >>> of_far_values(8.0), of_far_values(math.inf)
        (', any two values 2,981 to 1', ', no protection of values far apart')
    """
    odds = to_one(nats)
    return say("price.far", odds=odds) if odds else say("price.near")


def rounded_up(x: float, figures: int) -> float:
    """Round a number up to a number of significant figures.

    Example:
        >>> rounded_up(2371.9, 2), rounded_up(0.01234, 3)
        (2400.0, 0.0124)
    """
    if x == 0 or math.isinf(x):
        return x
    places = figures - 1 - math.floor(math.log10(abs(x)))
    unit = 10.0 ** abs(places)
    if places < 0:
        return math.ceil(x / unit - _ROUNDING) * unit
    return math.ceil(x * unit - _ROUNDING) / unit


def factor_up(distance: float, figures: int) -> float:
    """Return the factor between two values on a log scale, its excess over 1 rounded up.

    Example:
        >>> factor_up(0.0004, 2), factor_up(math.log(7.3), 2)
        (1.00041, 7.3)
    """
    return 1 + rounded_up(math.expm1(min(distance, FARTHEST)), figures)


def ratio(distance: float) -> str:
    """Return the factor between two values on a log scale to six digits, rounded down.

    Example:
        >>> ratio(math.log(2)), ratio(0.7)
        ('2', '2.01375')
    """
    return digits(-rounded_up(-math.exp(min(distance, FARTHEST)), 6))


def on_scale(logarithm: float) -> str:
    """Return the value with a logarithm, to twelve digits.

    Example:
        >>> on_scale(math.log(100_000))
        '100,000'
    """
    return digits(float(f"{math.exp(min(logarithm, FARTHEST)):.12g}"))


def days_in(length: timedelta) -> str:
    """Return a length > 0 in days in words, to six significant figures, rounded down.

    Example:
        >>> days_in(timedelta(days=91)), days_in(timedelta(days=364.99999))
        ('91 days', '364.999 days')
    """
    exact = Decimal(length // timedelta(microseconds=1))
    days = Context(prec=6, rounding=ROUND_DOWN).divide(exact, Decimal(86_400_000_000))
    return say("days", n=float(days))


def percent(chance: float) -> str:
    """Return a chance in per cent to one decimal, rounded up; above 99.9 only as "more than".

    Example:
        >>> percent(0.7310586), percent(0.5), percent(0.9999)
        ('73.2 %', '50 %', 'more than 99.9 %')
    """
    if chance > _ALMOST_SURE:
        return say("percent.most")
    return say("percent", share=digits(_tenths(chance) / 10))


def odds(chance: float) -> str | None:
    """Return a chance and its complement in per cent; None above 99.9 %.

    Example:
        >>> odds(0.7310586), odds(0.9999)
        ('73.2 to 26.8', None)
    """
    if chance > _ALMOST_SURE:
        return None
    tenths = _tenths(chance)
    return say("odds", one=digits(tenths / 10), other=digits((1000 - tenths) / 10))


def right_at_most(nats: float, delta: float = 0.0) -> float:
    """Return the largest chance that a guess between two equally likely values is right.

    It is (1 + TV)/2; by (ε, δ) in both directions, ε ≥ 0 in nats, the total variation TV is at most
    (e^ε − 1 + 2δ)/(e^ε + 1): add P(S) ≤ e^ε Q(S) + δ and the same for the complements.
    """
    return 1.0 - (1.0 - delta) / (1.0 + math.exp(min(nats, FARTHEST)))


def _tenths(chance: float) -> int:
    return math.ceil(1000 * chance - _ROUNDING)
