"""A registry of the kinds of mechanisms from which a plan chooses.

A kind builds the reports for a query under a guarantee. It serves every combination for which its
constructor does not raise `UnsupportedError`, for lack of mathematics behind it.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from geoveil.campaign import MECHANISMS, MechanismFamily, MechanismSpec, PlanarLaplaceSpec, Planned
from geoveil.gp import (
    Array,
    GeoPrivacy,
    Limits,
    ParameterError,
    PlanarLaplace,
    PointEstimator,
    Query,
    QueryMechanism,
    UnsupportedError,
)

Parameters: TypeAlias = Mapping[str, float]
Declared: TypeAlias = MechanismSpec | PlanarLaplaceSpec
"""The declaration of a campaign's mechanism."""


class ReportLaw(Protocol):
    """One report per person: its moments at a point, and draws of it."""

    def mean(self, x: ArrayLike) -> Array:
        """Return the expected report at points x."""
        ...

    def variance(self, x: ArrayLike) -> Array:
        """Return the variance of the report at points x."""
        ...

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one report per point. NOT private on a computer."""
        ...

    @property
    def limits(self) -> Limits:
        """The ranges of reports and of their mean over any people."""
        ...


@dataclass(frozen=True)
class PointReports(ReportLaw):
    """Perturbed points with an estimator: one report answers every later question."""

    mechanism: PlanarLaplace
    estimator: PointEstimator

    def mean(self, x: ArrayLike) -> Array:
        return self.estimator.mean(x)

    def variance(self, x: ArrayLike) -> Array:
        return self.estimator.variance(x)

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        return self.estimator.value(self.mechanism.simulate(x, rng))

    @property
    def limits(self) -> Limits:
        return self.estimator.limits


@dataclass(frozen=True)
class Kind:
    """A kind of mechanism, with the parameters that a plan tries."""

    build: Callable[[Query, GeoPrivacy, Parameters], ReportLaw]
    """Builds reports; raises UnsupportedError if the kind does not serve the query."""
    declares: Callable[[Any, Parameters], Declared]
    """The campaign's declaration of reports with these parameters."""
    options: tuple[Parameters, ...] = (MappingProxyType({}),)
    answers_all: bool = False
    """Whether one report answers every question."""
    has_slack: bool = False
    """Whether it serves only guarantees with a δ."""

    @property
    def serves_several(self) -> bool:
        """Whether one declaration, without parameters, serves every question of a campaign."""
        return self.options == (MappingProxyType({}),) and not self.answers_all


def _of_family(family: MechanismFamily, planned: Planned) -> Kind:
    """Return the kind of a family that campaigns can declare, built from the declaration."""

    def build(query: Query, privacy: GeoPrivacy, parameters: Parameters) -> ReportLaw:
        if not planned.serves(query):
            raise UnsupportedError(f"{planned.name} is not for {query!r}")
        return _built(family.make(parameters), query, privacy)

    return Kind(build, lambda _, parameters: family.make(parameters), planned.options)


def _built(declared: MechanismSpec, query: Query, privacy: GeoPrivacy) -> QueryMechanism:
    """Return the mechanism; if it can't use a δ, it keeps the stronger guarantee without one."""
    if not declared.has_slack:
        return declared.build(query, without_slack(privacy))
    if privacy.delta == 0:
        raise UnsupportedError(f"{declared!r} is for guarantees with a delta")
    return declared.build(query, privacy)


def without_slack(privacy: GeoPrivacy) -> GeoPrivacy:
    """Return the guarantee of the same rate with δ = 0, which holds at every distance."""
    return replace(privacy, delta=0.0, reach=math.inf)


SLACK = "smooth:noise=laplace,calibration=paper"
"""Kinds also compared for guarantees with a δ [SGP Lemma 3.6]."""


def in_words(privacy: GeoPrivacy, mechanism: str | None) -> tuple[str, ...]:
    """Return the kinds that a plan compares in addition to the usual ones.

    Args:
        mechanism: a wanted one, in the words of `MECHANISMS.parse`.

    Example:
        >>> in_words(GeoPrivacy(1.0, per=8_000.0), "smooth:noise=student-t,nu=3")
        ('smooth:noise=student-t,nu=3',)
    """
    more = (SLACK,) if privacy.delta > 0 else ()
    return more if mechanism is None or mechanism in more else (*more, mechanism)


def profile_of(mechanism: str | None) -> str:
    """Return the default profile of a band for a mechanism in words; None stands for any."""
    said = None if mechanism is None else MECHANISMS.parse(mechanism)
    return said.profile if isinstance(said, MechanismSpec) else "smoothstep"


@lru_cache(maxsize=64)
def _named(text: str) -> Kind:
    """Return the kind of a single mechanism, by its name for campaigns; its reach is 0 or ∞."""
    spec = MECHANISMS.parse(text)
    if not isinstance(spec, MechanismSpec):
        raise ParameterError("mechanism", text, "one that answers questions")
    if getattr(spec, "reach", None) not in (None, 0.0, math.inf):
        raise ParameterError(
            "mechanism", text, "one of reach 0 or inf: the planner tries no others"
        )
    return Kind(
        lambda query, privacy, _: _built(spec, query, privacy),
        declares=lambda *_: spec,
        has_slack=spec.has_slack,
    )


def _points(query: Query, privacy: GeoPrivacy, _: Parameters) -> ReportLaw:
    mechanism = PlanarLaplace(privacy, query.dimension)
    return PointReports(mechanism, mechanism.estimator(query, debias=True))


POINTS = "PlanarLaplace"
"""The value campaign: noise on the point itself."""
DEBIASED = "DebiasedLaplace"
"""Noise on the distance, debiased."""


class _Kinds(Mapping[str, Kind]):
    """All kinds by name, and each mechanism by its name for campaigns.

    Packages that add kinds are loaded at the first look-up.
    """

    @cached_property
    def _all(self) -> dict[str, Kind]:
        campaigns = {
            planned.name: _of_family(family, planned)
            for family in MECHANISMS
            for planned in family.planned
            if planned.options
        }
        points = Kind(
            _points,
            answers_all=True,
            declares=lambda reports, _: PlanarLaplaceSpec(reports.mechanism.dimension),
        )
        return {**campaigns, POINTS: points}

    def __getitem__(self, name: str) -> Kind:
        if name.partition(":")[0] in MECHANISMS.names:
            return _named(name)
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


KINDS: Mapping[str, Kind] = _Kinds()
"""Name → kind, including families of other packages; the first of equally good kinds wins."""
