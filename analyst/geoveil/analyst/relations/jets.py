"""Jets: numbers with two derivatives, which correct any smooth score [MATH §16].

A correction takes two derivatives in each perturbed number, mixed over all of them. A jet carries
those of one variable; its parts may be jets in further variables.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from geoveil.gp import UnsupportedError

Value: TypeAlias = Any
"""Arguments of NumPy's functions."""


@dataclass(frozen=True, slots=True, eq=False)
class TaylorJet(NDArrayOperatorsMixin):
    """A function's value, slope and half its second derivative, in one variable."""

    level: int
    value: Value
    slope: Value
    bent: Value

    def chain(self, derivatives: Callable[[Value], Sequence[Value]]) -> Value:
        """Return a function of the jet, given its value, slope and second derivative."""
        value, first, second = derivatives(self.value)
        bent = first * self.bent + second * (self.slope * self.slope) * 0.5
        return TaylorJet(self.level, value, first * self.slope, bent)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Value, **kwargs: Any) -> Value:
        name = ufunc.__name__
        if method == "__call__" and not kwargs:
            if name in _ONE and isinstance(inputs[0], TaylorJet):
                return inputs[0].chain(lambda v: _ONE[name](ufunc, v))
            if name in _TWO:
                return _TWO[name](*inputs)
        raise UnsupportedError(
            f"{name} in a score: a score may use + − × ÷, powers, and NumPy's or SciPy's"
            f" {', '.join(sorted(_ONE))}"
        )


def _level(x: Value) -> int:
    return x.level if isinstance(x, TaylorJet) else -1


def _alike(x: Value, y: Value) -> tuple[int, Sequence[Value], Sequence[Value]]:
    """Return the higher level, and the parts of both operands in its variable."""
    level = max(_level(x), _level(y))
    a, b = ((v.value, v.slope, v.bent) if _level(v) == level else (v, 0.0, 0.0) for v in (x, y))
    return level, a, b


def _sum(x: Value, y: Value) -> Value:
    level, a, b = _alike(x, y)
    return TaylorJet(level, *(p + q for p, q in zip(a, b, strict=True)))


def _product(x: Value, y: Value) -> Value:
    level, a, b = _alike(x, y)
    if level > _level(y):  # a constant in this variable
        return TaylorJet(level, *(part * y for part in a))
    if level > _level(x):
        return TaylorJet(level, *(part * x for part in b))
    slope = a[0] * b[1] + a[1] * b[0]
    return TaylorJet(level, a[0] * b[0], slope, a[0] * b[2] + a[1] * b[1] + a[2] * b[0])


def _power(x: Value, p: Value) -> Value:
    if isinstance(p, TaylorJet):
        raise UnsupportedError("an exponent in a score is a number: write exp(y * log(x)) for x**y")
    if p in (0, 1, 2, 3, 4):
        return math.prod([x] * int(p), start=1.0)
    return x.chain(lambda v: (v**p, p * v ** (p - 1), p * (p - 1) * v ** (p - 2)))


def _logistic(of: Any, v: Value) -> Sequence[Value]:
    s = of(v)
    return s, s * (1 - s), s * (1 - s) * (1 - 2 * s)


def _tanh(of: Any, v: Value) -> Sequence[Value]:
    t = of(v)
    return t, 1 - t * t, -2 * t * (1 - t * t)


def _sqrt(of: Any, v: Value) -> Sequence[Value]:
    root = of(v)
    return root, 0.5 / root, -0.25 / (root * v)


_ONE: Mapping[str, Callable[[Any, Value], Sequence[Value]]] = {
    "exp": lambda of, v: (of(v),) * 3,
    "expm1": lambda of, v: (of(v), np.exp(v), np.exp(v)),
    "log": lambda of, v: (of(v), 1 / v, -1 / (v * v)),
    "log1p": lambda of, v: (of(v), 1 / (1 + v), -1 / ((1 + v) * (1 + v))),
    "sqrt": _sqrt,
    "sin": lambda of, v: (of(v), np.cos(v), -1 * of(v)),
    "cos": lambda of, v: (of(v), -1 * np.sin(v), -1 * of(v)),
    "tanh": _tanh,
    "expit": _logistic,
    "square": lambda of, v: (v * v, 2 * v, 2.0),
    "negative": lambda of, v: (-1 * v, -1.0, 0.0),
    "reciprocal": lambda of, v: (1 / v, -1 / (v * v), 2 / (v * v * v)),
}
"""A function's name in NumPy or SciPy → its value and derivatives, in such functions."""
_TWO: Mapping[str, Callable[[Value, Value], Value]] = {
    "add": _sum,
    "subtract": lambda x, y: x + y * -1,
    "multiply": _product,
    "divide": lambda x, y: x * y**-1.0,
    "power": _power,
}


def corrected(value: Value, scales: Mapping[int, float]) -> Value:
    """Return (1 − b²∂²) of a jet, for every level and its noise scale b."""
    for level in sorted(scales, reverse=True):
        if _level(value) == level:
            value = value.value - 2 * scales[level] ** 2 * value.bent
    return value


def slope(value: Value, level: int) -> Value:
    """Return the derivative by the variable of a level, the highest."""
    return value.slope if _level(value) == level else 0.0
