"""Rankings of places, and maps whose intervals should hold simultaneously."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from benchmarks.joint_bands import (
    ALONE,
    INDEPENDENT,
    STATED,
    Held,
    above,
    as_if_independent,
    inside,
)
from benchmarks.joint_people import (
    BELL,
    PLACES,
    PLANE,
    WIDTH,
    Array,
    campaign,
    crowds,
    homes,
    incomes,
    reports,
)
from geoveil.analyst import DensityAt, Histogram, JointEstimates, Map, Means, Ranking, ranking_of
from geoveil.analyst.campaigns import asked_of_points, softness_of_points

TIES = (0.25, 0.2, 0.1, 0.1, 0.1, 0.1, 0.04, 0.04)


def top_places(n: int, count: int, densities: tuple[float, ...], which: str) -> Callable[..., Held]:
    """Return a test of the densest places: the set, all ranks, or intervals of the chosen."""
    of = campaign(1_000.0, 2)
    population, at = crowds(densities), PLANE.unproject(PLACES).tolist()
    places = [DensityAt(longitude, latitude, str(i)) for i, (longitude, latitude) in enumerate(at)]
    asked = Means(asked_of_points(of, places, softness_of_points(of, None, BELL)))
    apart = ((population[:, None] - PLACES) ** 2).sum(axis=-1)
    truth = np.exp(-apart / (2 * BELL**2)).mean(axis=0)

    def held(rng: np.random.Generator) -> Held:
        joint = reports(of, population, n, rng).ask(asked)
        stated = ranking_of(joint, count)
        told = {STATED: stated, ALONE: one_by_one(joint, stated)}
        return {name: holds(one, which, densities, truth) for name, one in told.items()}

    return held


def one_by_one(joint: JointEstimates, stated: Ranking) -> Ranking:
    """Return a ranking that considers one pair or one interval at a time."""
    count, covariance = stated.count, joint.covariance
    variances = np.diag(covariance)
    errors = np.sqrt(variances[:, None] + variances - 2 * covariance + np.eye(len(variances)))
    larger = (joint.values[:, None] - joint.values) / errors > NormalDist().inv_cdf(0.95)
    above, below = larger.sum(axis=0), larger.sum(axis=1)
    m = len(above)
    order = [joint.labels.index(label) for label in stated.labels]
    return replace(
        stated,
        may_be_top=tuple(joint.labels[i] for i in order if above[i] < count),
        surely_top=tuple(joint.labels[i] for i in order if below[i] >= m - count),
        ranks=tuple((int(1 + above[i]), int(m - below[i])) for i in order),
        chosen=tuple(joint.interval(i) for i in order[:count]),
    )


def holds(found: Ranking, which: str, densities: Sequence[float], truth: Array) -> bool:
    """Return whether a statement of a ranking holds.

    Args:
        which: "set", "ranks" or "chosen".
        densities: densities that define the true order; tied places have equal ones.
        truth: the values that intervals should cover.
    """
    order = np.asarray(densities)
    if which == "set":
        threshold = np.sort(order)[-found.count]
        # Each of those that tie at the end is in some top k: take the first.
        sure = {int(i) for i in np.flatnonzero(order > threshold)}
        tied = [int(i) for i in np.flatnonzero(order == threshold)]
        top = sure | set(tied[: found.count - len(sure)])
        return set(map(int, found.surely_top)) <= top <= set(map(int, found.may_be_top))
    if which == "ranks":
        return all(
            low <= 1 + int((order > order[int(j)]).sum())
            and high >= len(order) - int((order < order[int(j)]).sum())
            for j, (low, high) in zip(found.labels, found.ranks, strict=True)
        )
    pairs = zip(found.top, found.chosen, strict=True)
    return all(one.low <= truth[int(j)] <= one.high for j, one in pairs)


def greatest_share(n: int) -> Callable[..., Held]:
    """Return a test of the greatest of three parts, two of which are equal.

    The shares add up to one, so their errors are negatively correlated.
    """
    of, order = campaign(), (0.4, 0.4, 0.2)
    dense = np.linspace(0.0, 300_000.0, 6_001)
    edges = np.interp([0.4, 0.8], 1 - above(dense, WIDTH, incomes()), dense)
    asked = Histogram(edges=edges.tolist(), width=WIDTH)

    def held(rng: np.random.Generator) -> Held:
        joint = reports(of, incomes(), n, rng).ask(asked).joint
        joint = replace(joint, labels=("0", "1", "2"))
        stated = ranking_of(joint, 1)
        rankings = {
            STATED: stated,
            ALONE: one_by_one(joint, stated),
            INDEPENDENT: ranking_of(as_if_independent(joint), 1),
        }
        return {name: holds(one, "set", order, np.array(order)) for name, one in rankings.items()}

    return held


def density_map(n: int, side: int) -> Callable[..., Held]:
    """Return a test of whether a map's intervals cover all densities."""
    of, population = campaign(500.0, 2), homes()
    west, south = PLANE.unproject([(-2_000.0, -2_000.0)])[0].tolist()
    east, north = PLANE.unproject([(14_000.0, 10_000.0)])[0].tolist()
    asked = Map(bounds=(west, south, east, north), size=(side, side), bandwidth=BELL)
    known: list[Array] = []

    def held(rng: np.random.Generator) -> Held:
        found = reports(of, population, n, rng).ask(asked)
        if not known:
            nodes = np.stack(np.meshgrid(found.longitudes, found.latitudes), axis=-1)
            centers = PLANE.project(nodes.reshape(-1, 2))
            bells = [np.exp(-((population - c) ** 2).sum(axis=1) / (2 * BELL**2)).mean()
                     for c in centers]  # fmt: skip
            known.append(np.reshape(bells, (side, side)) * 1e6 / (2 * math.pi * BELL**2))
        reach = NormalDist().inv_cdf(0.975) * found.standard_errors
        each = NormalDist().inv_cdf((1 + 0.95 ** (1 / side**2)) / 2) * found.standard_errors
        return {
            STATED: inside(found.low, known[0], found.high),
            ALONE: inside(found.values - reach, known[0], found.values + reach),
            INDEPENDENT: inside(found.values - each, known[0], found.values + each),
        }

    return held
