"""Plan a question, publish it, and read the estimates: what commands do, in a notebook.

Run: python examples/ask_from_a_notebook.py
"""

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from geoveil.analyst import (
    Analyst,
    PlanRequest,
    PublicPrior,
    SamplePrior,
    ShareAbove,
    plan_for,
)
from geoveil.campaign import SigningKey
from geoveil.client import Client, Policy
from geoveil.simulation import household_incomes
from geoveil.simulation.local_server import local_server

DEVICES = 30


def main() -> None:
    """Ask a server of this machine, on a free port, as `geoveil plan`, `create` and `estimate`."""
    # geoveil plan --threshold 100000 --participants 20000 --epsilon 1 --per 8000 --prior incomes
    people = household_incomes()
    survey = SamplePrior(people.values, people.weights)
    public = PublicPrior.of_numbers(survey, "dollar", "household income", "the census")
    request = PlanRequest.of(
        [ShareAbove(100_000)], epsilon=1, per=8_000, source=public, participants=20_000
    )
    planned = plan_for(request)
    report = planned.report()
    error = report["alternatives"][0]["error_95"]
    print(f"{report['choice']}, ±{error:.2g} with {request.participants:,} people")

    # geoveil campaign create "Income above 100k" --plan plan.toml --sign-key key.pem
    now = datetime.now(UTC)
    campaign = planned.campaign(
        campaign_id="income-above-100k",
        title="Income above 100k",
        opens=now - timedelta(minutes=1),
        closes=now + timedelta(days=30),
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        local_server(Path(folder) / "aggregator.db") as address,
        Analyst(address) as analyst,
    ):
        analyst.create(campaign, SigningKey.generate())
        for number, income in enumerate(people.sample(DEVICES, np.random.default_rng(1)).tolist()):
            state = Path(folder) / f"device {number}"
            policy = Policy.permitting(campaign)
            with Client(address, policy=policy, state_dir=state, background=False) as device:
                device.fetch(campaign.campaign_id)
                device.contribute(campaign.campaign_id, income)
                device.flush()

        # geoveil estimate income-above-100k
        found = analyst.estimate(campaign.campaign_id)
        for row in found.estimates:
            interval = f"{row.ci_low:.2f} to {row.ci_high:.2f}"
            print(f"{row.label}: {row.value:.2f} ({interval}), n = {row.n}, {found.privacy}")
        analyst.close_campaign(campaign.campaign_id)
        print([(c.campaign.campaign_id, c.state) for c in analyst.campaigns()])


if __name__ == "__main__":
    main()
