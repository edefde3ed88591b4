"""Test campaigns with periods and tokens: one report a person and period."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from geoveil.campaign import TokenRule, token_key_id
from geoveil.client import GrpcTransport, TransportError
from geoveil.proto.v1 import report_pb2
from geoveil.relay import (
    InvitationCodes,
    Issuer,
    IssuerKey,
    TokenTransport,
)
from tests.aggregator.conftest import Published
from tests.relay.conftest import IDS, KEYS, Way, issuing, token_for

Start = Callable[..., Awaitable[Way]]


async def test_a_person_has_one_report_in_each_period(
    way: Start, recurring: Published, tmp_path: Path
) -> None:
    started = await way()
    await started.web.wire.create(recurring)
    (code,) = InvitationCodes.invite(tmp_path / "codes", 1)
    outcomes: list[int] = []

    def answer(name: str, url: str) -> Any:
        with started.client(name, started.with_tokens(name, url, code)) as client:
            client.fetch("income")
            client.contribute("income", 90_000.0)
            outcomes.append(client.flush().acknowledged)
            last = client.history()[-1]
            client.close(0)
        return last

    with issuing(KEYS, tmp_path, InvitationCodes(tmp_path / "codes")) as url:
        assert recurring.campaign.period is not None
        for period in range(3):
            middle = (period + 0.5) * recurring.campaign.period
            started.now.now = recurring.campaign.opens + middle
            first = await asyncio.to_thread(answer, "device", url)
            assert first.period == period
            second = await asyncio.to_thread(answer, "other", url)
            # What is refused for good does not keep the next period's report waiting.
            refusal = second.rejection if period < 2 else second.failure
            assert ("another report" if period < 2 else "status 404") in str(refusal)
    assert outcomes == [1, 0, 1, 0, 0, 0]
    assert await started.counted(recurring) == 2


async def test_a_token_serves_its_period_alone(
    way: Start, recurring: Published, wire_report: Callable[..., report_pb2.Report]
) -> None:
    started = await way()
    await started.web.wire.create(recurring)
    rule = TokenRule.of(recurring.campaign)
    assert rule is not None
    sound = wire_report(1, (0, 0))
    token = token_for(rule, sound.report_id, 0, KEYS[0])
    foreign = IssuerKey.generate()
    wrong: list[tuple[int, bytes]] = [
        (0, b""),
        (0, token[256:]),
        (0, token[:256]),
        (0, token + b"\0"),
        (1, token),  # which has not begun: refused for that only if its token is sound
        (0, token_for(rule, sound.report_id, 1, KEYS[1])),
        (0, token_for(rule, sound.report_id, 0, foreign)),
        (0, KEYS[0].public + token_for(rule, sound.report_id, 0, foreign)[256:]),
    ]
    started.now.now = recurring.campaign.closes - (recurring.campaign.period or 0) * 1.5  # type: ignore[operator]
    for period, bad in wrong:
        refused = report_pb2.Report(
            report_id=sound.report_id, answers=sound.answers, period=period, token=bad
        )
        (result,) = await started.web.wire.submit(recurring, refused)
        assert result.reason == report_pb2.REJECTION_REASON_WRONG_TOKEN
    beyond = report_pb2.Report(report_id=sound.report_id, period=3, token=token)
    (result,) = await started.web.wire.submit(recurring, beyond)
    assert result.reason == report_pb2.REJECTION_REASON_WRONG_PERIOD
    # An id in the campaign that names what is no key lets nothing in.
    no_key = bytes(255) + b"\2"
    of_no_key = TokenRule("income", b"campaign", token_key_id(no_key), recurs=True)
    assert not of_no_key.is_sound(bytes(16), no_key + bytes(256))
    sound.token = token
    (result,) = await started.web.wire.submit(recurring, sound)
    assert result.status == report_pb2.REPORT_STATUS_ACCEPTED


def test_an_issuer_shows_its_keys_and_a_device_takes_no_other(
    recurring: Published, tmp_path: Path
) -> None:
    pem = b"".join(key.to_pem() for key in KEYS)
    assert [key.public for key in IssuerKey.all_from_pem(pem)] == [key.public for key in KEYS]
    issuer = Issuer(KEYS, InvitationCodes(_codes(tmp_path)), tmp_path / "given.sqlite")
    assert issuer.key(IDS[:32].hex()) == KEYS[0].public
    assert issuer.key(IDS[:32].hex().upper()) == b""
    issuer.close()

    class Other(Issuer):
        """Shows a key of its own, by which it would know a device again."""

        def key(self, name: str) -> bytes:
            return KEYS[1].public

    rule = TokenRule.of(recurring.campaign)
    assert rule is not None
    with issuing(KEYS, tmp_path, InvitationCodes(tmp_path / "codes"), kind=Other) as url:
        transport = TokenTransport(
            GrpcTransport("127.0.0.1:1"), issuer=url, credential="x", state_dir=tmp_path / "d"
        )
        with pytest.raises(TransportError, match="another key") as caught:
            transport._token(rule, report_pb2.Report(report_id=bytes(16)), time.monotonic() + 10)
        assert caught.value.code == "DATA_LOSS"


def _codes(folder: Path) -> Path:
    InvitationCodes.invite(folder / "codes", 1)
    return folder / "codes"
