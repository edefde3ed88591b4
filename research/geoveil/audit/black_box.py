"""The black-box auditor: from outputs alone, compute a lower confidence bound on ε.

Half of the samples choose an event that separates the two points best; the other half bounds its
two probabilities (Clopper-Pearson). The bound is below the truth with probability at least 1 −
failure_probability, so a bound above the promise refutes it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import ParameterError, validation

Array = NDArray[np.float64]
_BINS = 64
_LEAST = 100


@dataclass(frozen=True, slots=True)
class Bound:
    """The bound that samples prove."""

    epsilon: float
    """Lower bound of the distinguishability of the two points, in nats."""
    rate: float
    """The bound per unit of distance."""
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
        sample: independent outputs for one point, (n,), n ≥ 100.
        other: outputs for the other point, (m,), m ≥ 100.
        distance: between the two points, > 0.
        delta: the δ of the guarantee.
        failure_probability: in (0, 1).
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
    train, test = ([np.sort(values[half::2]) for values in pair] for half in (0, 1))
    edges = np.unique(np.quantile(np.concatenate(train), np.linspace(0, 1, _BINS + 1)[1:-1]))
    near, far = (
        np.array([_counts(v, edges) for v in both]) for both in zip(train, test, strict=True)
    )
    # Both directions are tried, so each has half of the failure probability.
    best = max(_bound(*ways, delta, failure_probability / 2) for ways in ((near, far), (far, near)))
    return Bound(best, best / distance, failure_probability)


def _counts(ordered: Array, edges: Array) -> Array:
    """Return the counts of numbers between successive edges, and beyond the last."""
    return np.diff(np.searchsorted(ordered, edges, side="right"), prepend=0, append=len(ordered))


def _bound(first: Array, second: Array, delta: float, failure: float) -> float:
    """Bound log((P[first ∈ S] − δ)/P[second ∈ S]) from below; the first row of counts chooses S."""
    order = np.argsort(-(first[0] + 0.5) / (second[0] + 0.5), kind="stable")
    inside = [np.cumsum(counts[0][order]) for counts in (first, second)]
    n, m = first.sum(axis=1), second.sum(axis=1)
    scores = _intervals(inside[0], n[0], inside[1], m[0], delta, failure)
    event = order[: int(np.argmax(scores)) + 1]
    a, b = (counts[1][event].sum() for counts in (first, second))
    return float(_intervals(a, n[1], b, m[1], delta, failure))


def _intervals(a: Array, n: int, b: Array, m: int, delta: float, failure: float) -> Array:
    """Return log-ratios of lower bounds of a/n, less δ, to upper bounds of b/m."""
    from scipy import special

    # At the ends, a = 0 and b = m, this quantile does not exist.
    low = np.where(a > 0, special.betaincinv(np.maximum(a, 1), n - a + 1, failure / 2), 0.0)
    high = special.betaincinv(b + 1, np.maximum(m - b, 1), 1 - failure / 2)
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(low - delta, 0.0) / np.where(b < m, high, 1.0))
