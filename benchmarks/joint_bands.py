"""Bands for estimates treated as independent, and a test of whether bands cover the truth."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from statistics import NormalDist

import numpy as np

from benchmarks.joint_people import Array
from geoveil.analyst import JointEstimates
from geoveil.gp import Threshold

Held = Mapping[str, bool]
"""Whether everything holds, as "stated" and with each mistake, by name."""
STATED, ALONE, INDEPENDENT = "stated", "one by one", "independent"


def inside(low: Array, truth: Array, high: Array) -> bool:
    """Return whether the whole truth lies within the ends."""
    tiny = 1e-12
    return bool(((low - tiny <= truth) & (truth <= high + tiny)).all())


@cache
def critical_of_independent(m: int) -> float:
    """Return the joint critical value of m independent errors."""
    return float(NormalDist().inv_cdf((1 + 0.95 ** (1 / m)) / 2))


def band_as_if_independent(found: JointEstimates) -> tuple[Array, Array]:
    """Return the band of estimates, ignoring their covariances."""
    critical = critical_of_independent(len(found.labels))
    return found.intervals(math.erf(critical / math.sqrt(2)))


def as_if_independent(found: JointEstimates) -> JointEstimates:
    """Return estimates without their covariances."""
    return replace(found, covariance=np.diag(np.diag(found.covariance)))


def above(at: Array, width: float, population: Array) -> Array:
    """Return the mean of soft thresholds over a population."""
    return np.array([Threshold(t, width, "smoothstep").value(population).mean() for t in at])
