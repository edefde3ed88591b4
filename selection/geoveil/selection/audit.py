"""The exact auditor of selection: the largest log-ratio between neighbours, and where it is.

It needs probabilities, not draws: all pairs of neighbours on a grid of scores, and a local search
from the worst of them. What it finds is a lower bound of ε, and close to it on fine grids. All of
its numbers are synthetic.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from geoveil.gp.errors import ParameterError
from geoveil.selection.audit_pairs import LEVELS, utility_pairs
from geoveil.selection.base import Array, ScoresLike
from geoveil.selection.scores import Scores, Utilities

_UNDERFLOW = 1e-280
"""Two probabilities below this are not compared: float64 may have lost one of them."""
_FINEST = 1e-3
_WORTH_IT = 1e-5
"""Relative gain below which a step is not taken: suprema may lie at infinity."""


class Selects(Protocol):
    """What the auditor needs of a mechanism."""

    def probabilities(self, scores: ScoresLike) -> Array:
        """Return the probability of each outcome."""
        ...


@dataclass(frozen=True, slots=True)
class SelectionFinding:
    """The witness of the largest ratio found."""

    epsilon: float
    """log P_x[r] − log P_y[r], in nats; infinite where one of them is 0."""
    first: Scores
    """x, where the outcome is likelier."""
    second: Scores
    """y, its neighbour."""
    outcome: int
    """r."""


def worst_pair(mechanism: Selects, pairs: Iterable[tuple[Scores, Scores]]) -> SelectionFinding:
    """Return the pair, and the outcome, that a mechanism tells apart most, either way round.

    Args:
        mechanism: anything with probabilities.
        pairs: of neighbours, at least one.

    Raises:
        ParameterError: if there is no pair.

    Example:
        >>> from geoveil.selection import StabilityMechanism, margin_pairs
        >>> found = worst_pair(StabilityMechanism(0.5), margin_pairs(outcomes=3, most=20))
        >>> round(found.epsilon, 9)
        0.5
    """
    worst: SelectionFinding | None = None
    before: Scores | None = None
    for first, second in pairs:
        if first is not before:  # most pairs have their first scores in common with the last
            before, known = first, mechanism.probabilities(first)
        ratio = _log_ratio(known, mechanism.probabilities(second))
        outcome = int(np.argmax(np.abs(ratio)))
        size = float(abs(ratio[outcome]))
        if worst is None or size > worst.epsilon:
            ordered = (first, second) if ratio[outcome] > 0 else (second, first)
            worst = SelectionFinding(size, *ordered, outcome)
    if worst is None:
        raise ParameterError("pairs", "none", "at least one pair of neighbours")
    return worst


def worst_utilities(
    mechanism: Selects,
    outcomes: int,
    sensitivity: float,
    *,
    monotone: bool = False,
    levels: Sequence[float] = LEVELS,
) -> SelectionFinding:
    """Return the worst of all `utility_pairs`, after a local search from it.

    The search moves one utility, or one difference, at a time, by steps that halve down to Δ/1000.

    Args:
        mechanism: anything with probabilities of utilities.
        outcomes: m, 2 to about 4.
        sensitivity: Δ > 0.
        monotone: see `utility_pairs`.
        levels: see `utility_pairs`.

    Raises:
        ParameterError: if an argument is out of range.

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
    """Return log(first/second), 0 where both are lost to underflow."""
    p, q = np.asarray(first), np.asarray(second)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(p) - np.log(q)
    return np.where(np.maximum(p, q) < _UNDERFLOW, 0.0, ratio)


def _moves(
    found: SelectionFinding, step: float, sensitivity: float, *, monotone: bool
) -> Iterator[tuple[Utilities, Utilities]]:
    """Yield the pairs that one utility, or one difference, moved by ± step makes of the pair."""
    assert isinstance(found.first, Utilities)
    assert isinstance(found.second, Utilities)
    base, other = found.first.values, found.second.values
    change = other - base
    # All one way: whichever way the pair that was found goes.
    low = 0.0 if monotone and change.sum() >= 0 else -sensitivity
    high = 0.0 if monotone and change.sum() < 0 else sensitivity
    for move in (*np.eye(len(base)) * step, *np.eye(len(base)) * -step):
        moved = base + move
        yield Utilities(moved), Utilities(moved + change)
    first = Utilities(base)
    for move in (*np.eye(len(base)) * step, *np.eye(len(base)) * -step):
        yield first, Utilities(base + np.clip(change + move, low, high))
