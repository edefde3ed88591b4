"""The section of docs/results.md on distributions: all errors of one setting, factors of all."""

from collections.abc import Sequence
from textwrap import wrap

from geoveil.simulation.distribution.attributes import MEASURES
from geoveil.simulation.distribution.experiment import MeasuredSetting, settings
from geoveil.simulation.distribution.protocols import DEBIASED
from geoveil.simulation.experiment import page_text
from geoveil.simulation.experiments.rows import ErrorRow

_SHOWN = ("incomes", 50_000)
"""The setting that is shown in full, at its largest ε."""


def distribution_section(rows: Sequence[ErrorRow]) -> str:
    """Return the section as Markdown.

    Args:
        rows: of the experiment; settings in their order.
    """
    found = settings(rows)
    name, people = _SHOWN
    shown = [s for s in found if s.rows[0].panel.startswith(name) and s.rows[0].n == people]
    best = min(shown, key=lambda s: s.rows[0].per, default=None)
    reach, apart, worst = (_from_to(found, place) for place in range(3))
    return page_text(
        "distribution",
        repetitions=rows[0].repetitions,
        measures="\n".join(f"* {name}: {what}" for name, what in MEASURES.items()),
        shown="\n".join([*_errors(best), "", *_median(best), "", ""]) if best else "",
        debiased=DEBIASED,
        uncertainty=max(setting.uncertainty for setting in found),
        factors="\n".join(_factors(found)),
        least=min(setting.epsilon(setting.footings[-1]) for setting in found),
        reach=reach,
        apart=apart,
        worst=worst,
    )


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
