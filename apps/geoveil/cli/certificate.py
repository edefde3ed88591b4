"""geoveil certificate: TLS certificates for people who have no authority to issue them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from geoveil.cli.console import err, write_new
from geoveil.cli.options import lasting
from geoveil.gp import ParameterError

if TYPE_CHECKING:
    from geoveil.aggregator import Authority, Issued

app = typer.Typer(
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


@app.command()
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
    certificate, _ = _write(folder, _AUTHORITY, Authority.create(name, lasting(expires)))
    err.tell(f"what talks to its servers: geoveil ... --tls-roots {certificate}")
    err.tell(f"servers that ask for certificates: geoveil serve ... --tls-client-ca {certificate}")


@app.command()
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
    files = _write(folder, name, _authority(folder).issue(name, lasting(expires), hosts))
    err.print(f"geoveil serve --tls-certificate {files[0]} --tls-key {files[1]}", soft_wrap=True)


@app.command()
def client(
    name: Annotated[str, typer.Argument(help="The name of the client, and of its files.")],
    expires: Expires = "1y",
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Make the certificate of a client, NAME.pem, and its key, NAME-key.pem.

    A server with --tls-client-ca ca.pem takes connections from none without one.
    """
    files = _write(folder, name, _authority(folder).issue(name, lasting(expires)))
    options = f"--tls-client-certificate {files[0]} --tls-client-key {files[1]}"
    err.print(f"geoveil ... --tls-roots {folder / 'ca.pem'} {options}", soft_wrap=True)


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
