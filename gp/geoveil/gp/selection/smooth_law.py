"""What the argmax of noisy utilities asks of its noise, one-sided or two-sided."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from geoveil.gp.arithmetic import Real
from geoveil.gp.exact.ball import BALL
from geoveil.gp.exact.bits import LazyUniform
from geoveil.gp.noise.base import Array, Noise
from geoveil.gp.selection.laplace_log_normal import LaplaceLogNormal
from geoveil.gp.selection.one_sided import OneSidedNoise

_Vectorised: TypeAlias = Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class Law:
    """The distribution of a real noise variable, on the whole line.

    Attributes:
        logpdf: log density.
        log_cdf: log P[Z ≤ z].
        survival: P[Z > z].
        ball_noise: encloses Z as a function of a uniform number.
        rises: whether Z rises with it.
        nonnegative: whether Z ≥ 0.
        knees: where the density is not smooth, apart from 0.
        magnitude: see `OneSidedNoise.certified_magnitude`.
    """

    logpdf: _Vectorised
    log_cdf: _Vectorised
    survival: _Vectorised
    ball_noise: Callable[[LazyUniform], Real]
    nonnegative: bool
    knees: tuple[float, ...]
    rises: bool = True
    magnitude: _Vectorised | None = None

    def most(self, gaps: Array) -> Array:
        """Return a bound of the probability that −gap + Z exceeds another Z: one of them is large.

        Example:
            >>> from geoveil.gp.noise import Laplace
            >>> two_sided_law(Laplace()).most(np.array([0.0, 2.0])).round(4).tolist()
            [1.0, 0.3679]
        """
        if self.nonnegative:
            return self.survival(gaps)
        return np.asarray(2 * self.survival(gaps / 2))


def one_sided_law(noise: OneSidedNoise) -> Law:
    """Return the law of noise that is never negative."""
    return Law(
        noise.logpdf,
        noise.log_cdf,
        noise.survival,
        by_quantile(lambda p: noise.quantile(p, BALL)),
        nonnegative=True,
        knees=noise.knees,
        magnitude=noise.certified_magnitude,
    )


def two_sided_law(noise: Noise) -> Law:
    """Return the law of symmetric noise."""

    def log_cdf(z: Array) -> Array:
        tail = noise.survival(np.abs(z))
        with np.errstate(divide="ignore"):  # a tail below the least double
            return np.where(z > 0, np.log1p(-tail), np.log(tail))

    draw: Callable[[LazyUniform], Real]
    if isinstance(noise, LaplaceLogNormal):
        draw, rises = noise.ball_noise, False
    else:
        draw, rises = by_quantile(lambda p: noise.quantile(p, BALL)), True
    return Law(
        noise.logpdf,
        log_cdf,
        lambda z: noise.cdf(-np.asarray(z)),
        draw,
        nonnegative=False,
        knees=(),
        rises=rises,
    )


def by_quantile(quantile: Callable[[Real], Real]) -> Callable[[LazyUniform], Real]:
    """Return Z as a function of a uniform number, given its quantile in balls."""
    return lambda uniform: quantile(BALL.uniform(uniform.numerator, uniform.count))


FARTHEST_GAP = 1e100
"""Gaps, in units of the noise, beyond which an outcome counts as so far behind, not farther."""
LOG_LEAST = math.log(1e-280)
"""Probabilities below e^this are not resolved."""
