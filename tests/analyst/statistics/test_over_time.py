"""Test curves over time of simulated fleets that read once an epoch: coverage, changes, flags.

Each device of a fleet answers every week for three epochs of 13 weeks, extrapolated, from noisy
readings at weeks of its own; only sums by week and cohort are looked at, as a server has them.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtri

from geoveil.analyst.labelled_estimate import LabelledEstimate
from geoveil.analyst.pictures import draw_curve
from geoveil.analyst.statistics.over_time import Margins, OverTime, flagged, over_time, windows
from geoveil.campaign import (
    Allocation,
    Attribute,
    Question,
    Readings,
    StatisticCampaign,
    unbiased_for,
)
from geoveil.campaign.readings import ORIGIN
from geoveil.gp import GeoPrivacy, ParameterError, Threshold
from geoveil.gp.estimation import Accumulator
from geoveil.gp.limits import Limits
from tests.analyst.test_estimates import labelled

Array = NDArray[np.float64]
WEEK = timedelta(days=7)
EPOCH, WEEKS, N, RUNS = 13, 52, 2_600, 60
STEP = -20
NOISE = 0.42
LIMITS = Limits((-3 * NOISE - 1, 2 + 3 * NOISE), (-1.0, 2.0))  # of what goes on as two readings did


def campaign(cohorts: bool = True, extrapolated: bool = True) -> StatisticCampaign:
    return StatisticCampaign(
        campaign_id="incomes",
        title="Incomes",
        attribute=Attribute(name="income", unit="dollar"),
        privacy=GeoPrivacy(1.0, 8000.0, "dollar"),
        questions=(Question("above", Threshold(100_000, 32_000, "smoothstep")),),
        allocation=Allocation.PARTITION,
        opens=datetime(2026, 1, 1, tzinfo=UTC),
        closes=datetime(2026, 1, 1, tzinfo=UTC) + WEEKS * WEEK,
        period=WEEK,
        readings=Readings(
            every=EPOCH * WEEK, extrapolated=extrapolated, cohorts=EPOCH if cohorts else 0
        ),
    )


def truth(shock: bool) -> Array:
    """Return the share of people who hold 1, week by week: it drifts, and jumps down in week 44."""
    week = np.arange(WEEKS)
    return np.asarray(0.3 + 0.001 * week - (0.2 * (week >= 44) if shock else 0.0), np.float64)


def answers(
    share: Array,
    rng: np.random.Generator,
    people: int = N,
    noise: float = NOISE,
    *,
    steady: bool = True,
) -> tuple[Array, NDArray[np.int64]]:
    """Return reports, (weeks, people), NaN where there is none, and the cohort of each person.

    Steady people keep their place; others hold 1 or not at random whenever they read.
    """
    phase = np.arange(people) % EPOCH  # the cell of an epoch in which a device's epochs begin
    place = rng.random(people)

    def reading(week: int) -> Array:
        held = place if steady else rng.random(people)
        return (held < share[week]) + noise * rng.choice([-1, 1], people)

    latest = reading(0)
    before, read, gap = latest.copy(), np.full(people, 0.0), np.full(people, 0.0)
    reports = np.empty((WEEKS, people))
    for week in range(WEEKS):
        # A device whose epoch began within the week before reads in this one.
        reads = (week > 0) & ((week - 1) % EPOCH == phase)
        before = np.where(reads, latest, before)
        gap = np.where(reads, week - read, gap)
        latest = np.where(reads, reading(week), latest)
        read = np.where(reads, week, read)
        age = week - read
        reports[week] = latest + age / np.maximum(gap, 1) * (latest - before)
        reports[week, age > gap] = np.nan
    since = int((campaign().opens - ORIGIN) / WEEK)  # a whole number: cells are counted from 1970
    return reports, (phase + since) % EPOCH


def curve(
    told: Array, cohort: NDArray[np.int64], asked: StatisticCampaign | None = None
) -> OverTime:
    asked = campaign() if asked is None else asked
    rows, of_cohorts = [], []
    for week, values in enumerate(told):
        given = np.isfinite(values)
        k = np.rint(np.ldexp(values[given], -STEP)).astype(np.int64).astype(object)
        rows.append(summed(week, k))
        if asked.cohorts > 1:
            of_cohorts += [summed(week, k[cohort[given] == one], one) for one in range(EPOCH)]
    return over_time(asked, rows, of_cohorts)


def summed(
    week: int, k: NDArray[Any], cohort: int | None = None, limits: Limits = LIMITS
) -> LabelledEstimate:
    """Return the estimate from integers on the grid."""
    sums = Accumulator(len(k), int(k.sum()), int((k * k).sum()))
    return labelled(sums, STEP, limits, period=week, cohort=cohort)


@cache
def curves(shock: bool, runs: int = 6) -> list[OverTime]:
    rng = np.random.default_rng(7 + shock)
    return [curve(*answers(truth(shock), rng)) for _ in range(runs)]


def test_a_curve_says_its_numbers_once():
    found = curves(True)[0]
    rows = found.rows()
    assert [row["period"] for row in rows] == list(range(WEEKS))
    assert rows[0]["cohort"] != rows[0]["cohort"]  # nobody has read since it opened
    assert rows[20]["flag"] is None
    assert rows[-1]["cohort_low"] < rows[-1]["cohort"] < rows[-1]["cohort_high"]
    carried = replace(found, extrapolated=False)
    for of in (found, carried):
        (note,) = (note for note in of.notes if "Flagged" in note)
        assert ("devices do not begin or pause together" in note) == (of is carried)
    assert found.to_dict()["rows"][0]["cohort"] is None
    assert found.plot() is not None


@pytest.mark.parametrize("extrapolated", [True, False])
def test_what_extrapolated_answers_assume_of_clocks_stands_beside_them(extrapolated):
    """Control: carried answers hold the value at the last reading, whatever its date."""
    asked = campaign(cohorts=False, extrapolated=extrapolated)
    rows = [moments(week, 10, 0.5, 0.25) for week in (0, 1)]
    said = " ".join(over_time(asked, rows).notes)
    assert ("clocks were right" in said) is extrapolated
    assert ("whose clock was right" in unbiased_for(asked)) is extrapolated


def test_extrapolated_answers_are_shown_as_possible_shares():
    asked = campaign(cohorts=False)
    assert asked.limits[0].means == (-1.0, 2.0)
    assert asked.limits[0].estimates == (0.0, 1.0)
    assert campaign(extrapolated=False).limits[0].estimates == (0.0, 1.0)
    told, _ = answers(np.zeros(WEEKS), np.random.default_rng(3), people=130)
    weeks = [np.rint(np.ldexp(w[np.isfinite(w)], -STEP)).astype(int).astype(object) for w in told]

    def least(limits: Limits) -> float:
        rows = [summed(week, k, limits=limits) for week, k in enumerate(weeks)]
        shown = over_time(asked, rows).rows()
        assert all(row["ci_low"] <= row["estimate"] <= row["ci_high"] for row in shown)
        return min(row["estimate"] for row in shown)

    assert least(replace(LIMITS, possible=(0.0, 1.0))) == 0.0
    assert least(LIMITS) < 0


def test_the_cohort_sees_a_shock_before_the_curve_does():
    """Six fleets: all are flagged after it and none before; from four weeks after it on the cohort
    is right on average, to 4.9 standard errors of it, and the curve is not."""
    struck = curves(True)
    for found in struck:
        assert np.nanmax(found.flags[44:]) == 1
        assert np.nanmax(found.flags[:44]) == 0
    after = truth(True)[48:]
    error = 4.9 * np.nanmean(struck[0].cohorts.standard_errors) / (len(struck) * 4) ** 0.5  # type: ignore[union-attr]  # it has cohorts
    assert abs(np.mean([c.cohort[48:] - after for c in struck])) < error
    assert abs(np.mean([c.values[48:] - after for c in struck])) > 0.04


@pytest.mark.deep
def test_intervals_hold_the_whole_curve_and_flags_are_rare():
    """60 fleets: 95 % of curves held, at least 49 (binomial, α = 1e-4); the control, intervals of
    each week by itself, hold fewer than 49. Of calm years at most 1 % are flagged: at most 5."""
    calm = curves(False, RUNS)
    share = truth(False)
    held = [bool(((c.low <= share) & (share <= c.high)).all()) for c in calm]
    alone = [bool((np.abs(c.values - share) < 1.96 * c.standard_errors).all()) for c in calm]
    assert sum(held) >= 49 > sum(alone)
    assert sum(bool(np.nanmax(c.flags)) for c in calm) <= 5


@pytest.mark.deep
def test_the_error_of_a_change_is_that_between_fleets():
    """60 fleets, weeks 30 and 34: stated and found within 35 % (n = 60, 3.8 standard errors), and
    the interval holds at least 49 of 60. The control: with independent people the error is larger.
    """
    calm = curves(False, RUNS)
    share = truth(False)
    changes = [c.change(30, 34) for c in calm]
    wanted = share[34] - share[30]
    found = np.std([change.value for change in changes])
    stated = np.sqrt(np.mean([change.standard_error**2 for change in changes]))
    assert stated == pytest.approx(found, rel=0.35)
    assert sum(change.ci_low <= wanted <= change.ci_high for change in changes) >= 49
    independent = np.mean([np.hypot(*c.standard_errors[[30, 34]]) for c in calm])
    assert independent > 1.3 * found


def test_a_change_is_that_of_cohorts_that_answer_in_both_periods():
    """60 fleets in their first epoch, in which 4 of 13 cohorts answer again: the interval holds
    at least 49 of 60 (95 %, α = 1e-4). The control: about the difference of the curve's values,
    for which other people answered, the same margins hold fewer.
    """
    rng = np.random.default_rng(8)
    level = np.full(WEEKS, 0.4)
    held = held_by_values = 0
    for _ in range(60):
        told, cohort = answers(level, rng, noise=0.01)
        made = curve(told[:8], cohort)
        change = made.change(0, 6)
        assert change.cohorts == 4
        assert change.n < sum(np.array(made.counts)[[0, 6]]) / 2
        held += change.ci_low <= 0 <= change.ci_high
        difference = made.values[6] - made.values[0]
        held_by_values += change.ci_low <= change.value - difference <= change.ci_high
    assert held >= 49
    assert held_by_values < 49, "the control must fail"


@pytest.mark.parametrize(
    ("sizes", "read"), [((950, 30, 20), (True,) * 3), ((5000, 12, 13), (True, False, False))]
)
def test_a_change_is_held_where_cohorts_are_of_unequal_size(sizes, read):
    """400 fleets whose cohorts have read anew, or only the largest: at least 363 intervals hold 0
    (95 %, α = 1e-4). The control: with the error of cohorts of equal size, Student's hold fewer.
    """
    rng, people, deviations = np.random.default_rng(9), sum(sizes), (0.4 / np.array(sizes)) ** 0.5
    held = held_as_if_equal = 0
    for _ in range(400):
        before, after = 0.5 + rng.standard_normal((2, 3)) * deviations
        means = np.array([before, np.where(read, after, before)])
        rows = [moments(week, people, 0.5, 0.4) for week in (0, 1)]
        parts = [
            moments(week, n, mean, 0.4, cohort)
            for week in (0, 1)
            for cohort, (n, mean) in enumerate(zip(sizes, means[week], strict=True))
        ]
        change = over_time(campaign(), rows, parts).change(0, 1)
        held += change.ci_low <= 0 <= change.ci_high
        off = np.array(sizes) / people * (means[1] - means[0] - change.value)
        held_as_if_equal += abs(change.value) < 4.3 * (1.5 * off @ off) ** 0.5
    assert held >= 363
    assert held_as_if_equal < 363, "the control must fail"


def test_without_cohorts_a_change_has_the_largest_error_that_it_can():
    told, cohort = answers(truth(False), np.random.default_rng(3))
    found = curve(told, cohort, campaign(cohorts=False))
    assert found.cohorts is None
    change = found.change(30, 50)
    assert change.cohorts == 0
    assert change.standard_error >= np.hypot(*found.standard_errors[[30, 50]])
    assert change.standard_error > curve(told, cohort).change(30, 50).standard_error
    assert "at most" in " ".join(change.notes) or "largest possible" in " ".join(change.notes)


def test_no_change_has_a_larger_error_than_is_stated():
    """The least correlation of two extrapolated answers that share a reading, by search: −1/√5.

    The control: what was stated before, −5/16, is not the least.
    """
    r, s = np.meshgrid(np.linspace(0, 1, 201), np.linspace(0, 1, 201))
    shared = -s * (1 + r) / np.sqrt(((1 + r) ** 2 + r**2) * ((1 + s) ** 2 + s**2))
    assert -1 / np.sqrt(5) == pytest.approx(shared.min(), abs=1e-12)
    assert shared.min() < -5 / 16
    found = curve(*answers(truth(False), np.random.default_rng(3)), campaign(cohorts=False))
    one, other = found.standard_errors[[30, 50]]
    stated = found.change(30, 50).standard_error
    assert stated**2 == pytest.approx(one**2 + other**2 + 2 * one * other / np.sqrt(5))


@pytest.mark.deep(rest=0)
@pytest.mark.parametrize("noise", [0.0, NOISE])
def test_calm_curves_of_rare_shares_are_not_flagged(noise):
    """60 fleets, cohorts of 50, 2 in 1,000: at most 6 are flagged, of 1.5 % at α = 1e-4.

    No bar of a cohort is of width 0, and all bars hold at once in at least 49 (of 95 %, at 1e-4).
    The control, Student's quantile of how the changes of the epoch before differ, flags more than 6
    where there is no noise.
    """
    rng = np.random.default_rng(4)
    calm = np.full(WEEKS, 0.002)
    flags = by_student = held = 0
    for _ in range(60):
        made = curve(*answers(calm, rng, 50 * EPOCH, noise, steady=False))
        flags += bool(np.nanmax(made.flags) == 1)
        bars = np.isfinite(made.cohort)
        low, high = made.cohort_low[bars], made.cohort_high[bars]
        held += bool(((low <= calm[bars]) & (calm[bars] <= high)).all())
        assert (high > low).all()
        change = made.change(20, 46)
        assert change.ci_low < change.ci_high
        weeks = np.arange(2 * EPOCH, WEEKS)
        values, newest = made.cohorts.values, made.cohorts.latest[weeks]  # type: ignore[union-attr]
        moved = values[weeks, newest] - values[weeks - EPOCH, newest]
        before = np.lib.stride_tricks.sliding_window_view(moved[:-1], EPOCH)
        off = np.abs(moved[EPOCH:] - before.mean(axis=1))
        by_student += bool((off > 6.2 * before.std(axis=1, ddof=1) * (1 + 1 / EPOCH) ** 0.5).any())
    assert flags <= 6
    assert held >= 49
    assert noise or by_student > 6  # 6.2: of 12 degrees of freedom, 2·10⁻⁵ on either side


@pytest.mark.deep
def test_noise_that_readings_share_raises_no_more_flags_than_is_said():
    """300 fleets of 10⁶ in each of 2 cohorts, read every 2 weeks, answers of 2y − y': at most 1 %
    are flagged, fewer than 16 (binomial, α = 1e-6). Control: more of answers without shared noise.
    """
    rng, n, weeks, alarms = np.random.default_rng(6), 10**6, 42, [0, 0]
    every = Readings(every=2 * WEEK, extrapolated=True, cohorts=2)
    asked = replace(campaign(), readings=every, closes=campaign().opens + weeks * WEEK)
    carried = replace(asked, readings=replace(every, extrapolated=False))
    phase = int((asked.opens - ORIGIN) / WEEK)
    for _ in range(300):
        readings = rng.standard_normal(weeks) / n**0.5
        rows, of_cohorts = [], []
        for week in range(3, weeks):
            # One has just read; the other read a week ago, and is asked when its epoch ends.
            fresh, y, before = readings[week], readings[week - 1], readings[week - 3]
            told = {(phase + week) % 2: (fresh, 1.0), (phase + week - 1) % 2: (2 * y - before, 5.0)}
            of_cohorts += [moments(week, n, *told[one], one) for one in (0, 1)]
            rows.append(moments(week, 2 * n, (told[0][0] + told[1][0]) / 2, 3.0))
        for i, made in enumerate((asked, carried)):
            alarms[i] += bool(np.nanmax(over_time(made, rows, of_cohorts).flags) == 1)
    assert alarms[0] < 16 < alarms[1]


@pytest.mark.deep
def test_a_shift_is_flagged_within_the_delay_that_is_stated():
    """60 fleets of 26,000 with values of their own: a shift at the bound for eight weeks is flagged
    within eight in at least 44 (of 90 %, α = 1e-4). The control: at the bound of reports that can
    be linked, whose changes vary by the noise alone, fewer are.
    """
    rng, each, people, noise = np.random.default_rng(10), 2_000, 0.24, 0.01
    asked = campaign(extrapolated=False)
    first = int((asked.opens - ORIGIN) / WEEK)
    needed = float(ndtri(0.9) - ndtri(0.01 / (2 * (WEEKS - 2 * EPOCH) * len(windows(EPOCH)))))

    def bound(v: float) -> float:
        shifts = np.linspace(0, 0.5, 5_001)
        least = needed * np.sqrt((v + shifts) / each / 8 + 2 * v / each / EPOCH)
        return float(shifts[np.argmax(shifts >= least)])

    def detected(shift: float) -> bool:
        own = 0.4 + rng.standard_normal(EPOCH) * (people / each) ** 0.5
        means, rows, parts = own.copy(), [], []
        for week in range(WEEKS):
            reads = (first + week - 1) % EPOCH
            read = own[reads] + rng.standard_normal() * (noise / each) ** 0.5
            means[reads] = read + shift * (week >= 44)
            of_week = [
                moments(week, each, mean, people + noise, c)
                for c, mean in enumerate(means.tolist())
            ]
            parts += of_week
            rows.append(moments(week, each * EPOCH, float(means.mean()), people + noise))
        flags = over_time(asked, rows, parts).flags
        return bool(np.nanmax(flags[44:52]) == 1)

    assert sum(detected(bound(2 * (people + noise))) for _ in range(60)) >= 44
    assert sum(detected(bound(2 * noise)) for _ in range(60)) < 44, "the control must fail"


def test_later_periods_take_no_flag_back():
    """Means on a line with a jump: flags of the first 47 weeks are the same whether more weeks
    follow, and whether a cohort of a later week is missing. Control: of a campaign of nine years,
    with more looks, none is flagged.
    """
    means = 0.1 + 0.01 * np.arange(WEEKS) + 0.027 * (np.arange(WEEKS) >= 44)
    rows = [moments(week, 10**5, mean, 0.25) for week, mean in enumerate(means.tolist())]
    parts = [
        moments(week, 10**4, mean, 0.25, cohort)
        for week, mean in enumerate(means.tolist())
        for cohort in range(EPOCH)
    ]
    whole = over_time(campaign(), rows, parts)
    assert whole.cohorts is not None
    gone = 50, int(whole.cohorts.latest[50])
    gap = over_time(campaign(), rows, [r for r in parts if (r.period, r.cohort) != gone])
    early = over_time(campaign(), rows[:47], parts)
    assert np.nanmax(whole.flags[:47]) == 1
    for other in (gap, early):
        np.testing.assert_array_equal(other.flags[:47], whole.flags[:47])
    longer = replace(campaign(), closes=campaign().opens + 9 * WEEKS * WEEK)
    assert np.nanmax(over_time(longer, rows, parts).flags[:47]) == 0


def test_the_fresh_cohort_of_short_epochs_is_that_of_their_devices():
    """Control: parts of thirteen of two minutes, rounded to microseconds from 1970 on, differ."""
    minute, opens = timedelta(minutes=1), campaign().opens
    every = Readings(every=2 * minute, cohorts=13)
    asked = replace(campaign(), closes=opens + 60 * minute, period=minute, readings=every)
    made = over_time(asked, [moments(period, 10, 0.5, 0.25) for period in range(3, 60)], [])
    assert made.cohorts is not None
    since = [begins - ORIGIN for begins in made.begins]
    assert made.cohorts.latest.tolist() == [(time * 13 // every.every - 1) % 13 for time in since]
    rounded = [(time // (every.every / 13) - 1) % 13 for time in since]
    assert rounded != made.cohorts.latest.tolist()


@pytest.mark.parametrize(("days", "cohorts"), [(98, 7), (98, 14), (28, 16), (100, 7), (98.5, 2)])
def test_a_drift_alone_is_not_flagged_whatever_the_length_of_an_epoch(days, cohorts):
    """Means on a line, nearly without noise. Epochs of whole weeks: a jump is flagged, the line is
    not. Others have no flags: with 100 days, changes over 14 and over 15 weeks would differ."""
    every = Readings(every=timedelta(days=days), extrapolated=True, cohorts=cohorts)
    asked = replace(campaign(), readings=every)

    def flags_of(jump: float) -> OverTime:
        means = 0.1 + 0.01 * np.arange(WEEKS) + jump * (np.arange(WEEKS) >= 44)
        rows = [moments(week, 10**8, mean, 0.25) for week, mean in enumerate(means.tolist())]
        parts = [
            moments(week, 10**7, mean, 0.25, cohort)
            for week, mean in enumerate(means.tolist())
            for cohort in range(cohorts)
        ]
        return over_time(asked, rows, parts)

    calm, struck = flags_of(0.0), flags_of(0.1)
    assert not (calm.flags == 1).any()
    assert bool((struck.flags[44:] == 1).any()) == (days % 7 == 0)
    assert any("whole periods" in note for note in calm.notes) == (days % 7 != 0)


def moments(
    week: int, n: int, mean: float, variance: float, cohort: int | None = None
) -> LabelledEstimate:
    """Return the estimate of n reports by their mean and variance."""
    total = round(mean * n * 2**-STEP)
    squares = round((variance + mean**2) * n * 4**-STEP)
    return labelled(Accumulator(n, total, squares), STEP, LIMITS, period=week, cohort=cohort)


def of_variance(variance: float) -> Margins:
    """Return the margins of mean changes of which each has a variance."""

    def margins(confidence: float, first: int, end: int) -> tuple[float, float]:
        return (float(ndtri((1 + confidence) / 2)) * (variance / (end - first)) ** 0.5,) * 2

    return margins


@pytest.mark.deep
def test_of_normal_cohorts_as_many_are_flagged_as_is_said():
    """600 calm years at 20 %: within 4.9 standard errors above it; a variance that is half of
    the true one, as a control, flags far more."""
    rng = np.random.default_rng(2)
    alarms = np.zeros(2)
    for _ in range(600):
        changes = rng.standard_normal(52)
        for i, variance in enumerate((1.0, 0.5)):
            flags = flagged(changes, of_variance(variance), 13, 0.2, looks=39)
            alarms[i] += np.nanmax(flags)
    assert alarms[0] / 600 < 0.2 + 4.9 * 0.4 / 600**0.5
    sure = flagged(rng.standard_normal(52), of_variance(1e-4), 13, 0.2, looks=39)
    assert np.nanmax(sure) == 1
    assert windows(13) == (1, 2, 4, 8, 13)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda c: c.change(50, 30), "last"),
        (lambda c: c.change(0, 99), "last"),
        (lambda c: c.change(0, 5, confidence=1.0), "confidence"),
        (lambda c: over_time(campaign(), [], question="x"), "question"),
        (lambda c: over_time(campaign(), [], confidence=2.0), "confidence"),
        (lambda c: flagged(np.zeros(9), of_variance(1.0), 1, looks=1), "epoch"),
    ],
)
def test_what_is_out_of_range_is_refused(call, name):
    with pytest.raises(ParameterError) as caught:
        call(curves(True)[0])  # type: ignore[operator]  # a function of a curve
    assert caught.value.name == name


@pytest.mark.parametrize("count", [1, 2])
def test_every_point_of_a_curve_is_drawn(count):
    """Also where there is one, as in the first period of a campaign."""
    at, values = np.arange(count, dtype=float), np.full(count, 0.5)
    axes = draw_curve(None, "a curve", ("days", "mean"), at, values, (values - 0.1, values + 0.1))
    (line,) = axes.get_lines()
    assert (line.get_marker() in ("", "None")) == (count > 1)
    texts = [text.get_text() for text in axes.get_legend().get_texts()]  # pyright: ignore[reportOptionalMemberAccess]
    assert texts == ["band of the whole curve", "estimate"]
