"""The TypeScript device, by its own tests and against Python's; left out where there is no Node."""

import asyncio
import gzip
import json
import math
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import grpc
import pytest

from geoveil.aggregator import Aggregator, Settings
from geoveil.campaign import digest, encode
from geoveil.gp import LogScale
from geoveil.proto.v1 import analyst_pb2_grpc
from geoveil.proto.v1.analyst_pb2 import CreateCampaignRequest, ListCampaignsRequest
from geoveil.proto.v1.campaign_pb2 import CampaignEnvelope
from tests.gateways import gateway_of
from tools.vectors.examples import every_campaign

from .conftest import PATIENCE_S, ROOT, npm


@pytest.mark.deep
def test_the_device_in_typescript(device: Path) -> None:
    done = npm(device, "run", "unit")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# fail 0" in done.stdout
    for kind in ((), ("--epochs",), ("--categories",), ("--forms",)):
        tuples = subprocess.run(
            [sys.executable, "-m", "tools.vectors", "--stream", "60", "5", *kind],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        compared = subprocess.run(
            ["node", str(device / "build" / "test" / "tuples.js")],
            input=tuples,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert compared.returncode == 0, compared.stderr
        assert '"count":60,"unequal":0' in compared.stdout


@pytest.mark.deep(keep=0)
def test_a_hundred_thousand_logarithms_are_those_of_python(device: Path) -> None:
    """Logarithms agree over all magnitudes, near 1 and near each other, whatever V8 does."""
    draw, scale = Random(35), LogScale(1e-50)
    values = [math.exp(draw.uniform(-110, 110)) for _ in range(60_000)]
    values += [1 + draw.uniform(-1e-6, 1e-6) for _ in range(20_000)]
    values += [draw.uniform(0, 1e6) for _ in range(20_000)]
    module = (device / "build" / "src" / "gp" / "log-scale.js").as_uri()
    program = (
        f'import {{ coordinateOf }} from "{module}";'
        'import { readFileSync } from "node:fs";'
        "const values = JSON.parse(readFileSync(0));"
        "console.log(JSON.stringify(values.map((x) => coordinateOf({ floor: 1e-50 }, x))));"
    )
    done = subprocess.run(
        ["node", "--input-type=module", "-e", program],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [scale.coordinate(value) for value in values]


@pytest.mark.deep
def test_generated_messages_have_not_drifted(device: Path, tmp_path: Path) -> None:
    script = ROOT / "client" / "typescript" / "messages.sh"
    subprocess.run(
        ["bash", str(script), str(tmp_path)],
        check=True,
        env={"PATH": f"{Path(sys.executable).parent}:{device / 'node_modules/.bin'}:/usr/bin:/bin"},
    )
    for made in (tmp_path / "geoveil" / "proto" / "v1").iterdir():
        kept = device / "src" / "gen" / "geoveil" / "proto" / "v1" / made.name
        assert made.read_text() == kept.read_text()


@pytest.mark.deep
async def test_devices_in_typescript_are_counted_once(device: Path, tmp_path: Path) -> None:
    """Every kind of campaign, through the gateway; the first answer of each is lost."""
    now = datetime.now(UTC)
    dates = {"opens": now - timedelta(hours=1), "closes": now + timedelta(days=1)}
    kept = ("debiased-threshold-smoothstep-1", "smooth-disc-linear-2", "split-0")
    kept += ("places-disc", "places-points", "points-3")
    told = [campaign for name, campaign, _ in every_campaign() if name in kept]
    campaigns = [replace(campaign, **dates) for campaign in told]
    settings = Settings(database=tmp_path / "reports.sqlite", port=0, web="127.0.0.1:0")
    async with (
        Aggregator(settings) as aggregator,
        gateway_of(aggregator) as gateway,
        grpc.aio.insecure_channel(aggregator.address) as channel,
    ):
        analyst = analyst_pb2_grpc.AnalystStub(channel)
        for campaign in campaigns:
            envelope = CampaignEnvelope(campaign=encode(campaign))
            await analyst.CreateCampaign(CreateCampaignRequest(envelope=envelope))
        process = await asyncio.create_subprocess_exec(
            *("node", str(device / "build" / "test" / "live.js")),
            *(f"http://{gateway.address}", str(tmp_path / "people")),
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
        assert process.returncode == 0
        found = json.loads(output)
        assert found["missing"] == "campaign-not-found"
        assert len(found["told"]) == 3 * len(campaigns)
        assert {item["status"] for item in found["told"]} == {"acknowledged"}
        digests = {digest(encode(campaign)).hex() for campaign in campaigns}
        assert {item["digest"] for item in found["told"]} == digests
        listed = (await analyst.ListCampaigns(ListCampaignsRequest())).campaigns
        assert [summary.reports for summary in listed] == [3] * len(campaigns)


@pytest.mark.deep
def test_bundle_has_not_drifted(device: Path) -> None:
    pages = Path("apps") / "geoveil" / "gateway" / "files"
    done = npm(device, "run", "bundle")
    assert done.returncode == 0, done.stderr
    made = sorted((device.parents[1] / pages).iterdir())
    assert [path.name for path in made if path.suffix == ".js"]
    for path in made:
        assert path.read_text() == (ROOT / pages / path.name).read_text(), path.name
    sizes = (("client", 62_000), ("fields", 5_000))  # the second is loaded for forms only
    for name, most in sizes:
        packed = gzip.compress((ROOT / pages / f"geoveil-{name}.js").read_bytes(), 9)
        assert len(packed) <= most, name
    maps = (ROOT / pages / f"geoveil-map{part}.js" for part in ("", "-worker"))
    assert sum(len(gzip.compress(path.read_bytes(), 9)) for path in maps) <= 480_000
    assert (ROOT / pages / "world.pmtiles").stat().st_size <= 15_000_000
