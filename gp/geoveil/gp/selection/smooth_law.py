"""What the argmax of noisy utilities asks of its noise, one-sided or two-sided."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from geoveil.gp.arithmetic import Real
from geoveil.gp.exact.ball import BALL
from geoveil.gp.noise.base import Array, Noise
from geoveil.gp.selection.one_sided import OneSidedNoise

_Vectorised: TypeAlias = Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class Law:
    """The distribution of a real noise variable, on the whole line.

    Attributes:
        logpdf: log density.
        log_cdf: log P[Z ≤ z].
        survival: P[Z > z].
        ball_quantile: encloses the z with P[Z ≤ z] = p, given a ball around p.
        nonnegative: whether Z ≥ 0.
        knees: where the density is not smooth, apart from 0.
    """

    logpdf: _Vectorised
    log_cdf: _Vectorised
    survival: _Vectorised
    ball_quantile: Callable[[Real], Real]
    nonnegative: bool
    knees: tuple[float, ...]


def one_sided_law(noise: OneSidedNoise) -> Law:
    """Return the law of noise that is never negative."""
    return Law(
        noise.logpdf,
        noise.log_cdf,
        noise.survival,
        lambda p: noise.quantile(p, BALL),
        nonnegative=True,
        knees=noise.knees,
    )


def two_sided_law(noise: Noise) -> Law:
    """Return the law of symmetric noise."""

    def log_cdf(z: Array) -> Array:
        tail = noise.survival(np.abs(z))
        with np.errstate(divide="ignore"):  # a tail below the least double
            return np.where(z > 0, np.log1p(-tail), np.log(tail))

    return Law(
        noise.logpdf,
        log_cdf,
        lambda z: noise.cdf(-np.asarray(z)),
        lambda p: noise.quantile(p, BALL),
        nonnegative=False,
        knees=(),
    )


FARTHEST_GAP = 1e100
"""Gaps, in units of the noise, beyond which an outcome counts as so far behind, not farther."""
LOG_LEAST = math.log(1e-280)
"""Probabilities below e^this are not resolved."""
