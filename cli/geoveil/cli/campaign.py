"""geoveil campaign: create, list and close campaigns, and make the key that signs them."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from geoveil.campaign import (
    Allocation,
    Attribute,
    Campaign,
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    MechanismSpec,
    PlanarLaplaceSpec,
    Question,
    SigningKey,
    SmoothSpec,
    decode,
    encode,
)
from geoveil.cli.analyst import Analyst
from geoveil.cli.campaign_export import export
from geoveil.cli.campaign_show import show, weight_text
from geoveil.cli.campaign_text import (
    coordinates,
    parse_period,
    parse_place,
    period_text,
    signed_by,
    slug,
)
from geoveil.cli.connection import Connection, connects
from geoveil.cli.console import out, privacy_text
from geoveil.cli.environment import SIGN_KEY
from geoveil.cli.plan_file import campaign_of
from geoveil.gp import (
    GaussianKernel,
    GeoPrivacy,
    GeoVeilError,
    ParameterError,
    Threshold,
    validation,
)
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.proto.v1 import campaign_pb2

app = typer.Typer(help="Create, sign, show, list and close campaigns.", no_args_is_help=True)

app.command()(export)
app.command()(show)

_LONGEST_DAYS = 1_000_000.0
_RADIUS_M = 60_000.0
_STATES = {
    number: name.removeprefix("CAMPAIGN_STATE_").lower()
    for name, number in campaign_pb2.CampaignState.items()
}
_MECHANISMS: dict[str, MechanismSpec] = {
    "debiased": DebiasedLaplaceSpec(),
    "smooth": SmoothSpec(0.15),
    "lipschitz": LipschitzLaplaceSpec(),
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
        str | None, typer.Option(help="Unit of PER; metre by default, as for places.")
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
        str | None, typer.Option(help=f"{', '.join(_MECHANISMS)}; debiased by default.")
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
    if plan is not None:
        said = {
            "epsilon": epsilon, "per": per, "unit": unit, "threshold": threshold or None,
            "width": width, "place": place or None, "bandwidth": bandwidth, "center": center,
            "radius": radius, "points": points or None, "dimension": dimension,
            "mechanism": mechanism, "allocation": allocation and allocation.value,
        }  # fmt: skip
        for name, value in said.items():
            if value is not None:
                raise ParameterError(f"--{name}", value, "left out: the plan says it")
        campaign = campaign_of(plan, attribute=attribute, **later)
    else:
        if epsilon is None or per is None or attribute is None:
            needed = {"epsilon": epsilon, "per": per, "attribute": attribute}
            name = next(name for name, value in needed.items() if value is None)
            raise ParameterError(f"--{name}", None, "given, unless there is a --plan")
        unit = "metre" if unit is None else unit
        radius = _RADIUS_M if radius is None else radius
        mechanism = "debiased" if mechanism is None else mechanism
        if mechanism not in _MECHANISMS:
            raise ParameterError("mechanism", mechanism, "one of " + ", ".join(_MECHANISMS))
        spec: MechanismSpec | PlanarLaplaceSpec = _MECHANISMS[mechanism]
        privacy = GeoPrivacy(epsilon, per, unit)
        soft = 3 / privacy.rate
        questions = [
            Question(f"above {at:,.15g}", Threshold(at, width or soft, profile="smoothstep"))
            for at in threshold or []
        ]
        plane = None
        if place:
            places = [parse_place(text) for text in place]
            middle = coordinates("center", center) if center else places[0][1]
            plane = AzimuthalEquidistant(*middle, radius_m=radius)
            questions += [
                Question(label, GaussianKernel(plane.project(where).tolist(), bandwidth or soft))
                for label, where in places
            ]
        if points:
            if questions:
                raise ParameterError(
                    "points", points, "without --threshold and --place: they are asked later"
                )
            if center:
                plane = AzimuthalEquidistant(*coordinates("center", center), radius_m=radius)
            spec = PlanarLaplaceSpec(dimension or (1 if plane is None else plane.dimension))
        elif not questions:
            raise ParameterError(
                "questions", "none", "at least one --threshold or --place, or --points"
            )
        elif dimension is not None:
            raise ParameterError("dimension", dimension, "left out unless there is --points")
        campaign = Campaign(
            attribute=Attribute(name=attribute, unit=unit, coordinates=plane),
            privacy=privacy,
            questions=tuple(questions),
            mechanism=spec,
            allocation=allocation or Allocation.PARTITION,
            **later,
        )
    key = None if sign_key is None else SigningKey.from_pem(sign_key.read_bytes())
    with Analyst.of(connection) as analyst:
        digest = analyst.create(encode(campaign), key)
    out.tell((campaign.campaign_id, "bold"), f"  {privacy_text(campaign)}  sha256:{digest.hex()}")
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
    """List all campaigns."""
    with Analyst.of(connection) as analyst:
        summaries = list(analyst.list())
    table = Table(
        *("id", "title", "state", "privacy", "closes (UTC)", "reports", "signed by"),
        box=SIMPLE_HEAD,
    )
    table.columns[0].no_wrap = True  # it has to be typed
    for summary in summaries:
        state = _STATES.get(summary.state, f"state {summary.state}")
        try:
            campaign = decode(summary.envelope.campaign)
        except GeoVeilError as error:
            table.add_row("", out.styled((f"can't be read: {error}", "bold red")), state)
            continue
        table.add_row(
            campaign.campaign_id,
            campaign.title,
            state,
            privacy_text(campaign)
            + (f" each {period_text(campaign.period)}" if campaign.period else ""),
            f"{campaign.closes:%Y-%m-%d %H:%M}",
            f"{summary.reports:,}",
            signed_by(summary.envelope),
        )
    out.print(table)


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
