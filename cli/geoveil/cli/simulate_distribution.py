"""geoveil simulate distribution: geo-privacy beside the published protocols of ε-LDP."""

from typing import Annotated

import typer

from geoveil.cli.console import err, out, table_80
from geoveil.cli.simulate_run import RESULTS, Out, Processes, Quick, Seed, computed
from geoveil.gp import validation
from geoveil.simulation.distribution.attributes import ATTRIBUTES, MEASURES
from geoveil.simulation.distribution.experiment import (
    EPSILONS,
    PEOPLE,
    REPETITIONS,
    MeasuredSetting,
    cells,
    settings,
)
from geoveil.simulation.distribution.protocols import DEBIASED
from geoveil.simulation.experiments.rows import ErrorRow
from geoveil.simulation.result_tables import write_tables

_SHORT = ("mean", "lower", "median", "upper", "gap", "area", "bars")
"""How the table heads `MEASURES`, in their order."""


def distribution(
    population: Annotated[
        list[str] | None,
        typer.Option(help=f"One of {', '.join(ATTRIBUTES)}; may be repeated. All by default."),
    ] = None,
    participants: Annotated[
        list[int] | None, typer.Option(help="Number of people, n; may be repeated.")
    ] = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option(help="ε for values $8,000 or 500 m apart; may be repeated."),
    ] = None,
    repetitions: Annotated[
        int, typer.Option(help="How often people and noise are drawn anew, 2 or more.")
    ] = REPETITIONS,
    directory: Out = RESULTS,
    seed: Seed = 1,
    quick: Quick = False,
    processes: Processes = None,
) -> None:
    """Mean, quartiles, distribution function and histogram: geo-privacy beside ε-LDP.

    geoveil's one perturbed number of each person, against square wave, hierarchical histograms and
    the piecewise and hybrid mechanisms, each at three stated footings: distances at which ε-LDP
    promises as much. Minutes; an interrupted run goes on where it stopped.

    Example: geoveil simulate distribution --population incomes --participants 50000 --epsilon 1
    """
    for name in population or ():
        validation.choice("population", name, ATTRIBUTES)
    for n in participants or ():
        validation.between("participants", n, 1, 10_000_000)
    asked = cells(
        population or tuple(ATTRIBUTES),
        epsilon or (EPSILONS[-1:] if quick else EPSILONS),
        participants or (PEOPLE[:1] if quick else PEOPLE),
        min(repetitions, 5) if quick else repetitions,
        seed,
    )
    rows = computed("distribution", asked, directory, processes)
    files = write_tables(rows, directory / "distribution", seed)
    _show(rows)
    for file in files:
        err.print(f"written: {file}")


def _show(rows: list[ErrorRow]) -> None:
    found = settings(rows)
    for setting in found:
        table = table_80(
            "error, root mean square",
            *_SHORT,
            right=range(1, 1 + len(_SHORT)),
            title=setting.title,
            title_justify="left",
        )
        for name in setting.mechanisms(None):
            table.add_row(name, *_errors(setting, name, None))
        for footing in setting.footings:
            table.add_section()
            table.add_row(f"ε-LDP ε={setting.epsilon(footing):.3g} at {footing:,g}")
            for name in setting.mechanisms(footing):
                table.add_row(name, *_errors(setting, name, footing))
            ahead = (setting.ahead(DEBIASED, footing, measure) for measure in MEASURES)
            table.add_row("the best ÷ debiased", *(f"{factor:.2g}×" for factor in ahead))
        out.print(table)
    out.print(
        "lower, upper: quartiles. gap, area: between the distribution functions. bars: what the"
        " shares of 32 bars differ by, added up and halved. Mean, quartiles and area are in the"
        " unit of the numbers. 'ε-LDP ε=5 at 40,000' promises as much as geo-privacy to two numbers"
        " so far apart, less to nearer ones, more to farther ones. 'the best ÷ debiased' is above 1"
        f" where '{DEBIASED}' is ahead of the best of them, and below 1 where it is not; an error"
        " with * is smaller than its. Monte Carlo standard error: up to"
        f" {max(s.uncertainty for s in found):.0%} of an error."
    )


def _errors(setting: MeasuredSetting, mechanism: str, footing: float | None) -> list[str]:
    """Return the errors of a mechanism, marked where geo-privacy's is larger."""
    told = []
    for measure in MEASURES:
        row, ours = (setting.row(*key, measure) for key in ((mechanism, footing), (DEBIASED, None)))
        assert ours is not None
        if row is None:
            told.append("–")
        else:
            told.append(
                _digits(row.error**0.5) + "*" * (footing is not None and row.error < ours.error)
            )
    return told


def _digits(error: float) -> str:
    """Return an error to two digits; a share in percent."""
    return f"{float(f'{error:.2g}'):,g}" if error >= 1 else f"{100 * error:.2g}%"
