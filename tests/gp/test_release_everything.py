"""Test that every possible mechanism × query × noise × reach × calibration can be released.

And what it releases has the law of what it simulates. A public mechanism, query, profile or noise
without a row here fails the first test.
"""

import inspect
import itertools
import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import geoveil.gp as gp
from geoveil.gp import (
    ApproximateLaplace,
    Cap,
    Capped,
    DebiasedLaplace,
    Disc,
    FormulaProfile,
    Gaussian,
    GaussianKernel,
    GeneralizedCauchy,
    GeoPrivacy,
    Laplace,
    LaplacePareto,
    Linear,
    LipschitzMechanism,
    LocalLaplace,
    LocalPrivacy,
    Noise,
    ParameterError,
    PlanarLaplace,
    Polygon,
    PowerLaw,
    PrivateValueError,
    Profile,
    Query,
    Radial,
    Ramp,
    RandomizedResponse,
    RandomSource,
    Range,
    SeededSource,
    SmoothMechanism,
    Smoothstep,
    StudentT,
    TabulatedProfile,
    Threshold,
    TwoWayThreshold,
    UnsupportedError,
    VectorAnswer,
    VectorSmoothMechanism,
)

PRIVACY = GeoPrivacy(1.0, per=1.0)
REACHES = (0.0, 1.5, math.inf)
SHARES = (0.03, 0.2, 0.5, 0.8)
SIMULATED = 10_000
COMPARISONS = 20_000
"""More than this file makes, of one sample each."""
SQUARE = ((0.0, 0.0), (6.0, 0.0), (6.0, 5.0), (0.0, 5.0))


def bump(u: Any, ops: Any) -> Any:
    """A formula of one's own, with a continuous slope, that has no symmetry."""
    return ops.exp(-u * u) * (1 + u / 2)


def tent(u: Any, ops: Any) -> Any:
    """A formula with corners."""
    return ops.maximum(1 - ops.absolute(u), ops.constant(0))


STEPS = ("linear", "smoothstep")
FLAT, PLANE, SPACE = (0.3, -2.5), ((0.4, 0.2), (7.5, -3.0)), ((0.4, 0.2, 1.0), (5.0, 3.0, -1.0))
Row = tuple[Query, tuple[Any, ...]]


@cache
def profiles() -> dict[type, list[Profile]]:
    """Return profiles by their kind: not a table, as the enclosure of a formula takes a while."""
    return {
        Ramp: [Ramp(2.0)],
        Smoothstep: [Smoothstep(2.0)],
        Gaussian: [Gaussian(1.5)],
        FormulaProfile: [
            FormulaProfile(bump, scale=1.5, extent=5.0),
            FormulaProfile(tent, scale=1.5, extent=2.0),
        ],
        TabulatedProfile: [
            TabulatedProfile((0.0, 1.5, 3.0), (1.0, 0.3, 0.0), (0.0, -0.6, -0.6, 0.0)),
            TabulatedProfile((0.0, 2.0), (1.0, 0.0), (-0.5, -0.5)),
        ],
    }


@cache
def queries() -> dict[type, list[Row]]:
    """Return queries by their kind, each with points."""
    every = list(itertools.chain.from_iterable(profiles().values()))
    return {
        Threshold: [(Threshold(0.0, 2.0, step), FLAT) for step in STEPS],
        Range: [(Range(0.0, 5.0, 2.0, step), FLAT) for step in STEPS],
        TwoWayThreshold: [(TwoWayThreshold((0.0, 0.0), 2.0, step), PLANE) for step in STEPS],
        Disc: [(Disc((0.0, 2.0), 2.0, 2.0, step), PLANE) for step in STEPS],
        Polygon: [(Polygon(SQUARE, 2.0, step), PLANE) for step in STEPS],
        GaussianKernel: [
            (GaussianKernel(center, 1.5), points)
            for center, points in ((0.0, FLAT), ((0.0, 1.0), PLANE), ((0.0, 1.0, 2.0), SPACE))
        ],
        Radial: [(Radial(profile, (0.0, 1.0)), PLANE) for profile in every],
        Linear: [(Linear(profile, (3.0, 4.0), 0.5), PLANE) for profile in every],
        Capped: [
            (Cap(4.0, 3.0).on(Threshold(0.0, 2.0, step), PRIVACY.exact_rate), FLAT)
            for step in STEPS
        ],
    }


SIZES = {
    Threshold: 2, Range: 2, TwoWayThreshold: 2, Disc: 2, Polygon: 2, GaussianKernel: 3, Radial: 7,
    Linear: 7, Capped: 2,
}  # fmt: skip
"""How many queries of each kind there are."""
TAILED: dict[type, Noise] = {
    StudentT: StudentT(3),
    GeneralizedCauchy: GeneralizedCauchy(4),
    LaplacePareto: LaplacePareto(1.0, 0.2),
    PowerLaw: PowerLaw(1.0, 0.05),
}
TAILLESS: dict[type, Noise] = {Laplace: Laplace(1.0)}
PAPER = (StudentT, GeneralizedCauchy)
"""The families that the paper's calibration is stated for."""
BETA = 0.05

Makers = Iterator[tuple[str, Callable[[], Any], type[Exception] | None]]
"""Names, ways to make a mechanism, and how making it is refused, if it is."""


def by_noise(kind: Callable[..., Any], noises: dict[type, Noise], beta: float) -> Makers:
    for reach in REACHES:
        yield f"best, {reach}", partial(kind, reach=reach), None
        for family, noise in noises.items():
            for calibration in ("exact", "paper"):
                refused = family in TAILLESS or (calibration == "paper" and family not in PAPER)
                make = partial(kind, noise=noise, beta=beta, reach=reach, calibration=calibration)
                name = f"{family.__name__}, {reach}, {calibration}"
                yield name, make, UnsupportedError if refused else None


def smooth(query: Query) -> Makers:
    return by_noise(partial(SmoothMechanism, query, PRIVACY), TAILED | TAILLESS, BETA)


def vector(query: Query) -> Makers:
    return by_noise(partial(VectorSmoothMechanism, [query, query], PRIVACY), TAILED, BETA / 2)


def answer(query: Query) -> Makers:
    yield "best", lambda: VectorSmoothMechanism([query, query], PRIVACY).answers[1], None


def approximate(query: Query) -> Makers:
    for reach, calibration in itertools.product((1.5, math.inf), ("exact", "paper")):
        privacy = GeoPrivacy(1.0, per=1.0, delta=1e-6, reach=reach)
        yield (
            f"{reach}, {calibration}",
            partial(ApproximateLaplace, query, privacy, calibration=calibration),
            None,
        )
    yield "no delta", lambda: ApproximateLaplace(query, PRIVACY), ParameterError


def debiased(query: Query) -> Makers:
    cornered = [profiles()[kind][-1] for kind in (FormulaProfile, TabulatedProfile)]
    corners = isinstance(query.profile, Ramp) or any(
        query.profile in (profile, profile.on_ray()) for profile in cornered
    )
    yield "", lambda: DebiasedLaplace(query, PRIVACY), UnsupportedError if corners else None


def plain(kind: Callable[..., Any], privacy: Any = PRIVACY) -> Callable[[Query], Makers]:
    def makers(query: Query) -> Makers:
        yield "", lambda: kind(query, privacy), None

    return makers


def planar(query: Query) -> Makers:
    yield "", lambda: PlanarLaplace(PRIVACY, query.dimension), None


MECHANISMS: dict[type, Callable[[Query], Makers]] = {
    SmoothMechanism: smooth,
    VectorSmoothMechanism: vector,
    VectorAnswer: answer,
    ApproximateLaplace: approximate,
    DebiasedLaplace: debiased,
    LipschitzMechanism: plain(LipschitzMechanism),
    LocalLaplace: plain(LocalLaplace, LocalPrivacy(2.0)),
    RandomizedResponse: plain(RandomizedResponse, LocalPrivacy(2.0)),
    PlanarLaplace: planar,
}
FROM_A_REPORT = {gp.Coarsening}
"""These start from what was released before: tests/gp/test_nested.py."""


def public(belongs: Callable[[type], bool]) -> set[type]:
    """Return the public classes of a kind that can be instantiated."""
    found = (getattr(gp, name) for name in gp.__all__)
    return {
        item
        for item in found
        if isinstance(item, type) and not inspect.isabstract(item) and belongs(item)
    }


@pytest.mark.deep(keep=0)
def test_everything_public_has_a_row():
    assert public(lambda item: hasattr(item, "release")) - FROM_A_REPORT == set(MECHANISMS)
    assert public(lambda item: issubclass(item, Query)) == set(queries())
    assert {kind: len(rows) for kind, rows in queries().items()} == SIZES
    assert public(lambda item: issubclass(item, Profile)) == set(profiles())
    assert public(lambda item: issubclass(item, Noise)) == set(TAILED) | set(TAILLESS)
    assert set(gp.NOISES.values()) <= set(TAILED) | set(TAILLESS)


class Chosen(RandomSource):
    """First bits that the test chose, and further ones from a seed; says what was drawn."""

    def __init__(self, first: list[float], seed: int) -> None:
        self._first = [int(share * 2**53) << 75 for share in first]
        self._rest = SeededSource(seed)
        self.draws: list[int] = []

    def bits(self, count: int) -> int:
        self.draws.append(count)
        index = len(self.draws) - 1
        if index < len(self._first):
            assert count == 128
            return self._first[index] | self._rest.bits(75)
        return self._rest.bits(count)


class Watched:
    """A point that records when it is first looked at, and how many bits were drawn by then."""

    def __init__(self, x: Any, source: Chosen) -> None:
        self.x, self.source = x, source
        self.seen: list[int] = []

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        self.seen.append(len(self.source.draws))
        return np.asarray(self.x, dtype=np.float64)


def reports(released: Any) -> tuple[int, ...]:
    return released if isinstance(released, tuple) else (released,)


def uniforms(mechanism: Any) -> int:
    """Return how many random numbers make a release."""
    if isinstance(mechanism, PlanarLaplace):
        return {1: 2, 2: 3, 3: 5}[mechanism.dimension]
    return mechanism.size if isinstance(mechanism, VectorSmoothMechanism) else 1


def releases(mechanism: Any, x: Any) -> list[tuple[int, ...]]:
    """Return a release for every share, which all of its random numbers have, once checked."""
    low, high = getattr(mechanism, "grid_range", (-(2**63), 2**63 - 1))
    count, found = uniforms(mechanism), []
    for share in SHARES:
        source = Chosen([share] * count, 1)
        point = Watched(x, source)
        released = mechanism.release(point, source)
        assert point.seen[0] == count, "the point is looked at before all first bits are drawn"
        assert source.draws[:count] == [128] * count
        if share == SHARES[0]:
            again = mechanism.release(x, Chosen([share] * count, 1))
            assert released == again, "not deterministic"
        assert all(type(k) is int and low <= k <= high for k in reports(released))
        found.append(reports(released))
    return found


def law_agrees(
    oracles: Any, mechanism: Any, x: Any, found: list[tuple[int, ...]], wrong: float = 1.0
) -> bool:
    """Return whether releases agree with 10,000 simulated reports (Dvoretzky-Kiefer-Wolfowitz).

    The failure probability of all comparisons together is at most α = 1e-6. Where the report
    increases with U, the release for U = u must be the u-quantile; else the whole law is compared,
    by 128 releases at evenly spaced U. `wrong` stretches what was released, for a control.
    """
    slack = math.sqrt(math.log(2 * COMPARISONS / oracles.ALPHA) / (2 * SIMULATED))
    many = np.broadcast_to(np.asarray(x, dtype=float), (SIMULATED, *np.shape(x)))
    simulated = np.asarray(mechanism.simulate(many, np.random.default_rng(12)))
    simulated = np.sort(simulated.reshape(SIMULATED, -1), axis=0)
    step = mechanism.step
    if isinstance(mechanism, PlanarLaplace):
        source = SeededSource(4)
        sample = [reports(mechanism.release(x, source)) for _ in range(400)]
        given, size = np.array(sample) * step * wrong, 400
        slack += math.sqrt(math.log(2 * COMPARISONS / oracles.ALPHA) / (2 * size))
    elif isinstance(mechanism, DebiasedLaplace):
        size = 128
        middles = (np.arange(size) + 0.5) / size
        given = np.array([[mechanism.release(x, Chosen([u], 1))] for u in middles.tolist()])
        given = given * step * wrong
        # g is monotone on at most 8 intervals of U; each adds at most 1/n.
        slack += 8 / size
    else:
        for share, row in zip(SHARES, found, strict=True):
            for column, k in enumerate(row):
                below, above = (
                    np.searchsorted(simulated[:, column], (k + side) * step * wrong, "right")
                    for side in (-0.5, 0.5)
                )
                if not below / SIMULATED - slack <= share <= above / SIMULATED + slack:
                    return False
        return True
    for column in range(given.shape[1]):
        ordered = np.sort(given[:, column])
        law = simulated[:, column]
        before = np.searchsorted(law, ordered - step, "left") / SIMULATED
        upto = np.searchsorted(law, ordered + step, "right") / SIMULATED
        if np.any(before > np.searchsorted(ordered, ordered, "left") / size + slack):
            return False
        if np.any(upto < np.searchsorted(ordered, ordered, "right") / size - slack):
            return False
    return True


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize(
    ("asked", "number"),
    [(asked, number) for asked, size in SIZES.items() for number in range(size)],
    ids=lambda part: part.__name__ if isinstance(part, type) else str(part),
)
@pytest.mark.parametrize("kind", MECHANISMS, ids=lambda kind: str(kind.__name__))
def test_everything_is_released(oracles, kind, asked, number):
    query, points = queries()[asked][number]
    for name, make, refusal in MECHANISMS[kind](query):
        if refusal is not None:
            with pytest.raises(refusal):
                make()
            continue
        mechanism = make()
        together, source = mechanism.release_many(points, SeededSource(8)), SeededSource(8)
        assert (
            together.tolist() == np.array([mechanism.release(x, source) for x in points]).tolist()
        )
        for x in points:
            found = releases(mechanism, x)
            assert law_agrees(oracles, mechanism, x, found), (name, "another law is simulated")
            variance = np.asarray(mechanism.variance(x))
            # Far away a bounded report is nearly certain, and has nothing to lose.
            assert mechanism.step**2 / 12 <= 1e-4 * np.median(variance) or variance.max() < 1e-12


SECRET = 1234567.25


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("kind", MECHANISMS, ids=lambda kind: str(kind.__name__))
def test_a_secret_is_never_shown(kind):
    for query, _ in (
        queries()[Threshold][1],
        queries()[GaussianKernel][1],
        queries()[Radial][4],
    ):
        for _, make, refusal in MECHANISMS[kind](query):
            if refusal is not None:
                continue
            mechanism = make()
            k = query.dimension
            x = SECRET if k == 1 else (SECRET,) * k
            source = Chosen([0.4] * uniforms(mechanism), 1)
            mechanism.release(x, source)
            seen = repr(mechanism) + repr(source.draws) + repr(vars(type(mechanism)))
            bad: list[Any] = [[SECRET] * (k + 1), [[SECRET] * k] * 2, f"{SECRET}", {SECRET: 1}]
            bad += [[SECRET] * (k - 1) + [math.nan], [SECRET] * (k - 1) + [math.inf]]
            for point in bad:
                with pytest.raises(PrivateValueError) as caught:
                    mechanism.release(point, Chosen([0.4] * uniforms(mechanism), 1))
                seen += f"{caught.value!r}{caught.value}{caught.value.__context__!r}"
            assert "1234567" not in seen


@pytest.mark.parametrize(
    "make",
    [
        partial(SmoothMechanism, Threshold(0.0, 2.0), PRIVACY),
        partial(ApproximateLaplace, GaussianKernel(0.0, 1.5), GeoPrivacy(1.0, per=1.0, delta=1e-6)),
        partial(LipschitzMechanism, Threshold(0.0, 2.0), PRIVACY),
        partial(DebiasedLaplace, GaussianKernel(0.0, 1.5), PRIVACY),
        partial(PlanarLaplace, PRIVACY, 1),
    ],
    ids=lambda make: str(make.func.__name__),
)
def test_control_a_law_of_another_width_is_told_apart(oracles, make):
    """Noise 1.4 times as wide is told apart where U is compared; 4 times, from 400 points."""
    mechanism, x = make(), 0.3
    found = releases(mechanism, x)
    assert law_agrees(oracles, mechanism, x, found)
    wrong = {PlanarLaplace: 4.0, DebiasedLaplace: 1.6}.get(type(mechanism), 1.4)
    assert not law_agrees(oracles, mechanism, x, found, wrong), "the control must fail"
