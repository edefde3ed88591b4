"""Moments of F(x + N), N Laplace, by quadrature against a positive density.

On a line F is a function of x; around a centre it is a function of the distance, and the density
of the noisy distance ρ = |x + N| from a point at distance r is

    p(ρ) = c ρ^{k−1} ∫_0^π sin^{k−2}θ e^{−D/b} dθ,   D² = (r−ρ)² + 4rρ sin²(θ/2),

with a singularity of the kind (r−ρ)² log|r−ρ| for even k. Moments are taken about the mean of the
very point, so that nothing cancels: the variance of a function that hardly varies is as accurate,
in relative terms, as any other.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2
# Panels in units of b: the density falls by e^−50 over them.
_GRADING = np.array([0.5, 1.0, 2.0, 3.0, 4.5, 6.5, 9.0, 12.0, 16.0, 21.0, 28.0, 37.0, 50.0])


@dataclass(frozen=True)
class Curve:
    """A function of one variable that is smooth between breaks.

    Args:
        value: vectorised.
        breaks: increasing; between neighbours `value` is close to a polynomial of degree 30. It is
            constant before the first and after the last, or, for the functions of a distance,
            smooth at 0.
        noise: scale b > 0 of the noise, in the unit of the variable.
    """

    value: Callable[[Array], Array]
    breaks: tuple[float, ...]
    noise: float


class Geometry(ABC):
    """Where the noise lives: how the noisy variable is distributed."""

    origin: ClassVar[float]
    """Least value of the variable."""

    @abstractmethod
    def density(self, at: float, nodes: Array, b: float) -> Array:
        """Return the density of the noisy variable at the nodes, for a point at `at`."""

    def moments(self, curve: Curve, at: float) -> tuple[float, float]:
        """Return mean and variance of curve.value(noisy variable) for a point at `at`."""
        b = curve.noise
        spread = np.concatenate([-_GRADING[::-1], [0.0], _GRADING]) * b
        # The density is not smooth at `at`; far from it the nearest breaks count the most.
        centers = np.array([at, curve.breaks[0], curve.breaks[-1]])
        edges = np.concatenate([curve.breaks, (centers[:, None] + spread).ravel()])
        edges = np.unique(np.maximum(edges, self.origin))
        edges = edges[np.concatenate([[True], np.diff(edges) > 1e-12 * max(b, abs(at))])]
        low, length = edges[:-1, None], np.diff(edges)[:, None]
        # Nodes cluster towards `at`, where they are placed by t³; elsewhere they are plain.
        cubed, plain = _NODES**3, _NODES
        right = np.isclose(edges[:-1], at, rtol=0, atol=1e-11 * max(b, abs(at)))[:, None]
        left = np.isclose(edges[1:], at, rtol=0, atol=1e-11 * max(b, abs(at)))[:, None]
        share = np.where(right, cubed, np.where(left, 1 - cubed[::-1], plain))
        slope = np.where(right, 3 * plain**2, np.where(left, 3 * plain[::-1] ** 2, 1.0))
        nodes = (low + length * share).ravel()
        weights = (length * slope * _WEIGHTS).ravel() * self.density(at, nodes, b)
        values = curve.value(nodes)
        weights /= weights.sum()
        # About a value close to the mean first: the sum of the weights is 1 only up to rounding.
        anchor = float(curve.value(np.array([at]))[0])
        mean = anchor + float(weights @ (values - anchor))
        return mean, float(weights @ np.square(values - mean))


class Line(Geometry):
    """One dimension: the variable is the value itself."""

    origin: ClassVar[float] = -math.inf

    def density(self, at: float, nodes: Array, b: float) -> Array:
        """See `Geometry.density`."""
        return np.asarray(np.exp(-np.abs(nodes - at) / b) / (2 * b))


@dataclass(frozen=True)
class Around(Geometry):
    """k ≥ 2 dimensions: the variable is the distance to a centre.

    Args:
        dimension: k.
    """

    dimension: int

    origin: ClassVar[float] = 0.0

    def density(self, at: float, nodes: Array, b: float) -> Array:
        """See `Geometry.density` and the module docstring."""
        k = self.dimension
        # Γ(k/2)/(2π^{k/2}Γ(k)) of the noise times the area 2π^{(k−1)/2}/Γ((k−1)/2) of S^{k−2}.
        log_factor = math.lgamma(k / 2) - math.lgamma(k) - math.lgamma((k - 1) / 2)
        factor = math.exp(log_factor) / math.sqrt(math.pi) / b
        return np.asarray(factor * (nodes / b) ** (k - 1) * _angular(k, at / b, nodes / b))


_COARSE = np.polynomial.legendre.leggauss(16)
_FINE = np.polynomial.legendre.leggauss(32)
_OUTER = np.polynomial.legendre.leggauss(24)
_NEGLIGIBLE = 45.0


def _angular(k: int, r: float, rho: Array) -> Array:
    """Return ∫_0^π sin^{k−2}θ e^{−D} dθ, lengths in units of b.

    With z = tan(θ/2) and D² = (δ² + s²z²)/(1 + z²), δ = |r−ρ|, s = r+ρ, the near half z ≤ 1 is
    integrated in y, z = (δ/s) sinh y, where D is smooth however small δ is.
    """
    delta, s = np.maximum(np.abs(r - rho), 1e-14 * (r + rho)), r + rho
    ratio = delta / s
    # Beyond this z the exponent has grown by so much that nothing is left.
    most = delta + _NEGLIGIBLE
    with np.errstate(divide="ignore", invalid="ignore"):
        z_most = np.where(most < s, np.sqrt((most**2 - delta**2) / (s**2 - most**2)), 1.0)
    top = np.arcsinh(np.minimum(z_most, 1.0) / ratio)
    middle = np.maximum(top - 5.0, 0.0)
    result = np.zeros_like(rho)
    for (nodes, weights), low, high in ((_COARSE, 0.0 * top, middle), (_FINE, middle, top)):
        half = ((high - low) / 2)[:, None]
        y = low[:, None] + half * (nodes + 1)
        z = ratio[:, None] * np.sinh(y)
        d = np.sqrt((delta[:, None] ** 2 + (s[:, None] * z) ** 2) / (1 + z * z))
        angle = 2 * ratio[:, None] * np.cosh(y) / (1 + z * z)
        sine = (2 * z / (1 + z * z)) ** (k - 2)
        result += ((np.exp(-d) * angle * sine) * half) @ weights
    phi = math.pi / 8 * (_OUTER[0] + 1) + math.pi / 4
    d = np.sqrt((delta[:, None] * np.cos(phi)) ** 2 + (s[:, None] * np.sin(phi)) ** 2)
    far = np.exp(-d) * np.sin(2 * phi) ** (k - 2)
    return np.asarray(result + 2 * (far @ _OUTER[1]) * math.pi / 8)
