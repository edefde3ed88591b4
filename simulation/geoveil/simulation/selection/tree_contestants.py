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
from geoveil.gp.selection import (
    ExponentialMechanism,
    LocalDampening,
    LocalUtilities,
    Margin,
    PermuteAndFlip,
    SmoothNoisyMax,
    StabilityMechanism,
)
from geoveil.gp.selection.applications.gain import CRITERIA, NodeCounts, gain_sensitivity
from geoveil.gp.selection.applications.gain_local import gain_sensitivities
from geoveil.gp.selection.applications.gain_margin import count_margin, indicator_utilities
from geoveil.gp.selection.applications.tree_selection import shifted_gain
from geoveil.simulation.selection.published import (
    PUBLISHED_NOISE,
    delta_of,
    published_bound,
    published_law,
    winner_and_other,
)

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
        delta: δ of a choice.
    """

    name: str
    utilities: str
    choice: Callable[[float, int], Choice]
    proved: Callable[[float, int], float] | None = None
    published: bool = False
    delta: float = 0.0


def utilities(kind: str, node: NodeCounts) -> Array:
    """Return one of `KINDS` at a node, shape (attributes,)."""
    return KINDS[kind](node)


def _dampened(node: NodeCounts, *, replace: bool = False) -> Array:
    mechanism = LocalDampening(1.0, gain_sensitivity(node.most_records), replace=replace)
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
    "dampened information gain, largest": partial(_dampened, replace=True),
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


CONTESTANTS: Sequence[Contestant] = (
    Contestant("permute-and-flip, max operator", "max operator", _permute_and_flip),
    Contestant("exponential, max operator", "max operator", _monotone_exponential),
    Contestant("stability, max operator", "max operator", _stability),
    Contestant("smooth noisy max, proved", "max operator", _smooth),
    Contestant("permute-and-flip, gini", "gini", _permute_and_flip),
    Contestant("permute-and-flip, information gain", "information gain", _permute_and_flip),
    Contestant("local dampening", "dampened information gain", _exponential),
    Contestant("local dampening, replaced", "dampened information gain, largest", _exponential),
    Contestant("shifted local dampening", "shifted dampened information gain", _exponential),
    Contestant(
        "exponential, information gain",
        "information gain",
        _exponential,
        proved=_half,
        published=True,
    ),
    *(
        Contestant(
            name,
            "max operator",
            _published_smooth(noise),
            proved=partial(published_bound, noise=noise),
            published=True,
            delta=delta_of(noise),
        )
        for name, noise in PUBLISHED_NOISE.items()
    ),
)
