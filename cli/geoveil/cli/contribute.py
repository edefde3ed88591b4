"""geoveil contribute: take part in a campaign with one's own value."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from geoveil.campaign import Campaign, decode, signer
from geoveil.cli.analyst import TIMEOUT_S
from geoveil.cli.connection import Connection, connects
from geoveil.cli.console import err, out, privacy_text
from geoveil.client import (
    Client,
    GrpcTransport,
    Policy,
    Receipt,
    Status,
    Transport,
)
from geoveil.gp import PrivateValueError
from geoveil.proto.v1 import collector_pb2

_OUTCOMES = {
    Status.PENDING: "kept",
    Status.EXPIRED: "given up",
    Status.REJECTED: "rejected",
    Status.ACKNOWLEDGED: "counted",
    Status.UNDELIVERABLE: "damaged, and given up",
}


@connects
def contribute(
    campaign_id: Annotated[str, typer.Argument(help="Of the campaign.")],
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Accept the privacy shown without being asked.")
    ] = False,
    state_dir: Annotated[
        Path | None,
        typer.Option(help="Where this device remembers what it sent; one per person."),
    ] = None,
    *,
    connection: Connection,
) -> None:
    """Perturb a value on this machine and send the result, once per campaign.

    The value is read from standard input or asked for without echo; it is not an argument, because
    the shell's history and the list of processes would keep it. Places: 'longitude,latitude'.
    """
    transport = GrpcTransport(connection.server, tls=connection.tls())
    try:
        _take_part(transport, campaign_id, yes, state_dir or default_state())
    finally:
        transport.close()


def _take_part(transport: Transport, campaign_id: str, yes: bool, state_dir: Path) -> None:
    request = collector_pb2.GetCampaignRequest(campaign_id=campaign_id)
    envelope = transport.get_campaign(request, TIMEOUT_S).envelope
    campaign, asker = decode(envelope.campaign), signer(envelope)
    err.print(f"[bold]{campaign.title}[/]")
    err.print(f"Asks for: {campaign.attribute.name}, in {_kind(campaign)}.")
    err.print(f"Signed by: {'nobody' if asker is None else asker}.")
    err.print(
        f"Privacy: {privacy_text(campaign)}. Values {campaign.privacy.per:g}"
        f" {campaign.privacy.unit} apart are at most e^{campaign.report_privacy.epsilon:g} times as"
        " likely to give the same report."
    )
    if not yes and not typer.confirm("Take part?", err=True):
        raise typer.Exit(1)
    with Client(
        policy=Policy.permitting(campaign),
        state_dir=state_dir,
        transport=transport,
        background=False,
    ) as client:
        client.fetch(campaign_id, TIMEOUT_S)
        drawn = client.contribute(campaign_id, _read_value(campaign))
        client.flush(TIMEOUT_S)
        (receipt,) = (r for r in client.history() if r.report_id == drawn.report_id)
    _show(campaign, receipt)


def _show(campaign: Campaign, receipt: Receipt) -> None:
    outcome = _OUTCOMES[receipt.status]
    out.print(
        f"{outcome}: report {receipt.report_id}. All that leaves this machine:", soft_wrap=True
    )
    for answer, perturbed in zip(receipt.answers, receipt.perturbed, strict=True):
        out.print(f"  {campaign.labels[answer.query_index]}: {perturbed:.6f}, perturbed")
    if receipt.rejection is not None:
        err.print(f"The server refused it: {receipt.rejection.reason} {receipt.rejection.detail}")
    elif receipt.failure is not None:
        err.print(f"It could not be sent ({receipt.failure}): run this again to send it.")
    if not receipt.acknowledged:
        raise typer.Exit(1)


def _kind(campaign: Campaign) -> str:
    if campaign.attribute.coordinates is not None:
        return "degrees: longitude,latitude"
    return campaign.attribute.unit


def _read_value(campaign: Campaign) -> float | list[float]:
    """Return the numbers on standard input; PrivateValueError says only what is expected."""
    if sys.stdin.isatty():
        text = typer.prompt(f"{campaign.attribute.name} ({_kind(campaign)})", hide_input=True)
    else:
        text = sys.stdin.readline()
    numbers = _parse(text)
    if numbers is None:
        kind = _kind(campaign)
        raise PrivateValueError(f"a number, or numbers between commas, in {kind}")
    return numbers if len(numbers) > 1 else numbers[0]


def _parse(text: str) -> list[float] | None:
    """Return the numbers, or None; an error of float() would quote the value."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return None


def default_state() -> Path:
    """Return where this device remembers what it sent, unless told otherwise."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "geoveil"
