"""Test that `audit` passes honest releases and refuses faulty ones, by the stated law.

α = 1e-6 for all rows of a call together, as `audit` divides it; seeds are fixed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from geoveil.audit import audit, catalogue, exact_rate
from geoveil.audit.catalogue import BELL, INCOME, PLACE, RAMP, STEP
from geoveil.audit.dependence import chance_of_evenness
from geoveil.audit.draws import _places, at_least, draws_of
from geoveil.audit.laws import placed
from geoveil.audit.release_faults import Cut, Strip, release_faults
from geoveil.gp import (
    DebiasedLaplace,
    GeoPrivacy,
    Laplace,
    LipschitzMechanism,
    LocalPrivacy,
    Mechanism,
    ParameterError,
    PlanarLaplace,
    RandomizedResponse,
    SeededSource,
    Threshold,
    VectorSmoothMechanism,
)
from tests.audit.comparing import differing

ALPHA = 1e-6
SOUND = LipschitzMechanism(RAMP.query, INCOME)
SCALE = SOUND.largest_scale


@pytest.mark.parametrize(
    "mechanism",
    [
        SOUND,
        DebiasedLaplace(STEP.query, INCOME),
        DebiasedLaplace(BELL.query, PLACE),
        RandomizedResponse(RAMP.query, LocalPrivacy(1.0)),
        LipschitzMechanism(RAMP.query, INCOME, step=0.5),
        DebiasedLaplace(STEP.query, INCOME, step=0.25),
    ],
    ids=lambda m: f"{type(m).__name__}-{m.step:g}-{type(m.query).__name__}",
)
@pytest.mark.parametrize("aside", [0.0, 0.4, -3.0, 30.0])
def test_the_law_of_integers_adds_up_and_is_that_of_ideal_reports(mechanism, aside):
    """Oracle: 200,000 ideal reports, rounded. α = 1e-6 (4.9 standard errors) for each share."""
    scene = BELL if mechanism.query is BELL.query else RAMP
    x = scene.points(aside)
    ideal = mechanism.simulate(np.broadcast_to(x, (200_000, *x.shape)), np.random.default_rng(3))
    k = np.rint(ideal / mechanism.step).astype(np.int64)
    some = np.unique(np.quantile(k, np.linspace(0, 1, 25)).astype(np.int64))
    place = placed(mechanism, x, some)
    assert place is not None
    assert np.allclose(place.below + place.equal + place.above, 1, atol=1e-12)
    assert np.allclose(place.equal[:, 0], place.once, atol=1e-12)
    for value, below, once in zip(some, place.below[:, 0], place.once, strict=True):
        for counted, stated in ((np.mean(k < value), below), (np.mean(k == value), once)):
            assert abs(counted - stated) <= 4.9 * (
                stated * (1 - stated) / len(k)
            ) ** 0.5 + 25 / len(k)


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("seed", [11, 12])
def test_honest_rows_keep_the_law_that_they_state(seed):
    """600 releases a row; 36 rows, of which none is refused but with α = 1e-6."""
    for case in catalogue():
        draws = draws_of(case, 600, seed, ALPHA / 36)
        assert draws is None or draws.agree, (case, draws)


@pytest.mark.deep(keep=0)
def test_planted_faults_are_caught_and_were_kept_without_a_look_at_releases():
    """Control: what was looked at before, the rows' own points and outputs, shows none of them."""
    cases = release_faults()
    assert len(cases) == 14
    for case, verdict in zip(cases, audit(cases, samples=100_000, seed=2), strict=True):
        assert not verdict.keeps, case
        assert not verdict.caught, case
        before = exact_rate(case.mechanism, case.path, case.outputs)
        assert before.rate <= case.mechanism.privacy.rate * (1 + 1e-6), case
        if isinstance(case.mechanism, (Cut, Strip)):
            assert verdict.exact.fraction > 1.05, case
        else:
            assert verdict.draws is not None
            assert verdict.draws.releases > 90_000
            assert replace(verdict, draws=None).keeps, case


Draw = Callable[[Any, np.ndarray, np.random.Generator], np.ndarray]


@dataclass
class Broken:
    """A sound mechanism but for its integers."""

    stated: Mechanism[Any]
    draw: Draw

    @property
    def privacy(self) -> GeoPrivacy | LocalPrivacy:
        return self.stated.privacy  # type: ignore[attr-defined,no-any-return]

    def simulate(self, x: Any, rng: np.random.Generator) -> Any:
        return self.stated.simulate(x, rng)

    def log_density(self, y: Any, x: Any) -> Any:
        return self.stated.log_density(y, x)

    def release_many(self, x: Any, source: SeededSource) -> Any:
        return self.draw(self.stated, np.asarray(x), np.random.default_rng(source.bits(64)))


def integers(m: Any, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.rint(m.simulate(x, rng) / m.step).astype(np.int64)


def noise_of(u: Callable[[np.random.Generator, int], np.ndarray]) -> Draw:
    def draw(m: Any, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        reports = m.query.value(x) + SCALE * m.noise.ppf(u(rng, len(x)))
        return np.rint(reports / m.step).astype(np.int64)

    return draw


def antithetic(rng: np.random.Generator, n: int) -> np.ndarray:
    u = rng.random(n)
    return np.where(np.arange(n) % 2, 1 - np.roll(u, 1), u)


def one_in_each_of_64_parts(rng: np.random.Generator, n: int) -> np.ndarray:
    parts = [rng.permutation(64) for _ in range(-(-n // 64))]
    return (np.concatenate(parts)[:n] + rng.random(n)) / 64


def few_seeds(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.random.default_rng(5).random(256)[rng.integers(0, 256, n)]


def told_in_the_last_bit(m: Any, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return integers(m, x, rng) // 2 * 2 + (x > 100_000.0)


def told_in_a_middle_digit(m: Any, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    k = integers(m, x, rng)
    return k - (((k >> 8) & 15) << 8) + ((x > 100_000.0).astype(np.int64) << 11)


def told_modulo_257(m: Any, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    k = integers(m, x, rng)
    moved = k - k % 257 + (x // 100).astype(np.int64) % 257
    return np.where(rng.random(len(x)) < 0.2, moved, k)


def bare_far_away(m: Any, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    far = np.abs(x - 100_000.0) > 20 * INCOME.per
    quiet = np.rint(m.query.value(x) / m.step).astype(np.int64)
    return np.where(far, quiet, integers(m, x, rng))


def clipped(m: Any, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.clip(integers(m, x, rng), -round(3 / m.step), round(4 / m.step))


def one_sign(m: Any, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    value = np.rint(m.query.value(x) / m.step).astype(np.int64)
    return value + np.abs(integers(m, x, rng) - value)


def signed_by_the_value(m: Any, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    side = np.where(np.floor(x) % 2, 1, -1)
    value = np.rint(m.query.value(x) / m.step).astype(np.int64)
    return value + side * np.abs(integers(m, x, rng) - value)


def one_noise_for_both(m: Any, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    reports, value = m.simulate(x, rng), m.mean(x)
    noise = (reports - value)[:, :1]
    return np.rint((value + noise) / m.step).astype(np.int64)


def along_the_axes(m: Any, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    radius = np.hypot(*(m.simulate(x, rng) - x).T)
    turn = rng.integers(0, 4, len(x)) * np.pi / 2
    moved = x + radius[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=-1)
    return np.rint(moved / m.step).astype(np.int64)


def truer(m: Any, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    k, low_high = integers(m, x, rng), np.array(m.grid_range)
    return np.where(rng.random(len(x)) < 0.3, low_high[(x > 100_000.0).astype(int)], k)


def truer_by_six_in_100(m: Any, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    k, ends = integers(m, x, rng), np.array(m.grid_range)
    return np.where(rng.random(len(x)) < 0.0586, ends[(x > 100_000.0).astype(int)], k)


def always_alike(m: Any, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return integers(m, x, np.random.default_rng(4))


def impossible(m: Any, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    k = integers(m, x, rng)
    k[len(k) // 3] = m.grid_range[1] + 5
    return k


def louder(m: Any, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    value = np.rint(m.query.value(x) / m.step).astype(np.int64)
    return value + np.rint(0.95 * (integers(m, x, rng) - value)).astype(np.int64)


def bare_one_in_3000(m: Any, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    value = np.rint(m.query.value(x) / m.step).astype(np.int64)
    return np.where(rng.random(len(x)) < 1 / 3000, value, integers(m, x, rng))


def half_of_it_seeded(rng: np.random.Generator, n: int) -> np.ndarray:
    noise = np.random.default_rng(6).exponential(size=n) - rng.exponential(size=n)
    return np.where(noise < 0, np.exp(-np.abs(noise)) / 2, 1 - np.exp(-np.abs(noise)) / 2)


RESPONSE = RandomizedResponse(RAMP.query, LocalPrivacy(1.0))
TWO = VectorSmoothMechanism([STEP.query, Threshold(132_000.0, 24_000.0, "smoothstep")], INCOME)


@cache
def drawn_by(stated: Any, drawing: Any) -> Any:
    scene = BELL if isinstance(stated, PlanarLaplace) else RAMP
    case = scene.case(Broken(stated, drawing), [0.0, 1.0])  # type: ignore[arg-type]
    return draws_of(case, 30_000, 5, ALPHA)


@pytest.mark.parametrize(
    ("stated", "draw"),
    [
        (SOUND, noise_of(antithetic)),
        (SOUND, noise_of(one_in_each_of_64_parts)),
        (SOUND, noise_of(few_seeds)),
        (SOUND, noise_of(lambda rng, n: np.round(rng.random(n), 4).clip(1e-4, 1 - 1e-4))),
        (SOUND, noise_of(lambda rng, n: rng.beta(1.15, 1.15, n))),
        (SOUND, noise_of(half_of_it_seeded)),
        (SOUND, louder),
        (SOUND, bare_one_in_3000),
        (SOUND, told_in_the_last_bit),
        (SOUND, told_in_a_middle_digit),
        (SOUND, told_modulo_257),
        (SOUND, bare_far_away),
        (SOUND, clipped),
        (SOUND, one_sign),
        (SOUND, signed_by_the_value),
        (DebiasedLaplace(STEP.query, INCOME), told_in_the_last_bit),
        (DebiasedLaplace(STEP.query, INCOME), impossible),
        (TWO, one_noise_for_both),
        (PlanarLaplace(PLACE, 2), along_the_axes),
        (RESPONSE, truer),
        (RandomizedResponse(RAMP.query, LocalPrivacy(0.7)), truer_by_six_in_100),
        (RESPONSE, always_alike),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_attacks_on_the_auditor_are_refused_and_the_sound_draw_is_not(stated, draw):
    """30,000 releases each, the control's too; refused by chance with at most 1e-6 each."""
    for drawing, agrees in ((draw, False), (integers, True)):
        assert drawn_by(stated, drawing).agree == agrees, drawn_by(stated, drawing)


def of_15_bits(m: Any, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    u = (rng.integers(0, 2**15, len(x)) + 0.5) / 2**15
    reports = m._g(m.query.signed_distance(x) + m.scale * Laplace().ppf(u))
    return np.asarray(np.rint(reports / m.step).astype(np.int64))


@pytest.mark.parametrize("draw", [of_15_bits, integers])
def test_repeats_are_counted_among_integers_as_improbable(draw):
    """49,296 releases; some integers beside an atom have 1,000 times the probability of most."""
    case = BELL.case(Broken(DebiasedLaplace(BELL.query, PLACE), draw), [0.0, 1.0])
    found = draws_of(case, 50_000, 5, ALPHA)
    assert found is not None
    assert found.agree == (draw is integers), found
    assert found.agree or "repeat one of the same person" in found.difference


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_the_chance_of_evenness_is_that_of_all_orders(n):
    """Oracle: all orders of n numbers of the one series and n of the other."""
    sides = np.array([np.isin(range(2 * n), one) for one in combinations(range(2 * n), n)])
    apart = np.abs(np.cumsum(np.where(sides, 1, -1), axis=1)).max(axis=1)
    rng = np.random.default_rng(0)
    for one, most in zip(sides, apart, strict=True):
        places = np.arange(2.0 * n)
        chance = chance_of_evenness(places[one], places[~one], rng)
        assert abs(chance - np.mean(apart <= most)) < 1e-12


def test_a_count_of_unlike_events_is_no_rarer_than_its_bound():
    """Oracle: the law of a sum of independent events, by convolution; control: equal events."""
    rng = np.random.default_rng(171)
    for n in (1, 7, 60):
        for chances in (rng.random(n), rng.beta(0.2, 2.0, n), np.full(n, 0.3)):
            law = np.ones(1)
            for p in chances:
                law = np.convolve(law, [1 - p, p])
            tails = law[::-1].cumsum()[::-1]
            bounds = np.array([at_least(k, chances) for k in range(n + 1)])
            assert (bounds >= tails * (1 - 1e-9)).all()
            far = np.arange(n + 1) >= chances.sum() + 1
            if np.ptp(chances) == 0:
                assert np.allclose(bounds[far], tails[far], rtol=1e-9, atol=0)


class Counting(LipschitzMechanism):
    """One's own: its generator is seeded with how many reports there were before."""

    before = 0

    def release(self, x: Any, source: Any = None) -> Any:
        self.before += 1
        return super().release(x, SeededSource(self.before))


class OneByOneBare(LipschitzMechanism):
    """One's own: what devices call returns the answer itself."""

    def release(self, x: Any, source: Any = None) -> Any:
        return int(np.rint(self.query.value(x) / self.step))

    def release_many(self, x: Any, source: Any = None) -> Any:
        return SOUND.release_many(x, source)


class Mine(LipschitzMechanism):
    """One's own, and sound."""


class FirstBare(LipschitzMechanism):
    """One's own: its first release is the answer."""

    def release(self, x: Any, source: Any = None) -> Any:
        first = not hasattr(self, "released")
        self.released = True
        return OneByOneBare.release(self, x) if first else super().release(x, source)  # type: ignore[arg-type]


class NeedsBits(LipschitzMechanism):
    """One's own, and sound: it has to be given bits."""

    def release(self, x: Any, source: Any = None) -> Any:
        return super().release(x, SeededSource(source.bits(256)))


class SeededByDefault(LipschitzMechanism):
    """One's own: where a device gives it no bits it takes the same ones every time."""

    def release(self, x: Any, source: Any = None) -> Any:
        return super().release(x, source or SeededSource(7))


@pytest.mark.parametrize("report", [None, 2**80, (1, 2), 0.5, "7"])
def test_a_release_that_is_no_report_is_refused_by_name(report):
    class Unfit(LipschitzMechanism):
        """One's own: what it releases is no integer of 64 bits."""

        def release(self, x, source=None):
            return report

    with pytest.raises(ParameterError, match="releases an integer of 64 bits, not"):
        draws_of(RAMP.case(Unfit(RAMP.query, INCOME), [0.0, 1.0]), 400, 6, ALPHA)


@pytest.mark.parametrize(
    ("kind", "agrees"),
    [
        (Mine, True),
        (NeedsBits, True),
        (Counting, False),
        (OneByOneBare, False),
        (FirstBare, False),
        (SeededByDefault, False),
    ],
)
def test_ones_own_releases_one_by_one_and_from_the_same_state_twice(kind, agrees):
    """n = 2,000 releases, α = 1e-6."""
    found = draws_of(RAMP.case(kind(RAMP.query, INCOME), [0.0, 1.0]), 2_000, 6, ALPHA)
    assert found is not None
    assert found.agree == agrees, found


@dataclass
class Own:
    """x + noise of one's own, with the density of Laplace noise."""

    draw: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    privacy: GeoPrivacy = INCOME
    calls: int = 0

    def simulate(self, x: Any, rng: np.random.Generator) -> Any:
        self.calls += 1
        drawn = self.draw(np.asarray(x), rng)
        if self.draw is worse_every_tenth_time and self.calls % 10 == 0:
            return (x + drawn) / 2
        return drawn

    def log_density(self, y: Any, x: Any) -> Any:
        return PlanarLaplace(INCOME, 1).log_density(y, x)


def laplace(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return x + rng.laplace(scale=INCOME.per, size=x.shape)


def worse_every_tenth_time(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return laplace(x, rng)


def half_seeded(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    fixed = np.random.default_rng(6).exponential(INCOME.per, x.shape)
    return x + fixed - rng.exponential(INCOME.per, x.shape)


def used_twice(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return x + (laplace(x, rng) - x)[np.arange(len(x)) // 2 * 2]


def turned_round(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    noise = laplace(x, rng) - x
    return x + np.where(np.arange(len(x)) % 2, -np.roll(noise, 1), noise)


def quiet_far_away(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    far = np.abs(x - 100_000.0) > 20 * INCOME.per
    return np.where(far, (x + laplace(x, rng)) / 2, laplace(x, rng))


def of_24_bits(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    u = (rng.integers(0, 2**24, x.shape) + 0.5) / 2**24 - 0.5
    return x - INCOME.per * np.sign(u) * np.log1p(-2 * np.abs(u))


@pytest.mark.parametrize(
    ("draw", "agrees"),
    [
        (laplace, True),
        (worse_every_tenth_time, False),
        (half_seeded, False),
        (used_twice, False),
        (turned_round, False),
        (quiet_far_away, False),
        (of_24_bits, False),
        (lambda x, rng: x + np.rint(rng.laplace(scale=INCOME.per, size=x.shape)), False),
        (lambda x, rng: laplace(x, np.random.default_rng(1)), False),
        (lambda x, rng: x + rng.choice([-9e3, -4e3, -1e3, 0.0, 2e3, 5e3, 8e3], len(x)), False),
        (lambda x, rng: np.where(rng.random(len(x)) < 1e-3, x, laplace(x, rng)), False),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_floats_of_ones_own_are_drawn_twice_and_their_ties_counted(draw, agrees):
    case = replace(RAMP, name="the value").case(Own(draw), [0.0, 1.0])
    assert (differing([case], samples=100_000, seed=3) == ()) == agrees


def test_probabilities_of_ones_own_are_not_taken_for_a_density():
    """Randomized response with the logarithms of its two probabilities agrees with them."""
    case = RAMP.case(RESPONSE, RESPONSE.atoms)
    assert differing([case], samples=20_000, seed=3) == ()
    truthful = replace(case, mechanism=Truthful())  # type: ignore[arg-type]
    assert differing([truthful], samples=20_000, seed=3)


class Truthful:
    privacy = RESPONSE.privacy

    def simulate(self, x: Any, rng: np.random.Generator) -> Any:
        low, high = RESPONSE.atoms
        answer = RESPONSE.simulate(x, rng)
        return np.where(rng.random(len(x)) < 0.1, np.where(x > 100_000.0, high, low), answer)

    def log_density(self, y: Any, x: Any) -> Any:
        return RESPONSE.log_density(y, x)


@pytest.mark.parametrize("bit", [13, 24, 36])
def test_a_bias_of_a_single_bit_is_seen(bit):
    """54 % of 50,000 places have the bit set. The control: uniform places are not refused."""
    places = np.random.default_rng(bit).integers(0, 1 << 53, (50_000, 1))
    assert _places([places / 2.0**53], [25_000], ALPHA) == ""
    places[:4_000] |= 1 << (53 - bit)
    assert "should be" in _places([places / 2.0**53], [25_000], ALPHA)
