"""Many releases at a time: the integers of `release`, and what doubles say of them is true."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx, fmpq

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
    RadialLaplace,
    RandomizedResponse,
    Range,
    SeededSource,
    SmoothMechanism,
    StudentT,
    Threshold,
    VectorSmoothMechanism,
)
from geoveil.gp.enclosed import ENCLOSED, Enclosed, Undecided, round_where_decided
from geoveil.gp.exact import BALL
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
    "biased": RadialLaplace(BELL, PRIVACY),
    "local": LocalLaplace(RAMP, LOCAL),
    "response": RandomizedResponse(STEP, LOCAL),
    "coarse": LipschitzMechanism(RAMP, PRIVACY, step=0.5),
    "number": PlanarLaplace(PRIVACY, 1),
    "point": PlanarLaplace(PRIVACY, 2),
    "point in space": PlanarLaplace(PRIVACY, 3),
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
def test_the_integers_are_those_of_release(name: str) -> None:
    mechanism = (CLOSED | OPEN)[name]
    x = people(mechanism, 150 if name in CLOSED else 6)
    many = mechanism.release_many(x, SeededSource(5))
    assert many.dtype == np.int64
    assert np.array_equal(many, one_by_one(mechanism, x, 5))
    assert not np.array_equal(many, one_by_one(mechanism, x, 6))


@pytest.mark.deep
@pytest.mark.parametrize("name", CLOSED)
def test_a_million_reports_are_those_of_release(name: str) -> None:
    """About 77,000 of each of 16 mechanisms, in five batches with different bits."""
    mechanism = CLOSED[name]
    for seed in range(5):
        x = people(mechanism, 15_400, seed)
        many = mechanism.release_many(x, SeededSource(seed))
        assert np.array_equal(many, one_by_one(mechanism, x, seed))


@pytest.mark.parametrize("name", CLOSED)
def test_doubles_decide_most_reports_of_a_closed_formula(name: str) -> None:
    mechanism = CLOSED[name]
    shape = (2_000, sum(mechanism._uniforms), 2)
    drawn = np.random.default_rng(2).integers(0, 2**64, shape, dtype=np.uint64)
    _, decided = mechanism._decided(people(mechanism, 2_000), drawn)
    assert decided.mean() > 0.8


class Words:
    """Uniform numbers that lead next to where rounding changes, found by bisection in balls."""

    def __init__(self, mechanism: Mechanism[Any], x: float) -> None:
        self._mechanism, self._x = mechanism, x

    def released(self, numerator: int) -> int:
        bits = numerator << 128

        class Fixed(SeededSource):
            def bits(self, count: int) -> int:
                return bits >> (256 - count)

        return int(self._mechanism.release(self._x, Fixed(0)))

    def boundary(self, low: int, high: int) -> int:
        first = self.released(low)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.released(middle) == first else (low, middle)
        return high


@pytest.mark.parametrize("name", ["lipschitz", "ramp", "debiased step", "response", "coarse"])
def test_next_to_a_boundary_doubles_do_not_decide_wrongly(name: str) -> None:
    mechanism = CLOSED[name]
    words = Words(mechanism, 101.0)
    low = int(0.31 * 2**128)
    high = 9 * low // 4
    at = words.boundary(low, high)
    near = [at + sign * 2**shift for shift in range(0, 100, 4) for sign in (-1, 1)]
    near = [n for n in near if low < n < high]
    drawn = np.array([[[n >> 64, n & (2**64 - 1)]] for n in near], np.uint64)
    found, decided = mechanism._decided(np.full(len(near), 101.0), drawn)
    expected = np.array([words.released(n) for n in near])
    assert np.array_equal(found[decided], expected[decided])
    assert not decided[:10].any()


def test_batches_continue_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = CLOSED["ramp"]
    x = people(mechanism, 90)
    whole = mechanism.release_many(x, SeededSource(3))
    monkeypatch.setattr("geoveil.gp.mechanisms.base._BLOCK", 32)
    assert np.array_equal(mechanism.release_many(x, SeededSource(3)), whole)


@pytest.mark.parametrize("name", [*CLOSED, "several"])
def test_nobody_is_an_empty_array(name: str) -> None:
    mechanism = (CLOSED | OPEN)[name]
    empty = mechanism.release_many(people(mechanism, 0))
    columns = {"several": 2, "number": 1, "point": 2, "point in space": 3}
    assert empty.shape == (0, *([columns[name]] if name in columns else []))


@pytest.mark.parametrize("x", [[1.0, math.nan], ["a"], [1.0, math.inf]])
def test_what_is_no_point_is_refused_without_being_shown(x: Any) -> None:
    with pytest.raises(PrivateValueError, match="not shown"):
        CLOSED["ramp"].release_many(x)


def test_a_source_that_can_be_predicted_warns() -> None:
    with pytest.raises(Exception, match="source"):
        CLOSED["ramp"].release_many([1.0], "not a source")  # type: ignore[arg-type]
    assert NotPrivateWarning is not None


# Each operation encloses the true number, which balls of 400 bits find.


def cases(low: float, high: float, n: int = 400) -> Enclosed:
    """Numbers on all scales between two, some with a radius."""
    rng = np.random.default_rng(4)
    spread = np.exp(rng.uniform(math.log(1e-18), 0, n))
    middle = np.where(rng.random(n) < 0.5, low + (high - low) * rng.random(n), low + spread)
    middle = np.clip(np.where(rng.random(n) < 0.3, high - (high - low) * spread, middle), low, high)
    radius = np.abs(middle) * np.where(rng.random(n) < 0.5, 0, 2.0 ** -rng.uniform(20, 60, n))
    return Enclosed(middle, radius)


def within(x: Enclosed, share: float) -> list[arb]:
    """Return a true number for each: so far from the middle as a share of the radius."""
    radii = np.broadcast_to(x.radius, x.middle.shape)
    return [
        arb(fmpq(*(Fraction(m) + Fraction(r) * Fraction(share)).as_integer_ratio()))
        for m, r in zip(x.middle.tolist(), radii.tolist(), strict=True)
    ]


def enclosed_errors(found: Enclosed, true: list[arb]) -> tuple[int, float]:
    """Return how many are not enclosed, and the largest share of a radius that is used."""
    outside, used = 0, 0.0
    middles = np.broadcast_to(found.middle, len(true)).tolist()
    radii = np.broadcast_to(found.radius, len(true)).tolist()
    for middle, radius, value in zip(middles, radii, true, strict=True):
        if math.isfinite(radius):
            off = abs(value - arb(middle))
            outside += not off <= arb(radius)
            used = max(used, float(off / arb(radius)))
    return outside, used


ONE: dict[str, tuple[Callable[[Any, Any], Any], float, float]] = {
    "log": (lambda x, ops: ops.log(x), 1e-300, 1e300),
    "log near 1": (lambda x, ops: ops.log(x), 0.5, 2.0),
    "log1p": (lambda x, ops: ops.log1p(x), -0.999, 1.0),
    "exp": (lambda x, ops: ops.exp(x), -690.0, 690.0),
    "exp near 0": (lambda x, ops: ops.exp(x), -1.0, 1.0),
    "expm1": (lambda x, ops: ops.expm1(x), -1.0, 1.0),
    "expm1 far": (lambda x, ops: ops.expm1(x), -50.0, 50.0),
    "sqrt": (lambda x, ops: ops.sqrt(x), 1e-200, 1e9),
    "power": (lambda x, ops: ops.power(x, ops.constant(Fraction(1, 3))), 1e-9, 1e9),
    "cube": (lambda x, ops: ops.power(x, 3), -10.0, 10.0),
    "quotient": (lambda x, ops: (1 - x) / (2 + x), -1.0, 1.0),
    "polynomial": (lambda x, ops: x * x * (3 - 2 * x) - x / 7 + 1, -3.0, 3.0),
    "least": (lambda x, ops: ops.minimum(x, 1 - x) + ops.clip(x, x / 2, 2 * x), 0.0, 1.0),
    "size": (lambda x, ops: ops.absolute(-x) * ops.sign(x - ops.constant(0.5)), -2.0, 2.0),
    "constant": (lambda x, ops: x * ops.constant(Fraction(1, 3)), -2.0, 2.0),
    "cosine of a turn": (lambda x, ops: ops.turn(x)[0], 0.0, 1.0),
    "sine of a turn": (lambda x, ops: ops.turn(x)[1], 0.0, 1.0),
    "pieces": (
        lambda x, ops: ops.piecewise(
            x, (ops.constant(0.25), ops.constant(0.5)), (lambda v: -v, lambda v: v * v, ops.exp)
        ),
        0.0,
        1.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("share", [-1.0, 0.0, 1.0, None])
def test_an_operation_encloses_the_true_number(name: str, share: float | None) -> None:
    function, low, high = ONE[name]
    x = cases(low, high)
    if share is None:  # of doubles exactly
        x, share = ENCLOSED.private(x.middle), 0.0
    with np.errstate(all="ignore"):
        found = function(x, ENCLOSED)
    before, ctx.prec = ctx.prec, 400
    try:
        true = [function(value, BALL) for value in within(x, share)]
        outside, used = enclosed_errors(found, true)
    finally:
        ctx.prec = before
    assert outside == 0
    assert np.isfinite(found.radius).mean() > 0.5
    assert used > 1e-3 or name in ("least", "size")  # a bound that no number comes near is none


def test_a_uniform_number_and_what_it_lacks_to_one_are_as_precise() -> None:
    words = np.random.default_rng(6).integers(0, 2**64, (300, 2), np.uint64)
    words[:, 0] >>= (np.arange(300) % 60).astype(np.uint64)
    words[::2, 0] = ~words[::2, 0]  # next to 1
    numbers = [Fraction(int(high) << 64 | int(low), 2**128) for high, low in words]
    u = ENCLOSED.uniform(words)
    unit = Fraction(1 + 2**-20) / 2**53
    for found, at in ((u, lambda n: n), (1 - u, lambda n: 1 - n)):
        for middle, radius, number in zip(found.middle, found.radius, numbers, strict=True):
            least = at(number)  # the bits beyond are not known
            for true in (least, at(number + Fraction(1, 2**128))):
                assert abs(true - Fraction(float(middle))) <= Fraction(float(radius))
            assert Fraction(float(radius)) <= least * unit + 3 * Fraction(1, 2**64)
    # The control: a double's 1 − U is as imprecise as U.
    rest = 1 - Enclosed(u.middle, u.radius)
    assert np.any(rest.radius > 1000 * (1 - u).radius)


@pytest.mark.parametrize("name", ["log", "exp", "expm1", "log1p", "sine of a turn"])
def test_half_the_bound_of_a_series_is_too_small_for_some(name: str) -> None:
    """The control: radii of a fourth, without what operands are off by, must be exceeded."""
    function, low, high = ONE[name]
    x = cases(low, high)
    exact = Enclosed(x.middle, np.zeros_like(x.middle))
    with np.errstate(all="ignore"):
        found = function(exact, ENCLOSED)
    before, ctx.prec = ctx.prec, 400
    try:
        true = [function(value, BALL) for value in within(exact, 0.0)]
        narrow = Enclosed(found.middle, found.radius / 32)
        assert enclosed_errors(narrow, true)[0] > 0
        assert enclosed_errors(found, true)[0] == 0
    finally:
        ctx.prec = before


def next_to(at: Any, rng: np.random.Generator) -> Any:
    """Return numbers on all scales from some, which are where another row of a table is taken."""
    at = np.asarray(at)
    return at * (1 + rng.choice([-1, 1], at.shape) * 2.0 ** -rng.uniform(4, 53, at.shape))


@pytest.mark.parametrize("name", ["log", "exp", "expm1", "log1p"])
def test_where_the_rows_of_a_table_meet_the_true_number_is_enclosed(name: str) -> None:
    rng = np.random.default_rng(7)
    halves = rng.integers(-180, 180, 6_000) * (math.log(2) / 128)
    parts = rng.integers(91, 182, 6_000) / 128 * 2.0 ** rng.integers(-2, 3, 6_000)
    ones = np.concatenate([parts, np.ones(3_000)])
    at = {
        "exp": next_to(halves, rng),
        "expm1": np.concatenate([next_to(halves, rng), 2.0 ** -rng.uniform(5, 200, 3_000)]),
        "log": next_to(ones, rng),
        "log1p": np.concatenate([next_to(ones, rng) - 1, -(2.0 ** -rng.uniform(2, 200, 3_000))]),
    }[name]
    x, function = ENCLOSED.private(at), ONE[name][0]
    found = function(x, ENCLOSED)
    before, ctx.prec = ctx.prec, 400
    try:
        outside, used = enclosed_errors(found, [function(value, BALL) for value in within(x, 0.0)])
    finally:
        ctx.prec = before
    assert outside == 0
    assert used > 0.4
    units = 20 if name == "log1p" else 9
    assert np.all(found.radius <= units * 2.0**-53 * np.abs(found.middle) + 2.0**-999)


def test_what_can_not_be_told_is_not_told() -> None:
    x = ENCLOSED.private(np.array([1.0, 2.0]))
    for ask in (bool, float, np.asarray, lambda v: v < 1, lambda v: v == 1, lambda v: v.mid(),
                lambda v: v**2, lambda v: v + np.ones(2), lambda v: v + arb(1),
                lambda v: arb(1) + v, lambda v: v * "1"):  # fmt: skip
        with pytest.raises(Undecided):
            ask(x)
    with pytest.raises(Undecided):
        ENCLOSED.constant(Fraction(10) ** 400)
    with np.errstate(all="ignore"):
        for nothing in (x / (x - x), ENCLOSED.log(x - 2), ENCLOSED.sqrt(x - 3),
                        ENCLOSED.exp(x * 1e5), x * 1e308 * 1e308,
                        ENCLOSED.piecewise(x, (x,), (lambda v: v, lambda v: v))):  # fmt: skip
            assert not round_where_decided(nothing, 0)[1].any()
    assert repr(x) == "Enclosed(not shown)"
    with pytest.raises(TypeError):
        hash(x)


def test_rounding_is_told_up_to_its_boundary_only() -> None:
    middle = np.array([0.25, 0.49, 0.5, 2.0**51, -3.3, math.nan])
    value = Enclosed(middle, np.full(6, 0.02))
    integers, decided = round_where_decided(value, 0)
    assert decided.tolist() == [True, False, False, False, True, False]
    assert integers[[0, 4]].tolist() == [0, -3]
