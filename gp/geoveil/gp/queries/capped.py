"""A cap on the odds, which clips distances [MATH §14].

f = φ(s) is constant beyond its band. Clipping s there is 1-Lipschitz and changes neither f nor its
estimates: the guarantee stays, and s now has a bounded range.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from geoveil.gp import validation
from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.errors import ParameterError
from geoveil.gp.queries.base import Query
from geoveil.gp.queries.profiles import Profile


@dataclass(frozen=True, slots=True)
class Cap:
    """The distances from a query's boundary at which a cap clips, in noise scales 1/ε.

    Any two values, however far apart, are then at most e^(below + above) distinguishable. Both
    sides are > 0.

    Example:
        >>> from geoveil.gp import DebiasedLaplace, GeoPrivacy, Threshold
        >>> privacy = GeoPrivacy(1.0, per=8_000.0)
        >>> query = Threshold(at=100_000, width=24_000, profile="smoothstep")
        >>> m = DebiasedLaplace(Cap(4.0, 4.0).on(query, privacy.exact_rate), privacy)
        >>> m.largest_epsilon, m.variance([0, 68_000]).round(6).tolist()
        (8.0, [0.015787, 0.015787])
    """

    below: float
    """Outside of the query's region."""
    above: float
    """Within the region; of a kernel, the largest distance to its centre."""

    def __post_init__(self) -> None:
        for side in ("below", "above"):
            object.__setattr__(self, side, validation.positive(f"cap.{side}", getattr(self, side)))

    def on(self, query: Query, rate: Fraction) -> Capped:
        """Return the query of the clipped distance, for an answer of a rate in 1/(unit of points).

        Raises:
            ParameterError: if a side is so near that the query varies beyond it.
        """
        for side, end in zip(("below", "above"), varies_to(query), strict=True):
            if Fraction(getattr(self, side)) < end * rate:  # exact: all devices decide the same
                expected = f"at least {float(end * rate):g}, up to where the query varies"
                raise ParameterError(f"cap.{side}", getattr(self, side), expected)
        return Capped(query, Fraction(self.below) / rate, Fraction(self.above) / rate)


def varies_to(query: Query) -> tuple[Fraction, Fraction]:
    """Return how far outside and inside its boundary a query varies, in the unit of the points."""
    first, last = query.profile.settled
    outside = 0 if query.signed_range[0] == 0 else -first  # no distance to a centre is below 0
    return Fraction(outside), Fraction(last)


@dataclass(frozen=True, slots=True)
class Capped(Query):
    """A query of the clipped signed distance, made by `Cap.on`.

    `below` and `above` are the lengths ≥ 0, in the unit of the points, at which distances outside
    and inside are clipped.
    """

    query: Query
    below: Fraction
    above: Fraction

    @property
    def dimension(self) -> int:
        return self.query.dimension

    @property
    def profile(self) -> Profile:
        return self.query.profile

    def signed_distance(self, x: Real, ops: Arithmetic = FLOAT) -> Real:
        s = self.query.signed_distance(x, ops)
        return ops.clip(s, ops.constant(-self.below), ops.constant(self.above))

    @property
    def signed_range(self) -> tuple[Fraction | float, Fraction | float]:
        least, most = self.query.signed_range
        return max(-self.below, least), min(self.above, most)

    @property
    def attained_range(self) -> tuple[float, float]:
        least, most = self.query.attained_range
        return max(-float(self.below), least), min(float(self.above), most)

    @property
    def varies_within(self) -> tuple[tuple[Fraction, Fraction], ...] | None:
        return self.query.varies_within

    @property
    def nests(self) -> bool:
        # A perturbed number is clipped after its noise, which changes nothing where g is level.
        return self.query.nests and self.profile.settled[1] == self.profile.breakpoints[-1]

    @property
    def unclipped(self) -> Query:
        return self.query

    @property
    def clipping_bias(self) -> float:
        # φ settles from there on; no distance to a centre is below 0.
        sides = ((float(self.above), 1), (-float(self.below), 0))
        return max(
            abs(float(self.profile.value(end)) - self.profile.limits[side])
            for end, side in sides[: 1 if self.query.signed_range[0] == 0 else 2]
        )
