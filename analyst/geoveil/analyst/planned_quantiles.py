"""Predict the errors of quantiles from a value campaign [MATH §8]."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from geoveil.analyst.contamination import Contamination
from geoveil.analyst.planner import NORMAL_95
from geoveil.analyst.public_prior import PublicPrior
from geoveil.analyst.questions import Softness
from geoveil.analyst.statistics.distribution import checked_levels
from geoveil.gp import GeoPrivacy, LogScale, ParameterError, PlanarLaplace, Threshold, validation

_STEP = 0.02
"""The step over which the density at a quantile is measured, in widths."""
_LEAST = 1e-6
"""The least share of the people within a width: if the prior has less, no quantile is precise."""


def planned_quantiles(
    source: PublicPrior,
    privacy: GeoPrivacy,
    participants: float,
    levels: Sequence[float] = (0.25, 0.5, 0.75),
    width: float | None = None,
    contamination: float = 0.0,
    scale: LogScale | None = None,
) -> list[dict[str, Any]]:
    """Return the quantiles of a prior, and their expected errors in a value campaign.

    The error of a quantile is that of the share above it, divided by the density of people there.

    Args:
        source: public knowledge about people who hold numbers.
        participants: the number of people who will report, at least 2.
        levels: increasing, in (0, 1).
        width: of the soft thresholds, in the unit of the numbers; three noise scales by default.
        contamination: the fraction of the participants who may be liars, in [0, 1).
        scale: of numbers that are compared by ratio; the width is then a factor.

    Returns:
        For each level, the prior's quantile of blurred values, half the width of its separate 95 %
        interval, and how far liars can move it (`moved`; None if anywhere), all in the unit of
        the numbers. With a scale, all but the quantile are factors, up or down.

    Raises:
        ParameterError: if an argument is out of range, or the prior is of places or has nobody near
            a quantile.

    Example:
        >>> from geoveil.analyst import LogNormalPrior
        >>> incomes = PublicPrior.of_numbers(LogNormalPrior(11.5, 0.8), "dollar")
        >>> privacy = GeoPrivacy(1.0, per=8_000.0, unit="dollar")
        >>> (median,) = planned_quantiles(incomes, privacy, 50_000, [0.5])
        >>> round(median["value"]), round(median["error_95"])
        (98861, 927)
    """
    if source.dimension != 1:
        raise ParameterError("prior", source.name, "of numbers: places have no quantiles")
    n = validation.real("participants", participants)
    if n < 2:
        raise ParameterError("participants", participants, "at least 2")
    if scale is not None:
        source = source.on_scale(scale)
        width = scale.width(width)
    prior, noise_scale = source.make(None), 1 / privacy.rate
    soft = Softness(noise_scale, width).band()
    numbers, weights = prior.nodes()

    def share(at: float) -> float:
        x, shares = prior.nodes((at - soft / 2, at + soft / 2))
        return float(shares @ Threshold(at, soft, "smoothstep").value(x))

    def place(level: float, start: float) -> float:
        return _root(lambda t: share(t) - (1 - level), start, soft)

    rows = []
    order = np.argsort(numbers)
    for level in checked_levels(levels).tolist():
        below = int(np.searchsorted(np.cumsum(weights[order]), level))
        start = float(numbers[order[min(below, len(order) - 1)]])
        at = place(level, start)
        step = _STEP * soft
        density = (share(at - step) - share(at + step)) / (2 * step)
        if density * soft < _LEAST:
            permitted = f"levels near which {source.name} has people"
            raise ParameterError("quantile", level, permitted)
        question = Threshold(at, soft, "smoothstep")
        estimator = PlanarLaplace(privacy, 1).estimator(question, debias=True)
        x, shares = prior.nodes((at - soft / 2, at + soft / 2))
        varied = shares @ question.value(x) ** 2 - (1 - level) ** 2
        variance = float(shares @ estimator.variance(x) + varied)
        error = NORMAL_95 * math.sqrt(variance / n) / density
        low, high = estimator.limits.reports
        most = Contamination(contamination, high - low).moved
        moved = None
        if most < min(level, 1 - level):
            moved = max(abs(place(level + sign * most, at) - at) for sign in (1, -1)) if most else 0
        row = {"value": at, "error_95": error, "width": soft, "moved": moved}
        if scale is not None:
            row = {name: x if x is None else float(scale.from_log(x)) for name, x in row.items()}
        rows.append({"level": level, **row})
    return rows


def _root(falling: Any, start: float, reach: float) -> float:
    """Return the root of a decreasing function."""
    from scipy.optimize import brentq

    low, high = start - reach, start + reach
    while falling(low) < 0:
        low -= 2 * (high - low)
    while falling(high) > 0:
        high += 2 * (high - low)
    root: Any = brentq(falling, low, high, xtol=1e-6 * reach)  # more, if asked for more
    return float(root)
