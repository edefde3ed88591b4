"""The papers' experiments on private selection, at an equal ε that every mechanism keeps.

The papers' own mechanisms also appear at the ε that they claim, with the ε that is proved. A new
application takes one import and one line in `EXPERIMENTS`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isinf
from types import MappingProxyType
from typing import Any

from geoveil.audit import AUDITED, keeps
from geoveil.campaign import rounded_up
from geoveil.gp import validation
from geoveil.simulation.experiment import Cell, Experiment, Table, grouped
from geoveil.simulation.selection import forest, influence, percentile, transmission, tree
from geoveil.simulation.selection.experiment import (
    Compute,
    Options,
    SelectionRow,
    evenly_spaced,
)

Parts = Callable[[Options], Mapping[str, Compute]]
"""Options → an experiment's parts by name; ParameterError for unreadable or unsuitable data."""

EXPERIMENTS: Mapping[str, tuple[Parts, Mapping[str, Any]]] = MappingProxyType(
    {
        "percentile": (percentile.parts, percentile.DRAWN),
        "nodes": (influence.parts, {}),
        "tree": (tree.parts, {"title": "Private ID3: which attribute to split by"}),
        "forest": (forest.parts, {"title": "Private random forests: which label a leaf has"}),
        "tdt": (transmission.parts, {}),
    }
)
"""Application → its parts, and the options of its figures."""
_NOTES: Mapping[str, str] = MappingProxyType({"percentile": percentile.NOTE})
"""Application → a note on its tables."""


def part_rows(application: str, part: str, options: Options) -> list[SelectionRow]:
    """Return the rows of one part of an application; this is the law of its cell."""
    return list(EXPERIMENTS[application][0](options)[part]())


def experiment(application: str, options: Options) -> Experiment[SelectionRow]:
    """Return the experiment of one of `EXPERIMENTS`.

    Raises:
        ParameterError: if the application is unknown, or its data can't be read or used.
    """
    # Imported here, since that module imports this package.
    from geoveil.simulation.figures.selection import draw_selection

    parts, drawn = EXPERIMENTS[validation.choice("application", application, EXPERIMENTS)]
    return Experiment(
        name=f"selection-{application}",
        cells=[Cell(part_rows, (application, part, options)) for part in parts(options)],
        seed=options.seed,
        draw=partial(draw_selection, **drawn),
        tables=_tables,
        note=lambda _: " ".join(filter(None, (_NOTES.get(application), _audited(options)))),
    )


def _audited(options: Options) -> str:
    """Return, in words, the audit of a user's mechanisms."""
    worst = {name: own.audited() for name, own in options.own.items()}
    verdicts = [
        f"{name} {e:.4g} ({'keeps' if keeps(e) else 'exceeds'})" for name, e in worst.items()
    ]
    return f"yours: {AUDITED}: {'; '.join(verdicts)}." if verdicts else ""


_SHOWN = 4
"""The number of values of ε in a table; the files have all."""


def _tables(rows: Sequence[SelectionRow]) -> list[Table]:
    """Return a table of mechanisms by a few values of ε for each measure and setting."""
    tables = []
    for place, own in grouped(rows, "measure", "dataset", "setting").items():
        epsilons = evenly_spaced(sorted({row.epsilon for row in own}), _SHOWN)
        lines = []
        for key, line in grouped(own, "mechanism", "standing").items():
            value = {row.epsilon: row.value for row in line}
            most = rounded_up(max(row.proved_epsilon / row.epsilon for row in line), 3)
            proved = "nothing" if isinf(most) else f"{most:g} ε"
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


__all__ = ["EXPERIMENTS", "Options", "SelectionRow", "experiment"]
