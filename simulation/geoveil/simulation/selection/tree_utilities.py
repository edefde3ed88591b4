"""What the mechanisms of the tree experiment are told of a node's attributes."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from geoveil.selection.contrib.criteria import (
    CRITERIA,
    NodeCounts,
    gain_sensitivity,
    gain_sensitivity_rows,
)
from geoveil.selection.contrib.splitters import shifted_gain

Array = NDArray[np.float64]
_FIRST_REACH = 32
"""Changes to look at first; most nodes need no more."""


def utilities(kind: str, node: NodeCounts) -> Array:
    """Return one of `KINDS` at a node, shape (attributes,)."""
    return KINDS[kind](node)


def _dampened(node: NodeCounts, *, replace: bool = False) -> Array:
    """Return what `LocalDampening.dampened` does, Σ_t clip((|u| − b(t))/δ_t, 0, 1), in one go."""
    rows, sensitivity = gain_sensitivity_rows(node), gain_sensitivity(node.most_records)
    values = CRITERIA["information_gain"].values(node)
    far = np.abs(values)
    reach = _FIRST_REACH
    while True:
        delta = np.minimum(rows(0, reach), sensitivity)
        if replace:
            delta = np.broadcast_to(delta.max(axis=1, keepdims=True), delta.shape)
        ends = delta.cumsum(axis=0)
        if (ends[-1] >= far).all():
            steps = np.clip((far - ends + delta) / delta, 0, 1)
            return np.asarray(np.sign(values) * steps.sum(axis=0))
        reach *= 4


def _shifted(node: NodeCounts) -> Array:
    sensitivity = gain_sensitivity(node.most_records)
    return shifted_gain(node, sensitivity) / sensitivity


def _gain_in_units(node: NodeCounts) -> Array:
    return CRITERIA["information_gain"].values(node) / gain_sensitivity(node.most_records)


def _gini_in_units(node: NodeCounts) -> Array:
    return CRITERIA["gini"].values(node) / 2


KINDS: dict[str, Callable[[NodeCounts], Array]] = {
    "dampened information gain": _dampened,
    "dampened information gain, largest": partial(_dampened, replace=True),
    "gini": _gini_in_units,
    "information gain": _gain_in_units,
    "max operator": CRITERIA["max_operator"].values,
    "shifted dampened information gain": _shifted,
}
"""Utilities in units of their sensitivity, so that Δ = 1 for all of them."""
