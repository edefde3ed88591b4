"""Descriptions of the services for whoever asks.

Importing this registers descriptors of gRPC's own with the whole process, so only servers that are
to answer do.
"""

from collections.abc import Iterable

from grpc_reflection.v1alpha import (  # type: ignore[import-untyped]  # no types
    reflection,
    reflection_pb2_grpc,
)

from geoveil.aggregator.grpc.middleware.layered import Layered


def add_reflection(services: Iterable[str], server: Layered) -> None:
    """Let a server describe services, and reflection itself."""
    # `enable_server_reflection` would take what is no server of grpc.aio for a synchronous one.
    servicer = reflection.aio.ReflectionServicer((*services, reflection.SERVICE_NAME))
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, server)
