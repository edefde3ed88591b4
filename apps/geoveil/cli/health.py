"""geoveil health: whether an aggregator takes requests."""

from typing import Annotated

import grpc
import typer

from geoveil.campaign import TLS, CallError
from geoveil.cli.connection import CommandError, Connection, connects, health_of, unanswered
from geoveil.gp import validation

_UNANSWERED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


@connects
def health(
    service: Annotated[
        str,
        typer.Option(
            help="The name of one gRPC service, as geoveil.proto.v1.Collector; the whole server by"
            " default."
        ),
    ] = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for a server that is still starting.")
    ] = False,
    timeout_s: Annotated[
        float | None,
        typer.Option(help="Seconds to wait for an answer; 5 by default, 60 with --wait."),
    ] = None,
    *,
    connection: Connection,
) -> None:
    """Ask an aggregator whether it takes requests: exit status 0 if it is SERVING, else 1."""
    tls = connection.security()
    usual_s = 60.0 if wait else 5.0
    timeout_s = validation.positive("timeout_s", usual_s if timeout_s is None else timeout_s)
    status = ""
    try:
        asking = health_of(
            connection.server, tls or TLS(insecure=True), service, timeout_s=timeout_s, wait=wait
        )
        for status in asking:
            if status == "SERVING":
                break
    except grpc.RpcError as error:
        raise _explained(error, connection.server, tls, service, status) from None
    typer.echo(status)
    if status != "SERVING":
        raise typer.Exit(1)


def _explained(
    error: grpc.RpcError, server: str, tls: TLS | None, service: str, status: str
) -> CommandError:
    """Return the message for a failed call.

    Args:
        service: that was asked about; empty: the server.
        status: the last that was answered; empty: none was.
    """
    code = error.code()
    if code is grpc.StatusCode.NOT_FOUND or status == "SERVICE_UNKNOWN":
        return CommandError(
            f"the server at {server} has no service {service!r}: leave out --service to ask about "
            "the whole server"
        )
    if status:
        return CommandError(
            f"the server at {server} answered {status}, and was not SERVING in time"
        )
    failed = CallError(
        "UNAVAILABLE" if code in _UNANSWERED else code.name,
        error.details() or "",
        answered=code not in _UNANSWERED,
    )
    return unanswered(server, tls, failed) or CommandError(f"{server}: {failed}")
