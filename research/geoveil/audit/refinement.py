"""Where densities change fastest: points and outputs that are added to those of a row."""

import numpy as np

from geoveil.audit.case import Array, Case
from geoveil.gp import GeoPrivacy

_ROUNDS = 4
_SPLIT = 4
_PROMINENT, _STEEPEST = 12, 4
"""Steps of the path that are split in a round: peaks by how far they stand out, and by height."""
_FAR = 1.5 ** np.arange(15)
"""Distances beyond the ends of the path, in units of `per`, to 292."""
_NEARBY = 1 / 40
_COLUMNS = 9
_HALVINGS = 60


def with_far_points(path: Array, privacy: GeoPrivacy) -> Array:
    """Return a path that goes on beyond both of its ends: two points close together at each place.

    Args:
        path: (n,) or (n, k), n ≥ 2.
        privacy: its `per` is the unit of distances.
    """
    ends = []
    for end, inner in ((path[0], path[1]), (path[-1], path[-2])):
        ahead = (end - inner) / np.linalg.norm(end - inner)
        ends.append(
            [end + ahead * privacy.per * (far + step) for far in _FAR for step in (0, _NEARBY)]
        )
    return np.concatenate([ends[0][::-1], path, ends[1]])


def edges_of_support(case: Case) -> Array:
    """Return outputs next to where a density becomes 0, for some points of the path.

    Between outputs of one number of which one is possible and the next is not.
    """
    y = case.outputs
    if y.ndim != 1 or len(y) < 2:
        return y[:0]
    order = np.argsort(y)
    y = y[order]
    columns = case.path[np.linspace(0, len(case.path) - 1, _COLUMNS).astype(int)]
    possible = np.isfinite(case.mechanism.log_density(y[:, None], columns))
    atoms = getattr(case.mechanism, "atoms", ())
    row, column = np.nonzero(possible[1:] != possible[:-1])
    clear = ~(np.isin(y[row], atoms) | np.isin(y[row + 1], atoms))
    row, column = row[clear], column[clear]
    inside = np.where(possible[row, column], y[row], y[row + 1])
    outside = np.where(possible[row, column], y[row + 1], y[row])
    for _ in range(_HALVINGS if len(row) else 0):
        middle = (inside + outside) / 2
        within = np.isfinite(case.mechanism.log_density(middle, columns[column]))
        inside, outside = np.where(within, middle, inside), np.where(within, outside, middle)
    return inside


def refined(case: Case, path: Array, logs: Array) -> tuple[Array, Array]:
    """Return the path with points added where densities change fastest, and all log-densities.

    Args:
        case: the row, with all outputs.
        path: (n,) or (n, k).
        logs: of every output (row) at every point (column).
    """
    rng = np.random.default_rng(0)  # what repeats itself along the path is not met alike
    for _ in range(_ROUNDS):
        steps = np.diff(path, axis=0)
        lengths = np.abs(steps) if path.ndim == 1 else np.linalg.norm(steps, axis=-1)
        with np.errstate(invalid="ignore"):
            rates = np.abs(np.diff(logs, axis=1)) / lengths
        rates = np.where(np.isfinite(rates), rates, 0.0)
        padded = np.pad(rates, ((0, 0), (1, 1)))
        prominence = (rates - np.maximum(padded[:, :-2], padded[:, 2:])).max(axis=0)
        chosen = {
            *np.argsort(prominence)[-_PROMINENT:].tolist(),
            *np.argsort(rates.max(axis=0))[-_STEEPEST:].tolist(),
        }
        at = np.repeat(sorted(chosen), _SPLIT - 1)
        shares = np.arange(1, _SPLIT) + rng.uniform(-0.05, 0.05, (len(chosen), _SPLIT - 1))
        share = (shares / _SPLIT).reshape(-1, *(1,) * (path.ndim - 1))
        added = path[at] + share * steps[at]
        new = case.mechanism.log_density(case.outputs[:, None], added)
        path = np.insert(path, at + 1, added, axis=0)
        logs = np.insert(logs, at + 1, new, axis=1)
    return path, logs
