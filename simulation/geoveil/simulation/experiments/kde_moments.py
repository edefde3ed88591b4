"""The contestants of the kernel experiment, and what they do at each distance from the centre."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import (
    DebiasedLaplace,
    GaussianKernel,
    GeoPrivacy,
    LipschitzMechanism,
    LocalLaplace,
    LocalPrivacy,
    PlanarLaplace,
    PointEstimator,
    RadialLaplace,
    SmoothMechanism,
)
from geoveil.simulation.comparison import Setting
from geoveil.simulation.experiments.contestants import (
    GENERALIZED_CAUCHY,
    STUDENT_T,
    Contestant,
    PointReports,
)
from geoveil.simulation.experiments.rows import LOCAL, OURS, SEED

Array = NDArray[np.float64]

LOCAL_DIAMETER_M = 1_000.0
"""Distance at which the paper compares with local privacy: ε_L = 1000 ε [MATH §12]."""


@dataclass(frozen=True, slots=True)
class PointContestant(Contestant):
    """Noise on the point itself, once: all centres cost ε together."""

    debias: bool = False
    """Whether the noise is undone."""

    def estimator(self, kernel: GaussianKernel, privacy: GeoPrivacy) -> PointEstimator:
        """Return the function of a perturbed point that is averaged."""
        return PlanarLaplace(privacy, kernel.dimension).estimator(kernel, debias=self.debias)


def _points(origin: str, *, debias: bool) -> PointContestant:
    return PointContestant(
        origin,
        lambda s: PointReports(PlanarLaplace(s.privacy, s.seed.dimension), s.seed, debias=debias),
        answers_every_query=True,
        debias=debias,
    )


KERNEL: Mapping[str, Contestant] = MappingProxyType(
    {
        "GP_loc": _points(SEED, debias=False),
        "GP_rad": Contestant(SEED, lambda s: RadialLaplace(s.seed, s.privacy)),
        "GP_Lip": Contestant(SEED, lambda s: LipschitzMechanism(s.seed, s.privacy)),
        "Student-t": Contestant(SEED, STUDENT_T),
        "generalized Cauchy": Contestant(SEED, GENERALIZED_CAUCHY),
        LOCAL: Contestant(
            SEED, lambda s: LocalLaplace(s.seed, LocalPrivacy(s.privacy.at(s.diameter)))
        ),
        "PowerLaw": Contestant(OURS, lambda s: SmoothMechanism(s.soft, s.privacy)),
        "DebiasedLaplace": Contestant(OURS, lambda s: DebiasedLaplace(s.soft, s.privacy)),
        "deconvolved": _points(OURS, debias=True),
    }
)
"""Name → contestant."""


def question(kernel: GaussianKernel, privacy: GeoPrivacy) -> Setting:
    """Return the question as contestants take it: everyone answers the same kernel.

    Args:
        kernel: in two dimensions, or in one, over distances to the centre. A mechanism that
            perturbs f or the distance does the same in either.
        privacy: in the unit of the kernel.
    """
    return Setting(kernel, kernel, privacy, LOCAL_DIAMETER_M)


@dataclass(frozen=True, slots=True, eq=False)
class RadialMoments:
    """Mean and variance of one report at distances r from the centre."""

    value: Array
    """f(r), what is asked."""
    mean: Array
    """m(r); f(r) itself if unbiased."""
    variance: Array
    """v(r)."""

    @classmethod
    def of(
        cls, contestant: Contestant, bandwidth: float, privacy: GeoPrivacy, r: Array
    ) -> "RadialMoments":
        """Evaluate a contestant on the ray from the centre of a kernel.

        Args:
            contestant: see `KERNEL`.
            bandwidth: h > 0, in metres.
            privacy: in metres.
            r: distances ≥ 0, in metres, shape (n,).
        """
        kernel = GaussianKernel((0.0, 0.0), bandwidth)
        answer = contestant.build(question(kernel, privacy))
        ray = np.stack([r, np.zeros_like(r)], axis=1)
        return cls(kernel.value(ray), answer.mean(ray), answer.variance(ray))
