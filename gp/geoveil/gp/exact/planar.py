"""Noise in k dimensions with density ∝ e^{−|N|}, as balls around what uniform numbers say.

The radius is Gamma(k, 1), the sum of k exponentials −log U; the direction is uniform: a sign, an
angle, or by Archimedes a height and an angle. All numbers are refined together [MATH §5.2, §10].
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from geoveil.gp.arithmetic import Real
from geoveil.gp.exact.ball import BALL


def _sign(u: Sequence[Real]) -> list[Real]:
    """Return −1 or 1."""
    one = BALL.constant(1)
    return [BALL.piecewise(u[0], [BALL.constant(0.5)], [lambda _: -one, lambda _: one])]


def _angle(u: Sequence[Real]) -> list[Real]:
    """Return a point of the circle."""
    return list(BALL.turn(u[0]))


def _height_and_angle(u: Sequence[Real]) -> list[Real]:
    """Return a point of the sphere, whose height is uniform in [−1, 1]."""
    height = 2 * u[0] - 1
    ring = BALL.sqrt(4 * u[0] * (1 - u[0]))
    return [ring * part for part in BALL.turn(u[1])] + [height]


_DIRECTIONS: Mapping[int, tuple[int, Callable[[Sequence[Real]], list[Real]]]] = MappingProxyType(
    {1: (1, _sign), 2: (1, _angle), 3: (2, _height_and_angle)}
)

DIMENSIONS = tuple(_DIRECTIONS)
"""The k for which noise can be released."""


def uniforms_needed(dimension: int) -> int:
    """Return how many uniform numbers make one noise vector."""
    return dimension + _DIRECTIONS[dimension][0]


def planar_noise(u: Sequence[Real]) -> list[Real]:
    """Return the coordinates of a noise vector, from the uniform numbers for its dimension."""
    dimension = next(k for k in DIMENSIONS if uniforms_needed(k) == len(u))
    radius = BALL.constant(0)
    for share in u[:dimension]:
        radius = radius - BALL.log(share)
    return [radius * part for part in _DIRECTIONS[dimension][1](u[dimension:])]
