"""Test covariances of many estimators over points against NumPy's."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from geoveil.gp import (
    GaussianKernel,
    GeoPrivacy,
    Linear,
    PlanarLaplace,
    Range,
    Threshold,
    UnsupportedError,
)
from geoveil.gp.deconvolution.bands import BandTotals, bands_of
from geoveil.gp.deconvolution.base import PointEstimator
from geoveil.gp.deconvolution.choice import joint_way, ways
from geoveil.gp.deconvolution.totals import Products
from geoveil.gp.limits import UNLIMITED, Limits
from geoveil.gp.queries.profiles.soft_step import Smoothstep

NOISE = PlanarLaplace(GeoPrivacy(1.0, 0.5, "km"), 1)
STEPS = [
    Threshold(0.3, 1.5, "smoothstep"),
    Threshold(0.31, 0.1, "smoothstep"),
    Threshold(-1.2, 1.5, "smoothstep"),
    Range(-1.0, 2.0, 0.9, "smoothstep"),
    Range(0.125, 1.125, 1.0, "smoothstep"),  # bands that touch
    Linear(Smoothstep(0.8), (-1.0,), 0.4),
    Threshold(1e60, 1.5, "smoothstep"),  # beyond the grid
]
OTHERS = [
    GaussianKernel(0.4, 0.8),
    Threshold(0.2, 1.0, "smoothstep"),
]


def estimators(queries: Sequence[Any]) -> dict[str, PointEstimator]:
    return {str(i): NOISE.estimator(query, debias=True) for i, query in enumerate(queries)}


def released(n: int, seed: int = 1) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    points = np.asarray(NOISE.simulate(rng.normal(0, 1, n), rng))
    return np.rint(points / NOISE.step).astype(np.int64)[:, None]


def expected(es: dict[str, PointEstimator], points: NDArray[np.int64]) -> NDArray[np.float64]:
    at = points[:, 0] * NOISE.step
    return np.cov([e.value(at) for e in es.values()], bias=True)


def fed(totals: Any, points: NDArray[np.int64], blocks: int = 3) -> Any:
    for block in np.array_split(points, blocks):
        totals.add(block, [(0, slice(0, len(block)))])
    return totals


def test_bands_know_all_covariances_from_the_moments_of_their_cells():
    """To 1e-13 of the greatest; a point more is told from none."""
    es, points = estimators(STEPS), released(20_000)
    bands = {label: bands_of(e, NOISE.step) for label, e in es.items()}
    found = fed(BandTotals(bands, NOISE.step), points).covariance(0)
    right = expected(es, points)
    assert np.abs(found - right).max() < 1e-13 * np.abs(right).max()
    other = expected(es, np.concatenate([points[:-1], points[:1]]))
    assert np.abs(found - other).max() > 1e-8 * np.abs(right).max()


def test_many_bands_are_taken_cells_at_a_time():
    es = estimators([Threshold(t, 1.5, "smoothstep") for t in np.linspace(-3, 3, 135).tolist()])
    points = released(20_000)
    bands = {label: bands_of(e, NOISE.step) for label, e in es.items()}
    found = fed(BandTotals(bands, NOISE.step), points).covariance(0)
    right = expected(es, points)
    assert np.abs(found - right).max() < 1e-12 * np.abs(right).max()


def test_queries_whose_bands_hold_no_points_have_covariances_too():
    middles = np.linspace(-3, 3, 135).tolist()
    ranges = [Range(t, t + 0.5, 0.01, "smoothstep") for t in middles[::9]]
    es = estimators([*(Threshold(t, 0.01, "smoothstep") for t in middles), *ranges])
    points = released(40)
    bands = {label: bands_of(e, NOISE.step) for label, e in es.items()}
    made = fed(BandTotals(bands, NOISE.step), points)
    right = expected(es, points)
    assert (right == 0).any()
    assert np.abs(made.covariance(0) - right).max() < 1e-12 * np.abs(right).max()


def test_products_are_those_of_values_to_the_rounding_that_is_stated():
    es, points = estimators(STEPS[:-1] + OTHERS), released(20_000)
    found = fed(Products(es, NOISE.step), points).covariance(0)
    right = expected(es, points)
    ends = np.array([max(map(abs, e.limits.reports)) for e in es.values()])
    error = np.sqrt(np.diag(right))
    # A value that is rounded by 2⁻²⁰ of at most twice the end, at random, beside a deviation.
    assert (np.abs(found - right) < 1e-6 * (np.outer(ends, error) + np.outer(error, ends))).all()
    assert not np.array_equal(found, right)


@pytest.mark.parametrize("kind", ["bands", "products"])
def test_any_order_and_any_blocks_give_the_same_covariances(kind):
    es, points = estimators(STEPS), released(10_000)
    bands = {label: bands_of(e, NOISE.step) for label, e in es.items()}

    def found(shuffled: NDArray[np.int64], blocks: int) -> NDArray[np.float64]:
        made = BandTotals(bands, NOISE.step) if kind == "bands" else Products(es, NOISE.step)
        return np.asarray(fed(made, shuffled, blocks).covariance(0))

    first = found(points, 1)
    assert np.array_equal(first, found(np.random.default_rng(2).permutation(points), 7))


def test_groups_are_apart_and_one_without_points_has_no_spread():
    es, points = estimators(OTHERS), released(2_000)
    both = Products(es, NOISE.step)
    both.add(points, [(0, slice(0, 500)), (5, slice(500, 2_000))])
    alone = fed(Products(es, NOISE.step), points[500:], 1)
    assert np.array_equal(both.covariance(5), alone.covariance(0))
    assert not both.covariance(1).any()


class NearlyOne(PointEstimator):
    """At every point the greatest value that 20 bits hold, or its opposite."""

    def __init__(self) -> None:
        super().__init__(1, 0.5, debias=True)

    @property
    def limits(self) -> Limits:
        return Limits((-1 + 2.0**-19, 1 - 2.0**-19), (0.0, 1.0))

    def _value(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(points > 0, *self.limits.reports)

    def _mean(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        raise NotImplementedError

    _variance = _mean


def test_sums_are_carried_before_they_overflow():
    """2⁴⁰ at 2¹² · 2,100 points is beyond 2⁶³."""
    totals, block = Products({"q": NearlyOne()}, NOISE.step), np.ones((1 << 12, 1), np.int64)
    block[0] = -1
    for _ in range(2_100):
        totals.add(block, [(0, slice(0, len(block)))])
    share = 1 - 2.0**-12
    assert totals.covariance(0)[0, 0] == pytest.approx(4 * share * (1 - share), rel=1e-5)


def test_the_cheapest_way_is_taken():
    steps = estimators(STEPS)
    chosen = ways(steps, NOISE.step, 1_000_000)
    once = joint_way(chosen, steps, NOISE.step, 1_000_000)
    assert once.totals is chosen[0].totals
    often = joint_way(chosen, steps, NOISE.step, 1_000_000, groups=1_000)
    assert often.seconds == pytest.approx(1_000 * once.seconds)
    mixed = estimators(STEPS + OTHERS)
    way = joint_way(ways(mixed, NOISE.step, 1_000_000), mixed, NOISE.step, 1_000_000)
    assert isinstance(way.totals, Products)
    twice = joint_way(ways(mixed, NOISE.step, 2_000_000), mixed, NOISE.step, 2_000_000)
    assert twice.seconds == pytest.approx(2 * way.seconds)


def test_what_has_no_bound_has_no_covariances(monkeypatch):
    es = estimators(OTHERS[:1])
    monkeypatch.setattr(type(es["0"]), "limits", property(lambda self: UNLIMITED))
    with pytest.raises(UnsupportedError, match=r"query '0'.*no bound"):
        Products(es, NOISE.step)
    monkeypatch.setattr(type(es["0"]), "limits", property(lambda self: Limits((0, 1), (0, 1))))
    Products(es, NOISE.step)
