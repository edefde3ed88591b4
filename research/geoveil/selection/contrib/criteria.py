"""Criteria for splitting a set of records by an attribute, with exact sensitivities.

A criterion is a multiple of 2^-24 (information gain) or 2^-16 (Gini), computed in integers, so that
its sensitivity holds exactly for a mechanism's doubles, not up to rounding. Neighbours differ by
one record, added or removed. An added record never raises an attribute's information gain or Gini
index, and never lowers a maximum operator: all three are monotone, and mechanisms for monotone
utilities need half the noise.

docs/selection.md derives how far t + 1 changes can move an attribute's information gain, from
[LD Lemmas 5.5 and 5.6].
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import validation

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

CriterionName: TypeAlias = Literal["information_gain", "gini", "max_operator"]

GAIN_STEP = 2.0**-24
GINI_STEP = 2.0**-16
MOST_RECORDS = 1 << 22
"""The largest count for which products fit in 64 bits, and sums of steps in 53."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCounts:
    """The contingency tables of attributes and the class at one node: private.

    Args:
        table: counts of records, shape (values, classes), with the attributes' values stacked.
        starts: the first row of each attribute, shape (attributes,). Public.
        most_records: the public bound on the number of records; too low a bound costs only
            accuracy.
    """

    table: Counts
    starts: NDArray[np.intp]
    most_records: int

    def __repr__(self) -> str:
        return f"NodeCounts({len(self.starts)} attributes, counts not shown)"


def entropy_step(count: ArrayLike) -> Array:
    """Return F(n) = (n+1) log2(n+1) − n log2 n, in bits, with F(0) = 0 [LD Lemma 5.5: f].

    Example:
        >>> entropy_step([0, 1, 3]).round(4).tolist()
        [0.0, 2.0, 3.2451]
    """
    n = np.asarray(count, dtype=np.float64)
    rate = np.zeros_like(n)
    np.log1p(np.divide(1.0, n, out=rate, where=n > 0), out=rate)
    return np.asarray((n * rate + np.log1p(n)) / np.log(2))


def information_gain(counts: NodeCounts) -> Array:
    """Return −τ H(C|A) in bits for each attribute, shape (attributes,): the gain minus a constant.

    Σ_j (Σ_c G(τ_jc) − G(τ_j)) with G(n) = n log2 n. Beyond `most_records` records G is a straight
    line, so the sensitivity holds for any number of records.

    Example:
        >>> table = np.array([[3, 0], [1, 1]])
        >>> information_gain(NodeCounts(table=table, starts=np.array([0]), most_records=9)).tolist()
        [-2.0]
    """
    _, sums = _steps(counts.most_records)
    cells = _continued(sums, counts.table).sum(axis=1)
    totals = _continued(sums, counts.table.sum(axis=1))
    return np.asarray(np.add.reduceat(cells - totals, counts.starts) * GAIN_STEP)


def gini(counts: NodeCounts) -> Array:
    """Return −Σ_j τ_j (1 − Σ_c (τ_jc/τ_j)²) for each attribute, shape (attributes,), in records.

    Each value's term is rounded down to a multiple of 2^-16, which keeps the index monotone.

    Example:
        >>> table = np.array([[3, 0], [1, 1]])
        >>> gini(NodeCounts(table=table, starts=np.array([0]), most_records=9)).tolist()
        [-1.0]
    """
    totals = counts.table.sum(axis=1)
    squares = np.square(counts.table).sum(axis=1)
    pure, rest = np.divmod(squares, np.maximum(totals, 1))
    shares = pure * _GINI_STEPS + rest * _GINI_STEPS // np.maximum(totals, 1)
    return np.asarray(np.add.reduceat(shares - totals * _GINI_STEPS, counts.starts) * GINI_STEP)


def max_operator(counts: NodeCounts) -> Array:
    """Return Σ_j max_c τ_jc, the number of records with majority labels [SNM Definition 6.1].

    Example:
        >>> table = np.array([[3, 0], [1, 1]])
        >>> max_operator(
        ...     NodeCounts(table=table, starts=np.array([0]), most_records=9)
        ... ).tolist()
        [4.0]
    """
    return np.add.reduceat(counts.table.max(axis=1), counts.starts).astype(np.float64)


def gain_sensitivity(most_records: int) -> float:
    """Return Δ in bits: F(N), at most log2(N+1) + 1/ln 2 [LD §5.2], for N in [1, 2^22] records.

    Raises:
        ParameterError: if N is out of range.

    Example:
        >>> round(gain_sensitivity(45_222), 3)
        16.907
    """
    return float(_steps(checked_most_records(most_records))[0][-1] * GAIN_STEP)


def gini_sensitivity(most_records: int) -> float:
    """Return Δ = 2 records [FS10] for any number of records."""
    checked_most_records(most_records)
    return 2.0


def max_operator_sensitivity(most_records: int) -> float:
    """Return Δ = 1 record for any number of records."""
    checked_most_records(most_records)
    return 1.0


def checked_most_records(most_records: int) -> int:
    """Return a public bound on the number of records; ParameterError unless in [1, 2^22]."""
    return validation.require_count("most_records", most_records, 1, MOST_RECORDS)


@dataclass(frozen=True, slots=True)
class Criterion:
    """A utility per attribute and its global sensitivity.

    Args:
        values: returns the utilities of a node's attributes, shape (attributes,). Monotone.
        sensitivity: returns Δ for a public bound on the number of records.
    """

    values: Callable[[NodeCounts], Array]
    sensitivity: Callable[[int], float]


CRITERIA: Mapping[str, Criterion] = MappingProxyType(
    {
        "gini": Criterion(gini, gini_sensitivity),
        "information_gain": Criterion(information_gain, gain_sensitivity),
        "max_operator": Criterion(max_operator, max_operator_sensitivity),
    }
)

_GINI_STEPS = int(1 / GINI_STEP)


@lru_cache(maxsize=4)
def _steps(most_records: int) -> tuple[Counts, Counts]:
    """Return nondecreasing F(n), n ≤ N, and G(n), n ≤ N + 1, both in steps of 2^-24 bits."""
    steps = np.floor(entropy_step(np.arange(most_records + 1)) / GAIN_STEP).astype(np.int64)
    steps = np.maximum.accumulate(steps)
    return steps, np.concatenate([[0], np.cumsum(steps)])


def _continued(sums: Counts, counts: Counts) -> Counts:
    """Return G(n), extended by a straight line beyond its last entry."""
    last = len(sums) - 1
    inside = sums[np.minimum(counts, last)]
    return np.asarray(inside + np.maximum(counts - last, 0) * (sums[-1] - sums[-2]))


_SLACK = 2 * GAIN_STEP
"""The margin per change that covers the criterion's steps and the rounding of F."""
_BLOCK = 512


def gain_sensitivities(counts: NodeCounts) -> Callable[[int], Array]:
    """Return δ(x, t, ·) of `information_gain`, admissible [LD Def. 3.3]: a function of t.

    It exceeds the element local sensitivity at distance t by 2^-23 (t + 1) bits, which covers
    rounding. There are at least two classes.

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
    """Return how far a record can move a cell within t changes, for t from start to stop, in bits.

    The cell has a records, b ≤ a of them of a class. A record of the class moves it by h(a, b) =
    F(a − 1) − F(b − 1), or F(a) if b = 0 [LD Lemma 5.5]. The largest h within t changes is that of
    (a + t, b) or, with g = min(b − 1, t) records of the class fewer, of (a + t − 2g, b − g) [LD
    Lemma 5.6]. `table` has F.
    """
    added = int(b > 0)
    result = table[a + start - added : a + stop - added] - table[b - added]
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
    """Return the cells (a, b) that can have the largest change, and their attributes' indices.

    For one total, the rarest class has it at every distance; a cell is left out if another value
    of the attribute has a larger total and a rarer class.
    """
    totals, rarest = counts.table.sum(axis=1), counts.table.min(axis=1)
    place = np.zeros(len(totals), dtype=np.intp)
    place[counts.starts[1:]] = 1
    place = np.cumsum(place)
    order = np.lexsort((rarest, -totals, place))
    # Offsets decrease by attribute, so that the running minimum restarts with each.
    key = (rarest - place * (1 + rarest.max()))[order]
    least = np.minimum.accumulate(key)
    kept = order[np.append(True, key[1:] < least[:-1])]
    return totals[kept].tolist(), rarest[kept].tolist(), place[kept].tolist()
