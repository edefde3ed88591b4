"""Smooth bounds certified from cells, without a closed form [SGP Lemma 4.8; MATH §2.2].

With M_j an upper bound of L_Λ on cell j, B(u) = max_j M_j/g(β·dist(u, cell j)) is at least L_Λ and
smooth, as every term is: a distance is 1-Lipschitz and g(s+t) ≤ g(s)g(t). All rounding is upwards.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import ClassVar

from flint import arb

from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.arrays import Array, NDArray, distinct, np
from geoveil.gp.exact import working_precision
from geoveil.gp.smooth.growth import EXPONENTIAL, LINEAR

_BLOCK = 8
_ROUNDS = 64
_STRAIGHT = 1e-12
"""Rounds in search of bends, and how far a line may be off one, relative to its value."""
_LOG_BITS = 256
"""Bits of a logarithm: enough for every device to find the same doubles, in any arithmetic."""


class CertifiedBound(ABC):
    """B as a function of u, computed once and evaluated at many points.

    `steepest` are upper bounds of L_Λ on the cells, (m,), between the edges from `chords.reached`;
    β > 0 is in 1/(unit of u).
    """

    tightness: ClassVar[float]
    """Largest ratio of the slopes at the two ends of a cell, if there is a choice."""
    negligible: ClassVar[float]
    """Slopes below this fraction of the largest count only very far out."""
    everywhere: ClassVar[bool]
    """Whether the cells must cover the line, including where φ is constant."""

    def __init__(self, edges: Array, steepest: Array, beta: float) -> None:
        self.edges, self.steepest, self.beta = edges, steepest, beta
        self._prepare()

    @abstractmethod
    def _prepare(self) -> None:
        """Find B at the edges."""

    @abstractmethod
    def __call__(self, u: Real, ops: Arithmetic = FLOAT) -> Real:
        """Return B(u)."""

    @property
    @abstractmethod
    def least(self) -> tuple[Array, Array]:
        """Edges of cells, (n + 1,), and lower bounds of B on them, (n,), in doubles."""


class ExponentialBound(CertifiedBound):
    """g(t) = e^t: on cell i, B(u) = max(M_i, B_i e^{−β(u−u_i)}, B_{i+1} e^{−β(u_{i+1}−u)}).

    Kept as logarithms, so that nothing underflows: a bound of 0 would be no noise.
    """

    everywhere = False
    tightness = 1.0005
    negligible = 1e-20

    def _prepare(self) -> None:
        # The cells −1 and n lie beyond the ends, where φ is constant.
        logs = np.frombuffer(_logs_up(self.steepest.tobytes()))
        inside = np.concatenate([[-math.inf], logs, [-math.inf]])
        node = np.maximum(inside[:-1], inside[1:]).tolist()
        fall = np.nextafter(self.beta * np.diff(self.edges) * (1 - 1e-15), 0).tolist()
        node = _fallen(_fallen(node, fall)[::-1], fall[::-1])[::-1]
        self._node, self._cells = np.array(node), inside

    def __call__(self, u: Real, ops: Arithmetic = FLOAT) -> Real:
        return self._floats(np.asarray(u)) if ops.rounded else self._ball(u, ops)

    @property
    def least(self) -> tuple[Array, Array]:
        # Where it falls from both ends it is least where the two meet.
        meet = (self._node[:-1] + self._node[1:] - self.beta * np.diff(self.edges)) / 2
        return self.edges, np.exp(np.maximum(self._cells[1:-1], meet))

    def _floats(self, u: Array) -> Array:
        index = np.searchsorted(self.edges, u, side="right")
        low, high = np.maximum(index - 1, 0), np.minimum(index, len(self.edges) - 1)
        from_left = self._node[low] - self.beta * np.abs(u - self.edges[low])
        from_right = self._node[high] - self.beta * np.abs(self.edges[high] - u)
        return np.asarray(np.exp(np.maximum(self._cells[index], np.maximum(from_left, from_right))))

    def _ball(self, u: Real, ops: Arithmetic) -> Real:
        """Return the union over the cells that the ball meets."""
        first = int(np.searchsorted(self.edges, float(u.lower()), side="left"))
        last = int(np.searchsorted(self.edges, float(u.upper()), side="right"))
        result = None
        # One cell more on either side than the rounded ends say: B is continuous, so that an
        # edge needs no care.
        for index in range(max(first - 1, 0), min(last + 1, len(self.edges)) + 1):
            low, high = max(index - 1, 0), min(index, len(self.edges) - 1)
            if (index > 0 and u < ops.constant(float(self.edges[low]))) or (
                index < len(self.edges) and u > ops.constant(float(self.edges[high]))
            ):
                continue
            value = self._on_cell(u, index, low, high, ops)
            result = value if result is None else result.union(value)
        return ops.exp(result)

    def _on_cell(self, u: Real, index: int, low: int, high: int, ops: Arithmetic) -> Real:
        beta = ops.constant(self.beta)
        from_left, from_right = (
            ops.constant(float(self._node[i]))
            - beta * ops.absolute(u - ops.constant(float(self.edges[i])))
            for i in (low, high)
        )
        best = ops.maximum(from_left, from_right)
        inside = float(self._cells[index])
        return best if inside == -math.inf else ops.maximum(best, ops.constant(inside))


@lru_cache(maxsize=64)
def _logs_up(numbers: bytes) -> bytes:
    """Return doubles that are at least the logarithms of numbers ≥ 0."""
    with working_precision(_LOG_BITS):
        logs = [arb(x).log().upper() if x else None for x in np.frombuffer(numbers).tolist()]
    # Conversion rounds to the nearest double.
    rounded = [-math.inf if x is None else math.nextafter(float(x), math.inf) for x in logs]
    return np.array(rounded).tobytes()


def _fallen(node: list[float], fall: list[float]) -> list[float]:
    """Return numbers raised so that none is below the one before minus its fall, rounded up."""
    kept, before = node[:1], node[0]
    for own, by in zip(node[1:], fall, strict=True):
        if before > own:  # otherwise it is not larger after its fall
            own = max(own, min(math.nextafter(before - by, math.inf), before))
        kept.append(own)
        before = own
    return kept


class LinearBound(CertifiedBound):
    """g(t) = 1 + t: B is the largest term M_j/(1 + β·dist(u, cell j)).

    1/B is the least of lines on a cell, so concave, with bends where two terms are equal. Doubles
    interpolate between bends, balls evaluate the largest terms.
    """

    everywhere = True
    tightness = 1.005  # the work is quadratic in the number of cells
    negligible = 1e-4

    def _prepare(self) -> None:
        at, best, winner = self.edges, *self._largest(self.edges)
        for _ in range(_ROUNDS):
            added = self._bends(at, 1 / best, winner)
            if not len(added):
                break
            more, more_winners = self._largest(added)
            order = np.argsort(np.concatenate([at, added]), kind="stable")
            at = np.concatenate([at, added])[order]
            best = np.concatenate([best, more])[order]
            winner = np.concatenate([winner, more_winners])[order]
        # A bend that was missed leaves v too small, and B too large.
        self._at, self._inverse = at, 1 / best

    def _largest(self, at: Array) -> tuple[Array, NDArray[np.intp]]:
        """Return the largest term at each point, and its cell."""
        low, high = self.edges[:-1], self.edges[1:]
        best, winner = np.empty(len(at)), np.empty(len(at), np.intp)
        for start in range(0, len(at), _BLOCK):
            u = at[start : start + _BLOCK, None]
            growth = np.maximum(low - u, u - high)  # of the distance, in place
            np.maximum(growth, 0, out=growth)
            growth *= self.beta
            growth += 1
            terms = np.divide(self.steepest, growth, out=growth)
            largest = terms.argmax(axis=1)
            winner[start : start + _BLOCK] = largest
            best[start : start + _BLOCK] = terms[np.arange(len(largest)), largest]
        return best, winner

    def _bends(self, at: Array, v: Array, winner: NDArray[np.intp]) -> Array:
        """Return the intersection of the lines that are least at the two ends of an interval."""
        low, high = self.edges[:-1], self.edges[1:]
        first, last = at[:-1], at[1:]
        length = last - first

        def slope(cell: NDArray[np.intp]) -> Array:
            side = (high[cell] <= first).astype(float) - (low[cell] >= last)
            return np.asarray(side * self.beta / self.steepest[cell])

        start, end = slope(winner[:-1]), slope(winner[1:])
        bent = v[:-1] + start * length > v[1:] * (1 + _STRAIGHT)
        bent &= v[1:] - end * length > v[:-1] * (1 + _STRAIGHT)
        bent &= start > end
        run = (v[1:] - v[:-1] - end * length)[bent] / (start - end)[bent]
        bends = first[bent] + run
        return bends[(bends > first[bent]) & (bends < last[bent])]

    @property
    def least(self) -> tuple[Array, Array]:
        return self._at, 1 / np.maximum(self._inverse[:-1], self._inverse[1:])

    def __call__(self, u: Real, ops: Arithmetic = FLOAT) -> Real:
        if ops.rounded:
            return np.asarray((1 + 1e-12) / np.interp(u, self._at, self._inverse))
        return self._ball(u, ops)

    def _ball(self, u: Real, ops: Arithmetic) -> Real:
        """Return the largest of the terms that may be largest somewhere on the ball."""
        low, high = self.edges[:-1], self.edges[1:]
        at = float(u.mid())
        spread = float(u.rad()) + math.ulp(at)
        distance = np.maximum(np.maximum(low - at, at - high), 0)
        terms = self.steepest / (1 + self.beta * distance)
        # All terms that may be the largest somewhere on the ball, rounding included.
        rivals = terms >= terms.max() * (1 - 1e-9 - 4 * self.beta * spread)
        result = None
        for i in np.flatnonzero(rivals):
            first, last = (ops.constant(float(edges[i])) for edges in (low, high))
            away = ops.maximum(ops.maximum(first - u, u - last), ops.constant(0))
            term = ops.constant(float(self.steepest[i])) / (1 + ops.constant(self.beta) * away)
            result = term if result is None else ops.maximum(result, term)
        return result


BOUNDS: Mapping[str, type[CertifiedBound]] = MappingProxyType(
    {EXPONENTIAL: ExponentialBound, LINEAR: LinearBound}
)
"""Name of a growth function → its certified bound."""


_LEAST = 1e-300
"""Least slope, relative to the largest; smaller ones count as this, never as 0."""
_ROUND_UP = 1 + 1e-12
"""Factor above the rounding of a slope in float64."""
_FARTHEST = 1e95
"""A distance greater than any in a campaign."""


def tabulate(
    slope: Callable[[Array], Array],
    breakpoints: tuple[float, ...],
    scale: float,
    *,
    tightness: float,
    negligible: float,
) -> tuple[Array, Array]:
    """Return edges (m + 1,) from 0 outwards and upper bounds of the slope between them, (m,).

    A cell without the peak inside has its largest slope at an end: the peak of L is among the
    breakpoints, near which it varies over `scale`. Cells are cut until the slopes at both ends have
    at most the ratio `tightness`, or are below `negligible` of the largest.
    """
    offsets = scale * np.concatenate([np.geomspace(1e-6, 16, 60), [0.0]])
    near = (np.asarray(breakpoints)[:, None] + np.concatenate([-offsets, offsets])).ravel()
    last = float(near.max())
    far = [last * 1.02 ** np.arange(1, 700), last * 1e6 * 2.0 ** np.arange(480)]
    edges = distinct(np.concatenate([[0.0], near, *far]))
    edges = edges[(edges >= 0) & (edges <= _FARTHEST)]
    values = slope(edges)
    floor = _LEAST * float(values.max())
    for _ in range(12):
        values = np.maximum(values, floor)
        low, high = np.sort([values[:-1], values[1:]], axis=0)
        steep = (
            (high > tightness * low) & (high > negligible * values.max()) & (edges[1:] < 1e4 * last)
        )
        if not steep.any():
            break
        middle = (edges[:-1] + edges[1:])[steep] / 2
        order = np.argsort(np.concatenate([edges, middle]), kind="stable")
        edges = np.concatenate([edges, middle])[order]
        values = np.concatenate([values, slope(middle)])[order]
    values = np.maximum(values, floor) * _ROUND_UP
    return edges, np.maximum(values[:-1], values[1:])
