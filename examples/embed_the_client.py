"""How an app takes part in a campaign, and how it tests that without a network.

`answer` is what the app ships. `InMemoryCollector` stands in for the server; in production leave
out `transport` and name the server: Client("collector.example:443", tls=TLS(), ...).

Run: python examples/embed_the_client.py
"""

from datetime import UTC, datetime, timedelta

from geoveil.campaign import Attribute, Campaign, Question, StatisticCampaign
from geoveil.client import Client, InMemoryCollector, InMemoryTransport, Policy, PolicyRefused
from geoveil.gp import GeoPrivacy, Threshold

# The app's own limit: no server can talk it into more.
POLICY = Policy({"household income": GeoPrivacy(epsilon=1.0, per=8_000.0, unit="dollar")})


def answer(client: Client, campaign_id: str, income: float) -> str:
    """Take part, and return a line for the user's own record of what left the device."""
    try:
        client.fetch(campaign_id)  # waits for the network: once, when the app starts
        receipt = client.contribute(campaign_id, income)  # never waits
    except PolicyRefused as refusal:
        return f"not answered: {refusal}"
    return f"report {receipt.report_id} to {receipt.campaign_id}, {receipt.privacy}"


def campaign(campaign_id: str, per: float) -> Campaign:
    """Return what an analyst would publish."""
    now = datetime.now(UTC)
    return StatisticCampaign(
        campaign_id=campaign_id,
        title="Income above $100,000",
        attribute=Attribute(name="household income", unit="dollar"),
        privacy=GeoPrivacy(1.0, per, "dollar"),
        questions=(Question("above", Threshold(100_000, 24_000, "smoothstep")),),
        opens=now,
        closes=now + timedelta(days=1),
    )


collector = InMemoryCollector([campaign("modest", 8_000.0), campaign("greedy", 1_000.0)])
with Client(policy=POLICY, transport=InMemoryTransport(collector)) as client:
    print(answer(client, "modest", 87_500.0))
    print(answer(client, "modest", 87_500.0))  # the same report: one draw per campaign
    print(answer(client, "greedy", 87_500.0))
print(f"the server holds {len(collector.reports('modest'))} report")
