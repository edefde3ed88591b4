"""The progress of a survey day by day, compared with the plan.

The server keeps one number per survey and day, updated every ten minutes. It shows how many people
took part on a day, but not when any of them did.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from geoveil.analyst import Result
from geoveil.campaign import Campaign
from geoveil.console.http import GatewayRequest
from geoveil.console.page_analyst import CampaignProgress

_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_TOO_EARLY = 0.01
"""The fraction of its planned reports before which a survey is not compared with its plan."""
_BEHIND, _EARLY = 0.8, 0.1
"""A survey below this fraction of its plan is behind; the page does not say so in this first
fraction of its time."""


@dataclass(frozen=True, kw_only=True)
class ReportsOverTime(Result):
    """Cumulative reports at the end of each day that had new ones, and now."""

    campaign: Campaign
    planned: int | None
    """Expected reports by the survey's end; None if not given."""
    days: Sequence[tuple[int, int]]
    """Days since 1970-01-01, each with the total of reports last recorded on it."""
    reports: int
    """The total of reports now."""
    now: datetime

    @classmethod
    def of(cls, progress: CampaignProgress, now: datetime) -> "ReportsOverTime":
        """Return the progress of a survey."""
        campaign = progress.published.campaign
        planned = None if progress.planned is None else progress.planned * campaign.periods
        return cls(
            campaign=campaign,
            planned=planned,
            days=progress.days,
            reports=progress.published.reports,
            now=min(max(now, campaign.opens), campaign.closes),
        )

    @property
    def title(self) -> str:
        return "Reports over time" + ("" if self.planned is None else ", against the plan")

    @property
    def notes(self) -> Sequence[str]:
        said = [
            "The server counts reports by the day (UTC), to within ten minutes, and keeps no time"
            " of any report."
        ]
        if self.planned is not None:
            said.append("The plan is assumed to be spread evenly over the days of the survey.")
        if self._before:
            said.append(f"{self._before:,} came before this server counted by the day.")
        return said

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        before = self._before
        for day, reports in self._by_day:
            expected = self.planned_by(self._ends(day))
            rows.append(
                {
                    "day": f"{_FIRST + day * _DAY:%Y-%m-%d}",
                    "reports": reports - before,
                    "in_all": reports,
                    "planned_in_all": None if expected is None else round(expected),
                }
            )
            before = reports
        return rows

    def planned_by(self, when: datetime) -> float | None:
        """Return the planned number of reports at a time; None without a plan."""
        if self.planned is None:
            return None
        opens, closes = self.campaign.opens, self.campaign.closes
        part = (when - opens) / (closes - opens)
        return self.planned * min(max(part, 0.0), 1.0)

    def line(self) -> Iterator[tuple[datetime, int]]:
        """Yield times, each with the total of reports."""
        yield self.campaign.opens, 0
        before: tuple[int, int] | None = None
        for day, reports in self._by_day:
            if before is not None and day > before[0] + 1:
                yield _FIRST + day * _DAY, before[1]  # no reports came on the days between
            yield self._ends(day), reports
            before = day, reports
        if before is not None and self._ends(before[0]) < self.now:
            yield self.now, self.reports

    @property
    def words(self) -> str:
        """A comparison with the plan; empty without one."""
        expected = self.planned_by(self.now)
        if expected is None or self.planned is None:
            return ""
        if expected < max(_TOO_EARLY * self.planned, 1.0):
            return f"{self.planned:,} are planned by the end"
        part = 100 * self.reports / expected
        return f"{part:.0f} % of the {expected:,.0f} that the plan expects by now"

    @property
    def behind(self) -> bool:
        """Whether there are far fewer reports than planned by now."""
        expected, planned = self.planned_by(self.now), self.planned
        if expected is None or planned is None or expected < _EARLY * planned:
            return False
        return self.reports < _BEHIND * expected

    @property
    def _by_day(self) -> Sequence[tuple[int, int]]:
        """The recorded days, and today."""
        today = (self.now - _FIRST) // _DAY
        earlier = [(day, reports) for day, reports in self.days if day not in (0, today)]
        last = earlier[-1][1] if earlier else self._before
        return [*earlier, (today, self.reports)] if self.reports > last else earlier

    @property
    def _before(self) -> int:
        """Reports from before days were recorded."""
        return next((reports for day, reports in self.days if day == 0), 0)

    def _ends(self, day: int) -> datetime:
        return max(min(_FIRST + (day + 1) * _DAY, self.now), self.campaign.opens)


def over_time(request: GatewayRequest, campaign_id: str) -> ReportsOverTime:
    """Return the progress of a survey, for readers who may see its estimates."""
    return ReportsOverTime.of(request.analyst.status_of(campaign_id), request.now)


def plan_participants(request: GatewayRequest, campaign_id: str, participants: int | None) -> None:
    """Store the planned number of participants, for users who may publish the survey."""
    request.analyst.plan_participants(campaign_id, participants)
    request.note("plan participants", campaign=campaign_id, participants=participants)
