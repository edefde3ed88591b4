"""The part of the variance of answers that is noise: the price of privacy [MATH §8].

Var(y) = Var f(X) + E Var(y | X): the noise variance is the last, the price Var(y)/Var f(X).
Perturbed points estimate it without bias; for fixed queries the law of the mechanism bounds it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from statistics import NormalDist

from geoveil.gp.arrays import Array, np
from geoveil.gp.errors import ContradictionError, ParameterError
from geoveil.gp.intervals import Limits, interval_of_mean
from geoveil.gp.mechanisms.base import QueryMechanism
from geoveil.gp.reprs import enum_repr

_INFEASIBLE = 2
"""The solver's status for an infeasible programme."""
_CONSTANT = 1e-9
"""Negligible variance, relative to the greatest."""


class Basis(StrEnum):
    """The basis of a noise variance."""

    __repr__ = enum_repr

    EXACT = "exact"
    """The noise has the same variance whatever the value."""
    ESTIMATED = "estimated"
    """From the perturbed points, without bias; the ends are those of a confidence interval."""
    BOUNDED = "bounded"
    """Between two ends that are valid for all people."""
    CONTRADICTED = "contradicted"
    """A contradiction: no people give such answers, except by chance or by forging."""

    @property
    def words(self) -> str:
        """Its name, as a part of a sentence."""
        return _WORDS[self]


_WORDS = {
    Basis.EXACT: "exact, as the noise is the same for all values",
    Basis.ESTIMATED: "estimated without bias from the perturbed points",
    Basis.BOUNDED: "bounded by what the mechanism's noise can be for people with such answers",
    Basis.CONTRADICTED: "bounded by how answers vary alone, as no people give such ones",
}


@dataclass(frozen=True, slots=True)
class NoiseVariance:
    """The mean of Var(y | x) over those who answered, in the unit of the query squared."""

    value: float | None
    """None if there are only bounds."""
    low: float
    """≥ 0."""
    high: float
    """≥ `low`; may be infinite."""
    basis: Basis

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high:
            raise ParameterError("noise variance", (self.low, self.high), "0 <= low <= high")

    def within(self, low: float, high: float) -> NoiseVariance:
        """Return the intersection of two bounds; an estimate stays as it is."""
        if self.value is not None:
            return self
        low = max(self.low, low)
        return NoiseVariance(self.value, low, max(low, min(self.high, high)), self.basis)

    def price(self, variance: float) -> Price:
        """Return the price of privacy for answers of a variance > 0."""

        def ratio(noise: float) -> float:
            return variance / (variance - noise) if noise < variance else math.inf

        value = None if self.value is None else ratio(self.value)
        return Price(value, ratio(self.low), ratio(self.high), self.basis)


@dataclass(frozen=True, slots=True)
class Price:
    """The variance of answers as a multiple of that of the same people's answers without noise."""

    value: float | None
    """None if there are only bounds; infinite if all of the variance may be noise."""
    low: float
    high: float
    basis: Basis


def estimated_noise_variance(
    n: int, total: float, limits: tuple[float, float], confidence: float
) -> NoiseVariance | None:
    """Return the noise variance from the estimated variances of points; None for fewer than two.

    `total` is their sum and `limits` their ends. The interval is a little wide: it rests on the
    bound (b − m)(m − a) of the variance of numbers in [a, b] with the mean m.

    Example:
        >>> found = estimated_noise_variance(10_000, 500.0, (0.0, 0.5), 0.95)
        >>> found.value, round(found.low, 4), round(found.high, 4)
        (0.05, 0.0471, 0.0529)
    """
    low, high = limits
    if n < 2 or not low < high:
        return None
    mean = min(max(total / n, low), high)
    most = (high - mean) * (mean - low)
    ends = Limits(limits, (0.0, high))
    interval = interval_of_mean(n, mean, most, confidence, ends)
    value = max(mean, 0.0)
    return NoiseVariance(
        value, min(max(interval.low, 0.0), value), max(interval.high, value), Basis.ESTIMATED
    )


@lru_cache(maxsize=1024)
def bounded_noise_variance(
    mechanism: QueryMechanism,
    n: int,
    mean: tuple[float, float],
    excess: float,
    limits: Limits,
    confidence: float,
) -> NoiseVariance:
    """Return bounds of the noise variance that hold for any people.

    At the distance s a mechanism has a public mean m(s) and variance V(s). Answers tell E m(s) and,
    where they have ends, E[V(s) + m(s)² − m(s)], within sampling errors. The bounds are the least
    and greatest E V(s) over all laws of s that agree: two linear programmes, whose dual solutions
    prove them. The result is exact where the noise is the same everywhere.

    Args:
        mechanism: of one query; if it is biased, answers tell nothing of s.
        n: answers, ≥ 2.
        mean: the ends of a confidence interval for the mean of answers.
        excess: the mean of y² − y over the answers.
        confidence: of what is allowed for sampling, in (0, 1).

    Raises:
        ContradictionError: if nobody gives such answers, so that some are forged, say.

    Example:
        >>> from geoveil.gp import DebiasedLaplace, GeoPrivacy, Threshold
        >>> query = Threshold(at=100_000, width=24_000, profile="smoothstep")
        >>> mechanism = DebiasedLaplace(query, GeoPrivacy(1.0, per=8_000.0))
        >>> limits = Limits(mechanism.range, (0.0, 1.0))
        >>> found = bounded_noise_variance(mechanism, 10**6, (0.48, 0.5), 0.03, limits, 0.95)
        >>> round(found.low, 3), round(found.high, 3)
        (0.029, 0.119)
    """
    law = mechanism.law()
    if law is None or law.noise is None:  # of biased noise no variance is a mean of others
        return NoiseVariance(None, 0.0, math.inf, Basis.BOUNDED)
    (value, second, _), noise = law.points.T, law.variances
    least, greatest, total = float(noise.min()), float(noise.max()), math.inf
    if greatest - least <= _CONSTANT * greatest:
        return NoiseVariance(greatest, greatest, greatest, Basis.EXACT)
    rows, ends = [], []
    if mechanism.unbiased:
        rows += [value, -value]
        ends += [mean[1], -mean[0]]
    if mechanism.unbiased and limits.bounded:
        square = second - value
        top = max(y * y - y for y in limits.reports)
        spread = max((top - excess) * (excess + 0.25), 0.0)  # y² − y is at least −1/4
        slack = NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(spread / n)
        rows += [square, -square]
        ends += [excess + slack, slack - excess]
        middle = min(max(mean[0], 0.5), mean[1])
        total = excess + slack + middle - middle**2  # no noise varies more than the reports
    if rows:
        low = max(_least(noise[0], np.array(rows), np.array(ends)), least)
        high = min(-_least(-noise[1], np.array(rows), np.array(ends)), greatest)
    else:
        low, high = least, greatest
    low = low if low > _CONSTANT * greatest else 0.0  # rounding
    return NoiseVariance(None, low, max(low, min(high, total)), Basis.BOUNDED)


def _least(goal: Array, rows: Array, ends: Array) -> float:
    """Return a lower bound of a goal's mean over all laws whose means of rows stay below ends.

    Any weights w >= 0 prove the least of goal + w·(rows − ends) over all people.
    """
    from scipy.optimize import linprog

    size = np.maximum(np.abs(rows).max(axis=1), np.abs(ends))
    size[size == 0] = 1.0
    rows, ends, unit = rows / size[:, None], ends / size, float(np.abs(goal).max())
    solved = linprog(
        goal / unit,
        A_ub=rows,
        b_ub=ends,
        A_eq=np.ones((1, len(goal))),
        b_eq=[1.0],
        options={"presolve": False},  # it takes as long again, and five full rows have nothing
    )
    if solved.status == _INFEASIBLE:
        raise ContradictionError("no people give such answers through this mechanism")
    weights = np.maximum(-solved.ineqlin.marginals, 0.0) if solved.success else np.zeros(len(ends))
    return unit * float((goal / unit + weights @ (rows - ends[:, None])).min())
