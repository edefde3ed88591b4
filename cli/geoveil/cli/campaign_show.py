"""geoveil campaign show: what a campaign asks, promises, and counts of one report."""

import json
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from geoveil.campaign import Campaign, digest, encode
from geoveil.cli.connection import Connection, analyst_at, connects
from geoveil.cli.console import out, privacy_text


@connects
def show(
    campaign_id: Annotated[str, typer.Argument(help="The id of the campaign.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
    *,
    connection: Connection,
) -> None:
    """Print what a campaign asks, what it costs participants, and what one report counts for."""
    with analyst_at(connection) as analyst:
        campaign = analyst.campaign(campaign_id)
    if as_json:
        typer.echo(json.dumps(_record(campaign), indent=2))
        return
    out.tell((campaign.campaign_id, "bold"), f"  {campaign.title}")
    out.tell(f"{campaign.attribute.name}: {privacy_text(campaign)}")
    table = Table("query", "a report counts from", "to", "beyond", box=SIMPLE_HEAD)
    for label, column in zip(campaign.labels, _columns(campaign), strict=True):
        beyond = "counts as the end" if column["clamps"] else "is refused"
        table.add_row(label, _end(column["low"]), _end(column["high"]), beyond)
    out.print(table)
    out.print(weight_text(campaign))


def weight_text(campaign: Campaign) -> str:
    """Return by how much one report can move an estimate, in words."""
    most = max(map(campaign.most_from_one, range(campaign.columns)))
    return f"One report of n, whatever it says, moves a mean by at most {most:.4g}/n."


def _end(value: float) -> str:
    return f"{value:,.4g}" if abs(value) >= 1e6 else f"{value:,.4f}"


def _record(campaign: Campaign) -> dict[str, Any]:
    privacy = campaign.report_privacy
    return {
        "campaign_id": campaign.campaign_id,
        "title": campaign.title,
        "sha256": digest(encode(campaign)).hex(),
        "attribute": campaign.attribute.name,
        "unit": campaign.attribute.unit,
        "epsilon": privacy.epsilon,
        "per": privacy.per,
        "opens": campaign.opens.isoformat(),
        "closes": campaign.closes.isoformat(),
        "periods": campaign.periods,
        "minimum_participants": campaign.minimum_participants,
        "queries": [
            {"label": label, **column}
            for label, column in zip(campaign.labels, _columns(campaign), strict=True)
        ],
    }


def _columns(campaign: Campaign) -> list[dict[str, Any]]:
    """Return for each column its range, in the unit of the answers, and what is done beyond."""
    step = 2.0**campaign.grid_exponent
    return [
        {"low": low * step, "high": high * step, "clamps": clamps}
        for (low, high), clamps in zip(campaign.ranges, campaign.clamps, strict=True)
    ]
