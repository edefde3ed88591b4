"""Hidden populations that answer campaigns, without exact release, for tests of coverage."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst import JointEstimates, ReportRows, Reports, campaign_for_points, reports_of
from geoveil.campaign import Attribute, PlanarLaplaceSpec, ValueCampaign
from geoveil.gp import GeoPrivacy, PlanarLaplace
from geoveil.gp.coordinates import AzimuthalEquidistant

Array = NDArray[np.float64]

PRIVACY = GeoPrivacy(1.0, per=8_000.0, unit="dollar")
NOISE = PlanarLaplace(PRIVACY, 1)
OPENS = datetime(2026, 1, 1, tzinfo=UTC)


def incomes() -> Array:
    """Return 20,000 log-normal incomes."""
    return np.asarray(np.random.default_rng(1).lognormal(11.0, 0.8, 20_000))


def heaped() -> Array:
    """Return incomes of which a third are round numbers."""
    x, who = incomes(), np.arange(20_000) % 3 == 0
    x[who] = np.rint(x[who] / 25_000) * 25_000
    return x


def poor() -> Array:
    """Return incomes of which two in a thousand are above 50,000."""
    x = np.random.default_rng(1).uniform(5_000, 30_000, 20_000)
    x[::500] = 120_000.0
    return np.asarray(x)


def answers(queries: Sequence[Any], points: Array) -> Array:
    """Return what each point counts for in each query, (m, n)."""
    return np.stack([NOISE.estimator(query, debias=True).value(points) for query in queries])


def joint_of(queries: Sequence[Any], points: Array, confidence: float = 0.95) -> JointEstimates:
    """Return the joint estimates by numpy's covariance."""
    g = answers(queries, points)
    return JointEstimates(
        labels=tuple(f"q{i}" for i in range(len(g))),
        values=g.mean(axis=1),
        covariance=np.atleast_2d(np.cov(g)) / len(points),
        n=len(points),
        confidence=confidence,
        limits=tuple(NOISE.estimator(query, debias=True).limits for query in queries),
        privacy=PRIVACY,
    )


def truth(queries: Sequence[Any], population: Array) -> Array:
    """Return the means of queries over a population."""
    return np.array([query.value(population).mean() for query in queries])


def campaigns(population: Array, n: int, count: int, seed: int = 7) -> Iterator[Array]:
    """Yield the perturbed points of so many campaigns, each with n people drawn from all."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        x = population[rng.integers(0, len(population), n)]
        yield x + rng.laplace(0.0, 1 / PRIVACY.rate, n)


def campaign(privacy: GeoPrivacy = PRIVACY, dimension: int = 1) -> ValueCampaign:
    """Return a campaign whose people send a perturbed income."""
    return ValueCampaign(
        campaign_id="incomes",
        title="Incomes",
        attribute=Attribute(name="income", unit=privacy.unit),
        privacy=privacy,
        mechanism=PlanarLaplaceSpec(dimension),
        opens=OPENS,
        closes=OPENS + timedelta(days=30),
    )


def places(plane: AzimuthalEquidistant, per_metres: float) -> ValueCampaign:
    """Return a campaign whose people send a perturbed location."""
    return campaign_for_points(
        attribute="location", privacy=GeoPrivacy(1.0, per_metres, "metre"), plane=plane,
        campaign_id="where", title="Where", opens=OPENS, closes=OPENS + timedelta(days=30),
    )  # fmt: skip


def reports(points: Array, of: ValueCampaign | None = None) -> Reports:
    """Return perturbed points, (n,) or (n, k), as reports at hand."""
    of = of or campaign()
    integers = np.rint(np.atleast_2d(points.T) / of.point_mechanism.step).astype(np.int64)
    return reports_of(ReportRows(np.zeros(len(points), np.uint32), None, tuple(integers)), of)
