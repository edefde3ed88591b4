"""Sensitivities of the transmission disequilibrium test to one family [SPS §V].

Of N families with two parents each, b heterozygous parents transmitted one allele and c the other:
χ² = (b − c)²/(b + c). Neighbouring databases differ in one family, which may change the table
(b, c) of every variant by (i, j) with |i|, |j|, |i + j| ≤ 2. So tables are d = ⌈max(|i|, |j|,
|i + j|)/2⌉ apart [SPS Lemma 3], and the tables within d are the integer points of a hexagon, cut
off by b, c ≥ 0 and b + c ≤ 2N.

`highest` and `local_sensitivity` evaluate only a few of these tables; docs/selection.md proves that
they suffice.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import ParameterError, PrivateValueError, validation

Array: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

MOST_FAMILIES = 10_000
"""The most families for which two χ² are equal as float64 exactly if they are equal."""


def chi_square(b: ArrayLike, c: ArrayLike) -> Array:
    """Return (b − c)²/(b + c), 0 for an empty table, any shape.

    Example:
        >>> chi_square([139, 0], [57, 0]).round(4).tolist()
        [34.3061, 0.0]
    """
    first, second = np.asarray(b, dtype=np.float64), np.asarray(c, dtype=np.float64)
    return np.asarray((first - second) ** 2 / np.maximum(first + second, 1))


def transmission_distance(
    b: ArrayLike, c: ArrayLike, other_b: ArrayLike, other_c: ArrayLike
) -> Integers:
    """Return the least number of families in which tables differ, broadcast over all arguments.

    Example:
        >>> int(transmission_distance(5, 3, 2, 6))
        2
    """
    i = np.asarray(other_b, dtype=np.int64) - np.asarray(b, dtype=np.int64)
    j = np.asarray(other_c, dtype=np.int64) - np.asarray(c, dtype=np.int64)
    norm = np.maximum(np.maximum(np.abs(i), np.abs(j)), np.abs(i + j))
    return np.asarray(-(-norm // 2))


def highest(b: Integers, c: Integers, changes: int, families: int) -> Array:
    """Return the largest χ² within d changes of the tables of N families, shape (m,)."""
    reach, most = 2 * changes, 2 * families
    ends_b = np.maximum(b - reach, 0), np.minimum(b + reach, most)
    ends_c = np.maximum(c - reach, 0), np.minimum(c + reach, most)
    ends_s = np.maximum(b + c - reach, 0), np.minimum(b + c + reach, most)
    vertices = [(x, y) for x in ends_b for y in ends_c]
    vertices += [(x, s - x) for x in ends_b for s in ends_s]
    vertices += [(s - y, y) for y in ends_c for s in ends_s]
    best = np.zeros(len(b))
    for x, y in vertices:
        inside = (x >= ends_b[0]) & (x <= ends_b[1]) & (y >= ends_c[0]) & (y <= ends_c[1])
        inside &= (x + y >= ends_s[0]) & (x + y <= ends_s[1])
        best = np.where(inside, np.maximum(best, chi_square(x * inside, y * inside)), best)
    return best


def lowest(b: Integers, c: Integers, changes: int) -> Array:
    """Return the least χ² within d changes of tables, shape (m,); arguments as in `highest`."""
    difference = np.maximum(np.abs(b - c) - 4 * changes, 0).astype(np.float64)
    return np.asarray(difference**2 / np.maximum(b + c, 1))


def checked_families(families: object) -> int:
    """Return N; ParameterError unless it is an integer from 2 to 10,000."""
    return validation.require_count("families", families, 2, MOST_FAMILIES)


def checked_tables(b: ArrayLike, c: ArrayLike, families: int) -> tuple[Integers, Integers]:
    """Return tables as integers, shape (m,), m ≥ 1; PrivateValueError if invalid for N."""
    first, second = np.asarray(b), np.asarray(c)
    if not (
        first.ndim == 1
        and first.size
        and first.shape == second.shape
        and first.dtype.kind in "iu"
        and second.dtype.kind in "iu"
        and min(first.min(), second.min()) >= 0
        and max(first.max(), second.max()) <= 2 * families
        and (first.astype(np.int64) + second.astype(np.int64)).max() <= 2 * families
    ):
        raise PrivateValueError(
            f"tables of at least one variant: integers b, c >= 0 with b + c <= {2 * families}"
        )
    return first.astype(np.int64), second.astype(np.int64)


def global_sensitivity(families: int) -> float:
    """Return Δ = 8(N−1)/N [WJWKYJO17]; N ≥ 2.

    Example:
        >>> round(global_sensitivity(150), 4)
        7.9467
    """
    n = checked_families(families)
    return 8 * (n - 1) / n


def local_sensitivity(b: Integers, c: Integers, families: int) -> Array:
    """Return how far one of N families can move the χ² of each table, shape (m,).

    Example:
        >>> local_sensitivity(np.array([300]), np.array([0]), 150).round(4).tolist()
        [7.9467]
    """
    here = chi_square(b, c)
    return np.maximum(highest(b, c, 1, families) - here, here - lowest(b, c, 1))


def sensitivity_at(b: Integers, c: Integers, changes: int, families: int) -> Array:
    """Return the largest local sensitivity within t ≥ 0 changes of each table, shape (m,)."""
    if changes == 0:
        return local_sensitivity(b, c, families)
    x, y = most_sensitive(b, c, changes, families)
    local = local_sensitivity(x.ravel(), y.ravel(), families)
    return np.asarray(local.reshape(x.shape).max(axis=0))


def most_sensitive(
    b: Integers, c: Integers, changes: int | Integers, families: int
) -> tuple[Integers, Integers]:
    """Return tables within t changes, one of which has the largest local sensitivity there.

    t is one number or one per table, shape (m,). The resulting b and c have shape (candidates, m).
    """
    high, low = np.maximum(b, c), np.minimum(b, c)
    reach = 2 * np.asarray(changes)
    x, y = _candidates(high, low, reach, 2 * families)
    inside = (x >= 0) & (np.abs(x - high) <= reach)
    inside &= np.abs(x + y - high - low) <= reach
    # The table itself replaces candidates outside the range.
    return np.where(inside, x, high), np.where(inside, y, low)


def _candidates(
    high: Integers, low: Integers, reach: Integers, most: int
) -> tuple[Integers, Integers]:
    """Return tables that may have the largest local sensitivity, shapes (candidates, m)."""
    total = high + low
    xs, ys = [high], [low]
    for target in (0, 1, 2):
        y = np.clip(target, low - reach, low + reach)
        top = np.minimum(np.minimum(high + reach, total + reach - y), most - y)
        xs += [top, np.minimum(total - y, top)]
        ys += [y, y]
    return np.stack(xs), np.stack(ys)


class SensitivityProfile:
    """max_r LS_r(t) of m tables in N families for every t, to evaluate S(β) quickly. Private.

    Example:
        >>> profile = SensitivityProfile(np.array([60, 75]), np.array([50, 40]), 150)
        >>> profile
        SensitivityProfile(150 families, values not shown)
        >>> [round(profile.smooth(beta), 4) for beta in (0.01, 0.05, 1.0)]
        [6.5006, 3.251, 2.5739]
    """

    def __init__(self, b: Integers, c: Integers, families: int) -> None:
        self.families = families
        high, low = np.unique(np.stack([np.maximum(b, c), np.minimum(b, c)]), axis=1)
        most = global_sensitivity(families)
        profile = []
        for changes in range(families + 1):
            profile.append(float(sensitivity_at(high, low, changes, families).max()))
            if profile[-1] >= most * (1 - 1e-12):
                break
        self._profile = np.maximum.accumulate(profile)

    def smooth(self, beta: float) -> float:
        """Return the smooth sensitivity max_t e^{−βt} max_r LS_r(t); ParameterError if β ≤ 0."""
        rate = validation.positive("beta", beta)
        return float((np.exp(-rate * np.arange(len(self._profile))) * self._profile).max())

    def __repr__(self) -> str:
        return f"SensitivityProfile({self.families} families, values not shown)"


_BLOCK = 1 << 13
"""Tables processed together."""
_STRIDE = 64
"""One in this many tables determines a first β; most others then need only a check."""


def threshold_distance(b: Integers, c: Integers, families: int, threshold: float) -> Integers:
    """Return ud, each table's distance in families to one with LS > T, shape (m,).

    It bisects, since the largest local sensitivity within t changes grows with t; 0 ≤ T < Δ.

    Raises:
        ParameterError: if no table has a local sensitivity above T.

    Example:
        >>> threshold_distance(np.array([100, 75]), np.array([0, 75]), 150, 6.0).tolist()
        [0, 28]
    """
    at = _checked_threshold(threshold, families)

    def beyond(x: Integers, y: Integers) -> NDArray[np.bool_]:
        return local_sensitivity(x.ravel(), y.ravel(), families).reshape(x.shape) > at

    return _distance(b, c, families, beyond)


def _checked_threshold(threshold: float, families: int) -> float:
    most = global_sensitivity(families)
    at = validation.non_negative("threshold", threshold)
    if at >= most:
        raise ParameterError("threshold", threshold, f"below the global sensitivity, {most:g}")
    return at


def _distance(
    b: Integers,
    c: Integers,
    families: int,
    beyond: Callable[[Integers, Integers], NDArray[np.bool_]],
) -> Integers:
    """Return ud, shape (m,), where `beyond` says which tables have LS > T."""
    # Tables are at most N apart: low < ud <= high throughout.
    low, high = np.full(len(b), -1), np.full(len(b), families)
    while (high - low > 1).any():
        middle = np.maximum((low + high) // 2, 0)
        reached = beyond(*most_sensitive(b, c, middle, families)).any(axis=0)
        high = np.where(reached, middle, high)
        low = np.where(reached, low, middle)
    return high


@lru_cache(maxsize=64)
def threshold_beta(families: int, threshold: float) -> float:
    """Return the largest β of [SPS Theorem 5], min ln(Δ/LS)/ud over all tables with LS ≤ T. Public.

    For T just below Δ this is [SPS Theorem 4]. It is infinite if all tables have LS > T. There are
    N² tables by symmetry: 10 ms for 150 families, half a second for 1,000.

    Raises:
        ParameterError: if no table has a local sensitivity above T.

    Example:
        >>> round(threshold_beta(150, 6.0), 6) > round(threshold_beta(150, 7.94), 6)
        True
    """
    n = checked_families(families)
    at = _checked_threshold(threshold, n)
    sizes = np.minimum(np.arange(2 * n + 1), 2 * n - np.arange(2 * n + 1)) + 1
    starts = np.cumsum(sizes) - sizes
    b = np.repeat(np.arange(2 * n + 1), sizes)
    c = np.arange(len(b)) - starts[b]
    parts = [slice(start, start + _BLOCK) for start in range(0, len(b), _BLOCK)]
    local = np.concatenate([local_sensitivity(b[part], c[part], n) for part in parts])
    large = local > at

    def beyond(x: Integers, y: Integers) -> NDArray[np.bool_]:
        return np.asarray(large[starts[np.maximum(x, y)] + np.minimum(x, y)])

    inside = np.flatnonzero(~large)
    if not len(inside):
        return math.inf
    logs = np.log(global_sensitivity(n) / local)

    def least_of(tables: NDArray[np.intp]) -> float:
        distance = _distance(b[tables], c[tables], n, beyond)
        return float((logs[tables] / distance).min())

    least = least_of(inside[::_STRIDE])
    for start in range(0, len(inside), _BLOCK):
        here = inside[start : start + _BLOCK]
        # Only a table farther than this from all tables beyond T permits a smaller β.
        reach = np.minimum(logs[here] / least, n).astype(np.int64)
        near = beyond(*most_sensitive(b[here], c[here], reach, n)).any(axis=0)
        if not near.all():
            least = min(least, least_of(here[~near]))
    return least * (1 - 1e-12)


def threshold_bound(
    b: Integers,
    c: Integers,
    families: int,
    threshold: float,
    beta: float,
) -> float:
    """Return max_r Δ e^{−β ud_r}, the β-smooth upper bound of [SPS Theorem 5]. Private.

    Raises:
        ParameterError: unless β is in (0, `threshold_beta`] and T in [0, Δ).
    """
    most = threshold_beta(families, threshold)
    if not 0 < beta <= most:
        raise ParameterError("beta", beta, f"in (0, {most!r}] for T = {threshold:g}")
    distance = threshold_distance(b, c, families, threshold)
    return global_sensitivity(families) * float(np.exp(-beta * distance.min()))
