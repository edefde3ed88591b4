"""docs/results.md: the tables of all experiments, each with the command that makes it."""

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from geoveil.simulation.distribution.page import distribution_section
from geoveil.simulation.epochs.experiment import EpochRow
from geoveil.simulation.epochs.page import epochs_section
from geoveil.simulation.experiment import page_text
from geoveil.simulation.experiments.published import ratio_table
from geoveil.simulation.experiments.rows import LOCAL, ORIGINS, ErrorRow
from geoveil.simulation.result_tables import read_csv

_PEOPLE = 1_600_000
"""The n that the page's tables of thresholds show; the figures and the CSV files have all."""


@dataclass(frozen=True, slots=True)
class Section:
    """One experiment on the page."""

    title: str
    command: str
    figures: Mapping[str, str]
    """Path from the page → what it shows."""
    rows: Sequence[ErrorRow]
    keep: Callable[[ErrorRow], bool]
    """Which rows the table shows; the CSV has all."""


def results_page(
    sections: Sequence[Section],
    distributions: Sequence[ErrorRow] = (),
    epochs: Sequence[EpochRow] = (),
) -> str:
    """Return the page as Markdown.

    Args:
        sections: on the paper's experiments.
        distributions: the rows of `geoveil simulate distribution`, for a section of their own.
        epochs: those of `geoveil simulate epochs`, likewise.
    """
    told = "\n".join(_section(section) for section in sections)
    parts = [page_text("results", sections=told)]
    if distributions:
        parts.append(distribution_section(distributions))
    if epochs:
        parts.append(epochs_section(epochs))
    return "\n".join(parts)


def _section(section: Section) -> str:
    lines = [f"## {section.title}", "", "```sh", section.command, "```", ""]
    for path, text in section.figures.items():
        lines += [f"![{text}]({path})", ""]
    shown = [row for row in section.rows if section.keep(row)]
    ratios = ratio_table(shown, prior="with a prior").markdown()
    said = f"The best of the paper's mechanisms over the best of geoveil's ({LOCAL} left out):"
    return "\n".join([*lines, *_errors(shown), "", said, "", ratios, ""])


def _errors(rows: Sequence[ErrorRow]) -> list[str]:
    """Return the error of every mechanism in every setting."""
    order = {origin: place for place, origin in enumerate(ORIGINS)}
    names = sorted({(order[row.origin], row.mechanism) for row in rows})
    # In the order in which they first come up, the seed paper's before geoveil's.
    first = {row.mechanism: place for place, row in reversed(list(enumerate(rows)))}
    mechanisms = [name for _, name in sorted(names, key=lambda pair: (pair[0], first[pair[1]]))]
    found = {(row.panel, row.n, row.mechanism): row.error for row in rows}
    settings = list(dict.fromkeys((row.panel, row.n) for row in rows))
    lines = [
        f"{rows[0].measure}:",
        "",
        "| setting | n | " + " | ".join(mechanisms) + " |",
        "|---|---|" + "---|" * len(mechanisms),
    ]
    for panel, n in settings:
        values = (found.get((panel, n, name), math.nan) for name in mechanisms)
        cells = " | ".join("–" if math.isnan(value) else f"{value:.2e}" for value in values)
        lines.append(f"| {panel} | {n:,} | {cells} |")
    return lines


def write_page(work: Path, directory: Path) -> Path:
    """Put the experiments on one page with figures.

    Args:
        work: where all three have been written, in exact mode, and the tables of distributions
            and of answers over time.
        directory: for results.md and, below it, images/.
    """
    images = directory / "images"
    images.mkdir(parents=True, exist_ok=True)
    sections = [
        _read(work, "oneway", "One threshold on incomes", images, _PEOPLE),
        _read(work, "twoway", "Pairs of thresholds on incomes and debts", images, _PEOPLE),
        _read(work, "kde", "Densities of collisions in New York", images, None),
    ]
    page = directory / "results.md"
    distributions = read_csv(work / "distribution.csv", ErrorRow)
    epochs = read_csv(work / "epochs.csv", EpochRow)
    shutil.copyfile(work / "epochs.png", images / "epochs.png")
    page.write_text(results_page(sections, distributions, epochs), encoding="utf-8")
    return page


def _read(work: Path, name: str, title: str, images: Path, people: int | None) -> Section:
    figures = {}
    for suffix, text in (("", "error of every mechanism"), ("-ratios", "error ratios")):
        file = f"{name}-exact{suffix}.png"
        shutil.copyfile(work / file, images / file)
        figures[f"images/{file}"] = f"{title}: {text}"
    maps = sorted(work.glob(f"{name}-map-*.png"))
    for drawn in maps:
        shutil.copyfile(drawn, images / drawn.name)
        figures[f"images/{drawn.name}"] = f"{title}: one run of each mechanism, every report drawn"
    return Section(
        title=title,
        command=f"geoveil simulate {name}" + (" --maps default" if maps else ""),
        figures=figures,
        rows=read_csv(work / f"{name}-exact.csv", ErrorRow),
        keep=lambda row: people is None or row.n == people,
    )
