"""A gateway beside an aggregator, in the process of a test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from geoveil.aggregator import Aggregator
from geoveil.gateway import GatewaySettings
from geoveil.gateway.server import Gateway


@asynccontextmanager
async def gateway_of(aggregator: Aggregator, **changes: Any) -> AsyncIterator[Gateway]:
    """A gateway on a free port, which asks an aggregator whose settings name a web address."""
    settings = aggregator._settings
    given: dict[str, Any] = {
        "server": aggregator.local_address,
        "web": settings.web,
        "origins": settings.web_origins,
        "tls_certificate": settings.tls_certificate,
        "tls_key": settings.tls_key,
        "tls_client_ca": settings.tls_client_ca,
        "console": settings.console,
        "results_token_file": settings.results_token_file,
        "results_frames": settings.results_frames,
        "relay_keys": settings.relay_keys,
        "streets": settings.web_streets,
        "issuer": settings.web_issuer,
        "shown": f"localhost:{aggregator.address.rpartition(':')[2]}",
        "longest": settings.max_message_bytes,
    }
    gateway = Gateway(GatewaySettings(**(given | changes)))
    await gateway.start()
    try:
        yield gateway
    finally:
        await gateway.stop(settings.grace_s)
