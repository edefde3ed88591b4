"""What a report is, for people at every distance, between points that enclose it [MATH §8].

Laplace noise is where Brownian motion is after an exponential time. So a noisy distance that starts
in a cell [l, r] leaves it, and goes on as if it had started at l or at r; or it ends inside, with a
probability of at most κ = 1 − 1/cosh((r − l)/2b). The law of a report on any distance in a cell is
thus a mixture of those on l and on r and, with a weight of at most κ, of what g is in the cell.
Cells are those of the profile, so that nothing is between them that nobody has seen, and are cut
until what is not known within them hardly counts.
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
from geoveil.gp.queries.profiles.enclosed import squares
from geoveil.gp.report_moments import ReportMoments

_LOOSE = 1 / 400
"""Width of what is not known within a cell, relative to what moments are anywhere."""
_MOST_CELLS, _FEW, _ROUNDS = 2_048, 700, 8
"""Cells and rounds at most, and how many cells are few."""
_TIGHT = 1.00005
"""Factor between a bound and what is attained at which a search ends."""
_STRIP, _BLOCK = 16, 2**15
"""Boxes that are taken together at first, and numbers that are computed at a time."""
_FARTHER, _LEAST = 1.1, 1e-6
"""How far corners are moved out, in multiples of half a box, and relative to the largest moment."""
_OUT, _APART, _LEVEL = 1 / 100, 0.1, 1e-9
_WAYS = tuple(product((-1.0, 0.0, 1.0), repeat=4))
"""How far cells may stick out, relative to how far people are apart in a way, or to `_APART` of how
far in a moment, of which that is at least `_LEVEL`; and the ways, in multiples of the latter."""
_SLACK = 0.002
"""What half a box is made larger by, relative to its distance from moments that are 0 or 1."""

Indices: TypeAlias = "NDArray[np.intp]"
_Seen = TypeVar("_Seen")


@lru_cache(maxsize=256)
def law_of_profile(
    profile: Profile | _Between,
    scale: float,
    undone: float,
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> ReportMoments:
    """Return points around the moments of g(s + Laplace(scale)), for all s.

    Args:
        scale: b > 0, in the unit of s.
        undone: b, or 0 for g = φ.
        limits: two distances that s never leaves.
    """
    nodes = profile.cells(undone)
    least, most = max(limits[0], 0.0) if getattr(profile, "ray", False) else limits[0], limits[1]
    nodes = distinct(np.append(nodes, np.clip([least, most], nodes[0], nodes[-1])))
    first, last = (float(level) for level in profile.debiased(_beyond(nodes), undone))

    def look(nodes: Array) -> tuple[tuple[Array, ...], Array]:
        powers, noise = _smoothed(profile, nodes, scale, undone, (first, last))
        g, h = profile.ranges(nodes, undone)
        weight = 1 - 1 / np.cosh(np.minimum(np.diff(nodes) / (2 * scale), 40.0))
        within = np.stack([g, squares(g), g**3, h], axis=2)  # (2, cells, 4)
        ends = np.concatenate([powers, noise[:, None]], axis=1)
        away = np.maximum(within[1] - ends[:-1], ends[1:] - within[0])
        loose = weight[:, None] * (within[1] - within[0] + (1 - weight[:, None]) * np.abs(away))
        people = (nodes >= least) & (nodes <= most)
        spans = np.maximum(np.ptp(ends[people], axis=0), 1e-300)
        loose[~(people[:-1] & people[1:])] = 0.0
        loose = (loose / (_LOOSE * spans)).max(axis=1)
        # What is inside of the hull of the others can wait.
        ways = np.array(_WAYS) / spans
        middle, half = within.mean(axis=0), np.ptp(within, axis=0) / 2
        heights = ends @ ways.T
        attained = heights[people].max(axis=0)
        inner = weight[:, None] * (middle @ ways.T + half @ np.abs(ways).T - attained)
        out = (1 - weight[:, None]) * (np.maximum(heights[:-1], heights[1:]) - attained) + inner
        apart = np.maximum(attained + attained[::-1], _APART)
        waits = (out <= _OUT * apart).all(axis=1)
        return (powers, noise, g, h, weight), np.where(waits, np.minimum(loose, 4.0), loose)

    nodes, (powers, noise, g, h, weight) = cut_while_loose(nodes, look)
    people = (nodes >= least) & (nodes <= most)
    inside = people[:-1] & people[1:]
    left, right = powers[:-1][inside], powers[1:][inside]
    before, after = noise[:-1][inside], noise[1:][inside]
    kept, low, high = weight[inside][:, None], h[0][inside], h[1][inside]
    corners = _corners(*g[:, inside])
    # Beyond the outermost nodes g is level: noise leads back to them, or does not.
    ends = np.flatnonzero(people)[[0, -1]]
    back = np.exp(-np.maximum([nodes[ends[0]] - least, most - nodes[ends[1]]], 0.0) / scale)
    levels = np.array([[level, level**2, level**3] for level in (first, last)])
    laws = [powers[people], back[:, None] * powers[ends] + (1 - back[:, None]) * levels]
    noises = [np.stack([noise[people]] * 2), np.stack([back * noise[ends]] * 2)]
    mixed = [
        (
            (1 - kept) * end + kept * corner,
            np.stack([v + kept[:, 0] * low, v + kept[:, 0] * high]),
        )
        for corner in (corners[0], corners[3], corners[1], corners[2])
        for end, v in ((left, (1 - kept[:, 0]) * before), (right, (1 - kept[:, 0]) * after))
    ]
    count = sum(map(len, laws)) + 4 * len(left)
    return ReportMoments(
        np.concatenate(laws + [points for points, _ in mixed]),
        count,
        # What φ is without its bias undone has no variance that is a mean of others.
        np.concatenate(noises + [ends for _, ends in mixed], axis=1) if undone else None,
    )


@dataclass(frozen=True)
class _Between:
    """A range of points: two steps at its ends, less 1. Where one varies the other is 1."""

    profile: Profile
    length: float

    def cells(self, b: float) -> Array:
        edges = self.profile.cells(b)
        return distinct(np.concatenate([edges, self.length - edges]))

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
    """Return the same for a range, of which `profile` is a step and `length` the way across."""
    return law_of_profile(_Between(profile, length), scale, undone)


@lru_cache(maxsize=64)
def greatest_estimated_variance(profile: Profile, scale: float) -> float:
    """Return an upper bound of h, by 5e-5 more than is attained where enclosures allow."""

    def look(edges: Array) -> tuple[float, Array]:
        least, most = profile.ranges(edges, scale)[1]
        attained = max(least.max(), profile.estimated_variance(edges, scale).max())
        return float(most.max()), np.where(most > _TIGHT * attained, 64.0, 0.0)

    return cut_while_loose(profile.cells(scale), look)[1]


def law_of_symmetric_noise(value: Array, noise: Array) -> ReportMoments:
    """Return points around the moments of f + noise, the noise symmetric, on each of many cells.

    Args:
        value: the least and the greatest f on each cell, shape (2, n).
        noise: the least and the greatest variance, (2, n).
    """
    points = np.concatenate(_lifted(value, noise))
    return ReportMoments(points[:, :3], 4 * value.shape[1], np.stack([points[:, 3]] * 2))


def beyond_others(value: Array, noise: Array) -> Array:
    """Return how far each cell sticks out beyond what is attained anywhere, shape (n,).

    1 is `_OUT` of how far people are apart, in the way of `_WAYS` in which it is farthest out.
    """
    corners = _lifted(value, noise)
    low, high = np.min(corners, axis=(0, 1)), np.max(corners, axis=(0, 1))
    spans = np.maximum(high - low, _LEVEL * np.maximum(np.abs(low), np.abs(high)))
    # 0 for an answer, and a noise, that nobody has.
    ways = np.array(_WAYS) / np.maximum(spans, 1e-300)
    high = low = corners[0] @ ways.T
    for corner in corners[1:]:
        heights = corner @ ways.T
        high, low = np.maximum(high, heights), np.minimum(low, heights)
    attained = low.max(axis=0)
    apart = np.maximum(attained + attained[::-1], _APART)  # the ways are there and back
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
    """Return points whose hull holds many boxes, in which the moments of all people are.

    Corners that stick out of the hull farthest are added to it, a little farther out, until none
    does. How far one person moves a mean is taken from the middles of their boxes alone.

    Args:
        middle: E y, E y² and E y³, shape (3, n).
        half: of the width of each box, the same shape, > 0.
    """
    from scipy.spatial import ConvexHull

    unit = np.abs(middle).max(axis=1)
    boxes = np.concatenate([middle, half]).T / np.tile(unit, 2)
    near = np.minimum(np.abs(boxes[:, :3]), np.abs(boxes[:, :3] - 1 / unit))
    boxes[:, 3:] += _SLACK * near
    pad = np.repeat(boxes[-1:], -len(boxes) % _STRIP, axis=0)
    strips = np.concatenate([boxes, pad]).reshape(-1, _STRIP, 6)
    low, high = (strips[..., :3] + sign * strips[..., 3:] for sign in (-1, 1))
    low, high = low.min(axis=1), high.max(axis=1)
    around = np.concatenate([low + high, high - low], axis=1) / 2
    ways = np.array([way for way in product((-1.0, 0.0, 1.0), repeat=3) if any(way)])
    planes = np.append(ways, np.zeros((len(ways), 1)), axis=1)
    first = strips[_sticking(around, planes)[1]].reshape(-1, 6)
    first = first[np.unique(_sticking(first, planes)[1])]
    laws = [np.zeros((1, 3)), first[:, :3]]
    points = np.concatenate([_corners_of(first, way) for way in ways if all(way)])
    hull = ConvexHull(points)
    for sample in (True, False):  # one box of each strip first, which leaves few others
        sticks = _sticking(around, hull.equations)[0] > 0
        around, strips = around[sticks], strips[sticks]
        boxes = strips[:, 0] if sample else strips.reshape(-1, 6)
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
    """Return what is a little farther in some directions than the corners of boxes there."""
    return np.asarray(boxes[:, :3] + np.sign(ways) * (_FARTHER * boxes[:, 3:] + _LEAST))


def _sticking(boxes: Array, planes: Array) -> tuple[Array, Indices, Array]:
    """Return how far each box is beyond any plane, and for each plane which is farthest, and how.

    Args:
        boxes: shape (n, 6).
        planes: outward normals, and what they are on at a point less its height, (m, 4).
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
    edges: Array, look: Callable[[Array], tuple[_Seen, Array]]
) -> tuple[Array, _Seen]:
    """Return edges of cells, cut until none is loose or there are enough, and what is seen of them.

    Args:
        edges: increasing, shape (n + 1,).
        look: from edges to what is seen of the cells, and to how many times looser than need be
            each is, shape (n,), which falls as the square of its length.
    """
    for _ in range(_ROUNDS):
        seen, loose = look(edges)
        cut = _cut(edges, loose)
        if len(cut) == len(edges):
            return edges, seen
        edges = cut
    return edges, look(edges)[0]


def _cut(edges: Array, loose: Array) -> Array:
    """Return edges with cells cut into more, the loosest first, until there are enough of them.

    While they are few half of what may be added is left: which are the loosest is known better
    once others are shorter.
    """
    more = (_MOST_CELLS - len(loose)) // (1 + (len(loose) < _FEW))
    parts = np.clip(np.ceil(np.sqrt(loose)), 1, 8).astype(np.intp)
    order = np.argsort(-loose)
    fits = np.cumsum(parts[order] - 1) <= more
    parts[order[~fits]] = 1
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
        g = np.asarray(profile.debiased(v, undone))
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
    """Return four points each, (n, 3), that the curve (g, g², g³), low <= g <= high, is between."""
    blossoms = [(low, low, low), (low, low, high), (low, high, high), (high, high, high)]
    first, second, third, fourth = (
        np.stack([(a + b + c) / 3, (a * b + b * c + a * c) / 3, a * b * c], axis=1)
        for a, b, c in blossoms
    )
    return first, second, third, fourth
