"""Devices under attack in Python, Node and Chromium, and whether the server has won."""

import json
import struct
import subprocess
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Protocol

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
)
from geoveil.client import Client, GeoVeilError, Limit, Place, Policy, Timing
from geoveil.gp import GeoPrivacy, Threshold
from geoveil.gp.coordinates import Area, AzimuthalEquidistant
from geoveil.proto.v1 import collector_pb2, report_pb2

from .hostile import Reply, Server, grpc_door, web_door

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
