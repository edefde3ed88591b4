"""Four faults that careless code makes, as wrappers of sound mechanisms: the auditor's controls.

None of them can be seen in the reports by eye, and each breaks the promise of the mechanism that it
wraps. They exist to be caught.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.audit.case import Audited, Case, additive_outputs
from geoveil.audit.catalogue import BELL, RAMP
from geoveil.gp.arithmetic import FLOAT
from geoveil.gp.mechanisms.additive import AdditiveMechanism, LipschitzMechanism
from geoveil.gp.mechanisms.smooth import SmoothMechanism
from geoveil.gp.privacy import GeoPrivacy, LocalPrivacy
from geoveil.gp.queries.base import Query

Array = NDArray[np.float64]
_FOOT_IN_METRES = 0.3048
_LEAST = 1e-12


@dataclass(frozen=True, slots=True)
class Rescaled:
    """f(x) + factor(x)·scale(x)·Z in place of f(x) + scale(x)·Z.

    Args:
        mechanism: the sound one.
        factor: of its noise, a function of the points; > 0.
    """

    mechanism: AdditiveMechanism
    factor: Callable[[Array], Array]

    @property
    def privacy(self) -> GeoPrivacy | LocalPrivacy:
        """What the sound mechanism promises, and this one does not keep."""
        return self.mechanism.privacy

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one faulty report per point."""
        points = np.asarray(x, dtype=np.float64)
        value = self.mechanism.query.value(points)
        noise = self.mechanism.simulate(points, rng) - value
        return np.asarray(value + self.factor(points) * noise)

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-density of the faulty reports at output y given the point x."""
        points = np.asarray(x, dtype=np.float64)
        value, factor = self.mechanism.query.value(points), self.factor(points)
        inner = value + (np.asarray(y, dtype=np.float64) - value) / factor
        return np.asarray(self.mechanism.log_density(inner, points) - np.log(factor))


@dataclass(frozen=True, slots=True)
class Misstated:
    """A mechanism that promises another guarantee than the one it was built for.

    Args:
        mechanism: the mechanism.
        privacy: what it is said to promise.
    """

    mechanism: Audited
    privacy: GeoPrivacy

    def simulate(self, x: ArrayLike, rng: np.random.Generator) -> Array:
        """Return one report per point, of the mechanism as it was built."""
        return self.mechanism.simulate(x, rng)

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-density of those reports at output y given the point x."""
        return self.mechanism.log_density(y, x)


def less_noise(mechanism: AdditiveMechanism, factor: float = 0.7) -> Rescaled:
    """Return the mechanism with its noise scaled by a factor < 1."""
    return Rescaled(mechanism, lambda x: np.asarray(factor))


def beta_doubled(mechanism: SmoothMechanism) -> Rescaled:
    """Return the mechanism with a bound that decays at 2β, and the noise of β."""
    query, beta, reach = mechanism.query, mechanism.beta, mechanism.reach

    def factor(x: Array) -> Array:
        wrong = query.smooth_bound(x, 2 * beta, reach=reach)
        return np.asarray(wrong / query.smooth_bound(x, beta, reach=reach))

    return Rescaled(mechanism, factor)


def slope_for_bound(mechanism: SmoothMechanism) -> Rescaled:
    """Return the mechanism with |∇f|, which is not smooth, in place of its smooth bound B."""
    query, beta, reach = mechanism.query, mechanism.beta, mechanism.reach
    step = 1e-5 * query.profile.length_scale

    def factor(x: Array) -> Array:
        s = np.asarray(query.signed_distance(x))
        rise = query.profile.value(s + step, FLOAT) - query.profile.value(s - step, FLOAT)
        slope = np.maximum(np.abs(rise) / (2 * step), _LEAST * query.lipschitz)
        return np.asarray(slope / query.smooth_bound(x, beta, reach=reach))

    return Rescaled(mechanism, factor)


def feet_for_metres(query: Query, stated: GeoPrivacy) -> Misstated:
    """Return a mechanism that was built for so many feet, and states as many metres."""
    feet = GeoPrivacy(stated.epsilon, stated.per * _FOOT_IN_METRES, stated.unit)
    return Misstated(LipschitzMechanism(query, feet), stated)


def faults() -> tuple[Case, ...]:
    """Return the four faulty mechanisms, at the points and pairs of the sound ones.

    Example:
        >>> [case.variant for case in faults()]
        ['noise × 0.7', 'β doubled', '|∇f| for B', 'feet for metres']
    """
    ramp, bell = (SmoothMechanism(scene.query, scene.privacy) for scene in (RAMP, BELL))
    wide, narrow = (additive_outputs(m.largest_scale) for m in (ramp, bell))
    feet = feet_for_metres(BELL.query, BELL.privacy)
    return (
        RAMP.case(less_noise(ramp), wide, "noise × 0.7", name="SmoothMechanism"),
        RAMP.case(beta_doubled(ramp), wide, "β doubled", name="SmoothMechanism"),
        BELL.case(slope_for_bound(bell), narrow, "|∇f| for B", name="SmoothMechanism"),
        BELL.case(feet, narrow, "feet for metres", name="LipschitzMechanism"),
    )
