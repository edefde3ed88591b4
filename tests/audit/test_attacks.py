"""Test that the attacks break floats and that release withstands them."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from geoveil.audit import attacks
from geoveil.audit.attacks import FloatPath, GridPath, Guesses, ReleaseTimes, TimedMechanism
from geoveil.audit.catalogue import RAMP
from geoveil.gp import (
    LipschitzMechanism,
    ParameterError,
    PrivateValueError,
    SeededSource,
    SmoothMechanism,
    paced,
)

KINDS = (LipschitzMechanism, SmoothMechanism)
X, CLOSE, APART = 92_000.0, 92_080.0, 92_800.0
FAILURE = 1e-6


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def mechanism(request):
    return request.param(RAMP.query, RAMP.privacy)


# What guesses prove


@pytest.mark.parametrize(("k", "n"), [(0, 10), (3, 10), (10, 10), (57, 200)])
def test_binomial_bounds_are_the_tails_of_the_binomial(k, n):
    low, high = attacks.binomial_bounds(k, n, 0.02)
    if k:
        assert stats.binom.sf(k - 1, n, low) == pytest.approx(0.01, rel=1e-6)
    else:
        assert low == 0.0
    if k < n:
        assert stats.binom.cdf(k, n, high) == pytest.approx(0.01, rel=1e-6)
    else:
        assert high == 1.0


def test_guesses_prove_what_their_bounds_say():
    guesses = Guesses(90, 20, 100, 0.01)
    assert guesses.right == 0.85
    low, _ = attacks.binomial_bounds(90, 100, 0.01)
    _, high = attacks.binomial_bounds(20, 100, 0.01)
    both = max(math.log(low / high), math.log((1 - high) / (1 - low)))
    assert guesses.epsilon == pytest.approx(both, rel=1e-12)
    growth = math.exp(0.1)
    wanted = max(low - growth * high, (1 - high) - growth * (1 - low))
    assert guesses.delta(0.1) == pytest.approx(wanted, rel=1e-12)
    assert Guesses(50, 50, 100, 0.01).epsilon == 0.0
    assert Guesses(50, 50, 100, 0.01).delta(0.0) == 0.0
    assert Guesses(100, 0, 100, 0.01).epsilon > 2.5
    assert Guesses(0, 100, 100, 0.01).epsilon == 0.0  # always wrong proves nothing


def test_the_permitted_share_is_reached_by_randomised_response_and_by_nothing_better():
    epsilon = 0.7
    truth = 1 / (1 + math.exp(-epsilon))
    assert attacks.permitted_right(epsilon) == pytest.approx(truth)
    grid = np.linspace(0, 1, 401)
    p, q = np.meshgrid(grid, grid)
    growth = math.exp(epsilon) * (1 + 1e-12)
    allowed = (p <= growth * q) & (q <= growth * p)
    allowed &= (1 - p <= growth * (1 - q)) & (1 - q <= growth * (1 - p))
    assert ((p + 1 - q) / 2)[allowed].max() <= attacks.permitted_right(epsilon) + 1e-9
    assert ((p + 1 - q) / 2)[allowed].max() > attacks.permitted_right(epsilon) - 0.005


@pytest.mark.parametrize("counts", [(-1, 0), (11, 0), (0, -1), (0, 11)])
def test_impossible_counts_are_refused(counts):
    with pytest.raises(ParameterError, match="must be in"):
        Guesses(*counts, 10, 0.1)


@pytest.mark.parametrize("probability", [0.0, 1.0, math.nan])
def test_a_failure_probability_out_of_range_is_refused(probability):
    with pytest.raises(ParameterError, match="failure_probability"):
        Guesses(1, 1, 10, probability)


# Preimages


def test_float_preimages_are_those_of_brute_force(mechanism):
    """At the formula itself: all uniform numbers in a wide window around the one drawn."""
    rng = np.random.default_rng(5)
    numbers = rng.integers(1, 2**53, size=40)
    value = float(mechanism.query.value(X))
    scale = math.sqrt(float(mechanism.variance(X)) / mechanism.noise.variance)
    path = FloatPath(mechanism)
    window = numbers[:, None] + np.arange(-300, 301)
    quantiles = mechanism.noise.ppf(window / 2.0**53)
    outputs = path.reach(X, numbers)
    np.testing.assert_allclose(outputs, value + scale * quantiles[:, 300], rtol=1e-12, atol=1e-15)
    reached = path.reach(X, window)
    expected = (reached == outputs[:, None]).sum(axis=1)
    assert path.preimages(X, outputs).tolist() == expected.tolist()
    assert expected.min() >= 1


def test_reach_is_what_simulate_makes_of_the_same_numbers(mechanism):
    uniform = np.random.default_rng(3).random(50)
    numbers = np.array([int((1 - Fraction(u)) * 2**53) for u in uniform.tolist()])
    simulated = mechanism.simulate(np.full(50, X), np.random.default_rng(3))
    assert FloatPath(mechanism).reach(X, numbers).tolist() == simulated.tolist()


def test_grid_preimages_measure_the_ideal_probability(mechanism):
    """Oracle: the density, which is all but constant across one step."""
    path = GridPath(mechanism)
    outputs = path.draw(X, 10, seed=4)
    counts = path.preimages(X, outputs)
    density = np.exp(mechanism.log_density(outputs * mechanism.step, X))
    assert counts / 2.0**path.bits == pytest.approx(density * mechanism.step, rel=1e-3)


def test_grid_preimages_lead_to_the_output_and_their_neighbours_do_not(mechanism):
    path = GridPath(mechanism)
    outputs = path.draw(X, 5, seed=8)
    start = path.first(X, outputs)
    counts = path.preimages(X, outputs)
    assert path.reach(X, start).tolist() == outputs.tolist()
    assert path.reach(X, start + counts - 1).tolist() == outputs.tolist()
    assert (path.reach(X, start - 1) < outputs).all()
    assert (path.reach(X, start + counts) > outputs).all()


def test_outputs_far_from_where_floats_put_them_are_found_too():
    """A grid so coarse that the first guess does not bracket: the whole range is searched."""
    mechanism = LipschitzMechanism(RAMP.query, RAMP.privacy, step=0.5)
    path = GridPath(mechanism)
    counts = path.preimages(X, np.array([0, 1, -3]))
    edges = (np.array([[-0.25, 0.25], [0.25, 0.75], [-1.75, -1.25]])) / mechanism.largest_scale
    mass = np.diff(mechanism.noise.cdf(edges), axis=1)[:, 0]
    assert counts / 2.0**path.bits == pytest.approx(mass, rel=1e-9)


# (a) reachable outputs


@pytest.mark.deep(keep=1)
def test_floats_betray_the_input_and_no_output_of_release_does(mechanism):
    def attack(path, n):
        return attacks.reachable_attack(
            path, X, CLOSE, samples=n, seed=1, failure_probability=FAILURE
        )

    floats = attack(FloatPath(mechanism), 200)
    assert floats.guesses.right > 0.85
    assert floats.guesses.epsilon > 1.0  # 0.01 is promised
    assert floats.guesses.delta(0.01) > 0.4
    assert floats.unreachable > 0.7
    assert floats.largest_loss == math.inf
    exact = attack(GridPath(mechanism), 40)
    assert exact.unreachable == 0.0
    # Not a statistic: the counts bound the loss of every single output.
    assert 0.009 < exact.largest_loss <= 0.01
    assert exact.guesses.epsilon <= 0.01


def test_the_attack_does_not_tell_an_input_from_itself(mechanism):
    """Control: 2 · 2000 guesses, all of them coins; wrong with probability 1e-6."""
    found = attacks.reachable_attack(
        FloatPath(mechanism), X, X, samples=2000, seed=1, failure_probability=FAILURE
    )
    assert found.guesses.epsilon == 0.0
    assert found.unreachable == 0.0
    assert found.largest_loss == 0.0
    assert abs(found.guesses.right - 0.5) < stats.norm.isf(5e-7) / 2 / math.sqrt(4000)


# (b) precision


def test_the_lowest_bit_is_that_of_exact_fractions():
    rng = np.random.default_rng(2)
    values = np.ldexp(rng.standard_normal(200), rng.integers(-300, 300, 200))
    values = np.concatenate([values, [1.0, -0.75, 5e-324, 2.0**1000, 12.0]])
    for value, bit in zip(values.tolist(), attacks.lowest_bit(values).tolist(), strict=True):
        multiple = Fraction(value) / Fraction(2) ** bit
        assert multiple.denominator == 1
        assert multiple.numerator % 2 == 1
    assert attacks.lowest_bit(0.0) == 2000
    assert attacks.lowest_bit(np.array([3, -8])).tolist() == [0, 3]


def test_a_float_sum_is_a_multiple_of_half_the_spacing_at_f(mechanism):
    """The fact behind the attack, on 20,000 outputs; the other input is the control."""
    rng = np.random.default_rng(6)
    value = float(mechanism.query.value(APART))
    finest = math.log2(math.ulp(value)) - 1
    reports = [mechanism.simulate(np.full(20_000, x), rng) for x in (X, APART)]
    at_edge, inside = (attacks.lowest_bit(r) for r in reports)
    assert float(mechanism.query.value(X)) == 0
    assert inside.min() >= finest
    assert (at_edge < finest).sum() > 200


@pytest.mark.deep
def test_precision_betrays_floats_and_not_release(mechanism):
    def attack(path, x, other, n):
        return attacks.spacing_attack(
            path, x, other, samples=n, seed=3, failure_probability=FAILURE
        )

    floats = attack(FloatPath(mechanism), X, APART, 10_000)
    assert floats.second == 0
    assert floats.epsilon > 1.5  # 0.1 is promised
    assert floats.delta(0.1) > 0.005
    assert attack(GridPath(mechanism), X, APART, 2000).epsilon <= 0.1
    assert attack(FloatPath(mechanism), X, X, 10_000).epsilon == 0.0


@pytest.mark.deep(keep=0)
def test_a_release_of_floats_would_be_found():
    """Control: what was found of simulate, had it been found of release."""
    row = attacks.attack_outputs(reachable_samples=60, spacing_samples=20)[0]
    assert row.succeeds
    assert not replace(row, path="release", must_succeed=False).as_it_must
    lossy = Guesses(10, 10, 20, FAILURE)  # nothing proven by guesses, but one impossible output
    assert not replace(row, guesses=lossy, must_succeed=False).as_it_must
    assert replace(row, guesses=lossy, must_succeed=False, largest_loss=0.01).as_it_must
    assert not replace(row, guesses=lossy).as_it_must


@pytest.mark.deep(keep=0)
def test_rows_say_what_must_be_and_serialise():
    rows = attacks.attack_outputs(reachable_samples=20, spacing_samples=1000, seed=2)
    assert [(row.attack, row.mechanism, row.path) for row in rows] == [
        (attack, kind.__name__, path)
        for attack, kind, path in itertools.product(
            ("reachable outputs", "precision"), KINDS, ("simulate", "release")
        )
    ]
    assert [row.must_succeed for row in rows] == [row.path == "simulate" for row in rows]
    shown = rows[0].to_dict()
    assert shown["largest_loss"] is None
    assert shown["promised"] == 0.01
    assert shown["permitted_right"] == attacks.permitted_right(0.01)
    assert rows == attacks.attack_outputs(reachable_samples=20, spacing_samples=1000, seed=2)


@pytest.mark.parametrize("bad", [0, 19, 10**7, 100.0, True, "100"])
@pytest.mark.parametrize("name", ["reachable_samples", "spacing_samples", "samples"])
def test_sizes_out_of_range_are_named(name, bad):
    run = attacks.attack_times if name == "samples" else attacks.attack_outputs
    with pytest.raises(ParameterError, match=name):
        run(**{name: bad})


# (c) timing: the statistics on synthetic times, the harness on a clock of our own


def synthetic(shift=0.0, spread=1.0, n=1000, seed=1):
    """Return times at four places with heavy tails; the last differs."""
    rng = np.random.default_rng(seed)
    times = {name: 20 + rng.exponential(size=n) for name in ("0", "0.3", "1")}
    times["10"] = 20 + shift + spread * rng.exponential(size=n)
    for values in times.values():
        values[:: n // 20] += 1e5  # interruptions
    return ReleaseTimes(times)


def test_equal_times_are_not_told_apart_and_shifted_or_spread_ones_are():
    assert attacks.least_p_value(synthetic()) > 1e-6
    assert attacks.least_p_value(synthetic(shift=0.5)) < 1e-9
    assert attacks.least_p_value(synthetic(spread=2.0)) < 1e-9
    assert synthetic().comparisons == 6


@pytest.mark.deep
def test_p_values_are_uniform_under_the_null():
    """200 tables of three tests of two kinds: P[least of 6 < 0.001] ≤ 0.006; 12 or more: < 1e-7."""
    found = [attacks.least_p_value(synthetic(n=200, seed=s)) for s in range(200)]
    assert sum(p < 0.001 for p in found) < 12
    assert sum(p < 0.5 for p in found) > 50  # control: they are no constants


def test_the_rank_tests_are_those_of_their_definitions():
    rng = np.random.default_rng(9)
    a, b = rng.normal(size=60), rng.normal(0.8, size=50)
    above = (a[:, None] > b).sum()
    z = (above - 60 * 50 / 2) / math.sqrt(60 * 50 * 111 / 12)
    shift = 2 * stats.norm.sf(abs(z))
    assert attacks.rank_p_value(a, b) == pytest.approx(shift, rel=0.15)
    a, b = rng.normal(size=400), rng.normal(scale=3.0, size=400)  # same median: the other test
    assert attacks.rank_p_value(a, b) < 1e-6
    assert attacks.rank_p_value([1.0, 1.0], [1.0, 1.0]) == 1.0


class Clock:
    """Time that passes only when somebody waits or works; a look at it takes a nanosecond."""

    def __init__(self):
        self.now = 100.0
        self.slept = []

    def __call__(self):
        self.now += 1e-9
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds + 6e-5  # as late as a real sleep

    def work(self, seconds):
        self.now += seconds
        return "done"


class Leaky:
    """A mechanism whose release takes a microsecond longer per unit of x."""

    def __init__(self, clock):
        self.clock = clock
        self.rng = np.random.default_rng(1)

    def release(self, x):
        self.clock.work(1e-5 + 1e-6 * float(np.ravel(x)[0]) + 1e-6 * self.rng.random())


def test_the_harness_finds_a_leak_at_the_places_that_have_it():
    clock = Clock()
    places = {"0.3": np.array(0.0), "1": np.array(0.0), "10": np.array(1.0)}
    timed = attacks.time_releases(
        TimedMechanism("leaky", Leaky(clock), places), 100, 1, clock=clock
    )
    assert {place: len(times) for place, times in timed.seconds.items()} == dict.fromkeys(
        places, 100
    )
    medians = timed.medians
    assert medians["0.3"] == pytest.approx(1.05e-5, abs=2e-7)
    assert medians["10"] == pytest.approx(1.15e-5, abs=2e-7)
    assert attacks.least_p_value(timed) < 1e-20
    del places["10"]
    timed = attacks.time_releases(
        TimedMechanism("level", Leaky(clock), places), 100, 1, clock=clock
    )
    assert attacks.least_p_value(timed) > 1e-6


@pytest.mark.deep
def test_every_family_is_timed_at_every_place():
    """For shape only: what is found depends on the machine."""
    rows = attacks.attack_times(samples=20)
    bare = [row for row in rows if row.floor is None]
    assert len(bare) >= 8
    assert {row.mechanism for row in bare} == {s.name for s in attacks.timed_mechanisms()}
    for row in rows:
        assert len(row.medians) == 8
        assert 0 <= row.p_value <= 1
        assert 0 < row.threshold < attacks.ALPHA
        assert all(t > 0 for t in row.medians.values())
        assert row.to_dict()["path"] == row.path
    paced_row = replace(bare[0], floor=1e-4, p_value=0.0)
    assert (paced_row.path, paced_row.as_it_must) == ("release, paced", False)
    assert replace(bare[0], p_value=0.0).as_it_must  # measured, no verdict
    assert replace(paced_row, p_value=0.5).as_it_must


# The floor


@pytest.mark.parametrize(
    ("work", "floor", "periods"),
    [
        (0.0, 0.01, 1),
        (1e-5, 0.01, 1),
        (0.0099, 0.01, 1),
        (0.0101, 0.01, 2),
        (0.035, 0.01, 4),
        (1e-5, 1e-4, 1),
        (1.5e-4, 1e-4, 2),
    ],
)
def test_a_paced_release_ends_at_a_multiple_of_the_floor(work, floor, periods):
    clock = Clock()
    start = clock.now
    result = paced(lambda: clock.work(work), floor, clock=clock, sleep=clock.sleep)
    assert result == "done"
    assert clock.now - start == pytest.approx(periods * floor, abs=1e-8)
    assert clock.now - start >= periods * floor
    # A sleep never takes it to the end: it may be late.
    assert len(clock.slept) <= 1
    assert sum(clock.slept) <= max(0.0, periods * floor - 5e-4)


def test_the_end_does_not_depend_on_the_work():
    ends = set()
    for work in (1e-6, 2e-5, 3e-3, 9e-3):
        clock = Clock()
        paced(lambda clock=clock, work=work: clock.work(work), 0.01, clock=clock, sleep=clock.sleep)
        ends.add(round(clock.now - 100.0, 7))
    assert ends == {0.01}


def test_an_error_is_paced_too():
    clock = Clock()

    def refuse():
        clock.work(1e-5)
        raise PrivateValueError("a point")

    with pytest.raises(PrivateValueError):
        paced(refuse, 0.01, clock=clock, sleep=clock.sleep)
    assert clock.now - 100.0 == pytest.approx(0.01, abs=1e-7)


def test_a_paced_release_is_the_release(mechanism):
    bare = mechanism.release(X, SeededSource(3))
    assert paced(lambda: mechanism.release(X, SeededSource(3)), 0.001) == bare


@pytest.mark.parametrize("seconds", [0, -1.0, math.nan, math.inf, 3601, True, "1", None])
def test_a_floor_out_of_range_is_named_before_anything_is_released(seconds):
    with pytest.raises(ParameterError, match="seconds must be a number in"):
        paced(lambda: pytest.fail("released"), seconds)


@pytest.mark.parametrize("name", ["release", "clock", "sleep"])
def test_what_is_no_function_is_named(name):
    arguments = {"release": lambda: 1, "seconds": 0.01} | {name: 5}
    with pytest.raises(ParameterError, match=f"{name} must be a function"):
        paced(**arguments)
