"""Test estimates for participants and population, and the price of privacy, from sums."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from geoveil.analyst import (
    CampaignEstimates,
    LabelledEstimate,
    ShareAbove,
    campaign_asking,
    compare,
)
from geoveil.analyst.labelled_estimate import Price
from geoveil.campaign import Allocation
from geoveil.gp import (
    Cap,
    DebiasedLaplace,
    GeoPrivacy,
    LipschitzMechanism,
    ParameterError,
    PlanarLaplace,
    SmoothMechanism,
    Threshold,
    UnsupportedError,
)
from geoveil.gp.estimation import Accumulator, estimate
from geoveil.gp.intervals import IntervalMethod
from geoveil.gp.limits import UNLIMITED, Limits
from geoveil.gp.price import Basis, NoiseVariance, estimated_noise_variance

PRIVACY = GeoPrivacy(1.0, 8_000.0, "dollar")
MECHANISM = DebiasedLaplace(Threshold(0.0, 24_000.0, "smoothstep"), PRIVACY)
LIMITS = Limits(MECHANISM.range, (0.0, 1.0))


def labelled(sums, exponent, limits=LIMITS, **more):
    """Return what a server says of sums of reported integers."""
    found = estimate(sums, exponent, limits=limits)
    given = {"label": "above", "privacy": PRIVACY, "period": 0} | more
    return LabelledEstimate(
        value=found.value,
        standard_error=found.standard_error,
        ci_low=found.ci_low,
        ci_high=found.ci_high,
        method=found.method,
        confidence=found.confidence,
        n=found.n,
        sums=(sums.total, sums.total_of_squares),
        step_exponent=exponent,
        limits=limits,
        **given,
    )


def reports_of(incomes, seed):
    reports = MECHANISM.simulate(np.asarray(incomes), np.random.default_rng(seed))
    return Accumulator.of(np.rint(reports / MECHANISM.step).astype(int).tolist())


@pytest.mark.parametrize("incomes", [[-1e6, 1e6], [-1e6, 0.0, 1e6], [0.0], [-1e6, -1e4]])
def test_the_price_and_the_error_of_the_participants_are_bounded(incomes):
    """The bounds hold what the law of the mechanism says of the same people, within 3 %."""
    people = np.tile(incomes, 6_000)
    row = labelled(reports_of(people, 5), MECHANISM.step_exponent, mechanism=MECHANISM)
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
    most = shown["price_of_privacy"]["variance_ratio_at_most"]
    assert clear == 0 or most is None or most >= (1 + noise / clear) / 1.03
    plain = labelled(reports_of(people, 5), MECHANISM.step_exponent)
    assert plain.noise_variance.low <= row.noise_variance.low
    assert row.noise_variance.high <= plain.noise_variance.high


@pytest.mark.deep
@pytest.mark.parametrize("n", [2, 5, 20])
def test_a_few_equal_answers_do_not_say_that_there_is_no_noise(n):
    """300 campaigns of people beside the band; control: the spread of answers as it is."""
    people = np.full(n, MECHANISM.query.at + MECHANISM.query.width / 2 + 8_000.0)
    error = math.sqrt(float(MECHANISM.variance(people).mean()) / n)
    held = believed = 0
    for seed in range(300):
        sums = reports_of(people, seed)
        row = labelled(sums, MECHANISM.step_exponent, mechanism=MECHANISM)
        held += error <= row.to_dict()["targets"]["participants"]["standard_error_at_most"]
        believed += error**2 <= row.standard_error**2 * (n - 1) / n
    assert held >= 0.97 * 300
    assert believed < 0.5 * 300


def test_the_law_of_the_mechanism_tells_more_than_its_range():
    """A million people far from the question: what a report is tells that nobody is near it."""
    rng = np.random.default_rng(3)
    people = rng.choice([-1e6, 1e6], 20_000)
    sums = reports_of(people, 5)
    ends = labelled(sums, MECHANISM.step_exponent).noise_variance
    law = labelled(sums, MECHANISM.step_exponent, mechanism=MECHANISM).noise_variance
    assert ends.high > 0.2  # all of the variance
    assert law.high < 0.06
    assert law.low <= MECHANISM.variance(people).mean() <= law.high


def test_an_estimated_noise_variance_is_shown_as_one():
    noise = NoiseVariance(0.09, 0.08, 0.10, Basis.ESTIMATED)
    row = labelled(reports_of(np.zeros(400), 5), MECHANISM.step_exponent, noise=noise)
    shown = row.to_dict()
    of = shown["targets"]["participants"]
    assert of == {
        "basis": "estimated",
        "standard_error": pytest.approx(math.sqrt(0.09 / 400)),
        "standard_error_at_least": pytest.approx(math.sqrt(0.08 / 400)),
        "standard_error_at_most": pytest.approx(math.sqrt(0.10 / 400)),
    }
    variance = row.standard_error**2 * 399
    price = shown["price_of_privacy"]
    assert price["variance_ratio"] == pytest.approx(variance / (variance - 0.09))
    least = row._variances[0]
    assert price["variance_ratio_at_most"] == pytest.approx(least / (least - 0.10))
    people = round(400 * (variance - 0.09) / variance)
    assert price["participants_in_the_clear"] == people
    all_noise = replace(row, noise=NoiseVariance(1.0, 0.9, 1.1, Basis.ESTIMATED))
    none = all_noise.to_dict()["price_of_privacy"]
    assert none["variance_ratio"] is None
    assert none["participants_in_the_clear"] == 0
    asked = found_of(Allocation.SPLIT, [(400, 0.0), (400, 0.0)])
    told = " ".join(replace(asked, estimates=(all_noise,)).notes)
    assert "Price of privacy: not known, as all of the variance of these answers may be" in told
    assert "inf" not in told
    told = " ".join(replace(asked, estimates=(row,)).notes)
    least, most = price["variance_ratio_at_least"], price["variance_ratio_at_most"]
    assert f"Price of privacy: {least:.3g} to {most:.3g} ×" in told


WIDE = Threshold(0.0, 160_000.0, "smoothstep")


@pytest.mark.parametrize(
    ("mechanism", "points"),
    [
        (LipschitzMechanism(Threshold(0.0, 8_000.0, "smoothstep"), PRIVACY), False),
        (SmoothMechanism(WIDE, PRIVACY, beta=1e-4 * PRIVACY.rate), False),
        (DebiasedLaplace(WIDE, PRIVACY), False),
        (DebiasedLaplace(WIDE, PRIVACY), True),
    ],
    ids=["even", "nearly even", "bounded", "points"],
)
def test_the_ends_of_the_price_allow_for_the_variance_of_answers(mechanism, points):
    """50 campaigns of 500 people at 95 % (seed 3) miss the price at most 8 times (α = 0.001).

    Control: ends that take the variance of these answers for everybody's miss it in a third.
    """
    rng = np.random.default_rng(3)
    everybody = rng.normal(0.0, 16_000.0, 200_000)
    true = 1 + mechanism.variance(everybody).mean() / mechanism.query.value(everybody).var()
    estimator = PlanarLaplace(PRIVACY, 1).estimator(WIDE, debias=True)
    missed = believed = 0
    for _ in range(50):
        people, of = rng.normal(0.0, 16_000.0, 500), {"mechanism": mechanism}
        reports = mechanism.simulate(people, rng)
        if points:
            at = people + rng.laplace(scale=8_000.0, size=500)
            total, ends = estimator.estimated_variance(at).sum(), estimator.variance_limits
            reports = estimator.value(at)
            of = {"noise": estimated_noise_variance(500, float(total), ends, 0.95)}
        sums = Accumulator.of(np.rint(reports / mechanism.step).astype(int).tolist())
        row = labelled(sums, mechanism.step_exponent, mechanism.limits, **of)
        variance, noise = row.standard_error**2 * 499, row.noise_variance
        price, alone = row.price, Price.of(noise, variance, (variance, variance))
        missed += not price.low <= true <= price.high
        believed += not alone.low <= true <= alone.high
    assert missed <= 8
    assert believed >= 50 / 3


def test_without_what_a_mean_can_be_nothing_is_guessed():
    row = labelled(Accumulator.of([1, 5, 9]), 0, UNLIMITED)
    price = row.to_dict()["price_of_privacy"]
    assert (price["variance_ratio_at_least"], price["variance_ratio_at_most"]) == (1.0, None)
    assert row.to_dict()["targets"]["participants"]["standard_error_at_least"] == 0.0
    assert labelled(Accumulator.of([1]), 0).price is None


def test_another_interval_is_had_from_the_same_sums():
    row = labelled(reports_of(np.full(50, -1e6), 5), MECHANISM.step_exponent)
    wider = row.with_interval(IntervalMethod.FULL_ENDS)
    assert wider.ci_high > row.ci_high > row.value == 0.0
    assert replace(wider, ci_low=row.ci_low, ci_high=row.ci_high, method=row.method) == row
    assert wider.to_dict()["interval"]["method"] == "full-ends"


def found_of(allocation, values, seed=1):
    opens = datetime(2026, 1, 1, tzinfo=UTC)
    asked = campaign_asking(
        [ShareAbove(50_000), ShareAbove(100_000)],
        attribute="income",
        privacy=PRIVACY,
        allocation=allocation,
        campaign_id="income",
        title="Income",
        opens=opens,
        closes=opens + timedelta(days=1),
    )
    rows = [
        replace(
            labelled(reports_of(np.full(n, value), seed + n), MECHANISM.step_exponent), label=label
        )
        for label, (n, value) in zip(asked.labels, values, strict=True)
    ]
    return CampaignEstimates(asked, "open", tuple(rows), "", PRIVACY, PRIVACY)


def test_the_central_epsilon_counts_no_liars_and_needs_a_cap():
    found = found_of(Allocation.PARTITION, [(400, 0.0), (900, 4_000.0)])
    bare = replace(found, campaign=replace(found.campaign, cap=None))
    assert bare.to_dict()["central"] is None
    assert "random order" not in " ".join(bare.notes)
    capped = replace(found, campaign=replace(found.campaign, cap=Cap(2.0, 2.0)))
    assert capped.to_dict()["central"]["honest"] == 400
    assert (
        sum("If 400 honest reports to the same question reach" in note for note in capped.notes)
        == 1
    )
    assert replace(capped, contamination=0.1).to_dict()["central"]["honest"] == 360


def test_questions_that_different_people_answer_have_independent_errors():
    may = found_of(Allocation.PARTITION, [(400, 0.0), (900, 4_000.0)])
    june = found_of(Allocation.PARTITION, [(500, 2_000.0), (800, 9_000.0)])
    joint = may.joint()
    assert joint.n == 1_300
    assert joint.answers == (400, 900)
    assert joint.covariance[0, 1] == 0
    for row, i in zip(may.estimates, range(2), strict=True):
        assert joint.interval(i).low == pytest.approx(row.ci_low)
        assert joint.interval(i).high == pytest.approx(row.ci_high)
    errors = [
        math.hypot(*pair)
        for pair in zip(
            *([row.standard_error for row in one.estimates] for one in (may, june)), strict=True
        )
    ]
    made = compare(joint, june.joint(), people="different")
    assert made.standard_errors == pytest.approx(errors)
    both = joint.difference("above 50,000", "above 100,000")
    assert both.standard_error == pytest.approx(math.hypot(*joint.standard_errors))


def test_covariances_that_nobody_knows_are_not_guessed():
    found = found_of(Allocation.REPEAT, [(400, 0.0), (400, 4_000.0)])
    with pytest.raises(UnsupportedError, match="name one label"):
        found.joint()
    alone = found.joint(["above 50,000"])
    assert alone.values == pytest.approx([found.estimates[0].value])
    with pytest.raises(ParameterError, match="labels"):
        found.joint(["nobody"])
    with pytest.raises(ParameterError, match="period"):
        found.joint(["above 50,000"], period=3)
    with pytest.raises(UnsupportedError, match="two answers"):
        found_of(Allocation.PARTITION, [(1, 0.0), (5, 0.0)]).joint()
