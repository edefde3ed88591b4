"""geoveil rehearse: a campaign on this machine, answered by simulated people."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from geoveil.analyst import (
    NAME_PROPERTY,
    RADIUS_M,
    HardQuestion,
    PlannedQuestion,
    PlannedQuestions,
    PlanRequest,
    Prior,
    Reports,
    Result,
    any_numbers_in,
    area_of,
    asked_of_points,
    campaign_for_points,
    place_in,
    plan_for,
    questions_in,
    softness_of_points,
    statistics_in,
)
from geoveil.campaign import AttributeCampaign
from geoveil.cli import options
from geoveil.cli.asking import Words, asks, asks_statistics
from geoveil.cli.console import err, number, out
from geoveil.cli.results import OutputFormat, formed
from geoveil.gp import GeoPrivacy, ParameterError, validation
from geoveil.simulation.people_files import FORMATS
from geoveil.simulation.priors import public_prior

_PARTICIPANTS = 10_000
"""The default number of draws, unless a file lists everybody."""


@formed
@asks_statistics
@asks
def rehearse(
    people: Annotated[
        str,
        typer.Argument(
            help="The people: a file with one row each (.csv, .parquet, or .gpkg for places); or"
            " incomes, collisions, lognormal:MEDIAN,SIGMA, histogram:FILE.csv."
        ),
    ],
    *,
    value: Annotated[
        list[str] | None,
        typer.Option(help="Column of a file that holds values, or (twice) longitude and latitude."),
    ] = None,
    weight: Annotated[
        str | None, typer.Option(help="Column with the number of people that a row stands for.")
    ] = None,
    participants: Annotated[
        int | None,
        typer.Option(
            help="How many take part, drawn at random; by default each row of a file once, or"
            f" {_PARTICIPANTS:,} people."
        ),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Unit of the values, for example dollar.")
    ] = None,
    epsilon: Annotated[float, typer.Option(help=options.EPSILON_HELP)] = 1.0,
    per: options.Per = None,
    words: Words,
    statistics: Mapping[str, Sequence[str]],
    width: Annotated[
        float | None, typer.Option(help="Width of the soft band of statistics; 3·PER/ε by default.")
    ] = None,
    bandwidth: Annotated[
        float | None, typer.Option(help="Bandwidth of densities at places; 3·PER/ε by default.")
    ] = None,
    center: options.Center = None,
    radius: options.Radius = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed: the same one draws the same people.")
    ] = None,
    form: OutputFormat,
) -> None:
    """Try a campaign before anybody takes part: simulated people answer it on this machine.

    It is planned, published on a server that lives as long as the rehearsal, answered by one
    simulated device for each person, and estimated. Questions alone (--threshold, --range, --place,
    --circle, --region) get the mechanism that 'geoveil plan' would choose; with statistics each
    person sends one perturbed value, of which all of them are asked.

    Example: geoveil rehearse people.csv --value income --unit dollar --per 8000 --curve --plot
    curve.png

    Example: geoveil rehearse incomes --per 8000 --threshold 100000
    """
    from geoveil.simulation.rehearsal import rehearse as rehearsed

    if per is None:
        raise ParameterError("per", None, "given: a distance within which values are to look alike")
    questions, wanted = (
        questions_in(words),
        statistics_in(statistics, width, bandwidth, next(iter(words.get(NAME_PROPERTY, ())), None)),
    )
    if not questions and not wanted:
        expected = "given: at least one, as --threshold 100000, --quantile 0.5 or --curve"
        raise ParameterError("question", "none", expected)
    columns = tuple(value or ())
    source = public_prior(people, columns, weight)
    if source.unit is None and unit is None:
        raise ParameterError("unit", None, "given: the unit of the values, as dollar")
    prior = source.make(None)
    every_row = people.endswith(FORMATS) and weight is None and participants is None
    held = _everybody(prior) if every_row else None
    count = (
        len(held) if held is not None else _PARTICIPANTS if participants is None else participants
    )
    place = None if center is None else place_in("center", center)
    closes = datetime.now(UTC)  # a rehearsal is over: nobody looks while reports come in
    later: dict[str, Any] = {
        "campaign_id": "rehearsal",
        "title": f"Rehearsal with {count:,} simulated people",
        "opens": closes - timedelta(days=1),
        "closes": closes,
    }
    request: PlanRequest | None = None
    planned: PlannedQuestion | PlannedQuestions | None = None
    with err.status("planning"):
        if questions and not wanted:
            request = PlanRequest.of(
                questions,
                epsilon=validation.positive("epsilon", epsilon),
                per=per,
                source=source,
                participants=count,
                unit=unit,
                bandwidth=bandwidth,
                center=place,
                radius=RADIUS_M if radius is None else radius,
            )
            planned = plan_for(request)
            campaign: AttributeCampaign = planned.campaign(**later)
        else:
            campaign = campaign_for_points(
                attribute=source.attribute,
                privacy=GeoPrivacy(epsilon, per, source.unit or str(unit)),
                plane=None
                if source.dimension == 1
                else area_of(questions, place or _middle(prior.nodes()[0]), radius or RADIUS_M),
                **later,
            )
    if isinstance(planned, PlannedQuestion) and not form.quiet:
        report = planned.report()
        error = report["alternatives"][0]["error_95"]
        err.tell(f"The plan: {report['choice']}; the 95 % interval should be ±{number(error)}.")
    with err.status(f"{count:,} people take part"):
        taking_part = prior if held is None else held
        number_drawn = count if held is None else None
        answers = rehearsed(campaign, taking_part, participants=number_drawn, seed=seed)
    results: list[Result] = []
    if isinstance(answers, Reports):
        if questions:
            softness = softness_of_points(answers.campaign, width, bandwidth)
            results.append(
                answers.estimates(asked_of_points(answers.campaign, questions, softness))
            )
        results += [answers.ask(statistic) for statistic in wanted]
    else:
        results.append(answers)
    form.show(*results)
    if held is not None and not (form.quiet or form.as_json or form.as_csv):
        for line in _truths(request, held, statistics):
            out.print(line)


def _everybody(prior: Prior) -> NDArray[np.float64]:
    """Return a value for each person of a file; its prior merges equal values."""
    values, weights = prior.nodes()
    return np.repeat(values, np.rint(weights * prior.size).astype(int), axis=0)


def _middle(places: NDArray[np.float64]) -> tuple[float, float]:
    """Return the midpoint of places, shape (n, 2), as the centre of an area."""
    west, south = places.min(axis=0)
    east, north = places.max(axis=0)
    return float(west + east) / 2, float(south + north) / 2


def _truths(
    request: PlanRequest | None,
    held: NDArray[np.float64],
    statistics: Mapping[str, Sequence[str]],
) -> Iterator[str]:
    """Yield the participants' true answers, which only a rehearsal knows."""
    start = "Of these people themselves: "
    if request is not None:
        points = held if request.plane is None else request.plane.project(held)
        for label, question in zip(request.labels, request.questions, strict=True):
            if isinstance(question, HardQuestion):
                inside = question.signed(points) > 0
                yield f"{start}{label} {number(float(np.mean(inside)))}."
    for text in statistics.get("quantile", ()):
        for level in any_numbers_in("quantile", text):
            yield f"{start}quantile {level:g} {np.quantile(held, level):,.6g}."
    if "mean" in statistics:
        yield f"{start}mean {np.mean(held):,.6g}."
