"""Test the bundle in Chromium from another origin: killed at every step, raced by tabs."""

import asyncio
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from geoveil.aggregator import Aggregator, Settings
from geoveil.campaign import (
    Attribute,
    ChoiceField,
    Condition,
    FormCampaign,
    MultipleField,
    NumberField,
    Question,
    StatisticCampaign,
    encode,
)
from geoveil.gp import GeoPrivacy, Threshold
from geoveil.proto.v1 import analyst_pb2_grpc
from geoveil.proto.v1.analyst_pb2 import CreateCampaignRequest, ListCampaignsRequest
from geoveil.proto.v1.campaign_pb2 import CampaignEnvelope
from geoveil.relay import GatewayKeys, Relay
from tests.gateways import gateway_of
from tests.relay.conftest import OPERATOR, running

PAGES = Path(__file__).parents[2] / "apps" / "geoveil" / "gateway" / "files"
ORIGIN = "http://localhost:8765"
"""Served by the test, inside the browser."""
STEPS = (
    "before add",
    "after add",
    "before submit",
    "after submit",
    "before settle",
    "after settle",
)
KILLS = 1
"""Kills at each step."""

_SCRIPT = """
import {
  Client, IndexedDbStorage, Policy, PublicKey, transportThrough, transportTo,
} from "/geoveil-client.js";

const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");

export async function takePart(server, person, campaign, value, killed) {
  const at = async (step) => {
    if (step !== killed) return;
    globalThis.reached = step;
    await new Promise(() => {});
  };
  const kept = await IndexedDbStorage.open(person);
  const storage = {
    persistent: false,
    exclusively: (work) => kept.exclusively((journal) => work({
      ...journal,
      add: async (e) => { await at("before add"); await journal.add(e); await at("after add"); },
      settle: async (e) => {
        const last = e.status !== "pending";
        if (last) await at("before settle");
        await journal.settle(e);
        if (last) await at("after settle");
      },
    })),
  };
  const sent = [];
  const { relay, operator } = server;
  const inner = relay ? transportThrough(relay, PublicKey.parse(operator)) : transportTo(server);
  const transport = {
    ...inner,
    submit: async (id, digest, report, timeout) => {
      sent.push(hex(report));
      if (globalThis.localStorage) {
        localStorage.setItem(person, `${localStorage.getItem(person) ?? ""}${hex(report)} `);
      }
      await at("before submit");
      const answer = await inner.submit(id, digest, report, timeout);
      await at("after submit");
      return answer;
    },
  };
  const nothing = new Policy({ limits: {} });
  const looking = new Client({ server: transport, policy: nothing, storage, background: false });
  const offer = await looking.offer(campaign);
  const policy = Policy.permitting(offer);
  const client = new Client({ server: transport, policy, storage, background: false });
  const { reportId } = await client.contribute(campaign, value, { digest: offer.digest });
  await client.flush();
  const [receipt] = await client.history();
  return { reportId, status: receipt.status, many: (await client.history()).length, sent };
}
"""
_WORKER = """
import { takePart } from "/take-part.js";
onmessage = async ({ data }) => postMessage(await takePart(...data));
"""


@pytest.fixture
async def context(tmp_path):
    """A browser with pages of another origin than the server's."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("Chromium is left out: install it, on Debian by 'apt-get install chromium'")
    playwright = pytest.importorskip("playwright.async_api")
    files = {path.name: path.read_text() for path in PAGES.glob("*.js")}
    files |= {"take-part.js": _SCRIPT, "worker.js": _WORKER}

    async def answer(route: Any) -> None:
        name = route.request.url.rsplit("/", 1)[-1]
        body, kind = files.get(name, "<!doctype html>"), "javascript" if name in files else "html"
        shared = {"Access-Control-Allow-Origin": "*"}  # with a frame, which has no origin
        await route.fulfill(body=body, content_type=f"text/{kind}", headers=shared)

    async with playwright.async_playwright() as started:
        found = await started.chromium.launch_persistent_context(
            str(tmp_path / "profile"),
            executable_path=chromium,
            args=[
                *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
                # Pages that a test answers for come from no address, so not from this machine.
                "--disable-features=LocalNetworkAccessChecks",
            ],
        )
        await found.route(f"{ORIGIN}/**", answer)
        yield found
        await found.close()


@pytest.fixture
async def server(tmp_path):
    """A server with a survey and a form, and what tells how many reports it has counted of both."""
    now = datetime.now(UTC)
    dates: dict[str, Any] = {"opens": now - timedelta(hours=1), "closes": now + timedelta(days=1)}
    rent = Attribute(name="rent", unit="dollar", least=0, most=5_000)
    fields = (
        ChoiceField(name="rents", options=("yes", "no"), epsilon=2.0),
        NumberField(
            attribute=rent,
            privacy=GeoPrivacy(1.0, 1_000.0, "dollar"),
            applies=Condition(field="rents", options=("yes",)),
        ),
        MultipleField(name="travel", options=("bus", "foot"), epsilon=1.0),
    )
    form = FormCampaign(campaign_id="form", title="Household", fields=fields, **dates)
    campaign = StatisticCampaign(
        campaign_id="income",
        title="Household income above 100k",
        attribute=Attribute(name="household income", unit="dollar"),
        privacy=GeoPrivacy(1.0, 8_000.0, "dollar"),
        questions=(Question("above", Threshold(100_000.0, 24_000.0, "smoothstep")),),
        **dates,
    )
    behind = replace(campaign, campaign_id="relay", relay_operator=OPERATOR.public)
    settings = Settings(
        database=tmp_path / "reports.sqlite", port=0, web="127.0.0.1:0", web_origins=(ORIGIN,)
    )
    GatewayKeys.rotate(keys := tmp_path / "relay.keys", OPERATOR, timedelta(days=1))
    async with (
        Aggregator(settings) as aggregator,
        gateway_of(aggregator, relay_keys=keys) as gateway,
        grpc.aio.insecure_channel(aggregator.address) as channel,
    ):
        analyst = analyst_pb2_grpc.AnalystStub(channel)
        for one in (campaign, form, behind):
            envelope = CampaignEnvelope(campaign=encode(one))
            await analyst.CreateCampaign(CreateCampaignRequest(envelope=envelope))

        async def counted() -> list[int]:
            listed = (await analyst.ListCampaigns(ListCampaignsRequest())).campaigns
            return [summary.reports for summary in listed]

        yield f"http://{gateway.address}", counted


_CALL = """async (given) => {
  const { takePart } = await import("/take-part.js");
  return await takePart(...given);
}"""
_START = _CALL.replace("return await", "void")


VALUES: dict[str, tuple[Any, Any]] = {
    "income": (90_000.0, 1.0),
    "form": ({"rents": "yes", "rent": 900.0, "travel": ["bus"]}, {"rents": "no", "travel": []}),
}
"""Two answers to each campaign."""


async def _page(context: Any) -> Any:
    page = await context.new_page()
    await page.goto(f"{ORIGIN}/")
    return page


@pytest.mark.deep
async def test_a_tab_that_is_killed_at_any_step_is_counted_once(context, server):
    address, counted = server
    people = [
        (step, asked, f"person {asked} {step} {i}")
        for step in STEPS
        for asked in VALUES
        for i in range(KILLS)
    ]
    for step, asked, person in people:
        page = await _page(context)
        await page.evaluate(_START, [address, person, asked, VALUES[asked][0], step])
        await page.wait_for_function("globalThis.reached")
        await page.close()
        page = await _page(context)
        told = await page.evaluate(_CALL, [address, person, asked, VALUES[asked][1], None])
        sent = await page.evaluate("(person) => localStorage.getItem(person)", person)
        await page.close()
        assert (told["status"], told["many"]) == ("acknowledged", 1)
        reports = set(sent.split())
        assert len(reports) == 1
        assert told["reportId"] in reports.pop()
    assert await counted() == [len(STEPS) * KILLS] * 2 + [0]


@pytest.mark.deep
async def test_tabs_and_a_worker_that_race_draw_once(context, server):
    address, counted = server
    first, second = await _page(context), await _page(context)
    worker = """(given) => new Promise((resolve) => {
      const worker = new Worker("/worker.js", { type: "module" });
      worker.onmessage = ({ data }) => resolve(data);
      worker.postMessage(given);
    })"""
    for asked, values in VALUES.items():
        given = [[address, f"race {asked}", asked, value, None] for value in values]
        told = await asyncio.gather(
            first.evaluate(_CALL, given[0]),
            second.evaluate(_CALL, given[1]),
            first.evaluate(worker, given[0]),
        )
        assert len({one["reportId"] for one in told}) == 1
        assert {one["many"] for one in told} == {1}
        assert len({report for one in told for report in one["sent"]}) == 1
    assert await counted() == [1, 1, 0]


@pytest.mark.deep
async def test_a_tab_behind_a_relay_of_another_origin_is_counted_once(context, server):
    address, counted = server
    with running(relay := Relay(("127.0.0.1", 0), address)):
        way = {"relay": f"http://127.0.0.1:{relay.server_port}", "operator": str(OPERATOR.public)}
        page = await _page(context)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        await page.evaluate(_START, [way, "person", "relay", 90_000.0, "after submit"])
        await page.wait_for_function("globalThis.reached")
        assert not [url for url in asked if url.startswith(address)]
        await page.close()
        page = await _page(context)
        told = await page.evaluate(_CALL, [way, "person", "relay", 1.0, None])
        refused = await page.evaluate(
            _CALL.replace("takePart(...given)", "takePart(...given).catch(({ code }) => code)"),
            [address, "other", "relay", 1.0, None],
        )
        assert (told["status"], told["many"], refused) == ("acknowledged", 1, "policy-refused")
    assert await counted() == [0, 0, 1]


_STORED = f"""async () => {{
  const {{ IndexedDbStorage }} = await import("{ORIGIN}/geoveil-client.js");
  const pin = {{ campaignId: "a", digest: "00", envelope: "00" }};
  const told = [];
  for (const work of [(journal) => journal.entries(), (journal) => journal.pin(pin)]) {{
    try {{
      globalThis.stored ??= await IndexedDbStorage.open("person");
      await stored.exclusively(work);
      told.push("stored");
    }} catch (error) {{
      told.push(`${{error.code}}: ${{error.message}}`);
    }}
  }}
  return told;
}}"""


@pytest.mark.deep
async def test_a_browser_without_storage_says_so(context):
    """In a sandboxed frame, and after its user cleared the site's data; the control is before."""
    page = await _page(context)
    assert await page.evaluate(_STORED) == ["stored"] * 2
    session = await context.new_cdp_session(page)
    cleared = {"origin": ORIGIN, "storageTypes": "indexeddb"}
    await session.send("Storage.clearDataForOrigin", cleared)
    refused = "storage: the browser's database can't be used: "
    assert await page.evaluate(_STORED) == [f"{refused}InvalidStateError"] * 2
    await page.set_content(f'<iframe sandbox="allow-scripts" src="{ORIGIN}/frame"></iframe>')
    frame = page.frames[-1]
    await frame.wait_for_load_state()
    assert await frame.evaluate(_STORED) == [f"{refused}SecurityError"] * 2
    anew = await _page(context)
    assert await anew.evaluate(_STORED) == ["stored"] * 2
