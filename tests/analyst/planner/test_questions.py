"""Test hard questions: truth, soft stand-ins, and placement of bands."""

import math

import numpy as np
import pytest

from geoveil.analyst.planner import (
    HardDisc,
    HardPolygon,
    HardRange,
    HardThreshold,
    SamplePrior,
    SoftQuestion,
    coarse,
)
from geoveil.analyst.planner.problem import Nodes
from geoveil.gp import GaussianKernel, ParameterError, Threshold

SQUARE = [(0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (0.0, 4.0)]
QUESTIONS = [
    HardThreshold(1.0),
    HardRange(-0.5, 1.5),
    HardDisc((0.0, 0.0), 1.2),
    HardPolygon(SQUARE),
]


def people(question, n=20_000):
    rng = np.random.default_rng(5)
    points = rng.normal(size=(n, question.dimension))
    return (points[:, 0] if question.dimension == 1 else points), np.full(n, 1 / n)


def aimed(question, width, profile, points, weights):
    return coarse.aimed(Nodes(question, SamplePrior(points), points, weights), width, profile)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: type(q).__name__)
@pytest.mark.parametrize("step", ["linear", "smoothstep"])
def test_a_narrow_stand_in_is_the_truth(question, step):
    points, _ = people(question)
    soft = question.soft(1e-6, step, question.still)
    assert np.array_equal(soft.value(points), question.truth(points))
    wide = question.soft(0.5, step, question.still)
    assert not np.array_equal(wide.value(points), question.truth(points))


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: type(q).__name__)
def test_the_soft_share_is_the_hard_share(question):
    points, weights = people(question)
    hard = weights @ question.truth(points)
    soft = aimed(question, 0.8, "smoothstep", points, weights)
    # A polygon and a rounded corner are moved only about as far as their distance falls.
    assert weights @ soft.value(points) == pytest.approx(hard, abs=2e-5)
    straight = question.soft(0.8, "smoothstep", question.still)
    assert abs(weights @ straight.value(points) - hard) > 1e-3


@pytest.mark.deep
def test_the_soft_share_is_the_hard_share_of_a_jagged_coast():
    """A boundary whose every corner moves further than its sides: wide bands, and narrow ones."""
    angle = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    rng = np.random.default_rng(7)
    radius = 1.2 + 0.2 * np.sin(5 * angle) + rng.normal(scale=0.05, size=400)
    coast = HardPolygon(np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1))
    points, weights = people(coast)
    hard = weights @ coast.truth(points)
    for width in (0.1, 0.5, 1.5):
        soft = aimed(coast, width, "smoothstep", points, weights)
        assert weights @ soft.value(points) == pytest.approx(hard, abs=2e-5)
        straight = coast.soft(width, "smoothstep", (0.0,))
        assert abs(weights @ straight.value(points) - hard) > 1e-4


def test_a_polygon_is_hashed_however_its_corners_are_given():
    """Plans are cached by it. Control: a list has no hash."""
    assert hash(HardPolygon([list(corner) for corner in SQUARE])) == hash(HardPolygon(SQUARE))
    assert HardPolygon(SQUARE) == HardPolygon(np.array(SQUARE))
    with pytest.raises(TypeError):
        hash((SQUARE,))


def test_a_polygon_fits_until_it_is_shrunk_away():
    question = HardPolygon([(0.0, 0.0), (6.0, 0.0), (6.0, 4.0), (0.0, 4.0)])
    for inwards in (-3.0, 0.0, 1.99, 2.01):
        try:
            question.soft(1.0, "linear", (inwards,))
            fits = True
        except ParameterError:
            fits = False
        assert question.fits(1.0, "linear", (inwards,)) == fits == (inwards < 2)


def test_a_heap_at_the_threshold_puts_the_band_above_it():
    points = np.concatenate([np.linspace(50.0, 150.0, 1001), [100.0]])
    weights = np.concatenate([np.full(1001, 0.9 / 1001), [0.1]])
    with_heap = aimed(HardThreshold(100.0), 20.0, "smoothstep", points, weights)
    without = aimed(HardThreshold(100.0), 20.0, "smoothstep", points[:-1], weights[:-1] / 0.9)
    moved = with_heap.at - 100
    # What the band gives up of the even part is what it takes of the heap.
    assert 0.009 * moved == pytest.approx(0.1 * with_heap.value(100.0), rel=0.02)
    assert moved > 3
    assert without.at == pytest.approx(100.0, abs=0.2)


def test_where_nobody_is_the_band_stays():
    far = aimed(HardThreshold(1e6), 20.0, "linear", np.array([1.0, 2.0]), np.array([0.5, 0.5]))
    assert far.at == 1e6


def test_a_small_region_has_no_wide_bands():
    points, weights = people(HardRange(0.0, 1.0))
    bands = {w: aimed(HardRange(0.0, 1.0), w, "linear", points, weights) for w in (0.5, 4.0)}
    assert bands[4.0] is None
    assert bands[0.5].width == 0.5


def test_a_query_is_its_own_truth():
    query = GaussianKernel(0.0, 1.0)
    x = np.linspace(-1, 1, 5)
    assert np.array_equal(SoftQuestion(query).truth(x), query.value(x))
    assert SoftQuestion(query).clearance(np.array([15.0, 0.5])).tolist() == [5.0, 0.0]
    assert SoftQuestion(Threshold(3.0, 1.0)).clearance(np.array([4.0, 3.0])).tolist() == [0.5, 0.0]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: HardThreshold(math.nan), "at"),
        (lambda: HardRange(1.0, 1.0), "high"),
        (lambda: HardDisc((0.0,), 1.0), "center"),
        (lambda: HardDisc((0.0, 0.0), 0.0), "radius"),
        (lambda: HardPolygon("square"), "region"),
        (lambda: SoftQuestion(3), "query"),
    ],
)
def test_bad_input_is_named(make, name):
    with pytest.raises(ParameterError) as caught:
        make()
    assert caught.value.name == name
