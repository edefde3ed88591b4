"""geoveil health: whether an aggregator takes requests."""

from typing import Annotated, Any

import grpc
import typer

from geoveil.campaign.connection import TLS, open_channel
from geoveil.cli.connection import Connection, advice, connects
from geoveil.cli.console import err

_EAGER = (("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 1_000))
"""A server that starts is found within a second of when it listens."""
_UNANSWERED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


@connects
def health(
    service: Annotated[
        str, typer.Option(help="One service, as geoveil.proto.v1.Collector; by default the server.")
    ] = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for a server that is still starting.")
    ] = False,
    timeout_s: Annotated[
        float | None, typer.Option(help="Seconds to wait; 5, or 60 with --wait, by default.")
    ] = None,
    *,
    connection: Connection,
) -> None:
    """Ask an aggregator for its health: status 0 if it is SERVING, else 1."""
    from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]  # no types

    tls = connection.tls()
    if timeout_s is None:
        timeout_s = 60.0 if wait else 5.0
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
            code = error.code()
            hint = f": nobody answers, {advice(tls)}" if code in _UNANSWERED and not status else ""
            err.tell(f"{connection.server}: {status or code.name}{hint}")
            raise typer.Exit(1) from None
    typer.echo(status)
    if status != "SERVING":
        raise typer.Exit(1)
