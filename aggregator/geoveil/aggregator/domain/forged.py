"""A lower bound on the share of forged reports, from counts of reports in bins [MATH §8].

Let w be the largest P(E | x)/P(A | x) over all x, for disjoint sets E and A. Then, for any
population, at most Binomial(N, w/(1 + w)) of N honest reports in E or A are in E. The excess is
forged.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import (
    FLOAT,
    Array,
    DebiasedLaplace,
    ForgedShare,
    Laplace,
    ParameterError,
    Profile,
    QueryMechanism,
    Range,
    validation,
)

_HALVINGS = 24
"""The number of bins at each end of the range: quarters, eighths and so on of its length."""
_CELL = 1 / 64
"""The distance between values at which laws are evaluated, in noise scales."""
_MOST_CELLS = 20_000
"""The most such values; wider questions space them farther apart."""


@lru_cache(maxsize=256)
def report_bins(mechanism: QueryMechanism) -> tuple[int, ...] | None:
    """Return the last integer of each bin except the last, at most 63; None without a range.

    Bins are narrow at the ends of the range, where a forger moves a mean most. Answers of people
    far from the question's edge have separate bins.
    """
    if not isinstance(mechanism, DebiasedLaplace):
        return None
    low, high = mechanism.grid_range
    span = high - low
    ends = {low + (span >> j) for j in range(2, _HALVINGS + 1)}
    ends |= {high - 1 - (span >> j) for j in range(2, _HALVINGS + 1)}
    for level in mechanism.atoms:
        at = round(level / mechanism.step)
        ends |= {at - 1, at}
    return tuple(sorted(end for end in ends if low <= end < high))


def forged_share(
    mechanism: QueryMechanism, counts: ArrayLike, confidence: float = 0.99
) -> ForgedShare | None:
    """Return the share of forged reports that the counts prove; None if they can't be tested.

    It detects many equal or extreme reports. It does not detect forgers who draw from one of the
    mechanism's own laws, nor a few forgers among many honest extremes.

    Args:
        counts: the number of reports in each bin of `report_bins`, shape (m + 1,).

    Raises:
        ParameterError: if there are not as many counts as bins, or one is negative.

    Example:
        >>> import numpy as np
        >>> from geoveil.gp import DebiasedLaplace, GeoPrivacy, Threshold
        >>> query = Threshold(at=100_000, width=16_000, profile="smoothstep")
        >>> mechanism = DebiasedLaplace(query, GeoPrivacy(1.0, per=8_000.0))
        >>> honest = [0] * 500 + [round(1 / mechanism.step)] * 400
        >>> reports = honest + [mechanism.grid_range[1]] * 100
        >>> counts = np.bincount(np.searchsorted(report_bins(mechanism), reports), minlength=51)
        >>> round(forged_share(mechanism, counts).at_least, 3)
        0.061
    """
    ends = report_bins(mechanism)
    if ends is None or not isinstance(mechanism, DebiasedLaplace):
        return None
    confidence = validation.between("confidence", confidence, 0, 1, low_open=True, high_open=True)
    counted = np.asarray(counts, dtype=np.int64)
    if counted.shape != (len(ends) + 1,) or (counted < 0).any():
        raise ParameterError("counts", counted.shape, f"{len(ends) + 1} integers >= 0")
    query = mechanism.query.unclipped
    length = query.high - query.low if isinstance(query, Range) else None
    suspects, others, ratios = _tests(
        query.profile, mechanism.privacy.exact_rate, mechanism.step, ends, length
    )
    failure = (1 - confidence) / (2 * len(ratios))  # for each bound of each test
    in_suspects, in_others = suspects @ counted, others @ counted
    either = in_suspects + in_others
    bounds = _least_share(either, np.full(len(ratios), counted.sum()), failure) * (
        _least_share(in_suspects, either, failure) * (1 + ratios) - ratios
    )
    return ForgedShare(float(max(0.0, bounds.max())), confidence)


def _least_share(successes: NDArray[np.int64], trials: NDArray[np.int64], failure: float) -> Array:
    """Return the lower Clopper–Pearson limit of each proportion."""
    from scipy.special import betaincinv

    least = betaincinv(np.maximum(successes, 1), trials - successes + 1, failure)
    return np.where(successes > 0, least, 0.0)


@lru_cache(maxsize=256)
def _tests(
    profile: Profile, rate: Fraction, step: float, ends: tuple[int, ...], length: float | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """Return the sets E and A of each test, as rows of bins, and w, rounded up.

    E is a single bin, or all bins from either end up to it. A is the rest without the bins of far
    people, whose probability is near 1 wherever that of E is small.
    """
    at, bins = _crossings(profile, 1 / rate, step, ends)
    laws = [_chances(at, bins, len(ends) + 1, float(1 / rate))]
    if length is not None:  # noise on a point may cross a whole range, where the distance reverses
        inside = at[at < length / 2]
        turned = np.concatenate([bins[: len(inside) + 1], bins[: len(inside)][::-1]])
        both = np.concatenate([inside, length - inside[::-1]])
        laws.append(_chances(both, turned, len(ends) + 1, float(1 / rate)))
    size = len(ends) + 1
    single, below = np.eye(size, dtype=np.int64), np.tri(size, dtype=np.int64)
    candidates = np.concatenate([single, below[1 : size // 2], below[::-1, ::-1][: size // 2]])
    far = np.any([chances[:, [0, -1]].max(axis=1) > 0.5 for chances, _ in laws], axis=0)
    suspects = np.unique(candidates[~candidates[:, far].any(axis=1)], axis=0)
    others = np.where(far, 0, 1 - suspects)
    with np.errstate(divide="ignore", invalid="ignore"):
        quotients = [
            (suspects @ chances / (others @ chances)).max(axis=1) * math.exp(apart)
            for chances, apart in laws
        ]
    ratios = np.max(quotients, axis=0)
    usable = np.isfinite(ratios)
    return suspects[usable], others[usable], ratios[usable]


def _crossings(
    profile: Profile, undone: Fraction, step: float, ends: Sequence[int]
) -> tuple[Array, NDArray[np.intp]]:
    """Return the noisy distances at which a report's bin changes, and the bins between them."""
    heights = (np.asarray(ends) + 0.5) * step
    v, _ = profile.debiased_preimages(heights, float(undone))
    at = np.unique(np.concatenate([v[np.isfinite(v)], profile.breakpoints]))
    away = profile.length_scale
    between = np.concatenate([[at[0] - away], (at[1:] + at[:-1]) / 2, [at[-1] + away]])
    reports = np.rint(np.asarray(profile.debiased(between, undone, FLOAT)) / step)
    return at, np.searchsorted(ends, reports)


def _chances(at: Array, bins: NDArray[np.intp], size: int, scale: float) -> tuple[Array, float]:
    """Return the probability of each bin at each of many distances, (size, n), and their spacing.

    By geo-privacy, a probability between two distances is within e^(spacing/2) of the nearer one's,
    with the spacing in noise scales. Beyond the outermost distance, ratios change only in far bins.
    """
    count = min(math.ceil((at[-1] - at[0]) / (scale * _CELL)), _MOST_CELLS) + 1
    places, apart = np.linspace(at[0], at[-1], count, retstep=True)
    edges = np.concatenate([[-np.inf], at, [np.inf]])[:, None] - places
    noise, chances = Laplace(scale), np.zeros((size, count))
    # From the side with the small tail, which avoids cancellation.
    left, right = np.diff(noise.cdf(edges), axis=0), -np.diff(noise.cdf(-edges), axis=0)
    np.add.at(chances, bins, np.where(edges[:-1] < 0, left, right))
    return chances, float(apart) / scale
