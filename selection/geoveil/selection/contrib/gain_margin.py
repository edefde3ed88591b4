"""Who wins a count, and how many records it takes to make another one win.

Counts that one record moves by at most 1, all in one direction: votes for labels, or the maximum
operator of attributes. The first of the largest wins, so another one wins after n_w − n_r changes
if it comes before, and after one more if it comes later. The least of these is the margin: exact
for votes, where a record moves one count alone, and for all such counts a bound that fits `Margin`.
Of two binary attributes' maximum operators tests find it the least over the databases that have
them, which the counts do not tell apart, but for the empty one: that is safe for one change more.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import validation
from geoveil.gp.errors import ParameterError, PrivateValueError
from geoveil.selection.scores import Margin, SmoothUtilities

Counts = NDArray[np.int64]
_MOST_COUNT = 2**53


def winners_and_margins(counts: ArrayLike) -> tuple[NDArray[np.intp], Counts]:
    """Return the winner and its margin j ≥ 1 for each row; the margin is 0 for one outcome.

    Args:
        counts: integers of shape (rows, outcomes).

    Example:
        >>> winners, margins = winners_and_margins([[22, 8, 17], [1, 4, 2], [0, 0, 0]])
        >>> winners.tolist(), margins.tolist()
        ([0, 1, 0], [6, 3, 1])
    """
    table = np.asarray(counts, dtype=np.int64)
    winners = table.argmax(axis=1)
    outcomes = table.shape[1]
    if outcomes == 1:
        return winners, np.zeros(len(table), dtype=np.int64)
    later = np.arange(outcomes) > winners[:, None]
    gaps = table.max(axis=1)[:, None] - table + later
    gaps[np.arange(len(table)), winners] = np.iinfo(np.int64).max
    return winners, gaps.min(axis=1)


def count_margin(counts: ArrayLike) -> Margin:
    """Return the winner of counts and its margin, for `StabilityMechanism`.

    Args:
        counts: one for each outcome, shape (m,), that one record moves by at most 1, all in one
            direction: votes for labels, for example.

    Raises:
        ParameterError: if there is no count, or more than one axis.
        PrivateValueError: if a count is no integer from 0 to 2^53 − 1.

    Example:
        >>> margin = count_margin([22, 8, 17])
        >>> margin.winner, margin.margin
        (0, 6)
    """
    row = validation.exact_array(counts)
    if row is None or not ((row >= 0) & (row < _MOST_COUNT) & (row == np.floor(row))).all():
        raise PrivateValueError(f"counts: integers from 0 to {_MOST_COUNT - 1}")
    if row.ndim != 1 or not row.size:
        raise ParameterError("counts", row.shape, "at least one, in one dimension: shape (m,)")
    winners, margins = winners_and_margins(row[None])
    return Margin(int(winners[0]), int(margins[0]), len(row))


def distance_utilities(margin: Margin) -> NDArray[np.float64]:
    """Return 0 for the winner and −j for every other outcome, shape (m,): Δ = 1, not monotone.

    The sensitivity is 1, as both margins are 1 where the winner changes.
    """
    utilities = np.full(margin.outcomes, -float(margin.margin))
    utilities[margin.winner] = 0.0
    return utilities


def indicator_utilities(margin: Margin, beta: float) -> SmoothUtilities:
    """Return 1 for the winner and 0 else, and S = e^{−β'(j−1)}, for `SmoothNoisyMax`.

    The local sensitivity is 1 from j − 1 changes on, so S is β'-smooth; [SNM Theorem 7.3] has j in
    place of j − 1. β' = β (1 − 2^-20) pays for the rounding of S.

    Args:
        margin: of the counts.
        beta: β > 0 of the mechanism.

    Example:
        >>> scores = indicator_utilities(Margin(winner=0, margin=3, outcomes=2), 0.5)
        >>> round(scores.smooth_sensitivity, 5)
        0.36788
    """
    utilities = np.zeros(margin.outcomes)
    utilities[margin.winner] = 1.0
    exponent = -beta * (1 - 2.0**-20) * max(margin.margin - 1, 0)
    bound = max(float(np.exp(exponent)), 1 / validation.FARTHEST)
    return SmoothUtilities(utilities, bound, beta=beta)
