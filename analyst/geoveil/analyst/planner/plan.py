"""Choose a mechanism for a question: predict the error of each, and take the best [MATH §8]."""

import math
from collections.abc import Collection
from dataclasses import dataclass

from geoveil.analyst.planner.candidates import KINDS, POINTS
from geoveil.analyst.planner.prediction import ErrorOf
from geoveil.analyst.planner.problem import PlanningProblem, PopulationMean
from geoveil.analyst.planner.search import Alternative, Search
from geoveil.gp import GeoPrivacy, UnsupportedError, validation

CLOSE = 1.05
"""Kinds with up to this multiple of the least coarse error are computed exactly."""
_HOPELESS = 10.0
"""The search drops kinds with this multiple of the least squared error; no bandwidth saves as
much."""


@dataclass(frozen=True)
class Plan:
    """A choice, and its alternatives."""

    search: Search
    """The search for the problem, which other numbers of reports reuse."""
    n: int
    """The number of reports for which the choice is best."""
    alternatives: tuple[Alternative, ...]
    """The best of each kind by expected error, a wanted kind before all."""
    wanted: str | None = None
    """The wanted kind; None: the best."""

    @property
    def problem(self) -> PlanningProblem:
        """The question, the guarantee and the prior, with its nodes."""
        return self.search.problem

    @property
    def question(self) -> PopulationMean:
        """The question."""
        return self.problem.question

    @property
    def privacy(self) -> GeoPrivacy:
        """The guarantee of each report."""
        return self.problem.privacy

    @property
    def choice(self) -> Alternative:
        """The wanted kind, otherwise the best."""
        return self.alternatives[0]

    @property
    def reason(self) -> str:
        """The reason for the choice, in a sentence or two."""
        best, n = self.choice, self.n
        prediction = best.prediction
        error = prediction.expected_error(n)
        others = self.alternatives[1:]
        why = "is what was asked for" if self.wanted else "has the least expected error"
        parts = [
            f"{best.kind} {why} at n = {n:,}:"
            f" ±{prediction.margin(n):.3g} for what is asked of the population, with 95 %"
            f" confidence. {prediction.share_of_bias(n):.0%} of the squared error is bias that more"
            " people do not remove."
        ]
        if others:
            ratio = others[0].prediction.expected_error(n) / error if error else 1.0
            other = "Else the best" if self.wanted else "Next"
            parts.append(f"{other} is {others[0].kind}, with {ratio:.3g} × the squared error.")
        return " ".join(parts)


def planned(
    search: Search,
    n: int,
    kinds: Collection[str],
    within: float = math.inf,
    wanted: str | None = None,
) -> Plan:
    """Return the way to ask a question that has the least expected error.

    For a hard question, the soft stand-in is chosen, too: the profile, width and place of its band.
    The error is `Prediction.expected_error`: it includes the noise of n reports, the bias against
    the prior's hard truth, and the uncertainty of that bias, as the prior is a sample. The same
    arguments give the same plan.

    Args:
        search: of the question; its earlier results are used again.
        n: number of people who will report, ≥ 1.
        kinds: names in `KINDS`, or mechanisms in the words that campaigns use.
        within: see `screened`.
        wanted: the kind to choose; None for the best.

    Raises:
        ParameterError: if n is out of range.
        UnsupportedError: if no kind considered serves the question.

    Example:
        >>> from geoveil.analyst.planner import HardThreshold, LogNormalPrior
        >>> incomes, promise = LogNormalPrior(11.5, 0.8), GeoPrivacy(1.0, per=8e3)
        >>> search = Search(PlanningProblem.of(HardThreshold(1e5), promise, incomes))
        >>> best = planned(search, 50_000, ("DebiasedLaplace", "LipschitzMechanism"))
        >>> best.choice.kind, round(best.choice.prediction.margin(50_000), 5)
        ('DebiasedLaplace', 0.00567)
    """
    validation.require_count("n", n)
    alternatives = screened(search, kinds, lambda p: search.problem.error_from_people(p, n), within)
    if not alternatives:
        raise UnsupportedError(f"none of {', '.join(kinds)} serves {search.problem.question!r}")
    if wanted is not None:
        alternatives.sort(key=lambda a: a.kind != wanted)
        if alternatives[0].kind != wanted:
            raise UnsupportedError(f"{wanted} does not serve {search.problem.question!r}")
    return Plan(search, n, tuple(alternatives), wanted)


def screened(
    search: Search, kinds: Collection[str], error: ErrorOf, within: float = math.inf
) -> list[Alternative]:
    """Return the best alternative of each kind, in the order of increasing errors.

    Args:
        within: leave out kinds that seem to have more than this many times the least error.
    """
    considered = [name for name in KINDS if name in kinds]
    considered += [name for name in kinds if name not in considered]
    tried = [search.best(name, error) for name in considered]
    rough = [(error(a.prediction), a) for a in tried if a is not None]
    least = min((size for size, _ in rough), default=math.inf)
    near = [a for size, a in rough if within == math.inf or size <= within * least]
    best = [made for made in map(search.exact, near) if made is not None]
    if POINTS in kinds:
        least = min((error(a.prediction) for a in best), default=math.inf)
        regions = search.regions(error, hopeless=_HOPELESS * least)
        best += sorted(regions, key=lambda a: error(a.prediction))[:1]
    # Sorting is stable, so of two equal kinds, the first in the registry comes first.
    return sorted(best, key=lambda a: error(a.prediction))
