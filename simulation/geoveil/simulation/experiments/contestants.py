"""What a contestant of the threshold experiments is, and the paper's own at its parameters."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.planner import PointReports, Reports
from geoveil.gp import (
    GeneralizedCauchy,
    GeoPrivacy,
    Noise,
    PlanarLaplace,
    Query,
    SmoothMechanism,
    StudentT,
)
from geoveil.simulation.comparison import Setting

Array = NDArray[np.float64]


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


def perturbed_points(privacy: GeoPrivacy, query: Query, *, debias: bool) -> PointReports:
    """Return perturbed points, each turned into a report about one query.

    Args:
        privacy: what a point promises.
        query: what is estimated from them.
        debias: whether the noise is undone.
    """
    mechanism = PlanarLaplace(privacy, query.dimension)
    return PointReports(mechanism, mechanism.estimator(query, debias=debias))


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
