"""Test that a campaign is validated as a whole, and survives a trip through bytes."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from geoveil.campaign import (
    Allocation,
    Attribute,
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    Question,
    SmoothSpec,
    State,
    StatisticCampaign,
    decode,
    digest,
    encode,
)
from geoveil.gp import (
    Disc,
    GaussianKernel,
    GeoPrivacy,
    GeoVeilError,
    ParameterError,
    Polygon,
    Range,
    SeededSource,
    Threshold,
    TwoWayThreshold,
    UnsupportedError,
)
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.proto.v1 import campaign_pb2 as pb
from tools.vectors.examples import ONE_BY_ONE

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def incomes(**changes):
    fields = {
        "campaign_id": "income",
        "title": "Income above 100k",
        "attribute": Attribute(name="household income", unit="dollar"),
        "privacy": GeoPrivacy(1.0, 8_000.0, "dollar"),
        "questions": (Question("above", Threshold(100_000, 24_000, "smoothstep")),),
        "opens": NOW,
        "closes": NOW + timedelta(days=30),
    }
    return StatisticCampaign(**(fields | changes))


def places(**changes):
    plane = AzimuthalEquidistant(-73.95, 40.72, 60_000.0)
    fields = {
        "campaign_id": "places",
        "attribute": Attribute(name="location", unit="metre", coordinates=plane),
        "privacy": GeoPrivacy(1.0, 500.0, "metre"),
        "questions": tuple(
            Question(f"q{i}", GaussianKernel((1000.0 * i, 0.0), 1500.0)) for i in range(4)
        ),
    }
    return incomes(**(fields | changes))


def district(x, y, size):
    """Return a square with a hole, and a triangle beside it."""
    square = [(x + a * size, y + b * size) for a, b in ((0, 0), (4, 0), (4, 4), (0, 4))]
    hole = [(x + a * size, y + b * size) for a, b in ((1, 1), (3, 1), (3, 3), (1, 3))]
    triangle = [(x + a * size, y + b * size) for a, b in ((6, 0), (9, 0), (6, 5))]
    return [(square, [hole]), (triangle, [])]


smooth = st.sampled_from(["smoothstep"])
lengths = st.floats(50, 1e6)
coordinates = st.floats(-1e9, 1e9)
QUERIES = st.one_of(
    st.builds(Threshold, coordinates, lengths, smooth),
    st.builds(lambda low, w, p: Range(low, low + 3 * w + abs(low) * 1e-9, w, p),
              st.floats(-1e6, 1e6), st.floats(1, 1e6), smooth),
    st.builds(lambda a, b, w, p: TwoWayThreshold((a, b), w, p),
              coordinates, coordinates, lengths, smooth),
    st.builds(lambda c, r, p: Disc(c, r, r / 2, p), st.tuples(coordinates, coordinates),
              lengths, smooth),
    st.builds(lambda x, y, w, p: Polygon(district(x, y, w), w, p),
              st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), lengths, smooth),
    st.builds(GaussianKernel, st.tuples(coordinates, coordinates), lengths),
    st.builds(GaussianKernel, coordinates, lengths),
)  # fmt: skip


@given(
    QUERIES,
    st.sampled_from([DebiasedLaplaceSpec(), LipschitzLaplaceSpec(), SmoothSpec(0.2)]),
    st.sampled_from(ONE_BY_ONE),
    st.integers(1, 4),
    st.datetimes(datetime(2000, 1, 1), datetime(2090, 1, 1)),
)
def test_bytes_bring_every_campaign_back(query, mechanism, allocation, count, opens):
    opens = opens.replace(tzinfo=UTC)
    campaign = incomes(
        questions=tuple(Question(f"q{i}", query) for i in range(count)),
        mechanism=mechanism,
        allocation=allocation,
        privacy=GeoPrivacy(1.0, 1e3, "dollar"),
        opens=opens,
        closes=opens + timedelta(days=1),
        step_exponent=-20,
    )
    again = decode(encode(campaign))
    assert again == campaign
    assert encode(again) == encode(campaign)
    assert [m.grid_range for m in again.mechanisms] == [m.grid_range for m in campaign.mechanisms]


def test_places_come_back_and_are_calibrated_in_true_metres():
    campaign = decode(encode(places()))
    assert campaign == places()
    kappa = campaign.attribute.distortion
    assert kappa > 1
    assert campaign.mechanisms[0].privacy.exact_rate <= Fraction(1, 500) / Fraction(kappa)


def several(questions, allocation):
    asked = (Question(f"q{i}", Threshold(i, 1e5, "smoothstep")) for i in range(questions))
    return incomes(questions=tuple(asked), allocation=allocation)


def test_partition_draws_each_query_alike_and_split_all():
    """Chi-square over 4 queries, n = 20,000, alpha = 1e-6: limit 30.66; a fold must fail."""
    source = SeededSource(5)
    campaign = several(4, Allocation.PARTITION)
    drawn = [campaign.draw_columns(source)[0] for _ in range(20_000)]
    folded = [source.bits(8) % 6 % 4 for _ in range(20_000)]

    def statistic(sample):
        return sum((sample.count(i) - 5_000) ** 2 / 5_000 for i in range(4))

    assert statistic(drawn) < 30.66 < statistic(folded)
    assert list(several(3, Allocation.SPLIT).draw_columns(source)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"campaign_id": "Income"}, "campaign_id"),
        ({"campaign_id": "a" * 65}, "campaign_id"),
        ({"campaign_id": ""}, "campaign_id"),
        ({"title": " "}, "title"),
        ({"title": "two\nlines"}, "title"),
        ({"questions": ()}, "number of queries"),
        ({"questions": (Question("x", Threshold(1, 1, "smoothstep")),) * 2}, "labels"),
        ({"privacy": GeoPrivacy(1, 8000, "euro")}, "privacy"),
        ({"privacy": GeoPrivacy(1, 8000, "dollar", delta=1e-6)}, "privacy"),
        ({"opens": datetime(2026, 1, 1)}, "opens"),
        ({"closes": NOW}, "closes"),
        ({"closes": NOW + timedelta(days=4000)}, "closes"),
        ({"step_exponent": 201}, "step_exponent"),
        ({"step_exponent": 1}, "step"),
    ],
)
def test_what_is_unsound_is_named(changes, named):
    with pytest.raises(ParameterError, match=named):
        incomes(**changes)


def test_a_mechanism_without_a_proof_for_the_query_is_refused():
    with pytest.raises(UnsupportedError, match="smoothstep"):
        incomes(questions=(Question("above", Threshold(1e5, 2.4e4, "linear")),))


def test_places_need_planar_queries_and_metres():
    with pytest.raises(ParameterError, match="dimension"):
        places(questions=(Question("q", Threshold(1, 1, "smoothstep")),))
    with pytest.raises(ParameterError, match="metre"):
        Attribute(name="location", unit="mile", coordinates=AzimuthalEquidistant(0, 0, 1.0))


def test_state_follows_the_dates():
    campaign = incomes()
    assert campaign.state(NOW - timedelta(seconds=1)) is State.PENDING
    assert campaign.state(NOW) is State.OPEN
    assert campaign.state(campaign.closes) is State.CLOSED
    assert campaign.state(NOW, closed=True) is State.CLOSED


@given(st.binary(max_size=300))
def test_any_bytes_are_a_campaign_or_a_typed_error(data):
    try:
        campaign = decode(data)
    except GeoVeilError:
        return
    assert encode(campaign) == data


def test_decoding_errors_name_the_field():
    message = pb.Campaign.FromString(encode(incomes()))
    message.privacy.epsilon = -1
    with pytest.raises(ParameterError, match=r"privacy\.epsilon"):
        decode(message.SerializeToString())
    message = pb.Campaign.FromString(encode(incomes()))
    message.queries[0].threshold.width = math.nan
    with pytest.raises(ParameterError, match=r"queries\[0\]\.width"):
        decode(message.SerializeToString())


def test_a_polygon_with_half_a_point_is_refused_by_name():
    question = Question("district", Polygon(district(0.0, 0.0, 1e3), 1e3, "smoothstep"))
    message = pb.Campaign.FromString(encode(places(questions=(question,))))
    assert decode(message.SerializeToString(deterministic=True)).questions[0] == question
    message.queries[0].polygon.parts[1].rings[0].coordinates.append(7.0)
    with pytest.raises(ParameterError, match=r"parts\[1\]\.rings\[0\]\.coordinates"):
        decode(message.SerializeToString(deterministic=True))
    del message.queries[0].polygon.parts[:]
    with pytest.raises(ParameterError, match=r"queries\[0\]"):
        decode(message.SerializeToString(deterministic=True))


@pytest.mark.parametrize("ends", [(0, 10_000_000), (None, 3), (90_000.5, None)])
def test_a_range_is_signed_and_changes_nothing_that_is_sent(ends):
    """The same bits give the same report, at the same ε, of numbers beyond the range as well."""
    plain = incomes()
    attribute = replace(plain.attribute, least=ends[0], most=ends[1])
    stated = replace(plain, attribute=attribute)
    assert decode(encode(stated)) == stated
    assert digest(encode(stated)) != digest(encode(plain))
    for name in ("report_privacy", "total_privacy", "ranges", "grid_exponent", "limits"):
        assert getattr(stated, name) == getattr(plain, name)
    for value in (-5.0, 52_000.0, 999_999_999_999.0):
        assert stated.attribute.point(value, 1) == plain.attribute.point(value, 1) == value
        one, other = (c.release(value, (0,), SeededSource(4)) for c in (plain, stated))
        assert one == other


@pytest.mark.parametrize(
    "ends", [(1, 1), (2, 1), ("0", 1), (math.nan, 1), (0, math.inf), (True, 3)]
)
def test_ends_that_are_no_range_are_refused(ends):
    with pytest.raises(ParameterError, match=r"attribute\.(least|most)"):
        Attribute(name="income", unit="dollar", least=ends[0], most=ends[1])


def test_only_one_number_has_a_range():
    for made in (places(), incomes(questions=(Question("both", TwoWayThreshold((1, 2), 1)),),
                                   mechanism=LipschitzLaplaceSpec())):  # fmt: skip
        with pytest.raises(
            ParameterError, match=r"attribute\.most must be None, but of one number"
        ):
            replace(made, attribute=replace(made.attribute, most=5))
