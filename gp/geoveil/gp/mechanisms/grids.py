"""The output grid of a mechanism: its spacing, and levels at which rounding would tie."""

from __future__ import annotations

import math
from collections.abc import Iterable

from geoveil.gp.errors import ParameterError
from geoveil.gp.exact import step_exponent_of
from geoveil.gp.queries.profiles import Profile

MOST_RATIO = 1e8
"""Largest ratio between the noise scale and the length over which a query varies."""
_FINEST_BITS = 61
"""A grid finer than this, relative to the widest reports, would saturate."""
_FINER = 64
"""Bits by which the default grid may become finer, so that no level is a tie."""
_TIE = 2.0**-20
"""Distance from the middle between two grid points beyond which any noise avoids a tie."""


def grid_exponent(
    step: float | None, *, default: int, spread: float, levels: Iterable[float]
) -> int:
    """Return the exponent of the grid's step.

    No level of f may lie half way between two grid points. Where f is constant and noise is tiny,
    whether a release ends would otherwise depend on the value.

    Args:
        step: None for the default.
        default: exponent of the default, before it is made to fit.
        spread: order of magnitude of the widest reports.
        levels: of reports where there is next to no noise, see `levels_of`.

    Raises:
        ParameterError: if the step is not a power of two, above 1, too fine, or splits a level.
    """
    levels = set(levels)
    finest = exponent_below(max(1.0, spread), _FINEST_BITS)
    if step is None:
        exponent = max(default, finest)
        # A level that lies between two points of this grid does not on all finer ones.
        finer = range(exponent, max(finest, exponent - _FINER) - 1, -1)
        return next((e for e in finer if not is_rounding_tie(levels, e)), exponent)
    exponent = step_exponent_of(step)
    if exponent > 0:
        raise ParameterError("step", step, "at most 1, so that 0 and 1 lie on the grid")
    if exponent < finest:
        raise ParameterError(
            "step", step, f"at least 2^{finest}, so that the reports fit into 64 bits"
        )
    if is_rounding_tie(levels, exponent):
        raise ParameterError(
            "step", step, "a step of which no level of the query is an odd half: try a finer one"
        )
    return exponent


def exponent_below(scale: float, bits: int) -> int:
    """Return the exponent of the power of two that is `bits` bits below `scale`."""
    return math.frexp(scale)[1] - 1 - bits


def levels_of(profile: Profile) -> set[float]:
    """Return the values of φ on whole intervals, and its limits."""
    return {*profile.limits, *(level for _, _, level in profile.plateaus)}


def is_rounding_tie(levels: Iterable[float], exponent: int) -> bool:
    """Return whether a level lies at the middle between two grid points."""
    shares = (math.ldexp(level, -exponent) % 1.0 for level in levels)
    return any(abs(share - 0.5) < _TIE for share in shares)
