"""The gateway's server: it listens for HTTP, and calls the aggregator like any other client."""

import asyncio
import logging
import signal
import socket
import time
from typing import Any, Self

import grpc
import grpc.aio
import uvicorn

from geoveil.campaign import open_async_channel, open_channel
from geoveil.gateway.calls import Calls
from geoveil.gateway.ledger import Ledger
from geoveil.gateway.listener import Contexts, Listener
from geoveil.gateway.pages import Files
from geoveil.gateway.settings import GatewaySettings
from geoveil.gateway.site import Answering, Mount, Site
from geoveil.gateway.supervisor import listening
from geoveil.gp import ParameterError, needed_for
from geoveil.proto.v1.console_pb2 import GetCallerRequest
from geoveil.proto.v1.console_pb2_grpc import ConsoleStub

_LOG = logging.getLogger(__name__)
_TRUST_S = 30.0
"""Seconds for which the gateway caches whether the server trusts its machine."""
_LONGEST_ANSWER = 32 << 20
_OPTIONS = (("grpc.max_receive_message_length", _LONGEST_ANSWER),)
_GRACE_S = 5.0


class Gateway:
    """One gateway. Use it as an asynchronous context manager, or call `start` and `stop` once.

    It takes over a listening socket, or listens at the settings' address.

    Raises:
        MissingExtraError: if the console is enabled but not installed.
    """

    def __init__(self, settings: GatewaySettings, taken: socket.socket | None = None) -> None:
        self._settings = settings
        self._taken = taken
        self.ledger = Ledger(
            settings.connections,
            max(settings.held_bytes, 4 * settings.longest),
            proxies=settings.proxies,
        )
        """The cost and memory of each address."""
        self.console: Any = None
        """The console, if enabled."""
        self.address = ""
        """The gateway's address "host:port"; empty before the start."""
        self._trusts: tuple[float, bool] = (-_TRUST_S, True)
        self._listener: Listener | None = None

    async def start(self) -> str:
        """Listen, and return the address.

        Raises:
            ParameterError: if the address is taken, or a TLS file is unusable.
        """
        settings = self._settings
        contexts = None
        if settings.tls_certificate is not None and settings.tls_key is not None:
            try:
                contexts = Contexts(
                    settings.tls_certificate, settings.tls_key, settings.tls_client_ca
                )
            except (OSError, ValueError) as error:
                expected = "a certificate and its key, as PEM"
                path = str(settings.tls_certificate)
                raise ParameterError("tls_certificate", path, expected) from error
        self._channel = open_async_channel(settings.server, settings.tls, _OPTIONS)
        self._blocking = open_channel(settings.server, settings.tls, _OPTIONS)
        self._asking: Any = ConsoleStub(self._channel)
        calls = Calls(self._channel, settings.longest, self.ledger)
        self._site = Site(
            calls,
            self._mounts(),
            self.ledger,
            origins=settings.origins,
            trusting=self._trusting,
            public=settings.public,
            streets=settings.streets,
            issuer=settings.issuer,
            sealed=self._sealed(calls),
        )
        config = uvicorn.Config(
            self._site,
            http="httptools",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="error",  # errors from outsiders are not logged
            access_log=False,
            proxy_headers=False,
        )
        config.timeout_keep_alive = settings.idle_s  # type: ignore[assignment]  # whole seconds there
        taken = self._taken or listening(*settings.address)
        host, port = taken.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._listener = Listener(taken, config, contexts, self.ledger)
        self._listener.start()
        scheme = "http" if contexts is None else "https"
        fields = {"web": f"{scheme}://{self.address}"}
        if settings.console:
            fields["console"] = f"{fields['web']}/console/"
        _LOG.info("listening", extra=fields)
        return self.address

    async def stop(self, grace_s: float = _GRACE_S) -> None:
        """Refuse new requests, and let those under way finish; idempotent."""
        listener, self._listener = self._listener, None
        if listener is not None:
            await self._site.aclose()
            await listener.stop(grace_s)
            await self._channel.close()
            self._blocking.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _mounts(self) -> dict[str, Mount]:
        settings, mounts = self._settings, dict[str, Mount]()
        if not settings.console and settings.results_token_file is None:
            return mounts
        with needed_for("the console"):
            from geoveil.console import Console, PublicResults  # the gateway's only import of it
        files = Files("geoveil.console", "files")
        if settings.console:
            self.console = Console(self._blocking, shown=settings.shown)
            mounts["/console/"] = Mount(self.console, files)
        if settings.results_token_file is not None:
            results = PublicResults(
                self._blocking, settings.results_token_file, settings.results_frames
            )
            mounts["/results/"] = Mount(results, files, public=True)
        return mounts

    def _sealed(self, calls: Calls) -> dict[str, Answering]:
        if self._settings.relay_keys is None:
            return {}
        from geoveil.gateway.oblivious import Oblivious
        from geoveil.relay import PATH, GatewayKeys

        return {PATH: Oblivious(GatewayKeys(self._settings.relay_keys), calls, self.ledger)}

    async def _trusting(self) -> bool:
        """Return whether the server admits analysts without a token; True if unknown."""
        then, trusts = self._trusts
        if time.monotonic() - then < _TRUST_S:
            return trusts
        try:
            await self._asking.GetCaller(GetCallerRequest(), timeout=5)
            trusts = True
        except grpc.aio.AioRpcError as error:
            if error.code() not in (
                grpc.StatusCode.UNAUTHENTICATED,
                grpc.StatusCode.PERMISSION_DENIED,
            ):
                return True
            trusts = False
        self._trusts = (time.monotonic(), trusts)
        return trusts


async def serve(settings: GatewaySettings, taken: socket.socket | None = None) -> None:
    """Serve until SIGTERM or SIGINT."""
    signalled = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled.set)
    async with Gateway(settings, taken):
        await signalled.wait()
