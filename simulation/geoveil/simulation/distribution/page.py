"""The section of docs/results.md on distributions: all errors of one setting, factors of all."""

from collections.abc import Sequence
from textwrap import wrap

from geoveil.simulation.distribution.attributes import MEASURES
from geoveil.simulation.distribution.experiment import MeasuredSetting, settings
from geoveil.simulation.distribution.protocols import DEBIASED
from geoveil.simulation.experiments.rows import ErrorRow

_SHOWN = ("incomes", 50_000)
"""The setting that is shown in full, at its largest ε."""

_HEAD = """## Distributions, beside ε-LDP at equal footings

```sh
geoveil simulate distribution
```

What one report of each person tells of a whole distribution: its mean, quartiles, distribution
function and a histogram of 32 bars. geoveil's report is the number plus Laplace noise, nothing
else. "Debiased" is what an analyst is told by default, soft thresholds of three noise scales;
"adapted" has thresholds of order 4 whose widths are chosen from the same reports; "EMS" is smoothed
expectation-maximisation. Beside it are the published protocols of ε-LDP: square wave with EMS,
hierarchical histograms asked by optimised unary encoding (OUE) or optimised local hashing (OLH),
and for means the piecewise and hybrid mechanisms. Incomes are Californian households', of interest
up to $524,288; "collisions" is how far north of the centre collisions happened in New York, within
49,152 m.

Each is at three [equal footings](guarantees.md#against-ε-ldp-an-equal-footing): it promises as much
as geo-privacy to two numbers that far apart, less to nearer ones, more to farther ones; the last is
the width of the whole range. Everything is drawn, people and noise, {repetitions} times; errors
are root mean squares against the truth of the whole population, so that sampling is in them, and ±
is their Monte Carlo standard error.

{measures}
"""

_FACTORS = """How far ahead "{debiased}" is: the error of the best protocol of ε-LDP for that
measure, divided by its error. Below 1, **bold**, ε-LDP is ahead. Monte Carlo standard errors of an
error are up to {uncertainty:.0%} of it.
"""

_NOTES = """* **The same within reach** (equal at $8,000 or 500 m): ε-LDP hides all pairs as well as
  geo-privacy hides near ones, and pays for it: factors from {reach}.
* **The same ability to tell** numbers $40,000 or 2,500 m apart: factors from {apart}.
* **The same worst case** (equal at the whole range): ε-LDP hides next to nothing, as its ε is
  {least:.3g} or more, and what is left is sampling: factors from {worst}.
* Some quartiles of incomes are nearer the truth from noisy reports than in the clear: incomes are
  heaped at round numbers, and a sample's quartile jumps from heap to heap.
* Protocols of ε-LDP need the range to be known before anybody answers, and cap what is beyond: 2.6
  % of incomes. The square wave's smoothing spreads that pile, which is most of its largest gap
  there.
* Square wave and EMS are biased, and so are thresholds by their softness. Three noise scales are
  too wide a band where ε is small: adapted thresholds are nearer the truth there.
"""


def distribution_section(rows: Sequence[ErrorRow]) -> str:
    """Return the section as Markdown.

    Args:
        rows: of the experiment; settings in their order.
    """
    found = settings(rows)
    name, people = _SHOWN
    shown = [s for s in found if s.rows[0].panel.startswith(name) and s.rows[0].n == people]
    measures = "\n".join(f"* {name}: {what}" for name, what in MEASURES.items())
    parts = [_HEAD.format(repetitions=rows[0].repetitions, measures=measures)]
    if shown:
        best = min(shown, key=lambda s: s.rows[0].per)
        parts += [*_errors(best), "", *_median(best), ""]
    uncertainty = max(setting.uncertainty for setting in found)
    parts += [_FACTORS.format(debiased=DEBIASED, uncertainty=uncertainty), *_factors(found), ""]
    reach, apart, worst = (_from_to(found, place) for place in range(3))
    least = min(setting.epsilon(setting.footings[-1]) for setting in found)
    notes = _NOTES.format(least=least, reach=reach, apart=apart, worst=worst)
    return "\n".join([*parts, notes])


def _from_to(found: Sequence[MeasuredSetting], place: int) -> str:
    """Return the least and the greatest factor at one of the footings."""
    factors = [s.ahead(DEBIASED, s.footings[place], m) for s in found for m in MEASURES]
    return f"{min(factors):.2g} to {max(factors):.2g}"


def _errors(setting: MeasuredSetting) -> list[str]:
    lines = [
        f"{setting.title}:",
        "",
        "| | " + " | ".join(MEASURES) + " |",
        "|---|" + "---|" * len(MEASURES),
    ]
    for footing in (None, *setting.footings):
        if footing is not None:
            title = f"*ε-LDP, ε = {setting.epsilon(footing):.3g}: equal at {footing:,g}*"
            lines.append(f"| {title} |" + " |" * len(MEASURES))
        for mechanism in setting.mechanisms(footing):
            told = (setting.row(mechanism, footing, measure) for measure in MEASURES)
            lines.append(f"| {mechanism} | " + " | ".join(map(_cell, told)) + " |")
    return lines


def _cell(row: ErrorRow | None) -> str:
    if row is None:
        return "–"
    error = row.error**0.5
    spread = row.standard_error / (2 * error)
    if error >= 1:
        return f"{error:,.0f} ± {spread:,.0f}"
    return f"{error:.4f} ± {spread:.4f}"


def _median(setting: MeasuredSetting) -> list[str]:
    ours = setting.row(DEBIASED, None, "median")
    assert ours is not None
    factors = [
        f"{setting.ahead(DEBIASED, footing, 'median'):.2g} (equal at ${footing:,g})"
        for footing in setting.footings
    ]
    text = (
        f"So the median income of {ours.n:,} Californians is off by ${ours.error**0.5:,.0f}, root"
        " mean square. The best protocol of ε-LDP is off by so many times as much:"
        f" {', '.join(factors)}."
    )
    return wrap(text, 100)


def _factors(found: Sequence[MeasuredSetting]) -> list[str]:
    lines = [
        "| setting | equal at | " + " | ".join(MEASURES) + " |",
        "|---|---|" + "---|" * len(MEASURES),
    ]
    for setting in found:
        for footing in setting.footings:
            ahead = (setting.ahead(DEBIASED, footing, measure) for measure in MEASURES)
            cells = (f"**{a:.2g}**" if a < 1 else f"{a:.2g}" for a in ahead)
            lines.append(f"| {setting.title} | {footing:,g} | " + " | ".join(cells) + " |")
    return lines
