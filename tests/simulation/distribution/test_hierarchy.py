"""Test frequency oracles and hierarchical histograms: published variances, least squares."""

import math

import numpy as np
import pytest

from geoveil.gp import LocalPrivacy
from geoveil.simulation.distribution.local import (
    bar_shares,
    consistent,
    local_hashing,
    tree_shares,
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
