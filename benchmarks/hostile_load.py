"""What attacks cost a device that reports meanwhile, and how much memory they take of the server.

The server has its default settings; server, attacker and device are a process each. The device is
the SDK: for each report it connects anew, fetches the campaign, draws, and submits until it is
acknowledged. `python -m benchmarks.hostile_load SECONDS [NAME ...]` measures some of them.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.hostile_attacks import ATTACKS
from benchmarks.serving import Served, publish, served_to_browsers
from geoveil.client import Client, Policy
from geoveil.gp import GeoPrivacy, GeoVeilError

SECONDS = 15.0
MOST_P99_S, MOST_RESIDENT_MB = 1.0, 512.0
_LARGE_QUESTIONS = 5_000
"""Questions of a campaign of some 200 kB, so that pages are large."""
_WARM_S = 1.0
_PAUSE_S = 0.02
_LOOK_S = 0.05


@dataclass(frozen=True)
class Suffered:
    """What an attack cost.

    Args:
        submitted_s: how long each of the device's reports took to be acknowledged, ascending.
        taken_part_s: likewise, with connecting and fetching.
        failed: reports that were not acknowledged within a minute.
        resident_mb: the most memory that the server held.
        load: average number of processes that wanted a processor, of the last minute.
    """

    submitted_s: Sequence[float]
    taken_part_s: Sequence[float]
    failed: int
    resident_mb: float
    load: float


def measure(name: str, seconds: float) -> Suffered:
    """Attack a server of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        served_to_browsers("default", str(Path(folder) / "reports.db")) as (server, web),
    ):
        publish(server.address)
        publish(server.address, campaign_id="large", questions=_LARGE_QUESTIONS)
        module = [sys.executable, "-m"]
        device = subprocess.Popen(
            [*module, "benchmarks.hostile_load", "device", server.address, str(seconds)],
            stdout=subprocess.PIPE,
            text=True,
        )
        time.sleep(_WARM_S)
        address = web if name.startswith("web: ") else server.address
        attacker = subprocess.Popen(
            [*module, "benchmarks.hostile_attacks", name, address, str(seconds)],
            stderr=subprocess.DEVNULL,
        )
        with device, attacker:
            peak = _watch(server, device)
            assert device.stdout is not None
            submitted, taken_part, failed = json.loads(device.stdout.read())
            attacker.wait()
    return Suffered(sorted(submitted), sorted(taken_part), failed, peak, os.getloadavg()[0])


def table(names: Sequence[str] = tuple(ATTACKS), seconds: float = SECONDS) -> None:
    """Print what each attack costs."""
    columns = ("attack", "reports", "failed", "submit p50 ms", "p99 ms", "largest ms")
    shown = Table(*columns, "with fetching p99 ms", "resident MB", "load average")
    shown.title = f"a device beside attacks of {seconds:.0f} s, {os.cpu_count()} processors"
    for name in names:
        found = measure(name, seconds)
        shares = [_quantile(found.submitted_s, share) for share in (0.5, 0.99, 1.0)]
        shown.add_row(
            name,
            str(len(found.submitted_s)),
            str(found.failed),
            *(f"{1e3 * one:,.0f}" for one in shares),
            f"{1e3 * _quantile(found.taken_part_s, 0.99):,.0f}",
            f"{found.resident_mb:.0f}",
            f"{found.load:.1f}",
        )
    Console().print(shown)


def _watch(server: Served, device: "subprocess.Popen[str]") -> float:
    """Return the most memory that the server held until the device has ended."""
    peak = server.resident_mb()
    while device.poll() is None:
        peak = max(peak, server.resident_mb())
        time.sleep(_LOOK_S)
    return peak


def _report(address: str, seconds: float) -> None:
    """Report again and again, each time as another device; print how long it took."""
    policy = Policy({"income": GeoPrivacy(1.0, 8_000.0, "dollar")})
    submitted, taken_part, failed = [], [], 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        begun = time.perf_counter()
        with Client(address, policy=policy, background=False, timeout_s=60.0) as client:
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
        _report(sys.argv[2], float(sys.argv[3]))
    else:
        table(sys.argv[2:] or tuple(ATTACKS), float(sys.argv[1]))
