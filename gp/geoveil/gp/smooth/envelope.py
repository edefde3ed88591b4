"""The smooth envelope sup_y L(y)/g(β|z−y|) of a slope L ≥ 0 that rises to one peak and falls again.

The maximizers are the local maxima of log L(y) ± βy for exponential growth, and refined from a mesh
of z for linear. One that is off by δ misses by O(δ²); the result is rounded up by more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from geoveil.gp.arrays import Array, distinct, np
from geoveil.gp.smooth.growth import EXPONENTIAL, LINEAR

Slope: TypeAlias = Callable[["Array"], "Array"]

_GOLDEN = (5**0.5 - 1) / 2
_ZERO = 1e-300
"""Number that stands for a slope of 0, so that its logarithm is finite."""
_BLOCK = 512


class Envelope(ABC):
    """An envelope, computed once and evaluated at many points.

    Args:
        slope: L, vectorised over arguments ≥ 0.
        beta: β > 0.
        breakpoints: points ≥ 0 where the behaviour of L changes, its peak among them.
        scale: length over which L varies at the breakpoints.
    """

    round_up: float

    def __init__(
        self, slope: Slope, beta: float, breakpoints: tuple[float, ...], scale: float
    ) -> None:
        self.slope = slope
        self.beta = beta
        self.mesh = _mesh(np.asarray(breakpoints), scale)
        self._prepare()

    def __call__(self, z: Array) -> Array:
        """Return the envelope at z ≥ 0, any shape."""
        z = np.asarray(z, dtype=np.float64)
        return np.asarray(np.maximum(self.slope(z), self._elsewhere(z)) * self.round_up)

    @abstractmethod
    def _prepare(self) -> None:
        """Find the maximizers."""

    @abstractmethod
    def _elsewhere(self, z: Array) -> Array:
        """Return the largest value at z over the maximizers."""

    def _log_slope(self, y: Array) -> Array:
        return np.log(np.maximum(self.slope(y), _ZERO))


class ExponentialEnvelope(Envelope):
    """g(t) = e^t: a handful of maximizers, the same for all points."""

    round_up = 1 + 1e-11

    def _prepare(self) -> None:
        maxima = [self._local_maxima(sign) for sign in (1.0, -1.0)]
        self.maximizers = distinct(np.concatenate(maxima))
        self.heights = self.slope(self.maximizers)

    def _elsewhere(self, z: Array) -> Array:
        best = np.zeros(z.shape)
        for maximizer, height in zip(self.maximizers, self.heights, strict=True):
            best = np.maximum(best, height * np.exp(-self.beta * np.abs(z - maximizer)))
        return best

    def _local_maxima(self, sign: float) -> Array:
        """Return the local maxima of log L(y) + sign·βy."""

        def tilted(y: Array) -> Array:
            return np.asarray(self._log_slope(y) + sign * self.beta * y)

        values = tilted(self.mesh)
        peaks = np.flatnonzero((values[1:-1] >= values[:-2]) & (values[1:-1] >= values[2:])) + 1
        if sign < 0:  # at the origin the even extension turns a fall into a peak
            peaks = np.concatenate([[0], peaks])
        low, high = self.mesh[np.maximum(peaks - 1, 0)], self.mesh[peaks + 1]
        return greatest_between(tilted, low, high)


class LinearEnvelope(Envelope):
    """g(t) = 1 + t: a maximizer for each point of a mesh, refined for the points between."""

    round_up = 1 + 1e-9

    def _prepare(self) -> None:
        log_slope = self._log_slope(self.mesh)
        best = np.empty(len(self.mesh), dtype=np.intp)
        for start in range(0, len(self.mesh), _BLOCK):
            z = self.mesh[start : start + _BLOCK, None]
            value = log_slope - np.log1p(self.beta * np.abs(z - self.mesh))
            best[start : start + _BLOCK] = np.argmax(value, axis=1)
        low = self.mesh[np.maximum(best - 1, 0)]
        high = self.mesh[np.minimum(best + 1, len(self.mesh) - 1)]
        self.maximizers = greatest_between(lambda y: self._value(self.mesh, y), low, high)

    def _elsewhere(self, z: Array) -> Array:
        index = np.clip(np.searchsorted(self.mesh, z) - 1, 0, len(self.mesh) - 2)
        left, right = self.maximizers[index], self.maximizers[index + 1]
        # The maximizer moves steadily between its neighbours or, where two rivals change places,
        # jumps: then it is near one of them.
        pad = 2 * (self.mesh[index + 1] - self.mesh[index])
        best = np.maximum(self._value(z, left), self._value(z, right))
        for low, high in ((left, left), (right, right), np.sort([left, right], axis=0)):
            maximizer = greatest_between(
                lambda y: self._value(z, y), np.maximum(low - pad, 0.0), high + pad
            )
            best = np.maximum(best, self._value(z, maximizer))
        return best

    def _value(self, z: Array, y: Array) -> Array:
        return np.asarray(self.slope(y) / (1 + self.beta * np.abs(z - y)))


ENVELOPES: Mapping[str, type[Envelope]] = MappingProxyType(
    {EXPONENTIAL: ExponentialEnvelope, LINEAR: LinearEnvelope}
)
"""Name of a growth function → its envelope."""


def _mesh(breakpoints: Array, scale: float) -> Array:
    """Return points ≥ 0, dense around the breakpoints at every scale, sparse far away."""
    offsets = scale * np.geomspace(1e-8, 16.0, 400)
    offsets = np.concatenate([-offsets, [0.0], offsets, scale * np.linspace(-8, 8, 161)])
    last = float(breakpoints.max()) + 16 * scale
    far = np.concatenate([np.geomspace(scale, last, 400), last * np.geomspace(1.01, 1e6, 400)])
    mesh = np.concatenate([[0.0], (breakpoints[:, None] + offsets).ravel(), far])
    mesh = distinct(mesh[mesh >= 0])
    # Points that differ by rounding only would make the brackets around maxima too narrow.
    apart = np.concatenate([[True], np.diff(mesh) > 1e-9 * scale])
    return np.asarray(mesh[apart])


def greatest_between(function: Slope, low: Array, high: Array) -> Array:
    """Return where a function is greatest on brackets, one place each, by golden section."""
    for _ in range(60):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        keep_left = function(left) > function(right)
        low, high = np.where(keep_left, low, left), np.where(keep_left, right, high)
    return np.asarray((low + high) / 2)
