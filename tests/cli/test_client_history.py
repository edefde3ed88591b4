"""Test geoveil client history, from the state directory alone."""

import json
from datetime import timedelta

import pytest

from geoveil.client import Client, Epoch, InMemoryCollector, InMemoryTransport, Limit, Policy
from geoveil.gp import Cap, GeoPrivacy, ParameterError
from tests.campaigns import above_100k, perturbed_incomes

PRIVACY = GeoPrivacy(0.5, 8_000, "dollar")
SECRET = 87_654.25


def income(campaign_id):
    return above_100k(campaign_id, privacy=PRIVACY, cap=Cap(2.0, 2.0))


@pytest.fixture
def state(tmp_path):
    """The state of a device with two reports, of which one was sent."""
    names = ("first", "second")
    asked = [income(name) for name in names]
    transport = InMemoryTransport(InMemoryCollector(asked))
    policy = Policy({"household income": Limit(campaign=PRIVACY, lifetime="unbounded")})
    directory = tmp_path / "state"
    with Client(
        policy=policy, state_dir=directory, transport=transport, background=False
    ) as client:
        for name in names:
            client.fetch(name)
        client.contribute("first", SECRET)
        client.flush()
        client.contribute("second", SECRET)
        receipts = client.history()
        client.close(0.0)
    return directory, receipts


def test_it_shows_what_left_what_it_cost_and_what_waits(geoveil, state):
    directory, receipts = state
    shown = geoveil("client", "history", "--state-dir", str(directory), to_server=False).output
    for receipt in receipts:
        assert receipt.campaign_id in shown
        assert f"{receipt.perturbed[0]:.6g}" in shown
    assert "acknowledged" in shown
    assert "1 acknowledged, 1 pending" in shown
    # Two reports of 0.5 each.
    words = "spent on 'household income' in all: ε = 1 per 8000 dollar, any two values 2,981 to 1"
    assert words in " ".join(shown.split())
    assert [receipt.any_two for receipt in receipts] == [4.0, 4.0]
    assert "87654" not in shown


def test_what_is_from_one_reading_is_said_in_a_sentence_and_added_up_once(geoveil, tmp_path):
    names = ("first", "second", "third")
    asked = [perturbed_incomes(name, privacy=PRIVACY) for name in names]
    once = Epoch(privacy=PRIVACY, length=timedelta(days=36_500))
    with Client(
        policy=Policy({"household income": Limit(campaign=PRIVACY, epoch=once)}),
        state_dir=tmp_path / "state",
        transport=InMemoryTransport(InMemoryCollector(asked)),
        background=False,
    ) as client:
        for name in names:
            client.fetch(name)
            client.contribute(name, SECRET)
        (epoch,) = {receipt.epoch for receipt in client.history()}
        client.close(0.0)
    arguments = ("client", "history", "--state-dir", str(tmp_path / "state"))
    shown = " ".join(geoveil(*arguments, to_server=False).output.split())
    sentence = (
        f"3 answered from one reading of 'household income', in the epoch from {epoch:%Y-%m-%d} on:"
        " together they cost at most ε = 0.5 per 8000 dollar"
    )
    assert sentence in shown
    assert "spent on 'household income' in all: ε = 0.5 per 8000 dollar" in shown


def test_it_looks_and_changes_nothing(geoveil, state):
    directory, receipts = state
    for _ in range(2):
        geoveil("client", "history", "--state-dir", str(directory), to_server=False)
    policy = Policy({"household income": Limit(campaign=PRIVACY, lifetime="unbounded")})
    nothing = InMemoryTransport(InMemoryCollector())
    with Client(policy=policy, state_dir=directory, transport=nothing, background=False) as client:
        assert client.history() == receipts
        client.close(0.0)


def test_json_has_one_object_per_report(geoveil, state):
    directory, receipts = state
    arguments = ("client", "history", "--state-dir", str(directory), "--json")
    lines = geoveil(*arguments, to_server=False).output.splitlines()
    found = [json.loads(line) for line in lines]
    assert [(f["report_id"], f["status"], f["sent"] is None) for f in found] == [
        (r.report_id, r.status.name.lower(), r.sent is None) for r in receipts
    ]
    assert [f["perturbed"][0]["value"] for f in found] == [r.perturbed[0] for r in receipts]


def test_a_device_that_never_took_part_has_no_history(geoveil, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    result = geoveil("client", "history", to_server=False)
    assert "0 acknowledged" in result.output
    assert not (tmp_path / "geoveil").exists()


@pytest.mark.parametrize("name", ["nosuch", "."])
def test_a_directory_of_no_device_is_an_error_and_stays_as_it_was(geoveil, tmp_path, name):
    with pytest.raises(ParameterError, match="--state-dir must be"):
        geoveil("client", "history", "--state-dir", str(tmp_path / name), to_server=False)
    assert list(tmp_path.iterdir()) == []
