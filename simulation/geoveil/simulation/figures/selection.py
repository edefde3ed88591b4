"""The figures of private selection: what mechanisms find, over ε."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from geoveil.simulation.figures.style import Line, draw_lines
from geoveil.simulation.selection.experiment import NOMINAL, OPEN, SelectionRow, mechanisms, panels


def draw_selection(
    rows: Sequence[SelectionRow],
    file: Path,
    *,
    title: str = "",
    unit: str = "",
    linear_below: float | None = None,
) -> None:
    """Draw the value against ε: the papers' own dashed, at their nominal ε, and what they keep.

    The value's axis turns from logarithmic to linear at `linear_below`; all of it without.
    """
    lines: dict[str, list[Line]] = {}
    for dataset, setting in panels(rows):
        own = [row for row in rows if (row.dataset, row.setting) == (dataset, setting)]
        lines[f"{dataset}, {setting}"] = [
            _line(sorted(found, key=lambda row: row.epsilon))
            for key in mechanisms(own)
            for found in [[row for row in own if (row.mechanism, row.standing) == key]]
        ]
    printed = [key for key in mechanisms(rows) if key[1] == NOMINAL]
    kept = [_kept([r for r in rows if (r.mechanism, r.standing) == key]) for key in printed]
    note = "as printed, of the nominal ε is proved: " + "; ".join(kept) if kept else ""
    measure = rows[0].measure
    draw_lines(
        lines,
        file,
        x_label="ε (nats)",
        y_label=f"{measure} ({unit})" if unit else measure,
        title=title,
        note=fill(note, 110),
        linear_below=linear_below,
        log=False,
    )


def _line(rows: Sequence[SelectionRow]) -> Line:
    errors = [row.standard_error for row in rows]
    return Line(
        rows[0].mechanism,
        [row.epsilon for row in rows],
        [row.value for row in rows],
        errors if any(errors) else None,
        printed=rows[0].standing == NOMINAL,
        level=rows[0].standing == OPEN,
    )


def _kept(rows: Sequence[SelectionRow]) -> str:
    """Return what is proved of a mechanism as printed: least and most of all its rows."""
    ratios = [row.proved_epsilon / row.epsilon for row in rows]
    low, high = (f"{f(ratios):.3g}" for f in (min, max))
    most = max(row.delta for row in rows)
    between = "nothing" if low == "inf" else f"{low} ε" if low == high else f"{low} to {high} ε"
    return f"{rows[0].mechanism} {between}" + (f" with δ ≤ {most:.0e}" if most else "")
