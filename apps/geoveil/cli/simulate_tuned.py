"""geoveil simulate tuned: compare the paper's mechanism at its own best with geoveil's."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from geoveil.cli.console import out, print_table
from geoveil.cli.simulate_experiments import Quick
from geoveil.gp import validation
from geoveil.simulation.experiments.tuned import (
    CAUCHY,
    STUDENT_T,
    densities,
    pairs,
    thresholds,
    tuned_table,
)

_NOISES = {"student-t": STUDENT_T, "generalized-cauchy": CAUCHY}


def tuned(
    quick: Quick = False,
    noise: Annotated[
        str, typer.Option(help="The paper's noise: student-t or generalized-cauchy.")
    ] = "student-t",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """Print the ratio of the paper's noise to geoveil's, as published and tuned.

    The command tunes the shape of Student-t noise, ν, or of generalized Cauchy noise, γ, and the
    split of ε on the people of the experiment. It takes a threshold on incomes first. Without
    --quick it then compares the whole error of pairs of thresholds and of densities, which takes
    two to three minutes.

    Example: geoveil simulate tuned --quick
    """
    peer = validation.choice("noise", noise, _NOISES)
    settings = {"thresholds": thresholds(noise=_NOISES[peer])}
    if not quick:
        settings["pairs"] = pairs(noise=_NOISES[peer])
        settings["densities"] = densities(noise=_NOISES[peer])
    if as_json:
        content = {name: [asdict(s) for s in rows] for name, rows in settings.items()}
        out.print_json(json.dumps(content))
        return
    for rows in settings.values():
        compared = tuned_table(rows, "γ" if _NOISES[peer] == CAUCHY else "ν")
        print_table(compared.headers, compared.rows, right=range(1, len(compared.headers)))
