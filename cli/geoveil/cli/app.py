"""Assembles the command from its parts; every part is a module with one job."""

from importlib.metadata import version
from typing import Annotated

import typer

from geoveil.cli import (
    audit,
    campaign,
    client,
    contribute,
    db,
    demo,
    estimate,
    health,
    plan,
    serve,
    simulate,
    token,
)
from geoveil.cli.console import fail
from geoveil.gp import GeoVeilError

app = typer.Typer(
    name="geoveil",
    help="Population statistics from private values, without trusting the server.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("serve")(serve.serve)
app.command("health")(health.health)
app.add_typer(db.app, name="db")
app.add_typer(token.app, name="token")
app.add_typer(campaign.app, name="campaign")
app.command("contribute")(contribute.contribute)
app.add_typer(client.app, name="client")
app.command("estimate")(estimate.estimate)
app.command("plan")(plan.plan)
app.command("demo")(demo.demo)
app.command("audit")(audit.audit)
app.add_typer(simulate.app, name="simulate")


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"geoveil {version('geoveil')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Population statistics from private values, without trusting the server."""


def main() -> None:
    """Run the command; errors of geoveil become one line and exit status 1."""
    try:
        app()
    except GeoVeilError as error:
        fail(str(error))
