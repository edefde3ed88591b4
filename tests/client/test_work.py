"""Test that a campaign's work is bounded from its bytes, and near the truth."""

import math
import time
from collections.abc import Callable
from typing import Any

import pytest

from geoveil.campaign import (
    MECHANISMS,
    QUERIES,
    Allocation,
    Attribute,
    Campaign,
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    MechanismSpec,
    PlanarLaplaceSpec,
    SmoothSpec,
    codec,
    encode,
    seal,
)
from geoveil.client import (
    CampaignNotFetched,
    Client,
    InMemoryCollector,
    Limit,
    ParameterError,
    Point,
    Policy,
    PolicyRefused,
    Receipt,
    ReportBuilder,
)
from geoveil.client.policy import CampaignCost
from geoveil.gp import (
    Disc,
    GaussianKernel,
    GeoPrivacy,
    Linear,
    Polygon,
    Query,
    Radial,
    Range,
    TabulatedProfile,
    Threshold,
    TwoWayThreshold,
)
from geoveil.proto.v1 import campaign_pb2

Make = Callable[..., Any]
PRIVACY = GeoPrivacy(1e-3, 8000, "dollar")
THRESHOLD = Threshold(100_000, 16_000, "smoothstep")
# Only these are asked of perturbed points, and not of devices.
LATER = {"smoothed_disc", "smoothed_polygon"}


def star(corners: int) -> Polygon:
    turns = [2 * math.pi * i / corners for i in range(corners)]
    ring = [
        (1e6 * (1 + 0.3 * (i % 2)) * math.cos(t), 1e6 * math.sin(t)) for i, t in enumerate(turns)
    ]
    return Polygon([[ring]], 16_000, "smoothstep")


def table(pieces: int) -> TabulatedProfile:
    """Up and down, as steep as can be: it takes as many cells as any."""
    at = tuple(20_000.0 * i for i in range(pieces + 1))
    return TabulatedProfile(at, tuple(float(i % 2) for i in range(pieces + 1)), (0.0,) * 2 * pieces)


ASKED: dict[str, tuple[Query, int]] = {
    "threshold": (THRESHOLD, 60),
    "range": (Range(20_000, 100_000, 16_000, "smoothstep"), 60),
    "two_way_threshold": (TwoWayThreshold((2e4, 1e5), 16_000, "smoothstep"), 60),
    "disc": (Disc((0.0, 0.0), 1e5, 16_000, "smoothstep"), 60),
    "gaussian_kernel": (GaussianKernel((0.0, 0.0), 1e5), 60),
    "polygon": (star(500), 1),
    "small polygons": (star(5), 20),
    "radial": (Radial(table(15), (0.0, 0.0)), 10),
    "linear": (Linear(table(256), (1.0, 2.0)), 5),
}
DECLARED: dict[str, MechanismSpec] = {
    "debiased_laplace": DebiasedLaplaceSpec(),
    "lipschitz_laplace": LipschitzLaplaceSpec(),
    "smooth": SmoothSpec(0.3),
}


def campaign_of(make: Any, query: Query, count: int, mechanism: Any) -> Campaign:
    """Return a campaign that asks many times, slightly varied, and is answered in full."""
    made: Campaign = make(
        privacy=PRIVACY,
        queries=(query,) * count,
        mechanism=mechanism,
        allocation=Allocation.REPEAT,
    )
    return made


def permissive(campaign: Campaign) -> Policy:
    most = campaign.total_privacy
    kind = Policy.permitting(campaign).limit(campaign.attribute.name)
    assert kind is not None
    limit = Limit(campaign=most, value=kind.value)
    return Policy({campaign.attribute.name: limit}, most_queries=10**6, most_work=10**12)


def spent_us(campaign: Campaign, tries: int = 3) -> float:
    """Return the processor time of reading a campaign and drawing a report, in microseconds."""
    envelope = seal(encode(campaign))
    builder = ReportBuilder(policy=permissive(campaign))
    value: Any = 1.0 if campaign.dimension == 1 else (1.0,) * campaign.dimension
    taken = []
    for _ in range(tries):
        codec.decode.cache_clear()
        start = time.process_time()
        builder.prepare(builder.accept(campaign.campaign_id, envelope), value)
        taken.append(time.process_time() - start)
    return 1e6 * min(taken)


@pytest.mark.deep(keep=2)
@pytest.mark.parametrize("mechanism", DECLARED)
@pytest.mark.parametrize("query", ASKED)
def test_no_kind_takes_much_more_than_is_told(make_campaign, query, mechanism):
    """Against thresholds in the same run: a machine twice as slow is so for both."""
    reference = campaign_of(make_campaign, THRESHOLD, 60, SmoothSpec(0.3))
    asked = campaign_of(make_campaign, *ASKED[query], DECLARED[mechanism])
    per_us = [spent_us(c) / CampaignCost.of(encode(c)).work for c in (reference, asked)]
    assert per_us[1] <= 2 * per_us[0]


def test_every_kind_that_a_campaign_knows_has_its_price():
    kinds = campaign_pb2.Query.DESCRIPTOR.oneofs_by_name["kind"].fields
    priced = {family.wire.field for family in QUERIES if family.wire and not family.of_points}
    assert {field.name for field in kinds} - LATER - {"extension"} == priced
    mechanisms = campaign_pb2.Mechanism.DESCRIPTOR.oneofs_by_name["kind"].fields
    priced = {family.wire.field for family in MECHANISMS if family.wire}
    assert {field.name for field in mechanisms} - {"extension"} == priced


def test_what_is_told_grows_with_what_is_asked(make_campaign):
    def work(count: int, allocation: Allocation = Allocation.REPEAT) -> int:
        asked = make_campaign(queries=(THRESHOLD,) * count, allocation=allocation)
        return CampaignCost.of(encode(asked)).work

    assert work(1) < work(2) < work(60) < 10_000 < work(70)
    assert work(60, Allocation.PARTITION) < work(60, Allocation.SPLIT) == work(60)
    one, many = (CampaignCost.of(encode(campaign_of(
        make_campaign, star(n), 1, DebiasedLaplaceSpec()))).work for n in (10, 900))  # fmt: skip
    assert one < many < 10_000


@pytest.mark.parametrize(
    ("count", "settings", "aspect"),
    [
        (101, {}, "number of questions"),
        (80, {}, "work in microseconds"),
        (400, {}, "number of questions"),
        (400, {"most_queries": 400}, "work in microseconds"),
        (3, {"most_queries": 2}, "number of questions"),
        (3, {"most_work": 100}, "work in microseconds"),
        (60, {}, None),
        (80, {"most_work": 20_000}, None),
    ],
)
def test_what_asks_too_much_is_refused_when_it_is_fetched(
    make_client: Make, tape: Any, make_campaign: Any, make_source: Any,
    count: int, settings: dict[str, Any], aspect: str | None,
) -> None:  # fmt: skip
    asked = make_campaign(
        privacy=PRIVACY, queries=(THRESHOLD,) * count, allocation=Allocation.SPLIT
    )
    tape.handler = InMemoryCollector([asked])
    source = make_source(0)
    policy = Policy({"household income": PRIVACY}, **settings)
    client = make_client(policy=policy, source=source)
    if aspect is None:
        client.fetch("income")
        assert client.contribute("income", 52_000).fresh
        return
    codec.decode.cache_clear()
    with pytest.raises(PolicyRefused) as refused:
        client.fetch("income")
    assert refused.value.aspect == aspect
    assert codec.decode.cache_info().misses == 0  # nothing was made of it
    with pytest.raises(CampaignNotFetched):  # nor kept
        client.contribute("income", 52_000)
    assert source.draws == []


def test_whoever_was_shown_a_campaign_permits_its_work(make_campaign):
    asked = make_campaign(queries=(THRESHOLD,) * 300, allocation=Allocation.REPEAT)
    ReportBuilder(policy=Policy.permitting(asked)).accept("income", seal(encode(asked)))


def test_a_value_campaign_is_cheap(make_campaign):
    asked = make_campaign(
        attribute=Attribute(name="position", unit="dollar"), queries=(),
        mechanism=PlanarLaplaceSpec(3),
    )  # fmt: skip
    assert CampaignCost.of(encode(asked)) == CampaignCost(queries=0, work=240)
    limit = Limit(campaign=asked.privacy, value=Point(3))
    ReportBuilder(policy=Policy({"position": limit}, most_queries=0)).accept(
        "income", seal(encode(asked))
    )


@pytest.mark.parametrize("name", ["most_queries", "most_work"])
@pytest.mark.parametrize("count", [-1, 1.5, True, None, "10"])
def test_limits_are_integers(name, count):
    settings: dict[str, Any] = {name: count}
    with pytest.raises(ParameterError, match=name):
        Policy({}, **settings)


def contributes_meanwhile(source: Any, other: Client, campaign_id: str) -> list[Receipt]:
    """Let another client contribute as soon as bits are drawn; return what comes of it."""
    genuine, receipts = source.bits, []

    def bits(count: int) -> int:
        if not receipts:
            receipts.append(other.contribute(campaign_id, 52_000))
        return int(genuine(count))

    source.bits = bits
    return receipts


def test_a_draw_holds_up_nobody(make_client, tmp_path, make_campaign, collector, make_source):
    """While one client draws, another uses the same state directory."""
    collector.add(make_campaign("other"))
    state = tmp_path / "state"
    second = make_client(state_dir=state, fetched=("other",))
    source = make_source(0)
    receipts = contributes_meanwhile(source, second, "other")
    first = make_client(state_dir=state, fetched=("income",), source=source)
    assert first.contribute("income", 52_000).fresh
    assert receipts[0].fresh
    assert len(second.history()) == 2


def test_a_draw_that_comes_too_late_is_forgotten(make_client, tmp_path, collector, make_source):
    """Another client was faster: its report is the one, for both."""
    state = tmp_path / "state"
    second = make_client(state_dir=state, fetched=("income",))
    source = make_source(0)
    receipts = contributes_meanwhile(source, second, "income")
    first = make_client(state_dir=state, source=source)
    late = first.contribute("income", 152_000)
    assert late == receipts[0]
    assert (late.fresh, receipts[0].fresh) == (False, True)
    assert first.flush().acknowledged == 1
    assert [r.report_id.hex() for r in collector.reports("income")] == [late.report_id]
