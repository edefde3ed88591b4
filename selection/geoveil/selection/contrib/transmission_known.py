"""What selection may know of the transmission tables of one database."""

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.selection.contrib.transmission import (
    STATISTICS,
    StatisticName,
    checked_families,
    checked_tables,
    chi_square,
    highest,
    lowest,
)
from geoveil.selection.contrib.transmission_sensitivity import (
    SensitivityProfile,
    sensitivity_at,
)
from geoveil.selection.contrib.transmission_threshold import threshold_bound
from geoveil.selection.scores import LocalUtilities, Margin, SmoothUtilities, Utilities

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

COVER = 1 + 1e-9
"""Sensitivities are larger by this factor than computed, to cover the rounding of float64."""


class Transmission:
    """The tables (b, c) of m variants in N families. All but m and N is private.

    Args:
        b: transmissions of one allele by heterozygous parents, integers, shape (m,).
        c: of the other allele, shape (m,).
        families: N, 2 to 10,000.

    Raises:
        ParameterError: if `families` is out of range.
        PrivateValueError: if b and c are no tables of N families.

    Example:
        >>> known = Transmission([139, 150, 36], [57, 69, 105], families=215)
        >>> known
        Transmission(3 variants, 215 families, values not shown)
        >>> known.winner, known.margin  # 34.31 and 33.77, far from each other in families
        (0, 1)
    """

    def __init__(self, b: ArrayLike, c: ArrayLike, families: int) -> None:
        self.families = checked_families(families)
        self._b, self._c = checked_tables(b, c, self.families)
        self._profiles: dict[StatisticName, SensitivityProfile] = {}

    @property
    def outcomes(self) -> int:
        """m: how many variants there are. Public."""
        return len(self._b)

    @cached_property
    def winner(self) -> int:
        """The variant of the largest χ², the first of them. Private."""
        return int(np.argmax(chi_square(self._b, self._c)))

    @cached_property
    def distances(self) -> Integers:
        """In how many families it takes a change to let each variant have the largest χ². Private.

        Variant r can have it within t changes if its highest χ² reaches the lowest of every other.
        All tables can change at once, because a family may have any genotypes.
        """
        result = np.full(self.outcomes, -1)
        if self.outcomes == 1:
            return np.zeros_like(result)
        for changes in range(self.families + 1):
            low = lowest(self._b, self._c, changes)
            first = int(np.argmax(low))
            rivals = np.full(self.outcomes, low[first])
            rivals[first] = np.delete(low, first).max()
            can = highest(self._b, self._c, changes, self.families) >= rivals
            result = np.where((result < 0) & can, changes, result)
            if (result >= 0).all():
                break
        return result

    @property
    def margin(self) -> int:
        """j: how many families it takes to let another variant draw level. Private."""
        if self.outcomes == 1:
            return 0
        return int(np.delete(self.distances, self.winner).min())

    def profile(self, statistic: StatisticName) -> SensitivityProfile:
        """Return the local sensitivities here and near by. Private."""
        if statistic not in self._profiles:
            self._profiles[statistic] = SensitivityProfile(
                self._b, self._c, self.families, statistic
            )
        return self._profiles[statistic]

    def as_statistic(self, statistic: StatisticName = "chi-square") -> Utilities:
        """Return the statistic of every variant."""
        return Utilities(self._values(statistic))

    def as_local(self, statistic: StatisticName = "chi-square") -> LocalUtilities:
        """Return the statistic with its local sensitivities at t changes, of each variant."""
        return LocalUtilities(
            self._values(statistic),
            lambda t: (
                COVER
                * sensitivity_at(self._b, self._c, min(t, self.families), self.families, statistic)
            ),
        )

    def as_smooth(self, beta: float, statistic: StatisticName = "chi-square") -> SmoothUtilities:
        """Return the statistic with its smooth sensitivity.

        Raises:
            ParameterError: if beta is not > 0.
        """
        bound = self.profile(statistic).smooth(beta)
        return SmoothUtilities(self._values(statistic), COVER * bound, beta=beta)

    def as_threshold(
        self, beta: float, threshold: float, statistic: StatisticName = "chi-square"
    ) -> SmoothUtilities:
        """Return the statistic with the bound of [SPS Theorem 5].

        Raises:
            ParameterError: if beta or the threshold is out of range.
        """
        bound = threshold_bound(self._b, self._c, self.families, threshold, beta, statistic)
        return SmoothUtilities(self._values(statistic), COVER * bound, beta=beta)

    def as_margin(self) -> Margin:
        """Return the winner and its margin."""
        return Margin(self.winner, self.margin, self.outcomes)

    def as_nearness(self) -> Utilities:
        """Return u_r = −(families that let r have the largest χ²): sensitivity 1, a distance's."""
        return Utilities(-self.distances.astype(np.float64))

    def _values(self, statistic: StatisticName) -> Array:
        return STATISTICS[statistic](chi_square(self._b, self._c))

    def __repr__(self) -> str:
        return f"Transmission({self.outcomes} variants, {self.families} families, values not shown)"
