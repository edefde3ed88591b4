"""Test approximate geo-privacy by the hockey-stick divergence of pairs of points.

sup_S P[M(x)∈S] − e^{ε|x−x'|} P[M(x')∈S] = ∫ max(p_x − e^{ε|x−x'|} p_x', 0) must be at most δ. The
log-ratio of two Laplace densities is linear between the two centres and beyond them, so the
integral is a sum of three exponentials with closed forms; quadrature checks those.
"""

import math
import random
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from geoveil.gp import (
    FormulaProfile,
    GeoPrivacy,
    Linear,
    ParameterError,
    Radial,
    TabulatedProfile,
    Threshold,
)
from geoveil.gp.exact import round_down
from geoveil.gp.mechanisms.approximate import ApproximateLaplace
from geoveil.gp.smooth import hockey_stick as search
from tests.oracles import MAKERS

Array = np.ndarray
RATE = 0.25
SIZES = (0.8, 9.0, 90.0, 600.0)  # from far below 1/ε = 4 to far above 1/β
DELTAS = (1e-9, 1e-3, 0.2, 0.6)


def privacy_of(delta: float, reach: float = math.inf) -> GeoPrivacy:
    return GeoPrivacy(epsilon=0.9, per=3.6, delta=delta, reach=reach)


def hockey_stick(f: Array, scale: Array, x: Array, rate: float, reach: float) -> Array:
    """∫ max(p_i − e^{rate|x_i−x_j|} p_j, 0) for Laplace laws at f with these scales, all pairs.

    Pairs farther apart than `reach` give 0.
    """
    f1, s1, f2, s2 = f[:, None], scale[:, None], f[None, :], scale[None, :]
    gap = np.abs(x[:, None] - x[None, :])
    charge = rate * gap
    least, most = np.minimum(f1, f2) + 0 * gap, np.maximum(f1, f2) + 0 * gap
    total = np.zeros(gap.shape)
    far = np.full(gap.shape, np.inf)
    for low, high, side in ((-far, least, -1), (least, most, 0), (most, far, 1)):
        # Signs of y − f on this piece; the loss is slope·y + offset.
        sign1 = np.where(side == 0, np.where(f1 < f2, 1.0, -1.0), float(side))
        sign2 = np.where(side == 0, -sign1, float(side))
        slope = sign2 / s2 - sign1 / s1
        offset = np.log(s2 / s1) - sign2 * f2 / s2 + sign1 * f1 / s1 - charge
        with np.errstate(divide="ignore", invalid="ignore"):
            root = -offset / slope
        start = np.where(slope > 0, np.maximum(low, root), low)
        end = np.where(slope < 0, np.minimum(high, root), high)
        start = np.where((slope == 0) & (offset <= 0), np.inf, start)
        some = start < end
        start, end = np.where(some, start, 0.0), np.where(some, end, 0.0)
        kept = _piece(start, end, f1, s1, sign1, 0.0) - _piece(start, end, f2, s2, sign2, charge)
        total += np.where(some, np.maximum(kept, 0.0), 0.0)
    return np.where((gap <= reach) & (gap > 0), total, 0.0)


def _piece(start: Array, end: Array, f: Array, s: Array, sign: Array, charge: Any) -> Array:
    """e^charge ∫ of the Laplace density from start to end, on one side of its centre."""
    near = np.where(sign > 0, start - f, f - end) / s
    far = np.where(sign > 0, end - f, f - start) / s
    near = np.maximum(near, 0.0)
    # Where the piece counts, the exponent is at most log(s/s') of the two scales.
    mass = -np.expm1(-np.maximum(far - near, 0.0)) / 2
    return np.asarray(np.exp(np.minimum(charge - near, 700.0)) * mass)


def points(size: float, beta: float) -> Array:
    """A line through where f varies, and far beyond, denser near."""
    near = np.linspace(-1.5, 1.5, 41) * size
    far = np.geomspace(0.8 * size, 300 * size + 300 / beta, 50)
    return np.unique(np.concatenate([near, far, -far, [-size / 2, size / 2]]))


def worst(mechanism: ApproximateLaplace, reach: float, eta: float | None = None) -> float:
    """Largest hockey-stick divergence over pairs of points; as if η were `eta`, if given."""
    query = mechanism.query
    size = query.width if isinstance(query, Threshold) else query.bandwidth  # type: ignore[attr-defined]
    x = points(size, mechanism.beta)
    if reach < math.inf:  # pairs that are just as far apart as is permitted
        x = np.unique(np.concatenate([x, x[::3] + reach * (1 - 1e-12)]))
    scale = np.sqrt(mechanism.variance(x) / 2)
    if eta is not None:
        scale *= mechanism.eta / eta
    return float(hockey_stick(query.value(x), scale, x, RATE, reach).max())


@pytest.mark.parametrize("seed", range(6))
def test_the_oracle_against_quadrature(seed):
    rng = np.random.default_rng(seed)
    f, scale, x = rng.uniform(0, 1, 2), rng.uniform(0.1, 3.0, 2), rng.uniform(-2, 2, 2)
    ours = hockey_stick(f, scale, x, RATE, math.inf)
    charge = RATE * abs(x[0] - x[1])
    for i, j in ((0, 1), (1, 0)):
        y = np.linspace(-90, 90, 1_000_001)
        p = np.exp(-np.abs(y - f[i]) / scale[i]) / (2 * scale[i])
        other = np.exp(charge - np.abs(y - f[j]) / scale[j]) / (2 * scale[j])
        expected = float(np.trapezoid(np.maximum(p - other, 0.0), y))
        assert ours[i, j] == pytest.approx(expected, rel=0, abs=1e-7)


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("reach", "calibration"),
    [(math.inf, "exact"), (40.0, "paper"), (4.0, "exact"), (40.0, "exact")],
)
@pytest.mark.parametrize("name", ["smoothstep", "linear"])
def test_hockey_stick_is_at_most_delta(name, reach, calibration, size):
    for delta in DELTAS:
        for share in (0.25, 0.9):
            beta = share * RATE / max(1.0, math.log(1 / delta))
            mechanism = ApproximateLaplace(
                MAKERS[name](size), privacy_of(delta, reach), beta=beta, calibration=calibration
            )
            assert worst(mechanism, reach) <= delta * (1 + 1e-9)


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("size", [0.8, 90.0])
def test_hockey_stick_of_the_kernel(size):
    """One β for each size: its bound is found numerically."""
    beta = 0.25 * RATE / math.log(1e3)
    for reach in (4.0, math.inf):
        mechanism = ApproximateLaplace(MAKERS["kernel"](size), privacy_of(1e-3, reach), beta=beta)
        assert worst(mechanism, reach) <= 1e-3 * (1 + 1e-9)


def laplace_pair(r: float, shift: float, gap: float, rate: float) -> float:
    """The divergence at a given ratio of scales r = b/b' and shift |f−f'| in units of b'/η."""
    pair = hockey_stick(
        np.array([0.0, shift]), np.array([r, 1.0]), np.array([0.0, gap]), rate, math.inf
    )
    return float(pair[0, 1])


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("seed", range(3))
def test_the_divergence_of_a_pair(seed):
    """The theorem: h(t)·e^{−c/t}·cosh(ηD/t) against the sum of exponentials; 0 the other way."""
    rng = np.random.default_rng(seed)
    for _ in range(200):
        charge, t = rng.uniform(0.1, 6.0), rng.uniform(0.05, 5.0)
        shift = charge * rng.uniform(0, 1)
        found = laplace_pair(1 + t, shift, charge, 1.0)
        h = (1 + t) ** (-1 / t) * t / (1 + t)
        expected = h * math.exp(-charge / t) * math.cosh(shift / t)
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-15)
        pure = charge - math.log1p(t)
        if pure > 0:  # in units of the larger scale
            back = hockey_stick(
                np.array([0.0, pure]), np.array([1 / (1 + t), 1.0]), np.array([0, charge]), 1.0, 9e9
            )
            assert back[0, 1] <= 1e-12
            back = hockey_stick(
                np.array([0.0, 1.1 * pure]),
                np.array([1 / (1 + t), 1.0]),
                np.array([0, charge]),
                1.0,
                9e9,
            )
            assert back[0, 1] > 1e-6 * pure


SETTINGS = [
    ("linear", 0.8, 1e-6, math.inf, 0.9),
    ("linear", 9.0, 1e-3, math.inf, 0.75),
    ("smoothstep", 0.8, 1e-6, 4.0, 0.25),
    ("smoothstep", 9.0, 1e-9, math.inf, 0.25),
    ("smoothstep", 9.0, 1e-3, math.inf, 0.5),
    ("kernel", 9.0, 1e-6, math.inf, 0.25),
    ("kernel", 9.0, 1e-3, 4.0, 0.5),
]


@pytest.mark.deep(keep=4)
@pytest.mark.parametrize(("name", "size", "delta", "reach", "share"), SETTINGS)
def test_the_exact_calibration_is_within_three_per_cent(name, size, delta, reach, share):
    """No pair needs more than δ; with 3 % less noise some pair does."""
    beta = share * RATE / math.log(1 / delta)
    mechanism = ApproximateLaplace(MAKERS[name](size), privacy_of(delta, reach), beta=beta)
    assert worst(mechanism, reach) <= delta
    assert worst(mechanism, reach, eta=1.03 * mechanism.eta) > delta


def test_a_straight_ramp_keeps_the_whole_epsilon_at_a_large_beta():
    """B is level where f varies; without that, pairs would have to share a much smaller η."""
    delta, width = 3e-14, 1.3
    beta, reach = 0.85 * RATE / math.log(1 / delta), 5 * width
    mechanism = ApproximateLaplace(Threshold(0.0, width), privacy_of(delta, reach), beta=beta)
    assert mechanism.eta == pytest.approx(RATE, rel=1e-9)
    assert worst(mechanism, reach) <= delta
    at_once = search._within(reach, RATE, delta, beta)
    assert at_once is not None
    assert at_once < RATE / 2


def test_delta_is_kept_by_pairs_beyond_all_cells():
    """h(t) rises on from there; the control is the η that its value there would permit."""
    delta, width = 0.3, 1.36
    beta = 0.9997 * RATE / math.log(1 / delta)
    mechanism = ApproximateLaplace(Threshold(0.0, width), privacy_of(delta), beta=beta)
    x = np.array([-0.5, 0.5]) * width + np.array([0.0, 10 * search._FAR * (width + 1 / beta)])
    value, scale = mechanism.query.value(x), np.sqrt(mechanism.variance(x) / 2)
    assert hockey_stick(value, scale, x, RATE, math.inf).max() <= delta
    scale *= mechanism.eta / (0.33 * RATE)
    assert hockey_stick(value, scale, x, RATE, math.inf).max() > 1.003 * delta


@pytest.mark.deep
@pytest.mark.parametrize(
    ("name", "before"), [("linear", 1.7), ("smoothstep", 1.35), ("kernel", 1.35)]
)
def test_variance_against_the_paper_s(name, before):
    """At the default β nowhere more, where f varies 1.35 to 1.75 times less, at δ = 1e-6."""
    query, privacy = MAKERS[name](9.0), privacy_of(1e-6)
    x = points(9.0, 0.01)
    paper = ApproximateLaplace(query, privacy, calibration="paper").variance(x)
    exact = ApproximateLaplace(query, privacy).variance(x)
    assert (paper / exact).min() >= before
    assert (paper / exact)[np.abs(x) <= 4.5].max() <= 16 / 9


def test_exact_and_paper_calibration():
    """A finite Λ buys a larger η, the more the smaller it is, up to ε − β; the paper's never."""
    query, delta = MAKERS["smoothstep"](9.0), 1e-6
    beta = 0.25 * RATE / math.log(1 / delta)
    etas = [
        ApproximateLaplace(query, privacy_of(delta, reach), beta=beta).eta
        for reach in (math.inf, 1e3, 10.0, 1e-3, 1e-40)
    ]
    paper = [
        ApproximateLaplace(query, privacy_of(delta, reach), beta=beta, calibration="paper").eta
        for reach in (math.inf, 1e3, 1e-3)
    ]
    assert len(set(paper)) == 1
    assert paper[0] == pytest.approx(0.75 * RATE, rel=1e-12, abs=0)
    assert all(eta > 1.15 * paper[0] for eta in etas)
    assert all(a <= 1.01 * b for a, b in pairwise(etas))
    assert etas[-1] == pytest.approx(RATE - beta, rel=1e-9, abs=0)


class TestControls:
    """What must exceed δ: each of these was a plausible mistake."""

    def test_the_cost_of_the_tail_forgotten(self):
        """η = ε: for a band wider than 1/β the chord and the scale change together."""
        for delta in (1e-9, 1e-3):
            mechanism = ApproximateLaplace(
                MAKERS["linear"](600.0), privacy_of(delta), calibration="paper"
            )
            assert worst(mechanism, math.inf) <= delta
            assert worst(mechanism, math.inf, eta=RATE) > 10 * delta

    def test_only_the_growth_of_the_scale_paid_for(self):
        """η = ε − β, the pure part without log(1/δ)."""
        mechanism = ApproximateLaplace(
            MAKERS["linear"](600.0), privacy_of(1e-9), calibration="paper"
        )
        assert worst(mechanism, math.inf, eta=RATE - mechanism.beta) > 1e-8

    @pytest.mark.deep(keep=2)
    @pytest.mark.parametrize("name", MAKERS)
    def test_exponential_growth(self, name):
        """Scales that differ by e^{βd} at the η of linear growth."""
        delta = 1e-6
        mechanism = ApproximateLaplace(MAKERS[name](9.0), privacy_of(delta))
        x = points(9.0, mechanism.beta)
        for reach in (0.0, math.inf):
            bound = mechanism.query.smooth_bound(x, mechanism.beta, "exponential", reach)
            found = hockey_stick(
                mechanism.query.value(x), bound / mechanism.eta, x, RATE, math.inf
            ).max()
            assert found > 100 * delta

    def test_a_bound_that_does_not_reach_as_far_as_the_guarantee(self):
        """Linear growth, but of the local slope only: far chords are steeper than it says."""
        mechanism = ApproximateLaplace(
            MAKERS["smoothstep"](600.0), privacy_of(1e-3), calibration="paper"
        )
        x = points(600.0, mechanism.beta)
        bound = mechanism.query.smooth_bound(x, mechanism.beta, "linear", 0.0)
        value = mechanism.query.value(x)
        found = hockey_stick(value, bound / mechanism.eta, x, RATE, math.inf).max()
        assert worst(mechanism, math.inf) <= 1e-3 < found


@pytest.mark.deep(keep=3)
@pytest.mark.parametrize(
    ("name", "size"),
    [("linear", 0.8), ("linear", 90.0), ("smoothstep", 0.8), ("smoothstep", 90.0), ("kernel", 9.0)],
)
def test_moments_and_density(oracles, name, size):
    """Scale B/η with B by brute force over chords and points; density of mass 1, mean f."""
    mechanism = ApproximateLaplace(MAKERS[name](size), privacy_of(1e-4), calibration="paper")
    x = [0.0, 0.3 * size, -0.5 * size, 0.7 * size, -3.0 * size, 7.0 * size]
    s = [abs(v) for v in x] if name == "kernel" else x
    lower = oracles.brute_force_bound(mechanism.query, s, mechanism.beta, "linear", math.inf)
    scale = np.sqrt(mechanism.variance(x) / 2) * mechanism.eta
    assert np.all(scale >= lower * (1 - 1e-12))
    # The kernel's bound is a table of cells on which the slope varies by up to half a percent.
    assert np.all(scale <= lower * (1.006 if name == "kernel" else 1.0002))
    assert mechanism.unbiased
    for point in x[:4]:
        f, unit = float(mechanism.mean(point)), math.sqrt(float(mechanism.variance(point)) / 2)
        marks = [f - 45 * unit, f - 5 * unit, f, f + 5 * unit, f + 45 * unit]
        for power, expected in ((0, 1.0), (1, f), (2, f * f + 2 * unit * unit)):

            def weighted(y: Array, power: int = power, point: float = point) -> Array:
                return np.asarray(np.exp(mechanism.log_density(y, point)) * y**power)

            assert oracles.gauss(weighted, marks) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def linear_bound(oracles: Any, query: Any, s: Any, beta: Any) -> Any:
    """B at reach ∞ and linear growth, a second time: over the maximizer and the point itself."""
    width, z = oracles.exact(query.width), abs(s)
    if query.profile.name == "linear":
        d = max(z - width / 2, mp.mpf(0))
        return max(1 / (d + width), 1 / (width * (1 + beta * d)))

    def candidate(c: Any) -> Any:
        return oracles.smoothstep_chord(width, c) / (1 + beta * abs(z - c))

    low, high = mp.mpf(0), z
    ratio = (mp.sqrt(5) - 1) / 2
    for _ in range(400):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if candidate(a) > candidate(b) else (a, high)
    return max(candidate((low + high) / 2), candidate(z))


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("name", ["linear", "smoothstep"])
def test_release_is_the_rounded_ideal_output(oracles, fixed_bits, name):
    rng = random.Random(23)
    tried = 0
    for size in (0.8, 9.0, 600.0):
        for delta, reach in ((1e-6, math.inf), (0.3, math.inf)):
            query = MAKERS[name](size)
            mechanism = ApproximateLaplace(query, privacy_of(delta, reach), calibration="paper")
            for x in (0.0, 0.25 * size, -0.5 * size, 0.9 * size, 30 * size):
                value = rng.getrandbits(2048) >> rng.choice([0, 0, 3, 40])
                released = mechanism.release(x, fixed_bits(value, 2048))
                with mp.workdps(150):
                    # β and η are exact fractions; the doubles say which.
                    beta, eta = (oracles.exact(q) for q in (mechanism._beta, mechanism._eta))
                    assert round_down(mechanism._beta) == mechanism.beta
                    assert round_down(mechanism._eta) == mechanism.eta
                    z = oracles.quantile(oracles.STANDARD_LAPLACE, value, 2048)
                    s = oracles.signed_distance(query, x)
                    y = oracles.value(query, s) + linear_bound(oracles, query, s, beta) / eta * z
                    assert released == oracles.round_to_grid(y, mechanism.step)
                tried += 1
    assert tried == 30


def test_default_beta_of_the_paper_s_is_within_a_third_of_the_best_scale_everywhere():
    """B ∝ 1/(1 + βd) for narrow bands: the scale against that of the best β for each distance."""
    for delta in (1e-9, 0.5):
        cost = max(1.0, math.log(1 / delta))
        narrow = ApproximateLaplace(MAKERS["linear"](0.1), privacy_of(delta), calibration="paper")
        share = narrow.beta * cost / RATE
        shares = np.linspace(1e-4, 1 - 1e-4, 4001)
        losses = []
        for c in np.geomspace(1e-3, 1e5, 60):  # distance in units of cost/rate
            scales = 1 / ((1 + c * shares) * (1 - shares))
            losses.append(1 / ((1 + c * share) * (1 - share)) / scales.min())
        assert max(losses) <= 4 / 3 * (1 + 1e-3)
        assert max(losses) >= 4 / 3 * (1 - 1e-3)


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("delta", [1e-300, 1e-12, 0.01, 0.3678, 0.3679, 0.5, 0.999])
@pytest.mark.parametrize("reach", [1e-30, 1.0, 1e30, math.inf])
def test_eta_is_rounded_down(delta, reach):
    """The paper's η ≤ ε − βc in exact arithmetic, no less by 1e-12; the exact one is no smaller."""
    query, privacy = MAKERS["linear"](9.0), privacy_of(delta, reach)
    mechanism = ApproximateLaplace(query, privacy, calibration="paper")
    with mp.workdps(60):
        beta, eta = mp.mpf(mechanism.beta), mp.mpf(mechanism.eta)
        largest = mp.mpf(0.9) / mp.mpf(3.6) - beta * max(-mp.log(mp.mpf(delta)), 1)
        assert eta <= largest * (1 + mp.mpf(2) ** -50)
        assert eta >= largest - RATE * mp.mpf(10) ** -12
    exact = ApproximateLaplace(query, privacy, beta=mechanism.beta)
    assert mechanism.eta * (1 - 1e-15) <= exact.eta < RATE


def bump(u: Any, ops: Any) -> Any:
    return ops.maximum(1 - u * u, ops.constant(0))


@pytest.mark.deep
@pytest.mark.parametrize("delta", [1e-6, 0.3])
def test_a_formula_of_ones_own(delta):
    """Its bound is certified, and so is the guarantee."""
    query = Linear(FormulaProfile(bump, scale=9.0), direction=1.0)
    mechanism = ApproximateLaplace(query, privacy_of(delta))
    x = points(9.0, mechanism.beta)
    scale = np.sqrt(mechanism.variance(x) / 2)
    value = np.maximum(1 - (x / 9) ** 2, 0)
    assert hockey_stick(value, scale, x, RATE, math.inf).max() <= delta
    # Control: as if the slope were a hundredth of what it is.
    assert hockey_stick(value, scale / 100, x, RATE, math.inf).max() > delta


def test_a_ray_needs_no_more_noise_than_a_line(monkeypatch):
    """Far from the centre. Control: pairs on both sides of it, which are farther apart."""

    def eta(query: Any, delta: float) -> float:
        table = TabulatedProfile((100.0, 101.0), (0.0, 1.0), (1.0, 1.0))
        return ApproximateLaplace(query(table), GeoPrivacy(1.0, per=0.1, delta=delta)).eta

    def radial(table: TabulatedProfile) -> Radial:
        return Radial(table, 0.0)

    assert eta(radial, 1e-6) == pytest.approx(eta(lambda table: Linear(table, 1.0), 1e-6), rel=0.01)
    monkeypatch.setattr(TabulatedProfile, "band", property(lambda self: (-101.0, 101.0)))
    assert eta(radial, 1.1e-6) < 0.9 * eta(lambda table: Linear(table, 1.0), 1e-6)


STATED = (
    (1e-12, 0.85),
    (1e-6, 0.9),
    (1e-3, 0.9),
    (0.01, 0.9),
    (0.1, 0.88),
    (0.3, 0.79),
    (0.9, 0.75),
)


def test_corners_cost_little(monkeypatch):
    """Near pairs decide. Control: as bounded all at once to 2^-8 of where f varies."""
    ramps = TabulatedProfile((0.0, 1.0, 2.0, 3.0), (0.0, 1.0, 1.0, 2.5), (1, 1, 0, 0, 1.5, 1.5))

    def eta(delta: float) -> float:
        return ApproximateLaplace(Linear(ramps, 1.0), GeoPrivacy(1.0, per=1.0, delta=delta)).eta

    assert eta(1e-6) > 0.94
    # What MATH §3 states for the default β, of a minimum of at most ε.
    assert all(eta(delta) >= least for delta, least in STATED)
    assert eta(0.3) < 0.8
    monkeypatch.setattr(search, "_NEAR", (2.0**-8,))
    assert eta(1.01e-6) < 0.9


def test_values_far_from_0_differ_by_no_more_than_the_search_allows():
    """As fractions and as doubles. Control: what it allows for the range alone."""
    at, values = (0.0, 1.0, 2.0), (1e12, 1e12 + 1, 1e12 + 3)
    table = TabulatedProfile(at, values, (0.0,) * 4)
    s = np.random.default_rng(1).uniform(0.0, 1.0, 300)
    exact = [(3 - 2 * Fraction(t)) * Fraction(t) ** 2 for t in s.tolist()]
    rises = (table.value(s) - values[0]).tolist()
    pairs = zip(rises, exact, strict=True)
    worst = max(abs(float(Fraction(rise) - true)) for rise, true in pairs)
    assert worst <= search._unsure(table)
    assert worst > search._unsure(TabulatedProfile(at, (0.0, 1.0, 3.0), (0.0,) * 4))


def test_bad_input_is_refused_by_name():
    query, most = MAKERS["linear"](9.0), RATE / math.log(1e3)
    with pytest.raises(ParameterError, match=r"privacy\.delta .*SmoothMechanism"):
        ApproximateLaplace(query, GeoPrivacy(1.0, per=1.0))
    for beta in (math.nan, 0, True, RATE, most * 4):
        with pytest.raises(ParameterError, match="beta"):
            ApproximateLaplace(query, privacy_of(1e-3, reach=5.0), beta=beta)
    for beta in (most, most * (1 + 1e-9), most * (1 - 1e-12)):
        with pytest.raises(ParameterError, match="beta"):
            ApproximateLaplace(query, privacy_of(1e-3), beta=beta, calibration="paper")
