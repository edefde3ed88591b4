"""Privately choose the most significant variant of a transmission disequilibrium test [SPS §V].

`Transmission` holds the tables of one database and scores them, `VARIANT_RECIPES` has the
mechanisms, and `most_significant` makes the choice.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import RandomSource
from geoveil.selection.base import (
    Guarantee,
    LocalUtilities,
    Margin,
    Scores,
    SelectionMechanism,
    SmoothUtilities,
    Utilities,
)
from geoveil.selection.contrib.recipe import SelectionRecipe, by_beta, plain, recipe_named
from geoveil.selection.contrib.transmission_sensitivity import (
    SensitivityProfile,
    checked_families,
    checked_tables,
    chi_square,
    global_sensitivity,
    highest,
    lowest,
    sensitivity_at,
    threshold_beta,
    threshold_bound,
)
from geoveil.selection.global_sensitivity import ExponentialMechanism, PermuteAndFlip
from geoveil.selection.local_dampening import LocalDampening
from geoveil.selection.one_sided import ExponentialPareto, HalfGeneralizedCauchy
from geoveil.selection.smooth import SmoothNoisyMax, SmoothPrivateSelection
from geoveil.selection.smooth_privacy import scale_price
from geoveil.selection.stability import StabilityMechanism
from geoveil.selection.two_sided import HeavyGeneralizedCauchy

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

COVER = 1 + 1e-9
"""The factor on computed sensitivities that covers float64's rounding."""


class Transmission:
    """The tables (b, c) of m variants in N families. Everything except m and N is private.

    Args:
        b: transmissions of one allele by heterozygous parents, integers, shape (m,).
        c: transmissions of the other allele, shape (m,).
        families: N, 2 to 10,000.

    Raises:
        ParameterError: if `families` is out of range.
        PrivateValueError: if b and c are impossible for N families.

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

    @property
    def outcomes(self) -> int:
        """m, the number of variants. Public."""
        return len(self._b)

    @cached_property
    def winner(self) -> int:
        """The first variant with the largest χ². Private."""
        return int(np.argmax(chi_square(self._b, self._c)))

    @cached_property
    def distances(self) -> Integers:
        """The number of families to change for each variant to have the largest χ². Private.

        Variant r can have it within t changes if its highest χ² reaches every other's lowest, since
        changing a family may change all tables.
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
        """j, the number of families to change for another variant to draw level. Private."""
        if self.outcomes == 1:
            return 0
        return int(np.delete(self.distances, self.winner).min())

    @cached_property
    def profile(self) -> SensitivityProfile:
        """The local sensitivities of this and nearby tables. Private."""
        return SensitivityProfile(self._b, self._c, self.families)

    def as_statistic(self) -> Utilities:
        """Return the χ² of every variant."""
        return Utilities(chi_square(self._b, self._c))

    def as_local(self) -> LocalUtilities:
        """Return χ² with each variant's local sensitivities at t changes."""

        def at(changes: int) -> Array:
            reach = min(changes, self.families)
            return COVER * sensitivity_at(self._b, self._c, reach, self.families)

        return LocalUtilities(chi_square(self._b, self._c), at)

    def as_smooth(self, beta: float) -> SmoothUtilities:
        """Return χ² with its smooth sensitivity; ParameterError unless β > 0."""
        bound = self.profile.smooth(beta)
        return SmoothUtilities(chi_square(self._b, self._c), COVER * bound, beta=beta)

    def as_threshold(self, beta: float, threshold: float) -> SmoothUtilities:
        """Return χ² with its [SPS Theorem 5] bound; ParameterError for bad arguments."""
        bound = threshold_bound(self._b, self._c, self.families, threshold, beta)
        return SmoothUtilities(chi_square(self._b, self._c), COVER * bound, beta=beta)

    def as_margin(self) -> Margin:
        """Return the winner and its margin."""
        return Margin(self.winner, self.margin, self.outcomes)

    def as_nearness(self) -> Utilities:
        """Return u_r = −(families to change for r to have the largest χ²), of sensitivity 1."""
        return Utilities(-self.distances.astype(np.float64))

    def __repr__(self) -> str:
        return f"Transmission({self.outcomes} variants, {self.families} families, values not shown)"


@dataclass(frozen=True, slots=True)
class StudySetting:
    """The public facts of a study: m variants in N families."""

    variants: int
    families: int


VariantRecipe: TypeAlias = SelectionRecipe[StudySetting, Transmission]

_NOISE = ExponentialPareto(4.0)
"""It has nearly the best tail index from 1 to 12, for 5 to 1,000 variants and ε from 3 to 21."""
THRESHOLD = 6.0
"""T of [SPS Theorem 5], as in the paper."""
_MOST_SHARE = 0.5
"""The largest share of ε for changes of scale."""


def largest(families: int) -> float:
    """Return a T just below Δ, for which [SPS Theorem 5] equals [SPS Theorem 4]."""
    return global_sensitivity(families) * (1 - 1e-9)


def _at_threshold(
    kind: Callable[..., SelectionMechanism],
    noise: HeavyGeneralizedCauchy | HalfGeneralizedCauchy,
    price: Callable[[int], float],
    threshold: Callable[[int], float],
) -> VariantRecipe:
    """Return [SPS Theorem 5] with a threshold by N, its largest β, and a price of β by m."""

    def build(epsilon: float, s: StudySetting) -> SelectionMechanism:
        beta = threshold_beta(s.families, threshold(s.families))
        share = min(_MOST_SHARE, beta * price(s.variants) / epsilon)
        return kind(epsilon, s.variants, noise, share=share)

    def score(known: Transmission, beta: float) -> Scores:
        at = threshold(known.families)
        return known.as_threshold(min(beta, threshold_beta(known.families, at)), at)

    return SelectionRecipe(build, by_beta(score))


_WHOLE, _HALF = HeavyGeneralizedCauchy(4.0), HalfGeneralizedCauchy(4.0)
_two_sided = partial(
    _at_threshold, SmoothPrivateSelection, _WHOLE, lambda variants: _WHOLE.scale_cost * variants
)
"""[SPS cases I, III], noise 1/(1 + z⁴)."""
_one_sided = partial(
    _at_threshold, SmoothNoisyMax, _HALF, lambda variants: float(scale_price(_HALF, variants))
)
"""[SPS cases II, IV, as proved here], half of that noise."""


@lru_cache(maxsize=64)
def _planned_profile(setting: StudySetting) -> SensitivityProfile:
    """Return the profile of a public table: the most significant of m variants without linkage.

    Two parents in three are heterozygous; |b − c| is about √(2 (b + c) ln m).
    """
    total = 4 * setting.families // 3
    lead = min(round(math.sqrt(2 * total * math.log(max(setting.variants, 2)))), total)
    b = (total + lead) // 2
    return SensitivityProfile(np.array([b]), np.array([total - b]), setting.families)


def _planned(epsilon: float, s: StudySetting) -> SmoothNoisyMax:
    return SmoothNoisyMax.planned(epsilon, s.variants, _planned_profile(s).smooth, _NOISE)


def _safe_sensitivity(setting: StudySetting) -> float:
    return COVER * global_sensitivity(setting.families)


VARIANT_RECIPES: Mapping[str, VariantRecipe] = MappingProxyType(
    {
        "exponential": plain(ExponentialMechanism, Transmission.as_statistic, _safe_sensitivity),
        "permute-and-flip": plain(PermuteAndFlip, Transmission.as_statistic, _safe_sensitivity),
        "two-sided, theorem 4": _two_sided(largest),
        "two-sided, theorem 5": _two_sided(lambda _: THRESHOLD),
        "one-sided, theorem 4": _one_sided(largest),
        "one-sided, theorem 5": _one_sided(lambda _: THRESHOLD),
        "smooth noisy max": SelectionRecipe(_planned, by_beta(Transmission.as_smooth)),
        "local dampening": plain(LocalDampening, Transmission.as_local, _safe_sensitivity),
        "stability": plain(StabilityMechanism, Transmission.as_margin),
        "permute-and-flip, nearness": plain(
            PermuteAndFlip, Transmission.as_nearness, sensitivity=1.0
        ),
    }
)
"""Name → recipe."""


@dataclass(frozen=True, slots=True)
class SignificantVariant:
    """The index of a privately chosen variant, and the guarantee for one changed family."""

    index: int
    guarantee: Guarantee


def most_significant(
    b: ArrayLike,
    c: ArrayLike,
    families: int,
    *,
    epsilon: float,
    mechanism: str = "permute-and-flip, nearness",
    source: RandomSource | None = None,
) -> SignificantVariant:
    """Return a variant that is likely to have the largest χ² of a transmission test.

    The caller is trusted with the genotypes; the variants and the number of families are public.

    Args:
        b: transmissions of one allele by heterozygous parents, integers, shape (m,).
        c: transmissions of the other allele, shape (m,).
        families: N, 2 to 10,000, with two parents each: b + c ≤ 2N.
        epsilon: ε > 0, nats per family changed.
        mechanism: a name in `VARIANT_RECIPES`.

    Raises:
        ParameterError: if a public argument is out of range.
        PrivateValueError: if b and c are impossible for N families.

    Example:
        >>> from geoveil.gp import SeededSource
        >>> most_significant([90, 75, 139], [85, 70, 57], 215, epsilon=3.0,
        ...                  source=SeededSource(1)).index
        2
    """
    recipe = recipe_named(VARIANT_RECIPES, mechanism)
    checked_families(families)
    study = Transmission(b, c, families)
    selection = recipe.build(epsilon, StudySetting(study.outcomes, families))
    index = selection.select(recipe.score(study, selection), source)
    return SignificantVariant(index, selection.guarantee)
