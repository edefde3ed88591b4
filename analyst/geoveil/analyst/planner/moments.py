"""Moments of reports about a band, in noise scales: a table that every question can use.

What a mechanism makes of a soft step depends on the distance alone, and with distances in
units of 1/ε not even on ε. So for a kind, its parameters, a profile and a width in noise scales the
moments are computed once per process, at nodes between which they are interpolated: for all
thresholds and regions, all rates and all priors. They serve to screen; what is shown is computed
at every point of the prior.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.planner.kinds import KINDS, Task
from geoveil.gp.errors import UnsupportedError
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.indicator import PROFILES, Threshold

Array = NDArray[np.float64]
Table = tuple[Array, Array]
"""(mean − f, variance) at `nodes`."""

FINENESS = 4
"""Widths per octave: `width` has whole numbers for arguments."""
_STANDARD = GeoPrivacy(1.0, per=1.0)
_PER_NEAR = 16
"""Nodes per shortest length at the boundary; moments are off by less than 1 %."""
_BEND = 4.0
"""Shortest lengths from the boundary beyond which the nodes' distances grow with theirs."""
_FARTHEST = 1e5
"""Noise scales; beyond, moments are taken to be constant."""


def width(index: int) -> float:
    """Return the width of a band in noise scales: 2^(index/4).

    Example:
        >>> width(0), width(8)
        (1.0, 4.0)
    """
    return float(2.0 ** (index / FINENESS))


@lru_cache(maxsize=256)
def nodes(index: int) -> Array:
    """Return distances in noise scales, for bands of a width, increasing."""
    near = min(1.0, width(index))
    last = int(np.arcsinh(_FARTHEST / (_BEND * near)) * _BEND * _PER_NEAR) + 1
    return _BEND * near * np.sinh(np.arange(-last, last + 1) / (_BEND * _PER_NEAR))


@lru_cache(maxsize=1 << 14)
def table(name: str, option: int, profile: str, index: int, diameter: float | None) -> Table | None:
    """Return the moments of reports about a soft step; None if the kind refuses it.

    Args:
        name: of a kind, a key of `KINDS`.
        option: which of its parameters.
        profile: "linear" or "smoothstep".
        index: see `width`.
        diameter: of the domain, in noise scales; None if it is not known.
    """
    kind, x = KINDS[name], nodes(index)
    query = Threshold(0.0, width(index), profile)
    try:
        reports = kind.build(Task(query, _STANDARD, diameter), kind.options[option])
        bias = reports.mean(x) - np.asarray(PROFILES[profile](query.width).value(x))
        return bias, reports.variance(x)
    except UnsupportedError:
        return None


def interpolated(u: Array, index: int, found: Table) -> tuple[Array, Array]:
    """Return mean − f and variance at distances u, in noise scales.

    A variance that is infinite somewhere is taken to be so everywhere.
    """
    x, (bias, variance) = nodes(index), found
    if not np.isfinite(variance).all():
        return np.zeros_like(u), np.full_like(u, np.inf)
    return np.interp(u, x, bias), np.interp(u, x, variance)
