"""A campaign whose participants answer every question with all of ε, from the command to the sums.

The devices are real clients on the network; what the server adds up is compared with what left
them, integer by integer.
"""

import json
from collections import Counter

import pytest

from geoveil.analyst import Analyst
from geoveil.campaign import Allocation
from geoveil.cli.console import out
from geoveil.client import Client, Limit, Policy, PolicyRefused
from geoveil.gp import GeoPrivacy

ASKED = [
    "--attribute", "household income", "--unit", "dollar", "--epsilon", "1", "--per", "8000",
    "--threshold", "60000", "--threshold", "100000", "--threshold", "140000",
    "--allocation", "repeat",
]  # fmt: skip
SUM = "ε = 3 per 8000 dollar: 3 answers of ε = 1 each"
VALUES = (52_000.0, 97_000.0, 155_000.0, 101_500.0)


def permits(epsilon):
    most = GeoPrivacy(epsilon, 8000, "dollar")
    return Policy({"household income": Limit(campaign=most, lifetime=most)})


def test_every_device_answers_everything_and_its_sum_is_charged(geoveil, server, tmp_path):
    created = geoveil("campaign", "create", "Three lines", *ASKED)
    assert SUM in created.output
    sent = Counter()
    squares = Counter()
    for number, value in enumerate(VALUES):
        state_dir = tmp_path / f"device-{number}"
        with Client(server, policy=permits(3), state_dir=state_dir, background=False) as client:
            campaign = client.fetch("three-lines")
            assert campaign.allocation is Allocation.REPEAT
            client.contribute("three-lines", value)
            assert client.flush().acknowledged == 1
            (receipt,) = client.history()
            assert str(receipt.privacy) == "ε = 3 per 8000 dollar"
            assert [budget.spent for budget in client.budgets()] == [3.0]
        assert [answer.query_index for answer in receipt.answers] == [0, 1, 2]
        for answer in receipt.answers:
            sent[answer.query_index] += answer.value
            squares[answer.query_index] += answer.value**2
    with Analyst(server) as analyst:
        shown = analyst.estimate("three-lines", 0.95)
    assert [e.sums for e in shown.estimates] == [(sent[q], squares[q]) for q in range(3)]
    assert [e.n for e in shown.estimates] == [len(VALUES)] * 3
    assert (shown.privacy.epsilon, shown.privacy_at_most.epsilon) == (3.0, 3.0)
    assert shown.unbiased_for == ("Unbiased for the mean of the soft query over all who took part.")


@pytest.mark.parametrize("most", [1, 2.9])
def test_a_cap_below_the_sum_keeps_the_device_out(geoveil, server, most):
    geoveil("campaign", "create", "Too dear", *ASKED, "--id", f"too-dear-for-{int(most)}")
    with (
        Client(server, policy=permits(most), background=False) as client,
        pytest.raises(PolicyRefused, match="ε = 3 per 8000 dollar"),
    ):
        client.fetch(f"too-dear-for-{int(most)}")


def test_what_the_command_says_is_the_sum(geoveil, tmp_path, monkeypatch):
    monkeypatch.setattr(out, "width", 300)  # however long the names of the other campaigns are
    geoveil("campaign", "create", "Said", *ASKED, "--every", "7d")
    state = ["--state-dir", str(tmp_path / "person")]
    taken = geoveil("contribute", "said", "--yes", *state, stdin="97000")
    assert taken.exit_code == 0
    promise = "This report is at most 20.1 times as likely"
    assert f"Privacy: {SUM}, no protection of values far apart\n{promise}" in taken.stderr
    assert taken.stdout.count("perturbed") == 3
    assert "ε = 3 per 8000 dollar" in geoveil("client", "history", *state, to_server=False).output
    history = geoveil("client", "history", "--json", *state, to_server=False).output
    assert json.loads(history)["charges"][0]["epsilon"] == 3.0
    listed = " ".join(geoveil("campaign", "list").output.split())
    assert "ε = 3 per 8000" in listed
    shown = json.loads(geoveil("estimate", "said", "--json").output)
    assert [row["epsilon"] for row in shown["estimates"]] == [3.0] * 3
    assert shown["epsilon_at_most"] == 3.0
    table = geoveil("estimate", "said").output
    assert "ε = 3 per 8000 dollar, for each participant in each period" in table


def test_without_a_choice_everyone_answers_one(geoveil, server):
    geoveil("campaign", "create", "Unsaid", *ASKED[:-2])
    geoveil("campaign", "create", "Parted", *ASKED[:-1], "split")
    with Analyst(server) as analyst:
        found = {name: analyst.campaign(name) for name in ("unsaid", "parted")}
    assert {name: c.allocation.value for name, c in found.items()} == {
        "unsaid": "partition",
        "parted": "split",
    }
    assert [c.report_privacy.epsilon for c in found.values()] == [1.0, 1.0]


def test_an_allocation_that_does_not_exist_is_refused(geoveil):
    refused = geoveil("campaign", "create", "Nothing", *ASKED[:-1], "twice")
    assert refused.exit_code == 2
    assert "partition" in refused.output
    assert "repeat" in refused.output
