"""The distribution of perturbed numbers by expectation-maximisation with smoothing [LWLSS20].

Where people are spread smoothly it errs less than the distribution function that is unbiased
[MATH §8]. But it is biased: what is narrower than the noise, a heap or an edge, is spread over its
surroundings. So its band, by a bootstrap, holds what the reports leave open, and not the bias.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from geoveil.analyst.statistics.cells import CellCounts, Counts
from geoveil.analyst.statistics.distribution import Curve, checked_levels, inverse
from geoveil.analyst.statistics.statistic import Statistic, Steps, noise_scale
from geoveil.campaign import AttributeCampaign
from geoveil.gp import Array, LogScale, ParameterError, expectation_maximisation, validation

__all__ = ["SmoothedCurve", "SmoothedDistribution"]


PER_SCALE = 2
"""Cells per noise scale."""
MOST_CELLS = 1_500
LEAST_REPORTS = 100
_TAIL = 0.001
"""The share on either side beyond which no curve is drawn."""
_SEED = 1
BIASED = (
    "Smoothed by expectation-maximisation, and biased: what is narrower than the noise, as a heap,"
    " is spread over its surroundings. The band holds what reports drawn anew would say, and not"
    " the bias: the unbiased distribution function has a band that holds the true curve."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class SmoothedCurve(Curve):
    """The smoothed share of people up to each value, with a band by a bootstrap."""

    drawn: Array = field(repr=False)
    """(samples, m): the same of reports that are drawn anew."""

    def quantiles(self, levels: ArrayLike) -> Curve:
        """Return the smoothed quantile function, with a band for all levels at once.

        Args:
            levels: increasing, in (0, 1).

        Returns:
            A curve over the levels; infinite where the curve ends before they are reached.

        Raises:
            ParameterError: if a level is out of range.
        """
        p = checked_levels(levels)
        return self._derived("Quantiles", "level", p, lambda curve: inverse(self.at, curve, p))

    def density(self) -> Curve:
        """Return the smoothed density, with a band for all values at once.

        Raises:
            UnsupportedError: if values are compared by ratio.
        """
        self._of_differences()
        steps = np.diff(self.at)
        middles = (self.at[1:] + self.at[:-1]) / 2
        return self._derived("Density", "value", middles, lambda curve: np.diff(curve) / steps)

    def _derived(self, name: str, axis: str, at: Array, made: Callable[[Array], Array]) -> Curve:
        values = made(self.values)
        low, high = _band(values, np.array([made(draw) for draw in self.drawn]), self.confidence)
        return Curve(
            name=f"{name}, smoothed",
            axis=axis,
            at=at,
            values=values,
            low=np.maximum(low, 0.0) if axis == "value" else low,
            high=high,
            confidence=self.confidence,
            n=self.n,
            privacy=self.privacy,
            about=(BIASED,),
        )

    @property
    def notes(self) -> Sequence[str]:
        return (self.population, *self.about)


@dataclass(frozen=True, kw_only=True)
class SmoothedDistribution(Statistic[SmoothedCurve]):
    """The share of people up to each value, by expectation-maximisation with smoothing.

    It reads the reports themselves: a server has to send them all.

    Example:
        >>> SmoothedDistribution(samples=500).samples
        500
    """

    samples: int = 200
    """How many times reports are drawn anew for the band, from 20 to 10,000."""

    def __post_init__(self) -> None:
        validation.require_count("samples", self.samples, 20, 10_000)

    def on_scale(self, scale: LogScale) -> "SmoothedDistribution":
        return self

    def steps(self, campaign: AttributeCampaign, confidence: float) -> Steps[SmoothedCurve]:
        scale = noise_scale(campaign)
        of_cells: CellCounts = yield Counts(scale / PER_SCALE)
        if of_cells.contamination:
            permitted = "left out: nothing bounds a smoothed distribution"
            raise ParameterError("contamination", of_cells.contamination, permitted)
        if of_cells.n < LEAST_REPORTS:
            raise ParameterError("reports", of_cells.n, f"at least {LEAST_REPORTS}")
        edges, counts = counted(of_cells)
        law = transition(edges, scale)
        again = np.random.default_rng(_SEED).multinomial(
            of_cells.n, counts / of_cells.n, size=self.samples
        )
        first, *others = (
            np.cumsum(expectation_maximisation(law, each))[:-1] for each in (counts, *again)
        )
        inside = np.flatnonzero((first > _TAIL) & (first < 1 - _TAIL))
        shown = slice(max(int(inside[0]) - 1, 0), int(inside[-1]) + 2)
        values, drawn = first[shown], np.array(others)[:, shown]
        low, high = _band(values, drawn, confidence)
        return SmoothedCurve(
            name="Distribution function, smoothed",
            axis="value",
            at=edges[1:-1][shown],
            values=values,
            low=np.clip(low, 0.0, 1.0),
            high=np.clip(high, 0.0, 1.0),
            confidence=confidence,
            n=of_cells.n,
            privacy=of_cells.privacy,
            about=(BIASED,),
            drawn=drawn,
        )


def _band(values: Array, drawn: Array, confidence: float) -> tuple[Array, Array]:
    """Return the ends of a band that holds a share of the curves drawn anew, each in all its parts.

    It is as many of their standard deviations wide everywhere.
    """
    deviations = drawn.std(axis=0, ddof=1)
    apart = np.abs(drawn - values)
    scaled = np.divide(apart, deviations, out=np.zeros_like(apart), where=deviations > 0)
    critical = float(np.quantile(scaled.max(axis=1), confidence, method="higher"))
    return values - critical * deviations, values + critical * deviations


def counted(found: CellCounts) -> tuple[Array, Array]:
    """Return the edges of a row of cells around the median, and how many reports each has.

    Reports beyond its ends are in the last cell.
    """
    cells, counts = found.cells[:, 0], found.counts
    median = int(cells[np.searchsorted(np.cumsum(counts), found.n / 2)])
    low = max(int(cells[0]), median - MOST_CELLS // 2)
    high = min(int(cells[-1]), median + MOST_CELLS // 2)
    row = np.bincount(np.clip(cells, low, high) - low, counts, high - low + 1)
    return np.arange(low, high + 2, dtype=np.float64) * found.width, row.astype(np.float64)


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
