"""A gateway behind a relay, with taps that record all bytes on either side."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from geoveil.campaign import SigningKey, TokenRule, token_key_id
from geoveil.client import Client, Limit, Policy, Timing
from geoveil.gp import GeoPrivacy
from geoveil.relay import (
    PATH,
    GatewayKeys,
    Issuer,
    IssuerKey,
    IssuerServer,
    Relay,
    RelayTransport,
    TokenTransport,
)
from geoveil.relay.blind_rsa import blind, unblind
from geoveil.relay.web import WebAddress
from tests.aggregator.conftest import (  # noqa: F401 - fixtures
    Clock,
    Published,
    postgres_server,
    postgres_url,
)
from tests.gateway.conftest import (  # noqa: F401 - fixtures
    RunningGateway,
    clock,
    database,
    prepared,
    publish,
    start_server,
    start_web,
    wire_report,
)

OPERATOR = SigningKey.generate()
KEYS = [IssuerKey.generate() for _ in range(2)]
IDS = b"".join(token_key_id(key.public) for key in KEYS)
DEVICE = "127.0.0.9"
"""The address that devices call from."""
POLICY = Policy(
    {"household income": Limit(campaign=GeoPrivacy(100, 8000, "dollar"))},
)


@contextmanager
def running(server: Any) -> Iterator[None]:
    """Let a server of the standard library serve on a thread."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def issuing(
    keys: list[IssuerKey], folder: Path, attester: Any, kind: type[Issuer] = Issuer
) -> Iterator[str]:
    """Yield an issuer's URL."""
    issuer = kind(keys, attester, folder / "given.sqlite")
    server = IssuerServer(("127.0.0.1", 0), issuer)
    with running(server):
        yield f"http://127.0.0.1:{server.server_port}/tokens"
    issuer.close()


def token_for(rule: TokenRule, report_id: bytes, period: int, key: IssuerKey) -> bytes:
    """Return a token of a campaign with periods, as the holder of a key can make it."""
    blinded = blind(key.public, rule.message(report_id, period), bytes(48), 3**99)
    return key.public + unblind(key.public, key.sign(blinded), 3**99)


@dataclass
class Tap:
    """Forwards connections to an address, and keeps what passes and who called."""

    to: tuple[str, int]
    sent: list[bytes] = field(default_factory=list)
    """What callers sent, by connection."""
    answered: list[bytes] = field(default_factory=list)
    callers: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._taken = socket.create_server(("127.0.0.1", 0))
        self.port = self._taken.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._start(self._run)

    def _start(self, work: Callable[..., None], *args: Any) -> threading.Thread:
        thread = threading.Thread(target=work, args=args)
        self._threads.append(thread)
        thread.start()
        return thread

    @property
    def seen(self) -> bytes:
        return b"".join(self.sent + self.answered)

    def close(self) -> None:
        self._taken.shutdown(socket.SHUT_RDWR)
        self._taken.close()
        for thread in self._threads:
            thread.join(10)

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                near, address = self._taken.accept()
                self.callers.add(address[0])
                for kept in (self.sent, self.answered):
                    kept.append(b"")
                self._start(self._connect, len(self.sent) - 1, near)

    def _connect(self, at: int, near: socket.socket) -> None:
        with near, suppress(OSError), socket.create_connection(self.to) as far:
            answering = self._start(self._pass, self.answered, at, far, near)
            self._pass(self.sent, at, near, far)
            answering.join()

    @staticmethod
    def _pass(kept: list[bytes], at: int, of: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            while data := of.recv(1 << 16):
                kept[at] += data
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)


class DeviceAddress(WebAddress):
    """Called from an address of its own."""

    def _connection(self, timeout_s: float) -> Any:
        connection = super()._connection(timeout_s)
        connection.source_address = (DEVICE, 0)
        return connection


class DeviceTransport(RelayTransport):
    """Calls from that address."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._web = DeviceAddress("relay", self.relay)


@dataclass
class Way:
    """From devices over a relay to a gateway, and the aggregator that it asks."""

    web: RunningGateway
    keys: Path
    near: Tap
    far: Tap
    now: Clock
    tmp_path: Path
    operator: SigningKey = OPERATOR

    def transport(self, **changes: Any) -> RelayTransport:
        given = {
            "relay": f"http://127.0.0.1:{self.near.port}/way",
            "operator": OPERATOR.public,
            "clock": lambda: self.now().timestamp(),
        }
        return DeviceTransport(**(given | changes))

    @property
    def timing(self) -> Timing:
        return Timing(now=self.now, sleep=lambda _: None, jitter=lambda: 0.0)

    def client(self, name: str, transport: Any = None, timing: Timing | None = None) -> Client:
        return Client(
            policy=POLICY,
            state_dir=self.tmp_path / name,
            transport=transport or self.transport(),
            background=False,
            release_floor_s=0,
            timing=timing or self.timing,
        )

    def with_tokens(self, name: str, issuer: str, code: str) -> TokenTransport:
        return TokenTransport(
            self.transport(), issuer=issuer, credential=code, state_dir=self.tmp_path / name
        )

    async def counted(self, campaign: Published) -> int:
        """Return how many answers were counted, over all questions."""
        return sum(n for n, _, _ in await self.web.wire.sums(campaign))


@pytest.fixture
def recurring(publish: Callable[..., Published]) -> Published:  # noqa: F811 - the fixture
    """Three periods: the issuer has not made the last one's key, whose id names none."""
    plain = publish(queries=1).campaign
    made = replace(
        plain,
        period=(plain.closes - plain.opens) / 3,
        token_key=IDS + bytes(32),
        relay_operator=OPERATOR.public,
    )
    return Published.of(made)


@pytest.fixture
async def way(
    start_web: Callable[..., Awaitable[RunningGateway]],  # noqa: F811 - fixtures
    clock: Clock,  # noqa: F811
    tmp_path: Path,
) -> AsyncIterator[Callable[..., Awaitable[Way]]]:
    """Starts a gateway, and a relay between two taps."""
    with ExitStack() as stack:

        async def start(kind: type[Relay] = Relay, **changes: Any) -> Way:
            keys = tmp_path / "relay.keys"
            GatewayKeys.rotate(keys, OPERATOR, timedelta(days=9_000))
            web = await start_web({"relay_keys": keys}, **changes)
            host, _, port = web.web.rpartition(":")
            far = Tap((host, int(port)))
            relay = kind(("127.0.0.1", 0), f"http://127.0.0.1:{far.port}")
            near = Tap(("127.0.0.1", relay.server_port))
            stack.enter_context(running(relay))
            for tap in (near, far):
                stack.callback(tap.close)
            return Way(web, keys, near, far, clock, tmp_path)

        yield start
        await asyncio.sleep(0)


@pytest.fixture
async def started(way: Callable[..., Awaitable[Way]], campaign: Published) -> Way:
    """A way to a server that has the test's campaign."""
    made = await way()
    await made.web.wire.create(campaign)
    return made


__all__ = [
    "DEVICE",
    "IDS",
    "KEYS",
    "OPERATOR",
    "PATH",
    "Tap",
    "Way",
    "issuing",
    "running",
    "token_for",
]
