"""Test the joint guarantee of several queries, by brute force and by definition.

On a line the supremum over pairs of |log-ratio|/|x−x'| is the supremum over neighbours. Outputs are
placed where they count: f(x) + (B(x)/η)·z, every coordinate of z over many magnitudes.
"""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from geoveil.gp import (
    Disc,
    FormulaProfile,
    GaussianKernel,
    GeneralizedCauchy,
    GeoPrivacy,
    Laplace,
    LaplacePareto,
    Linear,
    LocalPrivacy,
    Noise,
    ParameterError,
    PowerLaw,
    Query,
    Range,
    SeededSource,
    SmoothMechanism,
    StudentT,
    Threshold,
    UnsupportedError,
)
from geoveil.gp.mechanisms.vector import VectorSmoothMechanism, best_vector_noise
from geoveil.gp.smooth.frontier import CALIBRATIONS, Frontier

Array = np.ndarray
PRIVACY = GeoPrivacy(epsilon=0.9, per=3.6)
RATE = 0.25
TOLERANCE = 1 + 1e-9
SETS: dict[str, Callable[[], list[Query]]] = {
    "one kernel twice": lambda: [GaussianKernel(0.0, 9.0), GaussianKernel(0.0, 9.0)],
    "kernel, hardly another": lambda: [GaussianKernel(0.0, 9.0), Threshold(0.0, 1e5)],
    "kernels side by side": lambda: [GaussianKernel(-6.0, 9.0), GaussianKernel(6.0, 4.0)],
    "kernel and ramp": lambda: [GaussianKernel(0.0, 9.0), Threshold(5.0, 9.0)],
    "ramps": lambda: [Threshold(-20.0, 6.0), Threshold(20.0, 9.0)],
    "steps": lambda: [Threshold(-2.0, 6.0, "smoothstep"), Threshold(8.0, 60.0, "smoothstep")],
    "ramps of one width": lambda: [Threshold(-20.0, 6.0), Threshold(20.0, 6.0)],
    "ramps that touch": lambda: [Threshold(-3.0, 6.0), Threshold(3.0, 6.0)],
    "ramp and range": lambda: [Threshold(0.0, 6.0), Range(-20.0, 20.0, 6.0)],
    "chain of ramps": lambda: [Threshold(0.0, 6.0), Threshold(4.0, 6.0), Threshold(8.0, 6.0)],
    "steps apart": lambda: [Threshold(-9.0, 6.0, "smoothstep"), Threshold(9.0, 9.0, "smoothstep")],
    "three": lambda: [Threshold(0.0, 9.0, "smoothstep"), GaussianKernel(3.0, 9.0), Threshold(0, 5)],
}
# Name → (noise, mβ/ε, calibration); None is the default.
CHOICES: dict[str, tuple[Noise | None, float | None, str]] = {
    "default": (None, None, "exact"),
    "small beta": (None, 0.01, "exact"),
    "large beta": (None, 0.45, "exact"),
    "student, exact": (StudentT(3), 0.2, "exact"),
    "student, paper": (StudentT(3), 0.2, "paper"),
    "cauchy, paper": (GeneralizedCauchy(4), 0.2, "paper"),
    "power-law": (PowerLaw(1.0, 0.3), 0.2, "exact"),
}


USED_UP = {"kernel, hardly another", "ramps of one width", "ramps that touch", "ramp and range"}
"""With 2 % less noise these are not private any more."""


@cache
def active_sets(queries: tuple[Query, ...]) -> set[tuple[int, ...]]:
    """The sets of queries that vary at one point, seen on a fine line."""
    if not all(isinstance(query, (Threshold, Range)) for query in queries):
        return {tuple(range(len(queries)))}
    x = np.linspace(-100.0, 100.0, 40_001) + 1e-7
    varies = [np.abs(q.signed_distance(x)) < q.profile.length_scale / 2 for q in queries]
    rows = np.unique(np.transpose(varies), axis=0)
    return {tuple(np.flatnonzero(row).tolist()) for row in rows if row.any()}


def joint(mechanism: VectorSmoothMechanism, bounds: Any) -> Any:
    """B from the B_j: the largest sum over an active set, or that over all."""
    queries = mechanism.queries
    sets = active_sets(queries)
    uneven = len({round(sum(queries[j].lipschitz for j in s), 9) for s in sets}) > 1
    if mechanism.calibration == "paper" or (mechanism.frontier is Frontier.CROSS and uneven):
        return sum(bounds)
    return max(sum(bounds[j] for j in s) for s in sets)


def made(queries: list[Query], choice: str, reach: float = 0.0) -> VectorSmoothMechanism:
    noise, share, calibration = CHOICES[choice]
    return VectorSmoothMechanism(
        queries,
        PRIVACY,
        noise=noise,
        beta=None if share is None else share * RATE / len(queries),
        reach=reach,
        calibration=calibration,
    )


def path(mechanism: VectorSmoothMechanism) -> Array:
    """A line through all the queries, with clusters where f or B may have a kink."""
    kinks = [0.0]
    for query in mechanism.queries:
        if isinstance(query, Threshold):
            kinks += [query.at, query.at - query.width / 2, query.at + query.width / 2]
        elif isinstance(query, GaussianKernel):
            h = query.bandwidth
            root = math.hypot(mechanism.beta * h * h, 2 * h)
            for r in ((root - mechanism.beta * h * h) / 2, (root + mechanism.beta * h * h) / 2):
                kinks += [query.center[0] - r, query.center[0] + r]
    near = np.linspace(-1, 1, 9) * 0.02 / RATE
    x = np.unique(np.concatenate([np.linspace(-70, 70, 121), *(k + near for k in kinks)]))
    return x[np.concatenate([[True], np.diff(x) > 1e-4 / RATE])]


def log_density(y: Array, f: Array, scale: Array, noise: Noise) -> Array:
    """Joint log-density of reports y (outputs, m) at points (n, m): the definition."""
    standard = (y[:, None, :] - f[None]) / scale[:, None]
    return np.asarray(noise.logpdf(standard).sum(axis=-1) - f.shape[1] * np.log(scale))


def steepest(x: Array, queries: list[Query], noise: Noise, scale: Array) -> float:
    """sup |Δ log p|/|Δx| over neighbours and outputs, for a noise scale at each point."""
    f = np.stack([query.value(x) for query in queries], axis=-1)
    unit = noise.knee if isinstance(noise, LaplacePareto) else 1 / noise.max_score
    some = [1e-5, 0.03, 0.5, 1 - 1e-6, 1 + 1e-6, 1.8, 30.0, 1e4]
    some = some if len(queries) < 3 else [1e-5, 0.5, 1 - 1e-6, 1 + 1e-6, 1e4]
    signed = [sign * v * unit for v in some for sign in (1, -1)]
    z = np.array(list(itertools.product(signed, repeat=len(queries))))
    worst = 0.0
    for index in np.linspace(0, x.size - 1, 16).astype(int):
        logs = log_density(f[index] + scale[index] * z, f, scale, noise)
        worst = max(worst, float(np.max(np.abs(np.diff(logs, axis=1)) / np.diff(x))))
    return worst


def audit(mechanism: VectorSmoothMechanism, **changes: float) -> float:
    x = path(mechanism)
    scale = mechanism.smooth_bound(x) / changes.get("eta", mechanism.eta)
    return steepest(x, list(mechanism.queries), mechanism.noise, scale)


@pytest.mark.deep(keep=5)
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", SETS)
def test_all_reports_together_are_private(name, choice):
    for reach in (0.0, math.inf) if choice == "default" else (0.0,):
        mechanism = made(SETS[name](), choice, reach)
        worst = audit(mechanism)
        assert worst <= RATE * TOLERANCE
        if name in USED_UP and choice == "default" and reach == 0:
            assert worst >= 0.9995 * RATE, "more noise than needed"
            assert audit(mechanism, eta=1.02 * mechanism.eta) > 1.01 * RATE


@pytest.mark.deep(keep=10)
@pytest.mark.parametrize("name", SETS)
def test_log_density_is_that_of_the_formula(oracles, name):
    """The audits above audit the mechanism: f, B, noise and normalisation from the oracles."""
    mechanism = made(SETS[name](), "default")
    m = mechanism.size
    with mp.workdps(25):
        beta, eta = mp.mpf(mechanism.beta), mp.mpf(mechanism.eta)
        for x in (-40.0, -4.5, 0.0, 3.3, 17.0):
            s = [oracles.signed_distance(query, x) for query in mechanism.queries]
            pairs = list(zip(mechanism.queries, s, strict=True))
            scale = joint(mechanism, [oracles.bound(q, v, beta) for q, v in pairs]) / eta
            for z in itertools.product((-300.0, 0.0, 0.7), repeat=m):
                y = [
                    float(oracles.value(q, v) + scale * w)
                    for (q, v), w in zip(pairs, z, strict=True)
                ]
                expected = mp.fsum(
                    oracles.noise_logpdf(mechanism.noise, (w - oracles.value(q, v)) / scale)
                    - mp.log(scale)
                    for (q, v), w in zip(pairs, y, strict=True)
                )
                ours = float(mechanism.log_density(y, x))
                assert ours == pytest.approx(float(expected), rel=1e-11, abs=1e-10)
    assert mechanism.log_density(np.zeros((5, 1, m)), np.zeros(7)).shape == (5, 7)
    assert mechanism.log_density(np.zeros(m), 0.0).shape == ()


class Peaked:
    """h ∝ (1 + |z|)^{−3}: its score is largest at 0, where the scale counts with the other sign."""

    exact_scale_cost, in_the_paper = Fraction(2), False

    def least_quotient(self, constant: Fraction, factor: Fraction) -> Fraction:
        """(constant/3)(1 + u) + factor·u, at u = 0."""
        return constant / 3


def vector_eta(noise: Any, size: int, fraction: float, calibration: str) -> float:
    found = CALIBRATIONS[calibration](noise, Frontier.RECTANGLE, Fraction(fraction), size)
    return float(found)


def brute_force_eta(oracles: Any, noise: Any, size: int, fraction: float) -> float:
    """Largest η with β|Σ(u_jψ−1)| + η max ψ(u_j) ≤ 1 for all u ∈ grid^m, by extremes of the sum.

    Given the coordinate with the largest score, the others' sum is extreme when each is: m − 1
    coordinates at one same point of the grid, each point tried.
    """
    u = np.concatenate([np.logspace(-6, 6, 701), np.linspace(0.2, 9, 801), [1.0]])
    u = np.append(u, noise.knee) if isinstance(noise, LaplacePareto) else u
    score = 3 - 3 * u / (1 + u) if isinstance(noise, Peaked) else oracles.score(noise, u)
    change = u * score - 1
    total = np.abs(change[:, None] + (size - 1) * change[None, :])
    largest = np.maximum(score[:, None], score[None, :]) if size > 1 else score[:, None]
    return float(np.min((1 - fraction * total) / largest))


@pytest.mark.deep(keep=4)
@pytest.mark.parametrize("size", [1, 2, 3, 10])
@pytest.mark.parametrize(
    "noise",
    [
        StudentT(3),
        StudentT(4),
        GeneralizedCauchy(4),
        LaplacePareto(1, 0.31),
        PowerLaw(1, 0.3),
        Peaked(),
    ],
    ids=lambda noise: type(noise).__name__,
)
def test_exact_eta(oracles, noise, size):
    for share in (1e-3, 0.1, 0.2):
        expected = brute_force_eta(oracles, noise, size, share / size)
        eta = vector_eta(noise, size, share / size, "exact")
        assert eta <= expected * (1 + 1e-9), "not private"
        assert eta >= expected * (1 - 2e-4), "more noise than needed"


def test_closed_forms_of_eta():
    """LaplacePareto: 1 − mβ/φ. PowerLaw: 1 − (m−1)β/φ."""
    for size, beta, phi in ((2, 0.05, 0.31), (7, 0.01, 0.2), (100, 1e-3, 0.45)):
        eta = vector_eta(LaplacePareto(1, phi), size, beta, "exact")
        assert eta == pytest.approx(1 - size * beta / phi, rel=1e-9, abs=0)
        eta = vector_eta(PowerLaw(1, phi), size, beta, "exact")
        assert eta == pytest.approx(1 - (size - 1) * beta / phi, rel=1e-9, abs=0)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_paper_eta(size):
    """ε = mDβ + max_score·η [SGP Cor. 3.2]; D = γ−1 or ν."""
    for noise, scale_cost, max_score in (
        (GeneralizedCauchy(4), 3.0, 3**0.75),
        (StudentT(3), 3.0, 2 / math.sqrt(3)),
    ):
        eta = vector_eta(noise, size, 0.2 / size, "paper")
        assert scale_cost * 0.2 + max_score * eta == pytest.approx(1, rel=1e-11, abs=0)
        assert eta < vector_eta(noise, size, 0.2 / size, "exact")


@pytest.mark.deep(keep=4)
@pytest.mark.parametrize("size", [2, 3, 4, 10, 100])
def test_default_noise_has_the_least_variance_of_the_families(size):
    """This is documented for mβ ≤ 0.1 of the rate."""
    for share in (0.01, 0.05, 0.1):
        fraction = share / size
        ours = best_vector_noise(size, fraction)
        assert isinstance(ours, LaplacePareto)
        least = ours.variance / vector_eta(ours, size, fraction, "exact") ** 2
        others: list[Noise] = [StudentT(3), StudentT(4), StudentT(6), GeneralizedCauchy(4)]
        others += [PowerLaw(1, phi / 50) for phi in range(8, 24)]
        others += [LaplacePareto(1, ours.beta + shift) for shift in (-0.02, -0.01, 0.01, 0.02)]
        for other in others:
            eta = vector_eta(other, size, fraction, "exact")
            assert other.variance / eta**2 > least


class TestControls:
    """What must fail the audit above: each of these was a plausible mistake."""

    def test_noise_scaled_down(self):
        mechanism = made(SETS["one kernel twice"](), "default")
        assert audit(mechanism, eta=mechanism.eta / 0.9) > 1.02 * RATE

    def test_the_eta_of_one_query(self):
        mechanism = made(SETS["one kernel twice"](), "student, exact")
        eta = vector_eta(mechanism.noise, 1, mechanism.beta / RATE, "exact") * RATE
        assert audit(mechanism, eta=eta) > 1.05 * RATE

    def test_the_largest_bound_instead_of_the_sum(self):
        mechanism = made(SETS["one kernel twice"](), "default")
        x = path(mechanism)
        bounds = [q.smooth_bound(x, mechanism.beta) for q in mechanism.queries]
        scale = np.max(bounds, axis=0) / mechanism.eta
        queries = list(mechanism.queries)
        assert steepest(x, queries, mechanism.noise, scale) > 1.2 * RATE
        scale = np.sum(bounds, axis=0) / mechanism.eta
        assert steepest(x, queries, mechanism.noise, scale) <= RATE * TOLERANCE

    def test_the_cross_for_steps_that_vary_apart(self):
        """η = ε is for ramps: B and f of a smoothstep vary together."""
        mechanism = made(SETS["steps apart"](), "default")
        assert mechanism.frontier is Frontier.RECTANGLE
        assert audit(mechanism) <= RATE * TOLERANCE
        assert audit(mechanism, eta=RATE) > 1.2 * RATE

    def test_ramps_that_overlap_scaled_as_if_apart(self):
        mechanism = made(SETS["chain of ramps"](), "default")
        x = path(mechanism)
        bounds = [q.smooth_bound(x, mechanism.beta) for q in mechanism.queries]
        scale = np.max(bounds, axis=0) / mechanism.eta
        assert steepest(x, list(mechanism.queries), mechanism.noise, scale) > 1.2 * RATE

    def test_beta_not_divided(self):
        mechanism = made(SETS["one kernel twice"](), "student, exact")
        x = path(mechanism)
        bound = np.sum([q.smooth_bound(x, 4 * mechanism.beta) for q in mechanism.queries], axis=0)
        queries = list(mechanism.queries)
        assert steepest(x, queries, mechanism.noise, bound / mechanism.eta) > 1.2 * RATE


@pytest.mark.parametrize("choice", ["default", "student, exact"])
@pytest.mark.parametrize("name", SETS)
def test_moments(oracles, name, choice):
    mechanism = made(SETS[name](), choice)
    x = np.array([-60.0, -4.4, 0.0, 2.0, 21.0, 90.0])
    with mp.workdps(25):
        beta, eta = mp.mpf(mechanism.beta), mp.mpf(mechanism.eta)
        noise = oracles.noise_variance(mechanism.noise)
        for row, point in enumerate(x.tolist()):
            s = [oracles.signed_distance(query, point) for query in mechanism.queries]
            pairs = list(zip(mechanism.queries, s, strict=True))
            scale = joint(mechanism, [oracles.bound(q, v, beta) for q, v in pairs]) / eta
            expected: Any = [float(oracles.value(q, v)) for q, v in pairs]
            np.testing.assert_allclose(mechanism.mean(x)[row], expected, rtol=1e-12)
            np.testing.assert_allclose(
                mechanism.variance(x)[row], float(noise * scale**2), rtol=1e-9
            )
    shape = (x.size, mechanism.size)
    assert mechanism.mean(x).shape == mechanism.variance(x).shape == shape
    assert mechanism.variance(0.0).shape == (mechanism.size,)
    assert mechanism.unbiased


PLANE: list[Query] = [
    GaussianKernel((0.0, 0.0), 9.0),
    Disc((5.0, 5.0), 20.0, 6.0),
    GaussianKernel((30.0, 0.0), 4.0),
]


def slope_of_two(u: Any, ops: Any) -> Any:
    return 1 + 2 * u


def test_formulas_of_ones_own():
    """Beside queries of the library, values beyond [0, 1] included; also the grid knows those."""
    profile = FormulaProfile(slope_of_two, scale=20.0, extent=1.0)
    queries: list[Query] = [Linear(profile, direction=1.0), GaussianKernel(0.0, 9.0)]
    mechanism = made(queries, "default")
    x = np.linspace(-60, 60, 241)
    scale = np.sqrt(mechanism.variance(x)[:, 0] / mechanism.noise.variance)
    assert 0.2 * RATE <= steepest(x, queries, mechanism.noise, scale) <= RATE * TOLERANCE
    assert steepest(x, queries, mechanism.noise, scale / 10) > RATE
    huge = FormulaProfile(lambda u, ops: 1e9 * u, scale=20.0, extent=1.0)
    little = VectorSmoothMechanism([Linear(huge, 1.0)] * 2, GeoPrivacy(1e6, per=1.0))
    assert 1e9 / little.step <= 2**62
    assert little.release(20.0, SeededSource(1))[0] * little.step == pytest.approx(1e9, rel=1e-3)


@pytest.mark.parametrize(("m", "documented"), [(4, 5.8), (10, 16)])
def test_against_dividing_the_rate(m, documented):
    """The numbers of the docstring: sums of variances, averaged over people uniform on the grid."""
    privacy, gap = GeoPrivacy(1.0, per=1.0), 3 * m
    queries = [Threshold(gap * (j + 1), 2.0) for j in range(m)]
    x = (np.arange(4000) + 0.5) / 4000 * gap * (m + 1)
    together = VectorSmoothMechanism(queries, privacy).variance(x).sum(axis=1).mean()
    split = sum(SmoothMechanism(q, privacy.scaled(1 / m)).variance(x).mean() for q in queries)
    assert split / together == pytest.approx(documented, rel=0.05)


def test_one_query_asked_often_is_better_divided():
    for m in (2, 4, 10):
        query = GaussianKernel(0.0, 2.0)
        privacy = GeoPrivacy(1.0, per=1.0)
        together = VectorSmoothMechanism([query] * m, privacy).variance(2.0)
        split = SmoothMechanism(query, privacy.scaled(1 / m)).variance(2.0)
        assert float(together[0] / split) == pytest.approx(1.5, rel=0.05)


def test_bad_input_is_refused_by_name():
    ramps = SETS["ramps"]()
    bad_queries: list[Any] = [None, 3, ramps[0], [], "queries", [ramps[0], None]]
    for bad in [*bad_queries, [ramps[0], PLANE[0]]]:
        with pytest.raises(ParameterError, match="queries"):
            VectorSmoothMechanism(bad, PRIVACY)
    options: dict[str, Any] = {
        "privacy": LocalPrivacy(1.0),
        "beta": 0.51 * RATE,
        "reach": -1.0,
        "calibration": "Exact",
        "step": 2.0,
        "noise": "student",
    }
    for name, bad in options.items():
        with pytest.raises(ParameterError, match=name):
            VectorSmoothMechanism(**({"queries": ramps, "privacy": PRIVACY} | {name: bad}))
    with pytest.raises(ParameterError, match="beta"):  # too large for the noise
        VectorSmoothMechanism(ramps, PRIVACY, noise=StudentT(3), beta=0.2 * RATE)
    with pytest.raises(UnsupportedError, match="power-law tail"):
        VectorSmoothMechanism(ramps, PRIVACY, noise=Laplace())
    with pytest.raises(UnsupportedError, match="paper"):
        VectorSmoothMechanism(ramps, PRIVACY, calibration="paper")
    for y in (0.0, [1.0, 2.0, 3.0], "ab", [[1.0], [2.0]]):
        with pytest.raises(ParameterError, match="y must"):
            made(ramps, "default").log_density(y, 1.0)  # type: ignore[arg-type]
