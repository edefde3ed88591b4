"""Mechanisms at their parameters, the paper's and geoveil's, and what they make of one question.

The predictions of the demonstration are exact, not sampled.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.planner import PointReports, Reports
from geoveil.gp import (
    DebiasedLaplace,
    GeneralizedCauchy,
    GeoPrivacy,
    LipschitzMechanism,
    LocalLaplace,
    LocalPrivacy,
    Noise,
    PlanarLaplace,
    Query,
    RadialLaplace,
    RandomizedResponse,
    SmoothMechanism,
    StudentT,
)
from geoveil.simulation.distribution.local import piecewise_variance
from geoveil.simulation.experiments.rows import LOCAL, OURS, SEED

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Setting:
    """One question under one guarantee, as its competitors are to answer it."""

    soft: Query
    """The query as geoveil asks it: with a Lipschitz slope."""
    seed: Query
    """The query as the seed paper asks it: the same steepest slope."""
    privacy: GeoPrivacy
    """In the coordinates of the queries."""
    footing: float
    """Distance at which ε-LDP promises as much: nearer pairs it hides less, farther ones more."""

    @property
    def local(self) -> LocalPrivacy:
        """The guarantee of ε-LDP at the footing: ε·footing between any two values."""
        return self.privacy.local(self.footing)


@dataclass(frozen=True, slots=True)
class Contestant:
    """A mechanism at its parameters, for any setting."""

    origin: str
    """One of `ORIGINS`."""
    build: Callable[[Setting], Reports]
    """The mechanism for a setting."""
    others: tuple[Callable[[Setting], Reports], ...] = ()
    """Mechanisms as likely as `build`, if something public might have been otherwise."""
    answers_every_query: bool = False
    """Whether one ε pays for all queries together; otherwise each costs ε."""

    @property
    def versions(self) -> tuple[Callable[[Setting], Reports], ...]:
        """All that are equally likely; the error is the mean of theirs."""
        return self.build, *self.others


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


def _points(privacy: GeoPrivacy, query: Query, *, debias: bool) -> PointReports:
    """Return perturbed points, each a report about one query, with or without its noise undone."""
    mechanism = PlanarLaplace(privacy, query.dimension)
    return PointReports(mechanism, mechanism.estimator(query, debias=debias))


MECHANISMS: Mapping[str, Contestant] = MappingProxyType(
    {
        "GP_loc": Contestant(
            SEED, lambda s: _points(s.privacy, s.seed, debias=False), answers_every_query=True
        ),
        "GP_rad": Contestant(SEED, lambda s: RadialLaplace(s.seed, s.privacy)),
        "GP_Lip": Contestant(SEED, lambda s: LipschitzMechanism(s.seed, s.privacy)),
        "Student-t": Contestant(SEED, STUDENT_T),
        "generalized Cauchy": Contestant(SEED, GENERALIZED_CAUCHY),
        LOCAL: Contestant(SEED, lambda s: LocalLaplace(s.seed, s.local)),
        "LaplacePareto": Contestant(OURS, lambda s: SmoothMechanism(s.seed, s.privacy)),
        "PowerLaw": Contestant(OURS, lambda s: SmoothMechanism(s.soft, s.privacy)),
        "DebiasedLaplace": Contestant(OURS, lambda s: DebiasedLaplace(s.soft, s.privacy)),
        "deconvolved": Contestant(
            OURS, lambda s: _points(s.privacy, s.soft, debias=True), answers_every_query=True
        ),
    }
)
"""Name → contestant in the experiments of the paper: its own, then geoveil's. "GP_rad" is for
kernels, "LaplacePareto" for the paper's ramps; it is PowerLaw that takes slopes without jumps."""


@dataclass(frozen=True, slots=True)
class PopulationError:
    """The error that one mechanism has on a population."""

    mechanism: str
    noise_variance: float
    """Mean variance of one report's noise."""
    sampling_variance: float
    """Variance of the query over the population."""

    def standard_error(self, n: int) -> float:
        """Return the standard error of the mean of n reports of people drawn at random."""
        return math.sqrt((self.noise_variance + self.sampling_variance) / n)


_COMPETITORS = {
    "DebiasedLaplace": "DebiasedLaplace",
    "Student-t": "Student-t",
    "Lipschitz": "GP_Lip",
}
"""Name in the demonstration → contestant: what geoveil runs, the seed paper's, and a baseline, all
with the same guarantee."""


def predict(setting: Setting, points: Array, weights: Array) -> list[PopulationError]:
    """Return the error of every competitor on a population, weighted, shape (n,).

    Points are in the coordinates of the queries, shape (n,) or (n, k).
    """
    answers = [(name, MECHANISMS[of].build(setting)) for name, of in _COMPETITORS.items()]
    return [_error(name, a.mean(points), weights, a.variance(points)) for name, a in answers]


def predict_local(setting: Setting, points: Array, weights: Array) -> PopulationError:
    """Return the error under ε-LDP at the setting's footing, with the least noise that is known.

    That is of randomised response or of the piecewise mechanism [WXYZHSSY19], whichever has less on
    this population: the one where answers are 0 or 1, the other where ε is large and they are not.
    """
    value = setting.seed.value(points)
    low, high = setting.seed.profile.bounds
    piecewise = piecewise_variance(2 * (value - low) / (high - low) - 1, setting.local)
    response = RandomizedResponse(setting.seed, setting.local).variance(points)
    return _error("ε-LDP", value, weights, response, piecewise * ((high - low) / 2) ** 2)


def _error(name: str, value: Array, weights: Array, *noises: Array) -> PopulationError:
    """Return the error with the least of noises, whose variances are those of each point."""
    mean = np.average(value, weights=weights)
    return PopulationError(
        name,
        min(float(np.average(noise, weights=weights)) for noise in noises),
        float(np.average(np.square(value - mean), weights=weights)),
    )
