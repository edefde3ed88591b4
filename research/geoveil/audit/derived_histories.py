"""Histories made from kept points: answers to questions, and extrapolated ones [MATH §13].

Each is audited by the law of its reports, not by the theorem that they cost no more than the
points, so an extra reading, or a true value among them, is detected.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.audit.case import require_whole
from geoveil.audit.histories import log_integral
from geoveil.gp import GeoPrivacy, ParameterError, PlanarLaplace, Query, lazy

Array = NDArray[np.float64]
_REACH, _CELLS = 256, 16
"""The lattice of points: its extent on both sides of 0 in noise scales, and cells per noise
scale."""
_ALIKE = 2.0**-40


@dataclass(frozen=True)
class ExtrapolatedHistory:
    """One perturbed number in each epoch, with reports extrapolated from the last two.

    In epoch e of age a a report is z_e + a·(z_e − z_{e−1}). Trajectories are (n, epochs). A history
    is one report of each epoch from the second on, after the first point if the campaign existed:
    (n, epochs − 1) or (n, epochs). Two reports in one epoch would reveal its two points, too.

    Args:
        privacy: of the point of each epoch.
        ages: of the reports from the second epoch on, in shares of an epoch, in (0, 1].
        from_the_first: whether the first point is visible.
    """

    privacy: GeoPrivacy
    ages: tuple[float, ...]
    from_the_first: bool = False

    def __post_init__(self) -> None:
        if not self.ages or not all(0 < age <= 1 for age in self.ages):
            raise ParameterError("ages", self.ages, "one or more numbers in (0, 1]")

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one history per trajectory."""
        z = np.asarray(PlanarLaplace(self.privacy, 1).simulate(np.ravel(x), rng)).reshape(
            np.shape(x)
        )
        reports = z[..., 1:] + np.array(self.ages) * np.diff(z, axis=-1)
        if self.from_the_first:
            reports = np.concatenate([z[..., :1], reports], axis=-1)
        return np.asarray(reports)

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-density of a history given a trajectory, the two broadcast together."""
        reports, values = np.atleast_1d(np.asarray(y, dtype=np.float64)), np.asarray(x, np.float64)
        seen, rate = self.from_the_first, self.privacy.rate
        # Every point is offset + slope·t, t the first one; each report determines the next point.
        offset = reports[..., 0] if seen else np.zeros(reports.shape[:-1])
        slope = 0.0 if seen else 1.0
        offsets, slopes = [offset], [slope]
        for age, report in zip(self.ages, np.moveaxis(reports, -1, 0)[seen:], strict=True):
            offset = (report + age * offset) / (1 + age)
            slope *= age / (1 + age)
            offsets.append(offset)
            slopes.append(slope)
        apart = np.stack([values[..., i] - offset for i, offset in enumerate(offsets)], axis=-1)
        constant = len(offsets) * np.log(rate / 2) - np.log1p(self.ages).sum()
        if seen:
            return np.asarray(constant - rate * np.abs(apart).sum(axis=-1))
        return np.asarray(constant + log_integral(apart / slopes, rate * np.array(slopes)))


@dataclass(frozen=True)
class AnsweredHistory:
    """One perturbed number in each epoch, which answers several questions.

    The number lies on a lattice of a sixteenth of its noise scale; a device's is finer.
    Trajectories are (n, epochs); a history has the answers of the first epoch, in the order of the
    questions, then those of the second: (n, epochs · questions).

    Args:
        privacy: of the point of each epoch.
        queries: of one number, which a point answers.
        epochs: ≥ 1.
    """

    privacy: GeoPrivacy
    queries: tuple[Query, ...]
    epochs: int = 1

    def __post_init__(self) -> None:
        require_whole("epochs", self.epochs, 1, 10_000)
        if not self.queries or not all(query.nests for query in self.queries):
            raise ParameterError("queries", self.queries, "one or more that a point answers")

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one history per trajectory."""
        z = np.asarray(PlanarLaplace(self.privacy, 1).simulate(np.ravel(x), rng))
        cells = np.searchsorted(self._edges[1:-1], z)
        return self._answers[cells].reshape(*np.shape(x)[:-1], -1)

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-probability of a history given a trajectory, broadcast together."""
        answers, values = np.asarray(y, dtype=np.float64), np.asarray(x, dtype=np.float64)
        by_epoch = answers.reshape(*answers.shape[:-1], self.epochs, len(self.queries))
        groups = self._groups
        group_of = np.array(
            [groups.get(row.tobytes(), -1) for row in _key(by_epoch).reshape(-1, len(self.queries))]
        ).reshape(by_epoch.shape[:-1])
        runs = self._runs[group_of]
        mass = _log_mass(runs - values[..., None, None], self.privacy.rate)
        return np.asarray(np.logaddexp.reduce(mass, axis=-1).sum(axis=-1))

    @lazy
    def _edges(self) -> Array:
        scale, cells = 1 / self.privacy.rate, _REACH * _CELLS
        edges = scale * np.arange(-cells, cells + 1) / _CELLS
        return np.concatenate([[-np.inf], edges, [np.inf]])

    @lazy
    def _answers(self) -> Array:
        """The answers of each cell of the lattice, (cells, questions)."""
        middle = (self._edges[1:-2] + self._edges[2:-1]) / 2
        middle = np.concatenate([middle[:1], middle, middle[-1:]])
        point = PlanarLaplace(self.privacy, 1)
        columns = [point.estimator(query, debias=True).value(middle) for query in self.queries]
        return np.stack(columns, axis=-1)

    @lazy
    def _groups(self) -> dict[bytes, int]:
        """Answers → the index of the group with these answers."""
        distinct = dict.fromkeys(row.tobytes() for row in _key(self._answers))
        return {row: number for number, row in enumerate(distinct)}

    @lazy
    def _runs(self) -> Array:
        """The intervals of the line for each answer, (answers + 1, most, 2), padded with ∞."""
        groups = self._groups
        of_cell = np.array([groups[row.tobytes()] for row in _key(self._answers)])
        starts = np.flatnonzero(np.diff(of_cell, prepend=-1))
        ends = np.append(starts[1:], len(of_cell))
        by_group: list[list[tuple[float, float]]] = [[] for _ in range(len(groups) + 1)]
        for start, end in zip(starts, ends, strict=True):
            by_group[of_cell[start]].append((self._edges[start], self._edges[end]))
        runs = np.full((len(by_group), max(map(len, by_group)), 2), np.inf)
        for number, stretches in enumerate(by_group):
            runs[number, : len(stretches)] = stretches or np.empty((0, 2))
        return runs


def _key(answers: Array) -> NDArray[np.int64]:
    return np.ascontiguousarray(np.rint(answers / _ALIKE).astype(np.int64))


def _log_mass(ends: Array, rate: float) -> Array:
    """Return the log-probability that Laplace noise is between ends, (..., 2)."""
    near, far = np.sort(np.abs(ends), axis=-1)[..., 0], np.sort(np.abs(ends), axis=-1)[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        beside = np.log(0.5) - rate * near + np.log(-np.expm1(-rate * (far - near)))
        across = np.log(-(np.expm1(-rate * near) + np.expm1(-rate * far)) / 2)
    nothing = ends[..., 0] == ends[..., 1]
    crosses = (ends[..., 0] < 0) & (ends[..., 1] > 0)
    return np.asarray(np.where(nothing, -np.inf, np.where(crosses, across, beside)))
