"""A long-lived service that forks workers, in the manner of gunicorn with --preload.

The client is made once, before the fork, and every worker goes on with it: one draw per campaign
and one budget for all of them, as they share the state directory. A killed worker loses nothing:
another one sends its reports, or the service does so after a restart.

Run: python examples/forking_worker.py        (with a real server, on a free port of this machine)
"""

import os
import signal
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from geoveil.analyst import Analyst
from geoveil.campaign import Attribute, Question, StatisticCampaign
from geoveil.client import Client, Limit, Policy
from geoveil.gp import GeoPrivacy, Threshold
from geoveil.simulation.local_server import local_server

POLICY = Policy(
    {
        "household income": Limit(
            campaign=GeoPrivacy(1.0, 8_000.0, "dollar"),
            lifetime=GeoPrivacy(6.0, 8_000.0, "dollar"),
        )
    }
)
WORKERS = 4
CAMPAIGNS = [f"income-{year}" for year in range(2021, 2027)]


def serve_requests(client: Client) -> None:
    """What a worker does: it answers requests, and contributes on the way, without waiting."""
    for campaign_id in CAMPAIGNS:
        client.contribute(campaign_id, 87_500.0)


def publish(address: str) -> None:
    """Publish the campaigns, as an analyst would."""
    now = datetime.now(UTC)
    with Analyst(address) as analyst:
        for campaign_id in CAMPAIGNS:
            campaign = StatisticCampaign(
                campaign_id=campaign_id,
                title="Income above $100,000",
                attribute=Attribute(name="household income", unit="dollar"),
                privacy=GeoPrivacy(1.0, 8_000.0, "dollar"),
                questions=(Question("above", Threshold(100_000, 24_000, "smoothstep")),),
                opens=now - timedelta(minutes=1),
                closes=now + timedelta(days=1),
            )
            analyst.create(campaign)


def master(address: str, state_dir: Path) -> None:
    """Make the client, fork workers that use it, kill one; then show what was sent."""
    with Client(address, policy=POLICY, state_dir=state_dir) as client:
        for campaign_id in CAMPAIGNS:
            client.fetch(campaign_id)
        workers = []
        for number in range(WORKERS):
            process = os.fork()
            if process == 0:
                serve_requests(client)
                if number == 0:
                    os.kill(os.getpid(), signal.SIGKILL)  # out of memory, for example
                client.close()
                os._exit(0)
            workers.append(process)
        for process in workers:
            os.waitpid(process, 0)
        client.flush()
        counts = client.counts()
        print(f"{WORKERS} workers, one killed: {counts.acknowledged} reports counted,", end=" ")
        print(f"{counts.pending} pending, to {len(CAMPAIGNS)} campaigns")


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory() as folder,
        local_server(Path(folder) / "aggregator.db") as address,
    ):
        publish(address)
        master(address, Path(folder) / "state")
