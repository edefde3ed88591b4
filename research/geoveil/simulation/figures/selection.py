"""The figures of private selection: the success of mechanisms over ε."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from geoveil.campaign import rounded_up
from geoveil.simulation.experiment import grouped
from geoveil.simulation.figures.style import Line, draw_lines
from geoveil.simulation.selection.experiment import NOMINAL, OPEN, SelectionRow


def draw_selection(
    rows: Sequence[SelectionRow],
    file: Path,
    *,
    title: str = "",
    unit: str = "",
    linear_below: float | None = None,
) -> list[Path]:
    """Draw a figure for each measure, beside a file, and return the files.

    The papers' mechanisms are dashed, at their nominal ε; a note states their proved ε. Values are
    on a logarithmic axis, which is linear below `linear_below`.
    """
    measures = grouped(rows, "measure", "application")
    files = []
    for (measure, _), measured in measures.items():
        end = f"-{measure.replace(' ', '-')}" if len(measures) > 1 else ""
        files.append(file.with_stem(f"{file.stem}{end}"))
        lines = {
            f"{dataset}, {setting}": [
                _line(sorted(group, key=lambda row: row.epsilon))
                for group in grouped(own, "mechanism", "standing").values()
            ]
            for (dataset, setting), own in grouped(measured, "dataset", "setting").items()
        }
        kept = [
            _kept(group)
            for (standing, _), group in grouped(measured, "standing", "mechanism").items()
            if standing == NOMINAL
        ]
        note = "as printed, of the nominal ε is proved: " + "; ".join(kept) if kept else ""
        draw_lines(
            lines,
            files[-1],
            x_label="ε (nats)",
            y_label=f"{measure} ({unit})" if unit else measure,
            title=title,
            note=fill(note, 110),
            linear_below=linear_below,
        )
    return files


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
    """Return, in words, the least and the greatest proved ε in a mechanism's rows."""
    ratios = [row.proved_epsilon / row.epsilon for row in rows]
    low, high = (f"{rounded_up(f(ratios), 3):g}" for f in (min, max))
    most = max(row.delta for row in rows)
    between = "nothing" if low == "inf" else f"{low} ε" if low == high else f"{low} to {high} ε"
    return f"{rows[0].mechanism} {between}" + (f" with δ ≤ {rounded_up(most, 1):g}" if most else "")
