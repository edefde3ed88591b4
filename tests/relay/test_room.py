"""Test that a campaign too long for a relay is refused before it is published."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from geoveil.campaign import ChoiceField, FormCampaign, SigningKey, digest, seal
from geoveil.client import TransportError
from geoveil.gp import ParameterError
from geoveil.proto.v1 import analyst_pb2, campaign_pb2, collector_pb2
from geoveil.relay import require_room
from tests.aggregator.conftest import Published
from tests.relay.conftest import OPERATOR, Way

Start = Callable[..., Awaitable[Way]]


async def test_exactly_what_is_not_refused_comes_through(
    way: Start, publish: Callable[..., Published]
) -> None:
    running = await way()
    made, key = publish(queries=110).campaign, SigningKey.generate()
    made = replace(made, relay_operator=OPERATOR.public)

    def passes(n: int) -> bool:
        try:
            require_room(replace(made, title=n * "t"))
        except ParameterError:
            return False
        return True

    longest, shortest_refused = 1, 199
    while shortest_refused - longest > 1:
        middle = (longest + shortest_refused) // 2
        longest, shortest_refused = (
            (middle, shortest_refused) if passes(middle) else (longest, middle)
        )
    assert 1 < longest < 198
    stub: Any = running.web.wire.analyst
    digests = []
    for n, name in ((longest, "yncome"), (shortest_refused, "zncome")):
        campaign = replace(made, title=n * "t", campaign_id=name)
        envelope = campaign_pb2.CampaignEnvelope.FromString(seal(campaign.encoded, key))
        asked = analyst_pb2.CreateCampaignRequest(envelope=envelope)
        await stub.CreateCampaign(asked)
        digests.append(digest(campaign.encoded))
    transport = running.transport()
    request = collector_pb2.GetCampaignRequest(campaign_id="yncome")
    answer = await asyncio.to_thread(transport.get_campaign, request, 10.0)
    assert digest(answer.envelope.campaign) == digests[0]
    request = collector_pb2.GetCampaignRequest(campaign_id="zncome")
    with pytest.raises(TransportError, match="longer than 4,064 bytes"):
        await asyncio.to_thread(transport.get_campaign, request, 10.0)


def test_the_part_that_takes_most_is_named(publish: Callable[..., Published]) -> None:
    plain = publish(queries=150).campaign
    with pytest.raises(
        ParameterError, match=r"queries must be less: ask fewer questions, because a rel"
    ):
        require_room(plain)
    recurs = replace(publish(queries=1).campaign, period=(plain.closes - plain.opens) / 125)
    ids = b"".join(n.to_bytes(32, "big") for n in range(125))
    with pytest.raises(
        ParameterError, match=r"token_key must be less: have fewer periods"
    ) as raised:
        require_room(replace(recurs, token_key=ids))
    assert raised.value.value == "4,004 bytes"
    fields = tuple(
        ChoiceField(name=name, options=tuple(f"{name} {n}" for n in range(many)), epsilon=1)
        for name, many in (("town", 500), ("party", 9))
    )
    form = FormCampaign(
        campaign_id="form", title="Form", opens=plain.opens, closes=plain.closes, fields=fields
    )
    with pytest.raises(
        ParameterError, match=r"field town must be less: shorten its texts"
    ) as raised:
        require_room(form)
    require_room(replace(form, fields=fields[1:]))
