"""Permute-and-flip: one coin per outcome, in random order, until one shows heads [PF §2]."""

import math
from typing import ClassVar

import numpy as np

from geoveil.gp.arithmetic import Real
from geoveil.gp.exact.bits import LazyUniform, RandomSource
from geoveil.selection.base import Array
from geoveil.selection.draw import ball
from geoveil.selection.global_sensitivity import GlobalSelection
from geoveil.selection.many import Indices, Words, uniform, widened
from geoveil.selection.scores import Utilities

_X, _W = np.polynomial.legendre.leggauss(16)
_PANEL = 4.0
"""Width of a quadrature panel, over Σq: an ellipse of ρ = 8 around it bounds the error."""
_NEGLIGIBLE = 46.0
"""e^−46 is 1e-20."""
_BLOCK = 1 << 12
"""Outcomes that are handled together; 176 nodes each."""


class PermuteAndFlip(GlobalSelection):
    """Flip coins of probability q_r = e^{−λ(max u − u_r)} in random order; the first heads wins.

    Never worse than the exponential mechanism in expected utility, and the same distribution as
    report-noisy-max with exponential noise [PF Theorem 5].

    Args:
        epsilon: see `GlobalSelection`.
        sensitivity: Δ; see `GlobalSelection`.
        monotone: see `GlobalSelection`.

    Example:
        >>> from geoveil.gp import SeededSource
        >>> m = PermuteAndFlip(epsilon=2.0, sensitivity=1.0)
        >>> m.probabilities([0.0, np.log(2.0)]).round(6).tolist()
        [0.25, 0.75]
        >>> m.select([0.0, 9.0, 1.0], SeededSource(1))
        1
    """

    _source: ClassVar[str] = "[PF Theorem 5; MS20]"

    def _probabilities(self, scores: Utilities) -> Array:
        return first_heads(np.exp(-self._scaled_gaps(scores.values)))

    def _draw(self, scores: Utilities, size: int, source: RandomSource) -> Indices:
        # The same distribution, by [PF Theorem 5].
        return self._draw_noisy(scores, size, exponential_enclosure, exponential_noise, source)


def exponential_enclosure(words: Words) -> tuple[Array, Array]:
    """Enclose exponential noise; see `many.Enclosure`."""
    return widened(-np.log(uniform(words)))


def exponential_noise(drawn: LazyUniform) -> Real:
    """Enclose the same noise in balls."""
    return -ball(drawn).log()


def first_heads(q: Array) -> Array:
    """Return the probability that each coin is the first in random order to show heads.

    With times of flipping uniform in (0, 1), P(r) = q_r ∫₀¹ Π_{j≠r} (1 − t q_j) dt.

    The integrand is an entire function, and with S = Σq at most e^{S(|z−a|−a)+1} around a point a
    of [0, 1]. Gauss–Legendre of 16 nodes on panels no wider than 4/S, in ellipses of ρ = 8, is
    within 1e-20 of it, and so is what is left out where S t > 46; P(r) is at least q_r/(S + 1). So
    the error is that of rounding: of a sum of m logarithms that is at most 50 where it matters.

    Args:
        q: shape (m,), in [0, 1], the largest of them 1.

    Example:
        >>> first_heads(np.array([1.0, 1.0, 0.0])).round(12).tolist()
        [0.5, 0.5, 0.0]
    """
    total = float(q.sum())
    end = min(1.0, _NEGLIGIBLE / total)
    panels = math.ceil(end * total / _PANEL)
    edges = np.linspace(0, end, panels + 1)
    half = end / panels / 2
    t = (edges[:-1, None] + half * (1 + _X)).ravel()
    weights = np.tile(half * _W, panels)
    log_all = np.zeros_like(t)
    for start in range(0, len(q), _BLOCK):
        log_all += np.log1p(-t * q[start : start + _BLOCK, None]).sum(axis=0)
    shares = np.empty_like(q)
    for start in range(0, len(q), _BLOCK):
        block = q[start : start + _BLOCK, None]
        shares[start : start + _BLOCK] = np.exp(log_all - np.log1p(-t * block)) @ weights
    return np.asarray(q * shares)
