"""What a contestant of the threshold experiments is, and the paper's own at its parameters."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import (
    GeneralizedCauchy,
    Noise,
    PlanarLaplace,
    Query,
    SmoothMechanism,
    StudentT,
)
from geoveil.simulation.comparison import Setting

Array = NDArray[np.float64]


class SimulatedReports(Protocol):
    """What one person's report is: its moments at a true point, and draws of it."""

    def mean(self, x: ArrayLike) -> Array:
        """Return the expected report at points x."""
        ...

    def variance(self, x: ArrayLike) -> Array:
        """Return the variance of the report at points x."""
        ...

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one report per point."""
        ...


@dataclass(frozen=True, slots=True)
class Contestant:
    """A mechanism at its parameters, for any setting."""

    origin: str
    """One of `ORIGINS`."""
    build: Callable[[Setting], SimulatedReports]
    """The mechanism for a setting."""
    others: tuple[Callable[[Setting], SimulatedReports], ...] = ()
    """As likely as `build`, if there is something public that might have been otherwise."""
    answers_every_query: bool = False
    """Whether one ε pays for all queries together; otherwise each costs ε."""

    @property
    def versions(self) -> tuple[Callable[[Setting], SimulatedReports], ...]:
        """All that are equally likely; the error is the mean of theirs."""
        return self.build, *self.others


class PerturbedPoints(SimulatedReports):
    """Perturbed points, each turned into a report about one query.

    Args:
        mechanism: perturbs the points.
        query: what is estimated from them.
        debias: whether the noise is undone.
    """

    def __init__(self, mechanism: PlanarLaplace, query: Query, *, debias: bool) -> None:
        self._mechanism = mechanism
        self._estimator = mechanism.estimator(query, debias=debias)

    def mean(self, x: ArrayLike) -> Array:
        return self._estimator.mean(x)

    def variance(self, x: ArrayLike) -> Array:
        return self._estimator.variance(x)

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one report per point. NOT private on a computer."""
        return self._estimator.value(self._mechanism.simulate(x, rng))


def _smooth(noise: Noise, beta_fraction: float) -> Callable[[Setting], SmoothMechanism]:
    """Return the paper's mechanism: Λ = ∞, and ε shared between a change of scale and a shift."""
    return lambda s: SmoothMechanism(
        s.seed,
        s.privacy,
        noise=noise,
        beta=s.privacy.rate * beta_fraction,
        reach=math.inf,
        calibration="paper",
    )


STUDENT_T = _smooth(StudentT(3), 1 / 9)
"""A third of ε for the change of scale, 3β [MATH §3]."""
GENERALIZED_CAUCHY = _smooth(GeneralizedCauchy(4), 1 / 15)
"""A fifth of ε for the change of scale, 3β [MATH §3]."""
