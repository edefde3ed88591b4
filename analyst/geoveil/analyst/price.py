"""The price of privacy, and bounds of the noise in answers by a mechanism's law [MATH §8]."""

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from geoveil.gp import Array, Basis, ContradictionError, Limits, NoiseVariance, QueryMechanism

_INFEASIBLE = 2
"""The solver's status for an infeasible programme."""
_CONSTANT = 1e-9
"""Negligible variance, relative to the greatest."""


@dataclass(frozen=True, slots=True)
class Price:
    """The variance of answers as a multiple of the variance without noise, for the same people."""

    value: float | None
    """None if there are only bounds; infinite if all of the variance may be noise."""
    low: float
    high: float
    basis: Basis

    @classmethod
    def of(cls, noise: NoiseVariance, variance: float) -> "Price":
        """Return the price of privacy for answers of a variance > 0."""

        def ratio(part: float) -> float:
            return variance / (variance - part) if part < variance else math.inf

        value = None if noise.value is None else ratio(noise.value)
        return cls(value, ratio(noise.low), ratio(noise.high), noise.basis)


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

    At the distance s, a mechanism has a public mean m(s) and variance V(s). Answers reveal E m(s)
    and, if they have ends, E[V(s) + m(s)² − m(s)], up to sampling errors. The bounds are the least
    and greatest E V(s) over all laws of s that agree: two linear programmes, whose dual solutions
    prove them. The result is exact if the noise is the same everywhere.

    Args:
        mechanism: the mechanism of one query; if it is biased, answers reveal nothing about s.
        n: answers, ≥ 2.
        mean: the ends of a confidence interval for the mean of answers.
        excess: the mean of y² − y over the answers.
        confidence: confidence of the allowance for sampling errors, in (0, 1).

    Raises:
        ContradictionError: if no people give such answers, for example as some are forged.

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
        total = excess + slack + middle - middle**2  # noise has at most the variance of reports
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
