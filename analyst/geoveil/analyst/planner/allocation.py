"""Divide one person's privacy among many questions, and compare the costs [MATH §7].

At ε in total each person answers one question, drawn uniformly (*partition*); all m questions, at
ε/m each (*split*), or at ε together with noise scaled to a smooth bound of their slopes (*vector*)
[SGP Cor. 3.2]; or sends one perturbed point, which answers every question (*points*). In *repeat*
everybody answers all at ε each. The error of a partition grows with m, that of a split at least
with m², and that of points not at all: the planner computes where they cross.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from types import MappingProxyType

from geoveil.analyst.planner.candidates import KINDS, in_words
from geoveil.analyst.planner.coarse import WIDEST
from geoveil.analyst.planner.plan import CLOSE, screened
from geoveil.analyst.planner.prediction import ErrorOf, Prediction, Targets
from geoveil.analyst.planner.priors import Prior
from geoveil.analyst.planner.problem import Nodes, PlanningProblem, PopulationMean
from geoveil.analyst.planner.search import Alternative, Search
from geoveil.campaign import MECHANISMS, MechanismSpec
from geoveil.gp import (
    Array,
    GeoPrivacy,
    ParameterError,
    Query,
    UnsupportedError,
    VectorSmoothMechanism,
    validation,
)

_MOST = 64
"""The most questions of one comparison, each of which is planned separately."""
_MOST_QUESTIONS = 10**9
_SMOOTH, _OF_SMOOTH = "smooth", ("LaplacePareto", "PowerLaw")
"""The mechanism of a vector, and its kinds for one question."""


def _whole(privacy: GeoPrivacy, _: int) -> GeoPrivacy:
    """Return the guarantee undivided."""
    return privacy


def _expected(found: Prediction, n: int, _: int) -> float:
    """Return the expected squared error if everybody answers."""
    return found.expected_error(n)


@dataclass(frozen=True)
class AllocationRule:
    """A rule that divides the privacy among the questions."""

    per_report: Callable[[GeoPrivacy, int], GeoPrivacy] = _whole
    """The guarantee of one answer, given a person's total guarantee and m questions."""
    in_all: Callable[[GeoPrivacy, int], GeoPrivacy] = _whole
    """The total guarantee of a person."""
    error: Callable[[Prediction, int, int], float] = _expected
    """The expected squared error of one estimate, for n people and m questions."""
    one_for_all: bool = False
    """Whether one report must answer every question."""
    together: bool = False
    """Whether the answers of one person form a vector, which gets all of ε."""

    def kinds(self, privacy: GeoPrivacy, mechanism: str | None = None) -> tuple[str, ...]:
        """Return the kinds of mechanisms that the rule permits, or the wanted one.

        Args:
            mechanism: in the words that campaigns use; None for the best.
        """
        if mechanism is not None and not self.one_for_all:
            return (mechanism,)
        more = () if self.one_for_all else in_words(privacy, None)
        return (*(n for n, k in KINDS.items() if k.answers_all == self.one_for_all), *more)


ALLOCATIONS: Mapping[str, AllocationRule] = MappingProxyType(
    {
        "partition": AllocationRule(error=lambda found, n, m: found.partitioned(n, m)),
        "split": AllocationRule(per_report=lambda privacy, m: privacy.split(m)),
        "repeat": AllocationRule(in_all=lambda privacy, m: privacy.repeated(m)),
        "vector": AllocationRule(together=True),
        "points": AllocationRule(one_for_all=True),
    }
)
"""Name → allocation; all except "repeat" spend ε in total."""


@dataclass(frozen=True)
class Allocated:
    """One allocation, with the best mechanism for it."""

    allocation: str
    """A name in `ALLOCATIONS`."""
    in_all: GeoPrivacy
    """The total guarantee of a person."""
    kinds: tuple[str, ...]
    """The mechanism for each question, or one for all of them."""
    predictions: tuple[Prediction, ...]
    """One per question."""
    errors: tuple[float, ...]
    """Expected squared error of each estimate, without the error of sampling people."""
    targets: tuple[Targets, ...]
    """The expected errors of each estimate."""

    @property
    def total_error(self) -> float:
        """Sum of the squared errors over the questions (ASE)."""
        return math.fsum(self.errors)


@dataclass(frozen=True)
class Comparison:
    """Allocations for a list of questions."""

    n: int
    questions: int
    """m, their number."""
    rows: tuple[Allocated, ...]
    """Those with the requested total privacy, by total error, then those that promise less."""
    crossover: int | None
    """The number of questions like these from which points are better than a partition; None if
    points can't answer them."""

    @property
    def choice(self) -> Allocated:
        """The best allocation with the requested privacy."""
        return self.rows[0]

    def __getitem__(self, allocation: str) -> Allocated:
        """Return the row of an allocation.

        Raises:
            ParameterError: if it is none of those that serve the questions.
        """
        for row in self.rows:
            if row.allocation == allocation:
                return row
        names = ", ".join(row.allocation for row in self.rows)
        raise ParameterError("allocation", allocation, f"one of {names}")


class Searches:
    """A cache of searches, for the same questions and their prior.

    Args:
        most: how many guarantees to keep, the last used ones; None for all.
        widest: the widest band to try, as `coarse.width` takes it.
    """

    def __init__(self, most: int | None = None, widest: int = WIDEST) -> None:
        self._widest = widest
        self._under = lru_cache(most)(lambda privacy: dict[int, Search]())
        self._first: dict[int, PlanningProblem] = {}

    def of(
        self, number: int, question: PopulationMean, privacy: GeoPrivacy, prior: Prior
    ) -> Search:
        """Return the search for a question under a guarantee, which may still be empty.

        Args:
            privacy: the guarantee of each report.
        """
        by_number = self._under(privacy)
        if number not in by_number:
            beside = self._first.get(number)
            by_number[number] = Search(
                PlanningProblem.of(question, privacy, prior)
                if beside is None
                else beside.under(privacy),
                self._widest,
            )
            self._first.setdefault(number, by_number[number].problem)
        return by_number[number]


def compare_allocations(
    questions: Sequence[PopulationMean],
    privacy: GeoPrivacy,
    prior: Prior,
    n: int,
    *,
    searches: Searches | None = None,
    mechanism: str | None = None,
) -> Comparison:
    """Return the expected error of every allocation for several questions.

    The best mechanism is chosen for each question, as by `planned`.

    Args:
        questions: 1 to 64, of the dimension of the prior.
        privacy: a person's total guarantee.
        n: number of people, ≥ 1.
        searches: a cache of results, to be passed again with the same questions and prior and
            another n or guarantee.
        mechanism: the mechanism of answers, in the words that campaigns use; by default, the best
            for each question.

    Raises:
        ParameterError: if there are too many questions, or n is out of range.
        UnsupportedError: if no allocation serves all questions.

    Example:
        >>> from geoveil.gp import GaussianKernel
        >>> from geoveil.analyst.planner import SamplePrior, SoftQuestion
        >>> places = SamplePrior([[0.0, 0.0], [3.0, 1.0], [6.0, 6.0]])
        >>> grid = [SoftQuestion(GaussianKernel((float(x), 0.0), 3.0)) for x in range(8)]
        >>> found = compare_allocations(grid, GeoPrivacy(1.0, per=1.0), places, n=10_000)
        >>> found.choice.allocation, found.crossover
        ('points', 2)
    """
    if len(questions) > _MOST:
        raise ParameterError("questions", f"{len(questions)} of them", f"up to {_MOST}")
    validation.require_count("n", n)
    kept = Searches() if searches is None else searches
    rows = []
    for name, allocation in ALLOCATIONS.items():
        try:
            if allocation.together:
                chosen = vector_answers(questions, privacy, prior, n, kept, mechanism)
            else:
                kinds = allocation.kinds(privacy, mechanism)
                chosen = _apart(allocation, kinds, questions, privacy, prior, n, kept)
            rows.append(_allocated(name, allocation, chosen, privacy, n))
        except UnsupportedError:
            continue  # it serves none or not all of them
    if not rows:
        raise UnsupportedError("no allocation serves all of these questions")
    rows.sort(key=lambda row: (row.in_all != privacy, row.total_error))
    return Comparison(n, len(questions), tuple(rows), _crossover(rows, n))


def vector_answers(
    asked: Sequence[PopulationMean],
    privacy: GeoPrivacy,
    prior: Prior,
    n: int,
    known: Searches,
    mechanism: str | None = None,
) -> list[Alternative]:
    """Return the answer to each question in one vector [SGP Cor. 3.2].

    Bands are the best ones for smooth noise at all of ε or at its m-th part: the noise of a vector
    lies between the two.

    Args:
        privacy: what the whole vector promises.
        mechanism: in the words that campaigns use; "smooth" by default.
    """
    m, name = len(asked), mechanism or _SMOOTH
    spec = MECHANISMS.parse(name)
    if m < 2 or privacy.delta > 0 or not isinstance(spec, MechanismSpec):
        raise UnsupportedError("vectors answer two questions or more, without a delta")
    kinds = (mechanism,) if mechanism else _OF_SMOOTH

    def error(found: Prediction) -> float:
        return found.expected_error(n)

    tried = []
    for each in (privacy, privacy.split(m)):
        alone = [_alone(known.of(i, q, each, prior), kinds, error) for i, q in enumerate(asked)]
        queries = [a.query for a in alone if isinstance(a.query, Query)]
        try:
            vector = spec.build_together(queries, privacy)
        except ParameterError as refused:
            raise UnsupportedError(str(refused)) from None
        moments = _moments_of(vector)
        alternatives = []
        for i, (query, answer) in enumerate(zip(queries, vector.answers, strict=True)):
            search = known.of(i, asked[i], privacy, prior)
            predicted = search.problem.prediction(partial(moments, query))
            alternatives.append(Alternative(name, query, {}, answer, predicted))
        tried.append(alternatives)
    return min(tried, key=lambda found: math.fsum(error(a.prediction) for a in found))


def _moments_of(vector: VectorSmoothMechanism) -> Callable[[Query, Nodes], tuple[Array, Array]]:
    """Return a function that computes means and variances of an answer at nodes, (k,) each."""
    variances: dict[bytes, Array] = {}

    def moments(query: Query, nodes: Nodes) -> tuple[Array, Array]:
        key = nodes.points.tobytes()
        if key not in variances:  # the same for all answers
            variances[key] = vector.variance(nodes.points)[:, 0]
        return query.value(nodes.points), variances[key]

    return moments


def _apart(
    allocation: AllocationRule,
    kinds: tuple[str, ...],
    asked: Sequence[PopulationMean],
    privacy: GeoPrivacy,
    prior: Prior,
    n: int,
    known: Searches,
) -> list[Alternative]:
    """Return the best way to ask each question separately."""
    m = len(asked)
    each = allocation.per_report(privacy, m)
    return [
        _alone(known.of(i, q, each, prior), kinds, lambda found: allocation.error(found, n, m))
        for i, q in enumerate(asked)
    ]


def _allocated(
    name: str,
    allocation: AllocationRule,
    chosen: Sequence[Alternative],
    privacy: GeoPrivacy,
    n: int,
) -> Allocated:
    m = len(chosen)

    def error(found: Prediction) -> float:
        return allocation.error(found, n, m)

    names = tuple(a.kind for a in chosen)
    predictions = tuple(a.prediction for a in chosen)
    errors = tuple(error(p) for p in predictions)
    targets = tuple(p.targets(n, error) for p in predictions)
    return Allocated(name, allocation.in_all(privacy, m), names, predictions, errors, targets)


def _alone(search: Search, kinds: tuple[str, ...], error: ErrorOf) -> Alternative:
    screened_alternatives = screened(search, kinds, error, within=CLOSE)
    if not screened_alternatives:
        raise UnsupportedError(f"none of {', '.join(kinds)} serves {search.problem.question!r}")
    return screened_alternatives[0]


def _crossover(rows: Sequence[Allocated], n: int) -> int | None:
    """Return the least m for which points have no more error than a partition.

    It is for questions like these, with the mean of their predictions. A partition among m uses
    the better of the best for one question and the best for all of these.
    """
    by_allocation = {row.allocation: row for row in rows}
    if not {"points", "partition", "repeat"} <= by_allocation.keys():
        return None
    goal = by_allocation["points"].total_error
    choices = [by_allocation[name].predictions for name in ("repeat", "partition")]

    def reached(m: int) -> bool:
        return goal <= min(math.fsum(p.partitioned(n, m) for p in each) for each in choices)

    high = 1
    while not reached(high):
        high *= 2
        if high > _MOST_QUESTIONS:
            return None
    return bisect_left(range(high), True, lo=high // 2 + 1, key=reached)
