"""Maps of a mean: by hand on values in the clear, intervals that hold at once, refusals."""

import numpy as np
import pytest

from geoveil.analyst.relations.mean_map import MeanMap
from geoveil.gp import ParameterError

from .forms import CLEAR, form, number, place, reported


def test_a_map_in_the_clear_is_of_weighted_means() -> None:
    rng = np.random.default_rng(1)
    home = rng.normal(0.0, 4_000.0, (500, 2))
    income = 50_000 + 3 * home[:, 0] + rng.normal(0.0, 2e4, 500)
    campaign = form(number("income", CLEAR * 1e3, "dollar"), place("home", 1e-6))
    reports = reported(campaign, [income, home], rng)
    weights = rng.uniform(1.0, 3.0, 500)
    made = reports.ask(MeanMap("income", "home", size=(3, 2), bandwidth=3_000.0), weights=weights)
    plane = campaign.field("home").attribute.coordinates
    assert plane is not None
    rows = made.rows()
    for row in rows:
        at = plane.project([(row["longitude"], row["latitude"])])[0]
        bell = weights * np.exp(-((home - at) ** 2).sum(axis=1) / 2 / 3_000.0**2)
        assert row["estimate"] == pytest.approx(bell @ income / bell.sum(), rel=1e-6)
        assert row["ci_low"] < row["estimate"] < row["ci_high"]
    assert len(rows) == 6
    features = made.to_geojson()["features"]
    assert [f["properties"] for f in features] == made.to_dict()["rows"]
    assert "hold at once" in str(made)
    assert "no public range bounds the values" in str(made)


@pytest.mark.deep(keep=0)
def test_intervals_hold_all_means_at_once() -> None:
    """60 campaigns of 9 nodes: 95 % held at once in at least 51; single intervals in fewer."""
    rng = np.random.default_rng(2)
    campaign = form(number("income", 8_000.0, "dollar"), place("home", 500.0))
    plane = campaign.field("home").attribute.coordinates
    assert plane is not None
    asked, joint, single, h = MeanMap("income", "home", size=(3, 3)), 0, 0, 0.0
    for _ in range(60):
        home = rng.normal(0.0, 5_000.0, (3_000, 2))
        income = 50_000 + 3 * home[:, 0] + rng.normal(0.0, 2e4, 3_000)
        made = reported(campaign, [income, home], rng).ask(asked)
        h = made.bandwidth
        rows = made.rows()
        at = plane.project([(row["longitude"], row["latitude"]) for row in rows])
        # The mean of a normal population through a normal bell.
        truth = 50_000 + 3 * at[:, 0] * 5_000.0**2 / (5_000.0**2 + h**2)
        ends = np.array([(row["ci_low"], row["ci_high"]) for row in rows]).T
        joint += bool(((ends[0] <= truth) & (truth <= ends[1])).all())
        low, high = made.means.intervals(0.95)
        single += bool(((low <= truth) & (truth <= high)).all())
    assert joint >= 51
    assert single < joint


def test_a_map_with_too_many_nodes_or_of_a_number_is_refused() -> None:
    with pytest.raises(ParameterError, match="441"):
        MeanMap("income", "home", size=(30, 30))
    rng = np.random.default_rng(3)
    campaign = form(number("income", 8_000.0, "dollar"), number("age", 5.0))
    reports = reported(campaign, [rng.normal(size=9), rng.normal(size=9)], rng)
    with pytest.raises(ParameterError, match="places"):
        reports.ask(MeanMap("income", "age"))
