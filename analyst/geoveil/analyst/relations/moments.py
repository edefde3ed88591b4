"""Covariances and correlations of private fields, corrected for the noise [MATH §17].

Products of operators are unbiased for products of values, so every second moment is a mean of
pseudo-values; for the same field, the noise is subtracted, as in z² − 2b². A correlation ρ is the
root of E[A − ρB] = 0, with A the product of two standardised values and B half the sum of their
squares: its interval contains all ρ for which Student's interval of that mean contains 0.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement
from typing import TypeAlias

import numpy as np

from geoveil.analyst.relations.form_reports import (
    FormReports,
    FormStatistic,
    Weights,
    condition_of,
    weights_of,
)
from geoveil.analyst.relations.terms import NumberOf, Score, Term
from geoveil.analyst.statistics.joint import Quantity, ratios_within
from geoveil.campaign import FormCampaign, NumberField, OrdinalField
from geoveil.gp import Array, ParameterError

Variable: TypeAlias = str | Term
"""The name of a number field or of an ordinal one, or a function of a field."""

_STUDENT = (
    "Reports have no ends: the interval is Student's, with degrees of freedom from fourth "
    "moments, and right once means of products are nearly normal."
)
_NEARLY_NORMAL = (
    " if so many answered that the mean is nearly normal, and nobody far out was missed: no public"
    " range bounds the values"
)
_UNTOLD = (
    "A variance may be 0, as far as the reports show: the interval is every possible correlation."
)


def variable(campaign: FormCampaign, of: Variable) -> Term:
    """Return the function of a field with a name: the number, or the score."""
    if isinstance(of, Term):
        return of
    kind = campaign.field(of)
    if isinstance(kind, NumberField):
        return NumberOf(of)
    if isinstance(kind, OrdinalField):
        return Score(of)
    raise ParameterError("field", of, "a number or ordinal field, or a function such as Option")


@dataclass(frozen=True)
class Mean(FormStatistic[Quantity]):
    """The mean of a number, or of the scores of options: 1 for the first, and so on.

    For a field that not everybody is asked for, it is the mean of those who are.
    """

    variable: Variable
    """The name of a number or ordinal field, or a function of a field, as `Score`."""

    def of(self, reports: FormReports, confidence: float, weights: Weights) -> Quantity:
        term = variable(reports.campaign, self.variable)
        asked_for = condition_of(reports.campaign, term)
        if asked_for:
            both = {term.text: [term, *asked_for], "asked": asked_for}
            joint = reports.joint(both, confidence, weights)
            made = joint.ratio(0, 1, f"mean of {term.text}, of those who are asked")
        else:
            joint = reports.joint({term.text: [term]}, confidence, weights)
            made = joint.contrast([1.0], f"mean of {term.text}", joint.limits[0])
        bounded = np.isfinite(term.limits(reports.campaign).means).all()
        return made if bounded else replace(made, assumed=_NEARLY_NORMAL)


class _Moments:
    """Means and covariances of several functions of fields, and each report's contribution."""

    def __init__(
        self, reports: FormReports, variables: Sequence[Variable], weights: Weights
    ) -> None:
        self._reports, self.weights = reports, weights_of(reports, weights)
        self.terms = [variable(reports.campaign, of) for of in variables]
        q = len(self.terms)
        self._pairs = list(combinations_with_replacement(range(q), 2))
        products = {f"{i}": [term] for i, term in enumerate(self.terms)}
        products |= {f"{i} {j}": [self.terms[i], self.terms[j]] for i, j in self._pairs}
        self._products = products
        joint = reports.joint(products, weights=weights)
        self._means = joint.values[:q]
        # The product of two means exceeds the product of their expectations by their covariance.
        central = joint.covariance[:q, :q] - np.outer(self._means, self._means)
        for (i, j), second in zip(self._pairs, joint.values[q:].tolist(), strict=True):
            central[i, j] += second
            central[j, i] = central[i, j]
        self.covariance: Array = central
        """(q, q), unbiased."""

    def added(self, forms: Sequence[Array]) -> Array:
        """Return each report's contribution to k sums of covariances of weights (q, q), (n, k)."""
        columns = []
        for form in forms:
            pairs = [form[i, j] * (1 if i == j else 2) for i, j in self._pairs]
            columns.append(np.concatenate([-2 * form @ self._means, pairs]))
        of_means = [float(self._means @ form @ self._means) for form in forms]
        sums = np.stack(columns, axis=1)
        return self._reports.pseudo_values(list(self._products.values()), sums) + of_means

    def quantity(self, label: str, value: float, scores: Array, confidence: float) -> Quantity:
        """Return an estimate with Student's interval, from each report's contribution."""
        error, half = _student(scores, self.weights, confidence)
        return Quantity(
            label=label,
            value=value,
            standard_error=error,
            ci_low=value - half,
            ci_high=value + half,
            confidence=confidence,
            n=self._reports.n,
            about=(_STUDENT,),
        )


def _student(scores: Array, weights: Array, confidence: float) -> tuple[float, float]:
    """Return the standard error of a weighted mean, and half the width of its interval.

    Degrees of freedom are Satterthwaite's, from the spread of squares in a sum of squares.
    """
    from scipy.special import stdtrit

    n, people = len(scores), float(weights.sum())
    squares = (weights * (scores - weights @ scores / people)) ** 2
    total = float(squares.sum())
    spread = float(squares @ squares) - total**2 / n
    freedom = max(2 * total**2 / spread, 1.0) if spread > 0 else n - 1.0
    error = math.sqrt(total * n / (n - 1)) / people
    return error, float(stdtrit(freedom, (1 + confidence) / 2)) * error


@dataclass(frozen=True)
class Covariance(FormStatistic[Quantity]):
    """The covariance of two variables over people, without the noise of reports."""

    a: Variable
    b: Variable

    def of(self, reports: FormReports, confidence: float, weights: Weights) -> Quantity:
        moments = _Moments(reports, [self.a, self.b], weights)
        label = "covariance of {} and {}".format(*(term.text for term in moments.terms))
        (scores,) = moments.added([np.array([[0.0, 0.5], [0.5, 0.0]])]).T
        return moments.quantity(label, float(moments.covariance[0, 1]), scores, confidence)


@dataclass(frozen=True)
class PartialCorrelation(FormStatistic[Quantity]):
    """The correlation of two variables among people with equal values of others."""

    a: Variable
    b: Variable
    given: Sequence[Variable] = field(default=())
    """The variables held fixed."""

    def of(self, reports: FormReports, confidence: float, weights: Weights) -> Quantity:
        moments = _Moments(reports, [self.a, self.b, *self.given], weights)
        a, b, *rest = (term.text for term in moments.terms)
        label = f"correlation of {a} and {b}" + (f", given {', '.join(rest)}" if rest else "")
        of = moments.covariance
        if not np.linalg.eigvalsh(of).min() > 0:
            untold = moments.quantity(label, math.nan, np.zeros(reports.n), confidence)
            return replace(
                untold, standard_error=math.nan, ci_low=-1.0, ci_high=1.0, about=(_UNTOLD,)
            )
        # The residuals of both given the rest, as sums of all variables.
        sums = np.zeros((2, len(of)))
        sums[:, :2] = np.eye(2)
        sums[:, 2:] = -np.linalg.solve(of[2:, 2:], of[2:, :2]).T
        sums /= np.sqrt(np.einsum("ki,ij,kj->k", sums, of, sums))[:, None]
        crossed, squares = np.outer(*sums), sums.T @ sums
        value = float(sums[0] @ of @ sums[1])
        product, size = moments.added([(crossed + crossed.T) / 2, squares / 2]).T
        quantity = moments.quantity(label, value, product - value * size, confidence)

        def contrast(r: float) -> tuple[float, float]:
            scores = product - r * size
            _, half = _student(scores, moments.weights, confidence)
            return value - r - half, value - r + half

        low, high = ratios_within(contrast, quantity, falls=True)
        return replace(quantity, ci_low=max(low, -1.0), ci_high=min(high, 1.0))


class Correlation(PartialCorrelation):
    """The correlation of two variables over people, without the noise of reports."""

    def __init__(self, a: Variable, b: Variable) -> None:
        super().__init__(a, b)
