"""The mechanisms that can choose the most significant variant of a transmission test."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from geoveil.selection.base import SelectionMechanism
from geoveil.selection.contrib.method import Method
from geoveil.selection.contrib.transmission import StatisticName
from geoveil.selection.contrib.transmission_known import COVER, Transmission
from geoveil.selection.contrib.transmission_sensitivity import (
    SensitivityProfile,
    global_sensitivity,
)
from geoveil.selection.contrib.transmission_threshold import threshold_beta
from geoveil.selection.exponential import ExponentialMechanism
from geoveil.selection.local_dampening import LocalDampening
from geoveil.selection.one_sided_half import HalfGeneralizedCauchy
from geoveil.selection.one_sided_pareto import ExponentialPareto
from geoveil.selection.one_sided_theorem import scale_price
from geoveil.selection.permute_and_flip import PermuteAndFlip
from geoveil.selection.scores import Scores
from geoveil.selection.smooth_noise import HeavyGeneralizedCauchy
from geoveil.selection.smooth_noisy_max import SmoothNoisyMax
from geoveil.selection.smooth_private_selection import SmoothPrivateSelection
from geoveil.selection.smooth_selection import SmoothSelection
from geoveil.selection.stability import StabilityMechanism


@dataclass(frozen=True, slots=True)
class StudySetting:
    """What is public of a study.

    Attributes:
        variants: m.
        families: N.
    """

    variants: int
    families: int


VariantMethod: TypeAlias = Method[StudySetting, Transmission]

_NOISE: Mapping[StatisticName, ExponentialPareto] = MappingProxyType(
    {"chi-square": ExponentialPareto(4.0), "root": ExponentialPareto(6.0)}
)
"""Best, or nearly, of tail indices from 1 to 12 for 5 to 1,000 variants and ε from 3 to 21."""
THRESHOLD = 6.0
"""T of [SPS Theorem 5], as in the paper."""
_MOST_SHARE = 0.5
"""Of ε that pays for changes of scale."""


def largest(families: int) -> float:
    """Return a T just below Δ, for which [SPS Theorem 5] is [SPS Theorem 4]."""
    return global_sensitivity(families) * (1 - 1e-9)


def _share(epsilon: float, price: float, families: int, threshold: float) -> float:
    """Return the part of ε that pays for the largest β that the threshold permits."""
    return min(_MOST_SHARE, threshold_beta(families, threshold) * price / epsilon)


def two_sided(threshold: Callable[[int], float]) -> VariantMethod:
    """Return smooth private selection with 1/(1 + z⁴) and a threshold, by N [SPS cases I, III]."""
    noise = HeavyGeneralizedCauchy(4.0)

    def set_up(epsilon: float, s: StudySetting) -> SmoothPrivateSelection:
        price = noise.scale_cost * s.variants
        part = _share(epsilon, price, s.families, threshold(s.families))
        return SmoothPrivateSelection(epsilon, s.variants, noise, share=part)

    return Method(set_up, _at_threshold(threshold))


def one_sided(threshold: Callable[[int], float]) -> VariantMethod:
    """Return smooth noisy max with the half of that noise [SPS cases II, IV, as proved here]."""
    noise = HalfGeneralizedCauchy(4.0)

    def set_up(epsilon: float, s: StudySetting) -> SmoothNoisyMax:
        price = float(scale_price(noise, s.variants))
        part = _share(epsilon, price, s.families, threshold(s.families))
        return SmoothNoisyMax(epsilon, s.variants, noise, share=part)

    return Method(set_up, _at_threshold(threshold))


def _at_threshold(
    threshold: Callable[[int], float],
) -> Callable[[Transmission, SelectionMechanism], Scores]:
    def tell(known: Transmission, mechanism: SelectionMechanism) -> Scores:
        assert isinstance(mechanism, SmoothSelection)
        at = threshold(known.families)
        return known.as_threshold(min(mechanism.beta, threshold_beta(known.families, at)), at)

    return tell


@lru_cache(maxsize=64)
def _planned_profile(setting: StudySetting, statistic: StatisticName) -> SensitivityProfile:
    """Return the profile of a table that is public: the largest of m without any linkage.

    Two parents in three are heterozygous; |b − c| is about √(2 (b + c) ln m).
    """
    total = 4 * setting.families // 3
    lead = min(round(math.sqrt(2 * total * math.log(max(setting.variants, 2)))), total)
    b = (total + lead) // 2
    return SensitivityProfile(np.array([b]), np.array([total - b]), setting.families, statistic)


def _smooth(statistic: StatisticName) -> VariantMethod:
    def set_up(epsilon: float, s: StudySetting) -> SmoothNoisyMax:
        planned = _planned_profile(s, statistic).smooth
        return SmoothNoisyMax.planned(epsilon, s.variants, planned, _NOISE[statistic])

    def tell(known: Transmission, mechanism: SelectionMechanism) -> Scores:
        assert isinstance(mechanism, SmoothSelection)
        return known.as_smooth(mechanism.beta, statistic)

    return Method(set_up, tell)


def _global(kind: Callable[[float, float], SelectionMechanism]) -> VariantMethod:
    return Method(
        lambda epsilon, s: kind(epsilon, COVER * global_sensitivity(s.families)),
        lambda known, _: known.as_statistic(),
    )


def _dampened(statistic: StatisticName) -> VariantMethod:
    return Method(
        lambda epsilon, s: LocalDampening(
            epsilon, COVER * global_sensitivity(s.families, statistic)
        ),
        lambda known, _: known.as_local(statistic),
    )


VARIANT_METHODS: Mapping[str, VariantMethod] = MappingProxyType(
    {
        "exponential": _global(ExponentialMechanism),
        "permute-and-flip": _global(PermuteAndFlip),
        "two-sided, theorem 4": two_sided(largest),
        "two-sided, theorem 5": two_sided(lambda _: THRESHOLD),
        "one-sided, theorem 4": one_sided(largest),
        "one-sided, theorem 5": one_sided(lambda _: THRESHOLD),
        "smooth noisy max": _smooth("chi-square"),
        "smooth noisy max, root": _smooth("root"),
        "local dampening": _dampened("chi-square"),
        "local dampening, root": _dampened("root"),
        "stability": Method(
            lambda epsilon, _: StabilityMechanism(epsilon),
            lambda known, _: known.as_margin(),
        ),
        "permute-and-flip, nearness": Method(
            lambda epsilon, _: PermuteAndFlip(epsilon, 1.0),
            lambda known, _: known.as_nearness(),
        ),
    }
)
"""Name → what it is."""
