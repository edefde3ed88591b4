"""How a private tree spends its ε [DiffPID3: LD Algorithm 2, SNM Algorithm 2]."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, log, sqrt

from geoveil.gp.privacy.rounding import round_down, share
from geoveil.selection.scores import Margin


@dataclass(frozen=True, slots=True)
class TreePlan:
    """What each node of a tree may spend, and when it is not split: public.

    A node above the greatest depth spends one part ε' = ε/2(d + 1) on whether to split and one on
    the attribute; a leaf spends on its label all that its path has left. Nodes of one depth hold
    different records, so ε in all is what one path spends. What is decided above may choose what is
    asked below.

    Args:
        epsilon: ε > 0 of the tree, nats per record.
        depth: d ≥ 1.
        values: the most values that an attribute has, t.
        classes: |C|.

    Example:
        >>> plan = TreePlan(epsilon=1.2, depth=2, values=10, classes=2)
        >>> round(plan.part, 6), plan.fewest
        (0.2, 35)
        >>> [round(plan.left(level), 6) for level in range(3)]
        [1.0, 0.6, 0.4]
    """

    epsilon: float
    depth: int
    values: int
    classes: int

    @property
    def part(self) -> float:
        """ε' of one decision, rounded down."""
        return _part(self)

    @property
    def fewest(self) -> int:
        """Records below which a node should not be split.

        t|C|√2/2 as in the template, or more where the noise asks for it: an empty node is split
        with probability at most 1/100t, so that noise alone never grows a tree.
        """
        least = max(sqrt(0.5) * self.values * self.classes, log(100 * self.values) / self.part)
        return ceil(min(least, 2.0**52))

    def left(self, level: int) -> float:
        """Return what a leaf at a level, in [0, depth], may spend on its label."""
        return _left(self, level)

    def split(self, records: int) -> Margin:
        """Return the scores of whether to split (1) or not (0) a node of so many records."""
        enough = records >= self.fewest
        missing = abs(records - self.fewest) + enough
        return Margin(int(enough), missing, 2)


@lru_cache(maxsize=64)
def _part(plan: TreePlan) -> float:
    return share("depth", plan.epsilon, 2 * (plan.depth + 1))


@lru_cache(maxsize=256)
def _left(plan: TreePlan, level: int) -> float:
    spent = 2 * level + (level < plan.depth)
    return round_down(Fraction(plan.epsilon) - spent * Fraction(plan.part))
