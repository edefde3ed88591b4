"""Percentiles: which of a public list of values stands at position ⌊pn/100⌋ [SNM §5].

Neighbouring databases differ in one record that one of them has and the other lacks. Let L records
lie below candidate r, E at it, and let
    A = pn − 100 L,    B = 100 (L + E) − pn.
r is the percentile if and only if A ≥ 0 and B > 0. One change moves A and B by p or 100 − p, so how
many it takes to make r the percentile is a closed form, exact for all p: see `_distances`.

[SNM Proposition 5.3] takes 2j + 1 changes to alter the percentile, j being the fewer of its repeats
on either side. For p = 50 that is at most one too few; for p = 90 or 99 a change moves the
position by up to 0.9 or 0.99 records and not by half a record, so about j/0.9 or j/0.99 changes do.
And the local sensitivity is 1 already at one change less than it takes.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import validation
from geoveil.gp.errors import ParameterError, PrivateValueError
from geoveil.selection.scores import LocalUtilities, Margin, SmoothUtilities, Utilities

Array: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]

_PARTS = 1_000_000
_MOST_RECORDS = 10**9
"""So that pn and 100 L, in millionths, stay below 2^63."""


class Percentile:
    """What selection may know of the p-th percentile of one database. All of it is private.

    The candidates, p and the fact that the database is asked are public; the number of records is
    not. Of an empty database the first candidate counts as the percentile.

    Args:
        values: the records, shape (n,); each counts as the candidate that is nearest to it, the
            lower one of two. That is decided record by record, so neighbours stay neighbours.
        p: in (0, 100), in steps of a millionth.
        candidates: the values that may come out, increasing, shape (m,). Public: not taken from
            the records.

    Raises:
        ParameterError: if p or the candidates are out of range.
        PrivateValueError: if a record is not a finite number.

    Example:
        >>> known = Percentile([3, 5, 5, 5, 5, 6], p=50, candidates=range(8))
        >>> known
        Percentile(p=50, 8 candidates, values not shown)
        >>> known.winner, known.margin  # two fives among the first half, one in the second
        (5, 4)
    """

    def __init__(self, values: ArrayLike, p: float, candidates: Sequence[float] | Array) -> None:
        self.p = percent(p)
        self.candidates = checked_candidates(candidates)
        records = validation.float_array(values)
        if records is None or records.ndim != 1 or not np.isfinite(records).all():
            raise PrivateValueError("records: finite numbers, in one dimension")
        if len(records) > _MOST_RECORDS:
            raise PrivateValueError(f"at most {_MOST_RECORDS:,} records")
        middles = (self.candidates[1:] + self.candidates[:-1]) / 2
        counts = np.bincount(np.searchsorted(middles, records), minlength=len(self.candidates))
        self._distances = _distances(counts.astype(np.int64), self.p)
        self._winner = int(np.flatnonzero(self._distances == 0)[0])

    @property
    def outcomes(self) -> int:
        """m: how many candidates there are. Public."""
        return len(self.candidates)

    @property
    def winner(self) -> int:
        """The index of the percentile. Private."""
        return self._winner

    @property
    def margin(self) -> int:
        """j: how many changes it takes to make another candidate the percentile. Private."""
        if self.outcomes == 1:
            return 0
        return int(np.delete(self._distances, self._winner).min())

    @property
    def distances(self) -> Counts:
        """How many changes it takes to make each candidate the percentile, shape (m,). Private."""
        return self._distances.copy()

    def as_margin(self) -> Margin:
        """Return the winner and its margin."""
        return Margin(self.winner, self.margin, self.outcomes)

    def as_indicator(self) -> Utilities:
        """Return u_r = 1 for the percentile, else 0 [SNM Definition 5.1]: sensitivity 1."""
        return Utilities(self._indicator())

    def as_nearness(self) -> Utilities:
        """Return u_r = −(changes that make r the percentile): sensitivity 1, a distance's."""
        return Utilities(-self._distances.astype(np.float64))

    def as_local(self) -> LocalUtilities:
        """Return the indicator with δ(x, t, r) = 1 from t = j − 1 on, else 0."""
        last, outcomes = max(self.margin - 1, 0), self.outcomes
        steps = np.zeros(outcomes), np.ones(outcomes)
        return LocalUtilities(self._indicator(), lambda t: steps[int(t >= last)])

    def as_smooth(self, beta: float) -> SmoothUtilities:
        """Return the indicator with its smooth sensitivity S = e^{−(j−1)β}.

        Args:
            beta: β > 0.

        Raises:
            ParameterError: if beta is out of range.
        """
        rate = validation.positive("beta", beta)
        # What is this small no longer matters; 0 is not a scale.
        bound = float(np.exp(-min(rate * max(self.margin - 1, 0), _DEEPEST)))
        return SmoothUtilities(self._indicator(), bound, beta=rate)

    def _indicator(self) -> Array:
        result = np.zeros(self.outcomes)
        result[self._winner] = 1.0
        return result

    def __repr__(self) -> str:
        return f"Percentile(p={float(self.p):g}, {self.outcomes} candidates, values not shown)"


_DEEPEST = 200.0
"""ln S is not below −this; a larger bound is still one, and still smooth."""


def percent(p: object) -> Fraction:
    """Return p as a multiple of a millionth.

    Raises:
        ParameterError: if p is not in (0, 100), at that resolution.
    """
    number = validation.between("p", p, 0, 100, low_open=True, high_open=True)
    rounded = Fraction(round(number * _PARTS), _PARTS)
    if not 0 < rounded < 100:
        raise ParameterError("p", p, "from 0.000001 to 99.999999, a percentage")
    return rounded


def checked_candidates(candidates: Sequence[float] | Array) -> Array:
    """Return the candidates as an array.

    Raises:
        ParameterError: if they are not finite numbers, at least one, increasing.
    """
    array = validation.float_array(np.asarray(candidates))
    if (
        array is None
        or array.ndim != 1
        or not array.size
        or not np.isfinite(array).all()
        or not (np.diff(array) > 0).all()
    ):
        raise ParameterError("candidates", "a list", "finite numbers, at least one, increasing")
    return array


def _distances(counts: Counts, p: Fraction) -> Counts:
    """Return how many records it takes, added or removed, to make each candidate the percentile.

    If A < 0, candidate r is too high: to add r raises A by p, to remove a record below raises it by
    100 − p at B's expense, and A + B = 100 E leaves room for that as soon as E ≥ 1. If B ≤ 0 it is
    too low: to add r raises B by 100 − p, to remove a record above by p. So the larger of the two
    steps is taken throughout, but for one r that must be added where there is none.
    """
    part = _PARTS  # all in millionths
    up, hundred = int(p * part), 100 * part
    down = hundred - up
    total = int(counts.sum())
    below = np.cumsum(counts) - counts
    a = up * total - hundred * below
    b = hundred * (below + counts) - up * total
    absent = (counts == 0).astype(np.int64)
    step = max(up, down)
    too_high = absent + _ceil_div(np.maximum(-a - absent * up, 0), step)
    too_low = absent + np.where(b + absent * down <= 0, (-b - absent * down) // step + 1, 0)
    result = np.where(a < 0, too_high, np.where(b <= 0, too_low, 0))
    if not total:
        result = np.ones_like(counts)  # one record, anywhere
        result[0] = 0
    # The first candidate is also that of the empty database.
    result[0] = min(int(result[0]), total)
    return result


def _ceil_div(number: Counts, divisor: int) -> Counts:
    return -(-number // divisor)
