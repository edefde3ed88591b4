"""geoveil relay: what keeps addresses of devices from the server, by Oblivious HTTP."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from geoveil.campaign import SigningKey
from geoveil.cli.console import err
from geoveil.cli.environment import SIGN_KEY
from geoveil.cli.token import lasting
from geoveil.gp import ParameterError
from geoveil.relay import GatewayKeys, Relay

app = typer.Typer(
    help="Keep addresses of devices from the server: Oblivious HTTP (RFC 9458).",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def serve(
    gateway: Annotated[
        str, typer.Argument(help="URL of the gateway: https://HOST, or http:// on this machine.")
    ],
    listen: Annotated[
        str, typer.Option(help="HOST:PORT to listen on; port 0 takes a free one.")
    ] = "127.0.0.1:7719",
) -> None:
    """Run a relay for tests and first tries: it drops all headers and forwards what is sealed.

    Somebody else than the operator of the gateway has to run it, or it keeps nothing apart. It
    listens without TLS: for devices on other machines nginx does the same, see docs/operating.md.

    Ctrl-C ends it.
    """
    host, _, port = listen.rpartition(":")
    if not (host and port.isascii() and port.isdigit() and int(port) <= 65_535):
        raise ParameterError("listen", listen, 'HOST:PORT, such as "127.0.0.1:7719"')
    with Relay((host.strip("[]"), int(port)), gateway) as running:
        err.print(f"relay at http://{host}:{running.server_port}", soft_wrap=True)
        running.serve_forever()


@app.command()
def rotate(
    file: Annotated[
        Path, typer.Argument(dir_okay=False, help="The keys of a gateway; made if missing.")
    ],
    sign_key: Annotated[
        Path,
        typer.Option(
            envvar=SIGN_KEY,
            exists=True,
            dir_okay=False,
            help="The operator's key, which devices know; see 'geoveil campaign keygen'.",
        ),
    ],
    expires: Annotated[str, typer.Option(help="How long the new key is good for: 30d.")] = "30d",
) -> None:
    """Make a new key for a gateway, signed, and keep the one before it: devices may have that.

    The file goes to 'geoveil web --relay-keys', which reads it again when it changes; the
    operator's key stays where it is. Whoever has the file reads what comes through the relay.

    Example: geoveil relay rotate relay.keys --sign-key operator.pem
    """
    operator = SigningKey.from_pem(sign_key.read_bytes())
    made = GatewayKeys.rotate(file, operator, lasting(expires))
    until = datetime.fromtimestamp(made.expires, UTC)
    err.print(f"until {until:%Y-%m-%d %H:%M} UTC, for devices that know this operator:")
    typer.echo(operator.public)
