"""Estimate your own parameter: correct its score, and find the root [MATH §16].

A correction takes two derivatives in each perturbed number, mixed over all of them. A jet carries
those of one variable; its parts may be jets in further variables.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from geoveil.analyst.relations.form_reports import FormReports, FormStatistic, Weights, weights_of
from geoveil.analyst.relations.scores import Design, Equation, design_of, terms_of
from geoveil.analyst.relations.solving import ParameterEstimates, sandwich, solve
from geoveil.analyst.relations.terms import Coordinate, Term
from geoveil.gp import Array, ParameterError, UnsupportedError, validation

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


ScoreFunction: TypeAlias = Callable[[Mapping[str, Any], Sequence[Any]], Sequence[Any]]
"""(covariates by name, parameters) → as many values as there are parameters."""
_FAR = (200.0, 400.0)
"""Distances from people, in noise scales, between which a score's growth is measured."""
_CHECKED = 8
"""The most combinations of options in the check of a score."""
_CELLS, _NEAR = 80, 20.0
"""Cells in which a score must be finite, and how many noise scales they reach to either side."""
_MOST_PERTURBED = 4
"""The most perturbed numbers whose jets are carried; each triples the derivatives."""


class OwnScore:
    """A smooth score of reports, written with NumPy's functions, without the design's response."""

    def __init__(
        self,
        design: Design,
        names: Sequence[str],
        score: ScoreFunction,
        weights: Array,
        parameters: int,
    ) -> None:
        self.design, self.names, self.score = design, names, score
        self.weights, self.parameters = weights, parameters
        self._scales = {j: float(b) for j, b in enumerate(design.noise) if b}
        if len(self._scales) > _MOST_PERTURBED:
            raise UnsupportedError(
                f"{len(self._scales)} perturbed numbers: a score takes at most {_MOST_PERTURBED}"
            )

    def __call__(self, theta: Array) -> Equation:
        """Return sums of scores and of their derivatives."""
        total = np.zeros(self.parameters)
        steep = np.zeros((self.parameters, self.parameters))
        top = len(self.design.noise)
        for rows, codes, numbers, weight in self.design.parts():
            counted = weight * self.weights[rows]
            for k in range(self.parameters):
                moved = list(theta)
                moved[k] = TaylorJet(top, theta[k], 1.0, 0.0)
                for i, value in enumerate(self._corrected(codes, numbers, moved)):
                    steep[i, k] += np.sum(counted * slope(value, top))
                    if k == 0:
                        flat = value.value if isinstance(value, TaylorJet) else value
                        total[i] += np.sum(counted * flat)
        return Equation(total, steep)

    def each(self, theta: Array) -> Array:
        """Return the corrected score of each report, (n, parameters)."""
        scores = np.zeros((len(self.weights), self.parameters))
        for rows, codes, numbers, weight in self.design.parts():
            for i, value in enumerate(self._corrected(codes, numbers, list(theta))):
                scores[rows, i] += weight * value
        return scores

    def check(self, region: Array) -> None:
        """Refuse a score that is not finite near reports, or too large far away, in a region.

        It estimates growth on rays from three reports, and looks for poles along each number with
        ball arithmetic, at the region's centre and its corners.

        Args:
            region: ends of each parameter, (parameters, 2).

        Raises:
            UnsupportedError: if its variance under the noise is not finite.
        """
        corners = list(product(*region)) if len(region) <= 4 else [region[:, 0], region[:, 1]]
        starts = self.design.numbers[[0, len(self.weights) // 2, -1]]
        noisy = list(self._scales)
        combinations = self.design.combinations[:: -(-len(self.design.combinations) // _CHECKED)]
        for theta, (_, codes), start in product(
            [region.mean(axis=1), *map(np.asarray, corners)], combinations, starts
        ):
            for signs in product((-1, 0, 1), repeat=len(noisy)):
                if any(signs):
                    step = np.zeros(len(start))
                    step[noisy] = [s * self._scales[j] for j, s in zip(noisy, signs, strict=True)]
                    ends = start + step * np.array(_FAR)[:, None]
                    self._check_growth(codes, ends, theta, sum(map(abs, signs)))
            for j in noisy:
                self._check_cells(codes, start, theta, j)

    def _check_growth(self, codes: Sequence[float], ends: Array, theta: Array, many: int) -> None:
        with np.errstate(all="ignore"):
            for value in self._corrected(codes, ends.T, list(theta)):
                near, far = np.broadcast_to(np.abs(np.asarray(value, np.float64)), 2)
                rate = math.log(far / near) / (_FAR[1] - _FAR[0]) if near > 0 < far else 0.0
                if not np.isfinite([near, far]).all() or rate >= many / 2:
                    raise UnsupportedError(
                        "the corrected score has no finite variance at parameters"
                        f" {theta.tolist()}: far from people it must grow more slowly than"
                        " e^(|z|/2b) in each number z of noise scale b, and be a number everywhere"
                    )

    def _check_cells(self, codes: Sequence[float], start: Array, theta: Array, j: int) -> None:
        from flint import arb

        half = _NEAR * self._scales[j] / _CELLS
        for k in range(_CELLS):
            numbers: list[Any] = [arb(float(x)) for x in start]
            numbers[j] = arb(float(start[j]) + (2 * k + 1 - _CELLS) * half, half)
            try:
                values = self._corrected(codes, numbers, list(map(float, theta)))
            except (TypeError, AttributeError):  # a function that balls lack
                return
            if not all(v.is_finite() for v in values if isinstance(v, arb)):
                raise UnsupportedError(
                    f"the score is not finite near {self.names[j - len(self.design.noise)]} ="
                    f" {float(numbers[j].mid()):.6g} at parameters {theta.tolist()}: noise may lead"
                    " there from any value"
                )

    def _corrected(
        self, codes: Sequence[float], numbers: Sequence[Value] | Array, theta: Sequence[Value]
    ) -> list[Value]:
        jets = [
            TaylorJet(j, x, 1.0, 0.0) if j in self._scales else x for j, x in enumerate(numbers)
        ]
        values = self.score(dict(zip(self.names, [*codes, *jets], strict=True)), theta)
        if len(values) != self.parameters:
            raise ParameterError("score", len(values), f"{self.parameters} values, one a parameter")
        # The derivative by a parameter has the highest level, and stays.
        return [self._below(value) for value in values]

    def _below(self, value: Value) -> Value:
        if isinstance(value, TaylorJet) and value.level == len(self.design.noise):
            parts = (self._below(part) for part in (value.value, value.slope, value.bent))
            return TaylorJet(value.level, *parts)
        return corrected(value, self._scales)


@dataclass(frozen=True)
class Estimand(FormStatistic[ParameterEstimates]):
    """Parameters at which the mean of a smooth score is 0, over the people behind reports.

    Example:
        >>> import numpy as np
        >>> def score(x, theta):
        ...     (growth,) = theta
        ...     return [x["savings"] - np.exp(growth * x["age"])]
        >>> Estimand(score, on=["savings", "age"], region={"growth": (0.0, 0.1)}).text
        'score'
    """

    score: ScoreFunction
    """(answers by name, parameters) → as many values as there are parameters.

    It is made of + − × ÷, powers and NumPy's functions, and oriented as the derivative of what is
    to be largest. Answers have the names of `Regression`'s covariates; options and sets are 1 or 0.
    """
    on: Sequence[str | Term]
    """Names of fields, or functions of them."""
    region: Mapping[str, tuple[float, float]]
    """Parameter → the ends of its search interval."""
    start: Sequence[float] | None = None
    """The starting point; by default the middle of the region."""

    @property
    def text(self) -> str:
        """The name of the score."""
        return getattr(self.score, "__name__", "score")

    def of(self, reports: FormReports, confidence: float, weights: Weights) -> ParameterEstimates:
        validation.between("confidence", confidence, 0, 1, low_open=True, high_open=True)
        for name, (low, high) in self.region.items():
            validation.require_ends(f"region[{name!r}].", low, high)
        region = np.array(list(self.region.values()), np.float64).reshape(-1, 2)
        start = region.mean(axis=1) if self.start is None else np.array(self.start, np.float64)

        def inside(theta: Array) -> bool:
            return bool(((region[:, 0] <= theta) & (theta <= region[:, 1])).all())

        if not len(region) or start.shape != region.shape[:1] or not inside(start):
            raise ParameterError(
                "start", self.start, f"a number in the region of each: {self.region}"
            )
        terms = terms_of(reports.campaign, self.on)
        for term in terms:
            if isinstance(term, Coordinate):
                raise UnsupportedError(f"{term.text}: a place enters only through sets: use Within")
        design, places = design_of(reports, terms)
        names = [terms[places[1:].index(i)].text for i in range(1, len(places))]
        w = weights_of(reports, weights)
        score = OwnScore(design, names, self.score, w, len(region))
        score.check(region)
        root = solve(score, start, inside, w, "state another region or start, or use more reports")
        errors = sandwich(root.influence, w)
        return ParameterEstimates(
            label=f"Root of {self.text}",
            names=tuple(self.region),
            values=root.theta,
            covariance=errors.covariance,
            degrees=errors.degrees,
            skewness=errors.skewness,
            influence=errors.influence,
            farthest=None,
            largest=float(w.max() / w.sum()),
            confidence=confidence,
            n=reports.n,
            about=(
                "The score is corrected exactly for the noise of every field; its variance was"
                " checked to be finite at the centre and the corners of the region.",
            ),
        )
