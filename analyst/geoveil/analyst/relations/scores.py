"""Scores of regressions, corrected exactly for the noise of every field [MATH §16].

A single-index model has ψ = u·G(η), η = γ·u, and Laplace noise of scale b_j on u_j. With D = d/dη,
P = Π(1 − b_j²γ_j²D²) and P₋ᵢ that product without i, ψ*_i = u_i·PG − 2b_i²γ_i·DP₋ᵢG. Derivatives
of G are taken in a basis of functions that D maps into each other. Categories are expanded over
their options, each with its unbiased weight.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import combinations_with_replacement, product
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from geoveil.analyst.relations.form_reports import FormReports, refuse_unasked
from geoveil.analyst.relations.terms import (
    Coordinate,
    NumberOf,
    Option,
    Score,
    Term,
    ends_of,
    operators,
)
from geoveil.campaign import FormCampaign, MultipleField, NumberField, OrdinalField, PlaceField
from geoveil.gp import Array, ParameterError, UnsupportedError

Model: TypeAlias = Literal["linear", "logistic", "poisson", "median"]
MOST_COMBINATIONS = 1_000
"""The most combinations of options in a nonlinear model; every report weights each."""
MOST_NUMBERS = 8
"""The most perturbed numbers in a nonlinear model: each needs 2 derivatives, which lose digits."""
_NO_ENDS = np.array([-np.inf, np.inf])
_AT_ONCE = 1 << 13
_JETS_AT_ONCE = 1 << 14
_FLAT = 350.0
"""An index times rate at which a step is flat; twice this does not overflow."""


class Category(NamedTuple):
    """Unbiased weights of the options of a category, and the options' covariates."""

    weights: Array
    """(n, options): estimates of 1 for a person's option and 0 for the others; rows sum to 1."""
    codes: Array
    """(options, covariates): dummies, or a score."""


@dataclass(frozen=True, eq=False)
class Design:
    """Covariates in the order constant, categories, numbers; and the response."""

    response: Array
    """(n,): the number, or the unbiased weight of the option that counts as 1."""
    numbers: Array
    """(n, m)."""
    noise: Array
    """(m,): scales of Laplace noise; 0 for numbers without noise."""
    variances: Array
    """(m,): variances of the noise; 2b² for a number, 3b² for a coordinate of a place."""
    categories: Sequence[Category] = ()
    response_noise: float = 0.0
    ends: Array = field(default_factory=lambda: _NO_ENDS[None])
    """(m, 2): the range of each number of a person."""
    response_ends: Array = field(default_factory=lambda: _NO_ENDS)

    @cached_property
    def units(self) -> Array:
        """The constant and the numbers, (n, 1 + m), column by column."""
        return np.vstack([np.ones(len(self.response)), self.numbers.T]).T

    @cached_property
    def pseudo(self) -> Array:
        """An unbiased estimate of each covariate, (n, coefficients), column by column."""
        codes = [c.codes.T @ c.weights.T for c in self.categories]
        return np.vstack([self.units[:, 0], *codes, self.numbers.T]).T

    @property
    def blocks(self) -> Iterator[tuple[slice, Category]]:
        """The places of each category's covariates."""
        at = 1
        for category in self.categories:
            yield slice(at, at := at + category.codes.shape[1]), category

    def every(self, step: int) -> "Design":
        """Return each step-th report."""
        categories = [Category(h[::step], codes) for h, codes in self.categories]
        response, numbers = self.response[::step], self.numbers[::step]
        return replace(self, response=response, numbers=numbers, categories=categories)

    def weight(self, rows: slice, options: tuple[int, ...]) -> Array | float:
        """Return unbiased weights of the people who chose these options."""
        categories = zip(self.categories, options, strict=True)
        return math.prod((of.weights[rows, k] for of, k in categories), start=1.0)

    def scaled(self, unit: float, scale: Array, center: Array | float = 0.0) -> "Design":
        """Return the response in a unit, and numbers from centres in scales of their own."""
        return replace(
            self,
            response=self.response / unit,
            response_noise=self.response_noise / unit,
            response_ends=self.response_ends / unit,
            numbers=(self.numbers - center) / scale,
            ends=((self.ends.T - center) / scale).T,
            noise=self.noise / scale,
            variances=self.variances / scale**2,
        )

    def parts(self) -> Iterator[tuple[slice, list[float], Array, Array | float]]:
        """Yield rows, the options' covariates, numbers (m, rows), and weights of the options."""
        for start in range(0, len(self.response), _JETS_AT_ONCE):
            rows = slice(start, start + _JETS_AT_ONCE)
            for options, codes in self.combinations:
                yield rows, codes, self.numbers[rows].T, self.weight(rows, options)

    @cached_property
    def combinations(self) -> list[tuple[tuple[int, ...], list[float]]]:
        """Each combination of an option of every category, with the options' covariates."""
        many = math.prod(len(c.codes) for c in self.categories)
        if many > MOST_COMBINATIONS:
            raise UnsupportedError(
                f"{many:,} combinations of options: a model that is not linear takes at most"
                f" {MOST_COMBINATIONS:,}; leave a category out, or give an ordinal field a score"
            )
        numbered = product(*(enumerate(c.codes.tolist()) for c in self.categories))
        return [(tuple(k for k, _ in of), [x for _, codes in of for x in codes]) for of in numbered]


@dataclass(frozen=True, eq=False)
class Farthest:
    """How far one person can move sums of a linear model's coefficients, by the fields' ranges."""

    theta: Array
    pull: Array
    """How far a sum of scores over these people moves each coefficient."""
    categories: Sequence[Category]
    """With the weights of every report."""
    ends: Array
    response_ends: Array

    def __call__(self, sums: Array) -> Array:
        """Return how far down and up, (2, sums), for (sums, coefficients); infinite if unknown."""
        rows = sums @ self.pull
        with np.errstate(invalid="ignore"):
            residuals = self.response_ends - self._spans(self.theta[None])[::-1, 0]
            corners = (self._spans(rows)[:, None] * residuals[:, None]).reshape(4, -1)
            least, most = self._corrections(rows)
            ends = np.maximum([most - corners.min(axis=0), corners.max(axis=0) - least], 0.0)
        return np.where(np.isfinite(corners).all(axis=0), ends, np.inf)

    def _spans(self, rows: Array) -> Array:
        """Return the range of sums of the estimates of a person's covariates, (2, sums)."""
        ends, at = np.stack([rows[:, 0], rows[:, 0]]), 1
        for weights, codes in self.categories:
            block = rows[:, at : (at := at + codes.shape[1])] @ codes.T @ weights.T
            ends += [block.min(axis=1), block.max(axis=1)]
        ends += np.sort(rows[:, at:, None] * self.ends, axis=2).sum(axis=1).T
        return ends

    def _corrections(self, rows: Array) -> Array:
        """Return the range of what is taken off for products of a category with itself."""
        ends, at = np.zeros((2, len(rows))), 1
        for weights, codes in self.categories:
            block = slice(at, at := at + codes.shape[1])
            sums, expected = rows[:, block] @ codes.T, codes @ self.theta[block]
            square = (sums * expected) @ weights.T - (sums @ weights.T) * (weights @ expected)
            ends += [square.min(axis=1), square.max(axis=1)]
        return ends


class Equation(NamedTuple):
    """Weighted sums over reports."""

    score: Array
    slope: Array
    """The derivative of `score`."""


class LinearScore:
    """ψ = w(y − w·θ): products of two functions of a field are corrected together."""

    def __init__(self, design: Design, weights: Array) -> None:
        self.design = design
        w = design.pseudo
        self._moments = self._corrected(weights, (w * weights[:, None]).T @ w)
        self._response = (weights * design.response) @ w

    def _corrected(self, weights: Array, moments: Array) -> Array:
        d = self.design
        for block, (h, codes) in d.blocks:
            moments[block, block] = (codes * (weights @ h)[:, None]).T @ codes
        numbers = np.arange(len(moments) - len(d.variances), len(moments))
        moments[numbers, numbers] -= weights.sum() * d.variances
        return moments

    def __call__(self, theta: Array) -> Equation:
        """Return sums of scores and of their derivatives."""
        return Equation(self._response - self._moments @ theta, -self._moments)

    def each(self, theta: Array) -> Array:
        """Return the corrected score of each report, (n, coefficients)."""
        d, w = self.design, self.design.pseudo
        scores = w * (d.response - w @ theta)[:, None]
        for block, (h, codes) in d.blocks:
            own = codes @ theta[block]
            scores[:, block] += w[:, block] * (h @ own)[:, None] - h @ (codes * own[:, None])
        numbers = slice(len(theta) - len(d.variances), None)
        scores[:, numbers] += d.variances * theta[numbers]
        return scores


class _Basis(NamedTuple):
    """Functions of the index that differentiation maps into each other."""

    score: Array
    """G without the response, in these functions."""
    derivative: Array
    """Matrix of D."""
    rate: float
    """The functions are powers of tanh(rate·η/2), from 1 on; or e^η alone, with the rate 1."""

    def grown(self, index: Array) -> Array:
        """Return e^(rate·η); that of a sum is a product, so one serves all options."""
        return np.exp(np.clip(self.rate * index, -_FLAT, _FLAT))

    def __call__(self, grown: Array, weight: Array | float) -> Array:
        """Return the functions at a value of e^(rate·η), each times a weight."""
        values = np.empty((len(self.score), *grown.shape))
        values[0] = weight
        if len(values) == 1:
            values *= grown
            return values
        t = np.divide(-2, grown + 1)
        t += 1
        for k in range(1, len(values)):
            np.multiply(values[k - 1], t, out=values[k])
        return values


def _basis(model: Model, derivatives: int, width: float) -> _Basis:
    if model == "poisson":
        return _Basis(-np.ones(1), np.eye(1), 1.0)
    rate = 1.0 if model == "logistic" else 1 / width
    length = derivatives + 2
    rise = np.arange(length) * rate / 2  # D tᵏ = k·rate/2·(tᵏ⁻¹ − tᵏ⁺¹)
    derivative = np.diag(rise[1:], 1) - np.diag(rise[:-1], -1)
    score = np.zeros(length)
    score[:2] = (-0.5 if model == "logistic" else 0.0, -0.5)  # −σ(η), or ½ − σ((η − y)/width)
    return _Basis(score, derivative, rate)


class IndexScore:
    """ψ = u·(y − F(η)), logistic and Poisson; ψ = u·(½ − σ((η − y)/width)), medians."""

    def __init__(self, design: Design, weights: Array, model: Model, width: float = 0.0) -> None:
        self.design, self.weights = design, weights
        noisy = int(np.count_nonzero(design.noise))
        self._within = model == "median"  # the response is in the index, with the coefficient −1
        noisy += self._within and design.response_noise > 0
        if noisy > MOST_NUMBERS and model != "poisson":
            raise UnsupportedError(
                f"{noisy} perturbed numbers: a {model} model takes at most {MOST_NUMBERS}"
            )
        self._scales = np.append(0.0, design.noise)  # of `units`
        self._heads = np.array([[1.0, *codes] for _, codes in design.combinations]).T
        """The options' covariates, the constant first, (coefficients except the numbers', C)."""
        self._basis = _basis(model, 2 * noisy + 1, width)
        self._response = np.zeros(design.pseudo.shape[1])
        if not self._within:
            self._response = (weights * design.response) @ design.pseudo

    def _coefficients(self, theta: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Return PG, 2b²γDP₋ᵢG, 2b²γ, D, and P without i and l; P without 0 is P, as b₀ = 0."""
        gamma = np.append(0.0, theta[len(theta) - len(self._scales) + 1 :])
        d, eye = self._basis.derivative, np.eye(len(self._basis.score))
        factors = [eye - c * (d @ d) for c in (self._scales * gamma) ** 2]
        own = eye - self.design.response_noise**2 * (d @ d) if self._within else eye
        many = range(len(factors))
        without = np.array([
            [reduce(np.matmul, [f for j, f in enumerate(factors) if j not in (i, k)], own)
             for k in many]
            for i in many
        ])  # fmt: skip
        turn = 2 * self._scales**2 * gamma
        first = turn[:, None] * (d @ without[:, 0] @ self._basis.score)
        return without[0, 0] @ self._basis.score, first, turn, d, without

    def _parts(
        self, theta: Array, weights: Array | None = None
    ) -> Iterator[tuple[slice, Array, Array]]:
        """Yield rows, these of `units`, and the basis' weighted values, (functions, C, rows).

        C is the number of combinations of options.
        """
        d, n, basis = self.design, len(self.design.response), self._basis
        factors = basis.grown(self._heads.T @ theta[: len(self._heads)])[:, None]
        numbers = theta[len(self._heads) :]
        step = max(_AT_ONCE // len(factors), 1)
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            index = d.numbers[rows] @ numbers - (d.response[rows] if self._within else 0.0)
            chosen: Any = 1.0 if weights is None else weights[rows]
            for category in d.categories:
                options = np.ascontiguousarray(category.weights[rows].T)
                chosen = (np.atleast_2d(chosen)[:, None] * options).reshape(-1, len(index))
            yield rows, d.units[rows], basis(basis.grown(index) * factors, chosen)

    def __call__(self, theta: Array) -> Equation:
        """Return sums of scores and of their derivatives."""
        m = len(self._scales)
        pairs = np.array(list(combinations_with_replacement(range(m), 2))).T
        moments = np.zeros((len(self._basis.score), self._heads.shape[1], pairs.shape[1]))
        for _, units, values in self._parts(theta, self.weights):
            flat = values.reshape(-1, len(units))
            moments += (flat @ (units[:, pairs[0]] * units[:, pairs[1]])).reshape(moments.shape)
        value, first, turn, d, without = self._coefficients(theta)
        rising = d @ self._basis.score
        rise = without[0, 0] @ rising
        second = turn[:, None] * (d @ without[:, 0] @ rising)
        crossed = np.outer(turn, turn)[..., None] * (d @ d @ without @ rising)
        for i, b in enumerate(self._scales):
            crossed[i, i] = -2 * b**2 * (without[i, i] @ rising)
        score = self._response.copy()
        slope = np.zeros((len(theta), len(theta)))
        inner = np.zeros((m, m))
        for c, head in enumerate(self._heads.T):
            lift = np.vstack([np.outer(head, np.eye(m)[0]), np.eye(m)[1:]])  # covariates of `units`
            sums = moments[:, c, :m]  # the first of `units` is 1
            score += lift @ (value @ sums - first @ sums[:, 0])
            mixed = second @ sums
            inner[pairs[0], pairs[1]] = inner[pairs[1], pairs[0]] = rise @ moments[:, c]
            slope += lift @ (inner - mixed - mixed.T + crossed @ sums[:, 0]) @ lift.T
        return Equation(score, slope)

    def each(self, theta: Array) -> Array:
        """Return the corrected score of each report, (n, coefficients)."""
        value, first, *_ = self._coefficients(theta)
        scores = self.design.pseudo * (0.0 if self._within else self.design.response[:, None])
        heads = len(self._heads)
        for rows, units, values in self._parts(theta):
            scores[rows, :heads] += np.tensordot(value, values, axes=1).T @ self._heads.T
            summed = values.sum(axis=1)
            scores[rows, heads:] += (
                units[:, 1:] * (value @ summed)[:, None] - (first[1:] @ summed).T
            )
        return scores


MOST_COVARIATES = 200


def terms_of(campaign: FormCampaign, wanted: Sequence[str | Term]) -> list[Term]:
    """Return functions of fields, with a field's name replaced by its functions."""
    terms: list[Term] = []
    for each in wanted:
        if isinstance(each, Term):
            terms.append(each)
            continue
        field = campaign.field(each)
        if isinstance(field, NumberField):
            terms.append(NumberOf(field.name))
        elif isinstance(field, PlaceField):
            terms += [Coordinate(field.name, axis) for axis in (0, 1)]
        elif isinstance(field, OrdinalField):
            terms.append(Score(field.name))
        else:
            others = field.attribute_options[not isinstance(field, MultipleField) :]
            terms += [Option(field.name, option) for option in others]
    names = [term.text for term in terms]
    if len(set(names)) < len(names) or not 0 < len(names) < MOST_COVARIATES:
        expected = f"1 to {MOST_COVARIATES - 1} covariates, each with a name of its own"
        raise ParameterError("covariates", names, expected)
    return terms


def design_of(
    reports: FormReports, terms: Sequence[Term], y: Term | None = None
) -> tuple[Design, list[int]]:
    """Return covariates, and the places of the constant and of each term among them."""
    campaign = reports.campaign
    for term in (*terms, *([] if y is None else [y])):  # no sum over people is one over some
        refuse_unasked(campaign, [term])

    def values(term: Term) -> Array:
        ((columns, operator),) = operators(campaign, [term])
        return operator.value(reports.columns[:, columns])

    def ends(term: Term) -> tuple[float, float]:
        return ends_of(term.limits(campaign))

    numbers, groups = [], dict[Any, list[int]]()
    for i, term in enumerate(terms):
        if isinstance(term, NumberOf | Coordinate):
            numbers.append(i)
        else:  # options that are ticked each by itself are a category each
            ticked = isinstance(campaign.field(term.field), MultipleField)
            groups.setdefault((term.field, term.text if ticked else ""), []).append(i)
    both = {terms[i].field for i in numbers} & {field for field, _ in groups}
    if both:
        raise UnsupportedError(f"{min(both)} as a number and in bands or sets: use either")
    categories = [_category(campaign, [terms[i] for i in of], values) for of in groups.values()]
    # A place has the noise variance 3b² a coordinate, which is all that linear models take of it.
    squares: dict[type, float] = {NumberField: 2.0, PlaceField: 3.0}
    fields: list[Any] = [campaign.field(terms[i].field) for i in numbers]
    noise = np.array([field.noise_scale for field in fields])
    own: Any = None if y is None else campaign.field(y.field)
    design = Design(
        response=np.zeros(reports.n) if y is None else values(y),
        numbers=np.array([values(terms[i]) for i in numbers]).reshape(-1, reports.n).T,
        noise=noise,
        variances=np.array([squares[type(field)] for field in fields]) * noise**2,
        categories=categories,
        response_noise=own.noise_scale if isinstance(y, NumberOf) else 0.0,
        ends=np.array([ends(terms[i]) for i in numbers]).reshape(-1, 2),
        response_ends=np.zeros(2) if y is None else np.array(ends(y)),
    )
    order = [i for of in groups.values() for i in of] + numbers
    return design, [0, *(1 + order.index(i) for i in range(len(terms)))]


def _category(
    campaign: FormCampaign, terms: Sequence[Term], values: Callable[[Term], Array]
) -> Category:
    """Return weights of the options that the terms of one field distinguish."""
    field: Any = campaign.field(terms[0].field)
    if isinstance(terms[0], Option | Score) and not isinstance(field, MultipleField):
        scores: Any = np.stack([term.scores(field) for term in terms], axis=1)  # type: ignore[attr-defined]
        codes, group = np.unique(scores, axis=0, return_inverse=True)
        members = [(group == k).astype(float).tolist() for k in range(len(codes))]
        return Category(np.stack([values(Score(field.name, m)) for m in members], axis=1), codes)
    inside = np.stack([values(term) for term in terms], axis=1)
    outside = 1 - inside.sum(axis=1, keepdims=True)
    return Category(np.hstack([outside, inside]), np.eye(len(terms) + 1)[:, 1:])
