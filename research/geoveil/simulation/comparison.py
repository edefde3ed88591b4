"""The paper's and geoveil's mechanisms, with parameters, for one question."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.analyst import PointReports, ReportLaw
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
    SmoothMechanism,
    StudentT,
    laplace_expectation,
)
from geoveil.simulation.experiments.rows import LOCAL, OURS, SEED

Array = NDArray[np.float64]


class RadialLaplace(DebiasedLaplace):
    """y = φ(s(x) + Laplace(1/ε)): ε-GP, and biased for every query that is not linear.

    The seed paper's GP_rad [SGP §5], a baseline whose bias does not shrink with n.
    `DebiasedLaplace` adds the same noise without bias.

    Example:
        >>> from geoveil.gp import GaussianKernel, GeoPrivacy
        >>> q = GaussianKernel(center=(0.0, 0.0), bandwidth=1000.0)
        >>> m = RadialLaplace(q, GeoPrivacy(epsilon=1.0, per=500.0))
        >>> m.mean([[0.0, 0.0]]).round(3).tolist(), q.value([[0.0, 0.0]]).tolist()
        ([0.843], [1.0])
    """

    @property
    def unbiased(self) -> bool:
        return False

    @property
    def _undo(self) -> Fraction:
        return Fraction(0)

    def mean(self, x: ArrayLike) -> Array:
        """Return the expected report: φ smoothed by the noise."""
        profile = self.query.profile
        return laplace_expectation(
            self._g,
            self._distance(x),
            self.scale,
            panels=profile.panels(0.0),
            limits=profile.limits,
        )


@dataclass(frozen=True, slots=True)
class Setting:
    """One question under one guarantee, for all contestants."""

    soft: Query
    """The query of geoveil, with a Lipschitz slope."""
    seed: Query
    """The query of the seed paper, with the same steepest slope."""
    privacy: GeoPrivacy
    """In the coordinates of the queries."""
    footing: float
    """Distance at which ε-LDP promises as much; it promises less for nearer pairs and more for
    farther ones."""

    @property
    def local(self) -> LocalPrivacy:
        """The guarantee of ε-LDP: ε·footing between any two values."""
        return self.privacy.local(self.footing)


@dataclass(frozen=True, slots=True)
class Contestant:
    """A mechanism with parameters, for any setting."""

    origin: str
    """One of `ORIGINS`."""
    build: Callable[[Setting], ReportLaw]
    """The mechanism for a setting."""
    others: tuple[Callable[[Setting], ReportLaw], ...] = ()
    """Equally likely alternatives to `build`, one for each random set of public data."""
    answers_every_query: bool = False
    """Whether one ε pays for all queries together; otherwise each costs ε."""

    @property
    def versions(self) -> tuple[Callable[[Setting], ReportLaw], ...]:
        """All equally likely mechanisms; the error is their mean error."""
        return self.build, *self.others


def as_in_the_paper(noise: Noise, beta_fraction: float) -> Callable[[Setting], SmoothMechanism]:
    """Return the paper's mechanism: Λ = ∞, with ε split between a change of scale and a shift."""
    return lambda s: SmoothMechanism(
        s.seed,
        s.privacy,
        noise=noise,
        beta=s.privacy.rate * beta_fraction,
        reach=math.inf,
        calibration="paper",
    )


STUDENT_T = as_in_the_paper(StudentT(3), 1 / 9)
"""A third of ε for the change of scale, 3β [MATH §3]."""
GENERALIZED_CAUCHY = as_in_the_paper(GeneralizedCauchy(4), 1 / 15)
"""A fifth of ε for the change of scale, 3β [MATH §3]."""


def _points(privacy: GeoPrivacy, query: Query, *, debias: bool) -> PointReports:
    """Return perturbed points as reports about one query, debiased or not."""
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
"""Name → contestant in the paper's experiments: the paper's, then geoveil's. "GP_rad" is for
kernels, "LaplacePareto" for the paper's ramps, "PowerLaw" for slopes without jumps."""
