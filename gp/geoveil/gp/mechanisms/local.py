"""Local differential privacy, geo-privacy in the discrete metric: two baselines [MATH §1, §6]."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar

from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.arrays import Array, distinct, np
from geoveil.gp.exact import BALL, BITS, upper, working_precision
from geoveil.gp.lazy import lazy
from geoveil.gp.mechanisms.additive import EvenMechanism
from geoveil.gp.mechanisms.base import QueryMechanism
from geoveil.gp.mechanisms.grids import exponent_below
from geoveil.gp.privacy import LocalPrivacy
from geoveil.gp.queries.base import Query
from geoveil.gp.report_laws import cut_while_loose
from geoveil.gp.report_moments import ReportMoments


class LocalLaplace(EvenMechanism):
    """f(x) + Lap(range of f/ε): ε-LDP, the baseline that ignores distance.

    The range is `Profile.bounds`: [0, 1] for all but formulas of one's own.

    Example:
        >>> from geoveil.gp import LocalPrivacy, Threshold
        >>> float(LocalLaplace(Threshold(at=0, width=1), LocalPrivacy(0.5)).variance(0.0))
        8.0
    """

    privacy: LocalPrivacy
    _privacy_kind: ClassVar[type] = LocalPrivacy

    def __init__(self, query: Query, privacy: LocalPrivacy, *, step: float | None = None) -> None:
        super().__init__(query, privacy, step=step)
        low, high = query.profile.bounds
        self._exact_scale = (Fraction(high) - Fraction(low)) / Fraction(privacy.epsilon)
        self._choose_step(step)


_MEANS = 129
"""Number of means in the table of a response's law; between two the variance is enclosed."""
_BEYOND = 0.005
"""How far bounds of f may be beyond its values, relative to their range."""
_STEP_BITS = 24
"""Rounding c up by less than 2^-24 of itself adds less than 0.00002 % to the variance."""


class RandomizedResponse(QueryMechanism):
    """One of two numbers, −c and 1 + c with c = 1/(e^ε − 1): ε-LDP and unbiased [MATH §6].

    The bit is 1 with probability p = q + (1 − 2q)·f(x), q = 1/(1 + e^ε), and the report is (bit −
    q)/(1 − 2q); for f in [a, b] it is stretched to a − cR and b + cR, R = b − a. Where f is 0 or 1
    this is the classical response. Up to ε = 2.3 the variance is less than that of `LocalLaplace`
    everywhere. The two numbers are rounded outwards to the grid, so reports stay exactly unbiased
    and ε-LDP. An ε above 42 counts as c = 2^-61, the finest grid.

    Args:
        query: f; a value outside its profile's bounds is moved to the nearer end.
        privacy: the guarantee between any two points.
        step: spacing of the output grid, a power of two, at most 1.

    Example:
        >>> from geoveil.gp import LocalPrivacy, Threshold
        >>> m = RandomizedResponse(Threshold(at=0, width=1), LocalPrivacy(math.log(3.0)))
        >>> [round(atom, 6) for atom in m.atoms]
        [-0.5, 1.5]
        >>> m.variance([-9.0, 0.0, 9.0]).round(6).tolist()
        [0.75, 1.0, 0.75]
    """

    privacy: LocalPrivacy
    _privacy_kind: ClassVar[type] = LocalPrivacy

    def __init__(self, query: Query, privacy: LocalPrivacy, *, step: float | None = None) -> None:
        super().__init__(query, privacy, step=step)
        self._bounds = tuple(Fraction(bound) for bound in query.profile.bounds)
        least, most = self._bounds
        self._excess = (most - least) * _excess(privacy.epsilon)
        self._choose_step(step)
        grid = Fraction(2) ** self.step_exponent
        low, high = (least - self._excess) / grid, (most + self._excess) / grid
        self._range = (math.floor(low), math.ceil(high))
        self._low, self._high = (k * grid for k in self._range)

    @property
    def unbiased(self) -> bool:
        return True

    @property
    def grid_range(self) -> tuple[int, int]:
        return self._range

    @property
    def atoms(self) -> tuple[float, float]:
        """The two outputs, as the nearest doubles."""
        return float(self._low), float(self._high)

    def _value(self, s: Real, ops: Arithmetic) -> Real:
        least, most = (ops.constant(bound) for bound in self._bounds)
        return ops.clip(self.query.profile.value(s, ops), least, most)

    @lazy
    def _law(self) -> ReportMoments:
        """The law by the mean alone, since with two outputs all moments are linear in it."""
        low, high = self.atoms
        limits, profile = self.query.attained_range, self.query.profile
        cells = profile.cells(0.0)
        edges = distinct(np.array([cells[0] - 1, *cells, cells[-1] + 1]).clip(*limits))
        least, most = map(float, self._bounds)

        def look(edges: Array) -> tuple[Array, Array]:
            value, people = profile.ranges(edges, 0.0)[0], np.asarray(profile.value(edges))
            beyond = np.maximum(people.min() - value[0], value[1] - people.max()).clip(0.0)
            return value.clip(least, most), np.square(beyond / (_BEYOND * np.ptp(value)))

        inside = cut_while_loose(edges, look)[1]
        mean = np.linspace(inside.min(), inside.max(), _MEANS)
        above = (mean - low) / (high - low)
        first, last = low - profile.origin, high - profile.origin
        powers = [first**k + above * (last**k - first**k) for k in (1, 2, 3)]
        noise = (mean - low) * (high - mean)
        more = np.square(mean[1] - mean[0]) / 4  # of a parabola over its chord
        variances, points = np.stack([noise, noise + more]), np.stack(powers, axis=1)
        return ReportMoments(points, None, variances, origin=profile.origin)

    def law(self) -> ReportMoments:
        return self._law

    def _shares(self, s: Array) -> tuple[Array, Array]:
        """Return the probabilities of the two atoms, exact to rounding however small they are."""
        value, span = self._value(s, FLOAT), float(self._high - self._low)
        least, most = self._bounds
        below = (float(most) - value) + float(self._high - most)
        above = (value - float(least)) + float(least - self._low)
        return below / span, above / span

    def _simulate(self, s: Array, rng: np.random.Generator) -> Array:
        low, high = self.atoms
        below, _ = self._shares(s)
        return np.where(rng.random(s.shape) < below, low, high)

    def _ideal(self, s: Real, u: Real, ops: Arithmetic) -> Real:
        """Enclose the ideal output: the high atom iff U exceeds (high − f)/(high − low)."""
        low, high = ops.constant(self._low), ops.constant(self._high)
        at = self._value(s, ops) + u * ops.constant(self._high - self._low)
        return ops.piecewise(at, (high,), (lambda _: low, lambda _: high))

    def _variance(self, s: Array) -> Array:
        below, above = self._shares(s)
        return np.asarray(below * above * float(self._high - self._low) ** 2)

    def _log_density(self, y: Array, s: Array) -> Array:
        low, high = self.atoms
        below, above = self._shares(s)
        result = np.where(y == low, np.log(below), -math.inf)
        return np.where(y == high, np.log(above), result)

    def _spread(self) -> float:
        return float(max(map(abs, self._bounds)) + self._excess)

    def _default_step_exponent(self) -> int:
        # c underflows for huge ε; the finest grid is coarser than that by far.
        return min(exponent_below(float(self._excess), _STEP_BITS), 0)


def _excess(epsilon: float) -> Fraction:
    """Return c = 1/(e^ε − 1), rounded up, and at least 2^-200, far below any grid."""
    with working_precision(BITS):
        # Larger ε have a smaller c; e^139 is above 2^200.
        return max(upper(1 / BALL.constant(min(epsilon, 140.0)).expm1()), Fraction(1, 2**200))
