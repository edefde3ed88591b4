"""How many perturbed points lie in each cell of a lattice: for statistics that read the reports."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geoveil.campaign import AttributeCampaign
from geoveil.gp import GeoPrivacy, validation

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Counts:
    """What asks for them. Who has no reports at hand has to have them sent, all of them."""

    width: float
    """The width of a cell in each direction, in the coordinates of queries, > 0."""

    def __post_init__(self) -> None:
        validation.positive("width", self.width)


@dataclass(frozen=True, kw_only=True, eq=False)
class CellCounts:
    """The cells with points in them, and how many each has."""

    cells: Integers
    """(m, k): cell c holds the points x with c·width ≤ x < (c + 1)·width in each coordinate."""
    counts: Integers
    """(m,), each at least 1."""
    width: float
    privacy: GeoPrivacy
    """What a whole report promises."""
    period: int | None = None
    """The period of a recurring campaign, from 0; else None."""
    contamination: float = 0.0
    """The fraction of false reports that the result is to hold with, in [0, 1)."""

    @property
    def n(self) -> int:
        """People."""
        return int(self.counts.sum())


class CellCounter:
    """Counts points, some at a time.

    Args:
        asked: the cells.
        step: of the grid that points lie on.

    Example:
        >>> counter = CellCounter(Counts(2.0), step=0.5)
        >>> counter.add(np.array([[0], [3], [9]]))  # 0, 1.5 and 4.5
        >>> counter.cells.ravel().tolist(), counter.counts.tolist()
        ([0, 2], [2, 1])
    """

    cells: Integers
    """(m, k), those that hold points."""
    counts: Integers
    """(m,), of each."""

    def __init__(self, asked: Counts, step: float) -> None:
        self._asked, self._step = asked, step
        self.cells, self.counts = np.empty((0, 0), np.int64), np.empty(0, np.int64)

    def add(self, points: Integers) -> None:
        """Count points, (n, k), in steps of the grid."""
        cells = np.floor(points * (self._step / self._asked.width)).astype(np.int64)
        before = self.cells.reshape(-1, cells.shape[1])
        weights = np.concatenate([self.counts, np.ones(len(cells), np.int64)])
        self.cells, place = np.unique(np.concatenate([before, cells]), axis=0, return_inverse=True)
        self.counts = np.bincount(place.ravel(), weights, len(self.cells)).astype(np.int64)

    def found(self, campaign: AttributeCampaign, period: int) -> CellCounts:
        """Return what was counted of a campaign and a period."""
        return CellCounts(
            cells=self.cells,
            counts=self.counts,
            width=self._asked.width,
            privacy=campaign.report_privacy,
            period=None if campaign.period is None else period,
        )
