"""The figures of private selection: accuracies of trees and forests, and curves over ε."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geoveil.simulation.figures.style import pyplot
from geoveil.simulation.selection.experiment import NOMINAL, OPEN, SelectionRow, mechanisms, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = (
    "#0b6e4f", "#2bb07f", "#7570b3", "#d95f02", "#66a61e", "#e6ab02", "#a6761d", "#1f78b4",
    "#e7298a",
)  # fmt: skip
_PUBLISHED = ("#8c8c8c", "#4d4d4d", "#c0392b", "#8e5ea2", "#c9a227")
_MARKERS = "osDv^P*X<>h"


def draw_accuracies(
    rows: Sequence[SelectionRow], file: Path, *, title: str, notes: Mapping[str, str]
) -> None:
    """Write the figure as a PNG.

    Args:
        rows: of the experiment.
        file: where to.
        title: above all panels.
        notes: by mechanism, what its label adds.
    """
    plt = pyplot()

    places = panels(rows)
    columns = min(3, len(places) + 1)
    lines = -(-(len(places) + 1) // columns)
    figure, axes = plt.subplots(
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
    plt.close(figure)


def _label(name: str, rows: Sequence[SelectionRow]) -> str:
    """Name a mechanism; of a printed one say what is proved, least and most of all its rows."""
    if rows[0].standing != NOMINAL:
        return name
    ratios = [row.proved_epsilon / row.epsilon for row in rows]
    low, high = (f"{f(ratios):.3g}" for f in (min, max))
    between = low if low == high else f"{low} to {high}"
    most = max(row.delta for row in rows)
    delta = f" with δ ≤ {most:.0e}" if most else ""
    return f"{name} as printed: {between} ε proved{delta}"


def _draw_panel(
    axes: "Axes", rows: Sequence[SelectionRow], labels: Mapping[tuple[str, str], str]
) -> None:
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


_WIDE = 20
"""Ratio of the largest ε to the least from which their axis is logarithmic."""


def draw_curves(
    rows: Sequence[SelectionRow],
    file: Path,
    *,
    columns: int = 3,
    linear_below: float | None = None,
    unit: str = "",
) -> None:
    """Draw the value against ε; what the papers print is dashed, with its nominal ε.

    Args:
        rows: of one application and measure.
        file: where to (PNG, PDF or SVG, by its ending).
        columns: panels in a row.
        unit: of the value, for its axis.
        linear_below: where the value's axis turns from logarithmic to linear; all of it without.
    """
    plt = pyplot()

    places = panels(rows)
    columns = min(columns, len(places))
    lines = math.ceil(len(places) / columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(4.3 * columns, 3.2 * lines + 1.3), squeeze=False
    )
    styles = _styles(mechanisms(rows))
    for (dataset, setting), place in zip(places, axes.flat, strict=False):
        own = [row for row in rows if (row.dataset, row.setting) == (dataset, setting)]
        for key, style in styles.items():
            _draw_line(place, [row for row in own if (row.mechanism, row.standing) == key], style)
        place.set_title(f"{dataset}, {setting}", fontsize=10)
        epsilons = [row.epsilon for row in own]
        if max(epsilons) > _WIDE * min(epsilons):
            place.set_xscale("log")
        place.set_xlabel("ε (nats)")
        if linear_below is not None:
            place.set_yscale("symlog", linthresh=linear_below)
            place.set_ylim(bottom=0, top=2.5 * max(row.value for row in own))
        place.grid(alpha=0.25)
    for place in axes.flat[len(places) :]:
        place.set_visible(False)
    for line in axes:
        line[0].set_ylabel(f"{rows[0].measure} ({unit})" if unit else rows[0].measure)
    handles = {
        label: handle
        for place in axes.flat
        for handle, label in zip(*place.get_legend_handles_labels(), strict=True)
    }
    height = figure.get_figheight()
    figure.tight_layout(rect=(0, 1.15 / height, 1, 0.99))
    figure.legend(
        handles.values(), handles.keys(), loc="lower center", ncol=max(columns, 2), frameon=False,
        fontsize=8,
    )  # fmt: skip
    figure.savefig(file, dpi=130)
    plt.close(figure)


def _styles(keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    from matplotlib import colormaps

    colours, markers = colormaps["tab20"].colors, "osv^D*Phx+<>d"  # type: ignore[attr-defined]  # a list
    styles: dict[tuple[str, str], dict[str, Any]] = {}
    for place, (mechanism, standing) in enumerate(keys):
        nominal = standing == NOMINAL
        styles[mechanism, standing] = {
            "color": colours[(2 * place) % 20 + (place // 10) % 2],
            "marker": markers[place % len(markers)],
            "linestyle": "--" if nominal else "-",
            "linewidth": 1.2 if nominal else 1.6,
            "markersize": 4,
            "label": f"{mechanism} (nominal ε)" if nominal else mechanism,
        }
    return styles


def _draw_line(place: Any, rows: Sequence[SelectionRow], style: dict[str, Any]) -> None:
    if rows:
        ordered = sorted(rows, key=lambda row: row.epsilon)
        place.errorbar(
            [row.epsilon for row in ordered],
            [row.value for row in ordered],
            yerr=[row.standard_error for row in ordered] if rows[0].standard_error else None,
            **style,
        )
