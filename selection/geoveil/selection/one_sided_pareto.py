"""Exponential noise that turns into a Pareto tail: the largest hazard that L and ν allow."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from geoveil.gp import validation
from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.exact.ball import BALL, working_precision
from geoveil.gp.noise.base import Array
from geoveil.gp.privacy.rounding import BITS, round_up, upper
from geoveil.selection.one_sided import OneSidedNoise


@dataclass(frozen=True)
class ExponentialPareto(OneSidedNoise):
    """F̄ = e^−t up to t = ν, then e^−ν (t/ν)^−ν: hazard min(1, ν/t), so that no Z is smaller.

    With x = e^−t, c is the supremum of x ln x/((1−x) ln(1−x)) over the core. That falls in x,
    because the logarithmic means of 1 with x and with 1 − x exceed √x + √(1−x) ≥ 1; in the tail
    x ν/((1−x)(−ln(1−x))) grows in x. So both are largest at the knee, x = e^−ν.

    Args:
        nu: ν in [0.5, 100]. The lighter the tail, the dearer a change of scale. Where S falls
            exponentially with a margin, the margin needed is least near ν = 1 for m ≥ 10 outcomes,
            and near 0.5 for two.

    Raises:
        ParameterError: if nu is out of range.

    Example:
        >>> noise = ExponentialPareto(3.0)
        >>> round(noise.log_cdf_scale_cost, 3)
        3.078
        >>> float(noise.survival(3.0)) == math.exp(-3)
        True
    """

    nu: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "nu", validation.between("nu", self.nu, 0.5, 100))

    def logpdf(self, t: ArrayLike) -> Array:
        """See `OneSidedNoise.logpdf`."""
        t = np.asarray(t, dtype=np.float64)
        beyond = np.log(np.maximum(t / self.nu, 1))
        inside = -np.clip(t, 0, self.nu) - (self.nu + 1) * beyond
        return np.where(t < 0, -math.inf, inside)

    def survival(self, t: ArrayLike) -> Array:
        """See `OneSidedNoise.survival`."""
        t = np.asarray(t, dtype=np.float64)
        beyond = np.log(np.maximum(t / self.nu, 1))
        return np.asarray(np.exp(-np.clip(t, 0, self.nu) - self.nu * beyond))

    def quantile(self, p: Real, ops: Arithmetic = FLOAT) -> Real:
        """See `OneSidedNoise.quantile`: a logarithm in the core, a power in the tail."""
        nu, zero = ops.constant(self.nu), ops.constant(0)
        depth = -ops.log1p(-p)
        return ops.minimum(depth, nu) * ops.exp(ops.maximum(depth - nu, zero) / nu)

    @property
    def hazard(self) -> float:
        """See `OneSidedNoise.hazard`: that of the core."""
        return 1.0

    @property
    def tail_index(self) -> float:
        """See `OneSidedNoise.tail_index`."""
        return self.nu

    @property
    def log_cdf_scale_cost(self) -> float:
        """See `OneSidedNoise.log_cdf_scale_cost`: its value at the knee, rounded up."""
        with working_precision(BITS):
            nu = BALL.constant(self.nu)
            x = (-nu).exp()
            bound: arb = nu * x / ((1 - x) * -(-x).log1p())
        return round_up(upper(bound))

    @property
    def knees(self) -> tuple[float, ...]:
        """See `OneSidedNoise.knees`."""
        return (self.nu,)

    @property
    def certified_isf(self) -> Callable[[Array], Array]:
        """See `OneSidedNoise.certified_isf`: −ln T moves by 2^-40, Z by 2^-39 of itself."""
        return self._isf

    def _isf(self, tail: Array) -> Array:
        depth = -np.log(tail)
        return np.asarray(np.minimum(depth, self.nu) * np.exp(np.maximum(depth / self.nu - 1, 0)))
