"""The sensitivity of a transmission test: here, near by, and smoothed [SPS §V].

The largest local sensitivity within t changes of a table with b ≥ c is found at one of a few of the
tables there. For χ² it grows as the table becomes one-sided, so c goes to 0, 1 or 2, and b + c to
its most or stays. For the root it grows as the table empties, so c goes to 0, 1 or 2, and b down
to 0, 2 or 4 at least. Tests compare with all tables of up to 50 families.
"""

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import validation
from geoveil.selection.contrib.transmission import (
    STATISTICS,
    StatisticName,
    checked_families,
    chi_square,
    highest,
    lowest,
)

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


def global_sensitivity(families: int, statistic: StatisticName = "chi-square") -> float:
    """Return Δ: 8(N−1)/N for χ² [WJWKYJO17], 2 for its root; N ≥ 2.

    Example:
        >>> round(global_sensitivity(150), 4), global_sensitivity(150, "root")
        (7.9467, 2.0)
    """
    n = checked_families(families)
    validation.choice("statistic", statistic, STATISTICS)
    return 8 * (n - 1) / n if statistic == "chi-square" else 2.0


def local_sensitivity(
    b: Integers, c: Integers, families: int, statistic: StatisticName = "chi-square"
) -> Array:
    """Return by how much one family can move the statistic of each table, shape (m,).

    Args:
        b: transmissions, shape (m,).
        c: of the other allele, shape (m,).
        families: N.
        statistic: "chi-square" or "root".

    Example:
        >>> local_sensitivity(np.array([300]), np.array([0]), 150).round(4).tolist()
        [7.9467]
    """
    of = STATISTICS[statistic]
    here = of(chi_square(b, c))
    return np.maximum(of(highest(b, c, 1, families)) - here, here - of(lowest(b, c, 1)))


def sensitivity_at(
    b: Integers, c: Integers, changes: int, families: int, statistic: StatisticName = "chi-square"
) -> Array:
    """Return the largest local sensitivity within t changes of each table, shape (m,).

    Args:
        b: see `local_sensitivity`.
        c: see `local_sensitivity`.
        changes: t ≥ 0.
        families: N.
        statistic: see `local_sensitivity`.
    """
    if changes == 0:
        return local_sensitivity(b, c, families, statistic)
    x, y = most_sensitive(b, c, changes, families, statistic)
    found = local_sensitivity(x.ravel(), y.ravel(), families, statistic)
    return np.asarray(found.reshape(x.shape).max(axis=0))


def most_sensitive(
    b: Integers,
    c: Integers,
    changes: int | Integers,
    families: int,
    statistic: StatisticName = "chi-square",
) -> tuple[Integers, Integers]:
    """Return tables within t changes, one of which has the largest local sensitivity there.

    Args:
        b: see `local_sensitivity`.
        c: see `local_sensitivity`.
        changes: t ≥ 0, of all or of each, shape (m,).
        families: N.
        statistic: see `local_sensitivity`.

    Returns:
        b and c of them, each of shape (candidates, m).
    """
    high, low = np.maximum(b, c), np.minimum(b, c)
    reach = 2 * np.asarray(changes)
    x, y = _candidates(high, low, reach, 2 * families, statistic)
    inside = (x >= 0) & (np.abs(x - high) <= reach)
    inside &= np.abs(x + y - high - low) <= reach
    # Where a candidate lies outside, the table itself stands in for it.
    return np.where(inside, x, high), np.where(inside, y, low)


def _candidates(
    high: Integers, low: Integers, reach: Integers, most: int, statistic: StatisticName
) -> tuple[Integers, Integers]:
    """Return where the local sensitivity may be largest, shapes (candidates, m)."""
    total = high + low
    xs, ys = [high], [low]
    for target in (0, 1, 2):
        y = np.clip(target, low - reach, low + reach)
        top = np.minimum(np.minimum(high + reach, total + reach - y), most - y)
        if statistic == "chi-square":
            found = [top, np.minimum(total - y, top)]
        else:
            bottom = np.maximum(high - reach, total - reach - y)
            found = [np.minimum(np.maximum(bottom, least), top) for least in (0, 2, 4)]
        xs += found
        ys += [y] * len(found)
    return np.stack(xs), np.stack(ys)


class SensitivityProfile:
    """Max_r LS_r(t) of one database for every t, from which S(β) is quickly found. Private.

    Args:
        b: see `local_sensitivity`.
        c: see `local_sensitivity`.
        families: N.
        statistic: see `local_sensitivity`.

    Example:
        >>> profile = SensitivityProfile(np.array([60, 75]), np.array([50, 40]), 150)
        >>> profile
        SensitivityProfile(chi-square, 150 families, values not shown)
        >>> [round(profile.smooth(beta), 4) for beta in (0.01, 0.05, 1.0)]
        [6.5006, 3.251, 2.5739]
    """

    def __init__(
        self,
        b: Integers,
        c: Integers,
        families: int,
        statistic: StatisticName = "chi-square",
    ) -> None:
        self.families = families
        self.statistic = statistic
        high, low = np.unique(np.stack([np.maximum(b, c), np.minimum(b, c)]), axis=1)
        most = global_sensitivity(families, statistic)
        profile = []
        for changes in range(families + 1):
            profile.append(float(sensitivity_at(high, low, changes, families, statistic).max()))
            if profile[-1] >= most * (1 - 1e-12):
                break
        self._profile = np.maximum.accumulate(profile)

    def smooth(self, beta: float) -> float:
        """Return the smooth sensitivity max_t e^{−βt} max_r LS_r(t). Private.

        Args:
            beta: β > 0.

        Raises:
            ParameterError: if beta is out of range.
        """
        rate = validation.positive("beta", beta)
        return float((np.exp(-rate * np.arange(len(self._profile))) * self._profile).max())

    def __repr__(self) -> str:
        return f"SensitivityProfile({self.statistic}, {self.families} families, values not shown)"
