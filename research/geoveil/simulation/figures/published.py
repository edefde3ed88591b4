"""The figures of the paper's experiments: errors, their ratios, and maps."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from geoveil.simulation.experiment import grouped
from geoveil.simulation.experiments.rows import OURS, ErrorComparison, ErrorRow
from geoveil.simulation.figures.style import (
    GREEN,
    INDIGO,
    WINE,
    Dot,
    Line,
    count,
    draw_dots,
    draw_lines,
    pyplot,
    save,
)
from geoveil.simulation.populations import Array

_LEVELS = 12
_NUMBER = re.compile(r"-?[0-9.]+(?:e[+-][0-9]+)?")


def titled(panel: str, unit: str) -> str:
    """Return a panel's title in figures, with amounts in a unit ("" if unknown).

    Example:
        >>> titled("T=10000, 1/ε=800", "dollar")
        'T = $10,000, 1/ε = $800'
        >>> titled("1/ε=500, h=1 cell diagonals", "metre")
        '1/ε = 500 m, h = 1 cell diagonals'
    """
    before, after = {"dollar": ("$", ""), "metre": ("", " m")}.get(unit, ("", ""))

    def amount(number: re.Match[str]) -> str:
        return f"{before}{float(number[0]):,.15g}{after}"

    def setting(found: re.Match[str]) -> str:
        return f"{found[1]}={_NUMBER.sub(amount, found[2])}"

    return re.sub(r"(T|1/ε)=(\(.*?\)|[^,]+)", setting, panel).replace("=", " = ")


def draw_errors(rows: Sequence[ErrorRow], file: Path) -> None:
    """Draw the error against n, one panel per setting; with a single n, as dots."""
    measure = rows[0].measure
    title = f"{measure} against the hard threshold"
    if len({row.n for row in rows}) == 1:
        draw_settings(rows, file, title=title)
        return
    panels = grouped(sorted(rows, key=lambda row: row.n), "panel", "mechanism")
    lines = defaultdict[str, list[Line]](list)
    for (panel, name), own in panels.items():
        errors = [row.error for row in own], [row.standard_error for row in own]
        lines[panel].append(Line(name, [float(row.n) for row in own], *errors))
    draw_lines(lines, file, x_label="people", y_label=f"{measure} (log)", title=title, people=True)


def draw_settings(
    rows: Sequence[ErrorRow],
    file: Path,
    *,
    title: str = "",
    note: str = "",
    hollow: str | None = None,
) -> None:
    """Draw errors as dots, one panel for each setting that varies one part of the middle one.

    A row whose panel ends with `hollow` becomes a hollow dot in the panel without this ending.
    """
    end = f", {hollow}"
    plain = list(dict.fromkeys(row.panel.removesuffix(end) for row in rows))
    people = sorted({row.n for row in rows})
    settings = dict.fromkeys((row.panel.removesuffix(end), row.n) for row in rows)
    middle_n = people[len(people) // 2]
    # The panel with the most values of n; among several, the middle one.
    often = Counter(panel for panel, _ in settings)
    middle_panel = max(plain, key=lambda panel: (often[panel], panel == plain[len(plain) // 2]))
    panels = {
        f"{panel}, n = {count(n)}": [
            Dot(row.mechanism, row.error, row.standard_error, hollow=row.panel != panel)
            for row in rows
            if (row.panel.removesuffix(end), row.n) == (panel, n)
        ]
        for panel, n in settings
        if n == middle_n or panel == middle_panel
    }
    measure = rows[0].measure
    title = title or f"{measure} over the grid, against the hard threshold"
    draw_dots(panels, file, x_label=f"{measure} (log)", title=title, note=note)


def draw_distributions(
    rows: Sequence[ErrorRow], file: Path, *, units: Mapping[str, str]
) -> list[Path]:
    """Draw the errors of distributions, one figure per attribute, in its unit."""
    by_attribute = defaultdict[str, list[ErrorRow]](list)
    for row in rows:
        if row.measure == "area":
            drawn = replace(
                row,
                mechanism=row.mechanism + ("" if row.footing is None else f", at {row.footing:,g}"),
                error=math.sqrt(row.error),
                standard_error=row.standard_error / (2 * math.sqrt(row.error)),
                measure="root mean square",
            )
            by_attribute[row.panel.rsplit(", ε = ", 1)[0]].append(drawn)
    files = []
    for attribute, own in by_attribute.items():
        files.append(file.with_stem(f"{file.stem}-{attribute}"))
        title = f"Distribution of {attribute}: area between it and the truth, in {units[attribute]}"
        note = "at …: ε-LDP that hides two values so far apart as well as the others do"
        draw_settings(own, files[-1], title=title, note=note)
    return files


def draw_ratios(
    rows: Sequence[ErrorRow], comparisons: Sequence[ErrorComparison], file: Path
) -> None:
    """Draw the ratio of the paper's best error to geoveil's for each setting."""
    from matplotlib.ticker import LogLocator, NullFormatter

    panels = grouped(comparisons, "panel")
    figure, axes = pyplot().subplots(figsize=(9.5, 0.42 * len(panels) + 2.0), layout="constrained")
    noises = "noise alone: Student-t ÷ geoveil's least"
    for at, (panel, own) in enumerate(panels.items()):
        aided = [c.ratio_with_prior for c in own if c.aided is not None]
        noise = _noise_ratio(grouped(rows, "panel")[panel])
        for values, colour, marker, label, shift in (
            ([c.ratio for c in own], GREEN, "o", "error", -0.2),
            (aided, WINE, "D", "error, both with a public prior", 0.0),
            (noise, INDIGO, "x", noises, 0.2),
        ):
            if values:
                height = at + shift
                axes.plot([min(values), max(values)], [height] * 2, color=colour, lw=4, alpha=0.35)
                axes.plot(
                    values, [height] * len(values), marker, color=colour, ms=7, mew=1.5,
                    label=label if at == 0 else None,
                )  # fmt: skip
    axes.axvline(1.0, color="#222222", lw=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(panels)), [*panels], parse_math=False)
    axes.grid(axis="x", alpha=0.25)
    low, high = axes.get_xlim()
    # An axis of one or two decades needs more ticks than powers of ten.
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if high > 300 * low else (1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set(
        ylim=(len(panels) - 0.4, -0.6),
        xlabel=f"{rows[0].measure} of the paper's best ÷ geoveil's (log); one dot for each n",
    )
    figure.legend(loc="outside lower center", ncol=3, frameon=False, fontsize=9)
    axes.set_title(f"The paper's {rows[0].measure} in multiples of geoveil's", loc="left")
    save(figure, file)


def _noise_ratio(rows: Sequence[ErrorRow]) -> list[float]:
    """Return Student-t's noise over geoveil's least, where both have noise; n cancels."""
    n = min(row.n for row in rows)
    measured = [(row, row.noise) for row in rows if row.n == n and row.noise is not None]
    seed = [noise for row, noise in measured if row.mechanism == "Student-t"]
    ours = [noise for row, noise in measured if row.origin == OURS]
    return [seed[0] / min(ours)] if seed and ours and min(ours) > 0 else []


def draw_density_maps(
    maps: Mapping[str, tuple[Array, Array]], file: Path, title: str, outlines: Sequence[Array] = ()
) -> None:
    """Draw contour maps, all with the levels of the first, the density without noise.

    Each map has the centres of a square lattice, (k², 2) in metres, row by row, and heights (k²,).
    Outlines are lines (k, 2).
    """
    columns = (len(maps) + 1) // 2
    figure, axes = pyplot().subplots(
        2, columns, figsize=(3.7 * columns, 7.6), squeeze=False, constrained_layout=True
    )
    top = float(next(iter(maps.values()))[1].max())
    levels = np.linspace(0, top, _LEVELS + 1)[1:] - top / (2 * _LEVELS)
    for place in axes.flat[len(maps) :]:
        place.set_visible(False)
    drawn: Any = None
    for place, (name, (centres, heights)) in zip(axes.flat, maps.items(), strict=False):
        side = round(len(centres) ** 0.5)
        km = (centres - centres[0]) / 1_000
        drawn = place.contourf(
            *km.T.reshape(2, side, side), heights.reshape(side, side), levels,
            cmap="viridis", extend="both",
        )  # fmt: skip
        for line in outlines:
            place.plot(*((line - centres[0]) / 1_000).T, color="white", alpha=0.7, linewidth=0.8)
        place.set(xlim=(0, km[-1, 0]), ylim=(0, km[-1, 1]))
        coarse = f", {side}×{side} centres" if side < 61 else ""
        place.set_title(name + coarse, fontsize=10)
        place.set_aspect("equal")
    for place in axes[-1]:
        place.set_xlabel("km east")
    for place in axes[:, 0]:
        place.set_ylabel("km north")
    figure.colorbar(drawn, ax=axes, shrink=0.6, format="%.3f", label="mean of the kernel")
    figure.suptitle(title)
    save(figure, file)
