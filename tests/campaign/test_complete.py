"""Test that a made campaign works to the end, and that impossible ones are refused at once."""

import itertools
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from geoveil import campaign as campaigns
from geoveil.campaign import (
    Allocation,
    Attribute,
    Campaign,
    DebiasedLaplaceSpec,
    LipschitzLaplaceSpec,
    MechanismSpec,
    PlanarLaplaceSpec,
    Question,
    SigningKey,
    SmoothSpec,
    StatisticCampaign,
    decode,
    digest,
    encode,
    seal,
)
from geoveil.gp import (
    Disc,
    FormulaProfile,
    GaussianKernel,
    GeoPrivacy,
    GeoVeilError,
    Linear,
    LipschitzMechanism,
    ParameterError,
    Polygon,
    Query,
    Radial,
    Range,
    SeededSource,
    TabulatedProfile,
    Threshold,
    TwoWayThreshold,
    UnsupportedError,
)
from geoveil.gp.coordinates import Area, AzimuthalEquidistant
from geoveil.proto.v1 import campaign_pb2 as pb
from geoveil.simulation.mercator import SphericalMercator
from tests.campaigns import admits, campaign_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PRIVACY = GeoPrivacy(1.0, 500.0, "metre")
PLANE = AzimuthalEquidistant(-73.95, 40.72, 60_000.0)
TABLE = TabulatedProfile((0.0, 600.0, 2000.0), (1.0, 0.8, 0.0), (0.0, -6e-4, -6e-4, 0.0))
RAMP = TabulatedProfile((-700.0, 700.0), (0.0, 1.0), (1 / 1400, 1 / 1400))
SQUARE = ((-900.0, -900.0), (900.0, -900.0), (900.0, 900.0), (-900.0, 900.0))


@lru_cache
def walk() -> Radial:
    return Radial(FormulaProfile(lambda u, ops: ops.exp(-u), scale=500.0), (0.0, 0.0))


@lru_cache
def bump() -> Linear:
    formula = FormulaProfile(lambda u, ops: ops.exp(-u * u) * (1 + u / 2), scale=200.0, extent=5.0)
    return Linear(formula, 1.0)


class Outside(Threshold):
    """A query of a kind that no campaign knows."""


class OutsideSpec(MechanismSpec):
    """A mechanism of a kind that no campaign knows."""

    def build(self, query: Query, privacy: GeoPrivacy, step: float | None = None) -> Any:
        return LipschitzMechanism(query, privacy, step=step)


QUERIES: list[Query | Callable[[], Query]] = [
    *(Threshold(100.0, 900.0, step) for step in ("linear", "smoothstep")),
    *(Range(-1_000.0, 1_000.0, 900.0, step) for step in ("linear", "smoothstep")),
    *(TwoWayThreshold((0.0, 50.0), 900.0, step) for step in ("linear", "smoothstep")),
    *(Disc((0.0,) * k, 1_000.0, 900.0, "smoothstep") for k in (2, 3)),
    Polygon(SQUARE, 900.0, "smoothstep"),
    *(GaussianKernel((10.0,) * k, 700.0) for k in (1, 2, 3)),
    *(Radial(TABLE, (10.0,) * k) for k in (1, 2, 3)),
    *(Linear(table, (3.0, -4.0, 1.0)[:k], 20.0) for k in (1, 2, 3) for table in (TABLE, RAMP)),
    walk,
    bump,
    lambda: walk().tabulated(),
    lambda: bump().tabulated(),
    Outside(100.0, 900.0),
]
"""Those of formulas are made when they are needed, which takes a while."""
SPECS = ("debiased", "lipschitz", "smooth", "outside")


def spec(name: str) -> Any:
    return {
        "debiased": DebiasedLaplaceSpec(),
        "lipschitz": LipschitzLaplaceSpec(),
        "smooth": SmoothSpec(0.2),
        "outside": OutsideSpec(),
    }[name]


def made(**changes: Any) -> Campaign:
    fields: dict[str, Any] = {
        "campaign_id": "complete",
        "title": "Complete",
        "attribute": Attribute(name="place", unit="metre"),
        "privacy": PRIVACY,
        "questions": (Question("first", QUERIES[1]),),
        "opens": NOW,
        "closes": NOW + timedelta(days=30),
    }
    return campaign_of(**(fields | changes))


def works(campaign: Campaign) -> None:
    """Write, read, sign, draw, and look at what an estimate is made of."""
    data = encode(campaign)
    assert decode(data) == campaign
    assert len(digest(data)) == 32
    assert pb.CampaignEnvelope.FromString(seal(data, SigningKey.generate())).campaign == data
    value = [0.1] * campaign.dimension if campaign.dimension > 1 else 0.1
    if campaign.attribute.coordinates is not None:
        value = [-73.95, 40.72]
    point, source = campaign.attribute.point(value, campaign.dimension), SeededSource(7)
    indices = campaign.draw_columns(source)
    answers = campaign.release(point, indices, source)
    if isinstance(campaign, StatisticCampaign):
        for i in indices:
            m = campaign.mechanisms[i]
            assert np.isfinite(m.variance(point)).all() or m.noise.variance == math.inf
            assert np.isfinite(m.log_density(answers[0] * m.step, point)).all()
    assert admits(campaign, indices)
    for i, answer in zip(indices, answers, strict=True):
        low, high = campaign.ranges[i]
        assert low <= campaign.counted(i, answer) <= high


@pytest.mark.deep(keep=5)
@pytest.mark.parametrize("index", range(len(QUERIES)))
@pytest.mark.parametrize("name", SPECS)
def test_a_campaign_works_or_is_refused(index, name):
    query = QUERIES[index]() if callable(QUERIES[index]) else QUERIES[index]
    travels = not (isinstance(query, Outside) or isinstance(query.profile, FormulaProfile))
    count = 0
    for allocation, queries, plane in itertools.product(Allocation, (1, 2), (None, PLANE)):
        questions = tuple(Question(f"q{i}", query) for i in range(queries))
        try:
            campaign = made(
                attribute=Attribute(name="place", unit="metre", coordinates=plane),
                questions=questions,
                mechanism=spec(name),
                allocation=allocation,
            )
        except (ParameterError, UnsupportedError):
            continue
        works(campaign)
        count += 1
    assert count == 0 or (travels and name != "outside")
    refuses = name == "debiased" and not isinstance(_debiased(query), float)
    assert count > 0 or not travels or name == "outside" or refuses


def _debiased(query: Query) -> Any:
    try:
        return query.profile.debiased_range(1.0)[0]
    except UnsupportedError as refusal:
        return refusal


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("plane", [None, PLANE], ids=["plain", "places"])
def test_a_value_campaign_works_or_is_refused(dimension, plane):
    attribute = Attribute(name="place", unit="metre", coordinates=plane)
    if plane is not None and dimension != 2:
        with pytest.raises(ParameterError):
            made(attribute=attribute, questions=(), mechanism=PlanarLaplaceSpec(dimension))
        return
    works(made(attribute=attribute, questions=(), mechanism=PlanarLaplaceSpec(dimension)))


def test_a_formula_is_refused_when_the_campaign_is_made_and_the_way_out_named():
    near = walk()
    with pytest.raises(UnsupportedError, match=r"query\.tabulated\(\)"):
        made(questions=(Question("near", near),))
    works(made(questions=(Question("near", near.tabulated()),)))


STEEP = TabulatedProfile(tuple(map(float, range(257))), (0.0, 1.0) * 128 + (0.0,), (0.0,) * 512)
EASTERN = timezone(timedelta(hours=5))
ODD: dict[str, Callable[[], Any]] = {
    "an allocation by name": lambda: made(allocation="partition"),
    "a query for a question": lambda: made(questions=(QUERIES[0],)),
    "one question": lambda: made(questions=Question("first", QUERIES[0])),
    "a profile for a query": lambda: Question("first", TABLE),
    "an attribute by name": lambda: made(attribute="place"),
    "no privacy": lambda: made(privacy=None),
    "a reach": lambda: made(privacy=GeoPrivacy(1.0, 500.0, "metre", reach=100.0)),
    "a day as text": lambda: made(opens="2026-03-01"),
    "before the first year": lambda: made(opens=datetime.min.replace(tzinfo=EASTERN)),
    "a fraction of a step": lambda: made(step_exponent=-20.5),
    "a step by name": lambda: made(step_exponent="-20"),
    "a step that is true": lambda: made(step_exponent=True),
    "half a character in the title": lambda: made(title="half \ud800"),
    "half a character in a label": lambda: made(questions=(Question("\ud800", QUERIES[1]),)),
    "half a character in a name": lambda: made(attribute=Attribute(name="\ud800", unit="metre")),
    "more than a megabyte": lambda: made(
        questions=[Question(f"q{i}", Radial(STEEP, (0.0, 0.0))) for i in range(140)],
        mechanism=LipschitzLaplaceSpec(),
    ),
}


@pytest.mark.parametrize("make", ODD.values(), ids=ODD.keys())
def test_what_is_no_field_of_a_campaign_is_refused_when_it_is_made(make):
    with pytest.raises(GeoVeilError):
        make()


def test_coordinates_of_a_kind_that_no_campaign_carries_are_refused():
    with pytest.raises(ParameterError, match="coordinates"):
        Attribute(
            name="place", unit="metre", coordinates=SphericalMercator(Area(-73.95, 40.72, 60_000.0))
        )


def test_every_kind_of_question_and_mechanism_is_in_the_table():
    fields = pb.Query.DESCRIPTOR.oneofs_by_name["kind"].fields
    known = {type(query).__name__ for query in QUERIES}
    for field in fields:
        if not field.name.startswith(("smoothed", "extension")):
            assert field.message_type.name in known
    public = {name for name in campaigns.__all__ if name.endswith("Spec")} - {"MechanismSpec"}
    mechanisms = {f.name for f in pb.Mechanism.DESCRIPTOR.oneofs_by_name["kind"].fields}
    assert len(public) == len(mechanisms - {"extension"})


HOSTILE = {
    "nothing": lambda t: t.Clear(),
    "NaN": lambda t: t.values.__setitem__(1, math.nan),
    "a slope too few": lambda t: t.slopes.pop(),
    "a hundred thousand numbers": lambda t: t.at.extend([1e6] * 100_000),
    "not from the centre": lambda t: t.at.__setitem__(0, 1.0),
    "before the centre": lambda t: t.at.__setitem__(0, -1.0),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_device_refuses_a_hostile_table(change):
    """What is no table anywhere is refused by `TabulatedProfile`, which tests/gp try."""
    message = pb.Campaign.FromString(
        encode(made(questions=(Question("q", Radial(TABLE, (0, 0))),)))
    )
    change(message.queries[0].radial.profile)
    with pytest.raises(GeoVeilError):
        decode(message.SerializeToString(deterministic=True))


def test_a_steep_table_gets_the_noise_that_it_needs():
    """A table is not believed to be gentle: what is 50 times as steep has 50 times the noise."""
    hidden = TabulatedProfile((0.0, 500.0, 1000.0), (0.0, 0.0, 1.0), (0.2, 0.2, 0.002, 0.0))
    campaign = made(
        questions=(Question("q", Radial(hidden, (0.0, 0.0))),), mechanism=LipschitzLaplaceSpec()
    )
    scale = math.sqrt(decode(encode(campaign)).mechanisms[0].variance((0.0, 0.0)) / 2)
    assert scale == pytest.approx(0.2 * 500, rel=0.01)
