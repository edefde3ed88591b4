"""The expected accuracy of a forest's majority vote, over the labels of its leaves."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]


def expected_votes(probabilities: Array, leaves: Index, labels: NDArray[np.int64]) -> float:
    """Return the expected share of records that a vote on two labels gets right, exactly.

    The number of trees that vote for the second label is a sum of independent coins; a tie is a
    vote for the first.

    Args:
        probabilities: of the labels of each leaf, shape (trees, leaves, 2).
        leaves: of each record in each tree, shape (trees, n).
        labels: what is right, shape (n,).

    Example:
        >>> p = np.array([[[0.1, 0.9]], [[0.2, 0.8]], [[0.5, 0.5]]])
        >>> round(expected_votes(p, np.zeros((3, 1), dtype=int), np.array([1])), 4)
        0.85
    """
    trees, records = leaves.shape
    second = np.take_along_axis(probabilities[:, :, 1], leaves, axis=1)
    # Row k: the probability that k of the trees so far vote for the second label.
    votes = np.zeros((trees + 1, records))
    votes[0] = 1.0
    for tree, p in enumerate(second):
        votes[1 : tree + 2] = votes[1 : tree + 2] * (1 - p) + votes[: tree + 1] * p
        votes[0] *= 1 - p
    wins = votes[trees // 2 + 1 :].sum(axis=0)
    return float(np.where(labels == 1, wins, 1 - wins).mean())


def drawn_votes(
    probabilities: Array,
    leaves: Index,
    labels: NDArray[np.int64],
    draws: int,
    generator: np.random.Generator,
) -> float:
    """Return the mean share of records that a vote gets right, over drawn labels of the leaves.

    Args:
        probabilities: of the labels of each leaf, shape (trees, leaves, labels).
        leaves: of each record in each tree, shape (trees, n).
        labels: what is right, shape (n,).
        draws: of all labels.
        generator: draws them.
    """
    cumulative = probabilities.cumsum(axis=2)
    # Against rounding: a uniform number is always below the last.
    cumulative[:, :, -1] = 1.0
    right = 0
    for _ in range(draws):
        uniform = generator.random(probabilities.shape[:2])
        chosen = (uniform[:, :, None] >= cumulative).sum(axis=2)
        votes = np.take_along_axis(chosen, leaves, axis=1)
        tally = np.stack([(votes == c).sum(axis=0) for c in range(probabilities.shape[2])])
        right += int((tally.argmax(axis=0) == labels).sum())
    return right / (draws * len(labels))
