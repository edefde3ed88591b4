"""A client in Node, of its gRPC packages: skipped where there is no Node or no registry."""

import json
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from geoveil.campaign import (
    Attribute,
    Campaign,
    Question,
    SigningKey,
    StatisticCampaign,
    digest,
    encode,
    seal,
)
from geoveil.gp import GeoPrivacy, Threshold

PATIENCE_S = 120
OFFLINE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH")


@pytest.fixture(scope="session")
def node_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client with the packages it pins, installed in a temporary folder."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are not on the path")
    folder = tmp_path_factory.mktemp("node") / "client"
    shutil.copytree(
        Path(__file__).with_name("node"), folder, ignore=shutil.ignore_patterns("node_modules")
    )
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not install the packages within {PATIENCE_S} s")
    if done.returncode and any(word in done.stderr for word in OFFLINE):
        pytest.skip("the npm registry can't be reached")
    assert done.returncode == 0, done.stderr
    return folder / "client.js"


@pytest.mark.deep
def test_a_client_in_node(
    server: str, node_client: Path, protos: Path, expected: dict[str, Any]
) -> None:
    campaign = encode(_campaign())
    envelope = seal(campaign, SigningKey.generate())
    done = subprocess.run(
        ["node", str(node_client), server, str(protos), envelope.hex()],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told.pop("digest") == told.pop("created")
    assert told.pop("verified") is True
    assert told.pop("foreign") == {"digest": digest(campaign).hex(), "verified": True}
    assert told == expected


def _campaign() -> Campaign:
    now = datetime.now(UTC)
    return StatisticCampaign(
        campaign_id="sealed",
        title="Sealed by geoveil",
        attribute=Attribute(name="income", unit="dollar"),
        privacy=GeoPrivacy(1.0, 8000.0, "dollar"),
        questions=(Question("above", Threshold(50_000.0, 24_000.0, "smoothstep")),),
        opens=now,
        closes=now + timedelta(days=1),
    )
