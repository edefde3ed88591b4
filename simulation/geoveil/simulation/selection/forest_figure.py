"""The figure of the forest experiment: accuracy against ε, a panel per table."""

from collections.abc import Sequence
from pathlib import Path

from geoveil.simulation.selection.accuracy_panel import draw_accuracy
from geoveil.simulation.selection.rows import Row, panels

_NOTES = {
    "exponential, 0/1": ":\ncosts half of its ε",
    "smooth noisy max, t3": ":\ncosts over 3 times its ε",
}


def draw_forest(rows: Sequence[Row], file: Path) -> None:
    """Write the figure as a PNG.

    Args:
        rows: of the experiment.
        file: where to.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    places = panels(rows)
    columns = min(3, len(places) + 1)
    lines = -(-(len(places) + 1) // columns)
    figure, axes = pyplot.subplots(
        lines, columns, figsize=(5 * columns, 4.1 * lines), squeeze=False, layout="constrained"
    )
    every = list(axes.ravel())
    for panel, place in zip(every, places, strict=False):
        draw_accuracy(panel, [r for r in rows if (r.dataset, r.setting) == place], _NOTES)
    for panel in every[len(places) :]:
        panel.axis("off")
    handles, labels = every[0].get_legend_handles_labels()
    every[-1].legend(handles, labels, loc="center", frameon=False, fontsize=9)
    figure.suptitle("Private random forests: which label a leaf has", fontsize=13)
    figure.savefig(file, dpi=130)
    pyplot.close(figure)
