"""Protocols of ε-LDP as published: means, histograms in a tree, square waves.

Formulas and variances: [MATH §6]. In a tree of intervals each person answers at one random level
through a frequency oracle [WBLJ17]; least squares makes the levels consistent [HRMS10; CKS19].

For experiments only: floating-point draws are NOT private [MATH §10].
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.analyst import expectation_maximisation
from geoveil.gp import LocalPrivacy
from geoveil.simulation.distribution.cells import Cells, moved
from geoveil.simulation.populations import Array

Counts = NDArray[np.int64]

FAN = 4
"""Children of a node of the tree."""
_TAYLOR = 1e-4
"""The ε below which a series computes the width of a square wave."""
_ROOTS = ((6353 + sign * 405 * math.sqrt(241)) ** (1 / 3) for sign in (-1, 1))
HYBRID_FROM = math.log((2 * sum(_ROOTS) - 5) / 27)
"""ε* ≈ 0.61, up to which two points are better for every number [WXYZHSSY19]."""


def _capped(privacy: LocalPrivacy) -> float:
    """Return ε, at most 300, so that e^{2ε} is a double."""
    return min(privacy.epsilon, 300.0)


def two_points(values: ArrayLike, privacy: LocalPrivacy, rng: np.random.Generator) -> Array:
    """Return −C or C, whose mean is the number: randomised response for numbers [DJW18]."""
    t, most = np.asarray(values, dtype=np.float64), 1 / math.tanh(_capped(privacy) / 2)
    return np.where(rng.random(t.shape) < (1 + t / most) / 2, most, -most)


def piecewise(values: ArrayLike, privacy: LocalPrivacy, rng: np.random.Generator) -> Array:
    """Return a number in [−C, C] whose mean is the true one, probably near it [WXYZHSSY19]."""
    t, epsilon = np.asarray(values, dtype=np.float64), _capped(privacy)
    most, near = 1 / math.tanh(epsilon / 4), 1 / (1 + math.exp(-epsilon / 2))
    low = ((most + 1) * t - (most - 1)) / 2
    inside = low + (most - 1) * rng.random(t.shape)
    # The rest is [−C, low) and [low + C − 1, C], C + 1 long together.
    outside = -most + (most + 1) * rng.random(t.shape)
    outside = np.where(outside < low, outside, outside + (most - 1))
    return np.where(rng.random(t.shape) < near, inside, outside)


def piecewise_variance(values: ArrayLike, privacy: LocalPrivacy) -> Array:
    """Return the variance of a report of `piecewise` for each number in [−1, 1].

    Example:
        >>> piecewise_variance([0.0, 1.0], LocalPrivacy(2 * math.log(2))).round(6).tolist()
        [1.666667, 2.666667]
    """
    t, less = np.asarray(values, dtype=np.float64), math.expm1(_capped(privacy) / 2)
    return np.square(t) / less + (less + 4) / (3 * less**2)


def hybrid(values: ArrayLike, privacy: LocalPrivacy, rng: np.random.Generator) -> Array:
    """Return `piecewise` with probability 1 − e^{−ε/2}, else `two_points` [WXYZHSSY19].

    For ε up to `HYBRID_FROM` it is always `two_points`, which is better there.
    """
    epsilon = _capped(privacy)
    share = -math.expm1(-epsilon / 2) if epsilon > HYBRID_FROM else 0.0
    chosen = rng.random(np.shape(values)) < share
    return np.where(chosen, piecewise(values, privacy, rng), two_points(values, privacy, rng))


class FrequencyOracle(NamedTuple):
    """A protocol whose reports support the true candidate with probability p, others with q < p.

    Each candidate's support is independent, so its count is a sum of two binomials.
    """

    p: float
    q: float

    def simulate(self, counts: Counts, rng: np.random.Generator) -> Array:
        """Return the estimated share of each candidate; zeros without people."""
        n = int(counts.sum())
        if n == 0:
            return np.zeros(len(counts))
        supports = rng.binomial(counts, self.p) + rng.binomial(n - counts, self.q)
        return np.asarray((supports / n - self.q) / (self.p - self.q))


def unary_encoding(privacy: LocalPrivacy) -> FrequencyOracle:
    """Return optimised unary encoding [WBLJ17]."""
    return FrequencyOracle(0.5, 1 / (math.exp(_capped(privacy)) + 1))


def local_hashing(privacy: LocalPrivacy) -> FrequencyOracle:
    """Return optimised local hashing into about e^ε + 1 buckets [WBLJ17]."""
    odds = math.exp(_capped(privacy))
    buckets = float(round(odds)) + 1
    return FrequencyOracle(odds / (odds + buckets - 1), 1 / buckets)


def bar_shares(counts: Counts, privacy: LocalPrivacy, rng: np.random.Generator) -> Array:
    """Return the estimated share of each of k categories, possibly negative [WBLJ17].

    It uses k-ary response if k < 3e^ε + 2, else optimised unary encoding: the smaller variance.
    """
    bars, odds, n = len(counts), math.exp(_capped(privacy)), int(counts.sum())
    if bars >= 3 * odds + 2 or n == 0:
        return unary_encoding(privacy).simulate(counts, rng)
    other = 1 / (odds + bars - 1)
    law = np.full((bars, bars), other)
    np.fill_diagonal(law, odds * other)
    reports = rng.multinomial(counts, law).sum(axis=0)
    return np.asarray((reports / n - other) / (other * (odds - 1)))


def tree_shares(
    oracle: FrequencyOracle, counts: Counts, rng: np.random.Generator, fan: int = FAN
) -> Array:
    """Return the estimated share of each cell, possibly negative, with sum 1 [CKS19].

    `counts` has one entry per cell; the number of cells is a power of `fan`.
    """
    levels = round(math.log(len(counts), fan))
    of_level = rng.multinomial(counts, np.full(levels, 1 / levels))
    nodes = (
        of_level[:, level].reshape(fan ** (level + 1), -1).sum(axis=1) for level in range(levels)
    )
    return consistent([oracle.simulate(at_level, rng) for at_level in nodes])


def consistent(shares: list[Array]) -> Array:
    """Return the leaves' shares with sum 1 that fit all levels best in least squares.

    `shares` has one array per level below the root, from the top, all of equal variance.
    """
    fan, height = float(len(shares[0])), 1
    best = [shares[-1]]
    for own in reversed(shares[:-1]):
        height += 1
        below = best[0].reshape(len(own), -1).sum(axis=1)
        weight = (fan**height - fan ** (height - 1)) / (fan**height - 1)
        best.insert(0, weight * own + (1 - weight) * below)
    settled = np.ones(1)
    for own in best:
        groups = own.reshape(len(settled), -1)
        short = (settled - groups.sum(axis=1)) / fan
        settled = (groups + short[:, None]).ravel()
    return settled


class SquareWave(NamedTuple):
    """A number in [−b, 1 + b], with density p within b of the true one and q elsewhere [LWLSS20].

    Example:
        >>> wave = SquareWave.of(LocalPrivacy(1.0))
        >>> round(wave.reach, 4), round(wave.near / wave.far, 4)
        (0.2561, 2.7183)
    """

    reach: float
    """The half-width b of the wave, which maximises an upper bound of the information."""
    near: float
    """The density p within the wave."""
    far: float
    """The density q outside the wave."""

    @classmethod
    def of(cls, privacy: LocalPrivacy) -> "SquareWave":
        """Return the wave for a guarantee."""
        e, less = _capped(privacy), math.exp(-_capped(privacy))
        # Numerator and denominator cancel where ε is small.
        b = 0.5 - e / 3 if e < _TAYLOR else (e - 1 + less) / (2 * (math.exp(e) - 1 - e))
        near = 1 / (2 * b + less)
        return cls(b, near, near * less)

    def simulate(self, values: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one report for each number in [0, 1], in the same shape."""
        v, b = np.asarray(values, dtype=np.float64), self.reach
        inside = v + b * (2 * rng.random(v.shape) - 1)
        # The rest is [−b, v − b) and [v + b, 1 + b], 1 long together.
        outside = rng.random(v.shape)
        outside = np.where(outside < v, outside - b, outside + b)
        return np.where(rng.random(v.shape) < 2 * b * self.near, inside, outside)

    def distribution(self, reports: Array, cells: int) -> Array:
        """Return the share of people in each of a number of cells of [0, 1], by EMS."""
        outcomes = Cells(-self.reach, 1 + self.reach, cells)
        return expectation_maximisation(self.transition(cells), outcomes.counts(reports))

    def transition(self, cells: int) -> Array:
        """Return the probability of each equal part of [−b, 1 + b] for each cell, (m, m)."""
        b = self.reach

        def twice_integrated(z: Array) -> Array:
            return np.where(np.abs(z) <= b, (z + b) ** 2 / (4 * b), np.maximum(z, 0.0))

        near = moved(twice_integrated, Cells(0.0, 1.0, cells).edges, Cells(-b, 1 + b, cells).edges)
        wave = 2 * b * (self.near - self.far)
        return np.asarray(wave * near / near.sum(axis=0) + (1 - wave) / cells)
