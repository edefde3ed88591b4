"""Choices by counts, which one record moves by 1: labels of leaves, attributes of nodes.

They take a table, shape (rows, outcomes), and return probabilities of the same shape.

*Smooth noisy max as published* [SNM]: Algorithm 1 and, for utilities that say who wins, S = e^{−εk}
of Proposition 6.4 and Theorem 7.3. S drops β, and so is neither smooth enough nor, at a lead k of
1, an upper bound.
"""

import math
import warnings
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.audit.selection import Selects
from geoveil.gp import validation
from geoveil.gp.noise.base import Laplace, Noise
from geoveil.selection import (
    ExponentialMechanism,
    HeavyStudentT,
    LaplaceLogNormal,
    PermuteAndFlip,
    PublishedCalibrationWarning,
    SmoothNoisyMax,
    SmoothUtilities,
)
from geoveil.selection.base import ScoresLike
from geoveil.selection.contrib.forest import LABEL_RECIPES, LabelName
from geoveil.selection.smooth_privacy import shift_cost, spent
from geoveil.selection.stability import winners_and_margins
from geoveil.simulation.selection.experiment import (
    NOMINAL,
    Array,
    Choice,
    Made,
    Make,
    SelectionContestant,
)

Counts = NDArray[Any]
PairLaw = Callable[[int, int], tuple[float, float]]
"""Probabilities of the winner and of each other outcome, by its lead and the number of outcomes."""
Leads = Callable[[Counts], tuple[NDArray[np.intp], NDArray[np.int64]]]
"""The winner of each row, and how far it is ahead."""


def by_rows(mechanism: Selects) -> Choice:
    """Return a choice by the counts themselves."""
    return lambda rows: np.array([mechanism.probabilities(row) for row in rows])


def directly(
    mechanism: type[ExponentialMechanism | PermuteAndFlip], *, monotone: bool, costs: float = 1.0
) -> Make:
    """Return a choice by the counts themselves, or by any utilities of sensitivity 1."""
    return lambda epsilon, _: Made(
        by_rows(mechanism(epsilon, 1.0, monotone=monotone)), costs * epsilon
    )


def best(rows: Counts) -> Array:
    """Return certainty of the first of the largest: a choice without privacy."""
    return np.asarray(np.eye(rows.shape[1])[rows.argmax(axis=1)])


def pair_law(mechanism: Selects, scores: Callable[[int, int], ScoresLike]) -> PairLaw:
    """Return the law of a mechanism that treats all outcomes but the winner alike, cached.

    Its scores, where the first of the outcomes wins, are a function of lead and number as well.
    """

    @cache
    def law(lead: int, outcomes: int) -> tuple[float, float]:
        if outcomes == 1:
            return 1.0, 0.0
        found = mechanism.probabilities(scores(lead, outcomes))
        return float(found[0]), float(found[-1])

    return law


def by_lead(law: PairLaw, leads: Leads = winners_and_margins) -> Choice:
    """Return a choice by how far the winner is ahead: by its margin, if nothing else is said."""

    def probabilities(counts: Counts) -> Array:
        outcomes = counts.shape[1]
        winners, ahead = leads(counts)
        distinct, back = np.unique(ahead, return_inverse=True)
        pairs = np.array([law(lead, outcomes) for lead in distinct.tolist()])[back]
        result = np.repeat(pairs[:, 1:], outcomes, axis=1)
        result[np.arange(len(winners)), winners] = pairs[:, 0]
        return result

    return probabilities


def to_the_second(counts: Counts) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return the winner of each row and [SNM Proposition 6.3]'s k, the difference to the second."""
    top = np.sort(counts, axis=1)[:, -2:]
    return counts.argmax(axis=1), (top[:, -1] - top[:, 0]).astype(np.int64)


def by_margin(name: LabelName) -> Make:
    """Return one of `LABEL_RECIPES` that looks at the winner and its margin alone."""
    recipe = LABEL_RECIPES[name]

    def make(epsilon: float, outcomes: int) -> Made:
        mechanism = recipe.build(epsilon, max(outcomes, 2))

        def scores(margin: int, outcomes: int) -> ScoresLike:
            return recipe.score(np.eye(1, outcomes, dtype=np.int64)[0] * (margin - 1), mechanism)

        return Made(by_lead(pair_law(mechanism, scores)), epsilon)

    return make


DELTA = 1e-5
"""The δ of the noises that need one; the paper names none."""

PUBLISHED_NOISE: Mapping[str, Noise] = MappingProxyType(
    {"SNM-T": HeavyStudentT(3.0), "SNM-LAP": Laplace(), "SNM-LLN": LaplaceLogNormal(1.0)}
)
"""Name in the paper → its noise. Of the log-normal scale it gives no σ."""


def delta_of(noise: Noise) -> float:
    """Return δ: 0 where the noise needs none."""
    return 0.0 if math.isfinite(noise.scale_cost) else DELTA


def published_mechanism(epsilon: float, outcomes: int, noise: Noise) -> SmoothNoisyMax:
    """Return Algorithm 1, without the warning: rows say that they are nominal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PublishedCalibrationWarning)
        return SmoothNoisyMax(
            epsilon, outcomes, noise, calibration="published", delta=delta_of(noise)
        )


def published_bound(epsilon: float, outcomes: int, noise: Noise) -> float:
    """Return what is proved of it on who wins, in nats, with `delta_of` the noise.

    e^ε S is ε-smooth and an upper bound of the local sensitivity: the noise is that of α e^ε.
    """
    alpha = epsilon / 2 / float(shift_cost(noise))
    return spent(noise, math.exp(epsilon) * alpha, epsilon, outcomes, delta_of(noise))


@cache
def published_law(epsilon: float, noise: Noise) -> PairLaw:
    """Return the law of [SNM Algorithm 1] on who wins, by [SNM Proposition 6.3]'s k."""
    mechanism = published_mechanism(epsilon, 2**20, noise)

    def scores(lead: int, outcomes: int) -> SmoothUtilities:
        bound = max(float(np.exp(-epsilon * lead)), 1 / validation.FARTHEST)
        return SmoothUtilities(np.eye(outcomes)[0], bound, beta=mechanism.beta)

    return pair_law(mechanism, scores)


def for_each_noise(make: Callable[[Noise, float, int], Made]) -> list[SelectionContestant]:
    """Return the paper's mechanisms, as a function of each noise makes them."""
    return [
        SelectionContestant(name, partial(make, noise), NOMINAL)
        for name, noise in PUBLISHED_NOISE.items()
    ]


def _as_published(noise: Noise, epsilon: float, outcomes: int) -> Made:
    choice = by_lead(published_law(epsilon, noise), to_the_second)
    return Made(choice, published_bound(epsilon, outcomes, noise), delta_of(noise))


PUBLISHED = for_each_noise(_as_published)
"""The paper's mechanisms, with what is proved of them."""
