"""geoveil client: show this device's reports, spent budget, and waiting reports."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from geoveil.campaign import Charge, of_far_values, parse_period
from geoveil.cli.connection import Connection, connects
from geoveil.cli.console import out, print_table
from geoveil.cli.contribute import TIMEOUT_S, default_state, waits_until
from geoveil.cli.device_ways import DeviceWay, by_ways
from geoveil.client import (
    FILE_NAME,
    Client,
    DeliveryStatus,
    InMemoryCollector,
    InMemoryTransport,
    Policy,
    Receipt,
    ReportCounts,
)
from geoveil.gp import GeoPrivacy, ParameterError, compose

app = typer.Typer(help="Show what left this device, and what it cost.", no_args_is_help=True)
StateDir = Annotated[Path | None, typer.Option(help="The directory that was given to contribute.")]
_MOST_SHOWN = 3


@app.command()
def history(
    state_dir: StateDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """List every report: campaign, perturbed values, privacy spent, when, and whether it counts.

    All of it is perturbed or public; the values themselves are kept nowhere.
    """
    receipts, counts = _read(state_dir)
    if as_json:
        for receipt in receipts:
            typer.echo(json.dumps(receipt.to_dict()))
        return
    rows = (
        (
            receipt.campaign_id + (f" ({receipt.period})" if receipt.period else ""),
            "\n".join(charge.attribute for charge in receipt.charges),
            _values(receipt),
            "\n".join(str(charge.privacy) for charge in receipt.charges),
            f"{receipt.drawn:%Y-%m-%d %H:%M}",
            _status(receipt),
        )
        for receipt in receipts
    )
    headers = ("campaign", "asked about", "perturbed values", "privacy spent", "drawn (UTC)")
    print_table((*headers, "status"), rows, wrapped=(1, 2, 3))  # an id has to be typed
    out.print(_summary(counts))
    readings = Counter(filter(None, map(_reading, receipts)))
    for (attribute, epoch, privacy), count in readings.items():
        out.tell(
            f"{count} answered from one reading of {attribute!r}, in the epoch from"
            f" {epoch:%Y-%m-%d} on: together they cost at most {privacy}"
        )
    for attribute, spent, far in _spent(receipts):
        out.tell(f"spent of {attribute!r} in all: {spent}{of_far_values(far)}")


@app.command()
@connects
@by_ways
def send(
    *,
    state_dir: StateDir = None,
    wait: Annotated[
        str | None,
        typer.Option(
            help="Wait this long, for example 12h, for reports that leave later in a campaign's"
            " window; at most 1d. By default only reports that may leave now are sent."
        ),
    ] = None,
    way: DeviceWay,
    connection: Connection,
) -> None:
    """Send the reports that wait: for the network, or for their time in a campaign's window."""
    seconds = TIMEOUT_S
    if wait is not None:
        seconds = parse_period("wait", wait, timedelta(days=1)).total_seconds()
    directory = state_dir or default_state()
    if not _is_used(directory, state_dir):
        out.tell("nothing waits")
        return
    with (
        way.transport(connection, directory) as transport,
        Client(
            policy=Policy({}), state_dir=directory, transport=transport, background=False
        ) as client,
    ):
        client.flush(seconds)
        receipts, counts = client.history(), client.counts()
        client.close(0.0)
    out.print(_summary(counts))
    stuck = False
    for receipt in receipts:
        if receipt.status is DeliveryStatus.PENDING:
            leaves = waits_until(receipt)
            out.tell(f"{receipt.campaign_id}: {leaves or _status(receipt)}")
            stuck |= not leaves
    if stuck:
        raise typer.Exit(1)


def _is_used(directory: Path, state_dir: Path | None) -> bool:
    """Return whether a device keeps its reports there, without creating the directory."""
    used = (directory / FILE_NAME).exists()
    if not used and state_dir is not None:
        raise ParameterError("--state-dir", str(state_dir), "the state directory of a device")
    return used


def _read(state_dir: Path | None) -> tuple[tuple[Receipt, ...], ReportCounts]:
    directory = state_dir or default_state()
    if not _is_used(directory, state_dir):
        return (), ReportCounts(
            pending=0, pending_bytes=0, acknowledged=0, rejected=0, expired=0, refused=0,
        )  # fmt: skip
    nothing = InMemoryTransport(InMemoryCollector())
    with Client(
        policy=Policy({}), state_dir=directory, transport=nothing, background=False
    ) as client:
        state = client.history(), client.counts()
        client.close(0.0)  # only looked at: what waits is sent by the app
    return state


def _spent(receipts: Iterable[Receipt]) -> Iterator[tuple[str, GeoPrivacy, float]]:
    """Yield the total cost of each metric space, and the ε between any two of its values.

    What is of one reading counts once.
    """
    by_space: dict[tuple[str, str], list[Charge]] = {}
    of_own_cost = {_reading(receipt) or receipt.report_id: receipt for receipt in receipts}
    for receipt in of_own_cost.values():
        for charge in receipt.charges:
            by_space.setdefault((charge.attribute, charge.privacy.unit), []).append(charge)
    for (attribute, _), spent in by_space.items():
        far = math.fsum(charge.any_two for charge in spent)
        yield attribute, compose(*(charge.privacy for charge in spent)), far


def _reading(receipt: Receipt) -> tuple[str, datetime, GeoPrivacy] | None:
    """Return the attribute, epoch and privacy of a reading; None for a report of its own noise."""
    epoch = receipt.epoch
    return None if epoch is None else (receipt.attribute, epoch, receipt.privacy)


def _values(receipt: Receipt) -> str:
    shown = ", ".join(f"{value:.6g}" for value in receipt.perturbed[:_MOST_SHOWN])
    more = len(receipt.perturbed) - _MOST_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _status(receipt: Receipt) -> str:
    if receipt.rejection is not None:
        return f"rejected: {receipt.rejection.reason}"
    if receipt.failure is not None:
        return f"pending: {receipt.failure}"
    return waits_until(receipt) or receipt.status.name.lower()


def _summary(counts: ReportCounts) -> str:
    return (
        f"{counts.acknowledged} acknowledged, {counts.pending} pending"
        f" ({counts.pending_bytes:,} bytes), {counts.rejected} rejected, {counts.expired} given up"
    )
