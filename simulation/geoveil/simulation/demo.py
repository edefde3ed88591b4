"""The demonstration: two real questions, their true answers, and who takes part.

(a) The share of California households above $100,000; incomes $8,000 apart are 1-indistinguishable.
(b) The density of New York collisions at four places; points 500 m apart are 1-indistinguishable.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from geoveil.campaign import (
    Allocation,
    Attribute,
    DebiasedLaplaceSpec,
    Question,
    StatisticCampaign,
)
from geoveil.gp import GaussianKernel, GeoPrivacy, Query, Threshold
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.simulation.comparison import Array, PopulationError, Setting, predict
from geoveil.simulation.populations import Population, collisions, household_incomes

THRESHOLD = 100_000.0
SEED_BAND = 16_000.0
"""Width of the paper's straight ramp at this threshold and ε."""
SOFT_BAND = 1.5 * SEED_BAND
"""A smoothstep of this width has the same steepest slope as that ramp."""
BANDWIDTH_M = 2_000.0
CITY = AzimuthalEquidistant(longitude_deg=-73.95, latitude_deg=40.72, radius_m=60_000)
PLACES = {
    "Times Square": (-73.9855, 40.7580),
    "Downtown Brooklyn": (-73.9857, 40.6928),
    "The Hub, Bronx": (-73.9176, 40.8164),
    "Jamaica, Queens": (-73.8067, 40.7021),
}


@dataclass(frozen=True, slots=True)
class Experiment:
    """A campaign with the population that takes part in it and the truth about that population."""

    campaign: StatisticCampaign
    population: Population
    points: Array
    """The population in the coordinates of the queries."""
    seed_queries: tuple[Query, ...]
    """Each question as the seed paper would ask it."""
    diameter: float
    """The distance at which the paper compares with ε-LDP, in the coordinates of the queries."""

    @property
    def truths(self) -> list[float]:
        """The mean of each (soft) query over the population: what estimates are unbiased for."""
        return [
            float(np.average(q.query.value(self.points), weights=self.population.weights))
            for q in self.campaign.questions
        ]

    def predictions(self) -> list[list[PopulationError]]:
        """Return, per question, the error of each mechanism at the campaign's privacy."""
        privacy = self.campaign.mechanisms[0].privacy
        assert isinstance(privacy, GeoPrivacy)
        return [
            predict(
                Setting(question.query, seed, privacy, self.diameter),
                self.points,
                self.population.weights,
            )
            for question, seed in zip(self.campaign.questions, self.seed_queries, strict=True)
        ]

    def participants(self, count: int, rng: np.random.Generator) -> Sequence[float | list[float]]:
        """Return the values of people drawn at random, as their devices hold them."""
        values: list[float | list[float]] = self.population.sample(count, rng).tolist()
        return values


def experiments(now: datetime | None = None) -> list[Experiment]:
    """Return the experiments of the demonstration, open from `now` for a day."""
    opens = now or datetime.now(UTC)
    return [_incomes(opens), _collisions(opens)]


def _incomes(opens: datetime) -> Experiment:
    population = household_incomes()
    campaign = StatisticCampaign(
        campaign_id="household-income",
        title="Share of California households above $100,000",
        attribute=Attribute(name="household income", unit="dollar"),
        privacy=GeoPrivacy(epsilon=1.0, per=8_000.0, unit="dollar"),
        questions=(
            Question("above $100,000", Threshold(THRESHOLD, SOFT_BAND, profile="smoothstep")),
        ),
        mechanism=DebiasedLaplaceSpec(),
        opens=opens,
        closes=opens + timedelta(days=1),
    )
    seed = Threshold(THRESHOLD, SEED_BAND, profile="linear")
    return Experiment(campaign, population, population.values, (seed,), diameter=24_000.0)


def _collisions(opens: datetime) -> Experiment:
    population = collisions()
    kernels = {
        label: GaussianKernel(CITY.project(place).tolist(), BANDWIDTH_M)
        for label, place in PLACES.items()
    }
    campaign = StatisticCampaign(
        campaign_id="collisions",
        title="Density of New York collisions at four places",
        attribute=Attribute(name="location", unit="metre", coordinates=CITY),
        privacy=GeoPrivacy(epsilon=1.0, per=500.0, unit="metre"),
        questions=tuple(Question(label, kernel) for label, kernel in kernels.items()),
        mechanism=DebiasedLaplaceSpec(),
        allocation=Allocation.PARTITION,
        opens=opens,
        closes=opens + timedelta(days=1),
    )
    points = CITY.project(population.values)
    return Experiment(campaign, population, points, tuple(kernels.values()), diameter=1_000.0)
