"""Test the description of a campaign, and its valid interval for heavy tails."""

from dataclasses import replace
from datetime import timedelta
from functools import reduce

import numpy as np
import pytest

from geoveil.aggregator import Code
from geoveil.aggregator.domain.estimates import disclose
from geoveil.aggregator.domain.layout import Layout
from geoveil.aggregator.domain.reports import Report, tally
from geoveil.campaign import Allocation, DebiasedLaplaceSpec, SmoothSpec
from geoveil.gp import ForgedShare, GeoPrivacy
from geoveil.gp.estimation import Accumulator

from .refusals import refuses


def test_light_tails_and_few_answers_get_none(publish):
    light = Layout.of(publish(queries=1).campaign)
    (shown,) = disclose(light, [Accumulator.of(range(5_000))], begun=1).estimates
    assert shown.median_of_means is None
    heavy = Layout.of(publish(queries=1, mechanism=SmoothSpec(0.3)).campaign)
    (shown,) = disclose(heavy, [Accumulator.of(range(9))] * 32, begun=1).estimates
    assert shown.estimate.n == 288
    assert shown.median_of_means is None


def test_forged_reports_show_in_the_estimate(publish):
    """n = 1,000 for each of two questions; 50 answers to the second are at the end of its range."""
    campaign = publish(queries=2, mechanism=DebiasedLaplaceSpec()).campaign
    layout, rng = Layout.of(campaign), np.random.default_rng(5)
    assert layout.bins is not None
    packed = []
    for column, mechanism in enumerate(campaign.mechanisms):
        values = np.rint(mechanism.simulate(rng.normal(5_000, 30_000, 1_000), rng) / mechanism.step)
        integers = values.astype(int).tolist()
        if column == 1:
            integers[:50] = [mechanism.grid_range[1]] * 50
        packed += layout.pack([Report(rng.bytes(16), [(column, k)]) for k in integers])
    rows = tally(b"".join(report.answers for report in packed), layout.bins)
    one_by_one = [tally(report.answers, layout.bins) for report in packed]
    assert rows == reduce(
        lambda a, b: {k: a.get(k, Accumulator()) + b.get(k, Accumulator()) for k in a | b},
        one_by_one,
    )
    counts = {row: sums.n for row, sums in rows.items() if row >= layout.sums}
    totals = [rows[0], rows[1]]
    honest, forged = disclose(layout, totals, begun=1, bin_counts=counts).estimates
    assert honest.forged == ForgedShare(0.0)
    assert forged.forged is not None
    assert 0 < forged.forged.at_least <= 0.05


def test_campaigns_that_can_not_be_tested_count_no_bins(publish):
    unbounded = Layout.of(publish(queries=1, mechanism=SmoothSpec(0.2)).campaign)
    assert unbounded.bins is None
    (shown,) = disclose(unbounded, [Accumulator.of(range(100))], begun=1).estimates
    assert shown.forged is None


@pytest.mark.parametrize(("minimum", "n", "enough"), [(0, 0, True), (1, 0, False), (5, 4, False),
                                                      (5, 5, True)])  # fmt: skip
def test_the_minimum_is_of_each_query(publish, minimum, n, enough):
    campaign = replace(publish(queries=2).campaign, minimum_participants=minimum)
    sums = [Accumulator.of(range(100)), Accumulator.of(range(n))]
    if enough:
        assert [e.estimate.n for e in disclose(Layout.of(campaign), sums, 1).estimates] == [100, n]
        return
    with refuses(Code.TOO_FEW_REPORTS) as caught:
        disclose(Layout.of(campaign), sums, 1)
    assert caught.value.told == f"every query needs {minimum} answers"


@pytest.mark.parametrize(
    ("allocation", "spent"),
    [(Allocation.PARTITION, 1.0), (Allocation.SPLIT, 1.0), (Allocation.REPEAT, 3.0)],
)
def test_what_a_participant_spent_is_the_sum_of_their_answers(publish, allocation, spent):
    once = publish(queries=3, allocation=allocation).campaign
    shown = disclose(Layout.of(once), [Accumulator()] * 3, begun=1)
    assert shown.privacy == shown.privacy_at_most == GeoPrivacy(spent, 8000.0, "dollar")
    weekly = replace(once, period=timedelta(days=7))
    shown = disclose(Layout.of(weekly), [Accumulator()] * 15, begun=4)
    assert shown.privacy == GeoPrivacy(spent, 8000.0, "dollar")
    assert shown.privacy_at_most == GeoPrivacy(4 * spent, 8000.0, "dollar")
