"""Jets: a formula's value, slope and curvature at once, by the chain rule.

Nobody supplies a derivative, so none is wrong. Over balls the three numbers enclose all that the
formula does on an interval.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flint import arb

from geoveil.gp.arithmetic import FLOAT, Arithmetic, Exact, OneVariable, Real
from geoveil.gp.arrays import np
from geoveil.gp.errors import ParameterError
from geoveil.gp.exact import BALL
from geoveil.gp.smooth.tape import Formula, recorded

_ONE, _ZERO = arb(1), arb(0)
_MOST_PATHS = 256
_HUGE = 1e200
"""Square of a slope above which curvatures in float64 are not trusted."""
FORMULA = (
    "a formula that is continuous, with a bounded slope; what a root, a logarithm or a "
    "non-integer power is taken of must not fall below 0: ensure it with ops.maximum(x, 0)"
)


@dataclass(frozen=True, slots=True)
class Jet:
    """φ, φ' and φ'' of some formula φ of one variable."""

    value: Real
    slope: Real
    curvature: Real

    __array_ufunc__ = None  # NumPy leaves array ∘ jet to the jet

    def __neg__(self) -> Jet:
        return Jet(-self.value, -self.slope, -self.curvature)

    def __add__(self, other: Any) -> Jet:
        o = jet(other)
        return Jet(self.value + o.value, self.slope + o.slope, self.curvature + o.curvature)

    def __sub__(self, other: Any) -> Jet:
        o = jet(other)
        return Jet(self.value - o.value, self.slope - o.slope, self.curvature - o.curvature)

    def __mul__(self, other: Any) -> Jet:
        if other is self:  # a square is never negative, which two factors could not know
            return _chain(self, _square(self.value), 2 * self.value, 2)
        o = jet(other)
        return Jet(
            self.value * o.value,
            self.slope * o.value + self.value * o.slope,
            self.curvature * o.value + 2 * (self.slope * o.slope) + self.value * o.curvature,
        )

    def __truediv__(self, other: Any) -> Jet:
        if not isinstance(other, Jet):
            return Jet(self.value / other, self.slope / other, self.curvature / other)
        return self.__mul__(other.__rtruediv__(1))

    def __rtruediv__(self, other: Any) -> Jet:
        inverse = 1 / self.value
        square = _square(inverse)
        return _chain(self, inverse, -square, 2 * square * inverse).__mul__(other)

    def __rsub__(self, other: Any) -> Jet:
        return (-self).__add__(other)

    def __pow__(self, exponent: int) -> Jet:
        return math.prod([self] * exponent, start=jet(1))

    __radd__ = __add__
    __rmul__ = __mul__

    def union(self, other: Jet) -> Jet:
        """Return balls around two jets of balls."""
        return Jet(
            self.value.union(other.value),
            self.slope.union(other.slope),
            self.curvature.union(other.curvature),
        )


def jet(x: Any) -> Jet:
    """Return x as a jet; a number becomes a constant jet."""
    return x if isinstance(x, Jet) else Jet(x, 0, 0)


def _square(x: Real) -> Real:
    """Return x² as a ball that is ≥ 0."""
    return (x * x).nonnegative_part() if isinstance(x, arb) else x * x


def _chain(x: Jet, value: Real, first: Real, second: Real) -> Jet:
    """Return F(x) of a function F with these derivatives at x."""
    square = _square(x.slope)
    if isinstance(square, np.ndarray):  # then F'' may be lost below the least double
        square = np.where(square > _HUGE, np.nan, square)
    return Jet(value, first * x.slope, second * square + first * x.curvature)


class JetArithmetic(OneVariable):
    """Jets over a base arithmetic, in which constants stay."""

    def __init__(self, base: Arithmetic) -> None:
        self.base = base

    def constant(self, value: Exact) -> Real:
        return self.base.constant(value)

    def exp(self, x: Real) -> Real:
        return _applied(self.base.exp, x, lambda v, e: (e, e))

    def log(self, x: Real) -> Real:
        return _applied(self.base.log, x, lambda v, _: (1 / v, -1 / (v * v)))

    def expm1(self, x: Real) -> Real:
        return _applied(self.base.expm1, x, lambda v, _: (self.base.exp(v),) * 2)

    def log1p(self, x: Real) -> Real:
        return _applied(self.base.log1p, x, lambda v, _: (1 / (1 + v), -1 / ((1 + v) * (1 + v))))

    def sqrt(self, x: Real) -> Real:
        return _applied(self.base.sqrt, x, lambda _, r: (1 / (2 * r), -1 / (4 * r * r * r)))

    def power(self, base: Real, exponent: Real) -> Real:
        """Return a power, whose slope at base 0 exists for a constant exponent ≥ 1."""
        if isinstance(exponent, Jet):
            return self.exp(exponent * self.log(base))

        def derivatives(v: Real, _: Real) -> tuple[Real, Real]:
            first, second = exponent, exponent * (exponent - 1)
            return first * self._power(v, exponent - 1), (
                0 if second == 0 else second * self._power(v, exponent - 2)
            )

        return _applied(lambda v: self._power(v, exponent), base, derivatives)

    def minimum(self, x: Real, y: Real) -> Real:
        if isinstance(x, Jet) or isinstance(y, Jet):
            return self._choose(jet(x), jet(y))
        return self.base.minimum(x, y)

    def maximum(self, x: Real, y: Real) -> Real:
        return -self.minimum(-x, -y)

    def absolute(self, x: Real) -> Real:
        largest = self.maximum(x, -x)
        if not isinstance(largest, Jet):
            return largest
        return Jet(self.base.absolute(x.value), largest.slope, largest.curvature)

    def positive(self, x: Real) -> Real:
        return _applied(self.base.positive, x, lambda v, _: (1, 0))

    def _power(self, base: Real, exponent: Real) -> Real:
        return self.base.power(base, exponent)

    @abstractmethod
    def _choose(self, x: Jet, y: Jet) -> Jet:
        """Return the jet with the smaller value."""


def _applied(
    function: Callable[[Real], Real],
    x: Real,
    derivatives: Callable[[Real, Real], tuple[Real, Real]],
) -> Real:
    """Return F(x), given F and, from a value and F of it, F' and F''."""
    if not isinstance(x, Jet):
        return function(x)
    value = function(x.value)
    return _chain(x, value, *derivatives(x.value, value))


class FloatJets(JetArithmetic):
    """Vectorised float64."""

    def __init__(self) -> None:
        super().__init__(FLOAT)

    def piecewise(
        self, x: Real, edges: Sequence[Real], branches: Sequence[Callable[[Real], Real]]
    ) -> Real:
        x = jet(x)
        result = jet(branches[-1](x))
        for edge, branch in zip(reversed(edges), reversed(branches[:-1]), strict=True):
            result = _where(np.asarray(x.value < edge), jet(branch(x)), result)
        return result

    def _choose(self, x: Jet, y: Jet) -> Jet:
        return _where(np.asarray(x.value <= y.value), x, y)


def _where(mask: Any, x: Jet, y: Jet) -> Jet:
    return Jet(
        np.where(mask, x.value, y.value),
        np.where(mask, x.slope, y.slope),
        np.where(mask, x.curvature, y.curvature),
    )


class BallJets(JetArithmetic):
    """Balls. If a ball meets several pieces, it takes one of them; `enclosure` takes all.

    `decisions` says which piece to take at each such place, in turn; after the last, the first.
    """

    def __init__(self, decisions: Sequence[bool] = ()) -> None:
        super().__init__(BALL)
        self._given = decisions
        self.taken: list[bool] = []

    def piecewise(
        self, x: Real, edges: Sequence[Real], branches: Sequence[Callable[[Real], Real]]
    ) -> Real:
        if not isinstance(x, Jet):
            return self.base.piecewise(x, edges, branches)
        if x.value.is_nan():
            return x
        for edge, branch in zip(edges, branches[:-1], strict=True):
            if x.value < edge or (not x.value > edge and not self._second()):
                return branch(x)
        return branches[-1](x)

    def _choose(self, x: Jet, y: Jet) -> Jet:
        if x.value < y.value or x == y:
            return x
        if y.value < x.value:
            return y
        piece = y if self._second() else x
        return Jet(self.base.minimum(_ball(x.value), y.value), piece.slope, piece.curvature)

    def _power(self, base: Real, exponent: Real) -> Real:
        undefined = base < 0 and not isinstance(exponent, int)
        return arb.nan() if undefined else super()._power(base, exponent)

    def _second(self) -> bool:
        """Return which of two pieces to take, and record the choice."""
        index = len(self.taken)
        self.taken.append(index < len(self._given) and self._given[index])
        return self.taken[-1]


def enclosure(formula: Formula, u: arb) -> tuple[Jet, int]:
    """Return balls around all values of a formula on a ball, and the number of its paths.

    Each way takes one of the pieces that meet in the ball: put together earlier, they would forget
    which value belongs to which slope.
    """
    tape = recorded(formula)
    pending: list[list[bool]] = [[]]
    result: Jet | None = None
    for ways in range(1, _MOST_PATHS + 1):
        decisions = pending.pop()
        ops = BallJets(decisions)
        j = jet(tape(Jet(u, _ONE, _ZERO), ops))
        j = Jet(_ball(j.value), _ball(j.slope), _ball(j.curvature))
        result = j if result is None else result.union(j)
        pending += [[*ops.taken[:k], True] for k in range(len(decisions), len(ops.taken))]
        if not pending:
            return result, ways
    raise ParameterError("formula", f"more than {_MOST_PATHS} pieces near one place", FORMULA)


def _ball(x: Real) -> arb:
    return x if isinstance(x, arb) else BALL.constant(x)


FLOAT_JETS = FloatJets()
