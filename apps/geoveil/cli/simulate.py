"""geoveil simulate: experiments, simulated devices, and simulation at scale."""

import typer

from geoveil.cli.simulate_experiments import (
    distribution,
    epochs,
    kde,
    oneway,
    relations,
    results,
    selection,
    twoway,
)
from geoveil.cli.simulate_fleet import fleet
from geoveil.cli.simulate_ledger import ledger, tuned
from geoveil.cli.simulate_scale import bulk, export, scale

app = typer.Typer(
    help="Repeat the experiments of Liang and Yi (CCS 2024) with geoveil's mechanisms too; send"
    " reports of simulated devices; simulate campaigns of any size.",
    no_args_is_help=True,
)
for command in (
    *(oneway, twoway, kde, distribution, epochs, relations, selection),
    *(ledger, tuned, results, scale, export, bulk, fleet),
):
    app.command()(command)
