"""Test campaigns with a cap: writing, signing, refusal, and the stated ε of any two values."""

import math
from dataclasses import replace
from datetime import timedelta

import pytest

from geoveil.campaign import (
    Allocation,
    Attribute,
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    PlanarLaplaceSpec,
    Question,
    Readings,
    SignatureInvalid,
    SigningKey,
    SmoothSpec,
    decode,
    digest,
    encode,
    make_campaign,
    open_envelope,
    seal,
    signer,
    unbiased_for,
)
from geoveil.gp import (
    Cap,
    Disc,
    GaussianKernel,
    GeoPrivacy,
    ParameterError,
    Range,
    SeededSource,
    Threshold,
)
from geoveil.proto.v1 import campaign_pb2 as pb
from tools.vectors.chance import PARIS
from tools.vectors.examples import small_campaign

CAP = Cap(4.0, 4.0)
RAMPS = tuple(Question(f"q{at}", Threshold(1e3 * at, 16_000.0)) for at in (90, 120))


def test_a_cap_travels_and_is_part_of_the_digest():
    free, capped = small_campaign("c"), small_campaign("c", cap=CAP)
    assert decode(encode(capped)) == capped
    assert decode(encode(capped)).cap == CAP
    bytes_of = {encode(free), encode(capped), encode(small_campaign("c", cap=Cap(4.0, 4.5)))}
    assert len({digest(encoded) for encoded in bytes_of}) == 3
    assert capped.ranges == free.ranges
    assert capped.grid_exponent == free.grid_exponent
    assert capped.report_privacy == free.report_privacy


@pytest.mark.parametrize("above", [None, 4.5, 400.0])
def test_no_server_can_loosen_the_cap_of_a_signed_campaign(above):
    envelope = open_envelope(seal(encode(small_campaign("c", cap=CAP)), SigningKey.generate()))
    assert signer(envelope) is not None
    message = pb.Campaign.FromString(envelope.campaign)
    if above is None:
        message.ClearField("cap")
    else:
        message.cap.above = above
    envelope.campaign = message.SerializeToString(deterministic=True)
    decode(envelope.campaign)  # sound, but not what was signed
    with pytest.raises(SignatureInvalid):
        signer(envelope)


@pytest.mark.parametrize(
    ("allocation", "stated"),
    [
        (Allocation.PARTITION, 8.0),
        (Allocation.SPLIT, 16.0),
        (Allocation.REPEAT, 16.0),
        (Allocation.VECTOR, 16.0),
    ],
)
def test_what_a_report_tells_of_any_two_values_is_that_of_its_answers(allocation, stated):
    asked = {"questions": RAMPS, "mechanism": SmoothSpec(), "allocation": allocation}
    assert small_campaign("c", cap=CAP, **asked).largest_epsilon == stated
    assert small_campaign("c", **asked).largest_epsilon == math.inf
    for mechanism in small_campaign("c", cap=CAP, **asked).mechanisms:
        query = mechanism.query
        assert float(query.above) == 4.0 * 8_000.0 * (2 if allocation is Allocation.SPLIT else 1)


def test_places_and_noise_of_one_scale_are_stated_alike():
    place = {
        "attribute": Attribute(name="home", unit="metre", coordinates=PARIS),
        "privacy": GeoPrivacy(1.0, 500.0, "metre"),
    }
    disc = Question("near", Disc((0.0, 0.0), 1500.0, 1000.0, "smoothstep"))
    stated = small_campaign("c", cap=CAP, **place, questions=(disc,)).largest_epsilon
    assert 4 + 3 - 1e-5 < stated < 4 + 3  # the radius is 3 scales, in the plane a little less
    free = small_campaign("c", mechanism=LipschitzLaplaceSpec())
    assert free.largest_epsilon == pytest.approx(2.0)
    assert replace(free, cap=CAP).largest_epsilon == free.largest_epsilon


def test_far_values_answer_alike():
    campaign = small_campaign("c", cap=CAP)
    answers = {
        value: [campaign.release(value, (0,), SeededSource(seed)) for seed in range(40)]
        for value in (132_000.0, 150_000.0, 1e9, 120_000.0)
    }
    assert answers[132_000.0] == answers[150_000.0] == answers[1e9] != answers[120_000.0]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"cap": Cap(1.0, 4.0)}, r"cap\.below"),
        ({"cap": Cap(4.0, 1.0)}, r"cap\.above"),
        ({"cap": (4.0, 4.0)}, "cap"),
        ({"cap": CAP, "readings": Readings(every=timedelta(days=7))}, "cap"),
    ],
)
def test_a_cap_that_does_not_fit_is_refused_by_its_name(changes, name):
    with pytest.raises(ParameterError, match=f"^{name} must be"):
        small_campaign("c", **changes)


def test_points_have_no_cap():
    free = small_campaign("c", mechanism=PlanarLaplaceSpec(1))
    assert free.largest_epsilon == math.inf
    names = ("campaign_id", "title", "attribute", "privacy", "opens", "closes", "mechanism")
    common = {name: getattr(free, name) for name in names}
    with pytest.raises(ParameterError, match=r"^cap must be None"):
        make_campaign(**common, cap=CAP)


def test_a_range_in_a_vector_counts_at_both_of_its_ends():
    """Who is far below and who is inside pass one of them, who is far above two."""
    between = Question("r", Range(200_000.0, 300_000.0, 16_000.0))
    asked = {"questions": (RAMPS[0], between), "mechanism": SmoothSpec()}
    campaign = small_campaign("c", cap=CAP, allocation=Allocation.VECTOR, **asked)
    assert campaign.largest_epsilon == 8.0 + 2 * 8.0


def test_a_reading_of_the_app_answers_a_capped_question_alike():
    """The noise is on the number, and g is level where the clip is: equal draws, equal answers."""
    free, capped = (small_campaign("c", cap=cap, mechanism=DebiasedLaplaceSpec())
                    for cap in (None, CAP))  # fmt: skip
    assert free.nests
    assert capped.nests
    for seed in range(30):
        point = free.point_mechanism.release(97_000.0, SeededSource(seed))
        drawn = [c.answers_from(point, (0,), SeededSource(99)) for c in (free, capped)]
        assert drawn[0] == drawn[1]


def test_what_clipping_changes_of_a_bell_is_said_of_its_estimates():
    """e^(−R²/2h²) where it is clipped, of those who are farther: rounded up; a step has none."""
    bell = (Question("near", GaussianKernel(100_000.0, 8_000.0)),)
    capped = small_campaign("c", questions=bell, cap=Cap(1.0, 4.0))
    assert capped.mechanisms[0].bias_bound == pytest.approx(math.exp(-8))
    said = "Unbiased, except for a bias of at most 0.00034, for the mean of the soft query"
    assert unbiased_for(capped).startswith(said)
    for exact in (small_campaign("c", questions=bell), small_campaign("c", cap=CAP)):
        assert unbiased_for(exact).startswith("Unbiased for the mean of the soft query")
    assert capped.limits[0].means == pytest.approx((-math.exp(-8), 1 + math.exp(-8)))
