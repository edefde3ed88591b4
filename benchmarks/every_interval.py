"""Coverage of the intervals of every statistic of perturbed numbers, for people of many kinds.

A cell has a statistic, a kind of people and a number of them; it counts the campaigns whose 95 %
interval covers the truth. Campaigns are drawn from the given seed or a fresh one, which is printed.
A cell fails if its coverage is below 94.5 % by more than chance (1 in 1,000 for all cells
together), if an interval has a width of 0, or if an estimate lies outside its interval.

    python -m benchmarks intervals --quick --page docs/intervals.md     the stated subset, written
    python -m benchmarks intervals                                      in full: overnight
    python -m benchmarks intervals --quick --statistic Gini --campaigns 40 --seed 1    one row
"""

import secrets
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.every_statistic import PEOPLE, STATISTICS, WEIGHTS, Campaign, Row, Truth
from geoveil.gp import NotPrivateWarning

LEAST_COVERED, CHANCE = 0.945, 1e-3
LEAST_CALM = 0.985
"""The share of calm curves without a flag."""
SIZES, CAMPAIGNS = (5, 20, 100, 1_000, 10_000), 400
QUICK_SIZES, QUICK_CAMPAIGNS = (5, 100, 2_000), 20
_MARKS = "<!-- coverage -->", "<!-- end of coverage -->"


@dataclass
class Cell:
    """How often intervals of a statistic covered the truth."""

    name: str
    """The name of the statistic."""
    held: int = 0
    campaigns: int = 0
    empty: int = 0
    """The number of intervals of width 0."""
    outside: int = 0
    """The number of estimates outside their interval."""

    @property
    def covered(self) -> float:
        """The share of campaigns whose interval covers the truth."""
        return self.held / self.campaigns

    def add(self, row: Row) -> None:
        """Add an interval, or several simultaneous ones, to the counts."""
        low, value, high, right = (None if x is None else np.asarray(x, np.float64) for x in row)
        assert low is not None
        assert high is not None
        assert right is not None
        slack = 1e-9 * np.maximum(np.abs(right), 1.0)
        self.campaigns += 1
        self.held += bool(np.all((low <= right + slack) & (right - slack <= high)))
        self.empty += bool(np.any(high <= low))
        self.outside += value is not None and bool(np.any((value < low) | (value > high)))

    def wrong(self, cells: int) -> str:
        """Return what is wrong with the cell, judged as one of a number of cells."""
        from scipy.stats import binom

        least = LEAST_CALM if self.name == "flags" else LEAST_COVERED
        chance = float(binom.cdf(self.held, self.campaigns, least))
        short = ["covers too little"] if chance < CHANCE / cells else []
        empty = [f"{self.empty} of width 0"] if self.empty else []
        return ", ".join(short + empty + ([f"{self.outside} outside"] if self.outside else []))


def measured(
    seed: int, sizes: Sequence[int], campaigns: Mapping[str, int]
) -> dict[tuple[str, str, int], Cell]:
    """Return cells by statistic, people and n; no cell depends on which others are computed."""
    truths = [Truth(draw) for draw in PEOPLE.values()]
    cells: dict[tuple[str, str, int], Cell] = {}
    for which, (name, statistic) in enumerate(STATISTICS.items()):
        for place, (people, draw) in enumerate(PEOPLE.items()):
            for n in sizes if name in campaigns else ():
                rng = np.random.default_rng([seed, which, place, n])
                cell = cells[name, people, n] = Cell(name=name)
                for _ in range(campaigns[name]):
                    made = Campaign(draw(rng, n), truths[place], rng)
                    if statistic.weighted:
                        weights = np.exp(WEIGHTS * rng.standard_normal(n))
                        made = replace(made, weights=weights)
                    cell.add(statistic.of(made))
    return cells


def table(
    *,
    quick: bool = False,
    page: Path | None = None,
    seed: int | None = None,
    statistics: Sequence[str] = (),
    campaigns: int | None = None,
) -> None:
    """Print the coverage of cells in per cent, and the failures.

    Args:
        quick: only the stated subset.
        page: a page to write the rows to, between its two marks.
        seed: the seed of all draws; a fresh one by default.
        statistics: names of statistics; all by default.
        campaigns: how many each cell has; by default fewer for slow statistics.
    """
    warnings.simplefilter("ignore", NotPrivateWarning)
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    sizes, most = (QUICK_SIZES, QUICK_CAMPAIGNS) if quick else (SIZES, CAMPAIGNS)
    of_each = {
        name: campaigns or -(-most // of.every)
        for name, of in STATISTICS.items()
        if not statistics or name in statistics
    }
    lines, failed = rows_of(measured(seed, sizes, of_each), seed)
    print("\n".join([*lines, *failed]))
    if page is not None:
        page.write_text(written(page.read_text(), lines))


def rows_of(cells: Mapping[tuple[str, str, int], Cell], seed: int) -> tuple[list[str], list[str]]:
    """Return a Markdown table, a row for each statistic and a column for each size, and failures.

    A cell fails by more than chance among the cells of all statistics and of these sizes.
    """
    sizes = list(dict.fromkeys(n for _, _, n in cells))
    lines = [
        f"| statistic | seed | campaigns | {' | '.join(f'n = {n:,}' for n in sizes)} | failed |",
        f"|---|--:|--:|{'---|' * len(sizes)}--:|",
    ]
    family = len(STATISTICS) * len(PEOPLE) * len(sizes)
    wrong = {key: said for key, cell in cells.items() if (said := cell.wrong(family))}
    for name in dict.fromkeys(name for name, _, _ in cells):
        shown, campaigns = [], ""
        for n in sizes:
            of = {who: cell for (what, who, m), cell in cells.items() if (what, m) == (name, n)}
            least = min(of, key=lambda who: of[who].covered)
            all_of = sum(cell.covered for cell in of.values()) / len(of)
            campaigns = f"{of[least].campaigns:,}"
            shown.append(f"{100 * all_of:.1f}, least {100 * of[least].covered:.1f} ({least})")
        failed = sum(name == what for what, _, _ in wrong)
        lines.append(f"| {name} | {seed} | {campaigns} | {' | '.join(shown)} | {failed} |")
    return lines, [
        f"* {name}, {people}, {n:,}: {said}" for (name, people, n), said in wrong.items()
    ]


def written(page: str, lines: Sequence[str]) -> str:
    """Return a page with the rows of a table written; others stay if the columns are the same."""
    before, rest = page.split(_MARKS[0])
    within, after = rest.split(_MARKS[1])
    stay = within.split("\n")[1:-1] if lines[0] in within else []
    rows = {line.split(" | ")[0]: line for line in [*stay, *lines]}
    order = ["| statistic", *lines[1:2], *(f"| {name}" for name in STATISTICS)]
    made = "\n".join(rows[key] for key in order if key in rows)
    return f"{before}{_MARKS[0]}\n{made}\n{_MARKS[1]}{after}"
