"""Doubles with a proved bound on their error, many at a time: a filter in front of balls.

A number is held as a double and a radius that certainly contains it [MATH §10]. Only + − × ÷, √ and
comparisons of doubles are used, which IEEE 754 rounds correctly; logarithm, exponential and turns
are series of these, whose errors are bounded here, whatever the system's library does. What such a
number can't tell (a formula that looks at its balls, or has none of these operations) is
`Undecided`, and balls decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from geoveil.gp.arithmetic import Arithmetic, Exact, Real
from geoveil.gp.arrays import Array, NDArray, np
from geoveil.gp.exact import BALL, BITS, round_up, upper, working_precision

_UNIT = 2.0**-53
"""A correctly rounded operation is off by at most this part of its result."""
_ABOVE = 1 + 2.0**-46
"""Factor above the rounding of a radius, which takes at most 16 operations, and above products of
two small errors."""
_TINY = 2.0**-1000
"""Above what underflow loses."""
_EXP, _NEAR_EXPM1, _LOG, _NEAR_LOG, _TURN = (units * _UNIT for units in (5, 3, 7, 4.5, 8))
"""Bounds on the errors of exponential and logarithm, relative to them, the second where the series
is all there is; and of cosine and sine, relative to 1 [MATH §10]."""
_LN2_HIGH = float.fromhex("0x1.62e42feep-1")
"""The first 32 bits of log 2: its product with an exponent is exact."""
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_ROOT_HALF = math.sqrt(0.5)
_NARROW = 0.29
"""Where log(1 + x) and e^x − 1 are series themselves."""
_DECIDED = 0.5 * (1 - 2.0**-50)
_MOST = 2.0**51


_EXACT: Any = 0.0
"""The radius of numbers that are doubles exactly; told by identity, it costs no arithmetic."""


class Undecided(Exception):  # noqa: N818  (an answer, not an error)
    """Doubles can't tell: of a formula, or of an operation that they do not have."""


class Enclosed:
    """Numbers, each within `radius` of `middle`; shows nothing of them.

    Args:
        middle: doubles.
        radius: ≥ 0; not finite where nothing is known.
    """

    __slots__ = ("middle", "radius")
    __array_ufunc__ = None  # NumPy leaves mixed operations to this class

    def __init__(self, middle: Array, radius: Array) -> None:
        self.middle = middle
        self.radius = radius

    def __neg__(self) -> Enclosed:
        return Enclosed(-self.middle, self.radius)

    def __abs__(self) -> Enclosed:
        return Enclosed(np.abs(self.middle), self.radius)

    def __add__(self, other: Enclosed | int | float) -> Enclosed:
        b = _enclosed(other)
        middle = self.middle + b.middle
        if b.radius is _EXACT:
            return _rounded(middle, self.radius)
        return _rounded(middle, b.radius if self.radius is _EXACT else self.radius + b.radius)

    __radd__ = __add__

    def __sub__(self, other: Enclosed | int | float) -> Enclosed:
        return self + -_enclosed(other)

    def __rsub__(self, other: int | float) -> Enclosed:
        return _enclosed(other) + -self

    def __mul__(self, other: Enclosed | int | float) -> Enclosed:
        b = _enclosed(other)
        if b.radius is _EXACT:
            spread = self.radius * np.abs(b.middle)
        elif self.radius is _EXACT:
            spread = np.abs(self.middle) * b.radius
        else:
            spread = np.abs(self.middle) * b.radius + (np.abs(b.middle) + b.radius) * self.radius
        return _rounded(self.middle * b.middle, spread)

    __rmul__ = __mul__

    def __truediv__(self, other: Enclosed | int | float) -> Enclosed:
        b = _enclosed(other)
        middle = self.middle / b.middle
        if b.radius is _EXACT:
            return _rounded(middle, self.radius / np.abs(b.middle))
        least = np.abs(b.middle) - b.radius
        spread = np.abs(middle) * b.radius
        if self.radius is not _EXACT:
            spread += self.radius
        spread /= least
        return _rounded(middle, np.where(least > 0, spread, math.inf))

    def __rtruediv__(self, other: int | float) -> Enclosed:
        return _enclosed(other) / self

    def __getattr__(self, name: str) -> object:
        raise Undecided(name)

    def _undecided(self, *_: object) -> bool:
        raise Undecided

    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __float__ = __pow__ = __rpow__ = _undecided
    __eq__ = __ne__ = _undecided
    __hash__ = None  # type: ignore[assignment]  # not hashable
    __array__ = _undecided

    def __repr__(self) -> str:
        return "Enclosed(not shown)"


class _Uniform(Enclosed):
    """Numbers U of which the first 64 bits are known. 1 − U is as precise as U, next to 1 too.

    Args:
        first: those bits.
    """

    __slots__ = ("_first",)

    def __init__(self, first: NDArray[np.uint64]) -> None:
        middle = np.ldexp(first.astype(np.float64), -64)
        # A unit for the conversion, and the bits that are not looked at.
        super().__init__(middle, middle * (_UNIT * _ABOVE) + 2.0**-64 * _ABOVE)
        self._first = first

    def __rsub__(self, other: int | float) -> Enclosed:
        # Of 1 − U the first bits are the complements of those of U.
        return _Uniform(~self._first) if other == 1 else super().__rsub__(other)


def _enclosed(value: object) -> Enclosed:
    if isinstance(value, Enclosed):
        return value
    if isinstance(value, (int, float)) and float(value) == value:  # exactly so
        return _given(np.array(float(value)))
    raise Undecided


def _given(middle: Array) -> Enclosed:
    """Return doubles, exactly."""
    return Enclosed(middle, _EXACT)


def _next_to(ball: Real) -> Enclosed:
    middle = float(ball.mid())
    off = round_up(upper(abs(ball - BALL.private(middle))))
    return Enclosed(np.array(middle), np.array(off))


def _rounded(middle: Array, radius: Array) -> Enclosed:
    """Return the result of one rounded operation: `radius` is what its operands are off by."""
    error = np.abs(middle) * _UNIT
    if radius is not _EXACT:
        error += radius
    error *= _ABOVE
    error += _TINY
    return Enclosed(middle, error)


_TWO_PI = 2 * math.pi
"""A unit from 2π."""
_INVERSE_ODD = tuple(1 / (2 * j + 1) for j in range(12))
_INVERSE_FACTORIAL = tuple(1 / math.factorial(j) for j in range(16))

_COSINE = tuple((-1) ** j / math.factorial(2 * j) for j in range(11))
_SINE = tuple((-1) ** j / math.factorial(2 * j + 1) for j in range(10))


def _series(x: Array, coefficients: Sequence[float]) -> Array:
    total = x * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        total += coefficient
        total *= x
    total += coefficients[0]
    return total


def _artanh(z: Array) -> Array:
    """Return 2 artanh z for |z| below 0.1767: 2z(1 + z²/3 + … + z²²/23)."""
    return 2 * (z * _series(z * z, _INVERSE_ODD))


def _log(x: Array) -> Array:
    """Return the logarithm of a normal double, to `_SERIES` of itself."""
    part, exponent = np.frexp(x)
    low = part < _ROOT_HALF
    part, exponent = np.where(low, 2 * part, part), (exponent - low).astype(np.float64)
    rest = _artanh((part - 1) / (part + 1))
    return exponent * _LN2_HIGH + (exponent * _LN2_LOW + rest)


def _exp(x: Array) -> Array:
    """Return e^x for |x| ≤ 700, to `_SERIES` of itself."""
    exponent = np.rint(x * (1 / math.log(2)))
    rest = (x - exponent * _LN2_HIGH) - exponent * _LN2_LOW
    return np.ldexp(_series(rest, _INVERSE_FACTORIAL), exponent.astype(np.int32))


class EnclosedArithmetic(Arithmetic):
    """The arithmetic of `Enclosed` numbers. A point of dimension k > 1 is a sequence of k."""

    def constant(self, value: Exact) -> Enclosed:
        if type(value) is float:
            return _given(np.array(value))
        try:
            number = float(value)
        except OverflowError:
            raise Undecided from None
        middle = np.array(number)
        return _given(middle) if Fraction(number) == value else _rounded(middle, _EXACT)

    def known(self, find: Callable[[Arithmetic], Sequence[Real]]) -> Sequence[Enclosed]:
        """Return public numbers that are found in balls: each next to its double."""
        with working_precision(BITS):
            return [_next_to(ball) for ball in find(BALL)]

    def private(self, values: Array) -> Enclosed:
        """Return doubles, exactly."""
        return _given(values)

    def uniform(self, words: NDArray[np.uint64]) -> Enclosed:
        """Return numbers in (0, 1) of which 64 bits are looked at, the first of each row."""
        return _Uniform(words[:, 0])

    def exp(self, x: Real) -> Enclosed:
        return self._exponential(x, 0.0)

    def expm1(self, x: Real) -> Enclosed:
        near = np.abs(x.middle) <= _NARROW
        at = np.where(near, x.middle, 0.0)
        value = at * _series(at, _INVERSE_FACTORIAL[1:])
        radius = np.abs(value) * _NEAR_EXPM1 + (1 + value) * _growth(x.radius)
        found = Enclosed(value, radius * _ABOVE + _TINY)
        return _elsewhere(near, found, x, lambda far: self._exponential(far, 1.0))

    def _exponential(self, x: Enclosed, less: float) -> Enclosed:
        """Return e^x − `less`."""
        known = np.abs(x.middle) <= 700
        value = _exp(np.where(known, x.middle, 0.0))
        radius = value * (_EXP + _growth(x.radius)) + _TINY
        return _rounded(value - less, np.where(known, radius, math.inf))

    def log(self, x: Real) -> Enclosed:
        known = (x.middle > 2.0**-1000) & (x.middle < 2.0**1000)
        value = _log(np.where(known, x.middle, 1.0))
        part = x.radius / x.middle
        radius = np.abs(value) * _LOG + part / (1 - part)
        return _rounded(value, np.where(known & (part < 0.5), radius, math.inf))

    def log1p(self, x: Real) -> Enclosed:
        near = np.abs(x.middle) <= _NARROW
        at = np.where(near, x.middle, 0.0)
        value = _artanh(at / (2 + at))
        part = x.radius / (1 + at)
        radius = np.abs(value) * _NEAR_LOG + part / (1 - part)
        found = Enclosed(value, np.where(part < 0.5, radius * _ABOVE + _TINY, math.inf))
        return _elsewhere(near, found, x, lambda far: self.log(1 + far))

    def sqrt(self, x: Real) -> Enclosed:
        """Return the square root of what is ≥ 0: |√x − √m| = |x − m|/(√m + √x)."""
        known = x.middle > 2.0**-1000
        middle = np.where(known, x.middle, 1.0)
        value = np.sqrt(middle)
        both = value * (2 - np.minimum(x.radius / middle, 1.0))  # √(1 − t) ≥ 1 − t
        return _rounded(value, np.where(known, x.radius / both, math.inf))

    def turn(self, u: Real) -> tuple[Enclosed, Enclosed]:
        """Return the cosine and sine of u full turns, u in [0, 1]."""
        quarter = np.rint(4 * u.middle)
        angle = _TWO_PI * (u.middle - quarter / 4)  # the difference is exact
        square = angle * angle
        cosine, sine = _series(square, _COSINE), angle * _series(square, _SINE)
        odd, radius = quarter % 2 == 1, (u.radius * 7 + _TURN) * _ABOVE
        x, y = np.where(odd, -sine, cosine), np.where(odd, cosine, sine)
        turned = np.where(quarter % 4 >= 2, -1.0, 1.0)
        return Enclosed(turned * x, radius), Enclosed(turned * y, radius)

    def power(self, base: Real, exponent: Real) -> Enclosed:
        if not isinstance(exponent, int):
            return self.exp(self.log(base) * exponent)
        if exponent < 0:
            return 1 / self.power(base, -exponent)
        result = _enclosed(1)
        for bit in f"{exponent:b}":
            result = result * result
            if bit == "1":
                result = result * base
        return result

    def minimum(self, x: Real, y: Real) -> Enclosed:
        x, y = _enclosed(x), _enclosed(y)
        return Enclosed(np.minimum(x.middle, y.middle), _of_one(x.middle < y.middle, x, y))

    def maximum(self, x: Real, y: Real) -> Enclosed:
        x, y = _enclosed(x), _enclosed(y)
        return Enclosed(np.maximum(x.middle, y.middle), _of_one(x.middle > y.middle, x, y))

    def sign(self, x: Real) -> Enclosed:
        told = np.abs(x.middle) > x.radius
        return Enclosed(np.sign(x.middle), np.where(told, 0.0, 2.0))

    def coordinate(self, x: Real, axis: int) -> Real:
        return x[axis]

    def piecewise(
        self, x: Real, edges: Sequence[Real], branches: Sequence[Callable[[Real], Real]]
    ) -> Enclosed:
        """Return the branch that a number is in; nothing is known of one that is in two."""
        last = _enclosed(branches[-1](x))
        middle, radius = last.middle, last.radius
        for edge, branch in zip(reversed(edges), reversed(branches[:-1]), strict=True):
            edge, value = _enclosed(edge), _enclosed(branch(x))
            below = x.middle < edge.middle
            told = np.abs(x.middle - edge.middle) > 2 * (x.radius + edge.radius)
            middle = np.where(below, value.middle, middle)
            radius = np.where(told, np.where(below, value.radius, radius), math.inf)
        return Enclosed(middle, radius)


def _elsewhere(
    near: NDArray[np.bool_], found: Enclosed, x: Enclosed, other: Callable[[Enclosed], Enclosed]
) -> Enclosed:
    """Return what was found near 0, and what `other` finds of the numbers elsewhere."""
    far = np.flatnonzero(~near)
    if len(far):
        middle, radius = (np.array(np.broadcast_to(part, near.shape)).ravel()
                          for part in (found.middle, found.radius))  # fmt: skip
        rest = other(
            Enclosed(x.middle.ravel()[far], np.broadcast_to(x.radius, near.shape).ravel()[far])
        )
        middle[far], radius[far] = rest.middle, rest.radius
        found = Enclosed(middle.reshape(near.shape), radius.reshape(near.shape))
    return found


def _of_one(first: NDArray[np.bool_], x: Enclosed, y: Enclosed) -> Array:
    """Return the radius of the one that is taken where that is certain, else of either."""
    told = np.abs(x.middle - y.middle) > 2 * (x.radius + y.radius)
    either = np.maximum(x.radius, y.radius)
    return np.where(told, np.where(first, x.radius, y.radius), either)


def _growth(radius: Array) -> Array:
    """Return a bound of e^r − 1: r + r² up to 1."""
    return np.where(radius <= 1, radius + radius * radius, math.inf)


ENCLOSED = EnclosedArithmetic()
"""The arithmetic of doubles with a bound on their error."""


def round_where_decided(
    value: Enclosed, step_exponent: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the integers that numbers round to on a grid, and which of them are certain.

    Args:
        value: the numbers.
        step_exponent: the grid is the multiples of 2^step_exponent.
    """
    at, radius = (np.ldexp(part, -step_exponent) for part in (value.middle, value.radius))
    nearest = np.rint(at)
    # The difference is exact; NaN compares false.
    decided = (np.abs(at - nearest) + radius + _TINY < _DECIDED) & (np.abs(at) < _MOST)
    return np.where(decided, nearest, 0.0).astype(np.int64), decided
