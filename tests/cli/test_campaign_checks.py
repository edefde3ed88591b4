"""Test that unlikely campaigns are published only if forced, and others state their error."""

import re

import numpy as np
import pytest

from geoveil.gp import (
    DebiasedLaplace,
    GeoPrivacy,
    ParameterError,
    Threshold,
)

INCOME = ["--attribute", "household income", "--unit", "dollar"]
PLACE = ["--attribute", "location"]
MISTAKES = {"a band far narrower than the noise": (
        [*INCOME, "--epsilon", "1", "--per", "8000", "--threshold", "100000", "--width", "100"],
        "at most 0.5 with 10,000 participants",
    ), "epsilon and its distance exchanged": (
        [*INCOME, "--epsilon", "8000", "--per", "1", "--threshold", "100000"], "--epsilon must be",
    ), "no distance in mind": (
        [*INCOME, "--epsilon", "1", "--per", "1", "--threshold", "100000"], "--per must be",
    ), "latitude first, in the Antarctic": (
        [*PLACE, "--epsilon", "1", "--per", "500", "--place", "here=40.75,-73.98"],
        "the longitude comes first",
    ), "one of two places exchanged": (
        [*PLACE, "--epsilon", "1", "--per", "500", "--place", "13.4,52.5", "--place", "52.6,13.5"],
        "the longitude comes first",
    ), "a period in which all of the campaign lies": (
        [*INCOME, "--epsilon", "1", "--per", "8000", "--points", "--every", "400d"],
        r"--every must be shorter than the 30 days .* got --every='400d'",
    )}  # fmt: skip
NEVER = {"an income without a unit": (
        [*INCOME[:2], "--epsilon", "1", "--per", "8000", "--threshold", "100000"], "--unit must",
    ), "an income at a place": (
        [*INCOME[:2], "--epsilon", "1", "--per", "8000", "--threshold", "9", "--center", "1,2"],
        "dimension",
    ), "latitude first, beyond the pole": (
        [*PLACE, "--epsilon", "1", "--per", "500", "--place", "35.68,139.69"], "longitude first",
    )}  # fmt: skip


@pytest.mark.deep(keep=4)
@pytest.mark.parametrize("what", MISTAKES)
def test_what_looks_like_a_mistake_has_to_be_forced(geoveil, what):
    arguments, told = MISTAKES[what]
    name = re.sub("[^a-z]+", "-", what)
    create = ["campaign", "create", what, "--id", name, *arguments]
    with pytest.raises(ParameterError, match=told) as raised:
        geoveil(*create)
    assert "--force" in str(raised.value)
    assert name not in geoveil("campaign", "list").output
    forced = geoveil(*create, "--force")
    assert forced.exit_code == 0
    assert name in forced.output


@pytest.mark.parametrize("what", NEVER)
def test_what_means_nothing_is_refused_even_if_forced(geoveil, what):
    arguments, told = NEVER[what]
    with pytest.raises(ParameterError, match=told):
        geoveil("campaign", "create", what, *arguments, "--force")


def test_the_error_to_expect_is_the_one_that_comes(geoveil):
    """Told for the worst place that everybody could be at; simulated with everybody there."""
    created = geoveil(
        "campaign", "create", "Expected", *INCOME, "--epsilon", "1", "--per", "8000",
        "--threshold", "100000", "--threshold", "50000", "--participants", "400",
    )  # fmt: skip
    found = re.search(
        r"standard error for the population of at most ([0-9.]+) \('above", created.output
    )
    assert found is not None
    mechanism = DebiasedLaplace(
        Threshold(100_000, 24_000, "smoothstep"), GeoPrivacy(1, 8_000, "dollar")
    )
    # Half of the people at either end of the band would sample 0 and 1; the noise is of its middle.
    noise = mechanism.simulate(np.full(100_000, 100_000.0), np.random.default_rng(5)).var()
    assert float(found[1]) == pytest.approx(np.sqrt((noise + 0.25) / 200), rel=0.02)


def test_points_say_how_far_they_are_moved(geoveil):
    created = geoveil(
        "campaign", "create", "Moved", *PLACE, "--epsilon", "1", "--per", "200", "--points",
        "--center", "-73.98,40.72",
    )  # fmt: skip
    assert "each point is moved by 400 metre on average" in created.output


@pytest.mark.deep
def test_a_plan_says_for_how_many_it_was_made(geoveil, tmp_path):
    file = tmp_path / "plan.toml"
    geoveil(
        "plan", "--threshold", "100000", "--participants", "5000", "--epsilon", "1", "--per",
        "8000", "--unit", "dollar", "--prior", "lognormal:98000,0.83", "--attribute", "income",
        "--out", str(file), to_server=False,
    )  # fmt: skip
    created = geoveil("campaign", "create", "Planned so", "--plan", str(file))
    assert "with 5,000 participants" in created.output
    assert "4 participants" in geoveil(
        "campaign", "create", "Planned again", "--plan", str(file), "--participants", "4",
        "--force",
    ).output  # fmt: skip
