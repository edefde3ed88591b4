"""From the reports of a pilot to the prior of a plan [MATH §8].

    source = pilot_prior(reports_of("pilot.parquet"))
    plan_for(PlanRequest.of([ShareAbove(100_000)], source=source, ...))

People's numbers are found from perturbed ones by expectation-maximisation with smoothing, so that
what is narrower than the noise is not seen: a heap is spread out. How many people that prior is
worth is found by drawing the reports anew.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.analyst.planner import ExpPrior, HistogramPrior, Prior
from geoveil.analyst.request import PublicPrior
from geoveil.analyst.statistics.cells import CellCounts, Counts
from geoveil.analyst.statistics.reports import Reports
from geoveil.analyst.statistics.smoothed import LEAST_REPORTS, PER_SCALE, counted, transition
from geoveil.analyst.statistics.statistic import noise_scale, period_of
from geoveil.campaign import AttributeCampaign
from geoveil.gp import Heap, ParameterError, expectation_maximisation

Array = NDArray[np.float64]

_DRAWN = 20
_SEED = 1
_OF_SMOOTHING = 2**0.5
"""By how much more the prior may be off than by what is drawn anew: smoothing is off by about as
much again, as tests/analyst/test_pilot.py measures."""


def pilot_prior(
    reports: Reports, period: int | None = None, heaps: Sequence[Heap] = ()
) -> PublicPrior:
    """Return what the reports of a pilot say of people, as a prior for the next plan.

    It is a histogram with two cells to a noise scale, of everybody: those beyond 750 cells of the
    median are counted as being there. The same reports give the same prior.

    Args:
        reports: of a value campaign about numbers, 100 or more: see `reports_of`.
        heaps: people who hold exactly one value, who are too close together to be seen: what they
            reported is not counted as that of others.

    Raises:
        ParameterError: if there are fewer reports, or they are of places.
    """
    campaign = reports.campaign
    counts = reports.counted(pilot_cells(campaign), period_of(campaign, period))
    return prior_of_counts(campaign, counts, heaps)


def pilot_cells(campaign: AttributeCampaign) -> Counts:
    """Return the cells that reports of a pilot are counted in.

    Raises:
        ParameterError: if it is no value campaign about numbers.
    """
    return Counts(noise_scale(campaign) / PER_SCALE)


def prior_of_counts(
    campaign: AttributeCampaign, found: CellCounts, heaps: Sequence[Heap] = ()
) -> PublicPrior:
    """Return what is said of people by how many reports lie in each cell: see `pilot_prior`.

    Args:
        campaign: the pilot.
        found: what was counted in its cells.
        heaps: people who hold exactly one value.

    Raises:
        ParameterError: if there are fewer than 100 reports.
    """
    scale, ratios = noise_scale(campaign), campaign.attribute.scale
    if found.n < LEAST_REPORTS:
        raise ParameterError("reports", found.n, f"at least {LEAST_REPORTS} of a pilot")
    edges, counts = counted(found)
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
    """What the perturbed reports of a pilot say of people, and what they might have said.

    Args:
        edges: of the cells, increasing, (m + 1,).
        shares: of the people in each, (m,).
        drawn: the same from reports that are drawn anew.
        reports: how many there are.
    """

    drawn: tuple[HistogramPrior, ...]

    def __init__(
        self, edges: ArrayLike, shares: ArrayLike, drawn: Sequence[ArrayLike], reports: int
    ) -> None:
        middle = np.asarray(shares, np.float64)
        super().__init__(edges, middle * reports)
        # Reports that are drawn anew vary as they do, and not by what smoothing does to all alike.
        apart = [middle + _OF_SMOOTHING * (np.asarray(other) - middle) for other in drawn]
        again = tuple(HistogramPrior(edges, np.maximum(other, 0.0)) for other in apart)
        object.__setattr__(self, "drawn", again)

    @classmethod
    def of_counts(
        cls, edges: Array, law: Array, counts: ArrayLike, known: Array | float = 0.0
    ) -> "PilotPrior":
        """Return what numbers of reports say.

        Args:
            edges: of the cells, evenly spaced, (m + 1,).
            law: see `transition`, (m, m).
            counts: reports in each cell, (m,).
            known: reports in each cell that are of other people, (m,).
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
    """Return the probability of a report in each cell for somebody at a place, (cells,)."""
    z = (edges[1:-1] - at) / scale
    below = np.where(z < 0, np.exp(-np.abs(z)) / 2, 1 - np.exp(-np.abs(z)) / 2)
    return np.diff(np.concatenate([[0.0], below, [1.0]]))
