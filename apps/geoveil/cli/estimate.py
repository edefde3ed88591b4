"""geoveil estimate: statistics from the reports of a campaign."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, TypeGuard

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
    PlannedPoints,
    Result,
    Softness,
    Statistic,
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
from geoveil.cli.heaps import heaps_of
from geoveil.cli.results import OutputFormat, formed
from geoveil.cli.sources import EXPORTED, Source, source_of
from geoveil.gp import IntervalMethod, ParameterError, validation

_OF_VALUES = frozenset({"mean", "geometric-mean", "gini", "top-share"})
"""Statistics whose intervals can use a public range of values."""
_WITH_BELLS = frozenset({"map", "districts", "nearest"})
"""Statistics that have a bandwidth."""


@dataclass(frozen=True)
class Tables:
    """Results that are shown together."""

    results: Sequence[Result]
    of_one: bool = False
    """Whether all but the first follow from it."""


@dataclass(frozen=True, kw_only=True)
class EstimateRequest:
    """Options of `geoveil estimate` by name; conflicting options are refused."""

    campaign_id: Annotated[
        str,
        typer.Argument(
            help=f"The id of the campaign; or a file, ending in {EXPORTED}, that 'geoveil campaign"
            " export' wrote, or a masked file, for which no server is asked."
        ),
    ]
    confidence: options.Confidence = 0.95
    interval: Annotated[
        IntervalMethod | None,
        typer.Option(
            help="Method of the interval. sequence holds at all looks; it is the default while"
            " reports come in and after a close by hand. weighted-ends, otherwise the default,"
            " is the shortest for a single look, and may miss a quarter more often than its"
            " confidence says. full-ends is wider, for a single look, and missed no more often"
            " in any population tried. While reports come in, an interval for a single look is"
            " valid only at a number of reports that was fixed before the first look."
        ),
    ] = None
    period: Period = None
    words: Words
    width: Annotated[
        float | None,
        typer.Option(
            help="Width of the soft band around a threshold or an end. By default the reports"
            " choose the one with the shortest interval of the hard share, at no cost in"
            " privacy; where they can't, 3·PER/ε."
        ),
    ] = None
    slope_bound: Annotated[
        float | None,
        typer.Option(
            help="Largest slope of the density of people, in shares per unit², when the width is"
            " chosen; by default estimated from the reports, which proves nothing."
        ),
    ] = None
    heap: options.Heaps = None
    range_of_values: Annotated[
        str | None,
        typer.Option(
            help="'LOW,HIGH': the range of everybody's value, a public fact. With it the interval"
            " of --mean, --gini or --top-share holds for any such people. By default the"
            " campaign's range."
        ),
    ] = None
    bandwidth: Annotated[
        float | None,
        typer.Option(
            help="Bandwidth of the density, and of the smoothed edges of circles and regions;"
            " 3·PER/ε by default."
        ),
    ] = None
    plan: Annotated[
        Path | None,
        typer.Option(
            help="Ask the questions of a plan ('geoveil plan --out'), with its bands, and correct"
            " hard shares by the differences that it expects."
        ),
    ] = None
    top: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Find this many questions with the greatest answers, and state how surely.",
        ),
    ] = None
    contamination: options.Contamination = None
    invited: options.Invited = None
    timeout: Annotated[
        float, typer.Option(help="Time limit, in seconds, of an estimate from points.")
    ] = 600.0
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Print again whenever reports come, until the campaign closes; intervals hold at"
            " all looks.",
        ),
    ] = False
    over_time: Annotated[
        bool,
        typer.Option(
            "--over-time",
            help="For a recurring campaign: the curve over its periods, with joint intervals, and"
            " flags where the latest readings moved differently.",
        ),
    ] = False
    label: Annotated[
        str | None,
        typer.Option(help="With --over-time: only this question; all by default."),
    ] = None
    change: Annotated[
        str | None,
        typer.Option(
            help="The change between two periods: 'FIRST,LAST', from 0. With --over-time it is"
            " printed beside the curve."
        ),
    ] = None
    against: Annotated[
        str | None,
        typer.Option(
            help="Id of another campaign, or a file, to compare with: prints the difference, this"
            " one minus that one."
        ),
    ] = None
    people: Annotated[
        People | None,
        typer.Option(
            help="With --change and --against: whether the two groups of people are different, or"
            " may be the same (default): the error of the difference is then at most the sum of"
            " both errors."
        ),
    ] = None
    statistics: Mapping[str, Sequence[str]]

    def __post_init__(self) -> None:
        validation.between("confidence", self.confidence, 0, 1, low_open=True, high_open=True)
        validation.positive("timeout", self.timeout)
        self._check_statistics()
        self._check_comparison()
        if self.watch and (self.questions or self.wanted):
            expected = "left out: an estimate from points is read once"
            raise ParameterError("watch", self.watch, expected)
        if not self.questions or self.over_time or self.compares:
            self._refuse_crowds()
        if self.planned is not None:
            self._leave_out(
                ("width", "bandwidth", "over_time", "watch", "top"), "left out beside --plan"
            )
            if self.questions:
                expected = "left out beside questions: it has its own"
                raise ParameterError("plan", str(self.plan), expected)

    def _check_statistics(self) -> None:
        every = questions_in(self.words)
        if not (every or self.plan) and _WITH_BELLS.isdisjoint(self.statistics):
            self._leave_out(["bandwidth"], "left out: nothing that is asked has a bell")
        for name, size in (("width", self.width), ("bandwidth", self.bandwidth)):
            if size is not None:
                validation.positive(name, size)
        if self.range_of_values is not None and _OF_VALUES.isdisjoint(self.statistics):
            expected = "given beside --mean, --gini or --top-share"
            raise ParameterError("range-of-values", self.range_of_values, expected)
        if self.top is not None and len(every) < 2:
            expected = "given beside two questions or more, as --place"
            raise ParameterError("top", self.top, expected)
        if self.wanted and self.interval is not None:
            expected = "left out: a statistic chooses its own"
            raise ParameterError("interval", self.interval.value, expected)
        if self.wanted:
            self._leave_out(["invited"], "left out: a worst case is known of means and shares only")

    def _check_comparison(self) -> None:
        """Refuse options that conflict with a curve over time, or with a difference."""
        _ = self.between
        if self.over_time:
            self._leave_out(
                ("period", "interval", "contamination", "invited", "top", "watch", "against"),
                "left out beside --over-time",
            )
            if self.statistics:
                expected = "left out beside --over-time: a curve is of means, as of --threshold"
                raise ParameterError(next(iter(self.statistics)), True, expected)
            if self.campaign_id.endswith(EXPORTED):
                expected = "the id of a campaign on a server: a file is asked period by period"
                raise ParameterError("campaign_id", self.campaign_id, expected)
        elif self.label is not None:
            expected = "given beside --over-time, whose curve it is of"
            raise ParameterError("label", self.label, expected)
        if self.compares:
            self._leave_out(
                ("interval", "invited", "watch", "top", "plan"),
                "left out beside --change and --against",
            )
        elif self.people is not None:
            expected = "given beside --change of what is asked, or --against"
            raise ParameterError("people", self.people.value, expected)

    def _leave_out(self, names: Sequence[str], expected: str) -> None:
        given = {name.replace("_", "-"): getattr(self, name) for name in names}
        options.left_out(given, expected)

    def _refuse_crowds(self) -> None:
        """Refuse facts about people where no width is chosen."""
        expected = "left out: it counts where the reports choose the width for --threshold or"
        self._leave_out(["slope_bound", "heap"], f"{expected} --range of numbers")

    @cached_property
    def between(self) -> tuple[int, int] | None:
        """The two periods to compare."""
        if self.change is None:
            return None
        try:
            first, last = map(int, self.change.split(","))
        except ValueError:
            expected = "two periods: 'FIRST,LAST', from 0"
            raise ParameterError("change", self.change, expected) from None
        return first, last

    @property
    def compares(self) -> bool:
        """Whether to estimate the difference between two sets of reports."""
        return not self.over_time and (self.between is not None or self.against is not None)

    @cached_property
    def questions(self) -> Sequence[AnalystQuestion]:
        """Questions to points, except ranked ones."""
        return [] if self.top is not None else questions_in(self.words)

    @cached_property
    def wanted(self) -> Sequence[Statistic[Any]]:
        """Statistics of points."""
        name = next(iter(self.words.get(NAME_PROPERTY, ())), None)
        ends = self.range_of_values
        within = None if ends is None else two_numbers("range-of-values", ends)
        wanted = [*statistics_in(self.statistics, self.width, self.bandwidth, name, within)]
        if self.top is not None:
            every = questions_in(self.words)
            wanted.append(Top(self.top, every, bandwidth=self.bandwidth, width=self.width))
        if self.contamination is None:
            return wanted
        return [Contaminated(statistic, self.contamination) for statistic in wanted]

    @cached_property
    def planned(self) -> PlannedPoints | None:
        """The questions of a plan for points."""
        return None if self.plan is None else planned_points(self.plan)

    def answered(self, connect: Callable[[], Analyst]) -> Iterator[Tables]:
        """Yield the results; repeatedly with `watch`.

        Args:
            connect: returns an analyst's client; not called where files are asked alone.
        """
        if self.compares:
            yield Tables(self._changes(connect))
            return
        source = source_of(self.campaign_id, connect, self.confidence, self.period, self.timeout)
        if self.over_time:
            yield self._over_time(source)
        elif self.questions or self.planned is not None or self.wanted:
            of_points = [self._of_points(source)] if self.questions or self.planned else []
            yield Tables(of_points + [source.ask(statistic) for statistic in self.wanted])
        elif source.estimate is None:
            expected = (
                "at least one, as --threshold, --quantile or --curve, for the reports of a file"
            )
            raise ParameterError("questions", "none", expected)
        elif self.watch:
            for shown in connect().watch(self.campaign_id, self.confidence, self.period):
                yield Tables([self._as_wanted(shown)])
        else:
            yield Tables([self._as_wanted(source.estimate())])

    def _changes(self, connect: Callable[[], Analyst]) -> Sequence[Result]:
        sets = compared(
            connect, self.campaign_id, self.against, self.between, self.period, self.confidence,
            self.timeout,
        )  # fmt: skip

        def softness(of: ValueCampaign) -> Softness:
            return softness_of_points(of, self.width, self.bandwidth)

        people = self.people or People.SAME
        return [*changes(sets, self.questions, softness, self.wanted, self.contamination, people)]

    def _over_time(self, source: Source) -> Tables:
        """Return the curve of each question, or of one, and its change between two periods."""
        campaign = source.campaign()
        assert source.estimate is not None  # of a file there is no curve over time
        if self.questions:
            questions = self._in_coordinates(campaign)
            estimates = source.ask_questions(questions, cohorts=campaign.cohorts > 1)
        else:
            estimates = source.estimate()
        labels = dict.fromkeys(row.label for row in estimates.estimates)
        results: list[Result] = []
        for label in [self.label] if self.label or not labels else labels:
            curve = estimates.over_time(label, confidence=self.confidence)
            results.append(curve)
            if self.between is not None:
                results.append(curve.change(*self.between))
        return Tables(results, of_one=self.label is not None or len(labels) == 1)

    def _of_points(self, source: Source) -> Result:
        """Return the estimates from points for the questions of a plan or of the options."""
        campaign, answer = source.campaign(), source.ask_questions
        if self.planned is not None:
            if not self.planned.fits(campaign):
                expected = f"for a campaign like this one, with {campaign.privacy}"
                raise ParameterError("plan", str(self.plan), expected)
            estimates = answer(self.planned.questions)
            return self._as_wanted(estimates.with_differences(self.planned.differences))
        hard = hard_shares(self.questions)
        if hard and self.width is None and self.bandwidth is None and _of_numbers(campaign):
            bands = ChosenBands(campaign, hard, self.slope_bound, heaps_of(self.heap))
            return self._as_wanted(bands.answered(answer(bands.questions)))
        self._refuse_crowds()
        return self._as_wanted(answer(self._in_coordinates(campaign)))

    def _in_coordinates(self, campaign: AttributeCampaign) -> Sequence[PointQuestion]:
        """Return the questions in the coordinates of a campaign; warn if one is too sharp."""
        of_points = value_campaign(campaign)
        softness = softness_of_points(of_points, self.width, self.bandwidth)
        if softness.caution is not None:
            err.tell(softness.caution)
        return asked_of_points(of_points, self.questions, softness)

    def _as_wanted(self, estimates: CampaignEstimates) -> Result:
        if self.interval is not None:
            estimates = estimates.with_interval(self.interval)
        if self.contamination is not None:
            estimates = estimates.contaminated(self.contamination)
        if self.invited is not None:
            estimates = estimates.among_invited(self.invited)
        return estimates


@connects
@formed
@asks_statistics
@asks
@options.takes("request", options.options_of(EstimateRequest), EstimateRequest)
def estimate(*, request: EstimateRequest, form: OutputFormat, connection: Connection) -> None:
    """Print the unbiased estimate of every query of a campaign.

    A value campaign has none: without more the mean point is shown. With --threshold, --range,
    --place, --circle or --region, with --mean, --quantile, --curve, --density, --histogram,
    --gini or --top-share of numbers, and with --map, --districts or --nearest of
    places, what is asked is read from the same points, at no further cost in privacy.

    Example: geoveil estimate where --place Midtown=-73.985,40.755 --bandwidth 1000

    Example: geoveil estimate incomes --quantile 0.5 --curve

    Example: geoveil estimate weekly --over-time --change 0,51 --label "above 100k"

    Example: geoveil estimate incomes --quantile 0.5 --against incomes-2025 --people different
    """
    with ExitStack() as open_:

        @cache
        def connect() -> Analyst:
            return open_.enter_context(analyst_at(connection))

        for tables in request.answered(connect):
            for result in tables.results:
                if isinstance(result, DensityMap):
                    with whole_file("--map", Path(request.statistics["map"][0])) as beside:
                        beside.write_text(json.dumps(result.to_geojson()) + "\n", encoding="utf-8")
            first, *others = tables.results
            if tables.of_one:
                form.show(first, beside=others)
            else:
                form.show(first, *others)


def _of_numbers(campaign: AttributeCampaign) -> TypeGuard[ValueCampaign]:
    return isinstance(campaign, ValueCampaign) and campaign.dimension == 1
