"""Nested noise: make the point of a coarser guarantee from that of a finer one [MATH §13].

Coarser noise is finer noise plus an independent rest, which `Coarsening` draws: one point answers
every coarser campaign at no further cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from flint import arb, fmpz

from geoveil.gp import validation
from geoveil.gp.arithmetic import Real
from geoveil.gp.arrays import ArrayLike, np
from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.exact import BALL, INT64_MAX, INT64_MIN, release_integers, saturated
from geoveil.gp.mechanisms.planar import DIMENSIONS, DIRECTIONS, PlanarLaplace
from geoveil.gp.not_private import Simulated, warn_beside_holder
from geoveil.gp.randomness import LazyUniform, RandomSource, chosen_source


@dataclass(frozen=True)
class Coarsening:
    """Noise that turns a point of a finer guarantee into one of a coarser guarantee.

    All answers made from one released point, in any order, together cost the rate of the finer
    guarantee [MATH §13].

    Args:
        finer: the mechanism that released the point.
        coarser: the mechanism of the result, of the same dimension and unit, and of at most the
            rate of the finer one. At an equal rate it only rounds to another grid.

    Raises:
        ParameterError: if dimensions or units differ, or `coarser` has the larger rate.
        UnsupportedError: if points are not released in that many dimensions.

    Example:
        >>> from geoveil.gp import GeoPrivacy, SeededSource
        >>> week = PlanarLaplace(GeoPrivacy(1.0, per=8_000.0, unit="dollar"), dimension=1)
        >>> year = PlanarLaplace(GeoPrivacy(1.0, per=32_000.0, unit="dollar"), dimension=1)
        >>> point = week.release(55_000.0, SeededSource(1))
        >>> coarse = Coarsening(week, year).release(point, SeededSource(2))
        >>> [round(k * m.step) for m, (k,) in ((week, point), (year, coarse))]
        [36338, 9329]
    """

    finer: PlanarLaplace
    coarser: PlanarLaplace

    def __post_init__(self) -> None:
        finer, coarser = self.finer, self.coarser
        for name, mechanism in (("finer", finer), ("coarser", coarser)):
            validation.require_kind(name, mechanism, PlanarLaplace)
            if mechanism.dimension not in DIMENSIONS:
                raise UnsupportedError(f"points are released in {DIMENSIONS} dimensions")
        if coarser.dimension != finer.dimension:
            raise ParameterError("coarser.dimension", coarser.dimension, str(finer.dimension))
        if coarser.privacy.unit != finer.privacy.unit:
            raise ParameterError("coarser.privacy.unit", coarser.privacy.unit, finer.privacy.unit)
        if coarser.privacy.exact_rate > finer.privacy.exact_rate:
            raise ParameterError(
                "coarser.privacy", str(coarser.privacy), f"a rate of at most {finer.privacy}"
            )

    @property
    def dimension(self) -> int:
        """The number of coordinates of a point, k."""
        return self.finer.dimension

    @property
    def share(self) -> Fraction:
        """The number ρ = (b₂/b₁)², in (0, 1]."""
        return (self.coarser.privacy.exact_rate / self.finer.privacy.exact_rate) ** 2

    def release(self, point: Sequence[int], source: RandomSource | None = None) -> tuple[int, ...]:
        """Return the point of the coarser guarantee: integers k that stand for k·`coarser.step`.

        It is the ideal sum of the point and the rest, correctly rounded [MATH §10] to the coarser
        of both grids: a finer one would show where the rest is 0, and so the point itself.

        Raises:
            ParameterError: if the point is not k integers of 64 bits.
        """
        source = chosen_source(source)
        uniforms = [LazyUniform(source) for _ in range(_RESTS[self.dimension][0])]
        start = _require_released(point, self.finer)
        exponent = max(self.finer.step_exponent, self.coarser.step_exponent)
        shift = exponent - self.coarser.step_exponent
        moved = release_integers(uniforms, lambda u: self._moved(start, u), exponent)
        return tuple(saturated(k << shift) for k in moved)

    def simulate(self, points: ArrayLike, rng: np.random.Generator) -> Simulated:
        """Return coarser points from finer ones, in their shape and float64. NOT private."""
        if not isinstance(rng, np.random.Generator):
            raise ParameterError("rng", rng, "a numpy.random.Generator")
        warn_beside_holder()
        z = validation.points(points, self.dimension)
        shape = z.shape if self.dimension == 1 else z.shape[:-1]
        k, rho = self.dimension, float(self.share)
        moves = rng.negative_binomial((k + 1) / 2, rho, shape) if rho < 1 else np.zeros(shape)
        normal = rng.standard_normal((*shape, k)).reshape(z.shape)
        length = np.sqrt(2 * rng.standard_gamma(moves)) / self.finer.privacy.rate
        return Simulated(z + (length if k == 1 else length[..., None]) * normal)

    def _moved(self, start: Sequence[int], u: Sequence[Real]) -> list[Real]:
        scale = BALL.constant(1 / self.coarser.privacy.exact_rate)
        rest = [BALL.constant(0)] * len(start)
        if self.share < 1:
            rest = _RESTS[self.dimension][1](u, BALL.constant(self.share))
        step = arb(2) ** self.finer.step_exponent
        return [arb(fmpz(k)) * step + scale * e for k, e in zip(start, rest, strict=True)]


def _require_released(point: Sequence[int], mechanism: PlanarLaplace) -> tuple[int, ...]:
    """Return the integers of a released point; refuse anything but k integers of 64 bits."""
    whole = tuple(
        k
        for k in point
        if isinstance(k, int) and not isinstance(k, bool) and INT64_MIN <= k <= INT64_MAX
    )
    if not len(whole) == len(point) == mechanism.dimension:
        raise ParameterError("point", point, f"{mechanism.dimension} integers of 64 bits")
    return whole


def _beyond(u: Real, atom: Real) -> Real:
    """Return 0 with probability `atom`, else an exponential random number, from one U."""
    zero = BALL.constant(0)
    # Where the atom is near 1 the share may reach below 0: it is then 0 without a logarithm.
    return BALL.piecewise(
        (1 - atom) / (1 - u),
        [BALL.constant(1)],
        [lambda _: zero, lambda share: BALL.maximum(zero, BALL.log(share))],
    )


def _rest_on_line(u: Sequence[Real], share: Real) -> list[Real]:
    """Return 0 with probability ρ, else Laplace noise."""
    return [_beyond(u[0], share) * sign for sign in DIRECTIONS[1][1](u[1:], BALL)]


def _rest_in_plane(u: Sequence[Real], share: Real) -> list[Real]:
    """Return √(2G)Z in units of b₁, G of [MATH §13] as a sum of two, |Z|²/2 exponential."""
    cosine, _ = BALL.turn(u[1] / 2)
    level = (1 + share + (1 - share) * cosine) / 2  # cos²φ + ρ sin²φ, φ uniform in (0, π/2)
    mixed = _beyond(u[0], share) + level * _beyond(u[2], share / level)
    length = 2 * BALL.sqrt(-mixed * BALL.log(u[3]))
    return [length * part for part in DIRECTIONS[2][1](u[4:], BALL)]


def _rest_in_space(u: Sequence[Real], share: Real) -> list[Real]:
    """Return 0, or a length of Gamma(2, 1) or Gamma(3, 1) in a uniform direction."""
    moved = BALL.piecewise(
        BALL.maximum(u[0], u[1]), [share], [lambda _: BALL.constant(0), lambda _: -BALL.log(u[2])]
    )
    length = _beyond(u[0], share) + _beyond(u[1], share) + moved
    return [length * part for part in DIRECTIONS[3][1](u[3:], BALL)]


_RESTS: Mapping[int, tuple[int, Callable[[Sequence[Real], Real], list[Real]]]] = MappingProxyType(
    {1: (2, _rest_on_line), 2: (5, _rest_in_plane), 3: (5, _rest_in_space)}
)
"""Dimension → how many uniform numbers E/b₁ takes for ρ < 1, and the function of them."""
