"""Statistics of a private number by private group: means, quantiles and curves [MATH §17].

The mean of y in a group is E[y·a]/E[a], where a is 1 for its people and 0 for others. Its interval
contains all m for which the interval of E[(y − m)·a] contains 0, like Fieller's. A share above
a threshold in a group is such a mean, and quantiles and curves are computed from these shares.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from geoveil.analyst.pictures import Axes, axes_of, draw_curve
from geoveil.analyst.relations.form_reports import FormReports, FormStatistic, Weights
from geoveil.analyst.relations.terms import NumberOf, Option, Outside, SoftBand, Term, Within
from geoveil.analyst.results import Answer, Result, amount_answer
from geoveil.analyst.statistics.distribution import Curve, DistributionFunction
from geoveil.analyst.statistics.districts import Districts, Nearest
from geoveil.analyst.statistics.groups import GroupEstimates
from geoveil.analyst.statistics.joint import JointEstimates
from geoveil.analyst.statistics.partition import Histogram, names_of_parts
from geoveil.analyst.statistics.quantiles import Quantiles
from geoveil.analyst.statistics.statistic import Statistic, driven
from geoveil.campaign import CategoryField, FormCampaign, NumberField, PointQuestion
from geoveil.gp import (
    Array,
    Interval,
    IntervalMethod,
    Limits,
    ParameterError,
    Range,
    Threshold,
    UnsupportedError,
    kept_within,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class ByGroup(Result):
    """The same statistic of each group of people."""

    name: str
    """The name of the grouping, for example "region"."""
    groups: Mapping[str, Result]
    """Label → the statistic of its people, without groups that have no estimate."""
    untold: Mapping[str, str]
    """Label → the reason why the group has no estimate."""
    confidence: float
    """The confidence of the intervals, in (0, 1)."""

    def __getitem__(self, label: str) -> Result:
        if label in self.untold:
            raise UnsupportedError(f"there is no estimate of {label}: {self.untold[label]}")
        return self.groups[label]

    @property
    def title(self) -> str:
        kind = next(iter(self.groups.values())).title.partition(", from")[0]
        return f"{kind}, by {self.name}"

    @property
    def sentences(self) -> Sequence[Answer]:
        return [
            replace(answer, rest=f"{answer.rest} of “{label}”")
            for label, result in self.groups.items()
            for answer in result.sentences
        ]

    @property
    def notes(self) -> Sequence[str]:
        sentences = dict.fromkeys(
            chain.from_iterable(result.notes for result in self.groups.values())
        )
        return (
            "Each row is for the people of its group, of whom the participants are a random "
            "sample.",
            *sentences,
            *(f"There is no estimate of {label}: {why}." for label, why in self.untold.items()),
        )

    def rows(self) -> list[dict[str, Any]]:
        return [
            {self.name: label} | row
            for label, result in self.groups.items()
            for row in result.rows()
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        if not all(isinstance(result, Curve) for result in self.groups.values()):
            return super().plot(ax)
        ax = axes_of(ax, self.title)
        for number, (label, result) in enumerate(self.groups.items()):
            curve = cast(Curve, result)
            drawn = (curve.at, curve.values, (curve.low, curve.high))
            draw_curve(ax, self.title, curve.axis_names, *drawn, color=f"C{number}", label=label)
        return ax


_PEOPLE = "people of "
_MANY = 50_000
"""The number of reports from which equal ones are counted together."""
_FIELLER = (
    "The intervals are Fieller's: they hold every mean that the reports do not contradict, and are"
    " the whole line where a group may be empty. Standard errors come from the delta method."
)
_UNBOUNDED = (
    "Reports of {} have no ends, and no public range bounds the values: the intervals are right"
    " where groups are large enough for a nearly normal mean."
)


def notes_of_range(number: str, limits: Limits) -> tuple[str, ...]:
    """Return what intervals of a number's means assume if no public range bounds them."""
    return () if np.isfinite(limits.means).all() else (_UNBOUNDED.format(number),)


@dataclass(frozen=True)
class Parts:
    """A field divided into parts: a number into soft bands, a place into districts."""

    field: str
    of: Histogram | Districts | Nearest

    def terms(self, campaign: FormCampaign) -> dict[str, Term]:
        """Return the name of each part, and the function that is 1 in it."""
        values = campaign.campaign_of(self.field)
        scale = values.attribute.scale
        of: Any = self.of if scale is None else self.of.on_scale(scale)
        questions: Sequence[PointQuestion] = next(of.steps(values, 0.95))
        if isinstance(self.of, Histogram):
            names = names_of_parts([f"{edge:,.12g}" for edge in self.of.edges])
            bands = [_band(self.field, question) for question in questions]
            ends = [-np.inf, *(band.low for band in bands), np.inf]
            width = bands[0].width
            return {
                name: SoftBand(self.field, low, high, width, f"{self.field} {name}")
                for name, low, high in zip(names, ends, ends[1:], strict=False)
            }
        parts = {q.label: Within(self.field, q.query, label=q.label) for q in questions}
        if isinstance(self.of, Nearest):
            return dict(parts)
        beyond = Outside(self.field, tuple(parts.values()))
        return {**parts, beyond.label: beyond}


By: TypeAlias = str | Parts | Sequence[Term]
"""A definition of groups: the name of a field with options, parts of a field, or functions of
fields."""


def groups_in(campaign: FormCampaign, by: By) -> tuple[str, dict[str, Term]]:
    """Return the name of the groups, and label → the function that is 1 for the people of a group.

    Raises:
        ParameterError: if a field has no options, or two groups have one label.
    """
    if isinstance(by, Parts):
        return by.field, by.terms(campaign)
    if isinstance(by, str):
        of = campaign.field(by)
        if not isinstance(of, CategoryField):
            raise ParameterError("by", by, "a field with options, or Parts of this one")
        return by, {option: Option(by, option) for option in of.options}
    terms = {term.text: term for term in by}
    if len(terms) < len(by) or not terms:
        raise ParameterError("by", [term.text for term in by], "groups with distinct labels")
    return "group", terms


def _band(name: str, question: PointQuestion) -> SoftBand:
    """Return a question about numbers as a function of a field."""
    query = question.query
    if isinstance(query, Threshold):
        return SoftBand(name, query.at, np.inf, query.width, question.label)
    assert isinstance(query, Range)
    return SoftBand(name, query.low, query.high, query.width, question.label)


@dataclass(frozen=True, kw_only=True, eq=False)
class MeansByGroup(GroupEstimates):
    """The mean of a number within each group, where both may be private."""

    over: JointEstimates = field(repr=False)
    """The estimates of E[y·a] of each group, then of E[a]."""
    number: str
    """The name of the averaged number."""
    unit: str
    """The unit of the number; empty without one, and for logarithms."""

    @property
    def sentences(self) -> Sequence[Answer]:
        columns = (of.tolist() for of in (self.values, *self.intervals(self.confidence)))
        return [
            amount_answer(value, low, high, self.unit, f"is the mean {self.number} of “{label}”")
            for label, value, low, high in zip(self.labels, *columns, strict=True)
        ]

    def margins_at(self, confidence: float) -> Array:
        m = len(self.labels)
        return _margins(self, [(i, m + i) for i in range(m)], confidence)


@dataclass(frozen=True)
class MeanBy(FormStatistic[MeansByGroup]):
    """The mean of a number within each group of people."""

    number: str | Term
    """The name of a number field, or a function of a field, as `Score("satisfaction")`."""
    by: By
    """The definition of the groups."""

    def of(self, reports: FormReports, confidence: float, weights: Weights) -> MeansByGroup:
        term = NumberOf(self.number) if isinstance(self.number, str) else self.number
        name, groups = groups_in(reports.campaign, self.by)
        numerators: dict[str, Sequence[Term]] = {g: [term, a] for g, a in groups.items()}
        sizes: dict[str, Sequence[Term]] = {f"{_PEOPLE}{g}": [a] for g, a in groups.items()}
        joint = reports.joint(numerators | sizes, confidence, weights)
        m = len(groups)
        kept = [i for i in range(m) if joint.values[m + i] > 0]
        if not kept:
            raise UnsupportedError(f"there is no estimate for any {name}: no size is above 0")
        both = kept + [m + i for i in kept]
        labels, limits_of_both = [joint.labels[i] for i in both], [joint.limits[i] for i in both]
        over = joint.combined(np.eye(2 * m)[both], labels, limits_of_both)
        k = len(kept)
        values, covariance = delta(over, [(i, k + i) for i in range(k)])
        limits = term.limits(reports.campaign)
        left = [label for i, label in enumerate(groups) if i not in kept]
        return MeansByGroup(
            labels=over.labels[:k],
            values=values,
            covariance=covariance,
            confidence=confidence,
            limits=Limits(means=limits.means),
            question=f"mean of {term.text}, by {name}",
            over=over,
            number=term.text,
            unit=_unit(reports.campaign, term),
            about=(
                _FIELLER,
                *notes_of_range(term.text, limits),
                *(
                    f"There is no estimate of {label}: its estimated size is not above 0."
                    for label in left
                ),
            ),
        )


def _unit(campaign: FormCampaign, term: Term) -> str:
    of = campaign.field(term.field)
    plain = isinstance(of, NumberField) and isinstance(term, NumberOf)
    return of.attribute.value_unit if plain and of.attribute.scale is None else ""


@dataclass(frozen=True, kw_only=True, eq=False)
class RatioEstimates(JointEstimates):
    """Estimates of several means as multiples of another, such as means within a group."""

    over: JointEstimates = field(repr=False)
    """The estimates of the means, and last the one that divides them."""

    @property
    def people(self) -> int:
        count = self.n if self.over.answers is None else self.over.answers[-1]
        return round(count * float(self.over.values[-1]))

    @property
    def assumes(self) -> Sequence[str]:
        return self.over.assumes

    def interval(self, question: str | int, confidence: float | None = None) -> Interval:
        low, high = self._intervals([self.index(question)], confidence)
        return Interval(float(low[0]), float(high[0]), IntervalMethod.WEIGHTED_ENDS)

    def intervals(self, confidence: float | None = None) -> tuple[Array, Array]:
        return self._intervals(range(len(self.labels)), confidence)

    def margins_at(self, confidence: float) -> Array:
        m = len(self.labels)
        return _margins(self, [(i, m) for i in range(m)], confidence)

    def _intervals(self, places: Sequence[int], confidence: float | None) -> tuple[Array, Array]:
        over = replace(self.over, contamination=self.contamination)
        pairs = [(i, len(self.labels)) for i in places]
        low, high = ratio_intervals(over, pairs, confidence or self.confidence)
        ends = zip(places, low, high, strict=True)
        low, high = np.array([kept_within(a, b, self.limits[i].means) for i, a, b in ends]).T
        return low, high

    def less(self, shares: Array) -> tuple[Array, Array]:
        m, over = len(self.labels), replace(self.over, contamination=self.contamination)
        size, confidence = over.interval(m), self.confidence
        ends = np.full((2, len(shares), m), [[[-np.inf]], [[np.inf]]])
        if not size.low <= 0 <= size.high:  # where it may be 0, a share can be anything
            for k, share in enumerate(shares.tolist()):
                rows = np.column_stack([np.eye(m), np.full(m, -share)])
                ends[:, k] = over.combined(rows, self.labels).intervals(confidence)
        return ends[0], ends[1]

    def combined(
        self,
        weights: ArrayLike,
        labels: Sequence[str],
        limits: Sequence[Limits] | None = None,
        plus: Array | float = 0.0,
    ) -> JointEstimates:
        w = np.asarray(weights, np.float64)
        constants = np.broadcast_to(plus, len(w))[:, None]  # times the size, of the means
        rows = np.block([[w, constants], [np.zeros(w.shape[1]), 1.0]])
        over = self.over.combined(rows, [*labels, self.over.labels[-1]])
        made = replace(ratios(over), contamination=self.contamination)
        return made if limits is None else replace(made, limits=tuple(limits))


def ratios(over: JointEstimates, means: tuple[float, float] = (-np.inf, np.inf)) -> RatioEstimates:
    """Return estimates of means as multiples of the last one, each within `means`."""
    m = len(over.labels) - 1
    if not over.values[m] > 0:
        raise UnsupportedError("its size is not above 0")
    values, covariance = delta(over, [(i, m) for i in range(m)])
    return RatioEstimates(
        labels=over.labels[:-1],
        values=values,
        covariance=covariance,
        n=over.n,
        answers=None if over.answers is None else over.answers[:-1],
        confidence=over.confidence,
        limits=(Limits(means=means),) * m,
        privacy=over.privacy,
        over=over,
    )


def delta(over: JointEstimates, pairs: Sequence[tuple[int, int]]) -> tuple[Array, Array]:
    """Return ratios of pairs of estimates, and their covariance, by the delta method."""
    top, bottom = np.array(pairs).T
    values = over.values[top] / over.values[bottom]
    slopes, rows = np.zeros((len(pairs), len(over.labels))), np.arange(len(pairs))
    np.add.at(slopes, (rows, top), 1 / over.values[bottom])
    np.add.at(slopes, (rows, bottom), -values / over.values[bottom])
    return np.asarray(values), np.asarray(slopes @ over.covariance @ slopes.T)


def ratio_intervals(
    over: JointEstimates, pairs: Sequence[tuple[int, int]], confidence: float
) -> tuple[Array, Array]:
    """Return the ends of separate intervals of ratios: see `JointEstimates.ratio`."""
    at = replace(over, confidence=confidence)
    made = [at.ratio(i, j) for i, j in pairs]
    return np.array([of.ci_low for of in made]), np.array([of.ci_high for of in made])


def _margins(
    of: MeansByGroup | RatioEstimates, pairs: Sequence[tuple[int, int]], confidence: float
) -> Array:
    """Return the lower and upper margins of ratios of `of.over`, (2, m)."""
    if confidence == 0:
        return np.zeros((2, len(pairs)))
    low, high = ratio_intervals(of.over, pairs, confidence)
    return np.stack([of.values - low, high - of.values])


@dataclass(frozen=True)
class StatisticBy(FormStatistic[ByGroup]):
    """A statistic of a number within each group of people, for any statistic made from shares."""

    statistic: Statistic[Any]
    number: str
    """The name of a number field."""
    by: By
    """The definition of the groups."""

    def of(self, reports: FormReports, confidence: float, weights: Weights) -> ByGroup:
        campaign = reports.campaign.campaign_of(self.number)
        scale = campaign.attribute.scale
        statistic = self.statistic if scale is None else self.statistic.on_scale(scale)
        name, groups = groups_in(reports.campaign, self.by)
        results, untold = {}, {}
        alike = None
        if reports.n >= _MANY and weights is None:
            reports, alike = reports.gathered(self.number, {g.field for g in groups.values()})

        def answer(group: Term, questions: Any) -> JointEstimates:
            if not isinstance(questions, Sequence):
                raise UnsupportedError(f"{type(self.statistic).__name__} counts points")
            bands = {q.label: [_band(self.number, q), group] for q in questions}
            over = reports.joint({**bands, _PEOPLE: [group]}, confidence, weights, alike)
            return ratios(replace(over, privacy=campaign.report_privacy), (0.0, 1.0))

        for label, group in groups.items():
            try:
                result = driven(statistic.steps(campaign, confidence), partial(answer, group))
            except UnsupportedError as error:
                untold[label] = str(error)
            else:
                results[label] = result if scale is None else result.held(scale)
        if not results:
            reasons = "; ".join(dict.fromkeys(untold.values()))
            raise UnsupportedError(f"there is no estimate for any {name}: {reasons}")
        return ByGroup(name=name, groups=results, untold=untold, confidence=confidence)


class QuantileBy(StatisticBy):
    """Quantiles of a number within each group of people."""

    def __init__(
        self,
        number: str,
        by: By,
        levels: Sequence[float] = (0.25, 0.5, 0.75),
        width: float | None = None,
    ) -> None:
        super().__init__(Quantiles(levels=levels, width=width), number, by)


class CurveBy(StatisticBy):
    """The distribution function of a number within each group of people, each with its band.

    Args:
        number: the name of a number field.
    """

    def __init__(self, number: str, by: By, of: DistributionFunction | None = None) -> None:
        super().__init__(of or DistributionFunction(), number, by)
