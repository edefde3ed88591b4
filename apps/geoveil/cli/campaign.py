"""geoveil campaign: show, list and close campaigns, and sign them with a key."""

from pathlib import Path
from typing import Annotated, Any

import typer

from geoveil.analyst import (
    EXPORTED,
    PublishedCampaign,
    campaign_record,
    central_record,
    central_text,
)
from geoveil.campaign import (
    AttributeCampaign,
    SigningKey,
    days_in,
    decode,
    privacy_text,
    require_attribute,
    seal,
    signer,
)
from geoveil.cli import options
from geoveil.cli.asking import Period
from geoveil.cli.campaign_create import create
from geoveil.cli.campaign_text import envelope_in, explains_taken_id, print_campaign, signed_by
from geoveil.cli.connection import Connection, analyst_at, connects
from geoveil.cli.console import out, print_json, write_new
from geoveil.cli.environment import SIGN_KEY
from geoveil.gp import GeoVeilError, ParameterError, needed_for

app = typer.Typer(help="Create, sign, show, list and close campaigns.", no_args_is_help=True)
app.command()(create)


@app.command()
@connects
def show(
    campaign_id: options.CampaignId,
    honest: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of honest reports of one question for the central ε of a cap, if they"
            " reach the analyst in uniformly random order; by default the campaign's minimum.",
        ),
    ] = None,
    central_delta: options.CentralDelta = None,
    as_json: options.AsJson = False,
    *,
    connection: Connection,
) -> None:
    """Print what a campaign asks, what it costs participants, and what one report counts for."""
    with analyst_at(connection) as analyst:
        campaign = analyst.published(campaign_id)
    central = None
    if isinstance(campaign, AttributeCampaign):
        central = central_record(campaign, honest or campaign.minimum_participants, central_delta)
    if as_json:
        print_json(campaign_record(campaign) | {"central": central})
        return
    print_campaign(campaign)
    if central is not None:
        out.tell(central_text(central, require_attribute(campaign).report_privacy))


@app.command("list")
@connects
def list_(as_json: options.AsJson = False, *, connection: Connection) -> None:
    """List all campaigns, each with its id, who signed it, what it costs, and its title.

    A title is indented: what stands at the margin is said by this command.
    """
    with analyst_at(connection) as analyst:
        listed = list(analyst.campaigns())
    if as_json:
        print_json([_listed(published) for published in listed])
        return
    for published in listed:
        try:
            campaign = published.campaign
        except GeoVeilError as error:
            out.tell((f"can't be read ({published.state}): {error}", "bold red"))
            continue
        each = f" every {days_in(campaign.period)}" if campaign.period else ""
        out.tell(
            (campaign.campaign_id, "bold"),
            f"  {published.state}, {published.reports:,} reports,"
            f" closes {campaign.closes:%Y-%m-%d %H:%M} UTC",
        )
        out.tell("signed by ", signed_by(published.envelope), f", {privacy_text(campaign)}{each}")
        out.tell(f"  {campaign.title}")


def _listed(found: PublishedCampaign) -> dict[str, Any]:
    """Return a campaign's entry in a list, for JSON; `signed_by` is null if it is not signed."""
    record: dict[str, Any] = {}
    try:
        record = campaign_record(found.campaign)
        key = signer(found.envelope)
        record["signed_by"] = None if key is None else str(key)
    except GeoVeilError as error:  # it can't be read, or its signature is not valid
        record["error"] = str(error)
    return record | {"state": found.state, "reports": found.reports}


@app.command()
@connects
def close(campaign_id: options.CampaignId, *, connection: Connection) -> None:
    """Stop a campaign from taking reports; its estimate stays."""
    with analyst_at(connection) as analyst:
        analyst.close_campaign(campaign_id)
    out.tell(f"{campaign_id} is closed")


@app.command()
@connects
def export(
    campaign_id: options.CampaignId,
    file: Annotated[Path, typer.Option("--out", help="Parquet file to write. Must not exist.")],
    period: Period = None,
    timeout: Annotated[float, typer.Option(help="Time limit in seconds.")] = 3600.0,
    *,
    connection: Connection,
) -> None:
    """Write the perturbed reports to a Parquet file, without their ids.

    A row is an answer, or a point with its coordinates. Values are integers on the campaign's grid:
    times 2^step_exponent, which the file's metadata names, they are numbers.
    """
    with needed_for("an export"):
        import pyarrow  # noqa: F401 - before what a server needs, which is not all that is needed
    from geoveil.simulation.scale import write_reports

    if file.suffix != EXPORTED:
        raise ParameterError("file", str(file), f"a file whose name ends in {EXPORTED}")
    with analyst_at(connection) as analyst:
        count = write_reports(analyst.export(campaign_id, period, timeout_s=timeout), file)
    out.tell(f"{count:,} rows in {file}")


@app.command()
def keygen(
    file: Annotated[Path, typer.Argument(help="File for the private key. It must not exist.")],
) -> None:
    """Make a key that signs campaigns, and print its public half, which apps are to trust.

    The file is readable by its owner only, and not encrypted. Whoever has it can ask in your name.
    """
    key = SigningKey.generate()
    write_new(file, key.to_pem(), mode=0o600)
    typer.echo(key.public)


@app.command()
def sign(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True, dir_okay=False, help="An unsigned campaign, as the console makes it."
        ),
    ],
    sign_key: Annotated[
        Path,
        typer.Option(
            envvar=SIGN_KEY,
            exists=True,
            dir_okay=False,
            help="The key to sign with. It stays on this machine; see 'geoveil campaign keygen'.",
        ),
    ],
    out_file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="File for the signed campaign; NAME.signed.campaign by default. It must"
            " not exist.",
        ),
    ] = None,
) -> None:
    """Say what a campaign asks, and sign it with a key that stays on this machine.

    No server is asked. What is written may be published by anybody who may publish: in the
    console, or with 'geoveil campaign publish'.

    Example: geoveil campaign sign income.campaign --sign-key key.pem
    """
    envelope = envelope_in(file)
    if signer(envelope) is not None:
        raise ParameterError("file", str(file), "a campaign that nobody has signed yet")
    campaign, key = (decode(envelope.campaign), SigningKey.from_pem(sign_key.read_bytes()))
    print_campaign(campaign)
    made = out_file or file.with_suffix(".signed.campaign")
    write_new(made, seal(envelope.campaign, key))
    out.tell(f"signed by {key.public}: ", (str(made), "bold"))


@app.command()
@connects
def publish(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help="A campaign file from 'geoveil campaign sign' or the console.",
        ),
    ],
    *,
    connection: Connection,
) -> None:
    """Publish a campaign from a file, as it is, with the signature that it has.

    Example: geoveil campaign publish income.signed.campaign
    """
    published, envelope = file.read_bytes(), envelope_in(file)
    campaign = decode(envelope.campaign)
    with analyst_at(connection) as analyst, explains_taken_id(campaign):
        digest = analyst.publish(published)
    out.tell((campaign.campaign_id, "bold"), f"  {privacy_text(campaign)}  sha256:{digest.hex()}")
    out.tell("signed by ", signed_by(envelope))
