"""A request for estimates: what is asked of which reports, and the refusal of what conflicts.

Fields say of themselves what the option of `geoveil estimate` with their name shows as help, apart
from those that several commands have.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from geoveil.analyst.calls import LAST_PERIOD
from geoveil.analyst.campaigns import asked_of_points, softness_of_points
from geoveil.analyst.chosen_bands import ChosenBands, hard_shares
from geoveil.analyst.client import Analyst
from geoveil.analyst.estimates import CampaignEstimates
from geoveil.analyst.hard_question import Heap
from geoveil.analyst.plan_files import PlannedPoints, planned_points
from geoveil.analyst.questions import AnalystQuestion
from geoveil.analyst.results import Result
from geoveil.analyst.sources import EXPORTED, Source, ask_changes
from geoveil.analyst.statistics.comparison import People, compare
from geoveil.analyst.statistics.joint import JointEstimates
from geoveil.analyst.statistics.ranking import Top
from geoveil.analyst.statistics.statistic import Contaminated, Means, Statistic
from geoveil.analyst.vocabulary import (
    NAME_PROPERTY,
    STATISTICS,
    leave_out,
    questions_in,
    statistics_in,
    two_numbers,
)
from geoveil.campaign import PointQuestion, ValueCampaign
from geoveil.gp import IntervalMethod, ParameterError, UnsupportedError, validation


@dataclass(frozen=True, kw_only=True)
class EstimateRequest:
    """What `geoveil estimate` answers: fields are its options, conflicting ones are refused.

    Raises:
        ParameterError: naming the option that is wrong, or in conflict with another.

    Example:
        >>> EstimateRequest(campaign_id="income", words={"threshold": ["50000"]}, top=3)
        Traceback (most recent call last):
        geoveil.gp.errors.ParameterError: top must be given with two or more questions, such as \
--place, got top=3
    """

    campaign_id: Annotated[
        str,
        f"The id of the campaign; or a file, ending in {EXPORTED}, that 'geoveil campaign export'"
        " wrote, or a masked file, for which no server is asked.",
    ]
    confidence: float = 0.95
    interval: Annotated[
        IntervalMethod | None,
        "Method of the interval. sequence holds at all looks; it is the default while reports come"
        " in and after a close by hand. weighted-ends, otherwise the default, is the shortest for"
        " a single look, and may miss a third more often than its confidence says, at 99 % 1.7"
        " times as often. full-ends is wider, for a single look, and may miss a tenth more often."
        " While reports come in, an interval for a single look is valid only at a number of"
        " reports that was fixed before the first look.",
    ] = None
    period: Annotated[
        int | None, "The period of a recurring campaign, counted from 0; all by default."
    ] = None
    words: Mapping[str, Sequence[Any]]
    """The words of `questions_in`."""
    width: Annotated[
        float | None,
        "Width of the soft band around a threshold or an end. By default the reports choose the"
        " one with the shortest interval of the hard share, at no cost in privacy; where they"
        " can't, 3·PER/ε.",
    ] = None
    slope_bound: Annotated[
        float | None,
        "Largest slope of the density of people, in shares per unit², when the width is chosen; by"
        " default estimated from the reports, which proves nothing.",
    ] = None
    heap: list[str] | None = None
    range_of_values: Annotated[
        str | None,
        "'LOW,HIGH': the range of everybody's value, a public fact. With it the interval of --mean,"
        " --gini or --top-share holds for any such people. By default the campaign's range.",
    ] = None
    bandwidth: Annotated[
        float | None,
        "Bandwidth of the density, and of the smoothed edges of circles and regions; 3·PER/ε by"
        " default.",
    ] = None
    plan: Annotated[
        Path | None,
        "Ask the questions of a plan ('geoveil plan --out'), with its bands, and correct hard"
        " shares by the differences that it expects.",
    ] = None
    top: Annotated[
        int | None, "Find this many questions with the greatest answers, and state how surely."
    ] = None
    contamination: float | None = None
    invited: Annotated[
        int | None,
        "The number of people who were invited, in each period: adds the worst-case interval, "
        "which holds whatever the people who did not answer hold.",
    ] = None
    timeout: Annotated[float, "Time limit, in seconds, of an estimate from points."] = 600.0
    watch: Annotated[
        bool,
        "Print again whenever reports arrive, until the campaign closes; intervals hold at all"
        " looks.",
    ] = False
    over_time: Annotated[
        bool,
        "For a recurring campaign: the curve over its periods, with joint intervals, and flags"
        " where the latest readings moved differently.",
    ] = False
    label: Annotated[str | None, "With --over-time: only this question; all by default."] = None
    change: Annotated[
        str | None,
        "The change between two periods: 'FIRST,LAST', from 0. With --over-time it is printed"
        " beside the curve.",
    ] = None
    against: Annotated[
        str | None,
        "Id of another campaign, or a file, to compare with: prints the difference, this one minus"
        " that one.",
    ] = None
    people: Annotated[
        People | None,
        "With --change and --against: whether the two groups of people are different, or may be"
        " the same (default): the error of the difference is then at most the sum of both errors.",
    ] = None
    statistics: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The words of `statistics_in`."""

    def __post_init__(self) -> None:
        validation.between("confidence", self.confidence, 0, 1, low_open=True, high_open=True)
        validation.positive("timeout", self.timeout)
        if self.period is not None:
            validation.between("period", self.period, 0, LAST_PERIOD)
        _ = self.between  # refuses anything but two periods
        self._refuse_what_lacks_its_question()
        self._refuse_conflicts()
        for name in ("width", "bandwidth", "invited", "top"):
            size = getattr(self, name)
            if size is not None:
                validation.positive(name, size)

    def _refuse_what_lacks_its_question(self) -> None:
        every = questions_in(self.words)
        options = {name for word in self.statistics for name in STATISTICS[word].parameters}
        if not (every or self.plan) and "bandwidth" not in options:
            leave_out(self, "bandwidth", "left out: no question here has a bell")
        if "within" not in options:
            leave_out(self, "range_of_values", "given with --mean, --gini or --top-share")
        if len(every) < 2:
            leave_out(self, "top", "given with two or more questions, such as --place")
        if not self.over_time:
            leave_out(self, "label", "given with --over-time, to choose its curve")
        if not self.compares:
            leave_out(self, "people", "given with --change and a question, or with --against")
        if not self.questions or self.over_time or self.compares:
            self._refuse_crowds()

    def _refuse_conflicts(self) -> None:
        if self.wanted:
            leave_out(self, "interval", "left out: a statistic chooses its own")
            leave_out(self, "invited", "left out: only means and shares have a worst case")
        if self.questions or self.wanted:
            leave_out(self, "watch", "left out: an estimate from points is read once")
        if self.over_time:
            alone = "period interval contamination invited top watch against"
            leave_out(self, alone, "left out with --over-time")
            for word in self.statistics:
                expected = "left out with --over-time: it draws means, such as --threshold"
                raise ParameterError(word, True, expected)
            if self.campaign_id.endswith(EXPORTED):
                expected = "the id of a campaign on a server: a file is asked period by period"
                raise ParameterError("campaign_id", self.campaign_id, expected)
        if self.compares:
            alone = "interval invited watch top plan"
            leave_out(self, alone, "left out with --change and --against")
            if self.against is not None:
                leave_out(self, "change", "left out with --against")
            if self.between is not None:
                leave_out(self, "period", "left out with --change, which names two")
        if self.planned is not None:
            leave_out(self, "width bandwidth over_time watch top", "left out with --plan")
            if self.questions:
                leave_out(self, "plan", "left out with questions: it has its own")

    def _refuse_crowds(self) -> None:
        """Refuse facts about people where no width is chosen."""
        expected = "left out: it applies only where the reports choose the width for --threshold or"
        leave_out(self, "slope_bound heap", f"{expected} --range of numbers")

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
        if min(first, last) < 0 or first == last:
            raise ParameterError("change", self.change, "two different periods, from 0")
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

    def answered(
        self, connect: Callable[[], Analyst], tell: Callable[[str], object]
    ) -> Iterator[Sequence[Result]]:
        """Yield the results; repeatedly with `watch`.

        Args:
            connect: returns an analyst's client; not called where files are asked alone.
            tell: takes a sentence about bands that are narrower than the noise.
        """
        if self.compares:
            yield [*self._changes(connect)]
            return
        source = self._source(self.campaign_id, connect, self.period)
        if self.over_time:
            yield self._over_time(source, tell)
        elif self.questions or self.planned is not None or self.wanted:
            of_points = [self._of_points(source, tell)] if self.questions or self.planned else []
            yield of_points + [source.ask(statistic) for statistic in self.wanted]
        elif source.estimate is None:
            expected = (
                "at least one, such as --threshold, --quantile or --curve, for the reports of a "
                "file"
            )
            raise ParameterError("questions", "none", expected)
        elif self.watch:
            for shown in connect().watch(self.campaign_id, self.confidence, self.period):
                yield [self._as_wanted(shown)]
        else:
            yield [self._as_wanted(source.estimate())]

    def _source(self, name: str, connect: Callable[[], Analyst], period: int | None) -> Source:
        return Source.of(name, connect, self.confidence, period, self.timeout)

    def _changes(self, connect: Callable[[], Analyst]) -> Iterator[Result]:
        """Yield the differences of results, of the campaigns' own questions if none are given."""
        if self.between is not None:
            sources = (self._source(self.campaign_id, connect, of) for of in self.between)
            sets = [source.dated(self.between) for source in sources]
        else:
            names = (str(self.against), self.campaign_id)
            sets = [self._source(name, connect, self.period) for name in names]
        campaigns, asking = [of.campaign() for of in sets], [of.ask for of in sets]
        how: dict[str, Any] = {
            "people": self.people or People.SAME,
            "names": [of.name for of in sets],
        }
        if self.questions:
            yield compare(*self._means(sets), **how)
        for statistic in self.wanted:
            yield ask_changes(asking, statistic, campaigns, **how)
        if not self.questions and not self.wanted:
            yield from (compare(*joint, **how) for joint in self._fixed(sets))

    def _means(self, sets: Sequence[Source]) -> Iterator[JointEstimates]:
        """Yield the answers of each set, as soft as the noisier campaign needs."""
        campaigns = [source.values() for source in sets]
        softness = max(
            (softness_of_points(of, self.width, self.bandwidth) for of in campaigns),
            key=lambda each: each.noise_scale,
        )
        for source, campaign in zip(sets, campaigns, strict=True):
            means = Means(asked_of_points(campaign, self.questions, softness))
            liars = self.contamination
            yield source.ask(means if liars is None else Contaminated(means, liars))

    def _fixed(self, sets: Sequence[Source]) -> Iterator[Sequence[JointEstimates]]:
        """Yield the estimates of each set, together or, if that is not known, one by one."""
        estimates = []
        for source in sets:
            if source.estimate is None or isinstance(source.campaign(), ValueCampaign):
                expected = "at least one, such as --threshold, --mean or --quantile, for points"
                raise ParameterError("questions", "none", expected)
            estimates.append(source.estimate())

        def joint(labels: Sequence[str] | None) -> Sequence[JointEstimates]:
            return [
                replace(of.joint(labels, source.period), contamination=self.contamination or 0.0)
                for source, of in zip(sets, estimates, strict=True)
            ]

        try:
            yield joint(None)
        except UnsupportedError:  # the correlations of one person's answers are unknown
            yield from (joint([label]) for label in sets[0].campaign().labels)

    def _over_time(self, source: Source, tell: Callable[[str], object]) -> Sequence[Result]:
        """Return the curve of each question, or of one, and its change between two periods."""
        campaign = source.campaign()
        assert source.estimate is not None  # a file has no curve over time
        if self.questions:
            questions = self._in_coordinates(source, tell)
            estimates = source.ask(questions, cohorts=campaign.cohorts > 1)
        else:
            estimates = source.estimate()
        labels = dict.fromkeys(row.label for row in estimates.estimates)
        results: list[Result] = []
        for label in [self.label] if self.label or not labels else labels:
            curve = estimates.over_time(label, confidence=self.confidence)
            results.append(curve)
            if self.between is not None:
                results.append(curve.change(*self.between))
        return results

    def _of_points(self, source: Source, tell: Callable[[str], object]) -> Result:
        """Return the estimates from points for the questions of a plan or of the options."""
        campaign = source.campaign()
        if self.planned is not None:
            if not self.planned.fits(campaign):
                expected = f"for a campaign like this one, with {campaign.privacy}"
                raise ParameterError("plan", str(self.plan), expected)
            estimates = source.ask(self.planned.questions)
            return self._as_wanted(estimates.with_differences(self.planned.differences))
        hard = hard_shares(self.questions)
        of_numbers = isinstance(campaign, ValueCampaign) and campaign.dimension == 1
        if hard and self.width is None and self.bandwidth is None and of_numbers:
            heaps = tuple(map(Heap.parse, self.heap or ()))
            bands = ChosenBands(source.values(), hard, self.slope_bound, heaps)
            return self._as_wanted(bands.answered(source.ask(bands.questions)))
        self._refuse_crowds()
        return self._as_wanted(source.ask(self._in_coordinates(source, tell)))

    def _in_coordinates(
        self, source: Source, tell: Callable[[str], object]
    ) -> Sequence[PointQuestion]:
        """Return the questions in the coordinates of a campaign."""
        campaign = source.values()
        softness = softness_of_points(campaign, self.width, self.bandwidth)
        if softness.caution is not None:
            tell(softness.caution)
        return asked_of_points(campaign, self.questions, softness)

    def _as_wanted(self, estimates: CampaignEstimates) -> Result:
        if self.interval is not None:
            estimates = estimates.with_interval(self.interval)
        if self.contamination is not None:
            estimates = estimates.contaminated(self.contamination)
        if self.invited is not None:
            estimates = estimates.among_invited(self.invited)
        return estimates
