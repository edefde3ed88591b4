"""Compare geoveil with other packages at one task: errors, times, audits, and docs/peers.md.

The task is to estimate the share of incomes above a threshold from one report per person. For ten
thresholds, everybody reports a perturbed income or range, or a tenth of the people answers each.
Contestants are called as on a device, unless their row says that they are formulas; a black-box
audit tests all.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module, metadata
from itertools import combinations
from textwrap import fill
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from geoveil.audit import Audited, MakeMechanism, black_box_bound, checked
from geoveil.gp import (
    DebiasedLaplace,
    GeoPrivacy,
    LipschitzMechanism,
    LocalPrivacy,
    PlanarLaplace,
    StudentT,
    Threshold,
    validation,
)
from geoveil.simulation.comparison import (
    GENERALIZED_CAUCHY,
    STUDENT_T,
    Setting,
    as_in_the_paper,
)
from geoveil.simulation.distribution.local import FrequencyOracle, SquareWave, unary_encoding
from geoveil.simulation.experiment import Table, page_text
from geoveil.simulation.populations import Array, household_incomes

Draw: TypeAlias = Callable[[Array], Array]
"""Incomes in dollars, shape (n,) → one number per report, (n,)."""
Share: TypeAlias = Callable[[Array, float], float]
"""The reports' numbers and a threshold → the estimated share above it."""

PRIVACY = GeoPrivacy(1.0, 8_000.0, "dollar")
FOOTINGS = (8_000.0, 40_000.0)
"""Distances at which ε-LDP contestants promise as much as `PRIVACY`."""
AT = 100_000.0
"""The threshold, in dollars; many people report exactly this income."""
MANY = tuple(20_000.0 * i - 2_500 for i in range(1, 11))
"""Ten thresholds in dollars; hardly any income equals one."""
_BAND, _SMOOTH_BAND = 16_000.0, 24_000.0
_CELLS = 256
_HIGHEST = 400_000.0
"""Protocols that need a range clamp incomes to this maximum."""
_FAILURE = 1e-6
_NU, _BETA_FRACTION = 3.95, 0.0446
"""The best parameters of the paper's Student-t mechanism at $100,000: `geoveil simulate tuned`."""
_STEPS = ((-0.5, 0.5), (0.0, 3.0))
"""Pairs of incomes in the audit, in units of `PRIVACY.per` from the threshold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A way to estimate the share from one report per person."""

    name: str
    draw_for: Callable[[float], Draw]
    """A threshold in dollars → a function that draws reports for it."""
    promise: GeoPrivacy | LocalPrivacy = PRIVACY
    share: Share = lambda reports, _: float(reports.mean())
    answers_all: bool = False
    """Whether one report answers every threshold."""
    of_ranges: tuple[Draw, Share] | None = None
    """Draws reports on ranges between `MANY` and computes shares; None: answers one at a time."""
    package: str | None = None
    """The package whose code draws a report; None for geoveil."""
    exact: bool = False
    """Whether, according to its authors, it draws integers or exact bits instead of floats."""
    one_by_one: bool = True
    """Whether each report is a separate call, as on devices."""


def contestants(
    rng: np.random.Generator, own: Mapping[str, MakeMechanism] = MappingProxyType({})
) -> Iterator[Peer]:
    """Yield the user's and geoveil's contestants, then those of installed packages.

    Formulas draw from the generator; packages use their own randomness.
    """
    yield from (_formula(name, make, rng) for name, make in own.items())
    yield from _ours()
    # Mechanisms as papers print them, in floats: for comparison, never for release.
    for name, build in (("Student-t", STUDENT_T), ("generalized Cauchy", GENERALIZED_CAUCHY)):
        yield _formula(f"[SGP] {name}", _published(build), rng)
    yield from (_square_wave(PRIVACY.local(footing), rng) for footing in FOOTINGS)
    tuned = as_in_the_paper(StudentT(_NU), _BETA_FRACTION)
    yield _formula("[SGP] Student-t, tuned", _published(tuned), rng)
    for package, peers in PACKAGES.items():
        if version_of(package) is not None:
            yield from peers()


def version_of(package: str) -> str | None:
    """Return the version of a package, or None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _ours() -> Iterator[Peer]:
    ours = partial(Peer, exact=True)
    points = PlanarLaplace(PRIVACY, 1)
    yield ours(
        name="geoveil, value campaign",
        draw_for=lambda _: _released(points),
        share=_undone,
        answers_all=True,
    )
    yield ours(
        name="geoveil, debiased threshold",
        draw_for=lambda at: _released(DebiasedLaplace(_smooth(at), PRIVACY)),
    )
    yield ours(
        name="geoveil, Lipschitz ramp",
        draw_for=lambda at: _released(LipschitzMechanism(Threshold(at, _BAND), PRIVACY)),
    )


def _smooth(at: float) -> Threshold:
    return Threshold(at, _SMOOTH_BAND, "smoothstep")


def _released(mechanism: LipschitzMechanism | DebiasedLaplace | PlanarLaplace) -> Draw:
    """Release exactly for each person; a report is a multiple of the grid step."""
    step = mechanism.step
    return _each(lambda income: step * np.asarray(mechanism.release(income)).item())


def _each(call: Callable[[float], Any]) -> Draw:
    return lambda incomes: np.array([call(income) for income in incomes.tolist()], np.float64)


def _undone(reports: Array, at: float) -> float:
    """Return the debiased mean of a smoothstep from perturbed incomes."""
    estimator = PlanarLaplace(PRIVACY, 1).estimator(_smooth(at), debias=True)
    return float(estimator.value(reports[:, None]).mean())


def _square_wave(promise: LocalPrivacy, rng: np.random.Generator) -> Peer:
    wave = SquareWave.of(promise)

    def share(reports: Array, at: float) -> float:
        """Return the share above a threshold, with the fraction of the threshold's own cell."""
        above = 1 - np.cumsum([0.0, *wave.distribution(reports, _CELLS)])
        return float(np.interp(_CELLS * at / _HIGHEST, np.arange(_CELLS + 1), above))

    return Peer(
        name="[LWLSS20] square wave, EMS",
        promise=promise,
        draw_for=lambda _: lambda incomes: wave.simulate(np.minimum(incomes / _HIGHEST, 1), rng),
        share=share,
        answers_all=True,
        one_by_one=False,
    )


def _published(build: Callable[[Setting], Audited]) -> MakeMechanism:
    return lambda query, privacy: build(Setting(query, query, privacy, FOOTINGS[0]))


def _formula(name: str, make: MakeMechanism, rng: np.random.Generator) -> Peer:
    def draw_for(at: float) -> Draw:
        query = Threshold(at, _BAND)
        mechanism = checked(name, make(query, PRIVACY), query)
        return lambda incomes: mechanism.simulate(incomes, rng)

    return Peer(name=name, draw_for=draw_for, one_by_one=False)


def _range_of(incomes: Array) -> Array:
    """Return the number, from 0, of each income's range between `MANY`."""
    return np.searchsorted(MANY, incomes).astype(np.float64)


def _k_ary(call: Callable[[int], Any], local: LocalPrivacy) -> tuple[Draw, Share]:
    """Return k-ary response on the ranges: the true range, or any other with equal probability."""
    ranges, odds = len(MANY) + 1, math.exp(local.epsilon)
    other = 1 / (odds + ranges - 1)

    def share(reports: Array, at: float) -> float:
        first = MANY.index(at) + 1
        counted = float((reports >= first).mean())
        return (counted - other * (ranges - first)) / (other * (odds - 1))

    return lambda incomes: _each(lambda cell: call(int(cell)))(_range_of(incomes)), share


def _unary(call: Callable[[int], Any], oracle: FrequencyOracle) -> tuple[Draw, Share]:
    """Return unary encoding of the ranges; one integer holds a report's bits."""
    powers = 1 << np.arange(len(MANY) + 1)

    def share(reports: Array, at: float) -> float:
        bits = (reports.astype(int)[:, None] & powers) > 0
        shares = (bits.mean(axis=0) - oracle.q) / (oracle.p - oracle.q)
        return float(shares[MANY.index(at) + 1 :].sum())

    return lambda incomes: _each(lambda cell: np.asarray(call(int(cell))) @ powers)(
        _range_of(incomes)
    ), share


def _opendp() -> Iterator[Peer]:
    dp: Any = import_module("opendp.prelude")
    dp.enable_features("contrib")
    laplace = dp.m.make_laplace(
        dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), 1 / PRIVACY.rate
    )
    package = partial(Peer, package="opendp", exact=True)
    yield from _of_incomes(package, "OpenDP make_laplace", laplace)
    for local in map(PRIVACY.local, FOOTINGS):
        response = dp.m.make_randomized_response_bool(_response(local).p)
        odds = math.exp(local.epsilon)
        kept = odds / (odds + len(MANY))
        several = dp.m.make_randomized_response(list(range(len(MANY) + 1)), kept, T=int)
        ranges = partial(package, of_ranges=_k_ary(several, local))
        yield _yes_or_no(ranges, "OpenDP randomized response", local, response)


def _diffprivlib() -> Iterator[Peer]:
    mechanisms: Any = import_module("diffprivlib.mechanisms")
    laplace = mechanisms.Laplace(epsilon=PRIVACY.epsilon, sensitivity=PRIVACY.per)
    package = partial(Peer, package="diffprivlib")
    yield from _of_incomes(package, "diffprivlib Laplace", laplace.randomise)
    for local in map(PRIVACY.local, FOOTINGS):
        binary = mechanisms.Binary(epsilon=local.epsilon, value0="0", value1="1")
        call = partial(_as_text, binary.randomise)
        names = [str(i) for i in range(len(MANY) + 1)]
        alike = [(a, b, 1.0) for a, b in combinations(names, 2)]
        several = mechanisms.ExponentialCategorical(epsilon=local.epsilon, utility_list=alike)
        ranges = _k_ary(partial(_named, several.randomise), local)
        yield _yes_or_no(partial(package, of_ranges=ranges), "diffprivlib Binary", local, call)


def _pure_ldp() -> Iterator[Peer]:
    direct: Any = import_module("pure_ldp.frequency_oracles.direct_encoding")
    unary: Any = import_module("pure_ldp.frequency_oracles.unary_encoding")
    package = partial(Peer, package="pure-ldp")
    for local in map(PRIVACY.local, FOOTINGS):
        response = partial(_counted_from_1, direct.DEClient(local.epsilon, d=2).privatise)
        several = direct.DEClient(local.epsilon, d=len(MANY) + 1)
        ranges = _k_ary(partial(_counted, several.privatise), local)
        of_ranges = partial(package, of_ranges=ranges)
        yield _yes_or_no(of_ranges, "pure-LDP direct encoding", local, response)
        bits = partial(_counted_from_1, unary.UEClient(local.epsilon, d=2, use_oue=True).privatise)
        oracle = unary_encoding(local)
        several = unary.UEClient(local.epsilon, d=len(MANY) + 1, use_oue=True)
        ranges = _unary(partial(_counted, several.privatise), oracle)
        of_ranges = partial(package, of_ranges=ranges)
        yield _yes_or_no(of_ranges, "pure-LDP unary encoding", local, bits, oracle, yes=2)


PACKAGES: Mapping[str, Callable[[], Iterator[Peer]]] = MappingProxyType(
    {"opendp": _opendp, "diffprivlib": _diffprivlib, "pure-ldp": _pure_ldp}
)
"""A package of `pip install 'geoveil[peers]'` → the function that makes its contestants."""


def _of_incomes(
    package: Callable[..., Peer], name: str, perturbed: Callable[[float], Any]
) -> Iterator[Peer]:
    """Yield a package's perturbed incomes with two estimates: direct counts, and geoveil's."""

    def counted(reports: Array, at: float) -> float:
        return float((reports > at).mean())

    for how, share in (("counted", counted), ("debiased by geoveil", _undone)):
        yield package(
            name=f"{name}, {how}",
            draw_for=lambda _: _each(perturbed),
            share=share,
            answers_all=True,
        )


def _yes_or_no(
    package: Callable[..., Peer],
    name: str,
    local: LocalPrivacy,
    call: Callable[[bool], Any],
    oracle: FrequencyOracle | None = None,
    yes: int = 1,
) -> Peer:
    """Return a contestant that asks whether an income is above the threshold.

    Reports ≥ `yes` mean yes, with the oracle's probabilities, by default randomised response's.
    """
    response = oracle or _response(local)
    return package(
        name=name,
        promise=local,
        draw_for=lambda at: _each(lambda income: call(income > at)),
        share=lambda reports, _: float(
            ((reports >= yes).mean() - response.q) / (response.p - response.q)
        ),
    )


def _response(local: LocalPrivacy) -> FrequencyOracle:
    """Return randomised response, true with probability p and otherwise false."""
    kept = 1 / (1 + math.exp(-local.epsilon))
    return FrequencyOracle(kept, 1 - kept)


def _as_text(randomise: Callable[[str], str], yes: bool) -> float:
    return float(randomise("1" if yes else "0"))


def _named(randomise: Callable[[str], str], cell: int) -> int:
    """Return the perturbed range from a protocol whose categories are texts."""
    return int(randomise(str(cell)))


def _counted(privatise: Callable[[int], Any], cell: int) -> Any:
    """Return the report on a range from a protocol that counts from 1."""
    return privatise(cell + 1)


def _counted_from_1(privatise: Callable[[int], Any], yes: bool) -> float:
    """Return the answer of a protocol that counts from 1, as a category from 0 or from its bits."""
    reports = np.asarray(privatise(int(yes) + 1))
    return float(reports) if reports.ndim == 0 else float(reports @ (1, 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRow:
    """The results of a contestant."""

    name: str
    version: str
    promise: str
    drawn: str
    """"exact" or "float"."""
    called: str
    """"one by one", or "array"."""
    rmse: float
    """Root mean squared error of the share above one threshold, relative to participants' share."""
    rmse_error: float
    """The standard error of `rmse`, estimated from the repetitions."""
    bias: float
    """The mean error, with a standard error of at most rmse/√repetitions."""
    rmse_many: float
    """The root mean squared error over ten thresholds."""
    micros: float
    """Microseconds of processor time per report."""
    proven: float
    """The loss that outputs prove, as a fraction of the promised ε; above 1 breaks the promise."""


def compare_peers(
    n: int = 5_000,
    repetitions: int = 40,
    samples: int = 10_000,
    seed: int = 1,
    own: Mapping[str, MakeMechanism] = MappingProxyType({}),
) -> Iterator[PeerRow]:
    """Yield a row for each installed contestant; the seed makes only NumPy's draws repeatable.

    Args:
        n: participants, drawn once from the survey's households, at least 100.
        repetitions: the number of reports of each participant, at least 2.
        samples: the audit's number of outputs per income, at least 1,000.
        seed: for participants and formulas.
        own: a user's mechanisms for a ramp, by name, as `geoveil.audit.mechanisms_in` reads
            them.

    Raises:
        ParameterError: if a number is out of range.
    """
    validation.require_count("n", n, 100)
    validation.require_count("repetitions", repetitions, 2)
    validation.require_count("samples", samples, 1_000)
    incomes = household_incomes().sample(n, np.random.default_rng(seed))
    rng = np.random.default_rng(seed + 1)
    for peer in contestants(rng, own):
        yield _row(peer, incomes, repetitions, samples)


def _row(peer: Peer, incomes: Array, repetitions: int, samples: int) -> PeerRow:
    draw = peer.draw_for(AT)
    draw(incomes[:100])  # triggers late imports
    errors, of_many, spent = [], [], 0.0
    for _ in range(repetitions):
        before = time.process_time()
        reports = draw(incomes)
        spent += time.process_time() - before
        errors.append(peer.share(reports, AT) - (incomes > AT).mean())
        once, share = reports, peer.share
        if peer.of_ranges is not None:
            draw_range, share = peer.of_ranges
            once = draw_range(incomes)
        for i, at in enumerate(MANY):
            apart = not peer.answers_all and peer.of_ranges is None
            drawn = peer.draw_for(at)(incomes[i :: len(MANY)]) if apart else once
            of_many.append(share(drawn, at) - (incomes > at).mean())
    squares = np.square(errors)
    rmse = math.sqrt(squares.mean())
    return PeerRow(
        name=peer.name,
        version=f"{peer.package} {version_of(peer.package)}" if peer.package else "",
        promise=str(peer.promise),
        drawn="exact" if peer.exact else "float",
        called="one by one" if peer.one_by_one else "array",
        rmse=rmse,
        rmse_error=float(squares.std(ddof=1)) / math.sqrt(repetitions) / (2 * rmse),
        bias=float(np.mean(errors)),
        rmse_many=math.sqrt(np.square(of_many).mean()),
        micros=1e6 * spent / repetitions / len(incomes),
        proven=max(_proven(peer, low, high, samples) for low, high in _STEPS),
    )


def _proven(peer: Peer, low: float, high: float, samples: int) -> float:
    """Return the fraction of the promised loss between two incomes that outputs prove."""
    near, far = (AT + step * PRIVACY.per for step in (low, high))
    draw = peer.draw_for(AT)
    here, there = (draw(np.full(samples, income)) for income in (near, far))
    chance = _FAILURE / len(_STEPS)
    bound = black_box_bound(here, there, far - near, failure_probability=chance)
    return max(bound.epsilon, 0.0) / peer.promise.at(far - near)


def peers_table(rows: Sequence[PeerRow]) -> Table:
    """Return what each package errs, takes and promises, in the order of the rows."""
    lines = [
        (
            row.name,
            row.promise,
            f"{row.rmse:.4f} ± {row.rmse_error:.4f}",
            f"{row.bias:+.4f}",
            f"{row.rmse_many:.4f}",
            f"{row.micros:,.1f}" + (", array" if row.called == "array" else ""),
            row.drawn,
            f"{row.proven:.2f}",
        )
        for row in rows
    ]
    headers = (
        *("contestant", "promise", "error, one threshold", "bias", "error, ten", "µs a report"),
        *("drawn", "proven part of ε"),
    )
    return Table(headers=headers, rows=lines, wrapped=(0, 1, 2, 5), right=(2, 3, 4, 5, 7))


def peers_page(rows: Sequence[PeerRow], about: str) -> str:
    """Return docs/peers.md; `about` states the date and size of the run."""
    versions = sorted({row.version for row in rows if row.version})
    packages = f"Packages: {', '.join(versions)}." if versions else ""
    return page_text(
        "peers",
        at=AT,
        many=MANY,
        last=MANY[-1],
        table=peers_table(rows).markdown(),
        about=fill(f"{about} {packages}".strip(), 100),
    )
