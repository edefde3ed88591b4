"""geoveil estimate: what the reports of a campaign say."""

from typing import Annotated

import typer

from geoveil.analyst import CampaignEstimates, asked_of_points, softness_of_points
from geoveil.campaign import ValueCampaign
from geoveil.cli import options
from geoveil.cli.connection import Connection, analyst_at, connects
from geoveil.cli.console import err
from geoveil.cli.results import Form, formed
from geoveil.gp import ParameterError
from geoveil.gp.intervals import IntervalMethod


@connects
@formed
def estimate(
    campaign_id: options.CampaignId,
    confidence: options.Confidence = 0.95,
    interval: Annotated[
        IntervalMethod | None,
        typer.Option(
            help="How the interval is found, from the same reports: by default the sharpest that"
            " covers in every population tried. full-ends: wider, for small numbers of reports or"
            " another confidence than 95 and 99 %."
        ),
    ] = None,
    period: options.Period = None,
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
            help="Bandwidth of the density's bell, and of the smoothed edges of circles and"
            " regions; 3·PER/ε by default."
        ),
    ] = None,
    contamination: options.Contamination = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds that an estimate from points may take.")
    ] = 600.0,
    watch: Annotated[
        bool, typer.Option("--watch", help="Print again when reports come, until it is closed.")
    ] = False,
    *,
    form: Form,
    connection: Connection,
) -> None:
    """Print the unbiased estimate of every query of a campaign.

    A value campaign has none: without more the mean point is shown, and with --threshold, --range,
    --place, --circle or --region what is asked, from the same points and at no further cost in
    privacy.

    Example: geoveil estimate where --place Midtown=-73.985,40.755 --bandwidth 1000
    """

    def show(found: CampaignEstimates) -> None:
        found = found if interval is None else found.with_interval(interval)
        form.show(found if contamination is None else found.contaminated(contamination))

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
