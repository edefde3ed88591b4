"""Test nested noise: its law against closed forms, its integers against 60 digits.

The rest E that makes noise of scale b₁ from noise of scale b₂ has the characteristic function
((1 + b₂²t²)/(1 + b₁²t²))^{(k+1)/2}; its distribution function is found by Fourier inversion here,
where `Coarsening` draws it from a mixture of exponentials.
"""

from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats

from geoveil.gp import (
    Cap,
    Coarsening,
    DebiasedLaplace,
    Disc,
    GaussianKernel,
    GeoPrivacy,
    Linear,
    LipschitzMechanism,
    ParameterError,
    PlanarLaplace,
    Query,
    RandomSource,
    Range,
    SeededSource,
    Threshold,
    UnsupportedError,
)
from geoveil.gp.exact import release_integers
from geoveil.gp.queries.profiles import Smoothstep
from geoveil.gp.randomness import LazyUniform

Array = NDArray[np.float64]
ALPHA = 1e-6
PER = {"finer": 1.0, "coarser": 2.0}
RHO = 0.25
PLACES = np.concatenate([-np.geomspace(0.01, 12, 40)[::-1], np.geomspace(0.01, 12, 40)])


def laplace(per: float, dimension: int = 1, unit: str = "", **step: float) -> PlanarLaplace:
    return PlanarLaplace(GeoPrivacy(1.0, per=per, unit=unit), dimension, **step)


def coarsening(dimension: int, per: float = PER["coarser"]) -> Coarsening:
    return Coarsening(laplace(PER["finer"], dimension), laplace(per, dimension))


@cache
def rest_distribution(dimension: int, exponent: float | None = None) -> tuple[float, ...]:
    """Return P(first coordinate of E ≤ x) at the places, for b₂ = 1 and b₁ = 2."""
    power = (dimension + 1) / 2 if exponent is None else exponent
    atom = RHO**power

    def continuous(t: float) -> float:
        return float(((1 + t**2) / (1 + t**2 / RHO)) ** power - atom)

    found = []
    for x in np.abs(PLACES):
        # sin(tx)/t · c(t), split where the rest of the integral is one of a smooth tail.
        near = integrate.quad(lambda t, x: continuous(t) * np.sinc(t * x / np.pi) * x, 0, 1, (x,))[
            0
        ]
        far = integrate.quad(lambda t: continuous(t) / t, 1, np.inf, weight="sin", wvar=x)[0]
        found.append((near + far) / np.pi)
    return tuple(0.5 + np.sign(PLACES) * (np.array(found) + atom / 2))


def gap(sample: Array, distribution: Any) -> float:
    """Return the largest difference of distribution functions at the places."""
    ordered = np.sort(sample)
    empirical = np.searchsorted(ordered, PLACES, side="right") / len(ordered)
    return float(np.abs(empirical - np.array(distribution)).max())


def bound(n: int) -> float:
    """Kolmogorov's bound on the gap at α = 1e-6."""
    return float(np.sqrt(np.log(2 / ALPHA) / (2 * n)))


@pytest.fixture(scope="module")
def rests(request):
    """E/b₂ by the number of coordinates, from exact releases of the origin: (n, k)."""
    n = 100_000 if request.config.getoption("tier") == "all" else 4_000
    source = SeededSource(7)
    drawn = {}
    for k in (1, 2, 3):
        nested = coarsening(k)
        points = [nested.release((0,) * k, source) for _ in range(n)]
        drawn[k] = np.array(points, dtype=np.float64) * nested.coarser.step
    return drawn


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_rest_has_the_law_of_its_closed_form(rests, k):
    """Each coordinate, and the atom; α = 1e-6 in every comparison."""
    sample = rests[k]
    for axis in range(k):
        assert gap(sample[:, axis], rest_distribution(k)) < bound(len(sample))
    still = float((sample == 0).all(axis=1).mean())
    assert still == pytest.approx(RHO ** ((k + 1) / 2), abs=bound(len(sample)))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_rest_of_another_law_is_seen(rests, k):
    """Controls: an atom at a moved value, a scale 10 % off, the exponent of a neighbour k."""
    sample = rests[k][:, 0]
    limit = bound(len(sample))
    assert gap(sample + 0.2, rest_distribution(k)) > limit
    assert gap(np.where(sample == 0, sample + 0.05, sample), rest_distribution(k)) > limit
    assert gap(sample, rest_distribution(k, k / 2)) > limit
    if len(sample) > 10_000:
        assert gap(sample * 1.1, rest_distribution(k)) > limit


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_finer_noise_and_the_rest_make_coarser_noise(rests, k):
    """The length against Gamma(k, b₁), α = 1e-6; control: without the rest."""
    rest = rests[k][:10_000]
    finer = laplace(1.0, k)
    points = finer.release_many(np.zeros(len(rest) if k == 1 else (len(rest), k)), SeededSource(8))
    noise = points.reshape(len(rest), k) * finer.step
    for sample, fits in ((noise + rest, True), (noise, False)):
        length = np.linalg.norm(sample, axis=1)
        statistic = stats.kstest(length, stats.gamma(k, scale=2.0).cdf).statistic
        assert (statistic < bound(len(rest))) == fits


@pytest.mark.parametrize("k", [1, 2, 3])
def test_simulated_rests_have_the_same_law(k):
    """The mixture of negative binomial and Gamma numbers; n = 200,000, α = 1e-6."""
    n = 200_000
    origin = np.zeros(n) if k == 1 else np.zeros((n, k))
    rest = coarsening(k).simulate(origin, np.random.default_rng(9)).reshape(n, k)
    assert gap(rest[:, -1], rest_distribution(k)) < bound(n)
    assert gap(rest[:, -1], rest_distribution(k, k / 2)) > bound(n)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_equal_rates_add_nothing(k):
    same = coarsening(k, per=1.0)
    point = tuple(range(12_345, 12_345 + k))
    assert same.release(point, SeededSource(1)) == point
    assert np.array_equal(same.simulate(np.ones((2, k)), np.random.default_rng(1)), np.ones((2, k)))


class Recorded(RandomSource):
    """Keeps what it deals, to evaluate the same release at many digits."""

    def __init__(self, seed: int) -> None:
        self.inner, self.dealt = SeededSource(seed), list[tuple[int, int]]()

    def bits(self, count: int) -> int:
        value = self.inner.bits(count)
        self.dealt.append((count, value))
        return value

    def uniforms(self, numbers: int) -> list[Any]:
        """Return the middle of what is known of each number."""
        known, bits = [0] * numbers, [0] * numbers
        for place, (count, value) in enumerate(self.dealt):
            known[place % numbers] = known[place % numbers] << count | value
            bits[place % numbers] += count
        return [(2 * n + 1) / mp.mpf(2) ** (b + 1) for n, b in zip(known, bits, strict=True)]


def exponential(u: Any, atom: Any) -> Any:
    return mp.mpf(0) if u < atom else -mp.log((1 - u) / (1 - atom))


def ideal_rest(k: int, rho: Any, u: list[Any]) -> list[Any]:
    """E/b₁ by the definition, from the numbers in the order of drawing."""
    if k == 1:
        return [exponential(u[0], rho) * (-1 if u[1] < 0.5 else 1)]
    if k == 2:
        phi = u[1] * mp.pi / 2
        p = rho / (mp.cos(phi) ** 2 + rho * mp.sin(phi) ** 2)
        variance = exponential(u[0], rho) / rho + exponential(u[2], p) / p
        length = mp.sqrt(rho) * mp.sqrt(2 * variance) * mp.sqrt(-2 * mp.log(u[3]))
        return [length * mp.cos(2 * mp.pi * u[4]), length * mp.sin(2 * mp.pi * u[4])]
    both = [exponential(v, rho) for v in u[:2]]
    length = mp.mpf(0) if max(both) == 0 else sum(both) - mp.log(u[2])
    height = 2 * u[3] - 1
    ring = length * mp.sqrt(1 - height**2)
    angle = 2 * mp.pi * u[4]
    return [ring * mp.cos(angle), ring * mp.sin(angle), length * height]


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("coarse", [1.25, 3.0, 1e4])
def test_coarser_integers_are_those_of_sixty_digits(oracles, k, coarse):
    nested = coarsening(k, coarse)
    numbers = {1: 2, 2: 5, 3: 5}[k]
    with mp.workdps(60):
        rho = 1 / mp.mpf(coarse) ** 2
        for seed in range(40):
            source = Recorded(seed)
            point = tuple(1_234_567 * seed - 10**6 + axis for axis in range(k))
            released = nested.release(point, source)
            rest = ideal_rest(k, rho, source.uniforms(numbers))
            for axis in range(k):
                ideal = point[axis] * mp.mpf(nested.finer.step) + coarse * rest[axis]
                assert released[axis] == oracles.round_to_grid(ideal, nested.coarser.step)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_finer_grid_does_not_show_where_the_rest_is_0(k):
    """The same integers as on the grid of the finer noise, told in smaller steps, within 64 bits.

    Control: rounded to the smaller steps, only those with a rest of 0 would be multiples.
    """
    finer = laplace(PER["finer"], k)
    own, small, least = (
        Coarsening(finer, laplace(PER["coarser"], k, step=finer.step * smaller))
        for smaller in (1.0, 2.0**-9, 2.0**-60)
    )
    assert own.coarser.step == finer.step
    multiples = 0
    for seed in range(100):
        point = (10**5 + seed, -7, 3)[:k]
        on_own = own.release(point, SeededSource(seed))
        assert small.release(point, SeededSource(seed)) == tuple(2**9 * x for x in on_own)
        ends = (min(max(2**60 * x, -(2**63)), 2**63 - 1) for x in on_own)
        assert least.release(point, SeededSource(seed)) == tuple(ends)
        source = SeededSource(seed)
        uniforms = [LazyUniform(source) for _ in range({1: 2, 2: 5, 3: 5}[k])]
        plain = release_integers(
            uniforms, lambda u, z=point: small._moved(z, u), small.coarser.step_exponent
        )
        multiples += all(x % 2**9 == 0 for x in plain)
    assert 0 < multiples < 60


LINE = laplace(1.0)
QUERY = LipschitzMechanism(GaussianKernel(0.0, 1.0), GeoPrivacy(1.0, per=1.0))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: Coarsening(laplace(2.0), LINE), "coarser.privacy"),
        (lambda: Coarsening(LINE, laplace(2.0, 2)), "coarser.dimension"),
        (lambda: Coarsening(LINE, laplace(2.0, unit="metre")), "coarser.privacy.unit"),
        (lambda: Coarsening(QUERY, LINE), "finer"),  # type: ignore[arg-type]  # refused
        (lambda: Coarsening(LINE, 2.0), "coarser"),  # type: ignore[arg-type]  # refused
        (lambda: coarsening(2).release((1,)), "point"),
        (lambda: coarsening(1).release((1.5,)), "point"),  # type: ignore[arg-type]  # refused
        (lambda: coarsening(1).release((2**63,)), "point"),
        (lambda: coarsening(1).simulate([0.0], 1), "rng"),  # type: ignore[arg-type]  # refused
    ],
)
def test_what_is_not_nested_is_refused(call, name):
    with pytest.raises(ParameterError) as caught:
        call()
    assert caught.value.name == name


def test_points_are_released_in_three_dimensions_at_most():
    with pytest.raises(UnsupportedError, match="released in"):
        Coarsening(laplace(1.0, 4), laplace(2.0, 4))


DOLLARS = GeoPrivacy(1.0, per=8_000.0)
BAND = Threshold(80_000, 24_000, "smoothstep")
ASKED: dict[str, Query] = {
    "threshold": BAND,
    "bell": GaussianKernel(80_000.0, 24_000.0),
    "linear": Linear(Smoothstep(60_000.0), -1.0, -90_000.0),
    "range": Range(80_000, 104_000, 24_000, "smoothstep"),
}


class Middle(RandomSource):
    """Bits of one half: every point is the middle of its cell, nearly."""

    def bits(self, count: int) -> int:
        return 1 << count - 1 if count > 1 else 0


@pytest.mark.parametrize("z", [61_200.0, 70_123.456, 91_999.5, 92_000.5, 1e9])
def test_an_answer_is_the_debiased_step_of_the_point(z):
    """Against the polynomial in 50 digits: φ − b²φ'' of u = s/w + 1/2 in [0, 1].

    So it is under a cap at the ends of the band, on which no bits could decide.
    """
    kept, mechanism = PlanarLaplace(DOLLARS, 1), DebiasedLaplace(BAND, DOLLARS)
    k = round(z / kept.step)
    with mp.workdps(50):
        place = (mp.mpf(k) + mp.mpf(2) ** -129) * mp.mpf(2) ** kept.step_exponent
        u = (place - 80_000) / 24_000 + mp.mpf(1) / 2
        inside = 3 * u**2 - 2 * u**3 - (mp.mpf(8_000) / 24_000) ** 2 * (6 - 12 * u)
        g = inside if 0 < u < 1 else mp.mpf(u >= 1)
        expected = int(mp.nint(g / mp.mpf(2) ** mechanism.step_exponent))
    capped = DebiasedLaplace(Cap(1.5, 1.5).on(BAND, DOLLARS.exact_rate), DOLLARS)
    for each in (mechanism, capped):
        assert each.answer(k, kept.step_exponent, Middle()) == expected


@pytest.fixture(scope="module")
def answered():
    """1,200 answers made from points of $92,000, and 1,200 reports of it, by query."""
    kept, source = PlanarLaplace(DOLLARS, 1), SeededSource(5)
    points = kept.release_many(np.full(1_200, 92_000.0), source)[:, 0].tolist()
    found = {}
    for name, query in ASKED.items():
        mechanism = DebiasedLaplace(query, DOLLARS)
        made = [mechanism.answer(k, kept.step_exponent, source) for k in points]
        reports = mechanism.release_many(np.full(1_200, 92_000.0), source)
        found[name] = (np.array(made) * mechanism.step, reports * mechanism.step)
    return found


@pytest.mark.parametrize("name", ["threshold", "bell", "linear"])
def test_answers_from_a_point_have_the_law_of_reports(answered, name):
    """Kolmogorov and Smirnov, α = 1e-6; the control is the range, whose laws differ."""
    made, reports = answered[name]
    assert stats.ks_2samp(made, reports).pvalue > ALPHA
    assert stats.ks_2samp(*answered["range"]).pvalue < ALPHA


def test_answers_about_a_range_are_unbiased_all_the_same(answered):
    """n = 1,200, 4.9 standard errors (α = 1e-6); the largest report is none beyond the range."""
    made, _ = answered["range"]
    mechanism = DebiasedLaplace(ASKED["range"], DOLLARS)
    error = made.std() / np.sqrt(len(made))
    assert abs(made.mean() - float(mechanism.query.value([92_000.0])[0])) < 4.9 * error
    assert mechanism.range[0] <= made.min() <= made.max() <= mechanism.range[1]
    # Intervals from few reports take this law into account: the skewness is within its bounds.
    centred = made - made.mean()
    third, spread = (centred**3).mean(), 4.9 * (centred**3).std() / np.sqrt(len(made))
    low, high = mechanism.report_moments().third(made.mean(), made.var())
    assert low - spread < third < high + spread


def test_a_point_answers_no_question_about_places():
    disc = DebiasedLaplace(Disc((0.0, 0.0), 90_000.0, 24_000.0, "smoothstep"), DOLLARS)
    with pytest.raises(UnsupportedError, match="does not answer"):
        disc.answer(1, -8)
    with pytest.raises(ParameterError, match="64 bits"):
        DebiasedLaplace(BAND, DOLLARS).answer(2**70, -8)


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("bits", [3, 5])
def test_a_coarser_point_keeps_its_own_rate_but_for_a_step_of_the_finer_grid(bits):
    """Oracle: the law of the coarser integer, summed over the finer ones and the rest E.

    Between any two values it changes by at most b₁'s rate and a step in units of b₂, which is at
    most 2^-20 by default. Control: without that step it would not do.
    """
    step, coarse, below = 2.0**-bits, 2.0 ** (2 - bits), stats.laplace.cdf
    at = np.arange(-40, 40 + step, step)

    def law(x: float) -> Array:
        """P[K·coarse] for people at x, b₂ = 1, b₁ = 2, E = 0 with the probability 1/4."""
        finer = below(at + step / 2 - x) - below(at - step / 2 - x)
        edges = np.arange(-15, 15, coarse) - coarse / 2
        rest = RHO * (edges[:, None] > at) + (1 - RHO) * below((edges[:, None] - at) / 2)
        return np.asarray(np.diff(rest @ finer))

    places = np.arange(0, 2, step / 8)
    logs = np.log([law(float(x)) for x in places])
    gain = np.abs(logs[:, None] - logs).max(axis=2) - np.abs(places[:, None] - places) / 2
    assert 0.05 * step < gain.max() <= step
    for dimension in (1, 2, 3):
        for per in (0.7, 1.0, 8_000.0):
            assert laplace(per, dimension).step <= 2.0**-20 * per
