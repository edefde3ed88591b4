"""Public knowledge about people before they answer: a law of their points.

Every prior is a law of points x in R^k, and gives the expectation of a function as a weighted sum
over nodes. Atoms are nodes themselves, so that heaps, such as incomes reported in round numbers,
are kept; continuous parts are integrated by Gauss-Legendre quadrature between breaks.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.analyst.hard_question import Heap
from geoveil.gp import Array, LogScale, ParameterError, distinct, validation

_ROUNDING = 1e-9
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)
_FARTHEST_Z = 8.5
"""Standard deviations beyond which a normal law is cut off: 1e-17 of it is left out."""
_STEP_Z = 0.25


class Prior(ABC):
    """A public law of points, never made from the people who will report."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """k, number of coordinates of a point."""

    @property
    @abstractmethod
    def size(self) -> float:
        """The effective number of independent people; ∞ for a law that is treated as exact.

        A prior's share is itself uncertain, like the share of a sample of this size.
        """

    @property
    def continuous(self) -> bool:
        """Whether the nodes depend on `breaks`, as those of a density on the line do."""
        return True

    @property
    def scenarios(self) -> Mapping[str, "Prior"]:
        """Alternative laws of people, by name; none by default."""
        return MappingProxyType({})

    @property
    def again(self) -> tuple["Prior", ...]:
        """Weights of the same nodes for redrawn data.

        They show how certain the prior is of a share; without them, `size` does.
        """
        return ()

    def scaled(self, factor: float) -> "Prior":
        """Return the law of a multiple of the values, in one dimension.

        Args:
            factor: > 0.
        """
        return _ScaledPrior(self, validation.positive("factor", factor))

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
        """Return E[function(x)], exact for atoms and by quadrature for continuous parts.

        Args:
            function: vectorised over points.
            breaks: see `nodes`.
        """
        points, weights = self.nodes(breaks)
        # Not a matrix product: starting threads takes longer than adding.
        return float(np.sum(weights * function(points)))


@dataclass(frozen=True, eq=False)
class SamplePrior(Prior):
    """A weighted sample: an earlier survey, public points, synthetic people.

    Repeated points become one atom of their joint weight.

    Args:
        values: numbers (n,), or points (n, k).
        weights: (n,), ≥ 0 and not all 0: how many people a row stands for; equal by default.
        size: see `Prior.size`. By default (Σw)²/Σw², as if each row were one interviewed person;
            if weights count interviewed people, use their sum.

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
    def continuous(self) -> bool:
        return False  # a sample has no density

    @property
    def dimension(self) -> int:
        return 1 if self.values.ndim == 1 else int(self.values.shape[1])

    @property
    def size(self) -> float:
        return self._size

    def nodes(self, breaks: Sequence[float] = ()) -> tuple[Array, Array]:
        return self.values, self.weights

    def __repr__(self) -> str:
        return f"SamplePrior({len(self.values)} distinct points, size={self.size:.6g})"


@dataclass(frozen=True, eq=False)
class HistogramPrior(Prior):
    """Numbers of people in brackets, spread evenly over each bracket.

    Args:
        edges: increasing, (m + 1,), in the unit of the values; both ends finite.
        counts: people in each bracket, (m,), ≥ 0 and not all 0.

    Raises:
        ParameterError: if a number is not finite, or the edges do not increase.

    Example:
        >>> brackets = HistogramPrior([0, 50_000, 100_000, 200_000], [30, 50, 20])
        >>> round(brackets.expectation(lambda x: x > 75_000, breaks=[75_000]), 12)
        0.45
    """

    edges: Array
    counts: Array

    def __init__(self, edges: ArrayLike, counts: ArrayLike) -> None:
        ends = np.array(validation.numbers("edges", edges))
        if len(ends) < 2 or not (np.diff(ends) > 0).all():
            raise ParameterError("edges", edges, "at least two increasing numbers")
        object.__setattr__(self, "edges", ends)
        object.__setattr__(self, "counts", checked_counts("counts", counts, (len(ends) - 1,)))

    @property
    def dimension(self) -> int:
        return 1

    @property
    def size(self) -> float:
        return float(self.counts.sum())

    def nodes(self, breaks: Sequence[float] = ()) -> tuple[Array, Array]:
        """Return nodes of a quadrature over each bracket, cut at the breaks."""
        inner = [b for b in breaks if self.edges[0] < b < self.edges[-1]]
        x, lengths = _gauss_cells(distinct(np.concatenate([self.edges, inner])))
        bracket = np.searchsorted(self.edges, x, side="right") - 1
        density = self.counts / np.diff(self.edges) / self.size
        return x.ravel(), (lengths * density[bracket]).ravel()

    def __repr__(self) -> str:
        return f"HistogramPrior({len(self.counts)} brackets, size={self.size:.6g})"


@dataclass(frozen=True, slots=True)
class LogNormalPrior(Prior):
    """Positive values whose logarithm is normal.

    No real incomes are exactly log-normal. If the law were treated as exact, a very wide band would
    seem unbiased; so by default it is trusted no more than a sample of 10,000 people.

    Args:
        mu: mean of the logarithm.
        sigma: its standard deviation > 0.
        people: how many people the law is worth, ≥ 1; see `Prior.size`. ∞ if it is exact.

    Raises:
        ParameterError: if a parameter is not finite or out of range.

    Example:
        >>> LogNormalPrior(11.5, 0.8).expectation(lambda x: x > 1e5, breaks=[1e5]).__round__(6)
        0.493555
    """

    mu: float
    sigma: float
    people: float = 10_000.0

    def __post_init__(self) -> None:
        validation.between("mu", self.mu, -100, 100)
        validation.between("sigma", self.sigma, 1e-6, 10)
        if validation.non_negative("people", self.people) < 1:
            raise ParameterError("people", self.people, "a number >= 1 (infinity is permitted)")

    @property
    def dimension(self) -> int:
        return 1

    @property
    def size(self) -> float:
        return self.people

    def nodes(self, breaks: Sequence[float] = ()) -> tuple[Array, Array]:
        """Return nodes of a quadrature over the logarithm, in standard deviations."""
        steps = round(2 * _FARTHEST_Z / _STEP_Z)
        edges = np.linspace(-_FARTHEST_Z, _FARTHEST_Z, steps + 1)
        positive = np.array([b for b in breaks if b > 0])
        inner = (np.log(positive) - self.mu) / self.sigma
        inside = inner[np.abs(inner) < _FARTHEST_Z]
        z, lengths = _gauss_cells(distinct(np.concatenate([edges, inside])))
        weights = lengths * np.exp(-z * z / 2) * NormalDist().pdf(0.0)
        return np.exp(self.mu + self.sigma * z).ravel(), (weights / weights.sum()).ravel()


@dataclass(frozen=True)
class _DerivedPrior(Prior):
    """A prior derived from another one, by default with its size and smoothness."""

    prior: Prior

    @property
    def dimension(self) -> int:
        return self.prior.dimension

    @property
    def size(self) -> float:
        return self.prior.size

    @property
    def continuous(self) -> bool:
        return self.prior.continuous

    @property
    def again(self) -> tuple[Prior, ...]:
        return tuple(replace(self, prior=prior) for prior in self.prior.again)


@dataclass(frozen=True)
class HeapedPrior(_DerivedPrior):
    """A law of numbers, plus people who hold exactly one value.

    Args:
        prior: the law of all others, in one dimension.
        heaps: point masses; all other people follow the prior.

    Raises:
        ParameterError: if the prior is of points, or the heaps are all people or more.

    Example:
        >>> round_incomes = HeapedPrior(LogNormalPrior(11.5, 0.8), (Heap(100_000, 0.0105),))
        >>> round(round_incomes.expectation(lambda x: x == 100_000), 6)
        0.0105
    """

    heaps: tuple[Heap, ...]

    def __post_init__(self) -> None:
        if self.prior.dimension != 1:
            raise ParameterError("prior.dimension", self.prior.dimension, "1")
        object.__setattr__(self, "heaps", tuple(self.heaps))
        if not sum(heap.share for heap in self.heaps) < 1:
            raise ParameterError("heaps", self.heaps, "shares with a sum below 1")

    def scaled(self, factor: float) -> "Prior":
        """Return the law of a multiple of the values, with unmoved heaps.

        People with larger numbers are assumed to round to the same values.
        """
        return HeapedPrior(self.prior.scaled(factor), self.heaps)

    def nodes(self, breaks: Sequence[float] = ()) -> tuple[Array, Array]:
        points, weights = self.prior.nodes(breaks)
        shares = np.array([heap.share for heap in self.heaps])
        places = np.array([heap.at for heap in self.heaps])
        return (
            np.concatenate([points, places]),
            np.concatenate([weights * (1 - shares.sum()), shares]),
        )


@dataclass(frozen=True)
class DoubtedPrior(_DerivedPrior):
    """A prior, and alternative laws of people.

    Ways to ask are chosen by the largest error over all laws, and a planned campaign signs a bound
    that holds for all of them.

    Args:
        prior: the expected law.
        others: name → another prior, of the same dimension.

    Raises:
        ParameterError: if the dimensions differ.

    Example:
        >>> law = LogNormalPrior(11.5, 0.8)
        >>> DoubtedPrior(law, {"10 % richer": law.scaled(1.1)}).scenarios["10 % richer"].size
        10000.0
    """

    others: Mapping[str, Prior] = field(hash=False)

    def __post_init__(self) -> None:
        for name, other in self.others.items():
            if other.dimension != self.prior.dimension:
                raise ParameterError(
                    f"others[{name!r}].dimension", other.dimension, f"{self.prior.dimension}"
                )
        object.__setattr__(self, "others", dict(self.others))

    @property
    def scenarios(self) -> Mapping[str, Prior]:
        return self.others

    @property
    def again(self) -> tuple[Prior, ...]:
        return self.prior.again

    @property
    def continuous(self) -> bool:
        return any(p.continuous for p in (self.prior, *self.others.values()))

    def nodes(self, breaks: Sequence[float] = ()) -> tuple[Array, Array]:
        return self.prior.nodes(breaks)


@dataclass(frozen=True)
class MappedPrior(_DerivedPrior):
    """The law of an increasing function of numbers."""

    def __post_init__(self) -> None:
        if self.prior.dimension != 1:
            raise ParameterError("prior.dimension", self.prior.dimension, "1")

    @property
    def scenarios(self) -> Mapping[str, Prior]:
        others = self.prior.scenarios.items()
        return {name: replace(self, prior=prior) for name, prior in others}

    def nodes(self, breaks: Sequence[float] = ()) -> tuple[Array, Array]:
        points, weights = self.prior.nodes(self._back(np.array(breaks, np.float64)).tolist())
        return self._of(points), weights

    @abstractmethod
    def _of(self, numbers: Array) -> Array:
        """Return the function of numbers, (m,)."""

    @abstractmethod
    def _back(self, numbers: Array) -> Array:
        """Return where the function has these values, (m,), and where it bends."""


@dataclass(frozen=True)
class _ScaledPrior(MappedPrior):
    """The law of a multiple of the values."""

    factor: float

    def _of(self, numbers: Array) -> Array:
        return numbers * self.factor

    def _back(self, numbers: Array) -> Array:
        return numbers / self.factor


def checked_counts(name: str, counts: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return numbers ≥ 0, not all 0, of the given shape."""
    array = validation.float_array(counts)
    if array is None or array.shape != shape:
        raise ParameterError(name, "something else", f"numbers of shape {shape}")
    if not (np.isfinite(array).all() and (array >= 0).all() and array.sum() > 0):
        raise ParameterError(name, "some", "finite numbers >= 0, not all 0")
    return array


def _gauss_cells(edges: Array) -> tuple[Array, Array]:
    """Return nodes and weights of Gauss-Legendre quadrature on each cell, (cells, 4) each.

    The weights of a cell add up to its length.
    """
    half = np.diff(edges)[:, None] / 2
    return edges[:-1, None] + half * (1 + _NODES), half * _WEIGHTS


@dataclass(frozen=True)
class LogPrior(MappedPrior):
    """The law of the logarithms of values, for campaigns that compare by ratio.

    Args:
        prior: of the values, in one dimension.
        scale: whose logarithms devices perturb; values below its floor count as the floor.

    Example:
        >>> from geoveil.analyst.planner.priors import HeapedPrior, LogNormalPrior
        >>> from geoveil.analyst.hard_question import Heap
        >>> incomes = HeapedPrior(LogNormalPrior(11.5, 0.8), (Heap(0.0, 0.1),))
        >>> logs = LogPrior(incomes, LogScale(floor=1_000))
        >>> round(logs.expectation(lambda y: y > 11.5, breaks=[11.5]), 6)
        0.45
        >>> round(logs.expectation(lambda y: y == np.log(1_000), breaks=[11.5]), 6)
        0.1
    """

    scale: LogScale

    def scaled(self, factor: float) -> Prior:
        """Return the law of the logarithms of a multiple of the values."""
        return replace(self, prior=self.prior.scaled(factor))

    def _of(self, numbers: Array) -> Array:
        return self.scale.to_log(numbers)

    def _back(self, numbers: Array) -> Array:
        return np.append(self.scale.from_log(numbers), self.scale.floor)


@dataclass(frozen=True)
class ExpPrior(MappedPrior):
    """The law of values given a law of their logarithms, for example from a pilot by ratio.

    Args:
        prior: of the logarithms, in one dimension.

    Example:
        >>> from geoveil.analyst.planner.priors import HistogramPrior
        >>> values = ExpPrior(HistogramPrior([0.0, 1.0, 2.0], [30, 70]))
        >>> round(values.expectation(lambda x: x > np.e, breaks=[np.e]), 12)
        0.7
    """

    def _of(self, numbers: Array) -> Array:
        return np.exp(numbers)

    def _back(self, numbers: Array) -> Array:
        return np.log(numbers[numbers > 0])
