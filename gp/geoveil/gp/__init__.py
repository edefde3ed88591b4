"""The mathematics of geoveil: queries, noise, mechanisms, exact release, estimates. No I/O."""

from geoveil.gp.errors import GeoVeilError, ParameterError, PrivateValueError, UnsupportedError
from geoveil.gp.exact import RandomSource, SeededSource, SystemSource
from geoveil.gp.mechanisms import (
    DebiasedLaplace,
    LipschitzMechanism,
    LocalLaplace,
    Mechanism,
    PlanarLaplace,
    PointEstimator,
    SmoothMechanism,
)
from geoveil.gp.noise import (
    NOISES,
    GeneralizedCauchy,
    Laplace,
    LaplacePareto,
    Noise,
    PowerLaw,
    StudentT,
)
from geoveil.gp.privacy import GeoPrivacy, LocalPrivacy
from geoveil.gp.queries import Disc, GaussianKernel, Query, Range, Threshold, TwoWayThreshold

__all__ = [
    "NOISES",
    "DebiasedLaplace",
    "Disc",
    "GaussianKernel",
    "GeneralizedCauchy",
    "GeoPrivacy",
    "GeoVeilError",
    "Laplace",
    "LaplacePareto",
    "LipschitzMechanism",
    "LocalLaplace",
    "LocalPrivacy",
    "Mechanism",
    "Noise",
    "ParameterError",
    "PlanarLaplace",
    "PointEstimator",
    "PowerLaw",
    "PrivateValueError",
    "Query",
    "RandomSource",
    "Range",
    "SeededSource",
    "SmoothMechanism",
    "StudentT",
    "SystemSource",
    "Threshold",
    "TwoWayThreshold",
    "UnsupportedError",
]
