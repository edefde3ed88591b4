"""Test that the records of issuer and server together link nobody, except for broken devices.

10⁴ devices get tokens and send reports, each at times of its own. All that passes is kept, which is
more than logs and databases hold: of the issuer the credential, request, answer and time; of the
server the request and the time. They are joined in three ways.

* Times: the k-th token with the k-th report; the same backwards; each report with the last token
  before it, and with that before which the usual delay lies. In independent orders one link is
  right by chance, and by Poisson's tail more than 9 in any of the four once in 10⁶.
* Bytes: twelve that the two have in common.
* Bits: the largest correlation of any two (ends of the data, hashes, Jacobi symbols), by
  Hoeffding's bound for all; and links by those that half of the devices show.

α is 10⁻⁶ for each way. Leaks are planted and found by the same.
"""

import hashlib
import sqlite3
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from flint import fmpz
from scipy.stats import poisson

from geoveil.client import Client, Limit, Policy, Timing
from geoveil.client.testing import InMemoryCollector, InMemoryTransport
from geoveil.gp import GeoPrivacy
from geoveil.relay import Issuer, IssuerKey, TokenTransport
from tests.aggregator.conftest import Clock
from tests.client.conftest import _campaign
from tests.relay.conftest import OPERATOR

ALPHA = 1e-6
DEVICES, FEW = 10_000, 100
KEY = IssuerKey.generate()
MODULUS = fmpz(int.from_bytes(KEY.public, "big"))
OPENS = datetime(2026, 5, 1, tzinfo=UTC)
CLOSES, DAY = OPENS + timedelta(days=10), timedelta(days=1)
POLICY = Policy({"household income": Limit(campaign=GeoPrivacy(100, 8000, "dollar"))})
WINDOWED = _campaign(
    "windowed", opens=OPENS, closes=CLOSES, window=2 * DAY, token_key=KEY.public,
    relay_operator=OPERATOR.public,
)  # fmt: skip
AT_ONCE = replace(WINDOWED, window=None)
_PIECE = 12


class Anybody:
    """Each credential is a person."""

    def account(self, credential):
        return hashlib.sha256(credential.encode()).hexdigest()


@dataclass
class Joined:
    """What issuer and server have of each device, at the same place of either list."""

    issuer: list[list[bytes]] = field(default_factory=list)
    server: list[list[bytes]] = field(default_factory=list)
    asked: list[float] = field(default_factory=list)
    """When each token was asked for, in seconds since 1970."""
    came: list[float] = field(default_factory=list)
    """When each report came."""


class Device(TokenTransport):
    """Gets tokens from an issuer in this process, and keeps them in memory."""

    _kept_in: Any = None
    of: Any
    now: Any

    def _execute(self, statement, *values):
        self._kept_in = self._kept_in or sqlite3.connect(":memory:")
        return self._kept_in.execute(statement, values).fetchall()

    def _ask(self, method, content, head, end, key_id):
        status, answer = self.of.answer(key_id.hex(), self._credential, content)
        assert status == 200
        self.seen = [self._credential.encode(), content[3:], answer]
        self.asked = self.now().timestamp()
        return answer


class Late(Device):
    """Gets its token just before the report leaves."""

    def fetch_tokens(self, request, timeout_s):
        return None


class Plain(Device):
    """Blinds with 1: the issuer signs the message itself."""

    def _made(self, label, message, size):
        return (1).to_bytes(size, "big") if label == b"blind" else bytes(size)


class Squares(Device):
    """Blinds with a square: the message's Jacobi symbol shows, one bit of it."""

    def _made(self, label, message, size):
        if label != b"blind":
            return bytes(size)
        drawn = fmpz(int.from_bytes(hashlib.shake_256(message).digest(size), "big"))
        return int(drawn * drawn % MODULUS).to_bytes(size, "big")


def histories(folder, devices, kind=Device, campaign=WINDOWED):
    """Let devices answer, in the first eight days, and send when it is time."""
    joined, random = Joined(), Random(41)
    issuer = Issuer([KEY], Anybody(), Path(":memory:"))
    collector = InMemoryCollector([campaign])
    clock = Clock()

    def receive(request):
        answer = collector(request)
        if hasattr(request, "reports"):
            (report,) = request.reports
            joined.server.append([report.report_id, report.token, request.SerializeToString()])
            joined.came.append(clock().timestamp())
        return answer

    inner: Any = InMemoryTransport(receive)
    inner.operator = OPERATOR.public
    for number in range(devices):
        name = f"device {number}"
        transport: Any = kind(inner, issuer="http://127.0.0.1/", credential=name, state_dir=folder)
        transport.of, transport.now = issuer, clock
        clock.now = OPENS + random.random() * 7 * DAY
        with Client(
            policy=POLICY, transport=transport, background=False, release_floor_s=0,
            timing=Timing(now=clock, sleep=lambda _: None),
        ) as client:  # fmt: skip
            client.fetch(campaign.campaign_id)
            receipt = client.contribute(campaign.campaign_id, 90_000.0)
            sent = client.flush().acknowledged
            if receipt.departs is not None:
                assert not sent
                clock.now = receipt.departs
                sent = client.flush().acknowledged
            assert sent == 1
        joined.issuer.append(transport.seen)
        joined.asked.append(transport.asked)
    # The issuer's database has no more than this has, and no time.
    kept = issuer._database.execute("SELECT * FROM given").fetchall()
    assert len(kept) == devices
    hashed = hashlib.sha256(bytes([0, 2, bytes.fromhex(kept[0][0])[-1]]) + joined.issuer[0][1])
    account = Anybody().account("device 0")
    assert (kept[0][0], account, hashed.digest()) in kept
    issuer.close()
    return joined


def by_time(joined):
    """Return the most right links of several matchings by time, and what chance does not exceed."""
    asked, came = np.array(joined.asked), np.array(joined.came)
    of_asked, of_came = np.argsort(asked), np.argsort(came)
    sorted_times = asked[of_asked]

    def last_before(times):
        at = np.searchsorted(sorted_times, times, side="right") - 1
        return int((of_asked[np.maximum(at, 0)] == np.arange(len(came))).sum())

    usual = np.median(came) - np.median(asked)
    ways = [
        int((of_asked == of_came).sum()),
        int((of_asked == of_came[::-1]).sum()),
        last_before(came),
        last_before(came - usual),
    ]
    return max(ways), int(poisson.isf(ALPHA / len(ways), 1))


def by_bytes(joined):
    """Return how many devices' data at the issuer and at the server have twelve bytes in common."""
    pieces = [
        {data[at : at + _PIECE] for data in row for at in range(0, len(data) - _PIECE, _PIECE)}
        for row in joined.issuer
    ]
    owners = {piece: number for number, of_device in enumerate(pieces) for piece in of_device}
    common = set()
    for row in joined.server:
        for data in row:
            for at in range(len(data) - _PIECE):
                common.add(owners.get(data[at : at + _PIECE]))
    return len(common - {None})


def bits(of_each):
    """Return the bits of each device as −1 and 1: of its data, its hashes, and Jacobi symbols."""
    rows = []
    for row in of_each:
        parts = [part for data in row for part in (data[:12], data[-12:])]
        parts += [hashlib.sha256(data).digest()[:4] for data in row]
        joined = b"".join(part.rjust(12, b"\0") for part in parts)
        plain = np.unpackbits(np.frombuffer(joined, np.uint8))
        numbers = [fmpz(int.from_bytes(data, "big")) for data in row if len(data) == 256]
        symbols = [int(number.jacobi(MODULUS)) for number in numbers]
        rows.append(np.concatenate([2.0 * plain - 1, symbols]))
    table = np.array(rows)
    table = table[:, table.std(0) > 0.3]
    return np.asarray((table - table.mean(0)) / table.std(0))


def by_bits(joined):
    """Return the largest correlation of two bits, in standard errors, and what chance exceeds."""
    issuer, server = bits(joined.issuer), bits([row[:2] for row in joined.server])
    largest = np.abs(issuer.T @ server).max() / np.sqrt(len(issuer))
    pairs = issuer.shape[1] * server.shape[1]
    return float(largest), float(np.sqrt(2 * np.log(2 * pairs / ALPHA)))  # Hoeffding


def by_learnt_bits(joined):
    """Return how many of the second half are linked by what holds of the first."""
    issuer, server = bits(joined.issuer), bits([row[:2] for row in joined.server])
    half = len(issuer) // 2
    weights = issuer[:half].T @ server[:half]
    weights[np.abs(weights) < 4 * np.sqrt(half)] = 0
    scores = issuer[half:] @ weights @ server[half:].T
    return int((scores.argmax(1) == np.arange(len(scores))).sum())


@pytest.mark.timeout(900)
@pytest.mark.deep(keep=0, rest=0)
def test_nobody_of_ten_thousand_is_linked(tmp_path):
    joined = histories(tmp_path, DEVICES)
    right, limit = by_time(joined)
    largest, bound = by_bits(joined)
    learnt, most = by_learnt_bits(joined), poisson.isf(ALPHA, 1)
    print(
        f"times {right} ≤ {limit}; bits {largest:.2f} ≤ {bound:.2f}; learnt {learnt} ≤ {most:.0f}"
    )
    assert right <= limit
    assert largest < bound
    assert learnt <= most
    assert by_bytes(joined) == 0


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize(("kind", "campaign"), [(Late, WINDOWED), (Device, AT_ONCE)])
def test_tokens_got_as_the_report_leaves_link_all_by_time(tmp_path, kind, campaign):
    """The control; and why a campaign without a window leaves them linked."""
    right, limit = by_time(histories(tmp_path, FEW, kind, campaign))
    assert right == FEW > limit


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize(("kind", "linked"), [(Plain, True), (Squares, False)])
def test_blinding_that_is_broken_is_found(tmp_path, kind, linked):
    """Without blinding all are linked; with half of it a bit of each shows."""
    joined = histories(tmp_path, FEW, kind)
    largest, limit = by_bits(joined)
    assert largest > limit
    if linked:
        assert by_learnt_bits(joined) == FEW // 2
        assert by_bytes(joined) == FEW
