"""geoveil campaign: create, list and close campaigns."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

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
    Question,
    SmoothSpec,
    decode,
    encode,
)
from geoveil.cli.analyst import DEFAULT_SERVER, Analyst, RootCertificates, Server
from geoveil.cli.console import out, privacy_text
from geoveil.gp import GaussianKernel, GeoPrivacy, ParameterError, Threshold
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.proto.v1 import campaign_pb2

app = typer.Typer(help="Create, list and close campaigns.", no_args_is_help=True)

_MECHANISMS: dict[str, MechanismSpec] = {
    "debiased": DebiasedLaplaceSpec(),
    "smooth": SmoothSpec(0.15),
    "lipschitz": LipschitzLaplaceSpec(),
}


@app.command()
def create(
    title: Annotated[str, typer.Argument(help="One line that people read.")],
    epsilon: Annotated[float, typer.Option(help="ε: two values PER apart are ε-alike.")],
    per: Annotated[float, typer.Option(help="A distance, in UNIT.")],
    attribute: Annotated[
        str, typer.Option(help="What participants hold, e.g. 'household income'.")
    ],
    unit: Annotated[str, typer.Option(help="Unit of PER; 'metre' for places.")] = "metre",
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
    radius: Annotated[float, typer.Option(help="Of the area, in metres.")] = 60_000.0,
    mechanism: Annotated[str, typer.Option(help=", ".join(_MECHANISMS))] = "debiased",
    split: Annotated[
        bool,
        typer.Option(
            help="Everyone answers all queries with a part of ε, instead of one with all."
        ),
    ] = False,
    days: Annotated[float, typer.Option(help="How long it takes reports, from now.")] = 30.0,
    campaign_id: Annotated[
        str | None, typer.Option("--id", help="Made from the title by default.")
    ] = None,
    server: Server = DEFAULT_SERVER,
    tls_roots: RootCertificates = None,
) -> None:
    """Publish a campaign and print its id.

    Example: geoveil campaign create "Income above 100k" --attribute "household income"
    --unit dollar --epsilon 1 --per 8000 --threshold 100000
    """
    if mechanism not in _MECHANISMS:
        raise ParameterError("mechanism", mechanism, "one of " + ", ".join(_MECHANISMS))
    privacy = GeoPrivacy(epsilon, per, unit)
    soft = 3 / privacy.rate
    questions = [
        Question(f"above {at:,.15g}", Threshold(at, width or soft, profile="smoothstep"))
        for at in threshold or []
    ]
    plane = None
    if place:
        places = [_place(text) for text in place]
        middle = _coordinates("center", center) if center else places[0][1]
        plane = AzimuthalEquidistant(*middle, radius_m=radius)
        questions += [
            Question(label, GaussianKernel(plane.project(where).tolist(), bandwidth or soft))
            for label, where in places
        ]
    if not questions:
        raise ParameterError("questions", "none", "at least one --threshold or --place")
    now = datetime.now(UTC)
    campaign = Campaign(
        campaign_id=campaign_id or _slug(title),
        title=title,
        attribute=Attribute(name=attribute, unit=unit, coordinates=plane),
        privacy=privacy,
        questions=tuple(questions),
        mechanism=_MECHANISMS[mechanism],
        allocation=Allocation.SPLIT if split else Allocation.PARTITION,
        opens=now,
        closes=now + timedelta(days=days),
    )
    with Analyst(server, tls_roots) as analyst:
        digest = analyst.create(encode(campaign))
    out.print(f"[bold]{campaign.campaign_id}[/]  {privacy_text(campaign)}  sha256:{digest.hex()}")


@app.command("list")
def list_(server: Server = DEFAULT_SERVER, tls_roots: RootCertificates = None) -> None:
    """List all campaigns."""
    with Analyst(server, tls_roots) as analyst:
        summaries = analyst.list()
    table = Table("id", "title", "state", "privacy", "closes (UTC)", "reports", box=SIMPLE_HEAD)
    table.columns[0].no_wrap = True  # it has to be typed
    for summary in summaries:
        campaign = decode(summary.envelope.campaign)
        state = campaign_pb2.CampaignState.Name(summary.state).removeprefix("CAMPAIGN_STATE_")
        table.add_row(
            campaign.campaign_id,
            campaign.title,
            state.lower(),
            privacy_text(campaign),
            f"{campaign.closes:%Y-%m-%d %H:%M}",
            f"{summary.reports:,}",
        )
    out.print(table)


@app.command()
def close(
    campaign_id: Annotated[str, typer.Argument(help="Of the campaign.")],
    server: Server = DEFAULT_SERVER,
    tls_roots: RootCertificates = None,
) -> None:
    """Stop a campaign from taking reports; its estimate stays."""
    with Analyst(server, tls_roots) as analyst:
        analyst.close_campaign(campaign_id)
    out.print(f"{campaign_id} is closed")


def _place(text: str) -> tuple[str, tuple[float, float]]:
    """Return the label and coordinates of 'label=longitude,latitude'."""
    label, _, numbers = text.rpartition("=")
    return (label or numbers), _coordinates("place", numbers)


def _coordinates(name: str, text: str) -> tuple[float, float]:
    try:
        longitude, latitude = (float(part) for part in text.split(","))
    except ValueError:
        raise ParameterError(name, text, "'longitude,latitude' in degrees") from None
    return longitude, latitude


def _slug(title: str) -> str:
    """Return an id made from a title."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:64].rstrip("-") or "campaign"
