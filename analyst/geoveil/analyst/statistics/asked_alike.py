"""Compute a statistic in the same way for several sets of reports, so that results compare."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from geoveil.analyst.statistics.comparison import (
    Changes,
    CurveChange,
    People,
    compare,
    people_of,
)
from geoveil.analyst.statistics.distribution import DistributionFunction
from geoveil.analyst.statistics.statistic import Contaminated, Statistic
from geoveil.analyst.statistics.thresholds import band_width
from geoveil.campaign import AttributeCampaign
from geoveil.gp import ParameterError


def ask_changes(
    asking: Sequence[Callable[[Statistic[Any]], Any]],
    statistic: Statistic[Any],
    campaigns: Sequence[AttributeCampaign],
    *,
    people: People | str,
    names: Sequence[str] = (),
) -> Changes | CurveChange:
    """Return the differences of a statistic between sets of reports, computed in the same way.

    All thresholds are as soft as for the set with the most noise, unless the statistic states
    a softness; a distribution function covers the range in which any of them has people.

    Args:
        asking: two or more functions, each of which computes a statistic of one set of reports;
            two for a distribution function.
        statistic: `Means`, `MeanValue`, `Quantiles`, `Gini`, `TopShare`, `DistributionFunction`, or
            one of them as `Contaminated`.
        campaigns: of each set.
        people: as of `compare`.
        names: as of `compare`.

    Raises:
        ParameterError: if the campaigns are of different units, or as of `compare`.
        GeoVeilError: whatever asking raises.

    Example:
        >>> from geoveil.analyst import Analyst, Quantiles
        >>> def medians(analyst: Analyst) -> Changes | CurveChange:
        ...     campaigns = [analyst.campaign(name) for name in ("incomes-2026", "incomes-2027")]
        ...     asking = [
        ...         lambda asked, name=one.campaign_id: analyst.ask(name, asked)
        ...         for one in campaigns
        ...     ]
        ...     median = Quantiles(levels=[0.5])
        ...     return ask_changes(asking, median, campaigns, people="different")
    """
    kind = people_of(people)
    alike = asked_alike(asking, statistic, campaigns)
    made: Changes | CurveChange = compare(*(ask(alike) for ask in asking), people=kind, names=names)
    return made


def asked_alike(
    asking: Sequence[Callable[[Statistic[Any]], Any]],
    statistic: Statistic[Any],
    campaigns: Sequence[AttributeCampaign],
) -> Statistic[Any]:
    """Return a version of a statistic that is comparable between sets: see `ask_changes`.

    Args:
        asking: as of `ask_changes`; called only to find the range of a distribution function.
        statistic: as of `ask_changes`.
        campaigns: of each.

    Raises:
        ParameterError: if the campaigns are of different units.
        GeoVeilError: whatever asking raises.
    """
    first, *others = (campaign.privacy.unit for campaign in campaigns)
    for unit in others:
        if unit != first:
            raise ParameterError("unit", unit, f"{first!r}, as of the first")
    scale, *scales = (campaign.attribute.scale for campaign in campaigns)
    for other in scales:
        if other != scale:
            raise ParameterError("attribute.scale", other, f"{scale}, as of the first")
    changed = _changed(statistic, lambda one: _as_soft(one, campaigns))
    inner = changed.of if isinstance(changed, Contaminated) else changed
    if isinstance(inner, DistributionFunction) and inner.at is None and inner.low is None:
        where = _changed(changed, lambda one: replace(one, points=2))
        ends = np.concatenate([ask(where).at for ask in asking])
        low, high = float(ends.min()), float(ends.max())
        return _changed(changed, lambda one: replace(one, low=low, high=high))
    return changed


def _changed(statistic: Statistic[Any], change: Callable[[Any], Statistic[Any]]) -> Statistic[Any]:
    """Return a changed statistic, contaminated like the original one."""
    if isinstance(statistic, Contaminated):
        return replace(statistic, of=change(statistic.of))
    return change(statistic)


def _as_soft(statistic: Any, campaigns: Sequence[AttributeCampaign]) -> Statistic[Any]:
    soft: Statistic[Any] = statistic
    if getattr(statistic, "width", 0.0) is None:
        width = max(band_width(campaign, None) for campaign in campaigns)
        if campaigns[0].attribute.scale is not None:
            width = math.exp(width)
        soft = replace(statistic, width=width)
    return soft
