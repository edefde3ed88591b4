"""Test the contract of every registered family against quadrature in mpmath and scipy.stats."""

import math

import mpmath as mp
import numpy as np
import pytest
import scipy.stats
from flint import arb

from geoveil.gp import (
    NOISES,
    GeneralizedCauchy,
    GeoPrivacy,
    Laplace,
    LaplacePareto,
    Noise,
    PowerLaw,
    SeededSource,
    SmoothMechanism,
    StudentT,
    Threshold,
)
from geoveil.gp.exact import BALL, working_precision

CASES: dict[str, list[Noise]] = {
    "laplace": [Laplace(), Laplace(2.5), Laplace(1e-4)],
    "generalized-cauchy": [GeneralizedCauchy(g) for g in (3.1, 4.0, 6.5, 12.0, 101.0)],
    "student-t": [StudentT(nu) for nu in (2.2, 3.0, 7.5, 40.0, 100.0)],
    "laplace-pareto": [
        LaplacePareto(e, e * b)
        for e, b in ((1, 0.3), (1, 0.05), (3.7, 0.45), (1, 0.5), (0.2, 0.8), (1, 1), (1, 1e-3))
    ],
    "power-law": [
        PowerLaw(e, e * b)
        for e, b in ((1, 0.15), (1, 0.05), (3.7, 0.45), (1, 0.5), (0.2, 0.8), (1, 1), (1, 1e-3))
    ],
}
NOISY = [noise for family in CASES.values() for noise in family]
DEEP = (1e-100, 1e-60, 1e-30, 1e-12, 1e-6)
MIDDLE = (0.01, 0.2, 0.25, 0.3, 0.45, 0.499, 0.5 - 1e-5, 0.5 - 1e-9)
DRAWS = 20_000


def rounding(noise: Noise) -> float:
    """Error of a quantile near 0, in its own unit: a power 1/a of a double loses log₂ a bits."""
    ratio = noise.epsilon / noise.beta if isinstance(noise, PowerLaw) else 1.0
    return 1e-15 * max(1.0, ratio)


def test_every_registered_family_has_cases():
    assert set(CASES) == set(NOISES)
    for name, family in CASES.items():
        assert {type(noise) for noise in family} == {NOISES[name]}


@pytest.mark.parametrize("noise", NOISY, ids=repr)
class TestContract:
    """What every family promises."""

    @pytest.mark.deep(keep=6)
    def test_density_is_normalised_symmetric_and_right(self, oracles, noise):
        scale = oracles.noise_break(noise)
        points = np.array([0.0, 1e-12, 1e-3, 0.1, 0.5, 0.999, 1, 1.001, 2, 7, 40, 1e3, 1e8]) * scale
        with mp.workdps(20):
            expected = [float(oracles.noise_logpdf(noise, u)) for u in points]
        np.testing.assert_allclose(noise.logpdf(points), expected, rtol=2e-13, atol=2e-13)
        np.testing.assert_array_equal(noise.logpdf(-points), noise.logpdf(points))
        np.testing.assert_allclose(noise.pdf(points), np.exp(expected), rtol=1e-11)
        assert np.all(np.diff(noise.logpdf(points)) <= 0)
        assert noise.logpdf(np.zeros((2, 3))).shape == (2, 3)

    @pytest.mark.deep(keep=1)
    def test_cdf_is_the_integral_of_the_density(self, oracles, noise):
        scale = oracles.noise_break(noise)
        points = np.array([0.0, 1e-9, 1e-5, 1e-3, 0.02, 0.3, 0.99, 1.01, 3, 30, 500]) * scale
        with mp.workdps(18):
            survival = [oracles.noise_survival(noise, float(u)) for u in points]
            upper = [float(1 - p) for p in survival]
        tails = np.array([float(p) for p in survival])
        np.testing.assert_allclose(noise.cdf(points), upper, rtol=0, atol=1e-10)
        # In the lower tail the error is relative.
        np.testing.assert_allclose(noise.survival(points), tails, rtol=1e-10, atol=1e-290)
        np.testing.assert_allclose(noise.cdf(-points), tails, rtol=1e-10, atol=1e-290)
        # Near 0 what counts is the distance from one half.
        with mp.workdps(18):
            small = np.array([1e-9, 1e-5, 1e-3, 0.02]) * scale
            gain = [
                float(oracles.noise_integral(noise, 0, 0, u) / (2 * oracles.noise_half_mass(noise)))
                for u in small
            ]
        np.testing.assert_allclose(noise.cdf(small) - 0.5, gain, rtol=1e-9, atol=rounding(noise))
        assert float(noise.cdf(0.0)) == pytest.approx(0.5, rel=4e-16, abs=0)

    def test_quantile_inverts_the_cdf(self, noise):
        p = np.array([*DEEP, *MIDDLE])
        z = noise.ppf(p)
        assert np.all(z < 0)
        assert np.all(np.diff(z) > 0)
        # Rounding z moves log F by z·h/F·2^-53, which is all the error there may be.
        np.testing.assert_allclose(noise.cdf(z), p, rtol=1e-12)
        upper = np.array([0.6, 0.75, 0.99, 1 - 1e-6, 1 - 1e-12])
        np.testing.assert_allclose(
            1 - noise.cdf(noise.ppf(upper)), 1 - upper, rtol=1e-12, atol=2e-16
        )
        dyadic = np.array([2.0**-40, 0.125, 0.375])
        np.testing.assert_allclose(noise.ppf(1 - dyadic), -noise.ppf(dyadic), rtol=1e-13)
        assert float(noise.ppf(0.5)) == 0

    def test_quantile_of_the_smallest_probabilities(self, noise):
        p = np.array([1e-200, 1e-300])
        np.testing.assert_allclose(noise.cdf(noise.ppf(p)), p, rtol=1e-11)

    def test_quantile_at_and_beyond_the_ends(self, noise):
        np.testing.assert_array_equal(
            noise.ppf([0.0, 1.0, -0.1, 1.1, math.nan]),
            [-math.inf, math.inf, math.nan, math.nan, math.nan],
        )
        assert noise.ppf(np.full((2, 2), 0.3)).shape == (2, 2)

    @pytest.mark.deep(keep=3)
    def test_isf_has_the_tail_that_was_asked_for(self, oracles, noise):
        with mp.workdps(30):
            for p in (*DEEP, *MIDDLE):
                ours = float(noise.isf(p))
                if isinstance(noise, (StudentT, GeneralizedCauchy)):
                    again = float(oracles.noise_survival(noise, ours))
                    assert again == pytest.approx(p, rel=1e-10)
                    continue
                expected = float(oracles.isf(noise, mp.mpf(p)))
                slack = rounding(noise) * oracles.noise_break(noise)
                assert ours == pytest.approx(expected, rel=1e-12, abs=slack)

    @pytest.mark.deep
    def test_isf_in_balls_encloses_the_root(self, oracles, noise):
        """The tail beyond both ends of the ball, by quadrature, is on either side of p."""
        with mp.workdps(40), working_precision(100):
            for p in ("1e-30", "1e-3", "0.2499", "0.2501", "0.49", "0.4999999"):
                ball = noise.isf(arb(p), BALL)
                low, high = (
                    mp.mpf(str(end.mid().str(60, radius=False)))
                    for end in (ball.lower(), ball.upper())
                )
                assert 0 < (high - low) / low < mp.mpf("1e-18")
                wide = mp.mpf("1e-18")
                assert oracles.noise_survival(noise, low * (1 - wide)) > mp.mpf(p)
                assert oracles.noise_survival(noise, high * (1 + wide)) < mp.mpf(p)

    @pytest.mark.deep(keep=7)
    def test_variance_is_the_second_moment(self, oracles, noise):
        if math.isinf(noise.variance):
            # u² h(u) still weighs as much at every larger scale.
            with mp.workdps(15):
                near, far = (oracles.noise_integral(noise, 2, u, 10 * u) for u in (1e6, 1e12))
            assert far >= near * 0.999
            return
        assert noise.variance == pytest.approx(
            float(oracles.noise_variance(noise)), rel=1e-10, abs=0
        )

    def test_the_score_of_the_oracle_is_the_slope_of_the_log_density(self, oracles, noise):
        u = np.array([1e-3, 0.05, 0.4, 0.97, 1.03, 2.5, 30, 1e4]) * oracles.noise_break(noise)
        with mp.workdps(30):
            expected = [
                -float(mp.diff(lambda v: oracles.log_kernel(noise, v), v, h=v * mp.mpf(10) ** -9))
                for v in map(mp.mpf, u)
            ]
        np.testing.assert_allclose(oracles.score(noise, u), expected, rtol=1e-9, atol=1e-12)

    def test_samples_follow_the_law_and_no_other_scale(self, oracles, noise):
        sample = noise.sample(np.random.default_rng(20_240_601), DRAWS)
        assert sample.shape == (DRAWS,)
        assert sample.dtype == np.float64
        cdf, limit = oracles.noise_cdf(noise), oracles.ks_limit(DRAWS)
        distance = oracles.ks_distance(sample, cdf)
        assert distance <= limit, f"n={DRAWS}, distance {distance}, limit {limit}"
        for factor in (1.3, 1 / 1.3):
            assert oracles.ks_distance(sample * factor, cdf) > limit, "the control must fail"
        # A repeated or truncated stream is told as well.
        assert np.unique(sample).size > 0.999 * DRAWS

    def test_sample_shapes_and_reproducibility(self, noise):
        assert noise.sample(np.random.default_rng(1), (3, 2)).shape == (3, 2)
        assert noise.sample(np.random.default_rng(1)).shape == ()
        np.testing.assert_array_equal(
            noise.sample(np.random.default_rng(1), 5), noise.sample(np.random.default_rng(1), 5)
        )


@pytest.mark.parametrize(
    ("noise", "law"),
    [
        (Laplace(2.5), scipy.stats.laplace(scale=2.5)),
        (StudentT(3.0), scipy.stats.t(3.0)),
        (StudentT(7.5), scipy.stats.t(7.5)),
        # 1/(1+z⁴) on the positive half-line: z⁴ is a beta-prime variable.
        (GeneralizedCauchy(4.0), None),
    ],
    ids=["laplace", "student-t-3", "student-t-7.5", "generalized-cauchy-4"],
)
def test_against_published_laws(noise, law):
    z = np.array([-300.0, -20, -3, -1, -0.2, 0, 0.4, 1, 2, 9])
    if law is not None:
        np.testing.assert_allclose(noise.cdf(z), law.cdf(z), rtol=1e-11)
        np.testing.assert_allclose(noise.logpdf(z), law.logpdf(z), rtol=1e-11)
        return
    # MATH §10: the closed form for γ = 4.
    root = math.sqrt(2)
    with mp.workdps(30):
        for point in z:
            x = mp.mpf(float(point))
            log_term = mp.log((x * x + root * x + 1) / (x * x - root * x + 1))
            angle = 2 * (mp.atan(root * x + 1) + mp.atan(root * x - 1))
            expected = float(mp.mpf(1) / 2 + (log_term + angle) / (4 * mp.pi))
            assert float(noise.cdf(point)) == pytest.approx(expected, abs=1e-13)


def test_tail_probability_and_half_mass_of_laplace_pareto():
    """MATH §4: q = e^{−t}(t/a)/(1 + e^{−t}/a) is the mass beyond the knee."""
    for epsilon, fraction in ((1.0, 0.3), (2.0, 0.7), (1.0, 0.05)):
        noise = LaplacePareto(epsilon, fraction * epsilon)
        a = epsilon / noise.beta
        t = 1 + a
        q = math.exp(-t) * (t / a) / (1 + math.exp(-t) / a)
        assert noise.knee == pytest.approx(t / epsilon, rel=1e-15, abs=0)
        assert 2 * float(noise.survival(noise.knee)) == pytest.approx(q, rel=1e-13, abs=0)


def test_no_rounding_of_the_core_outweighs_the_far_tail():
    """P[Z > u] = P[Z > u₁]·(u/u₁)^{−a} beyond the knee, to 9 digits, for 1,000 random ε and β.

    The control keeps what rounding leaves of the core, e^{−εu₁} − e^{−(1+a)}, which made one in
    nine of the farthest tails wrong, and one in twenty negative.
    """
    rng, wrong = np.random.default_rng(44), 0
    for _ in range(1000):
        epsilon = float(np.exp(rng.normal()))
        noise = LaplacePareto(epsilon, epsilon * float(rng.uniform(0.05, 1.0)))
        a = noise.tail_exponent
        away = np.array([1.0, 30.0, 1e6, 1e9])
        expected = float(noise.survival(noise.knee)) * away**-a
        found = noise.survival(noise.knee * away)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        left = np.exp(-np.array([epsilon * noise.knee])) - math.exp(-(1 + a))
        wrong += np.abs(left[0] / epsilon / (2 * noise._half_mass)) > 1e-9 * expected[-1]
    assert wrong > 100


def test_small_beta_tends_to_laplace():
    """β → 0 gives Laplace(1/ε); also where e^{−ε/β} is no longer a double."""
    p = np.array([1e-10, 1e-3, 0.2, 0.4, 0.7, 0.999])
    for beta in (1e-2, 1e-3, 1e-5, 1e-8):
        noise = LaplacePareto(2.0, 2.0 * beta)
        np.testing.assert_allclose(noise.ppf(p), Laplace(0.5).ppf(p), rtol=1e-9)
        assert noise.variance == pytest.approx(0.5, rel=1e-9, abs=0)


@pytest.mark.parametrize("beta", [1e-6, 1e-9, 1e-12, 1e-16, 1e-20, 1e-40])
def test_small_beta_of_the_power_law(beta):
    """(1 − βu)^{ε/β} → e^{−εu}, to first order in β, whose powers must not cancel in float64."""
    noise, limit = PowerLaw(2.0, 2.0 * beta), Laplace(0.5)
    p = np.array([1e-10, 1e-3, 0.2, 0.4, 0.4999, 0.7, 0.999])
    z = np.array([-30.0, -3.0, -0.7, -1e-3, 1e-3, 0.4, 0.7, 9.0])
    slack = 1e-12 + 1e4 * beta
    np.testing.assert_allclose(noise.ppf(p), limit.ppf(p), rtol=slack)
    np.testing.assert_allclose(noise.cdf(z), limit.cdf(z), rtol=slack)
    np.testing.assert_allclose(noise.logpdf(z), limit.logpdf(z), rtol=slack, atol=slack)
    assert noise.variance == pytest.approx(0.5, rel=slack, abs=0)


@pytest.mark.parametrize("family", [LaplacePareto, PowerLaw])
def test_beta_next_to_epsilon(family):
    """The limit β = ε is continuous: the last double below it gives the same law."""
    at, below = family(3.0, 3.0), family(3.0, math.nextafter(3.0, 0))
    p = np.array([1e-9, 0.01, 0.2, 0.4, 0.5, 0.6, 0.99])
    np.testing.assert_allclose(below.ppf(p), at.ppf(p), rtol=1e-12)
    z = np.array([0.0, 0.1, 1 / 3, 0.4, 5.0])
    np.testing.assert_allclose(below.logpdf(z), at.logpdf(z), rtol=1e-12)
    np.testing.assert_allclose(below.cdf(z), at.cdf(z), rtol=1e-12)


@pytest.mark.parametrize("factor", [1e-12, 1e-3, 1e6, 1e15])
def test_epsilon_is_a_scale(factor):
    p = np.array([1e-9, 0.01, 0.2, 0.4, 0.6])
    for family, beta in ((LaplacePareto, 0.3), (PowerLaw, 0.15)):
        unit, scaled = family(1.0, beta), family(factor, beta * factor)
        np.testing.assert_allclose(scaled.ppf(p) * factor, unit.ppf(p), rtol=1e-12)
        assert scaled.variance * factor**2 == pytest.approx(unit.variance, rel=1e-12, abs=0)
        assert scaled.max_score == pytest.approx(factor, rel=1e-12, abs=0)
        assert scaled.scale_cost == pytest.approx(1 / beta, rel=1e-12, abs=0)


INVERTED = [
    *(StudentT(nu) for nu in (2.01, 2.5, 3.0, 10.0, 100.0)),
    *(GeneralizedCauchy(gamma) for gamma in (3.01, 4.0, 20.0, 101.0)),
]


@pytest.mark.parametrize("noise", INVERTED, ids=str)
class TestInversion:
    def test_balls_of_every_precision_meet(self, noise):
        """And are as narrow as it, up to 2^-14 of the tail and of the centre, and much further."""
        tails = [2.0**-k for k in (2, 3, 10, 30, 100, 126)]
        centers = [0.5 - 2.0**-k for k in (3, 10, 30, 48)]
        for p in (*tails, *centers, 0.2499, 0.2501, 0.013, 0.37):
            with working_precision(300):
                fine = noise.isf(arb(p), BALL)
            for bits in (64, 160):
                with working_precision(bits):
                    ball = noise.isf(arb(p), BALL)
                assert ball.overlaps(fine), (p, bits)
                assert ball.rad() < fine * 2.0 ** (20 - bits), (p, bits)

    def test_the_root_is_guessed_well(self, noise, monkeypatch):
        """Two evaluations of the distribution function enclose it, as a rule; with steep ones 4."""
        counted = []
        for name in ("ball_tail", "ball_center"):
            original = getattr(type(noise), name)
            monkeypatch.setattr(
                type(noise),
                name,
                lambda self, u, original=original: counted.append(u) or original(self, u),
            )
        probabilities = [(k + 0.5) / 200 for k in range(100)]
        with working_precision(64):
            for p in probabilities:
                noise.isf(arb(p), BALL)
        usual = max(noise.tail_exponent, 3.0) == 3.0
        assert len(counted) / len(probabilities) < (2.8 if usual else 4.5)

    def test_a_coarse_try_changes_no_integer_and_no_bit(self, noise, monkeypatch):
        privacy = GeoPrivacy(1.0, per=8_000.0)
        mechanism = SmoothMechanism(
            Threshold(100_000, 16_000), privacy, noise=noise, beta=privacy.rate / 200
        )
        points = np.linspace(80_000, 130_000, 60).tolist()

        def released() -> tuple[list[int], int]:
            source = SeededSource(5)
            return [mechanism.release(x, source) for x in points], source.bits(64)

        assert noise.coarse_bits == 64
        quick = released()
        monkeypatch.setattr(type(mechanism), "_coarse_bits", None)
        assert released() == quick


@pytest.mark.parametrize("family", [LaplacePareto, PowerLaw])
def test_a_tail_as_heavy_as_the_frontier_permits_has_no_mean(family):
    assert family(1.0, 0.99).has_mean
    assert not family(1.0, 1.0).has_mean
