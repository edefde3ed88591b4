"""docs/reproductions.md: the ledger as a page."""

import math
import textwrap
from collections.abc import Sequence

from geoveil.simulation.experiment import page_text
from geoveil.simulation.ledger.reproduction import (
    AGREES,
    ALLOWED,
    AT_LEAST,
    AT_MOST,
    DIFFERS,
    MISSING,
    Compared,
    Reproduced,
)

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
