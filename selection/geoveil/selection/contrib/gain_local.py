"""How far t + 1 changes can move an attribute's information gain [LD Lemmas 5.5 and 5.6].

A record of class c that is added to a cell with a records, b of them of class c, moves it by
F(a) − F(b); one that is removed by F(a−1) − F(b−1). F is concave, so the second is the larger where
there is such a record: h(a, b) = F(a−1) − F(b−1), and F(a) for b = 0. h grows with a and falls with
b, so after t changes the largest is at one of (a + t − 2p, b − p), p ≤ min(t, b): p records of
class c removed, t − p others added. The Candidates algorithm of the paper visits these pairs, but
adds a record only while a < τ, and so misses databases with more records than the one at hand.

Two of the pairs suffice. With x = a + t − 2p − 1, y = b − p − 1 and c = x − 2y, which is the same
for all p, log2(1 + 1/y) − 2 log2(1 + 1/x) has the sign of y(2c − 1) + c². It is positive for c ≥ 1;
for c ≤ 0, where y ≥ −c as x ≥ y, it is negative. So h is monotone in p as long as y ≥ 0: p = 0 or
p = min(t, b − 1); for p = b it is smaller again.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from geoveil.selection.contrib.gain import GAIN_STEP, Array, NodeCounts, entropy_step

_SLACK = 2 * GAIN_STEP
"""Per change: more than the steps of the criterion and the rounding of F amount to."""
_BLOCK = 512


def entropy_change(total: ArrayLike, count: ArrayLike) -> Array:
    """Return h(a, b), in bits: how far one record of a class can move a cell [LD Lemma 5.5].

    Args:
        total: a ≥ b, the records of the cell.
        count: b ≥ 0, those of the class.

    Example:
        >>> entropy_change([5, 5], [0, 5]).round(4).tolist()
        [3.9001, 0.0]
    """
    a, b = np.asarray(total), np.asarray(count)
    one = (b > 0).astype(np.int64)
    return np.asarray(entropy_step(a - one) - entropy_step(b - one))


def entropy_change_at(total: ArrayLike, count: ArrayLike, changes: ArrayLike) -> Array:
    """Return the largest h(a', b') within t changes of (a, b) [LD Lemma 5.6].

    Args:
        total: a, see `entropy_change`.
        count: b, see `entropy_change`.
        changes: t ≥ 0; all three broadcast.

    Example:
        >>> entropy_change_at(5, 5, [0, 1, 2]).round(4).tolist()
        [0.0, 0.2905, 0.5321]
    """
    a, b, t = np.broadcast_arrays(total, count, changes)
    gone = np.minimum(np.maximum(b - 1, 0), t)
    return np.maximum(entropy_change(a + t, b), entropy_change(a + t - 2 * gone, b - gone))


def gain_sensitivities(counts: NodeCounts) -> Callable[[int], Array]:
    """Return δ(x, t, ·) of `information_gain`, admissible [LD Def. 3.3]: a function of t.

    It exceeds the element local sensitivity at distance t by 2^-23 (t + 1) bits, which pays for
    rounding.

    Args:
        counts: of one node; at least two classes.

    Example:
        >>> table = np.array([[3, 0], [1, 1]])
        >>> delta = gain_sensitivities(
        ...     NodeCounts(table=table, starts=np.array([0]), most_records=9)
        ... )
        >>> delta(0).round(4).tolist()
        [3.2451]
    """
    table = gain_sensitivity_rows(counts)
    blocks: dict[int, Array] = {}

    def row(changes: int) -> Array:
        block, offset = divmod(changes, _BLOCK)
        if block not in blocks:
            blocks[block] = table(block * _BLOCK, (block + 1) * _BLOCK)
        return np.asarray(blocks[block][offset])

    return row


def gain_sensitivity_rows(counts: NodeCounts) -> Callable[[int, int], Array]:
    """Return δ(x, t, ·) as a function of a range of t: shape (stop − start, attributes)."""
    totals, rarest, attributes = _undominated(counts)

    def rows(start: int, stop: int) -> Array:
        table = _entropy_steps(_BLOCK * (1 + (max(totals) + stop) // _BLOCK))
        result = np.zeros((len(counts.starts), stop - start))
        for a, b, attribute in zip(totals, rarest, attributes, strict=True):
            row = result[attribute]
            np.maximum(row, _changes_between(table, a, b, start, stop), out=row)
        return np.asarray(result.T + _SLACK * np.arange(start + 1, stop + 1)[:, None])

    return rows


@lru_cache(maxsize=4)
def _entropy_steps(size: int) -> Array:
    return entropy_step(np.arange(size))


def _changes_between(table: Array, a: int, b: int, start: int, stop: int) -> Array:
    """Return `entropy_change_at` for t from start to stop, from slices of a table of F."""
    one = int(b > 0)
    result = table[a + start - one : a + stop - one] - table[b - one]
    if b == 0:
        return np.asarray(result)
    # While more than one record of the class is left, and from then on.
    turn = min(max(start, b), stop)
    if start < turn:
        t = np.arange(start, turn)
        removed = table[a - t - 1] - table[b - t - 1]
        np.maximum(result[: turn - start], removed, out=result[: turn - start])
    if turn < stop:
        gone = table[a + turn - 2 * b + 1 : a + stop - 2 * b + 1]
        np.maximum(result[turn - start :], gone, out=result[turn - start :])
    return np.asarray(result)


def _undominated(counts: NodeCounts) -> tuple[list[int], list[int], list[int]]:
    """Return the cells (a, b), and their attributes' places, that can have the largest change.

    At the same total the rarest class has it, at every distance; and a cell has it not that another
    value of the attribute beats by a larger total and a rarer class.
    """
    totals, rarest = counts.table.sum(axis=1), counts.table.min(axis=1)
    place = np.zeros(len(totals), dtype=np.intp)
    place[counts.starts[1:]] = 1
    place = np.cumsum(place)
    order = np.lexsort((rarest, -totals, place))
    # Lower for every later attribute, so that the least so far starts anew with each.
    key = (rarest - place * (1 + rarest.max()))[order]
    least = np.minimum.accumulate(key)
    kept = order[np.append(True, key[1:] < least[:-1])]
    return totals[kept].tolist(), rarest[kept].tolist(), place[kept].tolist()
