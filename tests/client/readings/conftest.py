"""The clients of tests about readings."""

import pytest

from geoveil.campaign import Campaign
from geoveil.client import Client, Limit
from tests.client.readings import client_of


@pytest.fixture
def device(fake_time, tmp_path):
    """Makes clients on one state directory and clock that have fetched all campaigns."""
    made: list[Client] = []

    def make(*campaigns: Campaign, of: Limit | None = None) -> Client:
        made.append(client_of(campaigns, of, fake_time, state_dir=tmp_path / "state"))
        return made[-1]

    yield make
    for client in made:
        client.close(0)
