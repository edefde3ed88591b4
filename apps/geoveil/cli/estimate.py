"""geoveil estimate: what the reports of a campaign say."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Annotated, TypeGuard

import typer

from geoveil.analyst import (
    NAME_PROPERTY,
    Analyst,
    AnalystQuestion,
    CampaignEstimates,
    ChosenBands,
    Contaminated,
    DensityMap,
    People,
    Result,
    Softness,
    Top,
    asked_of_points,
    hard_shares,
    planned_points,
    questions_in,
    softness_of_points,
    statistics_in,
    two_numbers,
    whole_file,
)
from geoveil.campaign import AttributeCampaign, PointQuestion, ValueCampaign
from geoveil.cli import options
from geoveil.cli.asking import Period, Words, asks
from geoveil.cli.asking_statistics import asks_statistics
from geoveil.cli.connection import Connection, analyst_at, connects
from geoveil.cli.console import err
from geoveil.cli.estimate_changes import changes, compared, value_campaign
from geoveil.cli.results import OutputFormat, formed
from geoveil.cli.sources import EXPORTED, source_of
from geoveil.gp import IntervalMethod, ParameterError, validation

_WITH_BELLS = frozenset({"map", "districts", "nearest"})
"""Statistics that have a bandwidth."""


@connects
@formed
@asks_statistics
@asks
def estimate(
    campaign_id: Annotated[
        str,
        typer.Argument(
            help=f"The id of the campaign; or a file, ending in {EXPORTED}, that 'geoveil campaign"
            " export' wrote, for which no server is asked."
        ),
    ],
    *,
    confidence: options.Confidence = 0.95,
    interval: Annotated[
        IntervalMethod | None,
        typer.Option(
            help="How the interval is found, from the same reports: by default one that holds at"
            " all looks (sequence) while reports come in and after a close by hand, and else the"
            " sharpest for one look (weighted-ends), which may be missed a quarter more often than"
            " its confidence says. full-ends: wider, for one look, and not missed more often in any"
            " population tried. One for one look is right while reports come in at a number of them"
            " that was set before the first look."
        ),
    ] = None,
    period: Period = None,
    words: Words,
    width: Annotated[
        float | None,
        typer.Option(
            help="Width of the soft band around a threshold or an end. By default the"
            " reports choose it for the shortest interval of the hard share, at no cost in"
            " privacy; otherwise 3·PER/ε."
        ),
    ] = None,
    slope_bound: Annotated[
        float | None,
        typer.Option(
            help="How much the density of people changes at most, in shares per unit², where the"
            " width is chosen; by default what the reports suggest, which is no certificate."
        ),
    ] = None,
    heap: options.Heaps = None,
    range_of_values: Annotated[
        str | None,
        typer.Option(
            help="'LOW,HIGH': between which everybody's value lies, a public fact, with which the"
            " interval of --mean holds for all such people; by default what the campaign states."
        ),
    ] = None,
    bandwidth: Annotated[
        float | None,
        typer.Option(
            help="Bandwidth of the density's bell, and of the smoothed edges of circles and"
            " regions; 3·PER/ε by default."
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            help="Ask the points what this plan has them asked ('geoveil plan --out'), with its"
            " bands, and tell the hard shares by the differences that it expects."
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Which of the questions have the greatest answers, so many of them, and how"
            " surely.",
        ),
    ] = None,
    contamination: options.Contamination = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds that an estimate from points may take.")
    ] = 600.0,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Print again when reports come, until it is closed: intervals hold at all looks.",
        ),
    ] = False,
    over_time: Annotated[
        bool,
        typer.Option(
            "--over-time",
            help="Of a campaign that recurs: the curve over its periods, with intervals that hold"
            " all of it at once, and flags where those who have just read moved otherwise.",
        ),
    ] = False,
    label: Annotated[
        str | None,
        typer.Option(help="With --over-time: the only question that is wanted; all by default."),
    ] = None,
    change: Annotated[
        str | None,
        typer.Option(
            help="How what is asked changed between two periods: 'FIRST,LAST', from 0; with"
            " --over-time beside the curve."
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="Id of another campaign, or a file: how much greater what is asked is here than"
            " there."
        ),
    ] = None,
    people: Annotated[
        People | None,
        typer.Option(
            help="Of --change and --against: whether the people behind both are different, or may"
            " be the same, by default: the error of a difference is then at most the sum of both."
        ),
    ] = None,
    statistics: Mapping[str, Sequence[str]],
    form: OutputFormat,
    connection: Connection,
) -> None:
    """Print the unbiased estimate of every query of a campaign.

    A value campaign has none: without more the mean point is shown. With --threshold, --range,
    --place, --circle or --region, with --mean, --quantile, --curve, --smoothed, --density,
    --histogram, --gini or --top-share of numbers, and with --map, --districts or --nearest of
    places, what is asked is read from the same points, at no further cost in privacy.

    Example: geoveil estimate where --place Midtown=-73.985,40.755 --bandwidth 1000

    Example: geoveil estimate incomes --quantile 0.5 --curve

    Example: geoveil estimate weekly --over-time --change 0,51 --label "above 100k"

    Example: geoveil estimate incomes --quantile 0.5 --against incomes-2025 --people different
    """

    def as_wanted(estimates: CampaignEstimates) -> Result:
        estimates = estimates if interval is None else estimates.with_interval(interval)
        return estimates if contamination is None else estimates.contaminated(contamination)

    def show(results: list[Result], *, of_one: bool = False) -> None:
        for result in results:
            if isinstance(result, DensityMap):
                with whole_file("--map", Path(statistics["map"][0])) as beside:
                    beside.write_text(json.dumps(result.to_geojson()) + "\n", encoding="utf-8")
        form.show(*results[:1], beside=results[1:]) if of_one else form.show(*results)

    validation.between("confidence", confidence, 0, 1, low_open=True, high_open=True)
    validation.positive("timeout", timeout)
    of_points = questions_in(words)
    if not (of_points or plan) and _WITH_BELLS.isdisjoint(statistics):
        options.left_out({"bandwidth": bandwidth}, "left out: nothing that is asked has a bell")
    for name, size in (("width", width), ("bandwidth", bandwidth)):
        if size is not None:
            validation.positive(name, size)
    name_property = next(iter(words.get(NAME_PROPERTY, ())), None)
    within = None
    if range_of_values is not None:
        if {"mean", "geometric-mean"}.isdisjoint(statistics):
            raise ParameterError("range-of-values", range_of_values, "given beside --mean")
        within = two_numbers("range-of-values", range_of_values)
    wanted = statistics_in(statistics, width, bandwidth, name_property, within)
    if top is not None:
        if len(of_points) < 2:
            raise ParameterError("top", top, "given beside two questions or more, as --place")
        wanted.append(Top(top, of_points, bandwidth=bandwidth, width=width))
        of_points = []
    if interval is not None and wanted:
        raise ParameterError("interval", interval.value, "left out: a statistic chooses its own")
    if contamination is not None:
        wanted = [Contaminated(statistic, contamination) for statistic in wanted]
    if over_time:
        named = {
            "period": period,
            "interval": interval,
            "contamination": contamination,
            "top": top,
            "watch": watch,
            "against": against,
        }
        _alone_over_time(named, [*statistics], campaign_id)
    elif label is not None:
        raise ParameterError("label", label, "given beside --over-time, whose curve it is of")
    if over_time or (change is None and against is None):
        if people is not None:
            expected = "given beside --change of what is asked, or --against"
            raise ParameterError("people", people.value, expected)
    else:
        options.left_out(
            {"interval": interval, "watch": watch, "top": top},
            "left out beside --change and --against",
        )
        _refused(slope_bound, heap)
    if watch and (of_points or wanted):
        raise ParameterError("watch", watch, "left out: an estimate from points is read once")
    if not of_points:
        _refused(slope_bound, heap)
    planned = None if plan is None else planned_points(plan)
    if planned is not None:
        others = {"width": width, "bandwidth": bandwidth, "over-time": over_time}
        options.left_out({**others, "watch": watch, "top": top}, "left out beside --plan")
        if of_points:
            raise ParameterError("plan", str(plan), "left out beside questions: it has its own")

    def from_points(
        campaign: AttributeCampaign, answer: Callable[[Sequence[PointQuestion]], CampaignEstimates]
    ) -> Result:
        if planned is not None:
            if not planned.fits(campaign):
                expected = f"for a campaign like this one, with {campaign.privacy}"
                raise ParameterError("plan", str(plan), expected)
            estimates = answer(planned.questions).with_differences(planned.differences)
            return as_wanted(estimates)
        hard = hard_shares(of_points)
        if hard and width is None and bandwidth is None and _of_numbers(campaign):
            bands = ChosenBands(campaign, hard, slope_bound, options.heaps(heap))
            return as_wanted(bands.answered(answer(bands.questions)))
        _refused(slope_bound, heap)
        return as_wanted(answer(_questions(campaign, of_points, width, bandwidth)))

    with ExitStack() as open_:

        @cache
        def connect() -> Analyst:
            return open_.enter_context(analyst_at(connection))

        if not over_time and (change is not None or against is not None):
            periods = None if change is None else _two_periods(change)
            sets = compared(connect, campaign_id, against, periods, period, confidence, timeout)

            def softness(of: ValueCampaign) -> Softness:
                return softness_of_points(of, width, bandwidth)

            show(
                [*changes(sets, of_points, softness, wanted, contamination, people or People.SAME)]
            )
            return
        source = source_of(campaign_id, connect, confidence, period, timeout)
        if source.estimate is None and not of_points and not wanted and planned is None:
            expected = (
                "at least one, as --threshold, --quantile or --curve, for the reports of a file"
            )
            raise ParameterError("questions", "none", expected)
        if over_time:
            _refused(slope_bound, heap)
            campaign = source.campaign()
            questions = _questions(campaign, of_points, width, bandwidth)
            assert source.estimate is not None  # of a file there is no curve over time
            estimates = (
                source.ask_questions(questions, cohorts=campaign.cohorts > 1)
                if questions
                else source.estimate()
            )
            show(
                [*_over_time(estimates, confidence, label, change)],
                of_one=label is not None or len({row.label for row in estimates.estimates}) == 1,
            )
            return
        results: list[Result] = []
        if of_points or planned is not None:
            results.append(from_points(source.campaign(), source.ask_questions))
        results += [source.ask(statistic) for statistic in wanted]
        if results:
            show(results)
        elif watch:
            for shown in connect().watch(campaign_id, confidence, period):
                form.show(as_wanted(shown))
        elif source.estimate is not None:
            form.show(as_wanted(source.estimate()))


def _alone_over_time(
    given: Mapping[str, object], statistics: Sequence[str], campaign_id: str
) -> None:
    """Refuse what a curve over periods does not go with."""
    options.left_out(given, "left out beside --over-time")
    if statistics:
        expected = "left out beside --over-time: a curve is of means, as of --threshold"
        raise ParameterError(statistics[0], True, expected)
    if campaign_id.endswith(EXPORTED):
        expected = "the id of a campaign on a server: a file is asked period by period"
        raise ParameterError("campaign_id", campaign_id, expected)


def _over_time(
    found: CampaignEstimates,
    confidence: float,
    label: str | None,
    change: str | None,
) -> Iterator[Result]:
    """Yield the curve of each question, or of one, and its change between two periods."""
    labels = dict.fromkeys(row.label for row in found.estimates)
    between = None if change is None else _two_periods(change)
    for of_label in [label] if label or not labels else labels:
        curve = found.over_time(of_label, confidence=confidence)
        yield curve
        if between is not None:
            yield curve.change(*between)


def _two_periods(said: str) -> tuple[int, int]:
    try:
        first, last = map(int, said.split(","))
    except ValueError:
        raise ParameterError("change", said, "two periods: 'FIRST,LAST', from 0") from None
    return first, last


def _of_numbers(campaign: AttributeCampaign) -> TypeGuard[ValueCampaign]:
    return isinstance(campaign, ValueCampaign) and campaign.dimension == 1


def _refused(slope_bound: float | None, heap: Sequence[str] | None) -> None:
    """Refuse what is known of people where no width is chosen."""
    options.left_out(
        {"slope-bound": slope_bound, "heap": heap},
        "left out: it counts where the reports choose the width for --threshold or --range of"
        " numbers",
    )


def _questions(
    campaign: AttributeCampaign,
    asked: Sequence[AnalystQuestion],
    width: float | None,
    bandwidth: float | None,
) -> Sequence[PointQuestion]:
    """Return the questions in the coordinates of a campaign; say if one is asked too sharply."""
    if not asked:
        return ()
    of_points = value_campaign(campaign)
    softness = softness_of_points(of_points, width, bandwidth)
    if softness.caution is not None:
        err.tell(softness.caution)
    return asked_of_points(of_points, asked, softness)
