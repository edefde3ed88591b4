"""Test that bounds of the noise of several queries hold everywhere and are attained somewhere."""

import math
import random

import numpy as np
import pytest

from geoveil.gp import (
    Disc,
    GaussianKernel,
    GeoPrivacy,
    Linear,
    Polygon,
    Query,
    Range,
    Threshold,
    TwoWayThreshold,
)
from geoveil.gp.arrays import Array
from geoveil.gp.boxes import Seen, enclosed_in_parts
from geoveil.gp.mechanisms.vector import VectorSmoothMechanism
from tests.gp.test_vector import PRIVACY


@pytest.mark.parametrize("reach", [0.0, math.inf])
def test_the_largest_variance_on_a_line_is_attained(reach):
    """Thresholds and ranges by chance, at places close together around all bands.

    Control: the sum of the Lipschitz constants of questions that are never steepest together is
    more than 5 % too large for some.
    """
    draw, loose = random.Random(32), 0
    for _ in range(24):
        profile, at, queries = draw.choice(["linear", "smoothstep"]), 0.0, []
        for _ in range(draw.randint(1, 5)):
            at += 10 ** draw.uniform(-1.0, 1.0)
            width = 10 ** draw.uniform(-0.5, 1.0)
            high = at + width * draw.uniform(1.0, 3.0)
            pair = Threshold(at, width, profile), Range(at, high, width, profile)
            queries.append(draw.choice(pair))
        vector = VectorSmoothMechanism(queries, GeoPrivacy(9.0, per=3.6), reach=reach)
        x = np.linspace(-20.0, 140.0, 10_001)
        attained = float(vector.variance(x).max())
        for answer in vector.answers:
            assert attained <= answer.largest_variance * (1 + 1e-12)
            assert answer.largest_variance <= 1.01 * attained
        loose += vector.largest_scale**2 * vector.noise.variance > 1.05 * attained
    assert loose >= 3


@pytest.mark.parametrize("center", [0.0, (0.0, 0.0)])
def test_the_largest_variance_of_kernels_is_a_bound(center):
    """Control: the bound of a kernel that reaches far is 1.6e-6 above its Lipschitz constant."""
    vector = VectorSmoothMechanism([GaussianKernel(center, 1.0)], PRIVACY, reach=math.inf)
    x = np.linspace(0.0, 4.0, 40_001)
    attained = vector.variance(x if center == 0 else np.stack([x, 0 * x], axis=1)).max()
    assert attained <= vector.answers[0].largest_variance <= 1.01 * attained
    assert attained > vector.largest_scale**2 * vector.noise.variance * (1 + 1e-7)


def largest_found(vector: VectorSmoothMechanism, x: Array, rng: np.random.Generator) -> float:
    """Return the largest bound at places closer and closer to the noisiest, from (n, 2) on."""
    for size in (1.0, 0.3, 0.1, 0.03, 0.01, 0.003):
        best = x[np.argsort(vector.smooth_bound(x))[-20:]]
        x = np.concatenate([best, np.repeat(best, 100, 0) + size * rng.normal(size=(2_000, 2))])
    return float(vector.smooth_bound(x).max())


@pytest.mark.deep
def test_the_largest_variance_in_the_plane_is_attained():
    """Questions of every kind by chance, at places closer and closer to the noisiest.

    Control: what each attains by itself, summed up, is more than 10 % too large for some.
    """
    rng, loose = np.random.default_rng(9032), 0
    for _ in range(8):
        queries: list[Query] = []
        for _ in range(3):
            center, width = rng.normal(size=2) * 4, float(10 ** rng.uniform(-0.5, 0.5))
            at = (float(center[0]), float(center[1]))
            corners = [(at[0] + x * width, at[1] + y * width) for x, y in ((0, 0), (3, 1), (1, 4))]
            kinds = (
                Disc(at, width, width),
                TwoWayThreshold(at, width, "smoothstep"),
                GaussianKernel(at, width),
                Polygon(corners, width / 2),
            )
            queries.append(kinds[rng.integers(4)])
        vector = VectorSmoothMechanism(queries, GeoPrivacy(9.0, per=3.6))
        x = rng.uniform(-20, 20, (5_000, 2))
        attained = largest_found(vector, x, rng)
        assert attained <= vector.largest_bound <= 1.01 * attained
        alone = [VectorSmoothMechanism([q], vector.privacy, beta=vector.beta) for q in queries]
        loose += sum(v.largest_bound for v in alone) > 1.1 * attained
    assert loose >= 3


@pytest.mark.parametrize("direction", [(3.0, 4.0), (0.0, -2.0)])
def test_the_noise_beside_linear_queries_in_the_plane_is_attained(direction):
    """Control: no place is where all are steepest, and the sum is more than 5 % too large."""
    ramp = Threshold(0.0, 1.0).profile
    queries: list[Query] = [
        Linear(ramp, direction, 1.0),
        Linear(ramp, [-x for x in direction], 6.0),
        Disc((-2.0, 1.0), 1.0, 0.5),
        GaussianKernel((4.0, 0.0), 1.0),
    ]
    vector = VectorSmoothMechanism(queries, GeoPrivacy(9.0, per=3.6))
    rng = np.random.default_rng(7)
    x = rng.uniform(-9, 9, (9_000, 2))
    attained = largest_found(vector, x, rng)
    assert attained <= vector.largest_bound <= 1.01 * attained
    assert vector.largest_scale * vector.eta > 1.05 * attained
    for answer in vector.answers:
        law = answer.law()
        assert law is not None
        assert not law.loose


def test_laws_of_intervals_hold_for_all_people_without_a_search(monkeypatch):
    """Mixtures of two people anywhere in the plane, of one query among four.

    Control: the law of the answer itself takes a search.
    """
    discs: list[Query] = [Disc((6.0 * j, 2.0 * j), 2.0, 1.5, "smoothstep") for j in range(3)]
    vector = VectorSmoothMechanism([*discs, GaussianKernel((3.0, 4.0), 1.0)], PRIVACY)

    def search(*_: object, **__: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr("geoveil.gp.mechanisms.vector_bounds.VectorSearch._in_parts", search)
    with pytest.raises(NotImplementedError):
        vector.answers[0].law()
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.uniform(-9, 20, (800, 2)), rng.normal(0, 1e3, (200, 2))])
    f, noise = np.asarray(discs[1].value(x)), vector.variance(x)[:, 1]
    moments = np.stack([f, f**2 + noise, f**3 + 3 * f * noise])
    law = vector.answers[1].limits.moments()
    assert law is not None
    for _ in range(1_000):
        share = 10 ** rng.uniform(-3, 0)
        mean, second, third = moments[:, rng.integers(1_000, size=2)] @ [1 - share, share]
        central = third - 3 * mean * second + 2 * mean**3
        low, high = law.third(mean, second - mean**2)
        assert low - 1e-9 * second <= central <= high + 1e-9 * second


def test_noise_that_underflows_is_as_good_as_none():
    """It takes no search, nor is it called loose. Control: noise that counts takes one."""

    def searched(greatest: float) -> tuple[float, int]:
        boxes: list[int] = []

        def look(seen: Array) -> Seen:
            n = seen.shape[-1]
            boxes.append(n)
            none, bounds = np.zeros(n, np.intp), np.array([[0.0], [greatest]]) * np.ones(n)
            people = np.zeros((2, 1))
            return np.stack([none, none]), bounds, none, none == 0, none[:1], people

        line = np.array([[[0.0]], [[1.0]]])
        return enclosed_in_parts(line, look, np.zeros((2, 1)), 0.002)[1], sum(boxes)

    assert searched(0.0) == (1.0, 1)
    assert searched(5e-324) == (1.0, 1)
    wider, boxes = searched(1.0)
    assert wider > 1e6
    assert boxes > 60_000


def test_long_cells_between_thin_steep_bands_do_not_overflow():
    """Where cells are over 600/β long and B is 10^5 and more; warnings are errors."""
    kernel = GaussianKernel((-4.667e-06, -1.536e-05), 1.442e-06)
    disc = Disc((-1.577e-05, -1.501e-05), 4.328e-06, 1.442e-06)
    vector = VectorSmoothMechanism([kernel, disc], GeoPrivacy(1.0, per=1.795e-11))
    for answer in vector.answers:
        law = answer.law()
        assert law is not None
        assert np.isfinite(law.variances).all()
