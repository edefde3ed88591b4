"""The same statistic of each group of people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from geoveil.analyst.answers import Answer
from geoveil.analyst.pictures import axes_of, draw_curve
from geoveil.analyst.results import Result
from geoveil.analyst.statistics.distribution import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True, eq=False)
class ByGroup(Result):
    """The same statistic of each group of people."""

    name: str
    """The name of the grouping, for example "region"."""
    groups: Mapping[str, Result]
    """Label → the statistic of its people, without groups that have no estimate."""
    untold: Mapping[str, str]
    """Label → the reason why the group has no estimate."""
    confidence: float
    """The confidence of the intervals, in (0, 1)."""

    def __getitem__(self, label: str) -> Result:
        return self.groups[label]

    @property
    def title(self) -> str:
        kind = next(iter(self.groups.values())).title.partition(", from")[0]
        return f"{kind}, by {self.name}"

    @property
    def sentences(self) -> Sequence[Answer]:
        return [
            replace(answer, rest=f"{answer.rest} of “{label}”")
            for label, result in self.groups.items()
            for answer in result.sentences
        ]

    @property
    def notes(self) -> Sequence[str]:
        sentences = dict.fromkeys(
            chain.from_iterable(result.notes for result in self.groups.values())
        )
        return (
            "Each row is of the people of its group, of whom those who took part are a random"
            " sample.",
            *sentences,
            *(f"There is no estimate of {label}: {why}." for label, why in self.untold.items()),
        )

    def rows(self) -> list[dict[str, Any]]:
        return [
            {self.name: label} | row
            for label, result in self.groups.items()
            for row in result.rows()
        ]

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        if not all(isinstance(result, Curve) for result in self.groups.values()):
            return super().plot(ax)
        ax = axes_of(ax, self.title)
        for number, (label, result) in enumerate(self.groups.items()):
            curve = cast(Curve, result)
            drawn = (curve.at, curve.values, (curve.low, curve.high))
            draw_curve(ax, self.title, curve.axis_names, *drawn, color=f"C{number}", label=label)
        return ax
