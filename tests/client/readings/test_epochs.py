"""Test that one reading answers every value campaign of an epoch, and is paid once."""

import re
import sqlite3
from datetime import timedelta

import numpy as np
import pytest

from geoveil.campaign import Attribute, PlanarLaplaceSpec, Readings
from geoveil.client import (
    BudgetExceeded,
    Epoch,
    JournalError,
    Limit,
    ParameterError,
    Place,
    Point,
    PolicyRefused,
    PrivateValueError,
    Window,
)
from geoveil.client.journal import FILE_NAME
from geoveil.gp import GeoPrivacy, LogScale
from geoveil.gp.coordinates import Area, AzimuthalEquidistant
from tests.client.conftest import FakeTime, dollars
from tests.client.readings import (
    OPENS,
    WEEK,
    YEAR,
    campaign,
    client_of,
    finest,
    limit,
    number,
    readings,
    spent,
)


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
        match = re.search(r"any (\S+) days touch two", sentence)
        assert match is not None
        assert of * (1 - 1e-5) <= float(match[1]) * timedelta(days=1) <= of
    stated = re.findall(r"ε = (\S+) per", told[0])
    assert [float(x) for x in stated] == [paid.epsilon, 2 * paid.epsilon]
