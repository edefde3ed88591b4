"""Estimators of distributions: hierarchy, local means, square wave."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from geoveil.gp import LocalPrivacy
from geoveil.simulation.distribution.cells import Cells
from geoveil.simulation.distribution.local import (
    HYBRID_FROM,
    SquareWave,
    bar_shares,
    consistent,
    hybrid,
    local_hashing,
    piecewise,
    piecewise_variance,
    tree_shares,
    two_points,
    unary_encoding,
)

Z = 4.9
"""α = 10⁻⁶ for each comparison."""
ORACLES = (unary_encoding, local_hashing)


def variance(oracle, share, n):
    """The variance of the estimated share of a candidate, given the n people."""
    p, q = oracle.p, oracle.q
    return (q * (1 - q) + share * (p - q) * (1 - p - q)) / (n * (p - q) ** 2)


@pytest.mark.parametrize("odds", [2.0, 3.0, 20.0])
@pytest.mark.parametrize("make", ORACLES)
def test_variance_of_a_rare_candidate_is_the_published_one(make, odds):
    """4e^ε/(n(e^ε − 1)²), for both where e^ε + 1 is whole [WBLJ17]."""
    oracle = make(LocalPrivacy(math.log(odds)))
    assert variance(oracle, 0.0, 1_000) == pytest.approx(4 * odds / (1_000 * (odds - 1) ** 2))


def real_unary_encoding(held, candidates, epsilon, rng):
    """Every bit is kept with 1/2 if it is 1, and set with 1/(e^ε + 1) if it is 0."""
    ones = held[:, None] == np.arange(candidates)
    draws = rng.random(ones.shape)
    return np.where(ones, draws < 0.5, draws < 1 / (math.exp(epsilon) + 1)).sum(axis=0)


def real_local_hashing(held, candidates, epsilon, rng):
    """Everybody draws a function into g buckets, and answers its bucket by random response."""
    buckets = round(math.exp(epsilon)) + 1
    functions = rng.integers(buckets, size=(len(held), candidates))
    own = functions[np.arange(len(held)), held]
    kept = rng.random(len(held)) < math.exp(epsilon) / (math.exp(epsilon) + buckets - 1)
    other = (own + rng.integers(1, buckets, size=len(held))) % buckets
    answers = np.where(kept, own, other)
    return (functions == answers[:, None]).sum(axis=0)


@pytest.mark.parametrize(
    ("make", "real"),
    [(ORACLES[0], real_unary_encoding), (ORACLES[1], real_local_hashing)],
    ids=["unary", "hashing"],
)
def test_binomials_are_what_the_protocol_itself_gives(make, real):
    """1,500 campaigns of 200 people each way: means, variances, covariances; 1.3 × is refused."""
    epsilon, held = 1.2, np.repeat([0, 1, 2, 3], [120, 60, 20, 0])
    oracle, rng, rounds = make(LocalPrivacy(epsilon)), np.random.default_rng(11), 1_500
    counts = np.bincount(held, minlength=4)
    supports = np.array([real(held, 4, epsilon, rng) for _ in range(rounds)])
    found = (supports / len(held) - oracle.q) / (oracle.p - oracle.q)
    drawn = np.array([oracle.simulate(counts, rng) for _ in range(rounds)])
    shares = counts / len(held)
    expected = variance(oracle, shares, len(held))
    for estimates in (found, drawn):
        assert np.all(abs(estimates.mean(axis=0) - shares) < Z * np.sqrt(expected / rounds))
        ratio = estimates.var(axis=0) / expected
        assert np.all(abs(ratio - 1) < Z * math.sqrt(2 / rounds))
        assert not np.any(abs(ratio / 1.3 - 1) < Z * math.sqrt(2 / rounds) / 1.3)
        correlations = np.corrcoef(estimates.T)[np.triu_indices(4, 1)]
        assert np.all(abs(correlations) < Z / math.sqrt(rounds))


def solved(shares, fan):
    """Least squares on all nodes, given that the leaves add to 1."""
    leaves = len(shares[-1])
    rows = np.concatenate([np.kron(np.eye(len(s)), np.ones(leaves // len(s))) for s in shares])
    free = np.vstack([np.eye(leaves - 1), -np.ones(leaves - 1)])  # leaves = last + free·z
    last = np.append(np.zeros(leaves - 1), 1.0)
    z = np.linalg.lstsq(rows @ free, np.concatenate(shares) - rows @ last, rcond=None)[0]
    return last + free @ z


@pytest.mark.parametrize(("fan", "levels"), [(2, 4), (3, 3), (4, 2), (5, 1)])
def test_consistency_is_least_squares(fan, levels):
    rng = np.random.default_rng(2)
    shares = [rng.normal(fan**-k, 0.1, fan**k) for k in range(1, levels + 1)]
    found = consistent(shares)
    assert found == pytest.approx(solved(shares, fan), abs=1e-12)
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    assert not np.allclose(found, shares[-1], atol=1e-3)  # control: the leaves alone


@pytest.mark.deep
def test_ranges_keep_the_published_variance():
    """At most 2(B − 1) nodes of each of log_B(r) + 1 levels make r leaves, at h·V each [CKS19].

    2,000 campaigns of 4,000 people over 81 leaves; what the leaves alone give exceeds the bound.
    """
    fan, levels, people, rounds, epsilon = 3, 4, 4_000, 2_000, 1.0
    oracle, rng = unary_encoding(LocalPrivacy(epsilon)), np.random.default_rng(6)
    counts = rng.multinomial(people, np.full(81, 1 / 81))
    found = np.array([tree_shares(oracle, counts, rng, fan) for _ in range(rounds)])
    for leaves in (9, 40, 60):
        noise = found[:, :leaves].sum(axis=1) - counts[:leaves].sum() / people
        published = 4 * math.exp(epsilon) / (people * math.expm1(epsilon) ** 2)
        bound = 2 * (fan - 1) * published * levels * (math.log(leaves, fan) + 1)
        assert noise.var() < bound
        assert abs(noise.mean()) < Z * noise.std() / math.sqrt(rounds)
    alone = np.array([oracle.simulate(counts, rng) for _ in range(300)])
    assert alone[:, :60].sum(axis=1).var() > found[:, :60].sum(axis=1).var()


@pytest.mark.parametrize("epsilon", [1.0, 5.0])
def test_bars_are_asked_by_whichever_encoding_is_better(epsilon):
    """32 bars are unbiased within 5 errors, and a rare bar's variance is right within a fifth.

    The control: k-ary response at ε = 1, and unary encoding at ε = 5, vary more than a fifth more.
    """
    rng, n, odds = np.random.default_rng(8), 20_000, math.exp(epsilon)
    counts = np.bincount([0, 31], [12_000, 8_000], 32).astype(int)
    told = np.array([bar_shares(counts, LocalPrivacy(epsilon), rng) for _ in range(600)])
    k_ary, unary = (30 + odds) / (odds - 1) ** 2, 4 * odds / (odds - 1) ** 2
    variances = told[:, 1:31].var(axis=0).mean() * n
    assert variances == pytest.approx(min(k_ary, unary), rel=0.2)
    assert max(k_ary, unary) > 1.2 * variances
    errors = told.std(axis=0) / math.sqrt(600)
    assert (np.abs(told.mean(axis=0) - counts / n) < 5 * errors).all()


N = 200_000
"""α = 10⁻⁶ for each comparison."""
VALUES = (-1.0, -0.4, 0.0, 0.7, 1.0)
EPSILONS = (0.3, 1.0, 3.0)


def published_variance(kind, t, epsilon):
    half, whole = math.exp(epsilon / 2), math.exp(epsilon)
    if kind is piecewise:  # [WXYZHSSY19]
        return t**2 / (half - 1) + (half + 3) / (3 * (half - 1) ** 2)
    two_point = ((whole + 1) / (whole - 1)) ** 2 - t**2  # [DJW18]
    if kind is two_points or epsilon <= HYBRID_FROM:
        return two_point
    # [WXYZHSSY19]: the same for every t
    return (half + 3) / (3 * half * (half - 1)) + (whole + 1) ** 2 / (half * (whole - 1) ** 2)


@pytest.mark.parametrize("kind", [piecewise, two_points, hybrid])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_reports_have_the_mean_and_the_published_variance(kind, epsilon):
    privacy = LocalPrivacy(epsilon)
    rng = np.random.default_rng(17)
    for t in VALUES:
        published = published_variance(kind, t, epsilon)
        if kind is piecewise:
            assert piecewise_variance(t, privacy) == pytest.approx(published, rel=1e-9)
        reports = kind(np.full(N, t), privacy, rng)
        assert abs(reports.mean() - t) < Z * math.sqrt(published / N)
        squares = (reports - t) ** 2
        error = squares.std() / math.sqrt(N) + 1e-12
        assert abs(squares.mean() - published) < Z * error
        if kind is not two_points:  # the control, where squares vary
            assert abs(squares.mean() - 1.1 * published) > Z * error


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_piecewise_has_the_published_density(epsilon):
    """Exactly: the density of [WXYZHSSY19], by quadrature, and by drawing."""
    half = math.exp(epsilon / 2)
    most = (half + 1) / (half - 1)
    high = (math.exp(epsilon) - half) / (2 * half + 2)
    reports = piecewise(np.full(N, 0.3), LocalPrivacy(epsilon), np.random.default_rng(5))
    left = (most + 1) / 2 * 0.3 - (most - 1) / 2
    right = left + most - 1

    def density(y):
        return high if left <= y <= right else high * math.exp(-epsilon)

    ends = [-most, left, right, most]
    total = sum(quad(density, a + 1e-12, b - 1e-12)[0] for a, b in pairwise(ends))
    assert total == pytest.approx(1.0, abs=1e-6)
    assert np.all(np.abs(reports) <= most)
    for low, up in ((-most, left), (left, right), (right, most)):
        inside = quad(density, low + 1e-12, up - 1e-12)[0]
        seen = ((reports >= low) & (reports < up)).mean()
        assert abs(seen - inside) < Z * math.sqrt(inside * (1 - inside) / N) + 1e-9


def test_hybrid_is_never_worse_than_either_part():
    """[WXYZHSSY19]: in the worst case over t; and it changes at the ε where that holds."""
    for epsilon in np.linspace(0.1, 8.0, 80):
        found, one, other = (
            max(published_variance(kind, t, epsilon) for t in (0.0, 1.0))
            for kind in (hybrid, piecewise, two_points)
        )
        assert found <= min(one, other) * (1 + 1e-9)
    rng = np.random.default_rng(3)
    for epsilon, many in ((HYBRID_FROM - 1e-6, False), (HYBRID_FROM + 1e-6, True)):
        reports = hybrid(np.zeros(1_000), LocalPrivacy(epsilon), rng)
        assert (len(np.unique(reports)) > 100) is many
    assert pytest.approx(0.61, abs=0.005) == HYBRID_FROM


"""α = 10⁻⁶ for each comparison."""
WAVE_EPSILONS = (0.05, 0.5, 1.0, 3.0, 5.0)


def information(b, epsilon):
    """The bound that [LWLSS20] maximises: entropies of reports, uniform less given v."""
    p = math.exp(epsilon) / (2 * b * math.exp(epsilon) + 1)
    q = p / math.exp(epsilon)
    return math.log(2 * b + 1) + 2 * b * p * math.log(p) + q * math.log(q)


@pytest.mark.parametrize("epsilon", WAVE_EPSILONS)
def test_the_width_maximises_the_information(epsilon):
    found = minimize_scalar(
        lambda b: -information(b, epsilon), bounds=(1e-6, 2), options={"xatol": 1e-10}
    )
    assert SquareWave.of(LocalPrivacy(epsilon)).reach == pytest.approx(found.x, rel=1e-4)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-5, 0.99e-4, 1.01e-4, 50.0, 1e4])
def test_extreme_epsilon_keeps_its_densities(epsilon):
    wave = SquareWave.of(LocalPrivacy(epsilon))
    assert 0 < wave.reach <= 0.5
    assert 2 * wave.reach * wave.near + wave.far == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("v", [0.0, 0.3, 1.0])
def test_reports_follow_their_density(epsilon, v):
    """Shares of eight parts, and the variance by quadrature; a wave of 1.1 ε is refused."""
    wave = SquareWave.of(LocalPrivacy(epsilon))
    b = wave.reach
    reports = wave.simulate(np.full(N, v), np.random.default_rng(3))
    assert np.all((reports >= -b) & (reports <= 1 + b))

    def moment(power, of=wave):
        parts = [(-b, v - b, of.far), (v - b, v + b, of.near), (v + b, 1 + b, of.far)]
        return sum(h * quad(lambda y: y**power, low, high)[0] for low, high, h in parts)

    variance = moment(2) - moment(1) ** 2
    assert abs(reports.mean() - moment(1)) < Z * math.sqrt(variance / N)
    squares = (reports - moment(1)) ** 2
    assert abs(squares.mean() - variance) < Z * squares.std() / math.sqrt(N)
    inside = (np.abs(reports - v) < b).mean()
    error = Z * math.sqrt(2 * b * wave.near * (1 - 2 * b * wave.near) / N)
    assert abs(inside - 2 * b * wave.near) < error
    wrong = math.exp(1.1 * epsilon)
    assert abs(inside - 2 * b * wrong / (2 * b * wrong + 1)) > error


@pytest.mark.parametrize("epsilon", [0.5, 3.0, 12.0])
def test_transition_is_the_chance_from_cell_to_cell(epsilon):
    """By averaging over 4,000 points of a cell how much of the wave each outcome holds."""
    wave, cells = SquareWave.of(LocalPrivacy(epsilon)), 16
    b, found = wave.reach, wave.transition(cells)
    assert found.sum(axis=0) == pytest.approx(np.ones(cells), abs=1e-12)
    edges = Cells(-b, 1 + b, cells).edges
    for k in (0, 7, 15):
        v = (k + (np.arange(4_000) + 0.5) / 4_000) / cells
        low, high = edges[:-1, None], edges[1:, None]
        near = np.clip(np.minimum(high, v + b) - np.maximum(low, v - b), 0, None).mean(axis=1)
        expected = wave.far * (high - low)[:, 0] + (wave.near - wave.far) * near
        assert found[:, k] == pytest.approx(expected, abs=2e-5 * wave.near * b + 1e-6)


def test_distribution_of_many_reports_is_near_the_truth():
    """Half a million triangular numbers at ε = 2: within 0.01; the reports themselves are not."""
    rng = np.random.default_rng(8)
    values = rng.triangular(0.0, 0.3, 1.0, 500_000)
    wave = SquareWave.of(LocalPrivacy(2.0))
    reports = wave.simulate(values, rng)
    edges = Cells(0.0, 1.0, 64).edges
    truth = np.searchsorted(np.sort(values), edges) / len(values)
    found = np.append(0.0, np.cumsum(wave.distribution(reports, 64)))
    raw = np.searchsorted(np.sort(reports), edges) / len(reports)
    assert np.abs(found - truth).max() < 0.01 < np.abs(raw - truth).max()
