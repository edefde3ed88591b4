"""Bound the least and the greatest number in parts of many boxes, the loosest boxes first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from geoveil.gp.arrays import Array, NDArray, np

Indices: TypeAlias = "NDArray[np.intp]"
Seen: TypeAlias = "tuple[Indices, Array, Indices, NDArray[np.bool_], Indices, Array]"
"""What is known of n boxes: the first and the last part that each may reach, (2, n), reversed if it
reaches none; bounds of its numbers, (2, n); the axis to cut it across, (n,); whether these parts
are as near as numbers tell, so that a box in which they hardly differ need not be cut, (n,); and
the parts of m people, (m,), with a number as little, and one as great, as somebody's there."""

_MOST, _AT_ONCE = 2**16, 2**12
"""The most boxes of a search, and how many are cut at once."""
_LITTLE = 1e-3
"""Relative size, to the greatest number, below which any bound is tight enough."""
_NONE = 1e-300
"""The gap that is always allowed, so that numbers that all underflow need no search."""
_APART = 5
"""The gap that is allowed of the greatest number is allowed of the distance between the least and
the greatest, times this, if that is less; of at least `_LITTLE` of the greatest."""
_BOTH = [[-1.0], [1.0]]
"""Signs that make two greatest numbers of a least and a greatest."""


def enclosed_in_parts(
    boxes: Array, look: Callable[[Array], Seen], shares: Array, loose: float
) -> tuple[Array, float, Array]:
    """Return bounds of the least and the greatest number in each part, (2, p), ∞ and −∞ if empty.

    They are as wide as `loose` permits, unless there are too many boxes: the second result says how
    much wider. The third are the boxes, points aside, of which other numbers in as many places can
    be told.

    Args:
        boxes: the least and the greatest coordinates of each, (2, k, n).
        look: at such boxes.
        shares: what is yet to be added to the least and the greatest number of each part, (2, p).
        loose: how much wider the bounds may be than what is attained, relative to the greatest
            number of the part, or to `_APART` times how far all numbers are apart.
    """
    most = np.full(shares.shape, -np.inf)
    outer, left, leaves = np.full_like(spans(most), -np.inf), _MOST, []
    pool: list[Any] = [
        boxes[..., :0],
        np.zeros((2, 0), np.intp),
        most[:, :0],
        np.zeros(0, np.intp),
        np.zeros(0, np.bool_),
    ]
    while True:
        parts, bounds, axis, sure, home, people = look(boxes)
        for row, numbers in zip(most, np.multiply(_BOTH, people), strict=True):
            np.maximum.at(row, home, numbers)
        met = parts[0] <= parts[1]
        leaves.append(boxes[..., ~met])
        pool = [
            np.concatenate([old, new[..., met]], axis=-1)
            for old, new in zip(
                pool, (boxes, parts, np.multiply(_BOTH, bounds), axis, sure), strict=True
            )
        ]
        total = np.multiply(_BOTH, most) + shares
        greatest = max(total[1].max(), 0.0)
        apart = max(_APART * (greatest - total[0].min()), _LITTLE * greatest)
        nearly = np.where(np.isfinite(most[1]), total[1], greatest)  # of parts too thin for people
        slack = np.maximum(loose * np.clip(nearly, _LITTLE * greatest, apart), _NONE)
        *goals, enough = least_over(spans(np.stack([*(most + slack), slack])), pool[1])
        beyond = (pool[2] - goals).max(axis=0)
        beyond = np.where(pool[4], np.minimum(beyond, pool[2].sum(axis=0) - enough), beyond)
        order = np.argsort(-beyond)
        loose_ones = np.count_nonzero(beyond > 0) if left > 0 else 0
        cut, kept, done = np.split(order, [min(_AT_ONCE, loose_ones), loose_ones])
        leaf, parts, bounds, *_ = (each[..., done] for each in pool)
        leaves.append(leaf)
        level, *ends = _two(parts)
        for end in ends:
            for row in (0, 1):
                np.maximum.at(outer[:, row], (level, end), bounds[row])
        if not len(cut):
            wider = 1 + float((beyond / enough).max(initial=0.0))
            break
        left -= 2 * len(cut)
        boxes = _halves(pool[0][..., cut], pool[3][cut])
        pool = [each[..., kept] for each in pool]
    for k in reversed(range(1, len(outer))):
        step = 1 << (k - 1)
        np.maximum(outer[k - 1], outer[k], out=outer[k - 1])
        np.maximum(outer[k - 1, :, step:], outer[k, :, :-step], out=outer[k - 1, :, step:])
    every = np.concatenate(leaves, axis=-1)
    wide = (every[0] < every[1]).any(axis=0)
    return np.asarray(np.multiply(_BOTH, outer[0])), wider, every[..., wide]


def spans(numbers: Array) -> Array:
    """Return the least of each 2^k neighbours, (levels, r, n), of numbers (r, n)."""
    levels = [numbers]
    for k in range(numbers.shape[1].bit_length() - 1):
        before, step = levels[-1], 1 << k
        pairs = np.minimum(before[:, :-step], before[:, step:])
        levels.append(np.concatenate([pairs, before[:, -step:]], axis=1))
    return np.stack(levels)


def least_over(levels: Array, parts: Indices) -> Array:
    """Return the least from the first to the last of some parts, (r, m); see `spans`."""
    level, first, last = _two(parts)
    return np.asarray(np.minimum(levels[level, :, first], levels[level, :, last]).T)


def _two(parts: Indices) -> tuple[Indices, Indices, Indices]:
    """Return levels and the beginnings of two spans that together are each of the parts."""
    level = np.frexp(parts[1] - parts[0] + 1)[1] - 1
    return level, parts[0], parts[1] + 1 - (1 << level)


def _halves(boxes: Array, axis: Indices) -> Array:
    """Return both halves of boxes, cut across an axis of each."""
    at = axis, np.arange(len(axis))
    halves = np.stack([boxes, boxes])
    halves[0, 1][at] = halves[1, 0][at] = boxes.mean(axis=0)[at]
    return np.concatenate([halves[0], halves[1]], axis=-1)
