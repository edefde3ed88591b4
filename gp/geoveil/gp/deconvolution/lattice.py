"""Totals of many Gaussian kernels of one bandwidth, by convolution with one even function g.

Points are spread over a lattice of h/16 by Lagrange's interpolation of order 10, in integers of
2⁻⁴³, so that their order does not matter. Fourier transforms convolve them with g, g² and the
estimated variance. The interpolation moves g by less than 10⁻¹¹ g(0), and a mean by 10⁻¹² g(0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import ceil, ldexp, prod
from typing import Any

from geoveil.gp.arrays import Array, NDArray, np
from geoveil.gp.deconvolution.base import PointEstimator
from geoveil.gp.deconvolution.kernel import KernelEstimator, reach
from geoveil.gp.deconvolution.line import ProfileEstimator
from geoveil.gp.deconvolution.totals import (
    GRID_EXPONENT,
    LARGEST,
    MOST_AT_ONCE,
    Groups,
    Integers,
    Sums,
    Totals,
    VarianceSum,
    rounder,
    sums_of_parts,
)
from geoveil.gp.estimation import Accumulator
from geoveil.gp.queries.profiles import Gaussian

ORDER = 10
"""Nodes of the interpolation in each coordinate."""
_PER_BANDWIDTH = 16
_BITS = 43
"""Weights are rounded to 2⁻⁴³, so 2¹⁸ points add less than 2⁶² at a node."""
_ROUNDER, _ROUNDER_BITS = rounder(_BITS)
_CARRIED_BITS = 20
_CARRY_AFTER = 1 << 18
_BLOCK = 1 << 12
"""Points spread at once, few enough for the cache."""
_FARTHEST = 2.0**40
"""The farthest place, in cells, for which places are precise to 2⁻¹² of a cell."""


@dataclass(frozen=True)
class DebiasedKernel:
    """A debiased Gaussian kernel on the line or in the plane, in the unit of the points."""

    bandwidth: float
    center: tuple[float, ...]
    reach: float
    """The distance beyond which g counts as 0."""
    at: Callable[[Array], Array]
    """Returns g at distances from the centre."""
    variance_at: Callable[[Array], Array]
    """Returns the estimated variance at distances from the centre."""

    @classmethod
    def of(cls, estimator: PointEstimator) -> DebiasedKernel | None:
        """Return the kernel of an estimator; None for anything else."""
        if not estimator.debias or estimator.dimension > 2:
            return None
        b = estimator.scale
        if isinstance(estimator, KernelEstimator):
            bell = estimator
            h = bell.query.bandwidth
            kernel = cls(
                h,
                bell.query.center,
                reach(b / h) * h,
                lambda r: bell.at(r / h),
                lambda r: bell.variance_at(r / h),
            )
        elif isinstance(estimator, ProfileEstimator) and isinstance(estimator.profile, Gaussian):
            profile = estimator.profile
            center = estimator.sign * estimator.offset  # the bell is even
            kernel = cls(
                profile.bandwidth,
                (center,),
                12 * profile.bandwidth,
                lambda r: profile.debiased(r, b),
                lambda r: profile.estimated_variance(r, b),
            )
        else:
            return None
        return kernel if abs(float(kernel.at(np.zeros(1))[0])) < LARGEST else None


class Lattice:
    """The nodes that cover all points in reach of kernels of one bandwidth and noise scale."""

    def __init__(self, kernels: Mapping[str, DebiasedKernel]) -> None:
        self.kernel = next(iter(kernels.values()))
        self.centers = np.array([kernel.center for kernel in kernels.values()])
        self.dimension = self.centers.shape[1]
        self.spacing = self.kernel.bandwidth / _PER_BANDWIDTH
        self.low = self.centers.min(axis=0) - self.kernel.reach - ORDER * self.spacing
        span = self.centers.max(axis=0) + self.kernel.reach + ORDER * self.spacing - self.low
        self._lengths = span / self.spacing
        self._known = float(np.abs(self.low).max()) < _FARTHEST * self.spacing

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Nodes along each coordinate, enough that no point reaches a centre around the end."""
        from scipy.fft import next_fast_len

        sizes: list[Any] = [
            next_fast_len(ceil(length) + ORDER, real=True) for length in self._lengths
        ]
        return tuple(sizes)

    @property
    def cells(self) -> int:
        """The number of nodes; 2⁶² if doubles can't distinguish them."""
        if not self._known or not (self._lengths < _FARTHEST).all():
            return 1 << 62
        return prod(self.shape)

    def places(self, points: Array) -> tuple[NDArray[np.intp], Array]:
        """Return the first node of each point's neighbours, and the place from there in cells."""
        at = np.clip((points - self.low) / self.spacing, -ORDER, np.add(self.shape, ORDER))
        first = np.floor(at) - (ORDER // 2 - 1)
        return first.astype(np.intp), at - first

    def at_nodes(self, function: Callable[[Array], Array]) -> Array:
        """Return a function of the distance at all nodes, the centre at the first."""
        ways = [np.minimum(np.arange(size), size - np.arange(size)) for size in self.shape]
        axes = [self.spacing * np.arange(size // 2 + 1) for size in self.shape]
        squares = sum(axis**2 for axis in np.meshgrid(*axes, indexing="ij", sparse=True))
        return np.ascontiguousarray(function(np.sqrt(squares))[np.ix_(*ways)])


class LatticeTotals(Totals):
    """All kernels of one bandwidth together.

    Means differ from those of `EachTotals` by less than 10⁻¹² of the greatest value of g, standard
    errors by less than 10⁻⁹ of themselves. `step` is the spacing of the grid of the points.
    """

    def __init__(
        self, kernels: Mapping[str, DebiasedKernel], lattice: Lattice, step: float
    ) -> None:
        super().__init__(tuple(kernels), step)
        self._lattice = lattice
        self._spread: dict[int, _Spread] = {}

    def add(self, points: Integers, groups: Groups) -> None:
        assert len(points) <= MOST_AT_ONCE
        for group, part in groups:
            if group not in self._spread:
                self._spread[group] = _Spread(self._lattice)
            self._spread[group].add(points[part].astype(np.float64) * self._step)

    def of(self, group: int) -> Iterator[Sums]:
        spread = self._spread.get(group)
        if spread is None:
            yield from (Sums(Accumulator(), VarianceSum(0, 0.0)) for _ in self.labels)
            return
        for value, square, variance in zip(*spread.at_centers(), strict=True):
            values = sums_of_parts(
                spread.n,
                round(ldexp(value, -GRID_EXPONENT)),
                round(ldexp(square, -2 * GRID_EXPONENT)),
            )
            yield Sums(values, VarianceSum(spread.n, variance))


class _Spread:
    """Points, spread over a lattice."""

    def __init__(self, lattice: Lattice) -> None:
        self.n = 0
        self._lattice = lattice
        self._carried = np.zeros(prod(lattice.shape), np.int64)
        """In units of 2⁻²³."""
        self._nodes = np.zeros(prod(lattice.shape), np.int64)
        self._since_carry = 0

    def add(self, points: Array) -> None:
        """Spread points (n, k), in their unit, at most 131,072."""
        self.n += len(points)
        if self._since_carry + len(points) > _CARRY_AFTER:
            self._carry()
        self._since_carry += len(points)
        for start in range(0, len(points), _BLOCK):
            self._add(points[start : start + _BLOCK])

    def at_centers(self) -> list[list[float]]:
        """Return the sums of g, of g² and of the estimated variance around each centre."""
        from scipy.fft import irfftn, rfftn

        self._carry()
        lattice = self._lattice
        mass = np.ldexp(self._carried.astype(np.float64), _CARRIED_BITS)
        mass += self._nodes
        spectrum: Any = rfftn(np.ldexp(mass, -_BITS).reshape(lattice.shape), overwrite_x=True)
        del mass
        first, place = lattice.places(lattice.centers)
        weights = [_weights(of_axis) for of_axis in place.T]
        totals = []
        g = lattice.at_nodes(lattice.kernel.at)
        for kernel in (g, g * g, lattice.at_nodes(lattice.kernel.variance_at)):
            of_kernel: Any = rfftn(kernel)
            field: Any = irfftn(spectrum * of_kernel, s=lattice.shape, overwrite_x=True)
            total = np.zeros(len(first))
            for offsets in product(range(ORDER), repeat=len(weights)):
                node = tuple(first[:, axis] + offset for axis, offset in enumerate(offsets))
                weight = prod(of_axis[i] for of_axis, i in zip(weights, offsets, strict=True))
                total += weight * field[node]
            totals.append(total.tolist())
        return totals

    def _add(self, points: Array) -> None:
        shape = self._lattice.shape
        first, place = self._lattice.places(points)
        # What is beyond the lattice is beyond the reach of every kernel.
        within = ((first >= 0) & (first + ORDER <= shape)).all(axis=1)
        if not within.all():
            first, place = first[within], place[within]
        if not len(first):
            return
        weights = [_weights(of_axis) for of_axis in place.T]
        node = first[:, -1] + np.arange(ORDER)[:, None]
        rows: list[tuple[int, Array | float]] = [(0, 1.0)]
        if len(shape) == 2:
            node += first[:, 0] * shape[1]
            rows = [(i * shape[1], weights[0][i]) for i in range(ORDER)]
        for offset, weight in rows:
            spread = weights[-1] * weight
            spread += _ROUNDER
            integers = spread.view(np.int64)
            integers -= _ROUNDER_BITS
            np.add.at(self._nodes, (node + offset).ravel(), integers.ravel())

    def _carry(self) -> None:
        self._carried += self._nodes >> _CARRIED_BITS
        self._nodes &= (1 << _CARRIED_BITS) - 1
        self._since_carry = 0


def _weights(place: Array) -> Array:
    """Return Lagrange's weights of the nodes 0 … 9 at places between 4 and 5: (10, n)."""
    left = np.ones((ORDER, len(place)))
    right = np.ones((ORDER, len(place)))
    for node in range(1, ORDER):
        left[node] = left[node - 1] * (place - (node - 1))
        right[-1 - node] = right[-node] * (place - (ORDER - node))
    left *= right
    nodes = np.arange(ORDER)
    scale = [
        prod(node - other for other in nodes.tolist() if other != node) for node in nodes.tolist()
    ]
    left /= np.array(scale, np.float64)[:, None]
    return left
