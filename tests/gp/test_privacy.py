"""Test the algebra of guarantees: composition, other units, any distance, ratios.

Oracles: exact fractions, mpmath, and finite mechanisms whose indistinguishability is summed outcome
by outcome. Every bound is checked for its direction, and where it can be reached it is.
"""

import math
import traceback
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from geoveil.gp import (
    GeoVeilError,
    LipschitzMechanism,
    ParameterError,
    PrivateValueError,
    Threshold,
    UnsupportedError,
)
from geoveil.gp.privacy import GeoPrivacy, LocalPrivacy, LogScale, compose

Array = NDArray[np.float64]
UNIT = GeoPrivacy(1.0, per=1.0)
ULPS = 1 + Fraction(1, 2**50)
"""Room for rounding: four ulps of a double."""

positive = st.floats(1e-9, 1e9)
slack = st.sampled_from([0.0, 1e-9, 3e-4, 0.01])
pure = st.builds(GeoPrivacy, positive, per=positive)
guarantee = st.builds(GeoPrivacy, positive, positive, delta=slack, reach=positive)
any_guarantee = st.one_of(pure, guarantee)
factor = st.one_of(positive, st.fractions(Fraction(1, 1000), 1000).filter(lambda f: f > 0))


def promises(strong: GeoPrivacy, weak: GeoPrivacy) -> bool:
    """Return whether whatever has the first guarantee has the second, to the last bit."""
    return (
        strong.unit == weak.unit
        and strong.exact_rate <= weak.exact_rate
        and strong.delta <= weak.delta
        and (strong.delta == 0 or strong.reach >= weak.reach)
    )


# ---------------------------------------------------------------------------------------------
# Composition.


@given(st.lists(any_guarantee, min_size=1, max_size=6))
def test_rates_and_slacks_add_up(parts):
    total = compose(*parts)
    rate = sum((p.exact_rate for p in parts), Fraction(0))
    delta = sum((Fraction(p.delta) for p in parts), Fraction(0))
    assert rate <= total.exact_rate <= rate * ULPS
    assert delta <= total.delta <= delta * ULPS
    assert total.per == parts[0].per
    assert total.reach == min([p.reach for p in parts if p.delta > 0], default=math.inf)


@given(guarantee)
def test_one_release_composes_to_itself(privacy):
    """But for the reach of a guarantee without slack, which holds at every distance."""
    alone = compose(privacy)
    assert promises(alone, privacy)
    assert alone.exact_rate == privacy.exact_rate
    assert alone.reach == (privacy.reach if privacy.delta else math.inf)


@given(any_guarantee, st.integers(1, 40))
def test_repeated_is_compose_of_copies(privacy, times):
    assert privacy.repeated(times) == compose(*[privacy] * times)


@given(any_guarantee, st.integers(1, 400))
def test_parts_together_are_at_most_the_whole(privacy, parts):
    part = privacy.split(parts)
    assert promises(part.repeated(parts), privacy)
    assert part.exact_rate * ULPS * parts >= privacy.exact_rate, "no more is lost than an ulp"
    assert Fraction(part.delta) * ULPS * parts >= Fraction(privacy.delta)


def test_parts_rounded_to_nearest_would_owe_an_ulp():
    """Control: the property above notices when parts are not rounded down."""
    owed = [m for m in range(1, 200) if Fraction(1.0 / m) * m > 1]
    assert owed
    assert not promises(GeoPrivacy(1.0 / owed[0], per=1.0).repeated(owed[0]), UNIT)


@given(st.lists(st.builds(LocalPrivacy, positive), min_size=1, max_size=6), st.integers(1, 400))
def test_local_guarantees_add_up_and_split(parts, times):
    exact = sum((Fraction(p.epsilon) for p in parts), Fraction(0))
    assert exact <= Fraction(compose(*parts).epsilon) <= exact * ULPS
    assert parts[0].repeated(3) == compose(*[parts[0]] * 3)
    assert parts[0].split(times).repeated(times).epsilon <= parts[0].epsilon
    assert Fraction(parts[0].split(times).epsilon) * times * ULPS >= Fraction(parts[0].epsilon)


def slack_between(p: Array, q: Array, epsilon: float) -> float:
    """Return the least δ with P(S) ≤ e^ε Q(S) + δ and the other way round: outcome by outcome."""
    bound = math.exp(epsilon)
    return float(max(np.maximum(p - bound * q, 0).sum(), np.maximum(q - bound * p, 0).sum()))


def random_law(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return laws over the last axis, some with outcomes that are all but impossible."""
    weights = rng.gamma(rng.choice([0.2, 1.0, 5.0]), size=shape) + 1e-12
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def test_composition_covers_adaptive_releases_outcome_by_outcome():
    """The second mechanism is another one after each first report; both at one pair of values."""
    rng = np.random.default_rng(20_240_817)
    without_second_rate = without_second_slack = 0
    for _ in range(300):
        distance = float(rng.uniform(0.1, 4))
        first = random_law(rng, (2, 4))  # two values, four reports
        second = random_law(rng, (4, 2, 5))  # after each first report: two values, five reports
        e1, e2 = rng.uniform(0.01, 1.5, size=2)
        d1 = slack_between(first[0], first[1], e1 * distance)
        d2 = max(slack_between(p, q, e2 * distance) for p, q in second)
        if d1 + d2 >= 1:
            continue
        total = compose(
            GeoPrivacy(e1, per=1.0, delta=d1, reach=distance),
            GeoPrivacy(e2, per=1.0, delta=d2, reach=2 * distance),
        )
        joint = [(first[v][:, None] * second[:, v]).ravel() for v in (0, 1)]
        assert total.reach == (distance if d1 > 0 else 2 * distance if d2 > 0 else math.inf)
        assert slack_between(joint[0], joint[1], total.at(distance)) <= total.delta + 1e-12
        without_second_rate += slack_between(joint[0], joint[1], e1 * distance) > total.delta
        without_second_slack += slack_between(joint[0], joint[1], total.at(distance)) > d1
    # Controls: leaving out either half of the second guarantee is noticed.
    assert without_second_rate > 0
    assert without_second_slack > 0


def test_the_sum_of_rates_is_reached():
    """Two randomised responses: the likeliest pair of reports has ratio e^{ε₁+ε₂}."""
    laws = []
    for epsilon in (0.7, 1.1):
        truth = math.exp(epsilon) / (1 + math.exp(epsilon))
        laws.append(np.array([[truth, 1 - truth], [1 - truth, truth]]))
    joint = [np.outer(laws[0][v], laws[1][v]).ravel() for v in (0, 1)]
    total = compose(GeoPrivacy(0.7, per=1.0), GeoPrivacy(1.1, per=1.0))
    assert math.log(max(joint[0] / joint[1])) == pytest.approx(total.at(1.0), abs=1e-12)


def test_what_does_not_add_up_is_refused_with_the_reason():
    metre, foot = GeoPrivacy(1.0, per=1.0, unit="metre"), GeoPrivacy(1.0, per=1.0, unit="foot")
    with pytest.raises(ParameterError, match=r"guarantees\[1\]\.unit must be 'metre'"):
        compose(metre, foot)
    with pytest.raises(ParameterError, match="guarantees must be at least one guarantee"):
        compose()
    for wrong in (1.0, None, "ε", GeoPrivacy, True):
        with pytest.raises(ParameterError, match=r"guarantees\[1\] must be a GeoPrivacy, or"):
            compose(metre, wrong)  # type: ignore[call-overload]
    with pytest.raises(UnsupportedError, match=r"compose\(geo\.local\(diameter\), local\)"):
        compose(metre, LocalPrivacy(1.0))  # type: ignore[call-overload]
    half = GeoPrivacy(1.0, per=1.0, delta=0.5, reach=1.0)
    with pytest.raises(UnsupportedError, match="add up to 1, and with 1 or more nothing"):
        compose(half, half)
    with pytest.raises(UnsupportedError, match="add up to 1, and with 1 or more nothing"):
        half.repeated(2)
    both = compose(metre.local(3.0), LocalPrivacy(0.5))
    assert both == LocalPrivacy(3.5), "what the message advises works"


# ---------------------------------------------------------------------------------------------
# Distances, diameters.


@given(pure, factor)
def test_at_and_local_are_rounded_up(privacy, distance):
    exact = privacy.exact_rate * Fraction(distance)
    assert exact <= Fraction(privacy.at(distance)) <= exact * ULPS
    local = privacy.local(distance)
    assert local.epsilon == privacy.at(distance) == local.at(distance)
    assert privacy.delta_at(distance) == 0.0


def test_at_the_ends():
    assert UNIT.at(0) == 0.0
    assert UNIT.at(math.inf) == math.inf
    assert UNIT.at(10**300) == 1e300
    assert GeoPrivacy(1e50, per=1e-50).at(1e300) == math.inf
    loose = GeoPrivacy(1.0, per=1.0, delta=0.25, reach=2.0)
    assert loose.delta_at(0) == 0.0
    assert loose.delta_at(2.0) == 0.25
    assert loose.delta_at(Fraction(1, 10**400)) == 0.25
    assert loose.delta_at(math.inf) == 1.0
    assert loose.delta_at(1e300) == 1.0, "nothing is promised that far"
    assert UNIT.delta_at(math.inf) == 0.0
    assert GeoPrivacy(1.0, per=1.0, delta=0.25).delta_at(1e300) == 0.25


def test_a_slack_has_no_local_form():
    with pytest.raises(UnsupportedError, match=r"δ = 0\.25, up to 2 has a slack"):
        GeoPrivacy(1.0, per=1.0, delta=0.25, reach=2.0).local(1.0)


# ---------------------------------------------------------------------------------------------
# Beyond the reach of a guarantee with a slack.


@given(
    st.floats(1e-3, 30.0),
    st.sampled_from([1e-300, 1e-12, 1e-4]),
    st.floats(0.1, 10.0),
    st.floats(0.0, 60.0),
)
def test_slack_beyond_the_reach_is_the_sum_of_the_walk(epsilon, delta, reach, distance):
    """The proof's walk, step by step, in mpmath."""
    privacy = GeoPrivacy(epsilon, per=1.0, delta=delta, reach=reach)
    bound = privacy.delta_at(distance)
    with mp.workdps(60):
        left, total = Fraction(distance), mp.mpf(0)
        walked = Fraction(0)
        steps = -(-left // Fraction(reach))
        for index in range(steps):
            total += mp.mpf(delta) * mp.exp(
                mp.mpf(epsilon) * mp.mpf(walked.numerator) / walked.denominator
            )
            walked = left - (steps - 1 - index) * Fraction(reach)
        assert mp.mpf(bound) >= min(total, 1)
        assert mp.mpf(bound) <= min(total, 1) * (1 + mp.mpf(2) ** -50)


def test_slack_beyond_the_reach_covers_chains_of_laws():
    """Values 0, 1, …, 7; the guarantee is measured up to the reach and must hold at all pairs."""
    rng = np.random.default_rng(5)
    for _ in range(200):
        epsilon, reach = float(rng.uniform(0.05, 1.0)), int(rng.integers(1, 4))
        laws = random_law(rng, (8, 4)) * 0.02 + random_law(rng, (4,)) * 0.98
        gaps = [(i, j) for i in range(8) for j in range(i + 1, 8)]
        delta = max(
            slack_between(laws[i], laws[j], epsilon * (j - i)) for i, j in gaps if j - i <= reach
        )
        privacy = GeoPrivacy(epsilon, per=1.0, delta=delta, reach=reach)
        for i, j in gaps:
            assert slack_between(laws[i], laws[j], privacy.at(j - i)) <= privacy.delta_at(j - i) * (
                1 + 1e-9
            )


def test_slack_beyond_the_reach_is_attained_by_a_chain():
    """An event of probability q₀ = e^ε q₁ + δ, q₁ = e^ε q₂ + δ, …, 0 at the end of the walk.

    Control: δ itself, or the sum of one step fewer, is exceeded.
    """
    epsilon, delta, steps = 0.8, 1e-4, 5
    q = [0.0]
    for _ in range(steps):
        q.append(math.exp(epsilon) * q[-1] + delta)
    laws = [np.array([p, 1 - p]) for p in q]
    for near, far in pairwise(laws):
        assert slack_between(near, far, epsilon) <= delta * (1 + 1e-9)
    privacy = GeoPrivacy(epsilon, per=1.0, delta=delta, reach=1.0)
    worst = slack_between(laws[0], laws[-1], privacy.at(steps))
    assert worst == pytest.approx(privacy.delta_at(steps), rel=1e-9)
    assert worst > 1.5 * privacy.delta_at(steps - 1)
    assert worst > 5 * delta


# ---------------------------------------------------------------------------------------------
# Ratios.


@given(st.floats(1e-3, 10.0), st.floats(1.0, 1e6, exclude_min=True))
def test_values_a_factor_apart_are_epsilon_apart(epsilon, ratio):
    privacy = GeoPrivacy.per_factor(epsilon, ratio, unit="dollar")
    assert privacy.unit == "log dollar"
    assert (privacy.delta, privacy.reach) == (0.0, math.inf)
    with mp.workdps(60):
        rate = mp.mpf(privacy.exact_rate.numerator) / privacy.exact_rate.denominator
        spent = rate * mp.log(mp.mpf(ratio))
        assert spent <= mp.mpf(epsilon)
        assert spent >= mp.mpf(epsilon) * (1 - mp.mpf(2) ** -50)


def test_per_factor_reads_well():
    assert str(GeoPrivacy.per_factor(1, factor=2, unit="dollar")) == "ε = 1 per factor 2 in dollar"
    assert GeoPrivacy.per_factor(1, factor=Fraction(6, 5)).unit == "log"


def test_logarithms_of_values_are_true():
    values = np.geomspace(1e-50, 1e90, 2001)
    logs = LogScale(floor=1e-50).to_log(values)
    with mp.workdps(40):
        errors = [abs(mp.mpf(a) - mp.log(mp.mpf(v))) for a, v in zip(logs, values, strict=True)]
    assert max(errors) <= 1e-12
    assert LogScale(floor=1e-50).from_log(logs) == pytest.approx(values, rel=1e-12)


@given(st.floats(-1e90, 1e90), st.floats(1e-6, 1e90))
def test_the_floor_moves_no_two_values_apart(a, b):
    scale = LogScale(floor=1e-3)
    low, high = (float(scale.to_log(v)) for v in (a, b))
    if a > 0:
        assert abs(low - high) <= abs(math.log(a) - math.log(b)) + 2e-12
    if a <= 1e-3:
        assert low == scale.to_log(0.0), "below the floor nothing is told apart"


def test_to_log_keeps_shapes_and_its_argument():
    values = np.array([[0.0, -5.0], [1.0, math.e]])
    logs = LogScale(floor=1.0).to_log(values)
    assert logs.tolist() == [[0.0, 0.0], [0.0, 1.0]]
    assert values.tolist() == [[0.0, -5.0], [1.0, math.e]]
    assert LogScale(floor=1.0).to_log(7).shape == ()
    assert LogScale(floor=1.0).to_log([]).shape == (0,)
    assert LogScale(floor=1.0).from_log([-1e9, 1e9]).tolist() == [0.0, math.inf]


def density_ratio(mechanism: LipschitzMechanism, a: Array, b: Array) -> float:
    """Return the largest log-ratio of the densities of reports about two values."""
    reports = np.linspace(-20, 20, 4001)
    ratio = mechanism.log_density(reports, a) - mechanism.log_density(reports, b)
    return float(np.abs(ratio).max())


def test_a_mechanism_on_the_log_scale_compares_by_ratio():
    """From the values to the densities of reports; the worst pairs reach the promise."""
    scale = LogScale(floor=1_000)
    query = Threshold(at=math.log(100_000), width=math.log(4))
    mechanism = LipschitzMechanism(query, GeoPrivacy.per_factor(1.0, factor=2, unit="dollar"))
    wrong = LipschitzMechanism(query, GeoPrivacy.per_factor(1.0, factor=1.5, unit="dollar"))
    worst: dict[float, float] = {}
    for ratio in (1.1, 2.0, 3.0):
        for value in (-1.0, 0.0, 500.0, 50_000.0, 70_000.0, 100_000.0, 3e6):
            a, b = scale.to_log([value, value * ratio])
            found = density_ratio(mechanism, a, b)
            assert found <= math.log(ratio) / math.log(2) + 1e-9
            worst[ratio] = max(worst.get(ratio, 0.0), found)
    assert worst[2.0] >= 0.999
    a, b = scale.to_log([100_000.0, 200_000.0])
    assert density_ratio(wrong, a, b) > 1.5, "control: too small a factor is noticed"


# ---------------------------------------------------------------------------------------------
# What is refused.

NOT_NUMBERS: list[Any] = [math.nan, None, "1", b"1", True, np.True_, 1j, [1.0], object()]
NOT_POSITIVE = [*NOT_NUMBERS, math.inf, -math.inf, 0, -1.0, 5e-324, 10**400]
NOT_COUNTS = [*NOT_POSITIVE[:-1], 2.0, Fraction(2), 1.5]
Call = Callable[[Any], Any]
REFUSED: list[tuple[Call, list[Any], str]] = [
    (lambda v: GeoPrivacy(v, per=1.0), NOT_POSITIVE, "epsilon"),
    (lambda v: GeoPrivacy(1.0, per=v), NOT_POSITIVE, "per"),
    (lambda v: GeoPrivacy(1.0, per=1.0, delta=v), [*NOT_NUMBERS, math.inf, -0.1, 1.0], "delta"),
    (lambda v: GeoPrivacy(1.0, per=1.0, reach=v), [*NOT_NUMBERS, -math.inf, -1.0, 0], "reach"),
    (LocalPrivacy, NOT_POSITIVE, "epsilon"),
    (UNIT.at, [*NOT_NUMBERS, -math.inf, -1.0], "distance"),
    (UNIT.delta_at, [*NOT_NUMBERS, -math.inf, -1.0], "distance"),
    (UNIT.scaled, NOT_POSITIVE, "factor"),
    (UNIT.local, NOT_POSITIVE, "diameter"),
    (UNIT.split, [*NOT_COUNTS, 10**400], "parts"),
    (UNIT.repeated, NOT_COUNTS, "times"),
    (LocalPrivacy(1.0).split, [*NOT_COUNTS, 10**400], "parts"),
    (LocalPrivacy(1.0).repeated, NOT_COUNTS, "times"),
    (lambda v: GeoPrivacy.per_factor(v, 2.0), NOT_POSITIVE, "epsilon"),
    (lambda v: GeoPrivacy.per_factor(1.0, v), [*NOT_POSITIVE, 1, 1.0, 0.5, 1e51], "factor"),
    (lambda v: GeoPrivacy.per_factor(1.0, 2.0, v), [None, 5, b"dollar"], "unit"),
    (LogScale, NOT_POSITIVE, "floor"),
    (LogScale(1.0).from_log, ["1", None, [1j], [math.nan], object()], "logarithms"),
]


@pytest.mark.parametrize(("call", "values", "name"), REFUSED)
def test_wrong_parameters_are_named(call, values, name):
    for value in values:
        with pytest.raises(ParameterError) as caught:
            call(value)
        assert caught.value.name == name, value
        assert str(caught.value).startswith(f"{name} must be "), value


def test_too_many_releases_are_refused_not_rounded():
    for call in (UNIT.repeated, LocalPrivacy(1.0).repeated):
        with pytest.raises(ParameterError, match="epsilon"):
            call(10**400)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, 1e91, "31415.9265", [31415.9265, math.nan], [31415.9265, None]]
)
def test_private_values_are_refused_unseen(value):
    with pytest.raises(PrivateValueError) as caught:
        LogScale(floor=1.0).to_log(value)
    assert isinstance(caught.value, GeoVeilError)
    assert "31415" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None
