"""The style of all figures: one colour for each mechanism, named lines, rows of dots.

Colours are Paul Tol's nine "muted" ones, safe for the colour-blind: warm and dashed for the papers'
mechanisms, cold for geoveil's. Markers and names distinguish lines even in grey.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INDIGO, CYAN, TEAL, GREEN, OLIVE = "#332288", "#88ccee", "#44aa99", "#117733", "#999933"
SAND, ROSE, WINE, PURPLE = "#ddcc77", "#cc6677", "#882255", "#aa4499"
OURS, TRUTH, OTHERS = GREEN, "#222222", "#b0b7bd"
GREY = "#777777"
ORANGE = "#ee7733"
SERIES = OURS, INDIGO, ROSE, TEAL, WINE, OLIVE
"""Colours of a plan's choice and its alternatives; further ones get `OTHERS`."""
_COLOURS: Mapping[str, str] = MappingProxyType(
    {
        "GP_loc": OLIVE,
        "GP_rad": SAND,
        "GP_Lip": ROSE,
        "Student-t": WINE,
        "generalized Cauchy": PURPLE,
        "ε-LDP": GREY,
        "LaplacePareto": CYAN,
        "PowerLaw": TEAL,
        "DebiasedLaplace": GREEN,
        "deconvolved": INDIGO,
        "aimed Student-t": WINE,
        "aimed": GREEN,
        "permute-and-flip": GREEN,
        "exponential": OLIVE,
        "degree": CYAN,
        "stability": TEAL,
        "smooth noisy max": INDIGO,
        "local dampening": PURPLE,
        "shifted": SAND,
        "smooth private": ROSE,
        "two-sided": ROSE,
        "one-sided": CYAN,
        "SNM": WINE,
        "SPS": WINE,
        "LD": PURPLE,
        "no privacy": TRUTH,
        "values in the clear": TRUTH,
        "Laplace, debiased": GREEN,
        "Laplace, EMS": INDIGO,
        "square wave": ROSE,
        "hierarchy, OUE": PURPLE,
        "hierarchy, OLH": OLIVE,
        "": ORANGE,
    }
)
"""Beginning of a mechanism's name → its colour, in the order of legends; other names come last."""
_PAPERS = (
    *("GP_", "Student-t", "generalized Cauchy", "aimed Student-t", "SNM", "SPS", "LD"),
    *("square wave", "hierarchy"),
)
_MARKERS = "osvD^P*X<>dh"
_WIDEST = 3
"""The most panels in a row."""
_FONT = 7.5
"""Font size of the lines' names, in points."""


def colour_of(mechanism: str) -> str:
    """Return a mechanism's colour."""
    return next(c for name, c in _COLOURS.items() if mechanism.startswith(name))


def ordered(mechanisms: Iterable[str]) -> list[str]:
    """Return distinct names in the order of the colours."""
    place = {
        name: [name.startswith(prefix) for prefix in _COLOURS].index(True) for name in mechanisms
    }
    return sorted(place, key=lambda name: place[name])


def count(n: int) -> str:
    """Return a number of people for figures and tables: "1.6M", "200k"."""
    return f"{n / 1e6:g}M" if n >= 1_000_000 else f"{n / 1e3:g}k"


def _columns(panels: int) -> int:
    """Return the least number of panels per row that gives the fewest rows."""
    return math.ceil(panels / math.ceil(panels / _WIDEST))


def pyplot() -> Any:
    """Return `matplotlib.pyplot`, set up to draw into files."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    return plt


def save(figure: Any, file: Path) -> None:
    """Write a Matplotlib figure to a file and close it."""
    plt = pyplot()
    # Text stays text, so that readers can search and copy it.
    with plt.rc_context({"svg.fonttype": "none", "pdf.fonttype": 42}):
        figure.savefig(file, dpi=130)
    plt.close(figure)


@dataclass(frozen=True)
class Line:
    """One mechanism in one panel, with standard errors of y.

    A `printed` line shows a mechanism as a paper prints it; a `level` uses only its first y.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    error: Sequence[float] | None = None
    printed: bool = False
    level: bool = False


def _multiples(
    panels: Collection[str],
    panel: tuple[float, float],
    beside: tuple[float, float],
    least: float,
    shared: bool = False,
) -> tuple[Any, list["Axes"]]:
    """Return a figure and its panels by title, at most three in a row.

    Sizes are (width, height) in inches: a panel's and the margins'; `least` is the least width.
    """
    columns = _columns(len(panels))
    rows = math.ceil(len(panels) / columns)
    size = max(panel[0] * columns + beside[0], least), panel[1] * rows + beside[1]
    figure = pyplot().figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=shared, sharey=shared).ravel()
    for place, title in zip(axes, panels, strict=False):
        place.set_title(title, loc="left", fontsize=10, parse_math=False)  # no TeX
        place.grid(alpha=0.25)
        place.spines[["top", "right"]].set_visible(False)
    for place in axes[len(panels) :]:
        place.set_visible(False)
    return figure, list(axes[: len(panels)])


def draw_lines(
    panels: Mapping[str, Sequence[Line]],
    file: Path,
    *,
    x_label: str,
    y_label: str,
    title: str,
    note: str = "",
    people: bool = False,
    linear_below: float | None = None,
) -> None:
    """Draw small multiples of lines, each with its name at its end.

    With `people` both axes are logarithmic; otherwise y is linear, or only below `linear_below`.
    """
    most = max(len({line.name for line in own}) for own in panels.values())
    height = max(2.6, 0.17 * most + 0.5)
    figure, places = _multiples(panels, (5.4, height), (0.0, 0.8 + 0.2 * note.count("\n")), 8.0)
    names = ordered([line.name for own in panels.values() for line in own])
    for own, place in zip(panels.values(), places, strict=True):
        for line in own:
            _draw(place, line, names.index(line.name))
        x = sorted({value for line in own for value in line.x})
        if people or x[-1] >= 10 * x[0]:
            place.set_xscale("log")
        if people:
            place.set_xticks(x, [count(int(n)) for n in x])
            place.minorticks_off()
            place.set_yscale("log")
        if linear_below is not None:
            place.set_yscale("symlog", linthresh=linear_below)
            place.set_ylim(bottom=0, top=2.5 * max(max(line.y) for line in own))
        _name_lines(place, own, height)
    for place in places[:: _columns(len(places))]:
        place.set_ylabel(y_label)
    figure.supxlabel(x_label + (f"\n{note}" if note else ""), fontsize=9)
    figure.suptitle(title, fontsize=12)
    save(figure, file)


def _draw(axes: "Axes", line: Line, place: int) -> None:
    colour = colour_of(line.name)
    if line.level:
        axes.axhline(line.y[0], color=colour, lw=1, ls=":")
        return
    paper = line.printed or line.name.startswith(_PAPERS)
    axes.errorbar(
        line.x,
        line.y,
        yerr=line.error,
        color=colour,
        linestyle=":" if line.name == "ε-LDP" else "--" if paper else "-",
        linewidth=1.2 if paper else 1.8,
        marker="x" if line.printed else _MARKERS[place % len(_MARKERS)],
        markersize=4.5,
        capsize=2,
    )


def _name_lines(axes: "Axes", lines: Sequence[Line], height: float) -> None:
    """Write each line's name beside its end, in its colour, without overlaps."""
    # The ends' positions in the panel, from 0 to 1, which do not depend on its final size.
    right = axes.get_xlim()[1]
    inside = axes.transData - axes.transAxes
    ends = []
    for line in lines:
        if np.isfinite(line.y[-1]):
            end = inside.transform((right if line.level else line.x[-1], line.y[-1]))
            ends.append((end.tolist(), line.name))
    ends.sort(key=lambda named: named[0][1])
    heights = spread([end[1] for end, _ in ends], 1.25 * _FONT / (72 * (height - 0.7)))
    for (end, name), y in zip(ends, heights, strict=True):
        # Sand and cyan are too pale for text on white.
        colour = {SAND: "#8a7a1f", CYAN: "#2b7fa8"}.get(colour_of(name), colour_of(name))
        axes.annotate(
            name,
            xy=end,
            xytext=(1.08, y),
            xycoords="axes fraction",
            textcoords="axes fraction",
            fontsize=_FONT,
            color=colour,
            va="center",
            arrowprops={
                "arrowstyle": "-", "color": colour, "lw": 0.5, "alpha": 0.6, "relpos": (0, 0.5),
                "shrinkA": 1, "shrinkB": 3,
            },
        )  # fmt: skip


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Return increasing places moved within 0 to 1 to be at least `gap` > 0 apart, if possible.

    Example:
        >>> [round(place, 2) for place in spread([0.5, 0.5, 0.9], 0.1)]
        [0.45, 0.55, 0.9]
    """
    from scipy.optimize import isotonic_regression

    steps = min(gap, 1 / max(len(places) - 1, 1)) * np.arange(len(places))
    # Places minus their steps must not fall: least squares, then the panel's ends.
    wanted = np.array(places) - steps
    moved = np.clip(isotonic_regression(wanted).x, 0, 1 - steps[-1]) - wanted
    spaced: list[float] = (places + moved).tolist()
    return spaced


@dataclass(frozen=True)
class Dot:
    """A mechanism's error x > 0 with its standard error; the note explains `hollow` dots."""

    name: str
    x: float
    error: float = 0.0
    hollow: bool = False


def draw_dots(
    panels: Mapping[str, Sequence[Dot]], file: Path, *, x_label: str, title: str, note: str
) -> None:
    """Draw small multiples of dots on a logarithmic axis, one row per mechanism."""
    names = ordered([dot.name for own in panels.values() for dot in own])
    plain = all(1e-3 <= dot.x < 1e5 for own in panels.values() for dot in own)
    panel = 3.9, 0.24 * len(names) + 0.75
    figure, places = _multiples(panels, panel, (1.2, 0.9), 7.5, shared=True)
    for number, (own, place) in enumerate(zip(panels.values(), places, strict=True)):
        for dot in own:
            colour, at = colour_of(dot.name), names.index(dot.name)
            place.errorbar(
                dot.x,
                at,
                xerr=dot.error or None,
                color=colour,
                marker="s" if dot.name.startswith(_PAPERS) else "o",
                markersize=9 if dot.hollow else 6,
                markerfacecolor="white" if dot.hollow else colour,
                zorder=2 if dot.hollow else 3,
                capsize=2,
            )
            if not dot.hollow:
                caption = f"{dot.x:.1e}"
                if plain:  # for all panels: minor ticks with digits too, without an exponent
                    caption = f"{dot.x:,.{max(1 - math.floor(math.log10(dot.x)), 0)}f}"
                place.annotate(
                    caption, (dot.x, at), xytext=(0, 5), textcoords="offset points",
                    ha="center", fontsize=6.5,
                )  # fmt: skip
        place.set_xscale("log")
        place.margins(x=0.08)
        place.tick_params(labelbottom=number + _columns(len(panels)) >= len(panels))
    places[0].set_yticks(range(len(names)), names)
    places[0].set_ylim(len(names) - 0.5, -0.7)
    figure.supxlabel(x_label, fontsize=10)
    figure.suptitle(f"{title}\n{note}" if note else title, fontsize=12)
    save(figure, file)
