"""The paper's experiment on pairs of thresholds: income above T₁ and debt above T₂ [SGP §5].

Errors are exact [MATH §12.2]. Each threshold costs ε, as in the paper, so the paper's grid costs
1156 ε; only GP_loc and "deconvolved" points answer every threshold from one perturbed point. GP_loc
and ε-LDP answer the hard threshold, as in the authors' code.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import (
    DebiasedLaplace,
    GeoPrivacy,
    ParameterError,
    PlanarLaplace,
    Threshold,
    TwoWayThreshold,
)
from geoveil.simulation.comparison import MECHANISMS, Contestant, Setting
from geoveil.simulation.experiment import Cell, Experiment
from geoveil.simulation.experiments.published import Panel, PaperRun, band, published
from geoveil.simulation.experiments.rows import LOCAL, ErrorRow
from geoveil.simulation.experiments.sums import drawn_blocks, seeded, shared, summed
from geoveil.simulation.figures.published import draw_settings
from geoveil.simulation.populations import Array, incomes_and_debts

POINT_BAND = 1.5
"""Width of the band of deconvolved points, in noise scales of a coordinate."""
BLOCK = 1 << 14
"""The number of people per block; each block has its own seed."""
PEOPLE = (400_000, 1_600_000, 6_400_000)
AXIS = tuple(10_000.0 + 30_000.0 * j for j in range(34))
"""Thresholds along each axis, in dollars."""
SHIFTS = 16
POINTS = 1 << 13
"""The number of lattice points per shift."""
_STEP = 1.1673039782614187 ** -np.arange(1.0, 5.0)
"""The lattice's steps: powers of the root of g⁵ = g + 1, the golden ratio in four dimensions."""
_BAND_CELLS, _CELLS_PER_LOG, _FARTHEST = 256, 200.0, 1e9
Sums = Callable[[Array, np.random.Generator], Array]
"""Points (n, 2) and a generator → sum of the reports at each threshold, (m, m)."""
Lattices = Sequence[tuple[Array, Array]]
"""For each shift, people's values and planar Laplace noise at ε = 1, both (n, 2)."""


@dataclass(frozen=True, kw_only=True)
class TwoWayPanel(Panel):
    """The paper's figure 4 at one ε: all pairs of increasing thresholds, in dollars."""

    experiment = "twoway"
    of_papers = MappingProxyType({n: c for n, c in MECHANISMS.items() if n != "GP_rad"})
    repetitions = 50, 10
    footing: float = 12_000.0
    axes: tuple[tuple[float, ...], tuple[float, ...]] = (AXIS, AXIS)
    people: tuple[int, ...] = PEOPLE

    def __post_init__(self) -> None:
        super().__post_init__()
        for axis in self.axes:
            if not (len(axis) and np.isfinite(axis).all() and (np.diff(axis) > 0).all()):
                expected = "one finite threshold or more, increasing"
                raise ParameterError("axes", [*axis], expected)

    @property
    def label(self) -> str:
        first, second = self.axes
        if len(first) == 1:
            return f"T=({first[0]:g}, {second[0]:g}), 1/ε={self.per:g}"
        return f"1/ε={self.per:.0f}" + ("" if first == AXIS else f", {len(first)}×{len(second)}")

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """All pairs of thresholds, the second in the inner loop."""
        return list(product(*self.axes))

    @property
    def questions(self) -> int:
        return len(self.pairs)

    def width(self, at: Sequence[float]) -> float:
        """Return the width of the band at thresholds (T₁, T₂)."""
        return band(math.hypot(*at), self.per)

    @property
    def scalar(self) -> Mapping[str, Contestant]:
        """The mechanisms whose reports depend only on the signed distance, including a file's."""
        every = self.contestants.items()
        return {name: c for name, c in every if not (c.answers_every_query or name == LOCAL)}

    def drawn_once(self, name: str, n: int, repetition: int, seed: int) -> Array:
        sums = _sums(self, name)
        population = self.given.people(2) or incomes_and_debts()
        off = np.zeros(tuple(map(len, self.axes)))
        for people, rng in drawn_blocks(
            f"twoway {self.label} {name}", n, size=BLOCK, seed=seed, repetition=repetition
        ):
            x = population.sample(people, rng)
            off += sums(x, rng) - _above(x, self)
        return off / n

    def setting(self, at: tuple[float, float]) -> Setting:
        """Return the question at thresholds (T₁, T₂)."""
        return self.asked(partial(TwoWayThreshold, at, self.width(at)))

    def coordinate_reports(self) -> DebiasedLaplace:
        """Return the mechanism of deconvolved points in one coordinate, for the threshold 0."""
        scale = math.sqrt(2) * self.per
        query = Threshold(0.0, POINT_BAND * scale, profile="smoothstep")
        return DebiasedLaplace(query, GeoPrivacy(1.0, per=scale, unit="dollar"))


PANELS = tuple(TwoWayPanel(per=per) for per in (8_000.0, 12_000.0, 20_000.0))


@lru_cache(maxsize=2)
def _sums(panel: TwoWayPanel, contestant: str) -> Sums:
    """Return the function that draws and sums the reports of a contestant."""
    shape = tuple(map(len, panel.axes))
    if contestant == "GP_loc":
        points = PlanarLaplace(panel.privacy, dimension=2)
        return lambda x, rng: _above(points.simulate(x, rng), panel)
    if contestant == LOCAL:
        scale = panel.per / panel.footing

        def local(x: Array, rng: np.random.Generator) -> Array:
            noise = [rng.laplace(scale=scale, size=len(x)).sum() for _ in panel.pairs]
            return np.asarray(_above(x, panel) + np.reshape(noise, shape))

        return local
    if contestant == "deconvolved":
        reports = panel.coordinate_reports()

        def deconvolved(x: Array, rng: np.random.Generator) -> Array:
            scale = reports.scale
            noisy = x + rng.laplace(scale=scale, size=x.shape)
            first, second = (
                np.asarray(reports.query.profile.debiased(c - np.array(axis)[:, None], scale))
                for c, axis in zip(noisy.T, panel.axes, strict=True)
            )
            return np.asarray(first @ second.T)

        return deconvolved
    build = panel.scalar[contestant].build
    mechanisms = [build(panel.setting(at)) for at in panel.pairs]
    return lambda x, rng: np.reshape(
        [summed(m, x)(np.ones(len(x), np.int64), rng) for m in mechanisms], shape
    )


def _above(points: Array, panel: TwoWayPanel) -> Array:
    """Return the number of points with both coordinates above each pair of thresholds."""
    shape = len(panel.axes[0]) + 1, len(panel.axes[1]) + 1
    first, second = map(np.searchsorted, panel.axes, points.T)
    counts = np.bincount(first * shape[1] + second, minlength=shape[0] * shape[1]).reshape(shape)
    above = counts[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]
    return np.asarray(above[1:, 1:], np.float64)


class Moments(NamedTuple):
    """Moments over noise and people at each threshold, estimated for each shift: (shifts, m)."""

    bias: Array
    """Estimates of E D."""
    square: Array
    """Estimates of E[(m − h)²], or of E D², which includes v."""
    noise: Array | None = None
    """Estimates of E v; None if `square` includes it."""

    def ase(self, n: int) -> dict[str, Any]:
        """Return the ASE, its jackknife standard error, squared bias and noise.

        The variance of the estimated bias is subtracted from its square.
        """
        error, squared_bias, noise = self._sums(n)
        noises = self.noise
        left_out = [
            Moments(self.bias[k], self.square[k], None if noises is None else noises[k])._sums(n)[0]
            for k in ~np.eye(len(self.bias), dtype=bool)
        ]
        factor = (len(left_out) - 1) ** 2 / len(left_out)
        return {
            "error": error,
            "standard_error": math.sqrt(factor * np.var(left_out, ddof=1)),
            "squared_bias": squared_bias,
            "noise": noise,
        }

    def _sums(self, n: int) -> tuple[float, float, float | None]:
        inflated = self.bias.var(axis=0, ddof=1) / len(self.bias)
        squared_bias = float(np.sum(np.square(self.bias.mean(axis=0)) - inflated))
        total = float(self.square.mean(axis=0).sum()) - squared_bias
        noise = None if self.noise is None else float(self.noise.mean(axis=0).sum())
        error = max(squared_bias, 0.0) + (total + (noise or 0.0)) / n
        return error, max(squared_bias, 0.0), None if noise is None else noise / n


def exact(panel: TwoWayPanel, seed: int = 1, points: int = POINTS) -> list[ErrorRow]:
    """Return the errors of all mechanisms at one ε for every n."""
    moments_of = moments(panel, seed, points)
    return [
        panel.row(name, n, **moments_of[name].ase(n), seed=seed)
        for n in panel.people
        for name in panel.contestants
    ]


def moments(panel: TwoWayPanel, seed: int = 1, points: int = POINTS) -> dict[str, Moments]:
    """Return name → moments at each threshold, with T₂ in the inner loop."""
    drawn = lattices(panel, seed, points)
    nothing = np.zeros((SHIFTS, panel.questions))
    rate = panel.footing / panel.per
    return {
        **_scalar_moments(panel, drawn),
        "GP_loc": _plug_in(panel, drawn),
        "deconvolved": _deconvolved(panel, drawn),
        LOCAL: Moments(nothing, nothing, nothing + 2 / rate**2),
    }


def lattices(panel: TwoWayPanel, seed: int, points: int = POINTS) -> Lattices:
    """Return people and noise at the points of a Kronecker lattice in the unit cube, by shift.

    The first coordinate chooses a table's row by weight; incomes and debts use two coordinates.
    """
    from scipy.special import gammaincinv, ndtri

    table = panel.given.people(2)
    lattices_of = []
    for shift in range(SHIFTS):
        start, steps = seeded(seed, shift).random(4), np.arange(points)[:, None]
        uniform = np.clip((start + steps * _STEP) % 1.0, 1e-16, 1 - 1e-16)
        if table is not None:
            below = np.cumsum(table.weights)
            row = np.searchsorted(below, uniform[:, 0] * below[-1], side="right")
            pairs = table.values[np.minimum(row, len(below) - 1)]
        else:
            pairs = incomes_and_debts().of_normals(ndtri(uniform[:, :2]))
        radius, angle = gammaincinv(2.0, uniform[:, 2]), 2 * np.pi * uniform[:, 3]
        noise = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
        lattices_of.append((pairs, noise))
    return lattices_of


def _scalar_moments(panel: TwoWayPanel, lattices: Lattices) -> dict[str, Moments]:
    arrays = {name: np.empty((3, SHIFTS, panel.questions)) for name in panel.scalar}
    for j, at in enumerate(panel.pairs):
        table = _table(panel, panel.width(at))
        boundary = panel.setting(at).seed
        for i, (x, _) in enumerate(lattices):
            above = (x[:, 0] > at[0]) & (x[:, 1] > at[1])
            share = above.mean()
            everyone, hard = table.bins(np.asarray(boundary.signed_distance(x)), above)
            for name, (mean, variance) in table.columns.items():
                square = everyone @ mean**2 - 2 * (hard @ mean) + share
                arrays[name][:, i, j] = everyone @ mean - share, square, everyone @ variance
    return {name: Moments(*own) for name, own in arrays.items()}


def _plug_in(panel: TwoWayPanel, lattices: Lattices) -> Moments:
    """Return the moments of h(x + N): D = h(x + N) − h(x), and D² = 1 where they differ."""
    columns = []
    for x, planar in lattices:
        noisy = x + panel.per * planar
        before, after, both = (
            _above(points, panel).ravel() / len(x) for points in (x, noisy, np.minimum(x, noisy))
        )
        columns.append((after - before, after + before - 2 * both))
    return Moments(*np.array(columns).swapaxes(0, 1))


def _deconvolved(panel: TwoWayPanel, lattices: Lattices) -> Moments:
    """Return the moments of g(x̃₁−T₁) g(x̃₂−T₂); given x, its factors are independent."""
    reports = panel.coordinate_reports()
    nodes = reports.query.breakpoints[1] * np.linspace(-1, 1, 513)
    nodes = np.concatenate([nodes, nodes[-1] + reports.scale * np.linspace(0, 60, 4001)[1:]])
    nodes = np.concatenate([-nodes[:512:-1], nodes])
    variance = reports.variance(nodes)
    columns = []
    for x, _ in lattices:
        s = [c - np.array(axis)[:, None] for c, axis in zip(x.T, panel.axes, strict=True)]
        f = [*map(reports.query.value, s)]
        factors = (
            f,
            [*map(np.square, f)],
            [own * (at > 0) for own, at in zip(f, s, strict=True)],
            [np.square(own) + np.interp(at, nodes, variance) for own, at in zip(f, s, strict=True)],
        )
        share = _above(x, panel).ravel() / len(x)
        value, square, joint, second = ((g1 @ g2.T).ravel() / len(x) for g1, g2 in factors)
        columns.append((value - share, square - 2 * joint + share, second - square))
    return Moments(*np.array(columns).swapaxes(0, 1))


class _MomentTable:
    """Moments of every mechanism at nodes of the signed distance; they depend on nothing else.

    Nodes are evenly spaced across the band, and logarithmically beyond it.
    """

    def __init__(self, panel: TwoWayPanel, width: float) -> None:
        self._half, self._scale = half, scale = width / 2, min(panel.per, width)
        far = int(_CELLS_PER_LOG * math.log1p(_FARTHEST / scale)) + 1
        beyond = half + scale * np.expm1(np.arange(1, far + 1) / _CELLS_PER_LOG)
        band = np.linspace(-half, half, _BAND_CELLS + 1)
        self._nodes = nodes = np.concatenate([-beyond[::-1], band, beyond])
        question = panel.asked(partial(Threshold, 0.0, width))
        answers = {name: c.build(question) for name, c in panel.scalar.items()}
        self.columns = {name: (a.mean(nodes), a.variance(nodes)) for name, a in answers.items()}

    def bins(self, s: Array, above: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Return the share of people at each node, for all people and for those above."""
        count = len(self._nodes)
        # Computing the cell avoids a search, which would take most of a panel's time.
        distance = np.abs(s)
        out = np.log1p(np.maximum(distance - self._half, 0.0) / self._scale) * _CELLS_PER_LOG
        inside = np.minimum(distance / self._half, 1.0) * (_BAND_CELLS / 2)
        cell = ((count - 1) / 2 + np.sign(s) * (inside + out)).astype(np.intp)
        cell = np.clip(cell, 0, count - 2)
        low, high = self._nodes[cell], self._nodes[cell + 1]
        right = np.clip((s - low) / (high - low), 0.0, 1.0)
        everyone, hard = shared(cell, right, count), shared(cell[above], right[above], count)
        return everyone / len(s), hard / len(s)


_table = lru_cache(maxsize=64)(_MomentTable)


def experiment(asked: PaperRun) -> Experiment[ErrorRow]:
    """Return the experiment with pairs of thresholds (34 × 34, figure 4), or on a user's people.

    Drawing people and noise takes minutes per repetition and mechanism: each person sends 1156
    reports.

    Raises:
        ParameterError: if a file has no mechanisms, or a table comes without a question.
    """
    panels = PANELS
    if question := asked.given.question(2):
        (first, second), per = question
        panels = (TwoWayPanel(per=per, axes=((first,), (second,)), footing=per),)
    elif asked.quick:
        panels = tuple(replace(panel, axes=(AXIS[1::7], AXIS[1::7])) for panel in PANELS)
    return published(
        asked,
        panels,
        lambda panels, _: [Cell(exact, (panel, asked.seed)) for panel in panels],
        draw_settings,
    )
