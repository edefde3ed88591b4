"""Sets of reports, from a campaign on a server or from a file, and differences between two."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from geoveil.analyst.client import Analyst
from geoveil.analyst.estimates import CampaignEstimates
from geoveil.analyst.masks import sidecar_of
from geoveil.analyst.statistics.comparison import Changes, CurveChange, People, compare, people_of
from geoveil.analyst.statistics.distribution import DistributionFunction
from geoveil.analyst.statistics.reports import reports_of
from geoveil.analyst.statistics.statistic import Contaminated, Statistic, band_width
from geoveil.campaign import AttributeCampaign, ValueCampaign
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


EXPORTED = ".parquet"
"""The extension of a file of reports."""


def is_file_of_reports(name: str) -> bool:
    """Return whether a name is an export or a masked file, not a campaign at a server."""
    return name.endswith(EXPORTED) or sidecar_of(Path(name)).is_file()


@dataclass(frozen=True)
class Source:
    """Reports of one or all periods, with a confidence level."""

    name: str
    """The id of the campaign, or the name of the file without its ending."""
    period: int | None
    """The period, from 0; None for all that have begun."""
    campaign: Callable[[], AttributeCampaign]
    """Returns the campaign of the reports."""
    ask: Callable[..., Any]
    """Asks a statistic, or questions of points."""
    estimate: Callable[[], CampaignEstimates] | None
    """Returns the estimates of the fixed questions; None for a file."""

    @classmethod
    def of(
        cls,
        name: str,
        connect: Callable[[], Analyst],
        confidence: float,
        period: int | None,
        timeout_s: float,
    ) -> "Source":
        """Return the reports of a campaign on a server, to which it connects, or from a file."""
        how: dict[str, Any] = {"confidence": confidence, "period": period}
        path = Path(name)
        if is_file_of_reports(name):
            reports = reports_of(path)

            def ask(wanted: Any, **_: Any) -> Any:
                if isinstance(wanted, Statistic):
                    return reports.ask(wanted, **how)
                return reports.estimates(wanted, **how)

            return cls(path.stem, period, lambda: reports.campaign, ask, None)
        if path.suffix and path.is_file():  # an id has no extension
            expected = f"the id of a campaign, a file ending in {EXPORTED}, or one that was masked"
            raise ParameterError("campaign", name, expected)
        analyst = connect()
        return cls(
            name,
            period,
            cache(partial(analyst.campaign, name)),
            partial(analyst.ask, name, **how, timeout_s=timeout_s),
            partial(analyst.estimate, name, **how),
        )

    def values(self) -> ValueCampaign:
        """Return the campaign of the reports, which are points."""
        campaign = self.campaign()
        if not isinstance(campaign, ValueCampaign):
            raise ParameterError("campaign", campaign.campaign_id, "a value campaign")
        return campaign

    def dated(self, change: tuple[int, int]) -> "Source":
        """Return the reports, named after the first day of their period, for a comparison."""
        campaign = self.campaign()
        if campaign.period is None or self.period is None:
            expected = "left out: the campaign does not recur; --against compares it with another"
            raise ParameterError("change", f"{change[0]},{change[1]}", expected)
        return replace(self, name=f"{campaign.opens + self.period * campaign.period:%Y-%m-%d}")
