"""Shares by district and by nearest place: partitions whose intervals hold all at once."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from geoveil.analyst import (
    Contaminated,
    Districts,
    DistrictShares,
    JointEstimates,
    Nearest,
    new_york_boroughs,
    partition_shares,
)
from geoveil.analyst.statistics.districts import cells_of
from geoveil.gp import GeoPrivacy, ParameterError, PlanarLaplace, Polygon, SmoothedRegion
from geoveil.gp.coordinates import AzimuthalEquidistant

from . import populations

PLANE = AzimuthalEquidistant(-73.95, 40.71, radius_m=40_000)
PRIVACY = GeoPrivacy(1.0, per=500.0, unit="metre")
TOWNS = {"Manhattan": (-73.97, 40.78), "Brooklyn": (-73.94, 40.64), "Queens": (-73.82, 40.72)}
SIZES = (12_000, 6_000, 2_000)


@pytest.fixture(scope="module")
def reports():
    """Three towns, each well within its borough."""
    campaign = populations.places(PLANE, PRIVACY.per)
    rng = np.random.default_rng(4)
    people = np.repeat(PLANE.project(list(TOWNS.values())), SIZES, axis=0)
    people = people + rng.normal(0.0, 300.0, people.shape)
    return populations.reports(campaign.point_mechanism.simulate(people, rng), campaign)


@pytest.fixture(scope="module")
def found(reports):
    return reports.ask(Districts(new_york_boroughs(), bandwidth=1_000.0))


@pytest.mark.deep
def test_shares_of_districts_are_those_of_the_people_in_them(found):
    shares = dict(zip(found.labels, found.values.tolist(), strict=True))
    assert sum(shares.values()) == pytest.approx(1.0)
    errors = dict(zip(found.labels, found.joint.standard_errors.tolist(), strict=True))
    # The Manhattan of 12 corners is narrow: of the town there, bells of 1 km see some beyond it.
    assert 0.45 < shares["Manhattan"] < 0.6
    assert shares["Brooklyn"] == pytest.approx(0.3, abs=4 * errors["Brooklyn"])
    assert shares["Queens"] == pytest.approx(0.1, abs=4 * errors["Queens"])
    assert found.labels[-1] == "elsewhere"
    assert np.all((found.low <= found.values) & (found.values <= found.high))
    assert "1,000 m" in found.notes[-1]


@pytest.mark.deep(rest=0)
def test_liars_widen_every_share(reports, found):
    doubted = reports.ask(Contaminated(Districts(new_york_boroughs(), bandwidth=1_000.0), 0.01))
    assert isinstance(doubted, DistrictShares)
    assert np.all(doubted.high >= found.high)
    assert doubted.high[0] > found.high[0] + 0.009
    assert "1 %" in doubted.notes[-1]


def test_districts_are_handed_on_and_drawn(found):
    import matplotlib

    matplotlib.use("Agg")
    collection = found.__geo_interface__
    names = [one["properties"]["name"] for one in collection["features"]]
    assert names == list(found.labels[:-1])
    assert collection["features"][0]["geometry"]["type"] == "MultiPolygon"
    axes = found.plot()
    assert any("Brooklyn\n30" in text.get_text() for text in axes.texts)
    west, east = axes.get_xlim()
    assert sum(west <= at <= east for at in axes.get_xticks()) <= 6  # apart from each other
    from matplotlib import pyplot

    pyplot.close("all")
    pytest.importorskip("geopandas")
    frame = found.to_geopandas()
    assert frame["name"].tolist() == names
    assert frame.geometry.is_valid.all()


def test_everybody_has_a_nearest_place(reports):
    found = reports.ask(Nearest(TOWNS, bandwidth=1_500.0))
    total = np.array(SIZES) / sum(SIZES)
    errors = found.joint.standard_errors
    assert found.joint.values.sum() == pytest.approx(1.0, abs=1e-3)
    assert np.all(np.abs(found.values - total) <= 4 * errors + 1e-3)


def test_a_cell_is_what_is_nearest():
    """Against distances, at 2,000 points."""
    import shapely

    rng = np.random.default_rng(2)
    centers = rng.uniform(-3.0, 3.0, (9, 2))
    points = rng.uniform(-4.0, 4.0, (2_000, 2))
    nearest = np.linalg.norm(points[:, None] - centers, axis=-1).argmin(axis=1)
    for number, corners in enumerate(cells_of(centers, 4.0)):
        within = shapely.contains_xy(shapely.Polygon(corners), *points.T)
        assert np.array_equal(within, nearest == number)


def test_what_is_no_partition_is_refused(reports):
    square = [[(-74.0, 40.7), (-73.9, 40.7), (-73.9, 40.8), (-74.0, 40.8), (-74.0, 40.7)]]
    shape = {"type": "Polygon", "coordinates": square}
    twice = [{"type": "Feature", "properties": {"name": name}, "geometry": shape} for name in "ab"]
    with pytest.raises(ParameterError, match="a and b"):
        reports.ask(Districts({"type": "FeatureCollection", "features": twice}))
    with pytest.raises(ParameterError, match="districts must be a GeoJSON"):
        Districts({"type": "Point", "coordinates": [0.0, 0.0]})
    with pytest.raises(ParameterError, match="places"):
        Nearest({"one": (0.0, 0.0)})
    with pytest.raises(ParameterError, match="distinct"):
        reports.ask(Nearest({"a": (-73.9, 40.7), "b": (-73.9, 40.7), "c": (-73.9, 40.8)}))
    with pytest.raises(ParameterError, match="bandwidth"):
        Districts(new_york_boroughs(), bandwidth=0.0)


@pytest.mark.deep
def test_all_shares_are_held_at_once():
    """600 campaigns of 2,000 people in six districts: 94 to 98 % (standard error 0.9 points);
    intervals that hold one by one do not."""
    mechanism = PlanarLaplace(GeoPrivacy(1.0, per=1.0, unit="metre"), 2)
    corners = [(4.0 * i, 4.0 * j) for j in (0, 1) for i in (0, 1, 2)]
    squares = [
        SmoothedRegion(Polygon([(x, y), (x + 4, y), (x + 4, y + 4), (x, y + 4)], width=1.0), 1.5)
        for x, y in corners
    ]
    estimators = [mechanism.estimator(square, debias=True) for square in squares]
    rng = np.random.default_rng(8)
    population = rng.normal((5.0, 4.0), (3.0, 2.0), (50_000, 2))
    inside = np.stack([square.value(population) for square in squares])
    truth = np.append(inside.mean(axis=1), 1 - inside.mean(axis=1).sum())
    n, campaigns, held, alone = 2_000, 600, 0, 0
    # Of 200,000 reports, whose means are off by a tenth of a campaign's standard errors.
    sent = mechanism.simulate(np.repeat(population, 4, axis=0), rng)
    all_reports = np.stack([one.value(sent) for one in estimators])
    all_reports = np.vstack([all_reports, 1 - all_reports.sum(axis=0)])
    for _ in range(campaigns):
        reports = all_reports[:, rng.integers(0, 200_000, n)]
        made = JointEstimates(
            labels=tuple("abcdefg"), values=reports.mean(axis=1), covariance=np.cov(reports) / n,
            n=n, confidence=0.95, limits=(estimators[0].limits,) * 7, privacy=mechanism.privacy,
        )  # fmt: skip
        shares = partition_shares(made)
        held += bool(np.all((shares.low <= truth) & (truth <= shares.high)))
        errors = norm.ppf(0.975) * made.standard_errors
        alone += bool(np.all(np.abs(made.values - truth) <= errors))
    assert 0.94 <= held / campaigns <= 0.98
    assert alone / campaigns < 0.85
    assert math.isclose(truth.sum(), 1.0)
