"""The section of docs/results.md on answers over time."""

from collections.abc import Sequence

from geoveil.simulation.epochs.experiment import FRESH, SHOCKED, EpochRow, table
from geoveil.simulation.experiment import Table

_HEAD = """## Over time: one perturbed number an epoch

```sh
geoveil simulate epochs
```

![A shock, seen by devices that read their value once a year and once a quarter](images/epochs.png)

A question about incomes is asked every week for a year. With noise of its own each answer costs
another ε, 52 in a year. A device can instead read its value once an epoch, in a week of the epoch
that it draws, perturb it once, and answer every week from that point: one ε an epoch
([proof](mathematics.md#13-over-time-one-perturbed-value-an-epoch)). "Carried" repeats the answer;
"extrapolated" adds what it changed since the last epoch, in proportion to its age; "cohort alone"
are the devices that read in that very week. Incomes are Californian households', each raised by 3 %
± 8 % a year in a week of its own; ε = 1 per $8,000 a reading, a smoothstep of $32,000, n =
{people:,}, {runs}. An error is a root mean square over weeks, against the participants' own mean,
so that sampling is in the first line only. Coverage: of the population's mean, by 95 % intervals of
extrapolated answers, ± its standard error, which is that between runs: the weeks of a run hang
together. After a shock: the eight weeks after one household in twenty lost half, of {struck} runs.

"""

_NOTES = """
* **At 1 ε a year instead of 52**, extrapolated answers have {least:.1f} to {most:.1f} times the
  error of fresh noise, and less than sampling; what is carried is half a year old on average, and
  biased by it. Splitting 1 ε over the weeks has {split:,.0f} times the error of extrapolating.
* **A shock is seen late**: by those who have read since. So each week's cohort is compared with
  those before it, by how much its own answers changed since its last epoch, in which differences
  between people drop out. A flag says that extrapolated answers should not be trusted: "13 weeks,
  95 %" is the delay stated beforehand for a probability of 0.9, and how often it was kept. Of years
  without a shock, in which 1 % may be flagged, {alarms:.1%} were.
"""


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
    head = _HEAD.format(people=rows[0].n, runs=f"{runs:,} runs", struck=min(runs, SHOCKED))
    notes = _NOTES.format(
        least=min(factors), most=max(factors), split=min(worst), alarms=sum(alarms) / len(alarms)
    )
    return head + shown.markdown() + "\n" + notes
