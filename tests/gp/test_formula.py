"""Test users' profiles: certified bounds, derivatives, refusals, and both arithmetics.

The oracle of a bound is the definition by brute force in NumPy: the steepest chords between points
of a fine grid, and the supremum of them over another. Formulas are written twice, for the library
and for NumPy. Derivatives are compared with mpmath's.
"""

import math
import random
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from flint import arb

from geoveil.audit import black_box_bound
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
    UnsupportedError,
)
from geoveil.gp.arithmetic import FLOAT
from geoveil.gp.exact import BALL, working_precision
from geoveil.gp.smooth import cells
from geoveil.gp.smooth.jet import FLOAT_JETS, BallJets, Jet, enclosure, jet
from geoveil.gp.smooth.tape import Tape, recorded

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
            bound = np.asarray(profile.smooth_bound(x, beta, growth=growth, reach=reach))
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
                np.asarray(profile.smooth_bound(u, beta, growth=growth, reach=reach))
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
    assert case.profile().smooth_bound(np.array([3.1]), 0.3)[0] >= true


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
                ours = np.asarray(formula.smooth_bound(s, beta, growth=growth, reach=reach))
                theirs = np.asarray(built_in.smooth_bound(s, beta, growth=growth, reach=reach))
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


OPERATIONS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any], Any]]] = {
    "exp, minus": (lambda u, o: o.exp(-u * u), lambda u: mp.exp(-u * u)),
    "log": (lambda u, o: o.log(3 + u), lambda u: mp.log(3 + u)),
    "expm1": (lambda u, o: o.expm1(u) / 7, lambda u: mp.expm1(u) / 7),
    "log1p": (lambda u, o: o.log1p(u * u), lambda u: mp.log1p(u * u)),
    "sqrt": (lambda u, o: o.sqrt(1 + u * u), lambda u: mp.sqrt(1 + u * u)),
    "power": (lambda u, o: o.power(2 + u, 1.7), lambda u: mp.power(2 + u, mp.mpf(1.7))),
    "negative power": (lambda u, o: o.power(1 + u * u, -2), lambda u: (1 + u * u) ** -2),
    "power of u": (lambda u, o: o.power(2, u), lambda u: mp.power(2, u)),
    "u to the u": (lambda u, o: o.power(3 + u, u), lambda u: mp.power(3 + u, u)),
    "integer powers": (lambda u, o: u**0 + u**1 - u**2 + u**3, lambda u: 1 + u - u**2 + u**3),
    "even powers": (lambda u, o: 1 / (1 + u**4 + u**6), lambda u: 1 / (1 + u**4 + u**6)),
    "quotients": (
        lambda u, o: (u / 3 - 2 / (u * u + 1)) / (2 + u),
        lambda u: (u / 3 - 2 / (u * u + 1)) / (2 + u),
    ),
    "numbers on the left": (
        lambda u, o: 1 - 2 * u + 3 + 0.5 / (4 + u),
        lambda u: 4 - 2 * u + 0.5 / (4 + u),
    ),
    "constants": (
        lambda u, o: o.constant(Fraction(1, 3)) * u * o.exp(-1) + u * o.sqrt(2),
        lambda u: u * mp.exp(-1) / 3 + u * mp.sqrt(2),
    ),
    "minimum": (lambda u, o: o.minimum(u * u, 1 + u), lambda u: min(u * u, 1 + u)),
    "maximum": (lambda u, o: o.maximum(0, o.exp(u) - 1), lambda u: max(mp.mpf(0), mp.exp(u) - 1)),
    "clip": (lambda u, o: o.clip(u * u * u, -1, 0.5), lambda u: min(max(u**3, -1), mp.mpf(0.5))),
    "absolute": (lambda u, o: o.exp(-o.absolute(u - 0.2)), lambda u: mp.exp(-abs(u - mp.mpf(0.2)))),
    "piecewise": (
        lambda u, o: o.piecewise(
            u, (-0.5, o.constant(0.5)), (lambda v: -v, lambda v: v * v + 0.25, lambda v: v)
        ),
        lambda u: -u if u < -0.5 else (u * u + mp.mpf(0.25) if u < 0.5 else u),
    ),
    "nested": (
        lambda u, o: o.maximum(o.minimum(u, 1 - u), o.absolute(u) / 4) ** 2,
        lambda u: max(min(u, 1 - u), abs(u) / 4) ** 2,
    ),
    "positive": (lambda u, o: o.log(o.positive(2 + u)), lambda u: mp.log(2 + u)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_jets(name):
    """Value, slope and curvature at a point; and balls around them on wide balls."""
    formula, exact = OPERATIONS[name]
    rng = random.Random(name)
    for _ in range(8):
        at = rng.uniform(-1.6, 1.6)
        with mp.workdps(40):
            expected = [exact(mp.mpf(at)), mp.diff(exact, at), mp.diff(exact, at, 2)]
        floats = jet(formula(Jet(np.array([at]), 1.0, 0.0), FLOAT_JETS))
        found = [floats.value, floats.slope, floats.curvature]
        for ours, theirs in zip(found, expected, strict=True):
            assert float(np.asarray(ours).reshape(-1)[0]) == pytest.approx(
                float(theirs), rel=1e-11, abs=1e-11
            )
        for radius in (0.0, 1e-9, 1e-3, 0.3, 1.1):
            middle = at + rng.uniform(-1, 1) * radius
            balls, _ = enclosure(formula, arb(middle, radius * 1.000001))
            for ball, theirs in zip(
                (balls.value, balls.slope, balls.curvature), expected, strict=True
            ):
                # mpmath differentiates numerically.
                assert (ball + arb(0, 1e-15)).contains(arb(mp.nstr(theirs, 30)))
            if radius <= 1e-9:
                assert float(balls.value.rad()) <= 1e-7


def test_a_formula_too_intricate_is_refused_after_limited_work(monkeypatch):
    """Operations are counted, however many of them an enclosure takes."""
    spent = [0]

    def counted(tape: Tape, u: Any) -> tuple[Jet, int]:
        j, ways = enclosure(tape, u)
        spent[0] += ways * len(tape.steps)
        return j, ways

    def long(u: Any, o: Any) -> Any:
        waves = sum(o.exp(-u * u * k) for k in range(1, 100))
        return o.maximum(o.clip(u, -1, 1), o.clip(u, -2, 2)) + waves / 2**20

    monkeypatch.setattr(cells, "_MOST", 50_000)
    monkeypatch.setattr(cells, "enclosure", counted)
    with pytest.raises(ParameterError, match="too intricate"):
        FormulaProfile(long, scale=1.0)
    assert 45_000 < spent[0] < 55_000


REFUSED: dict[str, tuple[Any, str]] = {
    "jump": (
        lambda u, o: o.piecewise(u, (0.25,), (lambda v: v, lambda v: v + 1)),
        "a jump of 1 at 0.25",
    ),
    "root at 0": (lambda u, o: o.sqrt(o.absolute(u)), "no bounded slope near"),
    "steep edge": (lambda u, o: o.sqrt(o.maximum(1 - u * u, 0)), "no bounded slope near"),
    "pole": (lambda u, o: 1 / u, "no bounded slope near"),
    "overflow": (lambda u, o: o.exp(u * u * u), "no bounded slope near"),
    "constant": (lambda u, o: 3, "a constant"),
    "nan": (lambda u, o: u * math.nan, "formula"),
    "nothing": (lambda u, o: None, "NoneType"),
    "numpy": (lambda u, o: np.exp(u), "functions of ops"),
    "one argument": (lambda u: u, "functions of ops"),
    "root by power": (lambda u, o: (1 + u * u) ** 0.5, "ops.power"),
    "equal pieces": (lambda u, o: o.maximum(o.clip(u, -1, 1), o.clip(u, -2, 2)), "too intricate"),
    "float overflow": (lambda u, o: u * u + o.exp(800 + u * 0) * o.exp(-800 - u * 0), "float64"),
    "no function": (3, "a function of"),
    "edges that fall": (
        lambda u, o: o.piecewise(u, (1, -1), (lambda v: v, lambda v: 2 - v, lambda v: v)),
        "edges at 1 and then -1",
    ),
    "edges that move": (lambda u, o: o.piecewise(u, (u / 2,), (lambda v: v,) * 2), "constants"),
    "an edge too few": (lambda u, o: o.piecewise(u, (), (lambda v: v,) * 2), "0 edges"),
    "jump beside 2^70": (
        lambda u, o: o.piecewise(u, (0.3,), (lambda v: (v + 2**70) - 2**70, lambda v: v + 1)),
        "a jump of 1 at 0.3",
    ),
    "jump below all doubles": (
        lambda u, o: o.piecewise(u, (0,), (lambda v: v, lambda v: v + Fraction(1, 2**2500))),
        "a jump of 0 at 0",
    ),
    "jump within a piece": (
        lambda u, o: o.piecewise(
            u,
            (-1,),
            (
                lambda v: v,
                lambda v: o.piecewise(v, (1,), (lambda w: w, lambda w: w + 1e-9)),
            ),
        ),
        "a jump of 1e-09 at 1",
    ),
    "jump where a constant is not": (
        lambda u, o: u + o.piecewise(o.constant(1), (2,), (lambda v: v, lambda v: o.power(v, v))),
        "a jump of 2 at 2",
    ),
    "piece of another number": (
        lambda u, o: o.piecewise(2 * u, (0,), (lambda v: u, lambda v: v)),
        "use only their own argument",
    ),
    "pieces undefined where they meet": (
        lambda u, o: o.piecewise(u, (-1,), (lambda v: v, lambda v: o.log(v))),
        "can't be shown to meet at -1",
    ),
    "truth": (lambda u, o: u if u else -u, "ops.piecewise"),
    "root of a negative": (lambda u, o: u + o.sqrt(o.constant(-1)), "ops.maximum(x, 0)"),
    "power of a negative": (lambda u, o: o.power(u, 1.5), "ops.maximum(x, 0)"),
    "power of a negative, computed": (
        lambda u, o: o.power(u, o.exp(o.log(3))),
        "ops.maximum(x, 0)",
    ),
    "pieces of nothing": (
        lambda u, o: u + o.piecewise(o.log(u), (1,), (lambda v: 0, lambda v: 0)),
        "no bounded slope",
    ),
    "lost digits": (lambda u, o: (u + 2**70) - 2**70, "float64"),
}


TAKE_LONG = {"equal pieces"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.deep] if n in TAKE_LONG else []) for n in REFUSED],
)
def test_refused(name):
    """In words that say what is wrong, and with no warning of NumPy."""
    formula, words = REFUSED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ParameterError) as caught:
            FormulaProfile(formula, scale=1.0, extent=300.0)
    assert words in str(caught.value)


def test_sign_is_refused_with_what_to_use():
    with pytest.raises(UnsupportedError, match="use clip or piecewise"):
        FormulaProfile(lambda u, ops: ops.sign(u), scale=1.0)


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


POWERS = (0, 1, 2, 3, 4, 7, -1, -2, -3, 2.0, -1.0, 0.5, 1.5, 2.5, -0.5, Fraction(4, 3), 1.1)
BASES = ((-1.0, 2.0), (-2.0, 1.0), (-1.0, 1.0), (0.0, 1.0), (-1.0, 0.0), (-0.3, -0.1), (0.2, 4.0))


@pytest.mark.parametrize("exponent", POWERS, ids=str)
@pytest.mark.parametrize("how", ["number", "constant"])
def test_powers_of_bases_that_change_sign(exponent, how):
    """Value, slope and curvature at points of cells on both sides of 0, or no finite enclosure."""

    def formula(u: Any, ops: Any) -> Any:
        return ops.power(u - 0.25, exponent if how == "number" else ops.constant(exponent))

    p = Fraction(exponent)
    for low, high in BASES:
        j, _ = enclosure(formula, arb(low + 0.25).union(arb(high + 0.25)))
        # Elsewhere there may be nothing to enclose, or no end to it.
        if p.denominator == 1 and (p >= 0 or low * high > 0):
            assert j.value.is_finite()
            assert j.slope.is_finite()
            assert j.curvature.is_finite()
        for x in np.linspace(low, high, 12).tolist():
            if x == 0 or (x < 0 and p.denominator != 1):
                continue
            with mp.workdps(60):
                q, y = mp.mpf(p.numerator) / p.denominator, mp.mpf(x)
                expected = [y**q, q * y ** (q - 1), q * (q - 1) * y ** (q - 2)]
            for ball, number in zip((j.value, j.slope, j.curvature), expected, strict=True):
                near = arb(mp.nstr(number, 40)) + arb(0, 1e-30)
                assert not ball.is_finite() or ball.overlaps(near), (low, high, x)


def notch(middle: float, depth: float, exponent: Any) -> Callable[[Any, Any], Any]:
    """A smooth step down and up again, by a power of a base that changes its sign."""

    def formula(u: Any, ops: Any) -> Any:
        t = ops.clip((ops.power(u - middle, exponent) - depth) * 40, 0, 1)
        return t * t * (3 - 2 * t)

    return formula


@pytest.mark.deep(keep=0)
def test_releases_do_not_tell_points_apart(monkeypatch):
    """2,000 releases each at 0.055 and 0.065: ε = 50 per unit permits 0.5; 1e-6 to fail.

    The control takes a base for ≥ 0, whatever the exponent.
    """

    def shown(extent: float) -> float:
        profile = FormulaProfile(notch(0.2499, 0.02, 2), scale=1.0, extent=extent)
        mechanism = SmoothMechanism(Linear(profile, 1.0), GeoPrivacy(1.0, per=0.02))
        samples = [
            [mechanism.release(x, SeededSource(k + seed)) for k in range(2000)]
            for seed, x in ((0, 0.055), (10_000, 0.065))
        ]
        return black_box_bound(*samples, distance=0.01).rate

    assert shown(8.0) <= 50

    def old_power(self: Any, base: Any, exponent: Any) -> Any:
        return BALL.power(base.nonnegative_part(), exponent)

    monkeypatch.setattr(BallJets, "_power", old_power)
    with pytest.raises(ParameterError, match="float64 cannot evaluate"):
        shown(7.0)
    monkeypatch.setattr(FormulaProfile, "_require_floats", lambda *_: None)
    assert shown(7.0) > 60


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


@pytest.mark.deep(keep=0)
def test_what_cannot_be_debiased_says_where():
    privacy = GeoPrivacy(1.0, per=1.0)
    with pytest.raises(UnsupportedError, match=r"slope jumps at -?20"):
        DebiasedLaplace(Linear(FormulaProfile(epanechnikov, 20.0), 1.0), privacy)
    with pytest.raises(UnsupportedError, match="slope jumps at -2:"):
        DebiasedLaplace(Linear(FormulaProfile(lambda u, ops: u, 2.0, 1.0), 1.0), privacy)

    def rounded(u: Any, ops: Any) -> Any:
        return ops.exp(-ops.power(ops.absolute(u), 1.5))

    blunt = FormulaProfile(rounded, 2.0)
    assert blunt.lipschitz < 1
    for query in (Linear(blunt, 1.0), Radial(blunt, 0.0)):
        with pytest.raises(UnsupportedError, match="debiased form"):
            DebiasedLaplace(query, privacy)
        SmoothMechanism(query, privacy)


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("name", CASES)
def test_two_arithmetics(name):
    """Float64 and balls agree to 1e-12 of the range, at knots and ends too."""
    case = CASES[name]
    profile = case.profile(scale=2.5)
    rng = np.random.default_rng(5)
    ends = [-case.extent, case.extent, 0.0, 0.5, -0.5, 1.0, -1.0, 1e80]
    u = np.concatenate([rng.normal(size=20) * 2, 3.1 + rng.normal(size=5) * SPIKE, ends])
    s = 2.5 * (np.abs(u) if case.ray else u)
    beta = Fraction(1, 3)
    low, high = profile.bounds
    steep = 1e-12 * (high - low) + 4e-16 * profile.lipschitz * np.minimum(np.abs(s), 50)
    floats: dict[str, Any] = {
        "value": (profile.value(s), steep),
        "bound": (profile.smooth_bound(s, beta), 1e-12 * profile.lipschitz),
        "plugged in": (profile.debiased(s, Fraction(0)), steep),
    }
    ball: dict[str, Callable[[Any], Any]] = {
        "value": lambda t: profile.value(t, BALL),
        "bound": lambda t: profile.smooth_bound(t, beta, BALL),
        "plugged in": lambda t: profile.debiased(t, Fraction(0), BALL),
    }
    if name in FAR:
        far = profile.smooth_bound(s, beta, reach=math.inf)
        floats["far bound"] = (far, 1e-12 * profile.lipschitz)
        ball["far bound"] = lambda t: profile.smooth_bound(t, beta, BALL, reach=math.inf)
    if name in ("walk", "smoothstep", "spike"):
        low, high = profile.debiased_range(0.7)
        # Where pieces meet g jumps: either side will do there.
        keep = ~np.isin(np.abs(u), [0.0, 0.5] if name in ("smoothstep", "walk") else [])
        curvature = np.where(keep, 1e-12 * (high - low) + 40 * steep, high - low)
        floats["debiased"] = (profile.debiased(s, Fraction(0.7)), curvature)
        ball["debiased"] = lambda t: profile.debiased(t, Fraction(0.7), BALL)
    for part, (found, slack) in floats.items():
        slack = np.broadcast_to(slack, s.shape)
        for i, point in enumerate(s.tolist()):
            with working_precision(200):
                enclosed = ball[part](arb(point))
            assert abs(float(enclosed.mid()) - found[i]) <= slack[i] + float(enclosed.rad()), part


def walked(y: Any) -> Any:
    """φ(u) = e^{−u}, constant from 256 on, extended evenly."""
    return mp.exp(-min(abs(y), mp.mpf(256)))


def undone(v: Any, c: Any) -> Any:
    """g = φ − c²φ'' of the odd extension 2φ(0) − φ(−v)."""
    if v < 0:
        return 2 - undone(-v, c)
    return walked(v) * (1 - c * c) if v < 256 else walked(v)


@pytest.mark.parametrize("kind", ["smooth", "lipschitz", "debiased"])
def test_release_is_the_rounded_ideal_output(oracles, fixed_bits, kind):
    """e^{−r/500} in the plane, each part evaluated in mpmath at 120 digits.

    At reach 0 the smooth bound is e^{−u} up to β = 1/scale, to within the half percent of a cell.
    """
    profile = FormulaProfile(walk, scale=500.0)
    query = Radial(profile, center=(10.0, -20.0))
    privacy = GeoPrivacy(epsilon=0.75, per=300.0)
    mechanism: Any = {
        "smooth": SmoothMechanism,
        "lipschitz": LipschitzMechanism,
        "debiased": DebiasedLaplace,
    }[kind](query, privacy)
    rng = random.Random(7)
    bits = 1024
    for x in ((10.0, -20.0), (11.0, 30.0), (400.0, 500.0), (1e15, 3.0), (250.25, -1e4)):
        for lead in (0, 0, 3, 60):
            value = rng.getrandbits(bits) >> lead
            released = mechanism.release(x, fixed_bits(value, bits))
            with mp.workdps(150):
                rate = mp.mpf(0.75) / 300
                u = mp.hypot(mp.mpf(x[0]) - 10, mp.mpf(x[1]) + 20) / 500
                c = 1 / (rate * 500)
                if kind == "debiased":
                    z = oracles.quantile(oracles.STANDARD_LAPLACE, value, bits)
                    v = u + c * z
                    y = [undone(v, c)] * 2
                else:
                    z = oracles.quantile(mechanism.noise, value, bits)
                    if kind == "lipschitz":
                        least = 1 / mp.mpf(500)
                    else:
                        # The slope e^{−u} falls slower than e^{−βd} iff β > 1/500.
                        beta = rate * mp.mpf(mechanism.noise.beta)
                        assert beta < 1 / mp.mpf(500)
                        least = mp.exp(-beta * 500 * u) / 500
                    scales = [least / rate, least / rate * mp.mpf(1.0051)]
                    y = [walked(u) + scale * z for scale in scales]
                expected = [oracles.round_to_grid(one, mechanism.step) for one in y]
            assert min(expected) <= released <= max(expected)
            low, high = mechanism.grid_range
            assert low <= released <= high


def test_awkward_formulas_release_what_they_evaluate_to():
    """Numbers where a ball is expected, and pieces that are numbers."""

    def awkward(u: Any, ops: Any) -> Any:
        top = ops.maximum(0, ops.minimum(1, 1 - ops.absolute(u)))
        return top * ops.exp(-0.5) + ops.piecewise(u, (1,), (lambda v: 0, lambda v: 0))

    profile = FormulaProfile(awkward, 2.0, extent=4.0)
    mechanism = LipschitzMechanism(Linear(profile, 1.0), GeoPrivacy(1.0, per=1e-6))
    for x in (-9.0, -2.0, -1.3, 0.0, 0.5, 2.0, 3.0):
        released = mechanism.release(x, SeededSource(3)) * mechanism.step
        assert released == pytest.approx(max(1 - abs(x) / 2, 0) * math.exp(-0.5), abs=1e-4)


@pytest.mark.deep
def test_first_use_in_many_threads():
    """Each thread meets a formula that no cache knows, in the middle of a release."""

    def fresh(k: int) -> Callable[[Any, Any], Any]:
        return lambda u, ops: ops.exp(-u * u / (k + 2))

    def run(formula: Callable[[Any, Any], Any]) -> list[int]:
        query = Linear(FormulaProfile(formula, scale=10.0, extent=4.0), direction=1.0)
        mechanism = SmoothMechanism(query, GeoPrivacy(1.0, per=5.0))
        return [mechanism.release(0.7 * i, SeededSource(i)) for i in range(10)]

    alone = [run(fresh(k)) for k in range(3)]
    formulas = [fresh(k) for k in range(3) for _ in range(2)]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(run, formulas))
    assert together == [alone[k] for k in range(3) for _ in range(2)]


@pytest.mark.deep(keep=0)
def test_float_arithmetic_stays_silent():
    """An overflow on the way to a number, or in a piece that is not taken, is no warning."""

    def softplus(u: Any, ops: Any) -> Any:
        return ops.piecewise(u, (1,), (lambda v: v, lambda v: 1 + ops.log(v))) / (1 + ops.exp(-u))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        profile = FormulaProfile(softplus, 1.0, extent=300.0)
        assert np.isfinite(profile.value(np.linspace(-400, 400, 81))).all()
        assert profile.value(np.asarray(-2.0), FLOAT) == pytest.approx(-2 / (1 + math.exp(2)))


def test_no_outputs_have_no_preimages():
    profile = FormulaProfile(step, scale=2.0)
    for y in (np.empty(0), np.array([9.0]), np.empty((0, 2))):
        v, slope = profile.debiased_preimages(y, 0.5)
        assert v.shape[1:] == slope.shape[1:] == y.shape
        assert np.isnan(v).all()


@pytest.mark.deep(keep=1, rest=0)
@pytest.mark.parametrize(
    ("formula", "exact"),
    [
        (lambda u, ops: 1 / (1 + ops.exp(-8 * u)), lambda u: 1 / (1 + mp.exp(-8 * u))),
        (lambda u, ops: ops.exp(-ops.exp(6 * u)), lambda u: mp.exp(-mp.exp(6 * u))),
        (lambda u, ops: 2 / (ops.exp(9 * u) + ops.exp(-9 * u)), lambda u: mp.sech(9 * u)),
    ],
)
def test_what_overflows_far_from_a_narrow_step_has_slopes_and_a_law(formula, exact) -> None:
    """Oracle: mpmath. Control: float64 alone finds no number."""
    profile = FormulaProfile(formula, scale=3.0, extent=60.0)
    u = np.array([-59.0, -41.0, -1.0, 0.1, 1.0, 41.0, 59.0])
    with np.errstate(all="ignore"):
        assert not np.isfinite(formula(Jet(u, 1.0, 0.0), FLOAT_JETS).curvature).all()
    j = profile._jet(u, FLOAT)
    with mp.workdps(60):
        for order, numbers in enumerate((j.value, j.slope, j.curvature)):
            expected = [float(mp.diff(exact, mp.mpf(x), order)) for x in u]
            np.testing.assert_allclose(numbers, expected, rtol=1e-9, atol=1e-12)
    mechanism = DebiasedLaplace(Linear(profile, 1.0), GeoPrivacy(1.0, per=3.0))
    assert np.isfinite(mechanism.law().points).all()
    assert np.isfinite(mechanism.simulate(3 * u, np.random.default_rng(1))).all()


@pytest.mark.parametrize(
    ("name", "value"), [("scale", 0), ("scale", math.inf), ("extent", 1e7), ("ray", 1)]
)
def test_parameters_out_of_range_are_named(name, value):
    with pytest.raises(ParameterError, match=name):
        FormulaProfile(bell, **({"scale": 1.0} | {name: value}))
