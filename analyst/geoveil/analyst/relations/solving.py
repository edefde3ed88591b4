"""Roots of corrected estimating equations, with sandwich errors, and their summary [MATH §16]."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from geoveil.analyst.results import rows_of
from geoveil.analyst.simultaneous import Correlated, two_sided
from geoveil.gp import UNLIMITED, Array, Limits, UnsupportedError, interval_of_weighted_mean

_MOST_STEPS, _MOST_HALVED = 100, 30
LARGE = 200_000
"""The number of reports from which a root within a hundredth of its error is close enough."""
_CLOSE, _CLOSE_OF_LARGE = 1e-10, 1e-3
"""Newton's last step; its square is approximately the remaining error of the root."""
_MOST_LEVERAGE = 0.9
_AT_ONCE = 1 << 13
_NOBODY_FAR = ", if nobody is so far out that one person moves a parameter by its standard error"


class EstimatingEquation(Protocol):
    """An estimating equation of weighted reports."""

    def __call__(self, theta: Array) -> tuple[Array, Array]:
        """Return the sum of scores and its derivative, oriented to be negative definite."""
        ...

    def each(self, theta: Array) -> Array:
        """Return the score of each report, (n, coefficients)."""
        ...


class Root(NamedTuple):
    """A root of an estimating equation."""

    theta: Array
    influence: Array
    """How far each report moves each parameter, (n, parameters)."""
    pull: Array
    """How far a sum of scores moves each parameter, (parameters, parameters)."""


class Errors(NamedTuple):
    """The errors of parameters."""

    influence: Array
    """How far each report moves each parameter, as their errors count it, (n, parameters)."""
    covariance: Array
    degrees: Array
    """Degrees of freedom of each parameter's variance, after Satterthwaite."""
    skewness: Array
    """Skewness of each parameter's error."""


def solve(
    score: EstimatingEquation,
    start: Array,
    inside: Callable[[Array], bool],
    weights: Array,
    ask: str,
) -> Root:
    """Return the root that Newton's method reaches from a start.

    Args:
        start: parameters inside the region.
        inside: returns whether parameters are in the region where the equation may be used.
        ask: what an analyst can do if there is no root.

    Raises:
        UnsupportedError: if there is no root inside, or the scores' derivative is not negative
            definite there.
    """
    theta, close = start, _CLOSE if len(weights) < LARGE else _CLOSE_OF_LARGE
    value, slope = score(theta)
    for _ in range(_MOST_STEPS):
        try:
            step = -np.linalg.solve(slope, value)
        except np.linalg.LinAlgError:
            break
        if np.abs(step).max() <= close * (1 + np.abs(theta).max()):
            if np.linalg.eigvalsh(slope + slope.T).max() >= 0:
                break
            pull = np.asarray(-np.linalg.inv(slope), np.float64)
            influence = (score.each(theta) * weights[:, None]) @ pull.T
            return Root(theta + step, influence, pull)
        for _ in range(_MOST_HALVED):
            if inside(theta + step):
                tried, steeper = score(theta + step)
                if np.linalg.norm(tried) < np.linalg.norm(value):
                    break
            step = step / 2
        else:
            break
        theta, value, slope = theta + step, tried, steeper
    raise UnsupportedError(
        "the corrected equation has no root at which its derivative is negative definite: noise"
        f" hides too much from so few reports; {ask}"
    )


def sandwich(influence: Array, weights: Array, design: Array | None = None) -> Errors:
    """Return the errors of parameters from influences.

    Args:
        influence: of reports, (n, parameters).
        design: covariates of reports, whose leverages give HC3 errors; None for HC0.
    """
    if design is not None:
        inverse = np.linalg.inv((design.T * weights) @ design)
        leverage = weights * ((design @ inverse) * design).sum(axis=1)
        influence = influence / (1 - np.minimum(leverage, _MOST_LEVERAGE))[:, None]
    shape = shape_of(influence, np.eye(influence.shape[1]))
    return Errors(influence, influence.T @ influence, *shape)


def shape_of(influence: Array, sums: Array) -> tuple[Array, Array]:
    """Return degrees of freedom and the skewness of the errors of sums of parameters."""
    powers = np.zeros((3, len(sums)))
    for start in range(0, len(influence), _AT_ONCE):
        part = influence[start : start + _AT_ONCE] @ sums.T
        square = np.square(part)
        powers += [of.sum(axis=0) for of in (square, square * part, np.square(square))]
    total, third, fourth = powers
    spread = np.maximum(fourth - total**2 / len(influence), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        degrees = np.fmax(2 * total**2 / spread, 1.0)  # nobody differs: 0/0
        skewness = np.nan_to_num(third / total**1.5)
    return degrees, skewness


@dataclass(frozen=True, kw_only=True, eq=False)
class ParameterEstimates(Correlated):
    """Parameters with their errors; as text, a summary."""

    coverage = "Each interval covers at {of.percent} by itself{of.assumed}."
    label: str
    names: tuple[str, ...]
    degrees: Array
    """Degrees of freedom of the standard errors, after Satterthwaite."""
    skewness: Array
    """Skewness of each parameter's error."""
    influence: Array = field(repr=False)
    """How far each report moves each parameter, as their errors count it, (n, parameters)."""
    farthest: Callable[[Array], Array] | None
    """Sums of parameters, (sums, parameters) → how far down and up a person outside the sample
    could move them, (2, sums); None without a bound."""
    largest: float
    """The largest weight of one report, as a fraction of all."""

    @property
    def title(self) -> str:
        return f"{self.label}, {self.n:,} private reports"

    @property
    def assumed(self) -> str:
        """The condition under which intervals cover, as the end of a sentence."""
        return "" if self.farthest else _NOBODY_FAR

    def margins_at(self, confidence: float) -> Array:
        return self.margins_of(np.eye(len(self.names)), self.degrees, self.skewness, confidence)

    def margins_of(self, sums: Array, degrees: Array, skewness: Array, confidence: float) -> Array:
        """Return the lower and upper margins of sums of parameters, (2, sums)."""
        squares = np.maximum(np.einsum("np,pq,nq->n", sums, self.covariance, sums), 0.0)
        jumps = np.full((2, len(sums)), np.inf) if self.farthest is None else self.farthest(sums)
        made = [
            interval_of_weighted_mean(
                0.0,
                square,
                confidence,
                Limits(means=(-down, up)) if down or up else UNLIMITED,
                largest=self.largest,
                skewness=skew,
                freedom=freedom,
            )
            for square, freedom, skew, (down, up) in zip(
                squares, degrees, skewness, jumps.T, strict=True
            )
        ]
        return np.array([(-of.low, of.high) for of in made]).T

    def rows(self) -> list[dict[str, Any]]:
        errors, (below, above) = self.standard_errors, self.margins_at(self.confidence)
        with np.errstate(divide="ignore", invalid="ignore"):  # as few fit exactly
            z = self.values / errors
        return rows_of(
            {
                "name": self.names,
                "estimate": self.values,
                "standard_error": errors,
                "z": z,
                "p_value": two_sided(self.values, self.margins_at),
                "ci_low": self.values - below,
                "ci_high": self.values + above,
            }
        )
