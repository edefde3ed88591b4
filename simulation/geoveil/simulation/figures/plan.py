"""Figures of plans: what is asked of whom, and the error against the number of people."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from geoveil.analyst.planner import ALLOCATIONS, Allocated, Comparison, Plan
from geoveil.analyst.planner.prediction import NORMAL_95
from geoveil.gp import Query
from geoveil.simulation.figures.style import (
    INDIGO,
    OLIVE,
    OTHERS,
    OURS,
    PURPLE,
    ROSE,
    TEAL,
    TRUTH,
    WINE,
    pyplot,
    save,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = (INDIGO, ROSE, TEAL, WINE, OLIVE, PURPLE)
_SHOWN = 6
"""Alternatives with a name; those that follow are grey."""
_DECADES = 2
_MOST_QUESTIONS = 1_000
_STEEP = 0.05
"""Where the truth has at least this part of its largest slope, it is shown to vary."""


def draw_plan(found: Plan, file: Path, *, title: str, unit: str) -> None:
    """Draw the band over the prior, and the predicted 95 % error of every alternative against n."""
    figure, (left, right) = pyplot().subplots(1, 2, figsize=(12.5, 5.2), constrained_layout=True)
    if found.question.dimension == 1:
        _draw_values(left, found, unit)
    else:
        _draw_places(left, found)
    left.set_title(f"(a) What is asked: {title}", loc="left")
    _draw_errors(right, found)
    right.set_title("(b) What to expect", loc="left")
    save(figure, file)


def draw_comparison(found: Comparison, file: Path) -> None:
    """Draw the error of every allocation against the number of people, and of questions."""
    figure, (left, right) = pyplot().subplots(1, 2, figsize=(12.5, 5.2), constrained_layout=True)
    people = _around(found.n)
    for index, row in enumerate(found.rows):
        left.plot(
            people,
            [_typical(row, math.ceil(n), found.questions) for n in people],
            color=OURS if index == 0 else _COLOURS[index - 1],
            linestyle="-" if row.in_all == found.choice.in_all else ":",
            linewidth=2.5 if index == 0 else 1.5,
            label=row.allocation
            + ("" if row.in_all == found.choice.in_all else f", ε = {row.in_all.epsilon:.3g}"),
        )
    _finish_errors(left, found.n)
    left.set_title(f"(a) {found.questions} questions", loc="left")
    _draw_crossover(right, found)
    save(figure, file)


def _draw_values(axes: "Axes", found: Plan, unit: str) -> None:
    """Draw how people are spread, the question, and the band that stands in for it."""
    low, high = _window(found)
    edges = np.linspace(low, high, 101)
    points, weights = found.problem.prior.nodes(edges.tolist())
    inside = (points >= low) & (points <= high)
    axes.hist(points[inside], bins=edges.tolist(), weights=100 * weights[inside], color=OTHERS)
    axes.set_ylim(0, 1.35 * axes.get_ylim()[1])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    axes.set(xlabel=unit, ylabel="% of the people, as the prior has it", xlim=(low, high))
    twin = axes.twinx()
    x = np.linspace(low, high, 2_001)
    twin.plot(x, found.question.truth(x), color=TRUTH, lw=1.2, ls="--", label="question")
    query = found.choice.query
    if isinstance(query, Query):
        twin.plot(x, query.value(x), color=OURS, lw=2.5, label="asked softly")
    twin.set(ylim=(0, 1.4), yticks=[0, 0.5, 1], ylabel="how much a value counts")
    scale = 1 / found.privacy.rate
    left = low + 0.04 * (high - low)
    twin.plot([left, left + scale], [1.22, 1.22], color=TRUTH, lw=3, solid_capstyle="butt")
    twin.text(left, 1.26, f"{scale:,.6g} {unit}: ε = 1", fontsize=9)
    twin.legend(loc="upper right", frameon=False, fontsize=9, ncol=2)


def _draw_places(axes: "Axes", found: Plan) -> None:
    """Draw where people are, and where they count for how much."""
    from matplotlib.colors import PowerNorm

    points, weights = found.problem.nodes.points, found.problem.nodes.weights
    query = found.choice.query
    region = query if isinstance(query, Query) else query.region
    value = np.asarray(region.value(points))
    near = points[value > 0.05 * value.max()]
    middle = (near.min(axis=0) + near.max(axis=0)) / 2
    reach = max(float(np.ptp(near, axis=0).max()), 4 / found.privacy.rate)
    (x0, y0), (x1, y1) = middle - reach, middle + reach
    shown = (points >= (x0, y0)).all(axis=1) & (points <= (x1, y1)).all(axis=1)
    axes.hist2d(
        points[shown, 0] / 1000,
        points[shown, 1] / 1000,
        bins=[np.linspace(x0, x1, 121) / 1000, np.linspace(y0, y1, 121) / 1000],
        weights=weights[shown],
        cmap="Greys",
        norm=PowerNorm(0.4),
    )
    grid = np.stack(np.meshgrid(np.linspace(x0, x1, 201), np.linspace(y0, y1, 201)), axis=-1)
    height = np.asarray(region.value(grid.reshape(-1, 2))).reshape(201, 201)
    drawn = axes.contour(
        grid[..., 0] / 1000, grid[..., 1] / 1000, height, levels=[0.1, 0.5, 0.9],
        colors=OURS, linewidths=[1.2, 2.2, 1.2],
    )  # fmt: skip
    axes.clabel(drawn, fmt=lambda v: f"{v:g}", fontsize=8)
    scale = 1 / found.privacy.rate / 1000
    left, bottom = x0 / 1000 + 0.08 * reach / 1000, y0 / 1000 + 0.1 * reach / 1000
    axes.plot([left, left + scale], [bottom] * 2, color=WINE, lw=3, solid_capstyle="butt")
    axes.annotate(
        f"{1000 * scale:,.4g} m: ε = 1",
        (left, bottom),
        xytext=(0, 5),
        textcoords="offset points",
        fontsize=9,
        bbox={"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1.5},
    )
    axes.set(aspect="equal", xlabel="km east; contours: how much a place counts", ylabel="km north")


def _draw_errors(axes: "Axes", found: Plan) -> None:
    people = _around(found.n)
    for index, a in enumerate(found.alternatives):
        named = index < _SHOWN
        axes.plot(
            people,
            [a.prediction.margin(n) for n in people],
            color=OURS if index == 0 else _COLOURS[index - 1] if named else OTHERS,
            linewidth=2.8 if index == 0 else 1.4,
            linestyle="--" if a.answers_all and index else "-",
            label=a.kind if named else "others" if index == _SHOWN else None,
            zorder=3 if index == 0 else 2,
        )
    best = found.choice.prediction
    axes.plot([found.n], [best.margin(found.n)], "o", color=OURS, ms=9, zorder=4)
    axes.annotate(
        f"±{best.margin(found.n):.3g}",
        (found.n, best.margin(found.n)),
        xytext=(-8, -16),
        textcoords="offset points",
        ha="right",
        color=OURS,
        weight="bold",
    )
    _finish_errors(axes, found.n)


def _finish_errors(axes: "Axes", n: int) -> None:
    axes.axvline(n, color=TRUTH, lw=0.8, ls=":")
    axes.set(
        xscale="log", yscale="log", xlabel="participants (log)", ylabel="predicted 95 % error (log)"
    )
    axes.grid(alpha=0.25, which="both")
    axes.legend(loc="upper right", frameon=False, fontsize=9)


def _draw_crossover(axes: "Axes", found: Comparison) -> None:
    """Draw the mean error against how many questions like these are asked."""
    rows = {row.allocation: row for row in found.rows}
    most = min(max(10 * found.questions, 3 * (found.crossover or 1)), _MOST_QUESTIONS)
    counts = np.unique(np.geomspace(1, most, 40).astype(int)).tolist()
    for name, colour in (("partition", _COLOURS[0]), ("points", OURS)):
        if name in rows:
            errors = [_typical(rows[name], found.n, m) for m in counts]
            axes.plot(counts, errors, color=colour, marker=".", lw=2, label=name)
    axes.axvline(found.questions, color=TRUTH, lw=0.8, ls=":")
    if found.crossover is not None:
        axes.axvline(found.crossover, color=ROSE, lw=1.2)
        axes.annotate(
            f"crossover: {found.crossover}",
            (found.crossover, 0.12),
            xycoords=("data", "axes fraction"),
            xytext=(5, 0),
            textcoords="offset points",
            color=ROSE,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5},
        )
    axes.set(xscale="log", yscale="log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set(
        xlabel="questions like these (log)", ylabel=f"predicted 95 % error at n = {found.n:,} (log)"
    )
    axes.set_title("(b) How many questions one perturbed point is worth", loc="left")
    axes.grid(alpha=0.25, which="both")
    axes.legend(loc="upper left", frameon=False, fontsize=9)


def _typical(row: Allocated, n: int, questions: int) -> float:
    error = ALLOCATIONS[row.allocation].error
    total = math.fsum(error(p, n, questions) for p in row.predictions)
    return NORMAL_95 * math.sqrt(total / len(row.predictions))


def _window(found: Plan) -> tuple[float, float]:
    """Return what to show: where the middle 97 % are, and the band."""
    points, weights = found.problem.nodes.points, found.problem.nodes.weights
    order = np.argsort(points)
    below = np.cumsum(weights[order])
    places = np.searchsorted(below, (0.01, 0.98))
    low, high = points[order][np.minimum(places, len(points) - 1)]
    x = points[order]
    with np.errstate(invalid="ignore"):
        slope = np.nan_to_num(np.abs(np.diff(found.question.truth(x))) / np.diff(x))
    moving = np.flatnonzero(slope > _STEEP * slope.max(initial=0.0))
    scale = 4 / found.privacy.rate
    return float(min([low, *(x[moving] - scale)])), float(max([high, *(x[moving + 1] + scale)]))


def _around(n: int) -> list[float]:
    people: list[float] = np.geomspace(max(n / 10**_DECADES, 1), n * 10**_DECADES, 61).tolist()
    return people
