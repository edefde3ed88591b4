"""Noise scaled to a smooth bound, as a campaign declares it: every combination, and its limits."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from geoveil.campaign import (
    MECHANISMS,
    Allocation,
    Question,
    SmoothSpec,
    decode,
    encode,
)
from geoveil.gp import (
    GaussianKernel,
    GeneralizedCauchy,
    GeoPrivacy,
    ParameterError,
    Query,
    Range,
    SmoothMechanism,
    StudentT,
    Threshold,
    TwoWayThreshold,
)
from tools.vectors.examples import small_campaign

RATE = GeoPrivacy(1.0, 8_000.0, "dollar")
SLACK = replace(RATE, delta=1e-6)
QUERIES: tuple[Query, ...] = (
    Threshold(100_000.0, 16_000.0),
    Range(50_000.0, 90_000.0, 16_000.0, "smoothstep"),
    TwoWayThreshold((1e5, 2e4), 16_000.0),
    GaussianKernel((100_000.0,), 16_000.0),
)
SPECS = [
    SmoothSpec(noise=noise, calibration=calibration, reach=reach)
    for noise, calibration, reach in product(
        ("student-t", "generalized-cauchy"), ("exact", "paper"), (0.0, math.inf)
    )
]
SPECS += [SmoothSpec(noise="laplace", calibration=c) for c in ("exact", "paper")]
SPECS += [SmoothSpec(reach=r, growth=g) for r in (0.0, math.inf) for g in ("exponential", "linear")]


def campaign_with(spec: SmoothSpec, query: Query = QUERIES[0], **changes: Any) -> Any:
    privacy = SLACK if spec.has_slack else RATE
    given = {"privacy": privacy, "mechanism": spec, "questions": (Question("q", query),)}
    return small_campaign("smooth", **(given | changes))


@pytest.mark.deep(keep=4)
@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_each_travels_and_is_built_as_declared(spec: SmoothSpec) -> None:
    for query in QUERIES:
        campaign = campaign_with(spec, query)
        again = decode(encode(campaign))
        assert again == campaign
        (built,) = again.mechanisms
        assert built.privacy == campaign.privacy
        assert built.variance([[1e5, 2e4]] if query.dimension == 2 else [1e5])[0] < math.inf


def test_words_name_the_mechanism_of_the_paper() -> None:
    """Student-t with ν = 3 spends a third of ε on the scale: β = ε/9 [MATH §3]."""
    text = "smooth:noise=student-t,nu=3,calibration=paper,reach=inf"
    spec = MECHANISMS.parse(text)
    assert spec == SmoothSpec(noise="student-t", nu=3.0, calibration="paper", reach=math.inf)
    assert isinstance(spec, SmoothSpec)
    assert (spec.profile, SmoothSpec().profile) == ("linear", "smoothstep")
    for query in QUERIES:
        built = spec.build(query, RATE)
        theirs = SmoothMechanism(
            query,
            RATE,
            noise=StudentT(3.0),
            beta=RATE.rate / 9,
            reach=math.inf,
            calibration="paper",
        )
        at = [[9e4, 1e5]] if query.dimension == 2 else [9e4]
        assert built.variance(at) == pytest.approx(theirs.variance(at), rel=1e-12)
        # ε = νβ + η(ν + 1)/(2√ν)
        assert built.beta * 3 + built.eta * 2 / math.sqrt(3) == pytest.approx(RATE.rate, rel=1e-12)


def test_published_constants_of_cauchy_noise() -> None:
    """ε = (γ − 1)β + (γ − 1)^{(γ−1)/γ}·η, a fifth of it for the scale at γ = 4 [MATH §3]."""
    spec = SmoothSpec(noise="generalized-cauchy", calibration="paper", reach=math.inf)
    built = spec.build(QUERIES[0], RATE)
    assert isinstance(built, SmoothMechanism)
    assert built.noise == GeneralizedCauchy(4.0)
    assert built.beta == pytest.approx(RATE.rate / 15, rel=1e-12)
    assert 3 * built.beta + 3**0.75 * built.eta == pytest.approx(RATE.rate, rel=1e-12)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"noise": "gauss"}, "noise"),
        ({"noise": "student-t", "nu": 2.0}, "nu"),
        ({"noise": "student-t", "nu": math.nan}, "nu"),
        ({"noise": "student-t", "gamma": 4.0}, "gamma"),
        ({"nu": 3.0}, "nu"),
        ({"noise": "generalized-cauchy", "gamma": 3.0}, "gamma"),
        ({"calibration": "paper"}, "calibration"),
        ({"noise": "laplace", "growth": "exponential"}, "growth of laplace noise"),
        ({"growth": "quadratic"}, "growth"),
        ({"reach": -1.0}, "reach"),
        ({"beta_fraction": 1.0}, "beta_fraction"),
    ],
)
def test_what_is_out_of_range_is_refused_by_name(given: dict[str, Any], name: str) -> None:
    with pytest.raises(ParameterError) as refused:
        SmoothSpec(**given)
    assert refused.value.name == name


@pytest.mark.parametrize(
    ("spec", "privacy", "name"),
    [
        (SmoothSpec(noise="student-t", beta_fraction=0.34), RATE, "beta / rate"),
        (SmoothSpec(noise="laplace"), RATE, "privacy.delta"),
        (SmoothSpec(noise="laplace", reach=5.0), SLACK, "reach"),
        (SmoothSpec(noise="laplace", beta_fraction=0.08), SLACK, "beta"),
        (SmoothSpec(noise="student-t"), SLACK, "privacy.delta"),
        (SmoothSpec(), replace(RATE, reach=9.0), "privacy.reach"),
    ],
)
def test_what_the_theorem_does_not_permit_makes_no_campaign(
    spec: SmoothSpec, privacy: GeoPrivacy, name: str
) -> None:
    with pytest.raises(ParameterError) as refused:
        campaign_with(spec, privacy=privacy)
    assert refused.value.name == name


def test_delta_is_split_repeated_and_added_up() -> None:
    spec = SmoothSpec(noise="laplace", calibration="paper")
    two = tuple(Question(f"q{i}", Threshold(1e5 * (i + 1), 16_000.0)) for i in range(2))
    split = campaign_with(spec, questions=two, allocation=Allocation.SPLIT)
    assert split.answer_privacy.delta == 5e-7
    assert split.report_privacy.delta == 1e-6
    repeated = campaign_with(spec, questions=two, allocation=Allocation.REPEAT)
    assert repeated.report_privacy.delta == 2e-6
    assert Fraction(repeated.answer_privacy.delta) == Fraction(1e-6)


@pytest.mark.parametrize(
    ("spec", "query", "refused"),
    [
        (SmoothSpec(noise="student-t", nu=3.0), QUERIES[0], False),
        (SmoothSpec(noise="student-t", nu=2.5), QUERIES[0], True),
        (SmoothSpec(noise="student-t", nu=31.0), QUERIES[0], True),
        (SmoothSpec(noise="generalized-cauchy", gamma=6.0), QUERIES[3], False),
        (SmoothSpec(noise="generalized-cauchy", gamma=5.0), QUERIES[0], True),
        (SmoothSpec(noise="laplace"), QUERIES[0], True),
        (SmoothSpec(noise="laplace", calibration="paper"), QUERIES[3], False),
        (SmoothSpec(reach=5.0), QUERIES[0], True),
        (SmoothSpec(reach=math.inf), QUERIES[3], False),
        (SmoothSpec(growth="linear"), QUERIES[3], True),
    ],
)
def test_what_browsers_do_not_serve_is_known(spec: SmoothSpec, query: Query, refused: bool) -> None:
    assert (spec.unserved((query,)) is not None) == refused
