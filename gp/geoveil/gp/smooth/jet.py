"""Jets: a formula's value, slope and curvature at once, by the chain rule.

A formula written against `Arithmetic` and evaluated with jets is differentiated as it is written,
so nobody has to supply a derivative, or can supply a wrong one. Over ball arithmetic the three
numbers enclose all that the formula does on an interval, which makes bounds certain.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb

from geoveil.gp.arithmetic import FLOAT, Arithmetic, Exact, Real
from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.exact.ball import BALL

_MOST_PATHS = 256
FORMULA = "a formula that is continuous, with a bounded slope"


@dataclass(frozen=True, slots=True)
class Jet:
    """φ, φ' and φ'' of some formula φ of one variable."""

    value: Real
    slope: Real
    curvature: Real

    __array_ufunc__ = None  # NumPy leaves array ∘ jet to the jet

    def __neg__(self) -> "Jet":
        return Jet(-self.value, -self.slope, -self.curvature)

    def __add__(self, other: Any) -> "Jet":
        o = jet(other)
        return Jet(self.value + o.value, self.slope + o.slope, self.curvature + o.curvature)

    def __sub__(self, other: Any) -> "Jet":
        o = jet(other)
        return Jet(self.value - o.value, self.slope - o.slope, self.curvature - o.curvature)

    def __mul__(self, other: Any) -> "Jet":
        if other is self:  # a square is never negative, which two factors could not know
            return _chain(self, _square(self.value), 2 * self.value, 2)
        o = jet(other)
        return Jet(
            self.value * o.value,
            self.slope * o.value + self.value * o.slope,
            self.curvature * o.value + 2 * (self.slope * o.slope) + self.value * o.curvature,
        )

    def __truediv__(self, other: Any) -> "Jet":
        if not isinstance(other, Jet):
            return Jet(self.value / other, self.slope / other, self.curvature / other)
        return self.__mul__(other.__rtruediv__(1))

    def __rtruediv__(self, other: Any) -> "Jet":
        inverse = 1 / self.value
        square = inverse**2
        return _chain(self, inverse, -square, 2 * square * inverse).__mul__(other)

    def __rsub__(self, other: Any) -> "Jet":
        return (-self).__add__(other)

    def __pow__(self, exponent: int) -> "Jet":
        if isinstance(exponent, bool) or not isinstance(exponent, int) or exponent < 0:
            raise ParameterError("exponent", exponent, "an integer >= 0; else use ops.power")
        if exponent == 0:
            return jet(self.value * 0 + 1)
        first = exponent * self.value ** (exponent - 1)
        second = exponent * (exponent - 1) * self.value ** max(exponent - 2, 0)
        value = _square(self.value ** (exponent // 2)) if exponent % 2 == 0 else None
        return _chain(self, self.value**exponent if value is None else value, first, second)

    __radd__ = __add__
    __rmul__ = __mul__


def jet(x: Any) -> Jet:
    """Return x as a jet: what is not one is a constant."""
    return x if isinstance(x, Jet) else Jet(x, 0, 0)


def _square(x: Real) -> Real:
    """Return x², which no ball may forget is ≥ 0."""
    return (x * x).nonnegative_part() if isinstance(x, arb) else x * x


def _chain(x: Jet, value: Real, first: Real, second: Real) -> Jet:
    """Return F(x) of a function F with these derivatives at x."""
    return Jet(value, first * x.slope, second * x.slope**2 + first * x.curvature)


class JetArithmetic(Arithmetic):
    """Jets over another arithmetic.

    Args:
        base: what the three numbers are computed in.
    """

    def __init__(self, base: Arithmetic) -> None:
        self.base = base

    def constant(self, value: Exact) -> Real:
        """See `Arithmetic.constant`."""
        return self.base.constant(value)

    def exp(self, x: Real) -> Real:
        """See `Arithmetic.exp`."""
        x = self._jet(x)
        e = self.base.exp(x.value)
        return _chain(x, e, e, e)

    def log(self, x: Real) -> Real:
        """See `Arithmetic.log`."""
        x = self._jet(x)
        return _chain(x, self.base.log(x.value), 1 / x.value, -1 / x.value**2)

    def expm1(self, x: Real) -> Real:
        """See `Arithmetic.expm1`."""
        x = self._jet(x)
        e = self.base.exp(x.value)
        return _chain(x, self.base.expm1(x.value), e, e)

    def log1p(self, x: Real) -> Real:
        """See `Arithmetic.log1p`."""
        x = self._jet(x)
        inverse = 1 / (1 + x.value)
        return _chain(x, self.base.log1p(x.value), inverse, -(inverse**2))

    def sqrt(self, x: Real) -> Real:
        """See `Arithmetic.sqrt`."""
        x = self._jet(x)
        root = self.base.sqrt(x.value)
        return _chain(x, root, 1 / (2 * root), -1 / (4 * root * root * root))

    def power(self, base: Real, exponent: Real) -> Real:
        """See `Arithmetic.power`: a constant exponent ≥ 1 has a slope where the base is 0 too."""
        if isinstance(exponent, Jet):
            return self.exp(exponent * self.log(base))
        x, p = self._jet(base), self._jet(exponent).value
        first = p * self._power(x.value, p - 1)
        return _chain(x, self._power(x.value, p), first, p * (p - 1) * self._power(x.value, p - 2))

    def minimum(self, x: Real, y: Real) -> Real:
        """See `Arithmetic.minimum`."""
        return self._choose(self._jet(x), self._jet(y))

    def maximum(self, x: Real, y: Real) -> Real:
        """See `Arithmetic.maximum`."""
        return -self._choose(-self._jet(x), -self._jet(y))

    def absolute(self, x: Real) -> Real:
        """See `Arithmetic.absolute`."""
        return self.maximum(x, -x)

    def positive(self, x: Real) -> Real:
        """See `Arithmetic.positive`."""
        x = self._jet(x)
        return Jet(self.base.positive(x.value), x.slope, x.curvature)

    def sign(self, x: Real) -> Real:
        """Refuse: it jumps."""
        raise UnsupportedError("a formula with sign() jumps: use clip or piecewise")

    def coordinate(self, x: Real, axis: int) -> Real:
        """Refuse: a profile has one variable."""
        raise UnsupportedError("a profile is a formula of one variable")

    def piecewise(
        self, x: Real, edges: Sequence[Real], branches: Sequence[Callable[[Real], Real]]
    ) -> Real:
        """See `Arithmetic.piecewise`."""
        x, edges = self._jet(x), [self._jet(edge).value for edge in edges]
        result = jet(branches[-1](x))
        for edge, branch, after in zip(
            reversed(edges), reversed(branches[:-1]), reversed(branches[1:]), strict=True
        ):
            result = self._before(x, edge, branch, result)
            self._join(x, edge, branch, after)
        return result

    def _jet(self, x: Any) -> Jet:
        """Return x as a jet of numbers of the base."""
        return Jet(self.base.constant(x), 0, 0) if isinstance(x, (int, float, Fraction)) else jet(x)

    def _power(self, base: Real, exponent: Real) -> Real:
        return self.base.power(base, exponent)

    @abstractmethod
    def _choose(self, x: Jet, y: Jet) -> Jet:
        """Return the jet with the smaller value."""

    @abstractmethod
    def _before(self, x: Jet, edge: Real, branch: Callable[[Real], Real], after: Jet) -> Jet:
        """Return branch(x) where x is before the edge, else `after`."""

    def _join(
        self, x: Jet, edge: Real, before: Callable[[Real], Real], after: Callable[[Real], Real]
    ) -> None:
        """Check that two branches meet at their edge."""


class FloatJets(JetArithmetic):
    """Vectorised float64."""

    def __init__(self) -> None:
        super().__init__(FLOAT)

    def _choose(self, x: Jet, y: Jet) -> Jet:
        return _where(np.asarray(x.value <= y.value), x, y)

    def _before(self, x: Jet, edge: Real, branch: Callable[[Real], Real], after: Jet) -> Jet:
        return _where(np.asarray(x.value < edge), jet(branch(x)), after)


def _where(mask: Any, x: Jet, y: Jet) -> Jet:
    return Jet(
        np.where(mask, x.value, y.value),
        np.where(mask, x.slope, y.slope),
        np.where(mask, x.curvature, y.curvature),
    )


class BallJets(JetArithmetic):
    """Balls. Where a ball meets several pieces, one of them is taken; `enclosure` takes all.

    Args:
        decisions: which piece to take at each such place, in the order in which they come up; after
            the last, the first piece.
    """

    def __init__(self, decisions: Sequence[bool] = ()) -> None:
        super().__init__(BALL)
        self._given = decisions
        self.taken: list[bool] = []

    def _choose(self, x: Jet, y: Jet) -> Jet:
        if x.value <= y.value:  # at all points of the ball, a tie included
            return x
        if y.value < x.value:
            return y
        piece = y if self._second() else x
        return Jet(BALL.minimum(_ball(x.value), y.value), piece.slope, piece.curvature)

    def _before(self, x: Jet, edge: Real, branch: Callable[[Real], Real], after: Jet) -> Jet:
        if x.value > edge or (not x.value < edge and self._second()):
            return after
        return jet(branch(x))

    def _power(self, base: Real, exponent: Real) -> Real:
        if exponent > 0 and base.contains(0) and base.is_finite():
            # Increasing from 0. A base is never negative, whatever its ball says.
            return BALL.constant(0).union(BALL.power(arb(base.upper()), exponent))
        return BALL.power(base, exponent)

    def _second(self) -> bool:
        """Return which of two pieces to take, and take note of it."""
        index = len(self.taken)
        self.taken.append(index < len(self._given) and self._given[index])
        return self.taken[-1]

    def _join(
        self, x: Jet, edge: Real, before: Callable[[Real], Real], after: Callable[[Real], Real]
    ) -> None:
        if x.value < edge or x.value > edge:
            return
        jump = _ball(jet(after(edge)).value) - _ball(jet(before(edge)).value)
        if not jump.contains(0):
            size, at = float(jump.mid()), float(edge.mid())
            raise ParameterError("formula", f"a jump of {size:g} at {at:g}", FORMULA)


def enclosure(formula: Callable[[Real, Arithmetic], Real], u: arb) -> tuple[Jet, bool]:
    """Return balls around all that a formula does on a ball, and whether several pieces meet there.

    The pieces are gone through one by one: put together earlier, they would forget which value
    belongs to which slope.
    """
    pending: list[list[bool]] = [[]]
    result: Jet | None = None
    met = False
    for _ in range(_MOST_PATHS):
        decisions = pending.pop()
        ops = BallJets(decisions)
        j = jet(formula(Jet(u, BALL.constant(1), BALL.constant(0)), ops))
        j = Jet(_ball(j.value), _ball(j.slope), _ball(j.curvature))
        result = j if result is None else _union(result, j)
        met = met or bool(ops.taken)
        pending += [[*ops.taken[:k], True] for k in range(len(decisions), len(ops.taken))]
        if not pending:
            return result, met
    raise ParameterError("formula", f"more than {_MOST_PATHS} pieces near one place", FORMULA)


def _union(x: Jet, y: Jet) -> Jet:
    return Jet(x.value.union(y.value), x.slope.union(y.slope), x.curvature.union(y.curvature))


def _ball(x: Real) -> arb:
    if isinstance(x, arb):
        return x
    if isinstance(x, (int, float, Fraction)):
        return BALL.constant(x)
    raise TypeError(f"it returned a {type(x).__name__}, not a number of its arithmetic")


FLOAT_JETS = FloatJets()
"""Jets of float64 arrays."""
