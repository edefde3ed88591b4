"""Test that many releases at once equal those of `release`, and that doubles decide rightly."""

import math
from typing import Any

import numpy as np
import pytest

from geoveil.gp import (
    DebiasedLaplace,
    Disc,
    FormulaProfile,
    GaussianKernel,
    GeneralizedCauchy,
    GeoPrivacy,
    LipschitzMechanism,
    LocalLaplace,
    LocalPrivacy,
    NotPrivateWarning,
    PlanarLaplace,
    Polygon,
    PrivateValueError,
    Radial,
    RandomizedResponse,
    RandomSource,
    Range,
    SeededSource,
    SmoothMechanism,
    StudentT,
    Threshold,
    VectorSmoothMechanism,
)
from geoveil.gp.mechanisms.base import Mechanism

pytestmark = pytest.mark.filterwarnings("ignore::geoveil.gp.NotPrivateWarning")

PRIVACY, LOCAL = GeoPrivacy(1.0, 8.0, "km"), LocalPrivacy(1.0)
RAMP, STEP = Threshold(100.0, 16.0), Threshold(100.0, 24.0, "smoothstep")
BELL, DISC = GaussianKernel((100.0, 90.0), 12.0), Disc((95.0, 90.0), 20.0, 16.0, "smoothstep")
WALK = FormulaProfile(lambda u, ops: ops.exp(-u), scale=30.0)
CLOSED: dict[str, Mechanism[Any]] = {
    "lipschitz": LipschitzMechanism(RAMP, PRIVACY),
    "ramp": SmoothMechanism(RAMP, PRIVACY),
    "range": SmoothMechanism(Range(90.0, 130.0, 16.0), PRIVACY),
    "kernel": SmoothMechanism(BELL, PRIVACY),
    "disc": SmoothMechanism(DISC, PRIVACY),
    "debiased step": DebiasedLaplace(STEP, PRIVACY),
    "debiased range": DebiasedLaplace(Range(90.0, 130.0, 24.0, "smoothstep"), PRIVACY),
    "debiased kernel": DebiasedLaplace(BELL, PRIVACY),
    "debiased disc": DebiasedLaplace(DISC, PRIVACY),
    "local": LocalLaplace(RAMP, LOCAL),
    "response": RandomizedResponse(STEP, LOCAL),
    "coarse": LipschitzMechanism(RAMP, PRIVACY, step=0.5),
    "number": PlanarLaplace(PRIVACY, 1),
    "point": PlanarLaplace(PRIVACY, 2),
    "point in space": PlanarLaplace(PRIVACY, 3),
    "far point": PlanarLaplace(GeoPrivacy(1.0, 2.0**-22, "km"), 2),
    "coarse point": PlanarLaplace(PRIVACY, 2, step=8.0),
}
OPEN: dict[str, Mechanism[Any]] = {
    "formula": DebiasedLaplace(Radial(WALK, (100.0, 90.0)), PRIVACY),
    "formula, bounded": SmoothMechanism(Radial(WALK, (100.0, 90.0)), PRIVACY),
    "far reach": SmoothMechanism(STEP, PRIVACY, reach=math.inf),
    "t": SmoothMechanism(RAMP, PRIVACY, noise=StudentT(3), beta=0.01),
    "cauchy": SmoothMechanism(RAMP, PRIVACY, noise=GeneralizedCauchy(4), beta=0.01),
    "polygon": SmoothMechanism(
        Polygon([(80.0, 80.0), (120.0, 80.0), (100.0, 110.0)], 16.0), PRIVACY
    ),
    "several": VectorSmoothMechanism([RAMP, Threshold(120.0, 16.0)], PRIVACY),
}


def people(mechanism: Mechanism[Any], n: int, seed: int = 1) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.normal(100.0, 20.0, (n, mechanism.dimension))
    x[::7] = np.rint(x[::7])
    return x if mechanism.dimension > 1 else x[:, 0]


def one_by_one(mechanism: Mechanism[Any], x: Any, seed: int) -> Any:
    source = SeededSource(seed)
    return np.array([mechanism.release(one, source) for one in x.tolist()])


@pytest.mark.parametrize("name", [*CLOSED, *OPEN])
def test_the_integers_are_those_of_release(name):
    mechanism = (CLOSED | OPEN)[name]
    x = people(mechanism, 150 if name in CLOSED else 6)
    many = mechanism.release_many(x, SeededSource(5))
    assert many.dtype == np.int64
    assert np.array_equal(many, one_by_one(mechanism, x, 5))
    assert not np.array_equal(many, one_by_one(mechanism, x, 6))


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


@pytest.mark.deep
def test_points_that_doubles_and_balls_find_are_the_same():
    for mechanism in (CLOSED["point"], CLOSED["coarse point"]):
        x = people(mechanism, 1_500)
        many = mechanism.release_many(x, SeededSource(9))
        assert np.array_equal(many, one_by_one(mechanism, x, 9))


@pytest.mark.parametrize("name", [*CLOSED, "several"])
def test_nobody_is_an_empty_array(name):
    mechanism = (CLOSED | OPEN)[name]
    empty = mechanism.release_many(people(mechanism, 0))
    points = {name: m.dimension for name, m in CLOSED.items() if isinstance(m, PlanarLaplace)}
    columns = {"several": 2} | points
    assert empty.shape == (0, *([columns[name]] if name in columns else []))


@pytest.mark.parametrize("x", [[1.0, math.nan], ["a"], [1.0, math.inf]])
def test_what_is_no_point_is_refused_without_being_shown(x):
    with pytest.raises(PrivateValueError, match="not shown"):
        CLOSED["ramp"].release_many(x)


def test_a_source_that_can_be_predicted_warns():
    with pytest.raises(Exception, match="source"):
        CLOSED["ramp"].release_many([1.0], "not a source")  # type: ignore[arg-type]
    assert NotPrivateWarning is not None
