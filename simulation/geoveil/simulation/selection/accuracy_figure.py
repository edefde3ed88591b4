"""Accuracy against ε, a panel per table: the figures of trees and forests."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from geoveil.simulation.selection.rows import NOMINAL, OPEN, Row, mechanisms, panels

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
    names = {
        key: _label(key[0], [r for r in rows if (r.mechanism, r.standing) == key])
        + notes.get(key[0], "")
        for key in mechanisms(rows)
    }
    for panel, place in zip(every, places, strict=False):
        _draw_panel(panel, [r for r in rows if (r.dataset, r.setting) == place], names)
    for panel in every[len(places) :]:
        panel.axis("off")
    # The first panel that is left has the legend.
    handles, labels = every[0].get_legend_handles_labels()
    every[len(places)].legend(handles, labels, loc="center", frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=13)
    figure.savefig(file, dpi=130)
    pyplot.close(figure)


def _label(name: str, rows: Sequence[Row]) -> str:
    """Name a mechanism; of a printed one say what is proved, least and most of all its rows."""
    if rows[0].standing != NOMINAL:
        return name
    ratios = [row.proved_epsilon / row.epsilon for row in rows]
    low, high = (f"{f(ratios):.3g}" for f in (min, max))
    between = low if low == high else f"{low} to {high}"
    most = max(row.delta for row in rows)
    delta = f" with δ ≤ {most:.0e}" if most else ""
    return f"{name} as printed: {between} ε proved{delta}"


def _draw_panel(axes: "Axes", rows: Sequence[Row], labels: Mapping[tuple[str, str], str]) -> None:
    """Draw a line per mechanism: the papers' dashed, and without privacy a level in black."""
    ours, printed, levels = iter(_COLOURS * 3), iter(_PUBLISHED * 3), iter((":", "-."))
    for place, (name, standing) in enumerate(mechanisms(rows)):
        line = [row for row in rows if (row.mechanism, row.standing) == (name, standing)]
        if standing == OPEN:
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
            label=labels[name, standing],
        )
    axes.set_xscale("log")
    axes.set_xlabel("ε (nats per record)")
    axes.set_ylabel("expected accuracy ± standard error")
    axes.set_title(f"{rows[0].dataset}, {rows[0].setting}", loc="left", fontsize=10)
    axes.grid(alpha=0.25)
