"""geoveil doctor: find misconfigurations before or while a server runs, with remedies."""

import os
import resource
import shutil
import socket
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import grpc
import typer

from geoveil.aggregator import Settings, TokenFile, check_files, database_of, load, open_store
from geoveil.campaign import TLS, SigningKey, is_loopback, signer
from geoveil.cli import options
from geoveil.cli.campaign import envelope_in
from geoveil.cli.connection import health_of
from geoveil.cli.console import out, print_json
from geoveil.cli.environment import CONFIG, SIGN_KEY, VARIABLES
from geoveil.gp import GeoVeilError, ParameterError

_SOON = timedelta(days=14)
_SPARE_FILES = 100
_CLOCK_S = 300.0
_ANSWER_S = 2.0


@dataclass(frozen=True)
class Situation:
    """The settings and files to check."""

    settings: Settings
    name: str | None = None
    """By which devices reach the server; None: not said."""
    campaign: Path | None = None
    """A signed campaign."""
    sign_key: Path | None = None
    """The operator's key."""
    aggregator: str | None = None
    """Address of one that a gateway elsewhere asks."""


Look: TypeAlias = "Callable[[Situation], Iterator[str]]"
"""Yields faults, each a sentence without its stop; only the first is told."""


@dataclass(frozen=True)
class Diagnosis:
    """A possible problem."""

    name: str
    remedy: str
    look: Look


CHECKS: list[Diagnosis] = []
"""All checks, in the order in which they are looked at."""


def _check(name: str, remedy: str) -> Callable[[Look], Look]:
    def add(look: Look) -> Look:
        CHECKS.append(Diagnosis(name, remedy, look))
        return look

    return add


def doctor(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", envvar=CONFIG, help="TOML file of settings, as for serve."),
    ] = None,
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
            envvar=SIGN_KEY, exists=True, dir_okay=False, help="The key that signs campaigns."
        ),
    ] = None,
    aggregator: Annotated[
        str | None,
        typer.Option(
            help="HOST:PORT of the aggregator that 'geoveil web' on another machine asks."
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
        settings = load(config, os.environ, {}, others=VARIABLES).settings
    except ParameterError as error:
        _tell({"settings": (str(error), "correct the setting: see docs/operating.md")}, as_json)
        raise typer.Exit(1) from None
    situation = Situation(settings, name, campaign, sign_key, aggregator)
    wrong = {
        check.name: (problem, check.remedy)
        for check in CHECKS
        if (problem := next(check.look(situation), None)) is not None
    }
    _tell(wrong, as_json)
    if wrong:
        raise typer.Exit(1)


def _tell(wrong: Mapping[str, tuple[str, str]], as_json: bool) -> None:
    if as_json:
        keys = ("check", "wrong", "remedy")
        print_json([dict(zip(keys, (name, *said), strict=True)) for name, said in wrong.items()])
        return
    for name, (problem, remedy) in wrong.items():
        out.tell((name, "bold red"), f": {problem}.")
        out.tell(f"  Remedy: {remedy}.")
    if not wrong:
        out.tell(f"{len(CHECKS)} checks, and nothing is wrong")


@_check("tls", "give tls_certificate and tls_key, or listen on 127.0.0.1 behind a proxy with TLS")
def _tls(of: Situation) -> Iterator[str]:
    settings = of.settings
    if settings.tls_certificate is None and not settings.on_loopback:
        where = settings.web if is_loopback(settings.host) else settings.host
        yield f"{where} is reached from other machines, and talks without TLS"


@_check("certificate", "give files that fit together: 'geoveil certificate server' makes them")
def _certificate(of: Situation) -> Iterator[str]:
    try:  # tokens have a check of their own
        check_files(replace(of.settings, tokens_file=None, console=False))
    except ParameterError as error:
        yield str(error)


@_check("certificate dates", "ask the authority for a new certificate, and replace both files")
def _dates(of: Situation) -> Iterator[str]:
    now = datetime.now(UTC)
    for own in _own_certificate(of):
        begins, ends = own.not_valid_before_utc, own.not_valid_after_utc
        if now < begins:
            yield f"the certificate begins on {begins:%Y-%m-%d}: or the clock is wrong"
        if now >= ends:
            yield f"the certificate ended on {ends:%Y-%m-%d}"
        if now + _SOON > ends:
            yield f"the certificate ends on {ends:%Y-%m-%d}, within 14 days"


@_check(
    "certificate name", "ask for a certificate of that name, or have devices use one of its own"
)
def _certificate_name(of: Situation) -> Iterator[str]:
    from cryptography.x509 import DNSName, IPAddress, SubjectAlternativeName

    wanted = (of.name or "").lower()
    for own in _own_certificate(of) if wanted else ():
        held: list[str] = []
        for extension in own.extensions:
            names = extension.value
            if isinstance(names, SubjectAlternativeName):
                held += names.get_values_for_type(DNSName)
                held += map(str, names.get_values_for_type(IPAddress))
        if not {wanted, "*." + wanted.partition(".")[2]} & set(map(str.lower, held)):
            yield f"the certificate is for {', '.join(held) or 'nobody'}, and not for {of.name}"


@_check("secret files", "chmod 600, and give them to the user of the server alone")
def _secret_files(of: Situation) -> Iterator[str]:
    url_file = os.environ.get("GEOVEIL_DATABASE_URL_FILE", "")
    for name in (of.settings.tls_key, of.settings.tokens_file, of.sign_key, url_file):
        file = Path(name or "")
        if name and file.exists() and stat.S_IMODE(file.stat().st_mode) & stat.S_IRWXO:
            yield f"everybody on this machine may open {file}"


@_check("tokens", "make one with 'geoveil token create NAME --scope ... --file FILE'")
def _tokens(of: Situation) -> Iterator[str]:
    file, now = of.settings.tokens_file, datetime.now(UTC)
    try:
        ends = [token.expires for token in TokenFile(file).read()] if file is not None else [None]
    except ParameterError as error:
        yield str(error)
    else:
        if not any(end is None or end > now for end in ends):
            yield f"no token of {file} is good any more"


@_check("analysts", "give a tokens_file in place of insecure_open_analyst")
def _analysts(of: Situation) -> Iterator[str]:
    if of.settings.insecure_open_analyst and not of.settings.on_loopback:
        yield "anybody who reaches the server may read estimates, and create and close campaigns"


@_check("extras", "pip install 'geoveil[console]', or 'geoveil[server]' without a console")
def _extras(of: Situation) -> Iterator[str]:
    needed = ["uvicorn", "httptools"] if of.settings.web is not None else []
    needed += ["jinja2", "pyarrow"] if of.settings.console else []
    lacking = [name for name in needed if find_spec(name) is None]
    if lacking:
        yield f"not installed: {', '.join(lacking)}"


@_check("clock", "set the clock, and let it be kept by NTP: dates of campaigns depend on it")
def _clock(of: Situation) -> Iterator[str]:
    database = of.settings.database
    seen = [Path(__file__), *([database] if isinstance(database, Path) else [])]
    ahead = max(file.stat().st_mtime for file in seen if file.exists()) - time.time()
    if ahead > _CLOCK_S:
        yield f"the clock is at least {ahead:,.0f} seconds behind: files here are of the future"


@_check("database", "name one that this user may write; see 'A damaged database' in operating.md")
def _database(of: Situation) -> Iterator[str]:
    database = of.settings.database
    if isinstance(database, Path) and not database.exists():
        folder = database.absolute().parent
        if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
            yield f"{database} can't be made: {folder} is no folder that may be written"
        return
    try:
        with open_store(database_of(of.settings), busy_timeout_s=_ANSWER_S) as store:
            store.probe()
    except GeoVeilError as error:
        yield str(error).rstrip(".")


@_check("disk", "make room, or move the database: below least_free_bytes no new report is taken")
def _disk(of: Situation) -> Iterator[str]:
    database, least = of.settings.database, of.settings.least_free_bytes
    if isinstance(database, Path) and database.absolute().parent.is_dir():
        free = shutil.disk_usage(database.absolute().parent).free
        if free < least:
            yield f"{free:,} bytes are free beside {database}, and least_free_bytes is {least:,}"


@_check("ports", "end what has the port, or name another; 0 takes a free one")
def _ports(of: Situation) -> Iterator[str]:
    settings = of.settings
    wanted = {"port": (settings.host, settings.port)}
    if settings.web is not None:
        wanted["web"] = settings.web_address
    if settings.metrics_port is not None:
        wanted["metrics_port"] = (settings.metrics_host, settings.metrics_port)
    used = [address for address in wanted.values() if address[1] != 0]
    if len(set(used)) < len(used):
        yield "two of port, web and metrics_port are the same"
    for name, (host, port) in wanted.items():
        try:
            family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            with socket.socket(family, kind) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                tried.bind(address)
        except OSError as error:
            if name == "port" and not any(_unanswered(f"{host}:{port}", of)):
                return  # it is a server of geoveil, with its gateway
            yield f"{name}: {host}:{port} can't be listened on ({error.strerror})"


@_check("open files", "raise the limit: LimitNOFILE= of the unit, or 'ulimit -n'")
def _open_files(of: Situation) -> Iterator[str]:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    connections = of.settings.max_connections
    needed = connections + _SPARE_FILES
    if limit != resource.RLIM_INFINITY and limit < needed:
        yield f"{limit:,} files may be open, and {connections:,} connections need {needed:,}"


@_check("web door", "let it be reached by TLS, or name the proxy before it with web_proxies")
def _web_door(of: Situation) -> Iterator[str]:
    settings = of.settings
    safe = settings.web is None or settings.tls_certificate is not None or settings.web_proxies
    if not safe and not is_loopback(settings.web_address[0]):
        plain = "get plain HTTP: no positions, and nothing is kept"
        yield f"browsers that reach {settings.web} {plain}"


@_check("aggregator", "start it with 'geoveil serve', or name another with --aggregator")
def _aggregator(of: Situation) -> Iterator[str]:
    if of.aggregator is not None:
        yield from _unanswered(of.aggregator, of)


@_check("operator key", "sign with a key of trusted_keys, or add its 'ed25519:...' to them")
def _operator_key(of: Situation) -> Iterator[str]:
    trusted = of.settings.trusted_keys
    own = of.sign_key and SigningKey.from_pem(of.sign_key.read_bytes()).public
    if own and trusted and own not in trusted:
        yield f"{of.sign_key} is none of trusted_keys"
    if of.campaign is None:
        return
    try:
        by = signer(envelope_in(of.campaign))
    except GeoVeilError as error:
        yield f"{of.campaign}: {error}"
        return
    signed = f"{of.campaign} is signed by {by or 'nobody'}"
    if trusted and by not in trusted:
        yield f"{signed}, who is none of trusted_keys"
    if own and by != own:
        yield f"{signed}, and not with {of.sign_key}"


def _own_certificate(of: Situation) -> Iterator[Any]:
    """Yield the certificate of the server, if it can be read: "certificate" says if it can't."""
    from cryptography.x509 import load_pem_x509_certificates

    if of.settings.tls_certificate is not None:
        with suppress(OSError, ValueError):
            yield load_pem_x509_certificates(of.settings.tls_certificate.read_bytes())[0]


def _unanswered(address: str, of: Situation) -> Iterator[str]:
    """Yield why no aggregator answers at an address, if none does."""
    file = of.settings.tls_certificate
    tls = TLS(insecure=True) if file is None else TLS(root_certificates=file.read_bytes())
    try:
        if next(health_of(address, tls, timeout_s=_ANSWER_S)) != "SERVING":
            yield f"the aggregator at {address} is not SERVING"
    except grpc.RpcError as error:
        yield f"no aggregator answers at {address} ({error.code().name})"
