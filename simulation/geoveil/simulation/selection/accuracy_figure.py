"""Accuracy against ε, a panel per table: the figures of trees and forests."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from geoveil.simulation.selection.rows import NOMINAL, Row, mechanisms, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = (
    "#0b6e4f", "#2bb07f", "#7570b3", "#d95f02", "#66a61e", "#e6ab02", "#a6761d", "#1f78b4",
    "#e7298a",
)  # fmt: skip
_PUBLISHED = ("#8c8c8c", "#4d4d4d", "#c0392b", "#8e5ea2", "#c9a227")
_MARKERS = "osDv^P*X<>h"


def draw_accuracies(
    rows: Sequence[Row], file: Path, *, title: str, notes: Mapping[str, str]
) -> None:
    """Write the figure as a PNG.

    Args:
        rows: of the experiment.
        file: where to.
        title: above all panels.
        notes: by mechanism, what its label adds.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    places = panels(rows)
    columns = min(3, len(places) + 1)
    lines = -(-(len(places) + 1) // columns)
    figure, axes = pyplot.subplots(
        lines, columns, figsize=(5.2 * columns, 4.6 * lines), squeeze=False, layout="constrained"
    )
    every = list(axes.ravel())
    for panel, place in zip(every, places, strict=False):
        _draw_panel(panel, [r for r in rows if (r.dataset, r.setting) == place], notes)
    for panel in every[len(places) :]:
        panel.axis("off")
    # The first panel that is left has the legend.
    handles, labels = every[0].get_legend_handles_labels()
    every[len(places)].legend(handles, labels, loc="center", frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=13)
    figure.savefig(file, dpi=130)
    pyplot.close(figure)


def _draw_panel(axes: "Axes", rows: Sequence[Row], notes: Mapping[str, str]) -> None:
    """Draw a line per mechanism: the papers' dashed, and without privacy a level in black."""
    ours, printed, levels = iter(_COLOURS * 3), iter(_PUBLISHED * 3), iter((":", "-."))
    for place, (name, standing) in enumerate(mechanisms(rows)):
        line = [row for row in rows if (row.mechanism, row.standing) == (name, standing)]
        if np.isinf(line[0].proved_epsilon):
            axes.axhline(line[0].value, color="#222222", lw=1, linestyle=next(levels), label=name)
            continue
        nominal = standing == NOMINAL
        axes.errorbar(
            [row.epsilon for row in line],
            [row.value for row in line],
            yerr=[row.standard_error for row in line],
            color=next(printed) if nominal else next(ours),
            linestyle="--" if nominal else "-",
            marker="x" if nominal else _MARKERS[place % len(_MARKERS)],
            markersize=4,
            capsize=2,
            label=(f"{name} (as printed)" if nominal else name) + notes.get(name, ""),
        )
    axes.set_xscale("log")
    axes.set_xlabel("ε (nats per record)")
    axes.set_ylabel("expected accuracy ± standard error")
    axes.set_title(f"{rows[0].dataset}, {rows[0].setting}", loc="left", fontsize=10)
    axes.grid(alpha=0.25)
