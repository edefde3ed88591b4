"""What `campaign create` publishes, and what it refuses."""

import re
import tomllib

import numpy as np
import pytest

from geoveil.campaign import MECHANISMS, SigningKey, token_key_id
from geoveil.campaign.saying import to_one
from geoveil.cli.connection import CommandError
from geoveil.gp import DebiasedLaplace, GeoPrivacy, LipschitzMechanism, ParameterError, Threshold
from geoveil.relay import IssuerKey

from .conftest import ABOVE, INCOME, LOG_NORMAL, PLACE

NO_UNIT = (*INCOME[:2], *INCOME[4:])
RATIO = (*INCOME, "--per", "2", "--ratios-from", "1000")
MISTAKES = {
    "a band far narrower than the noise": (
        (*ABOVE, "--width", "100"),
        "at most 0.5 with 10,000 participants",
    ),
    "epsilon and its distance exchanged": (
        (*ABOVE, "--epsilon", "8000", "--per", "1"),
        "--epsilon must be",
    ),
    "no distance in mind": ((*ABOVE, "--per", "1"), "--per must be"),
    "latitude first, in the Antarctic": (
        (*PLACE, "--place", "here=40.75,-73.98"),
        "the longitude comes first",
    ),
    "one of two places exchanged": (
        (*PLACE, "--place", "13.4,52.5", "--place", "52.6,13.5"),
        "the longitude comes first",
    ),
    "a period in which all of the campaign lies": (
        (*INCOME, "--points", "--every", "400d"),
        r"--every must be shorter than the 30 days .* got --every='400d'",
    ),
}


@pytest.mark.deep(keep=4)
@pytest.mark.parametrize("what", MISTAKES)
def test_what_looks_like_a_mistake_has_to_be_forced(create, geoveil, what):
    about, told = MISTAKES[what]
    named = ("--id", re.sub("[^a-z]+", "-", what), *about)
    with pytest.raises(ParameterError, match=told) as raised:
        create(what, *named)
    assert "--force" in str(raised.value)
    assert named[1] not in geoveil("campaign", "list").output
    forced = create(what, *named, "--force")
    assert forced.exit_code == 0
    assert named[1] in forced.output


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ((*NO_UNIT, "--threshold", "100000", "--force"), "--unit must"),
        ((*NO_UNIT, "--threshold", "9", "--center", "1,2", "--force"), "dimension"),
        ((*PLACE, "--place", "35.68,139.69", "--force"), "longitude first"),
        ((*ABOVE, "--organisation", "City of Bergen", "--purpose", "buses"), "--contact must be"),
        ((*ABOVE, "--delete-after", "3661"), "--delete-after must be"),
        ((*ABOVE, "--least", "5", "--most", "5"), "--most must be more than least=5"),
        ((*ABOVE, "--mechanism", "smooth:noise=student-t,nu=2"), r"nu must be .*2.* got nu=2"),
        ((*ABOVE, "--mechanism", "smooth:noise=laplace"), "--delta must be"),
        ((*ABOVE, "--reach", "100"), "--reach must be infinite: without a δ"),
        ((*ABOVE, "--cap", "4"), "--cap must be two numbers"),
        ((*ABOVE, "--cap", "1,4"), "cap.below must be at least 1.5"),
        ((*INCOME, "--points", "--cap", "4,4"), "--cap must be left out for points"),
        ((*INCOME, "--points", "--threshold", "5"), "--points must be without --threshold"),
        ((*INCOME, "--points", "--allocation", "split"), "there is nothing to divide"),
        ((*RATIO, "--points", "--dimension", "2"), "must be 1 on a log scale"),
        ((*RATIO, "--threshold", "1000"), "threshold must be above 1,000"),
        ((*RATIO, "--range", "0,50000"), "range must be above 1,000"),
        ((*RATIO, "--threshold", "100000", "--per", "1"), "--per must be a finite number > 1"),
        ((*RATIO, "--threshold", "100000", "--ratios-from", "0"), "--ratios-from must be"),
        ((*RATIO, "--threshold", "100000", "--width", "1"), "width must be a finite number > 1"),
        ((*RATIO, "--threshold", "100000", "--reach", "4"), "reach must be left out with --ratio"),
        ((*RATIO, "--place", "-73.9,40.7"), "nothing else is asked on a log scale"),
    ],
)
def test_what_makes_no_campaign_is_refused_and_not_published(create, geoveil, about, told):
    with pytest.raises(ParameterError, match=told):
        create("Nonsense", *about)
    assert "nonsense" not in geoveil("campaign", "list").output


def test_the_error_to_expect_is_the_one_that_comes(create):
    """Told for the worst places that people could be at; simulated with everybody there."""
    created = create("Expected", *ABOVE, "--threshold", "50000", "--participants", "400")
    found = re.search(
        r"standard error for the population of at most ([0-9.]+) \('above", created.output
    )
    assert found is not None
    threshold = Threshold(100_000, 24_000, "smoothstep")
    mechanism = DebiasedLaplace(threshold, GeoPrivacy(1, 8_000, "dollar"))
    # Of all pairs of places for half of the people each, the worst.
    people = np.repeat([90_000.0, 110_000.0], 200_000)
    noise = mechanism.simulate(people, np.random.default_rng(5)).var()
    assert float(found[1]) == pytest.approx(np.sqrt(noise / 200), rel=0.02)


def test_the_error_to_expect_is_rounded_up(create):
    """Half at either end, and noise that is the same for all: 0.1129, and not "at most 0.11"."""
    asked = (*ABOVE, "--width", "24000", "--epsilon", "0.2", "--participants", "1000")
    created = create("Even", *asked, "--mechanism", "lipschitz")
    found = re.search(r"population of at most ([0-9.]+) with", created.output)
    assert found is not None
    threshold = Threshold(100_000, 24_000, "smoothstep")
    noise = LipschitzMechanism(threshold, GeoPrivacy(0.2, 8_000, "dollar")).largest_variance
    error = np.sqrt((noise + 0.25) / 1_000)
    assert error <= float(found[1]) < 1.1 * error
    assert error > float(f"{error:.2g}")  # control: to the nearest it would be too little


def test_points_say_how_far_they_are_moved(create):
    moved = create("Moved", *PLACE, "--per", "200", "--points", "--center", "-73.98,40.72").output
    assert "each point is moved by 400 metre on average" in moved


def test_one_period_is_not_called_several(create):
    asked = (*INCOME, "--threshold", "1", "--every", "60d", "--force")
    assert "each participant spends this once, in its one period" in create("One", *asked).output


@pytest.mark.deep
def test_a_plan_says_for_how_many_it_was_made(create, geoveil, tmp_path):
    plan = ("--plan", tmp_path / "plan.toml")
    asked = ("--threshold", "100000", "--participants", "5000", "--attribute", "income")
    geoveil("plan", *LOG_NORMAL, *asked, "--out", plan[1], to_server=False)
    assert "with 5,000 participants" in create("Planned so", *plan).output
    again = create("Planned again", *plan, "--participants", "4", "--force")
    assert "4 participants" in again.output


@pytest.mark.parametrize(
    ("mechanism", "why"),
    [
        ("smooth:noise=student-t,nu=2.5", "Student-t noise for whole ν from 3 to 30"),
        ("smooth:noise=student-t,nu=3,calibration=paper,reach=inf", None),
    ],
)
def test_what_no_browser_can_answer_is_published_with_a_warning(create, mechanism, why):
    done = create(f"Warned of {mechanism[24:29]}", *ABOVE, "--mechanism", mechanism)
    assert done.exit_code == 0
    assert ("no browser can answer it" in done.stderr) == (why is not None)
    assert (why or "") in done.stderr


@pytest.mark.deep(keep=0)
def test_the_list_of_mechanisms_is_what_campaigns_are_made_of(create, record):
    rows = record("mechanisms", to_server=False)
    assert len(rows) >= 9
    for number, row in enumerate(rows):
        delta = ["--delta", "1e-6"] if row["promises"] == "ε and δ" else []
        assert MECHANISMS.parse(row["mechanism"]).has_slack == bool(delta)
        done = create(f"Listed {number}", *ABOVE, *delta, "--mechanism", row["mechanism"])
        assert ("no browser can answer it" in done.stderr) != row["browsers"]
    published = next(
        row for row in rows if "student-t" in row["mechanism"] and "paper" in row["mechanism"]
    )
    # Var = (B/η)²·3, B = 1/3, ε = 3β + η·2/√3, β = 1/9: η = 1/√3 [MATH §3].
    assert published["variance"] == pytest.approx(1.0, rel=1e-9)


def test_a_delta_is_published_and_told(create, record):
    laplace = ("--mechanism", "smooth:noise=laplace,calibration=paper", "--delta", "1e-6")
    done = create("With a delta", *ABOVE, *laplace, "--reach", "50000")
    assert "ε = 1 per 8000 dollar, δ = 1e-06, up to 50000 dollar" in done.output
    shown = record("campaign", "show", "with-a-delta")
    assert (shown["delta"], shown["reach"]) == (1e-6, 50_000.0)


def test_a_cap_is_published_and_told(create, geoveil, record, words):
    done = create("Capped", *ABOVE)
    assert "ε = 1 per 8000 dollar, any two values 2,981 to 1" in done.output
    shown = record("campaign", "show", "capped")
    assert shown["any_two_epsilon"] == 8.0
    assert shown["central"] is None  # nobody is sure to answer
    create("Three scales", *ABOVE, "--cap", "3,3")
    show = ("campaign", "show", "three-scales", "--honest", "100000", "--central-delta", "1e-6")
    assert record(*show)["central"]["any_two_epsilon"] <= 0.4
    said = "their central ε is 0.185 between two values 8,000 dollar apart and 0.358 between any"
    assert said in words(*show)
    far = create("Capped far", *ABOVE, "--cap", "6,6").output
    assert "ε = 1 per 8000 dollar, no protection of values far apart" in far
    free = create("Free", *ABOVE, "--cap", "none").output
    assert "ε = 1 per 8000 dollar, no protection of values far apart  sha256" in free
    assert "central" not in geoveil("campaign", "show", "free", "--honest", "100000").stdout


@pytest.mark.parametrize(
    ("about", "sides"),
    [
        (("--width", "24000"), {"below": 4.0, "above": 4.0}),
        (("--width", "80000"), {"below": 5.0, "above": 5.0}),
        (("--width", "80001"), None),  # beyond e^10
        (("--read-every", "30d", "--every", "7d", "--days", "70"), None),
        (("--mechanism", "smooth:noise=student-t,nu=3,calibration=paper,reach=inf"), None),
    ],
    ids=["4 scales", "what the band needs", "too wide", "a reading", "the paper's calibration"],
)
def test_by_default_a_cap_is_4_scales_a_side_or_what_the_questions_need(
    create, record, about, sides
):
    name = re.sub("[^a-z0-9]+", "-", f"cap {about[-1]}")[:40]
    create("By default", *ABOVE, *about, "--id", name)
    assert record("campaign", "show", name)["cap"] == sides


def test_a_plan_has_the_cap_that_its_prior_makes_cheap(create, geoveil, record, tmp_path):
    file = tmp_path / "plan.toml"
    asked = ("--prior", "incomes", "--participants", "20000", "--out", file)
    plan = ("plan", *ABOVE[2:], *asked)
    planned = " ".join(geoveil(*plan, "--cap", "fit", to_server=False).stderr.split())
    written = tomllib.loads(file.read_text())
    assert 1 < written["planned"]["variance_factor_of_cap"] <= 1.05
    sides = written["cap"]["below"], written["cap"]["above"]
    assert f"cap {sides[0]:g} noise scales outside, {sides[1]:g} inside, any two values" in planned
    assert sum(sides) <= 8
    width = written["queries"][0]["threshold"]["width"]
    assert width == 8 * 8_000.0  # without a cap 13.5 noise scales, which has no room within 4
    created = create("Planned with a cap", "--plan", file)
    assert f"any two values {to_one(sum(sides))}" in created.output
    assert record("campaign", "show", "planned-with-a-cap")["any_two_epsilon"] == sum(sides)
    with pytest.raises(ParameterError, match="--cap must be one of 'fit', 'none'"):
        geoveil(*plan, "--cap", "little", to_server=False)
    for said in (["--cap", "none"], []):  # a band of 13.5 noise scales has no cap that protects
        done = geoveil(*plan, *said, to_server=False)
        assert ("no cap: no protection of values far apart" in done.stderr) is not bool(said)
        assert "cap" not in tomllib.loads(file.read_text())


def test_a_campaign_that_recurs_has_a_key_for_each_period(create, geoveil, words, tmp_path):
    pem, ids = tmp_path / "keys.pem", tmp_path / "keys.ids"
    printed = geoveil("relay", "key", pem, "--periods", "2", to_server=False).output
    keys = IssuerKey.all_from_pem(pem.read_bytes())
    assert printed.split() == [token_key_id(key.public).hex() for key in keys]
    assert len(keys) == 2
    ids.write_text(printed)

    def create_for(days, *more):
        recurs = ("--every", "1d", "--days", days, "--token-key", ids)
        return create(f"Income for {days}", *ABOVE, *recurs, *more)

    assert create_for("2").exit_code == 0
    shown = words("campaign", "show", "income-for-2")
    assert "token from the issuer with a key for each of 2 periods" in shown
    with pytest.raises(ParameterError, match=r"--token-key must be the 32 .* each of 3 periods"):
        create_for("3")
    ids.write_text("".join(f"{n:064x}\n" for n in range(125)))
    with pytest.raises(ParameterError, match=r"fewer periods, because a relay .*, not .* --force"):
        create_for("125", "--relay-operator", SigningKey.generate().public)


def test_an_id_that_is_taken_is_told_with_the_option_for_another(create):
    assert create("Taken", *ABOVE).exit_code == 0
    with pytest.raises(CommandError, match=r"the id 'taken'.* --id"):
        create("Taken", *INCOME, "--threshold", "30000")
