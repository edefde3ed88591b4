"""Test that one reading answers every value campaign of an epoch, and is paid once."""

import os
import re
import sqlite3
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from geoveil.campaign import (
    Allocation,
    Attribute,
    Campaign,
    LipschitzLaplaceSpec,
    PlanarLaplaceSpec,
    Question,
    Readings,
    StatisticCampaign,
    ValueCampaign,
)
from geoveil.campaign.readings import ORIGIN
from geoveil.client import (
    AnswerNotYet,
    BudgetExceeded,
    Client,
    Epoch,
    InMemoryCollector,
    InMemoryTransport,
    JournalError,
    Limit,
    Number,
    ParameterError,
    Place,
    Point,
    Policy,
    PolicyRefused,
    PrivateValueError,
    Receipt,
    Window,
)
from geoveil.client.journal import FILE_NAME
from geoveil.gp import (
    Coarsening,
    DebiasedLaplace,
    GaussianKernel,
    GeoPrivacy,
    LogScale,
    PlanarLaplace,
    Range,
    Threshold,
    TwoWayThreshold,
)
from geoveil.gp.coordinates import Area, AzimuthalEquidistant
from tests.client.conftest import FakeTime, dollars, in_threads
from tests.client.mortal import Lab, WireTransport, every_point, shuffled, unhurried

OPENS = datetime(2026, 1, 1, tzinfo=UTC)
YEAR, WEEK = timedelta(days=365), timedelta(days=7)
INCOME = Attribute(name="income", unit="dollar")


def campaign(name: str, epsilon: float = 1.0, **changes: Any) -> ValueCampaign:
    fields: dict[str, Any] = {
        "campaign_id": name,
        "title": name,
        "attribute": INCOME,
        "privacy": dollars(epsilon),
        "mechanism": PlanarLaplaceSpec(1),
        "opens": OPENS,
        "closes": OPENS + 10 * YEAR,
    }
    return ValueCampaign(**(fields | changes))


def finest(privacy: GeoPrivacy) -> Epoch:
    return Epoch(privacy=dollars(1.0), length=YEAR, finest=privacy)


def limit(most: float = 10.0, lifetime: float = 100.0, **changes: Any) -> Limit:
    fields: dict[str, Any] = {
        "campaign": dollars(most),
        "lifetime": dollars(lifetime),
        "epoch": Epoch(privacy=dollars(1.0), length=YEAR),
    }
    return Limit(**(fields | changes))


def client_of(
    campaigns: Sequence[Campaign], of: Limit | None, time: FakeTime, **settings: Any
) -> Client:
    """Return a client that has fetched all campaigns, which are about one attribute."""
    client = Client(
        policy=Policy({campaigns[0].attribute.name: limit() if of is None else of}),
        transport=InMemoryTransport(InMemoryCollector(campaigns)),
        timing=time.timing(),
        release_floor_s=0,
        **settings,
    )
    for asked in campaigns:
        client.fetch(asked.campaign_id)
    return client


@pytest.fixture
def device(fake_time, tmp_path):
    """Makes clients on one state directory and clock that have fetched all campaigns."""
    made: list[Client] = []

    def make(*campaigns: Campaign, of: Limit | None = None) -> Client:
        made.append(client_of(campaigns, of, fake_time, state_dir=tmp_path / "state"))
        return made[-1]

    yield make
    for client in made:
        client.close(0)


def spent(client: Client) -> float:
    """Return what all campaigns together have cost, ε per $8,000."""
    return {budget.scope: budget.spent for budget in client.budgets()}["lifetime"]


def number(receipt: Receipt) -> float:
    (answer,) = receipt.perturbed
    return answer


def readings(client: Client) -> Any:
    return client._session.journal.readings("income", "dollar", "Number()")


def test_ten_campaigns_and_all_their_weeks_cost_one_reading(device, fake_time):
    """Control: a policy without an epoch, and the same questions cost their sum."""
    asked = [campaign(f"c{i}", 1.0 / (1 + i % 3), period=WEEK) for i in range(10)]
    client = device(*asked)
    first = client.contribute("c0", 50_000.0)
    assert first.epoch is not None
    told = {number(first)}
    for week in range(3):
        fake_time.date = first.drawn + week * WEEK
        for c in asked:
            receipt = client.contribute(c.campaign_id, 70_000.0)
            assert receipt.privacy == dollars(1.0)
            if c.privacy == dollars(1.0):
                told.add(number(receipt))
        if fake_time.date + WEEK >= first.epoch + YEAR:
            break
    assert len(readings(client)) == 1
    assert len(told) == 1
    assert spent(client) == 1.0


def test_without_an_epoch_every_answer_has_noise_of_its_own(device):
    client = device(campaign("a"), campaign("b"), of=limit(epoch=None))
    told = {number(client.contribute(name, 50_000.0)) for name in "ab"}
    assert len(told) == 2
    assert spent(client) == 2.0
    assert all(receipt.epoch is None for receipt in client.history())


@pytest.mark.deep(keep=0)
def test_a_coarser_campaign_has_the_noise_of_its_rate(tmp_path):
    """200 devices: the mean distance of answers at ε/4 is 4/ε; α = 1e-6 (4.9 standard errors).

    Control: of those at ε it is 1/ε.
    """
    fine, coarse = campaign("fine"), campaign("coarse", 0.25)
    errors = []
    for _ in range(200):
        client = client_of([fine, coarse], None, FakeTime())
        errors.append([abs(number(client.contribute(c, 9.0)) - 9.0) for c in ("coarse", "fine")])
        client.close(0)
    means = np.mean(errors, axis=0) / 8000
    assert means[0] == pytest.approx(4.0, abs=4.9 * 4.0 / 200**0.5)
    assert means[1] == pytest.approx(1.0, abs=4.9 * 1.0 / 200**0.5)


def test_the_next_epoch_is_read_anew_and_paid_for(device, fake_time):
    client = device(campaign("weekly", period=WEEK))
    first = client.contribute("weekly", 50_000.0)
    (reading,) = readings(client)
    assert reading.begins <= first.drawn < reading.ends == reading.begins + YEAR
    fake_time.date = reading.ends - timedelta(seconds=1)
    assert number(client.contribute("weekly", 50_000.0)) == number(first)
    fake_time.date = reading.ends + WEEK
    assert client.contribute("weekly", 50_000.0).epoch == reading.ends
    fake_time.date = reading.ends + 3 * YEAR + WEEK
    assert client.contribute("weekly", 50_000.0).epoch == reading.ends + 3 * YEAR
    assert len(readings(client)) == 3
    assert spent(client) == 3.0


@pytest.mark.deep(keep=0)
def test_when_the_first_epoch_begins_is_drawn(fake_time):
    """Uniform over an epoch's length, whatever the value: n = 200, α = 1e-6 (Kolmogorov)."""
    shares = []
    for i in range(200):
        client = client_of([campaign("a")], None, fake_time)
        receipt = client.contribute("a", 1e5 * (i % 2))
        assert receipt.epoch is not None
        shares.append((receipt.drawn - receipt.epoch) / YEAR)
        client.close(0)
    ordered = np.sort(shares)
    gap = np.abs(ordered - (np.arange(200) + 0.5) / 200).max()
    assert gap < np.sqrt(np.log(2 / 1e-6) / 400)
    assert 0 <= ordered[0] < ordered[-1] < 1


def test_an_epoch_that_the_limit_has_no_room_for_is_refused(device, fake_time):
    """Before anything is drawn; what is answered from the reading goes on."""
    client = device(campaign("a", period=WEEK), campaign("b"), of=limit(lifetime=1.5))
    client.contribute("a", 50_000.0)
    client.contribute("b", 50_000.0)
    (reading,) = readings(client)
    fake_time.date = reading.ends + WEEK
    with pytest.raises(BudgetExceeded, match="lifetime"):
        client.contribute("a", 50_000.0)
    assert readings(client) == (reading,)
    assert spent(client) == 1.0


def test_a_window_counts_readings_when_they_told_last(device, fake_time):
    """A reading of long ago, told today, counts today."""
    of = limit(windows=(Window(limit=dollars(1.0), length=2 * WEEK),))
    client = device(campaign("a", period=WEEK / 7), of=of)
    client.contribute("a", 50_000.0)
    (reading,) = readings(client)
    last = fake_time.date = reading.ends - timedelta(days=1)
    client.contribute("a", 50_000.0)
    client.flush(1)
    fake_time.date = reading.ends + timedelta(days=1)
    with pytest.raises(BudgetExceeded) as refused:
        client.contribute("a", 50_000.0)
    assert refused.value.frees == last + 2 * WEEK
    fake_time.date = refused.value.frees
    client.contribute("a", 50_000.0)
    assert spent(client) == 2.0


def test_each_campaign_pays_for_the_epochs_that_it_asks_in(device, fake_time):
    """Its own limit: 1 for its first epoch, nothing for more weeks of it, and no room for two."""
    client = device(campaign("a", period=WEEK), campaign("b", 0.5), of=limit(most=1.5))
    client.contribute("b", 50_000.0)
    first = client.contribute("a", 50_000.0)
    assert first.epoch is not None
    for week in range(1, 4):
        fake_time.date = min(first.drawn + week * WEEK, first.epoch + YEAR - timedelta(seconds=1))
        client.contribute("a", 50_000.0)
    fake_time.date = first.epoch + YEAR + WEEK
    with pytest.raises(BudgetExceeded, match="this campaign"):
        client.contribute("a", 50_000.0)
    assert spent(client) == 1.0


def test_what_is_not_nested_costs_its_sum(device):
    """Answers drawn before the policy had an epoch, or after it lost it, count in full."""
    for names, of in (("a", limit(epoch=None)), ("bc", limit()), ("d", limit(epoch=None))):
        client = device(*map(campaign, names), of=of)
        for name in names:
            client.contribute(name, 50_000.0)
    assert spent(client) == 3.0


def test_a_clock_that_jumps_never_makes_anything_cheaper(device, fake_time):
    """Each reading is charged, whenever it is dated; an epoch once read is never read again."""
    client = device(campaign("a", period=WEEK))
    start = fake_time.date
    jumps = [0, 900, 0, 450, -100, 900, -100, 450]
    for days in jumps:
        fake_time.date = start + timedelta(days=days)
        client.contribute("a", 50_000.0)
    kept = readings(client)
    assert spent(client) == float(len(kept))
    assert len(kept) <= 4
    before = {receipt.report_id for receipt in client.history()}
    for days in jumps:
        fake_time.date = start + timedelta(days=days)
        client.contribute("a", 60_000.0)
    assert {receipt.report_id for receipt in client.history()} == before


def test_a_shorter_epoch_goes_on_where_the_last_one_ends(device, fake_time):
    client = device(campaign("a", period=WEEK))
    client.contribute("a", 50_000.0)
    (reading,) = readings(client)
    client = device(
        campaign("a", period=WEEK), of=limit(epoch=Epoch(privacy=dollars(1.0), length=WEEK))
    )
    fake_time.date = reading.ends - timedelta(seconds=1)
    assert client.contribute("a", 50_000.0).epoch == reading.begins
    fake_time.date = reading.ends + 2 * WEEK
    assert client.contribute("a", 50_000.0).epoch == reading.ends + 2 * WEEK
    assert spent(client) == 2.0


def test_a_rate_above_the_reading_s_is_refused_until_the_epoch_ends(device, fake_time):
    with pytest.raises(PolicyRefused, match="in an epoch"):
        device(campaign("dear", 1.5))
    client = device(campaign("a"))
    client.contribute("a", 50_000.0)
    (reading,) = readings(client)
    raised = limit(epoch=Epoch(privacy=dollars(2.0), length=YEAR))
    client = device(campaign("a"), campaign("dear", 1.5, period=WEEK), of=raised)
    with pytest.raises(PolicyRefused, match="until"):
        client.contribute("dear", 50_000.0)
    fake_time.date = reading.ends
    assert client.contribute("dear", 50_000.0).privacy == dollars(2.0)
    assert spent(client) == 3.0


def test_places_and_planes_have_readings_of_their_own(fake_time):
    """A point is never taken for one of another plane: two areas are read twice, and charged."""
    metres = GeoPrivacy(1.0, 500.0, "metre")
    planes = [AzimuthalEquidistant(2.35, 48.86, radius) for radius in (20_000.0, 30_000.0)]
    asked = [
        campaign(
            f"place-{i}",
            privacy=metres,
            mechanism=PlanarLaplaceSpec(2),
            attribute=Attribute(name="home", unit="metre", coordinates=plane),
        )
        for i, plane in enumerate([planes[0], planes[0], planes[1]])
    ]
    of = Limit(
        campaign=metres,
        lifetime=metres.repeated(2),
        epoch=Epoch(privacy=metres, length=YEAR),
        value=Place(Area(longitude_deg=2.35, latitude_deg=48.86, radius_m=40_000)),
    )
    client = client_of(asked, of, fake_time)
    told = [client.contribute(c.campaign_id, (2.3, 48.9)).perturbed for c in asked]
    assert told[0] == told[1] != told[2]
    assert [budget.spent for budget in client.budgets()] == [2.0]
    client.close(0)


def test_a_value_of_another_kind_is_refused_and_nothing_is_kept(device):
    client = device(campaign("a"))
    with pytest.raises(PrivateValueError):
        client.contribute("a", (1.0, 2.0))
    assert readings(client) == client.history() == ()


@pytest.mark.parametrize("table", ["reading", "campaign_point"])
@pytest.mark.parametrize("change", ["DELETE FROM {}", "UPDATE {} SET checksum = 1"])
def test_a_reading_that_is_missing_or_changed_is_damage(fake_time, tmp_path, table, change):
    client = client_of([campaign("a")], None, fake_time, state_dir=tmp_path / "state")
    client.contribute("a", 50_000.0)
    client.close(0)
    with sqlite3.connect(tmp_path / "state" / FILE_NAME) as connection:
        connection.execute(change.format(table))
    connection.close()
    with pytest.raises(JournalError):
        client_of([campaign("a")], None, fake_time, state_dir=tmp_path / "state")


NAMES = [f"campaign-{i}" for i in range(6)]
MORTAL = Policy({"income": Limit(campaign=dollars(1.0), lifetime=dollars(1.0), epoch=Epoch(
    privacy=dollars(1.0), length=36_500 * timedelta(days=1)))})  # fmt: skip
"""One reading is all that the limit has room for, and its epoch does not end here."""


def open_now(name: str) -> ValueCampaign:
    now = datetime.now(UTC)
    epsilon = 1.0 if NAMES.index(name) % 2 else 0.5
    return campaign(name, epsilon, opens=now - WEEK, closes=now + WEEK)


def take_part(transport: WireTransport, state: Path, seed: int = 0) -> Any:
    """Answer everything, and return what the device believes."""
    with Client(
        policy=MORTAL, state_dir=state, transport=transport, timing=unhurried(), release_floor_s=0
    ) as client:
        for name in shuffled(seed, NAMES):
            client.fetch(name)
            client.contribute(name, 1000.0 * seed)
        client.flush(5.0)
        return client.history(), client.budgets(), len(readings(client))


def check_one_reading(lab: Lab, history: tuple[Receipt, ...], budgets: Any, count: int) -> None:
    """Fail unless all reports that were ever sent are from one reading, and it was paid for."""
    assert count == 1
    assert [Fraction(budget.spent) for budget in budgets] == [1]
    assert {receipt.campaign_id for receipt in history} == set(NAMES)
    assert len({receipt.epoch for receipt in history}) == 1
    fine = {number(r) for r in history if int(r.campaign_id[-1]) % 2}
    assert len(fine) == 1
    for name in NAMES:
        (counted,) = lab.collector.reports(name)
        assert lab.seen[name, 0] == {counted.SerializeToString(deterministic=True)}


@pytest.mark.deep
@pytest.mark.parametrize("stride", [61, pytest.param(3, marks=pytest.mark.deep)])
def test_a_device_killed_at_any_point_reads_its_value_once(stride, tmp_path):
    def lives(point: int) -> bool:
        lab = Lab(InMemoryCollector([open_now(name) for name in NAMES]))
        state = tmp_path / str(point)
        (first,) = lab.run(lambda wire: take_part(wire, state, 1), kill_at=point)
        (last,) = lab.run(lambda wire: take_part(wire, state, 2))
        check_one_reading(lab, *last.returned())
        return first.killed

    assert len(list(every_point(lives, stride))) >= 3


@pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.deep)])
def test_two_processes_with_eight_threads_each_read_once(tmp_path, times):
    def crowd(transport: WireTransport, state: Path) -> Any:
        with Client(
            policy=MORTAL, state_dir=state, transport=transport, release_floor_s=0
        ) as client:

            def life(seed: int) -> None:
                for name in shuffled(seed + 8 * os.getpid(), NAMES):
                    client.fetch(name)
                    client.contribute(name, 1000.0 * seed)

            in_threads(8, life)
            client.flush(10.0)
            return client.history(), client.budgets(), len(readings(client))

    for attempt in range(times):
        lab = Lab(InMemoryCollector([open_now(name) for name in NAMES]))
        state = tmp_path / str(attempt)
        for ended in lab.run(lambda wire, state=state: crowd(wire, state), processes=2):
            assert ended.returned()[2] == 1
        (last,) = lab.run(lambda wire, state=state: take_part(wire, state))
        check_one_reading(lab, *last.returned())


@pytest.mark.deep
def test_neither_a_directory_nor_a_million_reports_tell_more_than_a_reading(fake_time, tmp_path):
    """80 devices, half at $50,000 and half at $58,000, 1/ε apart: any guess which of the two is
    right in a share of at most 1/(1 + e⁻¹) = 73.1 %; 75 of 80 have a probability below 1e-5.

    The attacker has the device's directory, and 12,500 reports of campaigns at other rates, 10⁶ in
    all. It guesses by the reading, by all reports weighted as they are precise, by their median and
    by the number that is told most often. The control: the same reports with noise of their own,
    whose mean is right for all 80. And no file has a value's bytes.
    """
    rng = np.random.default_rng(8)
    rates = rng.uniform(0.25, 1.0, 12_500)
    right = dict.fromkeys(["reading", "mean", "median", "mode", "own noise"], 0)
    fine = PlanarLaplace(dollars(1.0), 1)
    coarsenings = [
        Coarsening(fine, PlanarLaplace(dollars(rate), 1)) for rate in np.linspace(0.25, 0.95, 8)
    ]
    scales = 8_000.0 / np.array([c.coarser.privacy.epsilon for c in coarsenings])
    for i in range(80):
        truth = 50_000.0 + 8_000.0 * (i % 2)
        state = tmp_path / str(i)
        asked = [campaign(f"c{j}", 1.0 / (1 + j)) for j in range(3)]
        client = client_of(asked, None, fake_time, state_dir=state)
        for c in asked:
            client.contribute(c.campaign_id, truth)
        client.close(0)
        with sqlite3.connect(state / FILE_NAME) as stolen:
            ((kept,),) = stolen.execute("SELECT point FROM reading").fetchall()
        stolen.close()
        point = int(kept) * asked[0].point_mechanism.step
        told = np.array([c.simulate(np.full(len(rates) // 8, point), rng) for c in coarsenings])
        told = told.reshape(len(coarsenings), -1)
        values, counts = np.unique(told, return_counts=True)
        own = truth + scales[:, None] * rng.laplace(size=told.shape)
        weights = np.repeat(scales**-2.0, told.shape[1])
        guesses = {
            "reading": point,
            "mean": np.average(told.ravel(), weights=weights),
            "median": np.median(told),
            "mode": values[counts.argmax()],
            "own noise": np.average(own.ravel(), weights=weights),
        }
        for name, guess in guesses.items():
            right[name] += (guess > 54_000.0) == (i % 2 == 1)
        for file in state.iterdir():
            content = file.read_bytes()
            assert struct.pack(">d", truth) not in content
            assert struct.pack("<d", truth) not in content
            assert repr(truth).encode() not in content
    assert right.pop("own noise") == 80
    assert max(right.values()) < 75, right


@pytest.mark.parametrize("before", [True, False], ids=["read before", "not read before"])
def test_a_process_that_forks_reads_once(tmp_path, before):
    """The parent and its child answer others' campaigns at once, from one reading."""
    asked = [open_now(name) for name in NAMES]
    with Client(
        policy=MORTAL,
        state_dir=tmp_path / "state",
        transport=InMemoryTransport(InMemoryCollector(asked)),
        release_floor_s=0,
        background=False,
    ) as client:
        for name in NAMES:
            client.fetch(name)
        if before:
            client.contribute(NAMES[1], 50_000.0)
        child = os.fork()
        for name in NAMES[:4] if child else NAMES[2:]:
            client.contribute(name, 50_000.0 if child else 70_000.0)
        if not child:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        fine = {number(r) for r in client.history() if int(r.campaign_id[-1]) % 2}
        assert len(client.history()) == len(NAMES)
        assert len(fine) == len(readings(client)) == 1
        assert spent(client) == 1.0


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: Epoch(privacy=GeoPrivacy(1.0, 8000.0), length=YEAR), "privacy"),
        (lambda: Epoch(privacy=dollars(1.0), length=timedelta(0)), "length"),
        (lambda: limit(most=0.5), "epoch.privacy"),
        (lambda: limit(epoch=YEAR), "epoch"),
        (
            lambda: limit(epoch=Epoch(privacy=GeoPrivacy(1.0, 8000.0, "euro"), length=YEAR)),
            "units of the limits",
        ),
        (lambda: limit(value=Point(4)), "value"),
        (lambda: finest(dollars(1.1)), "finest"),
        (lambda: finest(GeoPrivacy(0.5, 8000.0, "euro")), "finest"),
    ],
)
def test_an_epoch_out_of_range_is_refused(call, name):
    with pytest.raises(ParameterError) as caught:
        call()
    assert caught.value.name == name
    assert finest(dollars(1.0)).most == dollars(1.0)
    assert limit(value=Point(3)).value == Point(3)


def question(name: str, epsilon: float = 1.0, **changes: Any) -> StatisticCampaign:
    soft = partial(Threshold, width=32_000, profile="smoothstep")
    fields: dict[str, Any] = {
        "campaign_id": name,
        "title": name,
        "attribute": INCOME,
        "privacy": dollars(epsilon),
        "questions": (
            Question("above 50", soft(50_000)),
            Question("near 40", GaussianKernel(40_000.0, 20_000.0)),
            Question("between", Range(20_000, 80_000, 32_000, "smoothstep")),
        ),
        "allocation": Allocation.REPEAT,
        "opens": OPENS,
        "closes": OPENS + 10 * YEAR,
    }
    return StatisticCampaign(**(fields | changes))


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


def extrapolated(name: str, **changes: Any) -> StatisticCampaign:
    return question(name, period=WEEK, readings=Readings(every=YEAR, extrapolated=True), **changes)


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


def test_a_campaign_that_asks_for_readings_has_its_own(device, fake_time):
    """Without an epoch in the policy: nobody else's answers depend on how coarse they are."""
    asked = [campaign(n, e, readings=Readings(every=YEAR), period=WEEK)
             for n, e in (("a", 0.25), ("b", 1.0))]  # fmt: skip
    client = device(*asked, of=limit(epoch=None))
    for _ in range(2):
        for c in asked:
            client.contribute(c.campaign_id, 50_000.0)
        fake_time.date += timedelta(seconds=1)
    assert spent(client) == 1.25
    assert asked[0].total_privacy == dollars(0.25).repeated(12)


def test_where_links_matter_every_campaign_has_a_coarser_point(device):
    """Epoch(finest=...): the dearest has half the rate of the reading, which is charged."""
    of = limit(epoch=Epoch(privacy=dollars(1.0), length=YEAR, finest=dollars(0.5)))
    with pytest.raises(PolicyRefused, match="in an epoch"):
        device(campaign("dear", 0.6), of=of)


@pytest.mark.deep(keep=0)
def test_a_coarser_point_is_seldom_another_s():
    """Two campaigns see one point with the probability 1/16; the control, that share of 200."""
    of = limit(epoch=Epoch(privacy=dollars(1.0), length=YEAR, finest=dollars(0.5)))
    alike = 0
    for _ in range(200):
        client = client_of([campaign("a", 0.5), campaign("b", 0.5)], of, FakeTime())
        a, b = (number(client.contribute(name, 9.0)) for name in "ab")
        alike += a == b
        assert spent(client) == 1.0
        client.close(0)
    assert 0 < alike < 40  # binomial(200, 1/16): outside with a probability below 1e-5


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


def of_cohorts(length: timedelta, cohorts: int) -> StatisticCampaign:
    """Return a campaign that asks in which of so many parts of an epoch a device's begin."""
    return question(
        f"parts-{length.days}-{cohorts}",
        period=WEEK,
        readings=Readings(every=length, cohorts=cohorts),
    )


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
    assert by_points < 0.002
    assert with_policy(0) == by_points
    spread = 4.9 * (13 * by_points / n) ** 0.5
    assert by_points < with_policy(13) < 13 * by_points + spread
    sent = []
    for hours in (52 * 168, 137, 3, 1):
        length = timedelta(hours=hours)
        sent.append(np.array([64 * ((at - OPENS) % length) // length for at in begins]))
    assert linked(first, second, sent, np.random.default_rng(9)) > 0.9


@pytest.mark.deep
def test_no_schedule_spends_more_on_readings_than_people_are_told(fake_time):
    """40 devices with clocks that jump, 40 times each: the readings in any 91 days cost at most
    what both sentences say, two of them, and in all at most what the campaign says of its dates.

    Control: once what one reading costs, as they said before, is exceeded by most.
    """
    quarter = 13 * WEEK
    rng, once, length = np.random.default_rng(4), 0, 40 * WEEK
    epoch = Epoch(privacy=dollars(1.0), length=quarter)
    asked = campaign("a", period=WEEK, readings=Readings(every=quarter), closes=OPENS + length)
    assert f"their readings cost at most {dollars(2.0)} (" in str(epoch)
    assert "any 91 days touch two of them" in str(asked.readings)
    for own in (True, False) * 20:
        of = limit(epoch=None if own else epoch)
        client = client_of([asked], of, fake_time, background=False)
        for days in rng.integers(0, length.days, 40).tolist():
            fake_time.date = OPENS + timedelta(days=days, seconds=1)
            client.contribute("a", 50_000.0)
        space = "Number() for a" if own else "Number()"
        drawn = [r.drawn for r in client._session.journal.readings("income", "dollar", space)]
        most = max(sum(at <= one < at + quarter for one in drawn) for at in drawn)
        assert most <= 2
        assert spent(client) == len(drawn) <= asked.total_privacy.epsilon
        once += most > 1
        client.close(0)
    assert once > 20


def test_people_are_told_that_each_least_value_of_ratios_has_its_own_readings(fake_time):
    """Values are read just before the end of a stretch, and a day later. Control: all floors
    together cost more than the sentence says of one."""
    price = GeoPrivacy.per_factor(1.0, 2.0, "dollar")
    epoch = Epoch(privacy=price, length=YEAR)
    asked = [
        campaign(
            f"from-{floor}",
            attribute=Attribute(name="income", unit=price.unit, scale=LogScale(float(floor))),
            privacy=price,
            period=timedelta(hours=1),
            closes=OPENS + 3 * YEAR,
        )
        for floor in (1, 10, 100)
    ]
    of = Limit(campaign=price.repeated(9), epoch=epoch)
    client = client_of(asked, of, fake_time, background=False)
    for one in asked:
        fake_time.date = OPENS + WEEK
        began = client.contribute(one.campaign_id, 50_000.0).epoch
        assert began is not None
        for last in (began + 2 * YEAR - timedelta(hours=1), began + 2 * YEAR + WEEK):
            fake_time.date = last
            client.contribute(one.campaign_id, 50_000.0)
    journal = client._session.journal
    for floor in (1.0, 10.0, 100.0):
        read = journal.readings("income", price.unit, f"Number() on {LogScale(floor)}")
        assert len(read) == 3
        assert read[2].drawn - read[1].drawn < YEAR, "two in a stretch"
    stated = re.findall(r"ε = (\S+) per", str(epoch))
    assert float(stated[-1]) == 2.0
    assert spent(client) == 9.0
    assert "separately for each area of places, least value of ratios" in str(epoch)
    client.close(0)


@pytest.mark.parametrize(
    "length",
    [
        timedelta(days=364.9996),
        timedelta(days=99.99996),
        timedelta(days=1 / 3),
        timedelta(days=7, seconds=1e-6),
        timedelta(minutes=1),
    ],
)
def test_what_people_are_told_of_any_stretch_holds_of_one_so_long(length):
    """A reading at the end of a stretch and one where the next but one begins are just more than a
    length apart: told as longer, "any 365 days" would hold three. And ε is not rounded down."""
    paid = dollars(0.1234564999)
    told = str(Epoch(privacy=paid, length=length)), str(Readings(every=max(length, WEEK)))
    for sentence, of in zip(told, (length, max(length, WEEK)), strict=True):
        match = re.search(r"any (\S+) (days )?touch two", sentence)
        assert match is not None
        if match[2]:
            assert of * (1 - 1e-5) <= float(match[1]) * timedelta(days=1) <= of
        else:
            assert match[1] == str(of)
    stated = re.findall(r"ε = (\S+) per", told[0])
    assert [float(x) for x in stated] == [paid.epsilon, 2 * paid.epsilon]
