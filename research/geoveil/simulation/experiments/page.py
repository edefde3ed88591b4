"""Write docs/results.md: the tables of all experiments, each with its command."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from geoveil.simulation.distribution.attributes import MEASURES
from geoveil.simulation.distribution.experiment import MeasuredSetting, settings
from geoveil.simulation.distribution.protocols import DEBIASED
from geoveil.simulation.epochs.experiment import FRESH, SHOCKED, EpochRow, table
from geoveil.simulation.experiment import Table, grouped, page_text, read_csv
from geoveil.simulation.experiments.published import ratio_table
from geoveil.simulation.experiments.rows import LOCAL, ORIGINS, ErrorRow

_PEOPLE = 1_600_000
"""The n in the page's tables of thresholds; the figures and CSV files have every n."""
_TITLES = {
    "oneway": "One threshold on incomes",
    "twoway": "Pairs of thresholds on incomes and debts",
    "kde": "Densities of collisions in New York",
}


def write_page(work: Path, directory: Path) -> Path:
    """Write the page of all experiments, with figures."""
    images = directory / "images"
    images.mkdir(parents=True, exist_ok=True)
    sections = "\n".join(section(work, name, title, images) for name, title in _TITLES.items())
    shutil.copyfile(work / "epochs.png", images / "epochs.png")
    parts = (
        page_text("results", sections=sections),
        distribution_section(read_csv(work / "distribution.csv", ErrorRow)),
        epochs_section(read_csv(work / "epochs.csv", EpochRow)),
    )
    page = directory / "results.md"
    page.write_text("\n".join(parts), encoding="utf-8")
    return page


def section(work: Path, name: str, title: str, images: Path) -> str:
    """Return the section of an experiment as Markdown, and copy its figures to `images`."""
    maps = [file.name for file in sorted(work.glob(f"{name}-map-*.png"))]
    command = f"geoveil simulate {name}" + (" --maps default" if maps else "")
    lines = [f"## {title}", "", "```sh", command, "```", ""]
    figures = {
        f"{name}-exact.png": "error of every mechanism",
        f"{name}-exact-ratios.png": "error ratios",
        **dict.fromkeys(maps, "one run of each mechanism, every report drawn"),
    }
    for file, text in figures.items():
        shutil.copyfile(work / file, images / file)
        lines += [f"![{title}: {text}](images/{file})", ""]
    every = read_csv(work / f"{name}-exact.csv", ErrorRow)
    rows = [row for row in every if name == "kde" or row.n == _PEOPLE]
    ratios = ratio_table(rows, prior="with a prior").markdown()
    said = f"The best of the paper's mechanisms over the best of geoveil's ({LOCAL} left out):"
    return "\n".join([*lines, _errors(rows), "", said, "", ratios, ""])


def _errors(rows: Sequence[ErrorRow]) -> str:
    # In the order of first appearance, the seed paper's before geoveil's.
    by_origin = sorted(rows, key=lambda row: ORIGINS.index(row.origin))
    mechanisms = list(dict.fromkeys(row.mechanism for row in by_origin))
    errors = {(row.panel, row.n, row.mechanism): f"{row.error:.2e}" for row in rows}
    cells = [
        (panel, f"{n:,}", *(errors.get((panel, n, name), "–") for name in mechanisms))
        for panel, n in dict.fromkeys((row.panel, row.n) for row in rows)
    ]
    table = Table(headers=("setting", "n", *mechanisms), rows=cells).markdown()
    return f"{rows[0].measure}:\n\n{table}"


_SHOWN = ("incomes", 50_000)
"""The setting that the page shows in full, at its largest ε."""


def distribution_section(rows: Sequence[ErrorRow]) -> str:
    """Return the section as Markdown."""
    every = settings(rows)
    name, people = _SHOWN
    shown = [s for s in every if s.rows[0].panel.startswith(name) and s.rows[0].n == people]
    best = min(shown, key=lambda s: s.rows[0].per, default=None)
    return page_text(
        "distribution",
        repetitions=rows[0].repetitions,
        measures="\n".join(f"* {name}: {what}" for name, what in MEASURES.items()),
        shown=f"{_all_errors(best)}\n\n{_median(best)}\n\n" if best else "",
        debiased=DEBIASED,
        uncertainty=max(setting.uncertainty for setting in every),
        factors=_factors(every),
        least=min(setting.epsilon(setting.footings[-1]) for setting in every),
        reach=_from_to(every, 0),
        apart=_from_to(every, 1),
        worst=_from_to(every, 2),
    )


def _from_to(found: Sequence[MeasuredSetting], place: int) -> str:
    """Return, in words, the least and the greatest factor at a footing."""
    factors = [s.ahead(DEBIASED, s.footings[place], m) for s in found for m in MEASURES]
    return f"{min(factors):.2g} to {max(factors):.2g}"


def _all_errors(setting: MeasuredSetting) -> str:
    rows: list[Sequence[str]] = []
    for footing in (None, *setting.footings):
        if footing is not None:
            title = f"*ε-LDP, ε = {setting.epsilon(footing):.3g}: equal at {footing:,g}*"
            rows.append((title, *[""] * len(MEASURES)))
        for mechanism in setting.mechanisms(footing):
            of_measures = (setting.row(mechanism, footing, measure) for measure in MEASURES)
            rows.append((mechanism, *map(_cell, of_measures)))
    table = Table(headers=("", *MEASURES), rows=rows).markdown().replace("|  ", "| ")
    return f"{setting.title}:\n\n{table}"


def _cell(row: ErrorRow | None) -> str:
    if row is None:
        return "–"
    error = row.error**0.5
    spread = row.standard_error / (2 * error)
    return " ± ".join(f"{x:,.0f}" if error >= 1 else f"{x:.4f}" for x in (error, spread))


def _median(setting: MeasuredSetting) -> str:
    ours = setting.row(DEBIASED, None, "median")
    assert ours is not None
    factors = ", ".join(
        f"{setting.ahead(DEBIASED, footing, 'median'):.2g} (equal at ${footing:,g})"
        for footing in setting.footings
    )
    text = (
        f"So the median income of {ours.n:,} Californians is off by ${ours.error**0.5:,.0f} in"
        f" root mean square. The error of the best protocol of ε-LDP is that error times {factors}."
    )
    return fill(text, 100)


def _factors(found: Sequence[MeasuredSetting]) -> str:
    rows = []
    for s in found:
        for footing in s.footings:
            ahead = [s.ahead(DEBIASED, footing, measure) for measure in MEASURES]
            factors = (f"**{a:.2g}**" if a < 1 else f"{a:.2g}" for a in ahead)
            rows.append((s.title, f"{footing:,g}", *factors))
    return Table(headers=("setting", "equal at", *MEASURES), rows=rows).markdown()


def epochs_section(rows: Sequence[EpochRow]) -> str:
    """Return the section as Markdown."""
    parts = {t: table(of_threshold) for t, of_threshold in grouped(rows, "threshold").items()}
    shown = Table(
        headers=("above", *next(iter(parts.values())).headers),
        rows=[(f"${t:,.0f}", *row) for t, part in parts.items() for row in part.rows],
    )
    fresh = {row.threshold: row.error for row in rows if row.strategy == FRESH}
    best = [row for row in rows if row.coverage is not None]
    yearly = [row for row in best if row.epsilon == 1]
    split = [row for row in rows if row.epsilon == 1 and row.coverage is None]
    factors = [row.error / fresh[row.threshold] for row in yearly]
    worst = [
        max(r.error for r in split if r.threshold == row.threshold) / row.error for row in yearly
    ]
    alarms = [row.false_alarms for row in best if row.false_alarms is not None]
    runs = rows[0].repetitions
    return page_text(
        "epochs",
        people=rows[0].n,
        runs=f"{runs:,} runs",
        struck=min(runs, SHOCKED),
        table=shown.markdown(),
        least=min(factors),
        most=max(factors),
        split=min(worst),
        alarms=sum(alarms) / len(alarms),
    )
