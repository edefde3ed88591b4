"""geoveil estimate: what the reports of a campaign say."""

import json
from dataclasses import replace
from typing import Annotated

import typer
from rich.table import Table

from geoveil.analyst import (
    CampaignEstimates,
    LabelledEstimate,
    asked_of_points,
    softness_of_points,
)
from geoveil.analyst.client import LAST_PERIOD
from geoveil.campaign import Campaign, ValueCampaign
from geoveil.cli import options
from geoveil.cli.connection import Connection, analyst_at, connects
from geoveil.cli.console import err, number, out
from geoveil.gp import ParameterError
from geoveil.gp.intervals import IntervalMethod


@connects
def estimate(
    campaign_id: Annotated[str, typer.Argument(help="Of the campaign.")],
    confidence: Annotated[float, typer.Option(help="Of the interval, in (0, 1).")] = 0.95,
    interval: Annotated[
        IntervalMethod | None,
        typer.Option(
            help="How it is found, from the same reports: by default the sharpest that covers in"
            " every population tried. full-ends: wider, for small numbers of reports or another"
            " confidence than 95 and 99 %."
        ),
    ] = None,
    period: Annotated[
        int | None,
        typer.Option(
            min=0, max=LAST_PERIOD, help="Of a recurring campaign, from 0; all by default."
        ),
    ] = None,
    threshold: options.Threshold = None,
    range_: options.Range = None,
    place: options.Place = None,
    circle: options.Circle = None,
    region: options.Region = None,
    query: options.Query = None,
    question: options.Question = None,
    width: Annotated[
        float | None,
        typer.Option(
            help="Width of the soft band around a threshold or an end; 3·PER/ε by default."
        ),
    ] = None,
    bandwidth: Annotated[
        float | None,
        typer.Option(
            help="Of the density's bell, and by which the edges of circles and regions are"
            " smoothed; 3·PER/ε by default."
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds that an estimate from points may take.")
    ] = 600.0,
    watch: Annotated[
        bool, typer.Option("--watch", help="Print again when reports come, until it is closed.")
    ] = False,
    as_json: options.AsJson = False,
    *,
    connection: Connection,
) -> None:
    """Print the unbiased estimate of every query of a campaign.

    A value campaign has none: without more the mean point is shown, and with --threshold, --range,
    --place, --circle or --region what is asked, from the same points and at no further cost in
    privacy.

    Example: geoveil estimate where --place Midtown=-73.985,40.755 --bandwidth 1000
    """

    def show(found: CampaignEstimates) -> None:
        if interval is not None:
            rows = tuple(row.with_interval(interval) for row in found.estimates)
            found = replace(found, estimates=rows)
        (_print_json if as_json else _print_table)(found)

    asked = options.asked(threshold, range_, place, circle, region, query, question)
    with analyst_at(connection) as analyst:
        if asked:
            if watch:
                raise ParameterError(
                    "watch", watch, "left out: an estimate from points is read once"
                )
            campaign = analyst.campaign(campaign_id)
            if not isinstance(campaign, ValueCampaign):
                raise ParameterError("campaign", campaign_id, "a value campaign")
            softness = softness_of_points(campaign, width, bandwidth)
            questions = asked_of_points(campaign, asked, softness)
            show(analyst.ask(campaign_id, questions, confidence, period, timeout_s=timeout))
            if softness.caution is not None:
                err.tell(softness.caution)
            return
        if not watch:
            show(analyst.estimate(campaign_id, confidence, period))
            return
        for found in analyst.watch(campaign_id, confidence, period):
            show(found)


def _print_json(found: CampaignEstimates) -> None:
    record = {
        "campaign_id": found.campaign.campaign_id,
        "unbiased_for": found.unbiased_for,
        "epsilon_at_most": found.privacy_at_most.epsilon,
        "estimates": [
            row.to_json() | {"period": row.period, "median_of_means": _robust(row)}
            for row in found.estimates
        ],
    }
    typer.echo(json.dumps(record, indent=2))


def _robust(row: LabelledEstimate) -> dict[str, float] | None:
    if row.robust is None:
        return None
    ends = {"ci_low": row.robust.ci_low, "ci_high": row.robust.ci_high}
    return {"estimate": row.robust.value, **ends}


def _print_table(found: CampaignEstimates) -> None:
    campaign, rows = found.campaign, found.estimates
    recurs = campaign.period is not None
    heavy = any(row.robust is not None for row in rows)
    told = any(row.one_report is not None for row in rows)
    table = Table(
        "query",
        *(["period begins (UTC)"] if recurs else []),
        "estimate",
        "standard error",
        f"{100 * rows[0].confidence:g} % interval",
        *(["by median of means"] if heavy else []),
        "n",
        *(["one report ≤"] if told else []),
    )
    for row in rows:
        enough = row.standard_error is not None
        interval = f"{number(row.ci_low)} – {number(row.ci_high)}" if enough else "needs n ≥ 2"
        robust = row.robust
        blocks = f"{number(robust.ci_low)} – {number(robust.ci_high)}" if robust else "–"
        table.add_row(
            row.label,
            *([_begins(campaign, row.period)] if recurs else []),
            number(row.value),
            number(row.standard_error),
            interval,
            *([blocks] if heavy else []),
            f"{row.n:,}",
            *([_weight(row.one_report)] if told else []),
        )
    each = (
        f", for each participant in each period, at most {found.privacy_at_most} so far"
        if recurs
        else ", for each participant"
    )
    out.tell((campaign.title, "bold"), f"  ({found.privacy}{each})")
    out.print(table)
    out.tell(f"{found.unbiased_for} The error holds noise and sampling.")
    out.print(
        "The interval is for the population of which the participants are a random sample; of the"
        " participants themselves the error is at most as large."
    )
    prices = [row.price_at_least for row in rows if row.price_at_least is not None]
    if prices:
        least, most = f"{min(prices):.3g}", f"{max(prices):.3g}"
        out.print(
            f"Price of privacy: at least {least if least == most else f'{least} to {most}'} × the"
            " variance that the same people would give in the clear."
        )
    for method in dict.fromkeys(row.method for row in rows if row.method is not None):
        out.print(f"Interval ({method}): {method.promise}.")
    for row in rows:
        if row.hard is not None and row.softness is not None:
            begins = f", {_begins(campaign, row.period)}" if recurs else ""
            out.tell(
                f"Hard share, {row.label}{begins}: {number(row.hard.value)}, bias-aware"
                f" {100 * row.confidence:g} % interval {number(row.hard.ci_low)} –"
                f" {number(row.hard.ci_high)}. The plan expects the soft share, the estimate above,"
                f" to be {row.softness.expected:+.3g} ± {row.softness.bound:.2g} from it."
            )
    if told:
        out.print(
            "No single report, whatever it says, moves an estimate by more than the last column."
        )


def _weight(most: float | None) -> str:
    return "–" if most is None else f"{most:.3g}"


def _begins(campaign: Campaign, period: int) -> str:
    assert campaign.period is not None  # asked of recurring campaigns only
    return f"{period}: {campaign.opens + period * campaign.period:%Y-%m-%d %H:%M}"
