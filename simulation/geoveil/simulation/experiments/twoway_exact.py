"""The two-way experiment without drawing noise: moments over the noise, a lattice over people.

The noise is integrated exactly. What remains is an expectation over a log-normal pair, by a lattice
rule: u_j = frac(shift + jα), α from the generalised golden ratio, mapped through the normal
quantile, or to the rows of a table. `SHIFTS` random shifts give as many independent estimates, each
unbiased; what they disagree by is the standard error of the result. It is a small fraction of it:
see the tests.

At each threshold people are binned once by the signed distance s to the boundary, and everything
that depends on s alone is summed from the bins, interpolated linearly between their edges.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from geoveil.simulation.experiments.own import AS_PUBLISHED, OwnInput
from geoveil.simulation.experiments.rows import LOCAL, ErrorRow
from geoveil.simulation.experiments.settings import TwoWayPanel
from geoveil.simulation.experiments.twoway import (
    coordinate_reports,
    on_the_line,
    origins,
    scalar,
    setting,
)
from geoveil.simulation.populations import Population, incomes_and_debts

Array = NDArray[np.float64]

SHIFTS = 16
POINTS = 1 << 13
"""Points of a lattice, for each shift."""
_BAND_CELLS, _CELLS_PER_LOG, _FARTHEST = 256, 200.0, 1e9


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Moments over noise and people at each threshold, one estimate per shift: (shifts, m)."""

    bias: Array
    """Estimates of E D."""
    square: Array
    """Estimates of E[(m − h)²], or of E D² where v is included in it."""
    noise: Array | None
    """Estimates of E v; None if it is included in `square`."""

    def ase(self, n: int) -> tuple[float, float, float, float]:
        """Return the ASE, its standard error, its squared bias and its noise (or NaN).

        The square of the mean of the estimates of E D is too large by the variance of that mean,
        which is subtracted. The standard error is that of the jackknife.
        """
        ase, squared_bias, noise = self._sums(n)
        left_out = [self._without(i)._sums(n)[0] for i in range(len(self.bias))]
        factor = (len(left_out) - 1) ** 2 / len(left_out)
        return ase, math.sqrt(factor * np.var(left_out, ddof=1)), squared_bias, noise

    def _sums(self, n: int) -> tuple[float, float, float]:
        bias = self.bias.mean(axis=0)
        squared_bias = float(
            np.sum(np.square(bias) - self.bias.var(axis=0, ddof=1) / len(self.bias))
        )
        total = float(self.square.mean(axis=0).sum()) - squared_bias
        noise = math.nan
        if self.noise is not None:
            noise = float(self.noise.mean(axis=0).sum())
            total += noise
        return max(squared_bias, 0.0) + total / n, max(squared_bias, 0.0), noise / n

    def _without(self, i: int) -> "Moments":
        def drop(a: Array) -> Array:
            return np.delete(a, i, axis=0)

        noise = None if self.noise is None else drop(self.noise)
        return Moments(drop(self.bias), drop(self.square), noise)


def exact(
    panel: TwoWayPanel, seed: int = 1, points: int = POINTS, given: OwnInput = AS_PUBLISHED
) -> list[ErrorRow]:
    """Return the errors at one ε: of all mechanisms, for every n.

    Args:
        panel: the setting.
        seed: of the shifts.
        points: of the lattice, for each shift.
        given: mechanisms of one's own.
    """
    found = moments(panel, seed, points, given)
    rows = []
    for n in panel.people:
        for name, origin in origins(given).items():
            ase, standard_error, squared_bias, noise = found[name].ase(n)
            rows.append(
                ErrorRow(
                    experiment="twoway",
                    panel=panel.label,
                    n=n,
                    per=panel.per,
                    mechanism=name,
                    origin=origin,
                    measure="ASE",
                    error=ase,
                    standard_error=standard_error,
                    squared_bias=squared_bias,
                    noise=None if math.isnan(noise) else noise,
                    seed=seed,
                )
            )
    return rows


def moments(
    panel: TwoWayPanel, seed: int = 1, points: int = POINTS, given: OwnInput = AS_PUBLISHED
) -> dict[str, Moments]:
    """Return name → moments at each threshold, T₂ the inner loop."""
    drawn = lattices(points, seed, given)
    found = _scalar_moments(panel, drawn, given)
    found["GP_loc"] = _plug_in(panel, drawn)
    found["deconvolved"] = _deconvolved(panel, drawn)
    nothing = np.zeros((SHIFTS, len(panel.pairs)))
    rate = panel.footing / panel.per
    found[LOCAL] = Moments(nothing, nothing, nothing + 2 / rate**2)
    return found


def lattices(points: int, seed: int, given: OwnInput = AS_PUBLISHED) -> "list[_Lattice]":
    """Return a lattice for each of the shifts."""
    seeds = (np.random.SeedSequence(seed, spawn_key=(shift,)) for shift in range(SHIFTS))
    people = given.people(2)
    return [_Lattice(_lattice(points, 4, np.random.default_rng(s)), people) for s in seeds]


def _scalar_moments(
    panel: TwoWayPanel, lattices: "list[_Lattice]", given: OwnInput
) -> dict[str, Moments]:
    """Return the moments of what depends on the signed distance alone."""
    empty = (SHIFTS, len(panel.pairs))
    result = {name: Moments(*(np.empty(empty) for _ in range(3))) for name in scalar(given)}
    for j, at in enumerate(panel.pairs):
        asked = setting(panel, at)
        table = _table(panel, panel.width(at), given)
        for i, lattice in enumerate(lattices):
            x = lattice.pairs
            above = (x[:, 0] > at[0]) & (x[:, 1] > at[1])
            share = above.mean()
            everyone, hard = table.bins(np.asarray(asked.seed.signed_distance(x)), above)
            for name, (mean, variance) in table.columns.items():
                own = result[name]
                own.bias[i, j] = everyone @ mean - share
                own.square[i, j] = everyone @ mean**2 - 2 * (hard @ mean) + share
                assert own.noise is not None
                own.noise[i, j] = everyone @ variance
    return result


def _plug_in(panel: TwoWayPanel, lattices: "list[_Lattice]") -> Moments:
    """Return the moments of h(x + N): D = h(x + N) − h(x), and D² = 1 where they differ."""
    bias, square = [], []
    for lattice in lattices:
        x = lattice.pairs
        noisy = x + panel.per * lattice.planar
        before, after, both = (
            _shares_above(points, panel.axes) for points in (x, noisy, np.minimum(x, noisy))
        )
        bias.append((after - before).ravel())
        square.append((after + before - 2 * both).ravel())
    return Moments(np.stack(bias), np.stack(square), None)


def _deconvolved(panel: TwoWayPanel, lattices: "list[_Lattice]") -> Moments:
    """Return the moments of g(x̃₁−T₁) g(x̃₂−T₂), whose factors are independent given x."""
    reports = coordinate_reports(panel)
    nodes = reports.query.breakpoints[1] * np.linspace(-1, 1, 513)
    nodes = np.concatenate([nodes, nodes[-1] + reports.scale * np.linspace(0, 60, 4001)[1:]])
    nodes = np.concatenate([-nodes[:512:-1], nodes])
    variance = reports.variance(nodes)
    bias, square, noise = [], [], []
    for lattice in lattices:
        x = lattice.pairs
        n = len(x)
        mean, second, hard = [], [], []
        for coordinate, axis in zip(x.T, panel.axes, strict=True):
            s = coordinate - np.array(axis)[:, None]
            f = reports.query.value(s)
            mean.append(f)
            second.append(f * f + np.interp(s, nodes, variance))
            hard.append((s > 0).astype(np.float64))
        f1, f2 = mean
        h1, h2 = hard
        value, value2 = f1 @ f2.T / n, np.square(f1) @ np.square(f2).T / n
        share, joint = h1 @ h2.T / n, (f1 * h1) @ (f2 * h2).T / n
        bias.append((value - share).ravel())
        square.append((value2 - 2 * joint + share).ravel())
        noise.append((second[0] @ second[1].T / n - value2).ravel())
    return Moments(np.stack(bias), np.stack(square), np.stack(noise))


class _Lattice:
    """People and noise at the points of a lattice in the unit cube, shape (n, 4).

    People are a row of a table for the first coordinate, by weight; or incomes and debts for two.
    """

    def __init__(self, uniform: Array, table: Population | None) -> None:
        self._uniform, self._table = uniform, table

    @cached_property
    def pairs(self) -> Array:
        """What people hold, shape (n, 2)."""
        from scipy.special import ndtri

        if self._table is not None:
            below = np.cumsum(self._table.weights)
            row = np.searchsorted(below, self._uniform[:, 0] * below[-1], side="right")
            return np.asarray(self._table.values[np.minimum(row, len(below) - 1)])
        people = incomes_and_debts()
        first, second = ndtri(self._uniform[:, :2]).T
        rho = people.correlation
        second = rho * first + math.sqrt(1 - rho * rho) * second
        normal = np.stack([first, second], axis=-1)
        return np.asarray(np.exp(np.array(people.mu) + np.array(people.sigma) * normal))

    @cached_property
    def planar(self) -> Array:
        """Planar Laplace noise at ε = 1, shape (n, 2)."""
        from scipy.special import gammaincinv

        radius = gammaincinv(2.0, self._uniform[:, 2])
        angle = 2 * np.pi * self._uniform[:, 3]
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)


def _lattice(n: int, dimension: int, rng: np.random.Generator) -> Array:
    """Return n points of a randomly shifted Kronecker lattice in the open unit cube."""
    ratio = 2.0
    for _ in range(60):  # the root of g^(d+1) = g + 1
        ratio = (1 + ratio) ** (1 / (dimension + 1))
    step = ratio ** -np.arange(1.0, dimension + 1)
    points = (rng.random(dimension) + np.arange(n)[:, None] * step) % 1.0
    return np.asarray(np.clip(points, 1e-16, 1 - 1e-16))


def _shares_above(points: Array, axes: Sequence[Sequence[float]]) -> Array:
    """Return the share of points with both coordinates above each pair of thresholds."""
    shape = len(axes[0]) + 1, len(axes[1]) + 1
    first, second = (
        np.searchsorted(a, c, side="left") for a, c in zip(axes, points.T, strict=True)
    )
    counts = np.bincount(first * shape[1] + second, minlength=shape[0] * shape[1]).reshape(shape)
    above = counts[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]
    return np.asarray(above[1:, 1:] / len(points))


class _MomentTable:
    """Moments of every mechanism at nodes of the signed distance.

    The nodes are even across the band, and even in the logarithm beyond it.

    Args:
        panel: the setting.
        width: of the band, in dollars.
        given: mechanisms of one's own.
    """

    def __init__(self, panel: TwoWayPanel, width: float, given: OwnInput = AS_PUBLISHED) -> None:
        self._half, self._scale = width / 2, min(panel.per, width)
        far = int(_CELLS_PER_LOG * math.log1p(_FARTHEST / self._scale)) + 1
        beyond = self._half + self._scale * np.expm1(np.arange(1, far + 1) / _CELLS_PER_LOG)
        band = np.linspace(-self._half, self._half, _BAND_CELLS + 1)
        self._nodes = np.concatenate([-beyond[::-1], band, beyond])
        self._first = far
        question = on_the_line(panel, width)
        self.columns: Mapping[str, tuple[Array, Array]] = {
            name: (answer.mean(self._nodes), answer.variance(self._nodes))
            for name, answer in ((n, c.build(question)) for n, c in scalar(given).items())
        }

    def bins(self, s: Array, above: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Return the weight of each node for all people, and for those above; sums to a share."""
        distance = np.abs(s)
        out = np.log1p(np.maximum(distance - self._half, 0.0) / self._scale) * _CELLS_PER_LOG
        middle = _BAND_CELLS / 2
        inside = np.minimum(distance / self._half, 1.0) * middle
        cell = (self._first + middle + np.sign(s) * (inside + out)).astype(np.intp)
        cell = np.clip(cell, 0, len(self._nodes) - 2)
        low, high = self._nodes[cell], self._nodes[cell + 1]
        right = np.clip((s - low) / (high - low), 0.0, 1.0) / len(s)
        weights = []
        for where, part in ((cell, right), (cell[above], right[above])):
            upper = np.bincount(where, part, minlength=len(self._nodes))
            bins = np.bincount(where, minlength=len(self._nodes)) / len(s) - upper
            bins[1:] += upper[:-1]
            weights.append(bins)
        return weights[0], weights[1]


_table = lru_cache(maxsize=64)(_MomentTable)
