"""Bound the least and the greatest number in parts of a box, with refinement of loose bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from geoveil.gp.arrays import Array, NDArray, np

Indices: TypeAlias = "NDArray[np.intp]"

_MOST_BOXES, _MOST_PAIRS, _ROUNDS = 2**15, 2**17, 200
"""The most boxes, pairs of a box and a part, and halvings of a search."""
_LITTLE = 1e-3
"""Relative size, to the greatest number, below which any bound is tight enough."""
_APART = 5
"""The gap that is allowed of the greatest number is allowed of the distance between the least and
the greatest, times this, if that is less; of at least `_LITTLE` of the greatest."""


def greatest_in(
    corners: Array, look: Callable[[Array, float], tuple[Array, Array]], loose: float
) -> float:
    """Return a bound of the greatest number in a box; see `enclosed_in_parts`.

    Args:
        corners: as there.
        look: to the numbers at the centers, and bounds of the greatest of each box.
        loose: as there.
    """

    def one_part(
        centers: Array, radius: float, box: Indices, part: Indices
    ) -> tuple[Indices, Array, Array]:
        at, most = look(centers, radius)
        return box, np.stack([at, at]), np.stack([at, most])

    nothing = np.array([[np.inf], [-np.inf]])
    return float(enclosed_in_parts(corners, one_part, nothing, loose)[1, 0])


def enclosed_in_parts(
    corners: Array,
    look: Callable[[Array, float, Indices, Indices], tuple[Indices, Array, Array]],
    attained: Array,
    loose: float,
) -> Array:
    """Return bounds of the least and the greatest number in each part, shape (2, n).

    Args:
        corners: of the box, where all coordinates are least and where they are greatest, (2, k).
        look: from centers, (m, k), how far the farthest point of their boxes is, and pairs of a box
            and a part, to: the pairs of which the box may reach into the part; the least and the
            greatest number that is attained in the part, by these boxes, ∞ and −∞ if none is; and
            bounds of the numbers of each box there.
        attained: the least and the greatest number that is known of each part, (2, n); ∞ and −∞.
        loose: how much wider the bounds may be than what is attained, relative to the greatest
            number of the part, or to `_APART` times how far all numbers are apart.

    Returns:
        As wide, but where there are too many boxes; ∞ and −∞ of parts that nothing is in.
    """
    attained = attained.copy()
    centers, half = corners.mean(axis=0)[None], np.diff(corners, axis=0)[0] / 2
    part = np.arange(attained.shape[1])
    box, rest, bounds = np.zeros_like(part), attained, attained.copy()
    for _ in range(_ROUNDS):
        if not (0 < len(box) <= _MOST_PAIRS and len(centers) <= _MOST_BOXES):
            break
        met, people, (low, high) = look(centers, float(np.linalg.norm(half)), box, part)
        box, part = box[met], part[met]
        np.minimum.at(attained[0], part, people[0])
        np.maximum.at(attained[1], part, people[1])
        least, greatest = attained[0].min(), attained[1].max()
        most = max(_APART * (greatest - least), _LITTLE * greatest)
        slack = loose * np.clip(attained[1], _LITTLE * greatest, most)
        cut = (low < (attained[0] - slack)[part]) | (high > (attained[1] + slack)[part])
        rest = np.repeat([[np.inf], [-np.inf]], attained.shape[1], axis=1)
        for ends, pairs in ((rest, cut), (bounds, ~cut)):
            np.minimum.at(ends[0], part[pairs], low[pairs])
            np.maximum.at(ends[1], part[pairs], high[pairs])
        kept, box = np.unique(box[cut], return_inverse=True)
        box, part = np.append(box, box + len(kept)), np.tile(part[cut], 2)
        step = np.where(np.arange(len(half)) == np.argmax(half), half / 2, 0.0)
        centers, half = np.concatenate([centers[kept] - step, centers[kept] + step]), half - step
    return np.stack([np.minimum(bounds[0], rest[0]), np.maximum(bounds[1], rest[1])])
