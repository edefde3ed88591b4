"""Campaigns that compare values by ratio, on the command line."""

import json

import pytest

from geoveil.gp import ParameterError

RATIO = [
    "--attribute", "household income", "--unit", "dollar", "--epsilon", "1", "--per", "2",
    "--ratios-from", "1000",
]  # fmt: skip
ABOVE = ["--threshold", "100000"]


def test_from_a_question_to_its_estimate(geoveil, tmp_path):
    created = geoveil("campaign", "create", "By ratio", *RATIO, *ABOVE, "--width", "4")
    assert "by-ratio  ε = 1 per factor 2 in dollar" in created.output
    shown = geoveil("campaign", "show", "by-ratio").output
    assert "household income: ε = 1 per factor 2 in dollar" in shown
    assert "Less than 1,000 dollar counts as 1,000 dollar." in shown
    record = json.loads(geoveil("campaign", "show", "by-ratio", "--json").stdout)
    assert (record["unit"], record["floor"]) == ("log dollar", 1000.0)
    for person, value in enumerate(("0", "52,000", "250000")):
        state = str(tmp_path / str(person))
        answered = geoveil(
            "contribute", "by-ratio", "--yes", "--state-dir", state, stdin=f"{value}\n"
        )
        assert "Given in: dollar" in answered.output
        assert "as for one half or twice as much." in answered.output
        assert "Less than 1,000 dollar counts as 1,000 dollar." in answered.output
        assert answered.output.count("counted: report") == 1
        spent = geoveil("client", "history", "--state-dir", state, to_server=False).output
        assert "per factor 2 in dollar" in spent
    estimate = geoveil("estimate", "by-ratio").output
    assert "above 100,000" in estimate
    assert "values below 1,000 dollar counted as that" in " ".join(estimate.split())


@pytest.mark.parametrize(
    ("changed", "refused"),
    [
        (["--points"], "ratios-from must be left out of points"),
        (["--threshold", "1000"], "threshold must be above 1,000"),
        (["--range", "0,50000"], "range must be above 1,000"),
        ([*ABOVE, "--per", "1"], "--per must be a finite number > 1"),
        ([*ABOVE, "--ratios-from", "0"], "--ratios-from must be"),
        ([*ABOVE, "--width", "1"], "width must be a factor > 1"),
        ([*ABOVE, "--reach", "4"], "reach must be left out beside --ratios-from"),
        (["--place", "-73.9,40.7"], "nothing else is asked on a log scale"),
    ],
)
def test_what_has_no_ratio_is_refused(geoveil, changed, refused):
    with pytest.raises(ParameterError, match=refused):
        geoveil("campaign", "create", "Refused", *RATIO, *changed)
