"""Test what commands say of a campaign whose participants answer each question with all of ε."""

import json

from geoveil.cli.console import out

ASKED = [
    "--attribute", "household income", "--unit", "dollar", "--epsilon", "1", "--per", "8000",
    "--threshold", "60000", "--threshold", "100000", "--threshold", "140000",
    "--allocation", "repeat",
]  # fmt: skip
SUM = "ε = 3 per 8000 dollar: 3 answers of ε = 1 each"


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
