"""geoveil estimate: what the reports of a campaign say."""

import json
from typing import Annotated

import typer
from rich.table import Table

from geoveil.cli import records
from geoveil.cli.analyst import DEFAULT_SERVER, Analyst, RootCertificates, Server
from geoveil.cli.console import number, out, privacy_text


def estimate(
    campaign_id: Annotated[str, typer.Argument(help="Of the campaign.")],
    confidence: Annotated[float, typer.Option(help="Of the interval, in (0, 1).")] = 0.95,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
    server: Server = DEFAULT_SERVER,
    tls_roots: RootCertificates = None,
) -> None:
    """Print the unbiased estimate of every query of a campaign."""
    with Analyst(server, tls_roots) as analyst:
        campaign, rows = records.read(analyst.estimate(campaign_id, confidence))
    if as_json:
        estimates = [row.to_json() for row in rows]
        typer.echo(json.dumps({"campaign_id": campaign_id, "estimates": estimates}, indent=2))
        return
    table = Table("query", "estimate", "standard error", f"{100 * confidence:g} % interval", "n")
    for row in rows:
        enough = row.standard_error is not None
        interval = f"{number(row.ci_low)} – {number(row.ci_high)}" if enough else "needs n ≥ 2"
        table.add_row(
            row.name, number(row.estimate), number(row.standard_error), interval, f"{row.n:,}"
        )
    out.print(f"[bold]{campaign.title}[/]  ({privacy_text(campaign)}, for each participant)")
    out.print(table)
    out.print(
        "Unbiased for the mean of the soft query over those who took part;"
        " the error holds noise and sampling."
    )
