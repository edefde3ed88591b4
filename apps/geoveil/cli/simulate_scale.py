"""geoveil simulate scale, export, bulk: campaigns of any size, on this machine or a cluster."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Annotated, Any

import typer

from geoveil.campaign import AttributeCampaign, privacy_text
from geoveil.cli import options
from geoveil.cli.console import bars, number, out, print_json, print_table
from geoveil.cli.plain_errors import for_operators
from geoveil.gp import Accumulator, estimate
from geoveil.simulation.scale import (
    computer,
    estimate_record,
    export_reports,
    exported,
    simulated,
    threshold_asked,
    total,
)

Workers = Annotated[
    int | None, typer.Option(help="Processes on this machine; one per core by default.")
]
Resume = Annotated[
    Path | None,
    typer.Option(help="File of finished parts; a run continues from it."),
]


def scale(
    devices: Annotated[int, typer.Option(help="Simulated devices, up to 10¹³.")] = 10_000_000,
    population: Annotated[
        str,
        typer.Option(
            help="incomes, income-and-debt, places, or a file: .csv (header), .parquet or .gpkg."
        ),
    ] = "incomes",
    value: Annotated[
        list[str] | None,
        typer.Option(help="Column of a file with people's values; twice for pairs."),
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option(help="Column of a file with the number of people that a row stands for."),
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="Ask for the share above this value (for pairs, of both).")
    ] = 100_000.0,
    epsilon: Annotated[float, typer.Option(help=options.EPSILON_HELP)] = 1.0,
    per: Annotated[float, typer.Option(help="A distance, in the unit of the values.")] = 8_000.0,
    seed: Annotated[int, typer.Option(help="Seed: the same one gives the same bits.")] = 1,
    workers: Workers = None,
    scheduler: options.Scheduler = None,
    resume: Resume = None,
    as_json: options.AsJson = False,
) -> None:
    """Simulate a campaign of any number of devices; compare its estimate with the truth.

    The result has the same bits on any number of workers. Places ask the questions of the demo.

    Examples: geoveil simulate scale --devices 1000000000 --resume run.jsonl;
    geoveil simulate scale --population people.csv --value income --weight weight --threshold 50000
    """
    campaign, people = threshold_asked(
        population, threshold, epsilon=epsilon, per=per, values=value or (), weights=weight
    )
    work = simulated(campaign, people, devices, seed=seed)
    sums = _total(work, workers, scheduler, resume, f"{devices:,} devices")
    rows = [
        (question.label, work.people.mean(question.query.value), s)
        for question, s in zip(campaign.questions, sums, strict=True)
    ]
    _show(campaign, rows, 0.95, as_json)


def export(
    database: Annotated[Path, typer.Argument(help="SQLite file of an aggregator.")],
    folder: Annotated[Path, typer.Argument(help="Directory for the Parquet files; created here.")],
    campaign_id: Annotated[
        list[str] | None, typer.Option("--campaign", help="Only this one. May be repeated.")
    ] = None,
) -> None:
    """Export the counted reports of an aggregator to Parquet, without their ids; read-only.

    The aggregator may go on running: what is written is of one moment.
    """
    with for_operators(), _progress("exporting") as on_progress:
        count = export_reports(
            database, folder, campaign_ids=campaign_id or None, on_progress=on_progress
        )
    out.tell(f"{count:,} reports in {folder}")


def bulk(
    folder: Annotated[
        Path, typer.Argument(help="The folder that 'export' wrote; every worker must see it.")
    ],
    confidence: options.Confidence = 0.95,
    workers: Workers = None,
    scheduler: options.Scheduler = None,
    as_json: options.AsJson = False,
) -> None:
    """Estimate from exported reports: the aggregator's own estimates, computed again, to the bit.

    Fails if the reports do not add up to the sums that the aggregator kept while it counted.
    """
    works = exported(folder)
    for work in works:
        sums = _total(work, workers, scheduler, None, work.campaign.title)
        work.check(sums)
        rows = [(label, None, of_one) for label, of_one in zip(work.labels, sums, strict=True)]
        _show(work.campaign, rows, confidence, as_json)


def _total(
    work: Any, workers: int | None, scheduler: str | None, resume: Path | None, what: str
) -> list[Accumulator]:
    with computer(scheduler, workers) as compute, _progress(what) as on_progress:
        return total(work, compute, path=resume, on_progress=on_progress)


@contextmanager
def _progress(what: str) -> Iterator[Any]:
    """Yield a function of (done, all) that moves a bar with the time left."""
    with bars() as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, of: progress.update(task, completed=done, total=of)


def _show(
    campaign: AttributeCampaign,
    rows: Sequence[tuple[str, float | None, Accumulator]],
    confidence: float,
    as_json: bool,
) -> None:
    estimates = [
        (label, truth, sums, estimate(sums, campaign.grid_exponent, confidence, limits))
        for (label, truth, sums), limits in zip(rows, cycle(campaign.limits), strict=False)
    ]
    if as_json:
        print_json([estimate_record(campaign, *row) for row in estimates])
        return
    simulated = any(truth is not None for _, truth, *_ in estimates)
    table = []
    digits = _digits([got.standard_error for *_, got in estimates])
    for label, truth, _, got in estimates:
        ends = [number(end, digits) for end in (got.ci_low, got.ci_high)]
        interval = "needs n ≥ 2" if got.ci_low is None else "–".join(ends)
        cells = [label, *([number(truth, digits)] if simulated else [])]
        cells += [number(got.possible, digits), number(got.standard_error, digits)]
        table.append([*cells, interval, f"{got.n:,}"])
    out.tell((campaign.title, "bold"))
    out.tell(f"{privacy_text(campaign)}, for each participant")
    headers = ("", *(("truth",) if simulated else ()), "estimate", "standard error")
    print_table((*headers, f"{100 * confidence:g} % interval", "n"), table, wrapped=[0])


def _digits(errors: Sequence[float | None]) -> int:
    """Return the number of decimals that show two digits of every standard error."""
    return max([4, *(1 - math.floor(math.log10(error)) for error in errors if error)])
