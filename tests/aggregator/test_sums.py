"""Sums: every answer is in exactly one, they are exact, and estimates are made of them."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from random import Random

import numpy as np
import pytest
from scipy import stats

from geoveil.aggregator.domain import reports
from geoveil.aggregator.domain.estimates import disclose, median_of_means
from geoveil.aggregator.domain.layout import BLOCKS, Layout, heavy_tailed
from geoveil.aggregator.domain.reports import Bins, Report, ReportColumns, pack, tally, unpack
from geoveil.campaign import Allocation, DebiasedLaplaceSpec, LipschitzLaplaceSpec, SmoothSpec
from geoveil.gp import ForgedShare, GeoPrivacy, ParameterError
from geoveil.gp.estimation import Accumulator
from geoveil.gp.noise import Noise, PowerLaw, StudentT

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


LOW, HIGH = -(2**63), 2**63 - 1
# Around each limb, where a wrong mask or sign would show.
EDGES = [s * 2**k + d for k in (0, 21, 22, 43, 44, 62) for s in (1, -1) for d in (-1, 0, 1)]


def expected(answers: list[tuple[int, int]]) -> dict[int, Accumulator]:
    values: dict[int, list[int]] = {}
    for query, value in answers:
        values.setdefault(query, []).append(value)
    return {query: Accumulator.of(of_query) for query, of_query in values.items()}


@pytest.mark.parametrize("count", [1, reports._FEW, reports._FEW + 1])  # NumPy adds the last
def test_answers_alike(count):
    for value in (LOW, HIGH, *EDGES):
        answers = pack([(2**32 - 1, value)]) * count
        expected = Accumulator(count, count * value, count * value * value)
        assert tally(answers) == {2**32 - 1: expected}


@pytest.mark.parametrize("count", range(1, 2 * reports._FEW, 7))
def test_a_few_answers(count):
    rng = Random(count)
    answers = [(rng.randrange(5), rng.randrange(LOW, HIGH + 1)) for _ in range(count)]
    assert tally(pack(answers)) == expected(answers)


@pytest.mark.parametrize("queries", [1, 7, 5000])
def test_many_answers(queries):
    rng = Random(queries)
    kinds = [lambda: rng.choice([LOW, HIGH, *EDGES]), lambda: rng.randrange(LOW, HIGH + 1)]
    answers = [(rng.randrange(queries), rng.choice(kinds)()) for _ in range(20_000)]
    assert tally(pack(answers)) == expected(answers)


@pytest.mark.parametrize("value", [LOW, HIGH, -1])
def test_more_answers_than_64_bits_can_add(value):
    count = 600_000
    found = tally(pack([(3, value)]) * count)
    assert found == {3: Accumulator(count, count * value, count * value * value)}


@pytest.mark.parametrize("count", [1, reports._FEW, reports._FEW + 1, 1_000])
def test_bins_count_the_answers_of_each_sum(count):
    """Against a search through all ends of bins, which the columns of two periods share."""
    bins, rng = Bins(6, ((-2, 5), (0,), (-9, 0, 9))), Random(count)
    answers = [(rng.randrange(6), rng.randrange(-12, 13)) for _ in range(count)]
    rows = Counter(
        6 + 64 * index + sum(end < value for end in bins.ends[index % 3])
        for index, value in answers
    )
    counted = {row: Accumulator(n) for row, n in rows.items()}
    assert tally(pack(answers), bins) == expected(answers) | counted
    assert [bins.row(index) for index in range(3)] == [6, 70, 134]


def test_nothing_has_no_sums():
    assert tally(b"") == {}


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


ALPHA, REPEATS, OF_BLOCK = 1e-6, 2_000, 64
STEP = -12
FINITE_VARIANCE = [StudentT(3.0), PowerLaw(1.0, 0.3)]
INFINITE_VARIANCE = PowerLaw(1.0, 0.6)


def covered(noise: Noise, share: float, seed: int, confidence: float = 0.95) -> int:
    """Return how many of the repeats cover the truth: a share of 1 among 0, plus noise."""
    rng = np.random.default_rng(seed)
    count = 0
    for _ in range(REPEATS):
        size = (BLOCKS, OF_BLOCK)
        reports = (rng.random(size) < share) + noise.sample(rng, size)
        integers = np.rint(np.ldexp(reports, -STEP)).astype(np.int64)
        sums = [
            Accumulator(OF_BLOCK, int(total), int(squares))
            for total, squares in zip(
                integers.sum(axis=1), (integers.astype(object) ** 2).sum(axis=1), strict=True
            )
        ]
        got = median_of_means(sums, STEP, confidence)
        assert got is not None
        count += got.ci_low <= share <= got.ci_high
    return count


def level(confidence: float) -> float:
    """Return what the sign test of 32 blocks truly has."""
    rank = int(stats.binom.ppf((1 - confidence) / 2, BLOCKS, 0.5))
    rank -= stats.binom.cdf(rank, BLOCKS, 0.5) > (1 - confidence) / 2
    return float(1 - 2 * stats.binom.cdf(rank, BLOCKS, 0.5))


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("noise", [*FINITE_VARIANCE, INFINITE_VARIANCE], ids=repr)
def test_coverage_of_symmetric_reports_is_that_of_the_sign_test(noise):
    """2,000 repeats of n = 2,048, against the binomial at alpha = 1e-6, from both sides."""
    low, high = stats.binom.interval(1 - ALPHA, REPEATS, level(0.95))
    assert 0.95 <= level(0.95) < 0.985
    assert low <= covered(noise, 0.0, seed=11) <= high


@pytest.mark.deep
@pytest.mark.parametrize("noise", [*FINITE_VARIANCE, INFINITE_VARIANCE], ids=repr)
def test_coverage_is_kept_where_few_answers_are_one(noise):
    """A share of 5 % makes reports skewed; 2,000 repeats, alpha = 1e-6, from below."""
    low, _ = stats.binom.interval(1 - ALPHA, REPEATS, 0.95)
    assert covered(noise, 0.05, seed=12) >= low


@pytest.mark.deep(keep=0)
def test_an_interval_that_is_too_narrow_is_caught():
    """That for 85 % has to fail as one for 95 %."""
    low, _ = stats.binom.interval(1 - ALPHA, REPEATS, 0.95)
    assert covered(StudentT(3.0), 0.0, seed=11, confidence=0.85) < low


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.9, 0.95, 0.99, 0.999999])
@pytest.mark.parametrize("count", [3, 8, 31, 32])
def test_ranks_are_those_of_the_binomial(confidence, count):
    blocks = [Accumulator.of([i] * count) for i in range(1, count + 1)]
    rank = 0
    while stats.binom.cdf(rank, count, 0.5) <= (1 - confidence) / 2:
        rank += 1
    got = median_of_means(blocks, 0, confidence)
    if rank == 0:
        assert got is None
    else:
        assert got is not None
        assert (got.ci_low, got.ci_high) == (rank, count + 1 - rank)
        assert got.value == (count + 1) / 2


def test_blocks_without_answers_are_left_out_and_too_few_answers_show_nothing():
    full = [Accumulator.of([i] * 64) for i in range(20)]
    got = median_of_means([*full, *[Accumulator()] * 12], 0)
    assert got is not None
    assert got.blocks == 20
    assert median_of_means([Accumulator()] * 32, 0) is None
    few = [Accumulator.of([i] * 31) for i in range(32)]
    assert median_of_means(few, 0) is None
    assert median_of_means([*few[1:], Accumulator.of([0] * 63)], 0) is not None


@pytest.mark.parametrize("bad", [0, 1, -0.5, float("nan")])
def test_confidence_out_of_range_is_named(bad):
    with pytest.raises(ParameterError, match="confidence"):
        median_of_means([], 0, bad)
