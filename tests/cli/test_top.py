"""How many people it takes to name the top, as a plan says it."""

import json

import pytest

from geoveil.gp import ParameterError

ASKED = (
    "plan", "--participants", "50000", "--epsilon", "1", "--per", "8000", "--unit", "dollar",
    "--prior", "lognormal:98000,0.83", "--soft", "--width", "40000", "--top", "1",
)  # fmt: skip
RANGES = ("--range", "0,60000", "--range", "60000,120000", "--range", "120000,180000")


@pytest.mark.deep
def test_a_plan_says_how_many_name_the_top(geoveil):
    found = json.loads(
        geoveil(*ASKED, *RANGES, "--allocation", "partition", "--json", to_server=False).output
    )
    people = found["top"]["participants"]
    assert 20 < people < 20_000
    assert found["top"]["count"] == 1
    shown = geoveil(*ASKED, *RANGES, "--allocation", "partition", to_server=False).output
    assert f"To name the true top 1 with 95 % takes {people:,} participants" in " ".join(
        shown.split()
    )
    with pytest.raises(ParameterError, match="several"):
        geoveil(*ASKED, *RANGES[:2], to_server=False)
