"""The kinds of mechanisms that a plan chooses from: a registry.

A kind builds the reports for a query under a guarantee. It serves what it does not refuse: an
`UnsupportedError` from a constructor says that there is no mathematics behind a combination.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.campaign import (
    MECHANISMS,
    MechanismFamily,
    MechanismSpec,
    PlanarLaplaceSpec,
    Planned,
)
from geoveil.gp.deconvolution import PointEstimator
from geoveil.gp.errors import UnsupportedError
from geoveil.gp.intervals import Limits
from geoveil.gp.mechanisms.base import QueryMechanism
from geoveil.gp.mechanisms.local import LocalLaplace, RandomizedResponse
from geoveil.gp.mechanisms.planar import PlanarLaplace
from geoveil.gp.mechanisms.smooth import SmoothMechanism
from geoveil.gp.noise import GeneralizedCauchy, Noise, StudentT
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.base import Query

Array = NDArray[np.float64]
Parameters: TypeAlias = Mapping[str, float]
Declared: TypeAlias = MechanismSpec | PlanarLaplaceSpec
"""What a campaign says of its mechanism."""


class Reports(Protocol):
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
        """What reports, and their mean over any people, can be."""
        ...


@dataclass(frozen=True)
class PointReports(Reports):
    """Perturbed points, read by an estimator: one report answers every later question.

    Args:
        mechanism: perturbs the points.
        estimator: what is averaged over them.
    """

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
class Task:
    """What a kind is asked for."""

    query: Query
    privacy: GeoPrivacy
    diameter: float | None = None
    """Largest distance between two possible values, if that is known, in the unit of x."""


@dataclass(frozen=True)
class Kind:
    """A kind of mechanism with the parameters that are tried."""

    build: Callable[[Task, Parameters], Reports]
    """Raises UnsupportedError for what the kind does not serve."""
    options: tuple[Parameters, ...] = (MappingProxyType({}),)
    satisfies_guarantee: bool = True
    """Whether it keeps the ε-GP asked for; else it is a baseline with another promise, and never
    chosen."""
    answers_all: bool = False
    """Whether one report answers every question."""
    declares: Callable[[Any, Parameters], Declared] | None = None
    """What a campaign says of the reports that were built with parameters; None if none can."""

    @property
    def serves_several(self) -> bool:
        """Whether one declaration, without parameters, serves every question of a campaign."""
        alone = self.options == (MappingProxyType({}),)
        return self.declares is not None and alone and not self.answers_all


def _of_family(family: MechanismFamily, planned: Planned) -> Kind:
    """Return how a family that campaigns can declare is planned: what is declared is built."""

    def build(task: Task, parameters: Parameters) -> Reports:
        if not planned.serves(task.query):
            raise UnsupportedError(f"{planned.name} is not for {task.query!r}")
        built: QueryMechanism = family.make(parameters).build(task.query, task.privacy)
        return built

    return Kind(build, planned.options, declares=lambda _, parameters: family.make(parameters))


def _fractions(*values: float) -> tuple[Parameters, ...]:
    return tuple(MappingProxyType({"beta_fraction": value}) for value in values)


def _heavy(noise: Noise, calibration: str, reach: float) -> Callable[[Task, Parameters], Reports]:
    return lambda task, parameters: SmoothMechanism(
        task.query,
        task.privacy,
        noise=noise,
        beta=parameters["beta_fraction"] * task.privacy.rate,
        reach=reach,
        calibration=calibration,
    )


def _points(task: Task, _: Parameters) -> Reports:
    mechanism = PlanarLaplace(task.privacy, task.query.dimension)
    return PointReports(mechanism, mechanism.estimator(task.query, debias=True))


def _local(mechanism: type[LocalLaplace | RandomizedResponse]) -> Kind:
    def build(task: Task, _: Parameters) -> Reports:
        if task.diameter is None:
            raise UnsupportedError("local privacy needs the diameter of the domain")
        return mechanism(task.query, task.privacy.local(task.diameter))

    return Kind(build, satisfies_guarantee=False)


POINTS = "PlanarLaplace"
"""The value campaign: noise on the point itself."""
DEBIASED = "DebiasedLaplace"
"""Noise on the distance, undone."""

_BASELINES: Mapping[str, Kind] = MappingProxyType(
    {
        "StudentT, exact": Kind(
            _heavy(StudentT(3), "exact", 0.0), _fractions(1 / 18, 1 / 9, 1 / 6)
        ),
        "StudentT, paper": Kind(
            _heavy(StudentT(3), "paper", math.inf), _fractions(1 / 18, 1 / 9, 1 / 6)
        ),
        "GeneralizedCauchy, exact": Kind(
            _heavy(GeneralizedCauchy(4), "exact", 0.0), _fractions(1 / 30, 1 / 15, 2 / 15)
        ),
        "GeneralizedCauchy, paper": Kind(
            _heavy(GeneralizedCauchy(4), "paper", math.inf), _fractions(1 / 30, 1 / 15, 2 / 15)
        ),
        "RandomizedResponse": _local(RandomizedResponse),
        "LocalLaplace": _local(LocalLaplace),
    }
)
"""What no campaign can hold: for comparison."""


class _Kinds(Mapping[str, Kind]):
    """All kinds by name. Packages that add one are loaded when the first is looked at."""

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
        return {**campaigns, **_BASELINES, POINTS: points}

    def __getitem__(self, name: str) -> Kind:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


KINDS: Mapping[str, Kind] = _Kinds()
"""Name → kind; of two that are equally good the first is chosen. Families of other packages are
among them."""


def declared(name: str, reports: Any, parameters: Parameters) -> Declared | None:
    """Return what a campaign says of reports that a plan chose; None if no campaign can hold them.

    Args:
        name: of their kind, a key of `KINDS`.
        reports: that were built.
        parameters: with which.
    """
    declares = KINDS[name].declares
    return None if declares is None else declares(reports, parameters)


def fits_campaigns(name: str) -> bool:
    """Return whether a campaign can hold a kind of mechanism: a key of `KINDS`."""
    return KINDS[name].declares is not None
