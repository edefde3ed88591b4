"""Mechanisms: what leaves a device, and what it promises."""

from geoveil.gp.mechanisms.base import Mechanism
from geoveil.gp.mechanisms.debiased import DebiasedLaplace
from geoveil.gp.mechanisms.lipschitz import LipschitzMechanism
from geoveil.gp.mechanisms.local import LocalLaplace
from geoveil.gp.mechanisms.planar import PlanarLaplace, PointEstimator
from geoveil.gp.mechanisms.radial import RadialLaplace
from geoveil.gp.mechanisms.smooth import SmoothMechanism

__all__ = [
    "DebiasedLaplace",
    "LipschitzMechanism",
    "LocalLaplace",
    "Mechanism",
    "PlanarLaplace",
    "PointEstimator",
    "RadialLaplace",
    "SmoothMechanism",
]
