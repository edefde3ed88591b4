"""Figures of plans: the question over the prior, and the error against the number of people."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from geoveil.analyst import ALLOCATIONS, NORMAL_95, Allocated, Comparison, Plan
from geoveil.gp import Query
from geoveil.simulation.figures.style import OTHERS, OURS, ROSE, SERIES, TRUTH, WINE, pyplot, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BOX: Any = MappingProxyType({"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1.5})
"""The background of text."""


def draw_plan(found: Plan, file: Path, *, title: str, unit: str) -> None:
    """Draw the band over the prior, and the predicted 95 % error of every alternative against n."""
    figure, (left, right) = pyplot().subplots(1, 2, figsize=(12.5, 5.2), constrained_layout=True)
    if found.question.dimension == 1:
        _draw_values(left, found, unit)
    else:
        _draw_places(left, found)
    left.set_title(f"(a) What is asked: {title}", loc="left")
    curves = [
        (
            other.kind,
            "--" if other.kind == "PlanarLaplace" and index else "-",
            other.prediction.margin,
        )
        for index, other in enumerate(found.alternatives)
    ]
    _draw_errors(right, found.n, curves)
    margin = found.choice.prediction.margin(found.n)
    right.plot([found.n], [margin], "o", color=OURS, ms=9, zorder=4)
    style = {"ha": "right", "color": OURS, "weight": "bold"}
    _note(right, f"±{margin:.3g}", (found.n, margin), (-8, -16), **style)
    right.set_title("(b) What to expect", loc="left")
    save(figure, file)


def draw_comparison(found: Comparison, file: Path) -> None:
    """Draw the error of every allocation against the numbers of people and of questions."""
    figure, (left, right) = pyplot().subplots(1, 2, figsize=(12.5, 5.2), constrained_layout=True)
    curves = []
    for row in found.rows:
        alike = row.in_all == found.choice.in_all
        name = row.allocation + ("" if alike else f", ε = {row.in_all.epsilon:.3g}")
        curves.append((name, "-" if alike else ":", partial(_typical, row, found.questions)))
    _draw_errors(left, found.n, curves)
    left.set_title(f"(a) {found.questions} questions", loc="left")
    _draw_crossover(right, found)
    save(figure, file)


def _note(axes: "Axes", text: str, at: Any, offset: tuple[float, float], **how: Any) -> None:
    """Write text at `offset`, in points, from a place."""
    axes.annotate(text, at, xytext=offset, textcoords="offset points", **how)


def _draw_values(axes: "Axes", found: Plan, unit: str) -> None:
    low, high = _window(found)
    edges = np.linspace(low, high, 101)
    points, weights = found.problem.prior.nodes(edges.tolist())
    inside = (points >= low) & (points <= high)
    axes.hist(points[inside], bins=edges.tolist(), weights=100 * weights[inside], color=OTHERS)
    axes.set_ylim(0, 1.35 * axes.get_ylim()[1])
    times = found.privacy.value_unit is not None  # the axis shows logarithms

    def held(x: float, _: object = None) -> str:
        return f"{math.exp(x) if times else x:,.6g}"

    axes.xaxis.set_major_formatter(held)
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
    apart = f"factor {math.exp(scale):.4g}" if times else f"{scale:,.6g} {unit}"
    twin.text(left, 1.26, f"{apart}: ε = 1", fontsize=9)
    twin.legend(loc="upper right", frameon=False, fontsize=9, ncol=2)


def _draw_places(axes: "Axes", found: Plan) -> None:
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
    _note(axes, f"{1000 * scale:,.4g} m: ε = 1", (left, bottom), (0, 5), fontsize=9, bbox=_BOX)
    axes.set(aspect="equal", xlabel="km east; contours: how much a place counts", ylabel="km north")


def _draw_errors(
    axes: "Axes", n: int, curves: Sequence[tuple[str, str, Callable[[float], float]]]
) -> None:
    people = np.geomspace(max(n / 100, 1), n * 100, 61).tolist()
    for index, (name, line, error) in enumerate(curves):
        named = index < len(SERIES)
        axes.plot(
            people,
            [error(n) for n in people],
            color=SERIES[index] if named else OTHERS,
            linewidth=2.8 if index == 0 else 1.4,
            linestyle=line,
            label=name if named else "others" if index == len(SERIES) else None,
            zorder=4
            if line == ":"
            else 3
            if index == 0
            else 2,  # a dotted line stays visible above others
        )
    _finish(axes, n, "participants (log)", "predicted 95 % error (log)", "upper right")


def _finish(axes: "Axes", mark: int, x_label: str, y_label: str, legend: Any) -> None:
    """Mark the requested number of people on a log-log panel of errors."""
    axes.axvline(mark, color=TRUTH, lw=0.8, ls=":")
    axes.set(xscale="log", yscale="log", xlabel=x_label, ylabel=y_label)
    axes.grid(alpha=0.25, which="both")
    axes.legend(loc=legend, frameon=False, fontsize=9)


def _draw_crossover(axes: "Axes", found: Comparison) -> None:
    """Draw the mean error against the number of questions like these."""
    rows = {row.allocation: row for row in found.rows}
    most = min(max(10 * found.questions, 3 * (found.crossover or 1)), 1_000)
    counts = np.unique(np.geomspace(1, most, 40).astype(int)).tolist()
    for name, colour in (("partition", SERIES[1]), ("points", OURS)):
        if name in rows:
            errors = [_typical(rows[name], m, found.n) for m in counts]
            axes.plot(counts, errors, color=colour, marker=".", lw=2, label=name)
    error = f"predicted 95 % error at n = {found.n:,} (log)"
    _finish(axes, found.questions, "questions like these (log)", error, "upper left")
    if found.crossover is not None:
        axes.axvline(found.crossover, color=ROSE, lw=1.2)
        where = {"xycoords": ("data", "axes fraction"), "color": ROSE, "bbox": _BOX}
        _note(axes, f"crossover: {found.crossover}", (found.crossover, 0.12), (5, 0), **where)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_title("(b) How many questions one perturbed point is worth", loc="left")


def _typical(row: Allocated, questions: int, n: float) -> float:
    error = ALLOCATIONS[row.allocation].error
    total = math.fsum(error(p, math.ceil(n), questions) for p in row.predictions)
    return NORMAL_95 * math.sqrt(total / len(row.predictions))


def _window(found: Plan) -> tuple[float, float]:
    """Return the range to show: the middle 97 %, the band, and the steep part of the truth."""
    order = np.argsort(found.problem.nodes.points)
    x, below = found.problem.nodes.points[order], np.cumsum(found.problem.nodes.weights[order])
    low, high = x[np.minimum(np.searchsorted(below, (0.01, 0.98)), len(x) - 1)]
    with np.errstate(invalid="ignore"):
        slope = np.nan_to_num(np.abs(np.diff(found.question.truth(x))) / np.diff(x))
    moving = np.flatnonzero(slope > 0.05 * slope.max(initial=0.0))
    scale = 4 / found.privacy.rate
    return float(min([low, *(x[moving] - scale)])), float(max([high, *(x[moving + 1] + scale)]))
