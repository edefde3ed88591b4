"""The SDK in an app whose server is unreachable: time of each call, and memory.

A separate process contributes once to each campaign that its state directory knows, through gRPC to
a port where nobody listens: to half of them right after the start, while the background thread
waits for a quiet moment to load gRPC; to the other half after that, while the thread keeps trying
to send. The reference, in the same process, is one durable commit of a row of the same size to
a bare SQLite file.
"""

import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.table import Table

from geoveil.campaign import Attribute, Question, StatisticCampaign
from geoveil.client import Client, InMemoryCollector, InMemoryTransport, Limit, Policy
from geoveil.gp import GeoPrivacy, Threshold

CAMPAIGNS = 900
PRIVACY = GeoPrivacy(1.0, 8000.0, "dollar")
POLICY = Policy({"income": Limit(campaign=PRIVACY)})
_HOST = """
import json, socket, sqlite3, sys, threading, time
from collections import defaultdict
from geoveil.client import Client, Limit, Policy
from geoveil.gp import GeoPrivacy
state, names = sys.argv[1], sys.argv[2:]
policy = Policy({"income": Limit(campaign=GeoPrivacy(1.0, 8000.0, "dollar"))})
with socket.socket() as nobody:  # bound and not listening: connections are refused
    nobody.bind(("127.0.0.1", 0))
    port = nobody.getsockname()[1]
    seconds = defaultdict(list)
    def timed(kind, act):
        start = time.perf_counter()
        act()
        seconds[kind].append(time.perf_counter() - start)
    bare = sqlite3.connect(state + "/bare.sqlite3", isolation_level=None)
    bare.execute("PRAGMA journal_mode = WAL")
    bare.execute("CREATE TABLE entry (id INTEGER PRIMARY KEY, data BLOB)")
    insert = "INSERT INTO entry (data) VALUES (randomblob(150))"
    client = Client(f"127.0.0.1:{port}", policy=policy, state_dir=state)
    for number, name in enumerate(names):
        when = "later" if "grpc" in sys.modules else "first"
        timed(f"contribute, {when}", lambda: client.contribute(name, 52_000.0))
        timed(f"contribute again, {when}", lambda: client.contribute(name, 52_000.0))
        timed("bare commit", lambda: bare.execute(insert))
        if number == 100:
            for _ in range(200):
                timed("history of 100", client.history)
        if number == len(names) // 2:
            assert "grpc" not in sys.modules
            while "grpc" not in sys.modules:
                time.sleep(0.01)
            time.sleep(1.0)
    pending = client.counts().pending
    client.close(0.0)
    threads = [t.name for t in threading.enumerate() if t.name != "MainThread"]
# Not getrusage: it counts what the process had before it became this program.
with open("/proc/self/status") as status:
    memory = next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps([seconds, pending, memory, threads, "scipy" in sys.modules]))
"""


def table() -> None:
    """Print quantiles of the time of a call in milliseconds, and their ratio to a bare commit."""
    names = [f"campaign-{i}" for i in range(CAMPAIGNS)]
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        _fetch(names, state)
        command = [sys.executable, "-c", _HOST, str(state), *names]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, pending, memory, threads, scipy = json.loads(done.stdout)
    reference = _quantile(seconds["bare commit"], 0.5)
    shown = Table("call", "median ms", "p99 ms", "largest ms", "median / bare commit")
    shown.title = f"SDK beside a server that can't be reached, {CAMPAIGNS:,} campaigns"
    for kind, times in seconds.items():
        quantiles = [_quantile(times, share) for share in (0.5, 0.99, 1.0)]
        shown.add_row(
            kind, *(f"{q * 1e3:.2f}" for q in quantiles), f"{quantiles[0] / reference:.1f}"
        )
    console = Console()
    console.print(shown)
    console.print(
        f"pending {pending:,}; resident at most {memory / 2**20:.0f} MiB; threads left:"
        f" {threads or 'none'}; SciPy {'was' if scipy else 'was not'} imported"
    )


def _fetch(names: list[str], state: Path) -> None:
    now = datetime.now(UTC)
    campaigns = [
        StatisticCampaign(
            campaign_id=name,
            title="Income",
            attribute=Attribute(name="income", unit="dollar"),
            privacy=PRIVACY,
            questions=(Question("above", Threshold(100_000, 24_000, "smoothstep")),),
            opens=now - timedelta(days=1),
            closes=now + timedelta(days=1),
        )
        for name in names
    ]
    transport = InMemoryTransport(InMemoryCollector(campaigns))
    with Client(policy=POLICY, state_dir=state, transport=transport, background=False) as client:
        for name in names:
            client.fetch(name)


def _quantile(times: list[float], share: float) -> float:
    return sorted(times)[min(int(share * len(times)), len(times) - 1)]
