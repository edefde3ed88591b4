"""geoveil web: run a gateway, which passes calls of browsers and curl to an aggregator."""

import asyncio
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from geoveil.cli.connection import Connection, connects
from geoveil.gp import needed_for


@connects
def web(
    connection: Connection,
    listen: Annotated[
        str, typer.Option("--web", help="HOST:PORT to listen on; port 0 takes a free one.")
    ] = "127.0.0.1:7718",
    console: Annotated[
        bool, typer.Option("--console", help="Serve the console, at /console/.")
    ] = False,
    results_token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with a token: everybody may see the estimates that it permits, at /results/."
        ),
    ] = None,
    results_frames: Annotated[
        list[str] | None,
        typer.Option("--results-frame", help="Pages of this origin may embed those results."),
    ] = None,
    web_origins: Annotated[
        list[str] | None,
        typer.Option("--web-origin", help="Pages of this origin may call; may be repeated."),
    ] = None,
    web_proxies: Annotated[
        list[str] | None,
        typer.Option(
            "--web-proxy", help="Trust X-Forwarded-For from this address; may be repeated."
        ),
    ] = None,
    web_streets: Annotated[
        Path | None, typer.Option(help="PMTiles file of streets for the pages' maps.")
    ] = None,
    web_issuer: Annotated[
        str | None,
        typer.Option(
            help="URL of the issuer from which the page gets people's tokens: https://HOST."
        ),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(help="PEM certificate chain of the gateway.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM private key of the gateway.")] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(
            help="PEM certificates of authorities; browsers then need a"
            " certificate from one of them."
        ),
    ] = None,
    relay_keys: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="Keys of 'geoveil relay rotate': also answer requests that come through relays.",
        ),
    ] = None,
    max_message_bytes: Annotated[
        int, typer.Option(help="Largest size of a request in bytes; as for the aggregator.")
    ] = 4 << 20,
    shown: Annotated[
        str | None,
        typer.Option(help="The aggregator's address in the code that the console shows."),
    ] = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    log_format: Annotated[str, typer.Option(help="json, human, or auto.")] = "auto",
    descriptor: Annotated[int | None, typer.Option("--fd", hidden=True)] = None,
) -> None:
    """Run a gateway: pages, Connect, gRPC-Web and JSON for browsers, in front of an aggregator.

    It calls the aggregator at --server like any other client, so it may run on another machine.
    'geoveil serve --web' runs one beside the aggregator.

    SIGTERM or Ctrl-C ends it.
    """
    from geoveil.aggregator import configure
    from geoveil.gateway import GatewaySettings

    with needed_for("the gateway"):
        from geoveil.gateway.server import serve

    settings = GatewaySettings(
        server=connection.server,
        tls=connection.security(),
        web=listen,
        origins=tuple(web_origins or ()),
        proxies=tuple(web_proxies or ()),
        streets=web_streets,
        issuer=web_issuer,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        tls_client_ca=tls_client_ca,
        relay_keys=relay_keys,
        console=console,
        results_token_file=results_token_file,
        results_frames=tuple(results_frames or ()),
        shown=shown or connection.server,
        longest=max_message_bytes,
    )
    configure(log_level, log_format)
    taken = None if descriptor is None else socket.socket(fileno=descriptor)
    if taken is not None:  # by `geoveil serve`, whose end ends this
        threading.Thread(target=_end_with_parent, daemon=True).start()
    asyncio.run(serve(settings, taken))


def _end_with_parent() -> None:
    """Wait until the parent process is gone, and end this one."""
    while os.read(sys.stdin.fileno(), 1):  # without the lock that Python needs at its end
        pass
    os._exit(0)
