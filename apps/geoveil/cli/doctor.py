"""geoveil doctor and db: misconfigurations with their remedies, and care of a database."""

import os
import resource
import shutil
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import distributions
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import grpc
import typer

from geoveil.aggregator import (
    Settings,
    TokenFile,
    back_up_database,
    check_database,
    check_files,
    descriptors_for,
    load,
    open_store,
)
from geoveil.analyst import counted
from geoveil.campaign import TLS, SigningKey, is_loopback, signer
from geoveil.cli import options
from geoveil.cli.campaign import envelope_in
from geoveil.cli.connection import health_of
from geoveil.cli.console import err, out, print_json
from geoveil.cli.plain_errors import for_operators
from geoveil.cli.serve import check_gateway
from geoveil.gp import GeoVeilError, ParameterError

_ANSWER_S = 2.0


@dataclass(frozen=True)
class Situation:
    """The settings and files to check."""

    settings: Settings
    url_file: Path | None = None
    """The file with the database's URL."""
    name: str | None = None
    """By which devices reach the server; None: not said."""
    campaign: Path | None = None
    """A signed campaign."""
    sign_key: Path | None = None
    """The operator's key."""
    aggregator: str | None = None
    """Address of one that a gateway elsewhere asks."""


Wrongs: TypeAlias = Iterator[tuple[object, str]]
"""For each check, whether something is wrong, and the sentence that says so, without its stop."""


@dataclass(frozen=True)
class Diagnosis:
    """A possible problem. Of what is wrong only the first is told; an error of geoveil is wrong."""

    name: str
    remedy: str
    look: Callable[[Situation], Wrongs]

    def __call__(self, of: Situation) -> str | None:
        try:
            return next((sentence for wrong, sentence in self.look(of) if wrong), None)
        except GeoVeilError as error:
            return str(error).rstrip(".")


def doctor(
    config: options.Config = None,
    name: Annotated[
        str | None, typer.Option(help="The name by which devices reach the server.")
    ] = None,
    campaign: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="A signed campaign to publish."),
    ] = None,
    sign_key: Annotated[
        Path | None,
        typer.Option(
            envvar=options.SIGN_KEY,
            exists=True,
            dir_okay=False,
            help="The key that signs campaigns.",
        ),
    ] = None,
    aggregator: Annotated[
        str | None,
        typer.Option(
            help="HOST:PORT of the aggregator that 'geoveil web' on another machine calls."
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Check settings, files and the machine, and list misconfigurations with their remedies.

    Settings are read as by 'geoveil serve'. Nothing is changed, except that an empty database
    gets its tables. Exit status 1 if anything is wrong.

    Example: geoveil doctor --config geoveil.toml --name collector.example
    """
    try:
        effective = load(config, os.environ, {}, others=options.VARIABLES)
    except ParameterError as error:
        rows = [("settings", str(error), "correct the setting: see docs/operating.md")]
    else:
        situation = Situation(
            effective.settings, effective.url_file, name, campaign, sign_key, aggregator
        )
        rows = [(of.name, wrong, of.remedy) for of in CHECKS if (wrong := of(situation))]
    if as_json:
        print_json([dict(zip(("check", "wrong", "remedy"), row, strict=True)) for row in rows])
    else:
        out.tell_all(
            *(
                line
                for of, wrong, remedy in rows
                for line in (((of, "bold red"), f": {wrong}."), f"  Remedy: {remedy}.")
            ),
            None if rows else f"{len(CHECKS)} checks, and nothing is wrong",
        )
    if rows:
        raise typer.Exit(1)


def _tls(of: Situation) -> Wrongs:
    settings = of.settings
    where = settings.web if is_loopback(settings.host) else settings.host
    yield (
        settings.tls_certificate is None and not settings.on_loopback,
        f"{where} can be reached from other machines without TLS",
    )


def _certificate(of: Situation) -> Wrongs:
    # Tokens have a check of their own, and what follows requires them.
    check_files(
        replace(
            of.settings,
            tokens_file=None,
            console=False,
            results_token_file=None,
            results_frames=(),
        )
    )
    yield from ()


def _dates(of: Situation) -> Wrongs:
    now = datetime.now(UTC)
    for own in _own_certificate(of):
        begins, ends = own.not_valid_before_utc, own.not_valid_after_utc
        yield (
            now < begins,
            f"the certificate is not valid before {begins:%Y-%m-%d}, or the clock is wrong",
        )
        yield now >= ends, f"the certificate ended on {ends:%Y-%m-%d}"
        yield (
            now + timedelta(days=14) > ends,
            f"the certificate ends on {ends:%Y-%m-%d}, within 14 days",
        )


def _certificate_name(of: Situation) -> Wrongs:
    from cryptography.x509 import DNSName, IPAddress, SubjectAlternativeName

    wanted = (of.name or "").lower()
    for own in _own_certificate(of) if wanted else ():
        held = [
            str(each.value)
            for extension in own.extensions
            if isinstance(extension.value, SubjectAlternativeName)
            for each in extension.value
            if isinstance(each, DNSName | IPAddress)
        ]
        fits = {wanted, "*." + wanted.partition(".")[2]} & set(map(str.lower, held))
        yield (
            not fits,
            f"the certificate is for {', '.join(held) or 'nobody'}, and not for {of.name}",
        )


def _secret_files(of: Situation) -> Wrongs:
    named = (
        of.settings.tls_key,
        of.settings.tokens_file,
        of.settings.relay_keys,
        of.settings.results_token_file,
        of.sign_key,
        of.url_file,
    )
    there = [file for file in named if file is not None and file.exists()]
    readable = [str(file) for file in there if file.stat().st_mode & stat.S_IRWXO]
    yield readable, f"everybody on this machine may open {', '.join(readable)}"


def _tokens(of: Situation) -> Wrongs:
    file, now = of.settings.tokens_file, datetime.now(UTC)
    ends = [token.expires for token in TokenFile(file).read()] if file is not None else [None]
    good = any(end is None or end > now for end in ends)
    yield not good, f"no token of {file} is valid any more"


def _analysts(of: Situation) -> Wrongs:
    yield (
        of.settings.insecure_open_analyst and not of.settings.on_loopback,
        "anybody who reaches the server may read estimates, and create and close campaigns",
    )


def _extras(of: Situation) -> Wrongs:
    settings = of.settings
    needed = {
        **dict.fromkeys(["uvicorn", "httptools"], settings.web is not None),
        **dict.fromkeys(["pyarrow"], settings.console),
        **dict.fromkeys(["jinja2"], settings.console or settings.results_token_file is not None),
        **dict.fromkeys(
            ["opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-grpc"],
            settings.traces is not None,
        ),
    }
    lacking = [name for name, used in needed.items() if used and not any(distributions(name=name))]
    yield lacking, f"not installed: {', '.join(lacking)}"


def _clock(of: Situation) -> Wrongs:
    seen = [Path(file) for file in (__file__, str(of.settings.database)) if Path(file).exists()]
    ahead = max(file.stat().st_mtime for file in seen) - time.time()
    yield (
        ahead > 300,
        f"the clock is at least {ahead:,.0f} seconds behind: files here are from the future",
    )


def _database(of: Situation) -> Wrongs:
    database = of.settings.database
    if isinstance(database, Path) and not database.exists():
        folder = database.absolute().parent
        can = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
        yield not can, f"{database} can't be made: {folder} is not a folder that may be written"
        return
    with open_store(database, busy_timeout_s=_ANSWER_S) as store:
        store.probe()


def _disk(of: Situation) -> Wrongs:
    database, least = of.settings.database, of.settings.least_free_bytes
    if isinstance(database, Path) and database.absolute().parent.is_dir():
        free = shutil.disk_usage(database.absolute().parent).free
        yield (
            free < least,
            f"{free:,} bytes are free beside {database}, and least_free_bytes is {least:,}",
        )


def _ports(of: Situation) -> Wrongs:
    settings = of.settings
    wanted = {
        "port": (settings.host, settings.port),
        **({} if settings.web is None else {"web": settings.web_address}),
        **(
            {}
            if settings.metrics_port is None
            else {"metrics_port": (settings.metrics_host, settings.metrics_port)}
        ),
    }
    used = [address for address in wanted.values() if address[1] != 0]
    yield len(set(used)) < len(used), "two of port, web and metrics_port are the same"
    for name, (host, port) in wanted.items():
        try:
            family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            with socket.socket(family, kind) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                tried.bind(address)
        except OSError as error:
            if name == "port" and not any(wrong for wrong, _ in _answers(f"{host}:{port}", of)):
                return  # it is a server of geoveil, with its gateway
            yield True, f"{name}: {host}:{port} can't be listened on ({error.strerror})"


def _open_files(of: Situation) -> Wrongs:
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)  # a server raises its own to this
    needed = descriptors_for(of.settings.max_connections)
    yield (
        limit != resource.RLIM_INFINITY and limit < needed,
        f"{limit:,} files may be open, and max_connections needs {needed:,}",
    )


def _web_door(of: Situation) -> Wrongs:
    settings = of.settings
    if settings.web is not None and not (settings.tls_certificate or settings.web_proxies):
        yield (
            not is_loopback(settings.web_address[0]),
            f"browsers that reach {settings.web} get plain HTTP: no positions, and nothing is kept",
        )


def _gateway_files(of: Situation) -> Wrongs:
    check_gateway(of.settings)
    yield from ()


def _operator_key(of: Situation) -> Wrongs:
    trusted = of.settings.trusted_keys
    own = of.sign_key and SigningKey.from_pem(of.sign_key.read_bytes()).public
    yield own and trusted and own not in trusted, f"{of.sign_key} is none of trusted_keys"
    if of.campaign is not None:
        by = signer(envelope_in(of.campaign))
        signed = f"{of.campaign} is signed by {by or 'nobody'}"
        yield trusted and by not in trusted, f"{signed}, who is not one of trusted_keys"
        yield own and by != own, f"{signed}, and not with {of.sign_key}"


def _own_certificate(of: Situation) -> Iterator[Any]:
    """Yield the certificate of the server, if it can be read: "certificate" says if it can't."""
    from cryptography.x509 import load_pem_x509_certificates

    if of.settings.tls_certificate is not None:
        with suppress(OSError, ValueError):
            yield load_pem_x509_certificates(of.settings.tls_certificate.read_bytes())[0]


def _answers(address: str | None, of: Situation) -> Wrongs:
    """Yield whether no aggregator answers at an address, if there is one, and why."""
    if address is None:
        return
    file = of.settings.tls_certificate
    tls = TLS(insecure=True) if file is None else TLS(root_certificates=file.read_bytes())
    try:
        yield (
            next(health_of(address, tls, timeout_s=_ANSWER_S)) != "SERVING",
            f"the aggregator at {address} is not SERVING",
        )
    except grpc.RpcError as error:
        yield True, f"no aggregator answers at {address} ({error.code().name})"


CHECKS = (
    Diagnosis(
        "tls",
        "give tls_certificate and tls_key, or listen on 127.0.0.1 behind a proxy with TLS",
        _tls,
    ),
    Diagnosis(
        "certificate",
        "give files that fit together: 'geoveil certificate server' makes them",
        _certificate,
    ),
    Diagnosis(
        "certificate dates",
        "ask the authority for a new certificate, and replace both files",
        _dates,
    ),
    Diagnosis(
        "certificate name",
        "ask for a certificate of that name, or have devices use one of its own",
        _certificate_name,
    ),
    Diagnosis(
        "secret files", "chmod 600, and give them to the user of the server alone", _secret_files
    ),
    Diagnosis(
        "tokens", "make one with 'geoveil token create NAME --scope ... --file FILE'", _tokens
    ),
    Diagnosis("analysts", "give a tokens_file in place of insecure_open_analyst", _analysts),
    Diagnosis(
        "extras",
        "pip install 'geoveil[console]', or 'geoveil[server]' without a console; for traces"
        " 'geoveil[tracing]'",
        _extras,
    ),
    Diagnosis(
        "clock", "set the clock, and keep it set by NTP: dates of campaigns depend on it", _clock
    ),
    Diagnosis(
        "database",
        "name one that this user may write; see 'A damaged database' in operating.md",
        _database,
    ),
    Diagnosis(
        "disk",
        "make room, or move the database: below least_free_bytes no new report is taken",
        _disk,
    ),
    Diagnosis(
        "ports", "stop the program that uses the port, or name another; 0 takes a free one", _ports
    ),
    Diagnosis(
        "open files", "raise the limit: LimitNOFILE= of the unit, or 'ulimit -n'", _open_files
    ),
    Diagnosis(
        "web door",
        "serve it over TLS, or name the proxy in front of it with web_proxies",
        _web_door,
    ),
    Diagnosis(
        "gateway files",
        "name a PMTiles file with web_streets, and with relay_keys one of 'geoveil relay rotate'",
        _gateway_files,
    ),
    Diagnosis(
        "aggregator",
        "start it with 'geoveil serve', or name another with --aggregator",
        lambda of: _answers(of.aggregator, of),
    ),
    Diagnosis(
        "operator key",
        "sign with a key of trusted_keys, or add its 'ed25519:...' to them",
        _operator_key,
    ),
)
"""All checks, in the order in which they are looked at."""

db = typer.Typer(
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


@db.command()
def check(
    database: Database = None,
    database_url_file: URLFile = None,
    config: options.Config = None,
) -> None:
    """Compare every sum with the reports behind it: status 0 if all is sound, else 1."""
    with for_operators():
        report = check_database(_settings_in(config, database, database_url_file).database)
    out.tell_all(*report.faults)
    what = f"{counted(report.campaigns, 'campaign')}, {counted(report.reports, 'report')}"
    if report.faults:
        err.print(f"{what}: {counted(len(report.faults), 'fault')}")
        raise typer.Exit(1)
    err.print(f"{what}: sound")


@db.command()
def backup(
    target: Annotated[Path, typer.Argument(help="New file.")],
    database: Database = None,
    database_url_file: URLFile = None,
    config: options.Config = None,
) -> None:
    """Write a consistent copy to a new file, which only its owner may read.

    A copy of SQLite is itself a database. A copy of PostgreSQL is for pg_restore, and needs a
    pg_dump on the PATH, of the server's major version or later.
    """
    with for_operators():
        back_up_database(_settings_in(config, database, database_url_file).database, target)
    err.print(f"copied to {target}")


def _settings_in(config: Path | None, database: str | None, url_file: Path | None) -> Settings:
    """Return the settings that `geoveil serve` would use."""
    flags = {"database": database, "database_url_file": url_file}
    return load(config, os.environ, flags, others=options.VARIABLES).settings
