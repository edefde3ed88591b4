"""From exact fractions to doubles, in a chosen direction."""

import math
import sys
from decimal import Decimal
from fractions import Fraction
from numbers import Rational

import numpy as np

from geoveil.gp import validation
from geoveil.gp.arithmetic import Real
from geoveil.gp.errors import ParameterError
from geoveil.gp.exact import BALL, working_precision

BITS = 160
"""Working precision of bounds: far more than a double, so that balls are much thinner."""


def round_up(number: Fraction) -> float:
    """Return the least double ≥ `number`, which is ≥ 0; infinity if there is none."""
    try:
        nearest = float(number)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def round_down(number: Fraction) -> float:
    """Return the greatest double ≤ `number`, which is ≥ 0."""
    try:
        nearest = float(number)
    except OverflowError:
        return sys.float_info.max
    return nearest if Fraction(nearest) <= number else math.nextafter(nearest, 0.0)


def exact(value: object, checked: float) -> Fraction:
    """Return a number as it was given; `checked` is the double that its validation returned."""
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, (Decimal, np.floating)):
        return Fraction(*map(int, value.as_integer_ratio()))
    return Fraction(checked)


def at_most(value: object, checked: float) -> float:
    """Return the greatest double that is no larger than a positive number; see `exact`."""
    return round_down(exact(value, checked))


def at_least(value: object, checked: float) -> float:
    """Return the least double that is no smaller than a positive number; see `exact`."""
    return round_up(exact(value, checked))


def upper(ball: Real) -> Fraction:
    """Return an upper bound of every number in a finite ball."""
    mantissa, exponent = ball.upper().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def lower(ball: Real) -> Fraction:
    """Return a lower bound of every number in a finite ball."""
    return -upper(-ball)


def log_up(number: Fraction) -> float:
    """Return the least double that is known to be at least the logarithm of a number > 1."""
    with working_precision(BITS):
        return round_up(upper(BALL.constant(number).log()))


def geometric_up(delta: Fraction, first: Fraction, step: Fraction, count: int) -> float:
    """Return δ(1 + e^first·(1 + e^step + … + e^{(count−1)·step})), rounded up, at most 1."""
    with working_precision(BITS):
        one, ratio = BALL.constant(1), BALL.constant(step)
        terms = BALL.expm1(count * ratio) / BALL.expm1(ratio)
        total = BALL.constant(delta) * (one + BALL.exp(BALL.constant(first)) * terms)
        # A ball that is not below 1 may be one of overflow.
        return min(round_up(upper(total)), 1.0) if total < one else 1.0


def require_count(name: str, value: object) -> None:
    """Refuse what is not an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ParameterError(name, value, "an integer >= 1")


def share(name: str, epsilon: float, parts: int) -> float:
    """Return epsilon/parts, rounded down; refuse parts too small to be an epsilon."""
    require_count(name, parts)
    part = round_down(Fraction(epsilon) / parts)
    if part < validation.LEAST:
        raise ParameterError(
            name, parts, f"an integer >= 1 with {epsilon:g}/{name} >= {validation.LEAST:g}"
        )
    return part
