"""Serve realistic traffic for hours, to detect memory growth and defects.

It runs `geoveil serve` with its default settings, TLS, a gateway and PostgreSQL. Every few seconds,
a new device connects and reports, health is checked over gRPC and HTTP, both ports are scanned,
handshakes are cut short, and strangers send garbage. The database is restarted every `RESTART_S` or
sooner, half of the times abruptly. Memory is the resident set of server and gateway; a line is
fitted to it, without the first quarter.

It fails if a report is missing at the end, if the log has a line of `defect`, or, after an hour or
more, if memory grows by a megabyte an hour. In less time, filling caches look like a leak.
"""

import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import psutil
from grpc_health.v1 import health_pb2, health_pb2_grpc
from rich.console import Console
from rich.table import Table

from benchmarks.handshake import issued
from benchmarks.hostile_frames import PREFACE
from benchmarks.serving import counted, postgres_server, publish
from geoveil.client import TLS, Client, Policy
from geoveil.gp import GeoPrivacy, GeoVeilError

HOURS = 0.02
ROUND_S, RESTART_S, PATIENCE_S = 3.0, 600.0, 120.0
MOST_MB_PER_HOUR = 1.0
_RESTARTS = 4
"""The least number of restarts."""
_FEWEST_HOURS = 1.0
_RESET = struct.pack("ii", 1, 0)
_POLICY = Policy({"income": GeoPrivacy(1.0, 8_000.0, "dollar")})
GARBAGE: Sequence[bytes] = (
    b"",
    b"\x00",
    b"\xff" * 64,
    b"GET / HTTP/1.0\r\n\r\n",
    b"SSH-2.0-scan\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00",
    b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    PREFACE,
    PREFACE + b"\xff" * 200,
)
"""The first bytes that strangers send, with TLS and without."""


def table(hours: float = HOURS) -> None:
    """Print the result of a number of hours; exit with 1 on any fault."""
    faults = soak(hours)
    if faults:
        sys.exit(f"soak: {'; '.join(faults)}")


def soak(hours: float) -> list[str]:
    """Serve for a number of hours, print the findings, and return the faults."""
    done: Counter[str] = Counter()
    memory: dict[str, list[tuple[float, float]]] = {"aggregator": [], "gateway": []}
    with tempfile.TemporaryDirectory() as name, postgres_server() as database:
        folder = Path(name)
        with _served(folder, database.get_uri()) as (process, address, web, authority):
            publish(address, authority=authority)
            restart_s = min(RESTART_S, 3600 * hours / (_RESTARTS + 1))
            until, restart = time.monotonic() + 3600 * hours, time.monotonic() + restart_s
            while (now := time.monotonic()) < until:
                if now >= restart:
                    done["restarts"] += 1
                    _restart(database, immediate=done["restarts"] % 2 == 0)
                    restart = now + restart_s
                    held = ", ".join(f"{name} {of[-1][1]:.1f} MB" for name, of in memory.items())
                    print(f"{hours - (until - now) / 3600:.2f} h: {held}", flush=True)
                _round(address, web, authority, done)
                _look(process, memory, time.monotonic())
                time.sleep(max(0.0, now + ROUND_S - time.monotonic()))
            missing = done["reports"] - counted(address, authority)
        defects = [line["event"] for line in _events(folder / "log")].count("defect")
    return _judged(hours, done, memory, defects, missing)


def _judged(
    hours: float,
    done: Mapping[str, int],
    memory: Mapping[str, Sequence[tuple[float, float]]],
    defects: int,
    missing: int,
) -> list[str]:
    shown = Table("process", "first MB", "most MB", "last MB", "MB an hour", title_justify="left")
    shown.title = f"{hours:g} h: " + ", ".join(f"{n:,} {what}" for what, n in done.items())
    faults = [f"{defects} lines are called defect"] if defects else []
    faults += [f"{missing} reports are missing"] if missing else []
    for name, samples in memory.items():
        slope, error = growth(samples)
        held = [mb for _, mb in samples]
        shown.add_row(name, *(f"{mb:.1f}" for mb in (held[0], max(held), held[-1])),
                      f"{slope:.2f} ± {error:.2f}")  # fmt: skip
        if hours >= _FEWEST_HOURS and slope >= MOST_MB_PER_HOUR:
            faults.append(f"the {name} grows by {slope:.1f} MB an hour")
    Console().print(shown)
    return faults


def growth(samples: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return megabytes per hour, with the standard error under independent residuals.

    Args:
        samples: seconds and megabytes; the first quarter of the time is ignored.
    """
    from scipy.stats import linregress

    at, held = np.asarray(samples).T
    later = at >= at[0] + (at[-1] - at[0]) / 4
    hours, held = (at[later] - at[0]) / 3600, held[later]
    line = linregress(hours, held)
    return float(line.slope), float(line.stderr)


@contextmanager
def _served(folder: Path, url: str) -> Iterator[tuple[psutil.Process, str, tuple[str, int], bytes]]:
    """Run `geoveil serve`; yield its process, its address, the gateway's, and the authority."""
    made = issued()
    names = {"cert.pem": made.certificate, "key.pem": made.key, "url": url.encode()}
    for name, content in names.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        web = one.getsockname()
    command = [sys.executable, "-c", "from geoveil.cli import main; main()", "serve"]
    command += ["--port", "0", "--web", f"127.0.0.1:{web[1]}", "--log-format", "json"]
    for option, name in (
        ("--tls-certificate", "cert.pem"),
        ("--tls-key", "key.pem"),
        ("--database-url-file", "url"),
    ):
        command += [option, str(folder / name)]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, cwd=folder) as process,
    ):
        try:
            yield psutil.Process(process.pid), _address(folder / "log"), web, made.certificate
        finally:
            process.terminate()


def _address(log: Path) -> str:
    """Return the server's address, once it and its gateway listen."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        lines = [line for line in _events(log) if line["event"] == "listening"]
        if len(lines) == 2:
            port = next(one["address"] for one in lines if "address" in one).rpartition(":")[2]
            return f"localhost:{port}"
        time.sleep(0.2)
    sys.exit(log.read_text())


def _events(log: Path) -> list[dict[str, Any]]:
    found = []
    for line in log.read_text().splitlines():
        with suppress(ValueError):
            found.append(json.loads(line))
    return found


def _restart(database: Any, *, immediate: bool) -> None:
    if immediate:
        for one in [*(parent := psutil.Process(database.get_pid())).children(), parent]:
            with suppress(psutil.Error):
                one.kill()
        parent.wait(20)
    else:
        database.stop()
    database.ensure_postgres_running()


def _round(address: str, web: tuple[str, int], authority: bytes, done: Counter[str]) -> None:
    port = int(address.rpartition(":")[2])
    grpc_port = ("127.0.0.1", port)
    done["reports"] += 1
    _report(address, authority)
    for ask in (_health, _web_health):
        with suppress(grpc.RpcError, OSError):
            ask(address, web, authority)
            done["health checks"] += 1
    for place in (grpc_port, web):
        for content in GARBAGE:
            for secure in (False, True):
                with suppress(OSError):
                    _stranger(place, content, secure=secure)
                    done["strangers"] += 1
        with suppress(OSError):
            _cut_short(place, done["reports"] % 300)
            done["handshakes cut short"] += 1


def _report(address: str, authority: bytes) -> None:
    """Report as a new device, which retries until acknowledged or out of time."""
    until, fetched = time.monotonic() + PATIENCE_S, False
    tls = TLS(root_certificates=authority)
    with Client(address, policy=_POLICY, background=False, timeout_s=20.0, tls=tls) as client:
        while time.monotonic() < until:
            with suppress(GeoVeilError):
                if not fetched:
                    client.fetch("load")
                    client.contribute("load", 52_000.0)
                    fetched = True
                if not client.flush(20.0).pending:
                    return
            time.sleep(0.5)


def _health(address: str, web: tuple[str, int], authority: bytes) -> None:
    secure = grpc.ssl_channel_credentials(authority)
    with grpc.secure_channel(address, secure, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        request = health_pb2.HealthCheckRequest()
        health_pb2_grpc.HealthStub(channel).Check(request, timeout=5)


def _web_health(address: str, web: tuple[str, int], authority: bytes) -> None:
    path = b"/grpc.health.v1.Health/Check"
    head = b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n" % path
    with _opened(web, secure=True) as one:
        one.sendall(head + b"content-length: 2\r\nconnection: close\r\n\r\n{}")
        one.recv(4096)


def _stranger(place: tuple[str, int], content: bytes, *, secure: bool) -> None:
    """Connect, send something, and drop the connection."""
    with _opened(place, secure=secure) as one:
        one.sendall(content)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def _cut_short(place: tuple[str, int], size: int) -> None:
    """Begin a handshake, and leave after this many bytes of it."""
    come, gone = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        _trusting().wrap_bio(come, gone, server_hostname="localhost").do_handshake()
    _stranger(place, gone.read()[:size], secure=False)


def _opened(place: tuple[str, int], *, secure: bool) -> socket.socket:
    one = socket.create_connection(place, timeout=5)
    return _trusting().wrap_socket(one, server_hostname="localhost") if secure else one


def _trusting() -> ssl.SSLContext:
    """Return a context that accepts any certificate, as strangers do."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _look(
    process: psutil.Process, memory: Mapping[str, list[tuple[float, float]]], now: float
) -> None:
    processes = [process, *process.children()]
    for samples, one in zip(memory.values(), processes, strict=False):
        samples.append((now, one.memory_info().rss / 2**20))


if __name__ == "__main__":
    os.nice(10)
    table(float(sys.argv[1]))
