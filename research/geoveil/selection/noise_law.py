"""Properties of one-sided and two-sided noise for the argmax of noisy utilities.

Noise without a closed form is bounded between the nodes of a table, since its quantile is monotone;
balls enclose the nodes once per noise. Between two nodes the bounds are a few per cent apart.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from flint import arb

from geoveil.gp import BALL, Array, LazyUniform, Noise, Real, working_precision
from geoveil.selection.draws import Enclosure, Words, ball, uniform, unknown, widened
from geoveil.selection.one_sided import OneSidedNoise
from geoveil.selection.two_sided import LaplaceLogNormal

_PER_OCTAVE = 16
_OCTAVES = 40
_PRECISION = 128
_OPEN = (0.0, math.inf)


@dataclass(frozen=True, slots=True)
class TailTable:
    """Magnitudes at which the tail has the probabilities 2^{−k/16}, from `top` down."""

    tails: Array
    """Increasing."""
    least: Array
    """A lower bound of the magnitude at each tail."""
    most: Array
    """An upper bound of the magnitude at each tail."""

    def enclose(self, tail: Array) -> tuple[Array, Array]:
        """Return bounds of the magnitude at tails of relative error 2^-50; any shape."""
        above = np.searchsorted(self.tails, tail * (1 + 2.0**-40), side="left")
        below = np.searchsorted(self.tails, tail * (1 - 2.0**-40), side="right") - 1
        last = len(self.tails)
        least = np.where(above < last, self.least[np.minimum(above, last - 1)], 0.0)
        most = np.where(below >= 0, self.most[np.maximum(below, 0)], math.inf)
        return least, most


@lru_cache(maxsize=32)
def tail_table(noise: OneSidedNoise | Noise, top: float) -> TailTable:
    """Return a noise's table, where `top` is the tail at 0: 1 or, for two sides, 1/2."""
    tails = [top * 2.0 ** (-k / _PER_OCTAVE) for k in range(_PER_OCTAVE * _OCTAVES, -1, -1)]
    with working_precision(_PRECISION):
        balls = [_isf(noise, tail) for tail in tails[:-1]]
    ends = [(float(b.lower()), float(b.upper())) if b.is_finite() else _OPEN for b in balls]
    least, most = np.array([*ends, (0.0, 0.0)]).T
    least, most = np.maximum.accumulate(least[::-1])[::-1], np.minimum.accumulate(most)
    return TailTable(np.array(tails), least * (1 - 2.0**-40), most * (1 + 2.0**-40))


def _isf(noise: OneSidedNoise | Noise, tail: float) -> Real:
    """Enclose the magnitudes whose tails are within a relative 2^-50 of a double."""
    t = arb(tail, tail * 2.0**-50)
    if isinstance(noise, OneSidedNoise):
        return noise.quantile(1 - t, BALL)
    return noise.isf(t, BALL)


_Vectorised: TypeAlias = Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class Law:
    """The distribution of a real noise variable on the whole line.

    Attributes:
        logpdf: log density.
        log_cdf: log P[Z ≤ z].
        survival: P[Z > z].
        ball_noise: encloses Z as a function of a uniform number.
        enclosure: the same in float64, if it rises with the uniform number.
        close: the number of largest noisy utilities that the enclosure may not distinguish; balls
            compare them.
        nonnegative: whether Z ≥ 0.
        knees: the points except 0 at which the density is not smooth.
    """

    logpdf: _Vectorised
    log_cdf: _Vectorised
    survival: _Vectorised
    ball_noise: Callable[[LazyUniform], Real]
    enclosure: Enclosure
    close: int
    nonnegative: bool
    knees: tuple[float, ...]

    def most(self, gaps: Array) -> Array:
        """Bound the probability that −gap + Z exceeds another Z, which takes a large Z.

        Example:
            >>> from geoveil.gp.noise import Laplace
            >>> two_sided_law(Laplace()).most(np.array([0.0, 2.0])).round(4).tolist()
            [1.0, 0.3679]
        """
        if self.nonnegative:
            return self.survival(gaps)
        return np.asarray(2 * self.survival(gaps / 2))


def one_sided_law(noise: OneSidedNoise) -> Law:
    """Return the law of nonnegative noise."""
    isf = noise.certified_isf

    def enclosure(words: Words) -> tuple[Array, Array]:
        tail = uniform(~words)
        if isf is None:
            return tail_table(noise, 1.0).enclose(tail)
        return widened(isf(tail))

    return Law(
        noise.logpdf,
        noise.log_cdf,
        noise.survival,
        by_quantile(lambda p: noise.quantile(p, BALL)),
        enclosure,
        _CLOSE if isf is None else 1,
        nonnegative=True,
        knees=noise.knees,
    )


def two_sided_law(noise: Noise) -> Law:
    """Return the law of symmetric noise."""

    def log_cdf(z: Array) -> Array:
        tail = noise.survival(np.abs(z))
        with np.errstate(divide="ignore"):  # tails below the least double
            return np.where(z > 0, np.log1p(-tail), np.log(tail))

    def tabulated(words: Words) -> tuple[Array, Array]:
        u, t = uniform(words), uniform(~words)
        low, high = tail_table(noise, 0.5).enclose(np.minimum(u, t))
        left = u < t
        return np.where(left, -high, low), np.where(left, -low, high)

    draw: Callable[[LazyUniform], Real]
    enclosure: Enclosure
    if isinstance(noise, LaplaceLogNormal):
        draw, enclosure = noise.ball_noise, unknown
    else:
        draw, enclosure = by_quantile(lambda p: noise.quantile(p, BALL)), tabulated
    return Law(
        noise.logpdf,
        log_cdf,
        lambda z: noise.cdf(-np.asarray(z)),
        draw,
        enclosure,
        _CLOSE,
        nonnegative=False,
        knees=(),
    )


def by_quantile(quantile: Callable[[Real], Real]) -> Callable[[LazyUniform], Real]:
    """Return Z as a function of a uniform number from its quantile in balls."""
    return lambda drawn: quantile(ball(drawn))


_CLOSE = 4
"""The most possible winners that a table usually leaves: exceeded about once in 10^5 draws."""
FARTHEST_GAP = 1e100
"""The largest gap, in units of the noise, to which larger gaps are clamped."""
LOG_LEAST = math.log(1e-280)
"""The logarithm of the least probability that is resolved."""
