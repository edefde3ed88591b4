"""Mechanisms: what leaves a device, and what it promises."""

from geoveil.gp.mechanisms.approximate import ApproximateLaplace
from geoveil.gp.mechanisms.base import Mechanism
from geoveil.gp.mechanisms.channel import LinearProgramMechanism
from geoveil.gp.mechanisms.channel_mechanism import ChannelMechanism
from geoveil.gp.mechanisms.channel_record import Channel
from geoveil.gp.mechanisms.debiased import DebiasedLaplace
from geoveil.gp.mechanisms.lipschitz import LipschitzMechanism
from geoveil.gp.mechanisms.local import LocalLaplace
from geoveil.gp.mechanisms.planar import PlanarLaplace, PointEstimator
from geoveil.gp.mechanisms.radial import RadialLaplace
from geoveil.gp.mechanisms.randomized_response import RandomizedResponse
from geoveil.gp.mechanisms.smooth import SmoothMechanism
from geoveil.gp.mechanisms.vector import VectorSmoothMechanism

__all__ = [
    "ApproximateLaplace",
    "Channel",
    "ChannelMechanism",
    "DebiasedLaplace",
    "LinearProgramMechanism",
    "LipschitzMechanism",
    "LocalLaplace",
    "Mechanism",
    "PlanarLaplace",
    "PointEstimator",
    "RadialLaplace",
    "RandomizedResponse",
    "SmoothMechanism",
    "VectorSmoothMechanism",
]
