"""Test the guarantee by brute force: sup of |log p_x(y) − log p_x'(y)| over points and outputs.

On a line a pair of grid points is bounded by the neighbours between them, so the supremum over all
pairs of the grid of |log-ratio|/|x−x'| is the supremum over neighbours. Outputs are placed where
they count for each point: f(x) + (B(x)/η)·z, z over many magnitudes, kinks of the noise included.
"""

import math

import mpmath as mp
import numpy as np
import pytest

from geoveil.gp import (
    DebiasedLaplace,
    GaussianKernel,
    GeneralizedCauchy,
    GeoPrivacy,
    LaplacePareto,
    LipschitzMechanism,
    LocalLaplace,
    LocalPrivacy,
    Noise,
    PlanarLaplace,
    PowerLaw,
    Query,
    QueryMechanism,
    SmoothMechanism,
    StudentT,
    Threshold,
)
from tests.gp.pairs import largest_rate, moved
from tests.oracles import MAKERS

PRIVACY = GeoPrivacy(epsilon=0.9, per=3.6, unit="metre")
RATE = 0.25
TOLERANCE = 1 + 1e-9
SIZES = (1.7, 9.0, 60.0)  # below, about and above 1/ε = 4
# Name → (noise, β/ε, calibration); None is the noise that is best for the query's frontier.
CHOICES: dict[str, tuple[Noise | None, float | None, str]] = {
    "default": (None, None, "exact"),
    "best, small beta": (None, 0.02, "exact"),
    "best, large beta": (None, 0.6, "exact"),
    "best, beta = epsilon": (None, 1.0, "exact"),
    "student, exact": (StudentT(3), 0.3, "exact"),
    "student, paper": (StudentT(3), 1 / 9, "paper"),
    "cauchy, exact": (GeneralizedCauchy(4), 0.25, "exact"),
    "cauchy, paper": (GeneralizedCauchy(4), 1 / 15, "paper"),
    "laplace-pareto, loose": (LaplacePareto(2.5, 1.0), 0.2, "exact"),
    "power-law, loose": (PowerLaw(0.5, 0.1), 0.1, "exact"),
}


def points(query: Query, beta: float) -> np.ndarray:
    """A line through where f varies, with clusters at every kink that f or B may have."""
    size = query.width if isinstance(query, Threshold) else query.bandwidth
    span = 4 * size + 6 / RATE
    root = math.sqrt((beta * size**2) ** 2 + 4 * size**2)
    kinks = [0.0, size / 2, (root - beta * size**2) / 2, (root + beta * size**2) / 2]
    kinks.append((math.sqrt(1 + beta**2 * size**2 / 4) - 1) / beta)
    near = np.linspace(-1, 1, 21) * 0.02 / RATE
    clusters = [sign * k + near for k in kinks for sign in (1, -1)]
    x = np.unique(np.concatenate([np.linspace(-span, span, 500), *clusters]))
    # Closer neighbours would measure rounding: of log-densities near −1000, to 1e-13 or so.
    return x[np.concatenate([[True], np.diff(x) > 1e-3 / RATE])]


def outputs(f: np.ndarray, scale: np.ndarray, noise: Noise) -> np.ndarray:
    """Outputs around many of the points, at many magnitudes of the noise."""
    unit = noise.knee if isinstance(noise, LaplacePareto) else 1 / noise.max_score
    z = np.concatenate([[1e-6, 1 - 1e-6, 1 + 1e-6], np.logspace(-2.5, 4, 14)]) * unit
    z = np.concatenate([-z, [0.0], z])
    pick = np.linspace(0, f.size - 1, 36).astype(int)
    return np.ravel(f[pick, None] + scale[pick, None] * z)


def steepest(log_density: np.ndarray, x: np.ndarray) -> float:
    """sup |Δ log p| / |Δx| over neighbours, for every output at once."""
    return float(np.max(np.abs(np.diff(log_density, axis=0)) / np.diff(x)[:, None]))


def audit(mechanism: QueryMechanism, x: np.ndarray, y: np.ndarray) -> float:
    return steepest(mechanism.log_density(y[None, :], x[:, None]), x)


@pytest.mark.deep(keep=3)
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("reach", [0.0, 5.0, math.inf])
@pytest.mark.parametrize("name", MAKERS)
def test_smooth_mechanism(name, reach, choice):
    noise, fraction, calibration = CHOICES[choice]
    for size in SIZES:
        mechanism = SmoothMechanism(
            MAKERS[name](size),
            PRIVACY,
            noise=noise,
            beta=None if fraction is None else fraction * RATE,
            reach=reach,
            calibration=calibration,
        )
        x = points(mechanism.query, mechanism.beta)
        f = mechanism.query.value(x)
        bound = mechanism.query.smooth_bound(x, mechanism.beta, reach=reach)
        y = outputs(f, bound / mechanism.eta, mechanism.noise)
        worst = audit(mechanism, x, y)
        assert worst <= RATE * TOLERANCE
        if noise is None and reach == 0:
            # Both noises use up ε: here at B where f varies and at the kinks of the noise.
            assert worst >= 0.99 * RATE


@pytest.mark.parametrize("name", MAKERS)
def test_lipschitz_mechanism(name):
    for size in SIZES:
        mechanism = LipschitzMechanism(MAKERS[name](size), PRIVACY)
        x = points(mechanism.query, 0.3 * RATE)
        worst = audit(mechanism, x, np.linspace(-3, 4, 200))
        assert 0.99 * RATE <= worst <= RATE * TOLERANCE


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("name", ["smoothstep", "kernel"])
def test_debiased_laplace(name):
    """Density inside the range, and the atoms where the query is constant."""
    for size in SIZES:
        mechanism = DebiasedLaplace(MAKERS[name](size), PRIVACY)
        low, high = mechanism.range
        x = points(mechanism.query, 0.3 * RATE)
        t = np.concatenate([np.logspace(-9, -1, 30), np.linspace(0.1, 0.9, 60)])
        y = np.unique(np.concatenate([low + (high - low) * t, high - (high - low) * t]))
        y = np.concatenate([y, [1e-9, -1e-9]])
        y = np.concatenate([y[(y > low) & (y < high)], mechanism.atoms])
        log_density = mechanism.log_density(y[None, :], x[:, None])
        assert np.all(np.isfinite(log_density))
        worst = steepest(log_density, x)
        assert 0.99 * RATE <= worst <= RATE * TOLERANCE
        outside = np.array([low - 1e-6, high + 1e-6])
        assert np.all(mechanism.log_density(outside[:, None], x) == -math.inf)


@pytest.mark.parametrize("away", [-4_000.0, 4_000.0])
def test_debiased_laplace_far_from_the_band(away):
    """1,000 noise scales away: probabilities below any double, yet each loss is exact.

    Control: a step of 1.001 times the distance.
    """
    mechanism = DebiasedLaplace(MAKERS["smoothstep"](9.0), PRIVACY)
    low, high = mechanism.range
    far = mechanism.atoms[away < 0]
    y = np.append(np.linspace(low, high, 50)[1:-1], far)
    assert np.all(np.exp(mechanism.log_density(y, away)) == 0)

    def loss(step: float) -> np.ndarray:
        gone = away + math.copysign(step, away)
        return mechanism.log_density(y, away) - mechanism.log_density(y, gone)

    assert loss(3.6) == pytest.approx(PRIVACY.epsilon, rel=1e-9)
    assert np.all(loss(3.6 * 1.001) > PRIVACY.epsilon * TOLERANCE)


@pytest.mark.parametrize("name", MAKERS)
def test_local_laplace(name):
    """Any two points, however far apart: the log-ratio itself is at most ε."""
    mechanism = LocalLaplace(MAKERS[name](9.0), LocalPrivacy(0.7))
    x = np.concatenate([np.linspace(-60, 60, 400), [-1e9, 1e9]])
    y = np.concatenate([np.linspace(-4, 5, 300), [-1e3, 1e3]])
    log_density = mechanism.log_density(y[None, :], x[:, None])
    worst = float(np.max(log_density.max(axis=0) - log_density.min(axis=0)))
    assert 0.999 * 0.7 <= worst <= 0.7 * TOLERANCE


@pytest.mark.deep
@pytest.mark.parametrize("reach", [0.0, math.inf])
def test_kernel_in_the_plane(reach):
    """Pairs of points of the plane, at all distances and in all directions."""
    rng = np.random.default_rng(3)
    for size in SIZES[:2]:
        kernel = GaussianKernel(center=(50.0, -20.0), bandwidth=size)
        mechanisms: list[QueryMechanism] = [
            SmoothMechanism(kernel, PRIVACY, reach=reach),
            LipschitzMechanism(kernel, PRIVACY),
            DebiasedLaplace(kernel, PRIVACY),
        ]
        here = np.asarray(kernel.center) + rng.normal(size=(600, 2)) * (size + 4) * 1.5
        there = moved(here, 10 ** rng.uniform(-3, 1.3, 600) / RATE, rng)
        for mechanism in mechanisms:
            worst = largest_rate(mechanism, here, there)
            assert worst <= RATE * TOLERANCE
            assert worst >= 0.3 * RATE


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_planar_laplace(dimension):
    rng = np.random.default_rng(4)
    mechanism = PlanarLaplace(PRIVACY, dimension)
    shape = (400,) if dimension == 1 else (400, dimension)
    here, there, y = (rng.normal(size=shape) * 10 for _ in range(3))
    gap = np.abs(here - there) if dimension == 1 else np.linalg.norm(here - there, axis=1)
    ratio = mechanism.log_density(y, here) - mechanism.log_density(y, there)
    assert np.max(np.abs(ratio) / gap) <= RATE * TOLERANCE
    along = mechanism.log_density(here, here) - mechanism.log_density(here, there)
    np.testing.assert_allclose(along, RATE * gap, rtol=1e-12)


class TestControls:
    """What must fail the audit above: each of these was a plausible mistake."""

    def rate(
        self, query: Query, noise: Noise, eta: float, bound: np.ndarray, x: np.ndarray
    ) -> float:
        f, scale = query.value(x), bound / eta
        y = outputs(f, scale, noise)
        log_density = noise.logpdf((y[None, :] - f[:, None]) / scale[:, None])
        return steepest(log_density - np.log(scale)[:, None], x)

    @pytest.mark.parametrize("name", MAKERS)
    def test_less_noise_fails_and_sound_parameters_pass(self, oracles, name):
        mechanism = SmoothMechanism(MAKERS[name](9.0), PRIVACY)
        query, noise, eta, beta = mechanism.query, mechanism.noise, mechanism.eta, mechanism.beta
        x = points(query, beta)
        bound = query.smooth_bound(x, beta)
        sound = self.rate(query, noise, eta, bound, x)
        assert 0.99 * RATE <= sound <= RATE * TOLERANCE
        assert self.rate(query, noise, eta / 0.7, bound, x) > 1.1 * RATE, "noise scaled down"
        slope = np.maximum(oracles.float_slope(query, x), 1e-6)
        assert self.rate(query, noise, eta, slope, x) > 3 * RATE, "slope instead of bound"
        x = points(query, 2 * beta)
        doubled = query.smooth_bound(x, 2 * beta)
        assert self.rate(query, noise, eta, doubled, x) > 1.1 * RATE, "beta doubled"

    @pytest.mark.parametrize("name", ["smoothstep", "kernel"])
    def test_cross_calibration_off_the_cross(self, name):
        """LaplacePareto with η = ε where f and B change together costs up to 2ε, and does."""
        query, beta = MAKERS[name](9.0), 0.3 * RATE
        x = points(query, beta)
        worst = self.rate(query, LaplacePareto(1.0, 0.3), RATE, query.smooth_bound(x, beta), x)
        assert 1.8 * RATE <= worst <= 2 * RATE * TOLERANCE


@pytest.mark.deep(keep=15)
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", MAKERS)
def test_log_density_is_that_of_the_formula(oracles, name, choice):
    """h((y − f)/scale)/scale with every part from the oracles: the audits audit the mechanism."""
    noise, fraction, calibration = CHOICES[choice]
    query = MAKERS[name](9.0)
    mechanism = SmoothMechanism(
        query,
        PRIVACY,
        noise=noise,
        beta=None if fraction is None else fraction * RATE,
        calibration=calibration,
    )
    with mp.workdps(25):
        for x in (-40.0, -4.5, -2.0, 0.0, 3.3, 4.5, 17.0):
            s = oracles.signed_distance(query, x)
            f = oracles.value(query, s)
            scale = oracles.bound(query, s, mp.mpf(mechanism.beta)) / mp.mpf(mechanism.eta)
            for z in (-300.0, -2.0, 0.0, 0.3, 9.0):
                y = float(f + scale * z)
                expected = oracles.noise_logpdf(mechanism.noise, (y - f) / scale) - mp.log(scale)
                ours = float(mechanism.log_density(y, x))
                # y is a double: near f its rounding counts, in units of the scale.
                slack = 1e-11 + float(1e-14 / scale) * mechanism.noise.max_score
                assert ours == pytest.approx(float(expected), rel=1e-11, abs=slack)
