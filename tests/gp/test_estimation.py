"""Test that accumulators are exact, and that estimates match textbook formulas."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from geoveil.gp import ParameterError
from geoveil.gp.estimation import Accumulator, estimate

INTEGERS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30)


@given(INTEGERS, INTEGERS)
def test_sums_do_not_depend_on_how_reports_are_cut(left, right):
    whole = Accumulator.of(left + right)
    assert Accumulator.of(left) + Accumulator.of(right) == whole
    assert whole == Accumulator(
        len(left + right), sum(left + right), sum(k * k for k in left + right)
    )


@pytest.mark.parametrize("exponent", [-40, -3, 0, 5])
def test_estimate_agrees_with_the_textbook(exponent):
    rng = np.random.default_rng(3)
    integers = rng.integers(-1000, 5000, 200)
    values = integers * 2.0**exponent
    got = estimate(Accumulator.of(integers.tolist()), exponent, confidence=0.9)
    error = values.std(ddof=1) / math.sqrt(len(values))
    low, high = stats.t.interval(0.9, 199, loc=values.mean(), scale=error)
    assert got.n == 200
    assert got.value == pytest.approx(values.mean(), rel=1e-14, abs=0)
    assert got.standard_error == pytest.approx(error, rel=1e-13, abs=0)
    assert (got.ci_low, got.ci_high) == pytest.approx((low, high), rel=1e-12)


def test_huge_integers_cancel_exactly():
    """Floats would lose the 1 beside 2^62; the error of equal reports is exactly 0."""
    got = estimate(Accumulator.of([2**62 + 1, 2**62 + 3]), 0)
    assert got.value == float(2**62 + 2)
    assert got.standard_error == 1.0
    assert estimate(Accumulator.of([2**62 + 1] * 5), 0).standard_error == 0.0


def test_too_few_reports_have_no_error_bar():
    assert estimate(Accumulator(), 0).value is None
    one = estimate(Accumulator.of([3]), 0)
    assert (one.value, one.standard_error, one.ci_low, one.ci_high) == (3.0, None, None, None)
    assert one.method is None


@pytest.mark.parametrize("bad", [0, 1, -0.1, math.nan, math.inf, "0.9", None])
def test_confidence_out_of_range_is_named(bad):
    with pytest.raises(ParameterError, match="confidence"):
        estimate(Accumulator.of([1, 2]), 0, bad)


def test_sums_that_no_reports_have_are_refused():
    with pytest.raises(ParameterError):
        Accumulator(n=2, total=10, total_of_squares=49)
    with pytest.raises(ParameterError):
        Accumulator(n=-1)
