"""geoveil simulate fleet: load a running aggregator, to measure its capacity."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import numpy as np
import typer

from geoveil.analyst import Analyst
from geoveil.campaign import AttributeCampaign, require_attribute
from geoveil.cli import options
from geoveil.cli.connection import CommandError, Connection, analyst_at, connects
from geoveil.cli.console import bars, out, print_json, print_table
from geoveil.client import TLS, GrpcAioTransport, Policy
from geoveil.gp import validation
from geoveil.simulation.fleet import (
    SHARES,
    Load,
    by_batches,
    by_devices,
    load_campaign,
    people_for,
    prepared,
)

_BUSY = 0.85
"""Share of one core from which this process may be what limits the throughput."""


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
    rng = np.random.default_rng(seed)
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
        values = people_for(campaign).sample(devices, rng).tolist()
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
        _show(load, counted, missing, batch_size)
    if load.lost or missing:
        raise typer.Exit(1)


def _look(analyst: Analyst, name: str) -> tuple[AttributeCampaign, bytes, int]:
    """Return a campaign, its bytes and its count of reports."""
    for published in analyst.campaigns():
        campaign = published.campaign
        if campaign.campaign_id == name:
            return require_attribute(campaign), published.envelope.campaign, published.reports
    raise CommandError(f"the server knows no campaign {name!r}")


def _send(
    transport: GrpcAioTransport,
    campaign: AttributeCampaign,
    published: bytes,
    values: list[Any],
    batch_size: int | None,
    concurrency: int,
    timeout_s: float,
) -> Load:
    policy = Policy.permitting(campaign)
    name = campaign.campaign_id
    with bars(counted=True) as progress:

        def bar(what: str) -> Callable[[int], None]:
            task = progress.add_task(what, total=len(values))
            return lambda reports: progress.advance(task, reports)

        if batch_size is None:
            sending = by_devices(
                name,
                values,
                transport=transport,
                policy=policy,
                concurrency=concurrency,
                timeout_s=timeout_s,
                on_reports=bar("drawing and sending"),
            )
        else:
            # Outside of asyncio, which hears of Ctrl-C only between two steps of its own.
            batches = list(
                prepared(
                    name,
                    published,
                    values,
                    policy=policy,
                    batch_size=batch_size,
                    on_reports=bar("drawing"),
                )
            )
            sending = by_batches(
                batches,
                transport=transport,
                concurrency=concurrency,
                timeout_s=timeout_s,
                on_reports=bar("sending"),
            )
        return asyncio.run(_closing(transport, sending))


async def _closing(transport: GrpcAioTransport, sending: Coroutine[Any, Any, Load]) -> Load:
    """Return the outcome of the reports; close the transport."""
    try:
        return await sending
    finally:
        await transport.aclose()


def _show(load: Load, counted: int, missing: int, batch_size: int | None) -> None:
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
    if load.busy > _BUSY:
        out.print(
            "This process was busy nearly all the time, so it, not the aggregator, may be what"
            " limits the throughput: run several at once"
            + (", or send prepared reports with --batch-size." if batch_size is None else ".")
        )
    lost = load.lost or missing
    out.tell(
        ("reports were lost", "bold red") if lost else "nothing was lost",
        f": of {load.devices:,} reports the aggregator counted {counted:,}",
    )
