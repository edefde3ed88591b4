"""The figure of the demonstration: questions, results, and errors of other mechanisms."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geoveil.simulation.demo import BANDWIDTH_M, CITY, FOOTINGS, PLACES, DemoCampaign, DemoRow
from geoveil.simulation.figures.style import GREY, OTHERS, OURS, ROSE, TRUTH, WINE, pyplot, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_INCOME = 300
"""Incomes from this many thousand dollars on are counted beside the histogram, not drawn."""
_LOCAL_DRAWN = 2
"""The number of ε-LDP footings drawn, nearest first."""


def draw_demo(
    incomes: DemoCampaign, places: DemoCampaign, rows: Sequence[DemoRow], file: Path
) -> None:
    """Write the figure to a file: the row of the incomes, then one per place."""
    figure, axes = pyplot().subplots(2, 2, figsize=(12.5, 9.5), constrained_layout=True)
    _draw_incomes(axes[0, 0], incomes)
    _draw_map(axes[0, 1], places)
    _draw_estimates(axes[1, 0], rows)
    _draw_competitors(axes[1, 1], rows)
    figure.suptitle(
        "Statistics from values that never left the device in the clear", fontsize=14, weight="bold"
    )
    save(figure, file)


def _draw_incomes(axes: "Axes", experiment: DemoCampaign) -> None:
    incomes, millions = experiment.population.values / 1000, experiment.population.weights / 1e6
    drawn = incomes < _MOST_INCOME
    bins = np.arange(-10, _MOST_INCOME + 1, 5).tolist()
    axes.hist(incomes[drawn], bins=bins, weights=millions[drawn], color=OTHERS)
    beyond = millions[~drawn].sum()
    caption = f"{beyond:.2f} million from\n${_MOST_INCOME},000 on →"
    axes.text(0.98, 0.29, caption, transform=axes.transAxes, ha="right")
    axes.set(xlabel="household income, thousand dollars", ylabel="million households")
    axes.set_title("(a) What is asked: the (softened) share above $100,000", loc="left")
    twin = axes.twinx()
    x = np.linspace(-10_000, 1000 * _MOST_INCOME, 1500)
    query = experiment.campaign.questions[0].query
    twin.plot(x / 1000, query.value(x), color=OURS, lw=2)
    twin.set_ylabel("how much an income counts", color=OURS)
    twin.set_ylim(0, 1.08)
    scale = experiment.campaign.privacy.per / 1000
    twin.annotate(
        "", (160, 0.55), (160 + scale, 0.55), arrowprops={"arrowstyle": "|-|", "mutation_scale": 4}
    )
    twin.text(162 + scale, 0.55, f"${scale:.0f},000: such incomes\nlook alike (ε = 1)", va="center")


def _draw_map(axes: "Axes", experiment: DemoCampaign) -> None:
    sample = experiment.points[:20_000] / 1000
    axes.plot(sample[:, 0], sample[:, 1], ",", color="#7d8790", alpha=0.6, rasterized=True)
    for label, place in PLACES.items():
        east, north = CITY.project(place) / 1000
        axes.add_patch(_circle(east, north, BANDWIDTH_M / 1000, OURS))
        left = east < 0  # names fit on the river's side
        axes.annotate(
            label,
            (east, north),
            xytext=(-14 if left else 14, 0),
            ha="right" if left else "left",
            va="center",
            textcoords="offset points",
            fontsize=9,
            weight="bold",
            bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 1.5},
        )
    east, north = 8.0, -20.0
    scale = experiment.campaign.privacy.per / 1000
    axes.add_patch(_circle(east, north, scale, TRUTH))
    axes.text(east + 1.2, north, "500 m: such places\nlook alike (ε = 1)", va="center", fontsize=9)
    axes.set(aspect="equal", xlim=(-28, 34))
    axes.set(xlabel="km east of the centre", ylabel="km north of the centre")
    axes.set_title("(b) What is asked: collisions within about 2 km", loc="left")


def _circle(x: float, y: float, radius: float, colour: str) -> Any:
    from matplotlib.patches import Circle

    return Circle((x, y), radius, facecolor=colour, edgecolor=colour, alpha=0.55)


def _draw_estimates(axes: "Axes", rows: Sequence[DemoRow]) -> None:
    labels = []
    for position, row in enumerate(rows):
        estimate = row.estimate
        value, low, high = (
            (end or 0.0) / row.truth for end in (estimate.value, estimate.ci_low, estimate.ci_high)
        )
        axes.errorbar(
            value,
            position,
            # Impossible means are cut off, although an estimate may lie there.
            xerr=[[max(value - low, 0.0)], [max(high - value, 0.0)]],
            fmt="o",
            color=OURS,
            capsize=4,
            lw=2,
            label="estimate, 95 % interval" if position == 0 else None,
        )
        labels.append(f"{estimate.label}\n{row.truth:.4f}, n = {estimate.n:,}")
    axes.axvline(1.0, color=TRUTH, lw=1.2, label="soft truth")
    hard = [row.hard_truth / row.truth for row in rows[:1] if row.hard_truth is not None]
    axes.plot(hard, [0.0] * len(hard), "D", color=TRUTH, label="hard truth")
    axes.set_yticks(range(len(rows)), labels)
    axes.invert_yaxis()
    axes.margins(y=0.15)
    axes.set_xlabel("estimate ÷ soft truth")
    axes.set_title("(c) What came out", loc="left")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncol=3, frameon=False)


def _draw_competitors(axes: "Axes", rows: Sequence[DemoRow]) -> None:
    privacies = [rows[0].estimate.privacy, rows[1].estimate.privacy]
    names = [*rows[0].predictions] + [
        "ε-LDP, equal at\n" + " or ".join(f"{scales * p.per:,g} {p.unit}" for p in privacies)
        for scales in FOOTINGS[:_LOCAL_DRAWN]
    ]
    colours = [OURS, WINE, ROSE, GREY, OTHERS]
    height = 0.8 / len(names)
    drawn = [[*row.predictions.values(), *row.local[:_LOCAL_DRAWN]] for row in rows]
    noise = np.array([[error.noise for error in own] for own in drawn])
    ratios = noise / noise[:, :1]
    for i, (name, colour) in enumerate(zip(names, colours, strict=True)):
        ratio = ratios[:, i]
        where = np.arange(len(rows)) + (i - (len(names) - 1) / 2) * height
        # From 1, which means equal noise, since a logarithmic axis has no zero.
        bars = axes.barh(where, ratio - 1, height * 0.92, left=1.0, color=colour, label=name)
        axes.bar_label(bars, [f"{r:.3g}×" for r in ratio], padding=3, fontsize=8)
    axes.set_xscale("log")
    axes.axvline(1.0, color=TRUTH, lw=0.8)
    axes.set_xlim(0.3 * ratios.min(), 2.5 * ratios.max())
    axes.set_yticks(range(len(rows)), [row.estimate.label for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("variance of the noise ÷ that of DebiasedLaplace (log)")
    axes.set_title("(d) What other mechanisms would add", loc="left")
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.12), ncol=3, frameon=False, fontsize=8)
