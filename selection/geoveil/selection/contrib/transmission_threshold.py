"""The smooth upper bounds of [SPS Theorems 4 and 5] for a transmission test.

Δ e^{−β ud}, ud being the families that a table differs in from one whose local sensitivity exceeds
T. The exact smooth sensitivity is less, and found as fast; these are the paper's.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import validation
from geoveil.gp.errors import ParameterError
from geoveil.selection.contrib.transmission import StatisticName, checked_families
from geoveil.selection.contrib.transmission_sensitivity import (
    global_sensitivity,
    local_sensitivity,
    most_sensitive,
)

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_BLOCK = 1 << 13
"""Tables that are handled together."""
_STRIDE = 64
"""One table in so many gives a first β, which most others only have to be checked against."""


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
    at = _checked_threshold(threshold, families, statistic)
    return _distance(
        b,
        c,
        families,
        statistic,
        lambda x, y: (
            local_sensitivity(x.ravel(), y.ravel(), families, statistic).reshape(x.shape) > at
        ),
    )


def _checked_threshold(threshold: float, families: int, statistic: StatisticName) -> float:
    most = global_sensitivity(families, statistic)
    at = validation.non_negative("threshold", threshold)
    if at >= most:
        raise ParameterError("threshold", threshold, f"below the global sensitivity, {most:g}")
    return at


def _distance(
    b: Integers,
    c: Integers,
    families: int,
    statistic: StatisticName,
    beyond: Callable[[Integers, Integers], NDArray[np.bool_]],
) -> Integers:
    """Return ud, shape (m,), given which tables have LS > T."""
    # No table is farther than N from any other: low < ud <= high throughout.
    low, high = np.full(len(b), -1), np.full(len(b), families)
    while (high - low > 1).any():
        middle = np.maximum((low + high) // 2, 0)
        reached = beyond(*most_sensitive(b, c, middle, families, statistic)).any(axis=0)
        high = np.where(reached, middle, high)
        low = np.where(reached, low, middle)
    return high


@lru_cache(maxsize=64)
def threshold_beta(
    families: int, threshold: float, statistic: StatisticName = "chi-square"
) -> float:
    """Return the largest β of [SPS Theorem 5], min ln(Δ/LS)/ud over all tables with LS ≤ T. Public.

    For T just below Δ that is [SPS Theorem 4]. Infinite where all tables have LS > T. There are
    N² tables, b and c alike: 10 ms for 150 families, half a second for 1,000.

    Raises:
        ParameterError: see `threshold_distance`.

    Example:
        >>> round(threshold_beta(150, 6.0), 6) > round(threshold_beta(150, 7.94), 6)
        True
    """
    n = checked_families(families)
    at = _checked_threshold(threshold, n, statistic)
    sizes = np.minimum(np.arange(2 * n + 1), 2 * n - np.arange(2 * n + 1)) + 1
    starts = np.cumsum(sizes) - sizes
    b = np.repeat(np.arange(2 * n + 1), sizes)
    c = np.arange(len(b)) - starts[b]
    parts = [slice(start, start + _BLOCK) for start in range(0, len(b), _BLOCK)]
    local = np.concatenate([local_sensitivity(b[part], c[part], n, statistic) for part in parts])
    large = local > at

    def beyond(x: Integers, y: Integers) -> NDArray[np.bool_]:
        return np.asarray(large[starts[np.maximum(x, y)] + np.minimum(x, y)])

    inside = np.flatnonzero(~large)
    if not len(inside):
        return math.inf
    logs = np.log(global_sensitivity(n, statistic) / local)

    def least_of(tables: NDArray[np.intp]) -> float:
        distance = _distance(b[tables], c[tables], n, statistic, beyond)
        return float((logs[tables] / distance).min())

    least = least_of(inside[::_STRIDE])
    for start in range(0, len(inside), _BLOCK):
        here = inside[start : start + _BLOCK]
        # Only a table that is farther than this from all beyond T permits less.
        reach = np.minimum(logs[here] / least, n).astype(np.int64)
        near = beyond(*most_sensitive(b[here], c[here], reach, n, statistic)).any(axis=0)
        if not near.all():
            least = min(least, least_of(here[~near]))
    return least * (1 - 1e-12)


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
