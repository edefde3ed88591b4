"""The effect of false reports on an estimate and on the promise of a plan [MATH §8].

If a fraction η of n reports says anything within the range [lo, hi], their mean differs from that
of honest reports in their place by at most η·(hi − lo), whatever the liars know. People who give
a false value to an honest app send a report that another person might have sent: on average, they
move the mean by at most η·(the greatest minus the least mean), which is η for a share.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geoveil.analyst.plan_files import as_if_published
from geoveil.analyst.planner.candidates import PointReports
from geoveil.gp import ParameterError, validation

if TYPE_CHECKING:
    from geoveil.analyst.planning import PlanOutcome


MEAN_MOVES = (
    "One false answer far out moves a mean by any distance. Ask the points for a quantile, or for a"
    " share above a value: how far false answers can move these is known."
)
"""The sentence about means of numbers without ends."""


@dataclass(frozen=True, slots=True)
class Contamination:
    """How far a fraction of false reports can move an estimate.

    Args:
        fraction: η, the false part of an estimate's reports, in [0, 1).
        width: hi − lo, the range of a report's contribution.
        means: the least and the greatest mean over any people.

    Raises:
        ParameterError: if the fraction is out of range, or a report's contribution is unbounded.

    Example:
        >>> liars = Contamination(0.01, width=2.3, means=(0.0, 1.0))
        >>> round(liars.moved, 3), liars.moved_by_values
        (0.023, 0.01)
        >>> liars.widened(0.005, 0.015)
        (0.0, 0.038)
    """

    fraction: float
    width: float
    means: tuple[float, float] = (-math.inf, math.inf)

    def __post_init__(self) -> None:
        validation.between("contamination", self.fraction, 0, 1, high_open=True)
        if not math.isfinite(self.width):
            bounded = (
                "left out: nothing bounds what a report counts for (ask points for a quantile, or"
                " for a share above a value)"
            )
            raise ParameterError("contamination", self.fraction, bounded)

    @property
    def moved(self) -> float:
        """How far arbitrary reports can move the estimate."""
        return self.fraction * self.width

    @property
    def moved_by_values(self) -> float:
        """How far false values, perturbed like true ones, can move the estimate's expectation."""
        low, high = self.means
        if not self.fraction:
            return 0.0
        return min(self.fraction * (high - low), self.moved)

    def widened(self, low: float, high: float) -> tuple[float, float]:
        """Return an interval of the mean over honest people, given an interval of the estimand.

        Args:
            low: lower end of the interval.
            high: upper end.
        """
        least, greatest = self.means
        return max(low - self.moved, min(least, low)), min(high + self.moved, max(greatest, high))

    def to_dict(self) -> dict[str, object]:
        """Return JSON values."""
        return {
            "fraction": self.fraction,
            "moved": self.moved,
            "moved_by_false_values": self.moved_by_values,
        }


def planned_contamination(planned: "PlanOutcome", fraction: float) -> list[dict[str, Any]]:
    """Return the effect of a fraction of the participants on each estimate of a plan.

    If each participant answers one of several questions, all liars may answer the same one.

    Args:
        planned: a plan from which a campaign can be made.
        fraction: of the participants, in [0, 1).

    Raises:
        ParameterError: if the fraction is out of range.
        UnsupportedError: if no mechanism serves all questions.
    """
    validation.between("contamination", fraction, 0, 1, high_open=True)
    chosen = planned.chosen()
    campaign = as_if_published(planned.request, chosen)
    rows = []
    for column, alternative in enumerate(chosen.alternatives):
        if isinstance(alternative.reports, PointReports):
            limits = alternative.reports.estimator.limits
            width, means = limits.reports[1] - limits.reports[0], limits.means
        else:
            width, means = campaign.most_from_one(column), campaign.limits[column].means
        of_answers = fraction / (fraction + (1 - fraction) / chosen.parts)
        liars = Contamination(of_answers, width, means)
        row = {"question": planned.request.labels[column], "fraction_of_participants": fraction}
        rows.append(row | liars.to_dict())
    return rows
