"""The mechanisms that the tree experiment compares, and what each really costs.

Each is split into what a node's utilities are, which no ε changes, and the probabilities that a
mechanism makes of them: an experiment over many ε computes the first once.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import validation
from geoveil.gp.selection import (
    ExponentialMechanism,
    LocalDampening,
    LocalUtilities,
    Margin,
    PermuteAndFlip,
    PublishedCalibrationWarning,
    SmoothNoisyMax,
    SmoothUtilities,
    StabilityMechanism,
)
from geoveil.gp.selection.applications.gain import CRITERIA, NodeCounts, gain_sensitivity
from geoveil.gp.selection.applications.gain_local import gain_sensitivities
from geoveil.gp.selection.applications.gain_margin import count_margin, indicator_utilities
from geoveil.gp.selection.applications.tree_selection import shifted_gain
from geoveil.gp.selection.smooth_noise import HeavyStudentT
from geoveil.gp.selection.smooth_two_sided import sliding_price, spent

Array = NDArray[np.float64]
Choice = Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class Contestant:
    """A way to choose an attribute.

    Args:
        name: of the mechanism and the criterion.
        utilities: of a node's attributes: a criterion, dampened or not.
        choice: from ε and the number of all attributes, probabilities by utilities.
        proved: from ε and the number of attributes, what is proved of a choice; None where it is ε.
        published: whether it is set up as a paper prints it.
    """

    name: str
    utilities: str
    choice: Callable[[float, int], Choice]
    proved: Callable[[float, int], float] | None = None
    published: bool = False


def utilities(kind: str, node: NodeCounts) -> Array:
    """Return one of `KINDS` at a node, shape (attributes,)."""
    return KINDS[kind](node)


def _dampened(node: NodeCounts) -> Array:
    mechanism = LocalDampening(1.0, gain_sensitivity(node.most_records))
    values = CRITERIA["information_gain"].values(node)
    return mechanism.dampened(LocalUtilities(values, gain_sensitivities(node)))


def _shifted(node: NodeCounts) -> Array:
    sensitivity = gain_sensitivity(node.most_records)
    return shifted_gain(node, sensitivity) / sensitivity


def _gain_in_units(node: NodeCounts) -> Array:
    return CRITERIA["information_gain"].values(node) / gain_sensitivity(node.most_records)


def _gini_in_units(node: NodeCounts) -> Array:
    return CRITERIA["gini"].values(node) / 2


KINDS: dict[str, Callable[[NodeCounts], Array]] = {
    "dampened information gain": _dampened,
    "gini": _gini_in_units,
    "information gain": _gain_in_units,
    "max operator": CRITERIA["max_operator"].values,
    "shifted dampened information gain": _shifted,
}
"""Utilities in units of their sensitivity, so that Δ = 1 for all of them."""


def _exponential(epsilon: float, attributes: int) -> Choice:
    return ExponentialMechanism(epsilon, 1.0).probabilities


def _monotone_exponential(epsilon: float, attributes: int) -> Choice:
    return ExponentialMechanism(epsilon, 1.0, monotone=True).probabilities


def _permute_and_flip(epsilon: float, attributes: int) -> Choice:
    return PermuteAndFlip(epsilon, 1.0, monotone=True).probabilities


def _stability(epsilon: float, attributes: int) -> Choice:
    mechanism = StabilityMechanism(epsilon)
    return lambda values: mechanism.probabilities(count_margin(values))


def _smooth(epsilon: float, attributes: int) -> Choice:
    mechanism = SmoothNoisyMax(epsilon, max(attributes, 2))

    @cache
    def by_margin(margin: int, outcomes: int) -> tuple[float, float]:
        scores = indicator_utilities(Margin(0, margin, outcomes), mechanism.beta)
        return _winner_and_other(mechanism.probabilities(scores))

    return lambda values: _spread(count_margin(values), by_margin)


def _published_smooth(epsilon: float, attributes: int) -> Choice:
    law = published_smooth_law(epsilon)
    return lambda values: _spread(_published_margin(values), law)


def _published_margin(values: Array) -> Margin:
    """Return [SNM Proposition 6.3]'s k, the difference to the second."""
    if len(values) == 1:
        return Margin(0, 0, 1)
    second, first = np.sort(values)[-2:]
    return Margin(int(values.argmax()), int(first - second), len(values))


def published_smooth_law(epsilon: float) -> Callable[[int, int], tuple[float, float]]:
    """Return the probabilities of the winner and of each other outcome, as [SNM] prints them.

    Algorithm 1 with Student's t, ν = 3, and S = e^{−εk} of Proposition 6.4 and Theorem 7.3: S drops
    β, and so is neither smooth enough nor, at k = 1, an upper bound.

    Args:
        epsilon: what the paper promises, nats.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PublishedCalibrationWarning)
        mechanism = SmoothNoisyMax(epsilon, 2**20, calibration="published")

    @cache
    def law(gap: int, outcomes: int) -> tuple[float, float]:
        if outcomes == 1:
            return 1.0, 0.0
        bound = max(float(np.exp(-epsilon * gap)), 1 / validation.FARTHEST)
        indicator = np.zeros(outcomes)
        indicator[0] = 1.0
        scores = SmoothUtilities(indicator, bound, beta=mechanism.beta)
        return _winner_and_other(mechanism.probabilities(scores))

    return law


def published_smooth_bound(epsilon: float, outcomes: int) -> float:
    """Return what [SPS Theorem 2] proves of the published mechanism, in nats.

    e^ε S is ε-smooth and an upper bound of the local sensitivity: the noise is that of α e^ε.

    Args:
        epsilon: what the paper promises.
        outcomes: m ≥ 2.
    """
    noise = HeavyStudentT(3.0)
    alpha = epsilon / 2 / float(sliding_price(noise))
    return spent(noise, math.exp(epsilon) * alpha, epsilon, outcomes, 0.0)


@cache
def published_smooth_cost(epsilon: float, outcomes: int) -> float:
    """Return the largest log-ratio found between neighbours of the published mechanism, in nats.

    A lower bound of its true ε: gaps k and k + 1, and another winner at gaps 0 and 1.

    Args:
        epsilon: what the paper promises.
        outcomes: m ≥ 2.
    """
    law = published_smooth_law(epsilon)
    winner, other = law(1, outcomes)
    tied, beaten = law(0, outcomes)
    worst = max(np.log(winner / other), np.log(tied / other), np.log(winner / beaten))
    for gap in _gaps(epsilon):
        near, far = law(gap, outcomes), law(gap + 1, outcomes)
        worst = max(worst, abs(np.log(near[0] / far[0])), abs(np.log(near[1] / far[1])))
    return float(worst)


def _gaps(epsilon: float) -> Iterator[int]:
    # Beyond e^{-εk} = e^{-12} the ratio of the tails, e^{3ε}, is all that is left.
    yield from sorted({int(k) for k in np.linspace(0, 12 / epsilon + 1, 40)})


def _winner_and_other(probabilities: Array) -> tuple[float, float]:
    return float(probabilities[0]), float(probabilities[-1])


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


CONTESTANTS: Sequence[Contestant] = (
    Contestant("permute-and-flip, max operator", "max operator", _permute_and_flip),
    Contestant("exponential, max operator", "max operator", _monotone_exponential),
    Contestant("stability, max operator", "max operator", _stability),
    Contestant("smooth noisy max, proved", "max operator", _smooth),
    Contestant("permute-and-flip, gini", "gini", _permute_and_flip),
    Contestant("permute-and-flip, information gain", "information gain", _permute_and_flip),
    Contestant("local dampening", "dampened information gain", _exponential),
    Contestant("shifted local dampening", "shifted dampened information gain", _exponential),
    Contestant(
        "exponential, information gain",
        "information gain",
        _exponential,
        proved=_half,
        published=True,
    ),
    Contestant(
        "smooth noisy max, t3",
        "max operator",
        _published_smooth,
        proved=published_smooth_bound,
        published=True,
    ),
)
