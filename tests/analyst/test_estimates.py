"""What an estimate says of participants, population and the price of privacy, from its sums."""

import math
from dataclasses import replace

import numpy as np
import pytest

from geoveil.analyst import LabelledEstimate
from geoveil.gp import DebiasedLaplace, GeoPrivacy, Threshold
from geoveil.gp.estimation import Accumulator, estimate
from geoveil.gp.intervals import UNLIMITED, IntervalMethod, Limits

PRIVACY = GeoPrivacy(1.0, 8_000.0, "dollar")
MECHANISM = DebiasedLaplace(Threshold(0.0, 24_000.0, "smoothstep"), PRIVACY)
LIMITS = Limits(MECHANISM.range, (0.0, 1.0))


def labelled(sums, exponent, limits=LIMITS):
    found = estimate(sums, exponent, limits=limits)
    return LabelledEstimate(
        label="above",
        value=found.value,
        standard_error=found.standard_error,
        ci_low=found.ci_low,
        ci_high=found.ci_high,
        method=found.method,
        confidence=found.confidence,
        n=found.n,
        one_report=None,
        privacy=PRIVACY,
        period=0,
        robust=None,
        sums=(sums.total, sums.total_of_squares),
        step_exponent=exponent,
        limits=limits,
        softness=None,
    )


def reports_of(incomes, seed):
    reports = MECHANISM.simulate(np.asarray(incomes), np.random.default_rng(seed))
    return Accumulator.of(np.rint(reports / MECHANISM.step).astype(int).tolist())


@pytest.mark.parametrize("incomes", [[-1e6, 1e6], [-1e6, 0.0, 1e6], [0.0], [-1e6, -1e4]])
def test_the_price_and_the_error_of_the_participants_are_bounded(incomes):
    """The bounds hold what the law of the mechanism says of the same people, within 3 %."""
    people = np.tile(incomes, 6_000)
    row = labelled(reports_of(people, 5), MECHANISM.step_exponent)
    noise, clear = MECHANISM.variance(people).mean(), MECHANISM.mean(people).var()
    shown = row.to_dict()
    of = shown["targets"]["participants"]
    error = math.sqrt(noise / len(people))
    assert of["standard_error_at_least"] <= 1.03 * error
    assert error <= 1.03 * of["standard_error_at_most"]
    assert shown["targets"]["population"]["standard_error"] == row.standard_error
    assert shown["targets"]["hard_question"] is None
    least = shown["price_of_privacy"]["variance_ratio_at_least"]
    assert 1 <= least <= 1.03 * (math.inf if clear == 0 else 1 + noise / clear)
    in_the_clear = shown["price_of_privacy"]["participants_in_the_clear_at_most"]
    assert in_the_clear == round(len(people) / least)


def test_without_what_a_mean_can_be_nothing_is_guessed():
    row = labelled(Accumulator.of([1, 5, 9]), 0, UNLIMITED)
    assert row.to_dict()["price_of_privacy"] is None
    assert row.to_dict()["targets"]["participants"]["standard_error_at_least"] is None
    assert labelled(Accumulator.of([1]), 0).price_at_least is None


def test_another_interval_is_had_from_the_same_sums():
    row = labelled(reports_of(np.full(50, -1e6), 5), MECHANISM.step_exponent)
    wider = row.with_interval(IntervalMethod.FULL_ENDS)
    assert wider.ci_high > row.ci_high > row.value == 0.0
    assert replace(wider, ci_low=row.ci_low, ci_high=row.ci_high, method=row.method) == row
    assert wider.to_dict()["interval"]["method"] == "full-ends"
