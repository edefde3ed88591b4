"""Test one list of attacks by a hostile server on devices in Python, Node and Chromium.

An attack is what a server answers and what a person does meanwhile. The server has won if it has
two reports where one is due, one of a campaign that the policy does not permit, or if the private
value is in what was sent, kept or said. Two devices with a fault are caught by the same list.
"""

import json
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import pytest

from geoveil.campaign import (
    Attribute,
    PlanarLaplaceSpec,
    PublicKey,
    Question,
    SigningKey,
    StatisticCampaign,
    ValueCampaign,
    digest,
    encode,
    seal,
)
from geoveil.client import Client, GeoVeilError, Limit, Place, Policy, Timing
from geoveil.gp import GeoPrivacy, Threshold
from geoveil.gp.coordinates import Area, AzimuthalEquidistant
from geoveil.proto.v1 import campaign_pb2 as pb, collector_pb2, report_pb2
from tools.vectors.campaigns import envelopes

from .hostile import Failure, Hang, Reply, Server, Web, grpc_door, pages, shown, web_door

INCOME, HOME = 54_321.625, (2.345678, 48.861234)
SECRETS = ("54321", "54,321", "54_321", "2.345678", "48.861234", "21.625")
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
CITY = Area(longitude_deg=2.35, latitude_deg=48.86, radius_m=15_000)
FLUSH_S = 0.4
PATIENCE_S = 2.0
"""Until a call that is not answered is given up."""
MOST_READ = 64 << 20
BINARY = [struct.pack(f"{end}d", each) for each in (INCOME, *HOME) for end in "<>"]
"""The value as a double."""

HONEST = StatisticCampaign(
    campaign_id="income",
    title="Households above a line",
    attribute=Attribute(name="household income", unit="dollar"),
    privacy=GeoPrivacy(1, 8_000, "dollar"),
    questions=(Question("above 100,000", Threshold(100_000, 24_000, "smoothstep")),),
    opens=NOW - DAY,
    closes=NOW + 20 * DAY,
)
PLACES = ValueCampaign(
    campaign_id="income",
    title="Where people live",
    attribute=Attribute(
        name="home", unit="metre", coordinates=AzimuthalEquidistant(2.35, 48.86, 15_000)
    ),
    privacy=GeoPrivacy(1, 500, "metre"),
    mechanism=PlanarLaplaceSpec(2),
    opens=NOW - DAY,
    closes=NOW + 20 * DAY,
)
KEY, OTHER_KEY = SigningKey.generate(), SigningKey.generate()


def results(*statuses: int, reason: int = 0, text: str = "") -> bytes:
    """Return the answer to reports that has these statuses, unknown ones as well."""
    message = collector_pb2.SubmitReportsResponse()
    for status in statuses:
        one = message.results.add(detail=text)
        one.status, one.reason = status, reason  # type: ignore[assignment]  # as above
    return message.SerializeToString()


ACCEPTED = results(report_pb2.REPORT_STATUS_ACCEPTED)
ANSWER: tuple[Any, ...] = (
    ("fetch", "income"),
    ("contribute", "income", INCOME),
    ("flush", FLUSH_S),
)
PLACE: tuple[Any, ...] = (("fetch", "income"), ("contribute", "income", HOME), ("flush", FLUSH_S))


@cache
def bomb() -> bytes:
    """Return some megabytes of gzip that unpack to 2 GiB."""
    packer = zlib.compressobj(1, wbits=31)
    first, again = (packer.compress(bytes(1 << 22)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in "ab")
    return first + 511 * again


@dataclass(frozen=True)
class Attack:
    """What a server answers, and the lives of a device meanwhile, one after the other."""

    campaigns: tuple[Reply, ...]
    """The answers to who asks for a campaign, one after the other, then the last for ever."""
    due: int = 0
    """How many reports the server shall have, all of them to `of`."""
    results: tuple[Reply, ...] = (ACCEPTED,)
    """The answers to reports, in the same way."""
    lives: tuple[tuple[Any, ...], ...] = (ANSWER, ANSWER)
    later: timedelta = timedelta(0)
    """How much later each life is by the device's clock than the one before."""
    began: datetime = NOW
    """The date of the first life."""
    of: tuple[bytes, ...] = (encode(HONEST),)
    trusted: PublicKey | None = None
    web_only: bool = False


@dataclass
class Life:
    """What came of one life of a device."""

    errors: list[dict[str, Any]]
    history: list[dict[str, Any]]


class Device(Protocol):
    """A device of one person, started anew for each life."""

    @property
    def door(self) -> Callable[[Server], AbstractContextManager[str]]:
        """Where a server stands for this device."""
        ...

    def live(self, address: str, folder: Path, attack: Attack, now: datetime, steps: Any) -> Life:
        """Do the steps, by a policy that permits ε = 1 per 8,000 dollar, or per 500 metres."""
        ...


@dataclass
class InPython:
    """The Python client, over gRPC."""

    epsilon: float = 1.0
    door: Callable[[Server], AbstractContextManager[str]] = grpc_door

    def live(self, address: str, folder: Path, attack: Attack, now: datetime, steps: Any) -> Life:
        dollars = GeoPrivacy(self.epsilon, 8_000, "dollar")
        metres = GeoPrivacy(self.epsilon, 500, "metre")
        policy = Policy(
            {
                "household income": dollars,
                "home": Limit(campaign=metres, lifetime=metres, value=Place(CITY)),
            },
            trusted_keys=None if attack.trusted is None else [attack.trusted],
        )
        life = Life([], [])
        with Client(
            address,
            policy=policy,
            state_dir=folder,
            background=False,
            release_floor_s=0,
            timeout_s=PATIENCE_S,
            timing=Timing(now=lambda: now),
        ) as client:
            for name, *arguments in steps:
                try:
                    getattr(client, name)(*arguments)
                except Exception as error:  # noqa: BLE001 - one of no type is what an attack wins
                    known = isinstance(error, GeoVeilError)
                    life.errors.append(
                        {"kind": type(error).__name__, "typed": known, "text": str(error)}
                    )
            for receipt in client.history():
                life.history.append(
                    {
                        "reportId": receipt.report_id,
                        "status": receipt.status.name.lower(),
                        "told": f"{receipt.rejection} {receipt.failure}",
                    }
                )
        return life


def told(
    address: str, folder: Path, attack: Attack, now: datetime, steps: Any, epsilon: float
) -> Any:
    """Return a life as the TypeScript device is told of it."""
    dollars = {"epsilon": epsilon, "per": 8_000, "unit": "dollar"}
    metres = {"epsilon": epsilon, "per": 500, "unit": "metre"}
    area = {"longitudeDeg": 2.35, "latitudeDeg": 48.86, "radiusM": 15_000}
    return {
        "server": address,
        "folder": str(folder),
        "limits": {
            "household income": {"campaign": dollars, "lifetime": dollars},
            "home": {
                "campaign": metres,
                "lifetime": metres,
                "value": {"kind": "place", "area": area},
            },
        },
        "trusted": None if attack.trusted is None else [str(attack.trusted)],
        "now": now.timestamp() * 1000,
        "patienceMs": 1000 * PATIENCE_S,
        "steps": [
            (name, *(1000 * each if name == "flush" else each for each in arguments))
            for name, *arguments in steps
        ],
    }


@dataclass
class InNode:
    """The TypeScript client in Node, over Connect: one process for all lives."""

    process: "subprocess.Popen[str]"
    epsilon: float = 1.0
    door: Callable[[Server], AbstractContextManager[str]] = web_door

    def live(self, address: str, folder: Path, attack: Attack, now: datetime, steps: Any) -> Life:
        life = told(address, folder, attack, now, steps, self.epsilon)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(life) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the device has died of it"
        return Life(**json.loads(line))


@dataclass
class InChromium:
    """The bundle in a page of another origin than the server's, which keeps all in IndexedDB."""

    page: Any
    heard: list[bytes]
    """What the page wrote to the console, and asked of anybody."""
    epsilon: float = 1.0
    door: Callable[[Server], AbstractContextManager[str]] = web_door

    def live(self, address: str, folder: Path, attack: Attack, now: datetime, steps: Any) -> Life:
        life = told(address, folder, attack, now, steps, self.epsilon)
        came = self.page.evaluate("(life) => globalThis.lived(life)", life)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "the browser").open("ab") as file:  # of every life
            file.write(b"\n".join([came.pop("kept").encode(), *self.heard]))
        self.heard.clear()
        return Life(**came)


@dataclass
class Believing:
    """A fault: the policy permits what the server asks for."""

    device: Any

    def door(self, server: Server) -> AbstractContextManager[str]:
        opened: AbstractContextManager[str] = self.device.door(server)
        return opened

    def live(self, address: str, folder: Path, attack: Attack, now: datetime, steps: Any) -> Life:
        life: Life = replace(self.device, epsilon=1e6).live(address, folder, attack, now, steps)
        return life


@dataclass
class Forgetting(Believing):
    """A fault: who is refused forgets it, and draws anew."""

    refused: set[str] = field(default_factory=set)

    def live(self, address: str, folder: Path, attack: Attack, now: datetime, steps: Any) -> Life:
        mine = folder / str(len(self.refused))
        life: Life = self.device.live(address, mine, attack, now, steps)
        self.refused |= {each["reportId"] for each in life.history if each["status"] == "rejected"}
        return life


def won(device: Device, attack: Attack, folder: Path) -> list[str]:
    """Return what the server has won; nothing, of a sound device."""
    server = Server(list(attack.campaigns), list(attack.results))
    found = []
    with device.door(server) as address:
        for number, steps in enumerate(attack.lives):
            now = attack.began + number * attack.later
            life = device.live(address, folder, attack, now, steps)
            said = [error["text"] for error in life.errors] + [e["told"] for e in life.history]
            found += [f"an error of no type: {e}" for e in life.errors if not e["typed"]]
            found += [f"not printable: {text!r}" for text in said if not text.isprintable()]
            found += [f"too long: {text!r}" for text in said if len(text) > 2_000]
            if any(secret in text for secret in SECRETS for text in said):
                found.append("the value was said")
    if server.written > MOST_READ:
        found.append(f"{server.written >> 20} MiB were read of one answer")
    kept = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    secrets = [secret.encode() for secret in SECRETS] + BINARY
    secrets += [each.hex().encode() for each in BINARY]
    if any(secret in data for secret in secrets for data in kept + server.received):
        found.append("the value was kept or sent")
    due = {digest(campaign) for campaign in attack.of}
    found += [
        "a report of another campaign" for r in server.reports if r.campaign_digest not in due
    ]
    sent = {(r.campaign_id, each.SerializeToString()) for r in server.reports for each in r.reports}
    if len(sent) != attack.due:
        found.append(f"{len(sent)} reports instead of {attack.due}")
    return found


def message(campaign: Any = HONEST) -> pb.Campaign:
    return pb.Campaign.FromString(encode(campaign))


def asking(change: Callable[[pb.Campaign], object], campaign: Any = HONEST) -> Reply:
    """Return what shows a campaign that nobody could make with the library."""
    made = message(campaign)
    change(made)
    return shown(seal(made.SerializeToString(deterministic=True)))


def publishing(campaign: Any) -> Reply:
    return shown(seal(encode(campaign)))


def _named(name: str, text: str) -> Callable[[pb.Campaign], object]:
    def change(made: pb.Campaign) -> None:
        if name in ("name", "unit"):
            setattr(made.attribute, name, text)
        elif name == "label":
            made.queries[0].label = text
        else:
            setattr(made, name, text)

    return change


def _placed(longitude: float, latitude: float, radius: float) -> Callable[[pb.Campaign], object]:
    def change(made: pb.Campaign) -> None:
        plane = made.attribute.azimuthal_equidistant
        plane.longitude_deg, plane.latitude_deg, plane.radius_m = longitude, latitude, radius

    return change


def _numbers(**given: float) -> Callable[[pb.Campaign], object]:
    def change(made: pb.Campaign) -> None:
        for path, number in given.items():
            *parents, name = path.split("__")
            owner: Any = made
            for parent in parents:
                owner = owner[int(parent[1:])] if parent[1:].isdigit() else getattr(owner, parent)
            setattr(owner, name, number)

    return change


GOOD = publishing(HONEST)
OTHER = replace(HONEST, title="Another question")
SECOND = replace(HONEST, campaign_id="income-2")
DAILY = replace(HONEST, period=DAY)
CHEAP = replace(HONEST, period=DAY, privacy=GeoPrivacy(0.375, 8_000, "dollar"))
_SIGNED = seal(encode(HONEST), KEY)
TORN = _SIGNED[:-1] + bytes([_SIGNED[-1] ^ 1])  # the last byte is 0 for one key in 16
BYTES = encode(HONEST)
REJECTED = report_pb2.REPORT_STATUS_REJECTED
JUNK = bytes(range(256)) * 20
CONTROLS = ("\x1b[2J", "\x9b1m", "\r\n", "\u202e", "\u2028", "\u200b", "\ufeff", "\x85", "\x00")


def _texts() -> Iterator[tuple[str, Attack]]:
    for name in ("title", "name", "unit", "label", "campaign_id"):
        yield (
            f"control characters in the {name}",
            Attack(
                tuple(asking(_named(name, f"in{text}come")) for text in CONTROLS),
                lives=(ANSWER * len(CONTROLS),),
            ),
        )
    for place, text in ((b"\xef\xbb\xbf", "a byte order mark"), (b"\xff\xfe!", "no UTF-8")):
        swapped = BYTES.replace(b"dollar", place + b"lar")
        yield f"{text} in the unit", Attack((shown(seal(swapped)),))


def _numbers_that_are_odd() -> Iterator[tuple[str, Attack]]:
    odd: dict[str, list[float]] = {
        "privacy__epsilon": [1 + 2**-52, 2.0, 1e308, 5e-324, 0.0, -1.0, float("nan"), float("inf")],
        "privacy__per": [7_999.999, 5e-324, 1e308, 0.0, -8_000.0, float("nan")],
        "grid__step_exponent": [-(2**31), 2**31 - 1, -201, 201],
        "queries__q0__threshold__at": [float("nan"), float("inf")],
        "queries__q0__threshold__width": [5e-324, 1e308, float("nan"), -1.0],
        "minimum_participants": [2**63 - 1, 2**64 - 1],
        "allocation": [77],
    }
    for path, numbers in odd.items():
        replies = tuple(asking(_numbers(**{path: number})) for number in numbers)
        yield f"odd numbers: {path}", Attack(replies, lives=(ANSWER * len(numbers),))
    dates: dict[str, list[float]] = {
        "opens__seconds": [-(2**63), 2**63 - 1, 253_402_300_800],
        "closes__seconds": [-(2**63), 0, 2**63 - 1, 253_402_300_799],
        "closes__nanos": [-1, 2**31 - 1],
        "period__seconds": [-(2**63), -1, 0, 1, 2**63 - 1],
    }
    for path, numbers in dates.items():
        replies = tuple(asking(_numbers(**{path: number})) for number in numbers)
        yield f"odd dates: {path}", Attack(replies, lives=(ANSWER * len(numbers),))
    many = message()
    many.queries.extend([many.queries[0]] * 10_001)
    yield "ten thousand questions", Attack((shown(seal(many.SerializeToString())),))
    tiny = message()
    del tiny.queries[:]
    for _ in range(200_000):
        tiny.queries.add().threshold.SetInParent()
    empty = shown(seal(tiny.SerializeToString()))
    yield "two hundred thousand empty questions", Attack((empty,), lives=(ANSWER,))


def _places() -> Iterator[tuple[str, Attack]]:
    right = Attack((publishing(PLACES),), 1, lives=(PLACE, PLACE), of=(encode(PLACES),))
    yield "places: none, as a control", right
    planes = {
        "at a pole": (0.0, 90.0, 15_000.0),
        "beyond a pole": (2.35, 90.5, 15_000.0),
        "beside a pole": (2.35, 89.999999999, 100_000.0),
        "a turn of the Earth away": (362.35, 48.86, 15_000.0),
        "a metre larger": (2.35, 48.86, 15_001.0),
        "a metre beside": (2.350014, 48.86, 15_000.0),
        "the whole Earth": (2.35, 48.86, 2e7),
        "no number": (float("nan"), 48.86, 15_000.0),
        "no extent": (2.35, 48.86, 0.0),
        "without bounds": (2.35, 48.86, float("inf")),
    }
    for name, plane in planes.items():
        yield f"places: {name}", Attack((asking(_placed(*plane), PLACES),), lives=(PLACE,))
    stolen = message(PLACES)
    stolen.attribute.ClearField("coordinates")
    plain = shown(seal(stolen.SerializeToString(deterministic=True)))
    yield "places: taken for numbers", Attack((plain,), lives=(PLACE,))


def _answers_to_reports() -> Iterator[tuple[str, Attack]]:
    reasons = tuple(
        results(REJECTED, reason=reason, text="\x1b[2J draw anew") for reason in (0, 2, 4, 6, 77)
    )
    for number, reply in enumerate(reasons):
        yield f"refused for reason {number}", Attack((GOOD,), 1, (reply, ACCEPTED))
    odd: dict[str, Reply] = {
        "no result": results(),
        "two results": results(1, 1),
        "a status that nobody knows": results(77),
        "no status": results(0),
        "garbage": JUNK,
        "five megabytes": bytes(5 << 20),
        "nothing": b"",
        "no answer": Hang(),
        **{
            f"{code}": Failure(code, "\x1b[2J\r\nforged: counted \u202e" + "x" * 9_000)
            for code in ("UNAVAILABLE", "NOT_FOUND", "FAILED_PRECONDITION", "INTERNAL", "ABORTED")
        },
    }
    for name, reply in odd.items():
        attack = Attack((GOOD,), 1, (reply, reply, ACCEPTED))
        yield f"to a report: {name}", attack
        if name not in ("no result", "two results", "no status"):
            yield f"to who asks for a campaign: {name}", Attack((reply, GOOD), 1)


def _of_the_web() -> Iterator[tuple[str, Attack]]:
    proto, gzipped = {"Content-Type": "application/proto"}, {"Content-Encoding": "gzip"}
    replies = {
        "a redirection": Web(307, {"Location": "http://127.0.0.1:9/"}),
        "another type": Web(200, {"Content-Type": "text/html"}, b"<script>"),
        "JSON in JSON": Web(500, {"Content-Type": "application/json"}, b"[" * 100_000),
        "details of no kind": Web(503, {}, b'{"code": 7, "details": [null, 3, {"value": {}}]}'),
        "no end": Web(200, proto, bytes(1 << 20), 300),
        "an error without an end": Web(503, {}, bytes(1 << 20), 300),
        "gigabytes in a gzip": Web(200, {**proto, **gzipped}, bomb()),
        "an error of gigabytes in a gzip": Web(503, gzipped, bomb()),
        "a drop at a time": Web(200, proto, b"\n", 1_000, pause_s=0.05),
        "an error, a drop at a time": Web(503, {}, b"[", 1_000, pause_s=0.05),
    }
    for name, reply in replies.items():
        yield f"web: {name}", Attack((reply, GOOD), 1, web_only=True)
        yield f"web, to a report: {name}", Attack((GOOD,), 1, (reply, ACCEPTED), web_only=True)


def every_attack() -> Iterator[tuple[str, Attack]]:
    """Yield each with its name; those of `due` = 1 show that honest reports arrive meanwhile."""
    yield "none, as a control", Attack((GOOD,), 1)
    dear = replace(HONEST, privacy=GeoPrivacy(3, 8_000, "dollar"))
    yield "a looser price", Attack((publishing(dear),))
    yield "a looser price under the same id", Attack((GOOD, publishing(dear)), 1)
    yield "another unit", Attack((asking(_named("unit", "cent")),))
    yield "another attribute", Attack((asking(_named("name", "age")),))
    yield "another campaign under the same id", Attack((GOOD, publishing(OTHER)), 1)
    yield "another id than was asked for", Attack((publishing(SECOND),))
    again = (("fetch", "income-2"), ("contribute", "income-2", INCOME), ("flush", FLUSH_S))
    yield (
        "the same asked under a second id",
        Attack((GOOD, publishing(SECOND)), 1, lives=(ANSWER, again)),
    )
    first, two = encode(DAILY), encode(CHEAP)
    yield (
        "a second draw in the next period",
        Attack((publishing(DAILY),), 1, lives=(ANSWER,) * 5, later=DAY, of=(first,)),
    )
    yield (
        "as many periods as there is room for",
        Attack((publishing(CHEAP),), 2, lives=(ANSWER,) * 5, later=DAY, of=(two,)),
    )
    yield (
        "a clock that is set back",
        Attack((publishing(CHEAP),), 2, lives=(ANSWER,) * 8, later=-DAY / 4, of=(two,)),
    )
    signed = shown(seal(BYTES, KEY))
    yield "signed as trusted, as a control", Attack((signed,), 1, trusted=KEY.public)
    yield "signed by nobody", Attack((GOOD,), trusted=KEY.public)
    yield "signed by somebody else", Attack((shown(seal(BYTES, OTHER_KEY)),), trusted=KEY.public)
    yield "a signature with other bits", Attack((shown(TORN),), trusted=KEY.public)
    stolen = pb.CampaignEnvelope.FromString(seal(BYTES, KEY))
    stolen.campaign = encode(OTHER)
    forged = shown(stolen.SerializeToString(deterministic=True))
    yield "a signature of other bytes", Attack((forged,), trusted=KEY.public)
    yield "an envelope that is empty", Attack((shown(b""),))
    yield "a state that nobody knows", Attack((shown(seal(BYTES), 77),), 1)
    yield "a field that nobody knows", Attack((shown(seal(BYTES + b"\xfa\x3f\x01x")),))
    yield "an envelope with another field", Attack((shown(seal(BYTES) + b"\xfa\x3f\x01x"),))
    yield "a field twice", Attack((shown(seal(BYTES + BYTES)),))
    yield from _texts()
    yield from _numbers_that_are_odd()
    yield from _places()
    yield from _answers_to_reports()
    yield from _of_the_web()


@cache
def attacks() -> dict[str, Attack]:
    return dict(every_attack())


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
