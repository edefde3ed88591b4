"""The black-box auditor: outputs only, and a lower confidence bound on the effective ε.

Half of the samples choose an event that separates the two points best; the other half, which the
choice has not seen, bounds its two probabilities (Clopper-Pearson). With probability at least
1 − failure_probability the bound is below the truth, so a bound above the promise refutes it.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import ParameterError, validation

Array = NDArray[np.float64]
_BINS = 64
_LEAST = 100


@dataclass(frozen=True, slots=True)
class Bound:
    """What the samples prove."""

    epsilon: float
    """Lower bound of the distinguishability of the two points, in nats."""
    rate: float
    """The same per unit of distance."""
    failure_probability: float
    """Probability that the bound is above the truth."""


def black_box_bound(
    sample: ArrayLike,
    other: ArrayLike,
    distance: float,
    *,
    delta: float = 0.0,
    failure_probability: float = 1e-6,
) -> Bound:
    """Return a lower confidence bound on how distinguishable two points are.

    Args:
        sample: outputs for one point, (n,), n ≥ 100, independent.
        other: outputs for the other point, (m,), m ≥ 100.
        distance: between the two points, > 0.
        delta: the δ of the guarantee.
        failure_probability: in (0, 1).

    Raises:
        ParameterError: if there are too few samples or a number is out of range.
    """
    validation.positive("distance", distance)
    validation.between("delta", delta, 0, 1, high_open=True)
    validation.between(
        "failure_probability", failure_probability, 0, 1, low_open=True, high_open=True
    )
    pair = [np.asarray(s, dtype=np.float64).ravel() for s in (sample, other)]
    for name, values in zip(("sample", "other"), pair, strict=True):
        if len(values) < _LEAST or np.isnan(values).any():
            raise ParameterError(name, f"{len(values)} values", f"at least {_LEAST}, none NaN")
    # Both directions are tried, so each has half of the failure probability.
    best = max(
        _bound(pair[0], pair[1], delta, failure_probability / 2),
        _bound(pair[1], pair[0], delta, failure_probability / 2),
    )
    return Bound(best, best / distance, failure_probability)


def _bound(first: Array, second: Array, delta: float, failure: float) -> float:
    """Bound log((P[first ∈ S] − δ)/P[second ∈ S]) from below for the best event S found."""
    train = (first[::2], second[::2])
    edges = np.unique(np.quantile(np.concatenate(train), np.linspace(0, 1, _BINS + 1)[1:-1]))
    counts = [np.bincount(np.searchsorted(edges, t), minlength=len(edges) + 1) for t in train]
    order = np.argsort(-(counts[0] + 0.5) / (counts[1] + 0.5), kind="stable")
    inside = [np.cumsum(c[order]) for c in counts]
    scores = [
        _interval(int(a), len(train[0]), int(b), len(train[1]), delta, failure)
        for a, b in zip(*inside, strict=True)
    ]
    event = order[: int(np.argmax(scores)) + 1]
    test = (first[1::2], second[1::2])
    a, b = (int(np.isin(np.searchsorted(edges, t), event).sum()) for t in test)
    return _interval(a, len(test[0]), b, len(test[1]), delta, failure)


def _interval(a: int, n: int, b: int, m: int, delta: float, failure: float) -> float:
    """Return the log-ratio of a lower bound of a/n, less δ, to an upper bound of b/m."""
    from scipy import special

    low = float(special.betaincinv(a, n - a + 1, failure / 2)) if a else 0.0
    high = float(special.betaincinv(b + 1, m - b, 1 - failure / 2)) if b < m else 1.0
    return math.log((low - delta) / high) if low > delta else -math.inf
