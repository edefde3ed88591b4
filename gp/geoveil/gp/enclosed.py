"""Doubles with a proved bound on their error, many at a time: a filter in front of balls.

A number is held as a double and a radius that certainly contains it [MATH §10]. Only + − × ÷, √ and
comparisons of doubles are used, which IEEE 754 rounds correctly; logarithm, exponential and turns
are series of these, whose errors are bounded here, whatever the system's library does. What such a
number can't tell (a formula that looks at its balls, or has none of these operations) is
`Undecided`, and balls decide.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
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
_EXP, _TURN = (units * _UNIT for units in (1.1, 8))
"""Bounds on the errors of the exponential, relative to it, and of cosine and sine, relative to 1
[MATH §10]."""
_LN2_HIGH = float.fromhex("0x1.62e42feep-1")
"""The first 32 bits of log 2: its product with an exponent is exact."""
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_PARTS = 64
"""Exponentials are found next to powers 2^(j/64), and logarithms next to those of j/64."""
_FIRST = 45
"""64√½, rounded."""
_ROOT_HALF = int.from_bytes(struct.pack(">d", math.sqrt(0.5)))
"""The bits of a double, as an integer."""
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
        a, b = self, _enclosed(other)
        if a.middle.ndim < b.middle.ndim:
            a, b = b, a
        middle, size = a.middle * b.middle, np.abs(b.middle)
        if b.radius is _EXACT:
            return _rounded(middle, _passed(a.radius, size))
        if b.middle.ndim == 0 and b.radius < size:
            return _rounded(middle, _passed(a.radius, size + b.radius), _UNIT + b.radius / size)
        spread = size * 2 if a is b else np.abs(a.middle) * b.radius
        if a is b:
            spread += b.radius
            spread *= b.radius
        elif a.radius is not _EXACT:
            size += b.radius
            size *= a.radius
            spread += size
        return _rounded(middle, spread)

    __rmul__ = __mul__

    def __truediv__(self, other: Enclosed | int | float) -> Enclosed:
        b = _enclosed(other)
        middle, size = self.middle / b.middle, np.abs(b.middle)
        if b.radius is _EXACT:
            return _rounded(middle, _passed(self.radius, 1 / size))
        least = size - b.radius
        told = _unless_all(b.radius <= least)
        if b.middle.ndim == 0 and told is None:
            return _rounded(middle, _passed(self.radius, 1 / least), _UNIT + b.radius / least)
        spread = np.abs(middle) * b.radius
        spread += self.radius
        spread /= least
        return _rounded(middle, _where(told, spread, math.inf))

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

    __slots__ = ("first",)

    def __init__(self, first: NDArray[np.uint64]) -> None:
        self.first = first

    def __getattr__(self, name: str) -> object:
        if name not in Enclosed.__slots__:
            raise Undecided(name)
        middle = self.first.astype(np.float64)
        middle *= 2.0**-64
        # A unit for the conversion, and the bits that are not looked at.
        radius = middle * (_UNIT * _ABOVE)
        radius += 2.0**-64 * _ABOVE
        super().__init__(middle, radius)
        return getattr(self, name)

    def __rsub__(self, other: Enclosed | int | float) -> Enclosed:
        # Of 1 − U the first bits are the complements of those of U.
        one = not isinstance(other, Enclosed) and other == 1
        return _Uniform(~self.first) if one else _enclosed(other) + -self


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
    return Enclosed(np.array(middle), np.array(off) if off else _EXACT)


def _passed(radius: Array, factor: Array) -> Array:
    """Return what is left of a radius by a factor."""
    return radius if radius is _EXACT else radius * factor


def _rounded(middle: Array, radius: Array, own: Array | float = _UNIT) -> Enclosed:
    """Return the result of one rounded operation.

    Args:
        middle: the result.
        radius: what its operands are off by.
        own: what it is off by beside that, relative to it.
    """
    error = np.abs(middle)
    if radius is _EXACT:
        error *= own * _ABOVE
    else:
        error *= own
        error += radius
        error *= _ABOVE
    error += _TINY
    return Enclosed(middle, error)


_TWO_PI = 2 * math.pi
"""A unit from 2π."""
_INVERSE_ODD = (1 / 3, 1 / 5, 1 / 7)
_INVERSE_FACTORIAL = tuple(1 / math.factorial(j) for j in range(2, 7))
_COSINE = tuple((-1) ** j / math.factorial(2 * j) for j in range(11))
_SINE = tuple((-1) ** j / math.factorial(2 * j + 1) for j in range(10))


def _series(x: Array, coefficients: Sequence[float]) -> Array:
    total = x * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        total += coefficient
        total *= x
    total += coefficients[0]
    return total


@lru_cache(maxsize=1)
def _tables() -> tuple[Array, Array, Array, Array]:
    """Return 2^(j/64), and log(j/64) from j = `_FIRST` on, each as a double and what it lacks.

    The doubles of the logarithms are multiples of 2⁻⁴², so that multiples of `_LN2_HIGH` can be
    added exactly.
    """
    with working_precision(BITS):
        parts = [BALL.constant(Fraction(j, _PARTS)) for j in range(2 * _FIRST + 2)]
        powers = [BALL.power(BALL.constant(2), part) for part in parts[:_PARTS]]
        logarithms = [BALL.log(part) for part in parts[_FIRST:]]
        doubles = [float(power.mid()) for power in powers]
        short = [math.ldexp(round(math.ldexp(float(y.mid()), 42)), -42) for y in logarithms]
        rests = [
            [float((ball - BALL.private(double)).mid()) for ball, double in pairs]
            for pairs in (zip(powers, doubles, strict=True), zip(logarithms, short, strict=True))
        ]
    return np.array(doubles), np.array(rests[0]), np.array(short), np.array(rests[1])


def _log(x: Array) -> Array:
    """Return the logarithm of a normal double, to `_off`."""
    bits = x.view(np.int64)
    exponent = (bits - _ROOT_HALF) >> 52
    part = (bits - (exponent << 52)).view(np.float64)
    nearest = np.rint(part * _PARTS)
    row = nearest.astype(np.int64) - _FIRST
    nearest *= 1 / _PARTS
    z = (part - nearest) / (part + nearest)
    twice, square = z + z, z * z
    rest = _series(square, _INVERSE_ODD)
    rest *= square
    rest *= twice
    rest += twice
    _, _, high, low = _tables()
    powers = exponent.astype(np.float64)
    rest += low[row]
    rest += powers * _LN2_LOW
    powers *= _LN2_HIGH
    powers += high[row]
    powers += rest
    return powers


def _exponential(x: Array) -> tuple[Array, Array]:
    """Return two parts of e^x for |x| ≤ 700: a double next to a power of 2, and the small rest."""
    steps = np.rint(x * (_PARTS / math.log(2)))
    rest = x - steps * (_LN2_HIGH / _PARTS)
    rest -= steps * (_LN2_LOW / _PARTS)
    number = steps.astype(np.int32)  # of 64 bits, ldexp would take ten times as long
    exponent, row = number >> 6, (number & (_PARTS - 1)).astype(np.int64)
    small = _series(rest, _INVERSE_FACTORIAL)
    small *= rest
    small *= rest
    small += rest
    high, low, _, _ = _tables()
    power = high[row]
    small *= power
    small += low[row]
    return np.ldexp(power, exponent), np.ldexp(small, exponent)


def _off(value: Array, each: float, near: Array | float) -> Array:
    """Return what a logarithm or e^x − 1 is off by: `each` units of it, and 6.2 of the rest."""
    off: Array = np.abs(value)
    rest = np.minimum(off, near)
    rest *= 6.2 * _UNIT
    off *= each * _UNIT
    off += rest
    return off


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
        told = _near(x)
        power, rest = _exponential(_where(told, x.middle, 0.0))
        power += rest
        radius = _growth(x.radius)
        radius += _EXP
        radius *= power
        radius *= _ABOVE
        radius += _TINY
        return Enclosed(power, _where(told, radius, math.inf))

    def expm1(self, x: Real) -> Enclosed:
        told = _near(x)
        power, rest = _exponential(_where(told, x.middle, 0.0))
        value = power - 1
        value += rest
        power *= 1.01  # above e^x
        radius = _off(value, 2.1, power * 0.0055)
        power *= _growth(x.radius)
        radius += power
        radius *= _ABOVE
        radius += _TINY
        return Enclosed(value, _where(told, radius, math.inf))

    def log(self, x: Real) -> Enclosed:
        return self._logarithm(x.middle, x.radius)

    def log1p(self, x: Real) -> Enclosed:
        middle = 1 + x.middle
        added = middle - 1
        lost = (1 - (middle - added)) + (x.middle - added)  # by the sum, exactly
        lost /= middle
        found = self._logarithm(middle, x.radius)
        return _rounded(found.middle + lost, found.radius + np.abs(lost) * (2.1 * _UNIT))

    def _logarithm(self, middle: Array, radius: Array) -> Enclosed:
        part = radius / middle
        told = _unless_all((part < 0.5) & (middle > 2.0**-1000) & (middle < math.inf))
        value = _log(_where(told, middle, 1.0))
        off = _off(value, 1.01, 0.0112)
        off += part / (1 - part)
        off *= _ABOVE
        off += _TINY
        return Enclosed(value, _where(told, off, math.inf))

    def sqrt(self, x: Real) -> Enclosed:
        """Return the square root of what is ≥ 0: |√x − √m| = |x − m|/(√m + √x)."""
        told = _unless_all(x.middle > 2.0**-1000)
        middle = _where(told, x.middle, 1.0)
        value = np.sqrt(middle)
        both = 2 - np.minimum(x.radius / middle, 1.0)  # √(1 − t) ≥ 1 − t
        both *= value
        return _rounded(value, _where(told, x.radius / both, math.inf))

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
        if isinstance(x, _Uniform) and isinstance(y, _Uniform):
            return _Uniform(np.minimum(x.first, y.first))
        x, y = _enclosed(x), _enclosed(y)
        return Enclosed(np.minimum(x.middle, y.middle), _of_one(x.middle < y.middle, x, y))

    def maximum(self, x: Real, y: Real) -> Enclosed:
        x, y = _enclosed(x), _enclosed(y)
        return Enclosed(np.maximum(x.middle, y.middle), _of_one(x.middle > y.middle, x, y))

    def sign(self, x: Real) -> Enclosed:
        told = np.abs(x.middle) > x.radius
        return Enclosed(np.sign(x.middle), _EXACT if told.all() else np.where(told, 0.0, 2.0))

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


def _of_one(first: NDArray[np.bool_], x: Enclosed, y: Enclosed) -> Array:
    """Return the radius of the one that is taken where that is certain, else of either."""
    told = _unless_all(np.abs(x.middle - y.middle) > 2 * (x.radius + y.radius))
    radius = np.where(first, x.radius, y.radius)
    return radius if told is None else np.where(told, radius, np.maximum(x.radius, y.radius))


def _growth(radius: Array) -> Array:
    """Return a bound of e^r − 1 for r ≤ 1: r + r²."""
    growth = radius * radius
    growth += radius
    return growth


def _near(x: Enclosed) -> NDArray[np.bool_] | None:
    """Return where |x| ≤ 700 and the radius ≤ 1, or a little less of either; None: everywhere."""
    reach = np.abs(x.middle)
    reach += x.radius * 700
    return _unless_all(reach <= 700)


def _unless_all(told: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    return None if told.all() else told


def _where(told: NDArray[np.bool_] | None, value: Array, other: float) -> Array:
    return value if told is None else np.where(told, value, other)


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
    at, radius = (part * 2.0**-step_exponent for part in (value.middle, value.radius))
    nearest = np.rint(at)
    # The difference is exact; NaN compares false.
    decided = (np.abs(at - nearest) + radius + _TINY < _DECIDED) & (np.abs(at) < _MOST)
    return np.where(decided, nearest, 0.0).astype(np.int64), decided
