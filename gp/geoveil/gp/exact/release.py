"""The release loop: refine until one integer on the public grid remains [MATH §10].

For an ideal mechanism y = Y(U), with U uniform in (0, 1), the integer released is the correctly
rounded y/step. It is a function of the ideal output alone, so it keeps the ideal guarantee: nothing
depends on how doubles are spaced, nor on the precision at which the loop happens to stop.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from geoveil.gp import validation
from geoveil.gp.arithmetic import Real
from geoveil.gp.errors import GeoVeilError, ParameterError
from geoveil.gp.exact.ball import BALL, round_to_grid, working_precision
from geoveil.gp.exact.bits import LazyUniform

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_GUARD_BITS = 32
_MOST_BITS = 1 << 16


def release_integers(
    uniforms: Sequence[LazyUniform],
    evaluate: Callable[[list[Real]], Sequence[Real]],
    step_exponent: int,
) -> tuple[int, ...]:
    """Return the grid indices of all numbers in evaluate(U₁, U₂, …), which share their randomness.

    Args:
        uniforms: the U, with their first bits drawn already.
        evaluate: encloses the ideal outputs, given balls that enclose the U. They may have jumps.
        step_exponent: the grid is the multiples of 2^step_exponent.

    Returns:
        The integers nearest to output/step, saturated at the ends of int64: as a function of the
        output, saturation is part of the mechanism and costs no privacy.
    """
    while True:
        with working_precision(uniforms[0].count + _GUARD_BITS):
            balls = evaluate([BALL.uniform(u.numerator, u.count) for u in uniforms])
            integers = [round_to_grid(ball, step_exponent) for ball in balls]
        if None not in integers:
            return tuple(min(max(k, INT64_MIN), INT64_MAX) for k in integers if k is not None)
        if uniforms[0].count >= _MOST_BITS:
            # A fair source gets here with probability below 2^-60000.
            raise GeoVeilError("the random source is broken: its bits decide nothing")
        for uniform in uniforms:
            uniform.refine()


def grid_around(low: Real, high: Real, step_exponent: int) -> tuple[int, int]:
    """Return the least and greatest integer that outputs between two numbers are released as.

    Args:
        low: a ball; what is below all of it is not between the two.
        high: a ball, likewise.
        step_exponent: of the grid.

    Example:
        >>> grid_around(BALL.constant(-0.3), BALL.constant(1e300), step_exponent=-1)
        (-1, 9223372036854775807)
    """
    steps = BALL.constant(Fraction(2) ** -step_exponent)
    least, greatest = (low * steps).lower().floor(), (high * steps).upper().ceil()
    return (
        int(least.unique_fmpz()) if least > INT64_MIN else INT64_MIN,
        int(greatest.unique_fmpz()) if greatest < INT64_MAX else INT64_MAX,
    )


def step_exponent_of(step: float) -> int:
    """Return e with step = 2^e.

    Raises:
        ParameterError: if step is not a power of two from 2^-200 to 2^200.
    """
    expected = "a power of two from 2^-200 to 2^200"
    mantissa, exponent = math.frexp(validation.real("step", step, expected))
    if mantissa != 0.5 or not -200 <= exponent - 1 <= 200:
        raise ParameterError("step", step, expected)
    return exponent - 1
