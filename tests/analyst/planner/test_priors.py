"""Expectations under every prior, against closed forms and brute force."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from geoveil.analyst.hard_question import Heap
from geoveil.analyst.planner import (
    DoubtedPrior,
    HeapedPrior,
    HistogramPrior,
    LogNormalPrior,
    SamplePrior,
)
from geoveil.gp import ParameterError


def test_a_sample_keeps_its_heaps():
    values = [100.0, 100.0, 70.0, 100.0, 30.0]
    prior = SamplePrior(values, [1, 2, 3, 4, 5])
    points, weights = prior.nodes()
    assert points.tolist() == [30.0, 70.0, 100.0]
    assert weights.tolist() == pytest.approx([5 / 15, 3 / 15, 7 / 15])
    expected = np.average(np.sqrt(values), weights=[1, 2, 3, 4, 5])
    assert prior.expectation(np.sqrt) == pytest.approx(expected, rel=1e-14, abs=0)


def test_a_sample_is_worth_as_many_as_vary_as_much():
    assert SamplePrior([1.0, 2.0, 2.0]).size == pytest.approx(3)
    assert SamplePrior([1.0, 2.0], [1.0, 3.0]).size == pytest.approx(16 / 10)
    assert SamplePrior([1.0, 2.0], [10, 30], size=40).size == 40


def test_points_in_the_plane_are_gathered_by_place():
    prior = SamplePrior([[1.0, 2.0], [0.0, 5.0], [1.0, 2.0]])
    assert prior.dimension == 2
    assert prior.expectation(lambda p: p[:, 1]) == pytest.approx(3.0)
    points, weights = prior.nodes()
    assert sorted(zip(points.tolist(), weights, strict=True)) == [
        ([0.0, 5.0], pytest.approx(1 / 3)),
        ([1.0, 2.0], pytest.approx(2 / 3)),
    ]


def test_a_histogram_is_flat_in_each_bracket():
    prior = HistogramPrior([0.0, 1.0, 3.0], [1, 3])
    assert prior.size == 4
    assert prior.expectation(lambda x: x**3) == pytest.approx(0.25 / 4 + 0.75 * 80 / 8, rel=1e-12)
    share = prior.expectation(lambda x: x > 2.2, breaks=[2.2])
    assert share == pytest.approx(0.75 * 0.4, rel=1e-12)


@pytest.mark.parametrize("sigma", [0.1, 0.8, 2.0])
def test_a_lognormal_law_against_its_moments_and_tail(sigma):
    prior = LogNormalPrior(3.0, sigma)
    mean = math.exp(3 + sigma**2 / 2)
    assert prior.expectation(lambda x: x) == pytest.approx(mean, rel=1e-9)
    tail = 1 - NormalDist(3.0, sigma).cdf(math.log(25.0))
    assert prior.expectation(lambda x: x > 25, breaks=[25.0]) == pytest.approx(tail, rel=1e-9)
    without = prior.expectation(lambda x: x > 25)
    assert abs(without - tail) > 1e-5  # control: a jump needs its break


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: SamplePrior([]), "values"),
        (lambda: SamplePrior([math.nan]), "values"),
        (lambda: SamplePrior("12"), "values"),
        (lambda: SamplePrior([1.0], [1.0, 2.0]), "weights"),
        (lambda: SamplePrior([1.0], [-1.0]), "weights"),
        (lambda: SamplePrior([1.0], [0.0]), "weights"),
        (lambda: SamplePrior([1.0], size=0.5), "size"),
        (lambda: HistogramPrior([0.0, 0.0], [1]), "edges"),
        (lambda: HistogramPrior([0.0], []), "edges"),
        (lambda: HistogramPrior([0.0, math.inf], [1]), "edges[1]"),
        (lambda: HistogramPrior([0.0, 1.0], [1, 2]), "counts"),
        (lambda: LogNormalPrior(math.nan, 1.0), "mu"),
        (lambda: LogNormalPrior(0.0, 0.0), "sigma"),
        (lambda: LogNormalPrior(0.0, 1.0, people=0), "people"),
    ],
)
def test_bad_input_is_named(make, name):
    with pytest.raises(ParameterError) as caught:
        make()
    assert caught.value.name == name


def test_people_who_have_more_round_alike():
    """A tenth more of a log-normal law shifts its logarithm; of a sample every row is more."""
    law = LogNormalPrior(2.0, 0.6)
    richer = LogNormalPrior(2.0 + math.log(1.1), 0.6)

    def above(x: np.ndarray) -> np.ndarray:
        return x > 9.0

    assert law.scaled(1.1).expectation(above, [9.0]) == pytest.approx(
        richer.expectation(above, [9.0]), abs=1e-9
    )
    assert law.scaled(1.1).expectation(above, [9.0]) > law.expectation(above, [9.0]) + 0.01
    heaped = HeapedPrior(law, (Heap(9.0, 0.1),)).scaled(1.1)
    assert heaped.expectation(lambda x: x == 9.0) == pytest.approx(0.1)
    sample = SamplePrior([1.0, 2.0], [1, 3]).scaled(0.5)
    assert sample.nodes()[0].tolist() == [0.5, 1.0]
    assert sample.size == pytest.approx(1.6)
    with pytest.raises(ParameterError, match="dimension"):
        SamplePrior([[1.0, 2.0]]).scaled(1.1)


def test_what_people_may_be_like_is_of_the_same_dimension():
    law = LogNormalPrior(2.0, 0.6)
    doubted = DoubtedPrior(law, {"other": SamplePrior([1.0])})
    assert doubted.expectation(np.sqrt) == law.expectation(np.sqrt)
    assert (doubted.size, doubted.continuous) == (law.size, True)
    assert not law.scenarios
    with pytest.raises(ParameterError, match=r"others\['places'\]\.dimension"):
        DoubtedPrior(law, {"places": SamplePrior([[1.0, 2.0]])})
