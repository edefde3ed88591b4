"""The paper's figures of the threshold experiments, and one that sums them up."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

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


def draw_errors(rows: Sequence[ErrorRow], file: Path) -> None:
    """Draw the error against n, a panel for each setting; of one n alone as dots."""
    measure = rows[0].measure
    title = f"{measure} against the hard threshold"
    if len({row.n for row in rows}) == 1:
        draw_settings(rows, file, title=title)
        return
    lines: dict[str, list[Line]] = {}
    for panel, name in dict.fromkeys((row.panel, row.mechanism) for row in rows):
        own = [row for row in rows if (row.panel, row.mechanism) == (panel, name)]
        own.sort(key=lambda row: row.n)
        errors = [row.error for row in own], [row.standard_error for row in own]
        lines.setdefault(panel, []).append(Line(name, [float(row.n) for row in own], *errors))
    draw_lines(lines, file, x_label="people", y_label=f"{measure} (log)", title=title, people=True)


def draw_settings(
    rows: Sequence[ErrorRow],
    file: Path,
    *,
    title: str = "",
    note: str = "",
    hollow: str | None = None,
) -> None:
    """Draw errors as dots, a panel for each setting: none twice.

    Of a grid of settings those are drawn that differ from the middle one in n, or in all else.

    A row whose panel ends with `hollow` stands as a hollow dot in the panel without that.
    """
    end = f", {hollow}"
    plain = list(dict.fromkeys(row.panel.removesuffix(end) for row in rows))
    people = sorted({row.n for row in rows})
    settings = dict.fromkeys((row.panel.removesuffix(end), row.n) for row in rows)
    middle_n = people[len(people) // 2]
    # The panel with the most n; of several the middle one.
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


def draw_distributions(rows: Sequence[ErrorRow], file: Path) -> list[Path]:
    """Draw how far distributions are from the truth, a figure for each attribute."""
    by_attribute: dict[str, list[ErrorRow]] = {}
    for row in rows:
        if row.measure == "area":
            drawn = replace(
                row,
                mechanism=row.mechanism + ("" if row.footing is None else f", at {row.footing:,g}"),
                error=math.sqrt(row.error),
                standard_error=row.standard_error / (2 * math.sqrt(row.error)),
                measure="root mean square",
            )
            by_attribute.setdefault(row.panel.split(",")[0], []).append(drawn)
    files = []
    for attribute, own in by_attribute.items():
        files.append(file.with_stem(f"{file.stem}-{attribute}"))
        title = f"Distribution of {attribute}: area between it and the truth, in the unit of values"
        note = "at …: ε-LDP that hides two values so far apart as well as the others do"
        draw_settings(own, files[-1], title=title, note=note)
    return files


def draw_ratios(
    rows: Sequence[ErrorRow], comparisons: Sequence[ErrorComparison], file: Path
) -> None:
    """Draw, for each setting, how many times the best seed mechanism's error is geoveil's."""
    from matplotlib.ticker import LogLocator, NullFormatter

    panels = list(dict.fromkeys(c.panel for c in comparisons))
    figure, axes = pyplot().subplots(figsize=(9.5, 0.42 * len(panels) + 2.0), layout="constrained")
    noise = _noise_ratios(rows)
    noises = "noise alone: Student-t ÷ geoveil's least"
    for at, panel in enumerate(panels):
        own = [c for c in comparisons if c.panel == panel]
        aided = [c.ratio_with_prior for c in own if c.aided is not None]
        for values, colour, marker, label, shift in (
            ([c.ratio for c in own], GREEN, "o", "error", -0.2),
            (aided, WINE, "D", "error, both with a public prior", 0.0),
            ([noise[panel]] if panel in noise else [], INDIGO, "x", noises, 0.2),
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
    axes.set_yticks(range(len(panels)), panels)
    axes.grid(axis="x", alpha=0.25)
    low, high = axes.get_xlim()
    # A decade or two needs more than its powers of ten.
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if high > 300 * low else (1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set(
        ylim=(len(panels) - 0.4, -0.6),
        xlabel=f"{rows[0].measure} of the seed paper's best ÷ geoveil's (log); one dot for each n",
    )
    figure.legend(loc="outside lower center", ncol=3, frameon=False, fontsize=9)
    axes.set_title(f"The seed paper's {rows[0].measure} in multiples of geoveil's", loc="left")
    save(figure, file)


def _noise_ratios(rows: Sequence[ErrorRow]) -> dict[str, float]:
    """Return, per panel, the noise of Student-t over the least of geoveil's; n cancels."""
    ratios = {}
    for panel in dict.fromkeys(row.panel for row in rows):
        n = min(row.n for row in rows if row.panel == panel)
        own = [r for r in rows if r.panel == panel and r.n == n]
        seed = [r.noise for r in own if r.mechanism == "Student-t" and r.noise is not None]
        ours = [r.noise for r in own if r.origin == OURS and r.noise is not None]
        if seed and ours and min(ours) > 0:
            ratios[panel] = seed[0] / min(ours)
    return ratios
