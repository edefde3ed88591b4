"""Test fast sums over points against every estimator at every point."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from geoveil.gp import (
    Disc,
    GaussianKernel,
    GeoPrivacy,
    Linear,
    PlanarLaplace,
    Range,
    SmoothedRegion,
    Threshold,
)
from geoveil.gp.deconvolution.bands import BandTotals, bands_of
from geoveil.gp.deconvolution.base import PointEstimator
from geoveil.gp.deconvolution.choice import ways
from geoveil.gp.deconvolution.lattice import DebiasedKernel, Lattice, LatticeTotals
from geoveil.gp.deconvolution.totals import EachTotals, Sums, Totals
from geoveil.gp.estimation import Accumulator, sums_of
from geoveil.gp.queries.profiles.soft_step import Smoothstep

Points = NDArray[np.int64]
MANY = 1_000_000


def mechanism(dimension: int = 1, b: float = 0.5) -> PlanarLaplace:
    return PlanarLaplace(GeoPrivacy(1.0, b, "km"), dimension)


def estimators(noise: PlanarLaplace, queries: Sequence[Any]) -> dict[str, PointEstimator]:
    return {str(i): noise.estimator(query, debias=True) for i, query in enumerate(queries)}


def released(noise: PlanarLaplace, n: int, spread: float, seed: int = 1) -> Points:
    rng = np.random.default_rng(seed)
    x = rng.normal(0, spread, (n, noise.dimension))
    points = np.asarray(noise.simulate(x if noise.dimension > 1 else x[:, 0], rng))
    return np.rint(points.reshape(n, -1) / noise.step).astype(np.int64)


def sums(totals: Sequence[Totals], points: Points, blocks: int = 1) -> dict[str, Accumulator]:
    return {label: found.values for label, found in all_sums(totals, points, blocks).items()}


def all_sums(totals: Sequence[Totals], points: Points, blocks: int = 1) -> dict[str, Sums]:
    for block in np.array_split(points, blocks):
        for one in totals:
            one.add(block, [(0, slice(0, len(block)))])
    return {
        label: found for one in totals for label, found in zip(one.labels, one.of(0), strict=True)
    }


def exact_variance(estimator: PointEstimator, points: Points, step: float) -> float:
    """Return the sum of the estimated variances, rounded once."""
    at = points * step
    return math.fsum(estimator.estimated_variance(at if at.shape[1] > 1 else at[:, 0]).tolist())


def exact(estimator: PointEstimator, points: Points, step: float) -> tuple[float, float]:
    """Return the means of g and of g², each sum rounded once."""
    at = points * step
    values = estimator.value(at if at.shape[1] > 1 else at[:, 0])
    n = len(points)
    return math.fsum(values.tolist()) / n, math.fsum(np.square(values).tolist()) / n


def means(found: Accumulator) -> tuple[float, float]:
    return found.total / found.n * 2.0**-30, found.total_of_squares / found.n * 2.0**-60


STEPS = [
    Threshold(0.3, 1.5, "smoothstep"),
    Threshold(0.3, 0.02, "smoothstep"),
    Threshold(-1.2, 1.5, "smoothstep"),
    Range(-1.0, 2.0, 0.9, "smoothstep"),
    Range(0.125, 1.125, 1.0, "smoothstep"),  # bands that touch
    Linear(Smoothstep(0.8), (-1.0,), 0.4),
    Threshold(1e6, 1.5, "smoothstep"),  # beyond every point
    Threshold(1e60, 1.5, "smoothstep"),  # beyond the grid
    Threshold(-1e60, 1.5, "smoothstep"),
]


def test_bands_say_what_estimators_say():
    """To 1e-12; one point more must be told from none."""
    noise = mechanism()
    points = released(noise, 20_000, 1.0)
    es = estimators(noise, STEPS)
    found = sums(
        [BandTotals({k: bands_of(e, noise.step) for k, e in es.items()}, noise.step)], points
    )
    for label, estimator in es.items():
        mean, square = exact(estimator, points, noise.step)
        assert means(found[label]) == pytest.approx((mean, square), rel=1e-12, abs=1e-12)
    moved = np.concatenate([points[:-1], points[:1]])
    assert means(found["0"])[0] != pytest.approx(exact(es["0"], moved, noise.step)[0], abs=1e-12)


@pytest.mark.parametrize("query", STEPS)
def test_bands_count_ties_at_their_edges_as_estimators_do(query):
    noise = mechanism()
    estimator = noise.estimator(query, debias=True)
    bands = bands_of(estimator, noise.step)
    ends = [end for band in bands for end in (band.low, band.high) if abs(end) < 2**62]
    for k in [end + off for end in ends for off in (-2, -1, 0, 1)]:
        points = np.array([[k]])
        found = sums([BandTotals({"q": bands}, noise.step)], points)["q"]
        each = sums([EachTotals("q", estimator, noise.step)], points)["q"]
        assert abs(found.total - each.total) <= 1 + 2**-42 * abs(each.total)


def test_bands_take_points_at_the_ends_of_their_type():
    noise = mechanism()
    points = np.array([[-(2**63)], [2**63 - 1], [0]])
    for query in STEPS:
        estimator = noise.estimator(query, debias=True)
        found = sums([BandTotals({"q": bands_of(estimator, noise.step)}, noise.step)], points)["q"]
        assert means(found) == pytest.approx(exact(estimator, points, noise.step), abs=1e-9)


def test_bands_are_only_of_debiased_smooth_steps():
    noise = mechanism()
    bell = noise.estimator(GaussianKernel(0.0, 1.0), debias=True)
    plain = noise.estimator(STEPS[0])
    hopeless = noise.estimator(Threshold(0.0, 1e-6, "smoothstep"), debias=True)
    assert [bands_of(one, noise.step) for one in (bell, plain, hopeless)] == [()] * 3


def kernels(dimension: int, h: float = 1.0) -> list[GaussianKernel]:
    line = np.linspace(-2.0, 3.0, 6)
    if dimension == 1:
        return [GaussianKernel(x, h) for x in line.tolist()]
    return [GaussianKernel((x, y), h) for x in line.tolist() for y in (-1.3, 0.1)]


def of_lattice(noise: PlanarLaplace, es: Mapping[str, PointEstimator]) -> LatticeTotals:
    alike = {k: kernel for k, e in es.items() if (kernel := DebiasedKernel.of(e))}
    return LatticeTotals(alike, Lattice(alike), noise.step)


@pytest.mark.deep(keep=4)
@pytest.mark.parametrize(("dimension", "b"), [(1, 0.01), (1, 1.0), (2, 0.01), (2, 0.3), (2, 1.0)])
def test_a_lattice_says_what_estimators_say(dimension, b):
    """Means to 1e-12 of the greatest g; a kernel moved by 1e-9 must be told."""
    noise = mechanism(dimension, b)
    points = released(noise, 5_000, 1.5)
    es = estimators(noise, kernels(dimension))
    found = sums([of_lattice(noise, es)], points)
    greatest = es["0"].value([kernels(dimension)[0].center]).max()
    for label in ("0", "3", "5"):
        mean, square = exact(es[label], points, noise.step)
        assert means(found[label])[0] == pytest.approx(mean, abs=1e-12 * greatest)
        assert means(found[label])[1] == pytest.approx(square, abs=1e-9 * greatest**2)
    x, *rest = np.atleast_1d(kernels(dimension)[3].center).tolist()
    moved = noise.estimator(GaussianKernel((x + 1e-9, *rest), 1.0), debias=True)
    assert abs(exact(moved, points, noise.step)[0] - means(found["3"])[0]) > 1e-12 * greatest


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize(("dimension", "b"), [(1, 1e-3), (1, 2.0), (2, 1e-3), (2, 1.0)])
def test_a_lattice_is_right_at_every_single_point(dimension, b):
    """To 1e-11 of the greatest g: what the interpolation alone may cost."""
    noise = mechanism(dimension, b)
    es = estimators(noise, kernels(dimension))
    greatest = es["0"].value([kernels(dimension)[0].center]).max()
    for point in released(noise, 12, 1.0):
        found = sums([of_lattice(noise, es)], point[None])
        for label in ("0", "4"):
            value = exact(es[label], point[None], noise.step)[0]
            assert found[label].total * 2.0**-30 == pytest.approx(
                value, abs=1e-9 + 1e-11 * greatest
            )


def test_points_beyond_the_reach_of_all_kernels_count_for_nothing():
    noise = mechanism(2)
    es = estimators(noise, kernels(2))
    points = np.array([[2**62, 0], [-(2**62), -(2**62)], [0, 2**40]])
    assert set(sums([of_lattice(noise, es)], points).values()) == {Accumulator(3, 0, 0)}


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("dimension", [1, 2])
def test_any_order_any_blocks_and_any_groups_give_the_same_bits(dimension):
    noise = mechanism(dimension)
    points = released(noise, 3_000, 1.0)
    queries = [*kernels(dimension), *(STEPS if dimension == 1 else [])]

    def made() -> Iterator[Totals]:
        es = estimators(noise, kernels(dimension))
        yield of_lattice(noise, es)
        if dimension == 1:
            steps = estimators(noise, STEPS)
            bands = {f"s{k}": bands_of(e, noise.step) for k, e in steps.items()}
            yield BandTotals(bands, noise.step)

    shuffled = np.random.default_rng(2).permutation(points)
    one = sums(list(made()), points)
    assert len(one) == len(queries)
    assert all_sums(list(made()), shuffled, blocks=7) == all_sums(list(made()), points)
    apart = list(made())
    for totals in apart:
        totals.add(points, [(4, slice(0, 1_000)), (2, slice(1_000, 3_000))])
    for of_four, of_two, label in zip(
        [found for totals in apart for found in totals.of(4)],
        [found for totals in apart for found in totals.of(2)],
        one,
        strict=True,
    ):
        together = of_four.values + of_two.values
        assert together.total == pytest.approx(one[label].total, abs=3)
        assert together.n == 3_000


def test_bands_sum_the_variances_that_estimators_estimate():
    """To 1e-12 of themselves; one point more must be told from none."""
    noise = mechanism()
    points = released(noise, 20_000, 1.0)
    es = estimators(noise, STEPS)
    bands = BandTotals({k: bands_of(e, noise.step) for k, e in es.items()}, noise.step)
    for label, found in all_sums([bands], points).items():
        assert found.variance is not None
        expected = exact_variance(es[label], points, noise.step)
        assert found.variance == (20_000, pytest.approx(expected, rel=1e-10, abs=1e-9))
    inside = all_sums([bands], np.zeros((1, 1), np.int64))["0"].variance
    assert inside is not None
    assert inside.n == 20_001
    assert inside.total > 1.00001 * exact_variance(es["0"], points, noise.step)


@pytest.mark.parametrize(("dimension", "b"), [(1, 1.0), (2, 0.3), (2, 1.0)])
def test_a_lattice_sums_the_variances_that_estimators_estimate(dimension, b):
    """To 1e-9 of the greatest at each point: 5,000 points spread over all distances."""
    noise = mechanism(dimension, b)
    points = released(noise, 5_000, 1.5)
    es = estimators(noise, kernels(dimension))
    ends = es["0"].variance_limits
    assert ends is not None
    for label, found in all_sums([of_lattice(noise, es)], points).items():
        expected = exact_variance(es[label], points, noise.step)
        assert found.variance is not None
        assert found.variance.n == 5_000
        assert found.variance.total == pytest.approx(expected, abs=5_000 * 1e-9 * ends[1])


def test_some_of_many_points_stand_for_all():
    """In any order and blocks the same; their mean within 4.4 standard errors, α = 1e-5.

    Control: not within them for points that lie elsewhere.
    """
    noise = mechanism(1)
    estimator = noise.estimator(Threshold(0.3, 4.0, "smoothstep"), debias=True)
    points = released(noise, 200_000, 1.0)
    few = EachTotals("q", estimator, noise.step, points=len(points))
    found = all_sums([few], points)["q"].variance
    assert found is not None
    assert 8_000 < found.n < 20_000
    other = EachTotals("q", estimator, noise.step, points=len(points))
    shuffled = np.random.default_rng(2).permutation(points)
    assert all_sums([other], shuffled, blocks=7)["q"].variance == found
    each = estimator.estimated_variance(points[:, 0] * noise.step)
    error = 4.4 * each.std() / math.sqrt(found.n)
    assert abs(found.total / found.n - each.mean()) < error
    moved = estimator.estimated_variance(points[:, 0] * noise.step + 2.0)
    assert abs(found.total / found.n - moved.mean()) > error
    whole = all_sums([EachTotals("q", estimator, noise.step)], points)["q"].variance
    assert whole == (200_000, pytest.approx(float(each.sum()), rel=1e-9))


def test_without_an_estimated_variance_there_is_none():
    noise = mechanism()
    plain = EachTotals("q", noise.estimator(STEPS[0]), noise.step)
    assert all_sums([plain], np.zeros((3, 1), np.int64))["q"].variance is None


def test_the_cheapest_way_is_chosen():
    line, plane = mechanism(1), mechanism(2)
    region = SmoothedRegion(Disc((0.0, 0.0), 2.0, 1.0), 0.5)

    def chosen(noise: PlanarLaplace, queries: Sequence[Any], **many: int) -> list[tuple[type, int]]:
        found = ways(estimators(noise, queries), noise.step, **many)
        return [(type(way.totals), len(way.totals.labels)) for way in found]

    assert chosen(line, STEPS) == [(BandTotals, len(STEPS))]
    assert chosen(line, STEPS[:1], points=MANY, groups=5_000) == [(EachTotals, 1)]
    grid = [GaussianKernel((x, y), 1.0) for x in range(20) for y in range(20)]
    assert chosen(plane, [*grid, region], points=MANY) == [(LatticeTotals, 400), (EachTotals, 1)]
    assert chosen(plane, grid[:2], points=MANY) == [(EachTotals, 1)] * 2
    assert chosen(plane, grid, points=10) == [(EachTotals, 1)] * 400
    wide = [GaussianKernel((1e5 * x, 0.0), 1.0) for x in range(40)]  # too many nodes
    assert chosen(plane, wide, points=MANY) == [(EachTotals, 1)] * 40
    far = [GaussianKernel((1e80, x), 1.0) for x in range(40)]  # nodes that can't be told apart
    assert chosen(plane, far, points=MANY) == [(EachTotals, 1)] * 40
    two = [*grid, *(GaussianKernel(one.center, 2.0) for one in grid)]
    assert chosen(plane, two, points=MANY) == [(LatticeTotals, 400)] * 2


def test_what_costs_more_says_so():
    noise = mechanism(2)
    grid = [GaussianKernel((x, y), 1.0) for x in range(20) for y in range(20)]
    price = {
        n: sum(way.seconds for way in ways(estimators(noise, grid), noise.step, n))
        for n in (100, MANY, 2 * MANY)
    }
    assert price[100] < price[MANY] < price[2 * MANY] < 2 * price[MANY]
    assert price[MANY] < 400 * MANY * 5e-9


def test_sums_of_parts_of_an_array_are_exact():
    rng = np.random.default_rng(3)
    for size in (10, 2**43 - 1, 2**43, 2**63 - 1):
        integers = rng.integers(-size, size, 50, dtype=np.int64)
        for starts in (np.array([0, 1, 20]), np.array([0])):
            expected = [Accumulator.of(part.tolist()) for part in np.split(integers, starts[1:])]
            assert list(sums_of(integers, starts)) == expected
