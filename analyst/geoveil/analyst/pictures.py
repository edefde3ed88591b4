"""Pictures of results: dots with their intervals, curves with their bands, histograms.

Each function draws into axes and returns them; it draws exactly the numbers in `rows`.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from geoveil.gp import Array, needed_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.axis import Axis
else:  # loaded by the first picture
    Axes = Any


COLOR = "#0b6e4f"
_LINE_CM = 0.6
_LETTERS = 40
"""The number of letters of labels that fit side by side."""


def new_axes(width_in: float = 7.0, height_in: float = 6.0) -> Axes:
    """Return axes that fill a figure of a size in inches, by default that of a map."""
    with needed_for("a picture"):
        from matplotlib import pyplot
    return pyplot.figure(figsize=(width_in, height_in), layout="constrained").add_subplot()


def finish_map(ax: "Axes", title: str) -> None:
    """Scale degrees north and east to equal metres, and write the title."""
    south, north = ax.get_ylim()
    ax.set_aspect(1 / math.cos(math.radians((south + north) / 2)))
    ax.locator_params(axis="x", nbins=5)  # more numbers would run into each other
    ax.set_title(title, fontsize=10)


def axes_of(ax: Axes | None, title: str, height_cm: float = 11.0) -> Axes:
    """Return the axes that are given, or new ones, with a title."""
    if ax is None:
        ax = new_axes(16 / 2.54, height_cm / 2.54)
    ax.set_title(title, loc="left", fontsize=10, wrap=True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def draw_intervals(
    ax: Axes | None, title: str, rows: Sequence[Mapping[str, Any]], drawn: str
) -> Axes:
    """Draw one line per row: a dot at its estimate, and its interval.

    Args:
        rows: with "estimate", "ci_low" and "ci_high"; the columns before the estimate are its
            label. A row without a finite interval is a dot with a note that says so.
        drawn: an explanation of dots and lines, below the axis.
    """
    ax = axes_of(ax, title, 3 + _LINE_CM * len(rows))
    for place, row in enumerate(rows):
        value, low, high = (row[key] for key in ("estimate", "ci_low", "ci_high"))
        if value is None or not math.isfinite(value):
            ax.text(0.5, place, "no estimate", va="center", transform=ax.get_yaxis_transform())
            continue
        ax.plot(value, place, "o", color=COLOR, ms=5)
        if None not in (low, high) and math.isfinite(high - low):
            ax.plot([low, high], [place, place], color=COLOR, lw=2, solid_capstyle="butt")
        else:
            ax.annotate("  no interval", (value, place), va="center")
    labels = [
        ", ".join(
            f"{cell:g}" if isinstance(cell, float) else str(cell)
            for _, cell in takewhile(lambda of: of[0] != "estimate", row.items())
        )
        for row in rows
    ]
    ax.set_yticks(range(len(rows)), labels)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlabel(drawn)
    _plain_numbers(ax.xaxis)
    return ax


def _plain_numbers(axis: "Axis") -> None:
    """Write out large numbers on an axis, with commas."""
    from matplotlib.ticker import FuncFormatter

    low, high = axis.get_view_interval()
    if max(abs(low), abs(high)) >= 1_000:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))


def draw_curve(
    ax: Axes | None,
    title: str,
    names: tuple[str, str],
    at: Array,
    values: Array,
    band: tuple[Array, Array],
    *,
    color: str = COLOR,
    label: str = "",
) -> Axes:
    """Draw a curve with its simultaneous band.

    Args:
        names: of the two axes.
        label: a label of the curve, if there are several; otherwise, the band is labelled.
    """
    ax = axes_of(ax, title)
    held = None if label else "band of the whole curve"
    if len(at) > 1:
        ax.fill_between(at, *band, color=color, alpha=0.25, lw=0, label=held)
    else:  # a band without width is a line
        ax.vlines(at, *band, color=color, alpha=0.5, lw=3, label=held or "_")
    ax.plot(
        at,
        values,
        color=color,
        lw=1.5,
        marker="o" if len(at) == 1 else "",
        label=label or "estimate",
    )
    ax.set_xlabel(names[0])
    ax.set_ylabel(names[1])
    ax.legend(frameon=False)
    _plain_numbers(ax.xaxis)
    return ax


def draw_bars(
    ax: Axes | None,
    title: str,
    labels: Sequence[str],
    values: Array,
    intervals: tuple[Array, Array],
) -> Axes:
    """Draw the shares of a partition as bars, each with its interval."""
    ax = axes_of(ax, title)
    places = range(len(labels))
    ax.bar(places, values, color=COLOR, alpha=0.45, width=0.9)
    ax.vlines(places, *intervals, color=COLOR, lw=2)
    turned = sum(map(len, labels)) > _LETTERS
    ax.set_xticks(places, labels, rotation=30 if turned else 0, ha="right" if turned else "center")
    ax.set_ylabel("share of people")
    return ax
