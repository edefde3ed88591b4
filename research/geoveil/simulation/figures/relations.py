"""The figure of relations: squared errors relative to those without noise, a row per question."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from geoveil.simulation.figures.style import GREEN, INDIGO, ROSE, SAND, pyplot, save

_LOOKS = {
    1.0: (ROSE, "s", "ε-LDP, ε between any two"),
    2.0: (SAND, "^", "ε-LDP, 2ε between any two"),
    4.0: (INDIGO, "D", "ε-LDP, 4ε between any two"),
}


def draw_relations(rows: Sequence[Any], file: Path) -> None:
    """Write the figure of rows with `question`, `footing` and `times`."""
    figure, axes = pyplot().subplots(figsize=(7.6, 4.4))
    names = list(dict.fromkeys(row.question for row in rows))
    for row in rows:
        color, marker, label = _LOOKS.get(row.footing, (GREEN, "o", "geoveil form"))
        axes.plot(row.times, names.index(row.question), marker, color=color, ms=8, label=label)
    axes.set_xscale("log")
    axes.axvline(1, color="#222222", lw=1)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.25)
    axes.set_xlabel("squared error in multiples of that in the clear", fontsize=9)
    once = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.legend(once.values(), once.keys(), loc="lower center", ncol=4, frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    save(figure, file)
