"""geoveil relay: hide addresses of devices from the server, by Oblivious HTTP."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from geoveil.campaign import SigningKey, address_to_listen_on, token_key_id
from geoveil.cli import options
from geoveil.cli.console import err, write_new
from geoveil.gp import ParameterError
from geoveil.relay import (
    GatewayKeys,
    InvitationCodes,
    Issuer,
    IssuerKey,
    IssuerServer,
    Relay,
    WebAttester,
)

app = typer.Typer(
    help="Hide devices' addresses from the server, and limit each person to one report.",
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
    """Run a relay for tests and first tries: it drops all headers and forwards sealed messages.

    It protects devices only if somebody other than the gateway's operator runs it. It listens
    without TLS: for devices on other machines, use nginx instead, see docs/operating.md.

    Ctrl-C ends it.
    """
    with Relay(address_to_listen_on("listen", listen), gateway) as running:
        err.print(f"relay at http://{running.server_name}:{running.server_port}", soft_wrap=True)
        running.serve_forever()


@app.command()
def rotate(
    file: Annotated[
        Path,
        typer.Argument(dir_okay=False, help="File with the keys of a gateway; created if missing."),
    ],
    sign_key: Annotated[
        Path,
        typer.Option(
            envvar=options.SIGN_KEY,
            exists=True,
            dir_okay=False,
            help="The operator's key, which devices know; see 'geoveil campaign keygen'.",
        ),
    ],
    expires: Annotated[str, typer.Option(help="Validity of the new key: 30d.")] = "30d",
) -> None:
    """Make a new signed key for a gateway, and keep the previous one, which devices may have.

    Pass the file to 'geoveil serve --relay-keys', which rereads it when it changes; the operator's
    key stays where it is. Anybody who has the file can read everything sent through the relay.

    Example: geoveil relay rotate relay.keys --sign-key operator.pem
    """
    operator = SigningKey.from_pem(sign_key.read_bytes())
    made = GatewayKeys.rotate(file, operator, options.lasting(expires))
    until = datetime.fromtimestamp(made.expires, UTC)
    err.print(f"until {until:%Y-%m-%d %H:%M} UTC, for devices that know this operator:")
    typer.echo(operator.public)


@app.command()
def key(
    file: Annotated[Path, typer.Argument(help="File for the private key. It must not exist.")],
    periods: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=4_000,
            help="For a recurring campaign: make one key for each of this many periods, and print"
            " their ids.",
        ),
    ] = None,
) -> None:
    """Make the key of an issuer for one campaign, and print its public half for the campaign.

    Only its owner can read the file, which is not encrypted. Anybody who has it can send any
    number of reports.

    Example: geoveil relay key income.pem > income.key
    """
    made = [IssuerKey.generate() for _ in range(periods or 1)]
    write_new(file, b"".join(key.to_pem() for key in made), mode=0o600)
    for key in made:
        typer.echo((key.public if periods is None else token_key_id(key.public)).hex())


@app.command()
def invite(
    file: Annotated[
        Path,
        typer.Argument(dir_okay=False, help="File for hashes of the codes; created if missing."),
    ],
    count: Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of codes.")] = 1,
) -> None:
    """Make invitation codes, and print them: each lets a person send one report (per period)."""
    for code in InvitationCodes.invite(file, count):
        typer.echo(code)


@app.command()
def issue(
    keys: Annotated[
        list[Path],
        typer.Argument(
            exists=True, dir_okay=False, help="Files with keys from 'geoveil relay key'."
        ),
    ],
    codes: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False, help="Give tokens to people with a code from 'geoveil relay invite'."
        ),
    ] = None,
    ask: Annotated[
        str | None,
        typer.Option(
            help="Give tokens to people whom this URL knows: it gets a GET request with the"
            " person's bearer token, and answers 200 with an account name, or 401."
        ),
    ] = None,
    given: Annotated[
        Path, typer.Option(dir_okay=False, help="SQLite file of people who were given a token.")
    ] = Path("given.sqlite"),
    listen: Annotated[
        str, typer.Option(help="HOST:PORT to listen on; port 0 takes a free one.")
    ] = "127.0.0.1:7720",
) -> None:
    """Run an issuer: it gives each person one token per campaign, and can't recognise it later.

    It listens without TLS: put a proxy before it for devices on other machines.

    Ctrl-C ends it.
    """
    if (codes is None) == (ask is None):
        raise ParameterError("codes", None if codes is None else str(codes), "given, or else --ask")
    attester = InvitationCodes(codes) if codes is not None else WebAttester(str(ask))
    every = [key for file in keys for key in IssuerKey.all_from_pem(file.read_bytes())]
    address = address_to_listen_on("listen", listen)
    with IssuerServer(address, Issuer(every, attester, given)) as running:
        err.print(f"issuer at http://{running.server_name}:{running.server_port}", soft_wrap=True)
        running.serve_forever()
