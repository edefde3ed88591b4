"""The effect of attacks on a device that is reporting, and on the server's memory.

The attacker has its own core; the other runs the server with its default settings, its gateway with
the console, and the device. The device is the SDK: for each report it reconnects, fetches the
campaign, draws, and submits until acknowledged. It does the same before the attack, against the
same server without a gateway, while an attacker floods a bare sink with the gateway's priority; and
after the attack, for a fifth of the time.

`python -m benchmarks.hostile_load SECONDS [NAME ...]` measures some attacks, `python -m benchmarks
attacks --minutes M` those that took down a server with its own HTTP parser. Both exit with 1 if
a report is missing; if, during or after the attack, 1 % of reports take more than a second or more
than 1.5 times as long as beside the sink; or if a process holds more than 512 MB.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.handshake import files_of, issued
from benchmarks.hostile_attacks import ATTACKS, JUDGED
from benchmarks.serving import Served, publish, served, served_to_browsers
from geoveil.client import TLS, Client, Policy
from geoveil.gp import GeoPrivacy, GeoVeilError

SECONDS = 15.0
MOST_RATIO, MOST_P99_S, MOST_RESIDENT_MB = 1.5, 1.0, 512.0
_AFTER = 0.2
"""How long to measure after an attack, as a share of its time."""
_SINK_S = 120.0
"""The most time to spend beside a sink: about 2,000 reports, so that 20 form the slowest 1 %."""
_LARGE_QUESTIONS = 5_000
"""Questions of a campaign of about 200 kB, so that pages are large."""
_WARM_S = 1.0
_LONGEST_S = 180.0
"""Spare time for an attack, since the device may start late and wait a minute for a report."""
_PAUSE_S = 0.02
_LOOK_S = 0.05
_AS_NICE_AS_THE_GATEWAY = 10
_PIECE = bytes(1 << 16)


@dataclass(frozen=True)
class Felt:
    """The effect on a device.

    Args:
        submitted_s: how long each report took to be acknowledged, in ascending order.
        taken_part_s: the same, including connecting and fetching.
        failed: reports that were not acknowledged within a minute.
    """

    submitted_s: Sequence[float]
    taken_part_s: Sequence[float]
    failed: int

    @property
    def p99_s(self) -> float:
        """The 99th percentile of the time of a report, including connecting and fetching."""
        return _quantile(self.taken_part_s, 0.99)


@dataclass(frozen=True)
class Suffered:
    """The cost of an attack."""

    beside_sink: Felt
    under: Felt
    after: Felt
    resident_mb: tuple[float, float]
    """The peak memory of the server and of its gateway."""

    @property
    def faults(self) -> list[str]:
        """Descriptions of the faults."""
        faults = []
        for when, felt in (("during it", self.under), ("after it", self.after)):
            ratio = felt.p99_s / self.beside_sink.p99_s
            if felt.failed or not felt.taken_part_s:
                faults.append(f"{felt.failed} reports are missing {when}")
            if not ratio <= MOST_RATIO:
                faults.append(f"{ratio:.2f} times the time beside a sink {when}")
            if not felt.p99_s <= MOST_P99_S:
                faults.append(f"{felt.p99_s:.1f} s {when}")
        for name, held in zip(("server", "gateway"), self.resident_mb, strict=True):
            if held > MOST_RESIDENT_MB:
                faults.append(f"the {name} held {held:.0f} MB")
        return faults


def measure(name: str, seconds: float) -> Suffered:
    with tempfile.TemporaryDirectory() as place, _apart() as theirs:
        folder = Path(place)
        files: tuple[str, ...] = ()
        authority = None
        if "TLS" in name:
            made = issued()
            files = files_of(made, folder)
            authority = made.certificate
        with served("default", str(folder / "alone.db"), "", *files) as server, _sink() as sink:
            address = _prepared(server, authority)
            watched_s = min(seconds, _SINK_S)
            with _attacking("sink", sink, watched_s + _LONGEST_S, theirs):
                beside_sink = _felt(address, authority, watched_s)
        with served_to_browsers("attacked", str(folder / "reports.db"), *files) as (server, web):
            address = _prepared(server, authority)
            target = web if name.startswith("web: ") else server.address
            peaks = [0.0, 0.0]
            ended = threading.Event()
            watching = threading.Thread(target=_watch, args=(server, peaks, ended))
            watching.start()
            with _attacking(name, target, seconds + _LONGEST_S, theirs):
                under = _felt(address, authority, seconds)
            after = _felt(address, authority, max(2.0, _AFTER * seconds))
            ended.set()
            watching.join()
    return Suffered(beside_sink, under, after, (peaks[0], peaks[1]))


def judged(minutes: float = SECONDS / 60) -> None:
    """Print the cost of attacks that once took servers down; exit with 1 on any fault."""
    table(JUDGED, 60 * minutes)


def table(names: Sequence[str] = tuple(ATTACKS), seconds: float = SECONDS) -> None:
    """Print the cost of each attack; exit with 1 on any fault."""
    columns = ("attack", "reports", "failed", "submit p99 ms", "p99 ms", "beside a sink ms")
    shown = Table(*columns, "after ms", "server MB", "gateway MB", "load average", "misses")
    shown.title = f"a device beside attacks of {seconds:.0f} s, {os.cpu_count()} processors"
    missed = []
    for name in names:
        found = measure(name, seconds)
        missed += [f"{name}: {fault}" for fault in found.faults]
        times = [_quantile(found.under.submitted_s, 0.99)]
        times += [felt.p99_s for felt in (found.under, found.beside_sink, found.after)]
        shown.add_row(
            name,
            str(len(found.under.taken_part_s)),
            str(found.under.failed + found.after.failed),
            *(f"{1e3 * one:,.0f}" for one in times),
            *(f"{held:.0f}" for held in found.resident_mb),
            f"{os.getloadavg()[0]:.1f}",
            "; ".join(found.faults),
        )
        print(name, found.faults, flush=True)
    Console().print(shown)
    if missed:
        sys.exit("attacks: " + "; ".join(missed))


@contextmanager
def _apart() -> Iterator[set[int]]:
    """Keep this process and those it starts on one core; yield another, for the attacker."""
    before = os.sched_getaffinity(0)
    first, *others = sorted(before)
    os.sched_setaffinity(0, set(others[:1]) or {first})
    try:
        yield {first}
    finally:
        os.sched_setaffinity(0, before)


def _prepared(server: Served, authority: bytes | None) -> str:
    """Publish the campaigns; return the server's address for devices."""
    address = server.address if authority is None else f"localhost:{server.address.split(':')[1]}"
    publish(address, authority=authority)
    publish(address, campaign_id="large", questions=_LARGE_QUESTIONS, authority=authority)
    return address


@contextmanager
def _attacking(name: str, address: str, seconds: float, cores: set[int]) -> Iterator[None]:
    command = [sys.executable, "-m", "benchmarks.hostile_attacks", name, address, str(seconds)]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdout=pipe, stderr=nowhere) as attacker:
        assert attacker.stdout is not None
        os.sched_setaffinity(attacker.pid, cores)
        try:
            attacker.stdout.readline()  # the attack begins now
            time.sleep(_WARM_S)
            yield
        finally:
            attacker.kill()


def _felt(address: str, authority: bytes | None, seconds: float) -> Felt:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.hostile_load", "device", address]
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, str(seconds)], stdin=pipe, stdout=pipe) as device:
        submitted, taken_part, failed = json.loads(device.communicate(authority or b"")[0])
    return Felt(sorted(submitted), sorted(taken_part), failed)


@contextmanager
def _sink() -> Iterator[str]:
    """Run a process that accepts connections and reads everything; yield its address."""
    command = [sys.executable, "-m", "benchmarks.hostile_load", "sink"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


def _swallow() -> None:
    os.nice(_AS_NICE_AS_THE_GATEWAY)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"127.0.0.1:{listening.getsockname()[1]}", flush=True)
        while True:
            opened, _ = listening.accept()
            threading.Thread(target=_read_all, args=(opened,), daemon=True).start()


def _read_all(opened: socket.socket) -> None:
    with opened, suppress(OSError):
        while opened.recv(len(_PIECE)):
            pass


def _watch(server: Served, peaks: list[float], ended: threading.Event) -> None:
    while not ended.wait(_LOOK_S):
        for place, process in enumerate([server.process, *server.process.children()][:2]):
            with suppress(psutil.Error):  # it has just ended
                peaks[place] = max(peaks[place], process.memory_info().rss / 2**20)


def _report(address: str, seconds: float, authority: bytes) -> None:
    """Report repeatedly, each time as a new device; print how long it took."""
    policy = Policy({"income": GeoPrivacy(1.0, 8_000.0, "dollar")})
    tls = TLS(root_certificates=authority) if authority else None
    submitted, taken_part, failed = [], [], 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        begun = time.perf_counter()
        with Client(address, policy=policy, background=False, timeout_s=60.0, tls=tls) as client:
            try:
                client.fetch("load")
                client.contribute("load", 52_000.0)
                drawn = time.perf_counter()
                if not client.flush().acknowledged:
                    failed += 1
                    continue
            except GeoVeilError:
                failed += 1
                continue
            submitted.append(time.perf_counter() - drawn)
            taken_part.append(time.perf_counter() - begun)
        time.sleep(_PAUSE_S)
    print(json.dumps([submitted, taken_part, failed]))


def _quantile(ascending: Sequence[float], share: float) -> float:
    if not ascending:
        return float("nan")
    return ascending[min(int(share * len(ascending)), len(ascending) - 1)]


if __name__ == "__main__":
    if sys.argv[1] == "device":
        _report(sys.argv[2], float(sys.argv[3]), sys.stdin.buffer.read())
    elif sys.argv[1] == "sink":
        _swallow()
    else:
        table(sys.argv[2:] or tuple(ATTACKS), float(sys.argv[1]))
