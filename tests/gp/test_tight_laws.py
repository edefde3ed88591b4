"""Test that laws of answers of vectors and polygons are nearly tight.

Oracle: dense search over places, far ones too. In 100 directions by chance (seeds are fixed) and in
80 between axes no person is outside the hull, and it is farther out by at most 5 % of how far
people are apart there.
Control: a law of any noise at any value, or of any distance in the bounding box, is 20 % wider.
"""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from geoveil.analyst.labelled_estimate import bounded_noise_variance
from geoveil.gp import (
    DebiasedLaplace,
    Disc,
    FormulaProfile,
    GaussianKernel,
    GeoPrivacy,
    Linear,
    LocalPrivacy,
    Polygon,
    Radial,
    RandomizedResponse,
    Range,
    ReportMoments,
    SmoothMechanism,
    TabulatedProfile,
    Threshold,
    TwoWayThreshold,
    VectorSmoothMechanism,
    boxes,
    report_laws,
)
from geoveil.gp._convolution import laplace_expectation
from geoveil.gp.limits import Limits
from geoveil.gp.mechanisms import vector_bounds
from geoveil.gp.price import Basis
from geoveil.gp.queries.capped import Cap
from geoveil.gp.report_laws import law_of_profile, law_of_symmetric_noise
from geoveil.gp.smooth.certified import LinearBound

PRIVACY = GeoPrivacy(1.0, per=0.5)
LINE = (Threshold(0.0, 1.0), Range(2.0, 4.0, 0.5, "smoothstep"), GaussianKernel(3.0, 1.0))
PLANE = (
    TwoWayThreshold((0.0, -1.0), 1.0, "smoothstep"),
    Disc((1.0, 0.0), 1.0, 0.7),
    GaussianKernel((-1.0, 1.0), 1.0),
)
KERNEL = (GaussianKernel((0.5, -0.5), 1.0),)
CAPPED = (
    Cap(4.0, 4.0).on(Disc((1.0, 0.0), 1.5, 1.0), Fraction(1)),
    GaussianKernel((-3.0, 1.0), 1.0),
)
FAR = np.geomspace(1.0, 1e7, 80)


def hull_less_people(law: ReportMoments, f: np.ndarray, v: np.ndarray) -> tuple[float, float]:
    """Return how far people are outside at most, and how much farther out the hull is at most."""
    return hull_less_moments(law, np.stack([f, f * f + v, f**3 + 3 * f * v], axis=1), v)


def hull_less_moments(law: ReportMoments, raw: np.ndarray, v: np.ndarray) -> tuple[float, float]:
    """Return the same for people with the moments (E y, E y², E y³), (n, 3), and variances."""
    rng = np.random.default_rng(171)
    unit, apart = np.abs(raw).max(axis=0), np.ptp(raw / np.abs(raw).max(axis=0), axis=0)
    outside = loose = -math.inf
    axes = [way for way in product((-1.0, 0.0, 1.0), repeat=4) if any(way)]
    for way in np.concatenate([rng.normal(size=(100, 4)), axes]):
        people = raw / unit @ (way[:3] / apart) + way[3] * v / v.max()
        noise = law.variances[1 if way[3] > 0 else 0]
        hull = (law.points / unit @ (way[:3] / apart) + way[3] * noise / v.max()).max()
        outside = max(outside, people.max() - hull)
        loose = max(loose, (hull - people.max()) / max(np.ptp(people), 0.1 * np.linalg.norm(way)))
    return float(outside), float(loose)


def places(plane: bool) -> np.ndarray:
    rng = np.random.default_rng(172)
    if not plane:
        return np.unique(np.concatenate([np.linspace(-10, 14, 6_001), FAR, -FAR]))
    bands, ways = np.linspace(-0.6, 0.6, 25), np.array([[1, 1], [-1, -1], [1, -1], [-1, 1]])
    long, across = (mesh.ravel() for mesh in np.meshgrid(FAR, bands))
    near = np.concatenate([rng.normal(size=(8_000, 2)) * s for s in (6.0, 2.0)])
    lines = [np.stack([long, across - 1], 1), np.stack([across, long], 1)]
    return np.concatenate([near, *lines, (FAR[:, None, None] * ways).reshape(-1, 2)])


@pytest.mark.deep
@pytest.mark.parametrize(
    "queries", [LINE, PLANE, KERNEL, CAPPED], ids=["line", "plane", "kernel", "capped"]
)
@pytest.mark.parametrize("reach", [0.0, math.inf])
def test_the_law_of_an_answer_of_a_vector_is_attained(queries, reach):
    vector = VectorSmoothMechanism(queries, PRIVACY, reach=reach)
    x, widest = places(queries is not LINE), 0.0
    v = vector.variance(x)[:, 0]
    for query, answer in zip(queries, vector.answers, strict=True):
        law, f = answer.law(), np.asarray(query.value(x))
        assert law is not None
        outside, loose = hull_less_people(law, f, v)
        assert outside <= 1e-9
        assert loose <= 0.05
        ends = np.linspace(0, 1, 33)
        noise = np.tile([[0.0], [answer.largest_variance]], 32)
        control = law_of_symmetric_noise(np.stack([ends[:-1], ends[1:]]), noise)
        widest = max(widest, hull_less_people(control, f, v)[1])
    assert widest > 0.2


CALM = GeoPrivacy(1.0, per=4.0)
CLIPPED = {
    "calm": ([Cap(1.0, 1.0).on(query, CALM.exact_rate) for query in LINE], CALM),
    "uneven": (
        [
            Cap(1.0, 6.0).on(Threshold(0.0, 1.0), Fraction(2)),
            Threshold(1.0, 2.0, "smoothstep"),
            Cap(4.0, 1.0).on(Threshold(2.0, 1.0), Fraction(2)),
        ],
        PRIVACY,
    ),
    "bands": (
        [
            Cap(1.0, 3.0).on(PLANE[0], Fraction(2)),
            TwoWayThreshold((1.0, 1.0), 1.0),
            Cap(3.0, 1.0).on(TwoWayThreshold((-1.0, 0.5), 0.8), Fraction(2)),
        ],
        PRIVACY,
    ),
    "level": (
        [
            Cap(5.5, 5.5).on(query, Fraction(10))
            for query in (PLANE[0], Disc((3.0, 2.0), 2.5, 1.0), Disc((-3.0, 2.0), 2.0, 1.0))
        ],
        GeoPrivacy(1.0, per=0.1),
    ),
    "concentric": (
        [
            Cap(3.9, 3.9).on(Disc((0.0, 0.0), 4.0, 0.2, "smoothstep"), Fraction(100, 3)),
            Cap(5.4, 4.4).on(Disc((0.0, 0.0), 4.1, 0.2, "smoothstep"), Fraction(100, 3)),
        ],
        GeoPrivacy(1.0, per=0.03),
    ),
}


def by_rate(share, low, high):
    """Bounds of B from the middle of a range, at the rate at which it may change."""
    low, high = np.nan_to_num([low, high], posinf=1e9, neginf=-1e9)
    at, rise = share._at((low + high) / 2), np.minimum(share.beta * (high - low) / 2, 700.0)
    return np.stack([at * np.exp(-rise), np.minimum(at * np.exp(rise), share.steepest)])


@pytest.mark.deep
@pytest.mark.parametrize(
    ("name", "owner", "broken", "value"),
    [
        ("calm", boxes, "_APART", 1e9),  # as close as to the greatest noise alone
        ("uneven", vector_bounds, "_AWAY", 0.0),  # nobody far away
        ("bands", vector_bounds, "_AWAY", 0.0),
        ("level", vector_bounds._Share, "enclosed", by_rate),
        ("concentric", vector_bounds, "_shape", id),  # noise of each circle alone
    ],
)
def test_the_law_of_an_answer_with_capped_others_is_attained(
    name, owner, broken, value, monkeypatch
):
    """Noise that differs by little, or where nothing is left but caps. Control: without each."""
    queries, privacy = CLIPPED[name]
    monkeypatch.setattr(boxes, "_MOST", 2**12)  # so that all boxes count

    def looked_at() -> tuple[float, float]:
        vector = VectorSmoothMechanism(queries, privacy)
        x = places(vector.dimension == 2)
        v = vector.variance(x)[:, 0]
        pairs = zip(queries, vector.answers, strict=True)
        found = [hull_less_people(answer.law(), query.value(x), v) for query, answer in pairs]
        outside, loose = map(max, zip(*found, strict=True))
        return outside, loose

    outside, loose = looked_at()
    assert outside <= 1e-9
    assert loose <= 0.05
    monkeypatch.setattr(owner, broken, value)
    outside, loose = looked_at()
    assert outside > 0.01 or loose > 0.05


STAR = ((-7.02, 1.0), (-9.45, 0.82), (-7.98, 0.64), (-3.8, -0.57), (3.43, -1.37))


@pytest.mark.deep
def test_the_law_of_a_capped_polygon_is_attained(monkeypatch):
    """A cap far beyond a narrow band. Control: distances at the rate at which they
    may change, and as near as two bands."""
    privacy = GeoPrivacy(1.0, per=1.0)
    star = Polygon([STAR], width=0.23, profile="smoothstep")
    queries = [Cap(17.7, 18.2).on(star, Fraction(1, 2)), Disc((-4.6, 6.76), 0.086, 0.143)]
    mesh = np.meshgrid(np.linspace(-10, 4, 701), np.linspace(-2, 2, 401))
    x = np.concatenate([np.stack(mesh, axis=-1).reshape(-1, 2), places(plane=True)])

    def looked_at() -> tuple[float, float]:
        vector = VectorSmoothMechanism(queries, privacy)
        law = vector.answers[0].law()
        return hull_less_people(law, queries[0].value(x), vector.variance(x)[:, 0])

    outside, loose = looked_at()
    assert outside <= 1e-9
    assert loose <= 0.05
    monkeypatch.setattr(vector_bounds, "_NEAR", (2.0, 2.0))
    monkeypatch.setattr(vector_bounds, "_farthest", lambda *_: math.inf)
    assert looked_at()[1] > 0.08


@pytest.mark.deep
def test_the_law_of_balls_in_a_row_is_attained(monkeypatch):
    """In three dimensions. Control: places in all of them, and few boxes."""
    way, aside = np.array([2.0, -1.0, 2.0]) / 3, np.array([1.0, 2.0, 0.0]) / math.sqrt(5)
    privacy, cap = GeoPrivacy(1.0, per=1.0), Cap(3.0, 3.0)
    balls = [Disc(tuple(1.5 * k * way), 0.8, 1.0) for k in range(3)]
    queries = [cap.on(ball, Fraction(1, 3)) for ball in balls]
    meshes = [np.meshgrid(np.linspace(-r, r, 600), np.linspace(0, r, 300)) for r in (9, 200)]
    x = np.concatenate([np.stack(mesh, axis=-1).reshape(-1, 2) for mesh in meshes])
    x = x @ np.stack([way, aside])

    def looked_at() -> tuple[float, float, Basis]:
        bounded_noise_variance.cache_clear()
        answer = VectorSmoothMechanism(queries, privacy).answers[1]
        limits = Limits((-math.inf, math.inf), (0.0, 1.0))
        basis = bounded_noise_variance(answer, 100, (0.5, 0.6), 0.0, limits, 0.95).basis
        law, v = answer.law(), np.asarray(answer.variance(x))
        return (*hull_less_people(law, queries[1].value(x), v), basis)

    outside, loose, basis = looked_at()
    assert outside <= 1e-9
    assert loose <= 0.05
    assert basis is Basis.BOUNDED
    monkeypatch.setattr(vector_bounds, "_along_centers", lambda queries: (queries, False))
    monkeypatch.setattr(boxes, "_MOST", 2**10)
    outside, loose, basis = looked_at()
    assert outside <= 1e-9
    assert loose > 0.05
    assert basis is Basis.LOOSE  # the search ended early, and says so
    bounded_noise_variance.cache_clear()


def test_the_law_of_a_capped_formula_is_that_of_its_ends(monkeypatch):
    """A cap beyond the extent, from where φ keeps its value. Control: the formula goes on."""
    privacy = GeoPrivacy(1.0, per=0.1)
    wave = FormulaProfile(lambda u, ops: u - u * u * u, scale=1.0, extent=0.5)
    query = Cap(8.0, 8.0).on(Linear(wave, 1.0), privacy.exact_rate)
    x = np.linspace(-1, 1, 20_001)
    f = np.asarray(query.value(x))

    def looked_at() -> tuple[float, float]:
        mechanism = SmoothMechanism(query, privacy)
        return hull_less_people(mechanism.law(), f, np.asarray(mechanism.variance(x)))

    outside, loose = looked_at()
    assert outside <= 1e-9
    assert loose <= 0.05
    monkeypatch.setattr(FormulaProfile, "_inside", lambda self, u, ops: u)
    outside, loose = looked_at()
    assert outside > 0.002
    assert loose > 1


@pytest.mark.parametrize(
    "make",
    [
        lambda q: RandomizedResponse(q, LocalPrivacy(1.0)),
        lambda q: SmoothMechanism(q, PRIVACY),
    ],
    ids=["response", "smooth"],
)
def test_the_law_of_a_polygon_ends_where_nobody_is_farther_inside(make):
    """A thin triangle at a slant: the middle of its circle is not as far in as its box is wide."""
    corners = np.array([(0.0, 0.0), (7.0, 6.0), (6.0, 7.0)])
    sides = np.linalg.norm(np.roll(corners, -1, axis=0) - corners, axis=1)
    radius = 13 / sides.sum()  # twice the area over the perimeter, as of any triangle
    middle = np.roll(sides, -1) @ corners / sides.sum()
    query = Polygon([tuple(map(tuple, corners.tolist()))], width=3.0, profile="smoothstep")
    assert abs(float(query.signed_distance(middle[None])[0]) - radius) < 1e-9
    assert radius <= query.attained_range[1] <= 1.01 * radius
    assert float(query.signed_range[1]) > 5 * radius
    mechanism = make(query)
    away = np.concatenate([np.linspace(0, 30, 2_001), FAR * 30])
    x = middle + away[:, None] * np.array([-1.0, -1.0])
    f, v = np.asarray(query.value(x)), np.asarray(mechanism.variance(x))
    law = mechanism.law()
    if isinstance(mechanism, RandomizedResponse):
        assert law.points[:, 0].max() <= f.max() + 0.01
        assert law.points[:, 0].max() >= f.max()
    else:
        outside, loose = hull_less_people(law, f, v)
        assert outside <= 1e-9
        assert loose <= 0.05


@pytest.mark.deep
def test_the_law_of_a_table_with_a_needle_is_attained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that is level over long cells. Control: bounds by the rate at which it could fall."""
    at = (0.0, 80.0, 317.0, 950.0, 1_738.0, 10_630.0, 10_771.0, 10_771.1)
    table = TabulatedProfile(at, (-33, -44.8, 40.2, -1.5, -13.7, -31.5, 47.6, 11.8), (0.0,) * 14)

    def looked_at() -> tuple[float, float]:
        mechanism = SmoothMechanism(
            Linear(table, 1.0), GeoPrivacy(1.0, per=0.0125), growth="linear", reach=math.inf
        )
        s = np.interp(np.arange(0, 7, 1 / 400), range(8), at)
        away = np.geomspace(1e-5, 1e6, 120)
        s = np.unique(np.concatenate([s, *(k + way * away for k in at for way in (-1, 1))]))
        law = mechanism.law()
        assert law is not None
        return hull_less_people(law, np.asarray(table.value(s)), mechanism.moments(s)[1])

    outside, loose = looked_at()
    assert outside <= 1e-9
    assert loose <= 0.05
    monkeypatch.setattr(LinearBound, "least", property(lambda b: (b._at, 0 * b._inverse[1:])))
    assert looked_at()[1] > 3 * loose


def loosest_first(edges, loose, most):
    """Each of the loosest cells in as many parts as it asks for, up to 8."""
    more = (most - len(loose)) // (1 + (len(loose) < 700))
    parts, order = np.clip(np.ceil(np.sqrt(loose)), 1, 8).astype(int), np.argsort(-loose)
    parts[order[np.cumsum(parts[order] - 1) > more]] = 1
    ends = zip(edges[:-1], edges[1:], parts, strict=True)
    return np.append(np.concatenate([np.linspace(*end, endpoint=False) for end in ends]), edges[-1])


@pytest.mark.deep
def test_the_law_of_a_formula_of_many_folds_is_attained(monkeypatch):
    """More cells are too long than there may be parts. Control: the loosest are cut first."""

    def folded(u, ops):
        for at in (2.88, 2.08, 0.21, 0.42, 1.86, 2.54):
            u = ops.absolute(u - at)
        return ops.exp(-u)

    query = Linear(FormulaProfile(folded, scale=1.0, extent=32.0), 1.0)
    folds, away = np.array(query.breakpoints), np.geomspace(1e-5, 1.0, 200)
    s = [np.linspace(-33, 33, 20_001), *(folds + sign * x for x in away for sign in (1, -1))]
    s = np.unique(np.concatenate([*s, folds, 32 + FAR, -32 - FAR]))

    def looked_at() -> tuple[float, float, bool]:
        mechanism = SmoothMechanism(query, GeoPrivacy(1.0, per=0.01), growth="linear")
        law, v = mechanism.law(), mechanism.variance(s)
        return (*hull_less_people(law, np.asarray(query.value(s)), v), law.loose)

    outside, loose, _ = looked_at()
    assert outside <= 1e-9
    assert loose <= 0.05
    monkeypatch.setattr(report_laws, "_cut", loosest_first)
    _, loose, told = looked_at()
    assert loose > 0.06
    assert told  # that the search ended early


@pytest.mark.deep
@pytest.mark.parametrize(
    ("seed", "pieces", "ray", "noise"),
    [(1, 240, True, 10.0), (2, 220, False, 0.1), (3, 60, False, 0.5)],
)
def test_the_law_of_a_debiased_zigzag_is_attained(seed, pieces, ray, noise, monkeypatch):
    """Hundreds of knots, at gaps from 1 to 30. Control: cells that are not cut."""
    rng = np.random.default_rng(seed)
    at = np.append(0.0, np.cumsum(10 ** rng.uniform(0, 1.5, pieces)))
    values = np.arange(pieces + 1) % 2 + rng.normal(size=pieces + 1) / 10
    table = TabulatedProfile(tuple(at), tuple(values), (0.0,) * (2 * pieces), ray=ray)
    query = Radial(table, (0.0, 0.0)) if ray else Linear(table, 1.0)
    scale = noise * table.length_scale
    mechanism = DebiasedLaplace(query, GeoPrivacy(1.0, per=scale))
    s = np.unique(np.interp(np.arange(0, pieces, 1 / 12), range(pieces + 1), at))
    first, last = table.limits
    cubes = laplace_expectation(
        lambda v: np.asarray(table.debiased(v, scale)) ** 3,
        s,
        scale,
        panels=table.cells(scale),
        limits=(first**3, last**3),
    )
    f, v = mechanism.moments(s)
    raw = np.stack([f, f * f + v, cubes], axis=1)

    def looked_at() -> tuple[float, float]:
        law_of_profile.cache_clear()
        return hull_less_moments(mechanism.law(), raw, v)

    outside, loose = looked_at()
    assert outside <= 1e-7
    assert loose <= 0.05
    monkeypatch.setattr(report_laws, "_ROUNDS", 0)
    assert looked_at()[1] > max(0.05, 2 * loose)
    law_of_profile.cache_clear()


@pytest.mark.parametrize("length", [1.0, 3.0])
def test_the_law_of_answers_about_a_range_is_attained(length):
    """By people who release and by people whose points answer; sums of Gauss and Legendre.
    Control: of people at all distances, also farther inside than anybody is, it is 20 % wider."""
    query = Range(0.0, length, length, "smoothstep")
    mechanism = DebiasedLaplace(query, GeoPrivacy(1.0, per=1.0))
    x = np.append(length / 2, length / 2 - np.geomspace(1e-3, 70, 60))
    ends = np.unique([*x, *np.arange(-length / 2, 2 * length, length / 8), *np.arange(2, 40)])
    places, shares = np.polynomial.legendre.leggauss(12)
    half = np.diff(ends)[:, None] / 2
    v = ((ends[1:] + ends[:-1])[:, None] / 2 + half * places).ravel()
    weights = np.exp(-np.abs(x[:, None] - v)) * (half * shares / 2).ravel()
    g = query.profile.debiased(np.stack([v, np.minimum(v, length - v)], axis=1), 1.0)
    raw = np.stack([(weights @ g**k).ravel() for k in (1, 2, 3)], axis=1)
    for law in (mechanism.law(), mechanism.report_moments()):
        outside, loose = hull_less_moments(law, raw, raw[:, 1] - raw[:, 0] ** 2)
        assert outside <= 1e-9
        assert loose <= 0.05
    everywhere = law_of_profile(query.profile, 1.0, 1.0).joined(mechanism.law())
    assert hull_less_moments(everywhere, raw, raw[:, 1] - raw[:, 0] ** 2)[1] > 0.2
