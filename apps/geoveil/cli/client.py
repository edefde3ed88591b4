"""geoveil client: this device's reports and spent budget; and how devices reach a server."""

import json
import math
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from geoveil.campaign import Charge, PublicKey, of_far_values, parse_period, say, together
from geoveil.cli.connection import TIMEOUT_S, Connection, connects, device_at
from geoveil.cli.console import out, print_table
from geoveil.cli.options import options_of, takes
from geoveil.client import (
    FILE_NAME,
    Client,
    DeliveryStatus,
    InMemoryCollector,
    InMemoryTransport,
    PlaintextRefused,
    Policy,
    Receipt,
    ReportCounts,
    Transport,
)
from geoveil.gp import ParameterError, compose

app = typer.Typer(help="Show what left this device, and what it cost.", no_args_is_help=True)
StateDir = Annotated[Path | None, typer.Option(help="The directory that was given to contribute.")]
_MOST_SHOWN = 3


@dataclass(frozen=True)
class DeviceWay:
    """The options of a relay and an issuer."""

    relay: Annotated[
        str | None,
        typer.Option(
            help="Send through the relay at this URL instead of --server: it learns your address"
            " and nothing else, the server everything but your address. Needs --relay-operator."
        ),
    ] = None
    relay_operator: Annotated[
        str | None,
        typer.Option(help="Key ed25519:... of the operator of the server behind the relay."),
    ] = None
    issuer: Annotated[
        str | None,
        typer.Option(
            help="Get a token from the issuer at this URL, if the campaign needs one. Needs"
            " --invitation."
        ),
    ] = None
    invitation: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="File with the invitation code for the issuer."
        ),
    ] = None

    @contextmanager
    def transport(self, connection: Connection, state_dir: Path) -> Iterator[Transport]:
        """Yield the transport for a device's calls."""
        together("relay", self.relay, "relay-operator", self.relay_operator)
        together("issuer", self.issuer, "invitation", self.invitation)
        tls = connection.security()
        roots = None if tls is None else tls.root_certificates
        if self.relay is None or self.relay_operator is None:
            with device_at(connection) as straight:
                yield self._with_tokens(straight, roots, state_dir)
            return
        from geoveil.relay import RelayTransport  # loaded where there is a relay

        key = PublicKey.parse(self.relay_operator)
        try:
            through = RelayTransport(self.relay, operator=key, root_certificates=roots)
        except PlaintextRefused:
            raise ParameterError(
                "relay", self.relay, "a URL with https://, unless it is on this machine"
            ) from None
        yield self._with_tokens(through, roots, state_dir)

    def _with_tokens(self, transport: Transport, roots: bytes | None, state_dir: Path) -> Transport:
        if self.issuer is None or self.invitation is None:
            return transport
        from geoveil.relay import TokenTransport  # loaded where there is an issuer

        return TokenTransport(
            transport,
            issuer=self.issuer,
            credential=self.invitation.read_text(encoding="utf-8").strip(),
            state_dir=state_dir,
            root_certificates=roots,
        )


by_ways = takes("way", options_of(DeviceWay), DeviceWay)


def default_state() -> Path:
    """Return the default state directory of this device."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "geoveil"


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
        sys.stdout.writelines(f"{json.dumps(receipt.to_dict())}\n" for receipt in receipts)
        return
    print_table(
        ("campaign", "asked about", "perturbed values", "privacy spent", "drawn (UTC)", "status"),
        (
            (
                receipt.campaign_id + (f" ({receipt.period})" if receipt.period else ""),
                "\n".join(charge.attribute for charge in receipt.charges),
                _values(receipt),
                "\n".join(str(charge.privacy) for charge in receipt.charges),
                f"{receipt.drawn:%Y-%m-%d %H:%M}",
                _status(receipt),
            )
            for receipt in receipts
        ),
        wrapped=(1, 2, 3),  # an id has to be typed
    )
    out.tell_all(
        _summary(counts),
        *_of_readings(receipts),
        *_spent(receipts),
    )


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
    with way.transport(connection, directory) as transport:
        receipts, counts = _state(directory, transport, seconds)
    pending = [receipt for receipt in receipts if receipt.status is DeliveryStatus.PENDING]
    out.tell_all(_summary(counts), *(f"{of.campaign_id}: {_status(of)}" for of in pending))
    if not all(map(waits_until, pending)):
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
    return _state(directory, InMemoryTransport(InMemoryCollector()), None)


def _state(
    directory: Path, transport: Transport, seconds: float | None
) -> tuple[tuple[Receipt, ...], ReportCounts]:
    """Return what a device keeps, after sending what waits if there are seconds for it."""
    with Client(
        policy=Policy({}), state_dir=directory, transport=transport, background=False
    ) as client:
        if seconds is not None:
            client.flush(seconds)
        state = client.history(), client.counts()
        client.close(0.0)  # what still waits is sent by the app
    return state


def _of_readings(receipts: Sequence[Receipt]) -> Iterator[str]:
    """Yield how many answers tell of each reading, an extrapolated one of two, and its cost."""
    costs = {_reading(each, each.epoch): each.privacy for each in receipts if each.epoch}
    epochs = ((each, began) for each in receipts for began in (each.before, each.epoch))
    counts = Counter(_reading(each, began) for each, began in epochs if began)
    for reading, count in counts.items():
        attribute, _, began = reading
        tell = "1 answer tells" if count == 1 else f"{count} answers tell"
        cost = f": it cost {costs[reading]}, once" if reading in costs else ""
        yield f"{tell} of the reading of {attribute!r} in the epoch from {began:%Y-%m-%d} on{cost}"


def _spent(receipts: Iterable[Receipt]) -> Iterator[str]:
    """Yield the total cost of each metric space, and the ε between any two of its values.

    What is of one reading counts once.
    """
    by_space: dict[tuple[str, str], list[Charge]] = {}
    of_own_cost = {
        _reading(receipt, receipt.epoch) if receipt.epoch else receipt.report_id: receipt
        for receipt in receipts
    }
    for receipt in of_own_cost.values():
        for charge in receipt.charges:
            by_space.setdefault((charge.attribute, charge.privacy.unit), []).append(charge)
    for (attribute, _), spent in by_space.items():
        far = of_far_values(math.fsum(charge.any_two for charge in spent))
        total = compose(*(charge.privacy for charge in spent))
        yield f"spent on {attribute!r} in all: {total}{far}"


def _reading(receipt: Receipt, began: datetime) -> tuple[str, str, datetime]:
    """Return the attribute, unit and epoch of a reading of which a report tells."""
    return receipt.attribute, receipt.privacy.unit, began


def _values(receipt: Receipt) -> str:
    shown = ", ".join(f"{value:.6g}" for value in receipt.perturbed[:_MOST_SHOWN])
    more = len(receipt.perturbed) - _MOST_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _status(receipt: Receipt) -> str:
    if receipt.rejection is not None:
        return f"rejected: {receipt.rejection.reason}"
    failed = f"pending: {receipt.failure}" if receipt.failure is not None else ""
    return waits_until(receipt) or failed or receipt.status.name.lower()


def _summary(counts: ReportCounts) -> str:
    return (
        f"{counts.acknowledged} acknowledged, {counts.pending} pending"
        f" ({counts.pending_bytes:,} bytes), {counts.rejected} rejected, {counts.expired} given up"
    )


def waits_until(receipt: Receipt) -> str:
    """Return when a report waiting for its time in a window leaves; "" if it does not wait."""
    departs = receipt.departs if receipt.status is DeliveryStatus.PENDING else None
    if departs is None or departs <= datetime.now(UTC):
        return ""
    return say("tell.leaves", time=f"{departs:%Y-%m-%d %H:%M:%S}")
