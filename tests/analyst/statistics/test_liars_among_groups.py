"""Ratios, comparisons and trends with false reports in them: against the worst liars."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from geoveil.analyst import JointEstimates, compare, trend
from geoveil.gp import GeoPrivacy
from geoveil.gp.limits import Limits

LIMITS = Limits((-1.0, 2.0), (0.0, 1.0))
WIDTH = 3.0


def one(values: Any) -> JointEstimates:
    """Return the mean of reports between −1 and 2."""
    return JointEstimates(
        labels=("a",),
        values=np.array([np.mean(values)]),
        covariance=np.array([[np.var(values, ddof=1) / len(values)]]),
        n=len(values),
        confidence=0.95,
        limits=(LIMITS,),
        privacy=GeoPrivacy(1.0, per=1.0, unit="year"),
    )


def test_a_ratio_with_liars_is_that_of_the_worst_of_them():
    """The union of the intervals over all that liars can have taken away, on a grid of it.

    A little more: how far an imagined report is from the mean does not change with what is taken.
    """
    c = np.array([[4e-4, 1e-4], [1e-4, 3e-4]])
    told: dict[str, Any] = {"labels": ("a", "b"), "covariance": c, "n": 1_000, "confidence": 0.95}
    signed = Limits((-2.0, 2.0), (-1.0, 1.0))
    told |= {"limits": (signed, signed), "privacy": GeoPrivacy(1.0, per=1.0, unit="year")}
    for values in ([0.3, 0.6], [0.001, 0.5], [-0.2, 0.5], [0.3, -0.6]):
        found = JointEstimates(values=np.array(values), **told, contamination=0.01)
        moved = found.moved[0]
        ends = []
        for off in itertools.product(np.linspace(-moved, moved, 5), repeat=2):
            honest = JointEstimates(values=np.array(values) + off, **told).ratio("a", "b")
            ends.append((honest.ci_low, honest.ci_high))
        made = found.ratio("a", "b")
        lowest, highest = min(low for low, _ in ends), max(high for _, high in ends)
        assert made.ci_low <= lowest + 1e-9
        assert made.ci_high >= highest - 1e-9
        assert made.ci_high - made.ci_low <= 1.001 * (highest - lowest)
    found = JointEstimates(values=np.array([0.3, 0.05]), **told, contamination=0.01)
    assert found.ratio("a", "b").ci_high == np.inf


def test_comparisons_and_trends_hold_with_liars_in_each():
    rng = np.random.default_rng(5)
    several = [one(rng.uniform(-1.0, 2.0, 400) + shift) for shift in (0.0, 0.2, 0.4)]
    doubted = [replace(found, contamination=0.02) for found in several]
    thin, wide = (compare(*found, people="different") for found in (several, doubted))
    assert thin.low - wide.low == pytest.approx([2 * 0.02 * WIDTH] * 2)
    assert wide.high - thin.high == pytest.approx([2 * 0.02 * WIDTH] * 2)
    assert (wide.p_values > thin.p_values).all()
    assert "2 % of the reports say anything" in wide.notes[-1]
    flat, doubtful = (trend(*found, people="same") for found in (several, doubted))
    slopes = np.array([-0.5, 0.0, 0.5])  # as many people at each time
    assert flat.low - doubtful.low == pytest.approx(0.02 * WIDTH * np.abs(slopes).sum())
