"""Test faults that show only at one lag, divisor, stretch of points or output.

α = 1e-6 in each call; seeds are fixed. The control of each is the same mechanism without the fault.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from geoveil.audit import audit, own_cases
from geoveil.audit.catalogue import BELL, INCOME, PLACE, RAMP, STEP, outputs_of
from geoveil.audit.dependence import chance_of_closeness, chance_of_order, likeliest
from geoveil.audit.draws import draws_of
from geoveil.audit.faults import Rescaled
from geoveil.gp import (
    ApproximateLaplace,
    GeoPrivacy,
    LipschitzMechanism,
    LocalLaplace,
    LocalPrivacy,
    PlanarLaplace,
    RandomizedResponse,
    SmoothMechanism,
    Threshold,
    VectorSmoothMechanism,
)
from tests.audit.comparing import differing
from tests.audit.test_draws import Broken, integers

Array = np.ndarray
SOUND = LipschitzMechanism(RAMP.query, INCOME)
THREE = VectorSmoothMechanism(
    [Threshold(at, 24_000.0, "smoothstep") for at in (100_000.0, 132_000.0, 60_000.0)], INCOME
)
PLANE = PlanarLaplace(PLACE, 2)
RESPONSE = RandomizedResponse(RAMP.query, LocalPrivacy(1.0))


def turned(lag: int, sign: int, by: float) -> Callable[[int, Any], Array]:
    """Numbers of which every other block of so many is made of the one before."""

    def numbers(n: int, rng: np.random.Generator) -> Array:
        u = rng.random(-(-n // (2 * lag)) * 2 * lag).reshape(-1, 2, lag)
        u[:, 1] = (sign * u[:, 0] + by) % 1
        return u.ravel()[:n]

    return numbers


def fibonacci(n: int, rng: np.random.Generator) -> Array:
    u = rng.random(n).tolist()
    for i in range(2, n):
        u[i] = (u[i - 1] + u[i - 2]) % 1
    return np.array(u)


def periodic(n: int, rng: np.random.Generator) -> Array:
    return np.resize(rng.random(9_001), n)


def following(later: int, multiple: int, parts: int) -> Callable[[int, Any], Array]:
    """A multiple of the number so many before, turned by a random one of equal parts."""

    def numbers(n: int, rng: np.random.Generator) -> Array:
        u = rng.random((-(-n // (2 * later)), later))
        turned = multiple * u + rng.integers(0, parts, u.shape) / parts
        noisy = (turned + 0.02 * rng.normal(size=u.shape)) % 1
        return np.concatenate([u, noisy], axis=1).ravel()[:n]

    return numbers


def stratified(parts: int) -> Callable[[int, Any], Array]:
    """Numbers that fill each of `parts` equal intervals of (0, 1) once before any again."""

    def numbers(n: int, rng: np.random.Generator) -> Array:
        strata = rng.permuted(np.tile(np.arange(parts), (-(-n // parts), 1)), axis=1)
        return ((strata + rng.random(strata.shape)) / parts).ravel()[:n]

    return numbers


def mirrored(n: int, rng: np.random.Generator) -> Array:
    """The second half of a call is made of the first."""
    u = rng.random(n - n // 2)
    return np.concatenate([u, 1 - u[: n // 2]])


SERIES = {
    "opposite, 2 later": turned(2, -1, 1.0),
    "half a turn, 7 later": turned(7, 1, 0.5),
    "opposite, 1,000 later": turned(1_000, -1, 1.0),
    "lagged Fibonacci": fibonacci,
    "a period of 9,001": periodic,
    "half a turn or none, 3 later": following(3, 1, 2),
    "any quarter turn, 10 later": following(10, 1, 4),
    "five times, 20 later": following(20, 5, 1),
    "minus twice, 30 later": following(30, -2, 1),
}


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_independent_numbers_follow_from_none(columns):
    """40 series: their least chance is below 1e-5 with a probability of 0.0008."""
    chances = []
    for seed in range(40):
        rng = np.random.default_rng([columns, seed])
        follows = likeliest(rng.random((400, columns)))
        sides = follows.sides(rng.random((400, columns)))
        chances += [chance_of_order(*sides, rng)[0], chance_of_closeness(*sides)]
    assert min(chances) > 1e-5


@pytest.mark.parametrize("n", [60, 256, 300])
def test_a_series_too_short_to_choose_from_follows_from_its_neighbours(n):
    """No lag has enough pairs below 256 numbers; a number is never compared with itself."""
    u = np.random.default_rng(n).random((n, 1))
    made, numbers = likeliest(u).sides(u)
    assert len(made) == len(numbers) <= n
    assert not np.any(made == numbers)


@pytest.mark.parametrize("name", SERIES)
def test_numbers_that_follow_at_any_lag_are_seen(name):
    first, second = (SERIES[name](25_000, np.random.default_rng(s))[:, None] for s in (1, 2))
    follows = likeliest(first)
    made, numbers = follows.sides(second)
    assert chance_of_order(made, numbers, np.random.default_rng(3))[0] < 1e-30


@pytest.mark.parametrize(("later", "multiple"), [(1, 3), (8, -65_000), (6_990, 4)])
def test_a_tenth_of_numbers_that_follow_is_seen(later, multiple):
    """Also if devices drew the first half of the second series. The control is independent."""
    first, second, control = np.random.default_rng(1).random((3, 25_000, 1))
    followed = np.random.default_rng(2).random(25_000) < 0.1
    for series, start in ((first, later), (second, 12_500 + later)):
        for i in start + np.flatnonzero(followed[start:]):
            series[i] = multiple * series[i - later] % 1
    follows = likeliest(first, 1 << 17)
    assert chance_of_closeness(*follows.sides(second)) < 1e-20
    assert chance_of_closeness(*follows.sides(control)) > 1e-5


def of_series(series: Callable[[int, Any], Array]) -> Callable[..., Array]:
    def draw(m: Any, x: Array, rng: np.random.Generator) -> Array:
        u = series(len(x), rng).clip(1e-12, 1 - 1e-12)
        value = m.query.value(x)
        return np.rint((value + m.largest_scale * m.noise.ppf(u)) / m.step).astype(np.int64)

    return draw


def told_by_a_remainder(m: Any, x: Array, rng: np.random.Generator) -> Array:
    k = integers(m, x, rng)
    return k - k % 3 + (x > 100_000.0)


def told_by_a_divisor(m: Any, x: Array, rng: np.random.Generator) -> Array:
    k = integers(m, x, rng)
    return k - k % 1_009 + np.rint(1_000 * m.query.value(x)).astype(np.int64)


def sometimes_a_remainder(m: Any, x: Array, rng: np.random.Generator) -> Array:
    k = integers(m, x, rng)
    return np.where(rng.random(len(x)) < 0.25, k - k % 5 + 2 * (x > 100_000.0), k)


def scaled_where(condition: Callable[[Array], Array], factor: float) -> Callable[..., Array]:
    def draw(m: Any, x: Array, rng: np.random.Generator) -> Array:
        value, report = m.query.value(x), m.simulate(x, rng)
        there = np.where(condition((x - 100_000.0) / INCOME.per), factor, 1.0)
        return np.rint((value + there * (report - value)) / m.step).astype(np.int64)

    return draw


def nearly_bare_at_times(m: Any, x: Array, rng: np.random.Generator) -> Array:
    value, report = m.query.value(x), m.simulate(x, rng)
    factor = np.where(rng.random(len(x)) < 1 / 300, 1e-3, 1.0)
    return np.rint((value + factor * (report - value)) / m.step).astype(np.int64)


def of_columns(make: Callable[[Array], None]) -> Callable[..., Array]:
    def draw(m: Any, x: Array, rng: np.random.Generator) -> Array:
        u = rng.random((len(x), 3))
        make(u)
        s = m._distances(x)
        noise = m._scale(s) * m.noise.ppf(u.clip(1e-12, 1 - 1e-12))
        return np.rint((m._value(s) + noise) / m.step).astype(np.int64)

    return draw


def third_is_the_sum(u: Array) -> None:
    u[:, 2] = (u[:, 0] + u[:, 1]) % 1


def third_is_the_second(u: Array) -> None:
    u[:, 2] = u[:, 1]


def angle_is_a_later_radius(m: Any, x: Array, rng: np.random.Generator) -> Array:
    from scipy.stats import gamma

    u = rng.random(len(x))
    turn = 2 * np.pi * np.roll(u, -3)
    radius = gamma.ppf(u, 2) / m.privacy.rate
    moved = x + radius[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=-1)
    return np.rint(moved / m.step).astype(np.int64)


def cut_off(m: Any, x: Array, rng: np.random.Generator) -> Array:
    """Noise beyond the last thousandth is drawn again."""
    value, report = m.query.value(x), m.simulate(x, rng)
    for _ in range(9):
        far = np.abs(report - value) > np.log(1_000) * m.largest_scale
        report = np.where(far, m.simulate(x, rng), report)
    return np.rint(report / m.step).astype(np.int64)


def a_little_off_far_away(m: Any, x: Array, rng: np.random.Generator) -> Array:
    off = 0.3 * m.largest_scale * (x > 100_000.0 + 30 * INCOME.per)
    return np.rint((m.simulate(x, rng) + off) / m.step).astype(np.int64)


def bare_in_a_quadrant(m: Any, x: Array, rng: np.random.Generator) -> Array:
    quiet = np.rint(m.query.value(x) / m.step).astype(np.int64)
    there = ((x > 0.2 * PLACE.per) & (x < 2 * PLACE.per)).all(axis=-1)
    return np.where(there, quiet, integers(m, x, rng))


def truer_off_the_axis(m: Any, x: Array, rng: np.random.Generator) -> Array:
    value, report = m.query.value(x), m.simulate(x, rng)
    factor = np.where(np.abs(x[:, 1]) > PLACE.per, 0.4, 1.0)
    return np.rint((value + factor * (report - value)) / m.step).astype(np.int64)


def copied_two_later(m: Any, x: Array, rng: np.random.Generator) -> Array:
    k = integers(m, x, rng)
    copied = rng.random(len(k)) < 0.5
    for i in range(2, len(k)):
        k[i] = k[i - 2] if copied[i] else k[i]
    return k


@pytest.mark.deep(keep=0, rest=3)
@pytest.mark.parametrize(
    ("stated", "draw"),
    [
        *((SOUND, of_series(series)) for series in SERIES.values()),
        (SOUND, told_by_a_remainder),
        (SOUND, told_by_a_divisor),
        (SOUND, sometimes_a_remainder),
        (SOUND, scaled_where(lambda s: (s > 4) & (s < 7), 0.5)),
        (SOUND, scaled_where(lambda s: (s > -2.5) & (s < -1), 0.5)),
        (SOUND, scaled_where(lambda s: s > 1e4, 0.5)),
        (SOUND, scaled_where(lambda s: s == -100_000.0 / INCOME.per, 0.0)),
        (SOUND, nearly_bare_at_times),
        (THREE, of_columns(third_is_the_sum)),
        (THREE, of_columns(third_is_the_second)),
        (PLANE, angle_is_a_later_radius),
        (RESPONSE, copied_two_later),
        (SOUND, cut_off),
        (SOUND, a_little_off_far_away),
        (LipschitzMechanism(BELL.query, PLACE), truer_off_the_axis),
        (LipschitzMechanism(BELL.query, PLACE), bare_in_a_quadrant),
    ],
)
def test_releases_that_were_kept(stated, draw):
    """60,000 releases each, the control's too. All were kept before lags, divisors and points."""
    scene = BELL if stated.dimension == 2 else RAMP
    for drawing, agrees in ((draw, False), (integers, True)):
        case = scene.case(Broken(stated, drawing), [0.0, 1.0])  # type: ignore[arg-type]
        found = draws_of(case, 60_000, 5, 1e-6)
        assert found is not None
        assert found.agree == agrees, found


def test_bare_answers_are_seen_where_noise_dies_away():
    """25,000 releases of smooth noise, 2e-5 of its largest scale where they are bare."""
    stated = SmoothMechanism(RAMP.query, INCOME)

    def bare(m: Any, x: Array, rng: np.random.Generator) -> Array:
        far = np.abs(x - 100_000.0) > 35 * INCOME.per
        return np.rint(np.where(far, m.query.value(x), m.simulate(x, rng)) / m.step).astype("i8")

    for drawing, agrees in ((bare, False), (integers, True)):
        found = draws_of(RAMP.case(Broken(stated, drawing), [0.0, 1.0]), 25_000, 5, 1e-6)  # type: ignore[arg-type]
        assert found is not None
        assert found.agree == agrees, found


@dataclass
class Own:
    """f + Laplace noise of one's own, but for what is done to its scale, density and draws."""

    query: Any
    privacy: GeoPrivacy
    factor: Callable[[Array], Array] = np.ones_like
    drawn: Callable[[Array], Array] = np.ones_like
    series: Callable[[int, Any], Array] = lambda n, rng: rng.random(n)
    spike: float = 0.0
    shift: float = 0.0

    def steps(self, x: Array) -> Array:
        return np.asarray(self.query.signed_distance(x)) / self.privacy.per

    def simulate(self, x: Any, rng: np.random.Generator) -> Any:
        value = self.query.value(x)
        u = self.series(value.size, rng).clip(1e-15, 1 - 1e-15).reshape(value.shape)
        z = np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u)))
        z = np.where(rng.random(z.shape) < self.spike, 3.3 + 1e-5 * z, z)
        scale = self.factor(self.steps(x)) * self.drawn(self.steps(x))
        return value + scale * (z + self.shift) * self.query.lipschitz / self.privacy.rate

    def log_density(self, y: Any, x: Any) -> Any:
        scale = self.factor(self.steps(x)) * self.query.lipschitz / self.privacy.rate
        z = (y - self.query.value(x)) / scale
        found = np.log1p(-self.spike) - np.abs(z) - np.log(2 * scale)
        if not self.spike:
            return found
        high = np.log(self.spike / 2e-5) - np.abs(z - 3.3) / 1e-5 - np.log(scale)
        return np.logaddexp(found, high)


def wavy(s: Array) -> Array:
    """As fine as what the path was split into, so that all points met it alike."""
    return np.asarray(1 + 1e-3 * np.sin(2 * np.pi * 10_240 * s))


@pytest.mark.deep(keep=0, rest=2)
@pytest.mark.parametrize(
    ("fault", "exact"),
    [
        ({"factor": lambda s: np.where((s > 40) & (s < 60), 0.2, 1.0)}, True),
        ({"factor": lambda s: np.where((s < -20) & (s > -70), 0.5, 1.0)}, True),
        ({"factor": wavy}, True),
        ({"spike": 2e-3}, True),
        ({"series": SERIES["opposite, 2 later"]}, False),
        ({"series": fibonacci}, False),
        ({"series": mirrored}, False),
        ({"series": following(3, 1, 2)}, False),
        ({"series": stratified(250)}, False),
        ({"series": stratified(30)}, False),
        ({"factor": lambda s: np.where(s > 1_778, 0.3, 1.0)}, True),
        ({"drawn": lambda s: np.where(s > 4.7e5, 0.5, 1.0)}, False),
        ({"drawn": lambda s: np.where((s > 4) & (s < 7), 0.5, 1.0)}, False),
        ({"drawn": lambda s: np.where((s > -2.5) & (s < -1), 0.5, 1.0)}, False),
        ({"shift": 0.09}, False),
        ({"drawn": lambda s: np.full_like(s, 0.88)}, False),
        ({"series": lambda n, rng: np.where((u := rng.random(n)) < 0.008, 1 - u, u)}, False),
    ],
)
def test_mechanisms_of_ones_own_that_were_kept(fault, exact):
    """20,000 reports at each point. The first four break the promise that their density shows."""

    def keeps(**changed: Any) -> tuple[bool, bool]:
        cases = own_cases({"mine": lambda query, privacy: Own(query, privacy, **changed)})[:1]
        (verdict,) = audit(cases, samples=20_000, seed=3)
        return verdict.exact.fraction <= 1 + 1e-6, not differing(cases, samples=20_000, seed=3)

    assert keeps() == (True, True)
    assert not keeps(**fault)[0 if exact else 1]


@dataclass
class Ending(Own):
    """Noise wider than the promise needs, which ends at some points."""

    end: float = np.inf
    """In scales of the noise."""
    beyond: float = -np.inf
    """The log-density stated there."""
    at: tuple[float, float] = (-np.inf, np.inf)
    """The points, in `per` from the middle."""

    def log_density(self, y: Any, x: Any) -> Any:
        steps = self.steps(x)
        scale = self.factor(steps) * self.query.lipschitz / self.privacy.rate
        out = (
            (steps > self.at[0])
            & (steps < self.at[1])
            & (abs(y - self.query.value(x)) > self.end * scale)
        )
        return np.where(out, self.beyond, super().log_density(y, x))


def fractions_of_endings(**changed: Any) -> list[float]:
    wide = {"factor": lambda s: np.full_like(s, 1.5), **changed}
    cases = own_cases({"mine": lambda query, privacy: Ending(query, privacy, **wide)})[:2]
    return [verdict.exact.fraction for verdict in audit(cases, samples=1_000, seed=3)]


@pytest.mark.parametrize(
    "fault",
    [
        {"end": 14.0, "beyond": np.log(np.finfo(float).tiny)},
        {"end": 19.0, "beyond": -740.0},
        {"end": 19.0, "beyond": -690.0},
        {"end": 0.1, "at": (3.1415, 3.1465)},
    ],
)
def test_places_where_a_density_ends_are_seen(fault):
    """The least double, a floor and 0 in a strip."""
    assert min(fractions_of_endings(**fault)) > 100


def test_a_density_without_an_end_uses_two_thirds_of_epsilon():
    """The control of the endings."""
    assert fractions_of_endings() == pytest.approx([2 / 3, 2 / 3], rel=1e-6)


def test_mechanisms_whose_noise_vanishes_far_away_agree_with_their_density():
    """A million `per` away, floats are the answer itself, about which a density says nothing."""
    cases = own_cases({"mine": SmoothMechanism})
    assert len(cases) == 3
    assert differing(cases, samples=4_000, seed=3) == ()


@pytest.mark.deep
def test_honest_floats_that_repeat_far_away_are_no_atoms():
    """100,000 reports: 158 per away the noise is a few thousand times the space between floats."""
    mechanism = SmoothMechanism(STEP.query, INCOME)
    cases = [STEP.case(mechanism, outputs_of(mechanism))]
    assert differing(cases, samples=100_000, seed=1) == ()


SLACK = replace(INCOME, delta=1e-6, reach=10 * INCOME.per)


def in_a_disc(x: Array) -> Array:
    """Within 0.6 per of a place in the first quadrant."""
    away = x / PLACE.per - 1.45
    return np.asarray(np.hypot(away[..., 0], away[..., 1]) < 0.6)


def quieter(where: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: np.where(where(np.asarray(x)), 0.4, 1.0)


@pytest.mark.parametrize(
    ("stated", "where"),
    [
        (LocalLaplace(RAMP.query, LocalPrivacy(1.0)), lambda x: np.abs(x - 1e5) > 35 * INCOME.per),
        (ApproximateLaplace(RAMP.query, SLACK), lambda x: np.abs(x - 14e4) < 6e3),
        (ApproximateLaplace(RAMP.query, SLACK), lambda x: x > 36e4),
        (LipschitzMechanism(BELL.query, PLACE), lambda x: np.abs(x[..., 1]) > 1.3 * PLACE.per),
        (LocalLaplace(RAMP.query, LocalPrivacy(1.0)), lambda x: (x > 91_101) & (x < 91_114)),
        (ApproximateLaplace(RAMP.query, SLACK), lambda x: (x > 131_210) & (x < 131_226)),
        (LipschitzMechanism(RAMP.query, INCOME), lambda x: (x > 60_011) & (x < 60_022)),
        (LipschitzMechanism(BELL.query, PLACE), lambda x: np.abs(x[..., 1] / PLACE.per - 3) < 1e-3),
        (LipschitzMechanism(BELL.query, PLACE), in_a_disc),
        (LipschitzMechanism(BELL.query, PLACE), lambda x: x[..., 0] > 10 * PLACE.per),
    ],
    ids=[
        "any two, far away", "with a slack", "with a slack, far away", "off the axis",
        "any two, a strip", "a strip with a slack", "a strip", "a strip off the axis",
        "a disc off the axis", "far to the east",
    ],
)  # fmt: skip
def test_densities_that_break_a_promise_where_nobody_looked(stated, where):
    """Control: the mechanism without the fault. All were kept."""
    scene = BELL if stated.dimension == 2 else RAMP
    for mechanism, keeps in ((stated, True), (Rescaled(stated, quieter(where)), False)):
        case = scene.case(mechanism, outputs_of(stated))
        (verdict,) = audit([replace(case, mechanism=Silent(mechanism))], samples=1_000, seed=3)
        assert verdict.keeps == keeps, verdict


@dataclass
class Silent:
    """A mechanism without its release."""

    of: Any

    @property
    def privacy(self) -> Any:
        return self.of.privacy

    def simulate(self, x: Any, rng: np.random.Generator) -> Any:
        return self.of.simulate(x, rng)

    def log_density(self, y: Any, x: Any) -> Any:
        return self.of.log_density(y, x)


def test_two_releases_of_a_row_do_not_share_their_noise():
    """What is drawn at points beside a row is of another seed than what is drawn along its path."""
    case = replace(STEP, name="the value").case(Broken(SOUND, integers), [0.0, 1.0])  # type: ignore[arg-type]
    found = draws_of(case, 4_000, 1, 1e-6)
    assert found is not None
    assert found.agree
