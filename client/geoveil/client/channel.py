"""The one place where gRPC channels are made: for the SDK, and for the commands of analysts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from geoveil.client.transport import TLS, tls_for

if TYPE_CHECKING:
    import grpc

_NO_PROXY = (
    # http_proxy, https_proxy, grpc_proxy ...
    ("grpc.enable_http_proxy", 0),
    # ... and GRPC_ADDRESS_HTTP_PROXY, which gRPC reads whatever the option above says.
    ("grpc.address_http_proxy_enabled_addresses", ""),
)


def open_channel(
    target: str, tls: TLS | None = None, options: Sequence[tuple[str, int | str]] = ()
) -> "grpc.Channel":
    """Return a gRPC channel straight to a server, never through a proxy of the environment.

    A proxy would see, or could change, what travels in the clear; a server on this machine it would
    look for on its own. Whoever has to use one names it as the target.

    Args:
        target: a gRPC address, for example "collector.example:443".
        tls: may be left out for targets on this machine only.
        options: further channel arguments of gRPC.

    Raises:
        ParameterError: if the target is not a string with at least a character.
        PlaintextRefused: if the target is elsewhere and `tls` is None.

    Example:
        >>> with open_channel("127.0.0.1:7717") as channel:
        ...     type(channel).__name__
        'Channel'
    """
    import grpc

    tls = tls_for(target, tls)
    arguments = [*options, *_NO_PROXY]
    if tls.insecure:
        return grpc.insecure_channel(target, options=arguments)
    if tls.server_name is not None:
        arguments.append(("grpc.ssl_target_name_override", tls.server_name))
    credentials = grpc.ssl_channel_credentials(
        tls.root_certificates, tls.private_key, tls.certificate_chain
    )
    return grpc.secure_channel(target, credentials, options=arguments)
