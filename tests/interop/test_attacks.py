"""Test one list of attacks by a hostile server on devices in Python, Node and Chromium.

An attack is what a server answers and what a person does meanwhile. The server has won if it has
two reports where one is due, one of a campaign that the policy does not permit, or if the private
value is in what was sent, kept or said. Two devices with a fault are caught by the same list.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from geoveil.proto.v1 import campaign_pb2 as pb
from tests.interop.attacked import (
    FLUSH_S,
    INCOME,
    NOW,
    Attack,
    Believing,
    Device,
    Forgetting,
    InChromium,
    InNode,
    InPython,
    bomb,
    won,
)
from tests.interop.attacks import attacks
from tools.vectors.campaigns import envelopes

from .hostile import Server, Web, pages, shown


@pytest.fixture
def tmp_path():
    """In memory, where there is such a folder: every life flushes to the disk many times."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def node(device):
    with subprocess.Popen(
        ["node", str(device / "build" / "test" / "device.js")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield InNode(process)
        process.kill()


SCRIPT = """
import {
  Client, GeoveilError, IndexedDbStorage, Policy, PublicKey, transportTo,
} from "/geoveil-client.js";

const done = (asked) => new Promise((resolve, reject) => {
  asked.onsuccess = () => resolve(asked.result);
  asked.onerror = () => reject(asked.error);
});
const hex = (bytes) => Array.from(bytes, (one) => one.toString(16).padStart(2, "0")).join("");
const text = (_, value) => {
  if (typeof value === "bigint") return `${value}`;
  return ArrayBuffer.isView(value) ? `${String.fromCharCode(...value)} ${hex(value)}` : value;
};

async function kept() {
  const found = [localStorage, sessionStorage, await caches.keys(), document.cookie];
  found.push(location.href, document.documentElement.outerHTML);
  for (const { name } of await indexedDB.databases()) {
    const database = await done(indexedDB.open(name));
    for (const store of database.objectStoreNames) {
      found.push(await done(database.transaction(store).objectStore(store).getAll()));
    }
    database.close();
  }
  return JSON.stringify(found, text);
}

globalThis.lived = async ({ server, folder, limits, trusted, now, patienceMs, steps }) => {
  for (const { name } of await indexedDB.databases()) {
    if (name !== folder) await done(indexedDB.deleteDatabase(name));
  }
  const inner = transportTo(server);
  const transport = {
    campaign: (id, ms) => inner.campaign(id, Math.min(ms, patienceMs)),
    submit: (id, hash, report, ms) => inner.submit(id, hash, report, Math.min(ms, patienceMs)),
  };
  const policy = new Policy({ limits, trustedKeys: trusted?.map((key) => PublicKey.parse(key)) });
  const storage = await IndexedDbStorage.open(folder);
  const options = { background: false, releaseFloorMs: 0, now: () => now };
  const client = new Client({ server: transport, policy, storage, ...options });
  const errors = [];
  for (const [step, ...given] of steps) {
    try {
      if (step === "flush") await client.flush({ deadlineMs: given[0] });
      else await client[step](...given);
    } catch (error) {
      const typed = error instanceof GeoveilError;
      errors.push({ kind: error.name, typed, text: error.message });
    }
  }
  const history = [];
  for (const { reportId, status, reason, failure } of await client.history()) {
    history.push({ reportId, status, told: `${reason} ${failure}` });
  }
  client.close();
  const all = await kept();
  storage.database.close();
  return { errors, history, kept: all };
};
"""
PAGES = Path(__file__).parents[2] / "apps" / "geoveil" / "gateway" / "files"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("Chromium is left out: install it, on Debian by 'apt-get install chromium'")
    playwright = pytest.importorskip("playwright.sync_api")
    files = {path.name: path.read_bytes() for path in PAGES.glob("*.js")}
    files["attacked.js"] = SCRIPT.encode()
    files["index.html"] = b"<!doctype html><script type=module src=/attacked.js></script>"
    heard: list[bytes] = []
    arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    with pages(files) as origin, playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=arguments)
        page = browser.new_page()
        page.on("console", lambda one: heard.append(one.text.encode()))
        page.on("pageerror", lambda one: heard.append(str(one).encode()))
        page.on(
            "request",
            lambda one: heard.append(
                f"{one.url} {one.headers}".encode() + (one.post_data_buffer or b"")
            ),
        )
        page.goto(f"{origin}/index.html")
        page.wait_for_function("() => globalThis.lived")
        yield InChromium(page, heard)
        browser.close()


@pytest.fixture(params=["python", "node", "chromium"])
def client(request):
    found: Device = (
        InPython() if request.param == "python" else request.getfixturevalue(request.param)
    )
    return found


def _lost(device: Device, folder: Path, names: Iterator[str]) -> dict[str, list[str]]:
    lost = {}
    for number, name in enumerate(names):
        found = won(device, attacks()[name], folder / str(number))
        if found:
            lost[name] = found
    return lost


@pytest.mark.deep
def test_a_hostile_server_gets_nothing(client, tmp_path):
    of_python = isinstance(client, InPython)
    names = (name for name, attack in attacks().items() if not (of_python and attack.web_only))
    assert _lost(client, tmp_path, names) == {}


@pytest.mark.deep
def test_a_bomb_is_not_unpacked(client, tmp_path):
    """Beyond what an answer can be nothing is read, which takes longer than there is time for."""
    if isinstance(client, InPython):
        pytest.skip("there is no such door for it")
    reply = Web(200, {"Content-Type": "application/proto", "Content-Encoding": "gzip"}, bomb())
    with client.door(Server([reply], [])) as address:
        life = client.live(address, tmp_path, Attack(()), NOW, (("fetch", "income"),))
    assert [one["text"] for one in life.errors] == ["the server could not be asked: internal"]


@pytest.mark.deep
def test_hostile_campaigns_of_the_vectors(client, tmp_path):
    """All that the published vectors have refused, to one person; then the sound one."""
    path = Path(__file__).parents[2] / "proto" / "vectors" / "campaigns.json"
    told = json.loads(path.read_text())["campaigns"]
    each = [
        (one["name"], one["verdict"], envelope)
        for one, envelope in zip(told, envelopes(told), strict=True)
    ]
    refused = [envelope for _, verdict, envelope in each if verdict == "refused"]
    (sound,) = [envelope for name, _, envelope in each if name == "plain"]
    steps = (("fetch", "plain"), ("contribute", "plain", INCOME), ("flush", FLUSH_S))
    attack = Attack(
        tuple(shown(envelope) for envelope in [*refused, sound]),
        1,
        lives=(steps * (len(refused) + 1),),
        began=datetime(2026, 2, 1, tzinfo=UTC),
        of=(pb.CampaignEnvelope.FromString(sound).campaign,),
    )
    assert len(refused) > 50
    assert won(client, attack, tmp_path) == []


@pytest.mark.deep
def test_devices_with_a_fault_are_caught(client, tmp_path):
    price = ("a looser price", "odd numbers: privacy__epsilon", "a second draw in the next period")
    lost = _lost(Believing(client), tmp_path / "believing", iter(price))
    assert set(lost) == set(price)
    refusal = "refused for reason 0"
    assert set(_lost(Forgetting(client), tmp_path / "a", iter([refusal]))) == {refusal}
    sound = ("none, as a control",)
    assert _lost(Believing(client), tmp_path / "b", iter(sound)) == {}


@pytest.mark.deep
@pytest.mark.parametrize(
    "leak",
    [
        "localStorage.setItem('x', '54321.625')",
        "console.log(54321.625)",
        "fetch('/?54321.625')",
        "document.body.append('54,321.625')",
    ],
)
def test_a_page_that_tells_is_caught(chromium, tmp_path, leak):
    chromium.page.evaluate(leak)
    found = won(chromium, attacks()["none, as a control"], tmp_path)
    chromium.page.evaluate("() => { localStorage.clear(); document.body.textContent = ''; }")
    assert found == ["the value was kept or sent"]
