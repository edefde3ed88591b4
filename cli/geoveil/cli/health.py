"""geoveil health: whether an aggregator takes requests."""

from typing import Annotated, Any

import grpc
import typer

from geoveil.cli.analyst import DEFAULT_SERVER, RootCertificates, Server
from geoveil.cli.console import err


def health(
    server: Server = DEFAULT_SERVER,
    service: Annotated[
        str, typer.Option(help="One service, as geoveil.proto.v1.Collector; by default the server.")
    ] = "",
    timeout_s: Annotated[float, typer.Option("--timeout-s", help="Seconds to wait.")] = 5.0,
    tls_roots: RootCertificates = None,
) -> None:
    """Ask an aggregator for its health: status 0 if it is SERVING, else 1."""
    from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

    channel = (
        grpc.insecure_channel(server)
        if tls_roots is None
        else grpc.secure_channel(server, grpc.ssl_channel_credentials(tls_roots.read_bytes()))
    )
    with channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=timeout_s)
        except grpc.RpcError as error:
            err.print(f"{server}: {error.code().name}")
            raise typer.Exit(1) from None
    status = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    typer.echo(status)
    if status != "SERVING":
        raise typer.Exit(1)
