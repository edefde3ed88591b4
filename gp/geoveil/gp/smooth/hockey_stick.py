"""The least Laplace noise, scaled to a linearly growing bound, that keeps ε and δ.

With d, c, t, D and h of [MATH §3] two points keep to δ if η ≤ (t/D)·arccosh(δ·e^{c/t}/h(t)), and
the other way round if η ≤ (c − log(1 + t))·b/|f(x) − f(x')|. `largest_eta` encloses the least of
these over all pairs of distances, by cells (s, s + g) that are split until it is known to a per
cent: B varies within a cell by at most the factor 1 + β·way, and f by at most B·way.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from geoveil.gp.arrays import Array, np
from geoveil.gp.queries.profiles.base import Profile
from geoveil.gp.smooth.frontier import Frontier
from geoveil.gp.smooth.growth import LINEAR, Smoothness

_NEAR = (2.0**-8, 2.0**-10, 2.0**-12)
"""Distances in length scales below which pairs are bounded all at once, tried in turn."""
_FAR = 2.0**10
"""The distance that counts as far, in lengths over which f varies and over which B halves."""
_TOLERANCE = 1 / 80
_MOST_CELLS = 1 << 20
"""The most cells; if they are not enough, the bound for all pairs at once is returned."""
_MOST_ABOVE = 1.02
"""Largest ratio of B to L, for `ClosedFormProfile.noise_bound` and certified bounds."""
_ROUNDING = 2.0**-36
"""Far above the relative error of float64 formulas of this length."""
_OF_VALUES = 2.0**-48
"""The same for values, relative to the largest: all that is left of a small range far from 0."""


@lru_cache(maxsize=512)
def largest_eta(profile: Profile, rate: float, delta: float, reach: float, beta: Fraction) -> float:
    """Return an η that keeps every pair of points within ε and δ, or 0.

    `rate` (ε) and `beta` > 0 are in 1/(unit of s), the reach Λ > 0 in the unit of s.
    """
    rate *= 1 - _ROUNDING
    slope = float(beta)
    everywhere = _within(reach, rate, delta, slope)
    if everywhere is None:
        return 0.0
    far = _FAR * (profile.band[1] - profile.band[0] + 1 / slope)
    pairs = _Pairs(profile, rate, delta, reach, beta)
    farthest = pairs.beyond(far) if reach > far else rate
    level = _level_within(profile, min(far, reach), rate, delta, reach, slope)
    best = everywhere
    for share in _NEAR:
        near = min(share * profile.length_scale, reach)
        nearest = _within(near, rate, delta, slope) or 0.0
        if near <= level:
            near = level
            nearest = rate
        least = min(nearest, farthest, pairs.aside(near, everywhere))
        if near < reach:
            least = pairs.least(near, min(far, reach), least) or 0.0
        best = max(best, least)
        # A shorter distance gains nothing if pairs farther apart decide, or η = ε.
        if least < nearest * (1 - _TOLERANCE) or nearest == rate:
            break
    return best * (1 - _ROUNDING)


def _log_h(t: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        log_h = np.where(t > 0, np.log(t) - np.log1p(t) - np.log1p(t) / t, -math.inf)
    return np.where(t == math.inf, 0.0, log_h)


def _unsure(profile: Profile) -> float:
    """Return how far the difference of two values may be off."""
    low, high = profile.bounds
    largest = max(abs(low), abs(high), profile.lipschitz * float(np.abs(profile.band).max()))
    away, change = profile.tails  # far out distances are rounded more, but f varies less
    beyond = np.minimum(_OF_VALUES * profile.lipschitz * away, 2 * change).max()
    return float(_ROUNDING * (high - low) + _OF_VALUES * largest + beyond)


def _tail_limit(ratio: Array, t: Array, rate: float, delta: float) -> Array:
    """Return τ·arccosh(δe^{ε/τ}/h(t)), the limit of ηD/d; 0 if even D = 0 is too much."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log = math.log(delta) + rate / ratio - _log_h(t)
        limit = ratio * (log + np.log1p(np.sqrt(-np.expm1(-2 * np.maximum(log, 0)))))
        return np.where(ratio > 0, np.where(log >= 0, limit, 0.0), rate)


def _within(distance: float, rate: float, delta: float, beta: float) -> float | None:
    """Return an η for pairs up to a distance apart, for any query; None for too large β."""
    log = math.log(delta) + rate / beta - float(_log_h(np.asarray(beta * distance)))
    if log < 0 or beta >= rate:
        return None
    if log == math.inf:
        return rate - beta
    tails = beta * (log + math.log1p(math.sqrt(-math.expm1(-2 * log))))
    return max(min(tails, rate - beta), 0.0)


def _level_within(
    profile: Profile, far: float, rate: float, delta: float, reach: float, beta: float
) -> float:
    """Return a distance up to `far` within which η = ε suffices, or 0.

    B is level where f varies. With one point at depth i in the band, the other o outside, D ≤
    i(1 + βo) and t ≤ βo, so that (c − ηD)/t ≥ ε/β − εi. The other way round, ηi + log(1 + βo) ≤
    ε(i + o). On different sides, a and a + o outside, D ≤ w(1 + β(a + o)) and t ≤ βo, so that
    (c − ηD)/t ≥ ε/β − εw for βw ≤ 2, and it never is below 0. The other way round, η(w + a) +
    log(1 + βo) ≤ ε(w + 2a + o).
    """
    if profile.frontier(LINEAR, reach) is not Frontier.CROSS or beta > rate:
        return 0.0
    distances = far * np.exp2(-np.arange(64.0))
    enough = _log_h(beta * distances) + rate * distances - rate / beta <= math.log(delta)
    return float(distances[enough].max(initial=0.0))


class _Pairs:
    """The pairs of a profile, and the least limit over them."""

    def __init__(
        self, profile: Profile, rate: float, delta: float, reach: float, beta: Fraction
    ) -> None:
        self._profile = profile
        self._rate = rate
        self._delta = delta
        self._smoothness = Smoothness(beta, LINEAR, reach)
        self._slope = float(beta)
        self._unsure = _unsure(profile)
        self._span = float(np.ptp(profile.bounds))
        self._nodes = np.linspace(*profile.band, 65)
        self._peak = float(self._bound(self._nodes).max())

    def beyond(self, far: float) -> float:
        """Return an η for pairs farther than `far` apart, on different sides of where f varies.

        They are g apart, and x' at most g + W from each place where f varies: b' is at least what
        smoothness and, for Λ = ∞, a chord say. c/t and t/D increase with g, so g = `far` decides.
        h(t) increases, too, up to h(βΛ).
        """
        reach = self._smoothness.reach
        way = far + self._nodes[-1] - self._nodes[0]
        least = self._peak / (1 + self._slope * way)
        if reach == math.inf:
            low, high = self._profile.value_bounds(np.append([-math.inf, math.inf], self._nodes))
            rise = np.maximum(low[2:].max() - high[:2], low[:2] - high[2:].min()).min()
            least = max(least, (rise - self._profile.tails[1].max() - self._unsure) / way)
        t = min(self._slope * far, _MOST_ABOVE * self._profile.lipschitz / least - 1)
        largest = np.asarray(self._slope * reach)
        limit = float(_tail_limit(np.asarray(t / far), largest, self._rate, self._delta))
        tails = limit * far * least / self._span
        pure = (self._rate * far - math.log1p(self._slope * far)) * self._peak / self._span
        return min(tails, pure) if tails > 0 and pure > 0 else 0.0  # 0 for NaN

    def aside(self, near: float, everywhere: float) -> float:
        """Return an η for pairs on one side of the band, at least `near` apart.

        `everywhere` is one for D ≤ d, so a multiple of it for a share of d. If x is up to z from
        the peak of B then x' is up to z + d, and b' is at least what smoothness says.
        """
        distance, change = self._profile.tails
        share = change * ((1 + self._slope * distance) / near + self._slope) / self._peak
        return everywhere / float(share.max()) if share.any() else self._rate

    def least(self, near: float, far: float, lowest: float) -> float | None:
        """Return a lower bound of the limits of pairs from `near` to `far` apart, at most `lowest`.

        Except those on one side of the band: see `aside`. On a ray pairs at one angle suffice:
        others at the same two distances are farther apart.
        """
        cells = self._first_cells(near, far)
        least, seen = lowest, 0
        while cells.shape[1]:
            seen += cells.shape[1]
            if seen > _MOST_CELLS:
                return None
            low, middle = self._limits(cells)
            lowest = min(lowest, float(middle.min()))
            settled = low >= lowest * (1 - _TOLERANCE)
            least = min(least, float(low[settled].min(initial=math.inf)))
            start, end, shortest, longest = cells[:, ~settled]
            half, root = (start + end) / 2, np.sqrt(shortest * longest)
            cells = np.concatenate(
                [
                    np.stack([a, b, c, d])
                    for a, b in ((start, half), (half, end))
                    for c, d in ((shortest, root), (root, longest))
                ],
                axis=1,
            )
        return least

    def _first_cells(self, near: float, far: float) -> Array:
        first, last = self._profile.band
        count = max(1, math.ceil(math.log2(far / near)))
        ends = near * np.exp2(np.arange(count + 1) * (math.log2(far / near) / count))
        ends[0], ends[-1] = near, far
        cells = []
        for shortest, longest in pairwise(ends):
            parts = math.ceil(4 * (last - first + longest) / shortest)
            if parts > _MOST_CELLS:
                return np.zeros((4, _MOST_CELLS + 1))
            s = np.linspace(first - longest, last, parts + 1)
            cells.append(
                np.stack([s[:-1], s[1:], np.full(parts, shortest), np.full(parts, longest)])
            )
        return np.concatenate(cells, axis=1)

    def _bound(self, s: Array) -> Array:
        return np.asarray(self._profile.noise_bound(s, self._smoothness))

    def _limits(self, cells: Array) -> tuple[Array, Array]:
        """Return lower bounds of η over cells, and η at a pair within each."""
        start, end, shortest, longest = cells
        s, gap = (start + end) / 2, (shortest + longest) / 2
        way = (end - start) / 2
        other_way = way + (longest - shortest) / 2
        value, bound = self._profile.value_bounds(s), self._bound(s)
        other, other_bound = self._profile.value_bounds(s + gap), self._bound(s + gap)
        change = np.maximum(value[1] - other[0], other[1] - value[0])
        middle = self._limit(change, (bound, bound), (other_bound, other_bound), gap, gap)
        most = change + bound * way + other_bound * other_way
        most = np.minimum(most, self._span) + self._unsure
        factor, other_factor = 1 + self._slope * way, 1 + self._slope * other_way
        low = self._limit(
            most,
            (bound / factor, bound * factor),
            (other_bound / other_factor, other_bound * other_factor),
            shortest,
            longest,
        )
        return low, middle

    def _limit(
        self,
        change: Array,
        bound: tuple[Array, Array],
        other: tuple[Array, Array],
        shortest: Array,
        longest: Array,
    ) -> Array:
        """Return the least limit for |Δf| ≤ change, bounds and gaps in intervals, both ways."""
        beta, rate = self._slope, self._rate
        limit = np.full(change.shape, math.inf)
        for (large_low, large_high), small_low in ((bound, other[0]), (other, bound[0])):
            t = np.maximum(large_high / small_low - 1, 0) + _ROUNDING
            t = np.minimum(t, beta * longest)
            ratio = np.minimum(beta, t / shortest)
            tails = _tail_limit(ratio, t, rate, self._delta)
            pure = rate - np.minimum(beta, np.log1p(t) / shortest)
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                tails = tails / np.minimum(change / (small_low * shortest), 1)
                pure = pure / np.minimum(change / (large_low * shortest), 1)
            limit = np.minimum(limit, np.minimum(tails, pure))
        return np.where(change > 0, limit, math.inf)
