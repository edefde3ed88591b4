"""A label at a terminal: what is said of it, how it is typed, and what comes of it."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from geoveil.analyst import Analyst, ShareAbove, campaign_asking
from geoveil.campaign import Strata
from geoveil.gp import GeoPrivacy, PrivateValueError

LIES = Strata(name="region", labels=("north", "south"), epsilon=1.0)
OPEN = Strata(name="region", labels=("north", "south"))


@pytest.fixture
def publish(server):
    def published(name, strata):
        now = datetime.now(UTC)
        campaign = campaign_asking(
            [ShareAbove(50_000)],
            attribute="household income",
            privacy=GeoPrivacy(1.0, 8_000.0, "dollar"),
            campaign_id=name,
            title="Income by region",
            opens=now - timedelta(days=1),
            closes=now + timedelta(days=1),
            strata=strata,
        )
        with Analyst(server) as analyst:
            analyst.create(campaign)

    return published


@pytest.mark.parametrize(("strata", "said"), [(OPEN, "is sent as it is."), (LIES, "with a lie")])
def test_who_is_asked_for_a_label_is_told_how_it_is_sent(geoveil, publish, tmp_path, strata, said):
    name = f"regions-{strata.epsilon is None}".lower()
    publish(name, strata)
    shown = " ".join(geoveil("campaign", "show", name).output.split())
    assert said in shown
    assert "one of north, south," in shown
    record = json.loads(geoveil("campaign", "show", name, "--json").output)
    assert record["strata"] == {
        "name": "region",
        "labels": ["north", "south"],
        "epsilon": strata.epsilon,
    }
    for person, label in enumerate(["north", "south", "north"]):
        sent = geoveil(
            *("contribute", name, "--yes", "--state-dir", str(tmp_path / str(person))),
            stdin=f"70,000\n{label}\n",
        )
        assert said in " ".join(sent.output.split())
        assert "counted" in sent.output
    rows = json.loads(geoveil("estimate", name, "--json").output)["estimates"]
    assert [row["n"] for row in rows] == [3]


@pytest.mark.parametrize("typed", ["70,000\nwest\n", "70,000\n", "70,000\n4711\n"])
def test_another_label_is_refused_and_not_repeated(geoveil, publish, tmp_path, typed):
    name = f"others-{abs(hash(typed))}"
    publish(name, LIES)
    with pytest.raises(PrivateValueError, match="one of north, south") as raised:
        geoveil(
            *("contribute", name, "--yes", "--state-dir", str(tmp_path / "s")),
            stdin=typed,
        )
    for secret in ("west", "4711", "70"):
        assert secret not in str(raised.value)
