"""Private percentiles: choose from a public list the value at position ⌊pn/100⌋ [SNM §5].

Neighbouring databases differ by one record, added or removed. Let L records lie below candidate r,
E at it, and let
    A = pn − 100 L,    B = 100 (L + E) − pn.
r is the percentile if and only if A ≥ 0 and B > 0. One change moves A and B by p or 100 − p, so the
number of changes that make r the percentile has a closed form, exact for all p.

[SNM Proposition 5.3] claims that altering the percentile takes 2j + 1 changes, where j is the
lesser number of its repeats on either side. For p = 50 that is at most one too few; for p = 90 or
99 a change moves the position by up to 0.9 or 0.99 records instead of half a record, so about j/0.9
or j/0.99 changes suffice. The local sensitivity is 1 already one change earlier.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import ParameterError, PrivateValueError, RandomSource, validation
from geoveil.selection.base import (
    Guarantee,
    LocalUtilities,
    Margin,
    SmoothUtilities,
    Utilities,
)
from geoveil.selection.contrib.recipe import SelectionRecipe, by_beta, plain, recipe_named
from geoveil.selection.global_sensitivity import ExponentialMechanism, PermuteAndFlip
from geoveil.selection.local_dampening import LocalDampening
from geoveil.selection.one_sided import ExponentialPareto
from geoveil.selection.smooth import SmoothNoisyMax, SmoothPrivateSelection
from geoveil.selection.stability import StabilityMechanism
from geoveil.selection.two_sided import LaplaceLogNormal

Array: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]

_PARTS = 1_000_000
_MOST_RECORDS = 10**9
"""The most records: pn and 100 L, in millionths, stay below 2^63."""


class Percentile:
    """The scores of the p-th percentile of one database, all of them private.

    The candidates and p are public; the number of records is not. The first candidate counts as
    the percentile of an empty database.

    Args:
        values: the records, shape (n,); each counts as its nearest candidate, in a tie the lower.
            This acts on each record separately, so neighbours stay neighbours.
        p: the percentage, in (0, 100), in steps of a millionth.
        candidates: the possible results, increasing, shape (m,). Public: they must not be taken
            from the records.

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
        """m, the number of candidates. Public."""
        return len(self.candidates)

    @property
    def winner(self) -> int:
        """The index of the percentile. Private."""
        return self._winner

    @property
    def margin(self) -> int:
        """j, the number of changes that make another candidate the percentile. Private."""
        if self.outcomes == 1:
            return 0
        return int(np.delete(self._distances, self._winner).min())

    @property
    def distances(self) -> Counts:
        """The number of changes that make each candidate the percentile, shape (m,). Private."""
        return self._distances.copy()

    def as_margin(self) -> Margin:
        """Return the winner and its margin."""
        return Margin(self.winner, self.margin, self.outcomes)

    def as_indicator(self) -> Utilities:
        """Return u_r = 1 for the percentile and 0 otherwise [SNM Definition 5.1]: sensitivity 1."""
        return Utilities(self._indicator())

    def as_nearness(self) -> Utilities:
        """Return u_r = −(changes that make r the percentile), of sensitivity 1."""
        return Utilities(-self._distances.astype(np.float64))

    def as_local(self) -> LocalUtilities:
        """Return the indicator with δ(x, t, r) = 1 from t = j − 1 on, else 0."""
        last, outcomes = max(self.margin - 1, 0), self.outcomes
        steps = np.zeros(outcomes), np.ones(outcomes)
        return LocalUtilities(self._indicator(), lambda t: steps[int(t >= last)])

    def as_smooth(self, beta: float) -> SmoothUtilities:
        """Return the indicator with its smooth sensitivity S = e^{−(j−1)β}.

        Raises:
            ParameterError: if beta is not > 0.
        """
        rate = validation.positive("beta", beta)
        # Smaller values do not matter, and 0 would be no scale.
        bound = float(np.exp(-min(rate * max(self.margin - 1, 0), _DEEPEST)))
        return SmoothUtilities(self._indicator(), bound, beta=rate)

    def _indicator(self) -> Array:
        result = np.zeros(self.outcomes)
        result[self._winner] = 1.0
        return result

    def __repr__(self) -> str:
        return f"Percentile(p={float(self.p):g}, {self.outcomes} candidates, values not shown)"


_DEEPEST = 200.0
"""ln S is clamped to at least −200; a larger bound is still a smooth bound."""


def percent(p: object) -> Fraction:
    """Return p as a multiple of a millionth; ParameterError unless p is in (0, 100)."""
    number = validation.between("p", p, 0, 100, low_open=True, high_open=True)
    rounded = Fraction(round(number * _PARTS), _PARTS)
    if not 0 < rounded < 100:
        raise ParameterError("p", p, "from 0.000001 to 99.999999, a percentage")
    return rounded


def checked_candidates(candidates: Sequence[float] | Array) -> Array:
    """Return the candidates as an array; ParameterError unless finite and increasing."""
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
    """Return the number of records to add or remove to make each candidate the percentile.

    If A < 0, adding r raises A by p, and removing a record below raises it by 100 − p; if B ≤ 0,
    adding r raises B by 100 − p, and removing a record above raises it by p. All steps are the
    larger one, except that at least one r must be added if there is none.
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
    # The first candidate is also the empty database's percentile.
    result[0] = min(int(result[0]), total)
    return result


def _ceil_div(number: Counts, divisor: int) -> Counts:
    return -(-number // divisor)


PercentileRecipe: TypeAlias = SelectionRecipe[int, Percentile]
"""A recipe whose public fact is the number of candidates."""

_NOISE = ExponentialPareto(4.0)
"""The noise of smooth noisy max. For thousands of candidates, its tail is the best of 1, 2 and 4 at
a margin of 1, and nearly the best at 6; the same is true of spending half of ε on β."""

_DELTA = 1e-6
"""The δ of Laplace log-normal noise, whose change of scale costs √m instead of m."""


_smooth = by_beta(Percentile.as_smooth)


PERCENTILE_RECIPES: Mapping[str, PercentileRecipe] = MappingProxyType(
    {
        "exponential": plain(ExponentialMechanism, Percentile.as_indicator, sensitivity=1.0),
        "permute-and-flip": plain(PermuteAndFlip, Percentile.as_indicator, sensitivity=1.0),
        "local dampening": plain(LocalDampening, Percentile.as_local, sensitivity=1.0),
        "smooth private selection": SelectionRecipe(SmoothPrivateSelection, _smooth),
        "smooth private selection, log-normal": SelectionRecipe(
            lambda epsilon, outcomes: SmoothPrivateSelection(
                epsilon, outcomes, LaplaceLogNormal(), delta=_DELTA
            ),
            _smooth,
        ),
        "smooth noisy max": SelectionRecipe(
            lambda epsilon, outcomes: SmoothNoisyMax(epsilon, outcomes, _NOISE, share=0.5), _smooth
        ),
        "stability": plain(StabilityMechanism, Percentile.as_margin),
        "exponential, nearness": plain(
            ExponentialMechanism, Percentile.as_nearness, sensitivity=1.0
        ),
        "permute-and-flip, nearness": plain(
            PermuteAndFlip, Percentile.as_nearness, sensitivity=1.0
        ),
    }
)
"""Name → recipe. "Nearness" scores by the number of changes, all others by the indicator."""


@dataclass(frozen=True, slots=True)
class PercentileEstimate:
    """A private percentile; its ε is for adding or removing a record, double that for a change."""

    value: float
    guarantee: Guarantee


def percentile(
    values: ArrayLike,
    p: float,
    candidates: Sequence[float] | NDArray[np.float64],
    *,
    epsilon: float,
    mechanism: str = "permute-and-flip, nearness",
    source: RandomSource | None = None,
) -> PercentileEstimate:
    """Return a private p-th percentile: the value at position ⌊pn/100⌋, counted from 0.

    The caller is trusted with the records, but must choose candidates, p, epsilon and the mechanism
    without looking at them.

    Args:
        values: the records, shape (n,); each counts as its nearest candidate.
        p: the percentage, in (0, 100).
        candidates: the possible results, increasing, shape (m,).
        epsilon: ε > 0, nats per record added or removed.
        mechanism: a name in `PERCENTILE_RECIPES`. Errors of those by nearness are close in rank;
            errors of the others are equally likely at every candidate.

    Raises:
        ParameterError: if a public argument is out of range.
        PrivateValueError: if a record is not a finite number.

    Example:
        >>> from geoveil.gp import SeededSource
        >>> ages = [23, 25, 31, 31, 34, 35, 35, 35, 41, 52, 57, 64]
        >>> percentile(ages, 50, range(120), epsilon=8.0, source=SeededSource(1)).value
        35.0
    """
    recipe = recipe_named(PERCENTILE_RECIPES, mechanism)
    utilities = Percentile(values, p, candidates)
    selection = recipe.build(epsilon, utilities.outcomes)
    index = selection.select(recipe.score(utilities, selection), source)
    return PercentileEstimate(float(utilities.candidates[index]), selection.guarantee)
