"""An interior-point method for channels, which knows how their programme is made [MATH §8].

Over outputs y_1 … y_n the programme of `linear_program` is

    minimise Σ c·P   subject to   A P = b,   G P ≥ 0,

where A P are the sums and the means of the rows, and G P the two slacks of each ratio, r P_j+1 −
P_j and r P_j − P_j+1. The primal-dual method of Mehrotra (1992) needs per step one solution of A
H⁻¹ Aᵗ λ = …, H = Gᵗ diag(z/s) G. Of one output H is tridiagonal, so that this costs n inverses of
such matrices, by recurrences over all outputs at once, and one factorisation of 2M rows. A solver
that sees a sparse matrix of n(3M − 4) conditions takes four to eight times as long.

**Rounding.** What decides whether the last digits come out is done without cancellation. The pivots
of H are sums of positive terms. Rows next to each other are nearly alike, so the conditions are
those of the first row and of differences, and entries of A H⁻¹ Aᵗ are those of differences from the
start. Where r is all but 1, two rows differ by less than the rounding of either. A slack there is
that difference and (r − 1) P, so differences are numbers of their own, from the elimination on. The
step of P solves with the factors of H, not with its inverse, which is not accurate where it is
stiff. Matrices are multiplied in tiles, for which no BLAS starts threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from geoveil.gp.arrays import Array, NDArray, np

_ENOUGH, _GOOD = 1e-10, 1e-4
"""Relative gap and residuals at which the method ends, and with which its best point will do: what
a device draws from is checked, and a bound certified, whatever comes out."""
_EXACT = 10.0
"""Times that what a row lacks counts: a table is checked more closely than its cost."""
_NO_COST = 1e-6
"""Part of the greatest costs below which a gap counts in relation to this."""
_STEPS = 80
_WORSE = 100.0
"""Times the best, at which rounding has taken over."""
_TO_BOUNDARY = 0.995
_SHIFT = 3e-15
"""Part of the diagonal that is added to it, where conditions depend on each other; what that takes
from a step is given back by corrections, so many at most and until rows lack no more than:"""
_CORRECTIONS, _CORRECT = 3, 1e-14
_TILE = 48
_NO_FALL = -1e-200
"""Change that leaves all the room there is, for numbers that do not fall."""


class Optimum(NamedTuple):
    """A point that is optimal, nearly always to `_ENOUGH`, with its dual."""

    table: Array
    """P, (n, M): a row for each output; every ratio has some room left, but for rounding."""
    alpha: Array
    """Dual variables of the sums, (M,)."""
    beta: Array
    """Dual variables of the means, (M,)."""
    cost: float


def least_cost(costs: Array, ratios: Array, places: Array, means: Array) -> Optimum | None:
    """Return the channel of least cost over some outputs; None if none was found.

    Args:
        costs: of one unit of probability, (n, M).
        ratios: r_j > 1, (M − 1,).
        places: the outputs, (n,), about in [−1, 1].
        means: of the rows, (M,).
    """
    n, m = costs.shape
    wanted = np.concatenate([_differences(np.ones(m)), _differences(means)])
    unit = float(costs.max(axis=0).sum()) or 1.0
    programme = _Programme(costs / unit, ratios, places, wanted)
    table = np.full((2, n, m), 1 / n)
    table[1, :, 1:] = 0.0
    slack = _slacks(table, ratios)
    price = max(programme.cost(table), _NO_COST) / slack.size / slack
    point = found = _Point(table, np.zeros(2 * m), slack, price)
    best = np.inf
    for _ in range(_STEPS):
        off = programme.off(point)
        if off < best:
            best, found = off, point
        if best < _ENOUGH or (best < _GOOD and off > _WORSE * best):
            break
        try:
            with np.errstate(over="raise", divide="raise", invalid="raise"):
                point = programme.moved(point)
        except (np.linalg.LinAlgError, FloatingPointError):
            break  # so near the boundary that rounding has taken over, or without bound
    if not best < _GOOD:
        return None
    alpha, beta = (unit * _summed(part) for part in found.dual.reshape(2, m))
    return Optimum(found.table[0], alpha, beta, unit * programme.cost(found.table))


class _Point(NamedTuple):
    """P with its differences (2, n, M), λ (2M,), slacks s and their prices z (2, n, M − 1), > 0."""

    table: Array
    dual: Array
    slack: Array
    price: Array


@dataclass(frozen=True, slots=True)
class _Programme:
    """See the module and `least_cost`; costs are in units of what the rows cost at most."""

    costs: Array
    ratios: Array
    places: Array
    wanted: Array
    """b, (2M,)."""

    def cost(self, table: Array) -> float:
        """Return c·P."""
        return float((self.costs * table[0]).sum())

    def off(self, point: _Point) -> float:
        """Return how far a point is from the optimum: relative gap, or what conditions lack."""
        short = self.wanted - self._conditions(point.table)
        rows = float(np.abs(np.cumsum(short.reshape(2, -1), axis=1)).max())
        gap = float((point.slack * point.price).sum())
        unpriced = float(np.abs(self._unpriced(point)).max())
        return max(gap / max(self.cost(point.table), _NO_COST), _EXACT * rows, unpriced)

    def moved(self, point: _Point) -> _Point:
        """Return the point after a step: first towards the boundary, then between it and s·z = μ.

        Raises:
            numpy.linalg.LinAlgError: if rounding has made a matrix of no use.
        """
        table, dual, slack, price = point
        short, unpriced = self.wanted - self._conditions(table), self._unpriced(point)
        ratio = price / slack
        chain = _Chain(ratio, self.ratios)
        powers = np.stack([np.ones_like(self.places), self.places, self.places**2])
        middle = _Positive(_blocks(*chain.moments_of_inverse(powers)))

        def step(target: Array, corrections: int) -> _Point:
            """Return the changes by which z grows by the target, but for ratio times that of s."""
            force = unpriced - _slacks_transposed(target, self.ratios)
            change = middle.solve(short + self._conditions(chain.solve(force)))
            moved = chain.solve(self._priced(change) - force)
            for _ in range(corrections):
                lacking = short - self._conditions(moved)
                if np.abs(lacking).max() < _CORRECT:
                    break
                more = middle.solve(lacking)
                change = change + more
                moved = moved + chain.solve(self._priced(more))
            of_slack = _slacks(moved, self.ratios)
            return _Point(moved, change, of_slack, target - ratio * of_slack)

        gap = float((slack * price).sum())
        _, _, ds, dz = step(-price, 0)
        a, b = _longest(slack, ds, 1.0), _longest(price, dz, 1.0)
        left = float(((slack + a * ds) * (price + b * dz)).sum()) / gap
        by = step((left**3 * gap / slack.size - ds * dz) / slack - price, _CORRECTIONS)
        a, b = _longest(slack, by.slack, _TO_BOUNDARY), _longest(price, by.price, _TO_BOUNDARY)
        return _Point(
            table + a * by.table, dual + b * by.dual, slack + a * by.slack, price + b * by.price
        )

    def _conditions(self, table: Array) -> Array:
        """Return A P: sums and means, of the first row and of differences."""
        return np.concatenate([table[1].sum(axis=0), self.places @ table[1]])

    def _priced(self, dual: Array) -> Array:
        """Return Aᵗ λ, (n, M)."""
        of_sums, of_means = dual.reshape(2, -1)
        return _summed(of_sums) + self.places[:, None] * _summed(of_means)

    def _unpriced(self, point: _Point) -> Array:
        """Return c − Aᵗ λ − Gᵗ z, (n, M)."""
        by_ratios = _slacks_transposed(point.price, self.ratios)
        return self.costs - self._priced(point.dual) - by_ratios


def _differences(rows: Array) -> Array:
    """Return the first of M numbers, and how much each exceeds the one before."""
    return np.concatenate([rows[:1], np.diff(rows)])


def _summed(dual: Array) -> Array:
    """Return what a dual of differences is to the rows: the transpose of `_differences`."""
    of_rows = dual.copy()
    of_rows[:-1] -= dual[1:]
    return of_rows


def _slacks(table: Array, ratios: Array) -> Array:
    """Return r P_j+1 − P_j and r P_j − P_j+1, (2, n, M − 1)."""
    rows, by = table[0], table[1, :, 1:]
    return np.stack([(ratios - 1) * rows[:, 1:] + by, (ratios - 1) * rows[:, :-1] - by])


def _slacks_transposed(price: Array, ratios: Array) -> Array:
    """Return Gᵗ z, (n, M)."""
    found = np.zeros((price.shape[1], price.shape[2] + 1))
    found[:, 1:] += ratios * price[0] - price[1]
    found[:, :-1] += ratios * price[1] - price[0]
    return found


def _blocks(ones: Array, firsts: Array, seconds: Array) -> Array:
    """Return the matrix of A H⁻¹ Aᵗ, of sums and of means."""
    m = len(ones)
    found = np.empty((2 * m, 2 * m))
    found[:m, :m], found[:m, m:], found[m:, :m], found[m:, m:] = ones, firsts, firsts, seconds
    return found


@lru_cache(maxsize=8)
def _below_diagonal(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the places of a matrix below its diagonal."""
    return np.tril_indices(size, -1)


def _longest(point: Array, change: Array, part: float) -> float:
    """Return such a part of the longest step for which all stays ≥ 0; at most 1."""
    return min(1.0, -part * float((point / np.minimum(change, _NO_FALL)).max()))


class _Chain:
    """H = Gᵗ diag(w) G for all outputs at once: tridiagonal, as L D Lᵗ.

    Args:
        weights: w > 0, (2, n, M − 1), as slacks are.
        ratios: r_j > 1, (M − 1,).
    """

    def __init__(self, weights: Array, ratios: Array) -> None:
        (above, below), r = weights.transpose(0, 2, 1), ratios[:, None]
        own, next_own = above + r**2 * below, r**2 * above + below
        both = above * below * ((r - 1) * (r + 1)) ** 2
        m, n = len(ratios) + 1, weights.shape[1]
        self.pivots, carried = np.empty((m, n)), np.zeros((m, n))
        for j, (kept, passed) in enumerate(zip(own, next_own, strict=True)):
            pivot = self.pivots[j] = kept + carried[j]
            carried[j + 1] = (both[j] + passed * carried[j]) / pivot
        self.pivots[-1] = carried[-1]
        self.factors = r * (above + below) / self.pivots[:-1]
        """−L, below the diagonal."""
        self.rest = (carried[:-1] - (r - 1) * (above - r * below)) / self.pivots[:-1]
        """1 − `factors`."""

    def solve(self, right: Array) -> Array:
        """Return H⁻¹ v and its differences, (2, n, M)."""
        x = right.T.copy()
        rows, factors = list(x), list(self.factors)
        _carry(rows, factors)
        x /= self.pivots
        before = x.copy()
        _carry(rows[::-1], factors[::-1])
        differences = np.empty_like(x)
        differences[0] = x[0]
        differences[1:] = self.rest * x[1:] - before[:-1]
        return np.stack([x.T, differences.T])

    def moments_of_inverse(self, powers: Array) -> Array:
        """Return Σ_y p_y T H_y⁻¹ Tᵗ for each row p of powers, (k, M, M).

        T takes `_differences`. Of Z = H⁻¹ the row j is `factors` times the row j + 1, beyond its
        diagonal.
        """
        m, n = self.pivots.shape
        own, factors, rest = 1 / self.pivots, self.factors, self.rest
        diagonal = own.copy()  # Z_jj
        _carry(list(diagonal[::-1]), list(np.square(factors[::-1])))
        across = np.empty((m, n))  # Z_j,k − Z_j,k−1, for k > j; j goes down
        across[1:] = factors * rest * diagonal[1:] - own[:-1]
        found = np.empty((len(powers), m, m))
        found[:, 0, 0] = powers @ diagonal[0]
        inner = np.arange(1, m)
        found[:, inner, inner] = powers @ (rest**2 * diagonal[1:] + own[:-1]).T
        weighted = powers * rest[:, None]
        for j in range(m - 2, 0, -1):
            beyond = across[j + 1 :]
            found[:, j, j + 1 :] = weighted[j - 1] @ beyond.T
            beyond *= factors[j - 1]
        found[:, 0, 1:] = powers @ across[1:].T
        low = _below_diagonal(m)
        found[:, *low] = found[:, *low[::-1]]
        return found


def _carry(rows: list[Array], factors: list[Array]) -> None:
    """Add to each row, from the second on, the one before times its factor."""
    last = rows[0]
    for row, factor in zip(rows[1:], factors, strict=True):
        row += factor * last
        last = row


class _Positive:
    """The factors of a positive definite matrix, scaled to a diagonal of 1 + `_SHIFT`.

    They are found, and the lower one is inverted, in tiles.
    """

    def __init__(self, matrix: Array) -> None:
        size = len(matrix)
        self._scale = 1 / np.sqrt(np.diag(matrix))
        count = -(-size // _TILE)
        tile = -(-size // count)
        full = np.eye(count * tile)
        full[:size, :size] = matrix * self._scale[:, None] * self._scale
        full.flat[: size * (len(full) + 1) : len(full) + 1] += _SHIFT
        shape = (count, tile, count, tile)
        tiles = full.reshape(shape).swapaxes(1, 2).copy()
        inverse = np.zeros(shape)
        for k in range(count):
            own = np.linalg.inv(np.linalg.cholesky(tiles[k, k]))
            tiles[k + 1 :, k] = tiles[k + 1 :, k] @ own.T
            for i in range(k + 1, count):
                tiles[i, k + 1 :] -= tiles[i, k] @ tiles[k + 1 :, k].swapaxes(1, 2)
            inverse[k, :, k] = own
            for j in range(k):
                lower = sum(tiles[k, i] @ inverse[i, :, j] for i in range(j, k))
                inverse[k, :, j] = -own @ lower
        self._inverse = inverse.reshape(full.shape)[:size, :size].copy()
        self._transposed = self._inverse.T.copy()

    def solve(self, right: Array) -> Array:
        """Return the inverse times a vector."""
        x = np.einsum("ij,j->i", self._inverse, self._scale * right)
        return np.asarray(self._scale * np.einsum("ij,j->i", self._transposed, x))
