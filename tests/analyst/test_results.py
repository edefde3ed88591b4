"""Test the common interface of results."""

import json
import math
import sys

import numpy as np
import pytest

from geoveil.analyst import GroupEstimates, JointEstimates
from geoveil.analyst.results import Result, cells
from geoveil.gp import Limits, UnsupportedError


class Shares(Result):
    title = "Shares <of> two"
    notes = ("Both are of the population.",)

    def rows(self):
        return [
            {"name": "a & b", "estimate": 0.123456, "standard_error": None},
            {"name": "none", "estimate": math.nan, "standard_error": math.inf},
        ]


class Nothing(Shares):
    def rows(self):
        return []


def test_json_holds_no_number_that_is_none():
    told = json.loads(json.dumps(Shares().to_dict(), allow_nan=False))
    assert told["title"] == "Shares <of> two"
    assert told["rows"][0]["estimate"] == 0.123456
    assert told["rows"][1] == {"name": "none", "estimate": None, "standard_error": None}
    assert told["notes"] == ["Both are of the population."]


def test_a_notebook_shows_text_and_not_markup():
    shown = Shares()._repr_html_()
    assert "Shares &lt;of&gt; two" in shown
    assert "a &amp; b" in shown
    assert "0.1235" in shown
    assert "standard error" in shown


def test_text_is_a_table_with_its_title_and_notes():
    assert str(Shares()).splitlines() == [
        "Shares <of> two",
        "name   estimate  standard error",
        "a & b    0.1235               –",
        "none          –               ∞",
        "Both are of the population.",
    ]
    assert str(Nothing()).splitlines() == ["Shares <of> two", "Both are of the population."]

    class Many(Shares):
        def rows(self):
            return [{"n": n} for n in range(1_050)]

    assert str(Many()).splitlines()[-2] == "… and 1,020 rows more"


def test_numbers_have_the_decimals_that_their_error_calls_for():
    row = {"name": "x", "estimate": 0.000212, "standard_error": 0.0000311, "ci_low": None}
    assert cells(row | {"ci_high": None}) == {
        "name": "x",
        "estimate": "0.000212",
        "standard_error": "0.000031",
        "interval": "–",
    }
    wide = {"estimate": 55_512.4, "standard_error": math.inf, "ci_low": -math.inf}
    told = cells(wide | {"ci_high": math.inf})
    assert told == {"estimate": "55,512", "standard_error": "∞", "interval": "−∞ – ∞"}
    assert cells({"estimate": 1.0, "standard_error": 0.0}) == {
        "estimate": "1.0000",
        "standard_error": "0.0000",
    }


@pytest.mark.parametrize("key", ["p", "p_value", "p_adjusted", "p_line"])
def test_a_table_gives_no_p_value_of_0(key):
    shown = [cells({key: p})[key] for p in (0.0, 3e-20, 9e-5, 1e-4, 0.25, math.nan, None)]
    assert shown == ["below 0.0001"] * 3 + ["0.0001", "0.2500", "–", "–"]
    assert cells({"estimate": 0.0}) == {"estimate": "0.0000"}  # the control


def test_without_rows_there_is_an_empty_table():
    assert "<tbody></tbody>" in Nothing()._repr_html_()


def test_pandas_has_the_rows_and_the_notes():
    pytest.importorskip("pandas")
    frame = Shares().to_pandas()
    assert list(frame.columns) == ["name", "estimate", "standard_error"]
    assert frame.attrs["notes"] == ["Both are of the population."]


def test_without_pandas_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'geoveil\[analyst\]'"):
        Shares().to_pandas()


def test_the_number_shown_is_in_its_interval_and_the_unbiased_one_is_kept():
    shares = Limits((-0.7, 1.7), (0.0, 1.0))
    joint = JointEstimates(
        labels=("none", "few", "all"),
        values=np.array([-0.02, 0.3, 1.001]),
        covariance=np.diag([1e-5, 1e-4, 1e-4]),
        n=2_000,
        confidence=0.95,
        limits=(shares,) * 3,
    )
    groups = GroupEstimates(
        labels=joint.labels, values=joint.values, covariance=joint.covariance, limits=shares,
    )  # fmt: skip
    for result in (joint, groups):
        assert [row["estimate"] for row in result.rows()] == [0.0, 0.3, 1.0]
        assert [row["uncut"] for row in result.rows()] == joint.values.tolist()
        assert all(0 <= row["ci_low"] < row["ci_high"] <= 1 for row in result.rows())
        assert "uncut" not in str(result)
    difference = joint.difference("all", "none")
    assert difference.rows()[0]["uncut"] == pytest.approx(1.021)
    assert difference.rows()[0]["estimate"] == pytest.approx(1.0)
