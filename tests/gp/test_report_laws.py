"""Test laws of reports from cells against brute force on meshes dense where profiles bend."""

import math
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from scipy import optimize

from geoveil.analyst.labelled_estimate import bounded_noise_variance
from geoveil.gp import (
    ApproximateLaplace,
    Cap,
    DebiasedLaplace,
    FormulaProfile,
    GaussianKernel,
    GeoPrivacy,
    Linear,
    LipschitzMechanism,
    PlanarLaplace,
    Radial,
    RandomizedResponse,
    SmoothMechanism,
    TabulatedProfile,
    Threshold,
    report_laws,
)
from geoveil.gp.arithmetic import FLOAT
from geoveil.gp.errors import ContradictionError
from geoveil.gp.limits import Limits
from geoveil.gp.privacy import LocalPrivacy
from geoveil.gp.queries.profiles import Profile

EDGES = (11_600.0, 47_150.0, 100_525.0, 191_950.0, 243_725.0, 609_350.0)
RATES = (0.10, 0.12, 0.22, 0.24, 0.32, 0.35, 0.37)
WIDE = 1_000.0
BRACKETS = TabulatedProfile(
    at=tuple(end for edge in EDGES for end in (edge - WIDE / 2, edge + WIDE / 2)),
    values=tuple(rate for pair in pairwise(RATES) for rate in pair),
    slopes=(0.0,) * 22,
)


def random_table(rng, most=24):
    """Pieces of lengths over five orders, without corners."""
    count = int(rng.integers(2, most))
    at = np.append(0.0, np.cumsum(10.0 ** rng.uniform(-3, 2, count)))
    values = rng.uniform(0, 1, count + 1)
    slopes = np.append(0.0, np.append(rng.normal(size=count - 1), 0.0))
    slopes *= np.ptp(values) / np.diff(at).mean()
    both = np.stack([slopes[:-1], slopes[1:]], axis=1).ravel()
    return TabulatedProfile(tuple(at.tolist()), tuple(values.tolist()), tuple(both.tolist()))


def random_formula(rng):
    """A wide peak and a narrow one, each of its own place, height and width."""
    (c, d), v, w = rng.uniform(-3, 3, 2), rng.uniform(0.5, 2), 10.0 ** rng.uniform(-2.5, -0.5)
    height = rng.uniform(0.2, 1) * rng.choice([-1.0, 1.0])

    def formula(u, ops):
        x, y = (u - c) / v, (u - d) / w
        return ops.exp(-(x * x)) + height * ops.exp(-(y * y))

    return FormulaProfile(formula, scale=1.0, extent=16.0)


def fine(profile, *lengths):
    """Many places, dense around all ends of pieces at each of some lengths."""
    ends = np.asarray(profile.breakpoints)
    if isinstance(profile, FormulaProfile):
        ends = profile.panels(1.0)[::4]
    near = np.concatenate([[0.0], np.geomspace(1e-3, 30, 60)])
    near = near if len(ends) < 99 else near[:1]
    around = [
        (ends[:, None] + sign * length * near).ravel() for length in lengths for sign in (1, -1)
    ]
    inside = [np.linspace(a, b, 60 if len(ends) < 99 else 8) for a, b in pairwise(ends)]
    return np.unique(np.concatenate([*around, *inside, np.linspace(ends[0], ends[-1], 2_001)]))


def on_a_mesh(mechanism):
    """Return what was taken for the largest variance: that at 201 places."""
    low, high = mechanism.query.breakpoints[0], mechanism.query.breakpoints[-1]
    return mechanism.moments(np.linspace(2 * low - high, 2 * high - low, 201))[1].max()


def narrow_peak(u, ops):
    return ops.exp(-(u * u) * 1e6)


@pytest.mark.parametrize("per", [500.0, 1_000.0, 20_000.0])
@pytest.mark.parametrize("kind", [DebiasedLaplace, SmoothMechanism])
def test_the_noise_of_tax_brackets_is_bounded(kind, per):
    """Control: 201 places find less than half of it where the noise is narrow."""
    mechanism = kind(Linear(BRACKETS, 1.0), GeoPrivacy(1.0, per=per))
    s = fine(BRACKETS, per, WIDE)
    value, noise = mechanism.moments(s)
    largest = noise.max()
    assert largest <= mechanism.largest_variance <= 1.05 * largest
    assert per > 1_000 or on_a_mesh(mechanism) < largest / 2
    # All people where it is largest.
    at = int(np.argmax(noise))
    (low, high), mean = BRACKETS.bounds, value[at]
    excess = noise[at] + (mean - low) * (mean - high)
    limits = Limits(getattr(mechanism, "range", (-np.inf, np.inf)), BRACKETS.bounds)
    found = bounded_noise_variance(
        mechanism, 10**12, (mean - 1e-7, mean + 1e-7), excess, limits, 0.95
    )
    assert found.low <= largest * (1 + 1e-9)
    assert largest * (1 - 1e-9) <= found.high <= 1.05 * largest


@pytest.mark.parametrize("kind", [DebiasedLaplace, SmoothMechanism])
def test_a_peak_of_a_thousandth_is_seen(kind):
    profile = FormulaProfile(narrow_peak, scale=1.0, extent=1.0)
    mechanism = kind(Linear(profile, 1.0), GeoPrivacy(1.0, per=1e-4))
    largest = mechanism.moments(np.linspace(-0.01, 0.01, 20_001))[1].max()
    assert largest <= mechanism.largest_variance <= 1.05 * largest


def check(mechanism, s, rng):
    """The variance, the third moment and the jumps of people on a mesh are within the bounds."""
    value, noise = mechanism.moments(s)
    assert noise.max() <= mechanism.largest_variance * (1 + 1e-9)
    assert mechanism.largest_variance <= 1.05 * noise.max()
    for _ in range(3):
        chosen, share = rng.integers(len(s), size=4), rng.dirichlet([0.5] * 4)
        mean, truth = share @ value[chosen], share @ noise[chosen]
        low, high = mechanism.query.profile.bounds
        excess = truth + share @ ((value[chosen] - low) * (value[chosen] - high))
        wide = 1e-6 * (high - low)
        found = bounded_noise_variance(
            mechanism,
            10**12,
            (mean - wide, mean + wide),
            excess,
            Limits(getattr(mechanism, "range", (-np.inf, np.inf)), (low, high)),
            0.95,
        )
        slack = 1e-9 * noise.max()
        assert found.low - slack <= truth <= found.high + slack


@pytest.mark.deep(keep=0, rest=0)
@pytest.mark.parametrize("seed", range(20))
def test_random_profiles_keep_their_bounds(seed):
    """180 tables and 20 formulas, each through two mechanisms. Control: 201 places miss half."""
    rng = np.random.default_rng(seed)
    missed = 0
    for k in range(10):
        profile = random_formula(rng) if k == 0 else random_table(rng)
        per = float(profile.length_scale * 10.0 ** rng.uniform(-1.5, 1.5))
        query, privacy = Linear(profile, 1.0), GeoPrivacy(1.0, per=per)
        s = fine(profile, per, profile.length_scale)
        reach = float(rng.choice([0.0, per, np.inf]))
        growth = str(rng.choice(["exponential", "linear"]))
        for mechanism in (
            DebiasedLaplace(query, privacy),
            SmoothMechanism(query, privacy, reach=reach, growth=growth),
        ):
            check(mechanism, s, rng)
            missed += on_a_mesh(mechanism) < mechanism.largest_variance / 2
    assert missed > 0


@pytest.mark.parametrize("narrow", [1e-3, 0.1])
def test_variances_of_long_tables_are_those_of_sums_over_the_noise(narrow):
    """Noise a millionth of the table wide, and people beside the ends of pieces."""
    profile = random_table(np.random.default_rng(3))
    b = narrow * profile.length_scale
    mechanism = DebiasedLaplace(Linear(profile, 1.0), GeoPrivacy(1.0, per=b))
    ends = np.asarray(profile.breakpoints)
    people = np.concatenate([ends, ends + b, ends - 5 * b, (ends[1:] + ends[:-1]) / 2])
    away = np.geomspace(1e-5, 50, 2_000)
    for s, noise in zip(people, mechanism.variance(people), strict=True):
        v = np.concatenate([s + b * away, s - b * away, [s], ends])
        v = np.unique(v[np.abs(v - s) <= 50 * b])
        between = np.stack([v[:-1], v[1:]])
        middle = between.mean(axis=0)
        chance = np.abs(np.diff(below_noise((between - s) / b), axis=0))[0]
        g = profile.debiased(middle, b)
        mean = chance @ g / chance.sum()
        spread = chance @ np.square(g - mean) / chance.sum()
        assert noise == pytest.approx(spread, rel=1e-3, abs=1e-6 * mechanism.largest_variance)


@pytest.mark.parametrize("kind", [DebiasedLaplace, SmoothMechanism])
def test_laws_end_where_distances_do(kind):
    """Within a cap everybody has noise. Control: without one nobody far away has any."""
    privacy, step = GeoPrivacy(1.0, per=40.0), Threshold(0.0, 20.0, "smoothstep")
    mechanism = kind(Cap(0.4, 1.3).on(step, privacy.exact_rate), privacy)
    value, noise = mechanism.moments(np.linspace(-16.0, 52.0, 4_001))
    law = mechanism.law()
    for stated, true in (
        (law.points[:, 0], value),
        (law.points[:, 1], noise + value**2),
        (law.variances, noise),
    ):
        span = np.ptp(true)
        for beyond in (true.min() - stated.min(), stated.max() - true.max()):
            assert -1e-6 * span <= beyond <= 0.05 * span
    assert kind(step, privacy).law().variances.min() < noise.min() / 2


def test_other_mechanisms_keep_their_bounds_too():
    rng = np.random.default_rng(7)
    query = Threshold(0.0, 20.0, "smoothstep")
    for mechanism in (
        ApproximateLaplace(query, GeoPrivacy(1.0, per=4.0, delta=1e-6, reach=30.0)),
        RandomizedResponse(query, LocalPrivacy(1.0)),
        DebiasedLaplace(
            Radial(
                TabulatedProfile((0.0, 3.0, 9.0), (1.0, 0.4, 0.0), (0.0, -0.2, -0.2, 0.0)),
                (0.0, 0.0),
            ),
            GeoPrivacy(1.0, per=2.0),
        ),
    ):
        s = fine(mechanism.query.profile, 4.0, 1.0)
        check(mechanism, s[s >= 0] if isinstance(mechanism.query, Radial) else s, rng)


@pytest.mark.deep(keep=0, rest=0)
def test_third_moments_and_jumps_hold_between_places():
    """60 mixtures of people at places of which none is an edge of a cell."""
    rng = np.random.default_rng(5)
    for profile, scale in (
        (BRACKETS, 700.0),
        (random_table(rng), 1.0),
        (random_table(rng, 5), 30.0),
    ):
        mechanism = DebiasedLaplace(Linear(profile, 1.0), GeoPrivacy(1.0, per=scale))
        moments, b = mechanism.report_moments(), mechanism.scale
        ends = np.asarray(profile.breakpoints)
        for _ in range(60):
            people, share = rng.uniform(ends[0] - b, ends[-1] + b, 3), rng.dirichlet([0.5] * 3)
            raw = share @ exact(profile, people, b)
            mean = raw[0]
            square, cube = raw[1] - mean**2, raw[2] - 3 * mean * raw[1] + 2 * mean**3
            low, high = moments.third(mean, square)
            size = 1e-7 * np.abs(moments.points[:, 2]).max()
            assert low - size <= cube <= high + size
            low, high = moments.jumps(mean)
            assert low * square - size <= cube <= high * square + size


def below_noise(x):
    """The probability that standard Laplace noise is below x."""
    return np.where(x < 0, np.exp(np.minimum(x, 0)) / 2, 1 - np.exp(-np.maximum(x, 0)) / 2)


def exact(profile, s, b):
    """E g, E g² and E g³ by sums over a mesh in each piece, weighted with the noise."""
    ends = np.asarray(profile.breakpoints)
    edges = np.concatenate(
        [np.linspace(low, high, 2_001)[:-1] for low, high in pairwise(ends)] + [ends[-1:]]
    )
    v = (edges[1:] + edges[:-1]) / 2

    chance = np.diff(below_noise((edges - s[:, None]) / b), axis=1)
    g = np.asarray(profile.debiased(v, b))
    first, last = np.asarray(profile.debiased(np.array([ends[0] - 1, ends[-1] + 1]), b))
    outside = below_noise((ends[0] - s) / b), below_noise((s - ends[-1]) / b)
    return np.stack(
        [chance @ g**k + outside[0] * first**k + outside[1] * last**k for k in (1, 2, 3)], axis=1
    )


def test_what_nobody_can_have_answered_is_told():
    mechanism = DebiasedLaplace(Threshold(0.0, 12.0, "smoothstep"), GeoPrivacy(1.0, per=4.0))
    limits = Limits(mechanism.range, (0.0, 1.0))
    with pytest.raises(ContradictionError, match="no people"):
        bounded_noise_variance(mechanism, 10**6, (1.2, 1.3), 0.0, limits, 0.95)
    with pytest.raises(ContradictionError, match="no people"):
        bounded_noise_variance(mechanism, 10**6, (0.49, 0.51), -0.2, limits, 0.95)


@pytest.mark.deep
def test_what_nobody_can_have_answered_is_told_where_noise_is_wide(monkeypatch):
    """Noise of 2 to 20 times the width of a bell. Control: the quicker solver alone."""
    bell = FormulaProfile(lambda u, ops: ops.exp(-8 * u * u), scale=0.03, extent=3.0)
    query = Linear(bell, 1.0)

    def accepted() -> int:
        count = 0
        for per in np.geomspace(0.05, 0.5, 60):
            mechanism = DebiasedLaplace(query, GeoPrivacy(1.0, per=float(per)))
            excess = 0.9 * mechanism.largest_variance
            limits = Limits(mechanism.range, bell.bounds)
            try:
                bounded_noise_variance(mechanism, 10**6, (1.2, 1.3), excess, limits, 0.95)
            except ContradictionError:
                continue
            count += 1
        return count

    assert accepted() == 0
    quick = partial(optimize.linprog, method="highs")
    monkeypatch.setattr(
        optimize, "linprog", lambda *arguments, method, **others: quick(*arguments, **others)
    )
    bounded_noise_variance.cache_clear()
    assert accepted() > 0
    bounded_noise_variance.cache_clear()


@pytest.mark.parametrize("growth", ["exponential", "linear"])
@pytest.mark.parametrize("reach", [0.0, 3.0, np.inf])
def test_noise_is_least_inside_of_a_plateau_between_two_bands(growth, reach):
    """The bands are unequally steep. Control: neither end of the plateau has as little noise."""
    table = TabulatedProfile((0.0, 1.0, 90.0, 93.0), (0.0, 1.0, 1.0, 0.0), (0.0,) * 6)
    mechanism = SmoothMechanism(
        Linear(table, 1.0), GeoPrivacy(1.0, per=3.0), reach=reach, growth=growth
    )
    edges, s = np.array([2.0, 20.0, 88.0]), np.linspace(2.0, 88.0, 4_001)
    ((least, most),) = mechanism._scale_range(edges)
    scale = np.sqrt(mechanism.moments(s)[1] / mechanism.noise.variance)
    cell = (s > 20.0).astype(int)
    assert (scale >= least[cell] * (1 - 1e-9)).all()
    assert (scale <= most[cell] * (1 + 1e-9)).all()
    assert scale[cell == 1].min() < 0.9 * min(scale[cell == 1][[0, -1]])


@pytest.mark.parametrize("unit", [1e-40, 1e9, 1e40])
def test_the_same_noise_for_everyone_has_a_law_in_any_unit(unit):
    """Oracle: the law in units of the answer."""
    laws = []
    for size in (1.0, unit):
        table = TabulatedProfile((0.0, 1.0, 3.0), (0.0, size, -size), (0.0,) * 4)
        laws.append(LipschitzMechanism(Linear(table, 1.0), GeoPrivacy(1.0, per=1.0)).law())
    np.testing.assert_allclose(
        laws[1].points / unit ** np.arange(1, 4), laws[0].points, rtol=1e-9, atol=1e-9
    )


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("growth", ["exponential", "linear"])
@pytest.mark.parametrize("reach", [0.0, 2.0, np.inf])
def test_noise_is_bounded_on_every_cell_of_every_kind_of_profile(growth, reach):
    """Dense search. Control: where it is level, the rate at which it could fall says far less."""
    step, bell = ((0.0, 1.0), (0.0, 1.0), (1.0, 1.0)), GaussianKernel(0.0, 1.0)
    queries = [Threshold(0.0, 1.0), Threshold(0.0, 1.0, "smoothstep"), bell]
    queries.append(Linear(TabulatedProfile(*step), 1.0))
    for query in queries:
        mechanism = SmoothMechanism(query, GeoPrivacy(1.0, per=0.05), growth=growth, reach=reach)
        turns, near = mechanism._turns(), np.random.default_rng(77).uniform(-4, 4, 12)
        edges = np.unique(np.concatenate([query.profile.cells(0.0), turns, near]))
        ((least, most),) = mechanism._scale_range(edges)
        for low, high, a, b in zip(edges[:-1], edges[1:], least, most, strict=True):
            scale = mechanism._scale(np.linspace(low, high, 400), FLOAT)
            assert a * (1 - 1e-9) <= np.min(scale)
            assert np.max(scale) <= b * (1 + 1e-9)
    level = np.array([0.1, 0.9])  # the table, and its band
    ((least, most),) = mechanism._scale_range(level)
    assert least >= 0.999 * most
    assert math.exp(-0.8 * float(mechanism._beta) / 2) < 0.5


def test_the_greatest_estimated_variance_of_points_is_found():
    """A spike at the edge of a table, and a peak of a thousandth in a formula."""
    spike = TabulatedProfile((0.0, 1e-3, 50.0), (0.0, 1.0, 0.3), (0.0, 0.0, 0.0, 0.0))
    peak = FormulaProfile(narrow_peak, scale=1.0, extent=1.0)
    for profile, b in ((spike, 5.0), (peak, 1e-3), (peak, 1.0), (BRACKETS, 500.0)):
        found = PlanarLaplace(GeoPrivacy(1.0, per=b), 1).estimator(
            Linear(profile, 1.0), debias=True
        )
        s = np.concatenate(
            [fine(profile, b, profile.length_scale), np.linspace(-0.01, 0.01, 9_999)]
        )
        largest = profile.estimated_variance(s, b).max()
        assert largest * (1 - 1e-9) <= found.variance_limits[1] <= 1.05 * largest


def test_a_search_that_ends_before_cells_are_tight_is_wider_and_still_holds(monkeypatch):
    """Cells that were not cut at all enclose all the same."""
    whole = DebiasedLaplace(Linear(BRACKETS, 1.0), GeoPrivacy(1.0, per=700.0)).law()
    monkeypatch.setattr(report_laws, "_ROUNDS", 0)
    early = report_laws.law_of_profile.__wrapped__(BRACKETS, 700.0, 700.0)
    assert early.variances[1].max() >= whole.variances[1].max() * (1 - 1e-9)
    assert len(early.points) < len(whole.points)


@pytest.mark.parametrize("shift", [1_500.0, -1_700.0])
def test_a_table_far_from_zero_has_the_law_that_it_has_near_it(shift, monkeypatch):
    """A peak a millionth of the noise wide. Control: where it is, E y³ is off by over 1 %."""
    at = np.array([0.0, 1.0, 1 + 2.0**-20, 1 + 2.0**-19, 2.0])

    def largest(moved):
        table = TabulatedProfile(tuple(at + moved), (0.0, 0.0, 1.0, 0.0, 0.0), (0.0,) * 8)
        law = report_laws.law_of_profile.__wrapped__(table, 1.0, 1.0, (moved - 3.0, moved + 3.0))
        return np.append(np.abs(law.points).max(axis=0), law.variances.max())

    near = largest(0.0)
    np.testing.assert_allclose(largest(shift), near, rtol=1e-8)
    monkeypatch.setattr(TabulatedProfile, "near_zero", Profile.near_zero)
    assert abs(largest(shift)[2] / near[2] - 1) > 0.01
