"""The history of benchmarks: files of figures, comparisons, and a picture of all runs.

Runs are compared by their ratios to the reference of the same run, so that a different or busy
machine matters little.
"""

import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import Figure
from geoveil.gp.version import __version__

RELEASES = Path(__file__).parent / "releases"
"""One file per release, named after its version."""
TOLERATED = 1.10
"""A row counts as slower if its ratio exceeds this many times that of the release."""


@dataclass(frozen=True)
class Change:
    """A row in two runs."""

    before: Figure
    now: Figure

    @property
    def factor(self) -> float:
        """The ratio now, divided by the ratio before; above 1 if the row takes longer now."""
        return self.now.ratio / self.before.ratio


def write(figures: Sequence[Figure], file: Path) -> None:
    """Write figures as JSON, with their environment."""
    about = {
        "version": __version__,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "processors": os.cpu_count() or 1,
        "load": round(os.getloadavg()[0], 1),
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        asdict(figure) | {k: _short(getattr(figure, k)) for k in _NUMBERS} for figure in figures
    ]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    file.write_text(f'{{"about": {json.dumps(about)},\n"figures": [\n{lines}\n]}}\n')


def read(file: Path) -> list[Figure]:
    """Return the figures in a file."""
    return [Figure(**row) for row in json.loads(file.read_text())["figures"]]


def releases() -> dict[str, list[Figure]]:
    """Return the figures of each release, oldest first."""
    files = {_version(file.stem): file for file in RELEASES.glob("*.json")}
    return {files[version].stem: read(files[version]) for version in sorted(files)}


def changes(before: Sequence[Figure], now: Sequence[Figure]) -> list[Change]:
    """Return the rows that two runs share, without references, which are 1 in both."""
    known = {(figure.table, figure.row): figure for figure in before}
    return [
        Change(known[figure.table, figure.row], figure)
        for figure in now
        if (figure.table, figure.row) in known and figure.row != figure.reference
    ]


def slower(before: Sequence[Figure], now: Sequence[Figure]) -> list[Change]:
    """Return the rows that are slower by more than is tolerated, worst first."""
    found = [change for change in changes(before, now) if change.factor > TOLERATED]
    return sorted(found, key=lambda change: -change.factor)


def least(first: Sequence[Figure], again: Sequence[Figure]) -> list[Figure]:
    """Return the rows of the first run, each with the smaller ratio of both runs."""
    other = {(figure.table, figure.row): figure for figure in again}
    return [
        min(figure, other.get((figure.table, figure.row), figure), key=lambda one: one.ratio)
        for figure in first
    ]


def draw(runs: Mapping[str, Sequence[Figure]], file: Path) -> None:
    """Draw the ratio of each row found in several runs, as a multiple of the one in the first.

    Args:
        runs: figures by the name of the release, oldest first.
    """
    from matplotlib import pyplot as plt

    names = list(runs)
    of_rows: dict[str, dict[str, dict[int, float]]] = {}
    for at, figures in enumerate(runs.values()):
        for figure in figures:
            if figure.row != figure.reference:
                rows = of_rows.setdefault(figure.table, {})
                rows.setdefault(figure.row, {})[at] = figure.ratio
    of_rows = {
        table: several
        for table, rows in of_rows.items()
        if (several := {row: ratios for row, ratios in rows.items() if len(ratios) > 1})
    }
    columns = 3
    high = -(-len(of_rows) // columns)
    made, panels = plt.subplots(
        high, columns, figsize=(5 * columns, 2.8 * high), squeeze=False, layout="constrained"
    )
    for axes, (table, rows) in zip(panels.flat, of_rows.items(), strict=False):
        _draw_table(axes, table, rows, names)
    for axes in panels.flat[len(of_rows) :]:
        axes.axis("off")
    made.supylabel("ratio to the reference, beside that of the first release (logarithmic)")
    made.savefig(file)
    plt.close(made)


_NUMBERS = ("value", "ratio")
_MOVED = 1.25
"""Rows that changed by a smaller factor are drawn in grey, without a name."""
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito's colours, which colour-blind people can tell apart."""


def _draw_table(
    axes: Any, table: str, rows: Mapping[str, Mapping[int, float]], names: Sequence[str]
) -> None:
    axes.axhline(1, color="0.6", linewidth=0.8)
    moved = 0
    ends = []
    for row, ratios in rows.items():
        at, values = list(ratios), np.array(list(ratios.values()))
        multiples = values / values[0]
        has_moved = max(multiples[-1], 1 / multiples[-1]) >= _MOVED
        colour = _COLOURS[moved % len(_COLOURS)] if has_moved else "0.75"
        axes.plot(at, multiples, marker="o", markersize=3, color=colour, zorder=2 + has_moved)
        if has_moved:
            moved += 1
            ends.append((float(multiples[-1]), row, colour))
    # Names that would overlap are moved apart.
    lowest = -np.inf
    for multiple, row, colour in sorted(ends):
        level = max(np.log(multiple), lowest)
        lowest = level + 0.22
        axes.annotate(
            f" {row[:44]}", (len(names) - 1, np.exp(level)), color=colour, fontsize=6.5, va="center"
        )
    axes.set_yscale("log")
    axes.set_title(table, fontsize=9, loc="left")
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.2, 2.2 * (len(names) - 1) + 0.4)
    axes.spines[["top", "right"]].set_visible(False)
    ticks = [0.1, 0.2, 0.5, 1, 2, 5]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def _short(number: float) -> float:
    """Return a number to four significant digits."""
    return float(f"{number:.4g}")


def _version(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", name))
