"""Releases by a straight line of ball operations: the integers of the formula, or none."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from flint import arb

from geoveil.gp import (
    DebiasedLaplace,
    Disc,
    GaussianKernel,
    GeoPrivacy,
    LipschitzMechanism,
    LocalLaplace,
    LocalPrivacy,
    PlanarLaplace,
    RadialLaplace,
    RandomizedResponse,
    Range,
    SeededSource,
    SmoothMechanism,
    StudentT,
    Threshold,
    TwoWayThreshold,
)
from geoveil.gp.arithmetic import Arithmetic
from geoveil.gp.exact import BALL, SHORT_PRECISION, LazyUniform, release_at_once, working_precision
from geoveil.gp.mechanisms.base import Mechanism
from geoveil.gp.straight_line import NEVER, Often, straight_line

pytestmark = pytest.mark.filterwarnings("ignore::geoveil.gp.NotPrivateWarning")

PRIVACY, LOCAL = GeoPrivacy(1.0, 8.0, "km"), LocalPrivacy(1.0)
RAMP, STEP = Threshold(100.0, 16.0), Threshold(100.0, 24.0, "smoothstep")
BELL, DISC = GaussianKernel((100.0, 90.0), 12.0), Disc((95.0, 90.0), 20.0, 16.0, "smoothstep")
QUADRANT = TwoWayThreshold((95.0, 90.0), 16.0)
MAKERS: dict[str, Any] = {
    "lipschitz": lambda: LipschitzMechanism(RAMP, PRIVACY),
    "ramp": lambda: SmoothMechanism(RAMP, PRIVACY),
    "range": lambda: SmoothMechanism(Range(90.0, 130.0, 16.0), PRIVACY),
    "kernel": lambda: SmoothMechanism(BELL, PRIVACY),
    "disc": lambda: SmoothMechanism(DISC, PRIVACY),
    "quadrant": lambda: SmoothMechanism(QUADRANT, PRIVACY),
    "debiased step": lambda: DebiasedLaplace(STEP, PRIVACY),
    "debiased kernel": lambda: DebiasedLaplace(BELL, PRIVACY),
    "biased": lambda: RadialLaplace(BELL, PRIVACY),
    "local": lambda: LocalLaplace(RAMP, LOCAL),
    "response": lambda: RandomizedResponse(STEP, LOCAL),
    "number": lambda: PlanarLaplace(PRIVACY, 1),
    "point": lambda: PlanarLaplace(PRIVACY, 2),
    "point in space": lambda: PlanarLaplace(PRIVACY, 3),
}


def by_the_formula(mechanism: Mechanism[Any]) -> Mechanism[Any]:
    mechanism.__dict__["_often"] = NEVER
    return mechanism


def places(mechanism: Mechanism[Any], n: int) -> list[Any]:
    x = np.random.default_rng(1).normal(100.0, 20.0, (n, mechanism.dimension))
    x[::5] = np.rint(x[::5])
    x[1], x[2] = 1e80, 100.0
    return x[:, 0].tolist() if mechanism.dimension == 1 else list(map(tuple, x.tolist()))


@pytest.mark.parametrize("name", MAKERS)
def test_the_integers_are_those_of_the_formula(name: str) -> None:
    often, never = MAKERS[name](), by_the_formula(MAKERS[name]())
    x = places(often, 150)
    sources = SeededSource(3), SeededSource(3)
    found = [often.release(one, sources[0]) for one in x]
    assert often._often.line is not None, "a closed formula is taken down"
    assert found == [never.release(one, sources[1]) for one in x]


@pytest.mark.parametrize("name", MAKERS)
def test_a_line_tells_nearly_every_report_and_no_other(name: str) -> None:
    mechanism = MAKERS[name]()
    line, source = mechanism._taken_down(), SeededSource(4)
    told = 0
    for x in places(mechanism, 60):
        drawn = [source.bits(LazyUniform.FIRST) for _ in range(sum(mechanism._uniforms))]
        point = list(np.atleast_1d(x).tolist())
        told += release_at_once(line, point, drawn) is not None
        # A ball around it holds what more bits, drawn or computed, can lead to.
        with working_precision(SHORT_PRECISION):
            balls = line(*map(arb, point), *map(arb, drawn))
        with working_precision(400):
            u = [BALL.uniform(n, LazyUniform.FIRST).mid() for n in drawn]
            exact = mechanism._formula([*map(arb, point), *u], BALL)
            shifted = [y * arb(2) ** -mechanism.step_exponent + arb(0.5) for y in exact]
            assert all(ball.overlaps(y) for ball, y in zip(balls, shifted, strict=True))
    assert told >= 58  # all but those whose points are farther than 64 bits reach


def test_control_a_line_of_another_formula_is_told_apart() -> None:
    mechanism, other = MAKERS["ramp"](), SmoothMechanism(Threshold(100.001, 16.0), PRIVACY)
    mechanism._often.left, mechanism._often.line = 0, other._taken_down()
    never = by_the_formula(MAKERS["ramp"]())
    pairs = [(m.release(101.0, SeededSource(s))) for s in range(9) for m in (mechanism, never)]
    assert any(a != b for a, b in zip(pairs[::2], pairs[1::2], strict=True))


@pytest.mark.parametrize(
    "looks",
    [
        lambda x, ops: x if x > 0 else -x,
        lambda x, ops: x.mid(),
        lambda x, ops: x**2,
        lambda x, ops: float(x),
        lambda x, ops: x + np.ones(2),
        lambda x, ops: x * "1",
        lambda x, ops: max([x, 1]),
        lambda x, ops: ops.piecewise(arb(1), (arb(2),), (lambda _: x, lambda _: x)).mid(),
    ],
)
def test_a_formula_that_looks_at_its_numbers_has_no_line(looks: Any) -> None:
    assert straight_line(lambda x, ops: [looks(x[0], ops)], 1, 64) is None


def test_every_operation_is_that_of_balls() -> None:
    def formula(x: Any, ops: Arithmetic) -> list[Any]:
        a, b = x
        c, s = ops.turn(a)
        jump = ops.piecewise(
            b,
            (ops.constant(0.5), a + 1),
            (lambda v: -v, lambda v: a * v, lambda _: ops.constant(7)),
        )
        return [
            ops.exp(a) + ops.log(b) - ops.expm1(a) * ops.log1p(b) / ops.sqrt(b) + 3 / a - (2 - b),
            ops.power(a, 3) + ops.power(b, a) + ops.power(ops.constant(2), a) + a / 3 + a / 2.5,
            ops.minimum(a, b) + ops.maximum(ops.constant(0.2), b) + ops.clip(a, b, b * 2),
            abs(-a) * ops.sign(b - 1) + ops.absolute(a - b) + 2.0 * a + jump + c * s,
            ops.constant(5),
        ]

    with working_precision(128):
        line = straight_line(formula, 2, 128)
        assert line is not None
        for a, b in ((0.3, 0.7), (0.25, 0.1), (0.9, 3.0), (0.1, 1.1)):
            x = [arb(a, 1e-9), arb(b, 1e-9)]
            for found, expected in zip(line(*x), formula(x, BALL), strict=True):
                assert found.overlaps(expected)
                assert found.rad() < 2 * expected.rad() + arb(1e-30)


def test_noise_without_a_closed_quantile_is_released_by_its_formula() -> None:
    mechanism = SmoothMechanism(RAMP, PRIVACY, noise=StudentT(3), beta=0.01)
    assert mechanism._taken_down() is None


def test_code_does_not_travel_with_a_mechanism() -> None:
    mechanism = MAKERS["lipschitz"]()
    for seed in range(70):
        mechanism.release(100.0, SeededSource(seed))
    for other in (copy.deepcopy(mechanism), pickle.loads(pickle.dumps(mechanism))):
        assert other == mechanism
        assert other._often.line is None
        assert other.release(3.0, SeededSource(1)) == mechanism.release(3.0, SeededSource(1))
    assert repr(Often()) == repr(mechanism._often) == "Often()"
