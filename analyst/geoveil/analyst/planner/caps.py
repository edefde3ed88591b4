"""Find caps on the odds of any two values that add little variance [MATH §14].

They are chosen by a public prior, never by reports, as campaigns would then show where people are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from geoveil.analyst.planner.priors import Prior
from geoveil.campaign import AttributeCampaign, SmoothSpec, StatisticCampaign, of_far_values, to_one
from geoveil.gp import (
    Array,
    Cap,
    GeoPrivacy,
    QueryMechanism,
    UnsupportedError,
    validation,
    varies_to,
)

COST = 0.05
"""The share of a report's total variance that a cap may add by default."""
_PER_SCALE, _FARTHEST = 8, 24
_SIDES = np.arange(1, _FARTHEST * _PER_SCALE + 1) / _PER_SCALE
"""Sides are tried at every eighth of a noise scale, up to 24."""
_WITHOUT_PRIOR = 4.0
CAPPED_WIDTH = 12
"""The widest band, of 8 noise scales, that fits within a cap of 4 a side: see `coarse.width`."""


@dataclass(frozen=True)
class ChosenCap:
    """A cap, and its cost."""

    cap: Cap
    factor: float | None = None
    """The largest ratio of a report's total variance with the cap to that without; None without a
    prior."""
    noise_factor: float | None = None
    """The same of its noise alone, averaged over people."""

    def __str__(self) -> str:
        far = of_far_values(self.cap.below + self.cap.above)
        cost = ""
        if self.factor is not None:
            cost = f", for {self.factor:.3f} times the variance in the population"
            cost += f", {self.noise_factor:.3f} times that of noise alone"
        return f"cap {self.cap.below:g} noise scales outside, {self.cap.above:g} inside{far}{cost}"


def default_cap(campaign: AttributeCampaign, prior: Prior | None = None) -> ChosenCap | None:
    """Return the default cap of a campaign.

    Args:
        campaign: without a cap.
        prior: a public law of points, in the coordinates of the queries. None: 4 noise scales a
            side, or as far as a query varies.

    Returns:
        The cap; None if no cap promises anything for far values or `least_cap` finds none, and for
        the paper's calibration, points and answers from a reading.
    """
    if not isinstance(campaign, StatisticCampaign) or campaign.readings is not None:
        return None
    spec = campaign.mechanism
    if isinstance(spec, SmoothSpec) and spec.calibration == "paper":
        return None
    try:
        if prior is None:
            chosen: ChosenCap | None = ChosenCap(_usual(campaign.mechanisms))
        else:
            chosen = least_cap(campaign.mechanisms, prior)
    except UnsupportedError:
        return None
    if chosen is None or to_one(replace(campaign, cap=chosen.cap).largest_epsilon) is None:
        return None
    return chosen


def least_cap(
    mechanisms: Sequence[QueryMechanism], prior: Prior, cost: float = COST
) -> ChosenCap | None:
    """Return the cap with the least below + above that adds at most a share of the variance.

    The total variance of a report is that of its noise, averaged over people, plus that of f among
    them. People beyond a side have the noise of those at it, so the costs of both sides add up.

    Args:
        mechanisms: at least one, without a cap; the limit applies to the reports of each.
        prior: a public law of points, in the coordinates of the queries.
        cost: a share > 0 of the total variance.

    Returns:
        The cap and its cost; None if 24 noise scales a side still cost more.

    Raises:
        UnsupportedError: if a report's variance is not a function of its signed distance.
    """
    validation.positive("cost", cost)
    sums, costs = _prices(mechanisms, prior)
    return _chosen(np.where(costs[0] <= cost, sums, np.inf), costs)


def cheapest_cap(
    mechanisms: Sequence[QueryMechanism], prior: Prior, most: float = math.inf
) -> tuple[ChosenCap | None, float]:
    """Return the cap that adds the least variance, and the least possible below + above.

    Args:
        most: the most below + above, in noise scales; the cap is None if all exceed it.

    The other arguments and errors are those of `least_cap`.
    """
    sums, costs = _prices(mechanisms, prior)
    possible = np.where(np.isfinite(costs[0]), sums, np.inf)
    within = np.where(np.floor(sums * _PER_SCALE) <= most * _PER_SCALE, costs[0], np.inf)
    return _chosen(within, costs), float(possible.min())


def _prices(mechanisms: Sequence[QueryMechanism], prior: Prior) -> tuple[Array, Array]:
    """Return below + above of all caps, and the largest shares of variances that each adds.

    The shares are of the total variance, and of the noise alone. If sides differ, less than 1/32
    is added to their sum, so that equal sides come first.
    """
    costs = np.zeros((2, len(_SIDES), len(_SIDES)))
    for mechanism in mechanisms:
        below, above, variances = _costs(mechanism, prior, _SIDES)
        costs = np.maximum(costs, (below[:, None] + above) / variances[:, None, None])
    apart = np.abs(_SIDES[:, None] - _SIDES) / (4 * len(_SIDES) * _PER_SCALE)
    return _SIDES[:, None] + _SIDES + apart, costs


def _chosen(least: Array, costs: Array) -> ChosenCap | None:
    below, above = np.unravel_index(np.argmin(least), least.shape)
    if not np.isfinite(least[below, above]):
        return None
    factors = (1 + costs[:, below, above]).tolist()
    return ChosenCap(Cap(float(_SIDES[below]), float(_SIDES[above])), *factors)


def _usual(mechanisms: Sequence[QueryMechanism]) -> Cap:
    """Return the cap of 4 noise scales a side, or as far as a query varies."""
    varies = np.array([_varies(mechanism) for mechanism in mechanisms], np.float64)
    sides = np.maximum(np.ceil(varies.max(axis=0) * _PER_SCALE) / _PER_SCALE, _WITHOUT_PRIOR)
    return Cap(*sides.tolist())


def _varies(mechanism: QueryMechanism) -> tuple[Fraction, Fraction]:
    """Return how far outside and inside a query varies, in noise scales."""
    outside, inside = varies_to(mechanism.query)
    return outside * _rate(mechanism), inside * _rate(mechanism)


def _rate(mechanism: QueryMechanism) -> Fraction:
    assert isinstance(mechanism.privacy, GeoPrivacy)  # campaigns promise no other
    return mechanism.privacy.exact_rate


def _costs(mechanism: QueryMechanism, prior: Prior, sides: Array) -> tuple[Array, Array, Array]:
    """Return the variance that each side adds, infinite where f varies, the total, and noise's."""
    query, rate = mechanism.query, float(_rate(mechanism))
    breaks = sorted(float(end) for ends in query.varies_within or () for end in ends)
    points, weights = prior.nodes(breaks)
    s = np.asarray(query.signed_distance(points)) * rate
    _, noise = mechanism.moments(s / rate)
    value = np.asarray(query.value(points))
    people = np.square(value - np.sum(weights * value))
    variances = np.array([np.sum(weights * (noise + people)), np.sum(weights * noise)])
    variances = np.maximum(variances, np.finfo(np.float64).tiny)
    costs = []
    for sign, varies in zip((-1, 1), _varies(mechanism), strict=True):
        at = mechanism.moments(sign * sides / rate)[1]
        order = np.argsort(sign * s)
        away = (sign * s)[order]
        each = (weights[order], (weights * noise)[order])
        mass, sums = (np.append(np.cumsum(part[::-1])[::-1], 0.0) for part in each)
        beyond = np.searchsorted(away, sides, side="right")
        extra = at * mass[beyond] - sums[beyond]
        allowed = np.array([Fraction(side) >= varies for side in sides.tolist()])
        costs.append(np.where(allowed, np.maximum(extra, 0.0), np.inf))
    return costs[0], costs[1], variances
