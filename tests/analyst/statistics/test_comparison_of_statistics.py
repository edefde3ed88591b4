"""Differences of means, quantiles and distribution functions, against Monte Carlo and by hand."""

import math
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

from geoveil.analyst import (
    Contaminated,
    CurveChange,
    DistributionFunction,
    MeanValue,
    QuantileEstimates,
    Quantiles,
    ReportRows,
    TopShare,
    ask_changes,
    compare,
    reports_of,
    simultaneous,
)
from geoveil.analyst.statistics.joint import LIARS, Quantity
from geoveil.gp import GeoPrivacy, ParameterError, Threshold, UnsupportedError

from .populations import PRIVACY, campaign, campaigns, incomes, joint_of, reports

pytestmark = pytest.mark.usefixtures("few_draws")

MEDIANS = Quantiles(levels=[0.25, 0.5, 0.75])
CURVE = DistributionFunction(low=-20_000.0, high=200_000.0, points=45)


def quantiles(values: Any, errors: Any, correlations: Any, n: int = 1_000) -> QuantileEstimates:
    """Return quantiles as reports would tell them, whose intervals are longer above than below."""
    lengths = np.array([[0.9], [1.1]]) * stats.norm.ppf(0.975) * errors

    def reach(confidence: float) -> Any:
        return stats.norm.ppf((1 + confidence) / 2) / stats.norm.ppf(0.975)

    return QuantileEstimates(
        levels=np.array([0.25, 0.5, 0.75]),
        values=values,
        standard_errors=errors,
        low=values - lengths[0],
        high=values + lengths[1],
        correlations=correlations,
        width=24_000.0,
        confidence=0.95,
        n=n,
        privacy=PRIVACY,
        moved=np.zeros((2, 3)),
        ends=lambda confidence: tuple(values + reach(confidence) * np.array([[-1], [1]]) * lengths),
    )


ERRORS = np.array([[0.09, 0.07, 0.13], [0.08, 0.09, 0.1], [0.05, 0.06, 0.07]])
MOVED = np.array([[[0.01], [0.005]], [[0.008], [0.003]], [[0.002], [0.006]]]) * [1.0, 2.0, 0.0]
"""How far false reports move each quantile of three sets, down and up."""


@pytest.mark.parametrize("to_first", [False, True])
@pytest.mark.parametrize("people", ["different", "same"])
def test_ends_and_p_values_are_those_of_both_margins(people, to_first):
    """The oracle adds up margins, which are longer above than below, and what liars add to each."""
    correlations = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.5], [0.2, 0.5, 1.0]])
    # The first change is less than what liars may have caused.
    values = np.array([[2.0, 6.0, 9.0], [2.005, 5.7, 9.1], [3.0, 5.7, 8.0]])
    sets = []
    for of, (value, errors, moved) in enumerate(zip(values, ERRORS, MOVED, strict=True)):
        made = quantiles(value, errors, correlations, 100 * (of + 1))
        ends = {"low": made.low - moved[0], "high": made.high + moved[1]}
        sets.append(replace(made, moved=moved, **ends))
    made = compare(*sets, people=people, to_first=to_first)
    pairs = [(0, 1), (0, 2) if to_first else (1, 2)]
    assert made.title == "6 differences, between 3 sets of reports"
    assert made.counts == (100, 200, 300)
    assert made.n == 600
    assert made.labels[3] == f"3 − {pairs[1][0] + 1}: quantile 0.25"
    together = np.add if people == "same" else np.hypot
    differences = np.zeros((6, 9))
    for row, (a, b) in enumerate(pairs):
        for at in range(3):
            differences[3 * row + at, [3 * a + at, 3 * b + at]] = -1, 1
    covariance = np.zeros((9, 9))
    for of, errors in enumerate(ERRORS):
        block = slice(3 * of, 3 * of + 3)
        covariance[block, block] = correlations * np.outer(errors, errors)
    joint = differences @ covariance @ differences.T
    spread = np.sqrt(np.diag(joint))
    if people == "same":
        critical = stats.norm.ppf(1 - 0.05 / 6 / 2)
    else:
        critical = simultaneous.critical_value(joint / np.outer(spread, spread), 0.95)
    for row, (a, b) in enumerate(pairs):
        at = slice(3 * row, 3 * row + 3)
        change = values[b] - values[a]
        below = together(0.9 * ERRORS[b], 1.1 * ERRORS[a])
        above = together(1.1 * ERRORS[b], 0.9 * ERRORS[a])
        down, up = MOVED[b][0] + MOVED[a][1], MOVED[b][1] + MOVED[a][0]
        assert made.values[at] == pytest.approx(change)
        assert made.standard_errors[at] == pytest.approx(together(ERRORS[a], ERRORS[b]))
        assert made.low[at] == pytest.approx(change - critical * below - down)
        assert made.high[at] == pytest.approx(change + critical * above + up)
        left = np.maximum(np.abs(change) - np.where(change > 0, down, up), 0)
        scores = left / np.where(change > 0, below, above)
        assert made.p_values[at] == pytest.approx(2 * stats.norm.sf(scores), rel=1e-6)


def test_differences_of_quantiles_hold_across_both_gaps():
    """In two groups of 2,000 people, 49.7 and 50.3 % hold 0, and all others hold a million.

    The samples have 50.5 and 49.5 % at 0, less than an error away, and their medians differ the
    other way round. Control: margins combined as those of independent normal errors.
    """
    rng = np.random.default_rng(12)
    made = [
        reports(np.where(np.arange(2_000) < count, 0.0, 1e6) + rng.laplace(0, 8_000.0, 2_000)).ask(
            Quantiles(levels=[0.5])
        )
        for count in (1_010, 990)
    ]
    edge = 24_000.0 * (stats.beta(2, 2).ppf(0.003 / 0.503) - 0.5)
    found = compare(*made, people="different")
    assert found.values[0] > 9e5
    assert found.low[0] < -2 * edge - 1e6 < found.high[0]
    below = [float(of.values[0] - of.low[0]) for of in made[1:]]
    above = [float(of.high[0] - of.values[0]) for of in made[:1]]
    assert found.values[0] - math.hypot(*below, *above) > -2 * edge - 6e5


def test_an_unbounded_error_widens_no_other_interval():
    errors = ERRORS[0]
    first, second = (quantiles(np.zeros(3), errors, np.eye(3)) for _ in range(2))
    wide = np.array([1.0, 1.0, np.inf])
    unbounded = replace(
        first,
        standard_errors=errors * wide,
        low=first.low * wide,
        high=first.high * wide,
        ends=lambda confidence: tuple(end * wide for end in first.ends(confidence)),
    )
    made = compare(unbounded, second, people="different")
    critical = simultaneous.critical_value(np.eye(3), 0.95)
    assert made.high[:2] == pytest.approx(critical * math.hypot(0.9, 1.1) * errors[:2])
    assert (made.low[2], made.high[2], made.p_values[2]) == (-math.inf, math.inf, 1)
    with pytest.raises(ParameterError, match=r"width must be 24000, as for .* got width=1\.0"):
        compare(first, replace(second, width=1.0), people="different")
    moved = replace(first, moved=np.full((2, 3), 9.0), ends=lambda _: (first.values, first.values))
    false = compare(moved, second, people="different")
    assert false.high == pytest.approx(critical * 1.1 * errors + 9)


def test_a_mean_s_margins_beyond_honest_errors_are_those_of_liars():
    reach = 2 * stats.norm.ppf(0.975)
    mean = {"confidence": 0.95, "n": 1_000, "label": "mean", "standard_error": 2.0}
    may = Quantity(value=40.0, ci_low=40 - reach, ci_high=40 + reach, **mean)
    june = Quantity(
        value=50.0, ci_low=50 - reach - 2, ci_high=50 + reach - 1, about=(f"{LIARS} 1 %",), **mean
    )
    made = compare(may, june, people="different")
    assert made.low == pytest.approx([10 - math.hypot(reach, reach) - 2])
    assert made.high == pytest.approx([10 + math.hypot(reach, reach - 1)])
    assert any(note.startswith(LIARS) for note in made.notes)
    honest = compare(may, replace(june, about=()), people="different")
    assert honest.low == pytest.approx([10 - math.hypot(reach, reach + 2)])
    assert honest.values.tolist() == [10.0]
    assert honest.title == "1 difference, between 2 sets of reports"
    (row,) = honest.rows()
    assert (row["name"], row["p"], row["p_adjusted"]) == ("2 − 1: mean", *2 * [honest.p_values[0]])
    coarse = replace(june, privacy=GeoPrivacy(1.0, per=16_000.0, unit="dollar"))
    assert compare(coarse, may, people="different").privacy == coarse.privacy
    (points,) = campaigns(incomes(), 100, 1)
    mean = joint_of([Threshold(60_000.0, 24_000.0, "smoothstep")], points)
    alike = replace(may, label=mean.labels[0])
    assert compare(mean, alike, people="different").values == pytest.approx(40.0 - mean.values)


@pytest.mark.deep(keep=0)
def test_differences_are_held_at_once_and_of_no_change_one_in_twenty_is_found():
    """600 pairs of three quantiles whose errors go together; p of each alone must find more."""
    rng = np.random.default_rng(5)
    before, after = np.array([900.0, 700.0, 1_300.0]), np.array([800.0, 900.0, 1_000.0])
    correlations = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.5], [0.2, 0.5, 1.0]])
    factor = np.linalg.cholesky(correlations)
    inside, by_holm, alone, of_one, errors = [], [], [], [], np.zeros(3)
    truth = np.array([20_000.0, 60_000.0, 90_000.0])
    for _ in range(600):
        first, second = (
            quantiles(truth + spread * (factor @ rng.standard_normal(3)), spread, correlations)
            for spread in (before, after)
        )
        made = compare(first, second, people="different")
        inside.append(bool(((made.low <= 0) & (made.high >= 0)).all()))
        by_holm.append(bool((made.adjusted <= 0.05).any()))
        alone.append(bool((made.p_values <= 0.05).any()))
        of_one.append(bool((np.abs(made.values) <= 1.96 * before).all()))
        errors = made.standard_errors
    assert errors == pytest.approx(np.hypot(before, after))
    assert 0.92 <= np.mean(inside) <= 0.98  # 0.95, three errors of its own (0.009) either way
    assert np.mean(by_holm) <= 0.077
    assert np.mean(alone) > 0.085
    assert np.mean(of_one) < 0.8
    third = compare(first, second, first, people="different", names=["a", "b", "c"])
    assert third.labels[3] == "c − b: quantile 0.25"
    assert third.values[3:] == pytest.approx(-third.values[:3])


@pytest.mark.deep
def test_quantiles_and_means_of_people_who_earn_more_differ_by_so_much():
    for statistic in (MEDIANS, MeanValue()):
        first, second = campaigns(incomes(), 1_000, 2)
        asking = [reports(first).ask, reports(second + 10_000).ask]
        made = ask_changes(asking, statistic, [campaign()] * 2, people="different")
        each = [ask(statistic) for ask in asking]
        errors = [getattr(one, "standard_errors", None) for one in each]
        if errors[0] is None:
            errors = [np.array([one.standard_error]) for one in each]
        assert made.standard_errors == pytest.approx(np.hypot(*errors))
        assert (np.abs(made.values - 10_000) < 4 * made.standard_errors).all()
        assert ((made.low < 10_000) & (made.high > 10_000)).all()


def test_a_difference_states_the_conditions_of_both_estimates():
    """Without a range a mean assumes that nobody far out was missed; with one, the control, not."""
    both = [reports(points) for points in campaigns(incomes(), 60, 2)]
    for within, count in ((None, 2), ((0.0, 1e7), 0)):
        made = compare(*(of.ask(MeanValue(within=within)) for of in both), people="different")
        said = [note for note in made.notes if note.startswith("The intervals hold if values have")]
        assert len(said) == count
        assert all("one of 60 people at" in note for note in said)
    made = compare(*(of.ask(TopShare()) for of in both), people="different")
    assert any("Too few answered" in note for note in made.notes)
    made = compare(*(of.ask(Quantiles(levels=[0.5])) for of in both), people="different")
    assert any("Thresholds are soft over 24,000" in note for note in made.notes)


def test_a_curve_that_moved_is_seen_and_is_the_difference_of_the_curves():
    first, second = campaigns(incomes(), 2_000, 2)
    before, after = (reports(points).ask(CURVE) for points in (first, second[:1_500] - 15_000))
    made = compare(before, after, people="different", names=["May", "June"])
    plain = after.above.values - before.above.values
    assert made.values == pytest.approx(-plain)
    variance = np.diag(before.above.covariance) + np.diag(after.above.covariance)
    assert made.changes.standard_errors == pytest.approx(np.sqrt(variance))
    assert made.changes.counts == (2_000, 1_500)
    assert made.title == (
        "Change of the distribution function, June − May, from 2,000 and 1,500 reports"
    )
    assert made.changes.labels[0] == "June − May: up to -20,000"
    assert made.adjusted.min() < 1e-6
    assert (made.low > 0).any(), "poorer people: more are up to some threshold"
    assert not (made.high < 0).any()
    assert [row["p_adjusted"] for row in made.rows()] == pytest.approx(made.adjusted)
    assert made.to_dict()
    with pytest.raises(ParameterError, match="two distribution functions"):
        compare(before, after, people="different", to_first=True)
    with pytest.raises(ParameterError, match="two distribution functions"):
        compare(before, after, after, people="different")
    with pytest.raises(ParameterError, match="two distribution functions"):
        compare(before, after.above, people="different")
    softer = replace(after, width=2 * after.width)
    with pytest.raises(
        ParameterError, match=f"{before.width:.15g}, as for.* got width={softer.width}"
    ):
        compare(before, softer, people="different")
    with pytest.raises(ParameterError, match="names must be 2 of them"):
        compare(before, after, people="different", names=["June"])
    same = compare(before, after, people="same")
    assert (same.high - same.low >= made.high - made.low).all()


@pytest.mark.deep
def test_curves_are_asked_where_any_has_people_and_as_softly_as_the_noisiest():
    noisy = replace(campaign(), privacy=GeoPrivacy(1.0, per=16_000.0, unit="dollar"))
    first, second = campaigns(incomes(), 2_000, 2)
    sets = [reports(first), reports(second + 100_000, noisy)]
    alone = [one.ask(DistributionFunction()) for one in sets]
    made = ask_changes(
        [one.ask for one in sets], DistributionFunction(), [campaign(), noisy], people="different"
    )
    assert isinstance(made, CurveChange)
    assert made.at[0] <= min(one.at[0] for one in alone) + 10_000
    assert made.at[-1] >= max(one.at[-1] for one in alone) - 10_000
    with pytest.raises(ParameterError, match="width"):
        compare(*(one.ask(MEDIANS) for one in sets), people="different")
    with pytest.raises(ParameterError, match="at"):
        compare(*alone, people="different")
    quantiles = ask_changes(
        [one.ask for one in sets], MEDIANS, [campaign(), noisy], people="different"
    )
    assert (quantiles.low > 50_000).all()


@pytest.mark.deep
def test_periods_and_doubt_and_what_can_not_be_compared():
    recurring = replace(campaign(), period=timedelta(days=10))
    points = np.concatenate([*campaigns(incomes(), 1_000, 2)])
    integers = np.rint(points / recurring.point_mechanism.step).astype(np.int64)
    periods = np.repeat(np.arange(2, dtype=np.uint32), 1_000)
    at_hand = reports_of(ReportRows(periods, None, (integers,)), recurring)
    asking = [partial(at_hand.ask, period=period) for period in range(2)]
    of = [recurring, recurring]
    plain = ask_changes(asking, MEDIANS, of, people="same")
    apart = ask_changes(asking, MEDIANS, of, people="different")
    assert plain.standard_errors == pytest.approx(
        sum(one(MEDIANS).standard_errors for one in asking)
    )
    doubted = ask_changes(asking, Contaminated(MEDIANS, 0.01), of, people="different")
    assert doubted.values == pytest.approx(apart.values, abs=500)  # other thresholds are asked
    assert (doubted.low < apart.low).all()
    assert (doubted.p_values >= apart.p_values - 1e-12).all()
    assert any(note.startswith("Intervals hold also if") for note in doubted.notes)
    share = ask_changes(asking, TopShare(share=0.1), of, people="different")
    assert len(share.labels) == 1
    with pytest.raises(ParameterError, match="estimates"):
        compare(asking[0](MEDIANS), asking[1](CURVE), people="same")
    with pytest.raises(ParameterError, match="two distribution functions, got estimates='int'"):
        compare(1, 2, people="same")
    with pytest.raises(ParameterError, match="labels"):
        compare(asking[0](MEDIANS), asking[1](Quantiles(levels=[0.5])), people="same")
    euros = campaign(replace(PRIVACY, unit="euro"))
    with pytest.raises(ParameterError, match="unit"):
        ask_changes(asking, MEDIANS, [recurring, euros], people="same")
    nowhere = replace(asking[0](MEDIANS), values=np.array([0.0, 1.0, np.inf]))
    with pytest.raises(UnsupportedError, match=r"quantile 0\.75"):
        compare(nowhere, asking[1](MEDIANS), people="same")
    wide = np.array([1.0, 1.0, np.inf])
    ends = -1e6 * wide, 1e6 * wide
    unbounded = replace(asking[0](MEDIANS), standard_errors=wide, ends=lambda _: ends)
    assert compare(unbounded, asking[1](MEDIANS), people="different").p_values[2] == 1
