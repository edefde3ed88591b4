"""What an app waits for: importing the SDK and making a first report, in a fresh interpreter."""

import subprocess
import sys

from benchmarks.timing import medians, show

FIRST_REPORT = """
from geoveil.client import Client, InMemoryCollector, InMemoryTransport, Policy
from datetime import UTC, datetime, timedelta
from geoveil.campaign import Attribute, Question, StatisticCampaign
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
SCRIPTS = {
    "python, nothing imported": "pass",
    "import numpy": "import numpy",
    "import geoveil.client": "import geoveil.client",
    "... and a first report": FIRST_REPORT,
}


def table() -> None:
    """Print milliseconds from the start of the interpreter to its end."""
    times = medians({name: (lambda s=script: _run(s)) for name, script in SCRIPTS.items()})
    show("start-up of the SDK, whole process", "ms", 1e3, times, "import numpy")


def _run(script: str) -> None:
    subprocess.run([sys.executable, "-c", script], check=True)
