"""Exact release, private on a real computer: lazy bits, balls, one correctly rounded integer.

The released integer is a function of the ideal output alone, and keeps its guarantee [MATH §10].
`working_precision` sets python-flint's precision, which belongs to the process, under a lock. If
other code changes it meanwhile, balls become wider or narrower, never wrong.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Rational
from typing import TypeVar

from flint import arb, ctx, fmpq

from geoveil.gp import validation
from geoveil.gp.arithmetic import Arithmetic, Exact, Real
from geoveil.gp.arrays import is_array, np
from geoveil.gp.errors import GeoVeilError, ParameterError
from geoveil.gp.randomness import LazyUniform

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_GUARD_BITS = 32
_SURE_BITS = 1152
"""More than the differences between exponents of points, grids and scales: with this much
precision, only random bits leave a result open."""
_MOST_BITS = 1 << 16
_Released = TypeVar("_Released")

_SPIN_S = 5e-4
"""The last seconds of a wait, spent polling the clock because a sleep may end this late."""
_LONGEST_S = 3600.0


_lock = threading.RLock()
# A fork waits until no thread computes: the child has the lock and the precision as they should be.
if hasattr(os, "register_at_fork"):  # where there are forks
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )


class working_precision:  # noqa: N801  (used as a block)
    """Compute with `bits` of precision inside the block, with other threads excluded."""

    __slots__ = ("_before", "_bits")

    def __init__(self, bits: int) -> None:
        self._bits = bits

    def __enter__(self) -> None:
        _lock.acquire()
        self._before = ctx.prec
        ctx.prec = self._bits

    def __exit__(self, *_: object) -> None:
        ctx.prec = self._before
        _lock.release()


@lru_cache(maxsize=4096)
def _constant(numerator: int, denominator: int, precision: int) -> arb:
    """Return a public parameter as a ball; `precision` keys the cache."""
    return arb(fmpq(numerator, denominator))


class BallArithmetic(Arithmetic):
    """Scalar balls. A point of dimension k > 1 is a sequence of k balls."""

    @property
    def precision(self) -> int:
        return int(ctx.prec)

    def constant(self, value: Exact) -> arb:
        """Return a public parameter as a ball, and cache it."""
        if isinstance(value, float):
            return arb(value)
        return _constant(value.numerator, value.denominator, ctx.prec)

    def private(self, value: float) -> arb:
        """Return a private double as an exact ball, without caching it."""
        return arb(value)

    def uniform(self, numerator: int, count: int) -> Real:
        """Return the ball of all numbers in [numerator, numerator + 1] / 2^count."""
        return arb(numerator) * _power_of_two(-count, ctx.prec) + _first_of(count, ctx.prec)

    def turn(self, u: Real) -> tuple[Real, Real]:
        sine, cosine = (2 * u).sin_cos_pi()
        return cosine, sine

    def exp(self, x: Real) -> Real:
        return x.exp()

    def log(self, x: Real) -> Real:
        return x.log()

    def expm1(self, x: Real) -> Real:
        return x.expm1()

    def log1p(self, x: Real) -> Real:
        return x.log1p()

    def sqrt(self, x: Real) -> Real:
        """Return the square root of the part of the ball that is not negative; NaN without one."""
        return (x if x < 0 else x.nonnegative_part()).sqrt()

    def power(self, base: Real, exponent: Real) -> Real:
        """Return a power; without an int exponent, a base below 0 counts as 0."""
        whole = isinstance(exponent, int)
        if base > 0 or (whole and (base < 0 or exponent == 0)):
            return base**exponent
        if not (base.is_finite() and exponent > 0):
            return _NAN
        if not whole:
            base = base.nonnegative_part()
        # It rises from 0, and on the other side of 0 rises or falls.
        power = _ZERO.union(arb(base.upper()) ** exponent)
        return power if base >= 0 else power.union(arb(base.lower()) ** exponent)

    def minimum(self, x: Real, y: Real) -> Real:
        return x.min(y)

    def maximum(self, x: Real, y: Real) -> Real:
        return x.max(y)

    def sign(self, x: Real) -> Real:
        """Return the sign, which is all of [−1, 1] if the ball meets 0."""
        return x.sgn()

    def coordinate(self, x: Real, axis: int) -> Real:
        return x[axis]

    def piecewise(
        self, x: Real, edges: Sequence[Real], branches: Sequence[Callable[[Real], Real]]
    ) -> Real:
        """Return the union over all branches that the ball meets."""
        if x.is_nan():
            return x
        result: arb | None = None
        for index, branch in enumerate(branches):
            above = index == 0 or not x < edges[index - 1]
            below = index == len(edges) or not x > edges[index]
            if above and below:
                value = branch(x)
                result = value if result is None else result.union(value)
        return result


@lru_cache(maxsize=1024)
def _power_of_two(exponent: int, precision: int) -> arb:
    return arb(2) ** exponent


@lru_cache(maxsize=64)
def _first_of(count: int, precision: int) -> arb:
    """Return the ball of all numbers in [0, 1] / 2^count."""
    half = arb(2) ** (-count - 1)
    return arb(half.mid(), half.mid())


def round_to_grid(value: arb, step_exponent: int) -> int | None:
    """Return the integer k to which every number y in the ball rounds, y/step = k ± 1/2."""
    shifted = value * _power_of_two(-step_exponent, ctx.prec) + _HALF
    integer = shifted.floor().unique_fmpz()
    return None if integer is None else int(integer)


_HALF, _ZERO, _NAN = arb(0.5), arb(0), arb.nan()
BALL = BallArithmetic()


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


def as_given(value: object, checked: float) -> Fraction:
    """Return a number in full precision; `checked` is its validated double."""
    if type(value) is float:
        return Fraction(checked)
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, Decimal) or (is_array(value) and isinstance(value, np.floating)):
        return Fraction(*map(int, value.as_integer_ratio()))
    return Fraction(checked)


def upper(ball: Real) -> Fraction:
    """Return an upper bound of every number in a finite ball."""
    mantissa, exponent = ball.upper().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def lower(ball: Real) -> Fraction:
    """Return a lower bound of every number in a finite ball."""
    return -upper(-ball)


_CLEAR = 1 - Fraction(1, 2**80)
"""Factor that moves exact doubles far enough for balls to decide their rounding."""


def settled_down(ball: Real) -> float:
    """Return the greatest double ≤ (1 − 2^-80) of a number > 0 that a thin ball encloses.

    It is the same at every precision well above 80 bits, and so in all languages.
    """
    return round_down(lower(ball * BALL.constant(_CLEAR)))


def settled_up(ball: Real) -> float:
    """Return the least double ≥ the number divided by (1 − 2^-80), in the same way."""
    return round_up(upper(ball / BALL.constant(_CLEAR)))


def log_up(number: Fraction) -> float:
    """Return the least double provably at least the logarithm of a number > 1."""
    with working_precision(BITS):
        return round_up(upper(BALL.constant(number).log()))


def log_nearest(number: float) -> float:
    """Return the double nearest to the logarithm of a double > 0: the same in all languages.

    Only log 1 = 0 is rational, so no other lies half way between two doubles.
    """
    bits = BITS
    while number != 1:
        with working_precision(bits):
            ball = BALL.private(number).log()
            low, high = float(lower(ball)), float(upper(ball))
        if low == high:
            return low
        bits *= 2
    return 0.0


def geometric_up(delta: Fraction, first: Fraction, step: Fraction, count: int) -> float:
    """Return δ(1 + e^first·(1 + e^step + … + e^{(count−1)·step})), rounded up, at most 1."""
    with working_precision(BITS):
        unit, ratio = BALL.constant(1), BALL.constant(step)
        terms = BALL.expm1(count * ratio) / BALL.expm1(ratio)
        total = BALL.constant(delta) * (unit + BALL.exp(BALL.constant(first)) * terms)
        # A ball that is not below 1 may be one of overflow.
        return round_up(upper(total)) if total < unit else 1.0


def share(name: str, epsilon: float, parts: int) -> float:
    """Return epsilon/parts, rounded down; refuse parts too small to be an epsilon."""
    validation.require_count(name, parts)
    part = round_down(Fraction(epsilon) / parts)
    if part < validation.LEAST:
        raise ParameterError(
            name, parts, f"an integer >= 1 with {epsilon:g}/{name} >= {validation.LEAST:g}"
        )
    return part


def release_integers(
    uniforms: Sequence[LazyUniform],
    evaluate: Callable[[list[Real]], Sequence[Real]],
    step_exponent: int,
    coarse_bits: int | None = None,
) -> tuple[int, ...]:
    """Return the grid indices of the numbers in evaluate(U₁, U₂, …), which share random bits.

    They saturate at the ends of int64, as part of the mechanism: that costs no privacy.

    Args:
        uniforms: the U, with their first bits drawn already.
        evaluate: encloses the ideal outputs, given balls that enclose the U. They may have jumps.
        step_exponent: the grid is the multiples of 2^step_exponent.
        coarse_bits: working precision of a first try, which changes no integer; None: no such try.
    """
    while True:
        many = uniforms[0].count
        tried = (many + _GUARD_BITS, many + _SURE_BITS)
        for precision in tried if coarse_bits is None else (coarse_bits, *tried):
            with working_precision(precision):
                balls = evaluate([BALL.uniform(u.numerator, u.count) for u in uniforms])
                integers = [round_to_grid(ball, step_exponent) for ball in balls]
            if None not in integers:
                return tuple(saturated(k) for k in integers if k is not None)
        if many >= _MOST_BITS:
            # A fair source gets here with probability below 2^-60000.
            raise GeoVeilError("the random source is broken: its bits decide nothing")
        coarse_bits = None
        for uniform in uniforms:
            uniform.refine()


def saturated(integer: int) -> int:
    """Return an integer, or the end of int64 that it is beyond."""
    return min(max(integer, INT64_MIN), INT64_MAX)


def grid_around(low: Real, high: Real, step_exponent: int) -> tuple[int, int]:
    """Return the least and greatest integer released for outputs between two balls.

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
    """Return e with step = 2^e; refuse a step that is not a power of two from 2^-200 to 2^200."""
    expected = "a power of two from 2^-200 to 2^200"
    mantissa, exponent = math.frexp(validation.real("step", step, expected))
    if mantissa != 0.5 or not -200 <= exponent - 1 <= 200:
        raise ParameterError("step", step, expected)
    return exponent - 1


def paced(
    release: Callable[[], _Released],
    seconds: float,
    *,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], object] = time.sleep,
) -> _Released:
    """Return the result of `release` at a whole multiple of `seconds` after the call.

    How long a release takes depends a little on the point. An observer who times a paced call from
    outside the process learns only the multiple: 1, if the floor is well above every release.
    Errors are paced, too. The load of the processor, the caches and the energy are not hidden.

    Args:
        release: for example `lambda: mechanism.release(x)`.
        seconds: the floor, in (0, 3600]; longer work ends at the next multiple.
        clock: monotonic, in seconds.
        sleep: waits for this many seconds; the last half millisecond is spent reading the clock.

    Example:
        >>> from geoveil.gp import GeoPrivacy, LipschitzMechanism, SeededSource, Threshold
        >>> m = LipschitzMechanism(Threshold(at=0, width=2), GeoPrivacy(1.0, per=1.0), step=0.25)
        >>> paced(lambda: m.release(0.3, SeededSource(1)), 0.002)
        -1
    """
    for name, function in (("release", release), ("clock", clock), ("sleep", sleep)):
        if not callable(function):
            raise ParameterError(name, function, "a function")
    seconds = validation.between("seconds", seconds, 0, _LONGEST_S, low_open=True)
    start = clock()
    try:
        return release()
    finally:
        # Counted, not looped: the number of steps here does not depend on the work.
        periods = max(1, math.ceil((clock() - start) / seconds))
        end = start + periods * seconds
        rest = end - clock() - _SPIN_S
        if rest > 0:
            sleep(rest)
        while clock() < end:
            pass
