"""Estimates of the parameters of an equation, with their errors: the summary of a regression."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from geoveil.analyst.results import Estimates, rows_of
from geoveil.analyst.statistics.simultaneous import two_sided
from geoveil.gp import UNLIMITED, Array, Limits, interval_of_weighted_mean


@dataclass(frozen=True, kw_only=True, eq=False)
class ParameterEstimates(Estimates):
    """Parameters with their errors; as text, a summary."""

    label: str
    names: tuple[str, ...]
    values: Array
    covariance: Array
    degrees: Array
    """Degrees of freedom of the standard errors, after Satterthwaite."""
    skewness: Array
    """Skewness of each parameter's error."""
    farthest: Callable[[Array], Array] | None
    """Sums of parameters, (sums, parameters) → how far down and up a person outside the sample
    could move them, (2, sums); None without a bound."""
    largest: float
    """The largest weight of one report, as a fraction of all."""

    @property
    def standard_errors(self) -> Array:
        """Noise and sampling together."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def title(self) -> str:
        return f"{self.label}, {self.n:,} private reports"

    def margins(self, confidence: float) -> Array:
        """Return the lower and upper margins of each interval, (2, parameters)."""
        return self.margins_of(np.eye(len(self.names)), self.degrees, self.skewness, confidence)

    def margins_of(self, sums: Array, degrees: Array, skewness: Array, confidence: float) -> Array:
        """Return the lower and upper margins of sums of parameters, (2, sums)."""
        squares = np.einsum("np,pq,nq->n", sums, self.covariance, sums)
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
        errors, (below, above) = self.standard_errors, self.margins(self.confidence)
        return rows_of(
            {
                "name": self.names,
                "estimate": self.values,
                "standard_error": errors,
                "z": self.values / errors,
                "p_value": two_sided(self.values, self.margins),
                "ci_low": self.values - below,
                "ci_high": self.values + above,
            }
        )
