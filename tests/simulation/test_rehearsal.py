"""Test that a rehearsal with the SDK, a local server and an analyst finds the truth."""

import math
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from geoveil.analyst import (
    CampaignEstimates,
    LogNormalPrior,
    Quantiles,
    Reports,
    ShareAbove,
    area_of,
    campaign_asking,
    campaign_for_points,
)
from geoveil.gp import GeoPrivacy, ParameterError
from geoveil.simulation import LogNormalPopulation, Population
from geoveil.simulation.rehearsal import rehearse

PRIVACY = GeoPrivacy(1.0, per=8_000.0, unit="dollar")
NEXT_MONTH = {
    "opens": datetime(2090, 1, 1, tzinfo=UTC),
    "closes": datetime(2090, 2, 1, tzinfo=UTC),
    "title": "Income",
}
ASKING = campaign_asking(
    [ShareAbove(100_000)],
    attribute="income",
    privacy=PRIVACY,
    campaign_id="income",
    **NEXT_MONTH,
)
POINTS = campaign_for_points(
    attribute="income", privacy=PRIVACY, campaign_id="incomes", **NEXT_MONTH
)
FRAME = pd.DataFrame({"income": np.random.default_rng(1).lognormal(11.5, 0.8, 2_000)})


def test_a_column_of_a_data_frame_answers_questions():
    """All 2,000 take part; 6 standard errors of the noise alone: fails once in 10⁸ runs."""
    found = rehearse(ASKING, FRAME["income"])
    assert isinstance(found, CampaignEstimates)
    (answer,) = found.estimates
    query = ASKING.questions[0].query
    truth = query.value(FRAME["income"].to_numpy())
    noise = math.sqrt(ASKING.mechanisms[0].variance(FRAME["income"].to_numpy()).mean() / 2_000)
    assert answer.n == 2_000
    assert abs(answer.value - truth.mean()) < 6 * noise
    others = query.value(1.5 * FRAME["income"].to_numpy())  # the control
    assert abs(answer.value - others.mean()) > 6 * noise


def test_a_value_campaign_returns_its_reports(tmp_path):
    FRAME.to_csv(tmp_path / "people.csv", index=False)
    people = Population.from_file(tmp_path / "people.csv", values=["income"])
    found = rehearse(POINTS, people, participants=3_000, seed=1)
    assert isinstance(found, Reports)
    (row,) = found.ask(Quantiles(levels=[0.5])).rows()
    assert abs(row["estimate"] - FRAME["income"].median()) < 6 * row["standard_error"] + 2_000


def test_people_are_drawn_from_a_prior():
    found = rehearse(ASKING, LogNormalPrior(11.5, 0.8), participants=500, seed=1)
    assert found.estimates[0].n == 500


def test_places_are_longitudes_and_latitudes():
    where = campaign_for_points(
        attribute="place", privacy=GeoPrivacy(1.0, per=500.0, unit="metre"), campaign_id="where",
        plane=area_of([], center=(-73.98, 40.72), radius=60_000), **NEXT_MONTH,
    )  # fmt: skip
    people = pd.DataFrame({"lon": [-73.98, -73.9], "lat": [40.72, 40.7]})
    (points,) = rehearse(where, people).points(0)
    assert points.shape == (2, 2)


@pytest.mark.parametrize(
    ("people", "more", "name"),
    [
        ([1.0, math.nan], {}, "people"),
        ([[1.0, 2.0]], {}, "people"),
        ([], {}, "people"),
        ([1.0], {"participants": 0}, "participants"),
        (LogNormalPrior(11.5, 0.8), {}, "participants"),
    ],
)
def test_people_who_do_not_fit_are_refused(people, more, name):
    with pytest.raises(ParameterError) as refused:
        rehearse(ASKING, people, **more)
    assert refused.value.name == name


def test_a_population_of_pairs_does_not_hold_one_number():
    pairs = LogNormalPopulation(
        name="pairs", unit="dollar", mu=(11, 11), sigma=(1, 1), correlation=0, source="a test"
    )
    with pytest.raises(ParameterError, match="people"):
        rehearse(ASKING, pairs, participants=10)
