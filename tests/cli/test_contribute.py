"""`contribute`, and `client` after it: what people type, are told, send and keep."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from geoveil.analyst import Analyst
from geoveil.cli.connection import CommandError
from geoveil.cli.numbers import Separators, parse, read, spelled
from geoveil.client import (
    Client,
    Epoch,
    GrpcTransport,
    InMemoryCollector,
    InMemoryTransport,
    Limit,
    Policy,
    Timing,
)
from geoveil.gp import Cap, GeoPrivacy, ParameterError, PrivateValueError
from tests.campaigns import above_100k, perturbed_incomes
from tests.client.conftest import RecordingSource
from tools.vectors.examples import small_campaign

from .conftest import ABOVE, INCOME, PLACE

PRIVACY = GeoPrivacy(0.5, 8_000, "dollar")
SECRET = 87_654.25
TICK = timedelta(microseconds=1)
VECTORS = Path(__file__).parents[2] / "proto" / "vectors" / "numbers.json"
ITEMS = json.loads(VECTORS.read_text())["numbers"]


@pytest.mark.deep
def test_a_threshold_from_creation_to_estimate(create, geoveil, record, words, tmp_path):
    created = create("Income above 100k", *ABOVE)
    assert created.exit_code == 0
    assert "income-above-100k" in created.output
    assert "ε = 1 per 8000 dollar" in created.output

    for person, value in enumerate(["250000", "250000", "1000"]):
        state = ("--state-dir", tmp_path / str(person))
        arguments = ("contribute", "income-above-100k", "--yes", *state)
        first = geoveil(*arguments, stdin=value)
        assert first.exit_code == 0
        assert "counted" in first.output
        assert value not in first.output
        again = geoveil(*arguments, stdin="7")  # one draw per campaign
        told = "already answered; nothing was drawn, and the value given now has no effect\n"
        assert again.stdout == told + first.stdout
        assert again.stderr == first.stderr

    asked = ("estimate", "income-above-100k")
    shown = record(*asked)
    (row,) = shown["estimates"]
    assert row["n"] == 3
    assert (row["epsilon"], row["per"], row["unit"]) == (1.0, 8000.0, "dollar")
    assert row["ci_low"] < row["estimate"] < row["ci_high"]
    assert row["interval"]["method"] == "sequence"
    table = words(*asked)
    assert f"95 % interval for all looks: it {row['interval']['promise']}." in table
    least = row["price_of_privacy"]["variance_ratio_at_least"]
    assert f"Price of privacy: at least {least:.3g} × the variance" in table
    assert "bounded by what the mechanism's noise can be" in table
    other = record(*asked, "--interval", "full-ends")
    assert other["estimates"][0]["interval"]["method"] == "full-ends"

    assert "3" in geoveil("campaign", "list").output
    assert geoveil("campaign", "close", "income-above-100k").exit_code == 0
    assert "closed" in geoveil("campaign", "list").output
    again = record(*asked)
    assert shown.pop("notes") != again["notes"]  # what is said of looks, before and after
    assert any("closed by hand before its date" in note for note in again.pop("notes"))
    assert again == shown


def test_places_split_over_all_queries(create, answer, record, words):
    places = ("--place", "Times Square=-73.9855,40.7580", "--place", "-73.9176,40.8164")
    create("Where people are", *PLACE, *places, "--allocation", "split", "--id", "squares")
    sent = answer("squares", "-73.9431,40.7519")
    assert "Times Square" in sent.output
    assert not any(digits in sent.output for digits in ("9431", "7519"))  # of the place
    estimates = record("estimate", "squares")["estimates"]
    assert [row["n"] for row in estimates] == [1, 1]
    assert [row["standard_error"] for row in estimates] == [None, None]
    assert "need two answers" in words("estimate", "squares")


def test_declining_sends_nothing(create, geoveil, tmp_path):
    create("Declined", *ABOVE)
    contribute = ("contribute", "declined", "--state-dir", tmp_path / "state")
    assert geoveil(*contribute, stdin="n\n").exit_code == 1
    with pytest.raises(CommandError, match="--yes"):  # nobody is at a terminal
        geoveil(*contribute, stdin="12000\n")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("text", "dimension", "numbers"),
    [
        *((text, 1, [1e5]) for text in ("100,000", "100 000")),
        ("-12,500", 1, [-12_500.0]),
        ("1.000.000", 1, [1e6]),
        ("5.", 1, [5.0]),
        *((text, 1, None) for text in ("1,5", "12,34,567", "100.000", "5 euros", "1__000")),
        ("-73.98, 40.75", 2, [-73.98, 40.75]),
        ("100,250", 2, [100.0, 250.0]),
        *((text, 2, None) for text in ("100,000", "1", "1,2,3", "1;2", "a,b", "1,000,2")),
    ],
)
def test_numbers_are_read_and_what_might_be_another_is_not(text, dimension, numbers):
    assert parse(text, dimension) == numbers


def locales():
    """Return how numbers are written where."""
    return {
        item["locale"]: Separators(item["decimal"], item["group"], item["indian"])
        for item in ITEMS
        if "locale" in item
    }


def test_forty_inputs_in_nine_locales():
    typed = [item for item in ITEMS if "text" in item]
    assert len(typed) >= 40
    assert len(locales()) >= 8
    for item in typed:
        for locale, written in locales().items():
            sure = locale in item["sure"]
            expected = item["numbers"][-1:] if sure else item["numbers"]
            assert read(item["text"], written, "dollar") == (expected, sure), (item, locale)


def test_what_a_locale_writes_is_read_there_and_nowhere_as_another_number():
    """Numbers by chance, written as each locale does, and read in each: right, or asked about.

    With three decimals and thousands, 1,234 is one number here and another there: between locales
    only numbers without three decimals are compared.
    """
    draw = Random(5)
    places = locales()
    asked = 0
    for _ in range(200):
        whole, decimals = draw.randrange(10 ** draw.randint(1, 9)), draw.choice([0, 0, 1, 2, 4])
        part = "".join(draw.choices("0123456789", k=decimals))
        meant = float(f"{whole}.{part or 0}")
        for home in places.values():
            text = written_as(whole, part, home)
            for away in places.values():
                numbers, sure = read(text, away)
                assert meant in numbers, (text, away)
                assert sure <= (numbers == [meant]), (text, home, away)
                asked += not sure
                if home == away:
                    doubtful = len(part) == 3 or (not part and home.group in ".," and sure is False)
                    assert sure or doubtful, (text, home)
    assert asked > 100  # a reader that trusts whatever it sees would have been wrong that often


def written_as(whole, part, home):
    text = str(whole)
    sizes = [3] + ([2] * 9 if home.indian else [3] * 9)
    groups = []
    for size in sizes:
        if text:
            groups.append(text[-size:])
            text = text[:-size]
    return home.group.join(reversed(groups)) + (home.decimal + part if part else "")


def test_numbers_are_spelled():
    told = [item for item in ITEMS if "spelled" in item]
    assert len(told) >= 10
    for item in told:
        assert spelled(item["number"]) == item["spelled"]


def test_thousands_are_taken_and_what_is_no_number_is_refused_unseen(
    create, answer, geoveil, record, tmp_path
):
    create("Typed", *ABOVE)
    for text in ("100,000", "100 000"):
        assert answer("typed", text).exit_code == 0
    for text in ("31415,2", "31415 euros", "31.415", "secret-31415"):
        with pytest.raises(PrivateValueError, match="commas stand between thousands") as raised:
            answer("typed", text)
        assert "31415" not in str(raised.value)
        assert raised.value.__context__ is None
    contribute = ("contribute", "typed", "--yes", "--state-dir", tmp_path / "x")
    for content in (b"31415\xff\n", b"nan", b"inf", b""):  # the first is no text
        with pytest.raises(PrivateValueError) as raised:
            geoveil(*contribute, stdin=content)
        assert raised.value.__context__ is None
    assert record("estimate", "typed")["estimates"][0]["n"] == 2


def test_the_area_is_said_before_a_place_is_given_and_one_outside_is_asked_about(
    create, answer, geoveil, tmp_path
):
    create("In an area", *PLACE, "--place", "13.4,52.5", "--radius", "20000")
    contribute = ("contribute", "in-an-area", "--yes", "--state-dir", tmp_path)
    with pytest.raises(CommandError, match="nothing was drawn: a line 'y' says so") as raised:
        geoveil(*contribute, stdin="52.51,13.41")
    assert "52.51" not in str(raised.value)
    assert geoveil(*contribute, stdin="52.51,13.41\nn\n").exit_code == 1
    for place in ("13.41,52.51", "-70.6,-33.4\ny"):
        done = answer("in-an-area", place)
        assert "Area: within 20,000 metre of 13.4,52.5. Before anything is drawn" in done.stderr
        assert done.stdout.count("counted: report") == 1
        assert "70.6" not in done.output


def test_a_number_that_is_likely_a_slip_is_asked_about_and_shown_to_no_file(
    create, geoveil, tmp_path
):
    """-5 and 999,999,999,999 as household incomes: drawn for only where somebody says yes."""
    create("Slips", *ABOVE)
    for number, text in enumerate(["-5", "\u22125", "999999999999", "1,000,001", "$-5", "2000k"]):
        contribute = ("contribute", "slips", "--yes", "--state-dir", tmp_path / str(number))
        with pytest.raises(CommandError, match="nothing was drawn") as raised:
            geoveil(*contribute, stdin=text)
        refused = geoveil(*contribute, stdin=f"{text}\nn")
        assert refused.exit_code == 1
        assert "counted" not in refused.output
        assert text not in refused.stderr.partition("likely a slip")[2] + str(raised.value)
        assert "counted: report" in geoveil(*contribute, stdin=f"{text}\ny").stdout


def test_a_number_beyond_the_range_of_the_campaign_is_asked_about(create, answer, record, words):
    """52, which is 52.000 of somewhere else, as a household income; and it is taken if meant."""
    create("Stated", *ABOVE, "--least", "1000", "--most", "10000000")
    expected = "at least 1,000 and at most 10,000,000"
    shown = words("campaign", "show", "stated")
    assert f"devices ask about a value that is not {expected} dollar" in shown
    found = record("campaign", "show", "stated")
    assert (found["least"], found["most"]) == (1000, 10_000_000)
    for text in ("52", "999.99", "10000001"):
        with pytest.raises(CommandError, match="nothing was drawn"):
            answer("stated", text)
        assert "counted: report" in answer("stated", f"{text}\ny").stdout
    told = answer("stated", "1000")
    assert f"Given in: dollar, {expected}" in told.stderr
    assert "counted: report" in told.stdout


def test_places_and_points_say_how_they_are_typed(create, answer):
    create("Typed places", *PLACE, "--place", "-73.98,40.75")
    create("Typed points", *INCOME, "--per", "5", "--points", "--dimension", "2")
    for name, told in (("typed-places", "like -73.98,40.75"), ("typed-points", "like 1500,0.5")):
        with pytest.raises(PrivateValueError, match=told):
            answer(name, "100,000")


@pytest.fixture
def contributed(tmp_path):
    """Let a device answer campaigns of a collector in memory; return its folder and receipts."""

    def run(campaigns, limit, *, flush_after):
        transport = InMemoryTransport(InMemoryCollector(campaigns))
        with Client(
            policy=Policy({"household income": limit}),
            state_dir=tmp_path / "state",
            transport=transport,
            background=False,
        ) as client:
            for number, campaign in enumerate(campaigns):
                client.fetch(campaign.campaign_id)
                client.contribute(campaign.campaign_id, SECRET)
                if number == flush_after:
                    client.flush()
            receipts = client.history()
            client.close(0.0)
        return tmp_path / "state", receipts

    return run


LIFETIME = Limit(campaign=PRIVACY, lifetime="unbounded")


@pytest.fixture
def state(contributed):
    """The state of a device with two reports, of which one was sent."""
    asked = [above_100k(name, privacy=PRIVACY, cap=Cap(2.0, 2.0)) for name in ("first", "second")]
    return contributed(asked, LIFETIME, flush_after=0)


def test_history_shows_what_left_what_it_cost_and_what_waits_and_changes_nothing(geoveil, state):
    directory, receipts = state
    history = ("client", "history", "--state-dir", directory)
    shown = geoveil(*history, to_server=False).output
    for receipt in receipts:
        assert receipt.campaign_id in shown
        assert f"{receipt.perturbed[0]:.6g}" in shown
    assert "1 acknowledged, 1 pending" in shown
    # Two reports of 0.5 each.
    told = "spent on 'household income' in all: ε = 1 per 8000 dollar, any two values 2,981 to 1"
    assert told in " ".join(shown.split())
    assert [receipt.any_two for receipt in receipts] == [4.0, 4.0]
    assert "87654" not in shown
    found = [
        json.loads(line)
        for line in geoveil(*history, "--json", to_server=False).output.splitlines()
    ]
    assert [(f["report_id"], f["status"], f["sent"] is None) for f in found] == [
        (r.report_id, r.status.name.lower(), r.sent is None) for r in receipts
    ]
    assert [f["perturbed"][0]["value"] for f in found] == [r.perturbed[0] for r in receipts]
    with Client(
        policy=Policy({"household income": LIFETIME}),
        state_dir=directory,
        transport=InMemoryTransport(InMemoryCollector()),
        background=False,
    ) as client:
        assert client.history() == receipts
        client.close(0.0)


def test_what_is_from_one_reading_is_said_in_a_sentence_and_added_up_once(words, contributed):
    asked = [perturbed_incomes(name, privacy=PRIVACY) for name in ("first", "second", "third")]
    once = Epoch(privacy=PRIVACY, length=timedelta(days=36_500))
    limit = Limit(campaign=PRIVACY, epoch=once)
    directory, receipts = contributed(asked, limit, flush_after=None)
    (epoch,) = {receipt.epoch for receipt in receipts}
    shown = words("client", "history", "--state-dir", directory, to_server=False)
    sentence = (
        f"3 answers tell of the reading of 'household income' in the epoch from {epoch:%Y-%m-%d}"
        " on: it cost ε = 0.5 per 8000 dollar, once"
    )
    assert sentence in shown
    assert "spent on 'household income' in all: ε = 0.5 per 8000 dollar" in shown


def test_a_device_that_never_took_part_has_no_history_and_sends_nothing(
    geoveil, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert "0 acknowledged" in geoveil("client", "history", to_server=False).output
    assert "nothing waits" in geoveil("client", "send").output
    assert not (tmp_path / "geoveil").exists()
    for command, name in (("history", "nosuch"), ("history", "."), ("send", "nosuch")):
        with pytest.raises(ParameterError, match="--state-dir must be the state directory of"):
            geoveil("client", command, "--state-dir", tmp_path / name, to_server=command == "send")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ParameterError, match="wait must be a whole number above 0"):
        geoveil("client", "send", "--wait", "3")


def test_the_command_says_when_a_report_leaves(create, answer, record, words, tmp_path):
    create("later", *ABOVE, "--days", "3", "--window", "2d")
    left = "reports leave at random times in the last 2 days of the campaign, and answers are taken"
    assert left in words("campaign", "show", "later")
    assert record("campaign", "show", "later")["window_s"] == 2 * 86_400
    result = answer("later", "87500")
    assert result.exit_code == 0
    shown = " ".join(result.output.split())
    assert "The report leaves at a random time in the last 2 days of the survey." in shown
    assert "kept: report" in shown
    assert "'geoveil client send' sends it then" in shown
    state = ("--state-dir", tmp_path / "device0")
    sent = words("client", "send", *state)
    assert "0 acknowledged, 1 pending" in sent
    assert "later: it leaves at 20" in sent
    assert "it leaves at" in words("client", "history", *state, to_server=False)


def test_send_sends_what_may_leave(geoveil, server, tmp_path):
    now, hour = datetime.now(UTC), timedelta(hours=1)
    # Of the first the window is nearly over, of the other it has just begun.
    begun = {"opens": now - 40 * hour, "closes": now + hour / 30, "window": 40 * hour}
    late = {"opens": now - hour, "closes": now + 72 * hour, "window": 71 * hour}
    asked = [small_campaign("window-begun", **begun), small_campaign("window-late", **late)]
    with Analyst(server) as analyst:
        for campaign in asked:
            analyst.create(campaign)
    transport = GrpcTransport(server)
    state = tmp_path / "state"
    for campaign in asked:
        timing = Timing(now=lambda of=campaign: of.opens + TICK)
        with Client(
            policy=Policy.permitting(campaign), state_dir=state, transport=transport,
            source=RecordingSource(5), timing=timing, background=False,
        ) as client:  # fmt: skip
            client.fetch(campaign.campaign_id)
            client.contribute(campaign.campaign_id, 87_500.0)
            client.close(0)
    transport.close()
    sent = geoveil("client", "send", "--state-dir", state, "--wait", "1m")
    assert sent.exit_code == 0
    assert "1 acknowledged, 1 pending" in sent.output
    assert "window-late: it leaves at" in " ".join(sent.output.split())


@pytest.mark.deep(keep=0, rest=1)
@pytest.mark.parametrize("points", [False, True])
def test_a_campaign_by_ratio_from_its_plan_to_its_estimate(
    create, answer, geoveil, words, tmp_path, points
):
    """The plan says factors, its campaign has the scale, and points are asked what was planned."""
    plan = tmp_path / "plan.toml"
    printed = geoveil(
        *("plan", "--threshold", "100000", "--ratios-from", "1000", "--epsilon", "2", "--per", "2"),
        *("--prior", "lognormal:60000,0.8", "--unit", "dollar", "--participants", "50000"),
        *("--attribute", "household income", "--out", plan, "--figure", tmp_path / "plan.svg"),
        *(["--allocation", "points"] if points else []),
        to_server=False,
    ).output
    assert "half or twice as much (ε = 2)" in printed
    assert "a factor of 4 larger or smaller (ε = 4)" in printed
    assert "width of the band factor" in printed
    assert "ε = 2 per factor 2 in dollar" in printed
    name = "ratio-points" if points else "ratio-planned"
    created = create("By ratio", "--plan", plan, "--id", name).output
    assert f"{name}  ε = 2 per factor 2 in dollar" in created
    for value in ("0", "250000"):
        assert "half or twice as much" in answer(name, value).output
    asking = ["--plan", plan] if points else []
    assert "above 100,000" in geoveil("estimate", name, *asking).output


RATIO = (*INCOME, "--per", "2", "--ratios-from", "1000")


def test_a_campaign_by_ratio_says_factors(create, answer, geoveil, record, words, tmp_path):
    created = create("By ratio", *RATIO, "--threshold", "100000", "--width", "4")
    assert "by-ratio  ε = 1 per factor 2 in dollar" in created.output
    shown = geoveil("campaign", "show", "by-ratio").output
    assert "household income: ε = 1 per factor 2 in dollar" in shown
    assert "Less than 1,000 dollar counts as 1,000 dollar." in shown
    found = record("campaign", "show", "by-ratio")
    assert (found["unit"], found["floor"]) == ("log dollar", 1000.0)
    for person, value in enumerate(("0", "52,000", "250000")):
        answered = answer("by-ratio", value)
        assert "Given in: dollar" in answered.output
        assert "as for one half or twice as much." in answered.output
        assert "Less than 1,000 dollar counts as 1,000 dollar." in answered.output
        assert answered.output.count("counted: report") == 1
        state = ("--state-dir", tmp_path / f"device{person}")
        assert "per factor 2 in dollar" in words("client", "history", *state, to_server=False)
    estimate = words("estimate", "by-ratio")
    assert "above 100,000" in estimate
    assert "values below 1,000 dollar counted as that" in estimate


@pytest.mark.deep(keep=0, rest=1)
def test_points_by_ratio_are_asked_later(create, answer, geoveil, words):
    created = create("Logarithms", *RATIO, "--points")
    assert "each point is moved by a factor of 2, up or down, on average" in created.output
    for value in ("0", "52,000", "250000"):
        shown = answer("logarithms", value).output
        assert "within a factor of 8 of yours" in shown
        assert "logarithm of household income:" in shown
    assert "logarithm of household income" in geoveil("estimate", "logarithms").output
    for asked, shown in (
        (["--quantile", "0.5"], "over a factor of 8"),
        (["--geometric-mean"], "geometric mean"),
        (["--curve"], "over a factor of 8"),
        (["--threshold", "100000"], "above 100,000"),
        (["--range", "20000,90000", "--width", "4"], "20,000 to 90,000"),
        (["--histogram", "20000,90000"], "20,000 to 90,000"),
    ):
        assert shown in words("estimate", "logarithms", *asked)
    with pytest.raises(ParameterError, match="a mean of logarithms gives a geometric mean"):
        geoveil("estimate", "logarithms", "--mean")
    with pytest.raises(ParameterError, match="above 1,000"):
        geoveil("estimate", "logarithms", "--threshold", "900")
