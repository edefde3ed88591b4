"""Bounds of noise without a closed form: between the nodes of a table, as its quantile is monotone.

The nodes are enclosed in balls, once for every noise. What lies between two of them is known to a
few per cent only, which leaves few of many noisy utilities possible winners.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from flint import arb

from geoveil.gp.arithmetic import Real
from geoveil.gp.exact.ball import BALL, working_precision
from geoveil.gp.noise.base import Array, Noise
from geoveil.selection.one_sided import OneSidedNoise

_PER_OCTAVE = 16
_OCTAVES = 40
_PRECISION = 128
_OPEN = (0.0, math.inf)


@dataclass(frozen=True, slots=True)
class TailTable:
    """Magnitudes at which a tail has the probabilities 2^{−k/16}, from `top` down."""

    tails: Array
    """Increasing."""
    least: Array
    """Below the magnitude at each."""
    most: Array
    """Above it."""

    def enclose(self, tail: Array) -> tuple[Array, Array]:
        """Return bounds of the magnitude at each tail, known to 2^-50 of itself; any shape."""
        above = np.searchsorted(self.tails, tail * (1 + 2.0**-40), side="left")
        below = np.searchsorted(self.tails, tail * (1 - 2.0**-40), side="right") - 1
        last = len(self.tails)
        least = np.where(above < last, self.least[np.minimum(above, last - 1)], 0.0)
        most = np.where(below >= 0, self.most[np.maximum(below, 0)], math.inf)
        return least, most


@lru_cache(maxsize=32)
def tail_table(noise: OneSidedNoise | Noise, top: float) -> TailTable:
    """Return the table of a noise, with `top` the tail of 0: 1 or, for two sides, 1/2."""
    tails = [top * 2.0 ** (-k / _PER_OCTAVE) for k in range(_PER_OCTAVE * _OCTAVES, -1, -1)]
    with working_precision(_PRECISION):
        balls = [_isf(noise, tail) for tail in tails[:-1]]
    ends = [(float(b.lower()), float(b.upper())) if b.is_finite() else _OPEN for b in balls]
    least, most = np.array([*ends, (0.0, 0.0)]).T
    least, most = np.maximum.accumulate(least[::-1])[::-1], np.minimum.accumulate(most)
    return TailTable(np.array(tails), least * (1 - 2.0**-40), most * (1 + 2.0**-40))


def _isf(noise: OneSidedNoise | Noise, tail: float) -> Real:
    """Enclose the magnitudes whose tails are within 2^-50 of a double, relative to it."""
    t = arb(tail, tail * 2.0**-50)
    if isinstance(noise, OneSidedNoise):
        return noise.quantile(1 - t, BALL)
    return noise.isf(t, BALL)
