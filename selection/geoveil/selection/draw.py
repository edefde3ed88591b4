"""Exact draws: refine random bits until balls decide.

Each answer is a function of ideal uniform numbers, of which only as many bits are drawn as it takes
to know it. It therefore has exactly the ideal distribution, whatever the precision at which the
loop happens to stop [MATH §10].
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TypeVar

from geoveil.gp.arithmetic import Real
from geoveil.gp.errors import GeoVeilError
from geoveil.gp.exact.ball import BALL, working_precision
from geoveil.gp.exact.bits import LazyUniform

_Answer = TypeVar("_Answer")

_GUARD_BITS = 32
_MOST_BITS = 1 << 16


def decided(
    uniforms: Sequence[LazyUniform], attempt: Callable[[list[Real]], _Answer | None]
) -> _Answer:
    """Return the first answer of `attempt`, given ever smaller balls around the uniform numbers.

    Args:
        uniforms: with their first bits drawn already; at least one.
        attempt: returns None as long as the balls leave more than one answer.
    """
    while True:
        with working_precision(uniforms[0].count + _GUARD_BITS):
            answer = attempt([ball(u) for u in uniforms])
        if answer is not None:
            return answer
        if uniforms[0].count >= _MOST_BITS:
            # A fair source gets here with probability below 2^-60000.
            raise GeoVeilError("the random source is broken: its bits decide nothing")
        for uniform in uniforms:
            uniform.refine()


def weighted_index(uniform: LazyUniform, weights: Callable[[], Sequence[Real]]) -> int:
    """Return an index with probability exactly proportional to the weights that are enclosed.

    Args:
        uniform: U; the index is the first whose running sum exceeds U times the sum of all.
        weights: returns balls around numbers ≥ 0 that are not all 0, at the precision of the call.
    """

    def attempt(balls: list[Real]) -> int | None:
        sums = list(accumulate(weights()))
        target = balls[0] * sums[-1]
        for index, running in enumerate(sums):
            if target < running:
                return index
            if not target > running:
                return None
        return None

    return decided([uniform], attempt)


def ball(uniform: LazyUniform) -> Real:
    """Enclose a uniform number of which the leading bits are known."""
    return BALL.uniform(uniform.numerator, uniform.count)


def largest(values: Sequence[Real]) -> int | None:
    """Return the index of the largest number, or None where balls leave more than one."""
    best = max(range(len(values)), key=lambda index: values[index].mid())
    champion = values[best]
    others = (value < champion for index, value in enumerate(values) if index != best)
    return best if all(others) else None
