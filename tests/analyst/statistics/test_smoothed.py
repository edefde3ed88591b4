"""The smoothed distribution: nearer where people are spread smoothly, biased where not."""

import numpy as np
import pytest

from geoveil.analyst import (
    Contaminated,
    DistributionFunction,
    Nearest,
    Quantiles,
    ReportRows,
    SmoothedDistribution,
    estimate,
    reports_of,
)
from geoveil.analyst.statistics.cells import CellCounter, Counts
from geoveil.gp import GeoPrivacy, ParameterError, PlanarLaplace
from geoveil.gp.coordinates import AzimuthalEquidistant

from .populations import PRIVACY, Array, campaign, campaigns, incomes, reports

HEAP = 80_000.0


def at_the_heap() -> Array:
    """Return incomes of which a fifth are the same."""
    x = incomes()
    x[::5] = HEAP
    return x


def share_up_to(population: Array, at: Array) -> Array:
    return np.asarray((population[:, None] <= at).mean(axis=0))


def test_points_are_counted_in_the_cells_that_hold_them():
    rng = np.random.default_rng(2)
    points = rng.integers(-40, 40, (1_000, 2))
    counter = CellCounter(Counts(2.5), step=0.5)
    for start in range(0, 1_000, 300):
        counter.add(points[start : start + 300])
    edges = np.arange(-20.0, 22.0, 2.5)
    expected, *_ = np.histogram2d(points[:, 0] * 0.5, points[:, 1] * 0.5, (edges, edges))
    found = np.zeros_like(expected)
    found[tuple((counter.cells + 8).T)] = counter.counts
    assert found.tolist() == expected.tolist()


@pytest.mark.deep
def test_it_errs_less_where_people_are_spread_smoothly_and_more_at_a_heap():
    """Mean squared error of the curve, 12 campaigns of 2,000: less than half of the unbiased one's;
    the control is a heap, before which it is off by more than its band."""
    at = np.linspace(10_000, 200_000, 39)
    wanted, errors, plain = share_up_to(incomes(), at), 0.0, 0.0
    for points in campaigns(incomes(), 2_000, 12):
        held = reports(points)
        smooth = held.ask(SmoothedDistribution(samples=20))
        errors += float(np.mean((np.interp(at, smooth.at, smooth.values) - wanted) ** 2))
        curve = held.ask(DistributionFunction(at=at, width=8_000.0))
        plain += float(np.mean((curve.values - wanted) ** 2))
    assert errors < plain / 2

    (points,) = campaigns(at_the_heap(), 20_000, 1)
    curve = reports(points).ask(SmoothedDistribution())
    before = int(np.searchsorted(curve.at, HEAP)) - 1
    hidden = share_up_to(at_the_heap(), curve.at[before : before + 1])[0]
    assert not curve.low[before] <= hidden <= curve.high[before]


@pytest.mark.deep
def test_the_bootstrap_knows_how_far_campaigns_differ():
    """The standard deviation of the median over 40 campaigns is known to 11 %; 30 % is asked."""
    made = [
        reports(points).ask(SmoothedDistribution(samples=30))
        for points in campaigns(incomes(), 1_000, 40)
    ]
    medians = [float(one.quantiles([0.5]).values[0]) for one in made]
    said = [float(np.std([np.interp(0.5, again, one.at) for again in one.drawn])) for one in made]
    assert np.mean(said) == pytest.approx(np.std(medians), rel=0.3)


@pytest.mark.deep
def test_what_follows_from_it_agrees_with_it():
    (points,) = campaigns(incomes(), 5_000, 1)
    curve = reports(points).ask(SmoothedDistribution())
    density, quantiles = curve.density(), curve.quantiles([0.25, 0.5])
    assert np.interp(quantiles.values, curve.at, curve.values) == pytest.approx([0.25, 0.5])
    steps = np.diff(curve.at)
    assert density.values @ steps == pytest.approx(curve.values[-1] - curve.values[0])
    assert (quantiles.low < quantiles.values).all()
    assert (quantiles.values < quantiles.high).all()
    assert (density.low >= 0).all()
    assert "biased" in curve.notes[1]
    assert "biased" in density.notes[2]
    assert curve.rows()[0].keys() == {"value", "estimate", "band_low", "band_high", "holds"}
    again = reports(points).ask(SmoothedDistribution())
    assert again.to_dict() == curve.to_dict()


def test_what_it_cannot_be_is_refused():
    (points,) = campaigns(incomes(), 200, 1)
    held = reports(points)
    with pytest.raises(ParameterError, match="nothing bounds"):
        held.ask(Contaminated(SmoothedDistribution(), 0.01))
    with pytest.raises(ParameterError, match="at least 100"):
        reports(points[:99]).ask(SmoothedDistribution())
    with pytest.raises(ParameterError, match="samples"):
        SmoothedDistribution(samples=5)
    nobody = ReportRows(np.zeros(200, np.uint32), None, (np.zeros(200, np.int64),) * 2)
    with pytest.raises(ParameterError, match="numbers"):
        reports_of(nobody, campaign(dimension=2)).ask(SmoothedDistribution())


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("asked", [Quantiles(levels=[0.5]), SmoothedDistribution()])
def test_reports_of_a_mechanism_need_no_campaign(asked):
    mechanism = PlanarLaplace(PRIVACY, 1)
    (points,) = campaigns(incomes(), 500, 1)
    integers = np.rint(points / mechanism.step).astype(np.int64)
    found = estimate(integers, mechanism, asked, confidence=0.9)
    assert found.to_dict() == reports(points).ask(asked, 0.9).to_dict()
    with pytest.raises(ParameterError, match="for points"):
        estimate(integers, mechanism)


def test_places_at_hand_have_coordinates():
    plane = AzimuthalEquidistant(-73.95, 40.7, radius_m=20_000)
    mechanism = PlanarLaplace(plane.privacy(GeoPrivacy(1.0, per=300.0, unit="metre")), 2)
    people = np.repeat(plane.project([(-73.99, 40.7), (-73.91, 40.7)]), [600, 200], axis=0)
    points = np.asarray(mechanism.simulate(people, np.random.default_rng(1)))
    found = estimate(
        np.rint(points / mechanism.step).astype(np.int64),
        mechanism,
        Nearest({"west": (-73.99, 40.7), "east": (-73.91, 40.7)}),
        coordinates=plane,
    )
    west, _ = (row for row in found.rows() if row["name"] in {"west", "east"})
    assert west["ci_low"] < 0.75 < west["ci_high"]
    assert found.privacy.rate == pytest.approx(1 / 300)
