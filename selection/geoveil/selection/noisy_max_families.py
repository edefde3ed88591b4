"""The noises of report-noisy-max, and what is known of their argmax."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np

from geoveil.gp.arithmetic import Real
from geoveil.gp.exact.ball import BALL
from geoveil.gp.exact.bits import LazyUniform
from geoveil.gp.noise.laplace import Laplace
from geoveil.selection.base import Array
from geoveil.selection.draw import ball
from geoveil.selection.laplace_maximum import laplace_maximum
from geoveil.selection.many import Enclosure, Words, uniform, widened
from geoveil.selection.permute_and_flip import (
    exponential_enclosure,
    exponential_noise,
    first_heads,
)

NoiseName: TypeAlias = Literal["exponential", "laplace", "gumbel"]


@dataclass(frozen=True, slots=True)
class Family:
    """A noise with f(z + s) ≥ e^{−s} f(z) for s ≥ 0."""

    noise: Callable[[LazyUniform], Real]
    """Noise as a function of a uniform number, in balls."""
    enclosure: Enclosure
    """The same in float64."""
    probabilities: Callable[[Array], Array]
    """Of each −gap + Z to be the largest, given gaps ≥ 0 in units of the scale."""


def _softmax(gaps: Array) -> Array:
    weights = np.exp(-gaps)
    return np.asarray(weights / weights.sum())


def _laplace_enclosure(words: Words) -> tuple[Array, Array]:
    u, t = uniform(words), uniform(~words)
    return widened(np.where(u < t, 1.0, -1.0) * np.log(2 * np.minimum(u, t)))


def _gumbel_enclosure(words: Words) -> tuple[Array, Array]:
    u, t = uniform(words), uniform(~words)
    # Whichever of U and 1 − U is the smaller is known to more digits.
    half = np.minimum(t, 0.5)
    return widened(-np.log(np.where(u < t, -np.log(u), -np.log1p(-half))))


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "exponential": Family(
            exponential_noise, exponential_enclosure, lambda gaps: first_heads(np.exp(-gaps))
        ),
        "laplace": Family(
            lambda drawn: Laplace().quantile(ball(drawn), BALL),
            _laplace_enclosure,
            laplace_maximum,
        ),
        "gumbel": Family(
            lambda drawn: -BALL.log(-BALL.log(ball(drawn))), _gumbel_enclosure, _softmax
        ),
    }
)
