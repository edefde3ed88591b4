"""Many queries of one profile, predicted together: the kernels of a grid, a row of thresholds.

The moments of a report depend on the distance alone. So the prior is binned by it once for
each query, onto nodes between which moments are interpolated linearly; every mechanism is then
evaluated at the nodes once, for all queries.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.planner.kinds import KINDS, Reports, Task
from geoveil.analyst.planner.prediction import Prediction
from geoveil.analyst.planner.priors import Prior
from geoveil.analyst.planner.problem import check_promise, nodes_near
from geoveil.analyst.planner.question import Estimand, SoftQuestion
from geoveil.gp import validation
from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.base import Query
from geoveil.gp.queries.indicator import Threshold
from geoveil.gp.queries.profiles import Gaussian
from geoveil.gp.queries.projected import GaussianKernel, Linear

Array = NDArray[np.float64]

_PER_NEAR = 40
"""Nodes per shortest length at the centre; relative errors of moments are below 1e-3."""
_BEND = 4.0
"""Shortest lengths from the centre beyond which the nodes' distances grow with theirs."""
_PAIRS = 1e7
"""Points times queries up to which points are not gathered first."""
_GATHERED = 4.0
"""Cells per shortest length in which points are gathered."""
_OF_BELL = 8.0
"""Cells per bandwidth that are fine enough for a bell."""


@dataclass(frozen=True, eq=False)
class QueryBatch:
    """Queries with one profile over a prior.

    Args:
        query: one of them.
        nodes: distances, increasing, (k,).
        weights: of the prior at the nodes, for each query, (m, k).
        prior_size: see `Prior.size`.
    """

    query: Query
    nodes: Array
    weights: Array
    prior_size: float

    def best(
        self,
        kinds: Sequence[str],
        privacy: GeoPrivacy,
        error: Callable[[Prediction], float],
    ) -> tuple[str, tuple[Prediction, ...]]:
        """Return the kind with the least sum of errors, and its predictions for all queries.

        Args:
            kinds: names in `KINDS`.
            privacy: what each report promises.
            error: of one prediction.

        Raises:
            UnsupportedError: if none of the kinds serves the queries.
        """
        found: list[tuple[float, str, tuple[Prediction, ...]]] = []
        for name in kinds:
            for parameters in KINDS[name].options:
                try:
                    if not KINDS[name].satisfies_guarantee:
                        break
                    query = self._on_ray(name)
                    reports = KINDS[name].build(Task(query, privacy), parameters)
                    predictions = self._predict(reports, query.dimension)
                except UnsupportedError:
                    break
                total = KINDS[name].ranked(sum(map(error, predictions)))
                found.append((total, name, predictions))
        if not found:
            raise UnsupportedError(f"none of {', '.join(kinds)} serves {self.query!r}")
        _, name, predictions = min(found, key=lambda f: f[0])
        return name, predictions

    def _predict(self, reports: Reports, dimension: int) -> tuple[Prediction, ...]:
        """Return the predictions for reports about a query `_on_ray`, for all queries."""
        x = self.nodes
        if dimension > 1:
            x = np.concatenate([x[:, None], np.zeros((len(x), dimension - 1))], axis=1)
        value = np.asarray(self.query.profile.value(self.nodes))
        mean, variance = reports.mean(x), reports.variance(x)
        error = mean - value
        columns = np.stack([error, error**2, mean, mean**2, variance], axis=1)
        # Not a matrix product: starting threads takes longer than adding.
        moments = np.einsum("qs,sc->qc", self.weights, columns).tolist()
        return tuple(
            Prediction(
                bias,
                noise,
                bias_variance=max(square - bias**2, 0.0),
                varied=max(mean_square - center**2, 0.0),
                prior_size=self.prior_size,
                mean=center,
                limits=reports.limits,
            )
            for bias, square, center, mean_square, noise in moments
        )

    def _on_ray(self, name: str) -> Query:
        """Return a query of the same profile whose distance is the point, or its distance to 0.

        For noise on the point the dimension counts: only a kernel is round enough.
        """
        query = self.query
        on_line = isinstance(query, (Threshold, Linear)) and query.dimension == 1
        if on_line or not KINDS[name].answers_all:
            return Linear(query.profile, direction=1.0)
        if isinstance(query, GaussianKernel):
            return GaussianKernel((0.0,) * query.dimension, query.bandwidth)
        raise UnsupportedError(f"perturbed points are not compared for {query!r}")


def batched(
    questions: Sequence[Estimand], privacy: GeoPrivacy, prior: Prior, n: int
) -> QueryBatch | None:
    """Return the questions as a batch; None if they are no queries of one profile.

    Raises:
        ParameterError: if an argument is out of range, or the dimensions differ.
    """
    check_promise(privacy, prior)
    for i, question in enumerate(questions):
        if question.dimension != prior.dimension:
            raise ParameterError(
                f"questions[{i}].dimension", question.dimension, f"{prior.dimension}"
            )
    validation.require_count("n", n)
    queries = [q.query for q in questions if isinstance(q, SoftQuestion)]
    profile = queries[0].profile if queries else None
    if len(queries) < len(questions) or any(q.profile != profile for q in queries):
        return None
    return _binned(queries, 1 / privacy.rate, prior)


def _binned(queries: Sequence[Query], scale: float, prior: Prior) -> QueryBatch:
    near = min(scale, queries[0].profile.length_scale)
    points, shares = nodes_near([SoftQuestion(query) for query in queries], prior, near)
    if len(points) * len(queries) > _PAIRS:
        # Whatever reports about a bell, its moments vary no faster than the bell.
        profile = queries[0].profile
        bell = profile.bandwidth / _OF_BELL if isinstance(profile, Gaussian) else 0.0
        points, shares = _gathered(points, shares, max(near / _GATHERED, bell))
    bend = _BEND * near
    rows: list[tuple[int, Array]] = []
    for query in queries:
        t = _signed_distances(query, points)
        t /= bend
        np.arcsinh(t, out=t)
        t *= _BEND * _PER_NEAR
        first = math.floor(t.min())
        t -= first
        cell = t.astype(np.intp)
        t -= cell
        t *= shares
        right = np.bincount(cell, t)
        row = np.append(np.bincount(cell, shares) - right, 0.0)
        row[1:] += right
        rows.append((first, row))
    low = min(first for first, _ in rows)
    high = max(first + len(row) for first, row in rows)
    weights = np.zeros((len(queries), high - low))
    for whole, (first, row) in zip(weights, rows, strict=True):
        whole[first - low : first - low + len(row)] = row
    nodes = bend * np.sinh(np.arange(low, high) / (_BEND * _PER_NEAR))
    return QueryBatch(queries[0], nodes, weights, prior.size)


def _signed_distances(query: Query, points: Array) -> Array:
    """Return the distance of a query at points, in an array of its own."""
    if isinstance(query, GaussianKernel) and query.dimension == 2:
        # What `Query.signed_distance` returns, without its care for squares that overflow.
        x, y = query.center
        dx, dy = points[:, 0] - x, points[:, 1] - y
        dx *= dx
        dy *= dy
        dx += dy
        return np.sqrt(dx, out=dx)
    return np.array(query.signed_distance(points), np.float64)


def _gathered(points: Array, shares: Array, cell: float) -> tuple[Array, Array]:
    """Move points to a lattice, each shared out to the corners of its cell, which keeps means."""
    at = points.reshape(len(points), -1) / cell
    base = np.floor(at).astype(np.int64)
    part = at - base
    corners, weights = [], []
    for code in range(1 << at.shape[1]):
        up = np.array([code >> k & 1 for k in range(at.shape[1])])
        corners.append(base + up)
        weights.append(shares * np.where(up, part, 1 - part).prod(axis=1))
    lattice, index = np.unique(np.concatenate(corners), axis=0, return_inverse=True)
    mass = np.asarray(np.bincount(index.ravel(), np.concatenate(weights)), np.float64)
    keep = mass > 0
    return (lattice[keep] * cell).reshape(-1, *points.shape[1:]), mass[keep]
