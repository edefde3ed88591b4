"""Test that every answer is in exactly one sum, and that sums map back to query and period."""

from dataclasses import replace
from datetime import timedelta
from random import Random

import numpy as np
import pytest
from scipy import stats

from geoveil.aggregator.domain.layout import BLOCKS, Layout, heavy_tailed
from geoveil.aggregator.domain.reports import Report, ReportColumns, unpack
from geoveil.campaign import Allocation, DebiasedLaplaceSpec, LipschitzLaplaceSpec, SmoothSpec
from geoveil.gp import ParameterError
from geoveil.gp.estimation import Accumulator

HEAVY, LIGHT = SmoothSpec(0.3), SmoothSpec(0.15)


def summed(layout: Layout, reports: list[Report]) -> list[Accumulator]:
    """Return what a store would keep."""
    values: list[list[int]] = [[] for _ in range(layout.sums)]
    for report in reports:
        for index, value in unpack(layout.pack([report])[0].answers):
            values[index].append(value)
    return [Accumulator.of(of_one) for of_one in values]


@pytest.mark.parametrize("mechanism", [HEAVY, LIGHT])
@pytest.mark.parametrize("period", [None, timedelta(days=7)])
def test_sums_of_a_query_and_period_hold_its_answers_and_no_others(publish, mechanism, period):
    campaign = replace(
        publish(mechanism=mechanism, allocation=Allocation.SPLIT).campaign, period=period
    )
    layout = Layout.of(campaign)
    rng = Random(3)
    reports = [
        Report(
            rng.randbytes(16),
            [(q, rng.randrange(-(2**40), 2**40)) for q in range(3)],
            rng.randrange(campaign.periods),
        )
        for _ in range(500)
    ]
    sums = summed(layout, reports)
    for when in range(campaign.periods):
        for query in range(3):
            blocks = layout.blocks_of(sums, query, when)
            assert len(blocks) == (BLOCKS if mechanism is HEAVY else 1)
            total = Accumulator()
            for block in blocks:
                total += block
            mine = [dict(r.answers)[query] for r in reports if r.period == when]
            assert total == Accumulator.of(mine)


@pytest.mark.deep(keep=0)
def test_blocks_are_chosen_by_the_id_alone_and_alike(publish):
    """Chi-square over 32 blocks, n = 20,000, alpha = 1e-6; ids of one last byte must fail without.

    A sender who aims at a block chooses the ids, or numbers them, and knows not the key.
    """
    campaign = publish(queries=1, mechanism=HEAVY).campaign
    layout = Layout.of(campaign)
    limit = stats.chi2.ppf(1 - 1e-6, BLOCKS - 1)
    rng = Random(7)

    def statistic(blocks: list[int]) -> float:
        return float(stats.chisquare([blocks.count(b) for b in range(BLOCKS)]).statistic)

    aimed = [rng.randbytes(15) + b"\7" for _ in range(20_000)]
    numbered = [number.to_bytes(16, "little") for number in range(20_000)]
    for ids in ([rng.randbytes(16) for _ in range(20_000)], aimed, numbered):
        assert statistic(block_of_each(layout, ids)) < limit
    assert statistic([i[-1] % BLOCKS for i in aimed]) > limit  # control: without the key


def test_blocks_follow_the_key_of_the_database(publish):
    campaign = publish(queries=1, mechanism=HEAVY).campaign
    layout, other = Layout.of(campaign), Layout.of(campaign)
    rng = Random(8)
    ids = [rng.randbytes(16) for _ in range(200)]
    of_replica = Layout.stored(campaign, layout.sums, layout.key)
    assert block_of_each(of_replica, ids) == block_of_each(layout, ids)
    assert block_of_each(other, ids) != block_of_each(layout, ids)
    assert repr(layout.key) not in repr(layout)


@pytest.mark.parametrize("mechanism", [HEAVY, LIGHT, LipschitzLaplaceSpec()])
def test_many_reports_are_packed_as_one_is(publish, mechanism):
    layout = Layout.of(publish(mechanism=mechanism).campaign)
    rng = np.random.default_rng(9)
    values = rng.integers(-(2**63), 2**63 - 1, 300, endpoint=True)
    values[::3] >>= 40
    columns = ReportColumns(
        rng.bytes(16 * 300), np.arange(300, dtype=np.uint32) % 3, values, np.zeros(300, np.uint32)
    )
    packed = layout.pack(columns)
    assert list(packed) == layout.pack(list(columns))
    counted = [next(unpack(report.answers)) for report in packed]
    low, high = layout.campaign.ranges[0]
    kept = [v for (_, v), sent in zip(counted, values.tolist(), strict=True) if v == sent]
    assert {low, high} < {value for _, value in counted}
    assert all(low <= value <= high for _, value in counted)
    assert 100 <= len(kept) < 300


def block_of_each(layout: Layout, ids: list[bytes]) -> list[int]:
    """Return the block of each id, of a campaign with one sum per block."""
    packed = layout.pack([Report(i, [(0, 5)]) for i in ids])
    return [next(unpack(report.answers))[0] for report in packed]


def test_only_noise_without_a_fourth_moment_is_cut_into_blocks(publish):
    specs = [DebiasedLaplaceSpec(), LipschitzLaplaceSpec(), LIGHT, HEAVY]
    campaigns = [publish(mechanism=spec).campaign for spec in specs]
    assert [Layout.of(c).blocks for c in campaigns] == [1, 1, 1, BLOCKS]
    heavy = [heavy_tailed(c.mechanisms[0]) for c in campaigns]
    assert heavy == [False, False, False, True]


def test_a_campaign_with_too_many_sums_has_no_blocks(publish):
    campaign = publish(queries=1, mechanism=HEAVY).campaign
    often = replace(campaign, period=timedelta(minutes=10))
    assert often.slots == 4_464
    assert Layout.of(often).sums == often.slots
    assert Layout.of(replace(campaign, period=timedelta(hours=1))).blocks == BLOCKS


def test_a_stored_campaign_keeps_the_layout_that_it_was_made_with(publish):
    campaign = publish(mechanism=HEAVY).campaign
    assert [Layout.stored(campaign, n).blocks for n in (3, 96)] == [1, 32]
    for wrong in (2, 4, 9, 0, 3 * 512):
        with pytest.raises(ParameterError):
            Layout.stored(campaign, wrong)
