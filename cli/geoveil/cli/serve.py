"""geoveil serve: run an aggregator until it is told to stop."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from geoveil.cli.environment import CONFIG, VARIABLES

_WHERE, _SECURITY, _OPEN, _LIMITS = "Where", "Security", "Open to anyone", "Limits"
_STOPPING, _WATCHING = "Starting and stopping", "Watching"


def _option(group: str, help_text: str, *names: str) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel=group, show_default=False)


def serve(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", envvar=CONFIG, help="TOML file of settings."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Check the settings and their files, print them, and end."),
    ] = False,
    host: Annotated[str | None, _option(_WHERE, "Address to listen on (127.0.0.1).")] = None,
    port: Annotated[int | None, _option(_WHERE, "Port; 0 takes a free one (7717).")] = None,
    database: Annotated[
        str | None,
        _option(_WHERE, "SQLite file, or postgresql:// URL (geoveil.db).", "--database", "-d"),
    ] = None,
    database_url_file: Annotated[
        Path | None, _option(_WHERE, "File with the URL, which holds a password.")
    ] = None,
    tls_certificate: Annotated[
        Path | None,
        _option(_SECURITY, "PEM certificate chain.", "--tls-certificate", "--tls-cert"),
    ] = None,
    tls_key: Annotated[Path | None, _option(_SECURITY, "PEM private key.")] = None,
    tls_client_ca: Annotated[
        Path | None, _option(_SECURITY, "PEM certificates; every client then needs one of theirs.")
    ] = None,
    tokens_file: Annotated[
        Path | None, _option(_SECURITY, "Analysts then need a token of 'geoveil token create'.")
    ] = None,
    insecure_open_analyst: Annotated[
        bool | None,
        _option(
            _OPEN,
            "Take calls of analysts without a token, even off the loopback.",
            "--insecure-open-analyst/--no-insecure",
        ),
    ] = None,
    reflection: Annotated[
        bool | None,
        _option(_OPEN, "Describe the services to anyone.", "--reflection/--no-reflection"),
    ] = None,
    trusted_keys: Annotated[
        list[str] | None,
        _option(
            _SECURITY,
            "Take campaigns signed by this key ed25519:... only; may be given again.",
            "--trusted-keys",
            "--trusted-key",
        ),
    ] = None,
    max_batch: Annotated[int | None, _option(_LIMITS, "Reports in one request (10000).")] = None,
    max_message_bytes: Annotated[
        int | None, _option(_LIMITS, "Size of one request (4194304).")
    ] = None,
    queue_limit: Annotated[
        int | None, _option(_LIMITS, "Reports that may wait to be written (100000).")
    ] = None,
    campaign_rate: Annotated[
        float | None, _option(_LIMITS, "Reports per second to one campaign (any).")
    ] = None,
    campaign_burst: Annotated[
        float | None, _option(_LIMITS, "Reports to one campaign at once (10 seconds of them).")
    ] = None,
    peer_rate: Annotated[
        float | None, _option(_LIMITS, "Reports per second from one address (100000).")
    ] = None,
    peer_burst: Annotated[
        float | None, _option(_LIMITS, "Reports from one address at once (10 seconds of them).")
    ] = None,
    call_rate: Annotated[
        float | None, _option(_LIMITS, "Calls per second from one address (2000).")
    ] = None,
    call_burst: Annotated[
        float | None, _option(_LIMITS, "Calls from one address at once (10 seconds of them).")
    ] = None,
    max_connections: Annotated[
        int | None, _option(_LIMITS, "Connections that stay open (2000).")
    ] = None,
    connection_idle_s: Annotated[
        float | None, _option(_LIMITS, "Seconds that a connection without calls stays open (300).")
    ] = None,
    max_held_bytes: Annotated[
        int | None, _option(_LIMITS, "Memory of requests and responses under way (67108864).")
    ] = None,
    commit_limit: Annotated[
        int | None, _option(_LIMITS, "Reports in one transaction (16384).")
    ] = None,
    commit_latency_s: Annotated[
        float | None, _option(_LIMITS, "Seconds to wait for more to write (0).")
    ] = None,
    busy_timeout_s: Annotated[
        float | None, _option(_LIMITS, "Seconds to wait for other writers (5).")
    ] = None,
    clock_skew_s: Annotated[
        float | None, _option(_LIMITS, "Seconds that clocks of devices may differ (60).")
    ] = None,
    drain_s: Annotated[
        float | None,
        _option(_STOPPING, "Seconds to say NOT_SERVING and still serve, once told to stop (0)."),
    ] = None,
    grace_s: Annotated[
        float | None,
        _option(_STOPPING, "Seconds that open calls then get (10).", "--grace-s", "--grace"),
    ] = None,
    health_interval_s: Annotated[
        float | None, _option(_WATCHING, "Seconds between tries of the database (5).")
    ] = None,
    metrics_host: Annotated[
        str | None, _option(_WATCHING, "Address for Prometheus (127.0.0.1).")
    ] = None,
    metrics_port: Annotated[
        int | None, _option(_WATCHING, "Port for Prometheus; off unless given.")
    ] = None,
    log_level: Annotated[
        str | None, _option(_WATCHING, "debug, info, warning or error (info).")
    ] = None,
    log_format: Annotated[
        str | None, _option(_WATCHING, "json, human, or auto: human on a terminal (auto).")
    ] = None,
) -> None:
    """Run an aggregator: it counts reports exactly once, and keeps what it acknowledged.

    Every setting may stand in a TOML file (--config), in the environment (GEOVEIL_PORT for --port)
    or in a flag; the later of these wins. docs/operating.md describes them all.

    SIGTERM or Ctrl-C: it reports NOT_SERVING, lets open calls end, and exits with status 0; a
    second one ends it at once.
    """
    from geoveil.aggregator import run
    from geoveil.aggregator.ops.logs import configure, failed, log_what_nobody_catches
    from geoveil.aggregator.ops.native_lines import native_lines_logged
    from geoveil.aggregator.ops.settings_sources import KNOWN, load

    flags = {name: value for name, value in context.params.items() if name in KNOWN}
    effective = load(config, os.environ, flags, others=VARIABLES)
    settings = effective.settings
    if check:
        from geoveil.aggregator.grpc.server import check_files

        check_files(settings)
        typer.echo(effective.to_toml(), nl=False)
        return
    in_json = configure(settings.log_level, settings.log_format)
    log_what_nobody_catches()
    if not in_json:
        run(settings)
        return
    with native_lines_logged():
        try:
            run(settings)
        except Exception as error:
            failed(error)
            if settings.log_format == "json":  # asked for, and nothing else
                raise typer.Exit(1) from None
            raise
