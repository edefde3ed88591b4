"""L and c of the positive half of a symmetric noise, certified in ball arithmetic.

Z is symmetric, with a nonincreasing density on the positive side; f, F̄ and F belong to |Z|, and ν
is the supremum of t f/F̄. Bisection finds the suprema.
"""

import heapq
from collections.abc import Callable
from fractions import Fraction
from itertools import count
from typing import TypeAlias

from flint import arb

from geoveil.gp import BALL, BITS, GeoVeilError, InvertedNoise, upper, working_precision

LogFunction: TypeAlias = Callable[[arb, arb], tuple[arb, arb]]
"""Encloses log g and its derivative over the interval between two points."""

TOLERANCE = 2.0**-17
"""The relative excess of a certified bound over the supremum."""
_MOST_CELLS = 1 << 17


def supremum(function: LogFunction, low: arb, high: arb, floor: arb) -> Fraction:
    """Return a number ≥ g everywhere on [low, high], and ≥ `floor`, which is > 0.

    `function` encloses log g and its derivative. On each cell log g ≤ log g(middle) +
    max |(log g)'| · radius. The cell with the largest bound is halved until that bound is within
    `TOLERANCE` of a value of g or of the floor.

    Raises:
        GeoVeilError: if the bisection does not end.
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
            # Floats order the heap; the balls are certified.
            heapq.heappush(
                cells, (-float(bound) if bound.is_finite() else -1e300, next(order), a, b, bound)
            )

        add(low, high)
        for _ in range(_MOST_CELLS):
            _, _, a, b, bound = cells[0]
            if bound < best + TOLERANCE:
                # No other cell's rounded bound exceeds this one's.
                return upper(bound.max(best).exp() * (1 + arb(2) ** -48))
            heapq.heappop(cells)
            middle = ((a + b) / 2).mid()
            add(a, middle)
            add(middle, b)
    raise GeoVeilError("a supremum could not be enclosed")


Score: TypeAlias = Callable[[arb, arb], arb]
"""Encloses ψ = −(ln f)' over the interval between two points ≥ 0."""


class _Enclosure:
    """f, F̄ and F over an interval of t, from its ends, since all three are monotone."""

    def __init__(self, whole: InvertedNoise, score: Score, low: arb, high: arb) -> None:
        self.score = score(low, high)
        self.density = 2 * whole.ball_density(low).union(whole.ball_density(high))
        self.survival = 2 * whole.ball_tail(low).union(whole.ball_tail(high))
        self.cdf = 2 * whole.ball_center(low).union(whole.ball_center(high))

    @property
    def minus_log_cdf(self) -> arb:
        """−ln F, from the smaller of F and F̄."""
        return -self.cdf.log() if self.cdf < 0.5 else -(-self.survival).log1p()


def hazard_bound(whole: InvertedNoise, score: Score) -> Fraction:
    """Return L; beyond T = ν/f(0) the hazard is below ν/T, its value at 0."""
    with working_precision(BITS):
        at_zero = 2 * whole.ball_density(arb(0))
        end = (BALL.constant(whole.tail_exponent) / at_zero).upper()
        floor = at_zero.lower()

    def log_hazard(low: arb, high: arb) -> tuple[arb, arb]:
        at = _Enclosure(whole, score, low, high)
        hazard = at.density / at.survival
        return hazard.log(), hazard - at.score

    return supremum(log_hazard, arb(0), end, floor)


def scale_cost_bound(whole: InvertedNoise, score: Score) -> Fraction:
    """Return c, by bisection in ln t between two ends, with formulas beyond them.

    F ≥ t f, since f is nonincreasing; so the quotient is below ν if −ln F ≥ 1/ν. In the tail it is
    at most ν/F, because −ln F ≥ F̄.
    """
    with working_precision(BITS):
        nu = BALL.constant(whole.tail_exponent)
        low, high = arb(1), arb(1)
        while not -(-(2 * whole.ball_tail(low))).log1p() * nu > 1:
            low = low / 2
        while not whole.ball_tail(high) < TOLERANCE / 8:
            high = high * 2
        beyond = nu / (2 * whole.ball_center(high))
        begin, end = low.log().mid() - TOLERANCE, high.log().mid() + TOLERANCE

    def log_quotient(low: arb, high: arb) -> tuple[arb, arb]:
        t = low.exp(), high.exp()
        at = _Enclosure(whole, score, *t)
        between = t[0].union(t[1])
        ratio, depth = between * at.density / at.cdf, at.minus_log_cdf
        return (ratio / depth).log(), 1 - between * at.score - ratio + ratio / depth

    return max(supremum(log_quotient, begin, end, nu), upper(beyond))
