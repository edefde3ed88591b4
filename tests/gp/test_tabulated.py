"""Test that tables are certified from their numbers alone, whoever wrote them."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from flint import fmpq

from geoveil.gp import (
    DebiasedLaplace,
    FormulaProfile,
    Gaussian,
    GeoPrivacy,
    Linear,
    LipschitzMechanism,
    ParameterError,
    Radial,
    Ramp,
    SeededSource,
    SmoothMechanism,
    Smoothstep,
    TabulatedProfile,
    Threshold,
    UnsupportedError,
)
from geoveil.gp.arithmetic import FLOAT
from geoveil.gp.exact import BALL
from geoveil.gp.smooth import chords
from geoveil.gp.smooth.growth import Smoothness

UNIT = GeoPrivacy(1.0, per=1.0)
PROFILES: dict[str, Callable[[], Any]] = {
    "walk": lambda: formula("walk").on_ray(),
    "bump": lambda: formula("bump"),
    "tent": lambda: formula("tent"),
    "capped": lambda: formula("capped"),
    "ramp": lambda: Ramp(5.0),
    "smoothstep": lambda: Smoothstep(7.0),
    "bell": lambda: Gaussian(3.0),
}


@cache
def formula(name: str) -> FormulaProfile:
    if name == "walk":
        return FormulaProfile(lambda u, ops: ops.exp(-u), scale=1.5)
    if name == "bump":
        return FormulaProfile(lambda u, ops: ops.exp(-u * u) * (1 + u / 2), scale=1.5, extent=5.0)
    if name == "tent":
        return FormulaProfile(
            lambda u, ops: ops.maximum(1 - ops.absolute(u), ops.constant(0)), scale=3.0
        )
    return FormulaProfile(lambda u, ops: u, scale=2.0, extent=1.0)


def wild(seed: int, pieces: int = 12, first: float = -250.0) -> TabulatedProfile:
    """A table that nobody fitted to anything: turns, corners, a flat piece, far from 0."""
    rng = np.random.default_rng(seed)
    at = first + np.cumsum(rng.uniform(0.4, 3.0, pieces + 1))
    values, slopes = rng.normal(size=pieces + 1), 3 * rng.normal(size=(pieces, 2))
    values[5], slopes[4] = values[4], 0.0
    slopes[6, 1] = slopes[7, 0]
    return TabulatedProfile(tuple(at), tuple(values), tuple(slopes.ravel()))


def exactly(table: TabulatedProfile, s: float) -> tuple[Fraction, Fraction, Fraction]:
    """The cubic on its piece, from its four conditions solved in fractions: φ, φ', φ''."""
    i = min(max(int(np.searchsorted(table.at, s, side="right")) - 1, 0), len(table.at) - 2)
    a, b, ya, yb = map(Fraction, (*table.at[i : i + 2], *table.values[i : i + 2]))
    ma, mb = map(Fraction, table.slopes[2 * i : 2 * i + 2])
    h, d = b - a, Fraction(s) - a
    # y = ya + ma d + p d² + q d³ with y(h) = yb, y'(h) = mb
    q = (mb * h + ma * h - 2 * (yb - ya)) / h**3
    p = (yb - ya - ma * h - q * h**3) / h**2
    return ya + d * (ma + d * (p + d * q)), ma + d * (2 * p + 3 * q * d), 2 * p + 6 * q * d


@pytest.mark.parametrize("seed", range(3))
def test_enclosures_hold_for_every_number_in_them(seed):
    table = wild(seed)
    cells, scale = table._cells, table.scale
    tightest = 0.0
    for j in range(0, len(cells.edges) - 1, 61):
        for share in (0.0, 0.31, 0.5, 0.9, 1.0):
            u = float(cells.edges[j] + share * (cells.edges[j + 1] - cells.edges[j]))
            u = min(max(u, float(cells.edges[j])), float(np.nextafter(cells.edges[j + 1], -1e9)))
            for found, bounds, power in zip(
                exactly(table, u * scale), (cells.value, cells.slope, cells.curvature),
                range(3), strict=True,
            ):  # fmt: skip
                assert bounds[0][j] <= found * Fraction(scale) ** power <= bounds[1][j]
            tightest = max(tightest, abs(float(exactly(table, u * scale)[1])))
    s = np.linspace(table.at[0], table.at[-1], 100_001)
    seen = np.abs(table.value(s + 1e-6) - table.value(s - 1e-6)).max() / 2e-6
    assert tightest <= table.lipschitz <= 1.01 * seen


def test_a_cell_holds_the_slope_however_its_edges_are_rounded():
    """A piece of 2^-30, 1,000 lengths from 0. Control: the hull from the slope half way."""
    at = (1000.0, 1000 + 1.0625 * 2.0**-30, 1001.0)
    table = TabulatedProfile(at, (0.0, 0.0, 0.0), (19.0, 11.0, 0.0, 0.0))
    # With t from 0 to 1 its slope is 19 − 98t + 90t², least at t = 49/90.
    least = (19 - Fraction(98**2, 360)) * Fraction(table.scale)
    cells = table._cells
    turn = (at[0] + (at[1] - at[0]) * 49 / 90) / table.scale
    i = int(np.searchsorted(cells.edges, turn)) - 1
    start, end = cells.edges[i : i + 2]
    first, half_way, last = table._jet(np.array([start, (start + end) / 2, end]), FLOAT).slope
    assert cells.slope[0, i] <= least
    assert min(first, 2 * half_way - (first + last) / 2, last) > least


@pytest.mark.parametrize("ray", [False, True])
def test_a_table_does_not_add_slopes_of_corners_that_coincide(ray):
    """Two ramps that touch, and a corner at a centre. Control: the formula's own bound does."""

    def ramps(u: Any, ops: Any) -> Any:
        top = ops.constant(1)
        if ray:
            return ops.minimum(ops.maximum(u, -3 * u), top)
        return ops.clip(u, ops.constant(0), top) + ops.clip(u - 1, ops.constant(0), top)

    profile = FormulaProfile(ramps, scale=5.0, extent=3.0, ray=ray)
    assert TabulatedProfile.of(profile, ray=ray).lipschitz == pytest.approx(0.2, rel=1e-6)
    assert profile.lipschitz > 0.39


@pytest.mark.parametrize("away", [0.0, 1e12, -1e12])
def test_values_far_from_0_make_no_slope_steeper(away):
    table = TabulatedProfile((0.0, 1.0, 2.0), (away, away + 1, away + 3), (0.0,) * 4)
    assert table.lipschitz == pytest.approx(3.0, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_floats_and_balls_are_the_cubic(seed):
    table = wild(seed)
    s = np.random.default_rng(seed).uniform(table.at[0], table.at[-1], 12)
    for x in (*s.tolist(), *table.at[1:-1]):
        value, _, curvature = exactly(table, x)
        assert float(table.value(np.asarray(x))) == pytest.approx(float(value), abs=1e-11)
        ball = table.value(BALL.private(x), BALL)
        assert ball.contains(fmpq(value.numerator, value.denominator))
        if x not in table.at:
            ball = table._jet(BALL.private(x) / BALL.constant(table.scale), BALL).curvature
            scaled = curvature * Fraction(table.scale) ** 2
            assert ball.contains(fmpq(scaled.numerator, scaled.denominator))
    outside = (table.at[0] - 5, table.at[-1] + 5)
    assert [float(table.value(np.asarray(x))) for x in outside] == [
        table.values[0], table.values[-1],
    ]  # fmt: skip


@pytest.mark.deep(keep=2)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("reach", [0.0, 4.0])
@pytest.mark.parametrize("growth", ["exponential", "linear"])
def test_the_smooth_bound_is_one_and_hardly_more(seed, reach, growth):
    table, beta = wild(seed, first=-8.0), 0.3
    y = np.linspace(table.at[0], table.at[-1], 20_001 if reach == 0 else 3_001)
    if reach == 0:
        steepest = np.abs(table.value(y + 1e-6) - table.value(y - 1e-6)) / 2e-6 * 0.999
    else:
        gap, rise = (np.abs(z[:, None] - z) for z in (y, table.value(y)))
        chord = np.divide(rise, gap, out=np.zeros_like(gap), where=(gap > 0) & (gap <= reach))
        steepest = chord.max(axis=1)
    s = np.linspace(table.at[0] - 4, table.at[-1] + 4, 101)
    bound = table.smooth_bound(s, Smoothness(beta, growth, reach))
    away = beta * np.abs(s[:, None] - y)
    brute = (steepest * (np.exp(-away) if growth == "exponential" else 1 / (1 + away))).max(axis=1)
    assert (bound >= brute * (1 - 1e-9)).all()
    # The brute force sees chords between some points only, and misses the steepest.
    assert (bound <= brute * (1.02 if reach == 0 else 1.15)).all()


@pytest.mark.parametrize("growth", ["exponential", "linear"])
@pytest.mark.parametrize("away", [900.0, -900.0])
def test_a_table_far_from_0_has_no_looser_bound(away, growth, monkeypatch):
    """A steep piece of a long table. Control: pieces that are cut as little as those far out."""
    at, s = np.array([0.0, 0.25, 0.2578125, 8.0]), np.linspace(-1.0, 9.0, 101)

    def bound(move: float) -> np.ndarray:
        table = TabulatedProfile(tuple(at + move), (0.0, 0.0, 1.0, 0.0), (0.0,) * 6)
        return np.asarray(table.smooth_bound(s + move, Smoothness(4.0, growth, 2.0)))

    near = bound(0.0)
    assert (bound(away) <= 1.1 * near).all()
    monkeypatch.setattr(chords, "_LONGEST", 1e4)
    assert (bound(away) > 2 * near).any()


@pytest.mark.parametrize("growth", ["exponential", "linear"])
@pytest.mark.parametrize("reach", [1.0, math.inf])
def test_a_table_far_from_the_centre_is_bounded_as_on_a_line(reach, growth, monkeypatch):
    """Where it is constant from 0 to the band. Control: one cell from 0 to the band is looser."""
    s = np.linspace(890.0, 905.0, 101)

    def bound(query: Callable[[Any], Any]) -> np.ndarray:
        table = TabulatedProfile((900.0, 901.0), (0.0, 1.0), (1.0, 1.0))
        return np.asarray(query(table).smooth_bound(s, 4.0, growth=growth, reach=reach))

    line = bound(lambda table: Linear(table, 1.0))
    assert bound(lambda table: Radial(table, 0.0)) == pytest.approx(line, rel=1e-3, abs=1e-300)
    outwards = chords._outwards
    monkeypatch.setattr(
        chords, "_outwards", lambda n, r: np.array([r]) if r == 900 else outwards(n, r)
    )
    assert (bound(lambda table: Radial(table, 0.0)) > 2 * line).any()


@pytest.mark.deep(keep=3)
@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("tolerance", [1e-2, 1e-5])
def test_a_table_is_as_close_as_it_says(name, tolerance):
    profile = PROFILES[name]()
    table = TabulatedProfile.of(profile, tolerance)
    s = profile.length_scale * np.linspace(-40, 40, 400_001)
    low, high = profile.bounds
    assert np.abs(table.value(s) - profile.value(s)).max() <= tolerance * (high - low)
    assert table.lipschitz == pytest.approx(profile.lipschitz, rel=0.02)
    assert len(table.at) <= 100


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("name", PROFILES)
def test_a_table_has_corners_where_the_profile_has(name):
    profile = PROFILES[name]()

    def refused(p: Any) -> bool:
        try:
            p.debiased_range(1.0)
        except UnsupportedError:
            return True
        return False

    assert refused(TabulatedProfile.of(profile)) == refused(profile)


@pytest.mark.parametrize(("center", "ray"), [(0.3, True), (-2.1, False), (5.3, False), (5.3, True)])
def test_a_table_begins_at_a_corner_wherever_it_is(center, ray):
    """Steep beside its distance from 0. A piece of 1e-9 before it was refused."""

    def tent(u: Any, ops: Any) -> Any:
        return ops.maximum(1 - ops.absolute(u - center) / 0.21, ops.constant(0))

    table = TabulatedProfile.of(FormulaProfile(tent, scale=9.0), ray=ray)
    corners = 9.0 * np.array([0.0] * ray + [center - 0.21, center, center + 0.21])
    assert table.at == pytest.approx(corners, abs=1e-8)
    s = np.linspace(0.0 if ray else -60.0, 60.0, 9_999)
    assert table.value(s) == pytest.approx(np.interp(s, corners[-3:], [0, 1, 0]), abs=1e-6)


@pytest.mark.parametrize("start", [0.0, 5.0])
def test_a_corner_at_0_is_one_but_on_a_ray(start):
    """Debiased, the first table would be off by 2 where it is 0."""
    table = ((start, start + 10.0), (0.0, 1.0), (0.5, 0.0))
    with pytest.raises(UnsupportedError, match=f"jumps at {start:g}"):
        TabulatedProfile(*table).debiased_range(1.0)
    if start == 0:
        TabulatedProfile(*table, ray=True).debiased_range(1.0)


def test_a_cubic_step_is_its_own_table():
    step, query = Smoothstep(7.0), Threshold(0.0, 7.0, "smoothstep")
    table = TabulatedProfile.of(step)
    assert len(table.at) == 2
    own = DebiasedLaplace(Linear(table, direction=1.0), UNIT)
    known = DebiasedLaplace(query, UNIT)
    x, y = np.linspace(-6, 6, 25), np.linspace(-0.1, 1.1, 31)[:, None]
    assert own.variance(x) == pytest.approx(known.variance(x), rel=1e-9)
    assert own.log_density(y, x) == pytest.approx(known.log_density(y, x), abs=1e-6)
    assert own.range == pytest.approx(known.range, rel=1e-4)


@pytest.mark.parametrize("kind", [DebiasedLaplace, LipschitzMechanism, SmoothMechanism])
def test_a_formula_and_its_table_have_the_same_reports(kind):
    near = Radial(formula("walk"), center=(0.0, 0.0))
    own, tabulated = kind(near, UNIT), kind(near.tabulated(), UNIT)
    x = np.random.default_rng(4).normal(size=(50, 2), scale=3.0)
    assert tabulated.variance(x) == pytest.approx(own.variance(x), rel=1e-3)


def test_a_table_of_a_distance_begins_at_the_centre():
    table = TabulatedProfile((1.0, 2.0), (1.0, 0.0), (-1.0, -1.0))
    query = Radial(table, center=(0.0, 0.0))
    assert query.profile.at == (0.0, 1.0, 2.0)
    assert query.value([[0.5, 0.0], [0.0, 1.5], [9.0, 9.0]]).tolist() == [1.0, 0.5, 0.0]
    through = TabulatedProfile((-3.0, 0.0, 2.0), (0.0, 1.0, 0.0), (0.0, 0.5, -0.5, -0.5))
    assert through.on_ray().at == (0.0, 2.0)
    most = TabulatedProfile(
        tuple(map(float, range(1, 258))), (0.0, 1.0) * 128 + (0.0,), (0.0,) * 512
    )
    with pytest.raises(ParameterError, match="number of at"):
        most.on_ray()
    with pytest.raises(ParameterError, match="never negative"):
        TabulatedProfile((-3.0, 2.0), (0.0, 1.0), (0.0, 0.0)).on_ray()


HOSTILE = {
    "no numbers": {"at": (), "values": (), "slopes": ()},
    "one number": {"at": (0.0,), "values": (0.0,), "slopes": ()},
    "a value too few": {"values": (0.0, 1.0)},
    "a slope too few": {"slopes": (0.0, 1.0, 1.0)},
    "NaN": {"values": (0.0, math.nan, 1.0)},
    "an infinite slope": {"slopes": (0.0, math.inf, 1.0, 0.0)},
    "text": {"values": "abc"},
    "falling": {"at": (0.0, 2.0, 1.0)},
    "twice the same": {"at": (0.0, 1.0, 1.0)},
    "too close": {"at": (0.0, 1e-12, 1.0)},
    "too far out": {"at": (1e9, 1e9 + 1, 1e9 + 2)},
    "an overflow": {"at": (-1.7e308, 0.0, 1.7e308)},
    "huge values": {"values": (0.0, 1e60, 0.0)},
    "a cliff": {"at": (0.0, 1e-40, 2e-40), "values": (0.0, 1e40, 0.0)},
    "constant": {"values": (1.0, 1.0, 1.0), "slopes": (0.0, 0.0, 0.0, 0.0)},
    "too many": {
        "at": tuple(map(float, range(258))),
        "values": (0.0, 1.0) * 129,
        "slopes": (0.0,) * 514,
    },
}


@pytest.mark.parametrize("changes", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_table_is_refused(changes):
    sound = {"at": (0.0, 1.0, 2.0), "values": (0.0, 1.0, 0.5), "slopes": (0.0, 1.0, 1.0, 0.0)}
    TabulatedProfile(**sound)
    with pytest.raises(ParameterError):
        TabulatedProfile(**(sound | changes))


def test_what_an_overshoot_hides_is_found():
    """Between knots the cubic is 50 times as steep as its chords and its slopes at the ends say."""
    table = TabulatedProfile((0.0, 1.0, 2.0), (0.0, 0.0, 1.0), (100.0, 100.0, 1.0, 0.0))
    s = np.linspace(0, 2, 200_001)
    steepest = np.abs(np.gradient(table.value(s), s)).max()
    assert steepest > 49
    assert steepest <= table.lipschitz * (1 + 1e-6)
    low, high = table.bounds
    assert low <= table.value(s).min() < -9
    assert high >= table.value(s).max() > 9


@pytest.mark.parametrize("end", [0.0, math.sin(math.pi), 1e-12])
def test_values_that_hardly_differ_are_no_length(end):
    """A half-wave, whose other end a double puts at 10^-16, was refused: "varies over 2e-16".

    Control: a table that does vary over 10^-12 of `per`.
    """
    wave = TabulatedProfile((0.0, math.pi), (0.0, end), (1.0, -1.0))
    assert wave.length_scale == pytest.approx(math.pi / 4, rel=1e-9)
    even = SmoothMechanism(Linear(replace(wave, values=(0.0, 0.0)), 1.0), UNIT)
    x = np.linspace(-3.0, 6.0, 19)
    assert SmoothMechanism(Linear(wave, 1.0), UNIT).variance(x) == pytest.approx(
        even.variance(x), rel=1e-2
    )
    step = TabulatedProfile((0.0, 1e-12), (0.0, 1.0), (1e12, 1e12))
    with pytest.raises(ParameterError, match="varies over 1e-12"):
        SmoothMechanism(Linear(step, 1.0), UNIT)


def test_a_table_is_what_makes_it():
    table = wild(1)
    assert replace(table, ray=False) == table
    assert hash(replace(table)) == hash(table)
    assert repr(table).startswith("TabulatedProfile(12 pieces from ")


@pytest.mark.parametrize("seed", range(10))
def test_a_release_is_the_rounded_ideal_output(seed):
    """The table evaluated once more, in mpmath, for the very bits that the release draws."""
    table = TabulatedProfile.of(formula("bump"))
    x, mechanism = 0.7, DebiasedLaplace(Linear(table, direction=1.0), UNIT)
    with mp.workdps(60):
        numerator = SeededSource(seed).bits(128)
        u = (mp.mpf(numerator) + mp.mpf(1) / 2) / mp.mpf(2) ** 128
        noise = mp.log(2 * u) if u < 0.5 else -mp.log(2 * (1 - u))
        v = mp.mpf(x) + noise
        if not table.at[0] < v < table.at[-1]:
            ideal = mp.mpf(table.values[0 if v < 0 else -1])
        else:
            i = int(np.searchsorted(table.at, float(v))) - 1
            a, b, ya, yb = map(mp.mpf, (*table.at[i : i + 2], *table.values[i : i + 2]))
            ma, mb = map(mp.mpf, table.slopes[2 * i : 2 * i + 2])
            t, h = (v - a) / (b - a), b - a
            value = (
                (1 + 2 * t) * (1 - t) ** 2 * ya + t * (1 - t) ** 2 * h * ma
                + t**2 * (3 - 2 * t) * yb + t**2 * (t - 1) * h * mb
            )  # fmt: skip
            bend = (
                (12 * t - 6) * ya / h**2 + (6 * t - 4) * ma / h
                + (6 - 12 * t) * yb / h**2 + (6 * t - 2) * mb / h
            )  # fmt: skip
            ideal = value - bend
        assert abs(mechanism.release(x, SeededSource(seed)) - ideal / mechanism.step) <= 0.5 + 1e-9
