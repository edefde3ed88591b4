"""Squares and interactions as covariates of regressions, corrected by jets [MATH §16].

A covariate is a product of functions of fields, so the index of a model is no longer linear in each
number, and no closed form corrects the score. Jets do: they carry all derivatives that a correction
needs, for any polynomial of numbers.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from geoveil.analyst.relations.scores import (
    Design,
    Equation,
    Model,
    reach_of,
    require_names,
    terms_of,
)
from geoveil.analyst.relations.terms import Coordinate, NumberOf, Square, Term
from geoveil.campaign import FormCampaign
from geoveil.gp import Array, ParameterError, UnsupportedError

Value: TypeAlias = Any
"""Arguments of NumPy's functions."""


@dataclass(frozen=True, slots=True, eq=False)
class TaylorJet:
    """A function's value, slope and half its second derivative, in one variable."""

    level: int
    value: Value
    slope: Value
    bent: Value

    def __neg__(self) -> Value:
        return self * -1

    def __add__(self, other: Value) -> Value:
        level, a, b = _alike(self, other)
        return TaylorJet(level, *(x + y for x, y in zip(a, b, strict=True)))

    def __sub__(self, other: Value) -> Value:
        return self + other * -1

    def __rsub__(self, other: Value) -> Value:
        return self * -1 + other

    def __mul__(self, other: Value) -> Value:
        level, a, b = _alike(self, other)
        if level > _level(other):  # a constant in this variable
            return TaylorJet(level, *(x * other for x in a))
        if level > _level(self):
            return TaylorJet(level, *(x * self for x in b))
        slope = a[0] * b[1] + a[1] * b[0]
        return TaylorJet(level, a[0] * b[0], slope, a[0] * b[2] + a[1] * b[1] + a[2] * b[0])

    def __truediv__(self, other: Value) -> Value:
        return self * other**-1.0

    def __rtruediv__(self, other: Value) -> Value:
        return self**-1.0 * other

    def __pow__(self, power: float) -> Value:
        if power in (0, 1, 2, 3, 4):
            result: Value = 1.0
            for _ in range(int(power)):
                result = self * result
            return result
        p = power
        return self._chain(lambda v: (v**p, p * v ** (p - 1), p * (p - 1) * v ** (p - 2)))

    def _chain(self, derivatives: Callable[[Value], Sequence[Value]]) -> Value:
        value, first, second = derivatives(self.value)
        bent = first * self.bent + second * (self.slope * self.slope) * 0.5
        return TaylorJet(self.level, value, first * self.slope, bent)

    __radd__ = __add__
    __rmul__ = __mul__

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Value, **kwargs: Any) -> Value:
        name = ufunc.__name__
        if method == "__call__" and not kwargs:
            if name in _ONE and isinstance(inputs[0], TaylorJet):
                return inputs[0]._chain(lambda v: _ONE[name](ufunc, v))
            if name in _TWO:
                return _TWO[name](*inputs)
        raise UnsupportedError(
            f"{name} in a score: it is made of + − × ÷, powers, and NumPy's or SciPy's"
            f" {', '.join(sorted(_ONE))}"
        )


def _level(x: Value) -> int:
    return x.level if isinstance(x, TaylorJet) else -1


def _alike(x: Value, y: Value) -> tuple[int, Sequence[Value], Sequence[Value]]:
    """Return the higher level, and the parts of both operands in its variable."""
    level = max(_level(x), _level(y))
    a, b = ((v.value, v.slope, v.bent) if _level(v) == level else (v, 0.0, 0.0) for v in (x, y))
    return level, a, b


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
    "add": lambda x, y: x + y if isinstance(x, TaylorJet) else y + x,
    "subtract": lambda x, y: x - y if isinstance(x, TaylorJet) else y.__rsub__(x),
    "multiply": lambda x, y: x * y if isinstance(x, TaylorJet) else y * x,
    "divide": lambda x, y: x / y if isinstance(x, TaylorJet) else y.__rtruediv__(x),
    "power": lambda x, y: x**y,
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


MOST_PERTURBED = 4
"""The most perturbed numbers whose jets are carried; each triples the derivatives."""
_IMAGINED = 5
"""Numbers in a range at which the interval imagines a person outside the sample."""
Factors: TypeAlias = tuple[Term, ...]
"""The factors of a covariate."""


class Interaction:
    """Products of two or more covariates of different fields.

    Example:
        >>> Interaction("age", "rents").of
        ('age', 'rents')
    """

    def __init__(self, *of: str | Term) -> None:
        if len(of) < 2:
            raise ParameterError("interaction", of, "two or more fields, or functions of them")
        self.of = of
        """Names of fields, or functions of them; a choice has one for each option except the
        first."""

    def __repr__(self) -> str:
        return f"Interaction({', '.join(map(repr, self.of))})"


def factors_of(campaign: FormCampaign, on: Sequence[str | Term | Interaction]) -> list[Factors]:
    """Return the factors of each covariate of a regression."""
    made: list[Factors] = []
    for each in on:
        rows: list[Factors] = [()]
        for part in each.of if isinstance(each, Interaction) else [each]:
            rows = [(*row, term) for row in rows for term in terms_of(campaign, [part])]
        for row in rows if isinstance(each, Interaction) else ():
            fields = [term.field for term in row]
            if len(set(fields)) < len(fields) or any(isinstance(of, Coordinate) for of in row):
                expected = "different fields (Square for one number), with places as sets: Within"
                raise ParameterError("interaction", fields, expected)
        made += [tuple(of for term in row for of in _single(term)) for row in rows]
    require_names(["×".join(sorted(term.text for term in of)) for of in made])
    return made


def _single(term: Term) -> Factors:
    return (NumberOf(term.field),) * 2 if isinstance(term, Square) else (term,)


def text_of(factors: Factors) -> str:
    """Return the name of a covariate."""
    texts = dict.fromkeys(term.text for term in factors)
    many = [term.text for term in factors]
    return " × ".join(text + ("²" if many.count(text) > 1 else "") for text in texts)


@dataclass(frozen=True, eq=False)
class ProductScore:
    """ψ = w·(y − F(η)), or w·(½ − σ((η − y)/width)) of medians; η = θ·w, each w a product."""

    design: Design
    """The covariates that products multiply."""
    products: Sequence[tuple[int, ...]]
    """The factors of each covariate after the constant: their places in the design, from 0."""
    weights: Array
    model: Model
    width: float = 0.0

    @property
    def _scales(self) -> dict[int, float]:
        """The noise scale of each jet; a coordinate's noise has the variance of a wider one."""
        scales = dict(enumerate(np.sqrt(self.design.variances / 2).tolist()))
        if self.model == "median":
            scales[len(scales)] = self.design.response_noise
        return {level: b for level, b in scales.items() if b}

    def _parts(self) -> Iterator[tuple[slice, Array | float, list[Value], Value]]:
        """Yield rows, weights of the options, covariates as jets, and the response."""
        scales = self._scales

        def jet(level: int, x: Array) -> Value:
            return TaylorJet(level, x, 1.0, 0.0) if level in scales else x

        for rows, codes, numbers, weight in self.design.parts():
            base = [*codes, *(jet(j, column) for j, column in enumerate(numbers))]
            made = [math.prod((base[k] for k in of), start=1.0) for of in self.products]
            yield rows, weight, [1.0, *made], jet(len(numbers), self.design.response[rows])

    def _residual(self, theta: Array, w: Sequence[Value], y: Value) -> tuple[Value, Value]:
        """Return ψ as a multiple of w, and its derivative by η."""
        from scipy.special import expit

        eta = sum(t * of for t, of in zip(theta.tolist(), w, strict=True))
        if self.model == "linear":
            return y - eta, -1.0
        if self.model == "poisson":
            mean: Any = np.exp(eta)
            return y - mean, -1 * mean
        if self.model == "logistic":
            share: Any = expit(eta)
            return y - share, share * (share - 1)
        step: Any = expit((eta - y) * (1 / self.width))
        return 0.5 - step, step * (step - 1) * (1 / self.width)

    def __call__(self, theta: Array) -> Equation:
        """Return sums of scores and of their derivatives."""
        p, scales = len(theta), self._scales
        score, slope = np.zeros(p), np.zeros((p, p))
        for rows, weight, w, y in self._parts():
            counted = weight * self.weights[rows]
            value, steep = self._residual(theta, w, y)
            for i in range(p):
                score[i] += np.sum(counted * corrected(w[i] * value, scales))
                by_eta = w[i] * steep
                for j in range(i + 1):
                    slope[i, j] += np.sum(counted * corrected(by_eta * w[j], scales))
        return Equation(score, slope + np.tril(slope, -1).T)

    def each(self, theta: Array) -> Array:
        """Return the corrected score of each report, (n, coefficients)."""
        scores = np.zeros((len(self.weights), len(theta)))
        for rows, weight, w, y in self._parts():
            value, _ = self._residual(theta, w, y)
            for i, of in enumerate(w):
                scores[rows, i] += weight * corrected(of * value, self._scales)
        return scores

    @property
    def pseudo(self) -> Array:
        """An unbiased estimate of each covariate, (n, coefficients)."""
        made = np.zeros((len(self.weights), 1 + len(self.products)))
        for rows, weight, w, _ in self._parts():
            for i, of in enumerate(w):
                made[rows, i] += weight * corrected(of, self._scales)
        return made

    def growth(self, theta: Array) -> float:
        """Return the largest |γ|b of a number, in any combination of options."""
        m, most = self.design.numbers.shape[1], 0.0
        for _, codes, _ in self.design.combinations:
            for j in range(m):
                base = [*codes, *(float(k == j) for k in range(m))]
                own = [
                    t * math.prod(base[k] for k in of)
                    for t, of in zip(theta[1:].tolist(), self.products, strict=True)
                    if len(codes) + j in of
                ]
                most = max(most, abs(sum(own)) * float(self.design.noise[j]))
        return most


@dataclass(frozen=True, eq=False)
class FarthestOfProducts:
    """How far one person can move sums of the coefficients of a linear model: see `Farthest`."""

    theta: Array
    pull: Array
    """How far a sum of scores over these people moves each coefficient."""
    people: Array
    """Covariates of imagined people, (people, coefficients)."""
    response_ends: Array

    @classmethod
    def of(cls, score: ProductScore, theta: Array, pull: Array) -> "FarthestOfProducts":
        """Return it for people with any options, and with numbers on a grid of their ranges."""
        d, people = score.design, []
        low, high = d.ends.T[..., None]
        with np.errstate(invalid="ignore"):  # where a number has no ends
            grids = low + (high - low) * np.linspace(0, 1, _IMAGINED)
        for (_, codes, _), numbers in product(d.combinations, product(*grids.tolist())):
            base = [*codes, *numbers]
            people.append([1.0, *(math.prod(base[k] for k in of) for of in score.products)])
        return cls(theta, pull, np.array(people), d.response_ends)

    def __call__(self, sums: Array) -> Array:
        """Return how far down and up, (2, sums), for (sums, coefficients); infinite if unknown."""
        with np.errstate(invalid="ignore"):
            residuals = self.response_ends[:, None] - self.people @ self.theta
            pulled = self.people @ (sums @ self.pull).T
            corners = (residuals[..., None] * pulled).reshape(-1, len(sums))
        return reach_of(corners)


def score_of_products(
    design: Design, products: Sequence[tuple[int, ...]], weights: Array, model: Model, width: float
) -> tuple[ProductScore, Array]:
    """Return the score with numbers as multiples of their spread, and the units of θ."""
    m = design.numbers.shape[1]
    others = design.pseudo.shape[1] - 1 - m
    if model == "poisson" and any(sum(k >= others for k in of) > 1 for of in products):
        raise UnsupportedError(
            "a square of a number, or a product of two, in a Poisson regression: its corrected"
            " score has no mean; fit a linear model to logarithms, or use bands of the number"
        )
    tiny = np.finfo(float).tiny
    scale = np.maximum(np.sqrt(np.mean(design.numbers**2, axis=0)), tiny)
    unit = max(float(design.response.std()), tiny) if model in ("linear", "median") else 1.0
    score = ProductScore(design.scaled(unit, scale), products, weights, model, width / unit)
    if len(score._scales) > MOST_PERTURBED:
        raise UnsupportedError(
            f"{len(score._scales)} perturbed numbers: a model with squares or interactions takes at"
            f" most {MOST_PERTURBED}"
        )
    sizes = [1.0, *(math.prod(scale[k - others] for k in of if k >= others) for of in products)]
    return score, unit / np.array(sizes, np.float64)
