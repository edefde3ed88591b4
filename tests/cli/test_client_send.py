"""Test a campaign with a window by command: announced, stored, and sent at its time."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from geoveil.analyst import Analyst
from geoveil.client import Client, GrpcTransport, Policy, Timing
from geoveil.gp import ParameterError
from tests.client.conftest import RecordingSource
from tools.vectors.examples import small_campaign

INCOME = (
    "--attribute", "income", "--unit", "dollar", "--epsilon", "1", "--per", "8000",
    "--threshold", "100000",
)  # fmt: skip
TICK = timedelta(microseconds=1)


def flat(result):
    return " ".join(result.output.split())


def test_the_command_says_when_a_report_leaves(geoveil, tmp_path):
    geoveil("campaign", "create", "later", *INCOME, "--days", "3", "--window", "2d")
    shown = flat(geoveil("campaign", "show", "later"))
    left = "reports leave at random times in the last 2 days of the campaign, and answers are taken"
    assert left in shown
    record = json.loads(geoveil("campaign", "show", "later", "--json").stdout)
    assert record["window_s"] == 2 * 86_400
    state = ("--state-dir", str(tmp_path / "state"))
    result = geoveil("contribute", "later", "--yes", *state, stdin="87500")
    assert result.exit_code == 0
    assert "The report leaves at a random time in the last 2 days of the survey." in flat(result)
    assert "kept: report" in result.output
    assert "'geoveil client send' sends it then" in flat(result)
    sent = flat(geoveil("client", "send", *state))
    assert "0 acknowledged, 1 pending" in sent
    assert "later: it leaves at 20" in sent
    assert "it leaves at" in flat(geoveil("client", "history", *state, to_server=False))


def test_it_sends_what_may_leave(geoveil, server, tmp_path):
    now, hour = datetime.now(UTC), timedelta(hours=1)
    # Of the first the window is nearly over, of the other it has just begun.
    begun = {"opens": now - 40 * hour, "closes": now + hour / 30, "window": 40 * hour}
    late = {"opens": now - hour, "closes": now + 72 * hour, "window": 71 * hour}
    asked = [small_campaign("begun", **begun), small_campaign("late", **late)]
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
    sent = geoveil("client", "send", "--state-dir", str(state), "--wait", "1m")
    assert "1 acknowledged, 1 pending" in flat(sent)
    assert "late: it leaves at" in flat(sent)
    assert sent.exit_code == 0


def test_nothing_waits_where_nothing_was_kept(geoveil, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert "nothing waits" in geoveil("client", "send").output
    with pytest.raises(ParameterError, match="the state directory of a device"):
        geoveil("client", "send", "--state-dir", str(tmp_path / "none"))
    with pytest.raises(ParameterError, match="wait must be a whole number above 0"):
        geoveil("client", "send", "--wait", "3")
