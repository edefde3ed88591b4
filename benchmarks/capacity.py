"""What a report from a browser or a phone costs the servers, by how its connection begins.

Times are processor times of the gateway, the aggregator and, where it stands before them, nginx,
which terminates TLS with a P-256 key. `AT_ONCE` clients in a separate process, each with its own
address, send `COUNT` reports, one per request: over one lasting connection each, over a new one per
report that resumes the last session (a TLS 1.3 ticket), or with a full handshake each time. gRPC
clients go through nginx without the gateway; Python's cannot resume sessions. The database is
SQLite. The time of clients is not counted. The floors are bare servers that answer nothing, in the
same run: uvicorn, which terminates TLS as the gateway does; nginx; and grpc.aio behind nginx. Each
figure is also converted to the number of cores that 10⁹ reports a day take.
"""

import multiprocessing
import shutil
import socket
import ssl
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import grpc
import psutil

from benchmarks.handshake import files_of, issued
from benchmarks.serving import (
    ECHO,
    SUBMIT,
    Requests,
    free_address,
    processor_s,
    publish,
    served,
    served_to_browsers,
)
from benchmarks.timing import Figure, show
from geoveil.campaign import Campaign
from geoveil.proto.v1.collector_pb2 import SubmitReportsResponse
from geoveil.proto.v1.report_pb2 import REPORT_STATUS_ACCEPTED, REPORT_STATUS_DUPLICATE

COUNT, AT_ONCE, ROUNDS = 1_920, 32, 3
STAYS, RESUMED, FULL = "stays", "resumed", "full handshake"
A_DAY, PEAK = 1e9, 5
BARE = "/bare"
_ATTEMPTS = 20
"""How often a browser tries to send a report that is refused, such as by a busy server."""
_NGINX = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/errors; user root;
events {{ worker_connections 1024; }}
http {{
    access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    upstream gateway {{ server {web}; keepalive 64; }}
    upstream aggregator {{ server {aggregator}; keepalive 64; }}
    upstream echo {{ server {echo}; keepalive 64; }}
    server {{
        listen {listen} ssl http2;
        ssl_certificate {folder}/server.pem; ssl_certificate_key {folder}/server-key.pem;
        keepalive_requests 100000;
        location = {bare} {{ return 200; }}
        location = {of_echo} {{ grpc_pass echo; }}
        location / {{
            if ($content_type = application/grpc) {{ grpc_pass aggregator; }}
            proxy_pass http://gateway;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Forwarded-Proto $scheme;
        }}
    }}
}}
"""


def table() -> list[Figure]:
    """Print milliseconds per report, and the number of cores that they amount to."""
    with tempfile.TemporaryDirectory() as folder:
        made = issued()
        files = files_of(made, Path(folder))
        costs: dict[str, float] = {}
        with served_to_browsers("web", f"{folder}/direct.db", *files) as (server, web):
            address = server.address.replace("127.0.0.1", "localhost")
            campaign = publish(address, authority=made.certificate)
            processes = [server.process, server.gateway]
            costs |= _costs("gateway", web, campaign, processes)
            with served("http", *files) as bare:
                costs |= _costs("bare uvicorn", bare.address, campaign, [bare.process], path=BARE)
        if shutil.which("nginx"):
            with (
                served_to_browsers("proxied", f"{folder}/proxied.db") as (server, web),
                served("echo") as echo,
                _nginx(Path(folder), web, server.address, echo.address) as (address, nginx),
            ):
                campaign = publish(server.address)
                processes = [server.process, server.gateway, *nginx]
                costs |= _costs("nginx, gateway", address, campaign, processes)
                costs |= _costs("bare nginx", address, campaign, nginx, path=BARE)
                costs |= _costs("nginx, gRPC", address, campaign, processes, made.certificate)
                processes = [echo.process, *nginx]
                costs |= _costs(
                    "nginx, bare gRPC", address, campaign, processes, made.certificate, ECHO
                )
    figures = show("reports over TLS, one a request", "ms per report", 1e3, costs, "gateway, stays")
    average = A_DAY / 86_400
    for name, cost in costs.items():
        print(
            f"{name}: {A_DAY:.0e} reports a day take {average * cost:.0f} cores on average,"
            f" {PEAK * average * cost:.0f} at {PEAK} times that"
        )
    return figures


def _costs(
    name: str,
    web: str,
    campaign: Campaign,
    processes: list[psutil.Process],
    authority: bytes | None = None,
    path: str = SUBMIT,
) -> Mapping[str, float]:
    """Return seconds per report for each kind of connection; of gRPC if an authority is given."""
    ways = (STAYS, FULL) if authority else (STAYS, RESUMED, FULL)
    spent: dict[str, list[float]] = {f"{name}, {way}": [] for way in ways}
    for number in range(1 + ROUNDS):
        for at, way in enumerate(ways, 1):
            before = sum(map(processor_s, processes))
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                pool.apply(_load, (web, campaign, way, f"127.{number}.{at}", authority, path))
            spent[f"{name}, {way}"].append((sum(map(processor_s, processes)) - before) / COUNT)
    return {of_one: statistics.median(costs[1:]) for of_one, costs in spent.items()}


def _load(
    web: str, campaign: Campaign, way: str, network: str, authority: bytes | None, path: str
) -> None:
    """Send reports from many addresses of a network, since the gateway limits each address."""
    requests = Requests(campaign, 1)
    drawn = [requests.draw() for _ in range(COUNT)]

    def send(number: int) -> None:
        client = (
            _Browser(web, f"{network}.{1 + number}", way, path)
            if authority is None
            else _Device(web, way, authority, path)
        )
        for request in drawn[number::AT_ONCE]:
            if not any(client.send(request) for _ in range(_ATTEMPTS)):
                raise RuntimeError("refused again and again")

    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(send, range(AT_ONCE)))


class _Device:
    """A minimal device that sends reports over gRPC."""

    def __init__(self, server: str, way: str, authority: bytes, path: str) -> None:
        self._server, self._way, self._path = server, way, path
        self._credentials = grpc.ssl_channel_credentials(authority)
        self._channel: grpc.Channel | None = None

    def send(self, message: bytes) -> bool:
        """Send a request; its report is always counted."""
        options = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.ssl_target_name_override", "localhost"),
        ]
        channel = self._channel or grpc.secure_channel(self._server, self._credentials, options)
        answer = channel.unary_unary(self._path)(message, timeout=60)
        if self._path == SUBMIT:
            _require_accepted(answer)
        if self._way == STAYS:
            self._channel = channel
        else:
            channel.close()
        return True


class _Browser:
    """A minimal browser that sends reports.

    Args:
        web: "host:port".
        source: the address it calls from.
        way: `STAYS`, `RESUMED` or `FULL`.
        path: of its requests.
    """

    def __init__(self, web: str, source: str, way: str, path: str) -> None:
        host, _, port = web.rpartition(":")
        self._path = path
        self._server, self._source, self._way = (host, int(port)), source, way
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE
        self._session: ssl.SSLSession | None = None
        self._connection: ssl.SSLSocket | None = None

    def send(self, message: bytes) -> bool:
        """Send a request; return whether it was answered, in which case its report is counted."""
        connection = self._connection or self._connected()
        connection.sendall(
            b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/proto\r\n"
            b"content-length: %d\r\n\r\n%b" % (self._path.encode(), len(message), message)
        )
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self._read(connection)
        head, _, content = answer.partition(b"\r\n\r\n")
        (length,) = [
            int(x[15:]) for x in head.lower().split(b"\r\n") if x[:15] == b"content-length:"
        ]
        while len(content) < length:
            content += self._read(connection)
        refused = b" 200 " not in head.splitlines()[0]
        if not refused and self._path == SUBMIT:
            _require_accepted(content)
        if self._way == STAYS and not refused:
            self._connection = connection
        else:
            self._session = connection.session if self._way == RESUMED else None
            connection.close()
            self._connection = None
        return not refused

    def _connected(self) -> ssl.SSLSocket:
        plain = socket.create_connection(self._server, 30, (self._source, 0))
        resumed = self._session is not None
        connection = self._context.wrap_socket(
            plain, server_hostname="localhost", session=self._session
        )
        assert connection.session_reused == resumed
        return connection

    @staticmethod
    def _read(connection: ssl.SSLSocket) -> bytes:
        read = connection.recv(1 << 14)
        assert read, "the server closed the connection"
        return read


def _require_accepted(answer: bytes) -> None:
    (result,) = SubmitReportsResponse.FromString(answer).results
    assert result.status in (REPORT_STATUS_ACCEPTED, REPORT_STATUS_DUPLICATE), result


@contextmanager
def _nginx(
    folder: Path, web: str, aggregator: str, echo: str
) -> Iterator[tuple[str, list[psutil.Process]]]:
    listen = free_address()
    file = folder / "nginx.conf"
    file.write_text(
        _NGINX.format(
            folder=folder, web=web, listen=listen, aggregator=aggregator,
            echo=echo, bare=BARE, of_echo=ECHO,
        )
    )  # fmt: skip
    with subprocess.Popen(["nginx", "-p", folder, "-c", file]) as process:
        try:
            started = psutil.Process(process.pid)
            for attempt in count():
                assert attempt < 100, "nginx does not start"
                if started.children():
                    break
                time.sleep(0.1)
            yield listen, [started, *started.children()]
        finally:
            process.terminate()
            process.wait()
