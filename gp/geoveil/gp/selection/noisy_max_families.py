"""The noises of report-noisy-max, and what is known of their argmax."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np

from geoveil.gp.arithmetic import Real
from geoveil.gp.exact.ball import BALL
from geoveil.gp.exact.bits import RandomSource
from geoveil.gp.noise.laplace import Laplace
from geoveil.gp.selection.base import Array
from geoveil.gp.selection.exponential import exponential_weights
from geoveil.gp.selection.laplace_maximum import laplace_maximum
from geoveil.gp.selection.many import Indices, weighted_indices
from geoveil.gp.selection.permute_and_flip import exponential_argmax, first_heads

NoiseName: TypeAlias = Literal["exponential", "laplace", "gumbel"]

_Many: TypeAlias = Callable[[int, Array, Callable[[], list[Real]], RandomSource], Indices]
"""How many draws, the gaps in float64, what encloses them, and random bits."""


@dataclass(frozen=True, slots=True)
class Family:
    """A noise with f(z + s) ≥ e^{−s} f(z) for s ≥ 0."""

    quantile: Callable[[Real], Real]
    """Noise as a function of a uniform number, in balls."""
    probabilities: Callable[[Array], Array]
    """Of each −gap + Z to be the largest, given gaps ≥ 0 in units of the scale."""
    many: _Many | None = None
    """Draws of which it is, where there is a faster way than one by one."""


def _softmax(gaps: Array) -> Array:
    weights = np.exp(-gaps)
    return np.asarray(weights / weights.sum())


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "exponential": Family(
            lambda u: -BALL.log(u), lambda gaps: first_heads(np.exp(-gaps)), exponential_argmax
        ),
        "laplace": Family(lambda u: Laplace().quantile(u, BALL), laplace_maximum),
        "gumbel": Family(
            lambda u: -BALL.log(-BALL.log(u)),
            _softmax,
            lambda size, _, gaps, source: weighted_indices(size, exponential_weights(gaps), source),
        ),
    }
)
