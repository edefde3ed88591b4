"""The exact auditor of selection: the largest log-ratio between neighbours, and its place.

It searches pairs of neighbours on a grid of synthetic scores, and locally from the worst of them,
by their probabilities. The result is a lower bound of ε, and close to it on fine grids.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from geoveil.gp import ParameterError, validation
from geoveil.selection import Array, LocalUtilities, Margin, Scores, ScoresLike, Utilities

_Some = TypeVar("_Some", bound=Scores)

LEVELS = (0.0, 0.5, 1.0, 2.0, 5.0, 40.0)
"""Utilities in units of their sensitivity: equal, near, and far apart."""
_LEVELS = (0.0, -300.0, 300.0)
_FEW = np.array([0.0, 0.7, 2.0, 5.5, 25.0, 90.0])
"""Leads to try for any number of outcomes."""
_FARTHEST = 30.0
"""Largest log-ratio of compared probabilities, in nats: smaller ones may be rounding errors."""


def utility_pairs(
    outcomes: int,
    sensitivity: float,
    *,
    monotone: bool = False,
    levels: Sequence[float] = LEVELS,
) -> Iterator[tuple[Utilities, Utilities]]:
    """Yield u and u' with every u'_r − u_r in {−Δ, 0, Δ}, or in {0, Δ} for monotone utilities.

    Args:
        outcomes: m ≥ 1.
        sensitivity: Δ > 0.
        monotone: whether all utilities move the same way.
        levels: the values of each u_r, in units of Δ.
    """
    validation.require_count("outcomes", outcomes)
    unit = validation.positive("sensitivity", sensitivity)
    steps = (0, 1) if monotone else (-1, 0, 1)
    grid = validation.numbers("levels", levels)
    for values in product(grid, repeat=outcomes):
        base = np.asarray(values) * unit
        first = Utilities(base)
        for change in product(steps, repeat=outcomes):
            yield first, Utilities(base + unit * np.asarray(change))


def led_pairs(sensitivity: float) -> Iterator[tuple[Utilities, Utilities]]:
    """Yield u and u' of 2 to 100 outcomes, one of which leads by 0 to 90 Δ, below and above 0.

    From u to u', the leader falls by Δ and all others rise; then each moves in its own way. This
    reveals rules that depend on the number of outcomes, a gap, ties or the level.
    """
    unit = validation.positive("sensitivity", sensitivity)
    rng = np.random.default_rng(0)
    leads = (np.arange(0.0, 60.0, 4.5), np.arange(0.0, 60.0, 0.5))
    scenes = [(m, level, leads[level == 0]) for m in (2, 4, 7, 20) for level in _LEVELS]
    scenes += [(m, float(rng.choice(_LEVELS)), _FEW) for m in (*range(2, 33), 60, 100)]
    for outcomes, level, led in scenes:
        others = -10 * rng.random(outcomes) * rng.integers(0, 2, outcomes)
        others[:2] = 0.0
        all_rise = np.where(np.arange(outcomes) == 0, -1.0, 1.0)
        for gap in led:
            base = others + level
            base[0] += gap
            first = Utilities(base * unit)
            for change in (all_rise, rng.integers(-1, 2, outcomes)):
                yield first, Utilities((base + change) * unit)


def margin_pairs(outcomes: int, most: int) -> Iterator[tuple[Margin, Margin]]:
    """Yield margins of neighbours: one winner and j, j + 1; and two winners, j and j' in {0, 1}.

    `most` is the largest j, ≥ 1; there are m ≥ 1 outcomes.
    """
    validation.require_count("outcomes", outcomes)
    validation.require_count("most", most)
    for margin in range(most):
        yield Margin(0, margin, outcomes), Margin(0, margin + 1, outcomes)
    if outcomes > 1:
        for first, second in product((0, 1), repeat=2):
            yield Margin(0, first, outcomes), Margin(1, second, outcomes)


def database_pairs(
    values: int, records: int, scores: Callable[[tuple[int, ...]], _Some]
) -> Iterator[tuple[_Some, _Some]]:
    """Yield the scores of all pairs of small databases that differ in one record.

    Args:
        values: how many values a record may have, ≥ 2.
        records: n ≥ 1; there are values^n databases.
        scores: a function of a database, a tuple of n integers from 0.

    Example:
        >>> len(list(database_pairs(2, 3, lambda records: Utilities([sum(records)]))))
        12
    """
    validation.require_count("values", values, 2)
    validation.require_count("records", records)
    scores_of = {records: scores(records) for records in product(range(values), repeat=records)}
    for database, own in scores_of.items():
        for place, old in enumerate(database):
            for new in range(old + 1, values):
                yield own, scores_of[(*database[:place], new, *database[place + 1 :])]


def admissible(pairs: Iterable[tuple[LocalUtilities, LocalUtilities]], changes: int) -> bool:
    """Return whether sensitivities are admissible for all of these neighbours [LD Def. 3.3].

    Both conditions, both ways round, with δ(x, t, ·) for t from 0 to `changes` ≥ 1.

    Raises:
        ParameterError: if `changes` is out of range, or a table ends earlier.
    """
    validation.require_count("changes", changes)
    for pair in pairs:
        moved = np.abs(pair[0].values - pair[1].values)
        tables = [[_row(scores, t) for t in range(changes + 1)] for scores in pair]
        for own, other in (tables, tables[::-1]):
            if (own[0] < moved).any():
                return False
            if any((own[t + 1] < other[t]).any() for t in range(changes)):
                return False
    return True


def _row(scores: LocalUtilities, changes: int) -> Array:
    row = scores.sensitivity(changes)
    if row is None:
        raise ParameterError("changes", changes, "within every table of sensitivities")
    return row


_UNDERFLOW = 1e-280
"""Probabilities that are both below this are not compared: float64 may have lost one."""
_FINEST = 1e-3
_WORTH_IT = 1e-5
"""Relative gain below which the search stops, because suprema may lie at infinity."""


class Selects(Protocol):
    """The interface of a mechanism for the exact auditor."""

    def probabilities(self, scores: ScoresLike) -> Array:
        """Return the probability of each outcome."""
        ...


@dataclass(frozen=True, slots=True)
class SelectionFinding:
    """The witness of the largest ratio."""

    epsilon: float
    """log P_x[r] − log P_y[r], in nats; infinite where one of them is 0."""
    first: Scores
    """x, where the outcome is likelier."""
    second: Scores
    """y, its neighbour."""
    outcome: int
    """r."""


def worst_pair(mechanism: Selects, pairs: Iterable[tuple[Scores, Scores]]) -> SelectionFinding:
    """Return the pair and outcome with the largest log-ratio, in either direction.

    Raises:
        ParameterError: if there is no pair.

    Example:
        >>> from geoveil.audit import margin_pairs
        >>> from geoveil.selection import StabilityMechanism
        >>> found = worst_pair(StabilityMechanism(0.5), margin_pairs(outcomes=3, most=20))
        >>> round(found.epsilon, 9)
        0.5
    """
    worst: SelectionFinding | None = None
    before: Scores | None = None
    first_law = np.empty(0)
    for first, second in pairs:
        if first is not before:  # most pairs share their first scores with the previous pair
            before, first_law = first, mechanism.probabilities(first)
        ratio = _log_ratio(first_law, mechanism.probabilities(second))
        outcome = int(np.argmax(np.abs(ratio)))
        size = float(abs(ratio[outcome]))
        if worst is None or size > worst.epsilon:
            ordered = (first, second) if ratio[outcome] > 0 else (second, first)
            worst = SelectionFinding(size, *ordered, outcome)
    if worst is None:
        raise ParameterError("pairs", "none", "at least one pair of neighbours")
    return worst


def far_fraction(mechanism: Selects, epsilon: float, sensitivity: float) -> float:
    """Return the largest log-ratio, divided by ε times the number of steps between two inputs.

    It meets rules for large leads on the way, wherever they begin. ε is in nats per changed record.
    """
    steps = np.geomspace(2.0, max(_FARTHEST / epsilon, 2.0), 12).round().astype(int)
    fractions: list[float] = []
    for outcomes, count in product((2, 12), steps.tolist()):
        equal, led = np.zeros(outcomes), np.full(outcomes, -1.0 * count)
        led[0] = count
        pair = Utilities(equal), Utilities(led * sensitivity)
        fractions.append(worst_pair(mechanism, [pair]).epsilon / (count * epsilon))
    return max(fractions)


def worst_utilities(
    mechanism: Selects,
    outcomes: int,
    sensitivity: float,
    *,
    monotone: bool = False,
    levels: Sequence[float] = LEVELS,
) -> SelectionFinding:
    """Return the worst of all `utility_pairs` (m from 2 to about 4), after a local search from it.

    The search moves one utility, or one difference, at a time, by steps that halve down to Δ/1000.

    Example:
        >>> from geoveil.selection import PermuteAndFlip
        >>> found = worst_utilities(PermuteAndFlip(1.0, sensitivity=2.0), 3, sensitivity=2.0)
        >>> round(found.epsilon, 6)
        1.0
    """
    pairs = utility_pairs(outcomes, sensitivity, monotone=monotone, levels=levels)
    worst = worst_pair(mechanism, pairs)
    step = sensitivity
    while step >= _FINEST * sensitivity and math.isfinite(worst.epsilon):
        moves = _moves(worst, step, sensitivity, monotone=monotone)
        better = worst_pair(mechanism, moves)
        if better.epsilon > worst.epsilon * (1 + _WORTH_IT):
            worst = better
        else:
            step /= 2
    return worst


def _log_ratio(first: ArrayLike, second: ArrayLike) -> Array:
    """Return log(first/second), 0 if both underflow."""
    p, q = np.asarray(first), np.asarray(second)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(p) - np.log(q)
    return np.where(np.maximum(p, q) < _UNDERFLOW, 0.0, ratio)


def _moves(
    found: SelectionFinding, step: float, sensitivity: float, *, monotone: bool
) -> Iterator[tuple[Utilities, Utilities]]:
    """Yield the pair with one utility, or one difference, moved by ± step."""
    assert isinstance(found.first, Utilities)
    assert isinstance(found.second, Utilities)
    base, other = found.first.values, found.second.values
    change = other - base
    # All in one direction: that of the pair found.
    low = 0.0 if monotone and change.sum() >= 0 else -sensitivity
    high = 0.0 if monotone and change.sum() < 0 else sensitivity
    for move in (*np.eye(len(base)) * step, *np.eye(len(base)) * -step):
        moved = base + move
        yield Utilities(moved), Utilities(moved + change)
    first = Utilities(base)
    for move in (*np.eye(len(base)) * step, *np.eye(len(base)) * -step):
        yield first, Utilities(base + np.clip(change + move, low, high))
