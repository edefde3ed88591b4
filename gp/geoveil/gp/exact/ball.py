"""Ball arithmetic (Arb, through python-flint): every result encloses the real number.

The working precision belongs to the process, in python-flint's context; `working_precision` sets it
under a lock and restores it. If another user of python-flint changes it meanwhile, balls become
wider or narrower, never wrong, and the caller's loop goes on until one integer remains.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache

from flint import arb, ctx, fmpq, fmpz

from geoveil.gp.arithmetic import Arithmetic, Exact, Real

_lock = threading.RLock()
# A fork waits until no thread computes: the child has the lock and the precision as they should be.
if hasattr(os, "register_at_fork"):  # where there are forks
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )


@contextmanager
def working_precision(bits: int) -> Iterator[None]:
    """Compute with `bits` of precision inside the block, alone among threads."""
    with _lock:
        before = ctx.prec
        ctx.prec = bits
        try:
            yield
        finally:
            ctx.prec = before


@lru_cache(maxsize=4096)
def _constant(numerator: int, denominator: int, precision: int) -> arb:
    """Return a public parameter as a ball; `precision` keys the cache."""
    return arb(fmpq(numerator, denominator))


class BallArithmetic(Arithmetic):
    """Scalar balls. A point of dimension k > 1 is a sequence of k balls."""

    def constant(self, value: Exact) -> arb:
        """Return a public parameter as a ball. For public parameters: it remembers them."""
        if isinstance(value, int):
            return _constant(value, 1, ctx.prec)
        exact = value if isinstance(value, Fraction) else Fraction(value)
        return _constant(exact.numerator, exact.denominator, ctx.prec)

    def private(self, value: float) -> arb:
        """Return a double, exactly, and remember nothing."""
        return arb(value)

    def uniform(self, numerator: int, count: int) -> arb:
        """Return the ball of all numbers in [numerator, numerator + 1] / 2^count."""
        scale = _power_of_two(-count - 1, ctx.prec)
        return arb(fmpz(2 * numerator + 1), fmpz(1)) * scale

    def turn(self, u: Real) -> tuple[Real, Real]:
        """Return the cosine and sine of u full turns."""
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
        """Return the square root: of the part of the ball that is not negative; NaN if none is."""
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
        """Return the sign: all of [−1, 1] where the ball meets 0."""
        return x.sgn()

    def coordinate(self, x: Real, axis: int) -> Real:
        """Return one coordinate of a point; x is a sequence of balls."""
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


def round_to_grid(value: arb, step_exponent: int) -> int | None:
    """Return the integer k that every number y in the ball rounds to, y/step = k ± 1/2, if one."""
    shifted = value * _power_of_two(-step_exponent, ctx.prec) + _HALF
    if not shifted.is_finite():
        return None
    integer = shifted.floor().unique_fmpz()
    return None if integer is None else int(integer)


_HALF, _ZERO, _NAN = arb(0.5), arb(0), arb.nan()
BALL = BallArithmetic()
"""The ball arithmetic."""
