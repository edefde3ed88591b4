"""The figure of answers over time: a shock, each strategy's answers, and its flag."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from geoveil.simulation.epochs.curves import Curves
from geoveil.simulation.figures.style import GREEN, GREY, ROSE, TRUTH, WINE, pyplot, save


def draw_curves(runs: Mapping[str, Curves], file: Path, *, question: str, shock: int) -> None:
    """Write the figure, one panel per run, starting half a year before the shock.

    The shock happens in week 1.
    """
    from matplotlib.ticker import PercentFormatter

    figure, axes = pyplot().subplots(
        1, len(runs), figsize=(5.6 * len(runs), 4.6), sharey=True, squeeze=False
    )
    for place, (title, curves) in zip(axes.flat, runs.items(), strict=True):
        shown = curves.week >= shock - 26
        week = curves.week[shown] - shock + 1
        spread = 1.96 * np.sqrt(curves.variance[shown] / curves.n)
        estimate = curves.extrapolated[shown]
        place.plot(
            week, curves.cohort[shown], ".", color=GREY, ms=4, label="cohort of the week alone"
        )
        place.fill_between(week, estimate - spread, estimate + spread, color=GREEN, alpha=0.2, lw=0)
        place.plot(week, estimate, color=GREEN, lw=1.8, label="extrapolated, 95 % interval")
        place.plot(week, curves.carried[shown], color=ROSE, lw=1.4, ls="--", label="carried")
        place.plot(week, curves.truth[shown], color=TRUTH, lw=1.4, label="truth")
        alarms = curves.week[(curves.week >= shock) & (curves.flags == 1)] - shock + 1
        if len(alarms):
            place.axvline(alarms[0], color=WINE, ls="--", lw=1.2)
            place.text(
                alarms[0] + 0.8,
                0.03,
                f"flagged: week {alarms[0]:.0f}",
                color=WINE,
                transform=place.get_xaxis_transform(),
            )
        place.set_title(title, loc="left", fontsize=10)
        place.set_xlabel("week; in week 1 one in twenty lost half of what they hold")
        place.grid(alpha=0.25)
    axes[0, 0].set_ylabel(question)
    axes[0, 0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=4, frameon=False)
    save(figure, file)
