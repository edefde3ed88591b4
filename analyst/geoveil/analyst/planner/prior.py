"""What is publicly known of people before they are asked: where their points are expected to lie.

Every prior is a law of points x in R^k, and gives the expectation of a function as a weighted sum
over nodes. Atoms are nodes themselves, so that heaps, such as incomes reported in round numbers,
are kept; continuous parts are integrated by Gauss-Legendre quadrature between breaks.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import validation
from geoveil.gp.errors import ParameterError
from geoveil.gp.mechanisms.channel_prior import DistancePrior
from geoveil.gp.queries.base import Query

Array = NDArray[np.float64]

_ROUNDING = 1e-9
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)


class Prior(ABC):
    """A public law of points: never the people who are to report."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """k, number of coordinates of a point."""

    @property
    @abstractmethod
    def size(self) -> float:
        """How many independent people it is worth; ∞ for a law that is taken as exact.

        What a prior says of a share is itself uncertain, like the share of a sample of this size.
        """

    @property
    def continuous(self) -> bool:
        """Whether the nodes depend on `breaks`, as those of a density on the line do."""
        return True

    @abstractmethod
    def nodes(self, breaks: Sequence[float] = ()) -> tuple[Array, Array]:
        """Return points, (m,) or (m, k), and weights, (m,), with sum 1.

        Args:
            breaks: numbers between which a function to be integrated is smooth, in the unit of the
                points; used by continuous priors in one dimension.
        """

    def expectation(
        self, function: Callable[[Array], NDArray[Any]], breaks: Sequence[float] = ()
    ) -> float:
        """Return E[function(x)], exact for atoms and by quadrature for what is continuous.

        Args:
            function: vectorised over points.
            breaks: see `nodes`.
        """
        points, weights = self.nodes(breaks)
        # Not a matrix product: starting threads takes longer than adding.
        return float(np.sum(weights * function(points)))

    def of_signed_distance(self, query: Query, breaks: Sequence[float] = ()) -> DistancePrior:
        """Return the prior of the distance s(x) of a query."""
        points, weights = self.nodes(breaks)
        return DistancePrior.of_points(query, points, weights.tolist())


@dataclass(frozen=True, eq=False)
class SamplePrior(Prior):
    """A weighted sample: an earlier survey, public points, synthetic people.

    Repeated points become one atom of their joint weight.

    Args:
        values: numbers (n,), or points (n, k).
        weights: (n,), ≥ 0 and not all 0: how many people a row stands for; equal by default.
        size: see `Prior.size`. By default (Σw)²/Σw², as if each row were one person who was asked;
            where weights count people who were all asked, it is their sum.

    Raises:
        ParameterError: if a number is not finite, a weight negative, or the shapes do not fit.

    Example:
        >>> survey = SamplePrior([20_000, 100_000, 100_000, 45_500])
        >>> survey.expectation(lambda income: income >= 100_000)
        0.5
        >>> survey.size
        4.0
    """

    values: Array
    weights: Array
    _size: float

    def __init__(
        self, values: ArrayLike, weights: ArrayLike | None = None, size: float | None = None
    ) -> None:
        points = validation.float_array(values)
        if points is None or points.ndim not in (1, 2) or points.size == 0:
            raise ParameterError("values", "something else", "numbers (n,) or (n, k), n >= 1")
        if not (np.abs(points) <= validation.FARTHEST).all():
            raise ParameterError("values", "some", f"finite, up to {validation.FARTHEST:g}")
        given = np.ones(len(points)) if weights is None else weights
        shares = checked_counts("weights", given, (len(points),))
        if points.ndim == 2 and points.shape[1] == 1:
            points = points[:, 0]
        distinct, index = np.unique(points, axis=0, return_inverse=True)
        mass = np.bincount(index.ravel(), shares, minlength=len(distinct)) / shares.sum()
        object.__setattr__(self, "values", distinct)
        object.__setattr__(self, "weights", mass)
        # The effective size of a weighted sample (Kish): that of an equally weighted one whose
        # means vary as much.
        effective = float(shares.sum() ** 2 / np.square(shares).sum()) if size is None else size
        if validation.non_negative("size", effective) < 1 - _ROUNDING:
            raise ParameterError("size", size, "a number >= 1 (infinity is permitted)")
        object.__setattr__(self, "_size", effective)

    @property
    def dimension(self) -> int:
        """See `Prior.dimension`."""
        return 1 if self.values.ndim == 1 else int(self.values.shape[1])

    @property
    def size(self) -> float:
        """See `Prior.size`."""
        return self._size

    @property
    def continuous(self) -> bool:
        """See `Prior.continuous`: a sample has no density."""
        return False

    def nodes(self, breaks: Sequence[float] = ()) -> tuple[Array, Array]:
        """See `Prior.nodes`: the distinct points."""
        return self.values, self.weights

    def __repr__(self) -> str:
        return f"SamplePrior({len(self.values)} distinct points, size={self.size:.6g})"


def checked_counts(name: str, counts: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return numbers ≥ 0, not all 0, of the given shape."""
    array = validation.float_array(counts)
    if array is None or array.shape != shape:
        raise ParameterError(name, counts, f"numbers of shape {shape}")
    if not (np.isfinite(array).all() and (array >= 0).all() and array.sum() > 0):
        raise ParameterError(name, "some", "finite numbers >= 0, not all 0")
    return array


def gauss_cells(edges: Array) -> tuple[Array, Array]:
    """Return nodes and weights of Gauss-Legendre quadrature on each cell, (cells, 4) each.

    The weights of a cell add up to its length.
    """
    half = np.diff(edges)[:, None] / 2
    return edges[:-1, None] + half * (1 + _NODES), half * _WEIGHTS
