"""geoveil campaign: create, list and close campaigns, and make the key that signs them."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from geoveil.campaign import Allocation, SigningKey, decode, encode
from geoveil.cli.analyst import Analyst
from geoveil.cli.campaign_checks import expected_text, refuse_unlikely
from geoveil.cli.campaign_export import export
from geoveil.cli.campaign_flags import MECHANISMS, Places, asked
from geoveil.cli.campaign_show import show, weight_text
from geoveil.cli.campaign_text import parse_period, period_text, signed_by, slug
from geoveil.cli.connection import Connection, connects
from geoveil.cli.console import out, privacy_text
from geoveil.cli.environment import SIGN_KEY
from geoveil.cli.plan_file import campaign_of, planned_participants
from geoveil.gp import GeoVeilError, ParameterError, validation
from geoveil.proto.v1 import campaign_pb2

app = typer.Typer(help="Create, sign, show, list and close campaigns.", no_args_is_help=True)

app.command()(export)
app.command()(show)

_LONGEST_DAYS = 1_000_000.0
_PARTICIPANTS = 10_000
_STATES = {
    number: name.removeprefix("CAMPAIGN_STATE_").lower()
    for name, number in campaign_pb2.CampaignState.items()
}


@app.command()
@connects
def create(
    title: Annotated[str, typer.Argument(help="One line that people read.")],
    epsilon: Annotated[
        float | None, typer.Option(help="ε: two values PER apart are ε-alike.")
    ] = None,
    per: Annotated[float | None, typer.Option(help="A distance, in UNIT.")] = None,
    attribute: Annotated[
        str | None, typer.Option(help="What participants hold, e.g. 'household income'.")
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(help="Ask what 'geoveil plan --out' planned, in place of the flags below."),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Unit of PER and of values; of places it is metre.")
    ] = None,
    threshold: Annotated[
        list[float] | None, typer.Option(help="Share above this value. May be repeated.")
    ] = None,
    width: Annotated[
        float | None,
        typer.Option(help="Width of the soft band around a threshold; 3·PER/ε by default."),
    ] = None,
    place: Annotated[
        list[str] | None,
        typer.Option(
            help="Density at 'longitude,latitude' or 'label=longitude,latitude'. May be repeated."
        ),
    ] = None,
    bandwidth: Annotated[
        float | None, typer.Option(help="Of the density's bell, in metres; 3·PER/ε by default.")
    ] = None,
    center: Annotated[
        str | None,
        typer.Option(help="'longitude,latitude' of the area's centre; the first place by default."),
    ] = None,
    radius: Annotated[
        float | None, typer.Option(help="Of the area, in metres; 60000 by default.")
    ] = None,
    points: Annotated[
        bool,
        typer.Option(
            "--points",
            help="Everyone sends one perturbed point, of which 'geoveil estimate' asks anything"
            " later: a place if there is a --center, else a number.",
        ),
    ] = False,
    dimension: Annotated[
        int | None, typer.Option(help="Numbers of a point that is no place, 1 to 3; 1 by default.")
    ] = None,
    mechanism: Annotated[
        str | None, typer.Option(help=f"{', '.join(MECHANISMS)}; debiased by default.")
    ] = None,
    allocation: Annotated[
        Allocation | None,
        typer.Option(
            help="Everyone answers one query, drawn at random, with ε (partition, the default); or"
            " all m queries with ε/m each (split); or all with ε each, mε in all (repeat)."
        ),
    ] = None,
    days: Annotated[float, typer.Option(help="How long it takes reports, from now.")] = 30.0,
    every: Annotated[
        str | None,
        typer.Option(
            help="Everyone answers once in every such period and spends ε each time: 7d, 12h,"
            " 30m, 1w. By default once in all."
        ),
    ] = None,
    participants: Annotated[
        int | None,
        typer.Option(
            help="How many are expected, to tell the error; those of the plan, or 10000, by"
            " default."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Publish what looks like a mistake all the same.")
    ] = False,
    minimum_participants: Annotated[
        int, typer.Option(help="The server shows no estimate of fewer answers.")
    ] = 0,
    sign_key: Annotated[
        Path | None,
        typer.Option(
            envvar=SIGN_KEY,
            exists=True,
            dir_okay=False,
            help="Sign with the key in this file; see 'geoveil campaign keygen'.",
        ),
    ] = None,
    campaign_id: Annotated[
        str | None, typer.Option("--id", help="Made from the title by default.")
    ] = None,
    *,
    connection: Connection,
) -> None:
    """Publish a campaign and print its id.

    Example: geoveil campaign create "Income above 100k" --attribute "household income"
    --unit dollar --epsilon 1 --per 8000 --threshold 100000

    With a plan: geoveil campaign create "Income above 100k" --plan plan.toml
    """
    validation.between("days", days, 0, _LONGEST_DAYS, low_open=True)
    now = datetime.now(UTC)
    later: dict[str, Any] = {
        "campaign_id": campaign_id or slug(title),
        "title": title,
        "opens": now,
        "closes": now + timedelta(days=days),
        "period": None if every is None else parse_period(every),
        "minimum_participants": minimum_participants,
    }
    said: dict[str, Any] = {
        "epsilon": epsilon, "per": per, "unit": unit, "threshold": threshold or None,
        "width": width, "place": place or None, "bandwidth": bandwidth, "center": center,
        "radius": radius, "points": points or None, "dimension": dimension,
        "mechanism": mechanism, "allocation": allocation,
    }  # fmt: skip
    places: Places = {}
    if plan is None:
        campaign, places = asked(attribute, **said, **later)
    else:
        for name, value in said.items():
            if value is not None:
                raise ParameterError(f"--{name}", value, "left out: the plan says it")
        campaign = campaign_of(plan, attribute=attribute, **later)
        participants = participants or planned_participants(plan)
    participants = _PARTICIPANTS if participants is None else participants
    validation.between("--participants", participants, 1, 10**12)
    if not force:
        refuse_unlikely(campaign, participants, places)
    key = None if sign_key is None else SigningKey.from_pem(sign_key.read_bytes())
    with Analyst.of(connection) as analyst:
        digest = analyst.create(encode(campaign), key)
    out.tell((campaign.campaign_id, "bold"), f"  {privacy_text(campaign)}  sha256:{digest.hex()}")
    out.tell(expected_text(campaign, participants))
    if campaign.period is not None:
        out.print(f"each participant spends this once in each of {campaign.periods:,} periods")
    out.print(weight_text(campaign))
    if key is not None:
        out.tell(f"signed by {key.public}")


@app.command()
def keygen(
    file: Annotated[Path, typer.Argument(help="Where the private key goes. Must not exist.")],
) -> None:
    """Make a key that signs campaigns, and print its public half, which apps are to trust.

    The file is readable by its owner only, and not encrypted. Whoever has it can ask in your name.
    """
    key = SigningKey.generate()
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ParameterError("file", str(file), "new: a key is never overwritten") from None
    except OSError as error:
        raise ParameterError("file", str(file), f"a file to write ({error.strerror})") from error
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(key.to_pem())
    typer.echo(key.public)


@app.command("list")
@connects
def list_(connection: Connection) -> None:
    """List all campaigns, each with its id, who signed it, what it costs, and its title.

    A title is indented: what stands at the margin is said by this command.
    """
    with Analyst.of(connection) as analyst:
        summaries = list(analyst.list())
    for summary in summaries:
        state = _STATES.get(summary.state, f"state {summary.state}")
        try:
            campaign = decode(summary.envelope.campaign)
        except GeoVeilError as error:
            out.tell((f"can't be read ({state}): {error}", "bold red"))
            continue
        each = f" each {period_text(campaign.period)}" if campaign.period else ""
        out.tell(
            (campaign.campaign_id, "bold"),
            f"  {state}, {summary.reports:,} reports, closes {campaign.closes:%Y-%m-%d %H:%M} UTC",
        )
        out.tell("signed by ", signed_by(summary.envelope), f", {privacy_text(campaign)}{each}")
        out.tell(f"  {campaign.title}")


@app.command()
@connects
def close(
    campaign_id: Annotated[str, typer.Argument(help="Of the campaign.")],
    *,
    connection: Connection,
) -> None:
    """Stop a campaign from taking reports; its estimate stays."""
    with Analyst.of(connection) as analyst:
        analyst.close_campaign(campaign_id)
    out.tell(f"{campaign_id} is closed")
