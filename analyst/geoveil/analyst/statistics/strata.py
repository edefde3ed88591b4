"""Statistics of the groups of a campaign with strata, and of all people at known sizes of groups.

What questions answer is linear in people: the answers of the groups, weighted by how many people
each has, are those of the whole population, with their covariances; and so is every statistic that
is made of them.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from geoveil.analyst.pictures import axes_of, draw_curve
from geoveil.analyst.results import GeoResult, Result
from geoveil.analyst.statistics.cells import CellCounts, Counts
from geoveil.analyst.statistics.distribution import Curve
from geoveil.analyst.statistics.groups import (
    WEIGHTED,
    Differences,
    GroupEstimates,
    notes_of_liars_among,
    shares_of,
)
from geoveil.analyst.statistics.joint import LIARS, JointEstimates, Quantity
from geoveil.analyst.statistics.labelled_groups import heaviest
from geoveil.analyst.statistics.quantiles import QuantileEstimates
from geoveil.analyst.statistics.separate import SeparateEstimates
from geoveil.analyst.statistics.statistic import (
    Answered,
    Asked,
    Contaminated,
    Found,
    Separately,
    Statistic,
    noted,
    notes_of_looks,
    open_stratum,
)
from geoveil.campaign import AttributeCampaign, Strata
from geoveil.gp import Array, ParameterError, UnsupportedError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "ByGroup",
    "Whose",
    "asked_by_group",
    "asked_of",
    "strata_of",
    "undone",
    "weighted",
    "whose",
]

Part: TypeAlias = tuple[int | None, Asked]
"""The label, from 0, of who is asked, or None for everybody; and what they are asked."""

UNDONE = (
    "Of the people of the group, of whom those who took part are a random sample. Labels were sent"
    " with lies at times, which is undone: errors hold these, too."
)

_TOGETHER = (
    "Every report counts for each group in part, as nobody's group is sure: the errors of groups go"
    " together, and no differences are stated. Those of means are."
)


_BY_ITSELF = (JointEstimates, Quantity, QuantileEstimates)
"""Results whose intervals hold one by one: they say how far a number may be off on either side."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ByGroup(Result):
    """The same statistic of each group of people."""

    name: str
    """What makes the groups, for example "region"."""
    groups: Mapping[str, Result]
    """Label → the statistic of its people; without groups of which nothing can be told."""
    untold: Mapping[str, str]
    """Label → why nothing can be told of it."""
    confidence: float
    """The confidence of the intervals, in (0, 1)."""
    apart: bool = True
    """Whether the groups are of different reports; else their errors go together."""
    contamination: float = 0.0
    """The fraction of false reports, of all groups, that intervals hold with, in [0, 1)."""

    def __getitem__(self, label: str) -> Result:
        return self.groups[label]

    @property
    def title(self) -> str:
        kind = next(iter(self.groups.values())).title.partition(", from")[0]
        return f"{kind}, by {self.name}"

    @property
    def notes(self) -> Sequence[str]:
        sentences = dict.fromkeys(
            chain.from_iterable(result.notes for result in self.groups.values())
        )
        if self.contamination:  # what each says of liars is of its own weight
            liars = [note for note in sentences if note.startswith(LIARS)]
            sentences = {note: None for note in sentences if note not in liars}
            sentences |= dict.fromkeys(notes_of_liars_among(self.contamination))
        return (
            "Each row is of the people of its group, of whom those who took part are a random"
            " sample.",
            *sentences,
            *([] if self.apart else [_TOGETHER]),
            *(f"Nothing is told of {label}: {why}." for label, why in self.untold.items()),
        )

    def rows(self) -> list[dict[str, Any]]:
        return [
            {self.name: label} | row
            for label, result in self.groups.items()
            for row in result.rows()
        ]

    def differences(self, against: str | None = None) -> tuple[Differences, ...]:
        """Return the differences between groups, of each number that has a standard error.

        Those of one number hold at once; those of several numbers are not counted together. There
        are none where labels were sent with lies.

        Args:
            against: the group that the others are compared with; None: every pair.
        """
        if len(self.groups) < 2 or not self.apart:
            return ()
        numbers: dict[str, dict[str, tuple[float, float]]] = {}
        reach = NormalDist().inv_cdf((1 + self.confidence) / 2)
        apart: dict[str, list[tuple[float, float]]] = {}
        alone = all(isinstance(result, _BY_ITSELF) for result in self.groups.values())
        for label, result in self.groups.items():
            for row in result.rows():
                value, error = row.get("estimate"), row.get("standard_error")
                if value is None or error is None or not np.isfinite([value, error]).all():
                    continue
                words = [f"{key} {row[key]}" for key in list(row)[: list(row).index("estimate")]]
                number = ", ".join(words)
                numbers.setdefault(number, {})[label] = value, error
                low, high = row.get("ci_low"), row.get("ci_high")
                low = value - reach * error if low is None else low
                high = value + reach * error if high is None else high
                apart.setdefault(number, []).append((value - low, high - value))

        def found(number: str) -> dict[str, Any]:
            """Return what the intervals of the groups say of a number's differences."""
            ends = np.array(apart[number]).T
            if self.contamination:  # what is beyond the errors of honest reports is of liars
                errors = np.array([error for _, error in numbers[number].values()])
                return {"moved": np.maximum(ends - reach * errors, 0.0)}
            return {"margins": ends} if alone else {}

        return tuple(
            GroupEstimates.independent(
                {label: value for label, (value, _) in by_label.items()},
                {label: error for label, (_, error) in by_label.items()},
                question=number,
                confidence=self.confidence,
                contamination=self.contamination,
                **found(number),
            ).differences(against)
            for number, by_label in numbers.items()
            if len(by_label) == len(self.groups)
        )

    @property
    def on_map(self) -> bool:
        """Whether each group's statistic is of places: see `to_geojson`."""
        return all(isinstance(result, GeoResult) for result in self.groups.values())

    def to_geojson(self) -> dict[str, Any]:
        """Return the features of all groups, each with the label of its group [RFC 7946].

        Raises:
            UnsupportedError: if the statistic is not of places.
        """
        if not self.on_map:
            raise UnsupportedError(f"{self.title} is not of places, and has no GeoJSON")
        features = [
            feature | {"properties": {self.name: label} | feature["properties"]}
            for label, result in self.groups.items()
            for feature in cast(GeoResult, result).to_geojson()["features"]
        ]
        return {"type": "FeatureCollection", "features": features}

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        if not all(isinstance(result, Curve) for result in self.groups.values()):
            return super().plot(ax)
        ax = axes_of(ax, self.title)
        for number, (label, result) in enumerate(self.groups.items()):
            curve = cast(Curve, result)
            drawn = (curve.at, curve.values, (curve.low, curve.high))
            draw_curve(ax, self.title, curve.axis_names, *drawn, color=f"C{number}", label=label)
        return ax


def strata_of(campaign: AttributeCampaign) -> Strata:
    """Return the groups of a campaign.

    Raises:
        ParameterError: if it has none.
    """
    if campaign.strata is None:
        raise ParameterError("campaign_id", campaign.campaign_id, "of a campaign with strata")
    return campaign.strata


@dataclass(frozen=True)
class Whose:
    """Whose statistic is asked for, and how it is made of the answers of those with each label."""

    labels: Sequence[int | None]
    """The labels, from 0, of those whose answers are needed; None stands for everybody."""
    shares: Array
    """The share of the people wanted who are in each group; (1,) where everybody is wanted."""
    strata: Strata | None = None
    """If the labels are randomised; then all are needed."""
    among_all: bool = False
    """Whether it counts how many reports there are with other labels: liars may choose theirs."""

    def parts(self, asked: Asked) -> Iterator[Part]:
        """Yield of whose reports what is needed: what is asked, and at last the number of all."""
        for label in self.labels:
            yield label, asked
        if self.among_all and not isinstance(asked, Counts):
            questions = asked.questions if isinstance(asked, Separately) else asked
            yield None, Separately(questions[:1])

    def combined(self, answers: Sequence[Answered]) -> Answered:
        """Return the answer of the people wanted, from those of the parts."""
        if self.strata is not None and self.strata.randomized is not None:
            return undone(self.strata, self.shares, answers)
        whole = weighted(self.shares.tolist(), answers[: len(self.labels)])
        if len(answers) == len(self.labels) or isinstance(whole, CellCounts):
            return whole
        share = whole.n / answers[-1].n
        return replace(whole, weights=((share, 1 / share), (1 - share, 0.0)))


def whose(
    campaign: AttributeCampaign,
    asked: object,
    stratum: str | None,
    sizes: Mapping[str, float] | None,
) -> Whose:
    """Return of whose reports answers are needed for whose statistic.

    Args:
        campaign: any.
        asked: what is asked: questions by themselves are of everybody or of one open label.
        stratum: only the people of this label.
        sizes: label → its people, or its share; every label, and no other.

    Raises:
        ParameterError: if both are said, labels are missing or unknown, a size is not > 0, or what
            is asked can't be weighted.
    """
    if sizes is not None and stratum is not None:
        raise ParameterError("sizes", sizes, "left out where the people of one stratum are asked")
    if sizes is not None and not isinstance(asked, Statistic):
        raise ParameterError("sizes", sizes, "left out of questions; Means(questions) takes it")
    strata = campaign.strata
    lies = strata is not None and strata.epsilon is not None and isinstance(asked, Statistic)
    if sizes is None and (stratum is None or not lies):
        among_all = stratum is not None and isinstance(asked, Contaminated)
        return Whose((open_stratum(campaign, stratum),), np.ones(1), among_all=among_all)
    strata = strata_of(campaign)
    if sizes is None:
        if stratum not in strata.labels:
            raise ParameterError("stratum", stratum, f"of {strata.labels}")
        sizes_of = np.eye(len(strata.labels))[strata.labels.index(stratum)]
    else:
        sizes_of = shares_of(sizes, strata.labels)
    return Whose(range(len(strata.labels)), sizes_of, strata if lies else None)


def asked_of(
    people: Whose, asked: Statistic[Found], campaign: AttributeCampaign, confidence: float
) -> Generator[Part, Answered, Found]:
    """Yield what a statistic asks of those with each label, receive answers, return the result.

    Args:
        people: whose statistic it is.
        asked: the statistic.
        campaign: whose reports answer.
        confidence: of the result, in (0, 1).

    Raises:
        GeoVeilError: if the statistic can't be had of these people.
    """
    scale, answered = campaign.attribute.scale, None
    steps = (asked if scale is None else asked.on_scale(scale)).steps(campaign, confidence)
    while True:
        try:
            questions = steps.send(answered)
        except StopIteration as end:
            result: Found = noted(end.value, notes_of_looks(campaign))
            return result if scale is None else result.held(scale)
        answers = []
        for part in people.parts(questions):
            answers.append((yield part))  # noqa: PERF401 - a comprehension can't yield
        answered = people.combined(answers)


def asked_by_group(
    asked: Statistic[Any], campaign: AttributeCampaign, confidence: float
) -> Generator[Part, Answered, ByGroup]:
    """Yield what a statistic asks of each group, receive answers, return what can be told of any.

    Args:
        asked: the statistic.
        campaign: with strata, whose reports answer.
        confidence: of intervals, in (0, 1).

    Raises:
        UnsupportedError: if nothing can be told of any group.
    """
    strata = strata_of(campaign)
    results: dict[str, Result] = {}
    untold: dict[str, str] = {}
    for label in strata.labels:
        people = whose(campaign, asked, label, None)
        try:
            results[label] = yield from asked_of(people, asked, campaign, confidence)
        except UnsupportedError as error:
            untold[label] = str(error)
    if not results:
        reasons = "; ".join(dict.fromkeys(untold.values()))
        raise UnsupportedError(f"nothing can be told of any {strata.name}: {reasons}")
    return ByGroup(
        name=strata.name,
        groups=results,
        untold=untold,
        confidence=confidence,
        apart=strata.epsilon is None,
        contamination=asked.fraction if isinstance(asked, Contaminated) else 0.0,
    )


def weighted(shares: Iterable[float], answers: Sequence[Answered]) -> Answered:
    """Return what all people together would answer, from the answers of each group.

    Intervals count as many reports as would each have the weight of the heaviest.

    Args:
        shares: of the people in each group.
        answers: of each group, to the same questions.

    Raises:
        UnsupportedError: if not questions but the reports themselves were asked for.
    """
    weights = list(shares)
    if len(answers) == 1:
        return answers[0]
    joint = _told(answers)
    values = np.tensordot(weights, [estimate.values for estimate in joint], 1)
    spread = np.tensordot(np.square(weights), [estimate.spread for estimate in joint], 1)
    counts = [estimate.n for estimate in joint]
    n = sum(counts)
    count = tuple((of / n, weight * n / of) for weight, of in zip(weights, counts, strict=True))
    alike = max(int(min(of / w for w, of in zip(weights, counts, strict=True))), 2)
    made = joint[0].respread(values, spread, n, alike)
    return replace(made, population=WEIGHTED, weights=count)


def undone(strata: Strata, shares: Array, answers: Sequence[Answered]) -> Answered:
    """Return what people would answer whose labels were sent with lies at times [MATH §8].

    Args:
        strata: with randomised labels.
        shares: of the people wanted who are in each group, (groups,).
        answers: of those who came with each label, to the same questions.

    Raises:
        UnsupportedError: if nothing can be told of a group that is wanted, or the reports
            themselves were asked for.
    """
    assert strata.randomized is not None  # else nothing is to be undone
    joint = _told(answers)
    counts = np.array([float(estimate.n) for estimate in joint])
    towards = strata.randomized.towards  # [group, label]
    people = towards @ counts
    n = counts.sum()
    errors = np.sqrt(np.square(towards) @ counts - people**2 / n)
    quantile = NormalDist().inv_cdf((1 + joint[0].confidence) / 2)
    for group in np.flatnonzero((shares > 0) & (people <= quantile * errors)):
        raise UnsupportedError(
            f"{strata.labels[group]!r} can't be told from a group of nobody: labels were sent with"
            " lies, and too few reports came"
        )
    wanted = np.divide(shares, people, out=np.zeros_like(shares), where=shares > 0)
    of_labels = np.stack([estimate.values for estimate in joint])  # [label, question]
    means = (towards * counts) @ of_labels / np.where(people, people, np.inf)[:, None]
    weights = wanted @ towards  # of a report of each label
    # A report of label r on y counts Σ wanted[s]·towards[s, r]·(y − means[s]): 0 in all.
    middles = weights[:, None] * of_labels - (wanted[:, None] * towards).T @ means
    within = [
        estimate.spread * m * (m - 1) for estimate, m in zip(joint, counts.tolist(), strict=True)
    ]
    between = [_square(middle, within[0].ndim) for middle in middles]
    spread = np.tensordot(np.square(weights), within, 1) + np.tensordot(counts, between, 1)
    alike = max(int(1 / np.abs(weights).max()), 2)
    count = tuple(zip((counts / n).tolist(), (n * heaviest(wanted[:, None] * towards)).tolist(),
                      strict=True))  # fmt: skip
    values = wanted @ (people[:, None] * means)
    made = joint[0].respread(values, spread * n / (n - 1), int(n), alike)
    return replace(made, population=UNDONE, weights=count)


def _told(answers: Sequence[Answered]) -> Sequence[JointEstimates | SeparateEstimates]:
    """Return answers that can be weighted.

    Raises:
        UnsupportedError: if the reports themselves were asked for.
    """
    if isinstance(answers[0], CellCounts):
        raise UnsupportedError("a smoothed distribution is of reports as they are, without weights")
    return cast(Sequence[JointEstimates | SeparateEstimates], answers)


def _square(values: Array, dimension: int) -> Array:
    """Return the products of every two, or the squares."""
    return np.outer(values, values) if dimension > 1 else values**2
