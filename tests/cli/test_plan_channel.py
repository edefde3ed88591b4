"""A plan that chooses an optimal channel becomes a campaign that carries it."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from geoveil.analyst import campaign_of
from geoveil.campaign import ChannelSpec, decode, encode
from geoveil.gp import ParameterError

ASKED = (
    "--threshold", "98000", "--soft", "--width", "6000", "--participants", "20000", "--epsilon",
    "1", "--per", "8000", "--unit", "dollar", "--prior", "lognormal:98000,0.83",
)  # fmt: skip


@pytest.fixture(scope="module")
def later():
    now = datetime.now(UTC)
    dates = {"opens": now, "closes": now + timedelta(days=1)}
    return {"campaign_id": "narrow", "title": "Above 98,000", **dates}


def test_a_narrow_band_is_planned_written_and_read_back(geoveil, tmp_path, later):
    """The table that devices check has gone through TOML, and is the planned one to the bit."""
    file = tmp_path / "plan.toml"
    shown = geoveil("plan", *ASKED, "--out", str(file), "--json", to_server=False)
    assert shown.exit_code == 0
    report = json.loads(shown.stdout)
    best = report["alternatives"][0]
    assert (best["mechanism"], best["campaign"]) == ("LinearProgramMechanism", True)
    planned = campaign_of(file, **later)
    assert isinstance(planned.mechanism, ChannelSpec)
    assert decode(encode(planned)) == planned
    (mechanism,) = planned.mechanisms
    assert mechanism.bias_bound <= 1e-3
    assert mechanism.query == planned.questions[0].query

    # Control: the same file with a smaller promise, which its table does not keep.
    text = file.read_text()
    assert "epsilon = 1.0" in text
    file.write_text(text.replace("epsilon = 1.0", "epsilon = 0.9"))
    with pytest.raises(ParameterError, match="ratio of rows"):
        campaign_of(file, **later)
