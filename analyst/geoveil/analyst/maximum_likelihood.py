"""Estimate the distribution behind noisy reports by smoothed expectation-maximisation [LWLSS20].

The maximum-likelihood shares are full of spikes. Smoothing after each step removes them, and blurs
true heaps and jumps as well: the result is biased, and has no interval.
"""

from collections.abc import Sequence

import numpy as np

from geoveil.gp import Array, ArrayLike, ParameterError, validation

BINOMIAL = (0.25, 0.5, 0.25)
"""The smoothing of [LWLSS20]: a quarter of each cell goes to either neighbour."""
_TOLERANCE = 1e-3
_ITERATIONS = 10_000
_SUM = 1e-6
"""Largest difference of a cell's total probability from 1."""


def expectation_maximisation(
    transition: ArrayLike,
    counts: ArrayLike,
    smoothing: Sequence[float] = BINOMIAL,
    *,
    tolerance: float = _TOLERANCE,
    iterations: int = _ITERATIONS,
) -> Array:
    """Return the share of people in each cell, (k,), with sum 1.

    It starts from equal shares, and stops when the log-likelihood of all counts changes by less
    than the tolerance.

    Args:
        transition: probability of each outcome for a person in each cell, (outcomes, k); every
            column has the sum 1.
        counts: of each outcome, (outcomes,), ≥ 0 and not all 0.
        smoothing: an odd number of symmetric weights ≥ 0 with sum 1, which spread each cell over
            its neighbours after each step; (1,) smooths nothing.
        tolerance: > 0.
        iterations: at most so many, ≥ 1.

    Raises:
        ParameterError: if an argument is out of range, or the shapes do not fit.

    Example:
        >>> halves_told_wrong_once_in_four = [[0.75, 0.25], [0.25, 0.75]]
        >>> expectation_maximisation(halves_told_wrong_once_in_four, [40, 60], (1,)).round(2)
        array([0.3, 0.7])
    """
    law, seen = validation.float_array(transition), validation.float_array(counts)
    if law is None or law.ndim != 2 or law.size == 0:
        raise ParameterError("transition", "something else", "probabilities, (outcomes, cells)")
    if not ((law >= 0).all() and np.allclose(law.sum(axis=0), 1.0, rtol=0, atol=_SUM)):
        raise ParameterError("transition", "some", "numbers >= 0, each column with the sum 1")
    if seen is None or seen.shape != law.shape[:1]:
        raise ParameterError("counts", "something else", f"numbers, ({len(law)},)")
    if not (np.isfinite(seen).all() and (seen >= 0).all() and seen.sum() > 0):
        raise ParameterError("counts", "some", "finite numbers >= 0, not all 0")
    kernel = _kernel(smoothing)
    cells = law.shape[1]
    tolerance = validation.positive("tolerance", tolerance)
    law, seen = law[seen > 0], seen[seen > 0]
    if not law.any(axis=1).all():
        raise ParameterError("counts", "some", "0 for outcomes that nobody can give")
    shares, before = np.full(cells, 1 / cells), -np.inf
    for _ in range(iterations):
        expected = law @ shares
        after = float(np.sum(seen * np.log(expected)))
        if abs(after - before) < tolerance:
            break
        before = after
        shares = _smoothed(shares * (law.T @ (seen / expected)), kernel)
        shares /= shares.sum()
    return shares


def _kernel(smoothing: Sequence[float]) -> tuple[float, ...]:
    weights = validation.numbers("smoothing", smoothing)
    if len(weights) % 2 == 0 or weights != weights[::-1] or min(weights) < 0:
        raise ParameterError("smoothing", smoothing, "an odd number of weights >= 0, symmetric")
    if abs(sum(weights) - 1) > _SUM or weights[len(weights) // 2] == 0:
        raise ParameterError("smoothing", smoothing, "weights with sum 1, that in the middle > 0")
    return weights


def _smoothed(shares: Array, kernel: Sequence[float]) -> Array:
    """Return smoothed shares: each gives a part to its neighbours, without loss at the ends."""
    from scipy.ndimage import correlate1d

    return np.asarray(correlate1d(shares, kernel, mode="reflect"))  # the edge's cell comes twice
