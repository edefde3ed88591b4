"""The exact privacy frontier of f(x) + (B(x)/η)·Z [MATH §3].

The frontier is the set of (a, b), a = |∇f|/B and b = |∇ log B|/β, that a query attains; the
calibration is the largest η that keeps the rate bβ|uψ(u)−1| + aηψ(u) within ε. Here ε = 1 and β is
the fraction β/ε. [MATH §7] has the rate of several reports.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from enum import Enum
from fractions import Fraction
from types import MappingProxyType
from typing import ClassVar, Protocol

from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.exact import round_down
from geoveil.gp.reprs import enum_repr

_LEAST = Fraction(1, 10**6)
"""Least η, relative to 1/max_score, since a smaller one is a rounding error."""
_KEPT = Fraction(3, 4)
"""Fraction of the largest η, 1/max_score, that the default β of a chosen noise leaves."""
_PARTS = 1024
"""Number of equal steps to the largest β; the default β is one of them."""


class Frontier(Enum):
    """The set of (a, b) that a query attains."""

    __repr__ = enum_repr

    CROSS = "cross"
    """f and B never change at the same point: K = {(1,0), (0,1)}. The straight ramp."""
    RECTANGLE = "rectangle"
    """K = [0,1]²: valid for every query, attained by the Gaussian kernel."""

    @property
    def default_beta_fraction(self) -> float:
        """The default β/ε, which suits most priors [MATH §4]."""
        return {Frontier.CROSS: 0.3, Frontier.RECTANGLE: 0.15}[self]


class Scored(Protocol):
    """The interface of `Noise` for calibration."""

    in_the_paper: ClassVar[bool]

    @property
    def exact_scale_cost(self) -> Fraction | None:
        """Supremum of |uψ(u) − 1|: the price of a change of scale. None if unbounded."""
        ...

    def least_quotient(self, constant: Fraction, factor: Fraction) -> Fraction:
        """Return the infimum over u > 0 of (constant + factor·uψ(u))/ψ(u), rounded down."""
        ...


def exact_eta(noise: Scored, frontier: Frontier, beta: Fraction, reports: int = 1) -> Fraction:
    """Return the largest η (in units of ε) that keeps the rate within ε, rounded down.

    `beta` is β/ε > 0. The frontier of several reports is the rectangle.

    Raises:
        UnsupportedError: if the noise cannot be private with a data-dependent scale.
        ParameterError: if β is too large for this noise.
    """
    scale_cost = _affordable(noise, beta, reports)
    if frontier is Frontier.CROSS:
        return noise.least_quotient(Fraction(1), Fraction(0))
    others = (reports - 1) * scale_cost
    rising = noise.least_quotient(1 - beta * (others - 1), -beta)
    falling = noise.least_quotient(1 - beta * reports, beta)
    return _enough(min(rising, falling), noise, beta, reports * scale_cost)


def paper_eta(noise: Scored, frontier: Frontier, beta: Fraction, reports: int = 1) -> Fraction:
    """Return η of ε = m·scale_cost·β + max_score·η, by separate suprema [SGP 3.2, 3.3, 3.5].

    It suffices for both frontiers. Arguments and errors as `exact_eta`.
    """
    price = reports * _affordable(noise, beta, reports)
    if not noise.in_the_paper:
        raise UnsupportedError(f"{noise!r} is calibrated exactly only; it is not in the paper")
    return _enough(noise.least_quotient(1 - price * beta, Fraction(0)), noise, beta, price)


Calibration = Callable[[Scored, Frontier, Fraction, int], Fraction]

CALIBRATIONS: Mapping[str, Calibration] = MappingProxyType({"exact": exact_eta, "paper": paper_eta})
"""Name of a calibration → (noise, frontier, β/ε, number of reports) ↦ η/ε."""


def default_fraction(
    noise: Scored, frontier: Frontier, calibration: str, reports: int = 1
) -> float:
    """Return the largest β/ε that leaves three quarters of η, for a user's choice of noise.

    More β lets the bound fall off faster and leaves less for η. The noise is nowhere more than 4/3
    times as wide as it could be, and its variance over bands, bells and populations within 12 % of
    the best single β for the families here (`tests/gp/test_frontier.py`). Errors as `exact_eta`.
    """
    most = 1 / (reports * _affordable(noise, Fraction(0), reports))
    least = _KEPT * noise.least_quotient(Fraction(1), Fraction(0))

    def beta(part: int) -> float:
        return round_down(most * part / _PARTS)

    def leaves_too_little(part: int) -> bool:
        try:
            return CALIBRATIONS[calibration](noise, frontier, Fraction(beta(part)), reports) < least
        except ParameterError:  # next to nothing
            return True

    return beta(bisect_left(range(1, _PARTS + 1), True, key=leaves_too_little))


def _affordable(noise: Scored, beta: Fraction, reports: int) -> Fraction:
    """Return the scale cost of a noise, and refuse a noise that no η makes private at this β."""
    scale_cost = noise.exact_scale_cost
    if scale_cost is None:
        raise UnsupportedError(
            f"{noise!r} has no power-law tail, so a data-dependent scale is not ε-GP for any"
            " beta > 0: use LipschitzMechanism, or one of the noises that are best for a frontier"
        )
    if beta * reports * scale_cost > 1:
        raise _too_large(noise, beta, reports * scale_cost, "]")
    return scale_cost


def _enough(eta: Fraction, noise: Scored, beta: Fraction, price: Fraction) -> Fraction:
    """Return η, or refuse a negligible one."""
    if eta <= _LEAST * noise.least_quotient(Fraction(1), Fraction(0)):
        raise _too_large(noise, beta, price, ")")
    return eta


def _too_large(noise: Scored, beta: Fraction, price: Fraction, end: str) -> ParameterError:
    most = round_down(1 / price)
    return ParameterError(
        "beta / rate", float(beta), f"in (0, {most!r}{end} for the noise {noise!r}"
    )
