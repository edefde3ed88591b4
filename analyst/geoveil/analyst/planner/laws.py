"""Priors that are continuous: histograms, log-normal laws, rasters."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from geoveil.analyst.planner.prior import Array, Prior, checked_counts, gauss_cells
from geoveil.gp import validation
from geoveil.gp.errors import ParameterError

_FARTHEST_Z = 8.5
"""Standard deviations beyond which a normal law is cut off: 1e-17 of it is left out."""
_STEP_Z = 0.25


@dataclass(frozen=True, eq=False)
class HistogramPrior(Prior):
    """Numbers of people in brackets, spread evenly over each.

    Args:
        edges: increasing, (m + 1,), in the unit of the values; both ends finite.
        counts: people in each bracket, (m,), ≥ 0 and not all 0.

    Raises:
        ParameterError: if a number is not finite, or the edges do not increase.

    Example:
        >>> brackets = HistogramPrior([0, 50_000, 100_000, 200_000], [30, 50, 20])
        >>> round(brackets.expectation(lambda x: x > 75_000, breaks=[75_000]), 12)
        0.45
    """

    edges: Array
    counts: Array

    def __init__(self, edges: ArrayLike, counts: ArrayLike) -> None:
        ends = np.array(validation.numbers("edges", edges))
        if len(ends) < 2 or not (np.diff(ends) > 0).all():
            raise ParameterError("edges", edges, "at least two increasing numbers")
        object.__setattr__(self, "edges", ends)
        object.__setattr__(self, "counts", checked_counts("counts", counts, (len(ends) - 1,)))

    @property
    def dimension(self) -> int:
        """See `Prior.dimension`."""
        return 1

    @property
    def size(self) -> float:
        """See `Prior.size`: how many were counted."""
        return float(self.counts.sum())

    def nodes(self, breaks: Sequence[float] = ()) -> tuple[Array, Array]:
        """See `Prior.nodes`."""
        inner = [b for b in breaks if self.edges[0] < b < self.edges[-1]]
        x, lengths = gauss_cells(np.unique(np.concatenate([self.edges, inner])))
        bracket = np.searchsorted(self.edges, x, side="right") - 1
        density = self.counts / np.diff(self.edges) / self.size
        return x.ravel(), (lengths * density[bracket]).ravel()

    def __repr__(self) -> str:
        return f"HistogramPrior({len(self.counts)} brackets, size={self.size:.6g})"


@dataclass(frozen=True, slots=True)
class LogNormalPrior(Prior):
    """Positive values whose logarithm is normal.

    Nobody's incomes are quite that. If the law were taken as exact, a very wide band would seem to
    be free of bias; so by default it is trusted no more than a sample of 10,000 people.

    Args:
        mu: mean of the logarithm.
        sigma: its standard deviation > 0.
        people: how many people the law is worth, ≥ 1; see `Prior.size`. ∞ if it is exact.

    Raises:
        ParameterError: if a parameter is not finite or out of range.

    Example:
        >>> LogNormalPrior(11.5, 0.8).expectation(lambda x: x > 1e5, breaks=[1e5]).__round__(6)
        0.493555
    """

    mu: float
    sigma: float
    people: float = 10_000.0

    def __post_init__(self) -> None:
        validation.between("mu", self.mu, -100, 100)
        validation.between("sigma", self.sigma, 1e-6, 10)
        if validation.non_negative("people", self.people) < 1:
            raise ParameterError("people", self.people, "a number >= 1 (infinity is permitted)")

    @property
    def dimension(self) -> int:
        """See `Prior.dimension`."""
        return 1

    @property
    def size(self) -> float:
        """See `Prior.size`."""
        return self.people

    def nodes(self, breaks: Sequence[float] = ()) -> tuple[Array, Array]:
        """See `Prior.nodes`: quadrature over the logarithm, in standard deviations."""
        steps = round(2 * _FARTHEST_Z / _STEP_Z)
        edges = np.linspace(-_FARTHEST_Z, _FARTHEST_Z, steps + 1)
        positive = np.array([b for b in breaks if b > 0])
        inner = (np.log(positive) - self.mu) / self.sigma
        inside = inner[np.abs(inner) < _FARTHEST_Z]
        z, lengths = gauss_cells(np.unique(np.concatenate([edges, inside])))
        weights = lengths * np.exp(-z * z / 2) * NormalDist().pdf(0.0)
        return np.exp(self.mu + self.sigma * z).ravel(), (weights / weights.sum()).ravel()


@dataclass(frozen=True, eq=False)
class RasterPrior(Prior):
    """Numbers of people in the cells of a raster of the plane, spread evenly over each cell.

    Each cell is integrated at 2 × 2 Gauss points, which is exact for functions that are cubic in
    either coordinate; cells should be no larger than what a query or the noise resolves.

    Args:
        bounds: (x₀, y₀, x₁, y₁), in the unit of the points.
        counts: people in each cell, (rows, columns), rows from y₀ up, columns from x₀ right.

    Raises:
        ParameterError: if the bounds are out of order, or the counts are no numbers ≥ 0.

    Example:
        >>> raster = RasterPrior((0.0, 0.0, 200.0, 100.0), [[3, 1]])
        >>> raster.expectation(lambda p: p[:, 0] < 100.0)
        0.75
    """

    bounds: tuple[float, float, float, float]
    counts: Array

    def __init__(self, bounds: Sequence[float], counts: ArrayLike) -> None:
        ends = validation.numbers("bounds", bounds)
        if len(ends) != 4 or not (ends[0] < ends[2] and ends[1] < ends[3]):
            raise ParameterError("bounds", bounds, "(x0, y0, x1, y1), x0 < x1 and y0 < y1")
        shape = np.shape(counts)
        if len(shape) != 2:
            raise ParameterError("counts", f"shape {shape}", "of shape (rows, columns)")
        object.__setattr__(self, "bounds", ends)
        object.__setattr__(self, "counts", checked_counts("counts", counts, shape))

    @property
    def dimension(self) -> int:
        """See `Prior.dimension`."""
        return 2

    @property
    def size(self) -> float:
        """See `Prior.size`: how many were counted."""
        return float(self.counts.sum())

    @property
    def continuous(self) -> bool:
        """See `Prior.continuous`: the cells are given."""
        return False

    def nodes(self, breaks: Sequence[float] = ()) -> tuple[Array, Array]:
        """See `Prior.nodes`: four points per cell that has people."""
        x0, y0, x1, y1 = self.bounds
        rows, columns = self.counts.shape
        width, height = (x1 - x0) / columns, (y1 - y0) / rows
        row, column = np.nonzero(self.counts)
        offsets = 0.5 + np.array([-1.0, 1.0]) / (2 * np.sqrt(3))
        parts = [
            np.stack([x0 + (column + a) * width, y0 + (row + b) * height], axis=1)
            for a in offsets
            for b in offsets
        ]
        share = self.counts[row, column] / (4 * self.size)
        return np.concatenate(parts), np.tile(share, 4)

    def __repr__(self) -> str:
        return f"RasterPrior({self.bounds}, {self.counts.shape}, size={self.size:.6g})"
