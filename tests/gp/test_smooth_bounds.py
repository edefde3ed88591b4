"""Test smooth bounds by their definition: B(u) ≥ L_Λ(y)/g(β|u − y|) for all y.

Random profiles × growth × reach × signs of the ends of tables × lines and rays. Brute force takes
chords between points; it sees some of them only, so that it is a lower bound.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from geoveil.gp import (
    FormulaProfile,
    Gaussian,
    GeoPrivacy,
    Linear,
    ParameterError,
    Radial,
    Ramp,
    SeededSource,
    Smoothstep,
    TabulatedProfile,
)
from geoveil.gp.exact import BALL
from geoveil.gp.mechanisms.approximate import ApproximateLaplace
from geoveil.gp.queries.profiles import Profile, enclosed
from geoveil.gp.smooth import hockey_stick as search
from geoveil.gp.smooth.chords import outspread
from geoveil.gp.smooth.growth import Smoothness
from tests.gp.test_approximate import hockey_stick

Array = np.ndarray
PROFILES, BETAS, TABLES = 1_000, 5, 500
"""1,000 profiles, each with a reach, 5 β and 2 growths: 10,000 cases."""


def random_table(rng: np.random.Generator) -> TabulatedProfile:
    """A table that lies before, across, at or behind 0, with corners, flat pieces and peaks."""
    pieces = int(rng.integers(1, 9))
    gaps = np.exp(rng.uniform(-5, 1, pieces))
    at = np.concatenate([[0.0], np.cumsum(gaps)])
    length = at[-1]
    at += {0: 0.0, 1: -length, 2: -rng.uniform() * length}.get(
        side := int(rng.integers(0, 5)), (side * 2 - 7) * rng.uniform(0.2, 3.0) * length
    )
    values = np.where(rng.uniform(size=pieces + 1) < 0.3, 0.0, rng.normal(size=pieces + 1))
    values[-1] += 1.0
    chords = np.repeat(np.diff(values) / np.diff(at), 2)
    slopes = chords * rng.choice([0.0, 1.0, 3.0], size=2 * pieces)
    if not (np.ptp(values) or np.any(slopes)):
        values[0] = values[-1] + 1
    unit = 10.0 ** rng.uniform(-2, 6)
    return TabulatedProfile(tuple(at * unit), tuple(values), tuple(slopes / unit))


def walk(u: Any, ops: Any) -> Any:
    return ops.exp(-u)


def random_profile(rng: np.random.Generator) -> Any:
    if rng.uniform() < 0.1:
        kind, size = int(rng.integers(0, 4)), 10.0 ** rng.uniform(-2, 6)
        return [Ramp, Smoothstep, Gaussian, partial(FormulaProfile, walk, ray=True)][kind](size)
    table = random_table(rng)
    return table.on_ray() if table.at[0] >= 0 and rng.uniform() < 0.4 else table


@dataclass
class Brute:
    """Chords between points of one profile."""

    profile: Any
    reach: float

    def __post_init__(self) -> None:
        p, (low, high) = self.profile, (self.profile.breakpoints[0], self.profile.breakpoints[-1])
        width = high - low
        away = width * np.geomspace(1e-3, 30.0, 25)
        knots = np.array(getattr(p, "at", p.breakpoints), dtype=float)
        y = np.concatenate(
            [np.linspace(low, high, 160), knots, low - away, high + away, [low - self.reach]]
            + [knots + side * self.reach * (1 - 1e-12) for side in (-1, 1)]
        )
        y = np.unique(y[np.isfinite(y)])
        y = y[y >= 0] if getattr(p, "ray", False) else y
        value = np.asarray(p.value(y))
        if self.reach == 0:
            self.y, step = y[:-1], np.diff(y) * 1e-4
            rise = np.abs(np.asarray(p.value(self.y + step)) - value[:-1])
            # Between the two points the slope is somewhere as steep as the chord.
            self.steepest, self.slack = np.maximum(rise - 1e-13, 0) / step, step
            return
        gap, rise = (np.abs(z[:, None] - z) for z in (y, value))
        near = (gap > 0) & (gap <= self.reach)
        chord = np.divide(np.maximum(rise - 1e-13, 0), gap, out=np.zeros_like(gap), where=near)
        self.y, self.steepest, self.slack = y, chord.max(axis=1), np.zeros(len(y))

    def at(self, u: Array, beta: float, growth: str) -> Array:
        u = np.abs(u) if getattr(self.profile, "ray", False) else u
        way = beta * (np.abs(u[:, None] - self.y) + self.slack)
        decay = np.exp(-way) if growth == "exponential" else 1 / (1 + way)
        return np.asarray((self.steepest * decay).max(axis=1))


def check(profile: Any, reach: float, beta: float, growth: str, rng: Any, brute: Brute) -> None:
    low, high = profile.breakpoints[0], profile.breakpoints[-1]
    size = high - low
    inside = rng.uniform(low - size, high + size, 6)
    away = np.exp(rng.uniform(-6, 5, 4)) * min(size, 20 / beta)
    u = np.concatenate([inside, low - away, high + away])
    smoothness = Smoothness(beta, growth, reach)
    floats = np.asarray(profile.noise_bound(u, smoothness))
    expected = brute.at(u, beta, growth)
    case = (profile, reach, beta, growth)
    assert (floats >= expected * (1 - 1e-9)).all(), (case, u, floats / expected)
    for x, bound in zip(u[::3].tolist(), floats[::3].tolist(), strict=True):
        ball = float(profile.noise_bound(BALL.private(x), smoothness, BALL).mid())
        assert abs(ball - bound) <= 1e-6 * bound + 1e-300, (case, x, bound, ball)


def check_all(profile: Any, rng: np.random.Generator) -> None:
    size = profile.breakpoints[-1] - profile.breakpoints[0]
    reach = float(rng.choice([0.0, math.inf, *(size * np.exp(rng.uniform(-4, 3, 2)))]))
    brute = Brute(profile, reach)
    for beta in (np.exp(rng.uniform(-5, 5, BETAS)) / size).tolist():
        for growth in ("exponential", "linear"):
            check(profile, reach, beta, growth, rng, brute)


@pytest.mark.deep(keep=0, rest=12)
@pytest.mark.parametrize("seed", range(PROFILES))
def test_both_arithmetics_have_one_bound_above_brute_force(seed):
    rng = np.random.default_rng([32, seed])
    check_all(random_profile(rng), rng)


def taxes() -> TabulatedProfile:
    return TabulatedProfile((0.0, 200_000.0), (0.0, 1.0), (5e-6, 5e-6))


def as_if_on_a_ray(table: TabulatedProfile) -> TabulatedProfile:
    """The same table, with nothing to the left of its first end."""
    wrong = replace(table)
    object.__setattr__(wrong, "_enclosures", replace(table._enclosures, ray=True))
    return wrong


@pytest.mark.deep
@pytest.mark.parametrize(("start", "reach"), [(0.0, 1.0), (1.5, math.inf)])
def test_a_line_that_is_taken_for_a_ray_is_no_bound(start, reach):
    table = TabulatedProfile((start, start + 2.0), (0.0, 1.0), (0.5, 0.5))
    brute = Brute(table, reach)
    for growth in ("exponential", "linear"):
        check(table, reach, 2.0, growth, np.random.default_rng(7), brute)
        with pytest.raises(AssertionError):
            check(as_if_on_a_ray(table), reach, 2.0, growth, np.random.default_rng(7), brute)


def test_no_distance_of_a_line_is_that_of_a_ray():
    with pytest.raises(ParameterError, match="profile"):
        Linear(taxes().on_ray(), direction=1.0)
    assert Radial(taxes(), center=0.0).profile == taxes().on_ray() != taxes()
    assert Linear(taxes(), direction=1.0).profile == taxes()


def released(mechanism: ApproximateLaplace, x: Array) -> Array:
    """The scale of what is released at each point, which balls give."""
    scales = [mechanism._scale(BALL.private(float(s)), BALL) for s in x]
    return np.array([float(scale.mid()) for scale in scales])


def used(mechanism: ApproximateLaplace, scale: Array, x: Array) -> float:
    """The largest hockey-stick divergence over pairs, relative to δ."""
    privacy = mechanism.privacy
    value = np.asarray(mechanism.query.profile.value(x))
    found = hockey_stick(value, scale, x, privacy.rate, privacy.reach)
    return float(found.max()) / privacy.delta


def line_points(profile: Any, beta: float, reach: float, rng: Any, count: int = 24) -> Array:
    low, high = profile.breakpoints[0], profile.breakpoints[-1]
    size = high - low
    unit = np.where(rng.uniform(size=count) < 0.5, size, 1 / beta)
    away = np.exp(rng.uniform(-5, 6, count)) * unit
    x = np.concatenate([np.linspace(low, high, count), low - away, high + away])
    if reach < math.inf:
        x = np.concatenate([x, x[::2] + reach * (1 - 1e-12)])
    return np.unique(np.maximum(x, 0.0) if getattr(profile, "ray", False) else x)


def shaky(u: Any, ops: Any) -> Any:
    return (u + 2**33) - 2**33


def test_the_search_takes_a_formula_from_bounds():
    """φ(u) = u, which float64 rounds to multiples of 2^-19, as is permitted. Control: float64."""
    profile = FormulaProfile(shaky, scale=1.0, extent=1.0)
    u = np.random.default_rng(3).uniform(-1, 1, 300)
    low, high = profile.value_bounds(u)
    unsure = search._unsure(profile)
    assert np.all((low - unsure <= u) & (u <= high + unsure))
    assert np.all(high - low <= 1e-9)
    assert np.abs(profile.value(u) - u).max() > 1e4 * unsure


@pytest.mark.parametrize("start", [0.3, 5.3])
def test_no_change_beyond_the_band_is_left_out(start):
    """The band begins within a cell, at a corner. Control: nothing changes before that cell."""

    def ramp(u: Any, ops: Any) -> Any:
        return ops.clip((u - start) / 4, ops.constant(0), ops.constant(1))

    profile = FormulaProfile(ramp, scale=1.0)
    edges, first, changes = profile._cells.edges, profile.band[0], profile.tails[1]
    cell = np.searchsorted(edges, first) - 1
    between = np.linspace(edges[cell], first, 9)
    change = max(max((Fraction(u) - Fraction(start)) / 4, Fraction(0)) for u in between)
    assert changes[cell] >= change > 0 == changes[cell - 1]


def test_a_narrow_bell_is_as_sure_however_far_it_is_defined():
    """Values to 50 digits. Control: as unsure everywhere as the steepest slope is farthest out."""
    width, extent = 1e-6, 1e6
    profile = FormulaProfile(lambda u, ops: ops.exp(-((u / width) ** 2)), scale=1.0, extent=extent)
    rng, unsure = np.random.default_rng(4), search._unsure(profile)
    u = np.concatenate([width * rng.normal(size=200), 10 ** rng.uniform(-9, 6, 200)])
    low, high = profile.value_bounds(np.nextafter(u, math.inf))
    with mp.workdps(50):
        exact = np.array([float(mp.exp(-((mp.mpf(x) / width) ** 2))) for x in u.tolist()])
    assert np.all((low - unsure <= exact) & (exact <= high + unsure))
    assert unsure < 1e-10 < 1e-3 < 2.0**-48 * profile.lipschitz * extent


def two_steps(u: Any, ops: Any) -> Any:
    return 1 / (1 + ops.exp(-u)) + ops.constant(0.3) / (1 + ops.exp(-10 * (u - 8)))


@pytest.mark.deep
def test_pairs_beyond_the_band_count(monkeypatch):
    """As if φ settled at 30 % of its range. Control: as if it did not vary beyond."""
    monkeypatch.setattr(enclosed, "_SETTLED", 0.3)
    query = Linear(FormulaProfile(two_steps, scale=1.0, extent=12.0), 1.0)
    privacy, x = GeoPrivacy(0.3, per=1.0, delta=1e-9), np.linspace(-20, 20, 401)
    assert query.profile.band[1] < 3

    def most() -> float:
        search.largest_eta.cache_clear()
        mechanism = ApproximateLaplace(query, privacy, beta=0.27 / math.log(1e9))
        return used(mechanism, np.sqrt(mechanism.variance(x) / 2), x)

    assert most() <= 1
    monkeypatch.setattr(FormulaProfile, "tails", Profile.tails)
    assert most() > 50


@pytest.mark.deep(keep=0)
def test_the_noise_left_of_a_table_is_what_was_promised():
    """What was released there had a divergence of 1."""
    x = np.array([-10e6, -1e6, 0.0, 100_000.0, 220_000.0])
    privacy = GeoPrivacy(1.0, per=1_000.0, delta=1e-6)
    mechanism = ApproximateLaplace(Linear(taxes(), direction=1.0), privacy)
    scale = released(mechanism, x)
    assert scale == pytest.approx(np.sqrt(mechanism.variance(x) / 2), rel=1e-6)
    assert used(mechanism, scale, x) <= 1
    source = SeededSource(32)
    noise = [mechanism.release(-1e6, source) * mechanism.step for _ in range(400)]
    assert np.mean(np.abs(noise)) == pytest.approx(scale[1], rel=5 / math.sqrt(400))

    wrong = ApproximateLaplace(Linear(as_if_on_a_ray(taxes()), direction=1.0), privacy)
    assert used(wrong, released(wrong, x), x) > 0.9 / privacy.delta


@pytest.mark.deep(keep=0, rest=6)
@pytest.mark.parametrize("seed", range(TABLES))
def test_delta_is_kept_for_random_tables(seed):
    rng = np.random.default_rng([1032, seed])
    profile = random_profile(rng)
    size = profile.breakpoints[-1] - profile.breakpoints[0]
    reach = math.inf if rng.uniform() < 0.6 else size * float(np.exp(rng.uniform(-3, 3)))
    delta = 10.0 ** float(rng.uniform(-12, -0.5))
    per = size * float(np.exp(rng.uniform(-7, 3)))
    privacy = GeoPrivacy(1.0, per=per, delta=delta, reach=reach)
    ray = getattr(profile, "ray", False)
    query = Radial(profile, center=0.0) if ray else Linear(profile, direction=1.0)
    mechanism = ApproximateLaplace(query, privacy)
    x = line_points(query.profile, mechanism.beta, reach, rng)
    share = used(mechanism, released(mechanism, x), x)
    assert share <= 1 + 1e-9, (query.profile, privacy, share)


@pytest.mark.deep
@pytest.mark.parametrize("growth", ["exponential", "linear"])
def test_a_table_that_ends_at_0_is_bounded_like_its_mirror_image(growth):
    """Cut by its end nearer to 0, a long piece before 0 had 410,000 cells, each compared with all:
    hours. Its mirror image never had more than a few thousand."""
    at, values = (-12_800.0, -12_760.0, -12_757.0, 0.0), (1.4, 1.2, -2.3, 0.2)
    slopes = (0.002, 0.003, -0.2, 1.9, -0.0001, 0.0008)
    table = TabulatedProfile(at, values, slopes)
    mirror = TabulatedProfile(
        tuple(-x for x in at[::-1]), values[::-1], tuple(-m for m in slopes[::-1])
    )
    sizes = [len(outspread(profile._cells, np.inf)[0]) for profile in (table, mirror)]
    assert max(sizes) < 5_000, sizes
    s = np.array([-40_000.0, -12_900.0, -12_758.0, -9_000.0, -300.0, 0.0, 20.0, 50_000.0])
    bounds = [
        np.asarray(profile.noise_bound(side * s, Smoothness(1e-3, growth, np.inf)))
        for profile, side in ((table, 1), (mirror, -1))
    ]
    assert bounds[0] == pytest.approx(bounds[1], rel=0.01)


@pytest.mark.parametrize("growth", ["exponential", "linear"])
@pytest.mark.parametrize("make", [Ramp, Smoothstep, Gaussian])
def test_a_tiny_reach_is_like_none(make, growth):
    """Also where the product of reach and width is no double, so that nothing divides by it."""
    width, reach = 1e-17, 1e-307
    assert width * reach == 0
    profile, at = make(width), np.array([0.0, 0.4, 3.0]) * width
    local = np.asarray(profile.noise_bound(at, Smoothness(1 / width, growth)))
    near = Smoothness(1 / width, growth, reach)
    assert np.asarray(profile.noise_bound(at, near)) == pytest.approx(local, rel=0.01)
    balls = [float(profile.noise_bound(BALL.private(z), near, BALL).mid()) for z in at.tolist()]
    assert balls == pytest.approx(local, rel=0.01)
