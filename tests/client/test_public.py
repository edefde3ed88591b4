"""Test public names, their types and errors, and the modules that their use loads.

How long loading takes is measured by `python -m benchmarks startup`.
"""

import json
import pickle
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import geoveil.client
from geoveil.campaign import Campaign, encode
from geoveil.client import (
    BudgetExceeded,
    CampaignNotFetched,
    ClientClosed,
    FamilyMissing,
    TransportError,
)
from geoveil.gp import GeoPrivacy

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


HERE = Path(__file__).parent
PUBLIC = HERE / "typing_public_api.py"


def checked(path: Path, cache: Path) -> tuple[str, int]:
    """Return what mypy says of a file under the settings of this project, and its exit status."""
    api = pytest.importorskip("mypy.api", reason="mypy checks the types")
    settings = ["--config-file", str(HERE.parents[1] / "pyproject.toml")]
    strict = ["--warn-unused-ignores", "--show-error-codes", "--no-error-summary"]
    said, failed, status = api.run([*settings, *strict, "--cache-dir", str(cache), str(path)])
    assert failed == ""
    return said, status


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("mypy")


@pytest.mark.deep
def test_an_app_sees_the_types_that_are_documented(cache):
    said, _ = checked(PUBLIC, cache)
    # What mypy says of the packages themselves is not this test's business.
    assert [line for line in said.splitlines() if PUBLIC.name in line] == []


@pytest.mark.deep(rest=0)  # the marks above are checked as well: each has to be used
def test_what_must_be_an_error_is_one(cache, tmp_path):
    """The control: without its marks, the same file has an error on each marked line."""
    text = PUBLIC.read_text(encoding="utf-8")
    marked = {n for n, line in enumerate(text.splitlines(), 1) if "# type: ignore[" in line}
    assert len(marked) > 25
    bare = tmp_path / "bare.py"
    bare.write_text(re.sub(r"  # type: ignore\[[a-z-]+\]", "", text), encoding="utf-8")
    said, status = checked(bare, cache)
    assert status == 1
    assert {int(n) for n in re.findall(r"bare\.py:(\d+): error", said)} == marked


PRIVACY = GeoPrivacy(1.0, per=8000.0, unit="dollar")
FREES = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (ClientClosed(), ()),
        (
            BudgetExceeded(
                "c",
                attribute="a",
                scope="lifetime",
                spent=1.0,
                cost=PRIVACY,
                limit=PRIVACY,
                frees=FREES,
            ),
            ("c", "a", "lifetime", 1.0, PRIVACY, PRIVACY, FREES, 0.0),
        ),
        (CampaignNotFetched("c"), ("c", None)),
        (FamilyMissing("c", "reason", family="f", group="g"), ("c", "reason", "f", "g")),
        (TransportError("UNAVAILABLE", "down"), ("UNAVAILABLE", "down")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_made_again_of_its_arguments(error, arguments):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert again.args == error.args == arguments
    assert vars(again) == vars(error)
    assert str(again) == str(error)
