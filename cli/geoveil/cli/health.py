"""geoveil health: whether an aggregator takes requests."""

from typing import Annotated, Any

import grpc
import typer

from geoveil.cli.connection import Connection, advice, connects
from geoveil.cli.console import err
from geoveil.client import TLS, open_channel


@connects
def health(
    service: Annotated[
        str, typer.Option(help="One service, as geoveil.proto.v1.Collector; by default the server.")
    ] = "",
    timeout_s: Annotated[float, typer.Option("--timeout-s", help="Seconds to wait.")] = 5.0,
    *,
    connection: Connection,
) -> None:
    """Ask an aggregator for its health: status 0 if it is SERVING, else 1."""
    from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

    tls = connection.tls()
    with open_channel(connection.server, tls or TLS(insecure=True)) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=timeout_s)
        except grpc.RpcError as error:
            code = error.code()
            hint = f": nobody answers, {advice(tls)}" if code is grpc.StatusCode.UNAVAILABLE else ""
            err.tell(f"{connection.server}: {code.name}{hint}")
            raise typer.Exit(1) from None
    names = {value: name for name, value in health_pb2.HealthCheckResponse.ServingStatus.items()}
    status = names.get(answer.status, f"status {answer.status}")
    typer.echo(status)
    if status != "SERVING":
        raise typer.Exit(1)
