"""The law of the largest of several correlated errors [MATH §8]."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from geoveil.analyst.results import Estimates
from geoveil.gp import Array, ParameterError, UnsupportedError, validation

DRAWS = 1 << 16
"""Draws of max |N(0, R)|: its 95 % quantile has a standard error of 0.004 to 0.006, so a band at 95
% covers 95 ± 0.09 %."""
_QUANTILES = np.linspace(0.0, 7.5, 31)
"""Nodes of confidence between which p values are interpolated."""
_SEED = 20_240_907
_AT_ONCE = 1 << 13
_NEGLIGIBLE = 1e-9
"""Part of the variance that may be left out, the rounding error of doubles."""


def critical_value(correlations: Array, confidence: float = 0.95) -> float:
    """Return the quantile of max |N(0, R)|, the joint critical value of all estimates.

    It comes from 65,536 draws of one seed, so the same estimates always have the same band.

    Args:
        correlations: R, (m, m).
        confidence: in (0, 1).

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> round(critical_value(np.eye(1)), 2), round(critical_value(np.ones((9, 9))), 2)
        (1.96, 1.96)
        >>> round(critical_value(np.eye(57)), 1)  # Šidák: 3.3
        3.3
    """
    confidence = validation.between("confidence", confidence, 0, 1, low_open=True, high_open=True)
    return float(np.quantile(largest_errors(correlations), confidence, method="hazen"))


def largest_errors(correlations: Array) -> Array:
    """Return 65,536 draws of max |N(0, R)| for correlations R, (m, m), always the same."""
    r = np.asarray(correlations, np.float64)
    if r.ndim != 2 or r.shape[0] != r.shape[1] or not len(r) or not np.isfinite(r).all():
        raise ParameterError("correlations", f"shape {r.shape}", "(m, m), finite, m >= 1")
    rng = np.random.default_rng(_SEED)
    factor = _factor(r)
    if factor.shape[1] <= 1:  # all of one normal variable
        from scipy.special import ndtri

        levels = (1 + (np.arange(DRAWS) + 0.5) / DRAWS) / 2
        return np.asarray(ndtri(levels) * np.abs(factor).max(initial=0.0))
    return np.concatenate(
        [
            np.abs(factor @ rng.standard_normal((factor.shape[1], _AT_ONCE))).max(axis=0)
            for _ in range(DRAWS // _AT_ONCE)
        ]
    )


def critical_value_of_one(confidence: float) -> float:
    """Return the two-sided normal critical value at a confidence in (0, 1)."""
    from scipy.special import ndtri

    return float(ndtri((1 + confidence) / 2))


def confidence_at(critical: float) -> float:
    """Return the confidence of a normal interval of so many standard errors to either side."""
    return math.erf(critical / math.sqrt(2))


def two_sided(values: Array, margins: Callable[[float], Array]) -> Array:
    """Return the p value of each number being 0: 1 minus the confidence of an interval ending at 0.

    Args:
        values: (m,), after subtracting the possible effect of false reports.
        margins: confidence → how far ends are below and above each, (2, m).
    """
    from scipy.special import ndtr

    return np.asarray(2 * ndtr(-scores_of(values, margins)))


def scores_of(values: Array, margins: Callable[[float], Array]) -> Array:
    """Return the normal quantile at whose confidence each interval reaches 0; see `two_sided`."""
    sizes, reaches = np.abs(values), list[Array]()
    for z in _QUANTILES:
        below, above = margins(confidence_at(z))
        reaches.append(np.where(values > 0, below, above))
        if (reaches[-1] >= sizes).all():  # as farther ends decide nothing
            break
    nodes = _QUANTILES[: len(reaches)]
    scores = [np.interp(v, r, nodes) for v, *r in zip(sizes, *reaches, strict=True)]
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond = sizes / reaches[-1] * nodes[-1]
    return np.where(sizes > 0, np.where(sizes > reaches[-1], beyond, scores), 0.0)


def critical_value_of_many(count: int, confidence: float) -> float:
    """Return the joint critical value of a number of estimates, whatever their correlations.

    Each normal error is within it with probability γ^{1/m}, and all with γ or more [Sid67].

    Args:
        count: m, of the estimates.
        confidence: γ, in (0, 1).
    """
    from scipy.special import ndtri

    return float(-ndtri(-np.expm1(np.log(confidence) / count) / 2))


def critical_value_of_field(
    lengths: tuple[float, float], bending: float, confidence: float
) -> float:
    """Return the joint critical value of all places of a smooth map.

    For a high u, the largest error of a normal field exceeds u with about the probability given by
    the expected Euler characteristic of the places where it does, which is slightly larger
    [AT07]; the largest |error| exceeds it at most twice as often.

    Args:
        lengths: of the two sides of the map.
        bending: λ: errors of places d apart, near each other, have the correlation 1 − λd²/2.
        confidence: in (0, 1).

    Example:
        >>> round(critical_value_of_field((1e-9, 1e-9), 1.0, 0.95), 2)  # a place
        1.96
        >>> round(critical_value_of_field((20.0, 20.0), 1.0, 0.95), 1)
        4.1
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr

    (a, b), root = lengths, np.sqrt(bending)

    def exceeded(u: float) -> float:
        of_area = a * b * bending * u / np.sqrt(2 * np.pi)
        of_sides = (a + b) * root
        density = np.exp(-u * u / 2) / (2 * np.pi)
        return float(2 * ((of_area + of_sides) * density + ndtr(-u)) - (1 - confidence))

    critical: Any = brentq(exceeded, 1.0 if exceeded(1.0) > 0 else 0.0, 40.0)  # more, if asked for
    return float(critical)


def correlations_of(covariance: Array) -> Array:
    """Return the correlations of a covariance, (m, m); 0 for an estimate without spread."""
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    scale = np.divide(1.0, errors, out=np.zeros_like(errors), where=errors > 0)
    correlations = np.clip(covariance * np.outer(scale, scale), -1.0, 1.0)
    np.fill_diagonal(correlations, 1.0)
    return np.asarray(correlations)


def normal_draws(covariance: Array, count: int) -> Array:
    """Return draws of a normal vector of mean 0 with a covariance, (count, m), always the same."""
    factor = _factor(np.asarray(covariance, np.float64))
    draws = np.random.default_rng(_SEED).standard_normal((factor.shape[1], count))
    return np.asarray((factor @ draws).T)


def _factor(matrix: Array) -> Array:
    """Return A with A Aᵀ the matrix, (m, r), without eigenvalues that rounding made negative."""
    values, vectors = np.linalg.eigh(matrix)
    kept = values > _NEGLIGIBLE * max(float(values[-1]), 0.0)
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))


@dataclass(frozen=True, kw_only=True, eq=False)
class Correlated(Estimates):
    """Several estimates with their covariance."""

    values: Array
    """(m,), unbiased."""
    covariance: Array
    """(m, m), noise and sampling together; (m,) for variances of unknown correlations."""

    @property
    def variances(self) -> Array:
        """The variance of each estimate, (m,)."""
        diagonal = self.covariance if self.covariance.ndim == 1 else np.diag(self.covariance)
        return np.maximum(diagonal, 0.0)

    @property
    def standard_errors(self) -> Array:
        """The standard error of each estimate, (m,)."""
        return np.asarray(np.sqrt(self.variances))

    @property
    def joint_covariance(self) -> Array:
        """The covariance, (m, m); an error if the correlations are unknown."""
        if self.covariance.ndim == 1:
            raise UnsupportedError("these estimates were made one by one: ask for their covariance")
        return self.covariance

    @cached_property
    def correlations(self) -> Array:
        """The correlations of the estimates, (m, m); 0 where an estimate has no spread."""
        return correlations_of(self.joint_covariance)

    def margins_at(self, confidence: float) -> Array:
        """Return lower and upper margins of separate intervals, normal ones here, (2, m).

        They are not clipped to what is possible: these are the errors in differences and sums.
        """
        return critical_value_of_one(confidence) * np.stack([self.standard_errors] * 2)

    def critical_value(self, confidence: float | None = None) -> float:
        """Return the critical value of a band of all estimates, at a confidence or their own."""
        confidence = self.confidence if confidence is None else confidence
        if self.covariance.ndim == 1:
            return critical_value_of_many(len(self.values), confidence)
        return critical_value(self.correlations, confidence)
