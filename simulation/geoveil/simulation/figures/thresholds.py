"""The paper's figures of the threshold experiments, and one that sums them up."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from geoveil.simulation.experiments.rows import OURS, PRIOR, ErrorComparison, ErrorRow
from geoveil.simulation.figures.style import STYLES, colour_of, count, pyplot, style_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_lines(rows: Sequence[ErrorRow], file: Path, *, columns: int = 3) -> None:
    """Draw the error against n, one panel for each setting, on logarithmic axes.

    Args:
        rows: of one experiment; a row of panels holds `columns` of them.
        file: where to (PNG, PDF or SVG, by its ending).
        columns: panels in a row.
    """
    plt = pyplot()
    panels = list(dict.fromkeys(row.panel for row in rows))
    columns = min(columns, len(panels))
    lines = math.ceil(len(panels) / columns)
    # Two names below each column of panels.
    legend = max(0.3 + 0.3 * math.ceil(len(_mechanisms(rows)) / (2 * columns)), 0.9)
    figure, axes = plt.subplots(
        lines, columns, figsize=(4.1 * columns, 3.1 * lines + legend), squeeze=False, sharex=True
    )
    for panel, place in zip(panels, axes.flat, strict=False):
        _draw_panel(place, [row for row in rows if row.panel == panel])
        place.set_title(panel, fontsize=10)
    for place in axes.flat[len(panels) :]:
        place.set_visible(False)
    for place in axes[-1]:
        place.set_xlabel("people")
    for place in axes[:, 0]:
        place.set_ylabel(f"{rows[0].measure} (log)")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.suptitle(f"{rows[0].measure} against the hard threshold", fontsize=12)
    figure.tight_layout(rect=(0, (legend - 0.15) / figure.get_figheight(), 1, 0.99))
    figure.legend(handles, labels, loc="lower center", ncol=2 * columns, frameon=False)
    figure.savefig(file, dpi=130)
    plt.close(figure)


def _draw_panel(axes: "Axes", rows: Sequence[ErrorRow]) -> None:
    for name in _mechanisms(rows):
        own = sorted((row for row in rows if row.mechanism == name), key=lambda row: row.n)
        axes.errorbar(
            [row.n for row in own],
            [row.error for row in own],
            yerr=[row.standard_error for row in own],
            label=name,
            linewidth=2.0 if own[0].origin in (OURS, PRIOR) else 1.3,
            markersize=6,
            **style_of(name),
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    people = sorted({row.n for row in rows})
    axes.set_xticks(people, [count(n) for n in people])
    axes.minorticks_off()
    axes.grid(alpha=0.25)


def draw_bars(rows: Sequence[ErrorRow], file: Path) -> None:
    """Draw the error as bars, one row of panels over ε at the middle n, one over n at the middle ε.

    Args:
        rows: of one experiment, for several n and ε.
        file: where to.
    """
    plt = pyplot()
    people, pers = sorted({row.n for row in rows}), sorted({row.per for row in rows})
    middle_n, middle_per = people[len(people) // 2], pers[len(pers) // 2]
    settings = [
        [(middle_n, per) for per in reversed(pers)],
        [(n, middle_per) for n in people],
    ]
    settings = [line for line in settings if len(line) > 1] or settings[:1]
    columns = max(map(len, settings))
    figure, axes = plt.subplots(
        len(settings),
        columns,
        figsize=(4.1 * columns, 3.2 * len(settings) + 0.6),
        squeeze=False,
        sharey=True,
    )
    for line, places in zip(settings, axes, strict=True):
        for place in places[len(line) :]:
            place.set_visible(False)
        for (n, per), place in zip(line, places, strict=False):
            own = [row for row in rows if row.n == n and row.per == per]
            _draw_bars(place, own)
            place.set_title(f"n = {count(n)}, 1/ε = {per:,.0f}", fontsize=10)
        places[0].set_ylabel(f"{rows[0].measure} (log)")
    figure.suptitle(f"{rows[0].measure} over the grid, against the hard threshold", fontsize=12)
    figure.tight_layout()
    figure.savefig(file, dpi=130)
    plt.close(figure)


def _draw_bars(axes: "Axes", rows: Sequence[ErrorRow]) -> None:
    names = _mechanisms(rows)
    by_name = {row.mechanism: row for row in rows}
    own = [by_name[name] for name in names]
    axes.bar(
        range(len(own)),
        [row.error for row in own],
        yerr=[row.standard_error for row in own],
        color=[colour_of(name) for name in names],
        width=0.75,
        capsize=2,
    )
    axes.set_yscale("log")
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right", fontsize=8)
    axes.minorticks_off()
    axes.grid(axis="y", alpha=0.25)


def draw_ratios(
    rows: Sequence[ErrorRow], comparisons: Sequence[ErrorComparison], file: Path
) -> None:
    """Draw, for each setting, how many times the best seed mechanism's error is geoveil's.

    Args:
        rows: of one experiment; for the ratio of the noise alone.
        comparisons: what `compare` makes of the rows.
        file: where to.
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    plt = pyplot()
    panels = list(dict.fromkeys(c.panel for c in comparisons))
    figure, axes = plt.subplots(figsize=(9.5, 0.42 * len(panels) + 2.2))
    noise = _noise_ratios(rows)
    for at, panel in enumerate(panels):
        own = [c for c in comparisons if c.panel == panel]
        for kind, values in (
            ("ours", [c.ratio for c in own]),
            ("prior", [c.ratio_with_prior for c in own if c.aided is not None]),
            ("noise", [noise[panel]] if panel in noise else []),
        ):
            if values:
                colour, marker, label, shift = _KINDS[kind]
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
    axes.set_ylim(len(panels) - 0.4, -0.6)
    axes.set_xlabel(
        f"{rows[0].measure} of the seed paper's best ÷ geoveil's (log); one dot for each n"
    )
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.55 / figure.get_figheight() * 1.6),
        ncol=3,
        frameon=False,
        fontsize=9,
    )
    axes.set_title(f"The seed paper's {rows[0].measure} in multiples of geoveil's", loc="left")
    figure.savefig(file, dpi=130, bbox_inches="tight")
    plt.close(figure)


_KINDS = {
    "ours": ("#0b6e4f", "o", "error", -0.2),
    "prior": ("#cc6633", "D", "error, both with a public prior", 0.0),
    "noise": ("#4477aa", "x", "noise alone: Student-t ÷ geoveil's least", 0.2),
}
"""What is compared → colour, marker, label, and place within its line."""


def _noise_ratios(rows: Sequence[ErrorRow]) -> dict[str, float]:
    """Return, per panel, the noise of Student-t over the least of geoveil's; n cancels."""
    ratios = {}
    for panel in dict.fromkeys(row.panel for row in rows):
        n = min(row.n for row in rows if row.panel == panel)
        own = [r for r in rows if r.panel == panel and r.n == n]
        seed = [r.noise for r in own if r.mechanism == "Student-t" and r.noise is not None]
        ours = [r.noise for r in own if r.origin == OURS and r.noise is not None]
        if seed and ours:
            ratios[panel] = seed[0] / min(ours)
    return ratios


def _mechanisms(rows: Sequence[ErrorRow]) -> list[str]:
    """Return the mechanisms in the order of `STYLES`, unknown ones last."""
    order = list(STYLES)
    names = dict.fromkeys(row.mechanism for row in rows)
    return sorted(names, key=lambda name: order.index(name) if name in order else len(order))
