"""The mechanisms that the tree experiment compares, and what each really costs.

Each is split into what a node's utilities are, which no ε changes, and the probabilities that a
mechanism makes of them: an experiment over many ε computes the first once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.noise.base import Noise
from geoveil.selection import (
    ExponentialMechanism,
    Margin,
    PermuteAndFlip,
    SmoothNoisyMax,
    StabilityMechanism,
)
from geoveil.selection.stability import count_margin, indicator_utilities
from geoveil.simulation.selection.accuracy import Choice, Contestant
from geoveil.simulation.selection.published import (
    PUBLISHED_NOISE,
    delta_of,
    published_bound,
    published_law,
    winner_and_other,
)
from geoveil.simulation.selection.rows import NOMINAL

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeContestant(Contestant):
    """A way to choose an attribute.

    Args:
        utilities: of a node's attributes: a criterion, dampened or not; one of `KINDS`.
    """

    utilities: str


def _exponential(epsilon: float, attributes: int) -> Choice:
    return ExponentialMechanism(epsilon, 1.0).probabilities


def _monotone_exponential(epsilon: float, attributes: int) -> Choice:
    return ExponentialMechanism(epsilon, 1.0, monotone=True).probabilities


def _permute_and_flip(epsilon: float, attributes: int) -> Choice:
    return PermuteAndFlip(epsilon, 1.0, monotone=True).probabilities


def _stability(epsilon: float, attributes: int) -> Choice:
    mechanism = StabilityMechanism(epsilon)
    return lambda values: mechanism.probabilities(count_margin(values))


@cache
def _smooth(epsilon: float, attributes: int) -> Choice:
    mechanism = SmoothNoisyMax(epsilon, max(attributes, 2))

    @cache
    def by_margin(margin: int, outcomes: int) -> tuple[float, float]:
        scores = indicator_utilities(Margin(0, margin, outcomes), mechanism.beta)
        return winner_and_other(mechanism.probabilities(scores))

    return lambda values: _spread(count_margin(values), by_margin)


def _published_smooth(noise: Noise) -> Callable[[float, int], Choice]:
    def choice(epsilon: float, attributes: int) -> Choice:
        law = published_law(epsilon, noise)
        return lambda values: _spread(_published_margin(values), law)

    return choice


def _published_margin(values: Array) -> Margin:
    """Return [SNM Proposition 6.3]'s k, the difference to the second."""
    if len(values) == 1:
        return Margin(0, 0, 1)
    second, first = np.sort(values)[-2:]
    return Margin(int(values.argmax()), int(first - second), len(values))


def _spread(margin: Margin, law: Callable[[int, int], tuple[float, float]]) -> Array:
    if margin.outcomes == 1:
        return np.ones(1)
    winner, other = law(margin.margin, margin.outcomes)
    result = np.full(margin.outcomes, other)
    result[margin.winner] = winner
    return result


def _half(epsilon: float, attributes: int) -> float:
    """Return the cost of noise for utilities that move apart, where they move in one direction."""
    return epsilon / 2


CONTESTANTS: Sequence[TreeContestant] = (
    TreeContestant("permute-and-flip, max operator", _permute_and_flip, utilities="max operator"),
    TreeContestant("exponential, max operator", _monotone_exponential, utilities="max operator"),
    TreeContestant("stability, max operator", _stability, utilities="max operator"),
    TreeContestant("smooth noisy max, proved", _smooth, utilities="max operator"),
    TreeContestant("permute-and-flip, gini", _permute_and_flip, utilities="gini"),
    TreeContestant(
        "permute-and-flip, information gain", _permute_and_flip, utilities="information gain"
    ),
    TreeContestant("local dampening", _exponential, utilities="dampened information gain"),
    TreeContestant(
        "local dampening, replaced",
        _exponential,
        utilities="dampened information gain, largest",
    ),
    TreeContestant(
        "shifted local dampening", _exponential, utilities="shifted dampened information gain"
    ),
    TreeContestant(
        "exponential, information gain",
        _exponential,
        proved=_half,
        standing=NOMINAL,
        utilities="information gain",
    ),
    *(
        TreeContestant(
            name,
            _published_smooth(noise),
            proved=partial(published_bound, noise=noise),
            standing=NOMINAL,
            delta=delta_of(noise),
            utilities="max operator",
        )
        for name, noise in PUBLISHED_NOISE.items()
    ),
)
