"""The paper's experiment on kernel densities: collisions in New York on a grid [SGP §5, App. B.2].

The centres cover the bounding box of the population, edges included, so that all samples share the
same grid; the paper's code uses the sample's box. Errors are exact [MATH §12.3], with ε for each
centre (so the paper's 3,721 centres cost 3,721 ε, except for GP_loc) and, in a separate panel, with
ε for the whole grid, where each person answers one centre. Perturbed points answer every centre for
one ε.

All centres for all people would be 744 million reports per mechanism and repetition. Monte-carlo
mode therefore draws kernel reports only on a stated sub-grid, and each perturbed point once. Random
numbers are a function of the seed, repetition, name and centre.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst import PointReports, lines_of, mean_reciprocal, outlines_of
from geoveil.gp import Area, AzimuthalEquidistant, GaussianKernel, ParameterError, validation
from geoveil.simulation.comparison import MECHANISMS, Setting
from geoveil.simulation.experiment import Cell, Experiment
from geoveil.simulation.experiments.own import OwnInput
from geoveil.simulation.experiments.published import Panel, PaperRun, published
from geoveil.simulation.experiments.rows import ErrorRow
from geoveil.simulation.experiments.sums import (
    DistanceNodes,
    gathered,
    places_at,
    radial_means,
    seeded,
    summed,
)
from geoveil.simulation.figures.published import draw_density_maps, draw_settings
from geoveil.simulation.mercator import SphericalMercator
from geoveil.simulation.populations import Array, Population, collisions

WINDOW_M = ((-8.3e6, -8.19e6), (4.91e6, 5.0e6))
"""The paper's window of the Mercator plane: (x from, to), (y from, to)."""
PLANE = SphericalMercator(Area(-73.95, 40.7, radius_m=80_000))
"""The paper's plane. A rate ε in its metres is κε in true metres, κ ≈ 1.33 (`PLANE.distortion`)."""
GRID_SIZE = 61
SUBGRID = 8
"""Centres along each side for which monte-carlo mode simulates reports."""
IN_ALL = "ε in all"
"""Marks a panel in which ε pays for the whole grid instead of each centre."""
_REACH = 13.0
"""Bandwidths beyond which a kernel is below 1e-36."""
_NOISE_REACH = 40.0
"""Noise scales beyond the kernel's end at which the undone kernel, ∝ e^{−εr}, is below 1e-17."""


@dataclass(frozen=True, kw_only=True)
class KernelSetting(Panel):
    """One setting of the paper: centres on a lattice over the bounding box of the people.

    Args:
        per: 1/ε, in metres of the plane.
        footing: the paper's footing of local privacy: ε_L = 1000 ε [MATH §12].
        people: the number of people, a single one.
        factor: bandwidth in diagonals of a cell, before rounding down to whole metres.
        size: centres along each side of the grid, ≥ 2.
        subgrid: centres to draw along each side, evenly spaced, ≥ 2, including the corners.
    """

    experiment = "kde"
    unit = "metre"
    of_papers = MappingProxyType(
        {name: c for name, c in MECHANISMS.items() if name != "LaplacePareto"}
    )
    repetitions = 10, 2
    per: float = 1_000.0
    footing: float = 1_000.0
    people: tuple[int, ...] = (200_000,)
    factor: float = 1.0
    size: int = GRID_SIZE
    subgrid: int = GRID_SIZE

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.positive("factor", self.factor)
        validation.require_count("size", self.size, 2)
        validation.require_count("subgrid", self.subgrid, 2, self.size)

    @property
    def label(self) -> str:
        size, part = (f"{side}×{side}" for side in (self.size, self.subgrid))
        suffix = "" if part == size else f", {part} of {size} centres"
        return f"1/ε={self.per:g}, h={self.factor:g} cell diagonals{suffix}"

    @property
    def n(self) -> int:
        """Number of people."""
        (n,) = self.people
        return n

    @property
    def questions(self) -> int:
        return self.subgrid**2

    @property
    def places(self) -> Population:
        """The places of people, in a plane."""
        return places_of(self.given)[0]

    @property
    def box(self) -> Array:
        """The south-western corner of the people's bounding box, and the north-eastern one."""
        low, high = self.places.values.min(axis=0), self.places.values.max(axis=0)
        if not (high > low).all():
            raise ParameterError("high", high.tolist(), "north-east of low")
        return np.stack([low, high])

    @property
    def diagonal(self) -> float:
        """The diagonal of the box, in metres, the largest distance of a place from a centre."""
        return float(np.hypot(*np.ptp(self.box, axis=0)))

    @property
    def bandwidth(self) -> float:
        """The bandwidth h, in metres."""
        return float(math.floor(self.factor * (self.diagonal / (self.size - 1))))

    @property
    def chosen(self) -> NDArray[np.intp]:
        """The numbers of the selected centres, row by row from the south-west."""
        along = np.rint(np.linspace(0, self.size - 1, self.subgrid)).astype(np.intp)
        return (along[:, None] * self.size + along).ravel()

    @property
    def centres(self) -> Array:
        """The selected centres, shape (subgrid², 2)."""
        low, high = self.box
        east, north = np.meshgrid(*np.linspace(low, high, self.size).T)
        return np.stack([east.ravel(), north.ravel()], axis=1)[self.chosen]

    @property
    def outlines(self) -> tuple[list[Array], str]:
        """Shipped boroughs or coasts as lines of the plane, (k, 2) in metres, and their source."""
        plane = places_of(self.given)[1]
        (west, south), (east, north) = plane.unproject(self.box).tolist()
        lines, source = outlines_of((west, south, east, north))
        return [plane.project(np.asarray(line)[:, :2]) for line in lines_of(lines)], source

    def question(self, kernel: GaussianKernel) -> Setting:
        """Return the setting of one kernel, in the plane or over distances.

        Mechanisms that perturb f or the distance behave the same in both.
        """
        return self.asked(lambda _: kernel)

    def drawn_people(self, n: int, repetition: int, seed: int) -> Population:
        """Return n people drawn with replacement, as counts at places."""
        places = self.places
        counts = seeded(seed, repetition).multinomial(n, places.weights / places.size)
        there = counts > 0
        return places_at(places.values[there], counts[there].astype(np.float64))

    def kernel_means(self, people: Population) -> Array:
        """Return the kernel's mean over people, per centre, within 1e-6 (`radial_means`)."""
        nodes = DistanceNodes(self.bandwidth, _REACH * self.bandwidth)
        f = np.exp(-np.square(nodes.distances / self.bandwidth) / 2)
        return radial_means(people, self.centres, f[:, None], nodes)[:, 0]

    def estimates(self, name: str, people: Population, repetition: int, seed: int) -> Array:
        """Return a contestant's estimate at each centre from individually drawn reports."""
        contestant, bandwidth = self.contestants[name], self.bandwidth
        at = (0.0, 0.0) if contestant.answers_every_query else 0.0
        answer = contestant.build(self.question(GaussianKernel(at, bandwidth)))
        counts = people.weights.astype(np.int64)
        if isinstance(answer, PointReports):
            # One point per person: the mean of a function of its distance to each centre.
            everyone = np.repeat(people.values, counts, axis=0)
            noisy = answer.mechanism.simulate(everyone, seeded(seed, repetition, name, 0))
            reach = _REACH * bandwidth + _NOISE_REACH * self.per
            nodes = DistanceNodes(min(self.per, bandwidth), reach)
            g = answer.estimator.value(nodes.ray)[:, None]
            return radial_means(places_at(noisy, np.ones(len(noisy))), self.centres, g, nodes)[:, 0]
        totals = [
            summed(answer, np.hypot(*(people.values - centre).T))(
                counts, seeded(seed, repetition, name, index)
            )
            for index, centre in zip(self.chosen.tolist(), self.centres, strict=True)
        ]
        return np.asarray(np.array(totals) / counts.sum())

    def drawn_once(self, name: str, n: int, repetition: int, seed: int) -> Array:
        people = self.drawn_people(n, repetition, seed)
        return self.estimates(name, people, repetition, seed) - self.kernel_means(people)


DEFAULT = KernelSetting()
SETTINGS = (
    *(KernelSetting(per=per) for per in (500.0, 1_000.0, 2_000.0)),
    *(KernelSetting(factor=factor) for factor in (0.8, 1.2)),
    *(KernelSetting(people=(n,)) for n in (100_000, 400_000)),
)
"""The paper's settings; each varies one of ε, h and n [MATH §12]."""


@lru_cache(maxsize=2)
def places_of(given: OwnInput) -> tuple[Population, SphericalMercator | AzimuthalEquidistant]:
    """Return the paper's collisions and its plane, or a user's people and a plane around them."""
    people = given.people(2)
    if people is None:
        points = PLANE.project(collisions().values)
        low, high = np.array(WINDOW_M).T
        inside = ((points >= low) & (points <= high)).all(axis=1)
        return gathered(points[inside], np.ones(inside.sum())), PLANE
    low, high = people.values.min(axis=0), people.values.max(axis=0)
    if (low == high).any() or (np.abs([low, high]) > (180.0, 90.0)).any():
        expected = "a file of longitudes and latitudes, in this order, two or more of each"
        raise ParameterError("data", str(given.data), expected)
    east, north = (float(x) for x in (low + high) / 2)
    reach = 1.5 * float(np.hypot(*(111_200.0 * (high - low) / 2)))
    plane = AzimuthalEquidistant(east, north, max(reach, 1_000.0))
    return gathered(plane.project(people.values), people.weights), plane


class CentreErrors(NamedTuple):
    """The law of the error e_t at each of k centres, shapes (k,)."""

    bias: Array
    """E[e_t]."""
    variance: Array
    """Var e_t."""
    noise: Array
    """The part of `variance` from the noise of reports: the mean of v_t divided by their number."""

    def ase(self) -> dict[str, float]:
        """Return the ASE, Σ_t E[e_t²], its squared bias and its noise."""
        squares = np.square(self.bias)
        return {
            "error": float(np.sum(squares + self.variance)),
            "squared_bias": float(np.sum(squares)),
            "noise": float(self.noise.sum()),
        }


class GridErrors(NamedTuple):
    """The errors of one contestant in one setting, with ε for each centre and for the grid."""

    per_centre: CentreErrors
    whole_grid: CentreErrors


def _errors(means: Array, n: int, m: int) -> GridErrors:
    """Apply [MATH §12.3] to population means (centres, 5) of b, b², m, m² and v."""
    bias, bias_square, mean, square, noise = means.T
    bias_spread = np.maximum(bias_square - np.square(bias), 0.0)
    spread = np.maximum(square - np.square(mean), 0.0)
    per_centre = CentreErrors(bias, (noise + bias_spread) / n, noise / n)
    if m == 1:
        return GridErrors(per_centre, per_centre)
    share = mean_reciprocal(n, 1 / m)
    variance = (noise + spread) * share + (bias_spread - spread) / n
    return GridErrors(per_centre, CentreErrors(bias, variance, noise * share))


def centre_errors(
    settings: Sequence[KernelSetting], names: Sequence[str]
) -> list[dict[str, GridErrors]]:
    """Return, for each setting, the error of contestants at the selected centres.

    The settings share people, size and sub-grid, so that one pass over pairs of place and centre
    serves all of them. Privacy is split over the whole grid.
    """
    places, contestants = settings[0].places, settings[0].contestants
    nodes = DistanceNodes(min(min(s.per, s.bandwidth) for s in settings), settings[0].diagonal)
    columns: dict[tuple[float, float, str], Array] = {}
    for s in settings:
        kernel = GaussianKernel((0.0, 0.0), s.bandwidth)
        for name in names:
            if (s.per, s.factor, name) not in columns:  # n enters only the formulas
                answer = contestants[name].build(s.question(kernel))
                mean, noise = answer.mean(nodes.ray), answer.variance(nodes.ray)
                bias = mean - kernel.value(nodes.ray)
                columns[s.per, s.factor, name] = np.stack([bias, bias**2, mean, mean**2, noise])
    table = np.concatenate([*columns.values()]).T
    means = radial_means(places, settings[0].centres, table, nodes)
    columns_of = dict(zip(columns, np.split(means, len(columns), axis=1), strict=True))
    m = settings[0].size ** 2
    shared = {name: 1 if contestants[name].answers_every_query else m for name in names}
    return [
        {name: _errors(columns_of[s.per, s.factor, name], s.n, m) for name, m in shared.items()}
        for s in settings
    ]


def exact(*settings: KernelSetting, names: Sequence[str] = ()) -> list[ErrorRow]:
    """Return exact errors of all contestants or the named ones; see `centre_errors`."""
    every = centre_errors(settings, names or tuple(settings[0].contestants))
    return [
        setting.row(name, setting.n, panel=panel, **law.ase())
        for setting, by_name in zip(settings, every, strict=True)
        for name, errors in by_name.items()
        for panel, law in zip((setting.label, f"{setting.label}, {IN_ALL}"), errors, strict=True)
    ]


MAPPED = (
    *("GP_loc", "GP_rad", "GP_Lip", "Student-t"),
    *("PowerLaw", "DebiasedLaplace", "deconvolved"),
)
"""The paper's four, and geoveil's."""
MAPS: Mapping[str, tuple[KernelSetting, ...]] = MappingProxyType(
    {"none": (), "default": (DEFAULT,), "all": SETTINGS}
)
"""Maps to draw → their settings."""
FINE = 31
"""Centres per side for mechanisms that answer one at a time: every second one of the grid."""


def density_maps(setting: KernelSetting, seed: int = 1) -> dict[str, tuple[Array, Array]]:
    """Draw one sample's reports and return the estimated maps: centres, and heights there.

    The first map is the density without privacy; these are the paper's figures 5, 9, 10 and 11.
    Mechanisms for one kernel answer at every second centre: 192 million reports each, 1 to 2
    minutes.
    """
    people = setting.drawn_people(setting.n, 0, seed)
    maps = {"without privacy": (setting.centres, setting.kernel_means(people))}
    for name in MAPPED:
        at_once = setting.of_papers[name].answers_every_query
        part = setting if at_once else replace(setting, subgrid=FINE)
        maps[name] = part.centres, part.estimates(name, people, 0, seed)
    return maps


draw_kernel_errors = partial(
    draw_settings,
    title="Kernel density of collisions: squared error summed over the grid",
    note="full: ε for each centre, as in the paper; hollow: ε for the whole grid",
    hollow=IN_ALL,
)


def experiment(asked: PaperRun, maps: str = "none") -> Experiment[ErrorRow]:
    """Return the experiment on densities of collisions in New York: figure 6 of the paper.

    Monte-carlo mode sums errors over `SUBGRID` centres along each side. `maps` is one of `MAPS`.

    Raises:
        ParameterError: if a file has no mechanisms.
    """
    mapped = MAPS[validation.choice("maps", maps, MAPS)]
    side = 5 if asked.quick else SUBGRID if asked.drawn else GRID_SIZE
    settings = (DEFAULT,) if asked.quick else SETTINGS

    def drawn_maps(file: Path) -> list[Path]:
        begins = file.stem.removesuffix(f"-{asked.mode}")
        files = []
        for s in mapped:
            files.append(file.with_stem(f"{begins}-map-n{s.n}-per{s.per:g}-h{s.factor:g}"))
            caption = (
                f"One run: n = {s.n:,}, 1/ε = {s.per:g} m for each centre,"
                f" h = {s.factor:g} cell diagonals (metres of the Mercator plane)"
            )
            setting = replace(s, given=asked.given)
            lines, source = setting.outlines
            title = f"{caption}\n{source}" if source else caption
            draw_density_maps(density_maps(setting, asked.seed), files[-1], title, lines)
        return files

    return published(
        asked,
        [replace(s, subgrid=side) for s in settings],
        lambda settings, _: [Cell(exact, tuple(settings))],
        draw_kernel_errors,
        drawn_maps,
    )
