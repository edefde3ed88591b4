"""Test fields that apply to some people: estimates are about those, or refused."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from geoveil.analyst import (
    Correlation,
    FormReports,
    Mean,
    MeanBy,
    NumberOf,
    Option,
    Regression,
    Shares,
)
from geoveil.campaign import (
    Attribute,
    ChoiceField,
    Condition,
    FormCampaign,
    NumberField,
    OrdinalField,
)
from geoveil.gp import GeoPrivacy, ParameterError

from .forms import reported

OPENS = datetime(2026, 1, 1, tzinfo=UTC)
RENTING = Condition(field="rents", options=("yes",))
FORM = FormCampaign(
    campaign_id="household",
    title="Household",
    opens=OPENS,
    closes=OPENS + timedelta(days=30),
    fields=(
        ChoiceField(name="rents", options=("yes", "no", "lodges"), epsilon=2.0),
        NumberField(
            attribute=Attribute(name="rent", unit="dollar", least=0, most=5000),
            privacy=GeoPrivacy(1, 500, "dollar"),
            applies=RENTING,
        ),
        OrdinalField(
            name="landlord",
            options=("bad", "fair", "good"),
            epsilon=1.0,
            applies=RENTING,
            otherwise="fair",
        ),
        NumberField(
            attribute=Attribute(name="age", unit="year", least=0, most=120),
            privacy=GeoPrivacy(1, 4, "year"),
        ),
    ),
)


def reports(n: int, seed: int) -> tuple[FormReports, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Return reports of people, and the rents of those who pay one."""
    rng = np.random.default_rng(seed)
    rents = rng.choice(3, n, p=[0.4, 0.5, 0.1])
    rent = np.clip(rng.normal(900, 250, n), 0, 5000)
    age = rng.uniform(20, 80, n)
    renting = rents == 0
    values = [
        rents, np.where(renting, rent, 2500.0), np.where(renting, rng.integers(0, 3, n), 1), age,
    ]  # fmt: skip
    return reported(FORM, values, rng), rent[renting]


@pytest.mark.filterwarnings("ignore::geoveil.gp.NotPrivateWarning")
def test_a_mean_is_of_those_who_are_asked() -> None:
    of, rent = reports(200_000, 39)
    mean = of.ask(Mean("rent"))
    assert "of those who are asked" in mean.label
    assert abs(mean.value - rent.mean()) < 4 * mean.standard_error
    assert mean.standard_error < 20  # control: with the others the mean would be 1,860
    (by,) = of.ask(MeanBy("rent", [Option("rents", "yes")])).values
    assert by == pytest.approx(mean.value)
    score = of.ask(Mean("landlord"))
    assert abs(score.value - 2.0) < 4 * score.standard_error


@pytest.mark.filterwarnings("ignore::geoveil.gp.NotPrivateWarning")
@pytest.mark.parametrize("seed", range(3))
def test_its_interval_covers(seed: int) -> None:
    # 60 campaigns of 400 people: below 53 covered has probability 0.6 % at 95 %, three seeds.
    held = 0
    for campaign in range(60):
        of, _ = reports(400, 1000 * seed + campaign)
        mean = of.ask(Mean("rent"))
        held += mean.ci_low <= 900 <= mean.ci_high
    assert held >= 53


@pytest.mark.filterwarnings("ignore::geoveil.gp.NotPrivateWarning")
def test_what_would_count_people_who_are_not_asked_is_refused() -> None:
    of, _ = reports(50, 1)
    for asked in (
        Correlation("rent", "age"),
        MeanBy("rent", "landlord"),
        Regression("age", ["rent"]),
        Shares("landlord"),
    ):
        with pytest.raises(ParameterError, match="asked of those with rents: yes"):
            of.ask(asked)
    with pytest.raises(ParameterError, match="asked of those with rents: yes"):
        of.of("rent")
    assert of.pseudo_values([[NumberOf("rent"), Option("rents", "yes")]]).shape == (50, 1)
