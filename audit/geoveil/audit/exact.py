"""The exact auditor: the largest log-density ratio per distance, and where it is reached.

It needs densities, not samples. On a path of points the ratio of any two is at most the sum over
the steps between them, so neighbours on the path are enough.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp.errors import ParameterError

Array = NDArray[np.float64]


class Density(Protocol):
    """What the auditor needs of a mechanism."""

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-density at output y given the point x, the two broadcast together."""
        ...


@dataclass(frozen=True, slots=True)
class Finding:
    """The witness of the largest ratio found."""

    rate: float
    """|log p_x(y) − log p_x'(y)| / |x − x'|, in nats per unit."""
    x: tuple[float, ...]
    """One point."""
    other: tuple[float, ...]
    """The next point on the path."""
    y: float
    """The output at which they differ most."""


def exact_rate(mechanism: Density, points: ArrayLike, outputs: ArrayLike) -> Finding:
    """Return the largest rate at which neighbours on a path can be told apart.

    A lower bound of the privacy rate, and close to it on fine grids. Outputs at which one of the
    two densities is 0 in floating point are left out.

    Args:
        mechanism: anything with a log-density.
        points: a path, (n,) or (n, k), n ≥ 2, without repeats.
        outputs: (m,).

    Raises:
        ParameterError: if the path has fewer than two points or stands still.

    Example:
        >>> from geoveil.gp import GeoPrivacy, LipschitzMechanism, Threshold
        >>> m = LipschitzMechanism(Threshold(at=0, width=2), GeoPrivacy(1.0, per=4.0))
        >>> finding = exact_rate(m, np.linspace(-2, 2, 41), np.linspace(-3, 3, 61))
        >>> round(finding.rate, 6)
        0.25
    """
    path = np.asarray(points, dtype=np.float64)
    if len(path) < 2:
        raise ParameterError("points", f"{len(path)} points", "at least two points")
    steps = np.diff(path, axis=0)
    lengths = np.abs(steps) if path.ndim == 1 else np.linalg.norm(steps, axis=-1)
    if not (lengths > 0).all():
        raise ParameterError("points", "a repeated point", "a path whose points differ")
    y = np.asarray(outputs, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        ratio = np.abs(np.diff(mechanism.log_density(y[:, None], path), axis=1)) / lengths
    ratio = np.where(np.isfinite(ratio), ratio, -np.inf)
    row, column = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    return Finding(
        float(ratio[row, column]),
        tuple(np.atleast_1d(path[column]).tolist()),
        tuple(np.atleast_1d(path[column + 1]).tolist()),
        float(y[row]),
    )
