"""The experiments of the papers on private selection, at equal and actually satisfied ε.

Beside each mechanism at the ε that it keeps stand the papers' own, at the ε that they claim, with
the ε that is proved of them. A further application is one import and one line in `_MODULES`.
"""

from collections.abc import Mapping
from types import MappingProxyType

from geoveil.simulation.selection import forest, influence, percentile, transmission, tree
from geoveil.simulation.selection.experiment import (
    Options,
    SelectionExperiment,
    SelectionRow,
    write_csv,
    write_json,
)

_MODULES = (percentile, influence, tree, forest, transmission)

EXPERIMENTS: Mapping[str, SelectionExperiment] = MappingProxyType(
    {module.EXPERIMENT.name: module.EXPERIMENT for module in _MODULES}
)
"""Name of the application → its experiment."""

__all__ = [
    "EXPERIMENTS",
    "Options",
    "SelectionExperiment",
    "SelectionRow",
    "write_csv",
    "write_json",
]
