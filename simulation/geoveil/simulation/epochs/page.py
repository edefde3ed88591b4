"""The section of docs/results.md on answers over time."""

from collections.abc import Sequence

from geoveil.simulation.epochs.experiment import FRESH, SHOCKED, EpochRow, table
from geoveil.simulation.experiment import Table, page_text


def epochs_section(rows: Sequence[EpochRow]) -> str:
    """Return the section as Markdown.

    Args:
        rows: of the experiment, thresholds in their order.
    """
    parts = {
        t: table([row for row in rows if row.threshold == t]) for t in (r.threshold for r in rows)
    }
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
