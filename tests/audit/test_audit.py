"""Test that the auditors pass private mechanisms and catch others, with a witness."""

import math
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from geoveil.audit import NoisyAnswer, audit, black_box_bound, exact_rate, own_cases
from geoveil.audit.catalogue import INCOME, RAMP as SCENE
from geoveil.gp import (
    ApproximateLaplace,
    DebiasedLaplace,
    GaussianKernel,
    GeoPrivacy,
    Laplace,
    LipschitzMechanism,
    LocalPrivacy,
    ParameterError,
    SmoothMechanism,
    StudentT,
    Threshold,
)
from tests.audit.comparing import differing

UNIT = GeoPrivacy(1.0, per=1.0)
RAMP, STEP = Threshold(0.0, 2.0), Threshold(0.0, 3.0, "smoothstep")
BELL = GaussianKernel(0.0, 1.5)
PATH = np.linspace(-6.0, 8.0, 2801)
OUTPUTS = np.concatenate([np.linspace(-20, 20, 1601), -np.geomspace(20, 1e5, 60)])
N, ALPHA = 400_000, 1e-6


class Broken:
    """f + factor·B/η·Z with a bound of one's choice: what careless code would run."""

    def __init__(self, mechanism, factor=1.0, bound=None):
        self.mechanism, self.factor = mechanism, factor
        self.bound = bound or (lambda x: mechanism.query.smooth_bound(x, mechanism.beta))

    def scale(self, x):
        return self.factor * self.bound(x) / self.mechanism.eta

    def log_density(self, y, x):
        f = self.mechanism.query.value(x)
        return self.mechanism.noise.logpdf((y - f) / self.scale(x)) - np.log(self.scale(x))

    def simulate(self, x, rng):
        z = self.mechanism.noise.sample(rng, np.shape(x))
        return self.mechanism.query.value(x) + self.scale(x) * z


def slope(x):
    """|∇f| of the bell: what someone who has not heard of smoothness would use."""
    return np.maximum(np.abs(x) / 1.5**2 * np.exp(-np.square(x) / 4.5), 1e-12)


SOUND = {
    "ramp": SmoothMechanism(RAMP, UNIT),
    "step": SmoothMechanism(STEP, UNIT),
    "bell": SmoothMechanism(BELL, UNIT),
    "student": SmoothMechanism(
        BELL, UNIT, noise=StudentT(3), beta=1 / 9, reach=math.inf, calibration="paper"
    ),
    "lipschitz": LipschitzMechanism(STEP, UNIT),
    "debiased step": DebiasedLaplace(STEP, UNIT),
    "debiased bell": DebiasedLaplace(BELL, UNIT),
}
BROKEN = {
    "noise scaled by 0.7": (Broken(SOUND["ramp"], 0.7), 0.0, 0.4),
    "beta doubled": (
        Broken(SOUND["ramp"], bound=lambda x: RAMP.smooth_bound(x, 2 * SOUND["ramp"].beta)),
        1.0,
        3.0,
    ),
    "slope instead of its smooth bound": (Broken(SOUND["bell"], bound=slope), 0.2, 0.6),
    "the wrong unit": (LipschitzMechanism(RAMP, GeoPrivacy(1.0, per=0.5)), -0.5, 0.5),
}


@pytest.mark.deep
@pytest.mark.parametrize("name", SOUND)
def test_exact_auditor_passes_what_is_private(name):
    assert exact_rate(SOUND[name], PATH[PATH >= 0], OUTPUTS).rate <= 1 + 1e-9


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("name", ["ramp", "bell"])
def test_the_best_noises_use_all_of_epsilon(name):
    assert exact_rate(SOUND[name], PATH[PATH >= 0], OUTPUTS).rate >= 0.99


@pytest.mark.parametrize("name", BROKEN)
def test_exact_auditor_catches_what_is_not(name):
    mechanism, x, other = BROKEN[name]
    finding = exact_rate(mechanism, np.linspace(min(x, other) - 1, max(x, other) + 1, 401), OUTPUTS)
    assert finding.rate > 1.2
    a, b = finding.x[0], finding.other[0]
    again = abs(mechanism.log_density(finding.y, [a]) - mechanism.log_density(finding.y, [b]))
    assert again[0] / abs(a - b) == pytest.approx(finding.rate)


@pytest.mark.deep
@pytest.mark.parametrize("name", SOUND)
def test_black_box_auditor_passes_what_is_private(name):
    """n = 400,000 a point, alpha = 1e-6."""
    rng = np.random.default_rng(11)
    for x, other in [(0.0, 0.5), (0.3, 1.5), (1.0, 3.0)]:
        samples = [SOUND[name].simulate(np.full(N, p), rng) for p in (x, other)]
        bound = black_box_bound(*samples, other - x, failure_probability=ALPHA)
        assert bound.rate <= 1.0


@pytest.mark.deep(keep=2)
@pytest.mark.parametrize("name", BROKEN)
def test_black_box_auditor_catches_what_is_not(name):
    """n = 400,000 a point, alpha = 1e-6."""
    rng = np.random.default_rng(12)
    mechanism, x, other = BROKEN[name]
    samples = [mechanism.simulate(np.full(N, p), rng) for p in (x, other)]
    bound = black_box_bound(*samples, abs(other - x), failure_probability=ALPHA)
    assert bound.rate > 1.0


@pytest.mark.deep(keep=0)
def test_black_box_bound_is_below_the_truth_as_often_as_it_says():
    """At failure probability 0.2, at most 118 of 400 bounds (α = 1e-6) lie above the truth, 1."""
    rng = np.random.default_rng(13)
    above = 0
    for _ in range(400):
        bound = black_box_bound(
            rng.laplace(size=600), rng.laplace(size=600) + 1, 1.0, failure_probability=0.2
        )
        above += bound.epsilon > 1
    assert above <= 118


@pytest.mark.parametrize(
    ("width", "factor", "delta"), [(0.07, 2.8, 0.01), (0.1, 1.9, 0.01), (0.03, 8.0, 0.05)]
)
def test_with_a_slack_narrow_bands_are_compared_across_their_width(width, factor, delta):
    """Widths in `per`; steps of the path are 1/40, of which pairs had eight. Control: ε itself."""
    privacy = replace(INCOME, delta=delta)
    band = Threshold(100_000.0 + 0.11 * privacy.per, width * privacy.per)
    for over in (factor, 1.0):
        mechanism = NoisyAnswer(band, privacy, Laplace(), band.lipschitz / (over * privacy.rate))
        case = SCENE.case(mechanism, np.linspace(-100, 101, 4001))
        (verdict,) = audit([case], samples=1000)
        assert verdict.keeps == (over == 1.0)


class Normal:
    variance = 1.0
    logpdf = staticmethod(norm.logpdf)

    def sample(self, rng, size):
        return rng.standard_normal(size)


def slack(sigma, distance):
    """δ of a ramp over two `per` with Gaussian noise, for ε = distance in `per` (Balle, 2018)."""
    mu, epsilon = distance / 2 / sigma, distance
    lost = np.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))
    return (norm.cdf(mu / 2 - epsilon / mu) - lost).max()


APART = np.linspace(0.01, 2.0, 200)


def keeps_with_noise(delta, factor):
    """Audit Gaussian noise with a factor of the scale that it needs; return both."""
    sigma = factor * brentq(lambda s: slack(s, APART) - delta, 0.1, 10.0)
    cases = own_cases(
        {"mine": lambda q, privacy: NoisyAnswer(q, replace(privacy, delta=delta), Normal(), sigma)}
    )
    (verdict,) = audit(cases[:1], samples=1000)
    return verdict.keeps, sigma


@pytest.mark.deep(keep=4, rest=2)
@pytest.mark.parametrize(
    ("delta", "factor"), [(1e-4, 0.85), (1e-3, 0.8), (1e-2, 0.8), (1e-2, 0.97)]
)
@pytest.mark.parametrize("sound", [False, True])
def test_with_a_slack_points_far_apart_are_compared(delta, factor, sound):
    """Only pairs more than half a `per` apart need more δ than the noise has, if it is too narrow.

    With 0.97 of it, only those about 2 `per` apart do.
    """
    keeps, sigma = keeps_with_noise(delta, 1.0 if sound else factor)
    assert slack(sigma, APART[:50]) < delta
    assert keeps == sound


@pytest.mark.parametrize(("factor", "sound"), [(0.75, False), (1.0, True)])
def test_with_a_small_slack_a_law_is_summed_over_closer_outputs(factor, sound):
    """Sums over outputs four times as far apart missed 400 times this δ."""
    assert keeps_with_noise(1e-8, factor)[0] == sound


class Quieter(ApproximateLaplace):
    """0.9 of the noise."""

    def _scale(self, s, ops):
        return super()._scale(s, ops) * ops.constant(0.9)


@pytest.mark.deep(rest=2)
@pytest.mark.parametrize("kind", [ApproximateLaplace, Quieter])
def test_with_a_slack_laws_of_releases_are_summed_over_closer_outputs(kind):
    """At a kernel, pairs need 4.8 times the δ; 565 outputs missed more than that."""
    cases = own_cases({"mine": lambda q, privacy: kind(q, replace(privacy, delta=1e-3))})
    (verdict,) = audit([replace(cases[2], own=False)], samples=1000)
    assert verdict.keeps == (kind is ApproximateLaplace)


@dataclass(frozen=True)
class Sometimes:
    """Laplace noise, a thousandth of it with a probability; as narrow as few outputs resolve."""

    query: Threshold
    privacy: GeoPrivacy
    share: float

    def simulate(self, x, rng):
        factor = np.where(rng.random(len(x)) < self.share, 1e-3, 1.0)
        scale = self.query.lipschitz / self.privacy.rate
        return self.query.value(x) + factor * scale * rng.laplace(size=len(x))

    def log_density(self, y, x):
        scale = self.query.lipschitz / self.privacy.rate
        z = np.abs(y - self.query.value(x)) / scale
        narrow = np.log(self.share * 500 / scale) - 1e3 * z
        return np.logaddexp(narrow, np.log((1 - self.share) / 2 / scale) - z)


@pytest.mark.parametrize(("share", "keeps"), [(1e-3, True), (1e-2, False)])
def test_with_a_slack_a_sum_over_outputs_is_not_taken_for_more_than_it_is(share, keeps):
    """A share of 1e-3 of the reports may have narrow noise where δ = 1e-3."""
    (row, *_) = own_cases({"mine": lambda q, p: Sometimes(q, replace(p, delta=1e-3), share)})
    (verdict,) = audit([row], samples=1000)
    assert verdict.keeps == keeps


class Lumped:
    """Laplace noise of which reports have single values, with δ = 1e-6 and a part of its scale."""

    def __init__(self, query, privacy, part):
        self.query, self.privacy = query, replace(privacy, delta=1e-6)
        self.scale = part * query.lipschitz / privacy.rate


class Clamped(Lumped):
    """To an answer's range, whose ends have probabilities."""

    def simulate(self, x, rng):
        value = self.query.value(x)
        return np.clip(value + self.scale * rng.laplace(size=value.shape), 0, 1)

    def log_density(self, y, x):
        z = (y - self.query.value(x)) / self.scale
        inside = np.where((y > 0) & (y < 1), -np.abs(z) - np.log(2 * self.scale), -np.inf)
        return np.where((y == 0) | (y == 1), -np.abs(z) - np.log(2), inside)


class OnAGrid(Lumped):
    """Geometric noise about one of two neighbours of the answer on a grid, at random."""

    def __init__(self, query, privacy, part):
        super().__init__(query, privacy, part)
        self.step = self.scale / 8

    def simulate(self, x, rng):
        value = self.query.value(x) / self.step
        near = np.floor(value + rng.random(value.shape))
        up, down = rng.geometric(-np.expm1(-1 / 8), (2, *value.shape))
        return self.step * (near + up - down)

    def log_density(self, y, x):
        value, place = self.query.value(x) / self.step, np.rint(y / self.step)
        low = np.floor(value)
        parts = np.exp(-np.abs(place - low) / 8), np.exp(-np.abs(place - low - 1) / 8)
        mixed = np.log((1 - value + low) * parts[0] + (value - low) * parts[1])
        possible = np.abs(y - place * self.step) < 1e-9
        return np.where(possible, np.log(np.tanh(1 / 16)) + mixed, -np.inf)


@pytest.mark.deep(keep=1, rest=1)
@pytest.mark.parametrize("kind", [OnAGrid, Clamped])
def test_with_a_slack_the_probabilities_of_single_values_are_added(kind):
    """In every row: 1.1 of the scale suffices, for rounding too; 0.7 of it costs at most 1.07/0.7.

    Some hundredths of that are left to δ. All were kept, without any sum.
    """
    for part, low, high in ((1.1, 0.7, 1.0), (0.7, 1.1, 1.07 / 0.7)):
        rows = own_cases({"mine": lambda query, privacy, k=part: kind(query, privacy, k)})
        fractions = [verdict.exact.fraction for verdict in audit(rows, samples=1000)]
        assert low < min(fractions)
        assert max(fractions) < high


@dataclass(frozen=True)
class EndedLaplace:
    """Laplace noise without reports so many scales away, which are never drawn."""

    end: float
    variance: float = 2.0

    def logpdf(self, z):
        return np.where(np.abs(z) < self.end, Laplace().logpdf(z), -np.inf)

    def sample(self, rng, size):
        return Laplace().sample(rng, size)


@pytest.mark.parametrize(("end", "fraction"), [(math.inf, 1 / 1.05), (40.0, math.inf)])
def test_the_end_of_a_density_may_not_move_between_any_two_points(end, fraction):
    def make(query, privacy):
        return NoisyAnswer(query, LocalPrivacy(1.0), EndedLaplace(end), 1.05)

    (verdict, *_) = audit(own_cases({"mine": make})[:1], samples=1000)
    assert verdict.exact.fraction == pytest.approx(fraction)


class UnderflowingLaplace(EndedLaplace):
    """Laplace noise whose log-density is the logarithm of a density."""

    def logpdf(self, z):
        with np.errstate(divide="ignore"):
            return np.log(np.exp(super().logpdf(z)))


@pytest.mark.parametrize(("wide", "fraction"), [(1.05, 1 / 1.05), (0.9, 1 / 0.9)])
def test_a_density_that_underflows_is_not_held_against_any_two_points(wide, fraction):
    """The first was refused: at an output with a density of 1e-321, that of other points is 0."""

    def make(query, privacy):
        return NoisyAnswer(query, LocalPrivacy(0.69), UnderflowingLaplace(math.inf), wide / 0.69)

    (verdict, *_) = audit(own_cases({"mine": make})[:1], samples=1000)
    assert verdict.exact.fraction == pytest.approx(fraction)


class WithItsOwnSeed:
    """Noise from a generator of its own, behind a lock: it can't be copied."""

    def __init__(self, query, privacy, seed):
        wide = 1.1 * query.lipschitz / privacy.rate
        self.noisy, self.privacy = NoisyAnswer(query, privacy, Laplace(), wide), privacy
        self.own, self.lock = np.random.default_rng(seed), Lock()

    def log_density(self, y, x):
        return self.noisy.log_density(y, x)

    def simulate(self, x, rng):
        with self.lock:
            return self.noisy.simulate(x, self.own)


@pytest.mark.parametrize(("seed", "alike"), [(7, True), (None, False)])
def test_a_seed_of_what_can_not_be_copied_is_seen(seed, alike):
    rows = own_cases({"mine": lambda query, privacy: WithItsOwnSeed(query, privacy, seed)})[:1]
    difference = "".join(row.difference for row in differing(rows, samples=10_000, seed=1))
    assert ("two generators" in difference) == alike


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: black_box_bound(np.zeros(99), np.zeros(200), 1.0), "sample"),
        (lambda: black_box_bound(np.zeros(200), np.full(200, np.nan), 1.0), "other"),
        (lambda: black_box_bound(np.zeros(200), np.zeros(200), 0.0), "distance"),
        (lambda: black_box_bound(np.zeros(200), np.zeros(200), 1.0, delta=1.0), "delta"),
        (lambda: exact_rate(SOUND["ramp"], [1.0], [0.0]), "points"),
        (lambda: exact_rate(SOUND["ramp"], [1.0, 1.0], [0.0]), "points"),
    ],
)
def test_bad_input_is_named(call, named):
    with pytest.raises(ParameterError, match=named):
        call()
