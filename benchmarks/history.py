"""The history of benchmarks: files of figures, and comparisons of two runs.

Runs are compared by their ratios to the reference of the same run, so that a different or busy
machine matters little.
"""

import json
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

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
        asdict(figure) | {k: float(f"{getattr(figure, k):.4g}") for k in _NUMBERS}
        for figure in figures
    ]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    file.write_text(f'{{"about": {json.dumps(about)},\n"figures": [\n{lines}\n]}}\n')


def read(file: Path) -> list[Figure]:
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


_NUMBERS = ("value", "ratio")


def _version(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", name))
