"""Test that the noise which laws state for people at hard places is attained."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta

from geoveil.analyst.labelled_estimate import _least, bounded_noise_variance
from geoveil.gp import (
    DebiasedLaplace,
    Disc,
    GeoPrivacy,
    Linear,
    Polygon,
    SmoothMechanism,
    TabulatedProfile,
    VectorSmoothMechanism,
    boxes,
    report_laws,
)
from geoveil.gp.limits import Limits
from geoveil.gp.mechanisms import additive, vector_bounds
from geoveil.gp.queries.capped import Cap
from geoveil.gp.report_laws import law_of_profile
from tests.gp.test_tight_laws import FAR, LINE

TURNED = np.array([[math.cos(0.6), math.sin(0.6)], [-math.sin(0.6), math.cos(0.6)]])


@pytest.mark.deep
def test_noise_on_the_ridge_of_a_wedge_is_attained(monkeypatch):
    """Everybody where a thin wedge at a slant is deepest.

    Few boxes do. Control: distances at the rate at which they may change.
    """
    privacy, rate = GeoPrivacy(1.0, per=700.0), Fraction(1, 1400)
    corners = np.array([(0.0, 0.0), (12_000.0, 100.0), (0.0, 200.0)]) @ TURNED
    wedge = Polygon([tuple(map(tuple, corners.tolist()))], width=180.0)
    place = tuple((np.array([0.0, 100.0]) @ TURNED).tolist())
    queries = [Cap(20.0, 1.0).on(wedge, rate), Disc(place, 50.0, 60.0)]
    mesh = np.meshgrid(np.linspace(0, 12_000, 3_001), np.linspace(0, 200, 201))
    x = np.stack(mesh, axis=-1).reshape(-1, 2) @ TURNED
    limits = Limits((-math.inf, math.inf), (0.0, 1.0))

    def stated() -> tuple[float, float, np.ndarray]:
        bounded_noise_variance.cache_clear()
        vector = VectorSmoothMechanism(queries, privacy)
        bounds = bounded_noise_variance(vector.answers[0], 10**6, (1.0, 1.0), 0.0, limits, 0.95)
        return bounds.low, bounds.high, vector.variance(x[wedge.value(x) == 1.0])[:, 0]

    monkeypatch.setattr(boxes, "_MOST", 2**10)
    low, high, people = stated()
    assert people.min() / 1.05 <= low <= people.min()
    assert people.max() <= high <= 1.05 * people.max()
    monkeypatch.setattr(vector_bounds, "_farthest", lambda *_: math.inf)
    assert stated()[0] < people.min() / 1.05


@pytest.mark.deep
def test_noise_where_hardly_anybody_answers_is_attained():
    """A mean of 1e-6 of a kernel: who is far from it has little noise, or answers a little more.

    Oracle: a linear programme over 1,100 places. Control: parts of the values that are as short at
    the ends as those of a sine, which is what laws of vectors once had.
    """
    vector = VectorSmoothMechanism(LINE, GeoPrivacy(1.0, per=0.1), reach=math.inf)
    answer, mean = vector.answers[2], (0.5e-6, 1.5e-6)
    x = np.concatenate([np.linspace(-4, 8, 901), np.linspace(7.8, 8.8, 201), FAR, -FAR])
    f, v = np.asarray(LINE[2].value(x)), vector.variance(x)[:, 2]
    rows, ends = np.stack([f, -f]), np.array([mean[1], -mean[0]])
    attained = -_least(-v, rows, ends)
    limits = Limits((-math.inf, math.inf), (0.0, 1.0))
    stated = bounded_noise_variance(answer, 100, mean, 0.0, limits, 0.95).high
    assert attained <= stated <= 1.05 * attained
    parts = np.square(np.sin(np.linspace(0, math.pi / 2, 257)))
    part = np.clip(np.searchsorted(parts, f, side="right") - 1, 0, 255)
    most = np.zeros(256)
    np.maximum.at(most, part, v)
    rows = np.concatenate([[parts[:-1], -parts[:-1]], [parts[1:], -parts[1:]]], axis=1)
    assert -_least(-np.tile(most, 2), rows, ends) > 1.2 * attained


@pytest.mark.deep
def test_noise_follows_from_the_mean_and_the_variance_of_debiased_answers(monkeypatch):
    """Everybody at one place, at 2 of 12 by chance: their noise is the variance of their answers.

    Without that, the law says it within 5 % of the largest. Control: cells that are cut only where
    they stick out, and not next to their ends.
    """
    rng = np.random.default_rng(2)
    at = np.append(0.0, np.cumsum(10 ** rng.uniform(0, 1.5, 60)))
    values = np.arange(61) % 2 + rng.normal(size=61) / 10
    table = TabulatedProfile(tuple(at), tuple(values), (0.0,) * 120)
    privacy = GeoPrivacy(1.0, per=0.3 * table.scale)
    s = rng.uniform(at[0], at[-1], 12)[[2, 6]]

    def widest() -> float:
        law_of_profile.cache_clear()
        mechanism, beyond = DebiasedLaplace(Linear(table, 1.0), privacy), []
        (mean, second, _), limits = mechanism.law().points.T, Limits(mechanism.range, table.bounds)
        for f, v in zip(*mechanism.moments(s), strict=True):
            around, excess = (f - 1e-6, f + 1e-6), v + np.prod(f - np.array(table.bounds))
            stated = bounded_noise_variance(mechanism, 10**12, around, excess, limits, 0.95)
            assert v <= stated.high <= 1.05 * v
            rows, ends = [mean, -mean, second, -second], [f, -f, v + f * f, -v - f * f]
            high = -_least(-mechanism.law().variances[1], np.array(rows), np.array(ends) + 1e-6)
            beyond.append((high - v) / mechanism.largest_variance)
        return max(beyond)

    assert 0 <= widest() <= 0.05
    for parts in ("_NOISES", "_WIDTHS"):
        monkeypatch.setattr(report_laws, parts, 1e-9)
    monkeypatch.setattr(report_laws, "beside_ends", lambda edges, _: edges)
    assert widest() > 0.1
    law_of_profile.cache_clear()


@pytest.mark.deep
@pytest.mark.parametrize("seed", [1, 2])
def test_some_people_have_all_noise_that_others_may_have(seed, monkeypatch):
    """Everybody is at one knot of a table, two of them where the mean is greatest and least.

    Where it is not, others who answer as they do have over ten times their noise. Oracle: a linear
    programme over people. Control: wide cells, with noise that nobody has.
    """
    rng = np.random.default_rng(seed)
    at = np.append(0.0, np.cumsum(10.0 ** rng.uniform(-1, 1, 12)))
    table = TabulatedProfile(tuple(at), tuple(rng.uniform(0, 1, 13)), (0.0,) * 24)
    scale, n = 0.02 * table.length_scale, 10**6
    mechanism = DebiasedLaplace(Linear(table, 1.0), GeoPrivacy(1.0, per=scale))
    away = scale * np.append(0.0, np.geomspace(1e-4, 30, 60))
    near = [(at[:, None] + way * away).ravel() for way in (1, -1)]
    people = np.concatenate([np.linspace(at[0], at[-1], 4_001), *near])
    f, v = mechanism.moments(people)
    (low, high), limits = table.bounds, Limits(mechanism.range, table.bounds)
    square, least = v + (f - low) * (f - high), -((high - low) ** 2) / 4
    length = max((y - low) * (y - high) for y in limits.reports) - least
    answers = []
    means, noises = mechanism.moments(at)
    for knot in (8, int(np.argmax(means)), int(np.argmin(means))):
        mean, noise = float(means[knot]), float(noises[knot])
        around, excess = (mean - 1e-6, mean + 1e-6), noise + (mean - low) * (mean - high)
        count = n * (excess - least) / length
        first = least + length * beta.ppf(0.025, count, n - count + 1)
        last = least + length * beta.ppf(0.975, count + 1, n - count)
        ends = np.array([around[1], -around[0], last, -first])
        most = -_least(-v, np.array([f, -f, square, -square]), ends)
        answers.append((around, excess, noise, min(most, noise + last - excess)))
    _, _, noise, attained = answers[0]
    assert attained > 10 * noise

    def widest() -> float:
        law_of_profile.cache_clear()
        bounded_noise_variance.cache_clear()
        beyond = [
            bounded_noise_variance(mechanism, n, around, excess, limits, 0.95).high / attained
            for around, excess, _, attained in answers
        ]
        assert min(beyond) >= 1 - 1e-4
        return max(beyond)

    assert widest() <= 1.05
    for parts in ("_NOISES", "_WIDTHS", "_CLOSER"):
        monkeypatch.setattr(report_laws, parts, 1e-9)
    assert widest() > 1.05
    law_of_profile.cache_clear()
    bounded_noise_variance.cache_clear()


def test_the_least_noise_beside_a_corner_is_stated(monkeypatch):
    """Bands a hundred thousand times as wide as noise falls: people next to the least answer.

    Control: cells that are as long beside a corner as elsewhere.
    """
    at, values = (0.0, 1.0, 1.000001, 2.0), (0.6, 0.0, 0.4, 0.5)
    slopes = np.repeat(np.diff(values) / np.diff(at), 2)
    query = Linear(TabulatedProfile(at, values, tuple(slopes)), 1.0)
    limits, width = Limits((-math.inf, math.inf), (0.0, 0.6)), 1e-6

    def stated() -> tuple[float, float]:
        bounded_noise_variance.cache_clear()
        mechanism = SmoothMechanism(query, GeoPrivacy(1.0, per=1e-6))
        _, (most, least) = mechanism.moments(1 - np.array([0.0, width / 0.6]))
        low = bounded_noise_variance(mechanism, 10**8, (0.0, width), 0.0, limits, 0.95).low
        return low / most, least / most

    low, least = stated()
    assert least > 0.5
    assert least - 0.05 <= low <= least
    monkeypatch.setattr(additive, "beside_ends", lambda edges, _: edges)
    assert stated()[0] < least - 0.1
    bounded_noise_variance.cache_clear()
