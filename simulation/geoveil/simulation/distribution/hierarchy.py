"""Hierarchical histograms: a distribution under ε-LDP, from one node of a tree each [CKS19].

Every person is asked at one level of a tree of intervals, drawn at random, by a frequency oracle
[WBLJ17]; the levels are made consistent by least squares [HRMS10].

For experiments: drawn in floating point, which is NOT private on a computer [MATH §10].
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import LocalPrivacy, ParameterError, validation
from geoveil.simulation.distribution.means import capped_epsilon

Array = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FrequencyOracle:
    """How reports support candidates: the true one with probability p, any other with q.

    Whether a report supports one candidate is independent of whether it supports another: for
    unary encoding by its definition, for local hashing since an ideal hash function maps candidates
    independently. So the numbers of supports are sums of two binomials, which is how they are
    drawn.
    """

    p: float
    q: float

    def __post_init__(self) -> None:
        validation.between("p", self.p, 0, 1, low_open=True)
        if not 0 <= self.q < self.p:
            raise ParameterError("q", self.q, f"a number in [0, {self.p:g})")

    @classmethod
    def unary_encoding(cls, privacy: LocalPrivacy) -> "FrequencyOracle":
        """Return optimised unary encoding: p = 1/2, q = 1/(e^ε + 1) [WBLJ17].

        Example:
            >>> oracle = FrequencyOracle.unary_encoding(LocalPrivacy(math.log(3)))
            >>> oracle.p, round(oracle.q, 6)
            (0.5, 0.25)
        """
        return cls(0.5, 1 / (math.exp(capped_epsilon(privacy)) + 1))

    @classmethod
    def local_hashing(cls, privacy: LocalPrivacy) -> "FrequencyOracle":
        """Return optimised local hashing to the g nearest e^ε + 1 [WBLJ17].

        Example:
            >>> oracle = FrequencyOracle.local_hashing(LocalPrivacy(math.log(3)))
            >>> round(oracle.p, 6), oracle.q
            (0.5, 0.25)
        """
        odds = math.exp(capped_epsilon(privacy))
        buckets = float(round(odds)) + 1
        return cls(odds / (odds + buckets - 1), 1 / buckets)

    def simulate(self, counts: Counts, rng: np.random.Generator) -> Array:
        """Return the estimated share of each candidate; zeros if there is nobody."""
        n = int(counts.sum())
        if n == 0:
            return np.zeros(len(counts))
        supports = rng.binomial(counts, self.p) + rng.binomial(n - counts, self.q)
        return np.asarray((supports / n - self.q) / (self.p - self.q))


@dataclass(frozen=True, slots=True)
class HierarchicalHistogram:
    """Shares of fan^levels cells from a tree over them [CKS19].

    Args:
        oracle: how a person answers at a level.
        fan: B ≥ 2, children of a node.
        levels: h ≥ 1 below the root.
    """

    oracle: FrequencyOracle
    fan: int = 4
    levels: int = 5

    def __post_init__(self) -> None:
        if validation.require_count("fan", self.fan) < 2:
            raise ParameterError("fan", self.fan, "an integer >= 2")
        validation.require_count("levels", self.levels)

    @property
    def cells(self) -> int:
        """The number of leaves."""
        return int(self.fan**self.levels)

    def simulate(self, counts: Counts, rng: np.random.Generator) -> Array:
        """Return the estimated share of each cell, of which some may be negative; sum 1."""
        if counts.shape != (self.cells,):
            raise ParameterError("counts", counts.shape, f"of shape ({self.cells},)")
        asked = rng.multinomial(counts, np.full(self.levels, 1 / self.levels))
        nodes = [
            asked[:, level].reshape(self.fan ** (level + 1), -1).sum(axis=1)
            for level in range(self.levels)
        ]
        return self.consistent([self.oracle.simulate(at_level, rng) for at_level in nodes])

    def consistent(self, shares: list[Array]) -> Array:
        """Return the shares of the leaves nearest in least squares, given that all add to 1.

        Args:
            shares: of the nodes of each level below the root, from the top, with equal variances.
        """
        fan, height = float(self.fan), 1
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
