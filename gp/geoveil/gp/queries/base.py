"""The contract of a query: f(x) = φ(s(x)), a profile φ of a signed distance s (1-Lipschitz).

The distance holds the geometry of a region or centre, the profile a step or bell in one dimension.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction

from geoveil.gp import validation
from geoveil.gp.arithmetic import FLOAT, Arithmetic, Exact, Real
from geoveil.gp.arrays import ArrayLike, NDArray, np
from geoveil.gp.queries.profiles.base import Profile
from geoveil.gp.smooth.growth import DECAYS, Smoothness


class Query(ABC):
    """A function from points to numbers, whose mean over people is estimated."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of coordinates of a point."""

    @property
    @abstractmethod
    def profile(self) -> Profile:
        """φ, applied to the signed distance."""

    @abstractmethod
    def signed_distance(self, x: Real, ops: Arithmetic = FLOAT) -> Real:
        """Return s(x), 1-Lipschitz in the Euclidean metric; x is a checked point in `ops`."""

    @property
    def signed_range(self) -> tuple[Fraction | float, Fraction | float]:
        """Two numbers that bound s; a finite one is exact."""
        return -math.inf, math.inf

    @property
    def attained_range(self) -> tuple[float, float]:
        """A nearly tight range for laws of reports; no promise uses it."""
        least, most = map(float, self.signed_range)
        return least, most

    @property
    def unclipped(self) -> Query:
        """The query of the unclipped distance if a `Cap` clips it; otherwise this one."""
        return self

    @property
    def clipping_bias(self) -> float:
        """The largest change of f by clipping distances; 0 without clipping."""
        return 0.0

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Increasing distances s, in the unit of x: f is smooth between them, constant beyond."""
        return self.profile.breakpoints

    @property
    def lipschitz(self) -> float:
        """L = sup |f(x) − f(x')| / |x − x'|, in 1/(unit of x)."""
        return self.profile.lipschitz

    def clearance(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a lower bound of each point's distance to places where f varies; 0 at them.

        f is constant within the clearance, since s is 1-Lipschitz and φ settles at its outermost
        breakpoints. Checked points (n,) or (n, dimension) give distances (n,) in the unit of x.

        Example:
            >>> from geoveil.gp import Threshold
            >>> Threshold(at=100.0, width=8.0).clearance(np.array([50.0, 97.0, 110.0])).tolist()
            [46.0, 0.0, 6.0]
        """
        s, breakpoints = np.asarray(self.signed_distance(points, FLOAT)), self.breakpoints
        return np.maximum(np.maximum(breakpoints[0] - s, s - breakpoints[-1]), 0.0)

    @property
    def varies_within(self) -> tuple[tuple[Fraction, Fraction], ...] | None:
        """Exact intervals outside of which f is constant, in one dimension; None if unknown.

        Questions that vary in different places need less noise together.

        Example:
            >>> from geoveil.gp import Threshold
            >>> Threshold(at=100.0, width=8.0).varies_within
            ((Fraction(96, 1), Fraction(104, 1)),)
        """
        return None

    @property
    def nests(self) -> bool:
        """Whether `DebiasedLaplace` may answer from a perturbed number instead of a distance.

        It may on a line where s changes at the rate 1, and φ has no slope where s turns: f − b²f''
        is then the profile's own debiased form, of s [MATH §13].

        Example:
            >>> from geoveil.gp import Disc, Threshold
            >>> Threshold(at=100.0, width=8.0).nests, Disc((0.0, 0.0), 9.0, 4.0).nests
            (True, False)
        """
        return False

    def value(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return f(x), shape (n,), for points of any shape (dimension 1) or (..., dimension).

        Raises:
            PrivateValueError: if a coordinate is not finite or the shape does not fit.
        """
        points = validation.points(x, self.dimension)
        return np.asarray(self.profile.value(self.signed_distance(points, FLOAT), FLOAT))

    def smooth_bound(
        self, x: ArrayLike, beta: Exact, growth: str = "exponential", reach: float = 0.0
    ) -> NDArray[np.float64]:
        """Return B(x), at least the slope of f within `reach`, and smooth at rate `beta`.

        B(x) = sup_y L_Λ(y)/g(β|x−y|) with L_Λ the largest slope of a chord of length ≤ Λ from y
        [SGP Def. 9, Lemmas 3.1, 3.2].

        Args:
            x: points; any shape for dimension 1, else (..., dimension).
            beta: smoothness β > 0, in 1/(unit of x).
            growth: "exponential", g(t) = e^t, or "linear", g(t) = 1 + t.
            reach: Λ ≥ 0, in the unit of x: 0, which suffices for a pure guarantee, is the local
                slope; ∞ is the seed paper's choice [MATH §2].

        Returns:
            An array (n,), in 1/(unit of x).

        Raises:
            ParameterError: if beta, growth or reach is out of range.
            PrivateValueError: if a coordinate is not finite or the shape does not fit.
            UnsupportedError: if the profile has no bound for this growth and reach.
        """
        validation.positive("beta", beta)
        validation.choice("growth", growth, DECAYS)
        validation.non_negative("reach", reach)
        points = validation.points(x, self.dimension)
        distance = self.signed_distance(points, FLOAT)
        smoothness = Smoothness(beta, growth, reach)
        return np.asarray(self.profile.smooth_bound(distance, smoothness, FLOAT))
