"""Test the TypeScript device, by its own tests and against Python's; skipped without Node."""

import asyncio
import gzip
import json
import math
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest

from geoveil.aggregator import Aggregator, Settings
from geoveil.campaign import (
    FormCampaign,
    TokenRule,
    decode,
    digest,
    digits,
    encode,
    speaking,
    what_a_form_tells,
    what_it_tells,
    what_it_tells_of,
    what_to_ask,
    who_asks,
    who_learns,
)
from geoveil.campaign.tokens import _AFTER, _INFO
from geoveil.campaign.words import LANGUAGES
from geoveil.gp import LogScale
from geoveil.proto.v1 import analyst_pb2_grpc
from geoveil.proto.v1.analyst_pb2 import CreateCampaignRequest, ListCampaignsRequest
from geoveil.proto.v1.campaign_pb2 import CampaignEnvelope
from geoveil.relay import SIZES, InvitationCodes, IssuerKey
from tests.aggregator.conftest import Published
from tests.gateways import gateway_of
from tests.relay.conftest import (  # noqa: F401 - fixtures
    OPERATOR,
    Way,
    clock,
    database,
    issuing,
    prepared,
    publish,
    start_server,
    start_web,
    way,
)
from tools.messages import FOLDER, modules
from tools.vectors.consent import consent_vectors
from tools.vectors.examples import every_campaign
from tools.vectors.forms import _forms

from .conftest import PATIENCE_S, ROOT, npm


def node(*arguments: str, given: str) -> str:
    """Return what Node prints of what it is given."""
    done = subprocess.run(
        ["node", *arguments], input=given, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.deep
def test_the_device_in_typescript(device):
    done = npm(device, "run", "unit")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# fail 0" in done.stdout
    for kind in ((), ("--epochs",), ("--categories",), ("--forms",), ("--hostile",)):
        tuples = subprocess.run(
            [sys.executable, "-m", "tools.vectors", "--stream", "60", "5", *kind],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        compared = node(str(device / "build" / "test" / "tuples.js"), given=tuples)
        assert '"count":60,"unequal":0' in compared


@pytest.mark.deep(keep=0, rest=0)
def test_a_hundred_thousand_logarithms_are_those_of_python(device):
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
    found = json.loads(node("--input-type=module", "-e", program, given=json.dumps(values)))
    assert found == [scale.coordinate(value) for value in values]


@pytest.mark.deep
def test_people_are_told_the_same_in_every_language(device):
    """The sentences of consent, with their numbers, and what a number is written like."""
    forms = [{"campaign": encode(form).hex(), "value": None} for form in _forms().values()]
    told = [*consent_vectors(), *forms]
    campaigns = [{name: one[name] for name in ("campaign", "value")} for one in told]
    numbers = [draw * 10.0**power for draw in (1.0, -1.5, 1.23456) for power in range(-3, 16)]
    program = PROGRAM.replace("FOLDER", (device / "build" / "src").as_uri())
    given = json.dumps({"campaigns": campaigns, "numbers": numbers})
    said = json.loads(node("--input-type=module", "-e", program, given=given))
    for language in LANGUAGES:
        with speaking(language):
            of_python = {
                "campaigns": [_told(decode(bytes.fromhex(one["campaign"])), one) for one in told],
                "numbers": [digits(number) for number in numbers],
            }
        assert said[language] == of_python
    assert said["de"]["campaigns"] != said["en"]["campaigns"]


def _told(campaign, one):
    if isinstance(campaign, FormCampaign):
        return [*what_a_form_tells(campaign), *who_learns(campaign)]
    value = one["value"]
    return [
        *(*who_asks(campaign), *what_it_tells(campaign), *who_learns(campaign)),
        *(*what_it_tells_of(campaign, value), what_to_ask(campaign, value)),
        "" if campaign.readings is None else f"{campaign.readings} {campaign.readings.telling}",
    ]


PROGRAM = """
import { readFileSync } from "node:fs";
const [{ Campaign }, { loadForms, readForm }, { loadGeodesics }, { loadVectors }, consent, { whoAsks, whoLearns }, { digits, speak }] =
  await Promise.all(["campaign", "form", "gp/plane", "gp/together", "consent", "ways", "words"].map((name) => import(`FOLDER/${name}.js`)));
await Promise.all([loadForms(), loadGeodesics(), loadVectors()]);
const { campaigns, numbers } = JSON.parse(readFileSync(0));
const { whatItTells, whatItTellsOf, whatToAsk } = consent;
const told = ({ campaign: hex, value }) => {
  const bytes = Uint8Array.from(Buffer.from(hex, "hex"));
  if (value === null) {
    const form = readForm(bytes);
    return [...whatItTells(form), ...whoLearns(form)];
  }
  const campaign = new Campaign(bytes);
  const { readings } = campaign;
  return [...whoAsks(campaign), ...whatItTells(campaign), ...whoLearns(campaign), ...whatItTellsOf(campaign, value), whatToAsk(campaign, value), readings ? `${readings} ${readings.telling}` : ""];
};
const said = {};
for (const language of ["en", "de", "es", "fr"]) {
  await speak(language);
  said[language] = { campaigns: campaigns.map(told), numbers: numbers.map((x) => digits(x)) };
}
console.log(JSON.stringify(said));
"""  # noqa: E501


def test_messages_of_typescript_are_those_of_python():
    for name, text in modules():
        assert (FOLDER / name).read_text("utf-8") == text, f"run python -m tools.messages: {name}"


@pytest.mark.deep
def test_generated_messages_have_not_drifted(device, tmp_path):
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
async def test_devices_in_typescript_are_counted_once(device, tmp_path):
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


FAR_STEPS = ("after fetch 4", "after fetch 5")
"""When devices are killed: fourth they ask for their token, and fifth to take their report."""


async def _printed(device: Path, program: str, given: dict[str, Any]) -> tuple[int, str]:
    """Return exit status and output of a program of the device's tests."""
    process = await asyncio.create_subprocess_exec(
        *("node", str(device / "build" / "test" / f"{program}.js"), json.dumps(given)),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    return process.returncode or 0, output.decode().strip()


@pytest.mark.deep
async def test_a_device_behind_a_relay_that_is_killed_gets_one_token_and_is_counted_once(
    device: Path,
    way: Callable[..., Awaitable[Way]],  # noqa: F811 - a fixture
    publish: Callable[..., Published],  # noqa: F811
    tmp_path: Path,
) -> None:
    running = await way()
    key = IssuerKey.generate()
    changes = {"relay_operator": OPERATOR.public, "token_key": key.public}
    made = replace(publish(queries=1).campaign, **changes)
    campaign = Published(made, made.encoded, digest(made.encoded))
    await running.web.wire.create(campaign)
    codes = InvitationCodes.invite(tmp_path / "codes", len(FAR_STEPS) + 1)

    async def lives(step: str, code: str, url: str) -> None:
        given = {
            "issuer": {"url": url, "credential": code},
            "relay": f"http://127.0.0.1:{running.near.port}/way",
            "operator": str(OPERATOR.public),
            "folder": str(tmp_path / f"device {step}"),
            "campaign": campaign.campaign_id,
            "value": 90_000,
            "now": 1e3 * running.now().timestamp(),
        }
        assert await _printed(device, "far", {**given, "killed": step}) == (-9, "")
        status, output = await _printed(device, "far", given)
        assert status == 0
        told = json.loads(output)
        assert (told["status"], told["many"]) == ("acknowledged", 1)

    with issuing([key], tmp_path, InvitationCodes(tmp_path / "codes")) as url:
        await asyncio.gather(*(lives(*pair, url) for pair in zip(FAR_STEPS, codes, strict=False)))
        # A client that is not ours gets a token of the same campaign.
        rule, report_id = TokenRule("income", made.encoded, key.public), bytes(16)
        message = rule.message(report_id)
        wanted = {
            "url": f"{url}/{message[-32:].hex()}",
            "credential": codes[-1],
            "key": (_INFO + key.public + _AFTER).hex(),
            "campaignId": made.campaign_id,
            "campaign": made.encoded.hex(),
            "reportId": report_id.hex(),
        }
        theirs = await _printed(device, "theirs", wanted)
    assert rule.is_sound(report_id, bytes.fromhex(theirs[1]))
    assert not rule.is_sound(bytes([1] * 16), bytes.fromhex(theirs[1]))
    assert await running.counted(campaign) == len(FAR_STEPS)
    for tap in (running.near, running.far):
        assert campaign.campaign_id.encode() not in tap.seen
    sizes = {len(each.partition(b"\r\n\r\n")[2]) for each in running.far.sent}
    assert sizes <= {0, *SIZES}


@pytest.mark.deep
def test_bundle_has_not_drifted(device):
    pages = Path("apps") / "geoveil" / "gateway" / "files"
    done = npm(device, "run", "bundle")
    assert done.returncode == 0, done.stderr
    made = sorted((device.parents[1] / pages).iterdir())
    assert [path.name for path in made if path.suffix == ".js"]
    for path in made:
        assert path.read_text() == (ROOT / pages / path.name).read_text(), path.name
    # But for the first, loaded where they are needed: of a form, behind a relay, for a token.
    sizes = (
        ("client", 62_000),
        ("fields", 5_000),
        ("relay", 12_000),
        ("tokens", 3_000),
        ("fr", 7_000),
    )
    for name, most in sizes:
        packed = gzip.compress((ROOT / pages / f"geoveil-{name}.js").read_bytes(), 9)
        assert len(packed) <= most, name
    maps = (ROOT / pages / f"geoveil-map{part}.js" for part in ("", "-worker"))
    assert sum(len(gzip.compress(path.read_bytes(), 9)) for path in maps) <= 480_000
    assert (ROOT / pages / "world.pmtiles").stat().st_size <= 15_000_000
