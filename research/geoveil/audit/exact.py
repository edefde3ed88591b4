"""The exact auditor: the largest log-ratio of densities at two points, and its place.

Without a slack, it finds the largest log-density ratio per distance; neighbours on a path suffice,
as ratios add up along it. With a slack δ, it finds the ε that two points need.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import ParameterError, validation

Array = NDArray[np.float64]


class HasDensity(Protocol):
    """The interface of a mechanism for the exact auditor."""

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        """Return the log-density at output y given the point x, the two broadcast together."""
        ...


@dataclass(frozen=True, slots=True)
class Finding:
    """The witness of the largest ratio."""

    rate: float
    """|log p_x(y) − log p_x'(y)| / |x − x'|, in nats per unit."""
    x: tuple[float, ...]
    """One point."""
    other: tuple[float, ...]
    """The next point on the path."""
    y: float
    """The output with the largest difference."""


def exact_rate(mechanism: HasDensity, points: ArrayLike, outputs: ArrayLike) -> Finding:
    """Return the largest rate of change of log-densities between neighbours on a path.

    It is a lower bound of the privacy rate, and close to it on fine grids. Outputs at which one of
    the densities is 0 in floating point are ignored; rounding errors of doubles are allowed for.

    Args:
        mechanism: anything with a log-density.
        points: a path, (n,) or (n, k), n ≥ 2, without repeats.
        outputs: (m,).

    Raises:
        ParameterError: if the path has fewer than two points or repeats one.

    Example:
        >>> from geoveil.gp import GeoPrivacy, LipschitzMechanism, Threshold
        >>> m = LipschitzMechanism(Threshold(at=0, width=2), GeoPrivacy(1.0, per=4.0))
        >>> finding = exact_rate(m, np.linspace(-2, 2, 41), np.linspace(-3, 3, 61))
        >>> round(finding.rate, 6)
        0.25
    """
    path = np.asarray(points, dtype=np.float64)
    validation.require_count("number of points", len(path), 2)
    steps = np.diff(path, axis=0)
    lengths = np.abs(steps) if path.ndim == 1 else np.linalg.norm(steps, axis=-1)
    if not (lengths > 0).all():
        raise ParameterError("points", "a repeated point", "a path whose points differ")
    lengths = lengths + _ROUNDED * np.abs(path).reshape(len(path), -1).max(axis=1)[1:]
    findings = []
    for y in blocks(np.asarray(outputs, dtype=np.float64), len(path)):
        logs = mechanism.log_density(y[:, None], path)
        with np.errstate(invalid="ignore"):
            apart = np.abs(np.diff(logs, axis=1)) - _ROUNDED * np.abs(logs[:, 1:])
            ratio = apart / lengths
        ratio = np.where(np.isfinite(ratio), ratio, -np.inf)
        row, column = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
        near, far = (tuple(np.atleast_1d(x).tolist()) for x in (path[column], path[column + 1]))
        findings.append(Finding(float(ratio[row, column]), near, far, float(y[row])))
    return max(findings, key=lambda finding: finding.rate)


def blocks(rows: Array, columns: int) -> list[Array]:
    """Return blocks of rows, small enough for a processor's cache."""
    return np.array_split(rows, -(-len(rows) * columns // _BLOCK) or 1)


_BLOCK = 2**17
_ROUNDED = 2.0**-50
"""The relative rounding error of a log-density and of a far point."""
_HALVINGS = 60
_ALIKE = 1e-3
"""The most by which log-densities of neighbouring floats differ, where neither is an atom."""
_JUMP = 2.0
"""Factor by which a density has to change between two outputs to count as a jump."""
_JUMPS = 16
"""The most jumps of one law that are located."""
_MOST = 512.0
"""The largest finite exponent; densities with a larger log-ratio count as this far apart."""


def exact_epsilon(
    mechanism: HasDensity,
    x: ArrayLike,
    other: ArrayLike,
    outputs: ArrayLike,
    delta: float,
    atoms: ArrayLike = (),
) -> Finding:
    """Return the least ε ≥ 0 with P[M(x) ∈ S] ≤ e^ε P[M(x') ∈ S] + δ for all S, both ways.

    The event is S = {p_x > e^ε p_x'}, with ∫ max(p_x − e^ε p_x', 0), a trapezoidal sum over the
    outputs: its error is of the order of the square of their spacing, in units of the noise.

    Args:
        mechanism: anything with a log-density.
        x: one point.
        other: another one.
        outputs: (m,), increasing, fine where there is mass, and leaving none outside.
        delta: δ in (0, 1).
        atoms: those of the outputs that have a log-probability instead.

    Returns:
        The witness; its rate is ε in nats for this pair, and its output the one that adds most to
        the event. With ε = 0 no event needs more than δ.

    Raises:
        ParameterError: if the outputs do not increase or δ is out of range.

    Example:
        >>> from geoveil.gp import GeoPrivacy, LipschitzMechanism, Threshold
        >>> m = LipschitzMechanism(Threshold(at=0, width=2), GeoPrivacy(1.0, per=1.0))
        >>> finding = exact_epsilon(m, 0.0, 1.0, np.linspace(-20, 20, 8001), delta=0.1)
        >>> round(finding.rate, 4), round(1 + 2 * float(np.log(0.9)), 4)
        (0.7893, 0.7893)
    """
    return Masses(mechanism, outputs, atoms).epsilon(x, other, delta)


def exact_delta(
    mechanism: HasDensity, x: ArrayLike, other: ArrayLike, outputs: ArrayLike, epsilon: float
) -> float:
    """Return the least δ with P[M(x) ∈ S] ≤ e^ε P[M(x') ∈ S] + δ for all S, both ways.

    The hockey-stick divergence ∫ max(p_x − e^ε p_x', 0), as a trapezoidal sum over the outputs. ε ≥
    0 is in nats for this pair. Arguments and errors as `exact_epsilon`.

    Example:
        >>> from geoveil.gp import GeoPrivacy, LipschitzMechanism, Threshold
        >>> m = LipschitzMechanism(Threshold(at=0, width=2), GeoPrivacy(1.0, per=1.0))
        >>> delta = exact_delta(m, 0.0, 1.0, np.linspace(-20, 20, 8001), epsilon=0.7893)
        >>> round(delta, 4), round(1 - float(np.exp((0.7893 - 1) / 2)), 4)
        (0.1, 0.1)
    """
    return Masses(mechanism, outputs).delta(x, other, epsilon)


class Masses:
    """The mass of each output in the laws of a mechanism's points; each law is computed once."""

    def __init__(self, mechanism: HasDensity, outputs: ArrayLike, atoms: ArrayLike = ()) -> None:
        y = validation.outputs(outputs)
        if y.ndim != 1 or len(y) < 3 or not (np.diff(y) > 0).all():
            expected = "three or more numbers that increase"
            raise ParameterError("outputs", f"shape {y.shape}", expected)
        weights, dense = np.ones(len(y)), np.ones(len(y), dtype=np.bool_)
        dense[np.searchsorted(y, atoms)] = False
        apart = np.diff(y[dense])
        weights[dense] = (np.insert(apart, 0, 0.0) + np.append(apart, 0.0)) / 2
        self._mechanism, self._outputs, self._weights = mechanism, y, weights
        self._dense, self._atoms = np.flatnonzero(dense), np.flatnonzero(~dense & dense.any())
        self._known: dict[bytes, Array] = {}
        self._known_jumps: dict[bytes, NDArray[np.intp]] = {}
        self._apart = apart

    def at(self, x: ArrayLike) -> Array:
        """Return the mass of each output in the law of a point."""
        point = np.asarray(x, dtype=np.float64)
        key = point.tobytes()
        if key not in self._known:
            logs = self._mechanism.log_density(self._outputs, point)
            mass = self._weights * np.exp(logs)
            if len(self._atoms):  # one of other points may be a float of a density here
                beside = np.nextafter(self._outputs[self._atoms], np.inf)
                with np.errstate(invalid="ignore"):
                    apart = logs[self._atoms] - self._mechanism.log_density(beside, point)
                mass[self._atoms[np.abs(apart) < _ALIKE]] = 0.0
            self._known[key] = mass
        return self._known[key]

    def missed(self, x: ArrayLike, other: ArrayLike) -> float:
        """Return the difference of two laws' sums from 1, and the error of jumps between outputs.

        Errors at both ends of a law may cancel in its sum, and remain in a part of it.
        """
        cells = np.union1d(self._jumps(x), self._jumps(other))
        ends = [self._density(point, cells + i) for point in (x, other) for i in (0, 1)]
        off = [abs(float(self.at(point).sum()) - 1) for point in (x, other)]
        return sum(off) + float(np.max(ends, axis=0) @ self._apart[cells]) / 2

    def ends_of_jumps(self, points: Array) -> Array:
        """Return both floats at the largest jumps of the densities of points, for outputs."""
        rows, low, high = [], [], []
        for row, point in enumerate(points):
            cells = self._jumps(point)
            ends = [self._density(point, cells + i) for i in (0, 1)]
            largest = cells[np.argsort(np.max(ends, axis=0) * self._apart[cells])[-_JUMPS:]]
            rows.append(np.full(len(largest), row))
            low.append(self._outputs[self._dense[largest]])
            high.append(self._outputs[self._dense[largest + 1]])
        x, below, above = points[np.concatenate(rows)], np.concatenate(low), np.concatenate(high)
        start, end = (np.exp(self._mechanism.log_density(y, x)) for y in (below, above))
        for _ in range(_HALVINGS if len(x) else 0):
            middle = (below + above) / 2
            between = np.exp(self._mechanism.log_density(middle, x))
            first = np.abs(between - start) >= np.abs(end - between)
            below, above = np.where(first, below, middle), np.where(first, middle, above)
            start, end = np.where(first, start, between), np.where(first, between, end)
        return np.union1d(below, above)

    def _density(self, x: ArrayLike, at: NDArray[np.intp]) -> Array:
        """Return the density at some of the outputs that are no atoms."""
        places = self._dense[at]
        return np.asarray(self.at(x)[places] / self._weights[places])

    def _jumps(self, x: ArrayLike) -> NDArray[np.intp]:
        """Return after which of these outputs the density changes by a factor, once computed."""
        key = np.asarray(x, dtype=np.float64).tobytes()
        if key not in self._known_jumps:
            density = self._density(x, np.arange(len(self._dense)))
            low = np.minimum(density[1:], density[:-1])
            high = np.maximum(density[1:], density[:-1])
            self._known_jumps[key] = np.flatnonzero(high > _JUMP * low)
        return self._known_jumps[key]

    def delta(self, x: ArrayLike, other: ArrayLike, epsilon: float) -> float:
        """Return `exact_delta`."""
        epsilon = validation.between("epsilon", epsilon, 0, _MOST)
        ways = (x, other), (other, x)
        return max(float(_excess(self.at(a), self.at(b), epsilon).sum()) for a, b in ways)

    def epsilon(self, x: ArrayLike, other: ArrayLike, delta: float) -> Finding:
        """Return `exact_epsilon`."""
        delta = validation.between("delta", delta, 0, 1, low_open=True, high_open=True)
        ways = [(_least(self.at(a), self.at(b), delta), a, b) for a, b in ((x, other), (other, x))]
        (epsilon, gain), *points = max(ways, key=lambda way: way[0][0])
        near, far = (tuple(np.atleast_1d(point).tolist()) for point in points)
        return Finding(epsilon, near, far, float(self._outputs[int(np.argmax(gain))]))


def _excess(first: Array, second: Array, epsilon: float) -> Array:
    return np.asarray(np.maximum(first - np.exp(epsilon) * second, 0.0))


def _least(first: Array, second: Array, delta: float) -> tuple[float, Array]:
    """Return the least ε at which the excess is at most δ, and the excess per output there."""

    def excess(epsilon: float) -> Array:
        return _excess(first, second, epsilon)

    low, high = 0.0, 1.0
    if excess(low).sum() <= delta:
        return low, excess(low)
    while excess(high).sum() > delta and high < _MOST:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle).sum() > delta else (low, middle)
    return high, excess(high)
