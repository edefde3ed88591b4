"""geoveil simulate tuned: the paper's mechanism at its own best, beside geoveil's."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from geoveil.cli.console import out, table_80
from geoveil.cli.simulate_experiments import Quick
from geoveil.simulation.experiments.tuned import densities, pairs, thresholds, tuned_table


def tuned(
    quick: Quick = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """How many times geoveil's noise the paper's Student-t has, as published and tuned.

    Tuned are the degrees of freedom and the split of ε, on the people of the experiment. One
    threshold on incomes first, then, without --quick, pairs of thresholds and densities, whose
    whole error is compared: two to three minutes.

    Example: geoveil simulate tuned --quick
    """
    found = {"thresholds": thresholds()}
    if not quick:
        found |= {"pairs": pairs(), "densities": densities()}
    if as_json:
        told = {name: [asdict(s) for s in rows] for name, rows in found.items()}
        out.print_json(json.dumps(told))
        return
    for rows in found.values():
        compared = tuned_table(rows)
        shown = table_80(*compared.headers, right=range(1, len(compared.headers)))
        for row in compared.rows:
            shown.add_row(*row)
        out.print(shown)
