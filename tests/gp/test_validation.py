"""Test that every public constructor and call refuses wrong arguments by name, hiding private ones.

A public parameter that is wrong raises ParameterError with the parameter's name; a private value
raises PrivateValueError, whose text never holds the value, in whatever form it was given.
"""

import math
import traceback
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from geoveil.gp import (
    DebiasedLaplace,
    Disc,
    Gaussian,
    GaussianKernel,
    GeneralizedCauchy,
    GeoPrivacy,
    GeoVeilError,
    Laplace,
    LaplacePareto,
    LipschitzMechanism,
    LocalLaplace,
    LocalPrivacy,
    ParameterError,
    PlanarLaplace,
    PowerLaw,
    PrivateValueError,
    Query,
    QueryMechanism,
    RandomizedResponse,
    Range,
    SeededSource,
    SmoothMechanism,
    StudentT,
    SystemSource,
    Threshold,
    TwoWayThreshold,
    UnsupportedError,
)
from geoveil.gp.mechanisms.base import PrivatePoint
from geoveil.gp.randomness import LazyUniform

UNIT = GeoPrivacy(1.0, per=1.0)
RAMP, STEP = Threshold(0.0, 2.0), Threshold(0.0, 2.0, "smoothstep")
BELL = GaussianKernel((0.0, 0.0), 2.0)
NOT_NUMBERS: list[Any] = [
    *(math.nan, math.inf, -math.inf, None, "1", b"1", True, 1j, [1.0], object()),
    *(np.complex128(1 + 5j), np.complex64(1), np.array(1.0)),
]
NOT_POSITIVE = [*NOT_NUMBERS, 0, -1.0, 0.0, -0.0, 10**400, 5e-324, np.array([1.0, 2.0])]
NOT_CHOICES: list[Any] = ["", "other", None, 3, ["linear"], {}]

Call = Callable[[Any], Any]
POSITIVE: dict[str, tuple[Call, str]] = {
    "Threshold.width": (lambda v: Threshold(0.0, v), "width"),
    "Range.width": (lambda v: Range(0.0, 9.0, v), "width"),
    "TwoWayThreshold.width": (lambda v: TwoWayThreshold((0.0, 0.0), v), "width"),
    "Disc.width": (lambda v: Disc((0.0, 0.0), 9.0, v), "width"),
    "Disc.radius": (lambda v: Disc((0.0, 0.0), v, 1.0), "radius"),
    "Gaussian.bandwidth": (Gaussian, "bandwidth"),
    "GaussianKernel.bandwidth": (lambda v: GaussianKernel(0.0, v), "bandwidth"),
    "Query.smooth_bound.beta": (lambda v: RAMP.smooth_bound(0.0, v), "beta"),
    "Laplace.scale": (Laplace, "scale"),
    "GeneralizedCauchy.gamma": (GeneralizedCauchy, "gamma"),
    "StudentT.nu": (StudentT, "nu"),
    "LaplacePareto.epsilon": (lambda v: LaplacePareto(v, 0.1), "epsilon"),
    "LaplacePareto.beta": (lambda v: LaplacePareto(1.0, v), "beta"),
    "PowerLaw.epsilon": (lambda v: PowerLaw(v, 0.1), "epsilon"),
    "PowerLaw.beta": (lambda v: PowerLaw(1.0, v), "beta"),
}
# None and infinity mean something here: the best β, the default grid, an unbounded reach.
NOT_POSITIVE_OR_NONE = [v for v in NOT_POSITIVE if v is not None]
OPTIONAL: dict[str, tuple[Call, str]] = {
    "SmoothMechanism.beta": (lambda v: SmoothMechanism(RAMP, UNIT, beta=v), "beta"),
    "SmoothMechanism.step": (lambda v: SmoothMechanism(RAMP, UNIT, step=v), "step"),
    "LipschitzMechanism.step": (lambda v: LipschitzMechanism(RAMP, UNIT, step=v), "step"),
    "RandomizedResponse.step": (
        lambda v: RandomizedResponse(RAMP, LocalPrivacy(1.0), step=v),
        "step",
    ),
    "LocalLaplace.step": (lambda v: LocalLaplace(RAMP, LocalPrivacy(1.0), step=v), "step"),
    "DebiasedLaplace.step": (lambda v: DebiasedLaplace(STEP, UNIT, step=v), "step"),
}
REAL: dict[str, tuple[Call, str]] = {
    "Threshold.at": (lambda v: Threshold(v, 1.0), "at"),
    "Range.low": (lambda v: Range(v, 9.0, 1.0), "low"),
    "Range.high": (lambda v: Range(0.0, v, 1.0), "high"),
    "TwoWayThreshold.at": (lambda v: TwoWayThreshold((0.0, v), 1.0), "at[1]"),
    "Disc.center": (lambda v: Disc((0.0, v), 9.0, 1.0), "center[1]"),
    "GaussianKernel.center": (lambda v: GaussianKernel((0.0, v), 1.0), "center[1]"),
}
NON_NEGATIVE: dict[str, tuple[Call, str]] = {
    "LocalPrivacy.at": (LocalPrivacy(1.0).at, "distance"),
    "Query.smooth_bound.reach": (lambda v: RAMP.smooth_bound(0.0, 1.0, reach=v), "reach"),
    "SmoothMechanism.reach": (lambda v: SmoothMechanism(RAMP, UNIT, reach=v), "reach"),
}
CHOICES: dict[str, tuple[Call, str]] = {
    "Threshold.profile": (lambda v: Threshold(0.0, 1.0, v), "profile"),
    "Disc.profile": (lambda v: Disc((0.0, 0.0), 2.0, 1.0, v), "profile"),
    "Query.smooth_bound.growth": (lambda v: RAMP.smooth_bound(0.0, 1.0, growth=v), "growth"),
    "SmoothMechanism.calibration": (
        lambda v: SmoothMechanism(RAMP, UNIT, calibration=v),
        "calibration",
    ),
}
OBJECTS: dict[str, tuple[Call, str]] = {
    "SmoothMechanism.query": (lambda v: SmoothMechanism(v, UNIT), "query"),
    "SmoothMechanism.privacy": (lambda v: SmoothMechanism(RAMP, v), "privacy"),
    "LipschitzMechanism.query": (lambda v: LipschitzMechanism(v, UNIT), "query"),
    "LipschitzMechanism.privacy": (lambda v: LipschitzMechanism(RAMP, v), "privacy"),
    "DebiasedLaplace.query": (lambda v: DebiasedLaplace(v, UNIT), "query"),
    "DebiasedLaplace.privacy": (lambda v: DebiasedLaplace(STEP, v), "privacy"),
    "RandomizedResponse.query": (lambda v: RandomizedResponse(v, LocalPrivacy(1.0)), "query"),
    "RandomizedResponse.privacy": (lambda v: RandomizedResponse(RAMP, v), "privacy"),
    "LocalLaplace.privacy": (lambda v: LocalLaplace(RAMP, v), "privacy"),
    "PlanarLaplace.privacy": (PlanarLaplace, "privacy"),
    "PlanarLaplace.estimator": (PlanarLaplace(UNIT, 1).estimator, "query"),
    "Mechanism.release.source": (
        lambda v: SmoothMechanism(RAMP, UNIT).release(0.0, v if v is not None else 0),
        "source",
    ),
    "Mechanism.simulate.rng": (lambda v: SmoothMechanism(RAMP, UNIT).simulate(0.0, v), "rng"),
}
DIMENSION: dict[str, tuple[Call, str]] = {
    "PlanarLaplace.dimension": (lambda v: PlanarLaplace(UNIT, v), "dimension"),
}
NOT_OBJECTS: list[Any] = [None, 1.0, "x", object(), Threshold]


def refused(call: Call, value: Any, name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        call(value)
    assert name in caught.value.name
    assert name in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, GeoVeilError)


def rows(table: dict[str, tuple[Call, str]], values: list[Any]) -> list[Any]:
    return [pytest.param(call, values, name, id=label) for label, (call, name) in table.items()]


@pytest.mark.parametrize(
    ("call", "values", "name"),
    rows(POSITIVE, NOT_POSITIVE)
    + rows(OPTIONAL, NOT_POSITIVE_OR_NONE)
    + rows(REAL, NOT_NUMBERS)
    + rows(NON_NEGATIVE, [v for v in NOT_NUMBERS if v != math.inf] + [-1.0, -5e-324])
    + rows(CHOICES, NOT_CHOICES)
    + rows(DIMENSION, [*NOT_NUMBERS, 0, -1, 2.0, 2.5])
    + rows(OBJECTS, NOT_OBJECTS),
)
def test_wrong_public_parameters_are_named(call, values, name):
    for value in values:
        refused(call, value, name)


WRONG: list[tuple[Call, Any, str]] = [
    (GeneralizedCauchy, 3.0, "gamma"),
    (StudentT, 2.0, "nu"),
    (lambda v: LaplacePareto(1.0, v), math.nextafter(1.0, 2.0), "beta"),
    (lambda v: PowerLaw(1.0, v), math.nextafter(1.0, 2.0), "beta"),
    (lambda v: SmoothMechanism(RAMP, UNIT, beta=v), math.nextafter(1.0, 2.0), "beta"),
    (lambda v: SmoothMechanism(RAMP, UNIT, step=v), 0.3, "step"),
    (lambda v: SmoothMechanism(RAMP, UNIT, step=v), 2.0**-150, "step"),
    (lambda v: SmoothMechanism(RAMP, UNIT, step=v), 2.0, "step"),
    (lambda v: DebiasedLaplace(STEP, UNIT, step=v), 2.0, "step"),
    (lambda v: SmoothMechanism(RAMP, UNIT, noise=v), "student", "noise"),
    (lambda v: SmoothMechanism(RAMP, UNIT, noise=v), StudentT, "noise"),
    (lambda v: SmoothMechanism(RAMP, v), LocalPrivacy(1.0), "privacy"),
    (lambda v: LocalLaplace(RAMP, v), UNIT, "privacy"),
    (lambda v: Range(v, 1.0, 0.5), 1.0, "high"),
    (lambda v: Range(0.0, 1.0, v), 1.5, "width"),
    (lambda v: Disc((0.0, 0.0), 1.0, v), 2.5, "width"),
    (lambda v: Disc(v, 1.0, 1.0), (0.0,), "center"),
    (lambda v: Disc(v, 1.0, 1.0), 5.0, "center"),
    (lambda v: TwoWayThreshold(v, 1.0), (0.0,), "at"),
    (lambda v: GaussianKernel(v, 1.0), (), "center"),
    (lambda v: GaussianKernel(v, 1.0), "ab", "center"),
    (lambda v: PlanarLaplace(UNIT, v).estimator(RAMP), 2, "dimension"),
    (SeededSource, math.nan, "seed"),
    (SeededSource(1).bits, -1, "count"),
    (SystemSource().bits, -1, "count"),
    (SystemSource().below, 0, "bound"),
    (lambda v: SmoothMechanism(RAMP, UNIT).log_density(v, 0.0), "a", "y"),
    # Noise out of all proportion to what the query resolves.
    (lambda v: SmoothMechanism(RAMP, v), GeoPrivacy(1e-30, per=1.0), "privacy.per"),
    (lambda v: DebiasedLaplace(STEP, v), GeoPrivacy(1e30, per=1.0), "privacy.per"),
]


@pytest.mark.parametrize(
    ("call", "value", "name"),
    WRONG,
    ids=[f"{name}={value!r:.30}" for _, value, name in WRONG],
)
def test_wrong_combinations_are_named(call, value, name):
    refused(call, value, name)


SECRET = 31_415.926_5
SECRET_DIGITS = "31415"
PRIVATE_SCALARS: list[Any] = [
    f"about {SECRET}",
    "three-31415",
    {"income": SECRET},
    {SECRET},
    complex(SECRET, 1.0),
    np.array([complex(SECRET, 1.0)]),
    31_415 * 10**400,
    [SECRET, math.nan],
    [SECRET, math.inf],
    [[SECRET], [1.0, 2.0]],
    [SECRET, None],
    [SECRET, "x"],
    -math.inf,
    math.nan,
    None,
    object(),
]
TOO_MANY: list[Any] = [[SECRET, SECRET], [], [[SECRET, 1.0], [2.0, 3.0]], np.zeros((0,))]
PRIVATE_POINTS: list[Any] = [
    SECRET,
    [SECRET],
    [SECRET, 1.0, 2.0],
    [SECRET, math.nan],
    [SECRET, -math.inf],
    [SECRET, "x"],
    [[SECRET, 1.0, 2.0]],
    f"POINT ({SECRET} 1)",
    [],
    None,
    31_415 * 10**400,
]
MECHANISMS: list[QueryMechanism] = [
    SmoothMechanism(RAMP, UNIT),
    SmoothMechanism(STEP, UNIT, noise=StudentT(3), beta=0.1),
    LipschitzMechanism(STEP, UNIT),
    DebiasedLaplace(STEP, UNIT),
    LocalLaplace(RAMP, LocalPrivacy(1.0)),
]
PLANAR: list[QueryMechanism] = [SmoothMechanism(BELL, UNIT), DebiasedLaplace(BELL, UNIT)]


def keeps_the_secret(call: Call, value: Any) -> None:
    with pytest.raises(PrivateValueError) as caught:
        call(value)
    error: BaseException | None = caught.value
    assert "not shown" in str(error)
    assert SECRET_DIGITS not in "".join(traceback.format_exception(caught.value))
    while error is not None:
        held = getattr(error, "__dict__", {})
        assert SECRET_DIGITS not in f"{error!s} {error!r} {error.args!r} {held!r}"
        error = error.__cause__ or error.__context__


def uses_of(query: Query, mechanisms: list[QueryMechanism]) -> list[Call]:
    uses: list[Call] = [query.value, lambda x: query.smooth_bound(x, 0.5)]
    for mechanism in mechanisms:
        uses += [mechanism.mean, mechanism.variance, mechanism.release]
        uses.append(lambda x, m=mechanism: m.simulate(x, np.random.default_rng(1)))
        uses.append(lambda x, m=mechanism: m.log_density(0.5, x))
    return uses


@pytest.mark.parametrize("value", PRIVATE_SCALARS, ids=range(len(PRIVATE_SCALARS)))
def test_wrong_private_values_are_never_shown(value):
    for use in uses_of(RAMP, MECHANISMS):
        keeps_the_secret(use, value)
    keeps_the_secret(lambda x: PlanarLaplace(UNIT, 1).simulate(x, np.random.default_rng(1)), value)


@pytest.mark.parametrize("value", PRIVATE_POINTS, ids=range(len(PRIVATE_POINTS)))
def test_wrong_private_points_are_never_shown(value):
    for use in uses_of(BELL, PLANAR):
        keeps_the_secret(use, value)
    keeps_the_secret(lambda x: PlanarLaplace(UNIT, 2).simulate(x, np.random.default_rng(1)), value)


@pytest.mark.parametrize("value", TOO_MANY, ids=range(len(TOO_MANY)))
def test_a_release_is_of_one_point(value):
    for mechanism in (*MECHANISMS, *PLANAR):
        if mechanism.query.dimension == 2 and np.shape(value) == (2,):
            continue
        keeps_the_secret(mechanism.release, value)


def test_unsupported_combinations_say_what_has_a_proof():
    for call, word in (
        (lambda: DebiasedLaplace(RAMP, UNIT), "smoothstep"),
        (lambda: SmoothMechanism(RAMP, UNIT, noise=Laplace()), "LipschitzMechanism"),
        (lambda: PlanarLaplace(UNIT, 1).estimator(RAMP, debias=True), "smoothstep"),
    ):
        with pytest.raises(UnsupportedError, match=word):
            call()


def test_nothing_that_is_shown_is_private(fixed_bits):
    """repr, str and state of mechanisms after use, and of what a release works with."""
    source = SeededSource(31_415)
    for mechanism in MECHANISMS + PLANAR:
        x = SECRET if mechanism.query.dimension == 1 else (SECRET, SECRET)
        mechanism.release(x, source)  # which prepares it to count
        before = repr(vars(mechanism))
        released = [mechanism.release(x, source), mechanism.release(x, source)]
        mechanism.simulate([x], np.random.default_rng(1))
        mechanism.variance([x])
        shown = f"{mechanism!r} {mechanism!s} {vars(mechanism)!r}"
        assert SECRET_DIGITS not in shown
        assert repr(vars(mechanism)) == before, "a mechanism remembers nothing"
        assert all(str(k) not in shown for k in released if abs(k) > 99)
        held = PrivatePoint(np.ravel(x).tolist())
        assert SECRET_DIGITS not in f"{held!r} {held!s} {[held]!r}"
    uniform = LazyUniform(fixed_bits(0xDEADBEEF << 96, 128))
    assert str(uniform.numerator) not in repr(uniform)
    assert "deadbeef" not in repr(uniform).lower()
    assert "128 bits" in repr(uniform)
    assert "31415" not in f"{source!r} {source!s}"


def test_guarantees_state_their_unit():
    privacy = GeoPrivacy(epsilon=1.5, per=8000, unit="dollar", delta=1e-6, reach=1e5)
    assert str(privacy) == "ε = 1.5 per 8000 dollar, δ = 1e-06, up to 100000 dollar"
    assert str(LocalPrivacy(0.5)) == "ε = 0.5 between any two values"
    assert privacy.rate == 1.5 / 8000
    assert privacy.exact_rate == Fraction(1.5) / 8000
    assert privacy.at(4000) == 0.75
    assert privacy.at(0) == 0
    assert LocalPrivacy(0.5).at(0) == 0
    assert LocalPrivacy(0.5).at(math.inf) == 0.5


@pytest.mark.parametrize("factor", [1 / 3, 0.1, Fraction(1, 7), 3, 1e-9])
def test_a_scaled_guarantee_never_owes_an_ulp(factor):
    """m parts of ε/m spend at most ε, exactly."""
    privacy = GeoPrivacy(epsilon=1.1, per=3.7)
    part = privacy.scaled(factor)
    assert part.exact_rate <= privacy.exact_rate * Fraction(factor)
    assert float(part.exact_rate) == pytest.approx(privacy.rate * float(factor), rel=1e-15, abs=0)


@pytest.mark.parametrize("kind", [int, np.float64, np.float32, np.int64, Fraction])
def test_numbers_of_any_kind_are_numbers(kind):
    """A parameter may be any real number; what comes of it does not depend on its type."""
    one = kind(1)
    privacy = GeoPrivacy(one, per=one)
    assert privacy == UNIT
    assert Threshold(one, one) == Threshold(1.0, 1.0)
    for mechanism in (
        SmoothMechanism(RAMP, privacy, beta=one),
        SmoothMechanism(RAMP, privacy, beta=one, noise=LaplacePareto(one, one)),
    ):
        assert mechanism.beta == 1.0
        assert mechanism.release(0.3, SeededSource(5)) == SmoothMechanism(
            RAMP, UNIT, beta=1.0
        ).release(0.3, SeededSource(5))
    assert RAMP.smooth_bound(0.0, one) == RAMP.smooth_bound(0.0, 1.0)
    assert privacy.scaled(one) == UNIT


@pytest.mark.parametrize(
    "x", [2**53 + 1, [2**53 + 1], np.int64(2**53 + 1), np.uint64(2**64 - 1), 2**70 + 1]
)
def test_a_point_that_no_double_holds_is_refused(x):
    """Rounded, two points 1 apart may be 2 apart: ε would double."""
    mechanism = LipschitzMechanism(Threshold(2.0**53, 2.0), UNIT)
    for use in (mechanism.release, mechanism.query.value, mechanism.variance):
        with pytest.raises(PrivateValueError, match="that a double holds exactly") as caught:
            use(x)
        assert "9007" not in str(caught.value)
    assert isinstance(mechanism.release(2**53 + 2, SeededSource(1)), int)


def test_a_decimal_point_is_refused_with_what_to_write():
    """Rounded, two of them could lie farther apart than the guarantee knows of."""
    mechanism = LipschitzMechanism(Threshold(0.0, 2.0), UNIT)
    rounded: Any = Decimal("0.1")
    exact: Any = Decimal("0.25")
    with pytest.raises(PrivateValueError, match=r"float\(\) rounds to one"):
        mechanism.release(rounded)
    assert isinstance(mechanism.release(exact, SeededSource(1)), int)


@pytest.mark.parametrize("number", [Fraction(1, 3), Fraction(2, 3), Decimal("0.1")])
def test_a_guarantee_is_rounded_to_the_private_side(number):
    privacy = GeoPrivacy(number, per=number)
    assert Fraction(privacy.epsilon) <= Fraction(number) <= Fraction(privacy.per)
    assert Fraction(LocalPrivacy(number).epsilon) <= Fraction(number)


def test_an_integer_that_no_double_holds_is_no_parameter():
    with pytest.raises(ParameterError, match="that a double holds exactly"):
        Threshold(at=2**53 + 1, width=2.0)
