"""The best unbiased channel on the scalar, found by a linear programme [MATH §8]."""

import math
from fractions import Fraction
from functools import partial
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike

from geoveil.gp import validation
from geoveil.gp.arithmetic import Real
from geoveil.gp.errors import ParameterError
from geoveil.gp.exact.ball import BALL
from geoveil.gp.mechanisms.base import Array, Mechanism
from geoveil.gp.mechanisms.channel_design import REACH_OF_OUTPUTS, design
from geoveil.gp.mechanisms.channel_grid import Cell
from geoveil.gp.mechanisms.channel_prior import ScalarPrior, default_prior
from geoveil.gp.mechanisms.channel_table import BITS
from geoveil.gp.mechanisms.grid import exponent_below
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.base import Query

_STEP_BITS = 20
_AS_GOOD_AS_NONE = 2.0**-40
"""A bias below this is the rounding of φ."""


class LinearProgramMechanism(Mechanism):
    """A table of probabilities, optimal for a prior on the scalar: ε-GP, and next to unbiased.

    The report is one of some hundred outputs. Its probabilities are a quadratic spline in s(x)
    between the rows of a table that a linear programme has found, so that |∂_s log P| ≤ ε
    everywhere: the theorem, and its proof, are in `channel_grid`. Beyond the ends of the grid s
    counts as the end, and for an even φ as |s|; both maps are 1-Lipschitz, and so is s(x). The
    table is integers over 2^60, and every row, sign and ratio has been checked exactly
    (`channel_table`). What is released is hence exactly ε-GP, whatever the solver did; only the
    variance depends on it.

    The mean is the spline of the means of the rows, which differs from f by at most `bias_bound`.
    On a linear ramp it does not differ at all.

    Where φ varies over more than some 8/ε, the cells become coarse and the gain small: there
    `DebiasedLaplace`, if the profile permits it, has about as little variance, or less.

    Args:
        query: any; its profile may have corners. It should vary over at most some 60 noise scales.
        privacy: the guarantee, in the unit of x.
        prior: what the variance is minimal for; by default uniform where the profile varies. Fix it
            without looking at private values.
        tolerance: largest bias permitted, in the unit of f, in [1e-6, 0.1].
        quick: whether to solve on a coarser grid: in a second instead of several, with a variance
            that is a few per cent larger.
        step: see `Mechanism`; at most 1. The outputs lie on this grid.

    Raises:
        ParameterError: if a parameter is out of range, or the tolerance out of reach.
        UnsupportedError: if the query varies over too many noise scales, or the solver fails.

    Example:
        >>> from geoveil.gp import GeoPrivacy, Threshold
        >>> q = Threshold(at=100_000, width=16_000)
        >>> m = LinearProgramMechanism(q, GeoPrivacy(epsilon=1.0, per=8000.0))
        >>> m.unbiased
        True
        >>> bool(m.variance(100_000.0) < 0.6)
        True
    """

    privacy: GeoPrivacy

    def __init__(
        self,
        query: Query,
        privacy: GeoPrivacy,
        prior: ScalarPrior | None = None,
        *,
        tolerance: float = 1e-3,
        quick: bool = False,
        step: float | None = None,
    ) -> None:
        super().__init__(query, privacy)
        if prior is not None and not isinstance(prior, ScalarPrior):
            raise ParameterError("prior", prior, "a ScalarPrior, or None for the uniform one")
        self.tolerance = validation.between("tolerance", tolerance, 1e-6, 0.1)
        self.prior = default_prior(query.profile) if prior is None else prior
        if not isinstance(quick, bool):
            raise ParameterError("quick", quick, "True or False")
        self.quick = quick
        self._choose_step(step)
        self._design = design(
            query.profile,
            privacy.exact_rate,
            self.prior,
            self.step_exponent,
            self.tolerance,
            quick,
        )
        table, grid = self._design.table, Fraction(2) ** self.step_exponent
        self._outputs = [k * grid for k in table.outputs]
        self._atoms = np.array([float(y) for y in self._outputs])
        self._probabilities = table.probabilities
        self._means = np.array([float(mean * grid) for mean in table.means])
        centred = np.square(self._atoms - self._means[:, None])
        self._variances = (self._probabilities * centred).sum(axis=1)
        self._cumulative = [list(accumulate(row)) for row in table.rows]

    @property
    def bias_bound(self) -> float:
        """Bound on |mean − f| over all points."""
        return self._design.bias

    @property
    def unbiased(self) -> bool:
        """See `Mechanism.unbiased`: to the rounding of f; see `bias_bound`."""
        return self.bias_bound <= _AS_GOOD_AS_NONE

    @property
    def atoms(self) -> tuple[float, ...]:
        """All outputs."""
        return tuple(self._atoms.tolist())

    @property
    def grid_range(self) -> tuple[int, int]:
        """See `Mechanism.grid_range`: the least and the greatest output."""
        outputs = self._design.table.outputs
        return outputs[0], outputs[-1]

    @property
    def expected_variance(self) -> float:
        """The variance of a report, averaged over the prior."""
        return float(self._variance(np.array(self.prior.scalars)) @ np.array(self.prior.weights))

    def mean(self, x: ArrayLike) -> Array:
        """See `Mechanism.mean`: within `bias_bound` of f."""
        return self._mean(self._scalar(x))

    def _folded(self, s: Array) -> Array:
        return np.abs(s) if self._design.even else np.asarray(s)

    def _mean(self, s: Array) -> Array:
        return self._design.grid.mix(self._means, self._folded(s))

    def _simulate(self, s: Array, rng: np.random.Generator) -> Array:
        """See `Mechanism._simulate`: a row by its share, then an output of that row."""
        first, shares = self._design.grid.locate(self._folded(s))
        pick = rng.random(s.shape)
        row = first + (pick > shares[..., 0]) + (pick > shares[..., 0] + shares[..., 1])
        stacked = (np.cumsum(self._probabilities, axis=1)[:, :-1] + np.arange(
            len(self._means))[:, None])  # fmt: skip
        index = np.searchsorted(stacked.ravel(), row + rng.random(s.shape), side="right")
        return np.asarray(self._atoms[index - row * stacked.shape[1]])

    def _ideal(self, s: Real, u: Real) -> Real:
        """See `Mechanism._ideal`: the output whose share of [0, 1] holds U."""
        grid = self._design.grid
        low, high = (BALL.constant(edge) for edge in (grid.edges[0], grid.edges[-1]))
        inside = BALL.clip(BALL.absolute(s) if self._design.even else s, low, high)
        edges = [BALL.constant(cell.start) for cell in grid.cells[1:]]
        return BALL.piecewise(inside, edges, [partial(self._on_cell, c, u) for c in grid.cells])

    def _on_cell(self, cell: Cell, u: Real, s: Real) -> Real:
        theta = (s - BALL.constant(cell.start)) / BALL.constant(cell.width)
        # The ball may reach beyond the cell; what is there belongs to the next.
        left, middle, right = cell.weights(BALL.clip(theta, BALL.constant(0), BALL.constant(1)))
        rows = self._cumulative[cell.row : cell.row + 3]
        edges = [
            left * a + middle * b + right * c
            for a, b, c in zip(*(r[:-1] for r in rows), strict=True)
        ]
        outputs = [BALL.constant(y) for y in self._outputs]
        branches = [partial(_first, y) for y in outputs]
        return BALL.piecewise(u * BALL.constant(1 << BITS), edges, branches)

    def _variance(self, s: Array) -> Array:
        """See `Mechanism._variance`: that within the rows, and that between their means."""
        s = self._folded(s)
        first, shares = self._design.grid.locate(s)
        rows = first[..., None] + np.arange(3)
        apart = np.square(self._means[rows] - self._mean(s)[..., None])
        return np.asarray((shares * (self._variances[rows] + apart)).sum(axis=-1))

    def _log_density(self, y: Array, s: Array) -> Array:
        """See `Mechanism.log_density`: with respect to a unit mass at each output."""
        y, s = np.broadcast_arrays(y, s)
        index = np.clip(np.searchsorted(self._atoms, y), 0, len(self._atoms) - 1)
        first, shares = self._design.grid.locate(self._folded(s))
        mass = shares * self._probabilities[first[..., None] + np.arange(3), index[..., None]]
        return np.where(self._atoms[index] == y, np.log(mass.sum(axis=-1)), -math.inf)

    def _spread(self) -> float:
        reach = REACH_OF_OUTPUTS * self.query.lipschitz / self.privacy.rate
        return reach + max(map(abs, self.query.profile.bounds))

    def _default_step_exponent(self) -> int:
        low, high = self.query.profile.bounds
        return min(exponent_below(high - low, _STEP_BITS), 0)

    def _levels(self) -> set[float]:
        """See `Mechanism._levels`: none, as all outputs lie on the grid, whatever it is."""
        return set()


def _first(y: Real, _: Real) -> Real:
    return y
