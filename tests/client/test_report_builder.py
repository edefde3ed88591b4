"""The private part, against the mechanisms' formulas in mpmath and the bits that were drawn."""

import math
import traceback
from typing import Any

import mpmath  # type: ignore[import-untyped]  # it has no stubs
import numpy as np
import pytest

from geoveil.campaign import (
    Allocation,
    Campaign,
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    digest,
    encode,
    seal,
)
from geoveil.client import (
    CampaignInvalid,
    ParameterError,
    Policy,
    PolicyRefused,
    PrivateValueError,
    ReportBuilder,
)
from geoveil.gp import GeoPrivacy, SeededSource, SystemSource, Threshold
from geoveil.proto.v1 import campaign_pb2, report_pb2

AT, WIDTH = 100_000, 16_000


@pytest.fixture(autouse=True)
def _sixty_digits():
    """Here only: every other oracle of the process would take as many."""
    with mpmath.workdps(60):
        yield


def laplace_quantile(bits: int) -> mpmath.mpf:
    """Standard Laplace, at the middle of the 2^-128 that the first 128 bits leave."""
    u = (mpmath.mpf(bits) + 0.5) / mpmath.mpf(2) ** 128
    return mpmath.log(2 * u) if u < 0.5 else -mpmath.log(2 * (1 - u))


def smoothstep(s: mpmath.mpf) -> mpmath.mpf:
    t = min(max(mpmath.mpf(1) / 2 + s / WIDTH, mpmath.mpf(0)), mpmath.mpf(1))
    return 3 * t**2 - 2 * t**3


def lipschitz_laplace(x: float, rate: mpmath.mpf, bits: int) -> mpmath.mpf:
    slope = mpmath.mpf(3) / (2 * WIDTH)
    return smoothstep(mpmath.mpf(x) - AT) + slope / rate * laplace_quantile(bits)


def debiased_laplace(x: float, rate: mpmath.mpf, bits: int) -> mpmath.mpf:
    b = 1 / rate
    v = mpmath.mpf(x) - AT + b * laplace_quantile(bits)
    t = mpmath.mpf(1) / 2 + v / WIDTH
    curvature = (6 - 12 * t) / WIDTH**2 if 0 < t < 1 else mpmath.mpf(0)
    return smoothstep(v) - b**2 * curvature


MECHANISMS = {
    "lipschitz": (LipschitzLaplaceSpec(), lipschitz_laplace),
    "debiased": (DebiasedLaplaceSpec(), debiased_laplace),
}


@pytest.fixture
def builder(policy, make_source):
    return ReportBuilder(policy=policy, source=make_source(0))


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("x", [52_000.0, 93_000.5, 100_000.0, 104_321.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_answer_is_the_formula_of_the_mechanism_on_the_bits_drawn(
    make_campaign, policy, make_source, name, x, seed
):
    spec, formula = MECHANISMS[name]
    campaign = make_campaign(mechanism=spec, queries=(Threshold(AT, WIDTH, "smoothstep"),))
    source = make_source(seed)
    builder = ReportBuilder(policy=policy, source=source)
    made = builder.prepare(builder.accept("income", seal(encode(campaign))), x)
    report = report_pb2.Report.FromString(made.report)
    # One question: nothing to draw for the partition; then the id, then the noise.
    assert [count for count, _ in source.draws] == [0, 128, 128]
    ident, noise = (value for _, value in source.draws[1:])
    assert report.report_id == ident.to_bytes(16)
    expected = formula(x, mpmath.mpf(1) / 8000, noise) / mpmath.mpf(2) ** campaign.grid_exponent
    assert [(a.query_index, a.value) for a in report.answers] == [(0, int(mpmath.nint(expected)))]
    assert made.digest == digest(encode(campaign))
    assert made.charges[0].privacy == GeoPrivacy(1, 8000, "dollar")


@pytest.mark.parametrize(
    ("allocation", "per_of_an_answer", "spent"),
    [(Allocation.SPLIT, 24_000, 1), (Allocation.REPEAT, 8_000, 3)],
)
def test_every_query_is_answered_with_its_part_of_the_privacy_or_with_all(
    make_campaign, make_source, allocation, per_of_an_answer, spent
):
    queries = tuple(Threshold(AT, WIDTH, "smoothstep") for _ in range(3))
    campaign = make_campaign(
        queries=queries, allocation=allocation, mechanism=LipschitzLaplaceSpec()
    )
    source = make_source(3)
    policy = Policy({"household income": GeoPrivacy(spent, 8000, "dollar")})
    builder = ReportBuilder(policy=policy, source=source)
    made = builder.prepare(builder.accept("income", seal(encode(campaign))), 97_000)
    report = report_pb2.Report.FromString(made.report)
    assert [a.query_index for a in report.answers] == [0, 1, 2]
    noises = [value for count, value in source.draws if count == 128][1:]
    assert len(noises) == 3
    for answer, noise in zip(report.answers, noises, strict=True):
        ideal = lipschitz_laplace(97_000, mpmath.mpf(1) / per_of_an_answer, noise)
        # ε/3 is rounded down to a double: the ideal may differ in the 16th digit.
        step = mpmath.mpf(2) ** campaign.grid_exponent
        assert abs(answer.value - ideal / step) <= mpmath.mpf("0.5001")
    assert made.charges[0].privacy == GeoPrivacy(spent, 8000, "dollar")


def test_report_ids_are_sixteen_fresh_bytes(policy, campaign):
    builder = ReportBuilder(policy=policy)
    accepted = builder.accept("income", seal(encode(campaign)))
    ids = {
        report_pb2.Report.FromString(builder.prepare(accepted, 1.0).report).report_id
        for _ in range(100)
    }
    assert len(ids) == 100
    assert {len(i) for i in ids} == {16}


def test_a_place_becomes_a_point_of_the_plane(places, policy, make_source):
    builder = ReportBuilder(policy=policy, source=make_source(1))
    accepted = builder.accept("places", seal(encode(places)))
    # A degree of latitude is 111 km: noise of 1 km cannot carry the kernel's 3 km that far.
    far = builder.prepare(accepted, (-73.98, 41.72))
    assert report_pb2.Report.FromString(far.report).answers[0].value == pytest.approx(
        0, abs=2 ** (-places.grid_exponent - 20)
    )


class Shouting:
    """Has a value that any message would show."""

    def __float__(self) -> float:
        raise ValueError("SECRET-87654")


BAD_NUMBERS: dict[str, Any] = {
    "string": "87654",
    "bytes": b"87654",
    "bool": True,
    "none": None,
    "nan": math.nan,
    "infinity": -math.inf,
    "too many": [87654.0, 87654.0],
    "nothing": [],
    "nested": [[87654.0]],
    "ragged": [[87654.0], 1.0],
    "huge integer": 10**400,
    "object": Shouting(),
    "mapping": {"income": 87654},
    "complex": 87654j,
}
BAD_PLACES: dict[str, Any] = {
    "one number": 87.654,
    "three numbers": (87.654, 1.0, 1.0),
    "longitude": (187.654, 0.0),
    "latitude": (0.0, 90.87654),
    "nan": (math.nan, 0.0),
    "swapped": (40.72, -173.87654),
    "string": "40.7,-73.9",
}


@pytest.mark.parametrize(
    ("campaign_id", "value"),
    [
        *(pytest.param("income", v, id=f"number: {k}") for k, v in BAD_NUMBERS.items()),
        *(pytest.param("places", v, id=f"place: {k}") for k, v in BAD_PLACES.items()),
    ],
)
def test_a_bad_value_is_refused_before_anything_is_drawn_and_never_shown(
    campaign, places, policy, make_source, campaign_id, value
):
    source = make_source(0)
    builder = ReportBuilder(policy=policy, source=source)
    asked = {"income": campaign, "places": places}[campaign_id]
    accepted = builder.accept(campaign_id, seal(encode(asked)))
    with pytest.raises(PrivateValueError) as raised:
        builder.prepare(accepted, value)
    assert source.draws == []
    shown = "".join(traceback.format_exception(raised.value)) + repr(raised.value)
    assert "87654" not in shown
    assert "87.654" not in shown
    # Nor does an error tracker find it that follows the context, suppressed or not.
    assert raised.value.__context__ is None
    assert raised.value.__cause__ is None


def test_values_of_many_types_give_the_same_report(campaign, policy, make_source):
    reports = set()
    for value in (52_000, 52_000.0, [52_000], np.float64(52_000), np.array([52_000]), (52_000.0,)):
        builder = ReportBuilder(policy=policy, source=make_source(9))
        accepted = builder.accept("income", seal(encode(campaign)))
        reports.add(builder.prepare(accepted, value).report)
    assert len(reports) == 1


def _hostile(campaign: Campaign, **fields: Any) -> bytes:
    message = campaign_pb2.Campaign.FromString(encode(campaign))
    message.MergeFrom(campaign_pb2.Campaign(**fields))
    return message.SerializeToString(deterministic=True)


def test_rubbish_is_no_campaign(builder, campaign):
    sound = encode(campaign)
    rubbish = {
        "nothing": b"",
        "garbage": b"\xff" * 100,
        "cut short": sound[:-1],
        "another id": sound.replace(b"income", b"incomf", 1),
        "a field from the future": sound + b"\xa2\x06\x01x",
        "not in canonical form": sound + b"\x0a\x06income",
        "huge": _hostile(campaign, title="x" * (2 << 20)),
        "negative privacy": _hostile(campaign, privacy=campaign_pb2.Privacy(epsilon=-1)),
        "no number": _hostile(campaign, privacy=campaign_pb2.Privacy(epsilon=math.nan)),
        "no such grid": _hostile(campaign, grid=campaign_pb2.Grid(step_exponent=10**6)),
    }
    for what, published in rubbish.items():
        with pytest.raises(CampaignInvalid) as raised:
            builder.accept("income", seal(published))
        assert len(str(raised.value)) < 500, what
        assert str(raised.value).isprintable(), what
        assert raised.value.campaign_id == "income"


def test_every_flip_of_a_bit_is_refused_or_another_campaign(builder, campaign):
    sound = encode(campaign)
    for position in range(8 * len(sound)):
        flipped = bytearray(sound)
        flipped[position // 8] ^= 1 << position % 8
        try:
            accepted = builder.accept("income", seal(bytes(flipped)))
        except (CampaignInvalid, PolicyRefused):
            continue
        assert accepted.digest != digest(sound)
        assert accepted.campaign.attribute == campaign.attribute
        assert accepted.campaign.privacy.exact_rate <= campaign.privacy.exact_rate


def test_a_campaign_at_which_a_formula_gives_up_is_refused(builder, places, monkeypatch):
    def gives_up(campaign: bytes) -> Campaign:
        raise ZeroDivisionError

    monkeypatch.setattr("geoveil.client.reports.decode", gives_up)
    with pytest.raises(CampaignInvalid):
        builder.accept("places", seal(encode(places)))


def test_an_area_so_small_that_no_double_holds_its_angle_is_read(builder, places):
    plane = campaign_pb2.AzimuthalEquidistant(radius_m=1e-320)
    attribute = campaign_pb2.Attribute(azimuthal_equidistant=plane)
    accepted = builder.accept("places", seal(_hostile(places, attribute=attribute)))
    assert accepted.campaign.attribute.distortion == 1 + 2.0**-52


def test_predictable_bits_are_refused(policy):
    for source in (SeededSource(1), SystemSource, "SystemSource"):
        with pytest.raises(ParameterError, match="whose bits nobody can predict"):
            ReportBuilder(policy=policy, source=source)  # type: ignore[arg-type]
    ReportBuilder(policy=policy, source=SystemSource())


def test_a_policy_is_needed():
    with pytest.raises(ParameterError, match="a Policy"):
        ReportBuilder(policy={"household income": 1})  # type: ignore[arg-type]


@pytest.mark.parametrize("envelope", [b"\xff" * 100, b"\x0a\x05abc", b"\x0a"])
def test_an_envelope_that_can_not_be_read_is_no_campaign(builder, envelope):
    with pytest.raises(CampaignInvalid):
        builder.accept("income", envelope)


def test_a_report_says_which_period_it_is_for(builder, campaign):
    accepted = builder.accept("income", seal(encode(campaign)))
    for period in (0, 1, 4711):
        made = builder.prepare(accepted, 52_000, period=period)
        assert made.period == period
        assert report_pb2.Report.FromString(made.report).period == period


def test_a_contribution_carries_what_the_ledger_and_the_person_need(builder, campaign):
    made = builder.prepare(builder.accept("income", seal(encode(campaign))), 52_000)
    assert made.charges[0][:2] == ("household income", campaign.privacy)
    assert (made.closes, made.step_exponent) == (campaign.closes, campaign.grid_exponent)
