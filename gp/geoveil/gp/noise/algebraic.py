"""Noises with the score ψ = c·t^p·(1−t)^q, p + q = 1, and uψ = kt, for some t(u) in (0, 1).

Both suprema, and the exact calibration, then have a closed form. For n, m with n > 0 and n + km > 0
the quotient (n + m·uψ)/ψ = (n + mkt)/(c·t^p·(1−t)^q) grows without bound at both ends. Where its
slope is 0, mk/(n + mkt) = (p − t)/(t(1−t)); the squares of t cancel, so there is one such t,

    t = pn/(pn + q(n + km)),

and the quotient there is its infimum: n^q (n + km)^p/(c·p^p·q^q). With n = 1 and m = 0 it is
1/sup ψ.
"""

from abc import abstractmethod
from fractions import Fraction
from typing import ClassVar

from flint import arb

from geoveil.gp.exact.ball import BALL, working_precision
from geoveil.gp.noise.inversion import InvertedNoise
from geoveil.gp.privacy.rounding import BITS, lower, round_up, upper


class AlgebraicNoise(InvertedNoise):
    """A family with such a score, which is released by inverting its distribution function."""

    in_the_paper: ClassVar[bool] = True

    @property
    @abstractmethod
    def _steepness(self) -> Fraction:
        """K > 1, the limit of uψ in the tail."""

    @property
    @abstractmethod
    def _share(self) -> Fraction:
        """Q."""

    @abstractmethod
    def _ball_max_score(self) -> arb:
        """Enclose sup ψ = c·p^p·q^q."""

    @property
    def exact_scale_cost(self) -> Fraction:
        """See `Noise.exact_scale_cost`: k − 1 in the tail, 1 at the centre."""
        return max(self._steepness - 1, Fraction(1))

    @property
    def max_score(self) -> float:
        """See `Noise.max_score`."""
        with working_precision(BITS):
            return round_up(upper(self._ball_max_score()))

    def least_quotient(self, constant: Fraction, factor: Fraction) -> Fraction:
        """See `Noise.least_quotient`: in closed form."""
        end = constant + self._steepness * factor
        if min(constant, end) <= 0:
            return Fraction(0)
        with working_precision(BITS):
            q = BALL.constant(self._share)
            mean = BALL.constant(constant) ** q * BALL.constant(end) ** (1 - q)
            return lower(mean / self._ball_max_score())
