"""Test, with network namespaces, what packets reveal to a device, a relay and a server.

20 campaigns whose names and questions differ in length, 12 devices of each, in random order (seed
41). A classifier learns from half of what the relay's namespace saw on both sides (sizes, times,
counts, directions, what is not sealed) and names the campaigns of the other half; α is 10⁻⁶, of 120
one in 20 by chance. Leaks are planted and found by the same classifier: reports without padding, a
key for each campaign; and by the same reading: reports that are not sealed, a relay that names the
device. Without TLS, as a relay sees it that has taken TLS off.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from geoveil.campaign import SigningKey
from geoveil.relay import SIZES, GatewayKeys
from tests.relay.in_namespaces import (
    DEVICE,
    FAR,
    NEAR,
    RELAY_PORT,
    SERVER,
    WEB_PORT,
    Packet,
    packets,
)

ALPHA = 1e-6
CAMPAIGNS, DEVICES, LEAKING = 20, 12, 6
NAMES = [f"secret-{'campaign-' * (n // 4)}{'x' * (n % 4)}-{n:02}" for n in range(CAMPAIGNS)]
OPERATOR = SigningKey.generate()
CREATE = """
import sys
from datetime import UTC, datetime, timedelta
from dataclasses import replace
from geoveil.analyst import Analyst
from geoveil.campaign import TLS
from tests.aggregator.conftest import _publish

now = datetime.now(UTC)
with Analyst("127.0.0.1:7717", tls=TLS(insecure=True)) as analyst:
    for name in sys.argv[1:]:
        plain = _publish(name, queries=1 + int(name[-2:]) % 10, title=name).campaign
        analyst.create(replace(plain, opens=now, closes=now + timedelta(days=1)))
"""


def may_make_namespaces() -> bool:
    """Whether this process may make network namespaces."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        return False
    return subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode == 0


@dataclass
class Seen:
    """What was captured while devices took part, in the relay's namespace and the server's."""

    relay: list[Packet]
    server: list[Packet]
    begun: list[float]
    """When each device began, in seconds since 1970."""
    ids: list[str]
    requests: list[str]
    labels: np.ndarray
    """The number of each device's campaign."""


@dataclass
class World:
    """Three namespaces, in which programs run."""

    folder: Path
    stack: ExitStack
    names: dict[str, str] = field(init=False)
    _started: int = 0

    def __post_init__(self) -> None:
        self.names = {n: f"gv-{n}-{os.getpid()}" for n in ("device", "relay", "server")}
        for name in self.names.values():
            subprocess.run(["ip", "netns", "add", name], check=True)
            self.stack.callback(subprocess.run, ["ip", "netns", "del", name])
        for near, far, here, there in (
            ("device", "relay", DEVICE, NEAR), ("relay", "server", FAR, SERVER),
        ):  # fmt: skip
            pair = f"link add to-{far} netns {self.names[near]} type veth peer name to-{near} netns"
            subprocess.run(["ip", *pair.split(), self.names[far]], check=True)
            for place, link, address in ((near, far, here), (far, near, there)):
                self.run(place, "ip", "addr", "add", f"{address}/24", "dev", f"to-{link}")
                self.run(place, "ip", "link", "set", f"to-{link}", "up")
                self.run(place, "ip", "link", "set", "lo", "up")

    def run(self, place: str, *command: str) -> str:
        """Return what a program prints."""
        inside = ["ip", "netns", "exec", self.names[place], *command]
        return subprocess.run(inside, check=True, text=True, stdout=subprocess.PIPE).stdout

    def start(self, place: str, *command: str, ready: str = "ready") -> subprocess.Popen[bytes]:
        """Start a program, wait until it prints that it is ready, and end it with the test."""
        self._started += 1
        log = self.folder / f"{place}-{self._started}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.names[place], *command],
                stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.stack.callback(end, process)
        while ready not in log.read_text():
            assert process.poll() is None, log.read_text()[-2000:]
            time.sleep(0.05)
        return process

    def see(self, devices: int, leak: str = "") -> Seen:
        """Let so many devices take part in each campaign, and capture what travels."""
        role = [sys.executable, "-m", "tests.relay.in_namespaces"]
        relay = self.start("relay", *role, "relay", leak)
        files = {place: self.folder / f"{place}.packets" for place in ("relay", "server")}
        taking = [self.start(place, *role, "capture", str(f)) for place, f in files.items()]
        numbers = [number for number in range(CAMPAIGNS) for _ in range(devices)]
        random.Random(41).shuffle(numbers)
        order = json.dumps([NAMES[number] for number in numbers])
        made = json.loads(self.run("device", *role, "devices", str(OPERATOR.public), order, leak))
        for process in taking:
            process.communicate(timeout=30)
            assert process.returncode == 0
        end(relay)
        relayed, served = (packets(file) for file in files.values())
        return Seen(relay=relayed, server=served, labels=np.array(numbers), **made)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process."""
    process.kill()
    process.communicate()


@pytest.fixture
def world(tmp_path):
    """Device — relay — server: the device and the server have no way but by the relay."""
    with ExitStack() as stack:
        made = World(tmp_path, stack)
        keys = tmp_path / "relay.keys"
        GatewayKeys.rotate(keys, OPERATOR, timedelta(days=1))
        made.start(
            "server", sys.executable, "-c", "from geoveil.cli import main; main()", "serve",
            "--database", str(tmp_path / "db.sqlite"), "--web", f"{SERVER}:{WEB_PORT}",
            "--web-proxy", FAR, "--relay-keys", str(keys), "--insecure-open-analyst",
            "--log-format", "json", "--log-level", "debug", ready=str(WEB_PORT),
        )  # fmt: skip
        made.run("server", sys.executable, "-c", CREATE, *NAMES)
        yield made


def connections(seen: Seen, at: str, port: int) -> Iterator[list[list[Packet]]]:
    """Yield of each device its connections from an address to a port, in order."""
    found: dict[int, list[Packet]] = {}
    for packet in seen.relay:
        if port in packet.ports and packet.content and at in packet[1:3]:
            other = next(each for each in packet.ports if each != port)
            found.setdefault(other, []).append(packet)
    begins = np.searchsorted(seen.begun, [each[0].at for each in found.values()]) - 1
    for device in range(len(seen.begun)):
        yield [c for c, of in zip(found.values(), begins, strict=True) if of == device]


def features(seen: Seen) -> np.ndarray:
    """Return what the relay has of each device: of three connections on either side, and counts."""
    rows = []
    sides = ((DEVICE, RELAY_PORT), (FAR, WEB_PORT))
    for of_device in zip(*(connections(seen, *side) for side in sides), strict=True):
        row: list[float] = []
        for (caller, _), all_of_side in zip(sides, of_device, strict=True):
            row.append(len(all_of_side))
            for passed in [*all_of_side, [], [], []][:3]:
                sent = [p for p in passed if p.source == caller]
                came = [p for p in passed if p.source != caller]
                body = b"".join(p.content for p in sent).partition(b"\r\n\r\n")[2]
                for each in (sent, came):
                    row += [len(each), sum(len(p.content) for p in each)]
                row.append(int.from_bytes(body[:7], "big"))
                row.append(came[0].at - sent[-1].at if came else 0)
                row.append(passed[-1].at - passed[0].at if passed else 0)
        rows.append(row)
    return np.array(rows)


def ranks(table: np.ndarray) -> np.ndarray:
    """Return each column as ranks, equal ones with equal ranks: no tail matters."""
    return np.stack([np.unique(column, return_inverse=True)[1] for column in table.T], axis=1)


def named(asked: np.ndarray, learnt: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the label that most of the nearest have; an example is not its own neighbour."""
    distances = np.abs(asked[:, None] - learnt[None]).sum(2).astype(float)
    if asked is learnt:
        np.fill_diagonal(distances, np.inf)
    nearest = distances == distances.min(1, keepdims=True)
    return np.asarray((nearest @ np.eye(CAMPAIGNS)[labels]).argmax(1))


def rights(seen: Seen) -> tuple[int, int]:
    """Return how many of the second half are named rightly, and what chance does not exceed.

    One column, or all of them: that which names most of the first half, each by the others.
    """
    table, labels = ranks(features(seen)), seen.labels
    order = np.argsort(labels, kind="stable").reshape(CAMPAIGNS, -1)
    learnt, asked = order[:, ::2].ravel(), order[:, 1::2].ravel()
    choices = [table, *(table[:, n : n + 1] for n in range(table.shape[1]))]

    def of_the_first(choice: np.ndarray) -> int:
        own = choice[learnt]
        return int((named(own, own, labels[learnt]) == labels[learnt]).sum())

    best = max(choices, key=of_the_first)
    right = named(best[asked], best[learnt], labels[learnt]) == labels[asked]
    limit = binom.isf(ALPHA, len(asked), 1 / CAMPAIGNS)
    print(f"right {right.sum()} of {len(asked)}, by chance at most {limit:.0f}")
    return int(right.sum()), int(limit)


def shown(seen: Seen) -> set[str]:
    """Return the campaigns, ids and sixteen bytes of an answer that a relay reads."""
    read = b"".join(p.content for p in seen.relay)
    secrets: dict[bytes, str] = {name.encode(): name for name in [*NAMES, "Collector", "income"]}
    secrets |= {bytes.fromhex(each): "id" for each in seen.ids}
    for request in map(bytes.fromhex, seen.requests):
        for at in range(0, len(request) - 15, 16):
            secrets[request[at : at + 16]] = "request"
    return {what for secret, what in secrets.items() if secret in read}


@pytest.mark.timeout(600)
@pytest.mark.deep(keep=0, rest=0)
@pytest.mark.skipif(not may_make_namespaces(), reason="needs root, and `ip`")
def test_packets_tell_the_server_no_address_and_the_relay_no_campaign(world):
    seen = world.see(DEVICES)
    # The server meets the relay alone; what it reads, logs and keeps has the device nowhere.
    assert {p.source for p in seen.server} | {p.target for p in seen.server} == {FAR, SERVER}
    read = b"".join(p.content for p in seen.server)
    kept = [*world.folder.glob("server-*.log"), *world.folder.glob("db.sqlite*")]
    assert sum(file.stat().st_size for file in kept) > 100_000
    for each in (read, *(file.read_bytes() for file in kept)):
        assert DEVICE.encode() not in each
    # The relay meets both, and reads no campaign, id or answer.
    assert {p.source for p in seen.relay} == {DEVICE, NEAR, FAR, SERVER}
    assert sum(len(p.content) for p in seen.relay) > 4 * len(seen.ids) * sum(SIZES)
    assert len(seen.requests) == len(seen.ids) == CAMPAIGNS * DEVICES
    assert not shown(seen)
    right, limit = rights(seen)
    assert right <= limit
    # What must be found.
    for leak in ("size", "key"):
        right, limit = rights(world.see(LEAKING, leak))
        assert right > limit
    assert {"id", "request", *NAMES} <= shown(world.see(1, "clear"))
    read = b"".join(p.content for p in world.see(1, "address").server)
    assert DEVICE.encode() in read
