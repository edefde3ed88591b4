"""The sources of `geoveil estimate`: a campaign on a server, or a file of its reports."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from geoveil.analyst import Analyst, CampaignEstimates, reports_of, sidecar_of
from geoveil.campaign import AttributeCampaign
from geoveil.gp import ParameterError

EXPORTED = ".parquet"
"""The ending of a file of reports."""


def is_file_of_reports(name: str) -> bool:
    """Return whether a name is an export or a masked file, not a campaign at a server."""
    return name.endswith(EXPORTED) or sidecar_of(Path(name)).is_file()


@dataclass(frozen=True)
class Source:
    """Reports of one or all periods, with a confidence level."""

    name: str
    """The id of the campaign, or the name of the file without its ending."""
    period: int | None
    """From 0; None: not said."""
    campaign: Callable[[], AttributeCampaign]
    """Returns the campaign of the reports."""
    ask: Callable[..., Any]
    """Asks a statistic."""
    ask_questions: Callable[..., CampaignEstimates]
    """Asks questions of points."""
    estimate: Callable[[], CampaignEstimates] | None
    """Returns the estimates of the fixed questions; None of a file."""


def source_of(
    name: str,
    connect: Callable[[], Analyst],
    confidence: float,
    period: int | None,
    timeout_s: float,
) -> Source:
    """Return the source of reports.

    Args:
        connect: returns an analyst's client; not called for a file.
        period: of a campaign that recurs, from 0.
        timeout_s: seconds for each time that a server reads every report.
    """
    how: dict[str, Any] = {"confidence": confidence, "period": period}
    if is_file_of_reports(name):
        reports = reports_of(Path(name))
        return Source(
            name=Path(name).stem,
            period=period,
            campaign=lambda: reports.campaign,
            ask=partial(reports.ask, **how),
            ask_questions=partial(reports.estimates, **how),
            estimate=None,
        )
    if Path(name).suffix and Path(name).is_file():  # an id has no ending
        expected = f"the id of a campaign, a file ending in {EXPORTED}, or one that was masked"
        raise ParameterError("campaign", name, expected)
    analyst = connect()
    waiting = how | {"timeout_s": timeout_s}
    return Source(
        name=name,
        period=period,
        campaign=cache(partial(analyst.campaign, name)),
        ask=partial(analyst.ask, name, **waiting),
        ask_questions=partial(analyst.ask, name, **waiting),
        estimate=partial(analyst.estimate, name, **how),
    )
