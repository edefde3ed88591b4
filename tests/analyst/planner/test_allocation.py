"""Test plans of many questions: batches against single plans, errors against draws."""

import math

import numpy as np
import pytest

from geoveil.analyst.planner import (
    HardThreshold,
    LogNormalPrior,
    SamplePrior,
    SoftQuestion,
    compare_allocations,
)
from geoveil.analyst.planner.allocation import ALLOCATIONS
from geoveil.campaign import SmoothSpec
from geoveil.gp import (
    DebiasedLaplace,
    GaussianKernel,
    GeoPrivacy,
    ParameterError,
    PlanarLaplace,
    Threshold,
    UnsupportedError,
)
from tests.analyst.planner.plans import plan

UNIT = GeoPrivacy(1.0, per=1.0)
PLACES = SamplePrior(np.random.default_rng(9).normal(scale=4.0, size=(300, 2)))
GRID = [GaussianKernel((float(x), float(y)), 2.0) for x in (-4, 0, 4) for y in (-4, 0, 4)]
MEANS = list(map(SoftQuestion, GRID))


@pytest.mark.deep
def test_perturbed_points_and_a_partition_against_draws():
    """300 people, 9 kernels, 1,500 repetitions: the ASE of both within 5 %."""
    found = compare_allocations(MEANS, UNIT, PLACES, 300)
    points, _ = PLACES.nodes()
    truth = np.array([q.value(points).mean() for q in GRID])
    rng = np.random.default_rng(10)
    mechanism = PlanarLaplace(UNIT, 2)
    estimators = [mechanism.estimator(q, debias=True) for q in GRID]
    by_points, by_parts = [], []
    for _ in range(1_500):
        noisy = mechanism.simulate(points, rng)
        by_points.append(sum((e.value(noisy).mean() - t) ** 2 for e, t in zip(
            estimators, truth, strict=True)))  # fmt: skip
        who = rng.integers(len(GRID), size=len(points))
        reports = [DebiasedLaplace(q, UNIT).simulate(points[who == i], rng).mean()
                   for i, q in enumerate(GRID)]  # fmt: skip
        by_parts.append(float(np.square(np.array(reports) - truth).sum()))
    assert found["points"].total_error == pytest.approx(np.mean(by_points), rel=0.05)
    parts = [plan(q, UNIT, PLACES, 300, kinds=("DebiasedLaplace",)).choice.prediction for q in GRID]
    predicted = math.fsum(p.partitioned(300, 9) for p in parts)
    assert predicted == pytest.approx(np.mean(by_parts), rel=0.05)


def test_privacy_in_all_is_equal_but_for_repeat():
    found = compare_allocations(MEANS, UNIT, PLACES, 5_000)
    assert {row.allocation for row in found.rows} == set(ALLOCATIONS)
    for row in found.rows:
        expected = UNIT.repeated(9) if row.allocation == "repeat" else UNIT
        assert row.in_all == expected
    assert found.rows[-1].allocation == "repeat"
    assert found.choice.total_error == min(row.total_error for row in found.rows[:-1])


@pytest.mark.deep
def test_the_crossover_is_where_the_errors_cross():
    """Oracle: the comparison itself, at m kernels at one and the same place."""
    n, wide = 20_000, SoftQuestion(GaussianKernel((0.0, 0.0), 0.5))
    crossing = compare_allocations([wide], UNIT, PLACES, n).crossover
    assert crossing > 2
    for m, better in ((crossing - 1, "partition"), (crossing, "points")):
        rows = compare_allocations([wide] * m, UNIT, PLACES, n)
        first, second = rows["points"].total_error, rows["partition"].total_error
        assert ("points" if first <= second else "partition") == better


def test_hard_thresholds_are_planned_one_by_one():
    prior = SamplePrior(np.random.default_rng(3).lognormal(2.0, 0.5, 2_000))
    questions = [HardThreshold(t) for t in (6.0, 9.0)]
    found = compare_allocations(questions, UNIT, prior, 10_000)
    assert found.choice.allocation == "points"
    assert len(found["partition"].predictions) == 2
    # On a line perturbed points are as good as DebiasedLaplace, and serve both.
    single = [plan(q, UNIT, prior, 10_000, kinds=("PlanarLaplace",)) for q in questions]
    total = sum(p.choice.prediction.expected_error(10_000) for p in single)
    assert found.choice.total_error == pytest.approx(total, rel=1e-9)
    assert found["partition"].total_error > 1.5 * total


def test_what_cannot_be_answered_by_points_is_partitioned():
    ramps = [SoftQuestion(Threshold(t, 1.0, "linear")) for t in (6.0, 9.0)]
    found = compare_allocations(ramps, UNIT, LogNormalPrior(2.0, 0.5), 1_000)
    assert "points" not in {row.allocation for row in found.rows}
    assert found.crossover is None
    with pytest.raises(ParameterError):
        found["points"]


@pytest.mark.deep(keep=0)
def test_a_vector_of_questions_far_apart_has_the_error_of_its_draws():
    """Oracle: the mechanism, drawn for people of the prior; 4,000 draws, 5 % is 2.2 deviations.

    Control: the noise of one of its queries by itself at the same β is less than half of that.
    """
    values = np.linspace(0.0, 400.0, 800)
    ramps = [Threshold(50.0 + 100.0 * j, 2.0, "linear") for j in range(4)]
    means = list(map(SoftQuestion, ramps))
    found = compare_allocations(means, UNIT, SamplePrior(values), 800)["vector"]
    vector = SmoothSpec().build_together(ramps, UNIT)
    rng, truth = np.random.default_rng(7), np.stack([q.value(values) for q in ramps], -1).mean(0)
    drawn = [np.square(vector.simulate(values, rng).mean(0) - truth).sum() for _ in range(4_000)]
    assert found.total_error == pytest.approx(np.mean(drawn), rel=0.05)
    assert found.kinds == ("smooth",) * 4
    alone = SmoothSpec().build(ramps[0], UNIT)
    assert 4 * alone.variance(values).mean() / 800 < 0.5 * found.total_error
    rows = compare_allocations(means, UNIT, SamplePrior(values), 800, mechanism="smooth")
    assert found.total_error < 0.6 * rows["split"].total_error


def test_vectors_are_compared_where_campaigns_can_have_them():
    slack = GeoPrivacy(1.0, per=1.0, delta=1e-6)
    ramps = [SoftQuestion(Threshold(t, 1.0, "linear")) for t in (6.0, 9.0)]
    prior = LogNormalPrior(2.0, 0.5)
    for changed in ({"privacy": slack}, {"mechanism": "lipschitz"}, {"questions": ramps[:1]}):
        given = {"questions": ramps, "privacy": UNIT, "prior": prior, "n": 1_000} | changed
        assert "vector" not in {row.allocation for row in compare_allocations(**given).rows}


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"questions": [HardThreshold(float(t)) for t in range(65)]}, "questions"),
        ({"n": 0}, "n"),
    ],
)
def test_bad_input_is_named(change, name):
    arguments = {
        "questions": [HardThreshold(1.0)], "privacy": UNIT, "prior": SamplePrior([1.0]), "n": 9,
    } | change  # fmt: skip
    with pytest.raises(ParameterError) as caught:
        compare_allocations(**arguments)
    assert caught.value.name == name


def test_nothing_serves_a_question_whose_noise_explodes(monkeypatch):
    monkeypatch.setattr("geoveil.analyst.planner.allocation.ALLOCATIONS", {})
    with pytest.raises(UnsupportedError, match="no allocation"):
        compare_allocations([HardThreshold(1.0)], UNIT, SamplePrior([1.0]), 9)
