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


@pytest.mark.deep(keep=0, rest=1)
@pytest.mark.parametrize("allocation", [[], ["--allocation", "points"]])
def test_from_a_plan_to_its_estimate(geoveil, tmp_path, allocation):
    """The plan says factors, its campaign has the scale, and points are asked what was planned."""
    plan = tmp_path / "plan.toml"
    printed = geoveil(
        "plan", *ABOVE, "--ratios-from", "1000", "--epsilon", "2", "--per", "2", "--prior",
        "lognormal:60000,0.8", "--unit", "dollar", "--participants", "50000", "--attribute",
        "household income", *allocation, "--out", plan, "--figure", tmp_path / "plan.svg",
        to_server=False,
    ).output  # fmt: skip
    assert "half or twice as much (ε = 2)" in printed
    assert "a factor of 4 larger or smaller (ε = 4)" in printed
    assert "width of the band factor" in printed
    assert "ε = 2 per factor 2 in dollar" in printed
    name = "planned-points" if allocation else "planned"
    created = geoveil("campaign", "create", "By ratio", "--plan", plan, "--id", name).output
    assert f"{name}  ε = 2 per factor 2 in dollar" in created
    for person, value in enumerate(("0", "250000")):
        state = str(tmp_path / str(person))
        shown = geoveil("contribute", name, "--yes", "--state-dir", state, stdin=f"{value}\n")
        assert "half or twice as much" in shown.output
    asking = ["--plan", plan] if allocation else []
    assert "above 100,000" in geoveil("estimate", name, *asking).output


@pytest.mark.deep(keep=0, rest=1)
def test_points_are_asked_later(geoveil, tmp_path):
    created = geoveil("campaign", "create", "Points", *RATIO, "--points")
    assert "each point is moved by a factor of 2, up or down, on average" in created.output
    for person, value in enumerate(("0", "52,000", "250000")):
        state = str(tmp_path / str(person))
        shown = geoveil("contribute", "points", "--yes", "--state-dir", state, stdin=f"{value}\n")
        assert "within a factor of 8 of yours" in shown.output
        assert "logarithm of household income:" in shown.output
    assert "logarithm of household income" in geoveil("estimate", "points").output
    for asked, shown in (
        (["--quantile", "0.5"], "over a factor of 8"),
        (["--geometric-mean"], "geometric mean"),
        (["--curve"], "over a factor of 8"),
        (ABOVE, "above 100,000"),
        (["--range", "20000,90000", "--width", "4"], "20,000 to 90,000"),
        (["--histogram", "20000,90000"], "20,000 to 90,000"),
    ):
        assert shown in " ".join(geoveil("estimate", "points", *asked).output.split())
    with pytest.raises(ParameterError, match="a mean of logarithms gives a geometric mean"):
        geoveil("estimate", "points", "--mean")
    with pytest.raises(ParameterError, match="above 1,000"):
        geoveil("estimate", "points", "--threshold", "900")


@pytest.mark.parametrize(
    ("changed", "refused"),
    [
        (["--points", "--dimension", "2"], "must be 1 on a log scale"),
        (["--threshold", "1000"], "threshold must be above 1,000"),
        (["--range", "0,50000"], "range must be above 1,000"),
        ([*ABOVE, "--per", "1"], "--per must be a finite number > 1"),
        ([*ABOVE, "--ratios-from", "0"], "--ratios-from must be"),
        ([*ABOVE, "--width", "1"], "width must be a factor > 1"),
        ([*ABOVE, "--reach", "4"], "reach must be left out with --ratios-from"),
        (["--place", "-73.9,40.7"], "nothing else is asked on a log scale"),
    ],
)
def test_what_has_no_ratio_is_refused(geoveil, changed, refused):
    with pytest.raises(ParameterError, match=refused):
        geoveil("campaign", "create", "Refused", *RATIO, *changed)
