"""The figure of the tree experiment: accuracy against ε, a panel per depth."""

from collections.abc import Sequence
from pathlib import Path

from geoveil.simulation.selection.accuracy_panel import draw_accuracy
from geoveil.simulation.selection.rows import Row, panels

_NOTES = {
    "exponential, information gain": ":\na choice costs half of what it is given",
    "smooth noisy max, t3": ":\na choice costs over 3 times what it is given",
}


def draw_tree(rows: Sequence[Row], file: Path) -> None:
    """Write the figure as a PNG.

    Args:
        rows: of the experiment.
        file: where to.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    places = panels(rows)
    figure, axes = pyplot.subplots(
        1, len(places), figsize=(5.6 * len(places) + 3.4, 5.2), squeeze=False, layout="constrained"
    )
    for panel, place in zip(axes[0], places, strict=True):
        draw_accuracy(panel, [r for r in rows if (r.dataset, r.setting) == place], _NOTES)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=9)
    figure.suptitle("Private ID3: which attribute to split by", fontsize=13)
    figure.savefig(file, dpi=130)
    pyplot.close(figure)
