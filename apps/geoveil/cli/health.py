"""geoveil health: whether an aggregator takes requests."""

from typing import Annotated, Any

import grpc
import typer

from geoveil.campaign import TLS, CallError, open_channel
from geoveil.cli.connection import CommandError, Connection, connects, unanswered
from geoveil.gp import needed_for, validation

_EAGER = (("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 1_000))
"""A server that starts is found within a second of when it listens."""
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
    with needed_for("geoveil health"):
        from grpc_health.v1 import (  # type: ignore[import-untyped]  # no types
            health_pb2,
            health_pb2_grpc,
        )

    tls = connection.security()
    if timeout_s is None:
        timeout_s = 60.0 if wait else 5.0
    validation.positive("timeout_s", timeout_s)
    request = health_pb2.HealthCheckRequest(service=service)
    names = {value: name for name, value in health_pb2.HealthCheckResponse.ServingStatus.items()}
    status = ""
    with open_channel(connection.server, tls or TLS(insecure=True), _EAGER) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        try:
            if wait:
                answers = stub.Watch(request, timeout=timeout_s, wait_for_ready=True)
            else:
                answers = [stub.Check(request, timeout=timeout_s)]
            for answer in answers:
                status = names.get(answer.status, f"status {answer.status}")
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
            f"the server at {server} has no service {service!r}: without --service the whole"
            " server is asked"
        )
    if status:
        return CommandError(f"the server at {server} answered {status}, and SERVING not in time")
    name = "UNAVAILABLE" if code in _UNANSWERED else code.name
    failed = CallError(name, error.details() or "", answered=code not in _UNANSWERED)
    return unanswered(server, tls, failed) or CommandError(f"{server}: {failed}")
