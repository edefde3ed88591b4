"""Test answers from two readings, and labels of when an epoch begins."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from geoveil.campaign import Allocation, LipschitzLaplaceSpec, Question, Readings, ValueCampaign
from geoveil.campaign.readings import ORIGIN
from geoveil.client import (
    AnswerNotYet,
    BudgetExceeded,
    Epoch,
    Limit,
    Number,
    ParameterError,
    Point,
    Policy,
    PolicyRefused,
)
from geoveil.gp import DebiasedLaplace, GeoPrivacy, Threshold, TwoWayThreshold
from tests.client.conftest import dollars
from tests.client.readings import (
    OPENS,
    WEEK,
    YEAR,
    campaign,
    client_of,
    extrapolated,
    limit,
    number,
    of_cohorts,
    question,
    readings,
    spent,
)


def test_questions_on_a_line_are_answered_from_the_reading(device, fake_time):
    """Each is g(s) of the campaign's point, which all its weeks share: one reading is charged."""
    asked = [question("a", period=WEEK), question("b", 0.25, period=WEEK), campaign("points")]
    client = device(*asked)
    first = client.contribute("a", 50_000.0)
    (reading,) = readings(client)
    for week in range(3):
        fake_time.date = min(first.drawn + week * WEEK, reading.ends - timedelta(seconds=1))
        for c in asked:
            receipt = client.contribute(c.campaign_id, 90_000.0)
            (kept,) = client._session.journal.points(c.campaign_id, [reading])
            if isinstance(c, ValueCampaign):
                assert number(receipt) == kept.point[0] * c.point_mechanism.step
                continue
            z = kept.point[0] * c.point_mechanism.step
            for made, mechanism in zip(receipt.perturbed, c.mechanisms, strict=True):
                assert isinstance(mechanism, DebiasedLaplace)
                s = mechanism.query.signed_distance(z)
                g = mechanism.query.profile.debiased(s, mechanism.scale)
                assert made == pytest.approx(g, abs=1e-4)
    assert spent(client) == 1.0
    assert {receipt.epoch for receipt in client.history()} == {reading.begins}


@pytest.mark.parametrize(
    "changes",
    [
        {"mechanism": LipschitzLaplaceSpec()},
        {
            "questions": (Question("q", TwoWayThreshold((1.0, 2.0), 32_000.0, "smoothstep")),),
            "allocation": Allocation.PARTITION,
        },
    ],
)
def test_what_no_point_answers_is_drawn_anew(device, fake_time, changes):
    asked = question("a", 0.25, **changes)
    assert not asked.nests
    value = Number() if asked.dimension == 1 else Point(2)
    client = device(asked, of=limit(value=value))
    receipt = client.contribute("a", 5.0 if asked.dimension == 1 else (5.0, 5.0))
    assert receipt.epoch is None
    assert spent(client) == asked.report_privacy.epsilon
    with pytest.raises(ParameterError, match="readings"):
        question("b", readings=Readings(every=YEAR), **changes)


def test_an_extrapolated_answer_goes_on_as_the_last_two_readings_did(device, fake_time):
    """y + (age/gap)(y − y'), both answers of the campaign's points; no longer than the gap."""
    client = device(extrapolated("a"))
    start = client.contribute("a", 20_000.0)
    (old,) = readings(client)
    fake_time.date = old.ends + 5 * WEEK
    second = client.contribute("a", 90_000.0)
    new = readings(client)[1]
    gap = new.drawn - old.drawn
    age = min(gap, new.ends - new.drawn) - timedelta(seconds=1)
    fake_time.date = new.drawn + age
    moved = client.contribute("a", 1.0)
    for i, mechanism in enumerate(extrapolated("a").mechanisms):
        low, high = (k * mechanism.step for k in mechanism.grid_range)
        at_first, then, later = (r.perturbed[i] for r in (start, second, moved))
        assert later == pytest.approx(then + age / gap * (then - at_first), abs=1e-3)
        assert 2 * low - high <= later <= 2 * high - low
    assert moved.epoch == second.epoch == new.begins
    assert spent(client) == 2.0


@pytest.mark.deep
@pytest.mark.parametrize("skipped", [0.0, 0.6, 0.9])
def test_every_extrapolated_answer_is_right_while_the_share_drifts(fake_time, skipped):
    """Readings next to without noise, of 15 devices that skip weeks, for 70 weeks: each answer is
    the share of now, to 0.01 weeks of drift. Control: were gaps below an epoch stretched to it, one
    answer in 50 or more would be a week off."""
    quarter, weeks = 13 * WEEK, 70
    exact = GeoPrivacy(1e6, 8000.0, "dollar")
    asked = question(
        "a",
        privacy=exact,
        questions=(Question("above", Threshold(50_000, 80_000, "smoothstep")),),
        period=WEEK,
        readings=Readings(every=quarter, extrapolated=True),
    )
    (mechanism,) = asked.mechanisms
    incomes = np.linspace(10_000.0, 90_000.0, 80_001)
    shares = mechanism.query.value(incomes)
    rng = np.random.default_rng(int(10 * skipped))
    stretched = []
    for _ in range(15):
        of = Limit(campaign=exact.repeated(100))
        client = client_of([asked], of, fake_time, background=False)
        for week in range(weeks):
            fake_time.date = OPENS + (week + rng.random()) * WEEK
            if rng.random() < skipped:
                continue
            share = 0.05 + 0.9 * ((fake_time.date - OPENS) / (weeks * WEEK))
            try:
                receipt = client.contribute("a", float(np.interp(share, shares, incomes)))
            except AnswerNotYet:
                continue
            assert (number(receipt) - share) * weeks / 0.9 == pytest.approx(0.0, abs=0.01)
            kept = client._session.journal.readings("income", "dollar", "Number() for a")
            if len(kept) > 1:
                gap, age = kept[-1].drawn - kept[-2].drawn, fake_time.date - kept[-1].drawn
                stretched.append(age / WEEK * (1 - min(gap / quarter, 1.0)))
        client.close(0)
    assert np.mean(np.array(stretched) > 1.0) > 0.02


def test_readings_that_are_too_close_are_not_answered_from(device, fake_time):
    """Once at the first reading, then as long after the second as it is after the first, and from
    the third on: the error says when, and nothing is kept or spent."""
    client = device(extrapolated("a"))
    first = client.contribute("a", 20_000.0)
    (old,) = readings(client)
    if old.ends - first.drawn < 2 * WEEK:
        return  # it drew so: another period must lie within the epoch
    fake_time.date = old.ends - timedelta(seconds=1)
    with pytest.raises(AnswerNotYet) as refused:
        client.contribute("a", 20_000.0)
    assert refused.value.starts == old.ends
    assert len(client.history()) == spent(client) == 1
    fake_time.date = old.ends + timedelta(seconds=1)
    client.contribute("a", 20_000.0)
    gap = fake_time.date - first.drawn
    fake_time.date += min(gap, YEAR - timedelta(seconds=2))
    assert client.contribute("a", 20_000.0).epoch == old.ends
    if gap < YEAR - 2 * WEEK:
        fake_time.date += WEEK
        with pytest.raises(AnswerNotYet):
            client.contribute("a", 20_000.0)
    fake_time.date = old.ends + YEAR + timedelta(seconds=2)
    client.contribute("a", 20_000.0)
    fake_time.date += YEAR - timedelta(minutes=1)
    assert client.contribute("a", 20_000.0).epoch == old.ends + YEAR


def test_an_extrapolating_campaign_pays_for_the_reading_before_it(device, fake_time):
    """Its own limit has room for two readings and not for three; all other campaigns pay once."""
    client = device(campaign("early", period=WEEK), extrapolated("late"), of=limit(most=2.0))
    client.contribute("early", 20_000.0)
    (old,) = readings(client)
    fake_time.date = old.ends + WEEK
    client.contribute("early", 20_000.0)
    fake_time.date += timedelta(seconds=1)
    client.contribute("late", 20_000.0)
    assert spent(client) == 2.0
    new = readings(client)[1]
    fake_time.date = new.ends + WEEK
    with pytest.raises(BudgetExceeded, match="this campaign"):
        client.contribute("late", 20_000.0)
    fake_time.date = new.drawn + WEEK
    with pytest.raises(BudgetExceeded, match="this campaign"):
        device(extrapolated("third"), of=limit(most=1.5)).contribute("third", 1.0)


def test_a_device_tells_in_which_part_of_an_epoch_it_reads(device, fake_time):
    """Seven cohorts over 70 days from 1970 on: the one that its own epoch begins in."""
    every = Readings(every=timedelta(days=70), cohorts=7)
    asked = question("a", period=WEEK, readings=every)
    epoch = Epoch(privacy=dollars(1.0), length=every.every)
    client = device(asked, of=limit(epoch=epoch, cohorts=7))
    cohorts = set()
    for _ in range(3):
        receipt = client.contribute("a", 50_000.0)
        assert receipt.epoch is not None
        part = (receipt.epoch - ORIGIN) % every.every // timedelta(days=10)
        assert {a.query_index // 3 for a in receipt.answers} == {part}
        cohorts.add(part)
        fake_time.date = receipt.epoch + every.every
    assert len(cohorts) == 1


@pytest.mark.parametrize(
    ("changes", "permitted"),
    [
        ({}, []),
        ({"cohorts": 12}, [12, 6, 4, 3, 2]),
        ({"cohorts": 13}, [13]),
        ({"cohorts": 12, "epoch": None}, [12, 6, 4, 3, 2]),
        ({"cohorts": 12, "epoch": Epoch(privacy=dollars(1.0), length=YEAR + WEEK)}, []),
    ],
)
def test_a_cohort_is_sent_only_as_the_policy_says(changes, permitted):
    """As many parts as it permits or a divisor, of an epoch of its own length."""
    policy = Policy({"income": limit(**changes)})
    found = []
    for cohorts in range(16, 1, -1):
        try:
            policy.check(of_cohorts(YEAR, cohorts), None)
            found.append(cohorts)
        except PolicyRefused:
            continue
    assert found == permitted


@pytest.mark.parametrize("cohorts", [1, 17, -1, 2.5])
def test_a_number_of_parts_out_of_range_is_refused(cohorts):
    finest = Epoch(privacy=dollars(1.0), length=YEAR, finest=dollars(0.5))
    for changes in ({"cohorts": cohorts}, {"cohorts": 4, "epoch": finest}):
        with pytest.raises(ParameterError) as caught:
            limit(**changes)
        assert caught.value.name == "cohorts"
    with pytest.raises(ParameterError, match=r"readings\.cohorts must be .*16"):
        of_cohorts(YEAR, 17)


def linked(first: Any, second: Any, labels: list[Any], rng: np.random.Generator) -> float:
    """Return the share of people whose report of one year is linked to theirs of another.

    By the nearest point among the reports that had the same labels in all campaigns of both years;
    in the other year they come in another order.
    """
    n = len(first)
    order = rng.permutation(n)
    key = np.zeros(n, np.int64)
    for of_campaign in labels:
        key = np.unique(key * 64 + of_campaign, return_inverse=True)[1]
    right = 0
    for one in range(int(key.max()) + 1):
        here = np.flatnonzero(key == one)
        there = order[key[order] == one]
        there = there[np.argsort(second[there], kind="stable")]
        near = np.searchsorted(second[there], first[here]).clip(1, max(len(there) - 1, 1))
        below, above = there[near - 1], there[near.clip(max=len(there) - 1)]
        closer = np.abs(second[below] - first[here]) <= np.abs(second[above] - first[here])
        right += int((np.where(closer, below, above) == here).sum())
    return right / n


@pytest.mark.deep
def test_reports_of_two_years_are_linked_by_what_points_tell():
    """10,000 people, four campaigns a year at lengths and numbers of labels of the server's choice.

    A policy that does not permit labels: linked as often as by the points alone, which is rare. One
    that permits 13: at most 13 times as often, and not by more campaigns. Control: the labels that
    were sent to any campaign, counted from its opening, link more than 9 of 10.
    """
    n, rng = 10_000, np.random.default_rng(8)
    incomes = rng.lognormal(11.0, 0.6, n)
    first, second = (incomes + rng.laplace(0.0, 8_000.0, n) for _ in range(2))
    asked = [of_cohorts(d * WEEK, m) for d, m in ((52, 13), (26, 16), (13, 13), (52, 16))]
    begins = [ORIGIN + YEAR * 50 + timedelta(seconds=s) for s in rng.uniform(0, 52 * 604_800, n)]

    def with_policy(cohorts: int) -> float:
        epoch = Epoch(privacy=dollars(1.0), length=52 * WEEK)
        policy, sent = Policy({"income": limit(epoch=epoch, cohorts=cohorts)}), []
        for one in asked:
            try:
                policy.check(one, None)
            except PolicyRefused:
                continue
            assert one.readings is not None
            sent.append(np.array([one.readings.cohort(at) for at in begins]))
        return linked(first, second, sent, np.random.default_rng(9))

    by_points = linked(first, second, [], np.random.default_rng(9))
    assert 0.001 < by_points < 0.002  # docs/guarantees.md: 16 of 10,000 on average
    assert with_policy(0) == by_points
    spread = 4.9 * (13 * by_points / n) ** 0.5
    assert by_points < with_policy(13) < 13 * by_points + spread
    sent = []
    for hours in (52 * 168, 137, 3, 1):
        length = timedelta(hours=hours)
        sent.append(np.array([64 * ((at - OPENS) % length) // length for at in begins]))
    assert linked(first, second, sent, np.random.default_rng(9)) > 0.9
