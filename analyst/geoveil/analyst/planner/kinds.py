"""The kinds of mechanisms that a plan chooses from: a registry.

A kind builds the reports for a query under a guarantee. It serves what it does not refuse: an
`UnsupportedError` from a constructor says that there is no mathematics behind a combination.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp.deconvolution import PointEstimator
from geoveil.gp.errors import UnsupportedError
from geoveil.gp.mechanisms.debiased import DebiasedLaplace
from geoveil.gp.mechanisms.lipschitz import LipschitzMechanism
from geoveil.gp.mechanisms.local import LocalLaplace
from geoveil.gp.mechanisms.planar import PlanarLaplace
from geoveil.gp.mechanisms.radial import RadialLaplace
from geoveil.gp.mechanisms.randomized_response import RandomizedResponse
from geoveil.gp.mechanisms.smooth import SmoothMechanism
from geoveil.gp.noise import GeneralizedCauchy, Noise, StudentT
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.base import Query
from geoveil.gp.smooth.frontier import Frontier
from geoveil.gp.smooth.growth import EXPONENTIAL

Array = NDArray[np.float64]
Parameters: TypeAlias = Mapping[str, float]
_FOR_BIAS = 1.03


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
    biased: bool = False
    """Whether a report is off on average, also for a soft question; only the prior says how far."""

    def ranked(self, error: float) -> float:
        """Return what an error counts for: a bias must save 3 % of the squared error."""
        return _FOR_BIAS * error if self.biased else error


def _fractions(*values: float) -> tuple[Parameters, ...]:
    return tuple(MappingProxyType({"beta_fraction": value}) for value in values)


def _calibrated_for(frontier: Frontier) -> Callable[[Task, Parameters], Reports]:
    """Return how to build the noise that is best on a frontier."""

    def build(task: Task, parameters: Parameters) -> Reports:
        if task.query.profile.frontier(EXPONENTIAL, 0.0) is not frontier:
            raise UnsupportedError(f"{task.query!r} has another frontier than {frontier}")
        beta = parameters["beta_fraction"] * task.privacy.rate
        return SmoothMechanism(task.query, task.privacy, beta=beta)

    return build


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
CHANNEL = "LinearProgramMechanism"
"""Solved for the few queries that are left at the end; see `channels`."""

KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "DebiasedLaplace": Kind(lambda t, _: DebiasedLaplace(t.query, t.privacy)),
        "LaplacePareto": Kind(_calibrated_for(Frontier.CROSS), _fractions(0.1, 0.2, 0.3, 0.4)),
        "PowerLaw": Kind(
            _calibrated_for(Frontier.RECTANGLE), _fractions(0.05, 0.1, 0.15, 0.2, 0.3)
        ),
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
        "LipschitzMechanism": Kind(lambda t, _: LipschitzMechanism(t.query, t.privacy)),
        "RadialLaplace": Kind(lambda t, _: RadialLaplace(t.query, t.privacy), biased=True),
        POINTS: Kind(_points, answers_all=True),
        "RandomizedResponse": _local(RandomizedResponse),
        "LocalLaplace": _local(LocalLaplace),
    }
)
"""Name → kind; of two that are equally good the first is chosen."""
