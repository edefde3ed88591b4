"""Test the modules loaded for the import and for a first report, in a fresh interpreter.

How long that takes is measured by `python -m benchmarks startup`.
"""

import json
import subprocess
import sys
from typing import Any

import pytest

import geoveil.client
from geoveil.campaign import Campaign, encode

HEAVY = (
    *("scipy", "sqlalchemy", "pandas", "matplotlib", "shapely", "dask"),
    *("grpc", "numpy", "pyproj", "sqlite3", "asyncio"),
)
SCRIPT = """
import json, sys
from geoveil.client import Client, InMemoryCollector, InMemoryTransport, Policy
from geoveil.campaign import decode
from geoveil.gp import GeoPrivacy
campaign = decode(bytes.fromhex(sys.argv[1]))
value = (-73.9, 40.7) if campaign.attribute.coordinates else 52_000
policy = Policy.permitting(campaign)
transport = InMemoryTransport(InMemoryCollector([campaign]))
settings = {"state_dir": sys.argv[2]} if sys.argv[2] else {}
with Client(policy=policy, transport=transport, **settings) as client:
    client.fetch(campaign.campaign_id)
    client.contribute(campaign.campaign_id, value)
    client.flush()
    assert client.counts().acknowledged == 1
print(json.dumps({"modules": list(sys.modules)}))
"""


def first_report(campaign: Campaign, state_dir: str = "") -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, encode(campaign).hex(), state_dir],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    result["heavy"] = {m.split(".")[0] for m in result["modules"]} & set(HEAVY)
    return result


@pytest.mark.deep
def test_the_first_report_loads_nothing_heavy(campaign):
    assert first_report(campaign)["heavy"] == {"sqlite3"}


@pytest.mark.deep
def test_the_first_report_loads_no_openssl(campaign, tmp_path):
    assert "_hashlib" not in first_report(campaign, str(tmp_path / "state"))["modules"]


@pytest.mark.deep
def test_places_load_pyproj(places, tmp_path):
    heavy = first_report(places, str(tmp_path / "state"))["heavy"]
    assert heavy == {"numpy", "pyproj", "sqlite3"}


def test_a_server_and_what_asks_for_its_health_load_no_analyst():
    program = "import sys, geoveil.cli.serve, geoveil.cli.health; print(*sys.modules)"
    command = [sys.executable, "-c", program]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert "geoveil.cli.health" in loaded
    assert not [name for name in loaded if name.startswith("geoveil.analyst")]


def test_public_names_are_sorted_and_exist():
    names = geoveil.client.__all__
    assert len(set(names)) == len(names)
    assert all(hasattr(geoveil.client, name) for name in names)
    constants = [n for n in names if n.isupper()]
    assert names == [*sorted(constants), *sorted(set(names) - set(constants))]


@pytest.mark.parametrize("name", geoveil.client.__all__)
def test_public_things_are_documented(name):
    assert getattr(geoveil.client, name).__doc__
