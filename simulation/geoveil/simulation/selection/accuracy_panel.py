"""A panel of accuracy against ε, which the figures of trees and forests share."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from geoveil.simulation.selection.rows import NOMINAL, Row, mechanisms

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = ("#0b6e4f", "#2bb07f", "#7570b3", "#d95f02", "#66a61e", "#e6ab02", "#a6761d", "#1f78b4")
_PUBLISHED = ("#8c8c8c", "#4d4d4d", "#c0392b")
_MARKERS = "osDv^P*X"


def draw_accuracy(axes: "Axes", rows: Sequence[Row], notes: Mapping[str, str]) -> None:
    """Draw a line per mechanism: the papers' dashed, and without privacy a level in black.

    Args:
        axes: where to.
        rows: of one panel.
        notes: by mechanism, what its label adds.
    """
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
