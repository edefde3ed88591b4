"""A script that cron runs once a day, in a campaign that recurs daily.

It may miss days, or be killed: a later run sends what an earlier one drew and could not send. A
second run on the same day changes nothing.

Run: python examples/cron_job.py        (as two days; the server is away on the first)
"""

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from geoveil.campaign import Attribute, Question, StatisticCampaign
from geoveil.client import (
    Client,
    InMemoryCollector,
    InMemoryTransport,
    Limit,
    Policy,
    Timing,
    Transport,
    TransportError,
)
from geoveil.gp import GeoPrivacy, Threshold

POLICY = Policy(
    {
        "electricity": Limit(
            campaign=GeoPrivacy(30.0, 10.0, "kilowatt hour"),
            lifetime=GeoPrivacy(100.0, 10.0, "kilowatt hour"),
        )
    }
)


def run(transport: Transport, state_dir: Path, used: float, timing: Timing) -> str:
    """What cron runs. No background: everything is done when this returns."""
    with Client(
        policy=POLICY,
        state_dir=state_dir,
        transport=transport,  # in production: Client("collector.example:443", tls=TLS(), ...)
        background=False,
        timing=timing,
    ) as client:
        try:
            client.fetch("electricity-daily", timeout_s=5.0)
        except TransportError as error:
            print(f"  the server is away ({error.code}); going on with what this device knows")
        receipt = client.contribute("electricity-daily", used)
        result = client.flush(timeout_s=5.0)
        return f"day {receipt.period}: {result.acknowledged} sent, {result.pending} kept for later"


if __name__ == "__main__":
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    campaign = StatisticCampaign(
        campaign_id="electricity-daily",
        title="Households above 10 kWh a day",
        attribute=Attribute(name="electricity", unit="kilowatt hour"),
        privacy=GeoPrivacy(1.0, 10.0, "kilowatt hour"),
        questions=(Question("above 10 kWh", Threshold(10, 30, "smoothstep")),),
        opens=midnight,
        closes=midnight + timedelta(days=30),
        period=timedelta(days=1),
    )
    collector = InMemoryCollector([campaign])
    server_is_away = {1}  # on these days

    def server_on(day: int) -> Transport:
        """Return a transport to a server that may be unreachable."""

        def answer(request: object) -> object:
            if day in server_is_away:
                raise TransportError("UNAVAILABLE", "maintenance")
            return collector(request)

        return InMemoryTransport(answer)

    with tempfile.TemporaryDirectory() as folder:
        for day, used in enumerate([8.1, 12.4, 9.9]):
            morning = midnight + timedelta(days=day, hours=6)
            clocks = Timing(now=lambda morning=morning: morning, sleep=lambda seconds: None)
            for _ in range(2):  # cron ran it twice
                print(run(server_on(day), Path(folder), used, clocks))
    print(f"the collector counted {len(collector.reports('electricity-daily'))} reports of 3 days")
