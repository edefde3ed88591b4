"""Bound the least and the greatest number in parts of a box, with refinement of loose bounds."""

from __future__ import annotations

from collections.abc import Callable

from geoveil.gp.arrays import Array, NDArray, np

_MOST_BOXES, _ROUNDS = 2**15, 200
"""The most boxes and halvings of a search."""
_LITTLE = 1e-3
"""Relative size, to the greatest number, below which any bound is tight enough."""


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
        centers: Array, radius: float
    ) -> tuple[Array, Array, Array, NDArray[np.intp], NDArray[np.bool_]]:
        at, most = look(centers, radius)
        return at, at, most, np.zeros(len(at), np.intp), np.ones((len(at), 1), np.bool_)

    nothing = np.array([[np.inf], [-np.inf]])
    return float(enclosed_in_parts(corners, one_part, nothing, loose)[1, 0])


def enclosed_in_parts(
    corners: Array,
    look: Callable[[Array, float], tuple[Array, Array, Array, NDArray[np.intp], NDArray[np.bool_]]],
    attained: Array,
    loose: float,
) -> Array:
    """Return bounds of the least and the greatest number in each part, shape (2, n).

    Args:
        corners: of the box, where all coordinates are least and where they are greatest, (2, k).
        look: from centers, (m, k), and how far the farthest point of their boxes is, to: the
            numbers at the centers; bounds of the least and of the greatest number of each box;
            the part of each center; and whether a box may reach into each part, (m, n).
        attained: the least and the greatest number that is known of each part, (2, n); ∞ and −∞.
        loose: how much wider the bounds may be than what is attained, relative to the greatest
            number of the part.

    Returns:
        As wide, but where there are too many boxes; ∞ and −∞ of parts that nothing is in.
    """
    attained = attained.copy()
    centers, half = corners.mean(axis=0)[None], np.diff(corners, axis=0)[0] / 2
    rest, slack = np.array([[np.inf], [-np.inf]]), np.zeros(1)
    for _ in range(_ROUNDS):
        if not 0 < len(centers) <= _MOST_BOXES:
            break
        at, least, most, here, reached = look(centers, float(np.linalg.norm(half)))
        np.minimum.at(attained[0], here, at)
        np.maximum.at(attained[1], here, at)
        slack = loose * np.maximum(attained[1], _LITTLE * attained[1].max())
        less, more = least[:, None] < attained[0] - slack, most[:, None] > attained[1] + slack
        cut = (reached & (less | more)).any(axis=1)
        centers, reached = centers[cut], reached[cut]
        rest = np.stack(
            [
                np.where(reached, least[cut, None], np.inf).min(axis=0, initial=np.inf),
                np.where(reached, most[cut, None], -np.inf).max(axis=0, initial=-np.inf),
            ]
        )
        step = np.where(np.arange(len(half)) == np.argmax(half), half / 2, 0.0)
        centers, half = np.concatenate([centers - step, centers + step]), half - step
    least, most = attained[0] - slack, attained[1] + slack
    return np.stack([np.minimum(least, rest[0]), np.maximum(most, rest[1])])
