"""Test certified suprema of functions with known suprema."""

import pytest
from flint import arb

from geoveil.gp.errors import GeoVeilError
from geoveil.selection import suprema
from geoveil.selection.suprema import TOLERANCE, supremum


def gaussian_bump(low: arb, high: arb) -> tuple[arb, arb]:
    """Log of e^{−(t−1)²}·7."""
    t = low.union(high) - 1
    return arb(7).log() - t * t, -2 * t


def test_the_bound_is_above_the_supremum_and_within_the_tolerance():
    bound = float(supremum(gaussian_bump, arb(0), arb(5), arb("1e-9")))
    assert 7 <= bound <= 7 * (1 + 2 * TOLERANCE)


def test_the_floor_counts():
    bound = float(supremum(gaussian_bump, arb(4), arb(5), arb(3)))
    assert 3 <= bound <= 3 * (1 + 2 * TOLERANCE)


def test_a_function_that_stays_unknown_is_reported(monkeypatch):
    monkeypatch.setattr(suprema, "_MOST_CELLS", 1 << 10)
    with pytest.raises(GeoVeilError, match="supremum"):
        supremum(lambda low, high: (arb(0), arb("nan")), arb(0), arb(1), arb(1))
