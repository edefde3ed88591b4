"""Gateways beside running aggregators."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from geoveil.aggregator import Aggregator
from geoveil.gateway.server import Gateway
from tests.aggregator.conftest import (  # noqa: F401 - fixtures
    RunningServer,
    Wire,
    clock,
    database,
    prepared,
    publish,
    start_server,
    wire_report,
)
from tests.gateways import gateway_of

WEB = "127.0.0.1:0"


@dataclass
class RunningGateway:
    """An aggregator, and a gateway that asks it."""

    server: RunningServer
    gateway: Gateway

    @property
    def aggregator(self) -> Aggregator:
        return self.server.aggregator

    @property
    def wire(self) -> Wire:
        return self.server.wire

    @property
    def address(self) -> str:
        return self.server.address

    @property
    def web(self) -> str:
        """Where the gateway listens."""
        return self.gateway.address


@pytest.fixture
async def start_web(
    start_server: Callable[..., Awaitable[RunningServer]],  # noqa: F811 - the fixture
) -> AsyncIterator[Callable[..., Awaitable[RunningGateway]]]:
    """Starts an aggregator and a gateway; of the changes those in `gateway` are of the latter."""
    async with AsyncExitStack() as stack:

        async def start(gateway: dict[str, Any] | None = None, **changes: Any) -> RunningGateway:
            server = await start_server(**({"web": WEB} | changes))
            started = await stack.enter_async_context(
                gateway_of(server.aggregator, **(gateway or {}))
            )
            return RunningGateway(server, started)

        yield start


@pytest.fixture
async def running(start_web: Callable[..., Awaitable[RunningGateway]]) -> RunningGateway:
    return await start_web()
