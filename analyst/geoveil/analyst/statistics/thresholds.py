"""Estimate shares above many thresholds, and locate the values of people.

A soft threshold of width w at T gives the share above T of blurred values: an independent amount of
at most w/2, whose density is the step's slope, is subtracted from each. So the share above T + w/2
is at most the share found at T, and the share above T − w/2 is at least that.
"""

from collections.abc import Generator, Sequence

import numpy as np

from geoveil.analyst.questions import Softness
from geoveil.analyst.statistics.joint import JointEstimates
from geoveil.analyst.statistics.statistic import MOST_QUESTIONS, noise_scale
from geoveil.campaign import AttributeCampaign, PointQuestion
from geoveil.gp import Array, ParameterError, Threshold, log_nearest, validation

Asking = Generator[Sequence[PointQuestion], JointEstimates, tuple[Array, JointEstimates]]
"""A generator that yields questions and returns thresholds with joint estimates of the shares
above."""

_OCTAVES = 48
"""Powers of 2 times the noise scale at which the search for values begins."""
_STEPS = 64
_SPARSE = 0.005
"""The share of people on either side for which thresholds are farther apart."""
_NEAR, _FAR = 400, 100
"""Thresholds where most people are, and on either side of these."""
_PARTS = 8
"""Parts of an octave that few people's values are searched in."""
_NOBODY = 1e-9
"""A share below this counts as 0, since values of reports are rounded to it."""


def band_width(campaign: AttributeCampaign, width: float | None) -> float:
    """Return the width of soft thresholds, by default three noise scales.

    Raises:
        ParameterError: if the campaign has no perturbed numbers, or the width is not positive.
    """
    scale = noise_scale(campaign)
    if width is not None:
        validation.positive("width", width)
    return Softness(scale, width).band()


def shares_above(at: Array, width: float) -> Asking:
    """Query the shares above thresholds.

    Args:
        at: increasing.
        width: of each.
    """
    questions = [
        PointQuestion(f"above {t:,.15g}", Threshold(t, width, "smoothstep")) for t in at.tolist()
    ]
    return at, (yield questions)


def grid(count: int, low: float | None, high: float | None, at: Sequence[float] | None) -> Array:
    """Return checked thresholds, or none if they are still to be located.

    Raises:
        ParameterError: if they do not increase, or there are too many.
    """
    if at is not None:
        thresholds = np.asarray(at, np.float64)
        rises = (
            thresholds.ndim == 1
            and np.isfinite(thresholds).all()
            and (np.diff(thresholds) > 0).all()
        )
        if not rises or not 1 <= len(thresholds) <= MOST_QUESTIONS:
            raise ParameterError("at", "these", f"1 to {MOST_QUESTIONS} finite, increasing numbers")
        return thresholds
    validation.require_count("points", count, 2, MOST_QUESTIONS)
    if (low is None) != (high is None):
        raise ParameterError("low and high", (low, high), "both, or neither")
    if low is None or high is None:
        return np.empty(0)
    low, high = validation.real("low", low), validation.real("high", high)
    if not low < high:
        raise ParameterError("low and high", (low, high), "low < high")
    return np.linspace(low, high, count)


def logarithms(name: str, values: Sequence[float]) -> list[float]:
    """Return the logarithms of public values; an error names the parameter.

    Raises:
        ParameterError: if a value is not > 0.
    """
    return [log_nearest(validation.positive(name, value)) for value in values]


def octaves(campaign: AttributeCampaign, width: float) -> Asking:
    """Query the shares above powers of 2 of the noise scale, of both signs, and 0."""
    powers = noise_scale(campaign) * 2.0 ** np.arange(_OCTAVES + 1)
    return (yield from shares_above(np.concatenate([-powers[::-1], [0.0], powers]), width))


def located(campaign: AttributeCampaign, width: float, tail: float) -> Asking:
    """Locate most values, except a share on either side.

    Args:
        campaign: the campaign whose points are queried.
        width: of thresholds.
        tail: the share on each side that may be left out, in [0, 1/2).

    Returns:
        The two ends, and the results of the last search.
    """
    at, above = yield from octaves(campaign, width)
    low, high = ends(at, above, tail)
    at, above = yield from shares_above(np.linspace(low, high, _STEPS + 1), width)
    return np.array(ends(at, above, tail)), above


def everywhere(campaign: AttributeCampaign, width: float) -> Asking:
    """Query the shares above thresholds from below everybody's value to above everybody's.

    They are close together where 99 % of the people are, and beyond where the others are.
    """
    at, shares = yield from octaves(campaign, width)
    (least, most), (low, high) = span(at, shares), ends(at, shares, _SPARSE)
    beyond = [_split(at[(at >= a) & (at <= b)]) for a, b in ((least, low), (high, most))]
    between = np.linspace(low, high, _STEPS + 1)
    at, shares = yield from shares_above(np.unique(np.concatenate([between, *beyond])), width)
    low, high = ends(at, shares, _SPARSE)
    near = np.linspace(low, high, _NEAR + 1)
    below, above = (_placed(at, shares.values, *part) for part in ((least, low), (high, most)))
    return (yield from shares_above(np.unique(np.concatenate([below, near, above])), width))


def _split(at: Array) -> Array:
    """Return thresholds with others between them, evenly."""
    places = np.arange(_PARTS * max(len(at) - 1, 0) + 1) / _PARTS
    return np.interp(places, np.arange(len(at)), at) if len(at) else at


def _placed(at: Array, shares: Array, start: float, stop: float) -> Array:
    """Return `_FAR` thresholds that make a sum of S nearly its integral from `start` to `stop`.

    The error in a gap is at most half its length times the fall of S, and the sum of these is
    least where gaps are as the inverse root of the density. A tenth is spread over all gaps.
    """
    if start >= stop:
        return np.array([start])
    edges = np.unique(np.clip(at, start, stop))
    share = np.sqrt(np.abs(np.diff(np.interp(edges, at, shares))) * np.diff(edges))
    share += share.mean() / 9 or 1.0
    sums = np.append(0.0, np.cumsum(share))
    return np.interp(np.linspace(0.0, sums[-1], _FAR), sums, edges)


def span(at: Array, found: JointEstimates) -> tuple[float, float]:
    """Return the innermost thresholds between which every report lies.

    Noise may bring a share to 0 far below the greatest values. Below all reports it is exactly 1.
    """
    (fewer,) = np.nonzero(np.abs(found.values - 1) > _NOBODY)
    (someone,) = np.nonzero(np.abs(found.values) > _NOBODY)
    first, last = max(int(fewer[0]) - 1, 0), min(int(someone[-1]) + 1, len(at) - 1)
    return float(at[first]), float(at[last])


def ends(at: Array, found: JointEstimates, tail: float) -> tuple[float, float]:
    """Return the innermost thresholds that leave at most a tail on either side."""
    least = max(tail, _NOBODY)
    (below,) = np.nonzero(found.values >= 1 - least)
    (above,) = np.nonzero(found.values <= least)
    first = int(below[-1]) if len(below) else 0
    beyond = above[above > first]
    return float(at[first]), float(at[int(beyond[0]) if len(beyond) else -1])
