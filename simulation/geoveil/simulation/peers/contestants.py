"""Who is compared: geoveil's ways, the papers' formulas, and what installed packages offer.

The task is the share of people whose income is above a threshold, from one report of each person.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module, metadata
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from geoveil.audit.case import Audited
from geoveil.audit.own import MakeMechanism, check_parts
from geoveil.gp import (
    DebiasedLaplace,
    GeoPrivacy,
    LipschitzMechanism,
    LocalPrivacy,
    PlanarLaplace,
    Query,
    Threshold,
)
from geoveil.simulation.comparison import GENERALIZED_CAUCHY, STUDENT_T, Setting
from geoveil.simulation.distribution.square_wave import SquareWave

Array = NDArray[np.float64]
Draw: TypeAlias = Callable[[Array], Array]
"""Incomes in dollars, shape (n,) → one number for each report, (n,)."""
Share: TypeAlias = Callable[[Array, float], float]
"""The numbers of all reports, and a threshold → the estimated share above it."""

PRIVACY = GeoPrivacy(1.0, 8_000.0, "dollar")
FOOTINGS = (8_000.0, 40_000.0)
"""Distances at which contestants of ε-LDP promise as much as `PRIVACY`."""
_BAND, _SMOOTH_BAND = 16_000.0, 24_000.0
_CELLS = 256
_HIGHEST = 400_000.0
"""Incomes above count as this where a protocol needs ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A way to learn the share from one report of each person."""

    name: str
    promise: GeoPrivacy | LocalPrivacy
    draw_for: Callable[[float], Draw]
    """A threshold in dollars → what draws reports for it."""
    share: Share
    answers_all: bool = False
    """Whether one report answers for every threshold."""
    package: str | None = None
    """Whose code draws a report; None if ours."""
    exact: bool = False
    """Whether the draw is one of integers or of exact bits, as its authors say; else of floats."""
    one_by_one: bool = True
    """Whether a draw makes a call for each person, as devices do."""


def contestants(
    rng: np.random.Generator, own: Mapping[str, MakeMechanism] = MappingProxyType({})
) -> Iterator[Peer]:
    """Yield one's own, by name, then all others; packages that are not installed are left out.

    The generator draws for formulas. Packages draw from the system's randomness.
    """
    yield from (_formula(name, make, rng) for name, make in own.items())
    yield from _ours()
    # What papers print, in floats: to be compared, never released.
    for name, build in (("Student-t", STUDENT_T), ("generalized Cauchy", GENERALIZED_CAUCHY)):
        yield _formula(f"[SGP] {name}", partial(_published, build), rng)
    yield from (_square_wave(SquareWave(PRIVACY.local(footing)), rng) for footing in FOOTINGS)
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
    points = PlanarLaplace(PRIVACY, 1)
    ours = partial(Peer, promise=PRIVACY, exact=True, share=_mean)
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
        name="geoveil, debiased, release_many",
        draw_for=lambda at: _released_together(DebiasedLaplace(_smooth(at), PRIVACY)),
        one_by_one=False,
    )
    yield ours(
        name="geoveil, Lipschitz ramp",
        draw_for=lambda at: _released(LipschitzMechanism(_ramp(at), PRIVACY)),
    )


def _released(mechanism: LipschitzMechanism | DebiasedLaplace | PlanarLaplace) -> Draw:
    """Release exactly for each person; a report is an integer, of steps of a grid."""
    step = mechanism.step
    return _each(lambda income: step * np.asarray(mechanism.release(income)).item())


def _released_together(mechanism: DebiasedLaplace) -> Draw:
    step = mechanism.step
    return lambda incomes: step * np.asarray(mechanism.release_many(incomes), np.float64)


def _square_wave(wave: SquareWave, rng: np.random.Generator) -> Peer:
    def share(reports: Array, at: float) -> float:
        """Read the share off the distribution, part of the cell in which the threshold lies."""
        above = 1 - np.cumsum([0.0, *wave.distribution(reports, _CELLS)])
        return float(np.interp(_CELLS * at / _HIGHEST, np.arange(_CELLS + 1), above))

    return Peer(
        name="[LWLSS20] square wave, EMS",
        promise=wave.privacy,
        draw_for=lambda _: lambda incomes: wave.simulate(np.minimum(incomes / _HIGHEST, 1), rng),
        share=share,
        answers_all=True,
        one_by_one=False,
    )


def _published(build: Callable[[Setting], Audited], query: Query, privacy: GeoPrivacy) -> Audited:
    return build(Setting(query, query, privacy, FOOTINGS[0]))


def _formula(name: str, make: MakeMechanism, rng: np.random.Generator) -> Peer:
    def draw_for(at: float) -> Draw:
        mechanism = make(_ramp(at), PRIVACY)
        check_parts(name, mechanism, ["simulate"])
        return lambda incomes: mechanism.simulate(incomes, rng)

    return Peer(name=name, promise=PRIVACY, draw_for=draw_for, share=_mean, one_by_one=False)


def _opendp() -> Iterator[Peer]:
    dp: Any = import_module("opendp.prelude")
    dp.enable_features("contrib")
    laplace = dp.m.make_laplace(
        dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), 1 / PRIVACY.rate
    )
    package = partial(Peer, package="opendp", exact=True)
    yield from _of_incomes(package, "OpenDP make_laplace", laplace)
    for local in map(PRIVACY.local, FOOTINGS):
        response = dp.m.make_randomized_response_bool(_kept(local))
        yield _yes_or_no(package, "OpenDP randomized response", local, response)


def _diffprivlib() -> Iterator[Peer]:
    mechanisms: Any = import_module("diffprivlib.mechanisms")
    laplace = mechanisms.Laplace(epsilon=PRIVACY.epsilon, sensitivity=PRIVACY.per)
    package = partial(Peer, package="diffprivlib")
    yield from _of_incomes(package, "diffprivlib Laplace", laplace.randomise)
    for local in map(PRIVACY.local, FOOTINGS):
        binary = mechanisms.Binary(epsilon=local.epsilon, value0="0", value1="1")
        call = partial(_as_text, binary.randomise)
        yield _yes_or_no(package, "diffprivlib Binary", local, call)


def _pure_ldp() -> Iterator[Peer]:
    direct: Any = import_module("pure_ldp.frequency_oracles.direct_encoding")
    unary: Any = import_module("pure_ldp.frequency_oracles.unary_encoding")
    package = partial(Peer, package="pure-ldp")
    for local in map(PRIVACY.local, FOOTINGS):
        response = partial(_counted_from_1, direct.DEClient(local.epsilon, d=2).privatise)
        yield _yes_or_no(package, "pure-LDP direct encoding", local, response)
        bits = partial(_counted_from_1, unary.UEClient(local.epsilon, d=2, use_oue=True).privatise)
        oracle = _yes_or_no(package, "pure-LDP unary encoding", local, bits)
        yield replace(oracle, share=_of_unary(local))


PACKAGES: Mapping[str, Callable[[], Iterator[Peer]]] = MappingProxyType(
    {"opendp": _opendp, "diffprivlib": _diffprivlib, "pure-ldp": _pure_ldp}
)
"""Names on PyPI, which `pip install 'geoveil[peers]'` installs → what makes their contestants."""


def _of_incomes(
    package: Callable[..., Peer], name: str, perturbed: Callable[[float], Any]
) -> Iterator[Peer]:
    """Yield a package's perturbed incomes, read as incomes, and read by geoveil's estimator."""
    for how, share in (("counted", _counted), ("debiased by geoveil", _undone)):
        yield package(
            name=f"{name}, {how}",
            promise=PRIVACY,
            draw_for=lambda _: _each(perturbed),
            share=share,
            answers_all=True,
        )


def _each(call: Callable[[float], Any]) -> Draw:
    """Call a function for each person."""
    return lambda incomes: np.array([call(income) for income in incomes.tolist()], np.float64)


def _yes_or_no(
    package: Callable[..., Peer], name: str, local: LocalPrivacy, call: Callable[[bool], Any]
) -> Peer:
    """Return randomised response to whether an income is above the threshold."""
    return package(
        name=name,
        promise=local,
        draw_for=lambda at: _each(lambda income: call(income > at)),
        share=_of_response(local),
    )


def _as_text(randomise: Callable[[str], str], yes: bool) -> float:
    return float(randomise("1" if yes else "0"))


def _counted_from_1(privatise: Callable[[int], Any], yes: bool) -> float:
    """Return a category from 0; or of two bits that of "yes", twice, and the other's."""
    told = np.asarray(privatise(int(yes) + 1))
    return float(told) if told.ndim == 0 else float(told @ (1, 2))


def _smooth(at: float) -> Threshold:
    return Threshold(at, _SMOOTH_BAND, "smoothstep")


def _ramp(at: float) -> Threshold:
    return Threshold(at, _BAND)


def _mean(reports: Array, _: float) -> float:
    return float(reports.mean())


def _counted(reports: Array, at: float) -> float:
    """Return the share of reports above the threshold, as if they were incomes."""
    return float((reports > at).mean())


def _undone(reports: Array, at: float) -> float:
    """Return the mean of what undoes the noise of perturbed incomes, at a smoothstep."""
    estimator = PlanarLaplace(PRIVACY, 1).estimator(_smooth(at), debias=True)
    return float(estimator.value(reports[:, None]).mean())


def _kept(local: LocalPrivacy) -> float:
    """Return the probability with which randomised response tells the truth."""
    return 1 / (1 + math.exp(-local.epsilon))


def _of_response(local: LocalPrivacy) -> Share:
    """Undo randomised response of a yes or no."""
    kept = _kept(local)
    return lambda reports, _: float((reports.mean() - (1 - kept)) / (2 * kept - 1))


def _of_unary(local: LocalPrivacy) -> Share:
    """Undo optimised unary encoding: a 1 stays with 1/2, a 0 becomes one with 1/(e^ε + 1)."""
    risen = 1 / (math.exp(local.epsilon) + 1)
    return lambda reports, _: float(((reports >= 2).mean() - risen) / (0.5 - risen))
