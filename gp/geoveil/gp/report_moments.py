"""Bound the skewness of reports by the law of a mechanism, whoever the people are [MATH §8].

The moments (E y, E y², E y³) of a population's reports lie in the convex hull of those of all
values x. So mean and variance leave little room for the third moment.
"""

from __future__ import annotations

from dataclasses import dataclass

from geoveil.gp.arrays import Array, np
from geoveil.gp.lazy import lazy

__all__ = ["MomentsAskedOnce", "ReportMoments"]

_SIMPLEX = 4
"""The fewest points of a hull; if there are fewer, they are repeated."""
_STEEP = 1e-9
"""Height, of a facet's unit normal, below which it stands upright and bounds no third moment."""
_RESOLVED = 1e-9
"""Mean square distance below which a ratio of moments is only rounding error, relative to the sum
of the squares that cancel, or to the largest one if that is less."""
_HALVINGS = 60
_ROUNDING = 1e-12
_MOST_CORNERS = 200
"""Height below a plane, share of a corner and number of corners at which a search ends."""


@dataclass(frozen=True, eq=False)
class ReportMoments:
    """The first three moments of a report, for people everywhere.

    Example:
        >>> answers = ReportMoments(np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.5, 0.5, 0.5]]))
        >>> [round(end, 6) for end in answers.third(0.25, 0.25 * 0.75)]  # p(1 − p)(1 − 2p)
        [0.09375, 0.09375]
        >>> answers.jumps(0.25)
        (-0.25, 0.75)
    """

    points: Array
    """E y, E y² and E y³, shape (m, 3), whose convex hull contains everybody's moments."""
    laws: int | None = None
    """How many of the first are moments of laws that everybody's law mixes; None for all."""
    noise: Array | None = None
    """The least and greatest variance of each, (2, m); (E y, E y², E y³, Var y) is in a hull."""
    loose: bool = False
    """Whether the search for them ended so early that they may be wide of people by over 5 %."""
    origin: float = 0.0
    """The report from which y is measured: near all, their moments don't cancel."""

    def joined(self, other: ReportMoments) -> ReportMoments:
        """Return the moments in the hull of both sets of points, which have one origin."""
        both = (self, other)
        order = [(of, slice(of.laws)) for of in both]
        order += [(of, slice(of.laws, None)) for of in both if of.laws is not None]
        points = [of.points[part] for of, part in order]
        noise = None
        if self.noise is not None and other.noise is not None:
            noise = np.concatenate([of.variances[:, part] for of, part in order], axis=1)
        laws = len(points[0]) + len(points[1])
        return ReportMoments(
            np.concatenate(points), laws, noise, self.loose or other.loose, self.origin
        )

    def third(self, mean: float, variance: float) -> tuple[float, float]:
        """Return the least and the greatest third central moment of a population's reports.

        `variance` is that of a report, noise and people together. Where no population has this mean
        and so small a variance, the two are near those of a population that exists.
        """
        mean = mean - self.origin
        thirds = sorted(self._raw_third(mean, variance + mean * mean))
        low, high = (third - 3 * mean * variance - mean**3 for third in thirds)
        return low, high

    def _raw_third(self, mean: float, second: float) -> tuple[float, float]:
        """Return the bounds of E y³, by the hull."""
        at = np.array([1.0, mean, second])
        lower, upper = self._facets
        # Where noise is so large that all have nearly the same E y², no facet may bound E y³.
        return float((lower @ at).max(initial=-np.inf)), float((upper @ at).min(initial=np.inf))

    def jumps(self, mean: float) -> tuple[float, float]:
        """Return the bounds of E(y − mean)³/E(y − mean)² and of E y − mean over all people.

        One person who was not met moves a sum by about as much; noise may point the other way.
        """
        mean = mean - self.origin
        first, second, third = self.points[: self.laws].T
        square = second - 2 * mean * first + mean**2
        cube = third - 3 * mean * second + 3 * mean**2 * first - mean**3
        resolved = square > _RESOLVED * np.minimum(second + mean**2, square.max())
        ratios = np.concatenate([cube[resolved] / square[resolved], first - mean])
        return float(ratios.min()), float(ratios.max())

    @property
    def greatest_spread(self) -> float:
        """The greatest variance of a population's reports, noise and people together.

        For any c it is at most the largest E(y − c)²; for the best c some population attains that.
        """
        first, second = self.points.T[:2]
        low, high = float(first.min()), float(first.max())
        for _ in range(_HALVINGS):  # c² + max(E y² − 2c E y) is convex
            middle = (low + high) / 2
            if first[np.argmax(second - 2 * middle * first)] > middle:
                low = middle
            else:
                high = middle
        return float((second - 2 * high * first).max() + high * high)

    @property
    def variances(self) -> Array:
        """The least and the greatest variance at each of the points, shape (2, m)."""
        assert self.noise is not None  # those of one mechanism have them
        return self.noise

    @property
    def _scales(self) -> Array:
        return np.asarray(np.maximum(np.abs(self.points).max(axis=0), 1e-300))

    @lazy
    def _facets(self) -> tuple[Array, Array]:
        """Planes (a, b, c) with a + b·E y + c·E y² below, and above, all third moments."""
        from scipy.spatial import ConvexHull  # only where there are so few reports that it matters

        scales = self._scales
        scaled = np.resize(self.points / scales, (max(len(self.points), _SIMPLEX), 3))
        # Joggled, as all answers may lie in a plane, which is then put right.
        normals = ConvexHull(scaled, qhull_options="QJ Pp").equations
        facets = []
        for sign in (-1.0, 1.0):
            facing = normals[sign * normals[:, 2] > _STEEP]
            planes = -facing[:, [3, 0, 1]] / facing[:, 2:3]
            beyond = sign * (scaled[:, 2] - planes[:, 0, None] - planes[:, 1:] @ scaled[:, :2].T)
            planes[:, 0] += sign * np.maximum(beyond.max(axis=1), 0.0)
            facets.append(planes * scales[2] / np.array([1.0, *scales[:2]]))
        return facets[0], facets[1]


class MomentsAskedOnce(ReportMoments):
    """The moments for a single population, with facets computed for it alone, without SciPy."""

    def _raw_third(self, mean: float, second: float) -> tuple[float, float]:
        x, z, t = (self.points / self._scales).T
        x, z = x - mean / self._scales[0], z - second / self._scales[1]
        low, high = (_height_over_origin(x, z, sign * t) for sign in (1.0, -1.0))
        if low is None or high is None:
            return super()._raw_third(mean, second)
        return low * float(self._scales[2]), -high * float(self._scales[2])


def _height_over_origin(x: Array, z: Array, t: Array) -> float | None:
    """Return the height of the lower hull of points (x, z, t) over (0, 0); None if not there."""
    angles = np.arctan2(z, x)
    first = int(np.argmax(np.hypot(x, z)))
    opposite = np.mod(angles - angles[first], 2 * np.pi) - np.pi
    left = int(np.argmin(np.where(opposite >= 0, opposite, np.inf)))
    right = int(np.argmax(np.where(opposite <= 0, opposite, -np.inf)))
    corners = [first, left, right]
    columns = np.stack([np.ones_like(x), x, z])
    for _ in range(_MOST_CORNERS):
        try:
            inverse = np.linalg.inv(columns[:, corners])
        except np.linalg.LinAlgError:
            return None
        weights = inverse[:, 0]
        if not (weights >= -_ROUNDING).all():
            return None
        plane = t[corners] @ inverse
        above = t - plane @ columns
        lowest = int(np.argmin(above))
        if above[lowest] >= -_ROUNDING:
            return float(plane[0] + min(above[lowest], 0.0))
        change = inverse @ columns[:, lowest]
        with np.errstate(divide="ignore", invalid="ignore"):
            lasts = np.where(change > _ROUNDING, weights / change, np.inf)
        corners[int(np.argmin(lasts))] = lowest
    return None
