"""Mechanisms of a query, and how far apart their reports about pairs of points are."""

import math

import numpy as np

from geoveil.gp import (
    DebiasedLaplace,
    GeoPrivacy,
    LipschitzMechanism,
    Query,
    QueryMechanism,
    SmoothMechanism,
)


def mechanisms_of(query: Query, privacy: GeoPrivacy) -> list[QueryMechanism]:
    """Return smooth ones of either reach, with constant noise, and debiased, if it can be."""
    found: list[QueryMechanism] = [
        SmoothMechanism(query, privacy),
        SmoothMechanism(query, privacy, reach=math.inf, beta=0.6 * privacy.rate),
        LipschitzMechanism(query, privacy),
    ]
    if query.profile.name == "smoothstep":
        found.append(DebiasedLaplace(query, privacy))
    return found


def moved(here: np.ndarray, length: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return points so far from others, each in some direction."""
    step = rng.normal(size=here.shape)
    if here.ndim == 1:
        return np.asarray(here + length * np.sign(step))
    return np.asarray(here + length[:, None] * step / np.linalg.norm(step, axis=1, keepdims=True))


def largest_rate(
    mechanism: QueryMechanism, here: np.ndarray, there: np.ndarray, rounding: float = 0.0
) -> float:
    """Return the largest log-ratio of densities, but for its rounding, over the distance."""
    gap = np.abs(there - here) if here.ndim == 1 else np.linalg.norm(there - here, axis=1)
    if isinstance(mechanism, DebiasedLaplace):
        low, high = mechanism.range
        y = np.concatenate([np.linspace(low, high, 101)[1:-1], mechanism.atoms])[:, None]
    else:
        y = np.concatenate([-np.logspace(-4, 4, 60), np.logspace(-4, 4, 60)])[:, None]
    ratio = mechanism.log_density(y, here) - mechanism.log_density(y, there)
    return float(np.max((np.abs(ratio) - rounding) / gap))
