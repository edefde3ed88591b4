"""Groups by command: named when a campaign is made, told apart and weighted when it is read."""

import json

import pytest

from geoveil.gp import ParameterError, UnsupportedError

INCOME = ["--attribute", "income", "--unit", "dollar", "--epsilon", "1", "--per", "8000"]
STRATA = ["--strata", "region: north, south"]


@pytest.fixture(scope="module")
def people():
    return [("60000", "north"), ("180000", "north"), ("20000", "south"), ("90000", "south")] * 2


def answered(geoveil, tmp_path, campaign, people):
    for number, (value, label) in enumerate(people):
        state = str(tmp_path / str(number))
        given = ["contribute", campaign, "--yes", "--state-dir", state]
        result = geoveil(*given, stdin=f"{value}\n{label}\n")
        assert result.exit_code == 0
        assert value not in result.output


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("more", [["--threshold", "100000"], ["--points"]])
def test_groups_are_told_apart_and_weighted(geoveil, tmp_path, people, more):
    name = "by-region" + more[0]
    geoveil("campaign", "create", "By region", *INCOME, *STRATA, *more, "--id", name)
    answered(geoveil, tmp_path, name, people)
    asked = ["estimate", name, "--by", "region"]
    asked += ["--threshold", "100000"] if more == ["--points"] else []
    groups, differences = json.loads(geoveil(*asked, "--json").stdout)["results"]
    assert [(row["group"], row["n"]) for row in groups["rows"]] == [("north", 4), ("south", 4)]
    assert len(differences["rows"]) == 1
    sizes = tmp_path / "census.csv"
    sizes.write_text("region,people\nnorth,300\nsouth,700\n")
    weighted = json.loads(geoveil(*asked, "--weights", str(sizes), "--json").stdout)["results"][2]
    parts = [row["estimate"] for row in groups["rows"]]
    assert weighted["rows"][0]["estimate"] == pytest.approx(0.3 * parts[0] + 0.7 * parts[1])
    assert "north" in geoveil(*asked).stdout
    told = geoveil(*asked, "--csv")
    assert [line.split(",")[0] for line in told.stdout.splitlines()] == ["group", "north", "south"]
    assert "the first of 2 tables" in " ".join(told.stderr.split())
    sizes.write_text("region,people\nnorth,300\nsout,700\n")
    with pytest.raises(ParameterError, match="with the sizes of north, south, and no"):
        geoveil(*asked, "--weights", str(sizes))


def test_groups_without_an_answer_say_so(geoveil):
    made = ["campaign", "create", "Empty", *INCOME, *STRATA]
    geoveil(*made, "--points", "--id", "empty-points")
    geoveil(*made, "--threshold", "100000", "--id", "empty-answers")
    for asked in (["empty-points", "--threshold", "100000"], ["empty-answers"]):
        with pytest.raises(UnsupportedError, match="no answer has come yet"):
            geoveil("estimate", *asked, "--by", "region", "--csv")
    with pytest.raises(ParameterError, match="--by must be given beside what is asked"):
        geoveil("estimate", "empty-points", "--by", "region")


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("batches", [[], ["--batch-size", "50"]])
def test_simulated_devices_have_labels(geoveil, batches):
    name = f"fleet-by-region{len(batches)}"
    geoveil("campaign", "create", "Fleet", *INCOME, *STRATA, "--points", "--id", name)
    geoveil("simulate", "fleet", "--campaign", name, "--devices", "60", "--seed", "1", *batches)
    asked = ["estimate", name, "--by", "region", "--threshold", "100000", "--json"]
    groups = json.loads(geoveil(*asked).stdout)["results"][0]["rows"]
    assert sum(row["n"] for row in groups) == 60
    assert min(row["n"] for row in groups) > 10


def test_labels_may_be_sent_with_a_lie_at_times(geoveil, tmp_path, people):
    made = ["campaign", "create", "Randomised", *INCOME, *STRATA, "--strata-epsilon", "2"]
    geoveil(*made, "--threshold", "100000", "--id", "randomised")
    shown = " ".join(geoveil("campaign", "show", "randomised").stdout.split())
    assert "sent with a lie at times" in shown
    answered(geoveil, tmp_path, "randomised", people)
    told = json.loads(geoveil("estimate", "randomised", "--json").stdout)
    assert told["estimates"][0]["n"] == 8


def test_what_groups_can_not_do_is_named(geoveil):
    geoveil("campaign", "create", "Groups", *INCOME, *STRATA, "--threshold", "1e5", "--id", "gr")
    for arguments, named in (
        (["--by", "sex"], "'region'"),
        (["--by", "region", "--mean"], "value campaign"),
        (["--by", "region", "--watch"], "--by"),
    ):
        with pytest.raises(ParameterError, match=named):
            geoveil("estimate", "gr", *arguments)


@pytest.mark.deep
def test_statistics_are_told_apart_and_weighted_on_a_server_and_in_a_file(
    geoveil, tmp_path, people
):
    name, file = "medians-by-region", tmp_path / "medians.parquet"
    geoveil("campaign", "create", "Medians", *INCOME, *STRATA, "--points", "--id", name)
    answered(geoveil, tmp_path, name, people)
    geoveil("campaign", "export", name, "--out", str(file))
    sizes = tmp_path / "census.csv"
    sizes.write_text("region,people\nnorth,300\nsouth,700\n")
    more = ["--by", "region", "--mean", "--threshold", "100000", "--weights", str(sizes), "--json"]
    told = json.loads(geoveil("estimate", name, *more).stdout)["results"]
    quantile = [*more[:2], "--quantile", "0.5", *more[3:]]  # nothing bounds a mean with liars
    doubted = [*quantile, "--contamination", "0.02"]
    of_server = told + json.loads(geoveil("estimate", name, *doubted).stdout)["results"]
    of_file = [
        one
        for words in (more, doubted)
        for one in json.loads(geoveil("estimate", str(file), *words, to_server=False).stdout)[
            "results"
        ]
    ]
    for there, here in zip(of_server, of_file, strict=True):
        assert here["notes"] == there["notes"]
        for one, other in zip(there["rows"], here["rows"], strict=True):
            assert other.keys() == one.keys()
            for key, value in one.items():
                same = value if isinstance(value, str | None) else pytest.approx(value, rel=1e-6)
                assert other[key] == same
    share, _, weighted_share, mean, differences, weighted = told
    assert [row["region"] for row in mean["rows"]] == ["north", "south"]
    assert [row["group"] for row in share["rows"]] == ["north", "south"]
    assert len(differences["rows"]) == 1
    parts = [row["estimate"] for row in mean["rows"]]
    assert weighted["rows"][0]["estimate"] == pytest.approx(
        0.3 * parts[0] + 0.7 * parts[1], rel=0.03
    )
    assert "the weights stand for" in weighted["notes"][0]
    assert weighted_share["rows"][0]["n"] == 8
    with pytest.raises(ParameterError, match="at least one"):
        geoveil("estimate", str(file), "--by", "region", to_server=False)


def test_groups_that_make_no_sense_are_refused(geoveil, tmp_path):
    made = ["campaign", "create", "None", *INCOME, "--threshold", "1e5"]
    for more, named in (
        (["--strata", "north, south"], "name: label"),
        (["--strata", "region: north"], "--strata must be 2 to 64 names"),
        (["--strata-epsilon", "1"], "no --strata"),
    ):
        with pytest.raises(ParameterError, match=named):
            geoveil(*made, *more)
    sizes = tmp_path / "census.csv"
    sizes.write_text("region,people\nnorth,300\nsouth,700\n")
    geoveil(*made, "--id", "no-groups")
    for arguments, named in (
        (["--by", "region"], "no groups"),
        (["--weights", str(sizes)], "beside --by"),
    ):
        with pytest.raises(ParameterError, match=named):
            geoveil("estimate", "no-groups", *arguments)


def test_the_sizes_of_groups_are_read_before_a_server_is_asked(geoveil, tmp_path):
    sizes = tmp_path / "census.csv"
    sizes.write_text("sex,people\nf,300\nm,700\n")
    nobody = ["--server", "127.0.0.1:1"]
    with pytest.raises(ParameterError, match="sizes of 'region'"):
        geoveil(
            "estimate", "x", "--by", "region", "--weights", str(sizes), *nobody, to_server=False
        )
