"""geoveil db: care of the database of an aggregator."""

import os
from pathlib import Path
from typing import Annotated

import typer

from geoveil.aggregator import back_up_database, check_database, database_of, load
from geoveil.cli import options
from geoveil.cli.console import err, out
from geoveil.cli.plain_errors import for_operators

app = typer.Typer(
    help="Check or copy the database of an aggregator, also while it runs.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Database = Annotated[
    str | None,
    typer.Option("--database", "-d", help="SQLite file, or postgresql:// URL (geoveil.db)."),
]
URLFile = Annotated[
    Path | None,
    typer.Option("--database-url-file", help="File with the URL, which holds a password."),
]


@app.command()
def check(
    database: Database = None,
    database_url_file: URLFile = None,
    config: options.Config = None,
) -> None:
    """Compare every sum with the reports behind it: status 0 if all is sound, else 1."""
    with for_operators():
        report = check_database(_database(config, database, database_url_file))
    out.tell_all(*report.faults)
    what = f"{_count(report.campaigns, 'campaign')}, {_count(report.reports, 'report')}"
    if report.faults:
        err.print(f"{what}: {_count(len(report.faults), 'fault')}")
        raise typer.Exit(1)
    err.print(f"{what}: sound")


@app.command()
def backup(
    target: Annotated[Path, typer.Argument(help="New file.")],
    database: Database = None,
    database_url_file: URLFile = None,
    config: options.Config = None,
) -> None:
    """Write a consistent copy to a new file, which only its owner may read.

    Of SQLite it is a database as it is. Of PostgreSQL it is for pg_restore, and takes a pg_dump on
    the PATH that is of the server's major version or later.
    """
    with for_operators():
        back_up_database(_database(config, database, database_url_file), target)
    err.print(f"copied to {target}")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _database(config: Path | None, database: str | None, url_file: Path | None) -> Path | str:
    """Return the database that `geoveil serve` would use."""
    flags = {"database": database, "database_url_file": url_file}
    return database_of(load(config, os.environ, flags, others=options.VARIABLES).settings)
