"""Test that an audit refuses no honest mechanism where floats are coarser than its noise.

α = 1e-6 for each call; seeds are fixed. Each honest mechanism has a faulty one beside it.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import laplace, norm

from geoveil.audit import own_cases
from geoveil.audit.agreement import compare
from geoveil.audit.laws import placed
from geoveil.audit.refinement import with_narrow_steps
from geoveil.gp import (
    DebiasedLaplace,
    GaussianKernel,
    GeoPrivacy,
    SmoothMechanism,
    Threshold,
    UnsupportedError,
)
from tests.audit.comparing import differing

SAMPLES = 40_000


class Sometimes:
    """A mechanism that reports the answer itself in `share` of its simulations."""

    def __init__(self, sound, share):
        self.sound, self.share, self.privacy = sound, share, sound.privacy

    def simulate(self, x, rng):
        bare = rng.random(len(x)) < self.share
        return np.where(bare, self.sound.query.value(x), self.sound.simulate(x, rng))

    def log_density(self, y, x):
        return np.minimum(self.sound.log_density(y, x), 700.0)


def precise(query, privacy):
    """Noise that decays within a quarter of `per`, below the spacing of floats beside 1."""
    if query.dimension == 2:
        raise UnsupportedError("a line only")
    return SmoothMechanism(query, replace(privacy, epsilon=4.0))


def narrow(query, privacy):
    """Reports that underflow to 0 far from a kernel, where their density diverges."""
    if query.dimension == 1:
        raise UnsupportedError("a plane only")
    return DebiasedLaplace(GaussianKernel((0.0, 0.0), 0.7 * privacy.per), privacy)


def with_an_atom(query, privacy):
    """An atom of up to 1 % beside a density."""
    if query.dimension == 2:
        raise UnsupportedError("a line only")
    step = Threshold(100_000.0, 24_000.0, "smoothstep")
    return DebiasedLaplace(step, replace(privacy, epsilon=8.0))


@pytest.mark.deep(keep=2, rest=4)
@pytest.mark.parametrize("make", [precise, narrow, with_an_atom])
@pytest.mark.parametrize("share", [0.0, 0.01])
def test_floats_are_compared_at_their_own_resolution(make, share):
    rows = own_cases({"mine": lambda q, p: Sometimes(make(q, p), share)})
    assert (differing(rows[:1], samples=SAMPLES, seed=1) == ()) == (share == 0)


class Quiet:
    """Two reports of 100 are 0, and noise is next to none from 4 to 6.5 `per` away, if faulty."""

    def __init__(self, query, privacy, noise):
        self.query, self.privacy, self.noise = query, privacy, noise
        self.scale = query.lipschitz / privacy.rate

    def simulate(self, x, rng):
        far = (x - 100_000.0) / self.privacy.per
        scale = np.where((far > 4) & (far < 6.5), self.noise, 1.0) * self.scale
        reports = self.query.value(x) + scale * rng.laplace(size=far.shape)
        return np.where(rng.random(far.shape) < 0.02, 0.0, reports)

    def log_density(self, y, x):
        z = np.abs(y - self.query.value(x)) / self.scale
        return np.where(y == 0, np.log(0.02), np.log(0.98 / 2 / self.scale) - z)


@pytest.mark.deep(keep=2)
@pytest.mark.parametrize(("noise", "agrees"), [(1.0, True), (1e-9, False), (0.5, False)])
def test_an_atom_does_not_keep_the_other_reports_from_being_compared(noise, agrees):
    def make(query, privacy):
        if query.dimension == 2:
            raise UnsupportedError("a line only")
        return Quiet(query, privacy, noise)

    rows = own_cases({"mine": make})[:1]
    assert (differing(rows, samples=SAMPLES, seed=1) == ()) == agrees


class OnAGrid:
    """Discrete Laplace noise, stated by the logarithms of its probabilities, quieter far away."""

    def __init__(self, query, privacy, step, noise, off, floor):
        self.query, self.privacy, self.step, self.noise = query, privacy, step, noise
        self.off, self.floor = off, floor
        self.decay = step * privacy.rate / query.lipschitz / 1.4

    def nearest(self, x):
        return np.rint(self.query.value(x) / self.step)

    def simulate(self, x, rng):
        decay = np.where(x > 124_000.0, self.decay / self.noise, self.decay)
        more, less = (rng.geometric(-np.expm1(-decay), np.shape(x)) for _ in range(2))
        return (self.nearest(x) + more - less) * self.step

    def log_density(self, y, x):
        k = np.asarray(y) / self.step
        logs = np.log(np.tanh(self.decay / 2)) - self.decay * np.abs(k - self.nearest(x))
        return np.where(np.abs(k - np.rint(k)) <= self.off, logs, self.floor)


@pytest.mark.deep(keep=2, rest=2)
@pytest.mark.parametrize(
    ("step", "noise", "off", "floor", "agrees"),
    [
        (1 / 16, 1.0, 0.0, -np.inf, True),
        (1 / 16, 1.0, 1e-6, -np.inf, True),
        (1 / 16, 1.0, 0.0, np.log(1e-300), True),
        (1 / 16, 0.5, 0.0, -np.inf, False),
        (1 / 16, 0.5, 1e-6, -np.inf, False),
        (1 / 16, 0.5, 0.0, np.log(1e-300), False),
        (2.0**-30, 1.0, 0.0, -np.inf, False),
    ],
)
def test_a_law_on_a_grid_is_compared_where_values_repeat_and_not_kept_where_none_do(
    step, noise, off, floor, agrees
):
    """So, too, where the density takes numbers for those of the grid that are a little off."""

    def make(query, privacy):
        if query.dimension == 2:
            raise UnsupportedError("a line only")
        return OnAGrid(query, privacy, step, noise, off, floor)

    rows = own_cases({"mine": make})[:1]
    assert (differing(rows, samples=SAMPLES, seed=1) == ()) == agrees


class Crowded:
    """Laplace noise, a share of which is many times narrower about `centre`, stated or not."""

    def __init__(self, query, privacy, share, width, stated=False, centre=0.0, cut=np.inf):
        self.query, self.privacy, self.stated, self.cut = query, privacy, stated, cut
        self.share, self.width, self.centre = share, width, centre
        self.scale = query.lipschitz / privacy.rate

    def simulate(self, x, rng):
        tail = np.exp(-self.cut) / 2
        noise = laplace.ppf(rng.uniform(tail, 1 - tail, len(x)))
        narrow = self.centre + self.width * rng.laplace(size=len(x))
        noise = np.where(rng.random(len(x)) < self.share, narrow, noise)
        return self.query.value(x) + self.scale * noise

    def log_density(self, y, x):
        z = (y - self.query.value(x)) / self.scale
        narrow = laplace.logpdf(z, self.centre, self.width) + np.log(self.share * self.stated)
        wide = laplace.logpdf(z) + np.log1p(-self.share * self.stated)
        return np.logaddexp(narrow, wide) - np.log(self.scale)


@pytest.mark.deep(keep=2, rest=3)
@pytest.mark.parametrize(
    ("fault", "agrees"),
    [
        ({"share": 1 / 1500, "width": 1e-4}, False),
        ({"share": 1 / 500, "width": 1e-3}, False),
        ({"share": 1 / 500, "width": 1e-6, "centre": 2.0}, False),
        ({"share": 1 / 1500, "width": 1e-4, "stated": True}, True),
        ({"share": 1 / 200, "width": 1e-9, "centre": 2.0, "stated": True}, True),
        ({"share": 1 / 500, "width": 1e-6, "centre": 2.0, "stated": True}, True),
        ({"share": 1 / 2, "width": 1e6, "stated": True}, True),
        ({"share": 1 / 30, "width": 1 / 2}, False),
        ({"share": 0, "width": 1, "cut": 6.5}, False),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_reports_that_crowd_or_end_early_are_seen_at_all_points_together(fault, agrees):
    """20,000 reports at each of eight points: once in 1,500 is 13 at each, and 107 in all."""
    rows = own_cases({"mine": lambda query, privacy: Crowded(query, privacy, **fault)})[:1]
    assert (differing(rows, samples=SAMPLES, seed=1) == ()) == agrees


@pytest.mark.parametrize(
    ("query", "epsilon"),
    [(Threshold(100_000.0, 16_000.0), 5_000.0), (Threshold(100_000.0, 1e9), 1.0)],
)
def test_integers_have_their_probability_where_half_a_step_is_lost(query, epsilon):
    mechanism = SmoothMechanism(query, GeoPrivacy(epsilon, per=8_000.0))
    x = np.array([100_123.0])
    scale = float(np.sqrt(mechanism.variance(x)[0] / mechanism.noise.variance))
    nearest = round(float(query.value(x)[0]) / mechanism.step)
    far = round(3 * scale / mechanism.step)
    once = placed(mechanism, x[0], np.array([nearest, nearest + far])).once
    stated = mechanism.noise.pdf(np.array([0.0, 3.0])) * mechanism.step / scale
    np.testing.assert_allclose(once, stated, rtol=1e-3)


def test_a_promise_for_a_tiny_distance_is_searched_in_bounded_memory():
    def tiny(query, privacy):
        return SmoothMechanism(query, GeoPrivacy(privacy.rate * 1e-6, 1e-6, privacy.unit))

    path = with_narrow_steps(own_cases({"mine": tiny})[0])
    assert len(path) < 1_000


class Comb:
    """Laplace noise on a grid of 1/`peaks` of its scale, and a little more, `wide` times stated."""

    def __init__(self, query, privacy, peaks, wide):
        self.query, self.privacy, self.wide = query, privacy, wide
        self.decay, self.step = 1 / peaks, query.lipschitz / privacy.rate / peaks
        self.width = 0.03

    def nearest(self, x):
        return np.rint(self.query.value(x) / self.step)

    def simulate(self, x, rng):
        steps = self.nearest(x)
        more, less = (rng.geometric(-np.expm1(-self.decay), steps.shape) for _ in range(2))
        beside = self.wide * self.width * rng.standard_normal(steps.shape)
        return (steps + more - less + beside) * self.step

    def log_density(self, y, x):
        k = np.rint(y / self.step)
        logs = np.log(np.tanh(self.decay / 2)) - self.decay * np.abs(k - self.nearest(x))
        return logs + norm.logpdf(y / self.step - k, scale=self.width) - np.log(self.step)


@pytest.mark.deep(keep=2, rest=1)
@pytest.mark.parametrize(
    ("peaks", "wide", "agrees"), [(30, 1.0, True), (1, 1.5, False), (1, 1.0, True)]
)
def test_quadratures_that_add_up_to_1_by_chance_refuse_nothing(peaks, wide, agrees):
    """The first was refused: at a point, the sum was right, but not its parts."""
    rows = own_cases({"mine": lambda q, p: Comb(q, p, peaks, wide)})[:1]
    (found,) = compare(rows, samples=100_000, seed=4)
    assert (found.difference == "") == agrees
