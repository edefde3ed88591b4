"""The mechanisms of `NODE_RECIPES` as scores and noise, which are quick to draw. Not private."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from geoveil.selection import LocalDampening
from geoveil.selection.contrib.influence import (
    NODE_RECIPES,
    Influence,
    NodeSetting,
    safe_sensitivity,
)
from geoveil.selection.smooth import SmoothNoisyMax

Array = NDArray[np.float64]
Draw: TypeAlias = Callable[[np.random.Generator, int], NDArray[np.floating[Any]]]
"""Noise, standard: of a generator and a number of nodes."""


@dataclass(frozen=True, slots=True)
class NoisyScores:
    """A mechanism as scores and standard noise, whose argmax is a choice.

    Attributes:
        values: the scores in units of the noise, shape (n,).
        draw: the noise.
        repeats: whether each choice needs noise of its own. Without it the k largest of one draw
            are k choices: of Gumbel noise, those of the exponential mechanism.
    """

    values: Array
    draw: Draw
    repeats: bool


# Single precision is enough here, and thrice as fast.


def _gumbel(rng: np.random.Generator, size: int) -> NDArray[np.float32]:
    return -np.log(np.maximum(_exponential(rng, size), np.finfo(np.float32).tiny))


def _exponential(rng: np.random.Generator, size: int) -> NDArray[np.float32]:
    return rng.standard_exponential(size, dtype=np.float32)


def _global(values: Array, sensitivity: float, epsilon: float, *, flip: bool) -> NoisyScores:
    return NoisyScores(values * (epsilon / (2 * sensitivity)), _NOISES[flip], flip)


_NOISES = (_gumbel, _exponential)
"""Of the exponential mechanism, and of permute-and-flip [PF Theorem 5]."""


def _dampened(known: Influence, epsilon: float) -> NoisyScores:
    scores = known.as_local(np.arange(known.outcomes))
    values = LocalDampening(epsilon).dampened(scores)
    return _global(values, 1.0, epsilon, flip=False)


def _smooth(known: Influence, epsilon: float) -> NoisyScores:
    setting = NodeSetting(known.outcomes, known.degree_bound)
    recipe = NODE_RECIPES["smooth noisy max"]
    mechanism = recipe.build(epsilon, setting)
    assert isinstance(mechanism, SmoothNoisyMax)
    scores = known.as_smooth(np.arange(known.outcomes), mechanism.beta)
    values = scores.values / mechanism.scale(scores.smooth_sensitivity)
    return NoisyScores(values, lambda rng, size: mechanism.noise.sample(rng, size), True)


def _covered(known: Influence) -> float:
    return safe_sensitivity(known.degree_bound)


NOISY: Mapping[str, Callable[[Influence, float], NoisyScores]] = MappingProxyType(
    {
        "exponential": lambda known, e: _global(known.betweenness, _covered(known), e, flip=False),
        "permute-and-flip": lambda known, e: _global(
            known.betweenness, _covered(known), e, flip=True
        ),
        "smooth noisy max": _smooth,
        "local dampening": _dampened,
        "shifted local dampening": lambda known, e: _global(
            known.shifted, _covered(known), e, flip=False
        ),
        "shifted permute-and-flip": lambda known, e: _global(
            known.shifted, _covered(known), e, flip=True
        ),
        # Degrees are monotone: ε/Δ in place of ε/2Δ.
        "degree, permute-and-flip": lambda known, e: _global(
            known.degrees.astype(np.float64), 0.5, e, flip=True
        ),
    }
)
"""Name in `NODE_RECIPES` → the same mechanism as scores and noise, quick to draw."""


def noisy_top_k(scores: NoisyScores, k: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return k nodes, chosen one after the other among those that are left. Not private."""
    n = len(scores.values)
    if not scores.repeats:
        noisy = scores.values + scores.draw(rng, n)
        return np.argpartition(noisy, n - k)[n - k :]
    left = scores.values.copy()
    nodes = []
    for _ in range(k):
        nodes.append(int(np.argmax(left + scores.draw(rng, n))))
        left[nodes[-1]] = -math.inf
    return np.array(nodes)
