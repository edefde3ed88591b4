"""Reports drawn from a channel that is given as data, once it has been checked [MATH §8]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import accumulate

from geoveil.gp.arithmetic import Arithmetic, Real
from geoveil.gp.arrays import Array, ArrayLike, np
from geoveil.gp.enclosed import Undecided
from geoveil.gp.errors import ParameterError
from geoveil.gp.exact import BALL, INT64_MAX, INT64_MIN, LazyUniform, working_precision
from geoveil.gp.lazy import lazy
from geoveil.gp.mechanisms.base import PrivatePoint, QueryMechanism
from geoveil.gp.mechanisms.channel import BITS, TOTAL, Channel
from geoveil.gp.mechanisms.channel_spline import SplineCell, bias_bound
from geoveil.gp.mechanisms.distance_prior import is_even
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.base import Query
from geoveil.gp.report_moments import ReportMoments
from geoveil.gp.straight_line import NEVER, Often

AS_GOOD_AS_NONE = 2.0**-40
"""A bias below this is the rounding of φ."""
_MOST_BIAS = 0.1
_RESOLVED = 2.0**-60
"""Relative radius of a distance that float64 may stand for."""


class ChannelMechanism(QueryMechanism):
    """A report by a table of probabilities that somebody else has found.

    Before anything is drawn, every ratio between the rows is decided in integers: what does not
    keep the privacy between all s, by the theorem of `channel_spline`, is refused. Rows and signs
    are checked when the `Channel` is made. So a table need not be trusted, wherever it comes from,
    nor solved again: it needs no solver, and gives the same reports on every machine.

    The mean is the spline of the means of the rows. How far it is from f at most, at any s, is
    computed, too (`bias_bound`, in float64); it takes no part in the guarantee.

    Args:
        query: f. Its s(x) is what the channel is asked about.
        privacy: what the channel is to keep, in the unit of x.
        channel: the table that reports are drawn by, as a `LinearProgramMechanism` has one.
        step: spacing of the output grid, a power of two: that of the channel, or finer.

    Raises:
        ParameterError: if two rows differ by more than the privacy permits, or the mean of reports
            is more than 0.1 from f somewhere: then the channel is one for another query.
        UnsupportedError: if the cells of the channel are too wide for the theorem.

    Example:
        >>> from geoveil.gp import GeoPrivacy, LinearProgramMechanism, Threshold
        >>> q, p = Threshold(at=100_000, width=16_000), GeoPrivacy(epsilon=1.0, per=8000.0)
        >>> channel = LinearProgramMechanism(q, p, quick=True).channel
        >>> ChannelMechanism(q, p, channel).unbiased
        True
        >>> less = GeoPrivacy(epsilon=0.999, per=8000.0)
        >>> ChannelMechanism(q, less, channel)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        geoveil.gp.errors.ParameterError: ratio of rows 0 and 1 must be at most 1.06231615, got ...
    """

    privacy: GeoPrivacy

    def __init__(
        self, query: Query, privacy: GeoPrivacy, channel: Channel, *, step: float | None = None
    ) -> None:
        super().__init__(query, privacy, channel=channel, step=step)
        if not isinstance(channel, Channel):
            raise ParameterError("channel", channel, "a Channel")
        self.channel = channel
        self._choose_step(step)
        if self.step_exponent > channel.step_exponent:
            raise ParameterError(
                "step", self.step, f"at most 2^{channel.step_exponent}, as the channel has"
            )
        channel.table.require_within(channel.grid.ratios(privacy.exact_rate))
        self._check_bias()

    def _check_bias(self) -> None:
        profile, channel = self.query.profile, self.channel
        if channel.even and not is_even(profile):
            raise ParameterError("channel", channel, f"one on s, as {profile!r} is not even")
        with np.errstate(all="ignore"):  # a bound that is no number is refused
            bias = bias_bound(profile, channel.grid, channel.means, channel.even)
        if not bias <= _MOST_BIAS:
            raise ParameterError(
                "bias of the channel", bias, f"at most {_MOST_BIAS} for this query"
            )
        self._bias = bias

    @property
    def bias_bound(self) -> float:
        """Bound on |mean − f| over all points."""
        return self._bias

    @property
    def unbiased(self) -> bool:
        """Whether the mean of a report is f(x), to the rounding of f; see `bias_bound`."""
        return self.bias_bound <= AS_GOOD_AS_NONE

    @property
    def atoms(self) -> tuple[float, ...]:
        """All outputs."""
        return tuple(self._atoms.tolist())

    @property
    def grid_range(self) -> tuple[int, int]:
        """The least and the greatest output."""
        return self.outputs[0], self.outputs[-1]

    @property
    def outputs(self) -> tuple[int, ...]:
        return self._outputs

    def mean(self, x: ArrayLike) -> Array:
        """Return the expected report, which is within `bias_bound` of f."""
        return self._mean(self._distance(x))

    def _folded(self, s: Array) -> Array:
        return np.abs(s) if self.channel.even else np.asarray(s)

    def _mean(self, s: Array) -> Array:
        return self.channel.grid.mix(self._means, self._folded(s))

    def _simulate(self, s: Array, rng: np.random.Generator) -> Array:
        """Return reports: a row by its share, then an output of that row."""
        first, shares = self.channel.grid.locate(self._folded(s))
        pick = rng.random(s.shape)
        row = first + (pick > shares[..., 0]) + (pick > shares[..., 0] + shares[..., 1])
        stacked = (np.cumsum(self._probabilities, axis=1)[:, :-1] + np.arange(
            len(self._means))[:, None])  # fmt: skip
        index = np.searchsorted(stacked.ravel(), row + rng.random(s.shape), side="right")
        return np.asarray(self._atoms[index - row * stacked.shape[1]])

    def _ideal(self, s: Real, u: Real, ops: Arithmetic) -> Real:
        """Enclose the ideal output: the output whose share of [0, 1] holds U. In balls only."""
        if ops is not BALL:
            raise Undecided
        grid = self.channel.grid
        low, high = (BALL.constant(edge) for edge in (grid.edges[0], grid.edges[-1]))
        inside = BALL.clip(BALL.absolute(s) if self.channel.even else s, low, high)
        edges = [BALL.constant(cell.start) for cell in grid.cells[1:]]
        return BALL.piecewise(inside, edges, [partial(self._on_cell, c, u) for c in grid.cells])

    def _integers(
        self, point: PrivatePoint, uniforms: Sequence[Sequence[LazyUniform]]
    ) -> tuple[int, ...]:
        known = self._known(point, uniforms[0][0])
        return super()._integers(point, uniforms) if known is None else (known,)

    def _known(self, point: PrivatePoint, uniform: LazyUniform) -> int | None:
        """Return the first output whose running sum exceeds U, found in float64, if it can be.

        Every s takes the same steps, and all outputs are looked at. Where two of them are left
        possible, which m outputs and n cells of equal width leave with a probability of about
        m n 2^-44, balls decide by the same bits, and it takes longer.
        """
        with working_precision(uniform.count):
            enclosed = point.distance(self.query)
        s, doubt = np.array(float(enclosed.mid())), float(enclosed.rad())
        if not doubt <= _RESOLVED * (abs(s) + self._farthest):
            return None  # a distance of one's own may be less certain
        first, shares = self.channel.grid.locate(self._folded(s))
        sums = shares @ self._running[first : first + 3]
        u = uniform.numerator * 2.0**-uniform.count
        least, most = (int((sums <= end).sum()) for end in (u - self._slack, u + self._slack))
        return min(max(self.outputs[least], INT64_MIN), INT64_MAX) if least == most else None

    def _on_cell(self, cell: SplineCell, u: Real, s: Real) -> Real:
        theta = (s - BALL.constant(cell.start)) / BALL.constant(cell.width)
        # The ball may reach beyond the cell; what is there belongs to the next.
        left, middle, right = cell.weights(BALL.clip(theta, BALL.constant(0), BALL.constant(1)))
        rows = self._cumulative[cell.row : cell.row + 3]
        edges = [
            left * a + middle * b + right * c
            for a, b, c in zip(*(r[:-1] for r in rows), strict=True)
        ]
        outputs = [BALL.constant(y) for y in self._exact_outputs]
        branches = [partial(_first, y) for y in outputs]
        return BALL.piecewise(u * BALL.constant(1 << BITS), edges, branches)

    def _variance(self, s: Array) -> Array:
        """Return the variance: that within the rows, and that between their means."""
        s = self._folded(s)
        first, shares = self.channel.grid.locate(s)
        rows = first[..., None] + np.arange(3)
        apart = np.square(self._means[rows] - self._mean(s)[..., None])
        return np.asarray((shares * (self._variances[rows] + apart)).sum(axis=-1))

    def report_moments(self) -> ReportMoments:
        """Return those of the rows: a report is one of a mixture of rows, whoever gives it."""
        powers = self._atoms[:, None] ** np.arange(1, 4)
        return ReportMoments(np.asarray(self._probabilities @ powers))

    def _log_density(self, y: Array, s: Array) -> Array:
        """Return the log-density: with respect to a unit mass at each output."""
        y, s = np.broadcast_arrays(y, s)
        index = np.clip(np.searchsorted(self._atoms, y), 0, len(self._atoms) - 1)
        first, shares = self.channel.grid.locate(self._folded(s))
        mass = shares * self._probabilities[first[..., None] + np.arange(3), index[..., None]]
        return np.where(self._atoms[index] == y, np.log(mass.sum(axis=-1)), -math.inf)

    def _spread(self) -> float:
        return float(max(map(abs, self.channel.outputs)))

    def _default_step_exponent(self) -> int:
        return self.channel.step_exponent

    def _levels(self) -> set[float]:
        """Return no level, as all outputs lie on the grid, whatever it is."""
        return set()

    @lazy
    def _often(self) -> Often:
        return NEVER  # the formula looks at its balls; doubles decide nearly all

    @lazy
    def _exact_outputs(self) -> tuple[Fraction, ...]:
        return self.channel.outputs

    @lazy
    def _cumulative(self) -> list[list[int]]:
        return [list(accumulate(row)) for row in self.channel.table.rows]

    @lazy
    def _outputs(self) -> tuple[int, ...]:
        shift = self.channel.step_exponent - self.step_exponent
        return tuple(k << shift for k in self.channel.table.outputs)

    @lazy
    def _running(self) -> Array:
        """Running sums of each row but the last, which is 1, shape (rows, m − 1)."""
        return np.array([[total / TOTAL for total in row[:-1]] for row in self._cumulative])

    @lazy
    def _slack(self) -> float:
        """Error of a running sum in float64: the sum moves by at most 4 where θ moves by 1."""
        return 2.0**-46 * (1 + self._farthest / float(np.diff(self.channel.grid.knots).min()))

    @lazy
    def _farthest(self) -> float:
        return max(map(abs, self.channel.grid.edges))

    @lazy
    def _atoms(self) -> Array:
        return np.array([float(y) for y in self.channel.outputs])

    @lazy
    def _probabilities(self) -> Array:
        return self.channel.table.probabilities

    @lazy
    def _means(self) -> Array:
        return self.channel.means

    @lazy
    def _variances(self) -> Array:
        centred = np.square(self._atoms - self._means[:, None])
        return np.asarray((self._probabilities * centred).sum(axis=1))


def _first(y: Real, _: Real) -> Real:
    return y
