"""Two arithmetics for one set of formulas: float64 to simulate, and balls to release [MATH §10].

A formula is written once, against `Arithmetic`. Parameters enter it through `constant`: arithmetic
on Python floats would round them before the balls see them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

from geoveil.gp.arrays import np
from geoveil.gp.errors import UnsupportedError

Real: TypeAlias = Any
"""The numbers of an arithmetic: a float64 array (or scalar), or a ball."""
Exact: TypeAlias = float | int | Fraction
"""A number that a double or a fraction holds exactly."""


TINY = 2.3e-308
"""Stands for positive numbers that float64 can't tell from 0."""


class Arithmetic(ABC):
    """The operations that formulas use beyond + − × ÷ and unary minus."""

    rounded: ClassVar[bool] = False
    """Whether numbers are float64, without enclosures."""

    @property
    def precision(self) -> int:
        """The bits of a number; cached public parameters are for this precision."""
        return 53

    @abstractmethod
    def constant(self, value: Exact) -> Real:
        """Return an exactly known number."""

    @abstractmethod
    def exp(self, x: Real) -> Real:
        """Return e^x."""

    @abstractmethod
    def log(self, x: Real) -> Real:
        """Return the natural logarithm."""

    @abstractmethod
    def expm1(self, x: Real) -> Real:
        """Return e^x − 1, accurate for small x."""

    @abstractmethod
    def log1p(self, x: Real) -> Real:
        """Return log(1 + x), accurate for small x."""

    @abstractmethod
    def sqrt(self, x: Real) -> Real:
        """Return the square root of x ≥ 0."""

    @abstractmethod
    def power(self, base: Real, exponent: Real) -> Real:
        """Return base^exponent.

        The base is ≥ 0, or any for an int exponent ≥ 0; a negative exponent needs a base > 0.
        """

    @abstractmethod
    def minimum(self, x: Real, y: Real) -> Real:
        """Return the smaller."""

    @abstractmethod
    def maximum(self, x: Real, y: Real) -> Real:
        """Return the larger."""

    @abstractmethod
    def sign(self, x: Real) -> Real:
        """Return −1, 0 or 1."""

    @abstractmethod
    def coordinate(self, x: Real, axis: int) -> Real:
        """Return one coordinate of a point of dimension k > 1."""

    @abstractmethod
    def piecewise(
        self, x: Real, edges: Sequence[Real], branches: Sequence[Callable[[Real], Real]]
    ) -> Real:
        """Return branches[i](x) where edges[i−1] < x < edges[i]; at an edge, either side.

        The edges are increasing constants. Branches of a user's formula must agree at them.
        """

    def turn(self, u: Real) -> tuple[Real, Real]:
        """Return the cosine and sine of u full turns, u in [0, 1]."""
        raise UnsupportedError("only arithmetics of a release have turns")

    def absolute(self, x: Real) -> Real:
        """Return |x|."""
        return abs(x)

    def positive(self, x: Real) -> Real:
        """Return x, which is > 0: a float of 0 has underflowed."""
        return x

    def norm(self, components: Sequence[Real]) -> Real:
        """Return the Euclidean length of a vector."""
        squares = components[0] * components[0]
        for component in components[1:]:
            squares = squares + component * component
        return self.sqrt(squares)

    def distance(self, x: Real, center: Sequence[float]) -> Real:
        """Return the Euclidean distance of a point of dimension k > 1 to a public centre."""
        return self.norm(
            [self.coordinate(x, axis) - self.constant(c) for axis, c in enumerate(center)]
        )

    def clip(self, x: Real, low: Real, high: Real) -> Real:
        """Return the point of [low, high] nearest to x."""
        return self.minimum(self.maximum(x, low), high)


class OneVariable(Arithmetic):
    """Arithmetic for the formula of a profile, which has one variable and must not jump."""

    def sign(self, x: Real) -> Real:
        """Refuse: it jumps."""
        raise UnsupportedError("a formula with sign() jumps: use clip or piecewise")

    def coordinate(self, x: Real, axis: int) -> Real:
        """Refuse: a profile has one variable."""
        raise UnsupportedError("a profile is a formula of one variable")


class FloatArithmetic(Arithmetic):
    """Vectorised float64. It rounds, so reports of devices never use it."""

    rounded: ClassVar[bool] = True

    def constant(self, value: Exact) -> float:
        return float(value)

    def exp(self, x: Real) -> Real:
        return np.exp(x)

    def log(self, x: Real) -> Real:
        return np.log(x)

    def expm1(self, x: Real) -> Real:
        return np.expm1(x)

    def log1p(self, x: Real) -> Real:
        return np.log1p(x)

    def sqrt(self, x: Real) -> Real:
        return np.sqrt(x)

    def turn(self, u: Real) -> tuple[Real, Real]:
        return np.cos(2 * np.pi * u), np.sin(2 * np.pi * u)

    def power(self, base: Real, exponent: Real) -> Real:
        return np.power(base, exponent)

    def minimum(self, x: Real, y: Real) -> Real:
        return np.minimum(x, y)

    def maximum(self, x: Real, y: Real) -> Real:
        return np.maximum(x, y)

    def sign(self, x: Real) -> Real:
        return np.sign(x)

    def positive(self, x: Real) -> Real:
        return np.maximum(x, TINY)

    def coordinate(self, x: Real, axis: int) -> Real:
        return x[..., axis]

    def piecewise(
        self, x: Real, edges: Sequence[Real], branches: Sequence[Callable[[Real], Real]]
    ) -> Real:
        x = np.asarray(x)
        result = branches[-1](x)
        for edge, branch in zip(reversed(edges), reversed(branches[:-1]), strict=True):
            result = np.where(x < edge, branch(x), result)
        return result


class _NumberArithmetic(FloatArithmetic):
    """Float64 for one number, so that a formula without exponentials needs no NumPy."""

    def piecewise(
        self, x: Real, edges: Sequence[Real], branches: Sequence[Callable[[Real], Real]]
    ) -> Real:
        below = (branch for edge, branch in zip(edges, branches, strict=False) if x < edge)
        return next(below, branches[-1])(x)


FLOAT = FloatArithmetic()
NUMBER = _NumberArithmetic()
