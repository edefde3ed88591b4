"""The transmission disequilibrium test: how far one family can move its statistic [SPS §V].

Of N families with two parents each, b heterozygous parents transmitted one allele and c the other:
χ² = (b − c)²/(b + c). Neighbouring databases differ in one family, which may change the table
(b, c) of every variant by (i, j) with |i|, |j|, |i + j| ≤ 2. So tables are d = ⌈max(|i|, |j|,
|i + j|)/2⌉ apart [SPS Lemma 3], and the tables within d are the integer points of a hexagon, cut
off by b, c ≥ 0 and b + c ≤ 2N.

χ² is convex on it. Its maximum lies at a vertex, and vertices are where two of b, c and b + c are
at their ends. Its minimum is max(|b − c| − 4d, 0)²/(b + c): to lower |b − c| by 4d at the same sum
is best, as it grows in |b − c| + u while the sum grows by u.

The root |b − c|/√(b + c) of χ² ranks variants alike. Its local sensitivity is about 4/√(b + c) for
every table with that many heterozygous parents, and takes their loss to grow: far less than that of
χ², about 8|b − c|/(b + c), whose neighbours' is larger by a factor of 1 + 4/|b − c|.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp.errors import ParameterError, PrivateValueError
from geoveil.gp.privacy.rounding import require_count

Array: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
StatisticName: TypeAlias = Literal["chi-square", "root"]

MOST_FAMILIES = 10_000
"""Up to which different χ² differ as float64, and equal ones don't."""
MOVES = tuple(
    (i, j) for i in range(-2, 3) for j in range(-2, 3) if abs(i + j) <= 2 and (i, j) != (0, 0)
)
"""What one family can add to (b, c)."""


def chi_square(b: ArrayLike, c: ArrayLike) -> Array:
    """Return (b − c)²/(b + c), 0 for an empty table, any shape.

    Example:
        >>> chi_square([139, 0], [57, 0]).round(4).tolist()
        [34.3061, 0.0]
    """
    first, second = np.asarray(b, dtype=np.float64), np.asarray(c, dtype=np.float64)
    return np.asarray((first - second) ** 2 / np.maximum(first + second, 1))


STATISTICS: Mapping[StatisticName, Callable[[Array], Array]] = MappingProxyType(
    {"chi-square": lambda square: square, "root": np.sqrt}
)
"""Statistic → what it is of χ²."""


def transmission_distance(
    b: ArrayLike, c: ArrayLike, other_b: ArrayLike, other_c: ArrayLike
) -> Integers:
    """Return in how many families tables must differ, broadcast over all arguments.

    Example:
        >>> int(transmission_distance(5, 3, 2, 6))
        2
    """
    i = np.asarray(other_b, dtype=np.int64) - np.asarray(b, dtype=np.int64)
    j = np.asarray(other_c, dtype=np.int64) - np.asarray(c, dtype=np.int64)
    norm = np.maximum(np.maximum(np.abs(i), np.abs(j)), np.abs(i + j))
    return np.asarray(-(-norm // 2))


def highest(b: Integers, c: Integers, changes: int, families: int) -> Array:
    """Return the largest χ² within some changes of tables, shape (m,).

    Args:
        b: transmissions, shape (m,).
        c: of the other allele, shape (m,).
        changes: d ≥ 0.
        families: N.
    """
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
    """Return the least χ² within some changes of tables, shape (m,); arguments as of `highest`."""
    difference = np.maximum(np.abs(b - c) - 4 * changes, 0).astype(np.float64)
    return np.asarray(difference**2 / np.maximum(b + c, 1))


def checked_families(families: object) -> int:
    """Return N.

    Raises:
        ParameterError: if it is no integer from 2 to 10,000.
    """
    require_count("families", families)
    assert isinstance(families, int)
    if not 2 <= families <= MOST_FAMILIES:
        raise ParameterError("families", families, f"an integer from 2 to {MOST_FAMILIES:,}")
    return families


def checked_tables(b: ArrayLike, c: ArrayLike, families: int) -> tuple[Integers, Integers]:
    """Return tables as arrays of integers, shape (m,) with m ≥ 1.

    Raises:
        PrivateValueError: if they are no tables of N families.
    """
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
