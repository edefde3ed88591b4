"""The smooth upper bounds of [SPS Theorems 4 and 5] for a transmission test.

Δ e^{−β ud}, ud being the families that a table differs in from one whose local sensitivity exceeds
T. The exact smooth sensitivity is less, and found as fast; these are the paper's.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import validation
from geoveil.gp.errors import ParameterError
from geoveil.gp.selection.applications.transmission import StatisticName, checked_families
from geoveil.gp.selection.applications.transmission_sensitivity import (
    global_sensitivity,
    local_sensitivity,
    sensitivity_at,
)

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


def threshold_distance(
    b: Integers,
    c: Integers,
    families: int,
    threshold: float,
    statistic: StatisticName = "chi-square",
) -> Integers:
    """Return ud: in how many families each table differs from one with LS > T, shape (m,).

    Bisection, as the largest local sensitivity within t changes grows with t.

    Args:
        b: see `local_sensitivity`.
        c: see `local_sensitivity`.
        families: N.
        threshold: T ≥ 0, below Δ.
        statistic: see `local_sensitivity`.

    Raises:
        ParameterError: if no table has a local sensitivity above T.

    Example:
        >>> threshold_distance(np.array([100, 75]), np.array([0, 75]), 150, 6.0).tolist()
        [0, 28]
    """
    most = global_sensitivity(families, statistic)
    at = validation.non_negative("threshold", threshold)
    if at >= most:
        raise ParameterError("threshold", threshold, f"below the global sensitivity, {most:g}")
    # No table is farther than N from any other: low < ud <= high throughout.
    low = np.full(len(b), -1)
    high = np.full(len(b), families)
    while (high - low > 1).any():
        middle = (low + high) // 2
        beyond = _sensitivity_at_each(b, c, middle, families, statistic) > at
        high = np.where(beyond, np.minimum(high, middle), high)
        low = np.where(beyond, low, np.maximum(low, middle))
    return high


def _sensitivity_at_each(
    b: Integers, c: Integers, changes: Integers, families: int, statistic: StatisticName
) -> Array:
    """Return `sensitivity_at` with t of each table's own; −1 counts as none."""
    result = np.empty(len(b))
    for t in np.unique(changes):
        own = changes == t
        result[own] = 0.0 if t < 0 else sensitivity_at(b[own], c[own], int(t), families, statistic)
    return result


@lru_cache(maxsize=64)
def threshold_beta(
    families: int, threshold: float, statistic: StatisticName = "chi-square"
) -> float:
    """Return the largest β of [SPS Theorem 5], min ln(Δ/LS)/ud over all tables with LS ≤ T. Public.

    For T just below Δ that is [SPS Theorem 4].

    Raises:
        ParameterError: see `threshold_distance`.

    Example:
        >>> round(threshold_beta(150, 6.0), 6) > round(threshold_beta(150, 7.94), 6)
        True
    """
    n = checked_families(families)
    high, low = np.tril_indices(2 * n + 1)
    within = high + low <= 2 * n
    b, c = high[within].astype(np.int64), low[within].astype(np.int64)
    distance = threshold_distance(b, c, n, threshold, statistic)
    outside = distance > 0
    here = local_sensitivity(b[outside], c[outside], n, statistic)
    bounds = np.log(global_sensitivity(n, statistic) / here) / distance[outside]
    return float(bounds.min()) * (1 - 1e-12)


def threshold_bound(
    b: Integers,
    c: Integers,
    families: int,
    threshold: float,
    beta: float,
    statistic: StatisticName = "chi-square",
) -> float:
    """Return max_r Δ e^{−β ud_r}, the β-smooth upper bound of [SPS Theorem 5]. Private.

    Args:
        b: see `local_sensitivity`.
        c: see `local_sensitivity`.
        families: N.
        threshold: T; see `threshold_distance`.
        beta: β > 0, at most `threshold_beta`.
        statistic: see `local_sensitivity`.

    Raises:
        ParameterError: if beta exceeds it, or T is out of range.
    """
    most = threshold_beta(families, threshold, statistic)
    if not 0 < beta <= most:
        raise ParameterError("beta", beta, f"in (0, {most!r}] for T = {threshold:g}")
    distance = threshold_distance(b, c, families, threshold, statistic)
    return global_sensitivity(families, statistic) * float(np.exp(-beta * distance.min()))
