"""Regressions on private answers, by scores corrected exactly for the noise [MATH §16].

The results estimate the same regression on true values, with wider intervals: without the
correction, noise in a covariate draws its coefficient towards 0.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from geoveil.analyst.relations.form_reports import FormReports, FormStatistic, Weights, weights_of
from geoveil.analyst.relations.scores import (
    Category,
    Design,
    Farthest,
    IndexScore,
    LinearScore,
    Model,
    design_of,
    terms_of,
)
from geoveil.analyst.relations.solving import (
    LARGE,
    Errors,
    EstimatingEquation,
    ParameterEstimates,
    Root,
    sandwich,
    shape_of,
    solve,
)
from geoveil.analyst.relations.terms import (
    Between,
    Coordinate,
    NumberOf,
    Option,
    Score,
    Term,
    Within,
)
from geoveil.analyst.results import Series, rows_of
from geoveil.campaign import ChoiceField, FormCampaign
from geoveil.gp import Array, ParameterError, UnsupportedError, validation

_RESPONSES: dict[Model, tuple[type[Term], ...]] = {
    "linear": (NumberOf, Score, Option, Between, Within, Coordinate),
    "logistic": (Option, Between, Within),
    "poisson": (NumberOf, Score, Option),
    "median": (NumberOf,),
}
CONSTANT = "constant"
_BOUNDED = (
    "The intervals allow for one unseen person as far out as the ranges of the fields permit."
)
_UNBOUNDED = (
    "No public range bounds {}: the intervals are right if nobody is so far out that one person "
    "moves a coefficient by its standard error."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions(Series):
    """A regression's predictions for people with given covariates, with intervals."""

    coverage = (
        "Each interval covers the {of.parameter} of such people at {of.percent} by "
        "itself{of.assumed}; individuals vary more."
    )
    assumed: str
    """The condition under which intervals cover, as the end of a clause."""
    label: str
    """The regression."""
    parameter: str
    """What is predicted: the mean or the median."""
    labels: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"{self.label}: predictions"

    def rows(self) -> list[dict[str, Any]]:
        return rows_of({"people": self.labels, **self.columns})


@dataclass(frozen=True, kw_only=True, eq=False)
class RegressionEstimates(ParameterEstimates):
    """Coefficients of covariates, the constant first."""

    model: Model
    smoothing: Array | None = None
    """Approximately how far smoothing moves each coefficient, for median regressions only."""
    options: Mapping[str, Sequence[str]] = field(default_factory=dict, repr=False)
    """The options of each choice among the covariates."""

    def rows(self) -> list[dict[str, Any]]:
        rows = super().rows()
        if self.smoothing is not None:
            for row, moved in zip(rows, self.smoothing.tolist(), strict=True):
                row["smoothing_bias"] = moved
        return rows

    def predict(self, *people: Mapping[str, object]) -> Predictions:
        """Return the prediction for people, as in `predict({"age": 40, "rents": "yes"})`.

        Args:
            people: a covariate's name → its number, in the coordinates of queries, or the name of a
                choice → an option. What is left out is 0.

        Raises:
            ParameterError: if there is no such covariate or option.
        """
        from scipy.special import expit

        if not people or not all(isinstance(person, Mapping) for person in people):
            raise ParameterError("people", people, "one or more mappings")
        design = np.stack([self._covariates(person) for person in people])
        index = design @ self.values
        errors = np.sqrt(np.maximum(np.einsum("np,pq,nq->n", design, self.covariance, design), 0.0))
        below, above = self.margins_of(design, *shape_of(self.influence, design), self.confidence)
        low, value, high = index - below, index, index + above
        if self.model == "logistic":
            low, value, high = expit(low), expit(value), expit(high)
            errors = errors * value * (1 - value)
        elif self.model == "poisson":
            low, value, high = np.exp(low), np.exp(value), np.exp(high)
            errors = errors * value
        return Predictions(
            label=self.label,
            parameter="median" if self.model == "median" else "mean",
            assumed=self.assumed,
            **self.common,
            about=self.about,
            labels=tuple(", ".join(f"{k} {v}" for k, v in person.items()) for person in people),
            values=value,
            standard_errors=errors,
            low=low,
            high=high,
        )

    def _covariates(self, person: Mapping[str, object]) -> Array:
        names = self.names[1:]
        numbers = dict.fromkeys(names, 0.0)
        for name, value in person.items():
            if name in numbers:
                numbers[name] = validation.real(name, value)
            elif name in self.options:
                option = validation.choice(name, str(value), self.options[name])
                numbers[f"{name}: {option}"] = 1.0
            else:
                raise ParameterError("people", name, f"a covariate of {list(names)}")
        return np.array([1.0, *(numbers[name] for name in names)])


@dataclass(frozen=True)
class Regression(FormStatistic[RegressionEstimates]):
    """A regression of one answer on others.

    By its name, a number enters unchanged (as its logarithm if numbers are compared by ratio), a
    choice as indicators of all options except the first, an ordinal field as its score 1, 2, …, and
    a place, in a linear model, as its coordinates in metres. Soft sets of places and bands of
    numbers enter as memberships: where the soft indicator is φ, a person counts as a member by φ
    and as a non-member by 1 − φ; sets of one field must not overlap.
    """

    y: str | Term
    """A field's name, or a function of it; in a logistic model such as `Option("rents", "yes")`."""
    on: Sequence[str | Term]
    """Names of fields, or functions of them such as `Above("age", 40)`."""
    model: Model = "linear"
    width: float | None = None
    """The width of the step that a median regression smooths (by a logistic distribution function),
    in the response's unit; by default as wide as the noise, and a little for the spread."""
    errors: str = "HC3"
    """"HC3", with Student's quantiles by Satterthwaite's degrees of freedom; or "HC0"."""

    def __post_init__(self) -> None:
        validation.choice("model", self.model, tuple(_RESPONSES))
        validation.choice("errors", self.errors, ("HC3", "HC0"))
        if not self.on or isinstance(self.on, str):
            raise ParameterError(
                "on", self.on, "a list of one or more fields, or functions of them"
            )

    def of(self, reports: FormReports, confidence: float, weights: Weights) -> RegressionEstimates:
        validation.between("confidence", confidence, 0, 1, low_open=True, high_open=True)
        campaign = reports.campaign
        terms, y = terms_of(campaign, self.on), self._response(campaign)
        for term in terms:
            if self.model != "linear" and isinstance(term, Coordinate):
                raise UnsupportedError(
                    f"{term.text} in a {self.model} regression: only linear models take "
                    "coordinates; use Within for places"
                )
        if y.field in {term.field for term in terms}:
            raise ParameterError(
                "on", [term.text for term in terms], f"other fields than {y.field}"
            )
        design, places = design_of(reports, terms, y)
        w, plain = weights_of(reports, weights), self.errors == "HC0"
        width, smoothing = 0.0, None
        if self.model == "median":
            width = self._width(design, w)
        fitted = partial(fit, design, w, self.model, plain=plain)
        made = fitted(width=width)
        about = [
            "Scores are corrected exactly for the noise of every field; errors are"
            + (" HC0." if plain else " HC3, with Student's quantiles.")
        ]
        if made.farthest is not None:
            unbounded = [
                t.text for t in (y, *terms) if not np.isfinite(t.limits(campaign).means).all()
            ]
            about.append(_UNBOUNDED.format(" and ".join(unbounded)) if unbounded else _BOUNDED)
        if self.model == "median":
            wider = fitted(width=math.sqrt(2) * width)
            smoothing = (wider.theta - made.theta)[places]
            about.append(
                f"The median is of the response smoothed by a logistic step of width {width:.4g};"
                " smoothing_bias is about how far that moves a coefficient, by doubling its square."
            )
        if self.model == "poisson" and made.growth > DOUBTFUL_GROWTH:
            about.append(
                f"A coefficient times the noise scale of its number is {made.growth:.2f}: above"
                f" {DOUBTFUL_GROWTH} errors are poorly estimated, and intervals cover less."
            )
        errors, farthest = made.errors, made.farthest
        return RegressionEstimates(
            model=self.model,
            label=f"{self.model.capitalize()} regression of {y.text}",
            names=(CONSTANT, *(term.text for term in terms)),
            values=made.theta[places],
            covariance=errors.covariance[np.ix_(places, places)],
            degrees=errors.degrees[places],
            skewness=errors.skewness[places],
            influence=errors.influence[:, places],
            farthest=farthest and replace(farthest, pull=farthest.pull[places]),
            largest=float(w.max() / w.sum()),
            confidence=confidence,
            n=reports.n,
            about=tuple(about),
            smoothing=smoothing,
            options={
                term.field: campaign.field(term.field).attribute_options
                for term in terms
                if isinstance(term, Option)
            },
        )

    def _response(self, campaign: FormCampaign) -> Term:
        takes = _RESPONSES[self.model]
        choice = isinstance(self.y, str) and isinstance(campaign.field(self.y), ChoiceField)
        made = [] if choice else terms_of(campaign, [self.y])
        if len(made) != 1 or not isinstance(made[0], takes):
            kinds = ", ".join(kind.__name__ for kind in takes)
            raise ParameterError(
                "y", self.y, f"one of {kinds}, such as Option('rents', 'yes') for a choice"
            )
        return made[0]

    def _width(self, design: Design, weights: Array) -> float:
        if self.width is not None:
            return validation.positive("width", self.width)
        theta = fit(design, weights, "linear").theta
        slopes = theta[len(theta) - len(design.noise) :]
        noise = design.response_noise**2 + float(((slopes * design.noise) ** 2).sum())
        spread = float(np.var(design.response - design.pseudo @ theta)) - 2 * noise
        n, p = design.pseudo.shape
        little = float(((p + math.log(n)) / n) ** 0.4)
        return math.sqrt(noise) + math.sqrt(max(spread, 0.0)) * little


LARGEST_GROWTH, DOUBTFUL_GROWTH = 0.5, 0.25
"""The least |β|b at which scores of a Poisson model have no variance, and the |β|b above which its
standard errors are unreliable [MATH §16]."""
_FARTHEST = 50.0
"""The largest coefficients of numbers, in standard deviations, at which a root is sought."""
_PILOT = 50_000
"""The number of reports from which a large regression computes its starting point."""


@dataclass(frozen=True, eq=False)
class Fit:
    """Coefficients in the units of the design."""

    theta: Array
    errors: Errors
    farthest: Farthest | None
    """For linear models only."""
    growth: float
    """The largest |β|b of a number."""


def fit(
    design: Design, weights: Array, model: Model, width: float = 0.0, *, plain: bool = False
) -> Fit:
    """Return the coefficients of a regression, those of the constant first.

    Args:
        width: the width of the logistic step that smooths medians, in the response's unit.
        plain: whether errors are those of HC0.
    """
    m = design.numbers.shape[1]
    center = np.average(design.numbers, axis=0, weights=weights)
    scale = np.maximum(design.numbers.std(axis=0), np.finfo(float).tiny)
    unit = 1.0
    if model in ("linear", "median"):
        unit = float(design.response.std()) or float(np.abs(design.response).max()) or 1.0
    scaled = design.scaled(unit, scale, center)
    root = _root(scaled, weights, model, width / unit)
    # Coefficients of numbers in their own units, and the constant for numbers of 0.
    turn = np.eye(len(root.theta))
    turn[len(turn) - m :, len(turn) - m :] = np.diag(1 / scale)
    turn[0, len(turn) - m :] = -center / scale
    turn *= unit
    theta = turn @ root.theta
    growth = np.abs(theta[len(theta) - m :]) * design.noise
    errors = sandwich(root.influence @ turn.T, weights, None if plain else scaled.pseudo)
    farthest = None
    if model == "linear":
        pull, each = weights.sum() * turn @ root.pull, design.categories
        reports = [Category(np.unique(of.weights, axis=0), of.codes) for of in each]
        farthest = Farthest(root.theta, pull, reports, scaled.ends, scaled.response_ends)
    return Fit(theta, errors, farthest, growth.max(initial=0.0))


def _root(design: Design, weights: Array, model: Model, width: float) -> Root:
    score: EstimatingEquation
    linear = LinearScore(design, weights) if model in ("linear", "median") else None
    start = np.zeros(design.pseudo.shape[1])
    if model == "poisson":
        start[0] = np.log(max(np.average(design.response, weights=weights), 1e-3))
    if linear is not None and model == "linear":
        score = linear
    else:
        score = IndexScore(design, weights, model, width)
        every = len(weights) // _PILOT
        if len(weights) >= LARGE:
            start = _root(design.every(every), weights[::every], model, width).theta
        elif linear is not None:
            start = solve(linear, start, _anywhere, weights, _ASK[model]).theta
    numbers = slice(len(start) - design.numbers.shape[1], None)
    most = np.full(design.numbers.shape[1], _FARTHEST)
    if model == "poisson":
        most = np.minimum(most, LARGEST_GROWTH / np.maximum(design.noise, 1e-300))

    def inside(theta: Array) -> bool:
        return bool((np.abs(theta[numbers]) < most).all())

    region = inside if model != "linear" else _anywhere
    return solve(score, start, region, weights, _ASK[model])


def _anywhere(_: Array) -> bool:
    return True


_FEWER = "use fewer covariates, or fields with less noise, or more reports"
_ASK: dict[Model, str] = {
    "linear": _FEWER,
    "logistic": _FEWER,
    "poisson": "the coefficient times the noise scale of each number must be below 1/2: ask for"
    " numbers with less noise, or fit a linear model to their logarithms",
    "median": f"{_FEWER}, or a wider step",
}
