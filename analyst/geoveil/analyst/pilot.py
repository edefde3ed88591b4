"""Make the prior of a plan from the reports of a pilot [MATH §8].

    source = pilot_prior(reports_of("pilot.parquet"))
    plan_for(PlanRequest.of([ShareAbove(100_000)], source=source, ...))

The distribution of people's numbers is estimated from perturbed ones by smoothed expectation-
maximisation, which shows nothing narrower than the noise: a heap is spread out. Redrawing the
reports shows how many people the prior is worth.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.analyst.hard_question import Heap
from geoveil.analyst.planner import ExpPrior, HistogramPrior, Prior, checked_counts
from geoveil.analyst.public_prior import PublicPrior
from geoveil.analyst.statistics.reports import Reports
from geoveil.analyst.statistics.statistic import noise_scale, period_of
from geoveil.campaign import AttributeCampaign, ValueCampaign
from geoveil.gp import Array, Laplace, ParameterError, validation

SMOOTHING = (0.25, 0.5, 0.25)
"""The smoothing of [LWLSS20]: a quarter of each cell goes to either neighbour."""
_TOLERANCE = 1e-3
_ITERATIONS = 10_000
_SUM = 1e-6
"""Largest difference of a cell's total probability from 1."""


def expectation_maximisation(transition: ArrayLike, counts: ArrayLike) -> Array:
    """Return the share of people in each cell, (k,), with sum 1.

    Maximum-likelihood shares are full of spikes. Smoothing removes them, and blurs true heaps and
    jumps as well: the result is biased, and has no interval.

    It starts from equal shares, and stops when the log-likelihood of all counts changes by less
    than a thousandth.

    Args:
        transition: probability of each outcome for a person in each cell, (outcomes, k); every
            column has the sum 1.
        counts: of each outcome, (outcomes,), ≥ 0 and not all 0.

    Raises:
        ParameterError: if an argument is out of range, or the shapes do not fit.

    Example:
        >>> halves_told_wrong_once_in_four = [[0.75, 0.25], [0.25, 0.75]]
        >>> expectation_maximisation(halves_told_wrong_once_in_four, [40, 60]).round(2)
        array([0.46, 0.54])
    """
    from scipy.ndimage import correlate1d

    law = validation.float_array(transition)
    if law is None or law.ndim != 2 or law.size == 0:
        raise ParameterError("transition", "something else", "probabilities, (outcomes, cells)")
    if not ((law >= 0).all() and np.allclose(law.sum(axis=0), 1.0, rtol=0, atol=_SUM)):
        raise ParameterError("transition", "some", "numbers >= 0, each column with the sum 1")
    seen, cells = checked_counts("counts", counts, law.shape[:1]), law.shape[1]
    law, seen = law[seen > 0], seen[seen > 0]
    if not law.any(axis=1).all():
        raise ParameterError("counts", "some", "0 for outcomes that nobody can give")
    shares, before = np.full(cells, 1 / cells), -np.inf
    for _ in range(_ITERATIONS):
        expected = law @ shares
        after = float(np.sum(seen * np.log(expected)))
        if abs(after - before) < _TOLERANCE:
            break
        before = after
        likelier = shares * (law.T @ (seen / expected))
        # Each cell gives a part to its neighbours; those at the ends keep what would go beyond.
        shares = np.asarray(correlate1d(likelier, SMOOTHING, mode="reflect"))
        shares /= shares.sum()
    return shares


Integers = NDArray[np.int64]

_PER_SCALE = 2
"""Cells per noise scale."""
_MOST_CELLS = 1_500
_LEAST_REPORTS = 100
_DRAWN = 20
_SEED = 1
_OF_SMOOTHING = 2**0.5
"""Factor on deviations of the redraws: smoothing adds about as much variance again, as
tests/analyst/test_pilot.py measures."""


def pilot_prior(
    reports: Reports, period: int | None = None, heaps: Sequence[Heap] = ()
) -> PublicPrior:
    """Return the prior for the next plan, from the reports of a pilot.

    It is a histogram with two cells to a noise scale, of everybody: those beyond 750 cells of the
    median are counted as being there. The same reports give the same prior.

    Args:
        reports: of a value campaign about numbers, 100 or more: see `reports_of`.
        heaps: people who hold exactly one value, whom the pilot cannot show: their reports are not
            attributed to others.

    Raises:
        ParameterError: if there are fewer reports, or they are of places.
    """
    counts = PilotCounts(reports.campaign)
    for points in reports.points(period_of(reports.campaign, period)):
        counts.add(points)
    return prior_of_counts(counts, heaps)


@dataclass(eq=False)
class PilotCounts:
    """Counts of a pilot's reports in each cell of the line, added block by block."""

    campaign: AttributeCampaign
    cells: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    """(m,), increasing: cell c holds the points x with c·width ≤ x < (c + 1)·width."""
    counts: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    """(m,), each at least 1."""

    def __post_init__(self) -> None:
        self.scale = noise_scale(self.campaign)
        self.width = self.scale / _PER_SCALE

    @property
    def n(self) -> int:
        """The number of people."""
        return int(self.counts.sum())

    def add(self, points: Integers) -> None:
        """Count points, (n, 1), in steps of the grid."""
        assert isinstance(self.campaign, ValueCampaign)  # others have no noise scale
        step = self.campaign.point_mechanism.step
        cells = np.floor(points[:, 0] * (step / self.width)).astype(np.int64)
        weights = np.concatenate([self.counts, np.ones(len(cells), np.int64)])
        self.cells, place = np.unique(np.concatenate([self.cells, cells]), return_inverse=True)
        self.counts = np.bincount(place, weights).astype(np.int64)

    def around_the_median(self) -> tuple[Array, Array]:
        """Return the edges of a row of cells, and the number of reports in each.

        Reports beyond its ends are in the last cell.
        """
        median = int(self.cells[np.searchsorted(np.cumsum(self.counts), self.n / 2)])
        low = max(int(self.cells[0]), median - _MOST_CELLS // 2)
        high = min(int(self.cells[-1]), median + _MOST_CELLS // 2)
        row = np.bincount(np.clip(self.cells, low, high) - low, self.counts, high - low + 1)
        return np.arange(low, high + 2, dtype=np.float64) * self.width, row.astype(np.float64)


def prior_of_counts(found: PilotCounts, heaps: Sequence[Heap] = ()) -> PublicPrior:
    """Return the prior for counts of reports in cells: see `pilot_prior`."""
    campaign, scale, ratios = found.campaign, found.scale, found.campaign.attribute.scale
    if found.n < _LEAST_REPORTS:
        raise ParameterError("reports", found.n, f"at least {_LEAST_REPORTS} in a pilot")
    edges, counts = found.around_the_median()
    in_heaps = np.zeros(len(counts))
    for heap in heaps:
        at = heap.at if ratios is None else ratios.coordinate(heap.at)
        in_heaps += heap.share * found.n * _reported(edges, scale, at)
    prior: Prior = PilotPrior.of_counts(edges, transition(edges, scale), counts, in_heaps)
    if ratios is not None:
        prior = ExpPrior(prior)
    return PublicPrior.of_numbers(
        prior,
        campaign.attribute.value_unit,
        campaign.attribute.name,
        f"pilot {campaign.campaign_id}, {found.n:,} reports",
        caution="A pilot sees no heap narrower than its noise: state those that you know (--heap).",
    ).with_heaps(heaps)


class PilotPrior(HistogramPrior):
    """The prior from a pilot's perturbed reports, and redraws of it.

    Args:
        edges: of the cells, increasing, (m + 1,).
        shares: of the people in each, (m,).
        drawn: the same from reports that are drawn anew.
    """

    drawn: tuple[HistogramPrior, ...]

    def __init__(
        self, edges: ArrayLike, shares: ArrayLike, drawn: Sequence[ArrayLike], reports: int
    ) -> None:
        middle = np.asarray(shares, np.float64)
        super().__init__(edges, middle * reports)
        # Redraws vary as reports do, but not in what smoothing does to all alike.
        apart = [middle + _OF_SMOOTHING * (np.asarray(other) - middle) for other in drawn]
        again = tuple(HistogramPrior(edges, np.maximum(other, 0.0)) for other in apart)
        object.__setattr__(self, "drawn", again)

    @classmethod
    def of_counts(
        cls, edges: Array, law: Array, counts: ArrayLike, known: Array | float = 0.0
    ) -> "PilotPrior":
        """Return the prior for numbers of reports.

        Args:
            edges: of the cells, evenly spaced, (m + 1,).
            law: see `transition`, (m, m).
            counts: reports in each cell, (m,).
            known: reports in each cell from other people, (m,).
        """
        seen = np.asarray(counts, np.float64)
        n = round(float(seen.sum()))
        drawn = np.random.default_rng(_SEED).multinomial(n, seen / n, size=_DRAWN)
        others = (np.maximum(each - known, 0.0) for each in (seen, *drawn))
        shares, *again = (expectation_maximisation(law, each) for each in others)
        return cls(edges, shares, again, n)

    @property
    def again(self) -> tuple[Prior, ...]:
        return self.drawn


def _reported(edges: Array, scale: float, at: float) -> Array:
    """Return the probability of a report in each cell for a person at a place, (cells,)."""
    return np.diff(Laplace(scale).cdf(edges[1:-1] - at), prepend=0.0, append=1.0)


def transition(edges: Array, scale: float) -> Array:
    """Return the probability of a report in each cell for a person in each, (cells, cells).

    People are spread evenly over their cell; reports beyond the ends count as in the last cell.

    Args:
        edges: evenly spaced, (cells + 1,).
        scale: of the Laplace noise, in their unit.

    Example:
        >>> transition(np.array([0.0, 1.0, 2.0, 3.0]), scale=0.5).sum(axis=0)
        array([1., 1., 1.])
    """

    def up_to(z: Array) -> Array:
        """Return the integral of the distribution function."""
        return np.maximum(z, 0.0) + scale / 2 * np.exp(-np.abs(z) / scale)

    low, high, ends = edges[None, :-1], edges[None, 1:], edges[1:-1, None]
    below = (up_to(ends - low) - up_to(ends - high)) / (high - low)
    cells = len(edges) - 1
    up_to_each = np.vstack([np.zeros(cells), below, np.ones(cells)])
    return np.maximum(np.diff(up_to_each, axis=0), 0.0)  # what differences of large numbers leave
