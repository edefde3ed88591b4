"""Statistics of the groups of a campaign with strata, and of all people at known sizes of groups.

What questions answer is linear in people: the answers of the groups, weighted by how many people
each has, are those of the whole population, with their covariances; and so is every statistic that
is made of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from geoveil.analyst.pictures import axes_of, draw_curve
from geoveil.analyst.results import Result
from geoveil.analyst.statistics.distribution import Curve
from geoveil.analyst.statistics.groups import WEIGHTED, Differences, GroupEstimates, shares_of
from geoveil.analyst.statistics.joint import JointEstimates
from geoveil.analyst.statistics.separate import SeparateEstimates
from geoveil.analyst.statistics.statistic import (
    Answered,
    Contaminated,
    Statistic,
    open_stratum,
)
from geoveil.campaign import Campaign, Strata
from geoveil.gp import ParameterError, UnsupportedError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ByGroup", "by_group", "strata_of", "weighted"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ByGroup(Result):
    """The same statistic of each group of people."""

    name: str
    """What makes the groups, for example "region"."""
    groups: Mapping[str, Result]
    """Label → the statistic of its people; without groups of which nothing can be told."""
    untold: Mapping[str, str]
    """Label → why nothing can be told of it."""
    confidence: float
    """The confidence of the intervals, in (0, 1)."""

    def __getitem__(self, label: str) -> Result:
        return self.groups[label]

    @property
    def title(self) -> str:
        kind = next(iter(self.groups.values())).title.partition(", from")[0]
        return f"{kind} by {self.name}"

    @property
    def notes(self) -> Sequence[str]:
        told = dict.fromkeys(chain.from_iterable(one.notes for one in self.groups.values()))
        return (
            "Each row is of the people of its group, of whom those who took part are a random"
            " sample.",
            *told,
            *(f"Nothing is told of {label}: {why}." for label, why in self.untold.items()),
        )

    def rows(self) -> list[dict[str, Any]]:
        return [
            {self.name: label} | row for label, one in self.groups.items() for row in one.rows()
        ]

    def differences(self, against: str | None = None) -> tuple[Differences, ...]:
        """Return the differences between groups, of each number that has a standard error.

        Those of one number hold at once; those of several numbers are not counted together.

        Args:
            against: the group that the others are compared with; None: every pair.
        """
        if len(self.groups) < 2:
            return ()
        numbers: dict[str, dict[str, tuple[float, float]]] = {}
        for label, one in self.groups.items():
            for row in one.rows():
                value, error = row.get("estimate"), row.get("standard_error")
                if value is None or error is None or not np.isfinite([value, error]).all():
                    continue
                words = [f"{key} {row[key]}" for key in list(row)[: list(row).index("estimate")]]
                numbers.setdefault(", ".join(words), {})[label] = value, error
        return tuple(
            GroupEstimates.independent(
                {label: value for label, (value, _) in told.items()},
                {label: error for label, (_, error) in told.items()},
                question=number,
                confidence=self.confidence,
            ).differences(against)
            for number, told in numbers.items()
            if len(told) == len(self.groups)
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        if not all(isinstance(one, Curve) for one in self.groups.values()):
            return super().plot(ax)
        ax = axes_of(ax, self.title)
        for number, (label, one) in enumerate(self.groups.items()):
            curve = cast(Curve, one)
            names = (curve.axis, curve.name.lower())
            drawn = (curve.at, curve.values, (curve.low, curve.high))
            draw_curve(ax, self.title, names, *drawn, color=f"C{number}", label=label)
        return ax


def by_group(
    strata: Strata, found: Mapping[str, Result | UnsupportedError], confidence: float
) -> ByGroup:
    """Return the statistic of each group of which something can be told.

    Args:
        strata: of the campaign.
        found: label → the statistic of its people, or why it can't be had.
        confidence: of intervals, in (0, 1).

    Raises:
        UnsupportedError: if nothing can be told of any.
    """
    told = {label: one for label, one in found.items() if isinstance(one, Result)}
    untold = {label: one for label, one in found.items() if isinstance(one, UnsupportedError)}
    if not told:
        raise next(iter(untold.values()))
    why = {label: str(error) for label, error in untold.items()}
    return ByGroup(name=strata.name, groups=told, untold=why, confidence=confidence)


def strata_of(campaign: Campaign, asked: object = None) -> Strata:
    """Return the groups of a campaign.

    Args:
        campaign: any.
        asked: what is asked of each: a statistic needs labels that are sent as they are.

    Raises:
        ParameterError: if it has none, or they are not for what is asked.
    """
    strata = campaign.strata
    if strata is None:
        raise ParameterError("campaign_id", campaign.campaign_id, "of a campaign with strata")
    if isinstance(asked, Statistic) and strata.epsilon is not None:
        told = "questions, of which lies about labels are undone; no statistic"
        raise ParameterError("asked", type(asked).__name__, told)
    return strata


def weighting(
    campaign: Campaign,
    asked: object,
    stratum: str | None,
    sizes: Mapping[str, float] | None,
) -> Mapping[int | None, float]:
    """Return label, from 0 → the weight of its people's answers; None: everybody's.

    Args:
        campaign: whose labels are sent as they are, if one of the following is said.
        asked: what is asked.
        stratum: only the people of this label.
        sizes: label → its people, or its share; every label, and no other.

    Raises:
        ParameterError: if both are said, labels are missing, unknown or randomised, a size is not
            > 0, or what is asked can't be weighted.
    """
    if sizes is None:
        return {open_stratum(campaign, stratum): 1.0}
    if stratum is not None:
        raise ParameterError("sizes", sizes, "left out where the people of one stratum are asked")
    if not isinstance(asked, Statistic):
        raise ParameterError("sizes", sizes, "left out of questions; Means(questions) takes it")
    if isinstance(asked, Contaminated):
        told = "left out: false reports may all be of the group whose reports count most"
        raise ParameterError("sizes", sizes, told)
    labels = strata_of(campaign).labels
    open_stratum(campaign, labels[0])
    return dict(enumerate(shares_of(sizes, labels).tolist()))


def weighted(shares: Iterable[float], answers: Sequence[Answered]) -> Answered:
    """Return what all people together would answer, from the answers of each group.

    Intervals count as many reports as would each have the weight of the heaviest.

    Args:
        shares: of the people in each group.
        answers: of each group, to the same questions.

    Raises:
        UnsupportedError: if not questions but the reports themselves were asked for.
    """
    weights = list(shares)
    first = answers[0]
    if len(answers) == 1:
        return first
    if isinstance(first, JointEstimates):
        joint = cast(Sequence[JointEstimates], answers)
        return replace(
            first,
            values=np.tensordot(weights, [one.values for one in joint], 1),
            covariance=np.tensordot(np.square(weights), [one.covariance for one in joint], 1),
            n=sum(one.n for one in joint),
            answers=(_alike(weights, [one.n for one in joint]),) * len(first.labels),
            population=WEIGHTED,
        )
    if isinstance(first, SeparateEstimates):
        apart = cast(Sequence[SeparateEstimates], answers)
        variances = [one.standard_errors**2 for one in apart]
        return replace(
            first,
            values=np.tensordot(weights, [one.values for one in apart], 1),
            standard_errors=np.sqrt(np.tensordot(np.square(weights), variances, 1)),
            n=_alike(weights, [one.n for one in apart]),
            population=WEIGHTED,
        )
    raise UnsupportedError("a smoothed distribution is of reports as they are, without weights")


def _alike(weights: Sequence[float], counts: Sequence[int]) -> int:
    """Return 1 over the weight of the heaviest report."""
    return max(int(min(n / w for w, n in zip(weights, counts, strict=True))), 2)
