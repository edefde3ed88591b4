"""Rows of the ledger: published numbers, geoveil's, and reasons for differences.

`data/published_numbers.csv` has one line per number, with its place and origin. A statement that
orders two quantities is also a number: their ratio is at most 1, or their difference at least 0.
"""

import math
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from statistics import NormalDist
from typing import Any, Self

from geoveil.gp import ParameterError, validation
from geoveil.simulation.experiment import Table, grouped, page_text, read_csv
from geoveil.simulation.selection.experiment import Options, evenly_spaced

EQUAL, AT_MOST, AT_LEAST = "equal", "at most", "at least"
RELATIONS = (EQUAL, AT_MOST, AT_LEAST)
PRINTED = "printed"
KINDS = (PRINTED, "stated", "read off a figure", "stored", "re-run")
"""Printed; an order or bound in a text; read off a figure; stored with the authors' code; or
computed by a new run of that code."""
AGREES, DIFFERS, CANT_TELL, UNTESTED = "agrees", "differs", "can't tell", "not tested"
VERDICTS = (AGREES, DIFFERS, CANT_TELL, UNTESTED)
ALLOWED = 2.0
"""The largest difference of agreeing numbers, in joint standard errors."""
EFFECT, POWER = 0.25, 0.8
"""Agreement is inconclusive if the test has less than this power at this relative difference."""
_EFFECT_AT_ZERO = 0.05

Told = tuple[str, str, float] | tuple[str, str, float, float]
"""A setting, a quantity, geoveil's number, and its standard error if it is not exact."""
Numbers = Callable[[Options], Iterable[Told]]
"""Computes geoveil's numbers of a figure or table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedNumber:
    """A published number, or a statement as a bound, with geoveil's number.

    Attributes:
        relation: one of `RELATIONS`, of geoveil's number to the published one.
        kind: one of `KINDS`.
        source: [paper] and place in it, or repository@commit:file.
        error: the standard error, or an allowance for rounding.
        why: the reason why it can't be tested; empty if it can.
        own: geoveil's number and its standard error; None if not computed.

    Raises:
        ParameterError: if it has no source, or an unknown relation or kind.
    """

    row: str
    setting: str
    quantity: str
    relation: str
    value: float
    kind: str
    source: str
    error: float
    why: str = ""
    own: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        validation.choice("relation", self.relation, RELATIONS)
        validation.choice("kind", self.kind, KINDS)
        if not self.source:
            raise ParameterError("source", self.source, "where the number stands")

    @property
    def key(self) -> tuple[str, str]:
        """Its setting and quantity."""
        return self.setting, self.quantity

    @property
    def ratio(self) -> float:
        """Geoveil's number over the published one; NaN without the former or if the latter is 0."""
        return self.own[0] / self.value if self.own and self.value else math.nan

    @property
    def _spread(self) -> float:
        """The standard error of the difference; for a bound, of geoveil's number."""
        assert self.own is not None
        return math.hypot(self.error if self.relation == EQUAL else 0.0, self.own[1])

    @property
    def power(self) -> float:
        """The probability of detecting a relative difference of `EFFECT`, or 0.05 from a 0."""
        if self.own is None or not self._spread:
            return 1.0
        effect = EFFECT * abs(self.value) or _EFFECT_AT_ZERO
        return NormalDist().cdf(effect / self._spread - ALLOWED)

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`: whether they agree within `ALLOWED` standard errors."""
        if self.own is None:
            return UNTESTED
        apart = self.own[0] - self.value
        open_ = ALLOWED * math.hypot(self.error, self.own[1]) + 1e-9 * abs(self.value)
        too_large = self.relation != AT_LEAST and apart > open_
        too_small = self.relation != AT_MOST and apart < -open_
        if too_large or too_small:
            return DIFFERS
        if self.relation == EQUAL:
            return CANT_TELL if self.power < POWER else AGREES
        return CANT_TELL if self._spread and abs(apart) <= ALLOWED * self._spread else AGREES


@lru_cache(maxsize=1)
def published_numbers() -> Mapping[str, Sequence[PublishedNumber]]:
    """Return the published numbers by row of the ledger."""
    file = Path(str(files("geoveil.simulation"))) / "data" / "published_numbers.csv"
    return grouped(read_csv(file, PublishedNumber), "row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """One figure or table of a paper, and its result.

    Attributes:
        name: its name on the command line.
        paper: the paper's key in the bibliography.
        item: the figure or table.
        what: the content of the figure or table.
        reason: why numbers differ, or why there are none.
        compute: computes geoveil's numbers, if any; processes import the function by name.
        command: computes the whole figure or table, if there is such a command.
        needs: data that does not ship, if any.
        compared: all published numbers; empty before a run.
        seconds: the processor time of the run.
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
        """Its kind: figure, table, or part of the text."""
        return self.item.split()[0].lower()

    def run(self, options: Options) -> Self:
        """Return the row with geoveil's numbers; `quick` computes only some.

        Raises:
            ParameterError: if a number has no published counterpart that can be tested.
        """
        started = time.process_time()
        own_numbers = {
            (setting, quantity): (value, error[0] if error else 0.0)
            for setting, quantity, value, *error in (self.compute(options) if self.compute else ())
        }
        seconds = time.process_time() - started
        published = published_numbers().get(self.name, ())
        if unknown := own_numbers.keys() - {number.key for number in published if not number.why}:
            raise ParameterError("compute", sorted(unknown)[0], "a published number")
        numbers = [replace(number, own=own_numbers.get(number.key)) for number in published]
        return replace(self, compared=numbers, seconds=seconds)

    def count(self, verdict: str, *kinds: str) -> int:
        """Return how many numbers of these kinds, by default all, have a verdict."""
        among = [c for c in self.compared if not kinds or c.kind in kinds]
        return sum(compared.verdict == verdict for compared in among)

    @property
    def untested(self) -> Sequence[str]:
        """The distinct reasons why numbers can't be tested."""
        return [*dict.fromkeys(c.why for c in self.compared if c.why and c.own is None)]

    def as_json(self) -> dict[str, Any]:
        """Return JSON values; missing numbers are null."""
        numbers = []
        for c in self.compared:
            published = asdict(c)
            del published["row"], published["own"]
            ours, error = c.own or (None, None)
            ratio = None if math.isnan(c.ratio) else c.ratio
            measured = {"ours": ours, "standard_error": error, "ratio": ratio, "verdict": c.verdict}
            numbers.append(published | measured | {"power": c.power})
        names = ("paper", "item", "what", "command", "needs", "reason", "seconds")
        row = {"row": self.name} | {name: getattr(self, name) for name in names}
        return row | {"numbers": numbers}


_LINES = 12
"""The most numbers per row on the page; the command prints all."""


def summary_of(rows: Sequence[Reproduction]) -> Table:
    """Return the number of published numbers by kind and verdict, printed ones first."""
    counts = [[sum(r.count(v, kind) for r in rows) for v in VERDICTS] for kind in KINDS]
    cells = [(k, *(str(n or "–") for n in c)) for k, c in zip(KINDS, counts, strict=True)]
    return Table(headers=("numbers", *VERDICTS), rows=cells, right=range(1, 5))


def ledger_page(rows: Sequence[Reproduction], data: Sequence[str] = ()) -> str:
    """Return the page of rows; it names the data files that were given."""
    others = KINDS[1:]
    lines = [
        (f"[{row.name}](#{row.name})", row.what, _counts(row, PRINTED), _counts(row, *others))
        for row in rows
    ]
    headers = ("row", "shows", "printed", "other")
    given = f"This page was made with {', '.join(data)}, which don't ship." if data else ""
    return page_text(
        "reproductions",
        allowed=ALLOWED,
        effect=100 * EFFECT,
        power=100 * POWER,
        given=_wrapped(given),
        kinds=summary_of(rows).markdown(),
        summary=Table(headers=headers, rows=lines).markdown(),
        rows="\n".join(_section(row) for row in rows),
    )


def _counts(row: Reproduction, *kinds: str) -> str:
    """Return the counts of verdicts: "3 agrees, 1 differs"."""
    counts = ((row.count(verdict, *kinds), verdict) for verdict in VERDICTS)
    return ", ".join(f"{count} {verdict}" for count, verdict in counts if count) or "–"


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
    parts += [_wrapped(f"Not tested: {why}") for why in row.untested]
    if row.needs:
        parts.append(_wrapped(f"With `--data`: {row.needs}."))
    return "\n\n".join(parts) + "\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


HEADERS = ("setting: quantity", "kind", "published", "ours", "ratio", "verdict")


def _table(compared: Sequence[PublishedNumber]) -> str:
    """Return a table of all numbers or, if there are many, of some evenly spaced computed ones."""
    shown = compared
    if len(compared) > _LINES:
        shown = evenly_spaced([c for c in compared if c.own is not None] or compared, _LINES)
    lines = [(*line_of(c), c.source.replace("|", "/")) for c in shown]
    if len(shown) < len(compared):
        lines.append((f"… {len(compared) - len(shown)} more, by the command", *[""] * 6))
    return Table(headers=(*HEADERS, "source"), rows=lines).markdown()


def line_of(c: PublishedNumber) -> tuple[str, ...]:
    """Return one cell for each of `HEADERS`."""
    mark = {AT_MOST: "≤ ", AT_LEAST: "≥ "}.get(c.relation, "")
    own = "–"
    if c.own is not None:
        own = f"{c.own[0]:.4g}" + (f" ± {c.own[1]:.1g}" if c.own[1] else "")
    ratio = "–" if math.isnan(c.ratio) else f"{c.ratio:.3g}"
    powerless = c.verdict == CANT_TELL and c.relation == EQUAL
    verdict = c.verdict + (f" (power {c.power:.2f})" if powerless else "")
    return f"{c.setting}: {c.quantity}", c.kind, f"{mark}{c.value:.4g}", own, ratio, verdict
