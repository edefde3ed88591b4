"""Small areas: groups with few reports borrow from what is known of all [FH79].

The mean of an area is a regression on what is publicly known of it, plus an effect of its own; the
estimate lies between the regression and the area's own reports, nearer to the one with less error.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from geoveil.analyst.results import Result
from geoveil.analyst.statistics.groups import GroupEstimates
from geoveil.analyst.statistics.simultaneous import critical_value_of_one
from geoveil.gp import Array, ParameterError, validation


@dataclass(frozen=True, kw_only=True, eq=False)
class SmallAreaEstimates(Result):
    """The means of small areas, with their mean squared errors [PR90]."""

    labels: tuple[str, ...]
    values: Array
    """The empirical best linear unbiased predictions, shape (areas,)."""
    mean_squared_errors: Array
    """The mean squared errors of `values`, with what the estimated regression and variance add."""
    own_shares: Array
    """How much of each estimate is the area's own, in [0, 1)."""
    coefficients: Array
    """The coefficients of the regression, the constant first."""
    effect_variance: float
    """The variance of the areas' own effects, by restricted maximum likelihood; 0 if
    the data show none."""
    confidence: float

    @property
    def title(self) -> str:
        return "Means of small areas"

    @property
    def notes(self) -> Sequence[str]:
        return (
            "Predictions by the Fay-Herriot model: nearer to the regression on public figures the"
            " fewer reports an area has. Biased where the regression is wrong about an area; the"
            f" {self.confidence:.0%} intervals take the model for true, and errors of direct"
            " estimates for known.",
        )

    def rows(self) -> list[dict[str, Any]]:
        errors = np.sqrt(self.mean_squared_errors)
        reach = critical_value_of_one(self.confidence) * errors
        return [
            {
                "area": label,
                "estimate": float(self.values[i]),
                "root_mean_squared_error": float(errors[i]),
                "ci_low": float(self.values[i] - reach[i]),
                "ci_high": float(self.values[i] + reach[i]),
                "own_share": float(self.own_shares[i]),
            }
            for i, label in enumerate(self.labels)
        ]


def small_areas(
    direct: GroupEstimates, known: Mapping[str, ArrayLike] | None = None
) -> SmallAreaEstimates:
    """Return the Fay-Herriot estimates of groups of different people.

    Args:
        direct: the groups by themselves; independent, each with an error > 0.
        known: what is publicly known of each group: name → a number for each, in their order.

    Raises:
        ParameterError: if groups are correlated or too few, an error is 0, or what is known is not
            one number for each group or is linearly dependent.

    Example:
        >>> values = {"a": 0.30, "b": 0.42, "c": 0.55, "d": 0.41, "e": 0.70}
        >>> direct = GroupEstimates.independent(values, dict.fromkeys(values, 0.1))
        >>> small_areas(direct, {"rate": [1, 2, 3, 2, 4]}).values.round(3).tolist()
        [0.288, 0.422, 0.557, 0.422, 0.691]
    """
    variances = np.diag(direct.covariance).copy()
    if np.count_nonzero(direct.covariance - np.diag(variances)) or not (variances > 0).all():
        raise ParameterError(
            "covariance", "something else", "diagonal, with variances > 0: different people"
        )
    regressors = _regressors(known or {}, len(variances))
    effects = _effect_variance(direct.values, regressors, variances)
    total = effects + variances
    inverse = np.linalg.inv(regressors.T @ (regressors / total[:, None]))
    slopes = inverse @ (regressors.T @ (direct.values / total))
    own = effects / total
    fitted = regressors @ slopes
    # g₁ + g₂ + 2g₃ [PR90], with the asymptotic variance of the effects' variance.
    of_slopes = np.einsum("ai,ij,aj->a", regressors, inverse, regressors)
    of_variance = 2 / (total**-2).sum() / total
    errors = own * variances + (1 - own) ** 2 * (of_slopes + 2 * of_variance)
    return SmallAreaEstimates(
        labels=direct.labels,
        values=own * direct.values + (1 - own) * fitted,
        mean_squared_errors=errors,
        own_shares=own,
        coefficients=slopes,
        effect_variance=effects,
        confidence=direct.confidence,
    )


def _regressors(known: Mapping[str, ArrayLike], areas: int) -> Array:
    columns = [np.ones(areas)]
    for name, given in known.items():
        column = validation.float_array(given)
        if column is None or column.shape != (areas,) or not np.isfinite(column).all():
            raise ParameterError(f"known[{name!r}]", given, f"{areas} finite numbers")
        columns.append(column)
    regressors = np.stack(columns, axis=1)
    if areas < len(columns) + 2:
        raise ParameterError("groups", areas, f"at least {len(columns) + 2}: two more than columns")
    if np.linalg.matrix_rank(regressors) < len(columns):
        raise ParameterError("known", sorted(known), "linearly independent, and not constant")
    return regressors


def _effect_variance(values: Array, regressors: Array, variances: Array) -> float:
    """Return the variance that solves the restricted likelihood's equation; 0 if it falls at 0."""
    from scipy.optimize import brentq

    def slope(log: float) -> float:
        return score(math.exp(log))

    def score(effects: float) -> float:
        """Return twice the derivative of the restricted log-likelihood, yᵀPPy − tr P."""
        weights = 1 / (effects + variances)
        weighted = regressors * weights[:, None]
        inverse = np.linalg.inv(regressors.T @ weighted)
        residuals = values - regressors @ (inverse @ (weighted.T @ values))
        trace = weights.sum() - np.trace(inverse @ (weighted.T @ weighted))
        return float((weights * residuals) @ (weights * residuals) - trace)

    if score(0.0) <= 0:
        return 0.0
    spread = float(((values - values.mean()) ** 2).sum() + variances.max())
    low, high = np.log(variances.min()) - 40, np.log(spread) + 1
    root: Any = brentq(slope, low, high, xtol=1e-15)
    return math.exp(root)


__all__ = ["SmallAreaEstimates", "small_areas"]
