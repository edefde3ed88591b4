"""Signed and recurring campaigns, on the command line."""

import json
import stat
import tomllib
from random import Random

import grpc
import pytest

from geoveil.analyst import Analyst, ServerError
from geoveil.campaign import (
    MECHANISMS,
    PublicKey,
    SigningKey,
    SmoothSpec,
    token_key_id,
)
from geoveil.campaign.saying import to_one
from geoveil.gp import ParameterError
from geoveil.proto.v1.collector_pb2 import SubmitReportsRequest
from geoveil.proto.v1.collector_pb2_grpc import CollectorStub
from geoveil.proto.v1.report_pb2 import Answer, Report
from geoveil.relay import IssuerKey
from tests.campaigns import above_100k

INCOME = [
    "--attribute", "household income", "--unit", "dollar", "--epsilon", "1", "--per", "8000",
    "--threshold", "100000",
]  # fmt: skip


@pytest.fixture
def key_file(geoveil, tmp_path):
    file = tmp_path / "analyst.pem"
    assert geoveil("campaign", "keygen", str(file), to_server=False).exit_code == 0
    return file


def test_a_new_key_is_its_owners_alone_and_never_overwritten(geoveil, tmp_path):
    file = tmp_path / "analyst.pem"
    printed = geoveil("campaign", "keygen", str(file), to_server=False).output
    key = SigningKey.from_pem(file.read_bytes())
    assert PublicKey.parse(printed.strip()) == key.public
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(ParameterError, match="never overwritten"):
        geoveil("campaign", "keygen", str(file), to_server=False)
    assert SigningKey.from_pem(file.read_bytes()).public == key.public
    with pytest.raises(ParameterError, match="a file to write"):
        geoveil("campaign", "keygen", str(tmp_path / "missing" / "k.pem"), to_server=False)


def test_a_signed_campaign_says_by_whom(geoveil, key_file):
    public = str(SigningKey.from_pem(key_file.read_bytes()).public)
    created = geoveil("campaign", "create", "Signed", *INCOME, "--sign-key", str(key_file))
    assert f"signed by {public}" in created.output
    geoveil("campaign", "create", "Unsigned", *INCOME)
    record = {
        row["campaign_id"]: row for row in json.loads(geoveil("campaign", "list", "--json").stdout)
    }
    assert (record["signed"]["signed_by"], record["unsigned"]["signed_by"]) == (public, None)
    assert (record["signed"]["state"], record["signed"]["reports"]) == ("open", 0)
    listed = geoveil("campaign", "list").output.splitlines()
    for name, signer in (("signed", f"signed by {public[:15]}"), ("unsigned", "signed by nobody")):
        (at,) = (i for i, line in enumerate(listed) if line.startswith(f"{name}  open, 0 reports"))
        assert listed[at + 1].startswith(signer)
        assert listed[at + 2] == f"  {name.title()}"


def test_a_file_that_is_no_key_publishes_nothing(geoveil, tmp_path):
    file = tmp_path / "not-a-key.pem"
    file.write_text("secret 31415")
    with pytest.raises(ParameterError, match="Ed25519") as caught:
        geoveil("campaign", "create", "Not published", *INCOME, "--sign-key", str(file))
    assert "31415" not in str(caught.value)
    assert "not-published" not in geoveil("campaign", "list").output


def test_a_recurring_campaign_shows_its_periods_and_what_they_spend(geoveil, tmp_path):
    created = geoveil("campaign", "create", "Weekly", *INCOME, "--every", "7d", "--days", "28")
    assert "once in each of 4 periods" in created.output
    assert "every 7 days" in geoveil("campaign", "list").output
    shown = json.loads(geoveil("estimate", "weekly", "--json").output)
    assert [row["period"] for row in shown["estimates"]] == [0]
    assert shown["estimates"][0]["median_of_means"] is None
    assert shown["epsilon_at_most"] == 1.0
    assert "in the period" in shown["unbiased_for"]
    table = geoveil("estimate", "weekly", "--period", "0").output
    assert "begins" in table
    assert "ε = 1 per 8000 dollar, for each participant in each period" in table
    with pytest.raises(ServerError, match="later ones have not begun"):
        geoveil("estimate", "weekly", "--period", "1")


def test_a_watch_ends_with_the_campaign(geoveil):
    geoveil("campaign", "create", "Watched", *INCOME)
    geoveil("campaign", "close", "watched")
    assert "above 100,000" in geoveil("estimate", "watched", "--watch").output
    with pytest.raises(ServerError, match="no such campaign"):
        geoveil("estimate", "never-made", "--watch")


def test_heavy_tails_show_the_interval_that_needs_no_variance(geoveil, server):
    campaign = above_100k("heavy", mechanism=SmoothSpec(0.3))
    rng = Random(2)
    reports = [
        Report(report_id=rng.randbytes(16), answers=[Answer(value=rng.randrange(2**30))])
        for _ in range(1_100)
    ]
    with Analyst(server) as analyst, grpc.insecure_channel(server) as channel:
        digest = analyst.create(campaign)
        request = SubmitReportsRequest(campaign_id="heavy", campaign_digest=digest, reports=reports)
        CollectorStub(channel).SubmitReports(request, timeout=30)
    (row,) = json.loads(geoveil("estimate", "heavy", "--json").output)["estimates"]
    robust = row["median_of_means"]
    assert robust["ci_low"] < robust["estimate"] < robust["ci_high"]
    table = geoveil("estimate", "heavy").output
    assert {"median", "low", "high"} <= set(table.split("─")[0].split())  # heads may be folded
    assert "the interval by the median of means stands" in " ".join(table.split())


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("smooth:noise=student-t,nu=2.5", "Student-t noise for whole ν from 3 to 30"),
        ("smooth:noise=student-t,nu=3,calibration=paper,reach=inf", None),
    ],
)
def test_what_no_browser_can_answer_is_published_with_a_warning(geoveil, words, why):
    title = f"Warned of {words.partition('=')[2][:20]} {why is None}"
    done = geoveil("campaign", "create", title, *INCOME, "--mechanism", words)
    assert done.exit_code == 0
    assert ("no browser can answer it" in done.stderr) == (why is not None)
    assert (why or "") in done.stderr


def test_noise_without_a_variance_makes_no_campaign(geoveil):
    words = "smooth:noise=student-t,nu=2"
    with pytest.raises(ParameterError, match=r"nu must be .*2.* got nu=2"):
        geoveil("campaign", "create", "No variance", *INCOME, "--mechanism", words)


def test_a_delta_is_published_and_told(geoveil):
    words = ["--mechanism", "smooth:noise=laplace,calibration=paper", "--delta", "1e-6"]
    title = "With a delta"
    done = geoveil("campaign", "create", title, *INCOME, *words, "--reach", "50000")
    assert "ε = 1 per 8000 dollar, δ = 1e-06, up to 50000 dollar" in done.output
    shown = json.loads(geoveil("campaign", "show", "with-a-delta", "--json").stdout)
    assert (shown["delta"], shown["reach"]) == (1e-6, 50_000.0)


def test_a_cap_is_published_and_told(geoveil):
    done = geoveil("campaign", "create", "Capped", *INCOME)
    assert "ε = 1 per 8000 dollar, any two values 2,981 to 1" in done.output
    shown = json.loads(geoveil("campaign", "show", "capped", "--json").stdout)
    assert shown["cap"] == {"below": 4.0, "above": 4.0}
    assert shown["any_two_epsilon"] == 8.0
    assert shown["central"] is None  # nobody is sure to answer
    three = ["campaign", "create", "Three scales", *INCOME, "--cap", "3,3"]
    geoveil(*three)
    show = ["campaign", "show", "three-scales", "--honest", "100000", "--central-delta", "1e-6"]
    assert json.loads(geoveil(*show, "--json").stdout)["central"]["any_two_epsilon"] <= 0.4
    said = "their central ε is 0.185 between two values 8,000 dollar apart and 0.358 between any"
    assert said in " ".join(geoveil(*show).stdout.split())
    far = geoveil("campaign", "create", "Capped far", *INCOME, "--cap", "6,6").output
    assert "ε = 1 per 8000 dollar, no protection of values far apart" in far
    free = geoveil("campaign", "create", "Free", *INCOME, "--cap", "none").output
    assert "ε = 1 per 8000 dollar, no protection of values far apart  sha256" in free
    assert "central" not in geoveil("campaign", "show", "free", "--honest", "100000").stdout


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--cap", "4"], "--cap must be two numbers"),
        (["--cap", "1,4"], "cap.below must be at least 1.5"),
    ],
)
def test_a_cap_that_does_not_fit_is_refused(geoveil, words, match):
    with pytest.raises(ParameterError, match=match):
        geoveil("campaign", "create", "No cap", *INCOME, *words)


def test_a_plan_has_the_cap_that_its_prior_makes_cheap(geoveil, tmp_path):
    file, words = tmp_path / "plan.toml", [*INCOME[2:], "--prior", "incomes"]
    plan = ("plan", *words, "--participants", "20000", "--out", str(file), "--cap", "fit")
    planned = " ".join(geoveil(*plan, to_server=False).stderr.split())
    written = tomllib.loads(file.read_text())
    assert 1 < written["planned"]["variance_factor_of_cap"] <= 1.05
    sides = written["cap"]["below"], written["cap"]["above"]
    assert f"cap {sides[0]:g} noise scales outside, {sides[1]:g} inside, any two values" in planned
    assert sum(sides) <= 8
    width = written["queries"][0]["threshold"]["width"]
    assert width == 8 * 8_000.0  # without a cap 13.5 noise scales, which has no room within 4
    title = ("campaign", "create", "Planned with a cap", "--plan", str(file))
    assert f"any two values {to_one(sum(sides))}" in geoveil(*title).output
    shown = json.loads(geoveil("campaign", "show", "planned-with-a-cap", "--json").stdout)
    assert shown["any_two_epsilon"] == sum(sides)
    with pytest.raises(ParameterError, match="--cap must be one of 'fit', 'none'"):
        geoveil(*plan[:-1], "little", to_server=False)
    for said in (["--cap", "none"], []):  # a band of 13.5 noise scales has no cap that protects
        done = geoveil(*plan[:-2], *said, to_server=False)
        assert ("no cap: no protection of values far apart" in done.stderr) is not bool(said)
        assert "cap" not in tomllib.loads(file.read_text())


def test_by_default_a_cap_is_4_scales_a_side_or_what_the_questions_need(geoveil):
    widths = {"24000": (4.0, 4.0), "80000": (5.0, 5.0), "80001": None}  # the last beyond e^10
    for width, sides in widths.items():
        geoveil("campaign", "create", f"Width {width}", *INCOME, "--width", width)
        shown = json.loads(geoveil("campaign", "show", f"width-{width}", "--json").stdout)
        assert shown["cap"] == (sides and {"below": sides[0], "above": sides[1]})


@pytest.mark.parametrize(
    "words",
    [
        ["--read-every", "30d", "--every", "7d", "--days", "70"],
        ["--mechanism", "smooth:noise=student-t,nu=3,calibration=paper,reach=inf"],
    ],
    ids=["reading", "paper"],
)
def test_answers_from_a_reading_and_the_paper_s_calibration_have_no_cap(geoveil, words):
    title = f"No cap {words[0][2:]}"
    geoveil("campaign", "create", title, "--id", title[7:], *INCOME, *words)
    assert json.loads(geoveil("campaign", "show", title[7:], "--json").stdout)["cap"] is None


def test_points_have_no_cap(geoveil):
    words = [*INCOME[:-2], "--points", "--cap", "4,4"]
    with pytest.raises(ParameterError, match="--cap must be left out for points"):
        geoveil("campaign", "create", "No cap", *words)


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--mechanism", "smooth:noise=laplace"], "--delta must be"),
        (["--reach", "100"], "--reach must be infinite: without a δ"),
    ],
)
def test_a_delta_goes_with_laplace_noise_alone(geoveil, words, match):
    with pytest.raises(ParameterError, match=match):
        geoveil("campaign", "create", "No delta", *INCOME, *words)


@pytest.mark.deep(keep=0)
def test_the_list_of_mechanisms_is_what_campaigns_are_made_of(geoveil):
    rows = json.loads(geoveil("mechanisms", "--json", to_server=False).stdout)
    assert len(rows) >= 9
    for row in rows:
        delta = ["--delta", "1e-6"] if row["promises"] == "ε and δ" else []
        assert MECHANISMS.parse(row["mechanism"]).has_slack == bool(delta)
        title = f"Listed {rows.index(row)}"
        done = geoveil(
            "campaign", "create", title, *INCOME, *delta, "--mechanism", row["mechanism"]
        )
        assert ("no browser can answer it" in done.stderr) != row["browsers"]
    published = next(
        row for row in rows if "student-t" in row["mechanism"] and "paper" in row["mechanism"]
    )
    # Var = (B/η)²·3, B = 1/3, ε = 3β + η·2/√3, β = 1/9: η = 1/√3 [MATH §3].
    assert published["variance"] == pytest.approx(1.0, rel=1e-9)


def test_a_campaign_that_recurs_has_a_key_for_each_period(geoveil, tmp_path):
    pem, ids = tmp_path / "keys.pem", tmp_path / "keys.ids"
    printed = geoveil("relay", "key", str(pem), "--periods", "2", to_server=False).output
    keys = IssuerKey.all_from_pem(pem.read_bytes())
    assert printed.split() == [token_key_id(key.public).hex() for key in keys]
    assert len(keys) == 2
    ids.write_text(printed)

    def create(days):
        recurs = ["--every", "1d", "--days", days, "--token-key", str(ids)]
        return geoveil("campaign", "create", f"Income for {days}", *INCOME, *recurs)

    assert create("2").exit_code == 0
    shown = geoveil("campaign", "show", "income-for-2").output
    assert "token from the issuer with a key for each of 2 periods" in " ".join(shown.split())
    with pytest.raises(ParameterError, match=r"--token-key must be the 32 .* each of 3 periods"):
        create("3")
    ids.write_text("".join(f"{n:064x}\n" for n in range(125)))
    operator = ["--relay-operator", str(SigningKey.generate().public)]
    recurs = ["--every", "1d", "--days", "125", "--token-key", str(ids)]
    with pytest.raises(ParameterError, match=r"fewer periods, because a relay .*, not .* --force"):
        geoveil("campaign", "create", "Too long for a relay", *INCOME, *recurs, *operator)
