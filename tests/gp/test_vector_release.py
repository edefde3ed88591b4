"""Test that reports of several queries are the rounded ideal ones and have the stated law."""

import math
import random
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from geoveil.gp import GaussianKernel, SmoothMechanism, Threshold
from geoveil.gp.exact import round_down
from geoveil.gp.mechanisms.vector import VectorSmoothMechanism
from tests.gp.test_vector import PLANE, PRIVACY, RATE, SETS, joint, made


def test_one_query_is_the_smooth_mechanism(fixed_bits):
    """The same noise, η, grid, and the same integer for the same bits, refinements included."""
    query = GaussianKernel((3.0, 1.0), 9.0)
    beta = 0.15 * RATE
    single = SmoothMechanism(query, PRIVACY, beta=beta)
    vector = VectorSmoothMechanism([query], PRIVACY, beta=beta)
    assert vector.noise == single.noise
    assert (vector.eta, vector.step) == (single.eta, single.step)
    rng = random.Random(3)
    for _ in range(100):
        value = rng.getrandbits(2048) >> rng.choice([0, 5, 200])
        x = (rng.gauss(0, 10), rng.gauss(0, 10))
        assert vector.release(x, fixed_bits(value, 2048)) == (
            single.release(x, fixed_bits(value, 2048)),
        )


def test_simulated_reports_have_the_law_and_are_independent(oracles):
    """n = 100,000, seed 4, α = 1e-6 for each of the coordinates and for each pair."""
    mechanism = made(SETS["three"](), "default")
    x = np.tile([0.0, 3.0, -15.0, 40.0], 25_000)
    reports = mechanism.simulate(x, np.random.default_rng(4))
    assert reports.shape == (100_000, 3)
    scale = mechanism.smooth_bound(x)[:, None] / mechanism.eta
    z = (reports - mechanism.mean(x)) / scale
    cdf, limit = oracles.noise_cdf(mechanism.noise), oracles.ks_limit(x.size)
    for j in range(3):
        assert oracles.ks_distance(z[:, j], cdf) <= limit
        assert oracles.ks_distance(1.05 * z[:, j], cdf) > limit
    # Signs of independent symmetric variables agree half of the time (Hoeffding).
    slack = math.sqrt(math.log(2 / oracles.ALPHA) / (2 * x.size))
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.mean(z[:, i] * z[:, j] > 0) - 0.5) <= slack
        # And so do magnitudes: above the median both, a quarter of the time.
        big = np.abs(z) > np.median(np.abs(z), axis=0)
        assert abs(np.mean(big[:, i] == big[:, j]) - 0.5) <= slack + 0.002
    assert abs(np.mean(z[:, 0] * z[:, 0] > 0) - 0.5) > slack


def expected_integers(
    oracles: Any, mechanism: VectorSmoothMechanism, x: Any, numerators: list[int]
) -> list[int]:
    """The rounded ideal reports for U_j in the middle of [k, k+1]/2^128, at 150 digits."""
    with mp.workdps(150):
        beta, eta = oracles.exact(mechanism._beta), oracles.exact(mechanism._eta)
        assert round_down(mechanism._beta) == mechanism.beta
        assert round_down(mechanism._eta) == mechanism.eta
        s = [oracles.signed_distance(query, x) for query in mechanism.queries]
        pairs = list(zip(mechanism.queries, s, strict=True))
        bounds = [oracles.bound(q, v, beta, mechanism.reach) for q, v in pairs]
        scale = joint(mechanism, bounds) / eta
        return [
            oracles.round_to_grid(
                oracles.value(q, v) + scale * oracles.quantile(mechanism.noise, k, 128),
                mechanism.step,
            )
            for (q, v), k in zip(pairs, numerators, strict=True)
        ]


@pytest.mark.parametrize("name", [*SETS, "plane"])
def test_release_is_the_rounded_ideal_output(oracles, fixed_bits, name):
    queries = PLANE if name == "plane" else SETS[name]()
    mechanism = made(queries, "default")
    m, rng = mechanism.size, random.Random(31)
    for _ in range(12):
        x: Any = rng.gauss(0, 12)
        if name == "plane":
            x = (x, rng.gauss(0, 12))
        numerators = [rng.getrandbits(128) >> rng.choice([0, 0, 2, 9]) for _ in range(m)]
        value = 0
        for numerator in numerators:
            value = value << 128 | numerator
        source = fixed_bits(value << 512, 128 * m + 512)
        released = mechanism.release(x, source)
        assert isinstance(released, tuple)
        assert source.draws == [128] * m, "128 bits settle these"
        assert list(released) == expected_integers(oracles, mechanism, x, numerators)


def test_far_reach_is_released_too(oracles, fixed_bits):
    mechanism = made(
        [Threshold(-20.0, 6.0), Threshold(20.0, 9.0, "smoothstep")], "default", math.inf
    )
    for x in (-17.5, 0.0, 60.0):
        numerators = [random.Random(5).getrandbits(128), random.Random(6).getrandbits(128)]
        source = fixed_bits((numerators[0] << 128 | numerators[1]) << 512, 768)
        assert list(mechanism.release(x, source)) == expected_integers(
            oracles, mechanism, x, numerators
        )


def test_more_bits_for_one_coordinate_leave_the_others_alone(oracles, fixed_bits):
    """U_0 within 2^-128 of 0 needs more bits and saturates; U_1 and U_2 keep theirs."""
    mechanism = made(SETS["three"](), "default")
    others = [random.Random(7).getrandbits(128), random.Random(8).getrandbits(128)]
    value = others[0] << 128 | others[1]
    source = fixed_bits(value << 1024 | random.Random(9).getrandbits(1024), 3 * 128 + 1024)
    released = mechanism.release(2.0, source)
    assert released[0] == mechanism.grid_range[0] == -(2**63)
    assert list(released[1:]) == expected_integers(oracles, mechanism, 2.0, [1, *others])[1:]
    assert source.draws[:3] == [128] * 3
    assert source.draws[3:]
    assert set(source.draws[3:]) == {64}
