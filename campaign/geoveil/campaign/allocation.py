"""How one participant's privacy is spent over the queries of a campaign [MATH §7]."""

from collections.abc import Sequence
from enum import Enum
from fractions import Fraction

from geoveil.gp import RandomSource
from geoveil.gp.shown import member


class Allocation(Enum):
    """What a report of a campaign over m queries holds, and what it costs.

    Independent answers about one value add up (sequential composition). A report to a campaign
    whose `privacy` is ε therefore spends ε under PARTITION and SPLIT, and mε under REPEAT.

    Example:
        >>> for allocation in Allocation:
        ...     print(allocation.value, allocation.share(4), allocation.times(4))
        partition 1 1
        split 1/4 1
        repeat 1 4
    """

    __repr__ = member

    PARTITION = "partition"
    """Each participant answers one query, drawn uniformly, with ε: n is divided by m."""
    SPLIT = "split"
    """Each participant answers all m queries, each with ε/m."""
    REPEAT = "repeat"
    """Each participant answers all m queries, each with ε, and spends mε."""

    @property
    def answers_all(self) -> bool:
        """Whether a participant answers every query."""
        return self is not Allocation.PARTITION

    def share(self, queries: int) -> Fraction:
        """Return the share of the campaign's ε that one answer spends."""
        return Fraction(1, queries) if self is Allocation.SPLIT else Fraction(1)

    def times(self, queries: int) -> int:
        """Return how many times the campaign's ε one report spends, all its answers together."""
        return queries if self is Allocation.REPEAT else 1

    def draw(self, queries: int, source: RandomSource) -> tuple[int, ...]:
        """Return the indices of the queries that a participant answers."""
        return tuple(range(queries)) if self.answers_all else (source.below(queries),)

    def admits(self, indices: Sequence[int], queries: int) -> bool:
        """Return whether a report with answers to these queries, in this order, is sound."""
        if self.answers_all:
            return list(indices) == list(range(queries))
        return len(indices) == 1 and 0 <= indices[0] < queries
