"""Noise added to the answer: f(x) + scale(x)·Z. Here the steepest slope sets a constant scale.

[SGP Lemma 2.3; MATH §6]
"""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction

from geoveil.gp import validation
from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.arrays import Array, NDArray, distinct, np
from geoveil.gp.exact import BALL, grid_around, round_up, working_precision
from geoveil.gp.lazy import lazy
from geoveil.gp.mechanisms.base import QueryMechanism
from geoveil.gp.mechanisms.grids import exponent_below
from geoveil.gp.noise.base import Laplace, Noise
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.base import Query
from geoveil.gp.report_laws import (
    LOOSEST,
    beside_ends,
    beyond_others,
    cut_while_loose,
    law_of_symmetric_noise,
)
from geoveil.gp.report_moments import ReportMoments

_STEP_BITS = 40
"""Rounding to 2^-40 of the largest scale adds 2^-80/12 of its square to the variance; the int64
range then ends 2^23 scales away, where a heavy tail saturates."""

_ABOVE = Fraction(51, 50)
"""Factor that lifts `largest_scale` above its rounding, and above bounds from cells, which are up
to 1 % above the supremum (`ClosedFormProfile.noise_bound`)."""

_RANGE_BITS = 128
"""Working precision for a quantile at a public probability."""

_NOISES, _LARGE = 32, 1000
"""Largest width of a law's cell, relative to its variance and to the largest variance."""

ROUND_UP = 1 + Fraction(1, 2**50)
"""Factor that covers the rounding of a few float operations on a public parameter."""


class AdditiveMechanism(QueryMechanism):
    """f(x) + scale(x)·Z."""

    noise: Noise
    """The family member Z; a subclass sets it."""

    @property
    def unbiased(self) -> bool:
        """Whether the noise, which is symmetric, has a mean."""
        return self.noise.has_mean

    @property
    def _coarse_bits(self) -> int | None:
        return self.noise.coarse_bits

    @property
    @abstractmethod
    def largest_scale(self) -> float:
        """Supremum of scale(x)."""

    def likely_range(self, beyond: float) -> tuple[int, int]:
        """Return integers that reports exceed on either side with half of the given probability."""
        tail = validation.between("beyond", beyond, 0, 1, low_open=True, high_open=True) / 2
        with working_precision(_RANGE_BITS):
            reach = self.noise.isf(BALL.constant(tail), BALL)
            reach = reach * BALL.constant(Fraction(self.largest_scale) * _ABOVE)
            least, greatest = map(BALL.constant, self.query.profile.bounds)
            return grid_around(least - reach, greatest + reach, self.step_exponent)

    def report_moments(self) -> ReportMoments | None:
        return self.law()

    def law(self) -> ReportMoments | None:
        return self._law

    @lazy
    def _law(self) -> ReportMoments | None:
        if not math.isfinite(self.noise.variance):
            return None
        profile = self.query.profile
        limits = np.array([float(limit) for limit in self.query.attained_range])
        finite = np.isfinite(limits)
        edges = np.concatenate([profile.cells(0.0), self._turns(), limits[finite]])
        edges = beside_ends(distinct(np.clip(edges, *limits)), self._length)

        # Beyond the last edges nobody is, or f is constant and the noise dies away or stays.
        ends = np.repeat(np.asarray(profile.value(edges[[0, -1]]))[None, ~finite], 2, axis=0)
        beyond = self._scale_range(edges[[0, -1]], ~finite)

        def look(edges: Array) -> tuple[tuple[Array, Array, float], Array]:
            value = np.concatenate([profile.ranges(edges, 0.0)[0], ends], axis=1)
            value = np.clip(value, *profile.bounds) - profile.origin
            scale = np.concatenate([self._scale_range(edges), beyond], axis=2)
            noise = np.square(scale) * self.noise.variance
            most, span = noise.max(), np.ptp(profile.bounds)
            # From the mean and the variance of answers the noise follows, however little it is.
            wide = np.diff(value, axis=0)[0] / np.clip(most**0.5 / 5, span / 64, span / 32)
            loose = np.diff(noise, axis=1).max(axis=0)[0] / (noise[-1, 1] / _NOISES + most / _LARGE)
            inside = np.minimum(np.maximum(wide, loose), 2.0)  # what sticks out is cut first
            loose = np.maximum(beyond_others(value, noise), inside)[: len(edges) - 1]
            seen = value, np.stack([noise[0, 0], noise[-1, 1]]), float(loose.max())
            return seen, np.square(loose)

        value, noise, loosest = cut_while_loose(edges, look)[1]
        loose = loosest > LOOSEST or self._ended_early
        return law_of_symmetric_noise(value, noise, loose=loose, origin=profile.origin)

    @property
    def _ended_early(self) -> bool:
        """Whether the search for bounds of the scale ended far off."""
        return False

    @property
    def _length(self) -> float:
        """The length over which the scale may change by a factor of e."""
        return math.inf

    def _turns(self) -> Array:
        """Return possible turning points of the scale, in the unit of the distance."""
        return np.array([])

    def _scale_range(self, edges: Array, beyond: NDArray[np.bool_] | None = None) -> Array:
        """Return bounds of the scale on each cell between n + 1 edges, (1, 2, n).

        Or, (2, 2, n), of whoever has the least on the cell, and the greatest. `_turns` are among
        the edges. With `beyond`, the cells are instead those before the first edge and after the
        last, on the given sides.
        """
        parts = len(edges) - 1 if beyond is None else beyond.sum()
        return np.full((1, 2, parts), self.largest_scale)

    @abstractmethod
    def _scale(self, s: Real, ops: Arithmetic) -> Real:
        """Return scale(x) for the distance s."""

    def _value(self, s: Real, ops: Arithmetic) -> Real:
        return self.query.profile.value(s, ops)

    def _simulate(self, s: Array, rng: np.random.Generator) -> Array:
        value = self._value(s, FLOAT)
        return np.asarray(value + self._scale(s, FLOAT) * self.noise.sample(rng, np.shape(value)))

    def _ideal(self, s: Real, u: Real, ops: Arithmetic) -> Real:
        return self._value(s, ops) + self._scale(s, ops) * self.noise.quantile(u, ops)

    def _variance(self, s: Array) -> Array:
        shape = np.shape(self._value(s, FLOAT))
        if self.noise.variance == math.inf:
            return np.full(shape, math.inf)
        scale = np.broadcast_to(self._scale(s, FLOAT), shape)
        return np.asarray(np.square(scale) * self.noise.variance)

    def _log_density(self, y: Array, s: Array) -> Array:
        scale = FLOAT.positive(self._scale(s, FLOAT))
        with np.errstate(over="ignore"):
            standard = (y - self._value(s, FLOAT)) / scale
        return np.asarray(self.noise.logpdf(standard) - np.log(scale))

    def _own_side(self, s: Array) -> Array:
        away = np.abs(self._value(s, FLOAT) - 0.5)
        return np.asarray(1 - self.noise.survival(away / FLOAT.positive(self._scale(s, FLOAT))))

    def _spread(self) -> float:
        return self.largest_scale * 2.0**13  # a heavy tail saturates beyond 2^15 scales

    def _default_step_exponent(self) -> int:
        return exponent_below(self.largest_scale, _STEP_BITS)


class EvenMechanism(AdditiveMechanism):
    """The same Laplace noise for everyone; a subclass sets its scale."""

    noise = Laplace()
    _exact_scale: Fraction

    @property
    def largest_scale(self) -> float:
        return float(self._exact_scale)

    def _scale(self, s: Real, ops: Arithmetic) -> Real:
        return ops.constant(self._exact_scale)


class LipschitzMechanism(EvenMechanism):
    """The same noise for everyone: ε-GP and unbiased, whatever the query.

    Example:
        >>> from geoveil.gp import GeoPrivacy, Threshold
        >>> m = LipschitzMechanism(Threshold(at=0, width=16_000), GeoPrivacy(1.0, per=8000.0))
        >>> m.variance(0.0).round(6)
        np.float64(0.5)
    """

    privacy: GeoPrivacy

    def __init__(self, query: Query, privacy: GeoPrivacy, *, step: float | None = None) -> None:
        super().__init__(query, privacy, step=step)
        # The double L may be rounded down; the noise must not be.
        self._exact_scale = Fraction(query.lipschitz) * ROUND_UP / privacy.exact_rate
        self._choose_step(step)

    @property
    def largest_epsilon(self) -> float:
        # Of no two points do answers differ by more than the whole range of f.
        low, high = map(Fraction, self.query.profile.bounds)
        return min(super().largest_epsilon, round_up((high - low) / self._exact_scale))
