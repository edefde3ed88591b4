"""Shares of a partition of the people, with simultaneous intervals.

The intervals are simultaneous, so facts about shares apply to them jointly: none reaches below 0,
and each is at most what the lower ends of the others leave. Neither costs coverage.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np

from geoveil.analyst.pictures import Axes, draw_bars
from geoveil.analyst.questions import Softness
from geoveil.analyst.results import Answer, Series, rows_of, share_answer, what_holds
from geoveil.analyst.statistics.joint import JointEstimates
from geoveil.analyst.statistics.statistic import (
    MOST_QUESTIONS,
    Statistic,
    Steps,
    increasing,
    logarithms,
    noise_scale,
    shares_above,
)
from geoveil.campaign import AttributeCampaign
from geoveil.gp import Array, Limits, LogScale, validation

MOST_EDGES = MOST_QUESTIONS // 2
_ROUNDING = 1e-14
"""A smaller share counts as 0, the rounding error of a sum of shares."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PartitionShares(Series):
    """The share of the people in each part of a partition: not negative, with sum 1."""

    coverage = "The intervals hold all shares at once at {of.percent}."
    labels: tuple[str, ...]
    """The names of the parts."""
    joint: JointEstimates = field(repr=False)
    """The unbiased estimates, before the projection to shares that are not negative."""
    edges: Array | None = None
    """The edges between parts of a histogram, shape (m − 1,); None for other partitions."""
    any_crowd: tuple[Array, Array] | None = None
    """The ends of simultaneous intervals of the shares of the values themselves, valid however
    people crowd; for histograms only."""

    @property
    def title(self) -> str:
        return f"Shares of {len(self.labels)} parts, from {self.n:,} reports"

    @property
    def sentences(self) -> Sequence[Answer]:
        most = int(np.argmax(self.values))
        value, low, high = (float(each[most]) for each in (self.values, self.low, self.high))
        rest = f"of people: {self.labels[most]}, the most of {len(self.labels)} parts"
        return (share_answer(value, low, high, rest),)

    def rows(self) -> list[dict[str, Any]]:
        return rows_of(
            {"name": self.labels, **self.columns, **what_holds(len(self.labels), self.any_crowd)}
        )

    def held(self, scale: LogScale) -> Self:
        if self.edges is None:
            return self
        edges = scale.from_log(self.edges)
        labels = names_of_parts([f"{edge:,.12g}" for edge in edges.tolist()])
        return replace(self, labels=labels, edges=edges, joint=replace(self.joint, labels=labels))

    def plot(self, ax: Axes | None = None) -> Axes:
        return draw_bars(ax, self.title, self.labels, self.values, (self.low, self.high))


@dataclass(frozen=True, kw_only=True)
class Histogram(Statistic[PartitionShares]):
    """The shares of the people between edges, below the first and above the last.

    Example:
        >>> Histogram(edges=(25_000.0, 50_000.0, 100_000.0)).edges
        (25000.0, 50000.0, 100000.0)
    """

    edges: Sequence[float]
    """Increasing, 1 to 450."""
    width: float | None = None
    """The width of the soft edges; by default three noise scales, at most the narrowest part."""

    def __post_init__(self) -> None:
        increasing("edges", self.edges, MOST_EDGES)
        if self.width is not None:
            validation.positive("width", self.width)

    def on_scale(self, scale: LogScale) -> "Histogram":
        edges = logarithms("edges", self.edges)
        return replace(self, edges=edges, width=scale.width(self.width))

    def steps(self, campaign: AttributeCampaign, confidence: float) -> Steps[PartitionShares]:
        edges = np.asarray(self.edges, np.float64)
        narrowest = float(np.diff(edges).min(initial=np.inf))
        width = Softness(noise_scale(campaign), self.width).band(narrowest)
        _, above = yield from shares_above(edges, width)
        bins = between(replace(above, confidence=confidence), width <= narrowest)
        soft, near = f"{width:,.6g}", f"{width / 2:,.6g}"
        if campaign.attribute.scale is not None:
            soft, near = (f"a factor of {math.exp(w):,.6g}" for w in (width, width / 2))
        sentence = (
            f"Edges are soft over {soft}: who is nearer than {near} to one counts for a part on"
        )
        sharp = min(noise_scale(campaign), narrowest / 2)
        beside = np.ravel(edges[:, None] + np.array([-sharp / 2, sharp / 2]))
        _, above = yield from shares_above(beside, sharp)
        made = partition_shares(bins)
        low, high = of_any_crowd(replace(above, confidence=confidence))
        return replace(
            made,
            edges=edges,
            about=(f"{sentence} either side. any_crowd is for the parts themselves.",),
            any_crowd=(np.minimum(low, made.values), np.maximum(high, made.values)),
        )


def of_any_crowd(above: JointEstimates) -> tuple[Array, Array]:
    """Return intervals of hard shares, by soft thresholds before and after each edge.

    A part has at most the share from before its first edge to after its last, and at least the
    share from after the first to before the last.

    Args:
        above: the shares above thresholds that do not overlap, two for each edge.
    """
    near = between(above, apart=True)
    inside = np.eye(len(near.labels))[::2]
    beside = np.eye(len(near.labels), k=1) + np.eye(len(near.labels), k=-1)
    weights = np.vstack([inside, inside + beside[::2]])
    labels = [str(row) for row in range(len(weights))]
    low, high = near.combined(weights, labels, near.limits[-1:] * len(weights)).band()
    parts = len(inside)
    return np.clip(low[:parts], 0.0, 1.0), np.clip(high[parts:], 0.0, 1.0)


def between(above: JointEstimates, apart: bool) -> JointEstimates:
    """Return the shares between thresholds, below the first and above the last.

    Args:
        above: the shares above increasing thresholds.
        apart: whether no two of the soft thresholds overlap.
    """
    m = len(above.labels)
    weights = np.eye(m + 1, m, -1) - np.eye(m + 1, m)
    labels = names_of_parts([label.removeprefix("above ") for label in above.labels])
    low, high = above.limits[0].reports
    share = Limits((low, high), (0.0, 1.0))
    pair = share if apart else Limits((low - high, high - low), (0.0, 1.0))
    # The first part is 1 minus the share above the first threshold.
    return above.combined(weights, labels, [share, *(pair,) * (m - 1), share], np.eye(m + 1)[0])


def names_of_parts(edges: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the parts between edges."""
    middle = (f"{a} to {b}" for a, b in pairwise(edges))
    return (f"up to {edges[0]}", *middle, f"above {edges[-1]}")


def partition_shares(joint: JointEstimates, **more: Any) -> PartitionShares:
    """Return estimates of all parts of a partition as shares, with joint intervals.

    Args:
        joint: of the share of each part, unbiased; together they are 1, or nearly so.
        more: other fields of `PartitionShares`.
    """
    low, high = (np.clip(ends, 0.0, 1.0) for ends in joint.band())
    left, taken = 1 - (low.sum() - low), 1 - (high.sum() - high)
    shares = on_simplex(joint.values, joint.standard_errors**2)
    return PartitionShares(
        labels=joint.labels,
        values=shares,
        standard_errors=joint.standard_errors,
        low=np.minimum(np.maximum(low, taken), shares),
        high=np.maximum(np.minimum(high, left), shares),
        **joint.common,
        joint=joint,
        **more,
    )


def on_simplex(values: Array, variances: Array) -> Array:
    """Return the nearest shares in standard errors that are not negative and have the sum 1.

    Args:
        values: (m,).
        variances: of each, (m,); values of variance 0 stay if others can change.

    Example:
        >>> on_simplex(np.array([0.7, 0.4, -0.1]), np.ones(3)).round(3).tolist()
        [0.65, 0.35, 0.0]
    """
    most = float(variances.max())
    d = variances + (most * 1e-9 if most > 0 else 1.0)
    order = np.argsort(-values / d)
    # The multiple of the variances that is subtracted if the first k of these stay above 0: the
    # largest is that for the right k.
    multiples = (np.cumsum(values[order]) - 1) / np.cumsum(d[order])
    shares = np.maximum(values - multiples.max() * d, 0.0)
    shares[shares < _ROUNDING] = 0.0
    return np.asarray(shares / shares.sum())
