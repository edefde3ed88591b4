"""Queries asked of stored points: gp on the same points, truth, coverage, memory, one pass."""

import asyncio
import tracemalloc
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from geoveil.aggregator import Code, ServiceError
from geoveil.aggregator.domain.errors import public
from geoveil.aggregator.domain.layout import Layout
from geoveil.aggregator.domain.reports import pack
from geoveil.aggregator.domain.rows import Points, points_of
from geoveil.aggregator.domain.shared_scan import (
    MOST_TOGETHER,
    AnswerCache,
    PointAnswers,
    SharedScan,
)
from geoveil.aggregator.domain.threads import ConcurrencyLimit
from geoveil.aggregator.domain.values import PointSums
from geoveil.aggregator.store import StoredAnswers
from geoveil.campaign import Attribute, PointQuestion
from geoveil.gp import (
    Disc,
    GaussianKernel,
    GeoPrivacy,
    GeoVeilError,
    ParameterError,
    PlanarLaplace,
    Range,
    SeededSource,
    SmoothedRegion,
    Threshold,
    UnsupportedError,
)
from geoveil.gp.intervals import interval_of_mean

from .conftest import value_campaign, value_campaign as campaign
from .refusals import refuses

LIMIT = 4.9
"""In standard errors: alpha = 1e-6, two-sided."""


def on_grid(mechanism: PlanarLaplace, points: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.rint(points / mechanism.step).astype(np.int64).reshape(len(points), -1)


def of_period(values: NDArray[np.int64], period: int = 0) -> Points:
    return Points(np.full(len(values), period, np.uint32), values)


def asked(**queries: Any) -> list[PointQuestion]:
    return [PointQuestion(label, query) for label, query in queries.items()]


QUESTIONS = {
    1: asked(
        above=Threshold(300.0, 900.0, "smoothstep"),
        between=Range(-400.0, 700.0, 800.0, "smoothstep"),
        bell=GaussianKernel(100.0, 500.0),
    ),
    2: asked(
        bell=GaussianKernel((100.0, 50.0), 500.0),
        disc=SmoothedRegion(Disc((0.0, 0.0), 700.0, 1.0), 300.0),
    ),
    3: asked(bell=GaussianKernel((100.0, 50.0, 0.0), 600.0)),
}


@pytest.mark.deep(rest=2)
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_estimates_are_those_of_gp_on_the_same_released_points(dimension):
    mechanism = campaign(dimension).point_mechanism
    source = SeededSource(dimension)
    true = np.random.default_rng(1).normal(0, 400, (60, dimension))
    released = np.array([mechanism.release(x if dimension > 1 else x[0], source) for x in true])
    sums = PointSums(campaign(dimension), QUESTIONS[dimension])
    for block in np.split(released, [1, 23]):
        sums.add(of_period(block))
    points = released * mechanism.step
    for shown, question in zip(sums.estimates([0], 0.9), QUESTIONS[dimension], strict=True):
        values = mechanism.estimator(question.query, debias=True).value(
            points if dimension > 1 else points[:, 0]
        )
        error = values.std(ddof=1) / np.sqrt(60)
        found = shown.estimate
        assert (shown.label, found.n) == (question.label, 60)
        assert found.value == pytest.approx(values.mean(), abs=1e-9)
        assert found.standard_error == pytest.approx(error, rel=1e-7)
        limits = mechanism.estimator(question.query, debias=True).limits
        low = interval_of_mean(60, values.mean(), values.var(), 0.9, limits).low
        assert found.ci_low == pytest.approx(low, abs=1e-7)


def test_any_order_and_any_blocks_give_the_same_bits():
    rng = np.random.default_rng(2)
    values = rng.integers(-(2**23), 2**23, (2_000, 2))
    sums = []
    for blocks in (1, 7):
        one = PointSums(campaign(), QUESTIONS[2])
        for block in np.array_split(rng.permutation(values), blocks):
            for part in one.parts():
                one.add(of_period(block), part)
        sums.append([shown.sums for shown in one.estimates([0], 0.95)])
    assert sums[0] == sums[1]


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("dimension", [1, 2])
def test_estimates_are_unbiased_where_plugging_in_is_not(dimension):
    """n = 200,000 points of 4 places, alpha = 1e-6 per query; the plugged-in mean must fail."""
    rng = np.random.default_rng(3)
    mechanism = campaign(dimension).point_mechanism
    places = np.array([[0.0, 0.0], [600.0, 100.0], [-350.0, 50.0], [150.0, -300.0]])[:, :dimension]
    true = places[rng.integers(0, 4, 200_000)]
    true = true if dimension > 1 else true[:, 0]
    points = np.asarray(mechanism.simulate(true, rng))
    sums = PointSums(campaign(dimension), QUESTIONS[dimension])
    for block in np.array_split(on_grid(mechanism, points), 5):
        sums.add(of_period(block))
    for shown, question in zip(sums.estimates([0], 0.95), QUESTIONS[dimension], strict=True):
        truth = question.query.value(true).mean()
        value, error = shown.estimate.value, shown.estimate.standard_error
        assert value is not None
        assert error is not None
        assert abs(value - truth) < LIMIT * error
        estimator = mechanism.estimator(question.query, debias=True)
        found, four = shown.noise_variance, places if dimension > 1 else places[:, 0]
        of_each = estimator.estimated_variance(points)
        assert found is not None
        assert found.value == pytest.approx(of_each.mean(), rel=0.05)  # of some of the points
        assert found.low < estimator.variance(four).mean() < found.high
        plugged = question.query.value(points)
        assert abs(plugged.mean() - truth) > 2 * LIMIT * plugged.std() / np.sqrt(len(points))


def test_intervals_cover_as_often_as_they_say():
    """400 campaigns of 400 people at one place, 95 %, alpha = 1e-6; half as wide must fail."""
    rng = np.random.default_rng(4)
    mechanism = campaign().point_mechanism
    question = QUESTIONS[2][0]
    place = np.array([[250.0, 0.0]])
    truth = float(question.query.value(place)[0])
    covered = halved = 0
    for _ in range(400):
        points = np.asarray(mechanism.simulate(np.repeat(place, 400, axis=0), rng))
        sums = PointSums(campaign(), [question])
        sums.add(of_period(on_grid(mechanism, points)))
        (shown,) = sums.estimates([0], 0.95)
        found = shown.estimate
        assert found.value is not None
        assert found.ci_low is not None
        assert found.ci_high is not None
        covered += found.ci_low <= truth <= found.ci_high
        middle = (found.ci_low + found.ci_high) / 2
        halved += abs(truth - middle) <= (found.ci_high - found.ci_low) / 4
    low = 380 - LIMIT * np.sqrt(400 * 0.95 * 0.05)
    assert covered >= low
    assert halved < low


class Generated:
    """Stands in for reader and store: blocks of random points, made as they are asked for."""

    def __init__(self, blocks: int, *, kept: bool = False) -> None:
        self._blocks = blocks
        self._kept: list[bytes] | None = [] if kept else None

    async def call(self, function: Callable[["Generated"], StoredAnswers]) -> StoredAnswers:
        return function(self)

    def answers(self, campaign_id: str, after: bytes, limit: int) -> StoredAnswers:
        number = int.from_bytes(after)
        found = np.zeros((8_192, 2), [("query_index", "<u4"), ("value", "<i8")])
        found["query_index"] = [0, 1]
        found["value"] = np.random.default_rng(number).integers(-(2**24), 2**24, (8_192, 2))
        packed = found.tobytes()
        if self._kept is not None:
            self._kept.append(packed)
        return StoredAnswers(
            packed, (number + 1).to_bytes(8) if number + 1 < self._blocks else None
        )


async def _peak(blocks: int, *, kept: bool = False) -> int:
    layout = Layout.of(campaign())
    reader: Any = Generated(blocks, kept=kept)
    tracemalloc.start()
    try:
        shown, _ = await SharedScan(reader, ConcurrencyLimit(1)).answer(
            b"", layout, QUESTIONS[2], {0: 0}, 0.95
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [one.estimate.n for one in shown] == [8_192 * blocks] * 2
    return peak


@pytest.mark.deep
async def test_memory_does_not_depend_on_the_number_of_points():
    """16 times the points at most 2 % more memory; keeping the blocks must fail that.

    The least of three peaks, as what other threads of the process allocate meanwhile counts.
    """
    await _peak(2)  # tables that are made once
    few, many = await _peak(2), min([await _peak(32) for _ in range(3)])
    assert many < 1.02 * few
    assert await _peak(32, kept=True) > 1.02 * few


@pytest.mark.parametrize(
    ("dimension", "questions", "match"),
    [
        (2, [], "number of queries"),
        (2, asked(bell=GaussianKernel((0.0, 0.0), 500.0)) * 2, "distinct"),
        (2, asked(above=Threshold(1.0, 2.0, "smoothstep")), r"queries\[0\]\.dimension"),
        (2, asked(ring=Disc((0.0, 0.0), 500.0, 100.0)), "'ring'.*no debiased form"),
        (2, asked(tiny=GaussianKernel((0.0, 0.0), 0.1)), "'tiny'.*widen"),
        (2, asked(vast=SmoothedRegion(Disc((0.0, 0.0), 9e5, 1.0), 10.0)), "'vast'.*cells"),
        (1, asked(ramp=Threshold(1.0, 200.0, "linear")), "'ramp'"),
    ],
)
def test_what_cannot_be_asked_of_points_is_refused_by_name(dimension, questions, match):
    with pytest.raises(GeoVeilError, match=match):
        PointSums(campaign(dimension), questions)


@pytest.mark.deep
def test_regions_are_refused_that_together_need_too_much_memory():
    regions = {
        f"r{i}": SmoothedRegion(Disc((0.0, 0.0), 10_000.0 + i, 1.0), 200.0) for i in range(5)
    }
    PointSums(campaign(), asked(r0=regions["r0"]))
    with pytest.raises(UnsupportedError, match="fewer at a time"):
        PointSums(campaign(), asked(**regions))


@pytest.mark.deep
async def test_what_takes_too_long_is_refused_before_anything_is_read():
    """4,096 kernels far apart, whose sums have no short cut; close together they are no matter."""
    layout = Layout.of(campaign())
    far, near = (
        asked(**{f"k{i}": GaussianKernel((distance * i, 0.0), 500.0) for i in range(4_096)})
        for distance in (1e6, 10.0)
    )
    unread: Any = None
    with pytest.raises(ServiceError, match=r"4,096 queries of 10,000,000 points.*fewer") as caught:
        await SharedScan(unread, ConcurrencyLimit(1)).answer(
            b"", layout, far, {0: 10_000_000}, 0.95
        )
    assert caught.value.code is Code.TOO_COSTLY
    assert len(public(caught.value).text) < 300
    PointSums(campaign(), near, (10_000_000, 1))
    PointSums(campaign(), far[:64], (10_000_000, 1))


@pytest.mark.parametrize(
    "query",
    [Threshold(0.0, 1e-3, "smoothstep"), GaussianKernel(1e300, 500.0), GaussianKernel(0.0, 1e-40)],
)
def test_a_query_that_is_hopeless_is_refused(query):
    """Too narrow for the noise; so far away, or so narrow, that its formula overflows."""
    sums = PointSums(campaign(1), asked(odd=query))
    with pytest.raises(UnsupportedError, match=r"'odd'.*widen"):
        sums.add(of_period(np.array([[1], [0]])))


@pytest.mark.parametrize("answers", [[(0, 1)], [(1, 1), (0, 1)], [(0, 1), (3, 1)]])
def test_stored_answers_that_are_no_points_are_a_defect(answers):
    layout = Layout.of(campaign(period=timedelta(days=7)))
    with refuses(Code.INTERNAL):
        points_of(layout, pack(answers))


def test_points_are_shown_nowhere():
    points = of_period(np.array([[31_415, 92_653]]))
    assert "31415" not in repr(points)


JOINT = asked(
    low=Threshold(-300.0, 900.0, "smoothstep"),
    above=Threshold(300.0, 900.0, "smoothstep"),
    between=Range(-400.0, 700.0, 800.0, "smoothstep"),
)


@pytest.mark.parametrize("questions", [JOINT, QUESTIONS[1]], ids=["bands", "bands and a bell"])
def test_covariances_go_with_the_standard_errors_of_each_period(questions):
    recurring = campaign(1, period=timedelta(days=1))
    mechanism = recurring.point_mechanism
    rng = np.random.default_rng(9)
    values = on_grid(mechanism, np.asarray(mechanism.simulate(rng.normal(0, 500, 4_000), rng)))
    periods = rng.integers(0, 2, 4_000).astype(np.uint32)
    sums = PointSums(recurring, questions, (4_000, 2), joint=True)
    sums.add(Points(periods, values))
    found = sums.covariances([0, 1, 2])
    assert list(found) == [0, 1]  # nobody answered in the last
    for period, matrix in found.items():
        at = values[periods == period, 0] * mechanism.step
        answers = [mechanism.estimator(q.query, debias=True).value(at) for q in questions]
        assert matrix == pytest.approx(np.cov(answers) / len(at), rel=1e-5, abs=1e-9)
        shown = [e.estimate.standard_error for e in sums.estimates([period], 0.95)]
        assert np.sqrt(np.diag(matrix)) == pytest.approx(shown, rel=1e-5)


def test_covariances_are_only_had_where_they_were_asked_for_and_of_so_many():
    many = asked(**{f"t{i}": Threshold(10.0 * i, 900.0, "smoothstep") for i in range(901)})
    assert PointSums(campaign(1), many).covariances([0]) == {}
    PointSums(campaign(1), many[:900], joint=True)
    with pytest.raises(ParameterError, match="1 to 900 for covariances"):
        PointSums(campaign(1), many, joint=True)
    with pytest.raises(ParameterError, match="1 to 450 for"):
        PointSums(campaign(1), many[:900], (1_000, 4), joint=True)


def test_covariances_that_take_too_long_are_refused():
    bells = asked(**{f"k{i}": GaussianKernel((10.0 * i, 0.0), 500.0) for i in range(800)})
    PointSums(campaign(), bells, (2_000_000, 1))
    with pytest.raises(ServiceError, match="800 queries of 2,000,000 points"):
        PointSums(campaign(), bells, (2_000_000, 1), joint=True)


def test_answers_are_kept_for_the_very_same_request():
    key = AnswerCache.key("points", JOINT, {0: 5}, 0.95, True)
    assert key == AnswerCache.key("points", list(JOINT), {0: 5}, 0.95, True)
    others = [
        AnswerCache.key("other", JOINT, {0: 5}, 0.95, True),
        AnswerCache.key("points", JOINT[:2], {0: 5}, 0.95, True),
        AnswerCache.key("points", JOINT[::-1], {0: 5}, 0.95, True),
        AnswerCache.key("points", JOINT, {0: 6}, 0.95, True),
        AnswerCache.key("points", JOINT, {0: 5}, 0.9, True),
        AnswerCache.key("points", JOINT, {0: 5}, 0.95, False),
    ]
    assert len({key, *others}) == 7


BLOCKS, IN_BLOCK = 6, 500
CAMPAIGN = value_campaign(
    1, attribute=Attribute(name="age", unit="year"), privacy=GeoPrivacy(1.0, 2.0, "year")
)
LAYOUT = Layout.of(CAMPAIGN)
PERIODS = {0: BLOCKS * IN_BLOCK}


class Stored:
    """Stands in for reader and store: the same blocks at each pass, which it counts."""

    def __init__(self, fails: bool = False) -> None:
        self.read = 0
        self.started = asyncio.Event()
        self._fails = fails

    async def call(self, function: Callable[["Stored"], StoredAnswers]) -> StoredAnswers:
        await asyncio.sleep(0)
        return function(self)

    def answers(self, campaign_id: str, after: bytes, limit: int) -> StoredAnswers:
        self.read += 1
        self.started.set()
        if self._fails:
            raise ServiceError(Code.STORE_UNAVAILABLE)
        number = int.from_bytes(after)
        found = np.zeros(IN_BLOCK, [("query_index", "<u4"), ("value", "<i8")])
        ages = np.random.default_rng(number).normal(40.0, 15.0, IN_BLOCK)
        found["value"] = np.rint(ages / CAMPAIGN.point_mechanism.step)
        return StoredAnswers(
            found.tobytes(), (number + 1).to_bytes(8) if number + 1 < BLOCKS else None
        )


def above(age: float) -> list[PointQuestion]:
    return [PointQuestion("above", Threshold(age, 6.0, "smoothstep"))]


def ask(
    passes: SharedScan, age: float, questions: Sequence[PointQuestion] | None = None
) -> "asyncio.Task[PointAnswers]":
    asked = questions or above(age)
    key = str(age).encode()
    return asyncio.create_task(passes.answer(key, LAYOUT, asked, PERIODS, 0.95, joint=True))


def passes_over(stored: Any) -> SharedScan:
    return SharedScan(stored, ConcurrencyLimit(2))


async def test_requests_at_a_time_cost_one_pass_and_get_what_each_gets_alone():
    """Apart they cost a pass each, which is the control."""
    ages, alone, together = [20.0, 40.0, 60.0, 65.0][:MOST_TOGETHER], Stored(), Stored()
    apart = [await ask(passes_over(alone), age) for age in ages]
    found = await asyncio.gather(*(ask(passes, age) for passes in [passes_over(together)]
                                   for age in ages))  # fmt: skip
    assert alone.read == len(ages) * BLOCKS
    assert together.read == BLOCKS
    for one, other in zip(found, apart, strict=True):
        assert one.estimates == other.estimates
        assert np.array_equal(one.covariances[0], other.covariances[0])


async def test_who_comes_while_a_pass_runs_waits_for_the_next():
    stored = Stored()
    passes = passes_over(stored)
    first = ask(passes, 20.0)
    await stored.started.wait()
    later = [ask(passes, age) for age in (30.0, 40.0, 50.0)]
    same = ask(passes, 20.0)
    await asyncio.gather(first, *later, same)
    assert stored.read == 2 * BLOCKS
    assert first.result() is same.result()
    assert await ask(passes, 40.0) is later[1].result()  # kept
    assert stored.read == 2 * BLOCKS


async def test_more_than_a_pass_holds_wait_for_the_next():
    stored = Stored()
    passes = passes_over(stored)
    ages = [20.0 + i for i in range(MOST_TOGETHER + 1)]
    found = await asyncio.gather(*(ask(passes, age) for age in ages))
    assert stored.read == 2 * BLOCKS
    assert len({answers.estimates[0].estimate.value for answers in found}) == len(ages)


async def test_what_is_refused_is_refused_alone():
    passes = passes_over(Stored())
    bad = ask(passes, 1.0, [PointQuestion("ramp", Threshold(1.0, 200.0, "linear"))])
    good = ask(passes, 40.0)
    with pytest.raises(UnsupportedError, match="ramp"):
        await bad
    assert (await good).estimates[0].estimate.n == BLOCKS * IN_BLOCK


async def test_a_pass_ends_when_nobody_waits_and_not_before():
    stored = Stored()
    passes = passes_over(stored)
    first, other = ask(passes, 20.0), ask(passes, 30.0)
    await stored.started.wait()
    first.cancel()
    assert (await other).estimates[0].estimate.n == BLOCKS * IN_BLOCK
    stored.read = 0
    stored.started.clear()
    alone = ask(passes, 50.0)
    await stored.started.wait()
    alone.cancel()
    await asyncio.sleep(0.1)
    assert stored.read < BLOCKS
    assert (await ask(passes, 60.0)).estimates[0].estimate.n == BLOCKS * IN_BLOCK


async def test_a_store_that_fails_fails_all_and_not_for_ever():
    passes = passes_over(Stored(fails=True))
    for _ in range(2):
        asked = [ask(passes, age) for age in (20.0, 30.0)]
        for one in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(one, ServiceError)
            assert one.code is Code.STORE_UNAVAILABLE
