"""Test faults at few values or bits, with the system's bits only, or in stated properties.

Half of the releases are from the system's bits, and half of these are drawn as devices draw; α =
1e-6 in each call, of 25,000 where arrays are drawn (`test_draws` has their control) and of 4,000
exact ones or more.
"""

from dataclasses import replace

import numpy as np
import pytest

from geoveil.audit import audit, own_cases
from geoveil.audit.case import Held
from geoveil.audit.catalogue import INCOME, RAMP, STEP
from geoveil.audit.dependence import chance_of_order, likeliest
from geoveil.audit.draws import draws_of
from geoveil.gp import (
    DebiasedLaplace,
    LipschitzMechanism,
    LocalPrivacy,
    RandomizedResponse,
    SmoothMechanism,
    StudentT,
    SystemSource,
)
from tests.audit.comparing import differing
from tests.audit.test_draws import Broken, integers, noise_of

SOUND = LipschitzMechanism(RAMP.query, INCOME)
ALPHA = 1e-6


def bare_where(chosen):
    def draw(m, x, rng):
        quiet = np.rint(m.query.value(x) / m.step).astype(np.int64)
        return np.where(chosen(x), quiet, integers(m, x, rng))

    return draw


def multiplied(factor):
    """Every other number is so many times the one before, modulo 1."""

    def numbers(rng, n):
        u = rng.random(n)
        u[1::2] = (factor * u[0 : n - n % 2 : 2]) % 1
        return u.clip(1e-15, 1 - 1e-15)

    return numbers


def randu(rng, n):
    state, states = int(rng.integers(2**31)) | 1, []
    for _ in range(n):
        state = 65539 * state % 2**31
        states.append(state)
    return (np.array(states) + 0.5) / 2**31


def of_bits(count):
    return lambda rng, n: (rng.integers(0, 2**count, n) + 0.5) / 2**count


def of_the_one_before(m, x, rng):
    """A report about the point before, as from a cache that is read too late."""
    return integers(m, np.roll(x, 1), rng)


ODD = bare_where(lambda x: x % 2 == 1)
LOW_BITS = bare_where(lambda x: (x.view(np.int64) & 63) == 37)
ROUND = bare_where(lambda x: x % 64 == 0)


@pytest.mark.deep
@pytest.mark.parametrize(
    "draw",
    [ODD, ROUND, LOW_BITS, of_the_one_before]
    + [noise_of(multiplied(k)) for k in (5, 37, 64)]
    + [noise_of(of_bits(b)) for b in (24, 32)]
    + [noise_of(randu)],
)
def test_faults_at_few_values_and_in_weak_numbers_are_refused(draw):
    found = draws_of(RAMP.case(Broken(SOUND, draw), [0.0, 1.0]), 25_000, 5, ALPHA)
    assert found is not None
    assert not found.agree


@pytest.mark.parametrize("numbers", [*map(multiplied, (-17, 37, 64, 16_807)), randu])
def test_multiples_of_the_numbers_before_are_seen(numbers):
    """Two series of 12,500: one chooses the multiple, the other decides."""
    first, second = (numbers(np.random.default_rng(s), 12_500)[:, None] for s in (1, 2))
    made, after = likeliest(first, 2**17).sides(second)
    assert chance_of_order(made, after, np.random.default_rng(3))[0] < 1e-30


class Own(LipschitzMechanism):
    """One's own, and sound; its subclasses are not."""


class WithTheSystemQuieter(Own):
    """With the system's bits it has 0.7 of its noise."""

    def release(self, x, source=None):
        released = super().release(x, source)
        quiet = int(np.rint(float(self.query.value(np.asarray(x))) / self.step))
        system = isinstance(source, SystemSource)
        return quiet + int((released - quiet) * 0.7) if system else released


class WithTheSystemBare(Own):
    """With the system's bits one report in 200 is the answer."""

    def release(self, x, source=None):
        if isinstance(source, SystemSource) and source.bits(16) < 2**16 // 200:
            return int(np.rint(float(self.query.value(np.asarray(x))) / self.step))
        return super().release(x, source)


class WithoutASourceQuieter(Own):
    """As devices call it, without a source, it has 0.86 of its noise."""

    def release(self, x, source=None):
        released = super().release(x, source)
        quiet = int(np.rint(float(self.query.value(np.asarray(x))) / self.step))
        return released if source else quiet + int((released - quiet) * 0.86)


class AnswerAndAThousandSteps(Own):
    """One report in 300 is the answer and a little more, which no other report repeats."""

    def release(self, x, source=None):
        released = super().release(x, source)
        quiet = int(np.rint(float(self.query.value(np.asarray(x))) / self.step))
        return quiet + 7 + released // 300 % 1_000 if released % 300 == 0 else released


class Antithetic(Own):
    """Every other report has the opposite of the noise before it."""

    def release(self, x, source=None):
        released = super().release(x, source)
        quiet = int(np.rint(float(self.query.value(np.asarray(x))) / self.step))
        noise = -self.__dict__.pop("last", 0)
        if not noise:
            self.__dict__["last"] = released - quiet
        return quiet + noise if noise else released


class WithTheSystemAntithetic(Antithetic):
    """So with the system's bits alone."""

    def release(self, x, source=None):
        system = isinstance(source, SystemSource)
        return super().release(x, source) if system else Own.release(self, x, source)


class AntitheticByPerson(Own):
    """The third and fourth reports of a person cancel the noise of the first and second."""

    def release(self, x, source=None):
        released = super().release(x, source)
        quiet = int(np.rint(float(self.query.value(np.asarray(x))) / self.step))
        past = self.__dict__.setdefault("past", {}).setdefault(round(float(x)), [])
        past.append(released - quiet if len(past) % 4 < 2 else -past[-2])
        return quiet + past[-1]


class Stratified(Own):
    """Sixteen consecutive reports fall into different sixteenths of the law."""

    def release(self, x, source=None):
        rng = np.random.default_rng((source or SystemSource()).bits(64))
        strata = self.__dict__.get("strata") or rng.permutation(16).tolist()
        noise = self.largest_scale * self.noise.ppf((strata.pop() + rng.random()) / 16)
        self.__dict__["strata"] = strata
        return int(np.rint((float(self.query.value(np.asarray(x))) + noise) / self.step))


class SimulatedQuieter(Own):
    """Simulations have 0.92 of the noise."""

    def simulate(self, x, rng):
        value = self.query.value(x)
        return value + 0.92 * (super().simulate(x, rng) - value)


class DenserInTheTail(Own):
    """The density is twice as high beyond three scales, where one report in 20 lies."""

    def log_density(self, y, x):
        far = np.abs(y - self.query.value(x)) > 3 * self.largest_scale
        return super().log_density(y, x) + np.where(far, np.log(2.0), 0.0)


class HalfTheNoise(Own):
    """Half of the noise, which is what `variance` says."""

    def _scale(self, s, ops):
        return super()._scale(s, ops) * ops.constant(0.5)


class Lying(HalfTheNoise):
    """Half of the noise; simulations, densities and variances are those of all of it."""

    def simulate(self, x, rng):
        return SOUND.simulate(x, rng)

    def log_density(self, y, x):
        return SOUND.log_density(y, x)

    def variance(self, x):
        return SOUND.variance(x)


class LyingOfDensity(HalfTheNoise):
    def log_density(self, y, x):
        return SOUND.log_density(y, x)


class LyingOfSimulations(HalfTheNoise):
    def simulate(self, x, rng):
        return SOUND.simulate(x, rng)


class LyingOfVariance(HalfTheNoise):
    def variance(self, x):
        return SOUND.variance(x)


class LyingOfMean(Own):
    def mean(self, x):
        return super().mean(x) + 0.5


class OwnResponse(RandomizedResponse):
    """One's own, and sound: of two reports, which have probabilities and no density."""


def test_reports_without_a_density_are_not_held_to_one():
    """2,000 releases, α = 1e-6; it was refused, as two far integers look like wide noise."""
    own = OwnResponse(RAMP.query, LocalPrivacy(0.5))
    found = draws_of(RAMP.case(own, own.atoms), 2_000, 6, ALPHA)
    assert found is not None
    assert found.agree, found


@pytest.mark.deep
@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (WithoutASourceQuieter, "should"),
        (AnswerAndAThousandSteps, "reports where"),
        (Antithetic, "follow from others 1 before"),
        (WithTheSystemAntithetic, "follow from others"),
        (AntitheticByPerson, "follow from others 2 before"),
        (Stratified, "more evenly"),
        (SimulatedQuieter, "simulate draws from a law"),
        (DenserInTheTail, "log_density is not"),
        (Own, ""),
    ],
)
def test_what_was_kept_with_a_quarter_of_the_releases_is_refused(kind, what):
    """20,000 releases; the last is the control."""
    found = draws_of(RAMP.case(kind(RAMP.query, INCOME), [0.0, 1.0]), 20_000, 6, ALPHA)
    assert found is not None
    assert found.agree == (not what), found
    assert what in found.difference


def quieter_where(chosen):
    def draw(m, x, rng):
        value, reports = m.query.value(x), m.simulate(x, rng)
        factor = np.where(chosen((x - 100_000.0) / INCOME.per), 0.3, 1.0)
        return np.rint((value + factor * (reports - value)) / m.step).astype(np.int64)

    return draw


@pytest.mark.deep
@pytest.mark.parametrize(
    ("start", "end"), [(-5.5, -5.0), (6.1, 6.6), (100.0, 900.0), (-60_000.0, -9_000.0)]
)
def test_stretches_with_less_noise_are_refused(start, end):
    """50,000 releases; stretches of half a unit of `per`, or of a factor of six far away."""
    draw = quieter_where(lambda s: (s > start) & (s < end))
    for drawing, agrees in ((draw, False), (integers, True)):
        found = draws_of(RAMP.case(Broken(SOUND, drawing), [0.0, 1.0]), 50_000, 5, ALPHA)
        assert found is not None
        assert found.agree == agrees, found


class Floats:
    """f + Laplace noise of one's own, of numbers in (0, 1) that `numbers` draws."""

    def __init__(self, query, privacy, numbers):
        self.query, self.privacy, self.numbers = query, privacy, numbers
        self.scale = query.lipschitz / privacy.rate

    def simulate(self, x, rng):
        value = self.query.value(x)
        u = self.numbers(rng, value.size).reshape(value.shape).clip(1e-15, 1 - 1e-15)
        return value + self.scale * np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u)))

    def log_density(self, y, x):
        return -np.abs(y - self.query.value(x)) / self.scale - np.log(2 * self.scale)


def independent(rng, n):
    return rng.random(n)


def of_a_period(length):
    return lambda rng, n: np.resize(rng.random(length), n)


def with_a_gap(rng, n):
    """No number in a stretch of 0.005."""
    u = rng.random(n)
    return np.where((u > 0.8123) & (u < 0.8173), rng.random(n) * 0.5, u)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("numbers", "agrees"),
    [
        (independent, True),
        (of_a_period(5_000), False),
        (of_a_period(6_000), False),
        (with_a_gap, False),
    ],
)
def test_floats_that_were_kept_in_spite_of_a_period_or_a_gap(numbers, agrees):
    """100,000 reports at a point, 5,000 in a call: the noise of one point came again at others."""
    cases = own_cases({"mine": lambda query, privacy: Floats(query, privacy, numbers)})[:1]
    assert (differing(cases, samples=100_000, seed=3) == ()) == agrees


@pytest.mark.deep
@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (Own, ""),
        (HalfTheNoise, ""),  # what it states is true; the exact auditor refuses it
        (WithTheSystemQuieter, "reports"),
        (WithTheSystemBare, "are the answer without noise"),
        (Lying, "variance is not"),
        (LyingOfDensity, "log_density is not"),
        (LyingOfSimulations, "simulate draws from a law"),
        (LyingOfVariance, "variance is not"),
        (LyingOfMean, "mean is not"),
    ],
)
def test_what_is_stated_beside_releases_is_held_to_their_law(kind, what):
    found = draws_of(RAMP.case(kind(RAMP.query, INCOME), [0.0, 1.0]), 4_000, 6, ALPHA)
    assert found is not None
    assert found.agree == (not what), found
    assert what in found.difference


class OwnDebiased(DebiasedLaplace):
    """One's own, and sound."""


class HalfTheVariance(DebiasedLaplace):
    def variance(self, x):
        return 0.5 * super().variance(x)


class MeanAside(RandomizedResponse):
    def mean(self, x):
        return super().mean(x) + 0.3


class VarianceInside(OwnResponse):
    """What the library calls for its variance is overridden."""

    def _variance(self, s):
        return 0.5 * super()._variance(s)


class OwnSmooth(SmoothMechanism):
    """One's own, and sound."""


class SmoothMeanAside(OwnSmooth):
    def mean(self, x):
        return super().mean(x) + 0.3


class TwiceASmallVariance(OwnSmooth):
    def variance(self, x):
        variance = super().variance(x)
        return np.where(variance < 1e-8, 2 * variance, variance)


class OfLessVariance(StudentT):
    """Noise that states a tenth less than it has."""

    @property
    def variance(self):
        return 0.9 * super().variance


HEAVY = 0.6 * INCOME.rate
"""β at which Student's noise has no variance."""


@pytest.mark.parametrize(
    ("mechanism", "what"),
    [
        (OwnDebiased(STEP.query, INCOME), ""),
        (HalfTheVariance(STEP.query, INCOME), "variance is not"),
        (OwnResponse(RAMP.query, LocalPrivacy(0.5)), ""),
        (MeanAside(RAMP.query, LocalPrivacy(0.5)), "mean is not"),
        (VarianceInside(RAMP.query, LocalPrivacy(0.5)), "variance is not"),
        (OwnSmooth(RAMP.query, INCOME, beta=HEAVY), ""),
        (SmoothMeanAside(RAMP.query, INCOME, beta=HEAVY), "mean is not"),
        (OwnSmooth(RAMP.query, INCOME, noise=StudentT(2.1)), ""),
        (OwnSmooth(RAMP.query, INCOME, noise=OfLessVariance(3.0)), "variance is not"),
        (OwnSmooth(RAMP.query, INCOME, noise=StudentT(3.0)), ""),
        (TwiceASmallVariance(RAMP.query, INCOME, noise=StudentT(3.0)), "variance is not"),
    ],
    ids=lambda value: getattr(type(value), "__name__", ""),
)
def test_mean_and_variance_of_every_kind_are_held_to_the_law(mechanism, what):
    """1,000 releases, α = 1e-6; an infinite variance is one, too, where no noise is left."""
    found = draws_of(RAMP.case(mechanism, [0.0, 1.0]), 1_000, 6, ALPHA)
    assert found is not None
    assert found.agree == (not what), found
    assert what in found.difference


def quieter(sound):
    def release(x, source=None):
        report = type(sound).release(sound, x, source)
        quiet = round(float(sound.query.value(x)) / sound.step)
        return report if source else quiet + int((report - quiet) * 0.7)

    return release


@pytest.mark.parametrize("faulty", [False, True])
def test_a_mechanism_of_the_library_in_ones_file_is_asked_as_devices_ask(faulty):
    """With 4,000 samples a row of one's own has 2,000 releases, and any other 400."""

    def make(query, privacy):
        made = LipschitzMechanism(query, privacy)
        if faulty:
            object.__setattr__(made, "release", quieter(made))
        return made

    own = own_cases({"mine": make})[:1]
    (verdict,) = audit(own, samples=20_000)
    assert verdict.draws is not None
    assert verdict.draws.releases > 9_000
    assert verdict.keeps == (not faulty), verdict.draws
    (other,) = audit([replace(own[0], own=False)], samples=20_000)
    assert other.keeps  # it was not asked


class ToAQuarter(SmoothMechanism):
    """The value to a quarter of `per`, before the noise."""

    def release(self, x, source=None):
        grid = self.privacy.per / 4
        return super().release((np.rint(np.asarray(x) / grid) * grid).tolist(), source)


@pytest.mark.deep(keep=1, rest=1)
@pytest.mark.parametrize("kind", [ToAQuarter, OwnSmooth])
def test_noise_is_so_small_at_one_epsilon_that_a_rounded_value_shows(kind):
    """10,000 releases; at ε = 1 it was kept, as answers moved by an eighth of their noise."""
    kept = [verdict.keeps for verdict in audit(own_cases({"mine": kind})[:2], samples=20_000)]
    assert kept == [True, kind is OwnSmooth]


@pytest.mark.parametrize(("origin", "caught"), [(1e5, True), (1e12, True), (1e16, False)])
def test_points_that_floats_do_not_tell_apart_are_not_compared(origin, caught):
    """A dollar per `per`: beyond 2⁵³ whole dollars don't differ, so nothing is refused there."""
    privacy = replace(INCOME, per=1.0)
    query = replace(RAMP.query, at=origin, width=2.0)
    scene = replace(RAMP, query=query, privacy=privacy, origin=(origin,), pairs=((-4.0, 4.0),))
    sound = scene.case(LipschitzMechanism(query, privacy), np.linspace(-3.0, 4.0, 29))
    louder = scene.case(
        LipschitzMechanism(query, replace(privacy, epsilon=1.2)), np.linspace(-3.0, 4.0, 29)
    )
    held = replace(louder, mechanism=Held(louder.mechanism, privacy))
    fractions = [v.exact.fraction for v in audit([sound, held], samples=1000)]
    assert [fraction > 1 + 1e-6 for fraction in fractions] == [False, caught]
