"""Test users' profiles: certified bounds, refusals, and both arithmetics.

The oracle of a bound is the definition by brute force in NumPy: the steepest chords between points
of a fine grid, and the supremum of them over another. Formulas are written twice, for the library
and for NumPy.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from flint import arb

from geoveil.gp import (
    DebiasedLaplace,
    FormulaProfile,
    Gaussian,
    GeoPrivacy,
    Linear,
    ParameterError,
    Radial,
    Ramp,
    SeededSource,
    SmoothMechanism,
    Smoothstep,
    UnsupportedError,
)
from geoveil.gp.exact import BALL, working_precision
from geoveil.gp.smooth import cells as smooth_cells
from geoveil.gp.smooth.growth import Smoothness
from geoveil.gp.smooth.tape import recorded

Array = np.ndarray


def bell(u: Any, ops: Any) -> Any:
    return ops.exp(-(u * u) / 2)


def epanechnikov(u: Any, ops: Any) -> Any:
    return ops.maximum(1 - u * u, 0)


def step(u: Any, ops: Any) -> Any:
    t = ops.clip(u + 0.5, 0, 1)
    return t * t * (3 - 2 * t)


def walk(u: Any, ops: Any) -> Any:
    return ops.exp(-u)


@dataclass(frozen=True)
class Case:
    """A formula, the same in NumPy, and where it varies."""

    formula: Callable[[Any, Any], Any]
    plain: Callable[[Array], Array]
    extent: float = 6.0
    ray: bool = False
    marks: tuple[tuple[float, float], ...] = ((0.0, 1.0),)
    """(centre, size) of what a grid must resolve."""

    def profile(self, scale: float = 1.0) -> FormulaProfile:
        return FormulaProfile(self.formula, scale, self.extent, self.ray)

    def value(self, u: Array) -> Array:
        low = 0.0 if self.ray else -self.extent
        return self.plain(np.clip(np.abs(u) if self.ray else u, low, self.extent))

    def grid(self) -> Array:
        parts = [np.linspace(-12, 12, 961), np.linspace(-30, 30, 121)]
        parts += [c + s * np.linspace(-7, 7, 351) for c, s in self.marks]
        u = np.unique(np.concatenate(parts))
        return u[u >= 0] if self.ray else u


def clipped(t: Array) -> Array:
    return t * t * (3 - 2 * t)


SPIKE = 1e-3
CASES: dict[str, Case] = {
    "gauss": Case(bell, lambda u: np.exp(-u * u / 2)),
    "cauchy": Case(lambda u, ops: 1 / (1 + u * u), lambda u: 1 / (1 + u * u)),
    "epanechnikov": Case(epanechnikov, lambda u: np.maximum(1 - u * u, 0)),
    "clipped line": Case(lambda u, ops: u, lambda u: u, extent=1.0),
    "walk": Case(walk, lambda u: np.exp(-u), extent=24.0, ray=True),
    "logistic": Case(lambda u, ops: 1 / (1 + ops.exp(-u)), lambda u: 1 / (1 + np.exp(-u))),
    "ripple": Case(
        lambda u, ops: ops.exp(-(u * u) / 2) * (1 - u * u),
        lambda u: np.exp(-u * u / 2) * (1 - u * u),
    ),
    "smoothstep": Case(step, lambda u: clipped(np.clip(u + 0.5, 0, 1)), marks=((0.0, 0.2),)),
    "spike": Case(
        lambda u, ops: ops.exp(-(((u - 3.1) / SPIKE) ** 2) / 2),
        lambda u: np.exp(-(((u - 3.1) / SPIKE) ** 2) / 2),
        marks=((3.1, SPIKE),),
    ),
    "spike beside a line": Case(
        lambda u, ops: ops.clip(u, -1, 1) + ops.exp(-(((u - 3.1) / SPIKE) ** 2) / 2) / 400,
        lambda u: np.clip(u, -1, 1) + np.exp(-(((u - 3.1) / SPIKE) ** 2) / 2) / 400,
        marks=((0.0, 1.0), (3.1, SPIKE)),
    ),
}
KINDS = [(name, "exponential") for name in CASES]
KINDS += [(name, "linear") for name in ("gauss", "clipped line", "walk", "spike beside a line")]
FAR = ("clipped line", "walk", "epanechnikov", "smoothstep", "spike", "spike beside a line")
"""Cases with few cells: chords of a finite length are tried on these."""


def reaches(name: str, growth: str) -> tuple[float, ...]:
    if name in ("cauchy", "logistic", "ripple"):
        return (0.0,)
    return (0.0, 2.0, math.inf) if name in FAR and growth == "exponential" else (0.0, math.inf)


GROWTHS: dict[str, Callable[[Array], Array]] = {"exponential": np.exp, "linear": lambda t: 1 + t}


def steepest_chords(case: Case, y: Array, reach: float) -> Array:
    """L_Λ at the points, Λ > 0: the steepest chord to another one within reach."""
    f = case.value(y)
    gap = np.abs(y[:, None] - y[None, :])
    near = (gap <= reach) & (gap > 1e-7)  # closer points would measure the rounding of f
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.abs(f[:, None] - f[None, :]) / gap
    return np.max(np.where(near, slope, 0.0), axis=1)


def brute_force(
    case: Case, x: Array, beta: float, growth: str, chords: Array | None = None
) -> Array:
    """The definition: sup over y of L_Λ(y)/g(β|x − y|)."""
    y = case.grid()
    with np.errstate(over="ignore"):
        decay = GROWTHS[growth](beta * np.abs(x[:, None] - y[None, :]))
    # Between two points the slope of their chord is attained: no farther away than the farther.
    gap = np.diff(y)
    slope = np.where(gap > 1e-7, np.abs(np.diff(case.value(y))) / gap, 0.0)
    best = np.max(slope / np.maximum(decay[:, 1:], decay[:, :-1]), axis=1)
    return best if chords is None else np.maximum(best, np.max(chords / decay, axis=1))


@pytest.mark.deep
@pytest.mark.parametrize(("name", "growth"), KINDS)
def test_bound_against_brute_force(name, growth):
    """Never below the definition, and for β·scale ≤ 1 within 4 scales at most 5 % above it."""
    case = CASES[name]
    profile = case.profile()
    x = np.concatenate([np.linspace(-12, 12, 97), [c for c, _ in case.marks], [-20.0, 20.0]])
    x = np.unique(np.abs(x)) if case.ray else np.unique(x)
    for reach in reaches(name, growth):
        chords = steepest_chords(case, case.grid(), reach) if reach else None
        for beta in (0.03, 1.0, 4.0):
            bound = np.asarray(profile.smooth_bound(x, Smoothness(beta, growth, reach)))
            least = brute_force(case, x, beta, growth, chords)
            assert np.all(bound >= least * (1 - 1e-6)), (reach, beta)
            # A chord to a spike narrower than the cells counts all of its rise, and more.
            if beta <= 1 and not (name == "spike" and reach):
                near = np.abs(x) <= 4
                assert np.all(bound[near] <= 1.05 * least[near]), (reach, beta)


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize(("name", "growth"), KINDS)
def test_bound_is_smooth(name, growth):
    """B(x) ≤ g(β|x − x'|) B(x'), from next to each other to far out."""
    case = CASES[name]
    rng = np.random.default_rng(11)
    profile = case.profile()
    here = np.concatenate([rng.normal(size=600) * 3, rng.choice([0.5, 1.0, 3.1, 6.0], 200)])
    here = np.concatenate([here, rng.normal(size=100) * 1e3, 10.0 ** rng.uniform(3, 100, 100)])
    away = 10.0 ** rng.uniform(-12, 2, here.size) * rng.choice([-1, 1], here.size)
    there = here + away
    if case.ray:
        here, there = np.abs(here), np.abs(there)
    for reach in reaches(name, growth):
        for beta in (0.03, 1.0, 4.0):
            b, c = (
                np.asarray(profile.smooth_bound(u, Smoothness(beta, growth, reach)))
                for u in (here, there)
            )
            assert np.all(b >= 0)
            t = beta * np.abs(here - there)
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                log_growth = t if growth == "exponential" else np.log1p(t)
                change = np.abs(np.log(b) - np.log(c))
            # Where e^{−t} underflows there is nothing to compare.
            shown = (b > 1e-290) & (c > 1e-290)
            assert shown.sum() >= 200
            # e^{−t} carries the rounding of t, and t that of u.
            size = np.abs(np.log(b[shown])) + np.abs(np.log(c[shown])) + beta * np.abs(here[shown])
            slack = 1e-14 + 4e-16 * size
            assert np.all(change[shown] <= log_growth[shown] + slack)


def test_sampled_slopes_are_no_bound():
    """The control: the same cells with the slopes at their edges, instead of enclosures."""
    case = CASES["spike"]
    y = np.unique(np.concatenate([np.linspace(-16, 16, 129), np.linspace(-3, 3, 97)]))
    h = 1e-6
    slope = np.abs(case.value(y + h) - case.value(y - h)) / (2 * h)
    sampled = np.max(slope * np.exp(-0.3 * np.abs(3.1 - y)))
    true = brute_force(case, np.array([3.1]), 0.3, "exponential")[0]
    assert sampled < 1e-3 * true
    assert case.profile().smooth_bound(np.array([3.1]), Smoothness(0.3))[0] >= true


@pytest.mark.deep(keep=2, rest=2)
@pytest.mark.parametrize(("at", "width"), [(0.5, 1e-9), (100.0, 1e-7), (1e4, 1e-6), (9e5, 1e-5)])
def test_a_narrow_peak_far_from_zero_is_as_steep_as_it_is(at, width, monkeypatch):
    """The slope is bounded within half a percent; control: not by cells of 10^-10 of |u|."""

    def peak(u, ops):
        return ops.exp(-(((u - ops.constant(at)) / ops.constant(width)) ** 2))

    steepest = math.sqrt(2 / math.e) / width
    assert steepest <= FormulaProfile(peak, 1.0, extent=1e6).lipschitz <= 1.0051 * steepest
    monkeypatch.setattr(smooth_cells, "_NARROWEST", smooth_cells._KNOT)
    assert smooth_cells.enclose(peak, 999_999.0, ray=False).lipschitz > 1.05 * steepest


@pytest.mark.parametrize(("at", "width"), [(0.5, 1e-3), (100.0, 0.1)])
def test_the_bound_beside_a_narrow_peak_is_close(at, width, monkeypatch):
    """At β = 1/width at most 4 % above brute force; control: not by cells short beside u alone."""

    def above_brute_force(extent):
        def peak(u, ops):
            return ops.exp(-(((u - ops.constant(at)) / ops.constant(width)) ** 2))

        profile = FormulaProfile(peak, 1.0, extent=extent)
        z = np.linspace(-6.0, 6.0, 1_201)
        slope = np.abs(2 * z * np.exp(-z * z)) / width
        least = (slope * np.exp(-np.abs(z[::20, None] - z))).max(axis=1)
        smoothness = Smoothness(1 / width, "exponential", 0.0)
        return np.asarray(profile.smooth_bound(at + width * z[::20], smoothness)) / least

    close = above_brute_force(200.0)
    assert 1 <= close.min() <= close.max() <= 1.04

    def short_beside_its_place(search, low, high):
        return high - low <= smooth_cells._FINEST * smooth_cells._unit(low, high)

    monkeypatch.setattr(smooth_cells._Search, "_is_short", short_beside_its_place)
    assert above_brute_force(201.0).max() > 1.3


BUILT_IN: dict[str, tuple[Any, Callable[[Any, Any], Any], float]] = {
    "smoothstep": (Smoothstep(3.0), step, 1.0),
    "gaussian": (Gaussian(3.0), bell, 6.5),
    "ramp": (Ramp(3.0), lambda u, ops: ops.clip(u + 0.5, 0, 1), 1.0),
}
"""Name → profile of the library, formula of the same, extent."""


@pytest.mark.deep
@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_profiles_written_as_formulas(name):
    """From above, by no more than half a percent and what B may change over a cell of 1/32."""
    built_in, same, extent = BUILT_IN[name]
    formula = FormulaProfile(same, 3.0, extent=extent)
    s = np.linspace(-9, 9, 401)
    np.testing.assert_allclose(formula.value(s), built_in.value(s), rtol=1e-14, atol=1e-15)
    assert built_in.lipschitz <= formula.lipschitz * (1 + 1e-12) <= 1.0051 * built_in.lipschitz
    for growth in GROWTHS:
        for reach in (0.0, math.inf) if growth == "exponential" else (0.0,):
            for beta in (0.03, 1 / 3):
                ours = np.asarray(formula.smooth_bound(s, Smoothness(beta, growth, reach)))
                theirs = np.asarray(built_in.smooth_bound(s, Smoothness(beta, growth, reach)))
                assert np.all(ours >= theirs * (1 - 1e-9)), (growth, reach, beta)
                assert np.all(ours <= theirs * 1.007 * math.exp(beta * 3 / 32)), (
                    growth,
                    reach,
                    beta,
                )
    if name == "ramp":
        return
    for b in (0.5, 3.0):
        np.testing.assert_allclose(
            formula.debiased(s, Fraction(b)), built_in.debiased(s, Fraction(b)), atol=1e-13
        )
        low, high = formula.debiased_range(b)
        least, greatest = built_in.debiased_range(b)
        slack = 0.02 * (greatest - least)
        assert least - slack <= low <= least + 1e-12
        assert greatest - 1e-12 <= high <= greatest + slack


def test_a_formula_is_called_once():
    """What it finds elsewhere afterwards changes nothing, and it need not even be hashable."""

    class Moody:
        __hash__ = None  # type: ignore[assignment]
        calls = 0

        def __call__(self, u: Any, ops: Any) -> Any:
            self.calls += 1
            return ops.clip(self.calls * u, 0, 1)

    formula = Moody()
    profile = FormulaProfile(formula, scale=1.0, extent=2.0)
    bound = SmoothMechanism(Linear(profile, 1.0), GeoPrivacy(1.0, per=1.0))
    released = [bound.release(0.4, SeededSource(k)) for k in range(3)]
    assert formula.calls == 1
    formula.calls = 1000
    assert profile.value(np.array([0.25])) == 0.25
    assert profile.on_ray().lipschitz == profile.lipschitz <= 1 + 1e-9
    assert [bound.release(0.4, SeededSource(k)) for k in range(3)] == released
    assert FormulaProfile(Moody(), scale=1.0, extent=2.0) == profile


def test_pieces_meet_by_construction():
    """A jump that is below all that is looked for is closed, as a real number."""
    gap = Fraction(1, 2**5000)

    def formula(u: Any, ops: Any) -> Any:
        inner = (lambda v: v, lambda v: v + gap, lambda v: v + 3 * gap)
        return ops.piecewise(ops.exp(u), (1, 2), inner)

    record = recorded(formula)
    with working_precision(8000):
        little = arb(2) ** -6000
        before, after = (record(side * little, BALL) for side in (-1, 1))
        assert 0 < after - before < 3 * little
        # The control: the piece as it was written.
        assert little.exp() + BALL.constant(gap) - before > little * 10


@pytest.mark.deep
def test_corners_are_found_wherever_cells_end():
    """Beside an end, at the end of a cell, and where two pieces meet twice within 1e-10."""
    privacy = GeoPrivacy(1.0, per=1.0)
    corners: dict[str, Callable[[Any, Any], Any]] = {
        "beside an end": lambda u, ops: ops.minimum(ops.exp(u), ops.exp(1 - 5e-11)),
        "at 0": lambda u, ops: ops.exp(-ops.absolute(u)) * (1 - u * u) ** 2,
        "twice": lambda u, ops: (1 - u * u) ** 2 + ops.clip(100 * (u - 0.3), 0, 5e-9),
    }
    for name, formula in corners.items():
        profile = FormulaProfile(formula, scale=1.0, extent=1.0)
        with pytest.raises(UnsupportedError, match="slope jumps"):
            DebiasedLaplace(Linear(profile, 1.0), privacy)
        assert name != "twice" or profile.lipschitz > 98
    smooth = FormulaProfile(lambda u, ops: (1 - u * u) ** 2, scale=1.0, extent=1.0)
    DebiasedLaplace(Linear(smooth, 1.0), privacy)


def wave(edges: int, gap: float, width: float) -> FormulaProfile:
    """A square wave between 0 and 1 whose edges are smoothsteps."""

    def formula(u: Any, ops: Any) -> Any:
        total = ops.constant(0)
        for i in range(edges):
            t = ops.clip((u - (0.264 + gap * i)) / width, ops.constant(0), ops.constant(1))
            total = total + (-1) ** i * t * t * (3 - 2 * t)
        return total

    return FormulaProfile(formula, scale=1.0, extent=10.0)


def test_bounds_beside_the_knots_of_a_square_wave_are_nearly_attained():
    """Bounds of the values and of the means of reports. Control: both ends are attained."""
    profile = wave(3, gap=1.0, width=0.01)
    law = SmoothMechanism(Linear(profile, 1.0), GeoPrivacy(1.0, per=0.05)).law()
    assert law is not None
    for low, high in (profile.bounds, (law.points[:, 0].min(), law.points[:, 0].max())):
        assert -0.01 <= low <= 0
        assert 1 <= high <= 1.01


@pytest.mark.deep
def test_a_wave_too_intricate_for_fine_cells_gets_others():
    """Control: one more intricate is refused."""
    assert wave(7, gap=0.1, width=0.1).bounds == pytest.approx((0.0, 1.0), abs=0.02)
    with pytest.raises(ParameterError, match="too intricate"):
        wave(16, gap=0.1, width=0.1)


@pytest.mark.deep(keep=0)
def test_what_cannot_be_debiased_says_where():
    privacy = GeoPrivacy(1.0, per=1.0)
    with pytest.raises(UnsupportedError, match=r"slope jumps at -?20"):
        DebiasedLaplace(Linear(FormulaProfile(epanechnikov, 20.0), 1.0), privacy)
    with pytest.raises(UnsupportedError, match="slope jumps at -2, "):
        DebiasedLaplace(Linear(FormulaProfile(lambda u, ops: u, 2.0, 1.0), 1.0), privacy)

    def step(u: Any, ops: Any, width: float) -> Any:
        t = ops.clip((u - 100) / width, ops.constant(0), ops.constant(1))
        return t * t * (3 - 2 * t)

    with pytest.raises(UnsupportedError, match=r"jumps at 1000, or turns there within about 0\.1:"):
        DebiasedLaplace(Linear(FormulaProfile(partial(step, width=0.01), 10.0), 1.0), privacy)
    DebiasedLaplace(Linear(FormulaProfile(partial(step, width=0.05), 10.0), 1.0), privacy)

    def rounded(u: Any, ops: Any) -> Any:
        return ops.exp(-ops.power(ops.absolute(u), 1.5))

    blunt = FormulaProfile(rounded, 2.0)
    assert blunt.lipschitz < 1
    for query in (Linear(blunt, 1.0), Radial(blunt, 0.0)):
        with pytest.raises(UnsupportedError, match="debiased form"):
            DebiasedLaplace(query, privacy)
        SmoothMechanism(query, privacy)


@pytest.mark.parametrize(
    ("name", "value"), [("scale", 0), ("scale", math.inf), ("extent", 1e7), ("ray", 1)]
)
def test_parameters_out_of_range_are_named(name, value):
    with pytest.raises(ParameterError, match=name):
        FormulaProfile(bell, **({"scale": 1.0} | {name: value}))
