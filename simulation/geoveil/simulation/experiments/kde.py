"""The paper's experiment on kernel densities: collisions in New York on a grid [SGP §5, App. B.2].

The public code of the paper lays its 61 × 61 centres over the bounding box of its sample, edges
included, and takes the diagonal of a cell between them for the unit of h. Here the box is that of
the population, so that all samples share it.

One repetition draws n people X₁, …, X_n from the population, with replacement, and asks for
(1/n) Σ f_t(X_i) at each centre t of the grid. Its error there, e_t, is taken against that very
number, the kernel mean of the repetition's own sample; the ASE is Σ_t E[e_t²]. With m_t(x) and
v_t(x) the mean and variance of one report at x, b_t = m_t − f_t, and means, variances and
covariances over the population:

**ε for each centre** (how the paper counts: its 3,721 cost 3,721 ε in all, on every mechanism but
GP_loc). e_t is the mean of n independent numbers of mean b_t(X_i) and variance v_t(X_i), hence

    E[e_t²] = (mean b_t)² + (mean v_t + Var b_t)/n.

**ε for the whole grid**, a panel of its own, by `partition` [MATH §7]: each person answers one
centre, drawn uniformly. N ~ Binomial(n, 1/m) people answer at t; the estimate is their mean. Given
N, the answers of these and the values f_t of all n make up e_t, a sum of independent numbers with

    E[e_t²] = (mean b_t)² + (mean v_t + Var m_t)/N − 2 Cov(m_t, f_t)/n + Var f_t/n,

and Var b = Var m + Var f − 2 Cov(m, f) turns the last two terms into (Var b_t − Var m_t)/n. 1/N is
replaced by its mean given N ≥ 1. Perturbed points answer every centre for one ε: for them both
numbers are the same.

That the centres share people, and for perturbed points the noise too, correlates the e_t but does
not change the sum of their second moments. It does change how much that sum varies between
repetitions, which is not given here.

All centres of the paper's grid for all people are 744 million reports for each mechanism and
repetition. So in monte-carlo mode the reports about one kernel are drawn at a sub-grid that is
stated; perturbed points are drawn once for all centres anyway. No sum is drawn from an approximate
law. A mechanism that perturbs f or the distance is simulated on the distances, which are the points
of a kernel in one dimension: the same law. Every contestant has random numbers of its own, and for
reports about one kernel every centre has: a function of the seed, the repetition, the name and the
centre, however the work is cut.
"""

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.planner import PointReports
from geoveil.analyst.planner.prediction import mean_reciprocal
from geoveil.gp import GaussianKernel, GeoPrivacy, ParameterError, validation
from geoveil.gp.coordinates import Area, AzimuthalEquidistant, SphericalMercator
from geoveil.simulation.comparison import Contestant, Setting
from geoveil.simulation.experiment import Cell, Experiment
from geoveil.simulation.experiments.draws import summed
from geoveil.simulation.experiments.kde_sums import (
    DistanceNodes,
    farthest,
    gathered,
    places_at,
    radial_means,
)
from geoveil.simulation.experiments.own import AS_PUBLISHED, OwnInput
from geoveil.simulation.experiments.published import IN_FULL, MECHANISMS, Asked, Panel, published
from geoveil.simulation.experiments.rows import ErrorRow
from geoveil.simulation.figures.kernels import Map, draw_density_maps, map_of
from geoveil.simulation.figures.thresholds import draw_settings
from geoveil.simulation.populations import Array, Population, collisions

WINDOW_M = ((-8.3e6, -8.19e6), (4.91e6, 5.0e6))
"""The part of the Mercator plane that the paper keeps: (x from, to), (y from, to)."""
PLANE = SphericalMercator(Area(-73.95, 40.7, radius_m=80_000))
"""The paper's plane. A rate ε in its metres is κε in true ones, κ ≈ 1.33 (`PLANE.distortion`)."""
GRID_SIZE = 61
SUBGRID = 8
"""Centres along each side at which reports are drawn, in monte-carlo mode."""
REPETITIONS = 10
IN_ALL = "ε in all"
"""Marks a panel in which ε pays for the whole grid, and not for each centre."""
LOCAL_FOOTING_M = 1_000.0
"""Distance at which the paper compares with local privacy: ε_L = 1000 ε [MATH §12]."""
_REACH = 13.0
"""Bandwidths beyond which a kernel is below 1e-36."""
_NOISE_REACH = 40.0
"""Noise scales beyond the kernel's end at which the undone kernel, ∝ e^{−εr}, is below 1e-17."""


KERNEL = MappingProxyType({name: c for name, c in MECHANISMS.items() if name != "LaplacePareto"})
"""Name → contestant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSetting(Panel):
    """One setting of the paper.

    Args:
        n: number of people, ≥ 1.
        per_m: 1/ε, in metres of the plane.
        factor: bandwidth in diagonals of a cell, before it is rounded down to whole metres.
        size: centres along each side of the grid.
        subgrid: centres along each side of the part of it that is asked about.
    """

    experiment = "kde"
    known = KERNEL
    n: int = 200_000
    per_m: float = 1_000.0
    factor: float = 1.0
    size: int = GRID_SIZE
    subgrid: int = GRID_SIZE

    def __post_init__(self) -> None:
        validation.require_count("n", self.n)
        validation.positive("per_m", self.per_m)
        validation.positive("factor", self.factor)

    @property
    def label(self) -> str:
        size, part = (f"{side}×{side}" for side in (self.size, self.subgrid))
        told = "" if part == size else f", {part} of {size} centres"
        return f"1/ε={self.per_m:g}, h={self.factor:g} cell diagonals{told}"

    @property
    def privacy(self) -> GeoPrivacy:
        return GeoPrivacy(1.0, per=self.per_m, unit="metre")

    def drawn_once(
        self, name: str, n: int, repetition: int, seed: int, given: OwnInput = AS_PUBLISHED
    ) -> Array:
        places = collision_places(given)
        grid = KernelGrid.over(places, self.size)
        chosen = grid.thinned(self.subgrid)
        sample = Sample.draw(self, places, seed=seed, number=repetition)
        truth = kernel_means(sample.people, grid.centres[chosen], grid.bandwidth(self.factor))
        return estimates(name, sample, grid, chosen.tolist(), self.contestants(given)) - truth


DEFAULT = KernelSetting()
SETTINGS = (
    *(KernelSetting(per_m=per) for per in (500.0, 1_000.0, 2_000.0)),
    *(KernelSetting(factor=factor) for factor in (0.8, 1.2)),
    *(KernelSetting(n=n) for n in (100_000, 400_000)),
)
"""The paper's: one of ε, h and n is varied at a time [MATH §12]."""


@dataclass(frozen=True, slots=True, eq=False)
class KernelGrid:
    """Centres on a lattice over the bounding box of the people, its edges included.

    Args:
        low: its south-western corner, (2,) in metres.
        high: its north-eastern one.
        size: centres along each side.
    """

    low: Array
    high: Array
    size: int = GRID_SIZE

    def __post_init__(self) -> None:
        validation.require_count("size", self.size, 2)
        if not (self.high > self.low).all():
            raise ParameterError("high", self.high.tolist(), "north-east of low")

    @classmethod
    def over(cls, places: Population, size: int = GRID_SIZE) -> "KernelGrid":
        """Return the grid over the bounding box of some people."""
        return cls(places.values.min(axis=0), places.values.max(axis=0), size)

    @property
    def m(self) -> int:
        """Number of centres."""
        return self.size**2

    @property
    def centres(self) -> Array:
        """All centres, row by row from the south-west, shape (size², 2)."""
        axes = np.linspace(self.low, self.high, self.size).T
        east, north = np.meshgrid(*axes)
        return np.stack([east.ravel(), north.ravel()], axis=1)

    def thinned(self, size: int) -> NDArray[np.intp]:
        """Return the indices of `size`² of the centres, spread evenly, corners included."""
        validation.require_count("size", size, 2, self.size)
        chosen = np.rint(np.linspace(0, self.size - 1, size)).astype(np.intp)
        return (chosen[:, None] * self.size + chosen).ravel()

    def bandwidth(self, factor: float) -> float:
        """Return h: `factor` diagonals of a cell, rounded down to whole metres."""
        diagonal = float(np.hypot(*(self.high - self.low))) / (self.size - 1)
        return float(math.floor(factor * diagonal))


@lru_cache(maxsize=2)
def collision_places(given: OwnInput = AS_PUBLISHED) -> Population:
    """Return the collisions inside the paper's window, in the paper's plane.

    Others lie in a plane that is true to distances from their middle.
    """
    people = given.people(2)
    if people is None:
        points = PLANE.project(collisions().values)
        low, high = np.array(WINDOW_M).T
        inside = ((points >= low) & (points <= high)).all(axis=1)
        return gathered(points[inside], np.ones(inside.sum()))
    low, high = people.values.min(axis=0), people.values.max(axis=0)
    east, north = (float(x) for x in (low + high) / 2)
    reach = 1.5 * float(np.hypot(*(111_200.0 * (high - low) / 2)))
    plane = AzimuthalEquidistant(east, north, max(reach, 1_000.0))
    return gathered(plane.project(people.values), people.weights)


def question(kernel: GaussianKernel, privacy: GeoPrivacy) -> Setting:
    """Return the question as contestants take it: everyone answers the same kernel.

    The kernel is in two dimensions, or in one, over distances to the centre. A mechanism that
    perturbs f or the distance does the same in either.
    """
    return Setting(kernel, kernel, privacy, LOCAL_FOOTING_M)


class CentreErrors(NamedTuple):
    """The law of the error e_t at each of k centres, shapes (k,)."""

    bias: Array
    """E[e_t]."""
    variance: Array
    """Var e_t."""
    noise: Array
    """The part of `variance` that is the noise of the reports, mean v_t over the number of them."""

    @property
    def ase(self) -> float:
        """Σ_t E[e_t²]."""
        return float(np.sum(np.square(self.bias) + self.variance))


class Errors(NamedTuple):
    """The errors of one contestant in one setting, by what ε pays for."""

    per_centre: CentreErrors
    whole_grid: CentreErrors


def _errors(means: Array, n: int, m: int) -> Errors:
    """Apply the formulas of the module to n people and m centres.

    Means are those over the population of b, b², m, m² and v, (centres, 5).
    """
    bias, bias_square, mean, square, noise = means.T
    bias_spread = np.maximum(bias_square - np.square(bias), 0.0)
    spread = np.maximum(square - np.square(mean), 0.0)
    per_centre = CentreErrors(bias, (noise + bias_spread) / n, noise / n)
    if m == 1:
        return Errors(per_centre, per_centre)
    share = mean_reciprocal(n, 1 / m)
    variance = (noise + spread) * share + (bias_spread - spread) / n
    return Errors(per_centre, CentreErrors(bias, variance, noise * share))


def centre_errors(
    settings: Sequence[KernelSetting],
    places: Population,
    grid: KernelGrid,
    *,
    chosen: NDArray[np.intp] | None = None,
    contestants: Mapping[str, Contestant] = KERNEL,
) -> list[dict[str, Errors]]:
    """Return the error of every contestant at every centre, one pass over the pairs for all.

    Only chosen centres are looked at, but the privacy is shared out over the whole grid all the
    same. There is one mapping from names for each setting.

    Raises:
        ParameterError: if there is no setting.
    """
    if not settings:
        raise ParameterError("settings", "none", "at least one setting")
    centres = grid.centres if chosen is None else grid.centres[chosen]
    near = min(min(s.per_m, grid.bandwidth(s.factor)) for s in settings)
    nodes = DistanceNodes(near, farthest(places, centres))
    columns: dict[tuple[float, float, str], Array] = {}
    for s in settings:
        kernel = GaussianKernel((0.0, 0.0), grid.bandwidth(s.factor))
        for name, contestant in contestants.items():
            if (s.per_m, s.factor, name) not in columns:  # n is in the formulas only
                answer = contestant.build(question(kernel, s.privacy))
                mean = answer.mean(nodes.ray)
                bias = mean - kernel.value(nodes.ray)
                noise = answer.variance(nodes.ray)
                columns[s.per_m, s.factor, name] = np.stack([bias, bias**2, mean, mean**2, noise])
    means = radial_means(places, centres, np.concatenate([*columns.values()]).T, nodes)
    found = dict(zip(columns, np.split(means, len(columns), axis=1), strict=True))
    return [
        {
            name: _errors(
                found[s.per_m, s.factor, name], s.n, 1 if c.answers_every_query else grid.m
            )
            for name, c in contestants.items()
        }
        for s in settings
    ]


def exact(
    settings: tuple[KernelSetting, ...], names: tuple[str, ...], given: OwnInput = AS_PUBLISHED
) -> list[ErrorRow]:
    """Return all errors by the formulas of the module: settings and mechanisms share one pass.

    The settings are of one size of the grid and of the part of it.
    """
    places, known = collision_places(given), KernelSetting.contestants(given)
    grid = KernelGrid.over(places, settings[0].size)
    chosen = grid.thinned(settings[0].subgrid)
    contestants = {name: known[name] for name in names}
    found = centre_errors(settings, places, grid, chosen=chosen, contestants=contestants)
    return [
        setting.row(
            name,
            setting.n,
            given,
            panel=panel,
            error=law.ase,
            squared_bias=float(np.sum(np.square(law.bias))),
            noise=float(law.noise.sum()),
        )
        for setting, by_name in zip(settings, found, strict=True)
        for name, errors in by_name.items()
        for panel, law in (
            (setting.label, errors.per_centre),
            (f"{setting.label}, {IN_ALL}", errors.whole_grid),
        )
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The people of one repetition, and what seeds everything drawn about them."""

    setting: KernelSetting
    people: Population
    """How many are at which place."""
    seed: tuple[int, int]
    """Seed of the experiment, and number of the repetition."""

    @classmethod
    def draw(
        cls, setting: KernelSetting, places: Population, *, seed: int, number: int
    ) -> "Sample":
        """Draw n people with replacement."""
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
        counts = rng.multinomial(setting.n, places.weights / places.size)
        there = counts > 0
        people = places_at(places.values[there], counts[there].astype(np.float64))
        return cls(setting, people, (seed, number))

    def rng(self, name: str, centre: int = 0) -> np.random.Generator:
        """Return the random numbers of a contestant, at one centre or for all."""
        seed, number = self.seed
        key = (number, zlib.crc32(name.encode()), centre)
        return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def kernel_means(people: Population, centres: Array, bandwidth: float) -> Array:
    """Return the mean of the kernel over people, per centre: the density without privacy.

    It is within about 1e-6: see `radial_means`.
    """
    nodes = DistanceNodes(bandwidth, _REACH * bandwidth)
    f = np.exp(-np.square(nodes.distances / bandwidth) / 2)
    return radial_means(people, centres, f[:, None], nodes)[:, 0]


def estimates(
    name: str,
    sample: Sample,
    grid: KernelGrid,
    chosen: Sequence[int],
    contestants: Mapping[str, Contestant] = KERNEL,
) -> Array:
    """Return what a contestant makes of a sample, every report drawn, at some centres."""
    setting, people, centres = sample.setting, sample.people, grid.centres[chosen]
    bandwidth, counts = grid.bandwidth(setting.factor), people.weights.astype(np.int64)
    at = (0.0, 0.0) if contestants[name].answers_every_query else 0.0
    kernel = GaussianKernel(at, bandwidth)
    answer = contestants[name].build(question(kernel, setting.privacy))
    if isinstance(answer, PointReports):
        # One point per person: the mean of a function of its distance to each centre.
        everyone = np.repeat(people.values, counts, axis=0)
        noisy = answer.mechanism.simulate(everyone, sample.rng(name))
        reach = _REACH * bandwidth + _NOISE_REACH * setting.per_m
        nodes = DistanceNodes(min(setting.per_m, bandwidth), reach)
        g = answer.estimator.value(nodes.ray)
        return radial_means(places_at(noisy, np.ones(setting.n)), centres, g[:, None], nodes)[:, 0]
    totals = [
        summed(answer, np.hypot(*(people.values - centre).T))(counts, sample.rng(name, index))
        for index, centre in zip(chosen, centres, strict=True)
    ]
    return np.array(totals) / setting.n


MAPPED = (
    *("GP_loc", "GP_rad", "GP_Lip", "Student-t"),
    *("PowerLaw", "DebiasedLaplace", "deconvolved"),
)
"""The paper's four, and geoveil's."""
MAPS: Mapping[str, tuple[KernelSetting, ...]] = MappingProxyType(
    {"none": (), "default": (DEFAULT,), "all": SETTINGS}
)
"""What to map → the settings."""
FINE = 31
"""Centres along each side for mechanisms that answer one at a time: every second of the grid."""


def density_maps(
    setting: KernelSetting,
    *,
    seed: int = 1,
    names: Sequence[str] = MAPPED,
    fine: int = FINE,
    given: OwnInput = AS_PUBLISHED,
) -> Mapping[str, Map]:
    """Draw the reports of one sample of people, every one of them, and map the estimates.

    The density without privacy is the first of the maps; they are the paper's figures 5, 9, 10 and
    11. Perturbed points are estimated from at all centres, what answers one centre at a time at
    every second one: 192 million reports for each mechanism. The default takes a minute or two.
    """
    places = collision_places(given)
    grid = KernelGrid.over(places)
    sample = Sample.draw(setting, places, seed=seed, number=0)
    truth = kernel_means(sample.people, grid.centres, grid.bandwidth(setting.factor))
    maps = {"without privacy": map_of(grid.centres, truth)}
    for name in names:
        chosen = grid.thinned(grid.size if KERNEL[name].answers_every_query else fine)
        maps[name] = map_of(grid.centres[chosen], estimates(name, sample, grid, chosen.tolist()))
    return maps


def cells(
    asked: Asked = IN_FULL,
    settings: Sequence[KernelSetting] | None = None,
    contestants: Sequence[str] | None = None,
) -> list[Cell[ErrorRow]]:
    """Return the cells of the experiment.

    By default the settings are the paper's seven, and errors are summed at all centres in exact
    mode, at `SUBGRID` along each side where every report is drawn, one per person and centre.

    Raises:
        ParameterError: if a file has no mechanisms.
    """
    known = KernelSetting.contestants(asked.given)
    names = tuple(contestants or known)
    if settings is None:
        side = 5 if asked.quick else SUBGRID if asked.drawn else GRID_SIZE
        chosen = (replace(DEFAULT, n=20_000),) if asked.quick else SETTINGS
        settings = [replace(s, subgrid=side) for s in chosen]
    if not asked.drawn:
        return [Cell(exact, (tuple(settings), names, asked.given))]
    once = {name for name in names if known[name].answers_every_query}
    return [
        asked.cell(s, name, s.n, REPETITIONS, 2, reports=4 if name in once else s.subgrid**2)
        for s in settings
        for name in names
    ]


draw_kernel_errors = partial(
    draw_settings,
    title="Kernel density of collisions: squared error summed over the grid",
    note="full: ε for each centre, as in the paper; hollow: ε for the whole grid",
    hollow=IN_ALL,
)


def experiment(asked: Asked, maps: str = "none") -> Experiment[ErrorRow]:
    """Return densities of collisions in New York, a grid of 61 × 61: figure 6 of the paper.

    `maps` says which of `MAPS` are drawn besides.
    """
    chosen = MAPS[validation.choice("maps", maps, MAPS)]

    def drawn_maps(file: Path) -> list[Path]:
        begins = file.stem.removesuffix(f"-{asked.mode}")
        files = []
        for s in chosen:
            files.append(file.with_stem(f"{begins}-map-n{s.n}-per{s.per_m:g}-h{s.factor:g}"))
            told = (
                f"One run: n = {s.n:,}, 1/ε = {s.per_m:g} m for each centre,"
                f" h = {s.factor:g} cell diagonals (metres of the Mercator plane)"
            )
            found = density_maps(s, seed=asked.seed, given=asked.given)
            draw_density_maps(found, files[-1], title=told)
        return files

    return published("kde", asked, cells(asked), draw_kernel_errors, drawn_maps)
