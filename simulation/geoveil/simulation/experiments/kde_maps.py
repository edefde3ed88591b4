"""One simulated run of the kernel experiment as maps: the paper's figures 5, 9, 10 and 11."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geoveil.simulation.experiments.kde_draws import Sample, estimates, kernel_means
from geoveil.simulation.experiments.kde_moments import KERNEL
from geoveil.simulation.experiments.kde_settings import KernelGrid, KernelSetting, collision_places

Array = NDArray[np.float64]

MAPPED = (
    "GP_loc",
    "GP_rad",
    "GP_Lip",
    "Student-t",
    "PowerLaw",
    "DebiasedLaplace",
    "deconvolved",
)
"""The paper's four, and geoveil's."""
FINE = 31
"""Centres along each side for mechanisms that answer one at a time: every second of the grid."""


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """Kernel means, or estimates of them, at centres of a lattice."""

    east: Array
    """Metres, shape (k,)."""
    north: Array
    """Metres, shape (k,)."""
    height: Array
    """Shape (k, k), a row for each northing."""


def density_maps(
    setting: KernelSetting,
    *,
    seed: int = 1,
    names: Sequence[str] = MAPPED,
    fine: int = FINE,
) -> Mapping[str, Map]:
    """Draw the reports of one sample of people, every one of them, and map the estimates.

    Perturbed points are estimated from at all centres. Those who answer one centre at a time are
    asked about every second one: 192 million reports for each mechanism. The default takes a minute
    or two.

    Args:
        setting: how many people, ε and h.
        seed: ≥ 0; the same seed gives the same maps.
        names: of contestants in `KERNEL`.
        fine: centres along each side for those that answer one at a time.

    Returns:
        "without privacy" and each name → its map.
    """
    places = collision_places()
    grid = KernelGrid.over(places)
    sample = Sample.draw(setting, places, seed=seed, number=0)
    everywhere = grid.thinned(grid.size)
    truth = kernel_means(sample.people, grid.centres, grid.bandwidth(setting.factor))
    maps = {"without privacy": _map(grid, everywhere, truth)}
    for name in names:
        chosen = everywhere if KERNEL[name].answers_every_query else grid.thinned(fine)
        maps[name] = _map(grid, chosen, estimates(name, sample, grid, chosen.tolist()))
    return maps


def _map(grid: KernelGrid, chosen: NDArray[np.intp], height: Array) -> Map:
    centres = grid.centres[chosen]
    side = round(len(chosen) ** 0.5)
    return Map(centres[:side, 0], centres[::side, 1], height.reshape(side, side))
