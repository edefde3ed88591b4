"""Value campaigns: a perturbed point now, the questions later."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import numpy as np
import pytest

from geoveil.campaign import (
    Attribute,
    DebiasedLaplaceSpec,
    PlanarLaplaceSpec,
    PointQuestion,
    Question,
    ValueCampaign,
    decode,
    decode_point_question,
    encode,
    encode_point_question,
)
from geoveil.gp import (
    Disc,
    GaussianKernel,
    GeoPrivacy,
    ParameterError,
    PlanarLaplace,
    Polygon,
    SmoothedRegion,
    UnsupportedError,
)
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.gp.estimation import Accumulator, estimate
from geoveil.proto.v1 import campaign_pb2 as pb
from tests.campaigns import admits, campaign_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLANE = AzimuthalEquidistant(-73.95, 40.72, 60_000.0)


FIELDS = {
    "campaign_id": "points",
    "title": "Points",
    "attribute": Attribute(name="position", unit="metre"),
    "privacy": GeoPrivacy(1.0, 500.0, "metre"),
    "opens": NOW,
    "closes": NOW + timedelta(days=30),
}


def campaign(dimension=2, **changes):
    return ValueCampaign(**(FIELDS | {"mechanism": PlanarLaplaceSpec(dimension)} | changes))


PLACES = campaign(attribute=Attribute(name="location", unit="metre", coordinates=PLANE))


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_bytes_bring_it_back(dimension):
    asked = campaign(dimension, period=timedelta(days=7), minimum_participants=10)
    again = decode(encode(asked))
    assert again == asked
    assert isinstance(again, ValueCampaign)
    assert (again.columns, again.answers, again.slots) == (dimension, dimension, 5 * dimension)
    assert again.labels == ("x", "y", "z")[:dimension]
    assert again.point_mechanism == PlanarLaplace(asked.privacy, dimension)
    assert again.grid_exponent == -12  # 2^-20 of 500, rounded down to a power of two


def test_the_interval_of_a_mean_number_is_as_wide_as_its_error_says():
    """Numbers have no ends; one imagined at the end of 64 bits made it 10^14 wide."""
    asked = campaign(1)
    sent = asked.point_mechanism.simulate(np.zeros(2_000), np.random.default_rng(1))
    integers = np.rint(sent / asked.point_mechanism.step).astype(np.int64)
    sums = Accumulator.of(integers.ravel().tolist())
    found = estimate(sums, asked.grid_exponent, 0.95, asked.limits[0])
    assert found.ci_low < 0 < found.ci_high
    assert found.ci_high - found.ci_low == pytest.approx(2 * 1.96 * found.standard_error, rel=1e-3)


def test_places_are_calibrated_in_true_metres_with_all_of_the_privacy():
    kappa = Fraction(PLACES.attribute.distortion)
    rate = PLACES.point_mechanism.privacy.exact_rate
    assert Fraction(1, 500) / kappa * (1 - Fraction(1, 10**12)) < rate <= Fraction(1, 500) / kappa
    assert PLACES.labels == ("metres east", "metres north")


def test_a_grid_can_be_chosen():
    assert campaign(step_exponent=-3).point_mechanism.step == 0.125
    with pytest.raises(ParameterError, match=r"grid\.step_exponent"):
        campaign(step_exponent=300)


def test_a_report_holds_every_coordinate_once_in_order():
    asked = campaign(3)
    assert admits(asked, [0, 1, 2])
    for wrong in ([], [0], [0, 1], [1, 0, 2], [0, 1, 2, 3], [0, 0, 0]):
        assert not admits(asked, wrong)
    assert asked.ranges == ((-(2**63), 2**63 - 1),) * 3


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"mechanism": "planar"}, "mechanism"),
        ({"mechanism": DebiasedLaplaceSpec()}, "mechanism"),
    ],
)
def test_what_is_no_value_campaign_is_refused(changes, name):
    with pytest.raises(ParameterError, match=name):
        campaign(**changes)


def test_places_have_two_coordinates():
    with pytest.raises(ParameterError, match="2 for places"):
        replace(PLACES, mechanism=PlanarLaplaceSpec(3), step_exponent=None)


@pytest.mark.parametrize("dimension", [0, 4, True, 1.5, "2"])
def test_dimensions_that_cannot_be_released_are_refused(dimension):
    with pytest.raises(ParameterError, match="dimension"):
        PlanarLaplaceSpec(dimension)


def test_bytes_with_a_dimension_out_of_range_are_refused():
    message = pb.Campaign.FromString(encode(campaign()))
    message.mechanism.planar_laplace.dimension = 4
    with pytest.raises(ParameterError, match=r"mechanism\.dimension"):
        decode(message.SerializeToString(deterministic=True))


def test_bytes_with_questions_or_an_allocation_are_refused():
    message = pb.Campaign.FromString(encode(campaign()))
    message.allocation = pb.ALLOCATION_SPLIT
    with pytest.raises(ParameterError, match="allocation"):
        decode(message.SerializeToString(deterministic=True))
    question = Question("q", GaussianKernel((0.0, 0.0), 1e3))
    asked = campaign_of(**(FIELDS | {"mechanism": DebiasedLaplaceSpec(), "questions": (question,)}))
    message = pb.Campaign.FromString(encode(asked))
    message.mechanism.planar_laplace.dimension = 2
    with pytest.raises(ParameterError, match="number of queries"):
        decode(message.SerializeToString(deterministic=True))


SQUARE = [(0.0, 0.0), (900.0, 0.0), (900.0, 600.0), (0.0, 600.0)]
HOLE = [(300.0, 200.0), (600.0, 200.0), (600.0, 400.0), (300.0, 400.0)]


@pytest.mark.parametrize(
    "region",
    [Disc((100.0, -50.0), 800.0, 1.0), Polygon([SQUARE, HOLE], 7.0)],
    ids=lambda region: type(region).__name__,
)
def test_smoothed_regions_come_back(region):
    points = [[120.0, 40.0], [880.0, 590.0], [450.0, 300.0], [-100.0, -900.0]]
    asked = SmoothedRegion(region, bandwidth=200.0)
    message = encode_point_question(PointQuestion("in", asked))
    again = decode_point_question(0, pb.Query.FromString(message.SerializeToString()))
    assert isinstance(again.query, SmoothedRegion)
    assert again.query.value(points).tolist() == asked.value(points).tolist()


def test_regions_without_a_form_on_the_wire_are_refused():
    strip = SmoothedRegion(lambda at: at[:, 0], 100.0, bounds=(0.0, 0.0, 500.0, 500.0))
    cut = SmoothedRegion(Disc((0.0, 0.0), 800.0, 1.0), 100.0, bounds=(0.0, 0.0, 500.0, 500.0))
    for query in (strip, cut):
        with pytest.raises(UnsupportedError, match="can't go on the wire"):
            encode_point_question(PointQuestion("in", query))


def test_smoothed_regions_are_no_queries_of_a_campaign():
    message = pb.Campaign.FromString(encode(campaign()))
    message.mechanism.debiased_laplace.SetInParent()
    region = SmoothedRegion(Disc((0.0, 0.0), 800.0, 1.0), 100.0)
    message.queries.append(encode_point_question(PointQuestion("in", region)))
    with pytest.raises(ParameterError, match=r"queries\[0\]\.kind"):
        decode(message.SerializeToString(deterministic=True))


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (pb.Query(label="q"), r"queries\[3\]\.kind"),
        (pb.Query(label="", threshold=pb.Threshold(at=1, width=1, profile=1)), r"query\.label"),
        (pb.Query(label="q", smoothed_disc=pb.SmoothedDisc(center=[0, 0], bandwidth=1)), "radius"),
        (pb.Query(label="q", smoothed_polygon=pb.SmoothedPolygon(bandwidth=1)), r"queries\[3\]"),
    ],
)
def test_queries_that_mean_nothing_are_refused(message, name):
    with pytest.raises(ParameterError, match=name):
        decode_point_question(3, message)


def test_only_queries_can_be_asked():
    with pytest.raises(ParameterError, match="query"):
        PointQuestion("q", "a threshold")
