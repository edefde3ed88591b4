"""Selection by the winner's margin, the number of changes that make another outcome win.

It suits utilities that only determine a winner: a majority label, a percentile, the max operator.
docs/selection.md derives the margin of counts.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import (
    BALL,
    FLOAT,
    Arithmetic,
    ParameterError,
    PrivateValueError,
    RandomSource,
    Real,
    validation,
    working_precision,
)
from geoveil.selection.base import (
    Array,
    Guarantee,
    Margin,
    Scores,
    SelectionMechanism,
    SmoothUtilities,
)
from geoveil.selection.draws import Indices, weighted_indices

_PRECISION = 160
RuleName: TypeAlias = Literal["ratio", "optimal"]


class StabilityMechanism(SelectionMechanism):
    """Selects the winner with a probability that grows with its margin j, and all others equally.

    `ratio`: P[winner] = e^{εj}/(e^{εj} + m − 1). `optimal`: the largest p_j that neighbours permit:
    p_0 = 1/m, p_1 = e^ε/(e^ε + m − 1), p_j = min(e^ε p_{j−1}, 1 − e^{−ε}(1 − p_{j−1})).
    docs/selection.md has the proofs.

    Args:
        epsilon: the largest log-ratio of probabilities (nats) between neighbouring databases, > 0.
        rule: "optimal" or "ratio".

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> from geoveil.gp import SeededSource
        >>> m = StabilityMechanism(epsilon=1.0)
        >>> m.probabilities(Margin(winner=1, margin=4, outcomes=5)).round(4).tolist()
        [0.0074, 0.9704, 0.0074, 0.0074, 0.0074]
        >>> m.select(Margin(winner=1, margin=40, outcomes=10), SeededSource(1))
        1
    """

    _kind: ClassVar[type[Scores]] = Margin

    def __init__(self, epsilon: float, rule: RuleName = "optimal") -> None:
        super().__init__(epsilon)
        self.rule = validation.choice("rule", rule, _RULES)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            epsilon=self.epsilon,
            statement="neighbours with one winner have margins at most 1 apart, others margins"
            " of at most 1",
            source="[proof: docs/selection.md]",
        )

    def _probabilities(self, scores: Margin) -> Array:
        if scores.outcomes == 1:
            return np.ones(1)
        winner, other = _RULES[self.rule](self.epsilon, scores.margin, scores.outcomes, FLOAT)
        result = np.full(scores.outcomes, float(other))
        result[scores.winner] = float(winner)
        return result

    def _draw(self, scores: Margin, size: int, source: RandomSource) -> Indices:
        others = scores.outcomes - 1
        if not others:
            return np.zeros(size, dtype=np.int64)

        def weights() -> list[Real]:
            winner, other = _RULES[self.rule](self.epsilon, scores.margin, scores.outcomes, BALL)
            return [winner, others * other]

        with working_precision(_PRECISION):
            balls = weights()
        low, high = (np.array([float(end(b)) for b in balls]) for end in (arb.lower, arb.upper))
        lost = weighted_indices(size, (np.maximum(low, 0), high), weights, source)
        # Always drawn, even if not needed.
        other = np.array([source.below(others) for _ in range(size)], dtype=np.int64)
        return np.where(lost == 1, other + (other >= scores.winner), scores.winner)


def _ratio(epsilon: float, margin: int, outcomes: int, ops: Arithmetic) -> tuple[Real, Real]:
    small = ops.exp(-_private(ops, margin) * ops.constant(epsilon))
    total = 1 + (outcomes - 1) * small
    return 1 / total, small / total


def _private(ops: Arithmetic, value: int) -> Real:
    """Return a private number, which the cache of public constants must not store."""
    return BALL.private(value) if ops is BALL else ops.constant(value)


def _optimal(epsilon: float, margin: int, outcomes: int, ops: Arithmetic) -> tuple[Real, Real]:
    """Return the probabilities of the winner and of each other outcome.

    Both branches of the recursion increase, so p_j is the minimum over all sequences of them. The
    first is the smaller one while p ≤ 1/(e^ε + 1): it applies k − 1 times, then the other. Every
    margin takes the same amount of work.
    """
    rate = ops.constant(epsilon)
    others = (outcomes - 1) * ops.exp(-rate)
    winner, other = ops.constant(1), ops.constant(0)
    turn = _growing_steps(epsilon, outcomes)
    # The neighbours too, since the turn is enclosed, not exact.
    for near in (-1, 0, 1):
        growing = max(min(turn + near, margin - 1), 0)
        # Capped: with one step too many it would exceed 1, and never be the minimum.
        exponent = ops.minimum(_private(ops, growing) * rate - ops.log1p(others), ops.constant(0))
        # Like -expm1, but with more digits for a small remainder.
        rest = (-ops.expm1(exponent), others / (1 + others))[growing == 0]
        rest = rest * ops.exp(-_private(ops, max(margin - 1, 0) - growing) * rate)
        winner = ops.minimum(winner, 1 - rest)
        other = ops.maximum(other, rest / (outcomes - 1))
    even = 1 / ops.constant(outcomes)
    return ((winner, other), (even, even))[margin == 0]


@lru_cache(maxsize=256)
def _growing_steps(epsilon: float, outcomes: int) -> int:
    """Return how many factors e^ε raise p_1 above 1/(e^ε + 1), within 1."""
    with working_precision(256):
        rate = BALL.constant(epsilon)
        small = (-rate).exp()
        steps = ((arb(outcomes - 1) * small + 1).log() - rate - small.log1p()) / rate
        # Margins are at most 2^53, so later turns don't matter.
        return int(float(steps.min(arb(2) ** 54).max(arb(-1)).mid().floor())) + 1


_RULES: Mapping[str, Callable[[float, int, int, Arithmetic], tuple[Any, Any]]] = MappingProxyType(
    {"optimal": _optimal, "ratio": _ratio}
)


_MOST_COUNT = 2**53


def winners_and_margins(counts: ArrayLike) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return the winner and margin j ≥ 1 of each row of integer counts, shape (rows, outcomes).

    With a single outcome the margin is 0.

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
    """Return the winner of m counts and its margin, for `StabilityMechanism`.

    One record must change each count by at most 1, all in one direction, as for votes on labels.

    Raises:
        ParameterError: if there is no count, or more than one axis.
        PrivateValueError: if a count is not an integer from 0 to 2^53 − 1.

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

    The sensitivity is 1, since both margins are 1 if the winner differs.
    """
    utilities = np.full(margin.outcomes, -float(margin.margin))
    utilities[margin.winner] = 0.0
    return utilities


def indicator_utilities(margin: Margin, beta: float) -> SmoothUtilities:
    """Return 1 for the winner and 0 otherwise, with S = e^{−β'(j−1)}, for `SmoothNoisyMax` at β.

    The local sensitivity is 1 from j − 1 changes on, so S is β'-smooth; [SNM Theorem 7.3] has j
    instead of j − 1. β' = β (1 − 2^-20) covers the rounding of S.

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
