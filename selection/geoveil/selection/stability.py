"""Selection by the margin of the winner: how many changes it takes to make another one win.

For utilities that only say who the winner is: a majority label, a percentile, the max operator.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from flint import arb

from geoveil.gp import validation
from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.exact.ball import BALL, working_precision
from geoveil.gp.exact.bits import RandomSource
from geoveil.selection.base import Array, Guarantee, SelectionMechanism
from geoveil.selection.many import Indices, weighted_indices
from geoveil.selection.scores import Margin, Scores

_PRECISION = 160
RuleName: TypeAlias = Literal["ratio", "optimal"]


class StabilityMechanism(SelectionMechanism):
    """The winner with a probability that grows with its margin j, the m − 1 others alike.

    `ratio`: P[winner] = e^{εj}/(e^{εj} + m − 1). Proof: where the winner agrees, |j − j'| ≤ 1 and
    both ratios are at most e^ε; where it switches, j and j' are 0 or 1, and the ratio is
    e^{εj}(e^{εj'} + m − 1)/(e^{εj} + m − 1) ≤ e^ε.

    `optimal`: the largest p_j that the same constraints permit: p_0 = 1/m, p_1 = e^ε/(e^ε + m − 1),
    p_j = min(e^ε p_{j−1}, 1 − e^{−ε}(1 − p_{j−1})). p_1 is what two neighbours permit that have
    different winners, both at margin 1.

    Args:
        epsilon: see `SelectionMechanism`.
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
        """See `SelectionMechanism.guarantee`."""
        return Guarantee(
            epsilon=self.epsilon,
            statement="neighbours with one winner have margins at most 1 apart, others margins"
            " of at most 1",
            source="[proof: docstring of StabilityMechanism]",
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
        # Drawn whether it is needed or not.
        other = np.array([source.below(others) for _ in range(size)], dtype=np.int64)
        return np.where(lost == 1, other + (other >= scores.winner), scores.winner)


def _ratio(epsilon: float, margin: int, outcomes: int, ops: Arithmetic) -> tuple[Real, Real]:
    """Return the probabilities of the winner and of each other outcome."""
    small = ops.exp(-_private(ops, margin) * ops.constant(epsilon))
    total = 1 + (outcomes - 1) * small
    return 1 / total, small / total


def _private(ops: Arithmetic, value: int) -> Real:
    """Return a private number, which the cache of public constants must not remember."""
    return BALL.private(value) if ops is BALL else ops.constant(value)


def _optimal(epsilon: float, margin: int, outcomes: int, ops: Arithmetic) -> tuple[Real, Real]:
    """Return the probabilities of the winner and of each other outcome.

    Both branches of the recursion increase, so p_j is the least that any sequence of them gives.
    The first is the smaller as long as p ≤ 1/(e^ε + 1): it is used k − 1 times, and then the other.
    As much is computed for every margin.
    """
    rate = ops.constant(epsilon)
    others = (outcomes - 1) * ops.exp(-rate)
    winner, other = ops.constant(1), ops.constant(0)
    turn = _growing_steps(epsilon, outcomes)
    # The neighbours too, in case the enclosure of the turn left a choice.
    for near in (-1, 0, 1):
        growing = max(min(turn + near, margin - 1), 0)
        # Capped where one step too many would exceed a probability, and lose the minimum anyway.
        exponent = ops.minimum(_private(ops, growing) * rate - ops.log1p(others), ops.constant(0))
        # What -expm1 gives as well, but for the digits of a small rest.
        rest = (-ops.expm1(exponent), others / (1 + others))[growing == 0]
        rest = rest * ops.exp(-_private(ops, max(margin - 1, 0) - growing) * rate)
        winner = ops.minimum(winner, 1 - rest)
        other = ops.maximum(other, rest / (outcomes - 1))
    even = 1 / ops.constant(outcomes)
    return ((winner, other), (even, even))[margin == 0]


@lru_cache(maxsize=256)
def _growing_steps(epsilon: float, outcomes: int) -> int:
    """Return how often p_1 is multiplied by e^ε until it exceeds 1/(e^ε + 1), give or take 1."""
    with working_precision(256):
        rate = BALL.constant(epsilon)
        small = (-rate).exp()
        steps = ((arb(outcomes - 1) * small + 1).log() - rate - small.log1p()) / rate
        # The turn is never beyond a margin, which is at most 2^53.
        return int(float(steps.min(arb(2) ** 54).max(arb(-1)).mid().floor())) + 1


_RULES: Mapping[str, Callable[[float, int, int, Arithmetic], tuple[Any, Any]]] = MappingProxyType(
    {"optimal": _optimal, "ratio": _ratio}
)
