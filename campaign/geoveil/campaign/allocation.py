"""How one participant's privacy is spent over the queries of a campaign [MATH §7]."""

from collections.abc import Sequence
from enum import Enum
from fractions import Fraction

from geoveil.gp import RandomSource


class Allocation(Enum):
    """Whichever is chosen, a participant's total is the privacy of the campaign."""

    PARTITION = "partition"
    """Each participant answers one query, drawn uniformly, with all of it: n is divided by m."""
    SPLIT = "split"
    """Each participant answers all m queries, each with one m-th of it."""

    def share(self, queries: int) -> Fraction:
        """Return the share of the privacy rate that one answer spends."""
        return Fraction(1) if self is Allocation.PARTITION else Fraction(1, queries)

    def draw(self, queries: int, source: RandomSource) -> tuple[int, ...]:
        """Return the indices of the queries that a participant answers."""
        if self is Allocation.PARTITION:
            return (source.below(queries),)
        return tuple(range(queries))

    def admits(self, indices: Sequence[int], queries: int) -> bool:
        """Return whether a report with answers to these queries, in this order, is sound."""
        if self is Allocation.PARTITION:
            return len(indices) == 1 and 0 <= indices[0] < queries
        return list(indices) == list(range(queries))
