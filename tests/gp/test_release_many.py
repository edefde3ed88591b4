"""Test that points released together equal those of `release`, which doubles mostly find.

For all other mechanisms: test_release_everything.py.
"""

from typing import Any

import numpy as np
import pytest

from geoveil.gp import (
    GaussianKernel,
    GeoPrivacy,
    LipschitzMechanism,
    PlanarLaplace,
    RandomSource,
    SeededSource,
    Threshold,
    VectorSmoothMechanism,
)
from geoveil.gp.mechanisms.base import Mechanism

pytestmark = pytest.mark.filterwarnings("ignore::geoveil.gp.NotPrivateWarning")

PRIVACY, RAMP = GeoPrivacy(1.0, 8.0, "km"), Threshold(100.0, 16.0)
POINTS = {
    "number": PlanarLaplace(PRIVACY, 1),
    "point": PlanarLaplace(PRIVACY, 2),
    "point in space": PlanarLaplace(PRIVACY, 3),
    "far point": PlanarLaplace(GeoPrivacy(1.0, 2.0**-22, "km"), 2),
    "coarse point": PlanarLaplace(PRIVACY, 2, step=8.0),
}


def people(mechanism: Mechanism[Any], n: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(1)
    x = rng.normal(100.0, 20.0, (n, mechanism.dimension))
    x[::7] = np.rint(x[::7])
    return x if mechanism.dimension > 1 else x[:, 0]


class Repeated(RandomSource):
    """The same 128 bits again and again."""

    def __init__(self, word: int) -> None:
        self._word = word

    def bits(self, count: int) -> int:
        return int(f"{self._word:0128b}" * -(-count // 128) or "0", 2) >> -count % 128


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("word", [1, 2**107 - 1, 2**127 - 1, 2**127, 2**128 - 2**100, 2**128 - 1])
def test_points_are_those_of_release_at_the_ends_and_the_middle_of_the_bits(word, k):
    mechanism = PlanarLaplace(PRIVACY, k)
    x = people(mechanism, 3)
    one_by_one = [mechanism.release(each, Repeated(word)) for each in x.tolist()]
    assert np.array_equal(mechanism.release_many(x, Repeated(word)), one_by_one)


@pytest.mark.parametrize("name", POINTS)
def test_points_that_doubles_and_balls_find_are_the_same(name):
    mechanism = POINTS[name]
    x = people(mechanism, 500)
    many, source = mechanism.release_many(x, SeededSource(9)), SeededSource(9)
    assert many.dtype == np.int64
    assert np.array_equal(many, [mechanism.release(each, source) for each in x.tolist()])


@pytest.mark.parametrize(
    "mechanism",
    [
        LipschitzMechanism(RAMP, PRIVACY),
        LipschitzMechanism(GaussianKernel((100.0, 90.0), 20.0), PRIVACY),
        VectorSmoothMechanism([RAMP, Threshold(120.0, 16.0)], PRIVACY),
    ],
)
def test_reports_are_those_of_release_in_turn(mechanism):
    x = people(mechanism, 5)
    many, source = mechanism.release_many(x, SeededSource(9)), SeededSource(9)
    assert np.array_equal(many, [mechanism.release(each, source) for each in x.tolist()])
    assert np.array_equal(mechanism.release_many(x[0], SeededSource(9)), many[:1])


@pytest.mark.parametrize(
    ("mechanism", "shape"),
    [
        (LipschitzMechanism(RAMP, PRIVACY), (0,)),
        (VectorSmoothMechanism([RAMP, Threshold(120.0, 16.0)], PRIVACY), (0, 2)),
        (POINTS["point in space"], (0, 3)),
    ],
)
def test_nobody_is_an_empty_array(mechanism, shape):
    assert mechanism.release_many(people(mechanism, 0)).shape == shape
