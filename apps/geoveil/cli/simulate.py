"""geoveil simulate: experiments, simulated devices, and simulation at scale; a module for each."""

import typer

from geoveil.cli import (
    simulate_experiments,
    simulate_fleet,
    simulate_ledger,
    simulate_scale,
    simulate_tuned,
)

app = typer.Typer(
    help="Repeat the experiments of Liang and Yi (CCS 2024) with geoveil's mechanisms too; send"
    " reports of simulated devices; simulate campaigns of any size.",
    no_args_is_help=True,
)
app.command("oneway")(simulate_experiments.oneway)
app.command("twoway")(simulate_experiments.twoway)
app.command("kde")(simulate_experiments.kde)
app.command("distribution")(simulate_experiments.distribution)
app.command("epochs")(simulate_experiments.epochs)
app.command("relations")(simulate_experiments.relations)
app.command("selection")(simulate_experiments.selection)
app.command("ledger")(simulate_ledger.ledger)
app.command("tuned")(simulate_tuned.tuned)
app.command("results")(simulate_experiments.results)
app.command("scale")(simulate_scale.scale)
app.command("export")(simulate_scale.export)
app.command("bulk")(simulate_scale.bulk)
app.command("fleet")(simulate_fleet.fleet)
