"""What a row of the ledger is: published numbers, geoveil's of the same thing, and why they differ.

The published numbers are data: `data/published_numbers.csv` has one line for each, by row, setting
and quantity. A figure prints no numbers; where its authors' repository holds what the figure was
drawn from, or a function that can be given the same input, that is the "authors' code".
"""

import math
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from geoveil.gp import ParameterError, validation
from geoveil.simulation.experiment import Table, grouped, page_text, read_csv
from geoveil.simulation.selection.experiment import Options, evenly_spaced

EQUAL, AT_MOST, AT_LEAST = "equal", "at most", "at least"
RELATIONS = (EQUAL, AT_MOST, AT_LEAST)
AGREES, DIFFERS, MISSING = "agrees", "differs", "no data"
ALLOWED = 2.0
"""Standard errors, the published and geoveil's together, by which agreeing numbers may differ."""

Told = tuple[str, str, float] | tuple[str, str, float, float]
"""A setting, a quantity, geoveil's number of it, and its standard error if it is not exact."""
Numbers = Callable[[Options], Iterable[Told]]
"""Computes geoveil's numbers of a figure or table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedNumber:
    """A number that is published, or a statement as a bound, beside geoveil's.

    Attributes:
        paper: what the paper prints; None if it draws it.
        code: what its authors' code gave.
        relation: one of `RELATIONS`: what geoveil's is to it.
        error: standard error, or what rounding leaves open.
        own: geoveil's, and its standard error; None if it needs data that are not given, or was not
            asked for.

    Raises:
        ParameterError: if it has no number, or an unknown relation.
    """

    row: str
    setting: str
    quantity: str
    relation: str
    paper: float | None
    code: float | None
    error: float
    own: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        validation.choice("relation", self.relation, RELATIONS)
        if self.paper is None and self.code is None:
            raise ParameterError("paper", None, "a number, where the code gave none")

    @property
    def key(self) -> tuple[str, str]:
        """What it is of."""
        return self.setting, self.quantity

    @property
    def reference(self) -> float:
        """The paper's number, or its code's where the paper has none."""
        number = self.code if self.paper is None else self.paper
        assert number is not None
        return number

    @property
    def ratio(self) -> float:
        """Geoveil's number over the published one; NaN without one of them."""
        if self.own is None or self.reference == 0:
            return math.nan
        return self.own[0] / self.reference

    @property
    def verdict(self) -> str:
        """Whether they agree within `ALLOWED` standard errors."""
        if self.own is None:
            return MISSING
        apart = self.own[0] - self.reference
        open_ = ALLOWED * math.hypot(self.error, self.own[1]) + 1e-9 * abs(self.reference)
        too_large = self.relation != AT_LEAST and apart > open_
        too_small = self.relation != AT_MOST and apart < -open_
        return DIFFERS if too_large or too_small else AGREES


@lru_cache(maxsize=1)
def published_numbers() -> Mapping[str, Sequence[PublishedNumber]]:
    """Return the published numbers by row of the ledger."""
    file = Path(str(files("geoveil.simulation"))) / "data" / "published_numbers.csv"
    return grouped(read_csv(file, PublishedNumber), "row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """One figure or table of a paper, and what was found of it.

    Attributes:
        name: for the command line.
        paper: its key in the bibliography.
        item: the figure or table.
        what: it shows.
        reason: why numbers differ, or why there are none.
        compute: geoveil's numbers, if any; a function that processes know by its name.
        command: that computes the whole of it, where there is one.
        needs: data that does not ship, if it takes any.
        compared: all published numbers; none before it was run.
        seconds: of the processor, that it took.
    """

    name: str
    paper: str
    item: str
    what: str
    reason: str
    compute: Numbers | None = None
    command: str = ""
    needs: str = ""
    compared: Sequence[PublishedNumber] = ()
    seconds: float = 0.0

    @property
    def kind(self) -> str:
        """What it is: a figure, a table, or a part of the text."""
        return self.item.split()[0].lower()

    def run(self, options: Options) -> Self:
        """Return it computed, all of its published numbers or with `quick` a part of them.

        Raises:
            ParameterError: if a number is of nothing that is published.
        """
        started = time.process_time()
        found = {
            (setting, quantity): (value, error[0] if error else 0.0)
            for setting, quantity, value, *error in (self.compute(options) if self.compute else ())
        }
        seconds = time.process_time() - started
        published = published_numbers().get(self.name, ())
        if unknown := found.keys() - {number.key for number in published}:
            raise ParameterError("compute", sorted(unknown)[0], "a published number")
        numbers = [replace(number, own=found.get(number.key)) for number in published]
        return replace(self, compared=numbers, seconds=seconds)

    def count(self, verdict: str) -> int:
        """Return how many numbers have this verdict."""
        return sum(compared.verdict == verdict for compared in self.compared)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values; numbers that there are not are null."""
        names = {"code": "authors_code", "error": "published_error"}
        numbers = []
        for c in self.compared:
            published = {names.get(name, name): value for name, value in asdict(c).items()}
            del published["row"], published["own"]
            ours, error = c.own or (None, None)
            ratio = None if math.isnan(c.ratio) else c.ratio
            found = {"ours": ours, "standard_error": error, "ratio": ratio, "verdict": c.verdict}
            numbers.append(published | found)
        told = ("paper", "item", "what", "command", "needs", "reason", "seconds")
        row = {"row": self.name} | {name: getattr(self, name) for name in told}
        return row | {"numbers": numbers}


_LINES = 12
"""Numbers of a row that the page shows; the command prints all."""


def ledger_page(rows: Sequence[Reproduction], data: Sequence[str] = ()) -> str:
    """Return the page of rows, with the names of the files that were given."""
    summary = []
    for row in rows:
        counts = (str(row.count(verdict) or "–") for verdict in (AGREES, DIFFERS, MISSING))
        summary.append((f"[{row.name}](#{row.name})", row.what, *counts))
    headers = ("row", "shows", "agree", "differ", "need data")
    given = f"This page was made with {', '.join(data)}, which don't ship." if data else ""
    return page_text(
        "reproductions",
        allowed=ALLOWED,
        given=_wrapped(given),
        summary=Table(headers=headers, rows=summary).markdown(),
        rows="\n".join(_section(row) for row in rows),
    )


def _section(row: Reproduction) -> str:
    parts = [f"## {row.name}", _wrapped(f"[{row.paper}] {row.item}: {row.what}.")]
    command = f"geoveil simulate ledger --row {row.name}"
    if row.command and not row.compared:
        command = f"geoveil {row.command.removeprefix('geoveil ')}"
    also = f"; `{row.command}` for the whole {row.kind}" if row.command and row.compared else ""
    parts.append(_wrapped(f"`{command}`{also}."))
    if row.compared:
        parts.append(_table(row.compared))
    parts.append(_wrapped(row.reason))
    if row.needs:
        parts.append(_wrapped(f"With `--data`: {row.needs}."))
    return "\n\n".join(parts) + "\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _table(compared: Sequence[PublishedNumber]) -> str:
    """Return all of few numbers; of many some, evenly spaced, of those that were computed."""
    shown = compared
    if len(compared) > _LINES:
        shown = evenly_spaced([c for c in compared if c.own is not None] or compared, _LINES)
    lines = [line_of(c) for c in shown]
    if len(shown) < len(compared):
        lines.append((f"… {len(compared) - len(shown)} more, by the command", *[""] * 5))
    return Table(headers=("", "paper", "code", "ours", "ratio", ""), rows=lines).markdown()


def line_of(c: PublishedNumber) -> tuple[str, ...]:
    """Return cells: what a number is of, the paper's, the code's, ours, the ratio, the verdict."""
    mark = {AT_MOST: "≤ ", AT_LEAST: "≥ "}.get(c.relation, "")
    paper, code = ("–" if value is None else f"{mark}{value:.4g}" for value in (c.paper, c.code))
    own = "–"
    if c.own is not None:
        own = f"{c.own[0]:.4g}" + (f" ± {c.own[1]:.1g}" if c.own[1] else "")
    ratio = "–" if math.isnan(c.ratio) else f"{c.ratio:.3g}"
    return f"{c.setting}: {c.quantity}", paper, code, own, ratio, c.verdict
