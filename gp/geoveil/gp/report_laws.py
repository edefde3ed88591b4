"""Enclose the law of a report, for people at every distance, by points [MATH §8].

A noisy distance that starts in a cell leaves it through one of its ends, or ends inside with a
small probability. Cells are those of the profile; those that stick out of the hull of the others
are cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TypeAlias, TypeVar

from geoveil.gp._convolution import one_sided
from geoveil.gp.arrays import Array, NDArray, distinct, np
from geoveil.gp.queries.profiles import Profile
from geoveil.gp.report_moments import ReportMoments

_MOST_CELLS, _FEW, _ROUNDS, _MOST_PARTS = 2_048, 1_400, 8, 8
"""The most cells and rounds, the number of cells that counts as few, and the most parts of one."""
_TIGHT = 1.00005
"""Ratio of a bound to the attained value at which a search ends."""
_BLOCK = 2**15
"""The most numbers computed at once."""
_FARTHER, _LEAST = 1.1, 1e-6
"""Outward move of corners, in multiples of half a box, and relative to the largest moment."""
_OUT, LOOSEST, _CLOSER, _APART, _LEVEL = 1 / 100, 5.0, 10, 0.1, 1e-9
_WAYS = tuple(product((-1.0, 0.0, 1.0), repeat=4))
"""How far cells may stick out, relative to the spread of people in a direction, how many times as
far the law counts as loose, and the stricter factor for profiles. A direction counts as at least
`_APART` of an axis, an axis as `_LEVEL` of its moments; then the directions, in multiples of the
axes of all people."""
_NOISES, _LARGE, _WIDTHS = 64, 1000, 64
"""Parts of a variance, of the largest and of the range of means that a cell of a profile may leave
open."""
_SLACK = 0.002
"""Enlargement of half a box, relative to its distance from moments that are 0 or 1."""

_LONG = 16
"""Cells that are longer than this, in lengths over which noise changes, get more edges first."""

Indices: TypeAlias = "NDArray[np.intp]"
_Seen = TypeVar("_Seen")


@lru_cache(maxsize=256)
def law_of_profile(
    profile: Profile | _Between,
    scale: float,
    undone: float,
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> ReportMoments:
    """Return points whose hull contains the moments of g(s + Laplace(b)), for all s.

    `scale` is b > 0, in the unit of s, and `undone` b, or 0 for g = φ; `limits` are two distances
    that s never leaves.
    """
    profile, shift = profile.near_zero()
    limits = limits[0] - shift, limits[1] - shift
    nodes = profile.cells(undone)
    levels = profile.debiased(_beyond(nodes), undone) - profile.origin
    before, after = (float(level) for level in levels)
    least, most = max(limits[0], 0.0) if getattr(profile, "ray", False) else limits[0], limits[1]

    def look(nodes: Array) -> tuple[tuple[Array, ...], Array]:
        powers, noise = _smoothed(profile, nodes, scale, undone, (before, after))
        g, h = profile.ranges(nodes, undone)
        g = g - profile.origin
        spread = np.cosh(np.minimum(np.diff(nodes) / (2 * scale), 40.0))[:, None]
        kept, other = 1 - 1 / spread, 1 / (2 * spread * (1 + spread))
        own = 1 - kept - other
        people = np.column_stack([powers, noise])
        ways = _ways(people)
        heights = people @ ways.T
        low, high = np.sort([heights[:-1], heights[1:]], axis=0)
        inner = np.max([corner @ ways[:, :3].T for corner in _corners(*g)], axis=0)
        inner = inner + np.max([end[:, None] * ways[:, 3] for end in h], axis=0)
        high = own * high + other * low + kept * inner
        out = _CLOSER * _above(high, heights.max(axis=0))
        # From the mean and the variance of reports the noise follows, however little it is.
        # Of a mean next to the least or the greatest hardly anybody is elsewhere.
        mean = people[:, 0]
        span = max(np.ptp(mean), 1e-300)
        away = np.minimum(mean - mean.min(), mean.max() - mean) / span
        little = np.minimum(np.minimum(away[:-1], away[1:]) / _NOISES, 1 / _LARGE)
        close = np.minimum(noise[:-1], noise[1:]) / _NOISES + noise.max() * little
        unknown = (h[1] - h[0]) / np.maximum(close, 1e-300)
        bent = np.square((g[1] - g[0]) * (_WIDTHS / span))
        inside = kept[:, 0] * np.maximum(unknown, bent)
        seen = people, g, h, own, other, kept, out.max(keepdims=True)
        return seen, np.maximum(out, np.minimum(inside, 4.0))

    nodes = beside_ends(distinct(np.clip(nodes, least, most)), scale)
    nodes, seen = cut_while_loose(nodes, look, 2 * _MOST_CELLS)
    people, g, h, own, other, kept, out = seen
    # Beyond the outermost nodes g is level: noise leads back to them, or does not.
    back = np.exp(-np.maximum([nodes[0] - least, most - nodes[-1]], 0.0) / scale)[:, None]
    levels = np.array([[level, level**2, level**3, 0.0] for level in (before, after)])
    laws = np.concatenate([people, back * people[[0, -1]] + (1 - back) * levels])
    ends = people[:-1], people[1:]
    first, second, third, fourth = _corners(*g)
    mixed = [
        own * near + other * far + kept * np.column_stack([corner, h[0]])
        for corner in (first, fourth, second, third)
        for near, far in (ends, ends[::-1])
    ]
    count, points = len(laws) + 4 * len(g[0]), np.concatenate([laws, *mixed])
    noise = np.stack([points[:, 3]] * 2)
    noise[1, len(laws) :] += np.tile(kept[:, 0] * (h[1] - h[0]), len(mixed))
    # Without its bias undone, φ has no variance that is a mean of variances.
    loose = bool(out > LOOSEST * _CLOSER)
    return ReportMoments(points[:, :3], count, noise if undone else None, loose, profile.origin)


@dataclass(frozen=True)
class _Between:
    """A range on the line, as two steps at its ends minus 1; where one varies the other is 1."""

    profile: Profile
    length: float
    origin = 0.0

    def cells(self, b: float) -> Array:
        edges = self.profile.cells(b)
        return distinct(np.concatenate([edges, self.length - edges]))

    def near_zero(self) -> tuple[_Between, float]:
        return self, 0.0

    def panels(self, b: float) -> Array:
        return self.cells(b)

    def ranges(self, edges: Array, b: float) -> tuple[Array, Array]:
        low, high = self.profile.ranges(edges, b), self.profile.ranges(self.length - edges[::-1], b)
        return low[0] + high[0][:, ::-1] - 1, low[1] + high[1][:, ::-1]

    def debiased(self, v: Array, b: float) -> Array:
        return np.asarray(
            self.profile.debiased(v, b) + self.profile.debiased(self.length - v, b) - 1
        )

    def estimated_variance(self, v: Array, b: float) -> Array:
        ends = (self.profile.estimated_variance(end, b) for end in (v, self.length - v))
        return np.asarray(sum(ends))


def law_of_range(profile: Profile, length: float, scale: float, undone: float) -> ReportMoments:
    """Return such points for a range with the step `profile` and the width `length`."""
    return law_of_profile(_Between(profile, length), scale, undone)


@lru_cache(maxsize=64)
def greatest_estimated_variance(profile: Profile, scale: float) -> float:
    """Return an upper bound of h, at most 5e-5 above the attained value if enclosures allow."""

    def look(edges: Array) -> tuple[float, Array]:
        least, most = profile.ranges(edges, scale)[1]
        attained = max(least.max(), profile.estimated_variance(edges, scale).max())
        return float(most.max()), np.where(most > _TIGHT * attained, 64.0, 0.0)

    return cut_while_loose(profile.cells(scale), look)[1]


def law_of_symmetric_noise(
    value: Array, noise: Array, *, loose: bool = False, origin: float = 0.0
) -> ReportMoments:
    """Return points whose hull contains the moments of f + symmetric noise on each of many cells.

    Of f, measured from the origin, and of the variance there are the least and the greatest on each
    cell, (2, n); `loose`: they are far from tight.
    """
    points = np.concatenate(_lifted(value, noise))
    return ReportMoments(
        points[:, :3], 4 * value.shape[1], np.stack([points[:, 3]] * 2), loose, origin
    )


def beyond_others(value: Array, noise: Array) -> Array:
    """Return how far each cell sticks out beyond all attained values, shape (n,).

    1 is `_OUT` of how far people are apart, in the way in which it is farthest out. Of f there are
    the least and the greatest on each cell, (2, n); of the variance k such ranges, (k, 2, n). Each
    range holds somebody, and together they reach from the least to the greatest.
    """
    corners = [_lifted(value, person) for person in noise]
    ways = _ways(np.concatenate([*corners[0], *corners[-1]]))
    high = attained = np.array(-np.inf)
    for person in corners:
        low = above = person[0] @ ways.T
        for corner in person[1:]:
            heights = corner @ ways.T
            above, low = np.maximum(above, heights), np.minimum(low, heights)
        high, attained = np.maximum(high, above), np.maximum(attained, low.max(axis=0))
    return _above(high, attained)


def _ways(points: Array) -> Array:
    """Return directions, (81, 4), along the axes of points, scaled by their lengths."""
    # 0 for an answer, and a noise, that nobody has.
    least = np.maximum(_LEVEL * np.abs(points).max(axis=0), 1e-300)
    unit = np.maximum(np.ptp(points, axis=0), least)
    around = (points - points.mean(axis=0)) / unit
    axes = np.linalg.eigh(around.T @ around)[1]
    lengths = np.maximum(np.ptp(around @ axes, axis=0), _APART)
    return np.asarray(np.array(_WAYS) @ (axes / lengths).T / unit)


def _above(high: Array, attained: Array) -> Array:
    """Return the largest excess of each cell's heights, (n, 81), over the attained ones."""
    apart = np.maximum(attained + attained[::-1], _APART)  # distances there and back
    return np.asarray(((high - attained) / (apart * _OUT)).max(axis=1))


def _lifted(value: Array, noise: Array) -> list[Array]:
    """Return E y, E y², E y³ and Var y, (n, 4), at corners of cells: the laws that exist first."""
    corners = _corners(*value)
    none = np.zeros_like(noise[0])
    return [
        np.stack([none, variance, 3 * corner[:, 0] * variance, variance], axis=1)
        + np.append(corner, none[:, None], axis=1)
        for corner in (corners[0], corners[3], corners[1], corners[2])
        for variance in noise
    ]


def law_in_boxes(middle: Array, half: Array) -> ReportMoments:
    """Return points whose hull contains many boxes, which contain the moments of all people.

    Corners that stick out of the hull farthest are added to it, a little farther out, until none
    does. How far one person moves a mean is taken from the middles of their boxes alone: E y, E y²
    and E y³, (3, n), as are halves of the widths.
    """
    from scipy.spatial import ConvexHull

    unit = np.abs(middle).max(axis=1)
    boxes = np.concatenate([middle, half]).T / np.tile(unit, 2)
    near = np.minimum(np.abs(boxes[:, :3]), np.abs(boxes[:, :3] - 1 / unit))
    boxes[:, 3:] += _SLACK * near
    ways = np.array([way for way in product((-1.0, 0.0, 1.0), repeat=3) if any(way)])
    planes = np.append(ways, np.zeros((len(ways), 1)), axis=1)
    first = boxes[np.unique(_sticking(boxes, planes)[1])]
    laws = [np.zeros((1, 3)), first[:, :3]]
    points = np.concatenate([_corners_of(first, way) for way in ways if all(way)])
    hull = ConvexHull(points)
    while len(boxes):
        out, farthest, heights = _sticking(boxes, hull.equations)
        beyond = heights > 0
        if not beyond.any():
            break
        laws.append(boxes[np.unique(farthest[beyond]), :3])
        corners = _corners_of(boxes[farthest[beyond]], hull.equations[beyond, :3])
        hull = ConvexHull(points := np.concatenate([points[hull.vertices], corners]))
        boxes = boxes[out > 0]
    points = np.concatenate([*laws, points[hull.vertices]])
    return ReportMoments(points * unit, sum(map(len, laws)))


def _corners_of(boxes: Array, ways: Array) -> Array:
    """Return points slightly farther in several directions than the corners of boxes."""
    return np.asarray(boxes[:, :3] + np.sign(ways) * (_FARTHER * boxes[:, 3:] + _LEAST))


def _sticking(boxes: Array, planes: Array) -> tuple[Array, Indices, Array]:
    """Return each box's excess over all planes, and for each plane the farthest box and its corner.

    Boxes are (n, 6); planes, (m, 4), outward normals, and a height.
    """
    out, farthest = np.empty(len(boxes)), np.zeros(len(planes), np.intp)
    heights = np.full(len(planes), -np.inf)
    normals = np.concatenate([planes[:, :3], np.abs(planes[:, :3])], axis=1)
    step = max(1, _BLOCK // len(planes))
    for start in range(0, len(boxes), step):
        beyond = normals @ boxes[start : start + step].T + planes[:, 3:]
        out[start : start + step] = beyond.max(axis=0)
        here = beyond.argmax(axis=1)
        height = beyond[np.arange(len(planes)), here]
        farthest = np.where(height > heights, start + here, farthest)
        heights = np.maximum(heights, height)
    return out, farthest, heights


def cut_while_loose(
    edges: Array, look: Callable[[Array], tuple[_Seen, Array]], most: int = _MOST_CELLS
) -> tuple[Array, _Seen]:
    """Return edges of cells, cut until none is loose or there are `most`, and their enclosures.

    `look` leads from edges to what is seen of the cells, and to how many times looser than need be
    each is, (n,), which falls as the square of its length.
    """
    for _ in range(_ROUNDS):
        seen, loose = look(edges)
        cut = _cut(edges, loose, most)
        if len(cut) == len(edges):
            return edges, seen
        edges = cut
    return edges, look(edges)[0]


def beside_ends(edges: Array, length: float) -> Array:
    """Return edges with more of them next to the ends of long cells, unless there are too many.

    `length` is that over which noise changes, in the unit of the edges.
    """
    long = np.flatnonzero(np.diff(edges) > _LONG * length)
    if len(long) > _MOST_CELLS / 16:
        return edges
    steps = length * np.array([0.25, 1.0, 4.0])
    added = [edges[long][:, None] + steps, edges[long + 1][:, None] - steps]
    return distinct(np.concatenate([edges, *map(np.ravel, added)]))


def _cut(edges: Array, loose: Array, most: int) -> Array:
    """Return edges with more cells, up to the permitted number, which are the longest's parts.

    If all can't be as short as they ought to be, all are too long by the same factor. While they
    are few half of what may be added is left: which are too long is known better once others are
    shorter.
    """
    more = max(most - len(loose), 0) // (1 + (len(loose) < _FEW))
    # Which of a cell's first parts are longer than they ought to be: whole, halved, and so on.
    lengths = (np.sqrt(loose) / np.arange(1, _MOST_PARTS)[:, None]).ravel()
    longest = np.argsort(-lengths, kind="stable")[:more]
    cuts = longest[lengths[longest] > 1] % len(loose)
    parts = 1 + np.bincount(cuts, minlength=len(loose))
    cell = np.repeat(np.arange(len(parts)), parts)
    step = np.arange(len(cell)) - np.repeat(np.cumsum(parts) - parts, parts)
    low = edges[:-1][cell] + np.diff(edges)[cell] * (step / parts[cell])
    return np.append(low, edges[-1])


def _smoothed(
    profile: Profile | _Between,
    nodes: Array,
    scale: float,
    undone: float,
    levels: tuple[float, float],
) -> tuple[Array, Array]:
    """Return E g, E g² and E g³, (n, 3), and the variance of g, (n,), at the nodes."""

    def numbers(v: Array) -> list[Array]:
        g = np.asarray(profile.debiased(v, undone)) - profile.origin
        squares = [np.asarray(profile.estimated_variance(v, undone))] if undone else []
        return [g, g * g, g * g * g, *squares]

    first, last = levels
    limits = [(first**k, last**k) for k in (1, 2, 3)] + [(0.0, 0.0)] * (undone != 0)
    moments = one_sided(numbers, nodes, scale, profile.panels(undone), limits).sum(axis=1)
    noise = moments[3] if undone else np.maximum(moments[1] - moments[0] ** 2, 0.0)
    return moments[:3].T, noise


def _beyond(nodes: Array) -> Array:
    """Return a distance before the first node and one after the last."""
    width = float(nodes[-1] - nodes[0])
    return np.array([nodes[0] - width, nodes[-1] + width])


def _corners(low: Array, high: Array) -> tuple[Array, Array, Array, Array]:
    """Return four points each, (n, 3), whose hull holds the curve (g, g², g³), low <= g <= high."""
    blossoms = [(low, low, low), (low, low, high), (low, high, high), (high, high, high)]
    first, second, third, fourth = (
        np.stack([(a + b + c) / 3, (a * b + b * c + a * c) / 3, a * b * c], axis=1)
        for a, b, c in blossoms
    )
    return first, second, third, fourth
