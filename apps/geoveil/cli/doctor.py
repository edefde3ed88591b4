"""geoveil doctor: find misconfigurations before or while a server runs, with remedies."""

import os
import resource
import shutil
import socket
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from geoveil.aggregator import Settings, TokenFile, check_files, database_of, load, open_store
from geoveil.campaign import TLS, SigningKey, is_loopback, open_channel, signer
from geoveil.cli import options
from geoveil.cli.campaign_text import envelope_in
from geoveil.cli.console import out, print_json
from geoveil.cli.environment import CONFIG, SIGN_KEY, VARIABLES
from geoveil.gp import GeoVeilError, ParameterError

_SOON = timedelta(days=14)
_SPARE_FILES = 100
_CLOCK_S = 300.0
_ANSWER_S = 2.0
_WORLD = stat.S_IRWXO


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


Finding: TypeAlias = "str | None"
"""The fault, as a sentence without its stop; None without a fault."""


@dataclass(frozen=True)
class Diagnosis:
    """A possible problem."""

    name: str
    remedy: str
    look: Callable[[Situation], Finding]


CHECKS: list[Diagnosis] = []
"""All checks, in the order in which they are looked at."""


def _check(name: str, remedy: str) -> Callable[[Callable[[Situation], Finding]], Any]:
    def add(look: Callable[[Situation], Finding]) -> Callable[[Situation], Finding]:
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
    """Look at settings, files and the machine, and name what is misconfigured, with a remedy.

    Settings are read as 'geoveil serve' reads them. Nothing is changed, but that an empty database
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
        if (problem := check.look(situation)) is not None
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
def _tls(of: Situation) -> Finding:
    settings = of.settings
    if settings.tls_certificate is not None or settings.on_loopback:
        return None
    where = settings.host if not is_loopback(settings.host) else settings.web
    return f"{where} is reached from other machines, and talks without TLS"


@_check("certificate", "give files that fit together: 'geoveil certificate server' makes them")
def _certificate(of: Situation) -> Finding:
    try:  # tokens have a check of their own
        check_files(replace(of.settings, tokens_file=None, console=False))
    except ParameterError as error:
        return str(error)
    return None


@_check("certificate dates", "ask the authority for a new certificate, and replace both files")
def _dates(of: Situation) -> Finding:
    own = _own_certificate(of)
    if own is None:
        return None
    now = datetime.now(UTC)
    if now < own.not_valid_before_utc:
        return (
            f"the certificate begins on {own.not_valid_before_utc:%Y-%m-%d}: or the clock is wrong"
        )
    if now >= own.not_valid_after_utc:
        return f"the certificate ended on {own.not_valid_after_utc:%Y-%m-%d}"
    if now + _SOON > own.not_valid_after_utc:
        return f"the certificate ends on {own.not_valid_after_utc:%Y-%m-%d}, within 14 days"
    return None


@_check(
    "certificate name", "ask for a certificate of that name, or have devices use one of its own"
)
def _certificate_name(of: Situation) -> Finding:
    own = _own_certificate(of)
    if own is None or of.name is None:
        return None
    from cryptography.x509 import DNSName, ExtensionNotFound, IPAddress, SubjectAlternativeName

    try:
        names = own.extensions.get_extension_for_class(SubjectAlternativeName).value
    except ExtensionNotFound:
        return "the certificate names no host"
    held = [*names.get_values_for_type(DNSName), *map(str, names.get_values_for_type(IPAddress))]
    wild = "*." + of.name.partition(".")[2]
    if of.name.lower() in map(str.lower, held) or wild in held:
        return None
    return f"the certificate is for {', '.join(held) or 'nobody'}, and not for {of.name}"


@_check("secret files", "chmod 600, and give them to the user of the server alone")
def _secret_files(of: Situation) -> Finding:
    settings = of.settings
    held = (settings.tls_key, settings.tokens_file, of.sign_key, _url_file())
    for file in held:
        if file is not None and file.exists() and stat.S_IMODE(file.stat().st_mode) & _WORLD:
            return f"everybody on this machine may open {file}"
    return None


@_check("tokens", "make one with 'geoveil token create NAME --scope ... --file FILE'")
def _tokens(of: Situation) -> Finding:
    if of.settings.tokens_file is None:
        return None
    try:
        tokens = TokenFile(of.settings.tokens_file).read()
    except ParameterError as error:
        return str(error)
    now = datetime.now(UTC)
    if not any(token.expires is None or token.expires > now for token in tokens):
        return f"no token of {of.settings.tokens_file} is good any more"
    return None


@_check("analysts", "give a tokens_file in place of insecure_open_analyst")
def _analysts(of: Situation) -> Finding:
    if of.settings.insecure_open_analyst and not of.settings.on_loopback:
        return "anybody who reaches the server may read estimates, and create and close campaigns"
    return None


@_check("extras", "pip install 'geoveil[console]', or 'geoveil[server]' without a console")
def _extras(of: Situation) -> Finding:
    needed = ["uvicorn", "httptools"] if of.settings.web is not None else []
    needed += ["jinja2", "pyarrow"] if of.settings.console else []
    lacking = [name for name in needed if find_spec(name) is None]
    return f"not installed: {', '.join(lacking)}" if lacking else None


@_check("clock", "set the clock, and let it be kept by NTP: dates of campaigns depend on it")
def _clock(of: Situation) -> Finding:
    database = of.settings.database
    seen = [Path(__file__), *([database] if isinstance(database, Path) else [])]
    latest = max(file.stat().st_mtime for file in seen if file.exists())
    ahead = latest - time.time()
    if ahead > _CLOCK_S:
        return f"the clock is at least {ahead:,.0f} seconds behind: files here are of the future"
    return None


@_check("database", "name one that this user may write; see 'A damaged database' in operating.md")
def _database(of: Situation) -> Finding:
    database = of.settings.database
    if isinstance(database, Path) and not database.exists():
        folder = database.absolute().parent
        if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
            return None
        return f"{database} can't be made: {folder} is no folder that may be written"
    try:
        with open_store(database_of(of.settings), busy_timeout_s=_ANSWER_S) as store:
            store.probe()
    except GeoVeilError as error:
        return str(error).rstrip(".")
    return None


@_check("disk", "make room, or move the database: below least_free_bytes no new report is taken")
def _disk(of: Situation) -> Finding:
    database = of.settings.database
    if not isinstance(database, Path) or not database.absolute().parent.is_dir():
        return None
    free = shutil.disk_usage(database.absolute().parent).free
    if free >= of.settings.least_free_bytes:
        return None
    least = of.settings.least_free_bytes
    return f"{free:,} bytes are free beside {database}, and least_free_bytes is {least:,}"


@_check("ports", "end what has the port, or name another; 0 takes a free one")
def _ports(of: Situation) -> Finding:
    settings = of.settings
    wanted = {"port": (settings.host, settings.port)}
    if settings.web is not None:
        wanted["web"] = settings.web_address
    if settings.metrics_port is not None:
        wanted["metrics_port"] = (settings.metrics_host, settings.metrics_port)
    used = [address for address in wanted.values() if address[1] != 0]
    if len(set(used)) < len(used):
        return "two of port, web and metrics_port are the same"
    for name, (host, port) in wanted.items():
        try:
            family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            with socket.socket(family, kind) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                tried.bind(address)
        except OSError as error:
            if name == "port" and _answers(f"{host}:{port}", of) is None:
                return None  # it is a server of geoveil, with its gateway
            return f"{name}: {host}:{port} can't be listened on ({error.strerror})"
    return None


@_check("open files", "raise the limit: LimitNOFILE= of the unit, or 'ulimit -n'")
def _open_files(of: Situation) -> Finding:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    connections = of.settings.max_connections
    needed = connections + _SPARE_FILES
    if limit == resource.RLIM_INFINITY or limit >= needed:
        return None
    return f"{limit:,} files may be open, and {connections:,} connections need {needed:,}"


@_check("web door", "let it be reached by TLS, or name the proxy before it with web_proxies")
def _web_door(of: Situation) -> Finding:
    settings = of.settings
    if settings.web is None or settings.tls_certificate is not None or settings.web_proxies:
        return None
    if is_loopback(settings.web_address[0]):
        return None
    return f"browsers that reach {settings.web} get plain HTTP: no positions, and nothing is kept"


@_check("aggregator", "start it with 'geoveil serve', or name another with --aggregator")
def _aggregator(of: Situation) -> Finding:
    return None if of.aggregator is None else _answers(of.aggregator, of)


@_check("operator key", "sign with a key of trusted_keys, or add its 'ed25519:...' to them")
def _operator_key(of: Situation) -> Finding:
    trusted = of.settings.trusted_keys
    own = of.sign_key and SigningKey.from_pem(of.sign_key.read_bytes()).public
    if own and trusted and own not in trusted:
        return f"{of.sign_key} is none of trusted_keys"
    if of.campaign is None:
        return None
    try:
        by = signer(envelope_in(of.campaign))
    except GeoVeilError as error:
        return f"{of.campaign}: {error}"
    if trusted and by not in trusted:
        return f"{of.campaign} is signed by {by or 'nobody'}, who is none of trusted_keys"
    if own and by != own:
        return f"{of.campaign} is signed by {by or 'nobody'}, and not with {of.sign_key}"
    return None


def _own_certificate(of: Situation) -> Any:
    """Return the certificate of the server; None if it can't be read."""
    from cryptography import x509

    file = of.settings.tls_certificate
    try:
        return None if file is None else x509.load_pem_x509_certificates(file.read_bytes())[0]
    except (OSError, ValueError):
        return None  # of which "certificate" says what is wrong


def _url_file() -> Path | None:
    given = os.environ.get("GEOVEIL_DATABASE_URL_FILE")
    return None if given is None else Path(given)


def _answers(address: str, of: Situation) -> Finding:
    """Return why no aggregator answers at an address; None if one does."""
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

    certificate = of.settings.tls_certificate
    tls = (
        TLS(insecure=True)
        if certificate is None
        else TLS(root_certificates=certificate.read_bytes())
    )
    try:
        with open_channel(address, tls) as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            status = stub.Check(health_pb2.HealthCheckRequest(), timeout=_ANSWER_S).status
    except grpc.RpcError as error:
        return f"no aggregator answers at {address} ({error.code().name})"
    serving = health_pb2.HealthCheckResponse.SERVING
    return None if status == serving else f"the aggregator at {address} is not SERVING"
