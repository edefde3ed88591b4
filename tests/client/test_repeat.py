"""Test that a report that answers every query with all of ε is charged the sum."""

import math
from typing import Any

import pytest

from geoveil.campaign import Allocation, Campaign, LipschitzLaplaceSpec
from geoveil.client import Budget, Limit, Policy, PolicyRefused
from geoveil.gp import Threshold
from geoveil.proto.v1 import report_pb2
from tests.client.conftest import dollars

M = 3


def policy_of(*, campaign: float = 100, lifetime: float | None = None, **more: Any) -> Policy:
    most = None if lifetime is None else dollars(lifetime)
    return Policy({"household income": Limit(campaign=dollars(campaign), lifetime=most, **more)})


@pytest.fixture
def repeat(make_campaign, collector):
    """Three questions, each answered for ε = 1 per 8,000 dollars."""
    made: Campaign = make_campaign(
        "repeat",
        queries=tuple(Threshold(80_000 + 20_000 * i, 16_000, "smoothstep") for i in range(M)),
        allocation=Allocation.REPEAT,
    )
    collector.add(made)
    return made


def test_all_queries_are_answered_and_all_of_them_are_charged(
    make_either, state_dir, repeat, collector
):
    policy = policy_of(lifetime=10)
    client = make_either(state_dir=state_dir, policy=policy, fetched=("repeat",))
    receipt = client.contribute("repeat", 97_000)
    assert receipt.privacy == dollars(M)
    assert [answer.query_index for answer in receipt.answers] == [0, 1, 2]
    assert client.flush().acknowledged == 1
    (kept,) = client.history()
    assert kept.privacy == dollars(M)
    (budget,) = client.budgets()
    assert budget == Budget(
        attribute="household income", scope="lifetime", limit=dollars(10), spent=float(M)
    )
    (sent,) = collector.reports("repeat")
    assert [a.query_index for a in sent.answers] == [0, 1, 2]
    assert client.contribute("repeat", 1.0) == kept  # once, as ever
    assert client.budgets() == (budget,)


@pytest.mark.parametrize(
    ("most", "permitted"),
    [(1.0, False), (2.0, False), (math.nextafter(M, 0), False), (float(M), True), (4.0, True)],
)
def test_a_cap_is_compared_with_the_sum(make_either, repeat, make_source, most, permitted):
    """Between ε and mε as well: a cap on a campaign is none on each of its queries."""
    source = make_source(0)
    client = make_either(policy=policy_of(campaign=most), source=source)
    if permitted:
        client.fetch("repeat")
        assert client.contribute("repeat", 97_000).privacy == dollars(M)
        return
    with pytest.raises(PolicyRefused) as refused:
        client.fetch("repeat")
    assert refused.value.stated == "ε = 3 per 8000 dollar"
    assert source.draws == []


def test_the_answers_of_a_report_are_drawn_independently(
    make_client, make_campaign, collector, make_source
):
    """Two equal answers to one question put twice would mean that noise was used again."""
    collector.add(
        make_campaign(
            "twice",
            queries=(Threshold(97_000, 16_000, "smoothstep"),) * 2,
            allocation=Allocation.REPEAT,
            mechanism=LipschitzLaplaceSpec(),  # whose answers have no atoms
        )
    )
    client = make_client(policy=policy_of(), fetched=("twice",), source=make_source(1))
    client.contribute("twice", 97_000)
    client.flush()
    (sent,) = collector.reports("twice")
    assert isinstance(sent, report_pb2.Report)
    first, second = (answer.value for answer in sent.answers)
    assert first != second
