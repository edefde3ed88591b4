"""Estimates of the parameters of an equation, with their errors: the summary of a regression."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from geoveil.analyst.results import Result, rows_of
from geoveil.gp import Array

__all__ = ["ParameterEstimates"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ParameterEstimates(Result):
    """Parameters with their errors; as text, a summary."""

    label: str
    names: tuple[str, ...]
    values: Array
    covariance: Array
    degrees: Array
    """Degrees of freedom of the standard errors, after Satterthwaite."""
    confidence: float
    n: int
    about: tuple[str, ...]

    @property
    def standard_errors(self) -> Array:
        """Noise and sampling together."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def title(self) -> str:
        return f"{self.label}, {self.n:,} private reports"

    @property
    def notes(self) -> Sequence[str]:
        return (*self.about, f"Each interval covers at {100 * self.confidence:.4g} %, by itself.")

    def reach(self, errors: Array, degrees: Array | float) -> Array:
        """Return half the width of intervals."""
        from scipy.stats import t

        return np.asarray(t.ppf((1 + self.confidence) / 2, degrees) * errors)

    def rows(self) -> list[dict[str, Any]]:
        from scipy.stats import t

        errors = self.standard_errors
        reach = self.reach(errors, self.degrees)
        return rows_of(
            {
                "name": self.names,
                "estimate": self.values,
                "standard_error": errors,
                "z": self.values / errors,
                "p_value": 2 * t.sf(np.abs(self.values) / errors, self.degrees),
                "ci_low": self.values - reach,
                "ci_high": self.values + reach,
            }
        )
