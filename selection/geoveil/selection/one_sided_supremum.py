"""Certified suprema of a smooth function on an interval, by bisection in ball arithmetic."""

import heapq
from collections.abc import Callable
from fractions import Fraction
from itertools import count
from typing import TypeAlias

from flint import arb

from geoveil.gp.errors import GeoVeilError
from geoveil.gp.exact.ball import working_precision
from geoveil.gp.privacy.rounding import BITS, upper

LogFunction: TypeAlias = Callable[[arb, arb], tuple[arb, arb]]
"""Encloses log g and its derivative over the interval between two points."""

TOLERANCE = 2.0**-17
"""How far above the supremum a certified bound may be, as a share of it."""
_MOST_CELLS = 1 << 17


def supremum(function: LogFunction, low: arb, high: arb, floor: arb) -> Fraction:
    """Return a number ≥ g everywhere on [low, high], and ≥ `floor`.

    On each cell log g ≤ log g(middle) + max |(log g)'| · radius. The cell with the largest such
    bound is halved until it is within `TOLERANCE` of a value that g, or the floor, takes.

    Args:
        function: encloses log g and its derivative.
        low: where to begin, an exact ball.
        high: where to end, an exact ball.
        floor: a number > 0 that the supremum is known to be no less than.

    Raises:
        GeoVeilError: if the bisection does not come to an end.
    """
    with working_precision(BITS):
        best = floor.log().lower()
        order = count()
        cells: list[tuple[float, int, arb, arb, arb]] = []

        def add(a: arb, b: arb) -> None:
            nonlocal best
            middle = ((a + b) / 2).mid()
            value = function(middle, middle)[0]
            best = best.max(value.lower())
            bound = (value + abs(function(a, b)[1]) * (b - a)).upper()
            # A float orders the heap; the ball beside it is what is certified.
            heapq.heappush(
                cells, (-float(bound) if bound.is_finite() else -1e300, next(order), a, b, bound)
            )

        add(low, high)
        for _ in range(_MOST_CELLS):
            _, _, a, b, bound = cells[0]
            if bound < best + TOLERANCE:
                # Every other cell has a bound that rounds to no more than this one's.
                return upper(bound.max(best).exp() * (1 + arb(2) ** -48))
            heapq.heappop(cells)
            middle = ((a + b) / 2).mid()
            add(a, middle)
            add(middle, b)
    raise GeoVeilError("a supremum could not be enclosed")
