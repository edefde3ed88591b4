"""Bounds that balls prove, against fractions and mpmath's 60 digits: each is the double beside."""

import hashlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, strategies as st

from geoveil.gp import (
    INT64_MAX,
    INT64_MIN,
    ParameterError,
    RandomSource,
    SeededSource,
    SystemSource,
    digests,
    exact,
    validation,
)
from geoveil.gp.exact import BALL, BITS, working_precision
from geoveil.gp.randomness import chosen_source

NUMBERS = st.fractions(min_value=0, max_value=10**9, max_denominator=10**9).filter(bool)
DIGITS = mpmath.mp.clone()
DIGITS.dps = 60


def fraction(number: mpmath.mpf) -> Fraction:
    mantissa, exponent = number.man_exp
    return Fraction(int(mpmath.sign(number)) * int(mantissa)) * Fraction(2) ** int(exponent)


def log(number: Fraction) -> Fraction:
    return fraction(DIGITS.log(DIGITS.mpf(number.numerator) / number.denominator))


def is_above(double: float, number: Fraction) -> bool:
    """Return whether a double is the least at or above a number."""
    return Fraction(double) >= number > Fraction(math.nextafter(double, -math.inf))


def is_below(double: float, number: Fraction) -> bool:
    return Fraction(double) <= number < Fraction(math.nextafter(double, math.inf))


class Words(RandomSource):
    """Words that are stated, and how many bits were asked for."""

    def __init__(self, *words):
        self.words, self.counts = list(words), []

    def bits(self, count):
        self.counts.append(count)
        return self.words.pop(0)


@pytest.mark.parametrize("bound", range(1, 10))
def test_a_number_below_a_bound_is_the_first_word_that_is(bound):
    count = (bound - 1).bit_length()
    for word in range(2**count):
        source, taken = Words(word, 0), word < bound
        assert source.below(bound) == (word if taken else 0)
        assert source.counts == [count] * (1 if taken else 2)


@pytest.mark.parametrize("source", [SystemSource(), SeededSource(3)])
def test_a_source_gives_as_many_bits_as_it_is_asked_for(source):
    assert source.bits(0) == 0
    assert {source.bits(1) for _ in range(99)} == {0, 1}
    assert source.bits(1000).bit_length() > 900
    for wrong in (-1, 1.0, True, "1"):
        with pytest.raises(ParameterError, match="count"):
            source.bits(wrong)
        with pytest.raises(ParameterError, match="bound"):
            source.below(wrong)
    with pytest.raises(ParameterError, match="bound"):
        source.below(0)
    assert source.is_secure is isinstance(source, SystemSource)
    assert chosen_source(None).is_secure


def test_a_seed_is_the_hashes_of_its_counter():
    blocks = b"".join(hashlib.sha256(f"3/{at}".encode()).digest() for at in range(4))
    source, whole = SeededSource(3), int.from_bytes(blocks, "big")
    taken = 0
    for count in (1, 0, 100, 155, 1, 300, 256, 211):
        taken += count
        assert source.bits(count) == whole >> (1024 - taken) & ((1 << count) - 1)


@given(st.fractions(min_value=0, max_denominator=10**40))
def test_a_fraction_is_rounded_to_the_double_beside_it(number):
    assert is_above(exact.round_up(number), number)
    assert is_below(exact.round_down(number), number)
    double = Fraction(float(number))
    assert exact.round_up(double) == exact.round_down(double) == float(number)


def test_fractions_beyond_doubles_have_infinity_above_and_the_greatest_below():
    assert exact.round_up(Fraction(10) ** 400) == math.inf
    assert exact.round_down(Fraction(10) ** 400) == sys.float_info.max
    assert exact.round_up(Fraction(1, 10**400)) == 5e-324
    assert exact.round_down(Fraction(1, 10**400)) == 0.0


@given(NUMBERS | st.floats(1.0, 1e50).map(Fraction))
def test_logarithms(number):
    assert is_above(exact.log_up(number + 1), log(number + 1))
    double = float(number)
    assert exact.log_nearest(double) == float(log(Fraction(double)))


def test_the_logarithm_of_one_is_zero_and_those_beside_it_are_not():
    assert exact.log_nearest(1.0) == 0.0
    assert exact.log_nearest(2.0) == math.log(2)
    for double in (math.nextafter(1, 0), math.nextafter(1, 2)):
        assert exact.log_nearest(double) == float(log(Fraction(double)))


@given(NUMBERS)
def test_settled_bounds_leave_room_for_balls(number):
    clear = 1 - Fraction(1, 2**80)
    with working_precision(BITS):
        ball = BALL.constant(number)
        assert is_below(exact.settled_down(ball), number * clear)
        assert is_above(exact.settled_up(ball), number / clear)
        assert Fraction(exact.lower(ball)) <= number <= Fraction(exact.upper(ball))


def test_what_is_a_double_is_settled_beside_itself():
    with working_precision(BITS):
        assert exact.settled_down(BALL.constant(2)) == math.nextafter(2, 0)
        assert exact.settled_up(BALL.constant(2)) == math.nextafter(2, 3)
        for part, double in ((Fraction(3, 4), math.nextafter(2, 0)), (Fraction(3, 2), 2.0)):
            above = BALL.constant(2 + 2 * part / 2**80)
            assert exact.settled_down(above) == double


@pytest.mark.parametrize("first", [Fraction(-1, 3), Fraction(2)])
@pytest.mark.parametrize("step", [Fraction(1, 7), Fraction(-3)])
@pytest.mark.parametrize("count", [1, 2, 9])
def test_a_geometric_sum_is_that_of_its_terms(first, step, count):
    delta = Fraction(1, 10**5)
    exponents = [first + k * step for k in range(count)]
    terms = [fraction(DIGITS.exp(DIGITS.mpf(e.numerator) / e.denominator)) for e in exponents]
    assert is_above(exact.geometric_up(delta, first, step, count), delta * (1 + sum(terms)))


def test_a_geometric_sum_above_one_is_one():
    assert exact.geometric_up(Fraction(1, 2), Fraction(0), Fraction(1), 1) == 1.0
    assert exact.geometric_up(Fraction(1, 10**9), Fraction(10**6), Fraction(10**9), 9) == 1.0


def test_a_share_of_epsilon_is_never_more_than_its_part():
    assert Fraction(exact.share("parts", 1.0, 3)) * 3 <= 1
    assert exact.share("parts", 1.0, 3) == exact.round_down(Fraction(1, 3))
    assert exact.share("parts", validation.LEAST, 1) == validation.LEAST
    for epsilon, parts in ((validation.LEAST, 2), (1.0, 0)):
        with pytest.raises(ParameterError, match="parts"):
            exact.share("parts", epsilon, parts)


def test_steps_are_powers_of_two_within_reach():
    for exponent in (-200, -1, 0, 200):
        assert exact.step_exponent_of(math.ldexp(1.0, exponent)) == exponent
    for step in (math.ldexp(1.0, -201), math.ldexp(1.0, 201), 0.75, 3.0, -1.0, 0.0):
        with pytest.raises(ParameterError, match="step must be a power of two"):
            exact.step_exponent_of(step)


@given(st.fractions(-100, 100, max_denominator=64), st.integers(-4, 4))
def test_a_grid_holds_what_lies_between(number, exponent):
    with working_precision(BITS):
        ends = BALL.constant(number), BALL.constant(number + 3)
        found = exact.grid_around(*ends, exponent)
    scale = Fraction(2) ** -exponent
    assert found == (math.floor(number * scale), math.ceil((number + 3) * scale))


@pytest.mark.parametrize("beyond", [0, 1, 10**300])
def test_a_grid_ends_with_int64(beyond):
    with working_precision(4 * BITS):
        low, high = BALL.constant(INT64_MIN - beyond), BALL.constant(INT64_MAX + beyond)
        assert exact.grid_around(low, high, 0) == (INT64_MIN, INT64_MAX)


@pytest.mark.parametrize(
    "value", [3, Fraction(1, 3), Decimal("0.1"), np.float32(0.1), np.longdouble(1) / 3, np.int8(3)]
)
def test_a_number_is_taken_in_the_precision_in_which_it_is_given(value):
    given_as = exact.as_given(value, float(value))
    numerator, denominator = (
        (value.numerator, value.denominator)
        if hasattr(value, "numerator")
        else value.as_integer_ratio()
    )
    assert given_as == Fraction(int(numerator), int(denominator))
    assert exact.as_given(0.1, 0.1) == Fraction(0.1)
    assert exact.as_given("0.1", 0.1) == Fraction(0.1)
    assert exact.as_given(np.array(0.1), 0.1) == Fraction(0.1)


def test_a_paced_call_ends_at_a_whole_multiple_however_it_ends():
    """On a clock of its own, of which each look takes a tenth of a millisecond."""
    now, slept = [0.0], []

    def clock():
        now[0] += 1e-4
        return now[0]

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    def work(seconds, answer):
        now[0] += seconds
        return answer / (seconds > 0)

    assert exact.paced(lambda: work(0.3, 7), 0.25, clock=clock, sleep=sleep) == 7
    assert slept == pytest.approx([0.5 - 0.3 - 5e-4], abs=5e-4 / 2)
    assert 0.5 <= now[0] <= 0.501
    with pytest.raises(ZeroDivisionError):
        exact.paced(lambda: work(0, 7), 0.25, clock=clock, sleep=sleep)
    assert 0.75 <= now[0] <= 0.752
    assert exact.paced(lambda: 3, 3600.0, clock=clock, sleep=sleep) == 3
    assert exact.paced(lambda: 3, 1, clock=clock, sleep=sleep) == 3
    for seconds in (3600.5, 0.0, -0.5, -1.0, math.nan, True, "1"):
        with pytest.raises(ParameterError, match="seconds"):
            exact.paced(lambda: 3, seconds, clock=clock, sleep=sleep)
    with pytest.raises(ParameterError, match="clock must be a function"):
        exact.paced(lambda: 3, 1.0, clock=None, sleep=sleep)


def test_balls_at_zero_and_of_numbers_of_numpy():
    assert BALL.sqrt(arb(-0.5, 0.5)).overlaps(arb(0))
    assert BALL.sqrt(arb(-1)).is_nan()
    assert BALL.constant(np.float64(0.1)).overlaps(arb(0.1))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, 0.0, 0.5, 1.5, -0.5])
@pytest.mark.parametrize(
    "ends", [(-2, -1), (-0.75, -0.25), (-0.75, 0.75), (-1, 0), (0, 0), (0, 1), (0.25, 2)]
)
def test_a_power_holds_those_of_its_base_and_no_more_around_zero(ends, exponent):
    """A base below 0 counts as 0, except with an integer exponent."""
    low, high = ends
    with working_precision(BITS):
        power = BALL.power(arb(low).union(arb(high)), exponent)
    whole = isinstance(exponent, int)
    if low <= 0 and (exponent < 0 and high >= 0 if whole else exponent <= 0):
        assert power.is_nan()
        return
    assert power.is_finite()
    bases = np.linspace(low, high, 13)
    if not whole:
        bases = np.maximum(bases, 0)
    values = bases.astype(float) ** exponent
    for value in values.tolist():
        assert power.overlaps(arb(value, 1e-15))
    if low <= 0 <= high:
        assert float(power.lower()) == pytest.approx(values.min(), abs=1e-3)
        assert float(power.upper()) == pytest.approx(values.max(), abs=1e-3)


@pytest.mark.parametrize("count", [1, 64, 128])
def test_the_ball_of_a_uniform_number_ends_where_its_bits_do(count):
    for numerator in {0, 1, 2**count - 1}:
        with working_precision(count + 64):
            ball = BALL.uniform(numerator, count)
            least, greatest = exact.lower(ball), exact.upper(ball)
        low, high = (Fraction(numerator + more, 2**count) for more in (0, 1))
        assert least <= low < high <= greatest
        assert greatest - least < (high - low) * (1 + Fraction(1, 10**6))


def test_a_ball_at_an_edge_meets_both_branches():
    branches = [lambda x: arb(0), lambda x: arb(5), lambda x: arb(9)]
    edges = [arb(1), arb(2)]
    for point, values in ((0, [0]), (1, [0, 5]), (1.5, [5]), (2, [5, 9]), (3, [9])):
        found = BALL.piecewise(arb(point), edges, branches)
        assert [value for value in (0, 5, 9) if found.overlaps(arb(value))] == values
    assert BALL.piecewise(arb.nan(), edges, branches).is_nan()


def test_a_fork_waits_until_no_thread_computes():
    """Else the child would have a lock that nobody opens, and the precision of the other thread."""
    inside, before = threading.Event(), ctx.prec

    def compute():
        with working_precision(1_000):
            inside.set()
            time.sleep(0.05)

    thread = threading.Thread(target=compute)
    thread.start()
    inside.wait()
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        child = os.fork()
    if child == 0:
        signal.alarm(5)
        with working_precision(64):
            pass
        os._exit(ctx.prec != before)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


WITHOUT = """
import sys
sys.modules["_sha256"] = sys.modules["_sha2"] = None
from geoveil.gp import digests
import hashlib
assert digests.sha256 is hashlib.sha256 and digests.blake2b is hashlib.blake2b
"""


def test_digests_are_those_of_hashlib():
    for length in (*range(260), 4096, 100_003):
        data = (b"geoveil" * (length // 7 + 1))[:length]
        assert digests.sha256(data).digest() == hashlib.sha256(data).digest()
        assert digests.sha256(data).hexdigest() == hashlib.sha256(data).hexdigest()
        expected = hashlib.blake2b(data, digest_size=7).digest()
        assert digests.blake2b(data, digest_size=7).digest() == expected


def test_an_interpreter_without_them_uses_hashlib():
    subprocess.run([sys.executable, "-c", WITHOUT], check=True, timeout=60)
