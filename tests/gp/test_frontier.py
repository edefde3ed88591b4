"""Test the calibration of every noise family against 40-digit arithmetic."""

import math
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from geoveil.gp import (
    NOISES,
    FormulaProfile,
    GaussianKernel,
    GeneralizedCauchy,
    GeoPrivacy,
    GeoVeilError,
    Laplace,
    LaplacePareto,
    Noise,
    PowerLaw,
    Query,
    Radial,
    SmoothMechanism,
    StudentT,
    Threshold,
    VectorSmoothMechanism,
)
from geoveil.gp.smooth.frontier import CALIBRATIONS, Frontier
from geoveil.selection import HeavyGeneralizedCauchy, HeavyStudentT, LaplaceLogNormal

UNIT = GeoPrivacy(1.0, per=1.0)
DIGITS = 40
ROUNDING = mp.mpf(10) ** -32
"""The error of 40 digits; far less than an ulp of a double."""
SCORES: dict[type[Noise], Any] = {
    # ψ(u) for an mpf u; c makes an exact number of a parameter.
    GeneralizedCauchy: lambda n, u, c: c(n.gamma) * u ** (c(n.gamma) - 1) / (1 + u ** c(n.gamma)),
    StudentT: lambda n, u, c: (c(n.nu) + 1) * u / (c(n.nu) + u * u),
    LaplacePareto: lambda n, u, c: min(c(n.epsilon), (1 + c(n.epsilon) / c(n.beta)) / u),
    PowerLaw: lambda n, u, c: (
        (c(n.epsilon) - c(n.beta)) / (1 - c(n.beta) * u)
        if u * c(n.epsilon) < 1
        else (c(n.epsilon) + c(n.beta)) / (1 + c(n.beta) * u)
    ),
}
FAMILIES: list[Noise] = [
    *(HeavyGeneralizedCauchy(g) for g in (1.5, 1.8, math.nextafter(2, 0), 2.0, 2.7)),
    *(HeavyStudentT(nu) for nu in (0.5, 0.7, math.nextafter(1, 0), 1.0, 1.3)),
    *(GeneralizedCauchy(g) for g in (math.nextafter(3, 4), 4.0, 5.0, 101.0)),
    *(StudentT(nu) for nu in (math.nextafter(2, 3), 3.0, 4.0, 10.0, 100.0)),
    LaplacePareto(1.0, 0.3),
    LaplacePareto(3.0, 3.0),
    LaplacePareto(1e50, 1e-50),
    PowerLaw(1.0, 0.15),
    PowerLaw(0.1, 0.1),
    PowerLaw(1e-50, 1e-50),
]


def score(noise: Noise, u: Any) -> Any:
    family = next(f for f in SCORES if isinstance(noise, f))
    return SCORES[family](noise, mp.mpf(u), mp.mpf)


@cache
def scores(noise: Noise) -> list[tuple[Any, Any]]:
    """u and ψ(u), from next to 0 to far beyond every knee, densely around each."""
    with mp.workdps(DIGITS):
        knee = {
            GeneralizedCauchy: lambda n: mp.mpf(1),
            StudentT: lambda n: mp.sqrt(n.nu),
            LaplacePareto: lambda n: (1 + mp.mpf(n.epsilon) / n.beta) / n.epsilon,
            PowerLaw: lambda n: 1 / mp.mpf(n.epsilon),
        }[next(f for f in SCORES if isinstance(noise, f))](noise)
        far = [mp.mpf(10) ** k for k in (-40, -20, -8, -4, 4, 8, 20, 40)]
        near = [mp.mpf(10) ** (mp.mpf(k) / 20) for k in range(-50, 51)]
        steep = [v ** (1 / mp.mpf(noise.scale_cost)) for v in (*near, *far)]
        units = (knee, 1 / mp.mpf(noise.max_score))
        points = [unit * v for unit in units for v in (*far, *near, *steep)]
        return [(u, score(noise, u)) for u in points]


def test_every_family_is_here():
    found = {type(noise) for noise in FAMILIES} | {Laplace}
    assert found >= set(NOISES.values())
    for unbounded in (Laplace(2.0), LaplaceLogNormal(0.5)):
        assert unbounded.exact_scale_cost is None
        assert unbounded.scale_cost == math.inf


@pytest.mark.deep(keep=15)
@pytest.mark.parametrize("noise", FAMILIES, ids=repr)
def test_scale_cost_and_max_score_are_suprema_and_never_too_small(noise):
    with mp.workdps(DIGITS):
        scale_cost = max(abs(u * psi - 1) for u, psi in scores(noise))
        max_score = max(psi for _, psi in scores(noise))
        assert scale_cost <= mp.mpf(noise.scale_cost) * (1 + ROUNDING)
        assert scale_cost >= mp.mpf(noise.scale_cost) * (1 - mp.mpf(10) ** -6)
        assert max_score <= mp.mpf(noise.max_score) * (1 + ROUNDING)
        assert max_score >= mp.mpf(noise.max_score) * mp.mpf("0.97")
        assert noise.scale_cost >= 1


@pytest.mark.parametrize("scale", [1e-50, 0.3, 3.0, 1e50])
def test_max_score_of_noise_that_is_only_shifted(scale):
    assert Fraction(Laplace(scale).max_score) * Fraction(scale) >= 1
    with mp.workdps(DIGITS):
        for sigma in (0.1, 0.7, 1.0, 2.0):
            exact = mp.exp(mp.mpf("1.5") * mp.mpf(sigma) ** 2)
            assert (
                exact
                <= mp.mpf(LaplaceLogNormal(sigma).max_score)
                <= exact * (1 + mp.mpf(10) ** -15)
            )


def worst_rate(noise: Noise, beta: Fraction, eta: Fraction, frontier: Frontier, m: int) -> Any:
    """sup over u of the rate at which the log-density of m reports changes, in units of ε."""
    assert noise.exact_scale_cost is not None
    b, h, other = (mp.mpf(q.numerator) / q.denominator for q in (beta, eta, noise.exact_scale_cost))
    worst = mp.mpf(0)
    for u, psi in scores(noise):
        w = u * psi
        change = max((m - 1) * other + w - 1, m - w)
        shares = (b * change, h * psi)
        worst = max(worst, max(shares) if frontier is Frontier.CROSS else sum(shares))
    return worst


@pytest.mark.deep
@pytest.mark.parametrize("noise", FAMILIES, ids=repr)
def test_eta_keeps_the_rate_within_epsilon_to_the_last_digit(noise):
    """Not by an ulp more; and, for the closed forms, not a millionth less than could be had."""
    scale_cost = noise.exact_scale_cost
    assert scale_cost is not None
    with mp.workdps(DIGITS):
        for m in (1, 7):
            for part in (1e-12, 0.3, 0.77, 0.999):
                beta = Fraction(part) / (m * scale_cost)
                for name, calibrate in CALIBRATIONS.items():
                    for frontier in Frontier if m == 1 else (Frontier.RECTANGLE,):
                        if name == "paper" and not noise.in_the_paper:
                            continue
                        eta = calibrate(noise, frontier, beta, m)
                        assert eta > 0
                        assert worst_rate(noise, beta, eta, frontier, m) <= 1 + ROUNDING
                        if name == "exact":
                            more = eta * Fraction(11, 10)
                            assert worst_rate(noise, beta, more, frontier, m) > 1


@pytest.mark.deep(keep=14)
@pytest.mark.parametrize("noise", FAMILIES, ids=repr)
def test_the_closed_form_is_the_infimum(noise):
    """inf (n + m·uψ)/ψ for numerators that fall and rise: no point of a grid has less, one has
    nearly as little."""
    scale_cost = noise.exact_scale_cost
    assert scale_cost is not None
    with mp.workdps(DIGITS):
        for n, part in ((1.0, 0.0), (1.1, -0.7), (1.0, -0.99), (0.6, 0.4), (1.0, 30.0)):
            factor = Fraction(part) * Fraction(n) / (1 + scale_cost)
            found = noise.least_quotient(Fraction(n), factor)
            ours = mp.mpf(found.numerator) / found.denominator
            f = mp.mpf(factor.numerator) / factor.denominator
            grid = min(n / psi + f * u for u, psi in scores(noise) if psi)
            assert ours <= grid * (1 + ROUNDING)
            assert ours >= grid * mp.mpf("0.95")


def near_the_station() -> Query:
    return Radial(FormulaProfile(lambda u, ops: ops.exp(-u), scale=400.0, extent=8.0), (0.0, 0.0))


@pytest.mark.deep(keep=5)
@pytest.mark.parametrize("calibration", ["paper", "exact"])
@pytest.mark.parametrize(
    ("noise", "share"),
    [
        (HeavyGeneralizedCauchy(1.5), 0.95),
        (HeavyGeneralizedCauchy(1.9), 0.9),
        (HeavyStudentT(0.5), 0.97),
        (HeavyStudentT(0.8), 0.5),
        (HeavyGeneralizedCauchy(2.5), 0.6),
    ],
    ids=repr,
)
def test_heavy_tails_keep_the_promise(noise, share, calibration):
    """What the densities of a report, at neighbouring points, reveal: never more than ε."""
    privacy = GeoPrivacy(1.0, per=400.0, unit="metre")
    beta = share * privacy.rate
    mechanism = SmoothMechanism(
        near_the_station(), privacy, noise=noise, beta=beta, calibration=calibration
    )
    r = np.concatenate([np.linspace(0.0, 4_000.0, 160), np.geomspace(1e-3, 3.0, 40)])
    x = np.stack([np.sort(r), np.zeros(r.size)], axis=-1)
    f = mechanism.query.value(x)
    scale = mechanism.query.smooth_bound(x, mechanism.beta) / mechanism.eta
    z = np.concatenate([[0.0], np.geomspace(1e-9, 1e9, 60)])
    y = (f[::5, None] + scale[::5, None] * np.concatenate([-z, z])).ravel()
    logs = mechanism.log_density(y[None, :], x[:, None, :])
    step = np.diff(x[:, 0])
    # Rounding of a log-density, next to steps of a millimetre.
    slack = 1e-12 / (step * privacy.rate)
    worst = np.abs(np.diff(logs, axis=0)).max(axis=1) / (step * privacy.rate)
    assert np.all(worst <= 1 + slack + 1e-9)
    assert worst.max() > 0.3, "the points hardly test it"


@pytest.mark.parametrize("frontier", ["cross", "rectangle"])
def test_what_is_said_of_beta_and_eta_is_no_more_than_what_holds(frontier):
    """β·scale_cost + η·max_score ≤ ε, exactly, of the numbers that a mechanism shows."""
    rng = np.random.default_rng(5)
    query = Threshold(0.0, 3.0) if frontier == "cross" else GaussianKernel(0.0, 3.0)
    for _ in range(100):
        privacy = GeoPrivacy(float(rng.uniform(0.3, 3)), per=float(rng.uniform(0.3, 3)))
        noise = StudentT(float(rng.uniform(2.001, 9)))
        beta = float(rng.uniform(0.02, 0.9)) * privacy.rate / noise.nu
        paper = SmoothMechanism(query, privacy, noise=noise, beta=beta, calibration="paper")
        nu = mp.mpf(noise.nu)
        with mp.workdps(DIGITS):
            rate = mp.mpf(privacy.epsilon) / mp.mpf(privacy.per)
            spent = mp.mpf(paper.beta) * nu + mp.mpf(paper.eta) * (nu + 1) / (2 * mp.sqrt(nu))
            assert spent <= rate
            assert spent > rate * (1 - mp.mpf(10) ** -15)


@pytest.mark.parametrize("query", [Threshold(0.0, 2.0), GaussianKernel(0.0, 2.0)], ids=repr)
@pytest.mark.parametrize("noise", FAMILIES, ids=repr)
def test_any_beta_gives_a_calibration_or_a_typed_error(noise, query):
    for beta in (5e-324, 1e-300, 1e-50, 1e-13, 0.2, 0.999999, 1.0, 1.5, 1e13, 1e300, math.inf):
        for calibration in CALIBRATIONS:
            try:
                m = SmoothMechanism(query, UNIT, noise=noise, beta=beta, calibration=calibration)
            except GeoVeilError:
                continue
            assert 0 < m.eta < math.inf
            assert not np.isnan(m.variance([0.0, 30.0])).any()


@pytest.mark.parametrize("calibration", list(CALIBRATIONS))
@pytest.mark.parametrize("noise", FAMILIES, ids=repr)
def test_every_noise_has_a_default_beta(noise, calibration):
    """It leaves three quarters of η, and no β that is a thousandth larger does."""
    if calibration == "paper" and not noise.in_the_paper:
        return
    scale_cost = noise.exact_scale_cost
    assert scale_cost is not None
    for query in (Threshold(0.0, 1.0), GaussianKernel(0.0, 1.0)):
        m = SmoothMechanism(query, UNIT, noise=noise, calibration=calibration)
        assert m.eta * noise.max_score >= 0.75 * (1 - 1e-15)
        share = m.beta * float(scale_cost)
        if share * (1 + 1e-15) < 1 and scale_cost < 10**40:
            more = SmoothMechanism(
                query,
                UNIT,
                noise=noise,
                calibration=calibration,
                beta=(share + 1.001 / 1024) / float(scale_cost),
            )
            assert more.eta * noise.max_score < 0.75
        several = VectorSmoothMechanism([query] * 3, UNIT, noise=noise, calibration=calibration)
        assert several.eta * noise.max_score >= 0.75 * (1 - 1e-15)


def test_the_default_beta_is_the_largest_where_eta_does_not_depend_on_it():
    ramp, bell = Threshold(0.0, 1.0), GaussianKernel(0.0, 1.0)
    assert SmoothMechanism(ramp, UNIT, noise=GeneralizedCauchy(5)).beta == 0.25
    assert SmoothMechanism(ramp, UNIT, noise=StudentT(4)).beta == 0.25
    assert SmoothMechanism(ramp, UNIT, noise=LaplacePareto(1, 0.2)).beta == 0.2
    assert SmoothMechanism(bell, UNIT, noise=PowerLaw(1, 0.05)).beta == 0.05


def test_the_default_beta_is_near_the_best():
    """Mean log-variance over bands, bells and populations, against the best single share."""
    shares = np.arange(0.05, 1.0, 0.05)
    queries: list[Query] = [Threshold(0.0, w, "smoothstep") for w in (2.0, 8.0)]
    queries += [GaussianKernel(0.0, h) for h in (1.0, 3.0)]
    crowds = [np.linspace(-8, 8, 101), np.linspace(-40, 40, 101)]
    for noise in (
        *map(StudentT, (2.2, 3.0, 4.0)),
        *map(GeneralizedCauchy, (3.1, 4.0, 5.0)),
        *(LaplacePareto(1.0, b) for b in (0.1, 0.3, 0.45)),
    ):

        def loss(beta: float | None, noise: Noise = noise) -> float:
            ms = [SmoothMechanism(query, UNIT, noise=noise, beta=beta) for query in queries]
            return float(np.mean([np.log(m.variance(x).mean()) for m in ms for x in crowds]))

        best = min(loss(share / noise.scale_cost) for share in shares)
        assert loss(None) - best < math.log(1.12), noise
        assert loss(0.9 / noise.scale_cost) - best > math.log(1.12), "the control must fail"
