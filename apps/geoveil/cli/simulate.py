"""geoveil simulate: experiments, simulated devices, and simulation at scale."""

import asyncio
import math
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from geoveil.analyst import Analyst
from geoveil.campaign import AttributeCampaign, privacy_text, require_attribute
from geoveil.cli import options
from geoveil.cli.connection import CommandError, Connection, analyst_at, connects
from geoveil.cli.console import bars, number, out, print_json, print_table
from geoveil.cli.plain_errors import for_operators
from geoveil.cli.simulate_experiments import (
    ProcessCount,
    Quick,
    Seed,
    distribution,
    epochs,
    kde,
    oneway,
    processes_of,
    relations,
    results,
    selection,
    show_table,
    twoway,
    write_text,
)
from geoveil.client import TLS, GrpcAioTransport, Policy
from geoveil.gp import Accumulator, estimate, validation
from geoveil.simulation.experiments.tuned import densities, pairs, thresholds, tuned_table
from geoveil.simulation.fleet import (
    SHARES,
    Load,
    by_batches,
    by_devices,
    load_campaign,
    people_for,
    prepared,
)
from geoveil.simulation.ledger import (
    HEADERS,
    LEDGER,
    UNTESTED,
    VERDICTS,
    Reproduction,
    check_data,
    ledger_page,
    line_of,
    reproduce,
    summary_of,
)
from geoveil.simulation.scale import (
    computer,
    estimate_record,
    export_reports,
    exported,
    simulated,
    threshold_asked,
    total,
)
from geoveil.simulation.selection.experiment import Options


def ledger(
    row: Annotated[
        list[str] | None,
        typer.Option(help="Only this figure or table, for example sps-table-2; may be repeated."),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Data that is not included: graphs, tables; may be repeated.",
        ),
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--out", help="Directory for reproductions.md; none by default.")
    ] = None,
    seed: Seed = 1,
    quick: Quick = False,
    processes: ProcessCount = None,
    as_json: options.AsJson = False,
) -> None:
    """Every figure and table of the papers: the published number, geoveil's, the ratio, the reason.

    Without --row all of them: minutes of one processor, or one minute with --quick.

    Example: geoveil simulate ledger --row sps-table-2
    """
    for name in row or ():
        validation.choice("row", name, LEDGER)
    for file in data or ():
        check_data(file)
    given = Options(data=tuple(data or ()), seed=seed, quick=quick)
    by_name: dict[str, Any] = dict.fromkeys(row or LEDGER)
    with bars() as progress:
        task = progress.add_task("ledger", total=len(by_name))
        for name, own in processes_of(processes)(partial(reproduce, options=given), [*by_name]):
            by_name[name] = own
            progress.advance(task)
    done = [*by_name.values()]
    if directory is not None:
        page = ledger_page(done, [file.name for file in given.data])
        write_text(directory / "reproductions.md", page)
    if as_json:
        print_json([reproduced.as_json() for reproduced in done])
        return
    for reproduced in done if row else ():
        _show(reproduced)
    if not row:
        rows = (
            (of.name, of.what, *(str(of.count(v) or "–") for v in VERDICTS), f"{of.seconds:.1f}")
            for of in done
        )
        print_table(("row", "shows", *VERDICTS, "seconds"), rows, wrapped=[1])
        show_table(summary_of(done))
        out.print("Each row's numbers, and why they differ: geoveil simulate ledger --row NAME")
    numbers = (each for reproduced in done for each in reproduced.compared)
    if quick and any(each.verdict == UNTESTED and not each.why for each in numbers):
        out.print(f"{UNTESTED}: it needs data that are not included, or --quick omits it.")


def _show(row: Reproduction) -> None:
    if row.compared:
        print_table(
            HEADERS,
            map(line_of, row.compared),
            wrapped=[0, 5],
            right=range(2, 5),
            title=f"[{row.paper}] {row.item}: {row.what}",
            title_justify="left",
        )
        out.print(
            "agrees: at most 2 joint standard errors apart, or as far as rounding allows; ≤ and ≥ "
            "are bounds. Sources: "
            + "; ".join(dict.fromkeys(compared.source for compared in row.compared))
            + "."
        )
    else:
        out.print(f"[{row.paper}] {row.item}: {row.what}. No numbers.")
    out.paragraphs(
        row.reason,
        *(f"Not tested: {why}" for why in row.untested),
        row.needs and f"With --data: {row.needs}.",
        row.command and f"The whole {row.kind}: {row.command}",
    )


def tuned(
    quick: Quick = False,
    as_json: options.AsJson = False,
) -> None:
    """Print the ratio of the paper's noise to geoveil's, as published and tuned.

    The command tunes the shape of Student-t noise, ν, and the split of ε on the people of the
    experiment. It takes a threshold on incomes first. Without --quick it then compares the whole
    error of pairs of thresholds and of densities, which takes two to three minutes.

    Example: geoveil simulate tuned --quick
    """
    settings = {"thresholds": thresholds()}
    if not quick:
        settings |= {"pairs": pairs(), "densities": densities()}
    if as_json:
        print_json({name: [asdict(s) for s in rows] for name, rows in settings.items()})
        return
    for rows in settings.values():
        show_table(tuned_table(rows))


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
    workers: options.Workers = None,
    scheduler: options.Scheduler = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="File of finished parts; a run continues from it."),
    ] = None,
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
    _show_estimates(campaign, rows, 0.95, as_json)


def export(
    database: Annotated[Path, typer.Argument(help="SQLite file of an aggregator.")],
    folder: Annotated[Path, typer.Argument(help="Directory for the Parquet files; created here.")],
    campaign_id: Annotated[
        list[str] | None, typer.Option("--campaign", help="Only this one. May be repeated.")
    ] = None,
) -> None:
    """Export the counted reports of an aggregator to Parquet, without their ids; read-only.

    The aggregator may keep running: the files are a snapshot of one moment. Forms are refused:
    'geoveil campaign export' writes them.
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
    workers: options.Workers = None,
    scheduler: options.Scheduler = None,
    as_json: options.AsJson = False,
) -> None:
    """Estimate from exported reports: the aggregator's own estimates, computed again, to the bit.

    Fails if the reports do not add up to the sums that the aggregator kept while it counted.
    """
    for work in exported(folder):
        sums = _total(work, workers, scheduler, None, work.campaign.title)
        work.check(sums)
        _show_estimates(
            work.campaign,
            [(label, None, of_one) for label, of_one in zip(work.labels, sums, strict=True)],
            confidence,
            as_json,
        )


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


def _show_estimates(
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
    of_simulation = any(truth is not None for _, truth, *_ in estimates)
    # So many decimals show two digits of every standard error.
    errors = [got.standard_error for *_, got in estimates if got.standard_error]
    digits = max([4, *(1 - math.floor(math.log10(error)) for error in errors)])
    shown = partial(number, digits=digits)
    table = (
        (
            label,
            *([shown(truth)] if of_simulation else []),
            shown(got.possible),
            shown(got.standard_error),
            "needs n ≥ 2" if got.ci_low is None else f"{shown(got.ci_low)}–{shown(got.ci_high)}",
            f"{got.n:,}",
        )
        for label, truth, _, got in estimates
    )
    out.tell_all(((campaign.title, "bold"),), f"{privacy_text(campaign)}, for each participant")
    headers = ("", *(("truth",) if of_simulation else ()), "estimate", "standard error")
    print_table((*headers, f"{100 * confidence:g} % interval", "n"), table, wrapped=[0])


@connects
def fleet(
    devices: Annotated[int, typer.Option(help="Simulated devices, one report each.")] = 10_000,
    batch_size: Annotated[
        int | None,
        typer.Option(
            help="Draw all reports first, then send this many per request; without it every device"
            " is an SDK that draws and sends its own report."
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option(help="Requests under way at a time.")] = 64,
    campaign_id: Annotated[
        str | None,
        typer.Option(
            "--campaign",
            help="Send to this campaign: simulated reports STAY in its estimate. By default a new"
            " one is made for the test, and closed afterwards.",
        ),
    ] = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", help="Seconds during which a report is retried.")
    ] = 60.0,
    seed: Annotated[
        int | None, typer.Option(help="Seed: the same one draws the same people.")
    ] = None,
    as_json: options.AsJson = False,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Permit unencrypted requests to another machine.")
    ] = False,
    *,
    connection: Connection,
) -> None:
    """Send reports of simulated devices to a running aggregator and time it.

    They hold what ships: incomes of Californian households, incomes and debts where two numbers are
    asked for, or places of collisions in New York.

    Status 1 if a report was lost: not acknowledged in the time given, refused, or acknowledged and
    then missing from the aggregator's count.

    Examples: geoveil simulate fleet --devices 20000;
    geoveil simulate fleet --devices 1000000 --batch-size 4096 --concurrency 8
    """
    validation.between("devices", devices, 1, 100_000_000)
    tls = connection.security() or (TLS(insecure=True) if insecure else None)
    # Refuses, before anything is made there, an address that needs TLS.
    transport = GrpcAioTransport(connection.server, tls=tls)
    with analyst_at(connection) as analyst:
        name = campaign_id
        if name is None:
            made = load_campaign()
            analyst.create(made)
            name = made.campaign_id
        campaign, published, before = _look(analyst, name)
        values = people_for(campaign).sample(devices, np.random.default_rng(seed)).tolist()
        try:
            load = _send(transport, campaign, published, values, batch_size, concurrency, timeout_s)
            counted = _look(analyst, name)[2] - before
        finally:
            if campaign_id is None:
                analyst.close_campaign(name)
    missing = load.missing(counted)
    if as_json:
        print_json(load.to_dict(counted))
    else:
        _show_load(load, counted, missing, batch_size)
    if load.lost or missing:
        raise typer.Exit(1)


def _look(analyst: Analyst, name: str) -> tuple[AttributeCampaign, bytes, int]:
    """Return a campaign, its bytes and its count of reports."""
    for published in analyst.campaigns():
        campaign = published.campaign
        if campaign.campaign_id == name:
            return require_attribute(campaign), published.envelope.campaign, published.reports
    raise CommandError(f"the server has no campaign {name!r}")


def _send(
    transport: GrpcAioTransport,
    campaign: AttributeCampaign,
    published: bytes,
    values: list[Any],
    batch_size: int | None,
    concurrency: int,
    timeout_s: float,
) -> Load:
    policy, name = Policy.permitting(campaign), campaign.campaign_id
    with bars(counted=True) as progress:

        def bar(what: str) -> Any:
            return partial(progress.advance, progress.add_task(what, total=len(values)))

        how: dict[str, Any] = {
            "transport": transport,
            "concurrency": concurrency,
            "timeout_s": timeout_s,
        }
        if batch_size is None:
            how |= {"policy": policy, "on_reports": bar("drawing and sending")}
            return asyncio.run(_closing(transport, by_devices(name, values, **how)))
        # Outside of asyncio, which hears of Ctrl-C only between two steps of its own.
        drawn = {"policy": policy, "batch_size": batch_size, "on_reports": bar("drawing")}
        sending = by_batches(
            list(prepared(name, published, values, **drawn)), **how, on_reports=bar("sending")
        )
        return asyncio.run(_closing(transport, sending))


async def _closing(transport: GrpcAioTransport, sending: Coroutine[Any, Any, Load]) -> Load:
    """Return the outcome of the reports; close the transport."""
    try:
        return await sending
    finally:
        await transport.aclose()


def _show_load(load: Load, counted: int, missing: int, batch_size: int | None) -> None:
    latencies = [load.latency_s(share) for share in SHARES.values()]
    shown = " / ".join(f"{1e3 * x:,.1f}" for x in latencies if x is not None) or "–"
    rows = {
        "reports per second": out.styled((f"{load.throughput:,.0f}", "bold")),
        "seconds": f"{load.seconds:,.2f}",
        "latency of a request, ms: median / 90 % / 99 % / longest": shown,
        "accepted": f"{load.accepted:,}",
        "duplicates (acknowledged again)": f"{load.duplicates:,}",
        "rejected": f"{load.rejected:,}",
        "not acknowledged": f"{load.lost:,}",
        "acknowledged but not in the count": f"{missing:,}",
        **{
            f"requests that failed with {code}": f"{count:,}"
            for code, count in load.failures.most_common()
        },
        "this process, of one core": f"{load.busy:.0%}",
    }
    print_table(("", ""), rows.items(), wrapped=(0, 1), right=[1], show_header=False)
    or_else = ", or send prepared reports with --batch-size" if batch_size is None else ""
    busy = (
        "This process was busy nearly all the time, so it, not the aggregator, may be what limits"
        f" the throughput: run several at once{or_else}."
    )
    out.paragraphs(busy if load.busy > 0.85 else None)  # of one core
    lost = load.lost or missing
    out.tell(
        ("reports were lost", "bold red") if lost else "nothing was lost",
        f": of {load.devices:,} reports the aggregator counted {counted:,}",
    )


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
