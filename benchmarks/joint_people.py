"""People and campaigns for trying joint intervals."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst import ReportRows, Reports, reports_of
from geoveil.campaign import Attribute, PlanarLaplaceSpec, ValueCampaign
from geoveil.gp import GeoPrivacy
from geoveil.gp.coordinates import AzimuthalEquidistant

Array = NDArray[np.float64]
B = 8_000.0
WIDTH = 3 * B
OPENS = datetime(2026, 1, 1, tzinfo=UTC)
PLANE = AzimuthalEquidistant(-73.95, 40.71, radius_m=20_000)


@cache
def incomes() -> Array:
    """Return 20,000 log-normal incomes."""
    return np.asarray(np.random.default_rng(1).lognormal(11.0, 0.8, 20_000))


@cache
def heaped() -> Array:
    """Return incomes, a third of which are round numbers."""
    x, who = incomes().copy(), np.arange(20_000) % 3 == 0
    x[who] = np.rint(x[who] / 25_000) * 25_000
    return x


@cache
def rare() -> Array:
    """Return incomes, two in a thousand of which are above 50,000."""
    x = np.random.default_rng(1).uniform(5_000, 30_000, 20_000)
    x[::500] = 120_000.0
    return np.asarray(x)


@cache
def two_peaks() -> Array:
    """Return incomes around 30,000 and around 140,000."""
    rng = np.random.default_rng(2)
    return np.where(
        np.arange(20_000) % 3, rng.normal(30e3, 4e3, 20_000), rng.normal(14e4, 9e3, 20_000)
    )


PEOPLE: Mapping[str, Callable[[], Array]] = {
    "incomes": incomes,
    "heaped incomes": heaped,
    "two peaks": two_peaks,
    "0.2 % above 50,000": rare,
}


def campaign(per: float = B, dimension: int = 1) -> ValueCampaign:
    """Return a campaign whose people send a perturbed income or home."""
    unit = "dollar" if dimension == 1 else "metre"
    return ValueCampaign(
        campaign_id="c",
        title="A campaign",
        attribute=Attribute(name="value", unit=unit, coordinates=None if dimension == 1 else PLANE),
        privacy=GeoPrivacy(1.0, per=per, unit=unit),
        mechanism=PlanarLaplaceSpec(dimension),
        opens=OPENS,
        closes=OPENS + timedelta(days=30),
    )


def reports(
    of: ValueCampaign,
    population: Array,
    n: int,
    rng: np.random.Generator,
) -> Reports:
    """Return the reports of n people drawn at random."""  # fmt: skip
    who = rng.integers(0, len(population), n)
    mechanism = of.point_mechanism
    sent = mechanism.simulate(population[who], rng)
    columns = np.rint(sent / mechanism.step).astype(np.int64).reshape(n, -1).T
    return reports_of(ReportRows(np.zeros(n, np.uint32), None, tuple(columns)), of)


@cache
def homes() -> Array:
    """Return 50,000 homes around the middle of six districts, (people, 2), in metres."""
    rng = np.random.default_rng(8)
    return rng.normal((6_000.0, 4_000.0), (3_000.0, 2_000.0), (50_000, 2))


def square(number: int, side: float = 4_000.0) -> list[tuple[float, float]]:
    """Return the corners of one of six districts, in metres."""
    x, y = side * (number % 3), side * (number // 3)
    return [(x, y), (x + side, y), (x + side, y + side), (x, y + side)]


PLACES = np.array([[x, y] for y in (0.0, 4_000.0) for x in (0.0, 4_000.0, 8_000.0, 12_000.0)])
BELL = 1_500.0


@cache
def crowds(densities: tuple[float, ...]) -> Array:
    """Return 50,000 homes around eight places, with densities in these proportions at the places.

    The shares make up for the density that each place adds to the others.
    """
    spread = BELL**2 + 500.0**2
    apart = ((PLACES[:, None] - PLACES) ** 2).sum(axis=-1)
    shares = np.linalg.solve(np.exp(-apart / (2 * spread)), densities)
    rng = np.random.default_rng(12)
    counts = np.rint(50_000 * shares / shares.sum()).astype(int)
    return np.repeat(PLACES, counts, axis=0) + rng.normal(0.0, 500.0, (counts.sum(), 2))
