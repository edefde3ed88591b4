"""geoveil serve: run an aggregator until it is told to stop."""

import logging
from pathlib import Path
from typing import Annotated

import typer


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 7717,
    database: Annotated[
        Path, typer.Option("--database", "-d", help="SQLite file; made if it is not there.")
    ] = Path("geoveil.db"),
    tls_certificate: Annotated[
        Path | None, typer.Option("--tls-cert", help="PEM certificate chain.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", help="PEM private key.")] = None,
    grace_s: Annotated[
        float, typer.Option("--grace", help="Seconds that open calls get when told to stop.")
    ] = 10.0,
) -> None:
    """Run an aggregator: it counts reports exactly once, and keeps what it acknowledged.

    SIGTERM or Ctrl-C: it reports NOT_SERVING, lets open calls end, and exits with status 0.
    """
    from geoveil.aggregator import Settings, run

    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    settings = Settings(
        host=host,
        port=port,
        database=database,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        grace_s=grace_s,
    )
    run(settings)
