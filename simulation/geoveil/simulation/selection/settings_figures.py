"""Curves over ε, one panel for each dataset and setting."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from geoveil.simulation.selection.rows import NOMINAL, Row, mechanisms, panels

_WIDE = 20
"""Ratio of the largest ε to the least from which their axis is logarithmic."""


def draw_curves(
    rows: Sequence[Row],
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
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    places = panels(rows)
    columns = min(columns, len(places))
    lines = math.ceil(len(places) / columns)
    figure, axes = pyplot.subplots(
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
    pyplot.close(figure)


def _styles(keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    from matplotlib import colormaps

    colours, markers = colormaps["tab20"].colors, "osv^D*Phx+<>d"  # type: ignore[attr-defined]
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


def _draw_line(place: Any, rows: Sequence[Row], style: dict[str, Any]) -> None:
    if rows:
        ordered = sorted(rows, key=lambda row: row.epsilon)
        place.errorbar(
            [row.epsilon for row in ordered],
            [row.value for row in ordered],
            yerr=[row.standard_error for row in ordered] if rows[0].standard_error else None,
            **style,
        )
