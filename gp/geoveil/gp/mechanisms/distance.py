"""Laplace noise on the signed distance: y = g(s(x) + Laplace(b)), b = 1/ε [SGP §5; MATH §5.1, §6].

s is 1-Lipschitz, so y is ε-GP for any g. With g = φ − b²φ'' it is unbiased for f = φ(s(x)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from geoveil.gp._convolution import laplace_variance
from geoveil.gp.arithmetic import FLOAT, NUMBER, Arithmetic, Real
from geoveil.gp.arrays import Array, np
from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.exact import BALL, INT64_MAX, INT64_MIN, release_integers
from geoveil.gp.mechanisms.base import QueryMechanism
from geoveil.gp.mechanisms.grids import exponent_below
from geoveil.gp.noise.base import Laplace
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.base import Query
from geoveil.gp.queries.indicator import Range
from geoveil.gp.randomness import LazyUniform, RandomSource, chosen_source
from geoveil.gp.report_laws import law_of_profile, law_of_range
from geoveil.gp.report_moments import ReportMoments

_STEP_BITS = 24
"""Bits of the step below the range: where f varies, the standard deviation is of the order of the
range, so that rounding adds less than 10^-12 of it."""
_STANDARD = Laplace()


class DebiasedLaplace(QueryMechanism):
    """y = g(s(x) + Laplace(1/ε)): ε-GP, unbiased, and bounded.

    Its variance is at most 1.35 times a lower bound for every unbiased ε-GP mechanism, for bands
    of at least two noise scales and bandwidths of at least 1.4 [MATH §5.1].

    Args:
        query: a query whose profile has a Lipschitz slope: smoothstep indicators, the kernel,
            formulas without corners.
        privacy: the guarantee, in the unit of x.
        step: spacing of the output grid, a power of two, at most 1.

    Raises:
        UnsupportedError: if the profile has no bounded debiased form (the linear ramp).

    Example:
        >>> from geoveil.gp import GeoPrivacy, Threshold
        >>> q = Threshold(at=100_000, width=16_000, profile="smoothstep")
        >>> m = DebiasedLaplace(q, GeoPrivacy(epsilon=1.0, per=8000.0))
        >>> m.range
        (-1.5, 2.5)
        >>> m.variance([100_000, 150_000]).round(6).tolist()
        [0.809951, 0.003152]
    """

    privacy: GeoPrivacy

    def __init__(self, query: Query, privacy: GeoPrivacy, *, step: float | None = None) -> None:
        super().__init__(query, privacy, step=step)
        self._b = 1 / privacy.exact_rate
        self.scale = float(self._b)
        self.range = query.profile.debiased_range(float(self._undo))
        self._plateaus = tuple(
            (low, high, self._level(low, high)) for low, high, _ in query.profile.plateaus
        )
        self._choose_step(step)

    @property
    def unbiased(self) -> bool:
        return True

    @property
    def _undo(self) -> Fraction:
        """Scale of the noise that g undoes."""
        return self._b

    @property
    def grid_range(self) -> tuple[int, int]:
        """The least and the greatest integer released: the range of g, rounded outwards."""
        low, high = self.range
        slack = 1e-12 * (high - low)
        return math.floor((low - slack) / self.step), math.ceil((high + slack) / self.step)

    @property
    def atoms(self) -> tuple[float, ...]:
        return tuple(sorted({level for _, _, level in self._plateaus}))

    def answer(self, point: int, step_exponent: int, source: RandomSource | None = None) -> int:
        """Return the report for a perturbed number: an integer k that stands for k·`step`.

        The number comes from `PlanarLaplace` or `Coarsening`, at the rate of this mechanism. The
        report is unbiased and within `grid_range`. For a threshold, a linear function or a bell it
        has the law of `release`; for a range not where noise crosses all of it [MATH §13].

        Args:
            point: the released integer; its place within its grid cell is drawn again, uniformly.
            step_exponent: of the grid that it was released on.

        Raises:
            UnsupportedError: if no perturbed number answers the query (`Query.nests`).
            ParameterError: if the point is not an integer of 64 bits.

        Example:
            >>> from geoveil.gp import PlanarLaplace, SeededSource, Threshold
            >>> privacy = GeoPrivacy(1.0, per=8_000.0)
            >>> kept = PlanarLaplace(privacy, dimension=1)
            >>> (point,) = kept.release(87_500.0, SeededSource(1))
            >>> above = DebiasedLaplace(Threshold(80_000, 24_000, "smoothstep"), privacy)
            >>> round(above.answer(point, kept.step_exponent, SeededSource(2)) * above.step, 4)
            -0.6165
        """
        source = chosen_source(source)
        if not self.query.nests:
            raise UnsupportedError(f"a perturbed number does not answer {self.query!r}")
        if not isinstance(point, int) or not INT64_MIN <= point <= INT64_MAX:
            raise ParameterError("point", point, "an integer of 64 bits")

        def ideal(u: Sequence[Real]) -> list[Real]:
            z = (BALL.constant(point) + u[0] - BALL.constant(0.5)) * BALL.constant(
                Fraction(2) ** step_exponent
            )
            # Not clipped: that changes nothing, but a clip to the band's end could not be decided.
            s = self.query.unclipped.signed_distance(z, BALL)
            return [self.query.profile.debiased(s, self._undo, BALL)]

        (report,) = release_integers([LazyUniform(source)], ideal, self.step_exponent)
        return report

    def _g(self, v: Array) -> Array:
        return np.asarray(self.query.profile.debiased(v, self._undo, FLOAT))

    def _level(self, low: float, high: float) -> float:
        away = self.query.profile.length_scale
        if low == -math.inf:
            inside = high - away
        elif high == math.inf:
            inside = low + away
        else:
            inside = (low + high) / 2
        return float(self.query.profile.debiased(inside, self._undo, NUMBER))

    def _simulate(self, s: Array, rng: np.random.Generator) -> Array:
        return self._g(s + self.scale * rng.laplace(size=s.shape))

    def _ideal(self, s: Real, u: Real, ops: Arithmetic) -> Real:
        v = s + ops.constant(self._b) * _STANDARD.quantile(u, ops)
        return self.query.profile.debiased(v, self._undo, ops)

    def _variance(self, s: Array) -> Array:
        return laplace_variance(self.query.profile, s, self.scale, float(self._undo))

    def law(self) -> ReportMoments:
        return self._law(self.query.attained_range)

    def report_moments(self) -> ReportMoments:
        # No cap clips a perturbed number.
        answered = self.query.unclipped if self.query.nests else self.query
        return self._law(answered.attained_range)

    def _law(self, limits: tuple[float, float]) -> ReportMoments:
        query = self.query.unclipped
        law = law_of_profile(query.profile, self.scale, float(self._undo), limits)
        if not isinstance(query, Range):
            return law
        # Some people's answers may be made from points, where noise can cross the whole range.
        length = query.high - query.low
        return law.joined(law_of_range(query.profile, length, self.scale, float(self._undo)))

    def _log_density(self, y: Array, s: Array) -> Array:
        """Return the log-density: with respect to length, plus a unit mass at each atom."""
        y = y.reshape((1,) * (s.ndim - y.ndim) + y.shape)  # of each output once, not for all points
        v, slope = self.query.profile.debiased_preimages(y, float(self._undo))
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = Laplace(self.scale).logpdf(v - s) - np.log(slope)
            result = np.logaddexp.reduce(np.where(np.isnan(terms), -math.inf, terms), axis=0)
            for atom in self.atoms:
                result = np.where(y == atom, self._log_mass(atom, s), result)
        return np.asarray(result)

    def _own_side(self, s: Array) -> Array:
        # g rises where it is not level: a report is at least 1/2 where s and the noise are >= 0.
        return np.asarray(1 - _STANDARD.survival(np.abs(s) / self.scale))

    def _log_mass(self, atom: float, s: Array) -> Array:
        """Return log P(atom), for noise that ends on a plateau of its height."""
        total = np.full(s.shape, -math.inf)
        for low, high, level in self._plateaus:
            if level == atom:
                nearest = np.clip(s, low, high)
                down, up = (
                    np.expm1(-side / self.scale) for side in (nearest - low, high - nearest)
                )
                farther = np.abs(s - nearest) / self.scale
                total = np.logaddexp(total, np.log(-(down + up) / 2) - farther)
        return total

    def _spread(self) -> float:
        return max(map(abs, self.range))

    def _default_step_exponent(self) -> int:
        # A wide band turns the noise into one of L·b, much less than the range.
        low, high = self.range
        scale = min(high - low, self.query.lipschitz * self.scale)
        return min(exponent_below(scale, _STEP_BITS), 0)
