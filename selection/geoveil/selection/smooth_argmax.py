"""The exact argmax of noisy utilities: bits are drawn until balls leave one outcome.

The noise of outcome r is a function of a uniform number U_r. Outcomes that are still in doubt draw
more bits.
"""

from collections.abc import Callable, Sequence

from geoveil.gp.arithmetic import Real
from geoveil.gp.errors import GeoVeilError
from geoveil.gp.exact.ball import BALL, working_precision
from geoveil.gp.exact.bits import LazyUniform

_GUARD_BITS = 32
_MOST_BITS = 1 << 16


def exact_argmax(
    utilities: Sequence[float],
    scale: Callable[[], Real],
    noise: Callable[[LazyUniform], Real],
    uniforms: Sequence[LazyUniform],
) -> int:
    """Return argmax u_r + scale · Z_r, drawn from exactly its distribution.

    Args:
        utilities: u, m ≥ 1 doubles.
        scale: encloses the scale, at the precision of the call.
        noise: encloses Z as a function of a uniform number.
        uniforms: U, one for each.
    """
    left = list(range(len(uniforms)))
    while len(left) > 1:
        with working_precision(uniforms[left[0]].count + _GUARD_BITS):
            size = scale()
            noisy = [BALL.private(utilities[r]) + size * noise(uniforms[r]) for r in left]
            # Noise that is not known at all is no number, and neither less nor greater.
            floors = [value.lower() for value in noisy if value.is_finite()]
            left = [
                r
                for r, value in zip(left, noisy, strict=True)
                if not any(value < floor for floor in floors)
            ]
        if len(left) > 1:
            if uniforms[left[0]].count >= _MOST_BITS:
                # A fair source gets here with probability below 2^-60000.
                raise GeoVeilError("the random source is broken: its bits decide nothing")
            for r in left:
                uniforms[r].refine()
    return left[0]
