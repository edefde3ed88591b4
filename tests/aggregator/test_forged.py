"""Test the bound on forged reports against laws summed cell by cell."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from geoveil.aggregator.domain import forged
from geoveil.aggregator.domain.forged import forged_share, report_bins
from geoveil.gp import (
    DebiasedLaplace,
    ForgedShare,
    GaussianKernel,
    GeoPrivacy,
    ParameterError,
    Range,
    SmoothMechanism,
    Threshold,
)

PRIVACY = GeoPrivacy(1.0, per=8_000.0)
THRESHOLD = Threshold(100_000, 16_000, "smoothstep")
QUERIES = {
    "threshold": THRESHOLD,
    "wide": Threshold(100_000, 48_000, "smoothstep"),
    "narrow": Threshold(100_000, 8_000, "smoothstep"),
    "range": Range(80_000, 120_000, 16_000, "smoothstep"),
    "short range": Range(92_000, 108_100, 16_000, "smoothstep"),
}
CROWDS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "log-normal": lambda rng, n: np.exp(rng.normal(11.4, 0.9, n)),
    "all at the question": lambda rng, n: np.full(n, 100_000.0),
    "all at its edge": lambda rng, n: np.full(n, 108_000.0),
    "all where g is greatest": lambda rng, n: np.full(n, 107_999.0),
    "one in ten far": lambda rng, n: np.where(rng.random(n) < 0.1, 1e6, 93_000.0),
}


def counted(mechanism, integers):
    ends = report_bins(mechanism)
    return np.bincount(np.searchsorted(ends, integers), minlength=len(ends) + 1)


def reports(mechanism, x, rng):
    return np.rint(mechanism.simulate(x, rng) / mechanism.step).astype(np.int64)


def from_points(mechanism, x, rng):
    """Reports made of perturbed values, where noise may cross all of a range."""
    z = x + mechanism.scale * rng.laplace(size=len(x))
    query = mechanism.query
    return np.rint(mechanism._g(query.signed_distance(z)) / mechanism.step).astype(np.int64)


def laws(mechanism, ends, x):
    """Chance of each bin at each value: g of each of many small cells of noise."""
    query, scale = mechanism.query, mechanism.scale
    z = np.linspace(-30 * scale, 30 * scale, 600_001) + 100_000
    middle = (z[1:] + z[:-1]) / 2
    integers = np.rint(mechanism._g(query.signed_distance(middle)) / mechanism.step)
    bins = np.searchsorted(ends, integers)
    found = []
    for value in x:
        u = (z - value) / scale
        tail = np.exp(-np.abs(u)) / 2
        mass = np.where(u[:-1] > 0, tail[:-1] - tail[1:], tail[1:] - tail[:-1])
        straddling = (u[:-1] < 0) & (u[1:] > 0)
        mass[straddling] = 1 - tail[:-1][straddling] - tail[1:][straddling]
        found.append(np.bincount(bins, mass, minlength=len(ends) + 1))
    return np.array(found).T


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("name", QUERIES)
def test_the_ratio_is_the_largest_of_any_value(name):
    mechanism = DebiasedLaplace(QUERIES[name], PRIVACY)
    ends, query = report_bins(mechanism), mechanism.query
    length = query.high - query.low if isinstance(query, Range) else None
    arguments = (query.profile, mechanism.privacy.exact_rate, mechanism.step, ends, length)
    suspects, others, ratios = forged._tests(*arguments)
    wide = suspects.sum(axis=1) + others.sum(axis=1) > 0
    chances = laws(mechanism, ends, np.linspace(40_000, 160_000, 121))
    seen = (suspects @ chances / (others @ chances)).max(axis=1)
    # Where a set is so rare that cells of 1e-4 noise scales miss it, they prove nothing.
    proven = wide & ((suspects @ chances).max(axis=1) > 1e-3)
    assert proven.sum() > 20
    assert (seen[proven] <= ratios[proven] * (1 + 2e-2)).all()
    if length is None:
        assert (ratios[proven] <= seen[proven] * 1.1).all()


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("draw", [reports, from_points])
def test_honest_campaigns_show_nothing(name, draw):
    """n = 1,000, 1 % by design; 300 campaigns: more than 12 have a chance below 1e-4 (α)."""
    mechanism, rng = DebiasedLaplace(QUERIES[name], PRIVACY), np.random.default_rng(7)
    alarms = 0
    for crowd in CROWDS.values():
        for _ in range(60):
            found = forged_share(
                mechanism, counted(mechanism, draw(mechanism, crowd(rng, 1_000), rng))
            )
            alarms += found.shows
    assert alarms <= 12


def test_a_ratio_that_is_too_small_rings(monkeypatch):
    mechanism, rng = DebiasedLaplace(THRESHOLD, PRIVACY), np.random.default_rng(8)
    genuine = forged._tests

    def halved(*arguments):
        suspects, others, ratios = genuine(*arguments)
        return suspects, others, ratios / 2

    monkeypatch.setattr(forged, "_tests", halved)
    x = np.full(20_000, 107_999.0)
    alarms = [
        forged_share(mechanism, counted(mechanism, reports(mechanism, x, rng))).shows
        for _ in range(20)
    ]
    assert sum(alarms) > 10


@pytest.mark.deep(keep=4)
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("crowd", CROWDS)
@pytest.mark.parametrize("end", [0, 1])
def test_a_twentieth_at_an_end_shows(name, crowd, end):
    """n = 1,000 of which 50 forged: shown in 100 of 100 campaigns, where 99 % are promised."""
    mechanism, rng = DebiasedLaplace(QUERIES[name], PRIVACY), np.random.default_rng(9)
    for _ in range(100):
        integers = reports(mechanism, CROWDS[crowd](rng, 1_000), rng)
        integers[:50] = mechanism.grid_range[end]
        found = forged_share(mechanism, counted(mechanism, integers))
        assert 0 < found.at_least <= 0.05


def test_half_forged_is_nearly_measured():
    """The campaign of docs/guarantees.md: 999 of 1,999 reports at the very end of the range."""
    mechanism, rng = DebiasedLaplace(THRESHOLD, PRIVACY), np.random.default_rng(10)
    integers = reports(mechanism, np.exp(rng.normal(11.4, 0.9, 1_999)), rng)
    integers[:999] = mechanism.grid_range[1]
    assert 0.42 < forged_share(mechanism, counted(mechanism, integers)).at_least <= 999 / 1_999


def test_kernels_show_forged_peaks_and_hide_forged_zeros():
    mechanism = DebiasedLaplace(
        GaussianKernel(center=(0.0, 0.0), bandwidth=1_000.0), GeoPrivacy(1.0, per=500.0)
    )
    rng = np.random.default_rng(11)
    x = rng.normal(0, 4_000, (1_000, 2))
    integers = reports(mechanism, x, rng)
    assert not forged_share(mechanism, counted(mechanism, integers)).shows
    integers[:50] = mechanism.grid_range[1]
    assert forged_share(mechanism, counted(mechanism, integers)).shows
    integers[:50] = 0  # what most honest people send: nobody can tell
    assert not forged_share(mechanism, counted(mechanism, integers)).shows


def test_noise_without_a_range_is_not_tested():
    mechanism = SmoothMechanism(THRESHOLD, PRIVACY)
    assert report_bins(mechanism) is None
    assert forged_share(mechanism, []) is None


def test_without_reports_nothing_shows():
    mechanism = DebiasedLaplace(THRESHOLD, PRIVACY)
    none = [0] * (len(report_bins(mechanism)) + 1)
    assert forged_share(mechanism, none) == ForgedShare(0.0, 0.99)


@pytest.mark.parametrize("counts", [[], [1], [-1] * 51, [[0] * 51]])
def test_counts_are_one_for_each_bin(counts):
    with pytest.raises(ParameterError, match="counts"):
        forged_share(DebiasedLaplace(THRESHOLD, PRIVACY), counts)


@pytest.mark.parametrize("confidence", [0.0, 1.0, math.nan, 2.0])
def test_confidence_is_a_probability(confidence):
    with pytest.raises(ParameterError, match="confidence"):
        forged_share(DebiasedLaplace(THRESHOLD, PRIVACY), [0] * 51, confidence)
