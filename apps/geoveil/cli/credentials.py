"""geoveil token and certificate: credentials of analysts, servers and clients."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from geoveil.cli import options
from geoveil.cli.console import err, print_table, write_new
from geoveil.gp import ParameterError

if TYPE_CHECKING:
    from geoveil.aggregator import Authority, Issued, Scope

token = typer.Typer(
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


@token.command()
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


@token.command("list")
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


@token.command()
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


certificate = typer.Typer(
    help="Make TLS certificates on the curve P-256: an authority, and its servers and clients.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_AUTHORITY = "ca"

Folder = Annotated[
    Path, typer.Option("--folder", "-f", help="Directory of ca.pem, ca-key.pem and the new files.")
]
Expires = Annotated[str, typer.Option(help="Validity: 90d or 1y.")]
DEFAULT_FOLDER = Path()


@certificate.command()
def authority(
    name: Annotated[str, typer.Argument(help="The authority's name, for people.")] = "geoveil",
    expires: Expires = "10y",
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Make an authority to sign other certificates: ca.pem, for all to trust, and ca-key.pem.

    Anybody who has ca-key.pem can impersonate its servers and clients. Only its owner can read it;
    it is not encrypted, and no server needs it.
    """
    from geoveil.aggregator import Authority

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    certificate, _ = _write(folder, _AUTHORITY, Authority.create(name, options.lasting(expires)))
    err.tell(f"what talks to its servers: geoveil ... --tls-roots {certificate}")
    err.tell(f"servers that ask for certificates: geoveil serve ... --tls-client-ca {certificate}")


@certificate.command()
def server(
    hosts: Annotated[
        list[str],
        typer.Argument(help="Names and IP addresses by which clients reach the server."),
    ],
    expires: Expires = "1y",
    name: Annotated[str, typer.Option(help="The name of the server, and of its files.")] = "server",
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Make the certificate of a server, server.pem, and its key, server-key.pem."""
    files = _write(folder, name, _authority(folder).issue(name, options.lasting(expires), hosts))
    err.print(f"geoveil serve --tls-certificate {files[0]} --tls-key {files[1]}", soft_wrap=True)


@certificate.command()
def client(
    name: Annotated[str, typer.Argument(help="The name of the client, and of its files.")],
    expires: Expires = "1y",
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Make the certificate of a client, NAME.pem, and its key, NAME-key.pem.

    A server with --tls-client-ca ca.pem accepts no connection without such a certificate.
    """
    files = _write(folder, name, _authority(folder).issue(name, options.lasting(expires)))
    given = f"--tls-client-certificate {files[0]} --tls-client-key {files[1]}"
    err.print(f"geoveil ... --tls-roots {folder / 'ca.pem'} {given}", soft_wrap=True)


def _files(folder: Path, name: str) -> tuple[Path, Path]:
    if Path(name).name != name:
        raise ParameterError("name", name, "a name of a file, without its folder")
    return folder / f"{name}.pem", folder / f"{name}-key.pem"


def _authority(folder: Path) -> "Authority":
    from geoveil.aggregator import Authority, Issued

    parts = []
    for file in _files(folder, _AUTHORITY):
        try:
            parts.append(file.read_bytes())
        except OSError as error:
            raise ParameterError(
                "authority",
                str(file),
                f"a file to read ({error.strerror}): geoveil certificate authority makes it",
            ) from error
    return Authority(Issued(*parts))


def _write(folder: Path, name: str, issued: "Issued") -> tuple[Path, Path]:
    certificate, key = _files(folder, name)
    if certificate.exists():
        raise ParameterError("file", str(certificate), "new: a certificate is never overwritten")
    write_new(key, issued.key, mode=0o600)
    try:
        write_new(certificate, issued.certificate)
    except BaseException:
        key.unlink()  # without its certificate it only stands in the way of the next attempt
        raise
    return certificate, key
