"""Startup time of an app: importing the SDK and making a first report, in a fresh interpreter.

It measures processor time and peak memory of whole processes, with bytecode compiled beforehand, as
in an installation. The reference, in the same run, imports what every report needs: python-flint to
draw, SQLite to remember, and protobuf to send. NumPy, which a report does not need, is shown for
comparison.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

from benchmarks.timing import Figure, show

FIRST_REPORT = """
from datetime import UTC, datetime, timedelta
from geoveil.campaign import Attribute, Question, StatisticCampaign
from geoveil.client import Client, InMemoryCollector, InMemoryTransport, Policy
from geoveil.gp import GeoPrivacy, Threshold
now = datetime.now(UTC)
privacy = GeoPrivacy(1.0, 8000.0, "dollar")
campaign = StatisticCampaign(
    campaign_id="income", title="Income", privacy=privacy, opens=now,
    attribute=Attribute(name="income", unit="dollar"), closes=now + timedelta(days=1),
    questions=(Question("above", Threshold(100_000, 24_000, "smoothstep")),),
)
transport = InMemoryTransport(InMemoryCollector([campaign]))
with Client(policy=Policy({"income": privacy}), transport=transport) as client:
    client.fetch("income")
    client.contribute("income", 52_000)
    assert client.flush().pending == 0
"""
VERSION = """
import sys
from geoveil.cli import main
sys.argv = ["geoveil", "--version"]
main()
"""
_NEEDED = "import flint, sqlite3, protobuf"
SCRIPTS = {
    "python, nothing imported": "pass",
    "import numpy": "import numpy",
    _NEEDED: "import flint, sqlite3, geoveil.proto.v1.collector_pb2",
    "import geoveil.client": "import geoveil.client",
    "... and a first report": FIRST_REPORT,
    "geoveil --version": VERSION,
}
ROUNDS = 7
_COST = """
import json, sys, time
with open("/proc/self/status") as status:
    memory = next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps([time.process_time(), memory]), file=sys.stderr)
"""


def table() -> list[Figure]:
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in SCRIPTS}
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for _ in range(1 + ROUNDS):
            for name, script in SCRIPTS.items():
                found[name].append(_run(script, environment))
    seconds, memory = (
        {name: statistics.median(cost[i] for cost in costs[1:]) for name, costs in found.items()}
        for i in range(2)
    )
    return [
        *show("start-up, whole process", "ms of the processor", 1e3, seconds, _NEEDED),
        *show("memory of a start-up", "MiB at most", 2**-20, memory, _NEEDED),
    ]


def _run(script: str, environment: dict[str, str]) -> tuple[float, float]:
    """Return the processor time in seconds and the peak memory in bytes of a process."""
    command = [sys.executable, "-c", script + _COST]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    seconds, memory = json.loads(done.stderr.splitlines()[-1])
    return seconds, memory
