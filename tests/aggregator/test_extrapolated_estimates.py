"""Test what an analyst reads from a server, of readings above all: limits, noise and words.

Fleets hold their incomes; their noise is drawn from the definition, and its variance comes from
sums over a fine grid of noise.
"""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from geoveil.aggregator.domain.campaign_cache import CampaignStatus, publish
from geoveil.aggregator.domain.estimates import disclose
from geoveil.aggregator.domain.layout import Layout
from geoveil.aggregator.domain.service import Snapshot
from geoveil.aggregator.grpc.servicers import _shown
from geoveil.analyst import CampaignEstimates
from geoveil.analyst.calls import estimates_in
from geoveil.analyst.campaigns import expected_text
from geoveil.analyst.labelled_estimate import bounded_noise_variance
from geoveil.campaign import (
    Attribute,
    Question,
    Readings,
    SmoothSpec,
    State,
    StatisticCampaign,
    encode,
    seal,
)
from geoveil.gp import (
    Cap,
    ContradictionError,
    GaussianKernel,
    GeoPrivacy,
    Query,
    Range,
    Threshold,
)
from geoveil.gp.estimation import Accumulator

Array = NDArray[np.float64]
DAY, SCALE = timedelta(days=1), 8_000.0
OPENS = datetime(2026, 1, 1, tzinfo=UTC)
ABOVE = Threshold(50_000.0, 24_000.0, "smoothstep")


def campaign(query: Query = ABOVE, *, extrapolated: bool = True) -> StatisticCampaign:
    """Return a campaign of two weeks that reads values anew every 30 days."""
    return StatisticCampaign(
        campaign_id="incomes",
        title="Incomes",
        attribute=Attribute(name="income", unit="dollar"),
        privacy=GeoPrivacy(1.0, SCALE, "dollar"),
        questions=(Question("q", query),),
        opens=OPENS,
        closes=OPENS + 14 * DAY,
        period=7 * DAY,
        readings=Readings(every=30 * DAY, extrapolated=extrapolated),
    )


def answer(query: Any, z: Array) -> Array:
    return np.asarray(query.profile.debiased(query.signed_distance(z), SCALE))


def noise_of(query: Query, income: float) -> float:
    """Return the variance of an answer from a point, with noise from −40 to 40 scales."""
    noise = np.linspace(-40, 40, 160_001) * SCALE
    weights = np.exp(-np.abs(noise) / SCALE)
    g = answer(query, income + noise)
    mean, square = (np.average(each, weights=weights) for each in (g, g * g))
    return float(square - mean**2)


def shown(asked: StatisticCampaign, reports: Array) -> CampaignEstimates:
    """Return what an analyst reads from a server with the same reports in both weeks."""
    k = np.rint(np.ldexp(reports, -asked.grid_exponent)).astype(np.int64).tolist()
    layout, (record, _) = Layout.of(asked), publish(seal(encode(asked)))
    blocks = layout.sums // asked.periods
    sums = [Accumulator.of(k[block::blocks]) for block in range(blocks)]
    found = disclose(layout, sums * asked.periods, asked.periods)
    return estimates_in(_shown(Snapshot(CampaignStatus(record, State.CLOSED), found)))


def moved(incomes: Array, rng: np.random.Generator, share: float) -> Array:
    """Return (1 + r)y − ry' for answers y and y' from two readings."""
    y, before = (answer(ABOVE, incomes + rng.laplace(0, SCALE, len(incomes))) for _ in range(2))
    return (1 + share) * y - share * before


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("incomes", [[50_000.0], [0.0, 1e5], [45_000.0, 60_000.0, 1e5]])
def test_the_noise_of_extrapolated_answers_is_within_its_bounds(share, incomes):
    """It has ((1 + r)² + r²) times the variance of an answer's. n = 3,000, seed 3, 7 % (the bounds
    are wider where n is small). Control: the law of one answer holds for r = 0 alone."""
    rng, people = np.random.default_rng(3), np.resize(incomes, 3_000)
    asked = campaign()
    row = shown(asked, moved(people, rng, share)).latest[0]
    of_one = float(np.mean([noise_of(ABOVE, income) for income in incomes]))
    true = ((1 + share) ** 2 + share**2) * of_one
    noise = row.noise_variance
    assert noise is not None
    assert noise.basis.value == "bounded"
    assert noise.low <= 1.07 * true
    assert true <= 1.07 * noise.high
    if share == 1.0 and len(incomes) != 2:
        assert row.value is not None
        assert row.ci_low is not None
        assert row.ci_high is not None
        ends, excess = (row.ci_low, row.ci_high), row._variance + row.value**2 - row.value
        (mechanism,), limits = asked.mechanisms, asked.limits[0]
        try:
            of_law = bounded_noise_variance(mechanism, row.n, ends, excess, limits, 0.95)
        except ContradictionError:
            return
        assert of_law.high < 0.8 * true


@pytest.mark.parametrize("at", [50_000.0, 1e7])
def test_the_noise_of_an_extrapolated_bell_is_within_its_bounds(at):
    """It is 0 far away. n = 3,000, seed 3. Control: rounding puts the least of the law below 0."""
    query = GaussianKernel(50_000.0, 16 * SCALE)
    asked, rng = campaign(query), np.random.default_rng(3)
    (mechanism,) = asked.mechanisms
    law = mechanism.law()
    assert law is not None
    assert law.variances.min() < 0
    y, before = (answer(query, at + rng.laplace(0, SCALE, 3_000)) for _ in range(2))
    row = shown(asked, 2 * y - before).latest[0]
    assert row.noise_variance is not None
    assert row.noise_variance.low <= 5 * noise_of(query, at) <= 1.07 * row.noise_variance.high


@pytest.mark.parametrize("length", [16_000.0, 24_000.0, 32_000.0])
@pytest.mark.parametrize("at", [0.0, 0.25, 0.5])
def test_the_noise_of_a_range_that_is_answered_from_points_is_within_its_bounds(length, at):
    """Noise may cross all of it. n = 3,000, seed 3. Control: a release from the same people has
    less noise, by 4 % or more."""
    query = Range(50_000.0, 50_000.0 + length, min(length, 24_000.0), "smoothstep")
    asked = campaign(query, extrapolated=False)
    income, rng = 50_000.0 + at * length, np.random.default_rng(3)
    row = shown(asked, answer(query, income + rng.laplace(0, SCALE, 3_000))).latest[0]
    noise, true = row.noise_variance, noise_of(query, income)
    assert noise is not None
    assert noise.basis.value == "bounded"
    assert noise.low <= 1.02 * true
    assert true <= 1.02 * noise.high
    (mechanism,) = asked.mechanisms
    assert true <= mechanism.largest_variance
    assert float(mechanism.variance([income])[0]) < true / 1.04


def test_no_cap_clips_what_is_answered_from_points():
    """All are so far away that points have no noise. Control: a release has some, at the cap."""
    cap = Cap(4.0, 4.0)
    asked = replace(campaign(extrapolated=False), readings=None, cap=cap)
    row = shown(asked, np.repeat([0.0, 1.0], [2_000, 1_000])).latest[0]
    assert row.noise_variance is not None
    assert (row.noise_variance.low, row.noise_variance.basis.value) == (0.0, "bounded")
    assert asked.mechanisms[0].variance([-1e9, 1e9]).min() > 1e-3


@pytest.mark.parametrize(
    ("query", "share"),
    [(ABOVE, 0.0), (ABOVE, 1.0), (Range(40_000, 56_000, 16_000, "smoothstep"), 0.0)],
)
def test_the_error_to_expect_is_no_less_than_any_people_have(query, share):
    """Everybody is where noise is largest. Control: the error of one fresh answer, of an
    extrapolated campaign."""
    asked = campaign(query, extrapolated=share > 0)
    largest = max(noise_of(query, income) for income in np.linspace(40_000, 56_000, 33))
    true = math.sqrt(((1 + share) ** 2 + share**2) * largest / 4_000)
    stated = float(expected_text(asked, 4_000).split("at most ")[1].split(" ")[0])
    assert true <= stated
    if share:
        fresh = campaign(query, extrapolated=False)
        assert float(expected_text(fresh, 4_000).split("at most ")[1].split(" ")[0]) < true


def test_extrapolated_shares_are_told_as_shares():
    """Estimates and intervals from a server lie in [0, 1], and keep the reports' ends. Control: the
    least mean of the reports themselves is below 0."""
    asked, rng = campaign(), np.random.default_rng(1)
    reports = moved(np.zeros(40), rng, 1.0) - 0.02
    found = shown(asked, reports)
    limits = found.latest[0].limits
    assert limits == asked.limits[0]
    assert limits.unseen == asked.limits[0].unseen
    assert reports.mean() < 0
    for row in found.over_time().rows():
        assert 0 <= row["ci_low"] <= row["estimate"] < row["ci_high"] <= 1
    answered, trend = map(str, found.sentences)
    assert "of people have an income of more than about $50,000" in answered
    assert " % points a period" in trend
    assert any("only bounded noise, not extrapolated, shows them" in note for note in found.notes)


def test_the_noise_of_answers_without_ends_is_within_its_bounds():
    """12 campaigns of 2,000, a fifth of them at the threshold, seed 3; their noise from 400,000
    answers. Control: without errors of their variance, at least it less 1/4, at most it."""
    spec = SmoothSpec(noise="student-t", nu=6.0)
    privacy = GeoPrivacy(1.0, 3 * SCALE, "dollar")
    asked = replace(campaign(extrapolated=False), readings=None, mechanism=spec, privacy=privacy)
    (mechanism,), rng = asked.mechanisms, np.random.default_rng(3)
    near, far = (np.var(mechanism.simulate([at] * 400_000, rng)) for at in (50_000.0, -1e9))
    true, wrong = (near + 4 * far) / 5, 0
    for _ in range(12):
        people = rng.permutation(np.repeat([50_000.0, -1e9], [400, 1_600]))
        answers = np.asarray(mechanism.simulate(people, rng))
        row = shown(asked, answers).latest[0]
        noise = row.noise_variance
        assert noise is not None
        assert row.n == 2_000
        assert noise.low < 0.98 * true
        assert noise.high > 1.02 * true
        wrong += not np.var(answers) - 1 / 4 <= true <= np.var(answers)
    assert wrong >= 4


@pytest.mark.parametrize(("beta", "most"), [(0.49, 1e4), (0.5, math.inf), (0.9, math.inf)])
def test_noise_next_to_none_with_a_variance_is_bounded_by_no_answers(beta, most):
    """The best noise has a variance up to β = ε/2, at 0.5 of 2·10¹⁶. 500 answers of people where it
    is largest, seed 3. Control: ends that no answer leaves bound it at 0.49, by 10,000 at all β."""
    mechanism = SmoothSpec(beta_fraction=beta)
    asked = replace(campaign(extrapolated=False), readings=None, mechanism=mechanism)
    answers = asked.mechanisms[0].simulate(np.full(500, 50_000.0), np.random.default_rng(3))
    found, true = shown(asked, np.asarray(answers)), asked.mechanisms[0].largest_variance
    noise, price = found.latest[0].noise_variance, found.latest[0].price
    assert noise is not None
    assert price is not None
    assert true / 1.05 <= noise.high <= most
    assert (true > 1e6) == math.isinf(most)
    assert (noise.low, noise.basis.value, price.low) == (0.0, "bounded", 1.0)
    assert ("standard error is at least 0." in " ".join(found.notes)) == math.isinf(true)
