"""Density from masked places, against places displaced as by DHS, at equal mean displacement.

The task is that of surveys that publish displaced positions, like DHS and the disclosure-control
packages of the World Bank's guides: an angle drawn uniformly, and a distance drawn uniformly up to
2 km in towns, or up to 5 km in the country, where one in a hundred moves up to 10 km. We estimate
the density, smoothed by a Gaussian bell, at places where people are. Analysts of displaced places
use them unchanged. From masked places the noise is removed.

Both have the same mean displacement, people, bell and query places. Masked places have ε = 1 per
distance below; displaced ones have no ε at any distance, as nothing beyond the largest displacement
could have been moved there.
"""

import argparse
from collections.abc import Callable, Sequence

import numpy as np

from geoveil.gp import Array, AzimuthalEquidistant, GaussianKernel, GeoPrivacy, PlanarLaplace
from geoveil.simulation.populations import collisions

PEOPLE, ASKED, REPEATS, SEED = 20_000, 40, 30, 1
BELLS_M = (500.0, 1_000.0, 1_500.0, 2_000.0, 3_000.0, 5_000.0)
PLANE = AzimuthalEquidistant(-73.98, 40.72, 60_000)
TOWNS = "towns, up to 2 km"
COUNTRY = "country, up to 5 km, 1 % up to 10 km"
SCHEMES = {TOWNS: (2_000.0, 2_000.0), COUNTRY: (5_000.0, 10_000.0)}
"""Name → the largest displacement of most places, and of one in a hundred."""


def displaced(places: Array, most: float, rare: float, rng: np.random.Generator) -> Array:
    """Return places displaced as DHS does, in metres."""
    reach = np.where(rng.random(len(places)) < 0.01, rare, most)
    distance, angle = reach * rng.random(len(places)), 2 * np.pi * rng.random(len(places))
    return places + distance[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


def mean_displacement(most: float, rare: float) -> float:
    """Return the mean displacement, in metres."""
    return 0.99 * most / 2 + 0.01 * rare / 2


def errors(most: float, rare: float, bell_m: float) -> tuple[float, float]:
    """Return root mean square errors of densities, relative to the mean of the true ones.

    The first is of masked places, the second of displaced ones; the truth is of the same people.
    """
    rng = np.random.default_rng(SEED)
    everybody, chances = PLANE.project(collisions().values), collisions().weights
    chances = chances / chances.sum()
    mechanism = PlanarLaplace(GeoPrivacy(1.0, mean_displacement(most, rare) / 2, "metre"), 2)
    asked = rng.choice(everybody, ASKED, p=chances)
    bells = [GaussianKernel(tuple(place), bell_m) for place in asked.tolist()]
    undone = [mechanism.estimator(bell, debias=True).value for bell in bells]
    squares = []
    for _ in range(REPEATS):
        people = rng.choice(everybody, PEOPLE, p=chances)
        truth = _means([bell.value for bell in bells], people)
        ours = _means(undone, np.asarray(mechanism.simulate(people, rng)))
        theirs = _means([bell.value for bell in bells], displaced(people, most, rare, rng))
        squares.append(
            [((found - truth) ** 2).mean() / truth.mean() ** 2 for found in (ours, theirs)]
        )
    mine, plain = np.sqrt(np.mean(squares, axis=0)).tolist()
    return mine, plain


def _means(functions: Sequence[Callable[[Array], Array]], points: Array) -> Array:
    return np.array([function(points).mean() for function in functions])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.parse_args()
    print("| displaced as | bell | masked, noise taken off | displaced, as they are |")
    print("|---|--:|--:|--:|")
    for name, scheme in SCHEMES.items():
        for bell_m in BELLS_M:
            mine, plain = errors(*scheme, bell_m)
            print(f"| {name} | {bell_m:,.0f} m | {mine:.3f} | {plain:.3f} |", flush=True)


if __name__ == "__main__":
    main()
