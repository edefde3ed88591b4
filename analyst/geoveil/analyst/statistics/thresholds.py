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

    They are close together where 99 % of the people are, and farther apart beyond.
    """
    at, shares = yield from octaves(campaign, width)
    (least, most), (low, high) = ends(at, shares, 0.0), ends(at, shares, _SPARSE)
    at, shares = yield from shares_above(np.linspace(low, high, _STEPS + 1), width)
    low, high = ends(at, shares, _SPARSE)
    step = (high - low) / _NEAR
    below, above = (
        np.geomspace(step, max(room, 2 * step), _FAR) for room in (low - least, most - high)
    )
    return (
        yield from shares_above(
            np.concatenate([low - below[::-1], np.linspace(low, high, _NEAR + 1), high + above]),
            width,
        )
    )


def ends(at: Array, found: JointEstimates, tail: float) -> tuple[float, float]:
    """Return the innermost thresholds that leave at most a tail on either side."""
    least = max(tail, _NOBODY)
    (below,) = np.nonzero(found.values >= 1 - least)
    (above,) = np.nonzero(found.values <= least)
    first = int(below[-1]) if len(below) else 0
    beyond = above[above > first]
    return float(at[first]), float(at[int(beyond[0]) if len(beyond) else -1])
