"""Test that a waiting report has its token long before its time, and then needs no issuer."""

import asyncio
import inspect
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from geoveil.client import AsyncClient, Client, Timing, TransportError
from geoveil.client.testing import InMemoryCollector, InMemoryTransport
from geoveil.proto.v1 import collector_pb2
from geoveil.relay import AsyncTokenTransport, Issuer, TokenTransport, tokens as tokens_of
from tests.aggregator.conftest import Clock
from tests.relay.conftest import KEYS, OPERATOR, POLICY


class Anybody:
    """Each credential is a person."""

    def account(self, credential):
        return credential


class Near:
    """Asks an issuer in this process, which may be down."""

    down = False
    times: list[Any]
    now: Any
    of: Any
    _credential: str

    def _ask(self, method, content, head, end, key_id):
        self.times.append(self.now())
        if self.down:
            raise TransportError("UNAVAILABLE", "the issuer is down")
        status, answer = self.of.answer(key_id.hex(), self._credential, content)
        if status == 409:
            raise tokens_of._GivenError
        return answer


class Blocking(Near, TokenTransport):
    """With blocking calls."""


class Awaited(Near, AsyncTokenTransport):
    """For asyncio."""


@pytest.mark.parametrize("kind", [Blocking, Awaited])
def test_a_token_is_got_when_its_report_is_drawn_and_kept_for_its_time(publish, tmp_path, kind):
    plain = publish(queries=1).campaign
    campaign = replace(
        plain, token_key=KEYS[0].public, window=timedelta(days=2), relay_operator=OPERATOR.public
    )
    now, seconds, times, fetched = Clock(), [0.0], [], []
    now.now = campaign.opens
    collector = InMemoryCollector([campaign])
    issuer = Issuer(KEYS[:1], Anybody(), Path(":memory:"))

    def receive(request):
        fetched.append(isinstance(request, collector_pb2.GetCampaignRequest))
        return collector(request)

    def client(name: str, operator: Any = OPERATOR.public) -> tuple[Any, Any]:
        inner = InMemoryTransport(receive)
        transport: Any = kind(
            inner if kind is Blocking else inner.aio,
            issuer="http://127.0.0.1/", credential="ada", state_dir=tmp_path / name,
        )  # fmt: skip
        transport.operator = operator
        transport.of, transport.now, transport.times = issuer, now, times
        timing = Timing(now=now, clock=lambda: seconds[0], jitter=lambda: 1.0)
        made: Any = (Client if kind is Blocking else AsyncClient)(
            policy=POLICY, transport=transport, background=False, release_floor_s=0,
            timing=timing, state_dir=tmp_path / name,
        )  # fmt: skip
        return transport, made

    with asyncio.Runner() as runner:

        def result(of):
            return runner.run(awaited(of)) if inspect.isawaitable(of) else of

        async def awaited(of):
            return await of

        transport, device = client("device")
        result(device.fetch("income"))
        departs = result(device.contribute("income", 90_000.0)).departs
        # By another way than the campaign's nothing is asked for, nor for its token.
        _, direct = client("device", operator=None)
        assert result(direct.flush()).pending == 1
        assert (times, fetched) == ([], [True])
        transport.down = True
        for _ in range(2):  # it is asked again when its pause is over
            assert result(device.flush()).pending == 1
        assert times == [campaign.opens]
        transport.down = False
        seconds[0] = 1.5
        for _ in range(2):
            assert result(device.flush()).pending == 1
        assert times == [campaign.opens] * 2
        transport.down = True
        assert fetched == [True] * 2
        _, other = client("other")
        result(other.fetch("income"))
        later = result(other.contribute("income", 90_000.0)).departs
        assert result(other.flush()).pending == 1
        now.now = departs
        assert result(device.flush()).acknowledged == 1
        assert fetched == [True] * 4 + [False]
        assert len(times) == 3
        now.now = max(departs, later)
        assert result(other.flush()).rejected == 1  # of one person
        for each in (device, direct, other):
            result(each.aclose(0) if kind is Awaited else each.close(0))
    issuer.close()
    assert len(collector.reports("income")) == 1
