"""The mechanisms that the forest experiment compares, and what each really costs."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.noise.base import Noise
from geoveil.selection import (
    ExponentialMechanism,
    Margin,
    PermuteAndFlip,
    ScoresLike,
    SelectionMechanism,
    SmoothNoisyMax,
    StabilityMechanism,
)
from geoveil.selection.contrib.forest import LabelName, labeller
from geoveil.selection.stability import (
    distance_utilities,
    indicator_utilities,
    winners_and_margins,
)
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
Counts = NDArray[np.int64]
Law = Callable[[int], tuple[float, float]]
"""Probabilities of the winner, and of each other label, by the margin."""


def _by_counts(name: LabelName) -> Callable[[float, int], Choice]:
    def choice(epsilon: float, classes: int) -> Choice:
        return labeller(name, epsilon, classes).probabilities

    return choice


def _by_margin(law: Callable[[float, int], Law]) -> Callable[[float, int], Choice]:
    def choice(epsilon: float, classes: int) -> Choice:
        known = lru_cache(maxsize=None)(law(epsilon, classes))

        def probabilities(counts: Counts) -> Array:
            winners, margins = winners_and_margins(counts)
            return _spread(winners, margins, known, counts.shape[1])

        return probabilities

    return choice


def _spread(winners: NDArray[np.intp], margins: Counts, law: Law, classes: int) -> Array:
    distinct, back = np.unique(margins, return_inverse=True)
    pairs = np.array([law(int(margin)) for margin in distinct])[back]
    result = np.repeat(pairs[:, 1:], classes, axis=1)
    result[np.arange(len(winners)), winners] = pairs[:, 0]
    return result


def _law(
    mechanism: SelectionMechanism, scores: Callable[[Margin], ScoresLike], classes: int
) -> Law:
    def law(margin: int) -> tuple[float, float]:
        return winner_and_other(mechanism.probabilities(scores(Margin(0, margin, classes))))

    return law


def _stability(epsilon: float, classes: int) -> Law:
    return _law(StabilityMechanism(epsilon), lambda margin: margin, classes)


def _distance(epsilon: float, classes: int) -> Law:
    return _law(ExponentialMechanism(epsilon, 1.0), distance_utilities, classes)


def _distance_flip(epsilon: float, classes: int) -> Law:
    return _law(PermuteAndFlip(epsilon, 1.0), distance_utilities, classes)


def _smooth(epsilon: float, classes: int) -> Law:
    mechanism = SmoothNoisyMax(epsilon, classes)
    return _law(mechanism, lambda m: indicator_utilities(m, mechanism.beta), classes)


def _indicator(margin: Margin) -> Array:
    return np.asarray(np.eye(margin.outcomes)[margin.winner])


def _zero_one(epsilon: float, classes: int) -> Law:
    return _law(ExponentialMechanism(epsilon, 1.0), _indicator, classes)


def _zero_one_flip(epsilon: float, classes: int) -> Law:
    return _law(PermuteAndFlip(epsilon, 1.0), _indicator, classes)


def _cost_at_a_switch(law: Callable[[float, int], Law]) -> Callable[[float, int], float]:
    """Return what a mechanism costs that does not look at the margin."""

    def cost(epsilon: float, classes: int) -> float:
        winner, other = law(epsilon, classes)(1)
        return float(np.log(winner / other))

    return cost


def _published_smooth(noise: Noise) -> Callable[[float, int], Choice]:
    def choice(epsilon: float, classes: int) -> Choice:
        law = published_law(epsilon, noise)

        def probabilities(counts: Counts) -> Array:
            top = np.sort(counts, axis=1)[:, -2:]
            leads = top[:, 1] - top[:, 0]
            return _spread(counts.argmax(axis=1), leads, lambda k: law(k, classes), classes)

        return probabilities

    return choice


LEAF_CONTESTANTS: Sequence[Contestant] = (
    Contestant("permute-and-flip, counts", _by_counts("permute_and_flip")),
    Contestant("exponential, counts", _by_counts("exponential")),
    Contestant("stability, optimal", _by_margin(_stability)),
    Contestant("permute-and-flip, distance", _by_margin(_distance_flip)),
    Contestant("exponential, distance", _by_margin(_distance)),
    Contestant("smooth noisy max, proved", _by_margin(_smooth)),
    Contestant(
        "permute-and-flip, 0/1",
        _by_margin(_zero_one_flip),
        _cost_at_a_switch(_zero_one_flip),
        standing=NOMINAL,
    ),
    Contestant(
        "exponential, 0/1",
        _by_margin(_zero_one),
        _cost_at_a_switch(_zero_one),
        standing=NOMINAL,
    ),
    *(
        Contestant(
            name,
            _published_smooth(noise),
            partial(published_bound, noise=noise),
            standing=NOMINAL,
            delta=delta_of(noise),
        )
        for name, noise in PUBLISHED_NOISE.items()
    ),
)
"""Local dampening of the 0/1 utility is the exponential mechanism on the distance: D = j."""
