"""The kernel experiment by drawing every report: the check of the exact mode, and its maps.

All centres of the paper's grid for all people are 744 million reports for each mechanism and
repetition. So the reports about one kernel are drawn at a sub-grid that is stated; perturbed points
are drawn once for all centres anyway. No sum is drawn from an approximate law.

A mechanism that perturbs f or the distance is simulated on the distances, which are the points of a
kernel in one dimension: the same law.

Every contestant has random numbers of its own, and for reports about one kernel every centre has: a
function of the seed, the repetition, the name and the centre, however the work is cut.

`density_maps` shows one simulated run: the paper's figures 5, 9, 10 and 11.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import GaussianKernel, PlanarLaplace
from geoveil.simulation.comparison import Contestant
from geoveil.simulation.experiments.draws import Draws
from geoveil.simulation.experiments.kde_moments import (
    KERNEL,
    DistanceNodes,
    Places,
    PointContestant,
    question,
    radial_means,
)
from geoveil.simulation.experiments.kde_settings import (
    DEFAULT,
    SETTINGS,
    KernelGrid,
    KernelSetting,
    collision_places,
)
from geoveil.simulation.experiments.own import AS_PUBLISHED, OwnInput

Array = NDArray[np.float64]

_REACH = 13.0
"""Bandwidths beyond which a kernel is below 1e-36."""
_NOISE_REACH = 40.0
"""Noise scales beyond the kernel's end at which the undone kernel, ∝ e^{−εr}, is below 1e-17."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The people of one repetition, and what seeds everything drawn about them."""

    setting: KernelSetting
    places: Places
    """The places of the population."""
    counts: NDArray[np.int64]
    """People drawn at each place."""
    seed: tuple[int, int]
    """Seed of the experiment, and number of the repetition."""

    @classmethod
    def draw(cls, setting: KernelSetting, places: Places, *, seed: int, number: int) -> "Sample":
        """Draw n people with replacement.

        Args:
            setting: how many, and what they are asked.
            places: the population.
            seed: of the experiment, ≥ 0.
            number: of the repetition, ≥ 0.
        """
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
        counts = rng.multinomial(setting.n, places.counts / places.size)
        return cls(setting, places, counts, (seed, number))

    @property
    def people(self) -> Places:
        """Where they are."""
        there = self.counts > 0
        return Places(self.places.points[there], self.counts[there].astype(np.float64))

    def rng(self, name: str, centre: int = 0) -> np.random.Generator:
        """Return the random numbers of a contestant, at one centre or for all."""
        seed, number = self.seed
        key = (number, zlib.crc32(name.encode()), centre)
        return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def kernel_means(people: Places, centres: Array, bandwidth: float) -> Array:
    """Return the mean of the kernel over people, per centre: the density without privacy.

    Args:
        people: where they are.
        centres: metres, shape (m, 2).
        bandwidth: h > 0, in metres.

    Returns:
        An array of shape (m,), to about 1e-6: see `radial_means`.
    """
    nodes = DistanceNodes(bandwidth, _REACH * bandwidth)
    f = np.exp(-np.square(nodes.distances / bandwidth) / 2)
    return radial_means(people, centres, f[:, None], nodes)[:, 0]


def estimates(
    name: str,
    sample: Sample,
    grid: KernelGrid,
    chosen: Iterable[int],
    contestants: Mapping[str, Contestant] = KERNEL,
) -> Array:
    """Return what a contestant makes of a sample, every report drawn, at some centres.

    Args:
        name: of the contestant.
        sample: the people.
        grid: all centres.
        chosen: indices of those that are asked about.
        contestants: name → contestant.

    Returns:
        Estimates of the kernel means, in the order of `chosen`.
    """
    indices = np.fromiter(chosen, dtype=np.intp)
    return _estimates(contestants[name], name, sample, grid, indices)


@singledispatch
def _estimates(
    contestant: Contestant,
    name: str,
    sample: Sample,
    grid: KernelGrid,
    indices: NDArray[np.intp],
) -> Array:
    """One report per person and centre."""
    setting = sample.setting
    kernel = GaussianKernel(0.0, grid.bandwidth(setting.factor))
    answer = contestant.build(question(kernel, setting.privacy))
    there = sample.counts > 0
    points, counts = sample.places.points[there], sample.counts[there]
    result = np.empty(len(indices))
    for i, index in enumerate(indices.tolist()):
        distance = np.hypot(*(points - grid.centres[index]).T)
        result[i] = Draws(answer, distance).total(counts, sample.rng(name, index))
    return result / setting.n


@_estimates.register
def _(
    contestant: PointContestant,
    name: str,
    sample: Sample,
    grid: KernelGrid,
    indices: NDArray[np.intp],
) -> Array:
    """One perturbed point per person: the mean of a function of its distance to each centre."""
    setting, bandwidth = sample.setting, grid.bandwidth(sample.setting.factor)
    true = np.repeat(sample.places.points, sample.counts, axis=0)
    noisy = PlanarLaplace(setting.privacy, 2).simulate(true, sample.rng(name))
    reach = _REACH * bandwidth + _NOISE_REACH * setting.per_m
    nodes = DistanceNodes(min(setting.per_m, bandwidth), reach)
    estimator = contestant.estimator(GaussianKernel((0.0, 0.0), bandwidth), setting.privacy)
    g = estimator.value(np.stack([nodes.distances, np.zeros(nodes.count)], axis=1))
    people = Places(noisy, np.ones(len(noisy)))
    return radial_means(people, grid.centres[indices], g[:, None], nodes)[:, 0]


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
MAPS: Mapping[str, tuple[KernelSetting, ...]] = MappingProxyType(
    {"none": (), "default": (DEFAULT,), "all": SETTINGS}
)
"""What to map → the settings."""
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
    given: OwnInput = AS_PUBLISHED,
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
        given: places of one's own.

    Returns:
        "without privacy" and each name → its map.
    """
    places = collision_places(given)
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
