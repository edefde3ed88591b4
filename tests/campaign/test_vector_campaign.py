"""Test several questions by one vector: refusals, and that answers spend ε together."""

import math
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from geoveil.campaign import (
    MECHANISMS,
    Allocation,
    Question,
    SmoothSpec,
    decode,
    encode,
    unbiased_for,
)
from geoveil.gp import (
    Disc,
    GaussianKernel,
    GeoPrivacy,
    ParameterError,
    Query,
    Range,
    SeededSource,
    StudentT,
    Threshold,
    UnsupportedError,
    VectorAnswer,
    VectorSmoothMechanism,
)
from tools.vectors.examples import small_campaign

RATE = GeoPrivacy(1.0, 8_000.0, "dollar")
RAMPS: tuple[Query, ...] = tuple(Threshold(50_000.0 * (j + 1), 16_000.0) for j in range(4))
TWICE: tuple[Query, ...] = (Threshold(100_000.0, 16_000.0), Threshold(100_000.0, 16_000.0))
MIXED: tuple[Query, ...] = (
    Threshold(60_000.0, 24_000.0, "smoothstep"),
    Range(70_000.0, 120_000.0, 16_000.0, "smoothstep"),
    GaussianKernel((90_000.0,), 16_000.0),
)
ASKED = {"ramps": RAMPS, "twice": TWICE, "mixed": MIXED}
SPECS = (
    SmoothSpec(),
    SmoothSpec(beta_fraction=0.2),
    SmoothSpec(noise="student-t", nu=4.0, reach=math.inf, calibration="paper"),
    SmoothSpec(noise="generalized-cauchy", reach=math.inf),
)


def vector(queries: tuple[Query, ...] = RAMPS, **changes: Any) -> Any:
    questions = tuple(Question(f"q{i}", query) for i, query in enumerate(queries))
    given = {"mechanism": SmoothSpec(), "allocation": Allocation.VECTOR, "questions": questions}
    return small_campaign("vector", **(given | changes))


@pytest.mark.parametrize("spec", SPECS, ids=repr)
@pytest.mark.parametrize("asked", ASKED)
def test_a_vector_travels_and_spends_what_is_stated_once(asked: str, spec: SmoothSpec) -> None:
    campaign = vector(ASKED[asked], mechanism=spec)
    again = decode(encode(campaign))
    assert again == campaign
    assert campaign.report_privacy == campaign.answer_privacy == campaign.total_privacy == RATE
    assert campaign.answers == campaign.columns == len(ASKED[asked])
    assert "all who took part" in unbiased_for(campaign)
    first, *_ = campaign.mechanisms
    together = spec.build_together(ASKED[asked], RATE, first.step)
    assert first.vector == together
    x = np.array([3e4, 9.9e4, 2e5])
    for answer in campaign.mechanisms:
        assert isinstance(answer, VectorAnswer)
        assert answer.variance(x) == pytest.approx(together.variance(x)[:, answer.index])
        assert answer.mean(x) == pytest.approx(answer.query.value(x))
        assert answer.variance(x).max() <= answer.largest_variance * (1 + 1e-12)
    # From the same bits the whole vector, and its first answer by itself, are the same integers.
    released = campaign.release(99_000.0, range(campaign.columns), SeededSource(3))
    assert released == together.release(99_000.0, SeededSource(3))
    assert campaign.mechanisms[0].release(99_000.0, SeededSource(3)) == released[0]
    least, greatest = campaign.ranges[0]
    assert least < released[0] < greatest


def test_the_declared_share_is_that_of_all_queries_together() -> None:
    """ε = mνβ + η(ν + 1)/(2√ν), a third of it for the scale [SGP Cor. 3.2; MATH §3]."""
    (first, *_) = vector(mechanism=SPECS[2]).mechanisms
    found = first.vector
    assert found.noise == StudentT(4.0)
    assert 4 * 4 * found.beta == pytest.approx(RATE.rate / 3, rel=1e-12)
    assert 4 * 4 * found.beta + found.eta * 5 / 4 == pytest.approx(RATE.rate, rel=1e-12)
    (ramp, *_) = vector().mechanisms
    assert 4 * ramp.vector.beta == pytest.approx(0.3 * RATE.rate, rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"mechanism": MECHANISMS.parse("debiased")}, "allocation"),
        ({"mechanism": MECHANISMS.parse("lipschitz")}, "allocation"),
        ({"mechanism": SmoothSpec(growth="linear")}, "allocation"),
        (
            {
                "mechanism": SmoothSpec(noise="laplace"),
                "privacy": replace(RATE, delta=1e-6),
            },
            "allocation",
        ),
        ({"queries": RAMPS[:1]}, "number of queries"),
        ({"queries": tuple(Threshold(float(j), 9e3) for j in range(101))}, "number of queries"),
        ({"queries": (RAMPS[0], Disc((0.0, 0.0), 9e4, 1e4))}, "dimensions of the queries"),
        ({"mechanism": SmoothSpec(noise="student-t", beta_fraction=0.34)}, "beta / rate"),
    ],
)
def test_what_no_vector_can_hold_is_refused_by_name(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(ParameterError) as refused:
        vector(**changes)
    assert refused.value.name == name


def test_the_noise_of_one_answer_is_not_told_by_its_own_distance() -> None:
    answer = vector().mechanisms[0]
    with pytest.raises(UnsupportedError):
        answer.moments([0.0])
    law = answer.law()
    assert (law.points[:, 0].min(), law.points[:, 0].max()) == (0.0, 1.0)
    assert law.variances.max() == answer.largest_variance


def worst(queries: tuple[Query, ...], law: Any, draw: Random) -> float:
    """Return the largest log-ratio at 8,000 pairs, as a share of ε times the distance.

    Half of them are near a band, and half of the reports err alike in all answers.
    """
    x = np.array(
        [draw.choice((draw.uniform(0, 2.5e5), draw.gauss(1e5, 9e3))) for _ in range(8_000)]
    )
    other = x + np.array([draw.choice((-1, 1)) * 10.0 ** draw.uniform(0, 4.5) for _ in x])
    z = np.array([[draw.choice((-1, 1)) * 10.0 ** draw.uniform(-2, 2) for _ in queries] for _ in x])
    z[::2] = z[::2, :1]
    y = np.stack([query.value(x) for query in queries], axis=-1) + z
    ratios = np.abs(law(y, x) - law(y, other)) / (RATE.rate * np.abs(x - other))
    return float(ratios.max())


@pytest.mark.parametrize("spec", SPECS, ids=repr)
@pytest.mark.parametrize("asked", ASKED)
def test_all_answers_together_keep_the_promise(asked: str, spec: SmoothSpec) -> None:
    """Log-ratios at random pairs and reports; answers with a sensitivity each break it."""
    queries = ASKED[asked]
    (first, *_) = vector(queries, mechanism=spec).mechanisms
    assert isinstance(first.vector, VectorSmoothMechanism)
    assert worst(queries, first.vector.log_density, Random(7)) <= 1 + 1e-9
    each = [spec.build(query, RATE) for query in queries]

    def scalar(y: Any, x: Any) -> Any:
        return sum(m.log_density(y[..., j], x) for j, m in enumerate(each))

    if asked == "twice":
        assert worst(queries, scalar, Random(7)) > 1.05, "the control: a scalar's sensitivity"
