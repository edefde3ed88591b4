"""geoveil serve: run an aggregator until it is stopped."""

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from geoveil.aggregator import (
    TYPES,
    Settings,
    check_files,
    configure,
    failed,
    load,
    log_what_nobody_catches,
    native_lines_logged,
    run,
)
from geoveil.cli import options
from geoveil.cli.plain_errors import for_operators
from geoveil.gp import needed_for

_TEN_SECONDS = "(10 seconds of them)"
_SETTINGS: Mapping[str, Mapping[str, str]] = {
    "Where": {
        "host": "Address to listen on",
        "port": "Port; 0 takes a free one",
        "web": "HOST:PORT for browsers and curl: Connect, gRPC-Web and JSON; off unless given",
        "web_streets": "PMTiles file of streets for the maps of the gateway's pages",
        "web_issuer": "URL of the issuer from which the gateway's page gets people's tokens",
        "relay_keys": "Keys of 'geoveil relay rotate': --web also answers requests from relays",
        "console": "Pages for analysts and operators, at /console/ of --web (127.0.0.1:7718)",
        "database": "SQLite file, or postgresql:// URL",
        "database_url_file": "File with the database's URL, which contains a password",
    },
    "Security": {
        "tls_certificate": "PEM certificate chain",
        "tls_key": "PEM private key",
        "tls_client_ca": "PEM certificates of authorities; every client then needs a"
        " certificate from one of them",
        "tokens_file": "File of tokens: analysts then need one from 'geoveil token create'",
        "results_token_file": "File with a token: everybody may see the estimates that it"
        " permits, at /results/",
        "results_frames": "Pages of this origin may embed those results; may be repeated",
        "web_origins": "Pages of this origin may call the gateway; may be repeated",
        "web_proxies": "Trust X-Forwarded-For from this address; may be repeated",
        "trusted_keys": "Accept only campaigns signed by this key ed25519:...; may be repeated",
    },
    "Open to anyone": {
        "insecure_open_analyst": "Accept analysts' calls without a token from anywhere",
        "reflection": "Describe the services to anyone (gRPC reflection)",
    },
    "Limits": {
        "max_batch": "Most reports in one request",
        "max_message_bytes": "Largest size of a request in bytes",
        "queue_limit": "Most reports waiting to be written",
        "campaign_rate": "Reports per second to one campaign (any)",
        "campaign_burst": f"Reports to one campaign at once {_TEN_SECONDS}",
        "campaign_quota": "Most reports of one campaign (any)",
        "least_free_bytes": "Refuse new reports when SQLite's disk has fewer free bytes",
        "peer_rate": "Reports and other calls of devices per second from one address",
        "peer_burst": f"Reports and other calls of devices from one address at once {_TEN_SECONDS}",
        "call_rate": "Calls of any kind per second from one address",
        "call_burst": f"Calls of any kind from one address at once {_TEN_SECONDS}",
        "max_connections": "Most open connections",
        "connection_idle_s": "Seconds after which a connection without calls is closed",
        "max_held_bytes": "Most bytes of requests and responses under way",
        "commit_limit": "Reports in one transaction",
        "commit_latency_s": "Seconds to wait for more reports before a transaction",
        "busy_timeout_s": "Seconds to wait for other writers to the database",
        "clock_skew_s": "Seconds by which devices' clocks may differ",
    },
    "Starting and stopping": {
        "drain_s": "Seconds to report NOT_SERVING and still serve after a signal to stop",
        "grace_s": "Seconds that open calls get after that",
    },
    "Watching": {
        "health_interval_s": "Seconds between probes of the database",
        "metrics_host": "Address for Prometheus",
        "metrics_port": "Port for Prometheus; off unless given",
        "traces": "Share of calls whose spans go to OTEL_EXPORTER_OTLP_ENDPOINT (none)",
        "log_level": "debug, info, warning or error",
        "log_format": "json, human, or auto: human on a terminal",
    },
}
"""Heading → setting → help of its option; types and defaults are those of `Settings`."""
_SPELLED: Mapping[str, tuple[str, ...]] = {
    "database": ("--database", "-d"),
    "tls_certificate": ("--tls-certificate", "--tls-cert"),
    "trusted_keys": ("--trusted-keys", "--trusted-key"),
    "web_origins": ("--web-origins", "--web-origin"),
    "web_proxies": ("--web-proxies", "--web-proxy"),
    "results_frames": ("--results-frames", "--results-frame"),
    "console": ("--console/--no-console",),
    "insecure_open_analyst": ("--insecure-open-analyst/--no-insecure",),
    "reflection": ("--reflection/--no-reflection",),
    "grace_s": ("--grace-s", "--grace"),
}
"""The names of options that differ from their settings' names."""


def _option(name: str, heading: str, text: str) -> tuple[Any, None]:
    """Return the annotation and default of the option for a setting."""
    kind, several = TYPES.get(name, (Path, False))
    default = Settings.__dataclass_fields__[name].default if name in TYPES else None
    unsaid = default is None or isinstance(default, bool | tuple)
    shown = "" if unsaid else f" ({default:g})" if kind is float else f" ({default})"
    if kind not in (bool, int, float, Path):
        kind = list[str] if several else str
    said = typer.Option(
        *_SPELLED.get(name, ()), help=f"{text}{shown}.", rich_help_panel=heading, show_default=False
    )
    return Annotated[kind | None, said], None


@options.takes(
    "flags",
    {
        name: _option(name, heading, text)
        for heading, settings in _SETTINGS.items()
        for name, text in settings.items()
    },
)
def serve(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", envvar=options.CONFIG, help="TOML file of settings."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Check the settings and their files, print them, and exit."),
    ] = False,
    *,
    flags: dict[str, Any],
) -> None:
    """Run an aggregator: it counts reports exactly once, and keeps what it acknowledged.

    Every setting may stand in a TOML file (--config), in the environment (GEOVEIL_PORT for --port)
    or in a flag; the later of these wins. docs/operating.md describes them all.

    SIGTERM or Ctrl-C: it reports NOT_SERVING, lets open calls end, and exits with status 0; a
    second one ends it at once.
    """
    effective = load(config, os.environ, flags, others=options.VARIABLES)
    settings = effective.settings
    for what, needed, libraries in (
        ("the gateway", settings.web is not None, ("httptools", "uvicorn")),
        ("the console", settings.console or settings.results_token_file is not None, ("jinja2",)),
    ):
        with needed_for(what):
            _ = [import_module(library) for library in libraries if needed]
    if check:
        check_files(settings)
        check_gateway(settings)
        typer.echo(effective.to_toml(), nl=False)
        return
    in_json = configure(settings.log_level, settings.log_format)
    log_what_nobody_catches()
    with native_lines_logged() if in_json else nullcontext():
        try:
            with for_operators():
                run(settings, beside=gateway_beside(settings))
        except Exception as error:
            if in_json:
                failed(error)
                if settings.log_format == "json":  # asked for, and nothing else
                    raise typer.Exit(1) from None
            raise


def check_gateway(settings: Settings) -> None:
    """Refuse settings and files that the gateway can't use."""
    if settings.web is not None:
        from geoveil.gateway import GatewaySettings

        GatewaySettings(
            server="localhost:1",  # known when the aggregator runs
            web=settings.web,
            streets=settings.web_streets,
            issuer=settings.web_issuer,
        )
    if settings.relay_keys is not None:
        with needed_for("relays"):
            from geoveil.relay import GatewayKeys  # loaded where there are relays
        GatewayKeys(settings.relay_keys)


def gateway_beside(settings: Settings) -> Callable[[Any], Any] | None:
    """Return the runner of a gateway beside an aggregator, if the settings require one.

    It raises ParameterError if the address is taken.
    """
    if settings.web is None:
        return None
    from geoveil.gateway.supervisor import Supervisor, command_of, listening

    given: dict[str, Any] = {
        "--web": settings.web,
        "--max-message-bytes": settings.max_message_bytes,
        "--log-level": settings.log_level,
        "--log-format": settings.log_format,
        "--web-origin": settings.web_origins,
        "--web-proxy": settings.web_proxies,
        "--results-frame": settings.results_frames,
        "--tls-certificate": settings.tls_certificate,
        "--tls-key": settings.tls_key,
        "--tls-client-ca": settings.tls_client_ca,
        "--results-token-file": settings.results_token_file,
        "--web-streets": settings.web_streets,
        "--web-issuer": settings.web_issuer,
        "--relay-keys": settings.relay_keys,
    }
    said = ["--console"] if settings.console else []
    for option, value in given.items():
        values = value if isinstance(value, tuple) else () if value is None else (value,)
        said += [part for each in values for part in (option, str(each))]

    def beside(aggregator: Any) -> Supervisor:
        check_gateway(settings)
        port = aggregator.address.rpartition(":")[2]
        shown = f"localhost:{port}" if settings.on_loopback else f"COLLECTOR:{port}"
        return Supervisor(
            command_of(*["--server", aggregator.local_address, "--shown", shown], *said),
            listening(*settings.web_address),
        )

    return beside
