"""The experiments of the papers on private selection, at equal and actually satisfied ε.

Beside each mechanism at the ε that it keeps stand the papers' own, at the ε that they claim, with
the ε that is proved of them. A further application is one import and one line in `EXPERIMENTS`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isinf
from pathlib import Path
from types import MappingProxyType
from typing import Any

from geoveil.audit.own import AUDITED, keeps
from geoveil.gp import validation
from geoveil.simulation.experiment import Cell, Experiment, Table
from geoveil.simulation.selection import forest, influence, percentile, transmission, tree
from geoveil.simulation.selection.experiment import (
    Compute,
    Options,
    SelectionRow,
    evenly_spaced,
    grouped,
)


def _draw(rows: Sequence[SelectionRow], file: Path, **how: Any) -> list[Path]:
    # Imported here, as that module imports this package.
    from geoveil.simulation.figures.selection import draw_selection

    return draw_selection(rows, file, **how)


@dataclass(frozen=True, slots=True)
class SelectionExperiment:
    """One application of private selection, as a paper measured it.

    Attributes:
        parts: by name, what is computed in one go; it raises `ParameterError` for data that can't
            be read or aren't taken.
        draw: a figure for each measure, beside a file; it returns the files.
    """

    parts: Callable[[Options], Mapping[str, Compute]]
    draw: Callable[[Sequence[SelectionRow], Path], list[Path]] = _draw


EXPERIMENTS: Mapping[str, SelectionExperiment] = MappingProxyType(
    {
        "percentile": SelectionExperiment(
            percentile.parts, partial(_draw, unit="counts", linear_below=1.0)
        ),
        "nodes": SelectionExperiment(influence.parts),
        "tree": SelectionExperiment(
            tree.parts,
            partial(_draw, title="Private ID3: which attribute to split by"),
        ),
        "forest": SelectionExperiment(
            forest.parts,
            partial(_draw, title="Private random forests: which label a leaf has"),
        ),
        "tdt": SelectionExperiment(transmission.parts),
    }
)
"""Name of the application → its experiment."""


def part_rows(application: str, part: str, options: Options) -> list[SelectionRow]:
    """Return the rows of a part of an application: the law of its cell."""
    return list(EXPERIMENTS[application].parts(options)[part]())


def experiment(application: str, options: Options) -> Experiment[SelectionRow]:
    """Return the experiment of one of `EXPERIMENTS`.

    Raises:
        ParameterError: if there is no such application, data can't be read, or are none that it
            takes.
    """
    described = EXPERIMENTS[validation.choice("application", application, EXPERIMENTS)]
    return Experiment(
        name=f"selection-{application}",
        cells=[Cell(part_rows, (application, part, options)) for part in described.parts(options)],
        seed=options.seed,
        draw=described.draw,
        tables=_tables,
        note=lambda _: _audited(options),
    )


def _audited(options: Options) -> str:
    """Return what an audit finds of mechanisms that were given."""
    worst = {name: own.audited() for name, own in options.own.items()}
    found = [f"{name} {e:.4g} ({'keeps' if keeps(e) else 'exceeds'})" for name, e in worst.items()]
    return f"yours: {AUDITED}: {'; '.join(found)}." if found else ""


_SHOWN = 4
"""Values of ε in a table; the files have all."""


def _tables(rows: Sequence[SelectionRow]) -> list[Table]:
    """Return a table for each measure and setting: mechanisms by a few values of ε."""
    tables = []
    for place, own in grouped(rows, "measure", "dataset", "setting").items():
        epsilons = evenly_spaced(sorted({row.epsilon for row in own}), _SHOWN)
        lines = []
        for key, line in grouped(own, "mechanism", "standing").items():
            value = {row.epsilon: row.value for row in line}
            most = max(row.proved_epsilon / row.epsilon for row in line)
            proved = "nothing" if isinf(most) else f"{most:.3g} ε"
            values = (f"{value[e]:.4g}" if e in value else "–" for e in epsilons)
            lines.append((*key, proved, *values))
        headers = ("mechanism", "ε", "proved", *(f"ε = {epsilon:.3g}" for epsilon in epsilons))
        tables.append(
            Table(
                headers=headers,
                rows=lines,
                title="{}: {}, {}".format(*place),
                wrapped=range(len(headers)),
                right=range(3, len(headers)),
            )
        )
    return tables


__all__ = [
    "EXPERIMENTS",
    "Options",
    "SelectionExperiment",
    "SelectionRow",
    "experiment",
]
