"""geoveil token: manage the analysts who may query an aggregator."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from geoveil.cli import options
from geoveil.cli.console import err, print_table
from geoveil.gp import ParameterError

if TYPE_CHECKING:
    from geoveil.aggregator import Scope

app = typer.Typer(
    help="Make and revoke the tokens of analysts.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

File = Annotated[
    Path,
    typer.Option(
        "--file", "-f", envvar=options.TOKENS_FILE, help="The tokens_file of the aggregator."
    ),
]
DEFAULT_FILE = Path("tokens.json")


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Who or what will use it.")],
    scope: Annotated[
        str,
        typer.Option(
            help="Permissions, separated by commas: create, close, list, estimate, export, operate."
        ),
    ] = "list,estimate",
    expires: Annotated[str, typer.Option(help="Validity: 12h, 90d, 1y, or never.")] = "90d",
    campaign: Annotated[
        list[str] | None,
        typer.Option(
            help="Limit the token to the campaign with this id, which may not exist yet. May be"
            " repeated; any campaign by default."
        ),
    ] = None,
    file: File = DEFAULT_FILE,
) -> None:
    """Make a token and print it, this once: the file keeps only its SHA-256."""
    from geoveil.aggregator import TokenFile

    now = datetime.now(UTC).replace(microsecond=0)
    end = None if expires == "never" else now + options.lasting(expires)
    text = TokenFile(file).create(name, _scopes(scope), end, campaign or None)
    err.print(f"token {name!r} added to {file}; keep it now, it is not shown again:")
    typer.echo(text)


@app.command("list")
def list_tokens(file: File = DEFAULT_FILE) -> None:
    """Print name, scopes, campaigns and end of every token, never the token."""
    from geoveil.aggregator import TokenFile

    now = datetime.now(UTC)
    print_table(
        ("name", "scopes", "campaigns", "expires", ""),
        (
            (
                token.name,
                ",".join(sorted(scope.value for scope in token.scopes)),
                "any" if token.campaigns is None else ", ".join(sorted(token.campaigns)),
                "never" if token.expires is None else f"{token.expires:%Y-%m-%d %H:%M} UTC",
                "expired" if token.expires is not None and token.expires <= now else "",
            )
            for token in TokenFile(file).read()
        ),
        wrapped=[1],
    )


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(help="The name of the token.")], file: File = DEFAULT_FILE
) -> None:
    """Remove a token: servers refuse it from the next call on, without a restart."""
    from geoveil.aggregator import TokenFile

    TokenFile(file).revoke(name)
    err.print(f"token {name!r} removed from {file}")


def _scopes(text: str) -> "list[Scope]":
    from geoveil.aggregator import Scope

    scopes = {scope.value: scope for scope in Scope}
    names = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name not in scopes]:
        raise ParameterError("scope", unknown[0], f"some of {', '.join(scopes)}")
    return [scopes[name] for name in names]
