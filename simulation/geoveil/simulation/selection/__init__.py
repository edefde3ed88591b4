"""The experiments of the papers on private selection, at equal and actually satisfied ε.

Beside each mechanism at the ε that it keeps stand the papers' own, at the ε that they claim, with
the ε that is proved of them. A further application is one import and one line in `_MODULES`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from geoveil.simulation.experiments.runs import ExperimentCell
from geoveil.simulation.selection import forest, influence, percentile, transmission, tree
from geoveil.simulation.selection.experiment import (
    Options,
    SelectionExperiment,
    SelectionRow,
)

_MODULES = (percentile, influence, tree, forest, transmission)

EXPERIMENTS: Mapping[str, SelectionExperiment] = MappingProxyType(
    {module.EXPERIMENT.name: module.EXPERIMENT for module in _MODULES}
)
"""Name of the application → its experiment."""


@dataclass(frozen=True, slots=True)
class SelectionCell(ExperimentCell[SelectionRow]):
    """A part of an application.

    Args:
        application: a name in `EXPERIMENTS`.
        part: one of its parts.
        options: what it runs on.
    """

    application: str
    part: str
    options: Options

    @property
    def row_type(self) -> type[SelectionRow]:
        return SelectionRow

    @property
    def key(self) -> str:
        return f"selection {self.application} {self.part} {self.options.key}"

    @property
    def cost(self) -> float:
        return 1.0

    def rows(self) -> list[SelectionRow]:
        return EXPERIMENTS[self.application].parts(self.options)[self.part]()


def cells(application: str, options: Options) -> Sequence[SelectionCell]:
    """Return the cells of an application.

    Raises:
        ParameterError: if data can't be read, or is none that the application takes.
    """
    parts = EXPERIMENTS[application].parts(options)
    return [SelectionCell(application, part, options) for part in parts]


__all__ = [
    "EXPERIMENTS",
    "Options",
    "SelectionCell",
    "SelectionExperiment",
    "SelectionRow",
    "cells",
]
