"""Add points and outputs to a row where densities change fastest."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.audit.case import Array, Case, Pair
from geoveil.audit.exact import blocks

_ROUNDS = 4
_SPLIT = 4
_PROMINENT, _STEEPEST = 8, 4
"""Steps of the path split in a round: peaks by prominence, and by height."""
_FAR = np.concatenate([1.5 ** np.arange(15), 292 * 3.0 ** np.arange(1, 10)])
"""Distances beyond the ends of the path, in units of `per`, to 5.7 million."""
_NARROW, _JITTER = 1 / 880, 0.05
"""Step of the search for narrow strips, in units of `per`, and its jitter."""
_MOST_STEPS = 500_000
"""Reached if a promise is stated for a distance far below the width of the band."""
_NEARBY, _PAIRS = 1 / 40, 15
"""Distance of two close points, in units of `per`, and the number of such pairs."""
_LEAST = 1 / 8
"""Length at which bisection ends, in units of `per`."""
_SEEN, _FASTEST = 601, 6
"""Outputs that choose a half, and the most places with the fastest changes."""
_UNDERFLOW = -800.0, -650.0
"""Logarithms of doubles with few significant bits, also of those of other units."""
FAINT = -600.0
"""A log-density promised to be above this does not underflow."""
_COLUMNS = 9
_HALVINGS = 60


def with_far_points(case: Case) -> Array:
    """Return the path extended beyond both ends, and in a plane in six more directions."""
    path = case.path
    ends = [(path[0], path[1]), (path[-1], path[-2])]
    if case.plane:
        centre, angle = path.mean(axis=0), np.pi * np.array([-3, -2, -1, 0, 1, 3]) / 4
        around = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        ends += [(centre + np.ptp(path[:, 0]) / 2 * ahead, centre) for ahead in around]
    before, *others = _far(case, ends)
    return np.concatenate([before[::-1], path, *others])


def with_narrow_steps(case: Case) -> Array:
    """Return the path plus the ends of the small steps with the fastest changes of densities.

    Three possible outputs suffice: no change of an answer or of its noise leaves their densities.
    """
    path, rng = case.path, np.random.default_rng(0)  # what repeats itself is not met alike
    lengths = np.linalg.norm(np.diff(path, axis=0).reshape(len(path) - 1, -1), axis=1)
    along = np.append(0.0, np.cumsum(lengths))
    count = min(math.ceil(along[-1] / (case.per * _NARROW)), _MOST_STEPS)
    uneven = np.arange(1, count) + rng.uniform(-_JITTER, _JITTER, count - 1)
    place = np.interp(uneven / count * along[-1], along, np.arange(len(path)))
    before = np.minimum(place.astype(np.intp), len(path) - 2)
    share = (place - before).reshape(-1, *(1,) * (path.ndim - 1))
    points = path[before] + share * (path[before + 1] - path[before])
    y, columns = case.outputs, points[:: max(len(points) // _COLUMNS, 1)]
    possible = (case.mechanism.log_density(y[:, None], columns) > FAINT).any(axis=1)
    y = y[possible | ~possible.any()]
    few = y[len(y) * np.array([5, 6, 9]) // 12]
    logs = np.fmax(case.mechanism.log_density(few[:, None], points), _UNDERFLOW[1])
    fastest = np.argsort(np.abs(np.diff(logs, axis=1)).max(axis=0))
    ends = np.union1d(fastest[-_STEEPEST:], fastest[-_STEEPEST:] + 1)
    ends = ends[np.mod(place[ends], 1) > 0]
    return np.insert(path, before[ends] + 1, points[ends], axis=0)


def _far(case: Case, ends: list[Pair]) -> list[Array]:
    """Return points at growing distances beyond several ends, each with a point inside."""
    starts, inner = (np.array(points) for points in zip(*ends, strict=True))
    ahead = np.array([case.per * step / np.linalg.norm(step) for step in starts - inner])
    outputs = case.outputs[:: -(-len(case.outputs) // _SEEN), None]

    def points(steps: NDArray[np.floating[Any]], way: NDArray[np.intp]) -> Array:
        return np.asarray(starts[way] + (steps * ahead[way].T).T, np.float64)

    def logs(steps: NDArray[np.floating[Any]], way: NDArray[np.intp]) -> Array:
        return resolved(case.mechanism.log_density(outputs, points(steps, way)))

    low, high = np.tile(np.append(0.0, _FAR[:-1]), len(ends)), np.tile(_FAR, len(ends))
    way = np.repeat(np.arange(len(ends)), len(_FAR))
    below, above = logs(low, way), logs(high, way)
    while (wide := high - low > _LEAST).any():
        middle = (low[wide] + high[wide]) / 2
        between = logs(middle, way[wide])
        with np.errstate(invalid="ignore"):
            changes = np.abs([between - below[:, wide], above[:, wide] - between])
        first, second = np.where(np.isfinite(changes), changes, 0.0).max(axis=1)
        nearer, farther = wide.copy(), wide.copy()
        nearer[wide], farther[wide] = first >= second, first < second
        high[nearer], above[:, nearer] = middle[first >= second], between[:, first >= second]
        low[farther], below[:, farther] = middle[first < second], between[:, first < second]
    with np.errstate(invalid="ignore"):
        rates = np.nan_to_num(np.abs(above - below), posinf=0.0).max(axis=0) / (high - low)
    far = []
    for i in range(len(ends)):
        fast = np.flatnonzero(way == i)[np.argsort(rates[way == i])[-_FASTEST:]]
        steps = np.unique(np.concatenate([_FAR, _FAR[:_PAIRS] + _NEARBY, low[fast], high[fast]]))
        beyond = points(steps[steps > 0], np.full((steps > 0).sum(), i))
        unknown = np.isnan(case.mechanism.log_density(outputs, beyond)).any(axis=0)
        far.append(beyond[~unknown])  # both scales of a quotient are 0, say
    return far


def resolved(logs: Array) -> Array:
    """Return log-densities without those rounded as densities."""
    return np.where((logs > _UNDERFLOW[0]) & (logs < _UNDERFLOW[1]), np.nan, logs)


def edges_of_support(case: Case) -> Array:
    """Return outputs next to places where a density ends, for several points of the path."""
    y = case.outputs
    if y.ndim != 1 or len(y) < 2:
        return y[:0]
    order = np.argsort(y)
    y = y[order]
    columns = case.path[np.linspace(0, len(case.path) - 1, _COLUMNS).astype(int)]
    possible = case.mechanism.log_density(y[:, None], columns) > FAINT
    atoms = getattr(case.mechanism, "atoms", ())
    row, column = np.nonzero(possible[1:] != possible[:-1])
    clear = ~(np.isin(y[row], atoms) | np.isin(y[row + 1], atoms))
    row, column = row[clear], column[clear]
    inside = np.where(possible[row, column], y[row], y[row + 1])
    outside = np.where(possible[row, column], y[row + 1], y[row])
    for _ in range(_HALVINGS if len(row) else 0):
        middle = (inside + outside) / 2
        within = case.mechanism.log_density(middle, columns[column]) > FAINT
        inside, outside = np.where(within, middle, inside), np.where(within, outside, middle)
    return inside


def refined(case: Case, path: Array, logs: Array) -> tuple[Array, Array]:
    """Return the path with points added where densities change fastest, and all log-densities.

    `logs` are of every output (row) at every point (column) of the path.
    """
    rng = np.random.default_rng(0)  # what repeats itself along the path is not met alike
    for _ in range(_ROUNDS):
        steps = np.diff(path, axis=0)
        lengths = np.abs(steps) if path.ndim == 1 else np.linalg.norm(steps, axis=-1)
        few = [_steepness(part, lengths) for part in blocks(logs, len(lengths))]
        prominence, highest = np.max(few, axis=0)
        # Of all outputs together, too: those near answers stand out all along the path.
        most = np.pad(highest, 1)
        peaks = most[1:-1] - np.maximum(most[:-2], most[2:])
        chosen = {
            *np.argsort(prominence)[-_PROMINENT:].tolist(),
            *np.argsort(peaks)[-_PROMINENT:].tolist(),
            *np.argsort(most[1:-1])[-_STEEPEST:].tolist(),
        }
        at = np.repeat(sorted(chosen), _SPLIT - 1)
        shares = np.arange(1, _SPLIT) + rng.uniform(-0.05, 0.05, (len(chosen), _SPLIT - 1))
        share = (shares / _SPLIT).reshape(-1, *(1,) * (path.ndim - 1))
        added = path[at] + share * steps[at]
        path = np.insert(path, at + 1, added, axis=0)
        logs = np.insert(logs, at + 1, log_densities(case, added), axis=1)
    return path, logs


def _steepness(logs: Array, lengths: Array) -> Array:
    """Return each step's prominence over outputs, and its rate, shape (2, n)."""
    with np.errstate(invalid="ignore"):
        rates = np.abs(np.diff(resolved(logs), axis=1)) / lengths
    rates = np.where(np.isfinite(rates), rates, 0.0)
    padded = np.pad(rates, ((0, 0), (1, 1)))
    apart = rates - np.maximum(padded[:, :-2], padded[:, 2:])
    return np.stack([apart.max(axis=0), rates.max(axis=0)])


def log_densities(case: Case, points: Array) -> Array:
    """Return the log-density of every output (row) at every point (column)."""
    parts = blocks(case.outputs[:, None], len(points))
    return np.concatenate([case.mechanism.log_density(y, points) for y in parts])
