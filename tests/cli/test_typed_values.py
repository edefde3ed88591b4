"""Test typed values: thousands are understood, doubtful values refused without showing them."""

import json

import pytest

from geoveil.cli.connection import CommandError
from geoveil.cli.numbers import parse
from geoveil.gp import ParameterError, PrivateValueError

INCOME = [
    "--attribute", "household income", "--unit", "dollar", "--epsilon", "1", "--per", "8000",
    "--threshold", "100000",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "number"),
    [("100,000", 1e5), ("-12,500", -12_500.0), ("100 000", 1e5), ("1.000.000", 1e6), ("5.", 5.0)],
)  # fmt: skip
def test_one_number(text, number):
    assert parse(text, 1) == [number]


@pytest.mark.parametrize(
    "text",
    ["1,5", "12,34,567", "100.000", "5 euros", "1__000"],
)  # fmt: skip
def test_what_is_no_number_or_might_be_another(text):
    assert parse(text, 1) is None


def test_several_numbers():
    assert parse("-73.98, 40.75", 2) == [-73.98, 40.75]
    assert parse("100,250", 2) == [100.0, 250.0]
    for text in ("100,000", "1", "1,2,3", "1;2", "a,b", "1,000,2"):
        assert parse(text, 2) is None, text


def test_the_command_takes_thousands_and_says_what_it_expects(geoveil, tmp_path, monkeypatch):
    geoveil("campaign", "create", "Typed", *INCOME)
    for number, text in enumerate(["100,000", "100 000"]):
        done = geoveil(
            "contribute", "typed", "--yes", "--state-dir", str(tmp_path / str(number)), stdin=text
        )
        assert done.exit_code == 0
    arguments = ["contribute", "typed", "--yes", "--state-dir", str(tmp_path / "x")]
    for text in ("31415,2", "31415 euros", "31.415"):
        with pytest.raises(PrivateValueError, match="commas stand between thousands") as raised:
            geoveil(*arguments, stdin=text)
        assert "31415" not in str(raised.value)
        assert raised.value.__context__ is None
    with pytest.raises(PrivateValueError) as raised:
        geoveil(*arguments, stdin=b"31415\xff\n")  # no text
    assert raised.value.__context__ is None


def test_the_area_is_said_before_a_place_is_given_and_one_outside_is_asked_about(geoveil, tmp_path):
    geoveil(
        "campaign", "create", "In an area", "--attribute", "location", "--epsilon", "1", "--per",
        "500", "--place", "13.4,52.5", "--radius", "20000",
    )  # fmt: skip
    arguments = ["contribute", "in-an-area", "--yes", "--state-dir", str(tmp_path)]
    with pytest.raises(CommandError, match="nothing was drawn: a line 'y' says so") as raised:
        geoveil(*arguments, stdin="52.51,13.41")
    assert "52.51" not in str(raised.value)
    assert geoveil(*arguments, stdin="52.51,13.41\nn\n").exit_code == 1
    for number, place in enumerate(["13.41,52.51", "-70.6,-33.4\ny"]):
        arguments[-1] = str(tmp_path / str(number))
        done = geoveil(*arguments, stdin=place)
        assert "Area: within 20,000 metre of 13.4,52.5. Before anything is drawn" in done.stderr
        assert done.stdout.count("counted: report") == 1
        assert "70.6" not in done.output


def test_a_number_that_is_likely_a_slip_is_asked_about_and_shown_to_no_file(geoveil, tmp_path):
    """-5 and 999,999,999,999 as household incomes: drawn for only where somebody says yes."""
    geoveil("campaign", "create", "Slips", *INCOME)
    for number, text in enumerate(["-5", "\u22125", "999999999999", "1,000,001", "$-5", "2000k"]):
        arguments = ["contribute", "slips", "--yes", "--state-dir", str(tmp_path / str(number))]
        with pytest.raises(CommandError, match="nothing was drawn") as raised:
            geoveil(*arguments, stdin=text)
        refused = geoveil(*arguments, stdin=f"{text}\nn")
        assert refused.exit_code == 1
        assert "counted" not in refused.output
        assert text not in refused.stderr.partition("likely a slip")[2] + str(raised.value)
        assert "counted: report" in geoveil(*arguments, stdin=f"{text}\ny").stdout


def test_a_number_beyond_the_range_of_the_campaign_is_asked_about(geoveil, tmp_path):
    """52, which is 52.000 of somewhere else, as a household income; and it is taken if meant."""
    ends = ("--least", "1000", "--most", "10000000")
    geoveil("campaign", "create", "Stated", *INCOME, *ends)
    expected = "at least 1,000 and at most 10,000,000"
    shown = geoveil("campaign", "show", "stated").output
    assert f"devices ask about a value that is not {expected} dollar" in " ".join(shown.split())
    record = json.loads(geoveil("campaign", "show", "stated", "--json").output)
    assert (record["least"], record["most"]) == (1000, 10_000_000)
    for number, text in enumerate(["52", "999.99", "10000001"]):
        arguments = ["contribute", "stated", "--yes", "--state-dir", str(tmp_path / str(number))]
        with pytest.raises(CommandError, match="nothing was drawn"):
            geoveil(*arguments, stdin=text)
        assert "counted: report" in geoveil(*arguments, stdin=f"{text}\ny").stdout
    arguments[-1] = str(tmp_path / "within")
    told = geoveil(*arguments, stdin="1000")
    assert f"Given in: dollar, {expected}" in told.stderr
    assert "counted: report" in told.stdout
    with pytest.raises(ParameterError, match=r"--most must be more than least=5"):
        geoveil("campaign", "create", "None", *INCOME, "--least", "5", "--most", "5")


def test_places_and_points_say_how_they_are_typed(geoveil, tmp_path):
    geoveil(
        "campaign", "create", "Typed places", "--attribute", "location", "--epsilon", "1", "--per",
        "500", "--place", "-73.98,40.75",
    )  # fmt: skip
    geoveil(
        "campaign", "create", "Typed points", "--attribute", "score", "--unit", "point",
        "--epsilon", "1", "--per", "5", "--points", "--dimension", "2",
    )  # fmt: skip
    for name, told in (("typed-places", "like -73.98,40.75"), ("typed-points", "like 1500,0.5")):
        with pytest.raises(PrivateValueError, match=told):
            geoveil("contribute", name, "--yes", "--state-dir", str(tmp_path), stdin="100,000")
