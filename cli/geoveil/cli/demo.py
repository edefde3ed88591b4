"""geoveil demo: the whole path once, on real data."""

import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from geoveil.analyst import AnalystClient, LabelledEstimate
from geoveil.cli import options
from geoveil.cli.console import bars, err, number, out, table_80
from geoveil.client import GrpcAioTransport, Policy
from geoveil.gp import ParameterError, validation
from geoveil.simulation.comparison import PopulationError
from geoveil.simulation.demo import Experiment, experiments
from geoveil.simulation.fleet import run_fleet
from geoveil.simulation.local_server import local_server


def demo(
    devices: Annotated[
        int, typer.Option(help="Simulated devices, half for each question.")
    ] = 20_000,
    figure: Annotated[Path, typer.Option(help="Where the figure goes (PNG).")] = Path("demo.png"),
    seed: Annotated[
        int | None,
        typer.Option(help="Draws the same participants again; their noise is always fresh."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Real incomes and places in, unbiased estimates out, through the real server and SDK.

    Starts an aggregator, creates two campaigns, lets every simulated device perturb the value of a
    real household or collision and submit it, and compares the estimates with the truth.
    """
    validation.between("devices", devices, 40, 10_000_000)
    if not figure.parent.is_dir():
        raise ParameterError("figure", str(figure), "in a directory that exists")
    started = time.monotonic()
    rng = np.random.default_rng(seed)
    asked = experiments()
    err.print(
        f"{devices:,} devices; the values are real, and never leave their device in the clear"
    )
    with (
        tempfile.TemporaryDirectory(prefix="geoveil-demo-") as folder,
        local_server(Path(folder) / "aggregator.db") as server,
        AnalystClient(server) as analyst,
    ):
        err.print(f"aggregator at {server}, SQLite")
        for experiment in asked:
            analyst.create(experiment.campaign)
        asyncio.run(_contribute(server, asked, devices, rng))
        ids = [experiment.campaign.campaign_id for experiment in asked]
        estimates = [row for name in ids for row in analyst.estimate(name).estimates]
    with err.status("computing what other mechanisms would give"):
        truths = [truth for experiment in asked for truth in experiment.truths]
        predictions = [p for experiment in asked for p in experiment.predictions()]
    if as_json:
        rows = [
            {"truth": truth} | row.to_json() for truth, row in zip(truths, estimates, strict=True)
        ]
        typer.echo(json.dumps({"campaigns": rows}, indent=2))
    else:
        _print_estimates(asked, estimates, truths)
        _print_competitors(estimates, predictions)
    _draw(asked, estimates, truths, predictions, figure)
    err.print(f"figure: {figure}; {time.monotonic() - started:.0f} s in all")


async def _contribute(
    server: str, asked: list[Experiment], devices: int, rng: np.random.Generator
) -> None:
    """Let everybody take part, under a progress bar."""
    transport = GrpcAioTransport(server)
    try:
        with bars(counted=True) as progress:
            counts = [devices - devices // 2, devices // 2]
            for experiment, count in zip(asked, counts, strict=True):
                campaign = experiment.campaign
                task = progress.add_task(campaign.title, total=count)
                await run_fleet(
                    campaign.campaign_id,
                    experiment.participants(count, rng),
                    transport=transport,
                    policy=Policy.permitting(campaign),
                    on_report=lambda task=task: progress.advance(task),  # type: ignore[misc]
                )
    finally:
        await transport.aclose()


def _print_estimates(
    asked: list[Experiment], estimates: list[LabelledEstimate], truths: list[float]
) -> None:
    table = table_80("", "truth", "estimate", "95 % interval", "n", "ε of each device")
    privacies = [e.campaign.report_privacy for e in asked for _ in e.campaign.questions]
    for row, truth, privacy in zip(estimates, truths, privacies, strict=True):
        table.add_row(
            row.label,
            number(truth),
            out.styled((number(row.value), "bold")),
            f"{number(row.ci_low)}–{number(row.ci_high)}",
            f"{row.n:,}",
            f"{privacy.epsilon:g} per {privacy.per:,g} {privacy.unit}",
        )
    out.print(table)


def _print_competitors(
    estimates: list[LabelledEstimate], predictions: list[list[PopulationError]]
) -> None:
    names = [p.mechanism for p in predictions[0]]
    table = table_80("standard error", *names)
    for row, competitors in zip(estimates, predictions, strict=True):
        ours = competitors[0].noise_variance
        cells = [
            f"{number(p.standard_error(row.n))} {p.noise_variance / ours:4.3g}×"
            for p in competitors
        ]
        table.add_row(row.label, number(competitors[0].standard_error(row.n)), *cells[1:])
    out.print(table)
    out.print(
        "The truth is the mean of the soft query over the population. DebiasedLaplace ran here;"
        " the seed paper's Student-t mechanism and Lipschitz-Laplace would have the same ε per"
        " distance; ε-LDP has another promise, the paper's ε of 3 and 2 between any two values."
        " Shown are the standard error at the same n, noise and sampling together, and the noise's"
        " variance against DebiasedLaplace."
    )


def _draw(
    asked: list[Experiment],
    estimates: list[LabelledEstimate],
    truths: list[float],
    predictions: list[list[PopulationError]],
    file: Path,
) -> None:
    from geoveil.simulation.figures.demo import DemoRow, draw_demo

    rows = [
        DemoRow(
            row.label,
            truth,
            row.value or 0.0,
            row.ci_low or 0.0,
            row.ci_high or 0.0,
            row.n,
            competitors,
        )
        for row, truth, competitors in zip(estimates, truths, predictions, strict=True)
    ]
    draw_demo(asked[0], asked[1], rows, file)
