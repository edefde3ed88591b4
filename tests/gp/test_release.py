"""Test that a release is the correctly rounded ideal output, evaluated at 200 digits.

U = 0.b₁b₂b₃… in the order in which the bits are drawn: 128 at first, then 64 at a time.
"""

import math
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from flint import ctx
from hypothesis import given, settings, strategies as st

from geoveil.gp import (
    DebiasedLaplace,
    FormulaProfile,
    GaussianKernel,
    GeneralizedCauchy,
    GeoPrivacy,
    Linear,
    LipschitzMechanism,
    LocalLaplace,
    LocalPrivacy,
    ParameterError,
    QueryMechanism,
    SeededSource,
    SmoothMechanism,
    StudentT,
    Threshold,
    VectorSmoothMechanism,
)
from tests.gp.ideal import ideal

BITS = 2048
INT64 = (-(2**63), 2**63 - 1)
KINDS = ("smooth", "smooth, far reach", "debiased", "lipschitz", "local")
PROFILES = ("linear", "smoothstep", "kernel", "kernel in the plane")


@st.composite
def cases(draw: st.DrawFn) -> tuple[QueryMechanism, Any, int]:
    """A mechanism with random parameters, a point, and the seed of the bits."""
    kind = draw(st.sampled_from(KINDS))
    profile = draw(st.sampled_from(PROFILES))
    if kind == "debiased" and profile == "linear":
        profile = "smoothstep"
    size = 10.0 ** draw(st.floats(-4, 6))
    # ε·size from 1e-8 (all noise) to 1e6 (hardly any).
    epsilon = draw(st.floats(1e-3, 30.0))
    per = size * epsilon / 10.0 ** draw(st.floats(-8, 6))
    privacy = GeoPrivacy(epsilon, per=per)
    origin = draw(st.sampled_from([0.0, 100_000.0, -73.98])) * size
    if profile == "kernel in the plane":
        query: Any = GaussianKernel((origin, -3 * size), size)
    elif profile == "kernel":
        query = GaussianKernel(origin, size)
    else:
        query = Threshold(at=origin, width=size, profile=profile)

    def coordinate(center: float) -> float:
        offset = draw(
            st.one_of(
                st.sampled_from([0.0, 0.5, -0.5, math.nextafter(0.5, 1), 1.0, 30.0]),
                st.floats(-3, 3),
            )
        )
        there = center + offset * size
        if draw(st.integers(0, 9)) == 0:
            there = draw(st.sampled_from([1e15, -1e15]))
        return there

    if profile == "kernel in the plane":
        x: Any = (coordinate(origin), coordinate(-3 * size))
    else:
        x = coordinate(origin)
    seed = draw(st.integers(0, 2**32))
    grids = draw(st.sampled_from([(None,), (0.25, None), (2.0**-10, None)]))
    fraction = draw(st.sampled_from([None, 1e-9, 1e-4, 0.05, 0.3, 0.5, 0.75, 0.999999, 1.0]))

    def make(step: float | None) -> QueryMechanism:
        if kind == "local":
            return LocalLaplace(query, LocalPrivacy(epsilon), step=step)
        if kind == "lipschitz":
            return LipschitzMechanism(query, privacy, step=step)
        if kind == "debiased":
            return DebiasedLaplace(query, privacy, step=step)
        beta = None if fraction is None else min(fraction * privacy.rate, privacy.rate)
        reach = math.inf if kind == "smooth, far reach" and isinstance(query, Threshold) else 0.0
        return SmoothMechanism(query, privacy, beta=beta, reach=reach, step=step)

    # A grid too fine for 64 bits is refused; the default never is.
    for step in grids[:-1]:
        with suppress(ParameterError):
            return make(step), x, seed
    return make(None), x, seed


@pytest.mark.deep
@settings(max_examples=8 * settings().max_examples)
@given(
    case=cases(),
    lead=st.sampled_from([0, 0, 1, 2, 4, 6, 9, 14, 25, 60, 140]),
    above=st.booleans(),
)
def test_release_is_the_rounded_ideal_output(oracles, fixed_bits, case, lead, above):
    """U is random after `lead` equal bits, so that cores, knees and tails all have their share."""
    mechanism, x, seed = case
    value = random.Random(seed).getrandbits(BITS) >> lead
    value = (1 << BITS) - 1 - value if above else value
    source = fixed_bits(value, BITS)
    released = mechanism.release(x, source)
    assert isinstance(released, int)
    expected = ideal(mechanism, x, value, BITS)
    assert min(expected) <= released <= max(expected)
    assert source.draws[0] == 128
    assert all(count == 64 for count in source.draws[1:])
    low, high = mechanism.grid_range
    assert INT64[0] <= low <= released <= high <= INT64[1]


@settings(max_examples=3 * settings().max_examples // 2)
@given(case=cases())
def test_seeded_source_is_a_stream_of_bits(oracles, fixed_bits, case):
    """A release from a seed is the release from that stream's bits, however they are cut."""
    mechanism, x, seed = case
    source = SeededSource(seed)
    value = 0
    for count in (1, 7, 120, 300, 1, 0, 64, 500, 1055):
        value = value << count | source.bits(count)
    assert mechanism.release(x, SeededSource(seed)) == mechanism.release(x, fixed_bits(value, BITS))


STEP = Threshold(at=100_000.0, width=16_000.0, profile="smoothstep")
RAMP = Threshold(at=100_000.0, width=16_000.0)
BELL = GaussianKernel(center=(300.0, -200.0), bandwidth=120.0)
PRIVACY = GeoPrivacy(epsilon=1.0, per=8_000.0)
NEAR = GeoPrivacy(epsilon=1.0, per=100.0)
EXAMPLES: dict[str, tuple[QueryMechanism, list[Any]]] = {
    "ramp": (SmoothMechanism(RAMP, PRIVACY), [92_000.0, 99_999.0, 108_000.0, 1e5, 2e5, 1e15]),
    "ramp, heavy": (SmoothMechanism(RAMP, PRIVACY, beta=PRIVACY.rate), [92_000.0, 1e5, 130_000.0]),
    "smoothstep": (SmoothMechanism(STEP, PRIVACY), [92_000.0, 101_000.0, 3e5]),
    "kernel": (SmoothMechanism(BELL, NEAR), [(300.0, -200.0), (420.0, -200.0), (1e15, 1.0)]),
    "lipschitz": (LipschitzMechanism(RAMP, PRIVACY), [92_000.0, 1e5]),
    "debiased step": (DebiasedLaplace(STEP, PRIVACY), [92_000.0, 108_000.0, 1e5, 1e15, -1e15]),
    "debiased kernel": (DebiasedLaplace(BELL, NEAR), [(300.0, -200.0), (420.0, -80.0)]),
}
RANDOM_TAIL = random.Random(5).getrandbits(4096)


def extremes() -> dict[str, tuple[int, int]]:
    """Name → (bits, how many): what a fair source does once in ages, and must not break on."""
    tail = RANDOM_TAIL >> 3072  # 1024 random bits
    ones = lambda n: (1 << n) - 1  # noqa: E731 - reads as the bit pattern it is
    return {
        "zeros, then random": (tail, 700 + 1024),
        "ones, then random": (ones(700) << 1024 | tail, 700 + 1024),
        "a one, zeros, then random": (1 << (700 + 1023) | tail, 700 + 1024),
        "a zero, ones, then random": (ones(699) << 1024 | tail, 700 + 1024),
        "128 zeros, then random": (tail, 128 + 1024),
        "128 ones, then random": (ones(128) << 1024 | tail, 128 + 1024),
        "quarter": (1 << (700 + 1022) | tail, 700 + 1024),
    }


@pytest.mark.parametrize("pattern", extremes())
@pytest.mark.parametrize("name", EXAMPLES)
def test_extreme_bits(oracles, fixed_bits, name, pattern):
    """700 equal bits leave U within 2^-700 of 0, 1/2 or 1, where the oracle needs more digits."""
    mechanism, points = EXAMPLES[name]
    value, count = extremes()[pattern]
    for x in points:
        released = mechanism.release(x, fixed_bits(value, count))
        with mp.workdps(650):
            expected = ideal(mechanism, x, value, count)
        assert min(expected) <= released <= max(expected)


def test_saturation_at_the_ends_of_int64(fixed_bits):
    """A heavy tail ends at the ends of int64, on the right side."""
    mechanism = SmoothMechanism(RAMP, PRIVACY, beta=PRIVACY.rate)
    tail, count = RANDOM_TAIL >> 3072, 200 + 1024
    assert mechanism.release(1e5, fixed_bits(tail, count)) == INT64[0]
    assert mechanism.release(1e5, fixed_bits((1 << count) - 1 - tail, count)) == INT64[1]


def boundary(oracles: Any, mechanism: QueryMechanism, x: float, offset: int) -> tuple[Any, int]:
    """Return U at which the ideal output is exactly a rounding boundary, and the integer above."""
    f = oracles.value(mechanism.query, oracles.signed_distance(mechanism.query, x))
    step = oracles.exact(mechanism.step)
    k = int(mp.floor(f / step)) + offset
    y = (k + mp.mpf(1) / 2) * step
    rate = oracles.exact(mechanism.privacy.epsilon) / oracles.exact(mechanism.privacy.per)  # type: ignore[union-attr]
    if isinstance(mechanism, DebiasedLaplace):
        s = oracles.signed_distance(mechanism.query, x)
        v = mp.findroot(
            lambda t: oracles.debiased(mechanism.query, t, 1 / rate) - y,
            (s - 10, s + 10),
            solver="secant",
            tol=mp.mpf(10) ** -390,
            maxsteps=200,
        )
        z = (v - s) * rate
        tail = mp.exp(-abs(z)) / 2
    else:
        beta = rate * oracles.exact(mechanism.noise.beta)  # type: ignore[attr-defined]
        s = oracles.signed_distance(mechanism.query, x)
        z = (y - f) * rate / oracles.bound(mechanism.query, s, beta)
        tail = oracles.survival(mechanism.noise, abs(z))  # type: ignore[attr-defined]
    return (tail if z < 0 else 1 - tail), k + 1


@pytest.mark.parametrize("name", ["ramp", "smoothstep", "debiased step"])
@pytest.mark.parametrize("agree", [128, 129, 190, 193, 600])
def test_bits_beyond_the_first_decide_where_they_must(oracles, fixed_bits, name, agree):
    """U agrees with a rounding boundary in the first `agree` bits: only then is it settled."""
    mechanism = EXAMPLES[name][0]
    if name == "debiased step":
        mechanism = DebiasedLaplace(STEP, PRIVACY, step=2.0**-8)
    x, offset = (98_765.0, 3)
    with mp.workdps(400):
        at, above = boundary(oracles, mechanism, x, offset)
        prefix = int(mp.floor(at * mp.mpf(2) ** agree))
        rest = int(mp.floor(at * mp.mpf(2) ** (agree + 256))) - (prefix << 256)
    # Differ from the boundary by about 2^-agree-3, on either side of it.
    for sign in (1, -1):
        noisy = (prefix << 256 | rest) + sign * (1 << 253)
        value = noisy << 1024 | RANDOM_TAIL >> 3072
        count = agree + 256 + 1024
        source = fixed_bits(value, count)
        released = mechanism.release(x, source)
        assert released == (above if sign > 0 else above - 1)
        assert [released] == ideal(mechanism, x, value, count)
        assert source.draws[0] == 128
        assert source.drawn > agree - 8, "an integer that these bits do not settle"
        assert source.drawn <= 128 + 64 * math.ceil((agree + 40 - 128) / 64)


def test_ordinary_releases_draw_128_bits(fixed_bits):
    drawn = []
    for seed in range(200):
        source = fixed_bits(random.Random(seed).getrandbits(BITS), BITS)
        SmoothMechanism(RAMP, PRIVACY).release(1e5, source)
        drawn.append(source.drawn)
    assert set(drawn) == {128}


def test_release_accepts_any_container_of_one_point():
    ramp, kernel = EXAMPLES["ramp"][0], EXAMPLES["kernel"][0]
    expected = ramp.release(99_000.0, SeededSource(3))
    for x in (99_000, np.float64(99_000), np.array(99_000.0), [99_000.0], np.array([[99_000]])):
        assert ramp.release(x, SeededSource(3)) == expected
    expected = kernel.release((350.0, -180.0), SeededSource(3))
    for point in ([350, -180], np.array([350.0, -180.0]), np.array([[350.0, -180.0]])):
        assert kernel.release(point, SeededSource(3)) == expected


def test_working_precision_of_others_does_not_matter(fixed_bits):
    """python-flint's precision belongs to the process: neither disturbed by us, nor disturbing."""
    points = (92_123.456, 99_999.999, 0.1)
    expected = [
        EXAMPLES[name][0].release(x, SeededSource(9))
        for name in ("ramp", "smoothstep", "debiased step")
        for x in points
    ]
    before = ctx.prec
    try:
        for precision in (2, 20, 5_000):
            ctx.prec = precision
            found = [
                EXAMPLES[name][0].release(x, SeededSource(9))
                for name in ("ramp", "smoothstep", "debiased step")
                for x in points
            ]
            assert found == expected
            assert ctx.prec == precision
    finally:
        ctx.prec = before


def test_threads_do_not_disturb_each_other():
    """The working precision is shared by all threads of a process."""
    mechanisms = [EXAMPLES[name][0] for name in ("ramp", "smoothstep", "debiased step")]

    def run(offset: int) -> list[int]:
        return [
            mechanism.release(90_000.0 + 123.4 * i, SeededSource(1000 * offset + i))
            for i in range(60)
            for mechanism in mechanisms
        ]

    alone = [run(offset) for offset in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(4))) == alone


def test_a_grid_without_0_and_1_is_refused():
    """With step 2, f/step far above the band is 1/2 and next to no noise is left to decide.

    Whether and when a release succeeds must not depend on the private value.
    """
    with pytest.raises(ParameterError, match="at most 1"):
        SmoothMechanism(Threshold(0.0, 1.0), GeoPrivacy(1.0, per=1.0), step=2.0)
    mechanism = SmoothMechanism(Threshold(0.0, 1.0), GeoPrivacy(1.0, per=1.0), step=1.0)
    for x in (0.0, -1e3, 1e3, -1e7, 1e7):
        assert mechanism.release(x, SeededSource(1)) in range(-40, 41)


@pytest.mark.parametrize("exponent", range(-8, 9))
def test_default_grid_holds_the_values_and_the_noise(exponent):
    """Releases far from the band are 0 or 1 give or take the noise: no default saturates."""
    privacy = GeoPrivacy(10.0**exponent, per=1.0)
    for query in (Threshold(0.0, 1.0), Threshold(0.0, 1.0, "smoothstep"), GaussianKernel(0.0, 1.0)):
        mechanisms: list[QueryMechanism] = [
            SmoothMechanism(query, privacy),
            LipschitzMechanism(query, privacy),
        ]
        if query != Threshold(0.0, 1.0):
            mechanisms.append(DebiasedLaplace(query, privacy))
        for mechanism in mechanisms:
            x = 0.2
            spread = math.sqrt(float(mechanism.variance(x)))
            total = sum(mechanism.release(x, SeededSource(i)) * mechanism.step for i in range(40))
            assert abs(total / 40 - float(mechanism.mean(x))) <= 3 * spread
            # The grid's own error adds less than 0.01 % to the variance.
            assert mechanism.step**2 / 12 <= 1e-4 * spread**2


INVERTED = (
    StudentT(3),
    StudentT(2.2),
    StudentT(17.5),
    GeneralizedCauchy(4),
    GeneralizedCauchy(3.1),
)


def tail(noise: Any, u: Any) -> Any:
    """Return P[Z > u], u > 0, by the incomplete beta function of mpmath."""
    if isinstance(noise, StudentT):
        nu = mp.mpf(noise.nu)
        return mp.betainc(nu / 2, 0.5, 0, nu / (nu + u * u), regularized=True) / 2
    k = 1 / mp.mpf(noise.gamma)
    return mp.betainc(1 - k, k, 0, 1 / (1 + u ** mp.mpf(noise.gamma)), regularized=True) / 2


@pytest.mark.deep(keep=7)
@pytest.mark.parametrize("noise", INVERTED, ids=repr)
@pytest.mark.parametrize("step", [None, 2.0**-6])
def test_noise_without_a_closed_quantile_is_decided_by_its_distribution(oracles, noise, step):
    """The integer is k iff F((k−½)·step) ≤ U < F((k+½)·step), F the law of f(x) + scale·Z."""
    mechanism = SmoothMechanism(STEP, PRIVACY, noise=noise, beta=0.05 * PRIVACY.rate, step=step)
    with mp.workdps(60):
        with mp.workdps(30):
            assert float(tail(noise, mp.mpf(2))) == pytest.approx(
                float(oracles.noise_survival(noise, 2)), rel=1e-12
            )
        scale = oracles.bound(STEP, mp.mpf(1_000), oracles.exact(mechanism._beta))
        scale /= oracles.exact(mechanism._eta)
        value = oracles.value(STEP, mp.mpf(1_000))
        for seed in range(12):
            uniform = mp.mpf(SeededSource(seed).bits(256)) / 2**256
            k = mechanism.release(STEP.at + 1_000, SeededSource(seed))

            def distribution(y: Any) -> Any:
                z = (y - value) / scale
                return 1 - tail(noise, z) if z > 0 else tail(noise, -z)

            low, high = ((k + half) * mp.mpf(mechanism.step) for half in (-0.5, 0.5))
            assert distribution(low) <= uniform < distribution(high)
            if seed == 0:  # the neighbour would be wrong
                assert not distribution(high) <= uniform


@pytest.mark.deep(keep=3)
@pytest.mark.parametrize("reach", [math.inf, 700.0])
@pytest.mark.parametrize("query", [BELL, STEP, Threshold(1e5, 16e3, "smoothstep")], ids=repr)
def test_a_far_reach_is_released_at_the_bound_it_simulates(oracles, query, reach):
    """The scale is that of `noise_bound`: above the tight bound, by no more than 0.2 %.

    Of the kernel at an infinite reach it comes from cells that all languages share: by 1.1 %.
    """
    mechanism = SmoothMechanism(query, NEAR, reach=reach, step=2.0**-10)
    x = (900.0, 1_200.0) if query is BELL else 1.02e5
    tight = float(query.smooth_bound(x, mechanism.beta, reach=reach)) / mechanism.eta
    scale = math.sqrt(float(mechanism.variance(x)) / mechanism.noise.variance)
    looser = 1.011 if query is BELL and reach == math.inf else 1.002
    assert tight * (1 - 1e-9) <= scale <= tight * looser
    for seed in range(20):
        z = float(oracles.quantile(mechanism.noise, SeededSource(seed).bits(128), 128))
        y = float(query.value(x)) + scale * z
        k = mechanism.release(x, SeededSource(seed))
        assert abs(y - k * mechanism.step) <= mechanism.step / 2 + 1e-12 * abs(y)


def test_a_grid_between_two_points_of_which_f_is_constant_is_refused():
    """There a release would draw bits for ever, or not, depending on the value."""
    level = Linear(FormulaProfile(lambda u, ops: u / 3, scale=1.0, extent=1.5), direction=1.0)
    with pytest.raises(ParameterError, match="odd half"):
        SmoothMechanism(level, GeoPrivacy(1.0, per=1.0), step=1.0)
    with pytest.raises(ParameterError, match="odd half"):
        VectorSmoothMechanism([STEP, level], GeoPrivacy(1.0, per=1.0), step=1.0)
    for step in (0.5, None):
        mechanism = SmoothMechanism(level, GeoPrivacy(1.0, per=1.0), step=step)
        assert mechanism.release(1e30, SeededSource(1)) * mechanism.step == 0.5
