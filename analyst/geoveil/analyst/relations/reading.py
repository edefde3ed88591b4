"""Read the reports of a form from a file or from a server."""

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from geoveil.analyst.relations.form_reports import FormReports
from geoveil.analyst.statistics.report_files import ReportRows, campaign_in, rows_in
from geoveil.analyst.statistics.statistic import period_of
from geoveil.campaign import Campaign, FormCampaign, decode
from geoveil.gp import ParameterError


def form_reports_of(
    source: "str | os.PathLike[str] | Iterable[bytes | ReportRows]", period: int | None = None
) -> FormReports:
    """Return the reports of a form, all of them in memory.

    Args:
        source: a Parquet file of `geoveil campaign export`, or what `Analyst.export` yields.
        period: of a form that recurs, from 0.

    Raises:
        ParameterError: if it holds no reports of a form, or fewer than two.
    """
    campaign: Campaign | None = None
    parts: Iterable[bytes | ReportRows] = ()
    if isinstance(source, (str, os.PathLike)):
        campaign = campaign_in(Path(source))
        parts = rows_in(Path(source), campaign.labels)
    elif isinstance(source, Iterable):
        parts = source
    rows = []
    for part in parts:
        if isinstance(part, ReportRows):
            rows.append(part)
        else:
            campaign = decode(part)
    if not isinstance(campaign, FormCampaign):
        held = None if campaign is None else campaign.campaign_id
        raise ParameterError("source", held, "reports of a form; others are read by reports_of")
    of = period_of(campaign, period)
    columns = [np.stack(part.columns, axis=1)[part.periods == of] for part in rows]
    return FormReports(
        campaign, np.concatenate([np.empty((0, campaign.columns), np.int64), *columns])
    )
