"""Mechanisms, which perturb a value with a guarantee."""

from geoveil.gp.mechanisms.additive import LipschitzMechanism
from geoveil.gp.mechanisms.approximate import ApproximateLaplace
from geoveil.gp.mechanisms.base import Mechanism, QueryMechanism
from geoveil.gp.mechanisms.distance import DebiasedLaplace
from geoveil.gp.mechanisms.local import LocalLaplace, RandomizedResponse
from geoveil.gp.mechanisms.planar import PlanarLaplace
from geoveil.gp.mechanisms.smooth import SmoothMechanism
from geoveil.gp.mechanisms.vector import VectorAnswer, VectorSmoothMechanism

__all__ = [
    "ApproximateLaplace",
    "DebiasedLaplace",
    "LipschitzMechanism",
    "LocalLaplace",
    "Mechanism",
    "PlanarLaplace",
    "QueryMechanism",
    "RandomizedResponse",
    "SmoothMechanism",
    "VectorAnswer",
    "VectorSmoothMechanism",
]
