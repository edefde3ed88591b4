"""Test devices killed at each step of a token, failing issuers, and wrong clocks."""

import asyncio
import http.client
import json
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from geoveil.aggregator.ops.settings import DatabaseURL
from geoveil.campaign import TokenRule
from geoveil.client import Timing, TransportError
from geoveil.proto.v1 import report_pb2
from geoveil.relay import GatewayKeys, InvitationCodes, Issuer
from tests.aggregator.conftest import Clock, Published, RunningServer
from tests.relay.conftest import KEYS, OPERATOR, Way, issuing, token_for
from tests.relay.test_through_a_relay import FaultyRelay

Start = Callable[..., Awaitable[Way]]
KILLED, LOST = -9, 3


@contextmanager
def devices() -> Iterator[Callable[..., tuple[int, int]]]:
    """Yield what lets a device live once: how that ended, and the points that it passed."""
    command = [sys.executable, "-m", "tests.relay.mortal_devices"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        into, out = process.stdin, process.stdout

        def live(**given: Any) -> tuple[int, int]:
            into.write(json.dumps(given).encode() + b"\n")
            into.flush()
            ended, passed = json.loads(out.readline())
            return ended, passed

        yield live
        into.close()


@pytest.mark.timeout(600)
@pytest.mark.deep(keep=0, rest=0)
@pytest.mark.parametrize("window", [None, timedelta(days=1)])
async def test_a_device_that_is_killed_anywhere_and_again_is_counted_once(
    way: Start, recurring: Published, tmp_path: Path, window: timedelta | None
) -> None:
    """Every point of a life: killed there, in its next life at another point, then let live."""
    started = await way()
    made = replace(recurring.campaign, window=window)
    recurring = Published.of(made)
    await started.web.wire.create(recurring)
    started.now.now = recurring.campaign.opens
    codes = InvitationCodes.invite(tmp_path / "codes", 150)
    again = random.Random(41)
    points: list[int] = []

    def lives(issuer: str) -> int:
        common = {
            "relay": f"http://127.0.0.1:{started.near.port}/way",
            "operator": str(OPERATOR.public),
            "issuer": issuer,
            "now": started.now().isoformat(),
        }
        with devices() as live:
            while True:
                at = len(points) + 1
                own = common | {"state_dir": str(tmp_path / f"device-{at}"), "code": codes[at]}
                ended, passed = live(kill_at=at, **own)
                if ended == 0:  # it has no more points
                    break
                assert (ended, passed) == (KILLED, at)
                points.append(at)
                ended, _ = live(kill_at=again.randrange(1, 20), **own)
                assert ended in (KILLED, 0), at
                assert live(kill_at=0, **own)[0] == 0, at
            # What must fail: devices that blind anew, one killed when the issuer has signed.
            for forgetful in range(1, at):
                name, code = f"forgetful-{forgetful}", codes[-forgetful]
                own = common | {"state_dir": str(tmp_path / name), "code": code, "forgetful": True}
                live(kill_at=forgetful, **own)
                if live(kill_at=0, **own)[0] == LOST:
                    return forgetful
            return 0

    with issuing(KEYS, tmp_path, InvitationCodes(tmp_path / "codes")) as url:
        forgetful = await asyncio.to_thread(lives, url)
    assert len(points) >= 25
    assert forgetful > 0
    with closing(sqlite3.connect(tmp_path / "given.sqlite")) as given:
        ((tokens,),) = given.execute("SELECT count(*) FROM given").fetchall()
    assert tokens == len(points) + 1 + forgetful
    assert await started.counted(recurring) == len(points) + forgetful


class HostileRelay(FaultyRelay):
    """Also holds requests back, and lets them arrive behind later ones: devices think them lost."""

    random = random.Random(8)

    def __init__(self, listen: tuple[str, int], gateway: str) -> None:
        super().__init__(listen, gateway)
        faulty = self.connect

        def late(connection: Any, *args: Any) -> None:
            with suppress(OSError, http.client.HTTPException), closing(connection):
                connection.request(*args)
                connection.getresponse().read()

        def connect() -> Any:
            connection = faulty()
            if self.random.random() < 0.3:
                own = http.client.HTTPConnection(connection.host, connection.port, timeout=10)

                def hold(*args: Any) -> None:
                    threading.Timer(self.random.uniform(0.02, 0.3), late, (own, *args)).start()
                    raise OSError

                connection.request = hold
            return connection

        self.connect = connect  # type: ignore[assignment]  # faults


class FailingIssuer(Issuer):
    """Down half of the time, before or after it has signed."""

    random = random.Random(9)

    def answer(self, name: str, credential: str, request: bytes) -> tuple[int, bytes]:
        fault = self.random.random()
        if fault < 0.25:
            return 503, b""
        answered = super().answer(name, credential, request)
        return answered if fault > 0.5 else (503, b"")


@pytest.mark.deep(keep=0, rest=0)
async def test_nothing_is_lost_or_double_where_all_fail_keys_change_and_clocks_differ(
    way: Start, recurring: Published, tmp_path: Path
) -> None:
    """Eight devices, whose clocks are up to 50 s off, before and after a period begins."""
    started = await way(HostileRelay)
    await started.web.wire.create(recurring)
    codes = InvitationCodes.invite(tmp_path / "codes", 8)
    skews = [timedelta(seconds=s) for s in (-50, -40, -35, 0, 0, 35, 40, 50)]
    assert recurring.campaign.period is not None
    begins = recurring.campaign.opens + recurring.campaign.period

    def take_part(number: int, url: str) -> None:
        client = started.client(
            str(number),
            started.with_tokens(str(number), url, codes[number]),
            Timing(now=lambda: started.now() + skews[number], sleep=lambda _: None),
        )
        with client:
            for _ in range(100):
                with suppress(TransportError):
                    client.fetch("income")
                    break
            client.contribute("income", 90_000.0)
            for _ in range(100):
                if not client.flush().pending:
                    break
            assert not client.counts().pending, client.history()[-1].failure

    attester = InvitationCodes(tmp_path / "codes")
    with (
        issuing(KEYS, tmp_path, attester, kind=FailingIssuer) as url,
        ThreadPoolExecutor(8) as pool,  # as the servers need asyncio's own
    ):
        run = asyncio.get_running_loop().run_in_executor
        for away in (-30, 30):
            started.now.now = begins + timedelta(seconds=away)
            tasks = [run(pool, take_part, n, url) for n in range(8)]
            devices_done = asyncio.gather(*tasks)
            for _ in range(2):
                await asyncio.sleep(0.3)
                GatewayKeys.rotate(started.keys, OPERATOR, timedelta(days=9_000))
            await devices_done
    # Slow clocks answer for the first period at both times, fast ones for the second.
    await asyncio.sleep(0.4)  # what was held back has arrived
    assert await started.counted(recurring) == 3 + 2 * 2 + 3


async def test_a_token_at_two_servers_of_one_database_at_once_counts_once(
    start_server: Callable[..., Awaitable[RunningServer]],
    recurring: Published,
    clock: Clock,
    postgres_url: str,
    wire_report: Callable[..., report_pb2.Report],
) -> None:
    servers = [await start_server(database=DatabaseURL(postgres_url)) for _ in range(2)]
    clock.now = recurring.campaign.opens
    await servers[0].wire.create(recurring)
    rule = TokenRule.of(recurring.campaign)
    assert rule is not None
    many = 10
    reports = [wire_report(n, (0, 0)) for n in range(many)]
    for report in reports:
        report.token = token_for(rule, report.report_id, 0, KEYS[0])
    stolen = wire_report(99, (0, 0))
    stolen.token = reports[0].token
    sent = [server.wire.submit(recurring, r) for r in (*reports, stolen) for server in servers * 3]
    statuses = [result.status for (result,) in await asyncio.gather(*sent)]
    assert statuses.count(report_pb2.REPORT_STATUS_ACCEPTED) == many
    assert statuses.count(report_pb2.REPORT_STATUS_DUPLICATE) == 5 * many
    assert statuses.count(report_pb2.REPORT_STATUS_REJECTED) == 6
    for server in servers:
        assert sum(n for n, _, _ in await server.wire.sums(recurring)) == many
