"""geoveil simulate scale, export, bulk: campaigns of any size, on this machine or a cluster."""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from geoveil.campaign import Attribute, Campaign, Question, StatisticCampaign
from geoveil.cli.console import bars, number, out, privacy_text, table_80
from geoveil.gp import GeoPrivacy, ParameterError, Query, Threshold, TwoWayThreshold
from geoveil.gp.estimation import Accumulator, Estimate, estimate

_SHIPPED = ("incomes", "income-and-debt", "places")
_OPENS = datetime(2026, 1, 1, tzinfo=UTC)
"""A campaign's dates are part of what is simulated; today's would not let a run be resumed."""

Workers = Annotated[
    int | None, typer.Option(help="Processes on this machine; one per core by default.")
]
Scheduler = Annotated[
    str | None,
    typer.Option(help="Address of a Dask scheduler, e.g. tcp://10.0.0.5:8786, to use instead."),
]
Resume = Annotated[
    Path | None,
    typer.Option(help="File of what is finished; a run that finds it goes on from there."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]


def scale(
    devices: Annotated[int, typer.Option(help="Simulated devices, up to 10¹³.")] = 10_000_000,
    population: Annotated[
        str,
        typer.Option(
            help="incomes, income-and-debt, places, or a file: .csv (header) or .parquet."
        ),
    ] = "incomes",
    value: Annotated[
        list[str] | None,
        typer.Option(help="Of a file: column that members hold; twice for pairs."),
    ] = None,
    weight: Annotated[
        str | None, typer.Option(help="Of a file: column that says how many a row stands for.")
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="Ask for the share above it (of both, for pairs).")
    ] = 100_000.0,
    epsilon: Annotated[float, typer.Option(help="ε: two values PER apart are ε-alike.")] = 1.0,
    per: Annotated[float, typer.Option(help="A distance, in the unit of the values.")] = 8_000.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bits.")] = 1,
    workers: Workers = None,
    scheduler: Scheduler = None,
    resume: Resume = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a campaign of any number of devices; compare its estimate with the truth.

    The result has the same bits on any number of workers. Places ask the questions of the demo.

    Examples: geoveil simulate scale --devices 1000000000 --resume run.jsonl;
    geoveil simulate scale --population people.csv --value income --weight weight --threshold 50000
    """
    from geoveil.simulation.scale import simulated

    campaign, people = _asked(
        population, value, weight, threshold, GeoPrivacy(epsilon, per, "unit")
    )
    work = simulated(campaign, people, devices, seed=seed)
    sums = _total(work, workers, scheduler, resume, f"{devices:,} devices")
    rows = [
        (question.label, work.people.mean(question.query.value), s)
        for question, s in zip(campaign.questions, sums, strict=True)
    ]
    _show(campaign, rows, 0.95, as_json)


def export(
    database: Annotated[Path, typer.Argument(help="SQLite file of an aggregator.")],
    folder: Annotated[Path, typer.Argument(help="Where the Parquet files go; made here.")],
    campaign_id: Annotated[
        list[str] | None, typer.Option("--campaign", help="Only this one. May be repeated.")
    ] = None,
) -> None:
    """Export the counted reports of an aggregator to Parquet, without their ids; read-only.

    The aggregator may go on running: what is written is of one moment.
    """
    from geoveil.simulation.scale import export_reports

    with _progress("exporting") as on_progress:
        count = export_reports(
            database, folder, campaign_ids=campaign_id or None, on_progress=on_progress
        )
    out.tell(f"{count:,} reports in {folder}")


def bulk(
    folder: Annotated[Path, typer.Argument(help="That 'export' wrote; on every worker's path.")],
    confidence: Annotated[float, typer.Option(help="Of the interval, in (0, 1).")] = 0.95,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Estimate from exported reports: the aggregator's own estimates, computed again, to the bit.

    Fails if the reports do not add up to the sums that the aggregator kept while it counted.
    """
    from geoveil.simulation.scale import exported

    works = exported(folder)
    for work in works:
        sums = _total(work, workers, scheduler, None, work.campaign.title)
        work.check(sums)
        rows = [(label, None, of_one) for label, of_one in zip(work.labels, sums, strict=True)]
        _show(work.campaign, rows, confidence, as_json)


def _asked(
    population: str,
    value: Sequence[str] | None,
    weight: str | None,
    threshold: float,
    privacy: GeoPrivacy,
) -> tuple[StatisticCampaign, Any]:
    """Return a campaign and who takes part in it."""
    from geoveil.simulation import Population, household_incomes, incomes_and_debts
    from geoveil.simulation.demo import experiments

    if population in _SHIPPED and (value or weight):
        raise ParameterError("population", population, "a file if columns of one are named")
    if population == "places":
        places = experiments(_OPENS)[1]
        return places.campaign, places.population
    people: Any
    if population == "incomes":
        people = household_incomes()
    elif population == "income-and-debt":
        people = incomes_and_debts()
    else:
        path = Path(population)
        readers = {".csv": Population.from_csv, ".parquet": Population.from_parquet}
        if path.suffix not in readers:
            known = ", ".join(_SHIPPED)
            raise ParameterError("population", population, f"{known}, or a .csv or .parquet file")
        if not value or len(value) > 2:
            raise ParameterError("value", value, "the name of one or two columns of the file")
        people = readers[path.suffix](path, values=value, weights=weight)
    privacy = GeoPrivacy(privacy.epsilon, privacy.per, people.unit)
    width = 3 / privacy.rate
    query: Query = (
        Threshold(threshold, width, "smoothstep")
        if people.dimension == 1
        else TwoWayThreshold((threshold, threshold), width, "smoothstep")
    )
    campaign = StatisticCampaign(
        campaign_id="simulated",
        title=f"Share above {threshold:,.15g}",
        attribute=Attribute(name="value", unit=people.unit),
        privacy=privacy,
        questions=(Question(f"above {threshold:,.15g}", query),),
        opens=_OPENS,
        closes=_OPENS + timedelta(days=1),
    )
    return campaign, people


def _total(
    work: Any, workers: int | None, scheduler: str | None, resume: Path | None, what: str
) -> list[Accumulator]:
    from geoveil.simulation.scale import computer, total

    with computer(scheduler, workers) as compute, _progress(what) as on_progress:
        return total(work, compute, path=resume, on_progress=on_progress)


@contextmanager
def _progress(what: str) -> Iterator[Any]:
    """Yield a function of (done, all) that moves a bar with the time left."""
    with bars() as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, of: progress.update(task, completed=done, total=of)


def _show(
    campaign: Campaign,
    rows: Sequence[tuple[str, float | None, Accumulator]],
    confidence: float,
    as_json: bool,
) -> None:
    found = [
        (label, truth, sums, estimate(sums, campaign.grid_exponent, confidence))
        for label, truth, sums in rows
    ]
    if as_json:
        typer.echo(json.dumps([_record(campaign, *row) for row in found], indent=2))
        return
    simulated = any(truth is not None for _, truth, *_ in found)
    headers = ("", *(("truth",) if simulated else ()), "estimate", "standard error")
    table = table_80(*headers, f"{100 * confidence:g} % interval", "n", wrapped=1)
    digits = _digits([got.standard_error for *_, got in found])
    for label, truth, _, got in found:
        interval = f"{number(got.ci_low, digits)}–{number(got.ci_high, digits)}"
        cells = [label, *([number(truth, digits)] if simulated else [])]
        cells += [number(got.value, digits), number(got.standard_error, digits)]
        table.add_row(*cells, interval, f"{got.n:,}")
    out.tell((campaign.title, "bold"))
    out.tell(f"{privacy_text(campaign)}, for each participant")
    out.print(table)


def _digits(errors: Sequence[float | None]) -> int:
    """Return how many decimals show two digits of every standard error."""
    return max([4, *(1 - math.floor(math.log10(error)) for error in errors if error)])


def _record(
    campaign: Campaign, label: str, truth: float | None, sums: Accumulator, got: Estimate
) -> dict[str, object]:
    return {
        "campaign_id": campaign.campaign_id,
        "name": label,
        "truth": truth,
        "estimate": got.value,
        "standard_error": got.standard_error,
        "confidence": got.confidence,
        "ci_low": got.ci_low,
        "ci_high": got.ci_high,
        "n": got.n,
        # Exact, and beyond 64 bits, so as text.
        "total": str(sums.total),
        "total_of_squares": str(sums.total_of_squares),
        "step_exponent": campaign.grid_exponent,
        "epsilon": campaign.report_privacy.epsilon,
        "per": campaign.report_privacy.per,
        "unit": campaign.report_privacy.unit,
    }
