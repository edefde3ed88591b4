"""The demonstration: two real questions with their true answers, and devices that answer them.

(a) The share of California households above $100,000; incomes $8,000 apart are 1-indistinguishable.
(b) The density of New York collisions at four places; points 500 m apart are 1-indistinguishable.

A few hundred devices run the whole SDK; for the others, see `geoveil.simulation.fleet`.
"""

import asyncio
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst import Analyst, LabelledEstimate, Prediction, predicted
from geoveil.campaign import Attribute, Question, StatisticCampaign, encode
from geoveil.client import GrpcAioTransport, Policy
from geoveil.gp import (
    AzimuthalEquidistant,
    Cap,
    GaussianKernel,
    GeoPrivacy,
    GeoVeilError,
    Query,
    RandomizedResponse,
    SoftIndicator,
    Threshold,
)
from geoveil.simulation.comparison import MECHANISMS, Setting
from geoveil.simulation.distribution.local import piecewise_variance
from geoveil.simulation.fleet import by_batches, by_devices, prepared
from geoveil.simulation.local_server import local_server
from geoveil.simulation.populations import Array, Population, collisions, household_incomes

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
FOOTINGS = (1.0, 5.0, 12.5)
"""Distances at which ε-LDP promises as much as the campaign, as multiples of the campaign's own
distance: $8,000, $40,000 and $100,000 for incomes, 500 m, 2.5 km and 6.25 km for places."""
WHOLE_CLIENTS = 400
"""The most devices that run the whole SDK, half of them for each question."""
_COMPETITORS = {"Student-t": "Student-t", "Lipschitz": "GP_Lip"}
"""Name here → name among `MECHANISMS`: the seed paper's, and a baseline."""
_BATCH = 1_000
"""Reports per request of the other devices."""


@dataclass(frozen=True, slots=True)
class DemoCampaign:
    """A campaign and its population, also as points in the queries' coordinates.

    `seed_queries` are the seed paper's versions of the questions.
    """

    campaign: StatisticCampaign
    population: Population
    points: Array
    seed_queries: tuple[Query, ...]

    @property
    def truths(self) -> list[float]:
        """The mean of each soft query over the population, which the estimates target."""
        return [self._mean(q.query.value(self.points)) for q in self.campaign.questions]

    @property
    def hard_truths(self) -> list[float | None]:
        """The share of the population inside each query's hard form; None for densities."""
        return [
            self._mean(query.signed_distance(self.points) > 0)
            if isinstance(query, SoftIndicator)
            else None
            for query in (question.query for question in self.campaign.questions)
        ]

    @property
    def privacy(self) -> GeoPrivacy:
        """The guarantee of the answer to one question, in the coordinates of the queries."""
        privacy = self.campaign.mechanisms[0].privacy
        assert isinstance(privacy, GeoPrivacy)
        return privacy

    def predictions(self) -> list[dict[str, Prediction]]:
        """Return, per question, the error of mechanisms with the campaign's guarantee, by name."""
        points, weights, predicted = self.points, self.population.weights, []
        for ran, setting in zip(self.campaign.mechanisms, self._settings, strict=True):
            built = {name: MECHANISMS[of].build(setting) for name, of in _COMPETITORS.items()}
            reports = {"DebiasedLaplace": ran} | built
            predicted.append(
                {n: _error(r.mean(points), r.variance(points), weights) for n, r in reports.items()}
            )
        return predicted

    def local_predictions(self) -> list[list[Prediction]]:
        """Return, per question, the error under ε-LDP at each of the footings."""
        people = self.points, self.population.weights
        return [
            [predict_local(replace(of, footing=far * of.footing), *people) for far in FOOTINGS]
            for of in self._settings
        ]

    def _mean(self, values: NDArray[Any]) -> float:
        return float(np.average(values, weights=self.population.weights))

    @property
    def _settings(self) -> list[Setting]:
        return [
            Setting(question.query, seed, self.privacy, self.privacy.per)
            for question, seed in zip(self.campaign.questions, self.seed_queries, strict=True)
        ]


def predict_local(setting: Setting, points: Array, weights: Array) -> Prediction:
    """Return the error under ε-LDP at the setting's footing, with the least known noise.

    For answers of 0 or 1 that is randomised response; for others, at large ε, the piecewise
    mechanism [WXYZHSSY19].
    """
    value = setting.seed.value(points)
    low, high = setting.seed.profile.bounds
    piecewise = piecewise_variance(2 * (value - low) / (high - low) - 1, setting.local)
    response = RandomizedResponse(setting.seed, setting.local).variance(points)
    noises = response, piecewise * ((high - low) / 2) ** 2
    return min((_error(value, noise, weights) for noise in noises), key=lambda found: found.noise)


def _error(mean: Array, variance: Array, weights: Array) -> Prediction:
    """Return the error of reports that have these means and variances at the points."""
    return predicted(mean, variance, mean, weights / weights.sum(), math.inf)


@dataclass(frozen=True, slots=True)
class DemoRow:
    """One question: its truth, its estimate, and the errors of other mechanisms."""

    truth: float
    """The mean of the soft query in the population, which the estimate targets."""
    hard_truth: float | None
    """The true answer to the hard question; None for a density."""
    estimate: LabelledEstimate
    predictions: Mapping[str, Prediction]
    """The errors of mechanisms with the same guarantee, by name; the first one ran."""
    local: Sequence[Prediction]
    """Under ε-LDP, at each of `FOOTINGS`."""
    any_two: float
    """ε of a report between any two values."""

    def to_dict(self) -> dict[str, object]:
        """Return truth and estimate as JSON values."""
        truths = {"truth": self.truth, "hard_truth": self.hard_truth}
        return truths | self.estimate.to_dict()


def in_halves(devices: int) -> tuple[int, int]:
    """Return the numbers of devices that answer the first and the second question."""
    return devices - devices // 2, devices // 2


@contextmanager
def running_demo(asked: Sequence[DemoCampaign]) -> Iterator[tuple[str, Analyst]]:
    """Run an aggregator for both experiments in the block; yield its address and an analyst."""
    with (
        tempfile.TemporaryDirectory(prefix="geoveil-demo-") as folder,
        local_server(Path(folder) / "aggregator.db") as server,
        Analyst(server) as analyst,
    ):
        for experiment in asked:
            analyst.create(experiment.campaign)
        yield server, analyst


def contribute(
    server: str,
    asked: Sequence[DemoCampaign],
    devices: int,
    rng: np.random.Generator,
    on_reports: Callable[[DemoCampaign, int], None] = lambda experiment, reports: None,
) -> None:
    """Let devices take part, half in each experiment; `WHOLE_CLIENTS` of them run the whole SDK.

    The noise is always fresh. Raises GeoVeilError if a report was not acknowledged.
    """
    clients = in_halves(min(WHOLE_CLIENTS, devices))

    async def sent() -> None:
        async with aclosing(GrpcAioTransport(server)) as transport:
            for of, count, whole in zip(asked, in_halves(devices), clients, strict=True):
                name, policy = of.campaign.campaign_id, Policy.permitting(of.campaign)
                values = of.population.sample(count, rng).tolist()
                common: Any = {"transport": transport, "on_reports": partial(on_reports, of)}
                alone = await by_devices(name, values[:whole], policy=policy, **common)
                batches = prepared(
                    name, encode(of.campaign), values[whole:], policy=policy, batch_size=_BATCH
                )
                together = await by_batches(batches, **common)
                if lost := alone.lost + together.lost:
                    raise GeoVeilError(f"{lost:,} reports to {name!r} were not acknowledged")

    asyncio.run(sent())


def rows_of(analyst: Analyst, asked: Sequence[DemoCampaign]) -> list[DemoRow]:
    """Return the aggregator's estimates, with the truth and other mechanisms' errors."""
    return [
        DemoRow(*row)
        for experiment in asked
        for row in zip(
            experiment.truths,
            experiment.hard_truths,
            analyst.estimate(experiment.campaign.campaign_id).with_interval(None).estimates,
            experiment.predictions(),
            experiment.local_predictions(),
            repeat(experiment.campaign.largest_epsilon),
        )
    ]


def experiments(now: datetime | None = None) -> list[DemoCampaign]:
    """Return the experiments of the demonstration, open from `now` for a day."""
    opens = now or datetime.now(UTC)
    dates: Any = {"opens": opens, "closes": opens + timedelta(days=1)}
    households, places = household_incomes(), collisions()
    above = Question("above $100,000", Threshold(THRESHOLD, SOFT_BAND, profile="smoothstep"))
    kernels = {
        label: GaussianKernel(CITY.project(place).tolist(), BANDWIDTH_M)
        for label, place in PLACES.items()
    }
    of_incomes = StatisticCampaign(
        campaign_id="household-income",
        title="Share of California households above $100,000",
        attribute=Attribute(name="household income", unit="dollar"),
        privacy=GeoPrivacy(epsilon=1.0, per=8_000.0, unit="dollar"),
        questions=(above,),
        cap=Cap(4.0, 4.0),  # the default of `geoveil campaign create`, which sets no cap for bells
        **dates,
    )
    of_places = StatisticCampaign(
        campaign_id="collisions",
        title="Density of New York collisions at four places",
        attribute=Attribute(name="location", unit="metre", coordinates=CITY),
        privacy=GeoPrivacy(epsilon=1.0, per=500.0, unit="metre"),
        questions=tuple(Question(label, kernel) for label, kernel in kernels.items()),
        **dates,
    )
    ramp = Threshold(THRESHOLD, SEED_BAND, profile="linear")
    return [
        DemoCampaign(of_incomes, households, households.values, (ramp,)),
        DemoCampaign(of_places, places, CITY.project(places.values), tuple(kernels.values())),
    ]
