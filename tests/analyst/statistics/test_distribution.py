"""Distribution functions, quantiles and histograms: coverage over hidden populations.

Joint coverage at 95 % is to be 93.5 to 98.5 % in 500 campaigns, whose own standard error is 1 %;
among 60 it is at least 52 of 60, which chance falls short of once in 100,000 times.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from geoveil.analyst.statistics.distribution import distribution_curve, inverse
from geoveil.analyst.statistics.joint import JointEstimates
from geoveil.analyst.statistics.partition import between, on_simplex, partition_shares
from geoveil.gp import ParameterError, Threshold
from geoveil.gp.limits import UNLIMITED

from .populations import Array, campaigns, heaped, incomes, joint_of, poor, truth

pytestmark = pytest.mark.usefixtures("few_draws")

WIDTH = 24_000.0
AT = np.linspace(10_000.0, 250_000.0, 13)
EDGES = np.array([25_000.0, 50_000.0, 75_000.0, 100_000.0, 150_000.0, 200_000.0])
POPULATIONS = {"incomes": incomes, "heaped": heaped, "poor": poor}


def asked(at: Array, population: Array, n: int, count: int) -> Iterator[JointEstimates]:
    queries = [Threshold(t, WIDTH, "smoothstep") for t in at.tolist()]
    names = tuple(f"above {t:.15g}" for t in at.tolist())
    for points in campaigns(population, n, count):
        yield replace(joint_of(queries, points), labels=names)


def above(at: Array, population: Array) -> Array:
    return truth([Threshold(t, WIDTH, "smoothstep") for t in at.tolist()], population)


def enough(covered: list[bool], most: float = 0.985) -> bool:
    if len(covered) < 100:
        return sum(covered) >= 52
    return 0.935 <= np.mean(covered) <= most


CASES = [
    ("incomes", 2_000, 60),
    ("incomes", 200, 500),
    ("incomes", 2_000, 500),
    ("heaped", 2_000, 500),
]


@pytest.mark.deep
@pytest.mark.parametrize(("who", "n", "count"), CASES)
def test_the_band_holds_the_whole_curve(who, n, count):
    """Intervals by themselves must fail, and are far from holding it."""
    population = POPULATIONS[who]()
    right = 1 - above(AT, population)
    band, pointwise = [], []
    for found in asked(AT, population, n, count):
        curve = distribution_curve(AT, found, WIDTH)
        band.append(bool(((curve.low <= right) & (right <= curve.high)).all()))
        low, high = found.intervals()
        pointwise.append(bool(((1 - high <= right) & (right <= 1 - low)).all()))
        assert (np.diff(np.array([curve.values, curve.low, curve.high])) >= -1e-12).all()
        assert min(curve.low) >= 0
        assert max(curve.high) <= 1
    assert enough(band)
    assert not enough(pointwise)
    assert np.mean(pointwise) < 0.85


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize(("who", "n", "count"), CASES)
def test_the_intervals_of_a_histogram_hold_all_shares(who, n, count):
    """Those of shares by themselves must fail; thresholds as if independent are too wide."""
    population = POPULATIONS[who]()
    right = -np.diff(np.concatenate([[1.0], above(EDGES, population), [0.0]]))
    joint, pointwise, wider = [], [], []
    for found in asked(EDGES, population, n, count):
        parts = between(found, apart=True)
        shares = partition_shares(parts)
        joint.append(bool(((shares.low <= right) & (right <= shares.high)).all()))
        low, high = parts.intervals()
        pointwise.append(bool(((low <= right) & (right <= high)).all()))
        alone = np.diag(found.covariance)
        alone = np.concatenate([alone[:1], alone[1:] + alone[:-1], alone[-1:]])
        wider.append(float(np.sqrt(alone / np.diag(parts.covariance)).mean()))
        assert shares.values.sum() == pytest.approx(1)
        assert shares.values.min() >= 0
        assert shares.low.sum() <= 1 <= shares.high.sum()
    assert enough(joint)
    assert not enough(pointwise)
    assert np.mean(wider) > 1.2


@pytest.mark.deep
@pytest.mark.parametrize(("n", "count"), [(200, 60), (200, 500), (2_000, 500)])
def test_where_hardly_anybody_is_bands_do_not_collapse(n, count):
    """Two in a thousand are above 50,000. The normal band must fail."""
    population = poor()
    right = 1 - above(AT, population)
    shares = -np.diff(np.concatenate([[1.0], above(EDGES, population), [0.0]]))
    band, histogram, normal = [], [], []
    for found in asked(AT, population, n, count):
        curve = distribution_curve(AT, found, WIDTH)
        band.append(bool(((curve.low <= right) & (right <= curve.high)).all()))
        critical = found.critical_value()
        far = np.abs(1 - found.values - right) > critical * found.standard_errors
        normal.append(not far.any())
    for found in asked(EDGES, population, n, count):
        made = partition_shares(between(found, apart=True))
        histogram.append(bool(((made.low <= shares) & (shares <= made.high)).all()))
    assert enough(band, most=1)
    assert enough(histogram, most=1)
    assert not enough(normal, most=1)


def test_the_density_is_the_slope_of_the_curve():
    (found,) = asked(AT, incomes(), 20_000, 1)
    curve = distribution_curve(AT, found, WIDTH)
    density = curve.density()
    assert density.at == pytest.approx((AT[1:] + AT[:-1]) / 2)
    assert density.values == pytest.approx(-np.diff(found.values) / np.diff(AT))
    right = -np.diff(above(AT, incomes())) / np.diff(AT)
    assert ((density.low <= right) & (right <= density.high)).all()
    c = found.covariance
    error = math.sqrt(c[3, 3] + c[4, 4] - 2 * c[3, 4]) / (AT[4] - AT[3])
    half = (density.high[3] - density.low[3]) / 2
    assert 2.4 * error < half < 3.4 * error  # so many standard errors hold 12 slopes
    assert "lower" in density.notes[-1]


def test_quantiles_invert_the_curve_and_its_band():
    (found,) = asked(AT, incomes(), 20_000, 1)
    curve = distribution_curve(AT, found, WIDTH)
    levels = np.array([0.001, 0.25, 0.5, 0.75, 0.999])
    made = curve.quantiles(levels)
    assert np.interp(made.values[1:4], AT, curve.values) == pytest.approx(levels[1:4])
    for level, low, high in zip(levels[1:4], made.low[1:4], made.high[1:4], strict=True):
        assert low == AT[curve.high < level].max()
        assert high == AT[curve.low > level].min()
    assert made.low[0] == -math.inf  # the grid says nothing of what is before it
    assert made.high[0] == AT[0]
    assert made.high[-1] == math.inf
    assert made.low[-1] <= AT[-1]
    assert made.to_dict()["rows"][0]["band_low"] is None
    for bad in ([], [0.0], [0.5, 0.5], [1.2], [math.nan]):
        with pytest.raises(ParameterError, match="levels"):
            curve.quantiles(bad)


def test_quantiles_hold_where_the_curve_jumps_between_thresholds():
    """70 % of people hold 30,000, the others 210,000, and thresholds are 100,000 apart.

    Control: a band that is linear between thresholds holds none.
    """
    people, at = np.repeat([30_000.0, 210_000.0], [7_000, 3_000]), np.arange(0.0, 5e5, 1e5)
    fine = np.linspace(0.0, 3e5, 3_001)
    levels = np.array([0.5, 0.6, 0.8, 0.9])
    right = np.interp(levels, 1 - above(fine, people), fine)
    for found in asked(at, people, 2_000, 5):
        curve = distribution_curve(at, found, WIDTH)
        made = curve.quantiles(levels)
        assert ((made.low <= right) & (right <= made.high)).all()
        low, high = inverse(at, curve.high, levels), inverse(at, curve.low, levels, last=True)
        assert not ((low <= right) & (right <= high)).any()


def test_a_flat_piece_of_a_curve_is_all_in_an_interval():
    at, flat, half = np.arange(5.0), np.array([0.1, 0.5, 0.5, 0.5, 0.9]), np.array([0.5])
    assert inverse(at, flat, half).tolist() == [1.0]
    assert inverse(at, flat, half, last=True).tolist() == [3.0]
    assert inverse(at, flat, np.array([0.3])) == pytest.approx([0.5])


@pytest.mark.parametrize("seed", range(5))
def test_shares_are_the_nearest_in_standard_errors(seed):
    """Against a search over random shares: none is nearer."""
    rng = np.random.default_rng(seed)
    values, d = rng.normal(0.25, 0.3, 4), rng.uniform(0.1, 1.0, 4)
    found = on_simplex(values, d)
    assert found.sum() == pytest.approx(1)
    assert found.min() >= 0

    def distance(x: Array) -> Array:
        return np.asarray(((x - values) ** 2 / d).sum(axis=-1))

    others = rng.dirichlet(np.full(4, 0.7), 20_000)
    assert distance(found) <= distance(others).min() + 1e-9
    near = found + 0.05 * (others - found)
    assert distance(found) <= distance(near).min() + 1e-9


def test_a_part_without_people_has_no_share_at_all():
    """Not the 10⁻²⁶ by which a multiple that is found by halving is off."""
    values = np.array([0.3, 0.7000000001, 0.0, 0.0])
    assert on_simplex(values, np.array([1.0, 1.0, 0.0, 0.0]))[2:].tolist() == [0.0, 0.0]


def test_intervals_of_a_partition_know_that_all_shares_are_one():
    """The shares of two parts are 1 together: the one is known as well as the other."""
    joint = JointEstimates(
        labels=("a", "b"),
        values=np.array([0.3, 0.7]),
        covariance=np.diag([1e-6, 1e-2]),
        n=1_000,
        confidence=0.95,
        limits=(UNLIMITED,) * 2,
        privacy=next(asked(AT[:1], incomes(), 10, 1)).privacy,
    )
    made = partition_shares(joint)
    assert made.high[1] - made.low[1] == pytest.approx(made.high[0] - made.low[0])
    assert made.values == pytest.approx([0.3, 0.7])


def test_the_confidence_of_a_curve_is_that_of_the_whole():
    (found,) = asked(AT, incomes(), 2_000, 1)
    sidak = norm.ppf((1 + 0.95 ** (1 / len(AT))) / 2)
    half = (found.band()[1] - found.band()[0])[5] / 2
    assert 1.97 * found.standard_errors[5] < half < sidak * found.standard_errors[5]
