"""geoveil estimate: statistics from the reports of a campaign."""

import json
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from geoveil.analyst import Analyst, Change, DensityMap, EstimateRequest, whole_file
from geoveil.cli.asking import asks, asks_statistics
from geoveil.cli.connection import Connection, analyst_at, connects
from geoveil.cli.console import err
from geoveil.cli.options import options_of, takes
from geoveil.cli.results import OutputFormat, formed


@connects
@formed
@asks_statistics
@asks
@takes("request", options_of(EstimateRequest), EstimateRequest)
def estimate(*, request: EstimateRequest, form: OutputFormat, connection: Connection) -> None:
    """Print the unbiased estimate of every query of a campaign.

    A value campaign has no queries: by default, the mean point is shown. The options --threshold,
    --range, --place, --circle and --region; for numbers, --mean, --quantile, --curve, --density,
    --histogram, --gini and --top-share; and for places, --map, --districts and --nearest ask
    questions of the same points, at no further cost in privacy.

    Example: geoveil estimate where --place Midtown=-73.985,40.755 --bandwidth 1000

    Example: geoveil estimate incomes --quantile 0.5 --curve

    Example: geoveil estimate weekly --over-time --change 0,51 --label "above 100k"

    Example: geoveil estimate incomes --quantile 0.5 --against incomes-2025 --people different
    """
    with ExitStack() as open_:

        @cache
        def connect() -> Analyst:
            return open_.enter_context(analyst_at(connection))

        for first, *others in request.answered(connect, err.tell):
            for result in (first, *others):
                if isinstance(result, DensityMap):
                    with whole_file("--map", Path(request.statistics["map"][0])) as beside:
                        beside.write_text(json.dumps(result.to_geojson()) + "\n", encoding="utf-8")
            changes = all(isinstance(result, Change) for result in others)  # of the first, a curve
            form.show(first, *(() if changes else others), beside=others if changes else ())
