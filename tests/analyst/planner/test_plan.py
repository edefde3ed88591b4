"""Test that the choice is the best predicted one, and its reason."""

import math

import numpy as np
import pytest

from geoveil.analyst.planner import (
    KINDS,
    HardDisc,
    HardPolygon,
    HardRange,
    HardThreshold,
    LogNormalPrior,
    SamplePrior,
)
from geoveil.analyst.planner.coarse import aimed
from geoveil.gp import DebiasedLaplace, GaussianKernel, GeoPrivacy, ParameterError, Threshold
from tests.analyst.planner.plans import plan

UNIT = GeoPrivacy(1.0, per=1.0)
QUICK = ("DebiasedLaplace", "LaplacePareto", "LipschitzMechanism")


@pytest.fixture(scope="module")
def heaped():
    values = np.random.default_rng(4).lognormal(2.0, 0.6, size=4_000)
    return SamplePrior(np.where(values % 1 < 0.5, np.round(values / 5) * 5, values))


@pytest.fixture(scope="module")
def found(heaped):
    return plan(HardThreshold(10.0), UNIT, heaped, 20_000)


def test_every_kind_is_predicted_and_the_best_is_chosen(found):
    errors = [a.prediction.expected_error(20_000) for a in found.alternatives]
    assert errors == sorted(errors)
    kinds = {a.kind for a in found.alternatives}
    # PowerLaw serves the smoothstep, LaplacePareto the ramp; both are stand-ins here.
    assert kinds == set(KINDS)
    assert found.choice.kind in found.reason


def test_the_band_lies_above_a_heap(found, heaped):
    assert (heaped.values == 10.0).any()
    assert found.choice.query.at > 10.05
    assert abs(found.choice.prediction.bias) < 1e-5


def test_nothing_near_the_choice_is_better(found):
    """The width is free: bands half and twice as wide, aimed alike, are worse."""
    best = found.choice
    for factor in (0.5, 2.0):
        other = aimed(found.problem.nodes, factor * best.query.width, "smoothstep")
        error = found.problem.predict(DebiasedLaplace(other, UNIT)).expected_error(20_000)
        assert error > best.prediction.expected_error(20_000)


def test_more_people_allow_narrower_bands(heaped):
    exact = SamplePrior(heaped.values, heaped.weights, size=math.inf)
    for prior, narrower in ((heaped, True), (exact, False)):
        few, many = (
            plan(HardThreshold(10.0), UNIT, prior, n, kinds=("DebiasedLaplace",)).choice.query
            for n in (500, 500_000)
        )
        # A prior taken as exact has no bias to fear once the band is aimed.
        assert (many.width < few.width) == narrower


def test_a_small_survey_is_not_believed(heaped):
    """The same atoms from fewer people: the bias seen is 0 for both, that expected is not."""
    few = SamplePrior(heaped.values, heaped.weights, size=50)
    plans = [plan(HardThreshold(10.0), UNIT, p, 50_000, kinds=QUICK) for p in (few, heaped)]
    margins = [p.choice.prediction.margin(50_000) for p in plans]
    assert margins[0] > 2 * margins[1]
    assert plans[0].choice.query.width < plans[1].choice.query.width


def test_an_error_at_several_n(found):
    of = found.choice.prediction
    assert of.margin(1_000) > of.margin(100_000)
    assert of.share_of_bias(1_000) < of.share_of_bias(100_000)


def test_a_range_aims_both_ends(heaped):
    found = plan(HardRange(5.0, 10.0), UNIT, heaped, 20_000, kinds=("DebiasedLaplace",))
    query = found.choice.query
    assert query.low > 5.0
    assert query.high > 10.0
    assert abs(found.choice.prediction.bias) < 1e-4


SQUARE = HardPolygon([(-8.0, -8.0), (8.0, -8.0), (8.0, 8.0), (-8.0, 8.0)])


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("question", [SQUARE, HardDisc((0.0, 0.0), 9.0)], ids=["square", "disc"])
def test_regions_of_the_plane(question):
    rng = np.random.default_rng(6)
    places = SamplePrior(rng.normal(scale=10.0, size=(2_000, 2)))
    kinds = ("DebiasedLaplace", "LaplacePareto", "PlanarLaplace")
    found = plan(question, UNIT, places, 100_000, kinds=kinds)
    assert {a.kind for a in found.alternatives} == set(kinds)
    points, weights = places.nodes()
    for a in found.alternatives:  # exact at every point, though screened on the signed distance
        mean, variance = a.reports.mean(points), a.reports.variance(points)
        bias = weights @ (mean - question.truth(points))
        assert a.prediction.bias == pytest.approx(bias, abs=1e-12)
        assert a.prediction.noise == pytest.approx(weights @ variance, rel=1e-9)


def test_a_query_is_planned_as_it_is():
    query = Threshold(10.0, 2.0, "linear")
    found = plan(query, UNIT, LogNormalPrior(2.0, 0.6), 1_000)
    assert all(a.query == query for a in found.alternatives)
    assert "DebiasedLaplace" not in {a.kind for a in found.alternatives}  # the slope jumps


@pytest.mark.parametrize("n", [0, True, 10.0])
def test_a_number_of_people_is_a_count(n):
    with pytest.raises(ParameterError) as caught:
        plan(HardThreshold(1.0), UNIT, SamplePrior([1.0]), n)
    assert caught.value.name == "n"


@pytest.mark.deep
def test_a_kernel_in_three_dimensions():
    places = SamplePrior(np.random.default_rng(8).normal(size=(500, 3)))
    kinds = ("DebiasedLaplace", "PlanarLaplace")
    found = plan(GaussianKernel((0.0, 0.0, 0.0), 2.0), UNIT, places, 1_000, kinds=kinds)
    assert {a.kind for a in found.alternatives} == set(kinds)
