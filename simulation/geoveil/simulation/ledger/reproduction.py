"""What a row of the ledger is: published numbers, geoveil's of the same thing, and why they differ.

The published numbers are data: `data/published_numbers.csv` has one line for each, by row, setting
and quantity. A figure prints no numbers; where its authors' repository holds what the figure was
drawn from, or a function that can be given the same input, that is the "authors' code".
"""

import csv
import math
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from geoveil.gp import ParameterError, validation
from geoveil.simulation.experiment import page_text
from geoveil.simulation.selection.experiment import Options

EQUAL, AT_MOST, AT_LEAST = "equal", "at most", "at least"
RELATIONS = (EQUAL, AT_MOST, AT_LEAST)
AGREES, DIFFERS, MISSING = "agrees", "differs", "no data"
ALLOWED = 2.0
"""Standard errors, the published and geoveil's together, by which agreeing numbers may differ."""

Key = tuple[str, str]
"""A setting and a quantity."""
Own = tuple[float, float]
"""A number of geoveil's, and its standard error."""
Numbers = Callable[[Options], Mapping[Key, Own]]
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
    path = files("geoveil.simulation").joinpath("data", "published_numbers.csv")
    found: dict[str, list[PublishedNumber]] = {}
    for line in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
        paper, code, error = (
            float(line[name]) if line[name] else None for name in ("paper", "code", "error")
        )
        number = PublishedNumber(
            row=line["row"],
            setting=line["setting"],
            quantity=line["quantity"],
            relation=line["relation"],
            paper=paper,
            code=code,
            error=error or 0.0,
        )
        found.setdefault(number.row, []).append(number)
    return found


@dataclass(frozen=True, slots=True)
class Compared:
    """A published number beside geoveil's.

    Attributes:
        own: None if it needs data that was not given, or was not asked for.
    """

    published: PublishedNumber
    own: Own | None

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
        if published.relation != AT_LEAST and apart > open_:
            return DIFFERS
        if published.relation != AT_MOST and apart < -open_:
            return DIFFERS
        return AGREES


def nothing(options: Options) -> Mapping[Key, Own]:
    """Compute nothing: for a figure without numbers."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """One figure or table of a paper.

    Attributes:
        name: for the command line.
        paper: its key in the bibliography.
        item: the figure or table.
        what: it shows.
        reason: why numbers differ, or why there are none.
        compute: geoveil's numbers, by setting and quantity.
        command: that computes the whole figure, where there is one.
        needs: data that does not ship, if it takes any.
    """

    name: str
    paper: str
    item: str
    what: str
    reason: str
    compute: Numbers = nothing
    command: str = ""
    needs: str = ""

    def run(self, options: Options) -> "Reproduced":
        """Compute it, all of its published numbers or with `quick` a part of them."""
        return self.compared(self.own_numbers(options))

    def own_numbers(self, options: Options) -> "list[OwnNumber]":
        """Return geoveil's numbers, with what they took."""
        started = time.process_time()
        found = self.compute(options)
        seconds = time.process_time() - started
        return [OwnNumber(*key, *own, seconds) for key, own in found.items()]

    def compared(self, numbers: "Sequence[OwnNumber]") -> "Reproduced":
        """Return geoveil's numbers beside the published ones.

        Raises:
            ParameterError: if one is of nothing that is published.
        """
        found = {(own.setting, own.quantity): (own.value, own.error) for own in numbers}
        published = published_numbers().get(self.name, ())
        unknown = found.keys() - {number.key for number in published}
        if unknown:
            raise ParameterError("compute", sorted(unknown)[0], "a published number")
        compared = tuple(Compared(number, found.get(number.key)) for number in published)
        return Reproduced(self, compared, max((own.seconds for own in numbers), default=0.0))


@dataclass(frozen=True, slots=True)
class OwnNumber:
    """A number of geoveil's, as a process sends it."""

    setting: str
    quantity: str
    value: float
    error: float
    """Its standard error; 0 if it is exact."""
    seconds: float
    """Seconds of the processor that its figure or table took."""


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
        return {
            "row": self.row.name,
            "paper": self.row.paper,
            "item": self.row.item,
            "what": self.row.what,
            "command": self.row.command,
            "needs": self.row.needs,
            "reason": self.row.reason,
            "seconds": self.seconds,
            "numbers": [
                {
                    "setting": c.published.setting,
                    "quantity": c.published.quantity,
                    "relation": c.published.relation,
                    "paper": c.published.paper,
                    "authors_code": c.published.code,
                    "published_error": c.published.error,
                    "ours": None if c.own is None else c.own[0],
                    "standard_error": None if c.own is None else c.own[1],
                    "ratio": None if math.isnan(c.ratio) else c.ratio,
                    "verdict": c.verdict,
                }
                for c in self.compared
            ],
        }


_LINES = 12
"""Numbers of a row that the page shows; the command prints all."""


def ledger_page(rows: Sequence[Reproduced], data: Sequence[str] = ()) -> str:
    """Return the page.

    Args:
        rows: in the order of the ledger.
        data: names of the files that were given.
    """
    lines = ["| row | shows | agree | differ | need data |", "|---|---|---|---|---|"]
    for done in rows:
        counts = " | ".join(str(done.count(v) or "–") for v in (AGREES, DIFFERS, MISSING))
        lines.append(f"| [{done.row.name}](#{done.row.name}) | {done.row.what} | {counts} |")
    given = f"This page was made with {', '.join(data)}, which don't ship." if data else ""
    return page_text(
        "reproductions",
        allowed=ALLOWED,
        given=_wrapped(given),
        summary="\n".join(lines),
        rows="\n".join(_section(row) for row in rows),
    )


def _section(done: Reproduced) -> str:
    row = done.row
    parts = [f"## {row.name}", _wrapped(f"[{row.paper}] {row.item}: {row.what}.")]
    command = (
        row.command if row.command and not done.compared else f"simulate ledger --row {row.name}"
    )
    also = f"; `{row.command}` for the figure" if row.command and done.compared else ""
    prefix = "" if command.startswith("geoveil") else "geoveil "
    parts.append(_wrapped(f"`{prefix}{command}`{also}."))
    if done.compared:
        parts.append(_table(done.compared))
    parts.append(_wrapped(row.reason))
    if row.needs:
        parts.append(_wrapped(f"With `--data`: {row.needs}."))
    return "\n\n".join(parts) + "\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _table(compared: Sequence[Compared]) -> str:
    lines = ["| | paper | code | ours | ratio | |", "|---|---|---|---|---|---|"]
    shown = _chosen(compared)
    for c in shown:
        number = c.published
        mark = {AT_MOST: "≤ ", AT_LEAST: "≥ "}.get(number.relation, "")
        paper, code = (
            "–" if value is None else f"{mark}{value:.4g}" for value in (number.paper, number.code)
        )
        own = (
            "–" if c.own is None else f"{c.own[0]:.4g}" + (f" ± {c.own[1]:.1g}" if c.own[1] else "")
        )
        ratio = "–" if math.isnan(c.ratio) else f"{c.ratio:.3g}"
        lines.append(
            f"| {number.setting}: {number.quantity} | {paper} | {code} | {own} | {ratio}"
            f" | {c.verdict} |"
        )
    if len(shown) < len(compared):
        lines.append(f"| … {len(compared) - len(shown)} more, by the command | | | | | |")
    return "\n".join(lines)


def _chosen(compared: Sequence[Compared]) -> Sequence[Compared]:
    """Return some, evenly spaced, of those that were computed; all of few."""
    if len(compared) <= _LINES:
        return compared
    done = [c for c in compared if c.own is not None] or list(compared)
    step = max(1, (len(done) - 1) / (_LINES - 1))
    return [done[round(place * step)] for place in range(min(_LINES, len(done)))]
