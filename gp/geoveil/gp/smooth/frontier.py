"""The exact privacy frontier of f(x) + (B(x)/η)·Z [MATH §3].

Along the segment between two points the log-density changes at most at the rate
bβ|uψ(u)−1| + aηψ(u), with ψ = −(log h)' the score of the noise, a = |∇f|/B and b = |∇ log B|/β.
Which (a, b) a query attains is its frontier; the largest η for which the rate stays within ε
everywhere is the calibration. Rates are in units of ε here: ε = 1 and β is the fraction β/ε.
"""

import math
from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.errors import ParameterError, UnsupportedError


class Frontier(Enum):
    """The set of (a, b) that a query attains."""

    CROSS = "cross"
    """f and B never change at the same point: K = {(1,0), (0,1)}. The straight ramp."""
    RECTANGLE = "rectangle"
    """K = [0,1]²: valid for every query, attained by the Gaussian kernel."""

    @property
    def default_beta_fraction(self) -> float:
        """β/ε that serves most priors well [MATH §4]."""
        return {Frontier.CROSS: 0.3, Frontier.RECTANGLE: 0.15}[self]


class Scored(Protocol):
    """What calibration needs to know of a noise family."""

    @property
    def dilation(self) -> float:
        """Supremum of |uψ(u) − 1|: the price of a change of scale. Infinite if unbounded."""
        ...

    @property
    def sliding(self) -> float:
        """Supremum of ψ(u): the price of a shift, in 1/(unit of the noise)."""
        ...

    @property
    def tuned(self) -> tuple[Frontier, float] | None:
        """The frontier and β/ε that this noise meets with equality at η = sliding⁻¹, if any."""
        ...

    def score(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ψ(u) for u > 0."""
        ...

    def __hash__(self) -> int:
        """Of what it is, which never changes: calibrations are remembered."""
        ...


def require_dilation(noise: Scored, beta_fraction: float) -> None:
    """Refuse a noise that no η makes private at this β."""
    if noise.dilation == math.inf:
        raise UnsupportedError(
            f"{noise!r} has no power-law tail, so a data-dependent scale is not ε-GP for any"
            " beta > 0: use LipschitzMechanism, or a noise of the families best for a frontier"
        )
    # The comparison is in doubles: a noise tuned to this very fraction meets it with equality.
    if noise.tuned is not None and noise.tuned[1] == beta_fraction:
        return
    if beta_fraction * noise.dilation > 1:
        raise ParameterError(
            "beta / rate",
            beta_fraction,
            f"in (0, {1 / noise.dilation:.6g}] for the noise {noise!r}",
        )


def exact_eta(noise: Scored, frontier: Frontier, beta_fraction: float) -> float:
    """Return the largest η (in units of ε) that keeps the rate within ε.

    Args:
        noise: a noise family member.
        frontier: what the query attains.
        beta_fraction: β/ε in (0, 1].

    Raises:
        UnsupportedError: if the noise cannot be private with a data-dependent scale.
        ParameterError: if β is too large for this noise.
    """
    require_dilation(noise, beta_fraction)
    if frontier is Frontier.CROSS or noise.tuned == (frontier, beta_fraction):
        return 1 / noise.sliding
    return _rectangle_eta(noise, beta_fraction)


def paper_eta(noise: Scored, frontier: Frontier, beta_fraction: float) -> float:
    """Return η of ε = dilation·β + sliding·η, the two suprema taken apart [SGP 3.3, 3.5].

    The frontier plays no part: the sum is sufficient for both.
    """
    require_dilation(noise, beta_fraction)
    if noise.tuned is not None:
        raise UnsupportedError(f"{noise!r} is calibrated exactly only; it is not in the paper")
    eta = (1 - noise.dilation * beta_fraction) / noise.sliding
    if eta <= 0:
        raise ParameterError(
            "beta / rate",
            beta_fraction,
            f"in (0, {1 / noise.dilation:.6g}) for the paper's calibration",
        )
    return eta


CALIBRATIONS = {"exact": exact_eta, "paper": paper_eta}
"""Name of a calibration → (noise, frontier, β/ε) ↦ η/ε."""


@lru_cache(maxsize=1024)
def _rectangle_eta(noise: Scored, beta_fraction: float) -> float:
    """Minimise (1 − β|uψ−1|)/ψ over u > 0."""

    def slack(u: NDArray[np.float64]) -> NDArray[np.float64]:
        score = noise.score(u)
        with np.errstate(divide="ignore", over="ignore"):
            return np.asarray((1 - beta_fraction * np.abs(u * score - 1)) / score)

    best = least_slack(slack, noise)
    if best <= 0:
        raise ParameterError(
            "beta / rate", beta_fraction, f"smaller: no scale of the noise {noise!r} is private"
        )
    # Down by far more than the rounding of doubles, so that the guarantee is never exceeded.
    return best * (1 - 1e-12)


def least_slack(
    slack: Callable[[NDArray[np.float64]], NDArray[np.float64]], noise: Scored
) -> float:
    """Return the minimum of a function of u > 0: a fine grid, then shrinking ones at its minima."""
    grid = np.logspace(-12, 12, 24_001) / noise.sliding  # in units of the noise itself
    values = slack(grid)
    best = math.inf
    for index in np.argsort(values)[:8]:
        low, high = grid[max(index - 1, 0)], grid[min(index + 1, len(grid) - 1)]
        for _ in range(12):
            fine = np.linspace(low, high, 65)
            found = slack(fine)
            at = int(np.argmin(found))
            low, high = fine[max(at - 1, 0)], fine[min(at + 1, 64)]
            best = min(best, float(found[at]))
    return best
