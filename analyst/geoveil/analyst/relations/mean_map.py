"""The mean of a number by place, both possibly private, with simultaneous intervals.

At every node it is the mean over people around it, weighted by a bell: E[y·K]/E[K] [MATH §15].
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from geoveil.analyst.relations.by import MeanBy, MeansByGroup, notes_of_range
from geoveil.analyst.relations.form_reports import FormReports, FormStatistic, Weights
from geoveil.analyst.relations.terms import Term, Within
from geoveil.analyst.results import estimated, rows_of
from geoveil.analyst.statistics.map import Bounds, Grid, Map
from geoveil.gp import GaussianKernel, ParameterError

_MOST_NODES = 441


@dataclass(frozen=True, kw_only=True, eq=False)
class MeanMapEstimates(Grid):
    """Means on a grid; nodes with too few people around them have none."""

    coverage = (
        "Each mean is over the people around a place, weighted by a bell of {of.bandwidth:,.4g} m;"
        " all intervals hold at once, with {of.percent} confidence. They are Fieller's, and are "
        "unbounded where there are too few people."
    )
    label: str
    means: MeansByGroup
    """The means at the nodes that have one, labelled by node numbers from west to east, then
    north."""

    @property
    def title(self) -> str:
        size = f"{len(self.longitudes)} × {len(self.latitudes)}"
        return f"{self.label} at {size} places, from {self.n:,} reports"

    def rows(self) -> list[dict[str, Any]]:
        at = [int(label.rsplit(" ", 1)[1]) for label in self.means.labels]
        columns = np.full((4, len(self.nodes["longitude"])), np.nan)
        columns[2:] = np.array([[-np.inf], [np.inf]])
        columns[:, at] = [self.means.values, self.means.standard_errors, *self.means.band()]
        return rows_of(self.nodes | estimated(*columns))


@dataclass(frozen=True)
class MeanMap(FormStatistic[MeanMapEstimates]):
    """The mean of a number around each node of a grid, with simultaneous intervals."""

    number: str | Term
    """The name of a number field, or a function of a field."""
    place: str
    """The name of a place field."""
    bounds: Bounds | None = None
    """West, south, east and north, in degrees, within the area; by default nearly all of it."""
    size: tuple[int, int] = (15, 15)
    """Nodes from west to east, and from south to north; at most 441 in all."""
    bandwidth: float | None = None
    """The standard deviation of the bell around each node, in metres; by default three noise
    scales, or the distance of the nodes if that is more."""

    def __post_init__(self) -> None:
        Map(self.bounds, self.size, self.bandwidth)
        if self.size[0] * self.size[1] > _MOST_NODES:
            raise ParameterError("size", self.size, f"at most {_MOST_NODES} nodes in all")

    def of(self, reports: FormReports, confidence: float, weights: Weights) -> MeanMapEstimates:
        grid = Map(self.bounds, self.size, self.bandwidth)
        nodes = grid.nodes(reports.campaign.campaign_of(self.place))
        _, longitudes, latitudes, centers, bandwidth = nodes
        bells = [
            Within(self.place, GaussianKernel((x, y), bandwidth), label=f"place {node}")
            for node, (x, y) in enumerate(centers.reshape(-1, 2).tolist())
        ]
        means = MeanBy(self.number, bells).of(reports, confidence, weights)
        return MeanMapEstimates(
            label=means.question.removesuffix(", by group").capitalize(),
            longitudes=longitudes,
            latitudes=latitudes,
            means=means,
            bandwidth=bandwidth,
            confidence=confidence,
            n=reports.n,
            about=notes_of_range(means.number, means.limits),
        )
