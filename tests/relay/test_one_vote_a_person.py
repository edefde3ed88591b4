"""Test that one person has one report in campaigns with tokens, through crashes and replays."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from geoveil.campaign import TokenRule, decode
from geoveil.client import GrpcTransport, PolicyRefused, TransportError
from geoveil.gp import ParameterError
from geoveil.proto.v1 import report_pb2
from geoveil.relay import (
    InvitationCodes,
    Issuer,
    IssuerKey,
    TokenTransport,
    WebAttester,
)
from geoveil.relay.blind_rsa import blind, unblind
from tests.aggregator.conftest import Published
from tests.relay.conftest import OPERATOR, Way, issuing, running

KEY = IssuerKey.generate()


@pytest.fixture
def campaign(publish: Callable[..., Published]) -> Published:
    plain = publish(queries=1).campaign
    made = replace(plain, token_key=KEY.public, relay_operator=OPERATOR.public)
    assert decode(made.encoded) == made
    return Published.of(made)


async def test_a_person_who_tries_often_is_counted_once(
    started: Way, campaign: Published, tmp_path: Path
) -> None:
    codes = InvitationCodes.invite(tmp_path / "codes", 2)
    outcomes = []

    def tries(url: str) -> None:
        for number in range(10):
            transport = started.with_tokens(f"try-{number}", url, codes[0])
            with started.client(f"try-{number}", transport) as client:
                client.fetch("income")
                client.contribute("income", 90_000.0)
                outcomes.append(client.flush().acknowledged)
                if not outcomes[-1]:
                    assert "for another report" in str(client.history()[0].rejection)
                client.close(0)
        other = started.with_tokens("other", url, codes[1])
        with started.client("other", other) as client:
            client.fetch("income")
            client.contribute("income", 90_000.0)
            outcomes.append(client.flush().acknowledged)
        nobody = started.with_tokens("nobody", url, "no code")
        with started.client("nobody", nobody) as client:
            client.fetch("income")
            client.contribute("income", 90_000.0)
            assert client.flush().pending == 1
            assert "PERMISSION_DENIED" in str(client.history()[0].failure)
            client.close(0)

    with issuing([KEY], tmp_path, InvitationCodes(tmp_path / "codes")) as url:
        await asyncio.to_thread(tries, url)
    assert outcomes == [1, *9 * [0], 1]
    assert await started.counted(campaign) == 2
    # What the issuer keeps is not in what the server sees.
    kept = (tmp_path / "given.sqlite").read_bytes()
    assert campaign.campaign_id.encode() not in kept
    for code in codes:
        assert code.encode() not in kept + started.far.seen


@pytest.mark.deep(keep=0, rest=0)
async def test_a_person_who_tries_a_hundred_times_at_once_is_counted_once(
    started, campaign, tmp_path
):
    (code,) = InvitationCodes.invite(tmp_path / "codes", 1)

    def attempt(number: int) -> tuple[int, int]:
        transport = started.with_tokens(f"try-{number}", url, code)
        with started.client(f"try-{number}", transport) as client:
            client.fetch("income")
            client.contribute("income", 90_000.0)
            done = client.flush()
            client.close(0)
            return done.acknowledged, done.rejected

    with (
        issuing([KEY], tmp_path, InvitationCodes(tmp_path / "codes")) as url,
        ThreadPoolExecutor(10) as pool,
    ):
        run = asyncio.get_running_loop().run_in_executor
        outcomes = await asyncio.gather(*(run(pool, attempt, n) for n in range(100)))
    assert sorted(outcomes) == [*99 * [(0, 1)], (1, 0)]
    assert await started.counted(campaign) == 1


class CutOffError(Exception):
    """Stands for the end of a process."""


async def test_a_device_that_ends_at_any_step_goes_on_and_is_counted_once(
    started: Way, campaign: Published, tmp_path: Path
) -> None:
    codes = InvitationCodes.invite(tmp_path / "codes", 4)

    def attempt(name: str, url: str, code: str, step: str) -> None:
        """Send, and end before or after the issuer, or the server, has answered."""
        transport = started.with_tokens(name, url, code)
        issuer, inner = transport._issuer, transport._transport

        class Ending:
            def __init__(self, after: bool) -> None:
                self.after = after

            def ask(self, *args: Any, **kwargs: Any) -> Any:
                if self.after:
                    issuer.ask(*args, **kwargs)
                raise CutOffError

            get_campaign = inner.get_campaign

            def submit_reports(self, *args: Any) -> Any:
                if self.after:
                    inner.submit_reports(*args)
                raise CutOffError

        part, after = step.split()
        setattr(transport, f"_{part}", Ending(after == "after"))
        client = started.client(name, transport)
        client.fetch("income")
        client.contribute("income", 90_000.0)
        with pytest.raises(CutOffError):
            client.flush()
        client.close(0)

    def lives(url: str) -> None:
        steps = ("issuer before", "issuer after", "transport before", "transport after")
        for number, step in enumerate(steps):
            attempt(f"device-{number}", url, codes[number], step)
            again = started.with_tokens(f"device-{number}", url, codes[number])
            with started.client(f"device-{number}", again) as client:
                assert client.flush().acknowledged == 1, step

    with issuing([KEY], tmp_path, InvitationCodes(tmp_path / "codes")) as url:
        await asyncio.to_thread(lives, url)
    assert await started.counted(campaign) == 4


async def test_a_report_without_its_token_is_refused(
    started: Way, campaign: Published, wire_report: Callable[..., report_pb2.Report]
) -> None:
    wire = started.web.wire
    rule = TokenRule.of(campaign.campaign)
    assert rule is not None
    sound = wire_report(1, (0, 0))
    sound.token = _token(rule, sound.report_id)
    stolen = wire_report(2, (0, 0))
    stolen.token = sound.token
    wrong = report_pb2.REJECTION_REASON_WRONG_TOKEN
    for refused in (wire_report(3, (0, 0)), stolen):
        (result,) = await wire.submit(campaign, refused)
        assert (result.status, result.reason) == (report_pb2.REPORT_STATUS_REJECTED, wrong)
    many = [wire_report(n, (0, 0)) for n in range(10, 200)]  # which NumPy would read
    results = await wire.submit(campaign, *many)
    assert {result.reason for result in results} == {wrong}
    at_once = await asyncio.gather(*(wire.submit(campaign, sound) for _ in range(8)))
    statuses = sorted(result.status for (result,) in at_once)
    assert statuses == [report_pb2.REPORT_STATUS_ACCEPTED] + 7 * [
        report_pb2.REPORT_STATUS_DUPLICATE
    ]
    assert await started.counted(campaign) == 1


def _token(rule: TokenRule, report_id: bytes) -> bytes:
    blinded = blind(rule.key, rule.message(report_id), bytes(48), 3**99)
    return unblind(rule.key, KEY.sign(blinded), 3**99)


async def test_a_client_that_gets_no_tokens_refuses_before_it_draws(
    started: Way, campaign: Published
) -> None:

    def fetch() -> None:
        refused = pytest.raises(PolicyRefused, match="token is one from its issuer")
        with started.client("device") as client, refused:
            client.fetch("income")

    await asyncio.to_thread(fetch)


def test_a_token_key_is_a_modulus_and_with_periods_an_id_for_each(
    publish: Callable[..., Published],
) -> None:
    plain = publish(queries=1).campaign
    for key in (b"", bytes(256), KEY.public[:-1] + b"\0", "ab"):
        with pytest.raises(ParameterError, match="token_key must be the 256 bytes of an RSA mod"):
            replace(plain, token_key=key)  # type: ignore[arg-type]
    recurs = replace(plain, period=(plain.closes - plain.opens) / 3)
    ids = bytes(range(96))
    assert decode(replace(recurs, token_key=ids).encoded).token_key == ids
    for key in (b"", ids[:64], ids + bytes(32), ids[:64] + ids[:32], KEY.public, "ab"):
        with pytest.raises(ParameterError, match="for each of 3 periods, all different"):
            replace(recurs, token_key=key)  # type: ignore[arg-type]


class AccountsHandler(BaseHTTPRequestHandler):
    """An app's own server: two sessions of ada, and one that makes it fail."""

    def do_GET(self) -> None:
        session = self.headers["authorization"].removeprefix("Bearer ")
        status, name = {"a1": (200, b"ada"), "a2": (200, b"ada"), "down": (500, b"")}.get(
            session, (401, b"")
        )
        self.send_response_only(status)
        self.send_header("content-length", str(len(name)))
        self.end_headers()
        self.wfile.write(name)


def test_an_app_says_who_its_accounts_are(tmp_path: Path) -> None:
    rule = TokenRule("income", b"campaign", KEY.public)
    with HTTPServer(("127.0.0.1", 0), AccountsHandler) as accounts, running(accounts):
        attester = WebAttester(f"http://127.0.0.1:{accounts.server_port}/who")
        issuer = Issuer([KEY], attester, tmp_path / "given.sqlite")
        message = rule.message(bytes(16))
        name, head = message[-32:].hex(), b"\0\2" + message[-1:]
        first, second = (
            head + blind(KEY.public, rule.message(bytes([n] * 16)), bytes(48), 3**99)
            for n in (1, 2)
        )
        status, answered = issuer.answer(name, "a1", first)
        assert status == 200
        assert issuer.answer(name, "a2", first) == (200, answered)
        assert issuer.answer(name, "a2", second)[0] == 409
        others = (head + n.to_bytes(256, "big") for n in range(2, 102))
        assert {issuer.answer(name, "a1", each)[0] for each in others} == {409}
        assert issuer.answer(name, "else", second)[0] == 401
        assert issuer.answer(name, "down", second)[0] == 503
        assert issuer.answer(32 * "00", "a1", first)[0] == 404
        for wrong in (b"", b"\0\1" + first[2:], first + b"\0"):
            assert issuer.answer(name, "a1", wrong)[0] == 422
        issuer.close()
    with pytest.raises(TransportError):
        attester.account("a1")


def test_what_can_not_serve_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="geoveil relay invite"):
        InvitationCodes(tmp_path / "none")
    inner = GrpcTransport("127.0.0.1:1")
    for change in ({"issuer": "nowhere"}, {"credential": "\n"}, {"state_dir": "/dev/null/x"}):
        given = {"issuer": "http://127.0.0.1:1/", "credential": "c", "state_dir": tmp_path}
        with pytest.raises(ParameterError):
            TokenTransport(inner, **(given | change))  # type: ignore[arg-type]
    made: list[bytes] = []

    def make() -> None:
        one = TokenTransport(inner, issuer="http://127.0.0.1:1/", credential="c",
                             state_dir=tmp_path)  # fmt: skip
        made.append(one._secret)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8
    assert len(set(made)) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["tokens.sqlite"]
