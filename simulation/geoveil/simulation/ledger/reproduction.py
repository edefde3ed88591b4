"""What a row of the ledger is: published numbers, geoveil's of the same thing, and why they differ.

The published numbers are data: `data/published_numbers.csv` has one line for each, by row, setting
and quantity. A figure prints no numbers; where its authors' repository holds what the figure was
drawn from, or a function that can be given the same input, that is the "authors' code".
"""

import math
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from geoveil.gp import ParameterError, validation
from geoveil.simulation.experiment import Table, page_text, read_csv
from geoveil.simulation.selection.experiment import Options, evenly_spaced

EQUAL, AT_MOST, AT_LEAST = "equal", "at most", "at least"
RELATIONS = (EQUAL, AT_MOST, AT_LEAST)
AGREES, DIFFERS, MISSING = "agrees", "differs", "no data"
ALLOWED = 2.0
"""Standard errors, the published and geoveil's together, by which agreeing numbers may differ."""

Key = tuple[str, str]
"""A setting and a quantity."""
Own = tuple[float, float]
"""A number of geoveil's, and its standard error."""
Told = tuple[str, str, float] | tuple[str, str, float, float]
"""A setting, a quantity, geoveil's number of it, and its standard error if it is not exact."""
Numbers = Callable[[Options], Iterable[Told]]
"""Computes geoveil's numbers of a figure or table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedNumber:
    """A number that is published, or a statement as a bound.

    Attributes:
        paper: what the paper prints; None if it draws it.
        code: what its authors' code gave.
        relation: one of `RELATIONS`: what geoveil's is to it.
        error: standard error, or what rounding leaves open.

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

    def __post_init__(self) -> None:
        validation.choice("relation", self.relation, RELATIONS)
        if self.paper is None and self.code is None:
            raise ParameterError("paper", None, "a number, where the code gave none")

    @property
    def key(self) -> Key:
        """What it is of."""
        return self.setting, self.quantity

    @property
    def reference(self) -> float:
        """The paper's number, or its code's where the paper has none."""
        number = self.code if self.paper is None else self.paper
        assert number is not None
        return number


@lru_cache(maxsize=1)
def published_numbers() -> Mapping[str, Sequence[PublishedNumber]]:
    """Return the published numbers by row of the ledger."""
    file = Path(str(files("geoveil.simulation"))) / "data" / "published_numbers.csv"
    found: dict[str, list[PublishedNumber]] = {}
    for number in read_csv(file, PublishedNumber):
        found.setdefault(number.row, []).append(number)
    return found


@dataclass(frozen=True, slots=True)
class Compared:
    """A published number beside geoveil's."""

    published: PublishedNumber
    own: Own | None
    """None if it needs data that was not given, or was not asked for."""

    @property
    def ratio(self) -> float:
        """Geoveil's number over the published one; NaN without one of them."""
        if self.own is None or self.published.reference == 0:
            return math.nan
        return self.own[0] / self.published.reference

    @property
    def verdict(self) -> str:
        """Whether they agree within `ALLOWED` standard errors."""
        if self.own is None:
            return MISSING
        published = self.published
        apart = self.own[0] - published.reference
        open_ = ALLOWED * math.hypot(published.error, self.own[1])
        open_ += 1e-9 * abs(published.reference)
        too_large = published.relation != AT_LEAST and apart > open_
        too_small = published.relation != AT_MOST and apart < -open_
        return DIFFERS if too_large or too_small else AGREES


def nothing(options: Options) -> Iterable[Told]:
    """Compute nothing: for a figure without numbers."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """One figure or table of a paper.

    Attributes:
        name: for the command line.
        paper: its key in the bibliography.
        item: the figure or table.
        what: it shows.
        reason: why numbers differ, or why there are none.
        compute: geoveil's numbers; a function that processes know by its name.
        command: that computes the whole figure, where there is one.
        needs: data that does not ship, if it takes any.
    """

    name: str
    paper: str
    item: str
    what: str
    reason: str
    compute: Numbers
    command: str = ""
    needs: str = ""

    def run(self, options: Options) -> "Reproduced":
        """Compute it, all of its published numbers or with `quick` a part of them.

        Raises:
            ParameterError: if a number is of nothing that is published.
        """
        started = time.process_time()
        found = {
            (setting, quantity): (value, error[0] if error else 0.0)
            for setting, quantity, value, *error in self.compute(options)
        }
        seconds = time.process_time() - started
        published = published_numbers().get(self.name, ())
        if unknown := found.keys() - {number.key for number in published}:
            raise ParameterError("compute", sorted(unknown)[0], "a published number")
        return Reproduced(self, [Compared(n, found.get(n.key)) for n in published], seconds)


@dataclass(frozen=True, slots=True)
class Reproduced:
    """A figure or table, computed again."""

    row: Reproduction
    compared: Sequence[Compared]
    seconds: float
    """Seconds of the processor that it took."""

    def count(self, verdict: str) -> int:
        """Return how many numbers have this verdict."""
        return sum(compared.verdict == verdict for compared in self.compared)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values; numbers that there are not are null."""
        names = {"code": "authors_code", "error": "published_error"}
        numbers = []
        for c in self.compared:
            published = {names.get(name, name): v for name, v in asdict(c.published).items()}
            del published["row"]
            ours, error = c.own or (None, None)
            ratio = None if math.isnan(c.ratio) else c.ratio
            found = {"ours": ours, "standard_error": error, "ratio": ratio, "verdict": c.verdict}
            numbers.append(published | found)
        told = ("paper", "item", "what", "command", "needs", "reason")
        row = {"row": self.row.name} | {name: getattr(self.row, name) for name in told}
        return row | {"seconds": self.seconds, "numbers": numbers}


_LINES = 12
"""Numbers of a row that the page shows; the command prints all."""


def ledger_page(rows: Sequence[Reproduced], data: Sequence[str] = ()) -> str:
    """Return the page of rows, with the names of the files that were given."""
    summary = []
    for done in rows:
        counts = (str(done.count(verdict) or "–") for verdict in (AGREES, DIFFERS, MISSING))
        summary.append((f"[{done.row.name}](#{done.row.name})", done.row.what, *counts))
    headers = ("row", "shows", "agree", "differ", "need data")
    given = f"This page was made with {', '.join(data)}, which don't ship." if data else ""
    return page_text(
        "reproductions",
        allowed=ALLOWED,
        given=_wrapped(given),
        summary=Table(headers=headers, rows=summary).markdown(),
        rows="\n".join(_section(row) for row in rows),
    )


def _section(done: Reproduced) -> str:
    row = done.row
    parts = [f"## {row.name}", _wrapped(f"[{row.paper}] {row.item}: {row.what}.")]
    command = f"geoveil simulate ledger --row {row.name}"
    if row.command and not done.compared:
        command = f"geoveil {row.command.removeprefix('geoveil ')}"
    also = f"; `{row.command}` for the figure" if row.command and done.compared else ""
    parts.append(_wrapped(f"`{command}`{also}."))
    if done.compared:
        parts.append(_table(done.compared))
    parts.append(_wrapped(row.reason))
    if row.needs:
        parts.append(_wrapped(f"With `--data`: {row.needs}."))
    return "\n\n".join(parts) + "\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _table(compared: Sequence[Compared]) -> str:
    """Return all of few numbers; of many some, evenly spaced, of those that were computed."""
    shown = compared
    if len(compared) > _LINES:
        shown = evenly_spaced([c for c in compared if c.own is not None] or compared, _LINES)
    lines = [line_of(c) for c in shown]
    if len(shown) < len(compared):
        lines.append((f"… {len(compared) - len(shown)} more, by the command", *[""] * 5))
    return Table(headers=("", "paper", "code", "ours", "ratio", ""), rows=lines).markdown()


def line_of(c: Compared) -> tuple[str, ...]:
    """Return cells: what a number is of, the paper's, the code's, ours, the ratio, the verdict."""
    number = c.published
    mark = {AT_MOST: "≤ ", AT_LEAST: "≥ "}.get(number.relation, "")
    paper, code = (
        "–" if value is None else f"{mark}{value:.4g}" for value in (number.paper, number.code)
    )
    own = "–"
    if c.own is not None:
        own = f"{c.own[0]:.4g}" + (f" ± {c.own[1]:.1g}" if c.own[1] else "")
    ratio = "–" if math.isnan(c.ratio) else f"{c.ratio:.3g}"
    return f"{number.setting}: {number.quantity}", paper, code, own, ratio, c.verdict
