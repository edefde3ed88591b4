"""Compare releases whose law of integers is unknown with as many simulated reports."""

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.audit.dependence import order_of, same
from geoveil.gp import NotPrivateWarning

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_COARSE = 16
"""The least noise, in grid steps, for which equal reports are compared."""
_ENDS, _EQUAL = 2.0 ** -np.arange(2, 15), 32
"""Shares of ranks, or distances in interquartile ranges, whose reports are counted, and the number
of equal parts of ranks."""


def unlike_simulated(
    mechanism: Any,
    points: Array,
    reports: list[Integers],
    halves: list[int],
    failure: float,
    rng: np.random.Generator,
) -> str:
    """Return how reports differ from as many simulated ones, in words; '' if they don't.

    Of two counts that should be alike the first is binomial, given their sum; so, at most, are
    those of ranks among both, whose law is hypergeometric. Distribution functions differ by at most
    Bretagnolle's inequality (1980), for reports of different laws.
    """
    from scipy.stats import binom

    counts = np.zeros((2, 2), dtype=np.int64)  # [without noise or drawn alike, released or not]
    samples: list[tuple[Array, Array]] = []
    for point, drawn, half in zip(points, reports, halves, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotPrivateWarning)
            again = mechanism.simulate(np.repeat(point[None], len(drawn), axis=0), rng)
        simulated = np.rint(np.reshape(again, drawn.shape) / mechanism.step)
        quiet = np.reshape(mechanism.mean(point[None])[0], drawn.shape[1:]) / mechanism.step
        both = drawn - quiet, simulated - quiet
        samples.append(both)
        if both[1].std(axis=0).max() < _COARSE:
            continue  # without noise, all are equal
        for side, (noise, made) in enumerate(zip(both, (drawn, simulated), strict=True)):
            counts[0, side] += int((np.abs(noise) <= 1.5).reshape(len(noise), -1).all(axis=1).sum())
            counts[1, side] += int(same(made[:half], made[half:]).sum())
    if part := _part_with_another_share(samples, failure / 4, rng):
        return part
    samples.append(tuple(map(np.concatenate, zip(*samples, strict=True))))  # type: ignore[arg-type]
    for released, simulated in samples:
        n = len(released)
        most = 2 * math.sqrt((1 + math.log(32 * released[0].size * len(samples) / failure)) / 2 / n)
        for noise, other in zip(released.reshape(n, -1).T, simulated.reshape(n, -1).T, strict=True):
            at, ordered, share = np.sort(noise), np.sort(other), np.arange(1, n + 1) / n
            low, high = (np.searchsorted(ordered, at + off, "right") / n for off in (-1, 1))
            if max((share - high).max(), (low - share).max()) > most:
                return f"{n} reports are spread differently from as many simulated ones"
    for what, (mine, others) in zip(
        ("are the answer without noise", "are drawn alike by two generators"), counts, strict=True
    ):
        if binom.sf(mine - 1, mine + others, 0.5) < failure / 8:
            return f"{mine} reports {what}, where {others} simulated ones are"
    return ""


def _part_with_another_share(
    samples: list[tuple[Array, Array]], failure: float, rng: np.random.Generator
) -> str:
    """Return which part of the noise of all points, (n, ...), too many or too few reports have.

    Parts are of ranks among reports and simulated ones, from either side, or about no noise.
    """
    from scipy.stats import binom

    released, others = (np.zeros(_ENDS.size * 3 + _EQUAL, np.int64) for _ in range(2))
    for noise, simulated in samples:
        n = len(noise)
        both = np.concatenate([noise, simulated]).reshape(2 * n, -1)
        for column in both.T:
            rank = np.empty(2 * n)
            rank[order_of(column, rng)] = (np.arange(2 * n) + 0.5) / (2 * n)
            spread = np.subtract(*np.quantile(column, [0.75, 0.25]))
            away = [rank, 1 - rank, np.abs(column) / max(spread, 2.0**-1000)]
            inside = (np.array(away)[:, None] < _ENDS[:, None]).reshape(-1, 2 * n)
            equal = np.floor(rank * _EQUAL) == np.arange(_EQUAL)[:, None]
            parts = np.concatenate([inside, equal])
            released += parts[:, :n].sum(axis=1)
            others += parts[:, n:].sum(axis=1)
    both = released + others
    chance = 2 * np.minimum(binom.cdf(released, both, 0.5), binom.sf(released - 1, both, 0.5))
    worst = int(np.argmin(chance))
    if chance[worst] * len(chance) >= failure:
        return ""
    where = ("among the lowest", "among the highest", "near the answer", "in a part")
    place = where[min(worst // _ENDS.size, 3)]
    return f"{released[worst]} reports are {place}, where {others[worst]} simulated ones are"
