"""The right mechanism for a question: everything is predicted, and the best is chosen [MATH §8]."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from geoveil.gp import validation
from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.planner.candidates import Alternative, Survey
from geoveil.gp.planner.kinds import CHANNEL, KINDS, POINTS
from geoveil.gp.planner.lower_bound import LowerBound, lower_bound
from geoveil.gp.planner.prior import Prior
from geoveil.gp.planner.question import Question, as_question
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.base import Query

ALL_KINDS = (*KINDS, CHANNEL)
_REFINED = 3
"""Kinds, the best ones, whose bands are refined."""


@dataclass(frozen=True)
class Plan:
    """A choice, and what else there was."""

    question: Question
    privacy: GeoPrivacy
    n: int
    """The number of reports for which the choice is best."""
    alternatives: tuple[Alternative, ...]
    """The best of each kind, those that may be chosen first, by expected error."""
    survey: Survey

    @property
    def choice(self) -> Alternative:
        """The best that keeps the guarantee."""
        return self.alternatives[0]

    @property
    def reason(self) -> str:
        """Why it was chosen, in a sentence or two."""
        best, n = self.choice, self.n
        found = best.prediction
        error = found.expected_error(n)
        parts = [
            f"{best.kind} has the least expected error at n = {n:,}:"
            f" ±{found.margin(n):.3g} with 95 % confidence, of whose square"
            f" {found.share_of_bias(n):.0%} is bias that more people do not remove."
        ]
        others = [a for a in self.alternatives[1:] if a.keeps]
        if others:
            ratio = others[0].prediction.expected_error(n) / error if error else 1.0
            parts.append(f"Next is {others[0].kind}, with {ratio:.3g} × the squared error.")
        return " ".join(parts)

    def at(self, people: Iterable[int]) -> list[tuple[int, float, float]]:
        """Return (n, 95 % margin, share of bias) of the choice for several n."""
        found = self.choice.prediction
        return [(n, found.margin(n), found.share_of_bias(n)) for n in people]

    def lower_bound(self, nodes: int = 32) -> LowerBound:
        """Return what no unbiased ε-GP mechanism can beat for the query that was chosen.

        In value and attained the noise of one report averaged over the prior, so that it compares
        with `choice.prediction.noise`. People more than 6/ε
        from where the query varies are counted with no noise. It takes some seconds.

        Args:
            nodes: see `lower_bound`.

        Raises:
            UnsupportedError: if the query has no scalar (a smoothed region).
        """
        query = self.choice.query
        if not isinstance(query, Query):
            raise UnsupportedError(f"{query!r} has no scalar, and hence no bound in one dimension")
        scalars, share = self.survey.scalars_near(query)
        found = lower_bound(query, self.privacy, scalars, nodes=nodes)
        return replace(found, value=share * found.value, attained=share * found.attained)


def plan(
    question: Question | Query,
    privacy: GeoPrivacy,
    prior: Prior,
    n: int,
    *,
    diameter: float | None = None,
    kinds: Collection[str] = ALL_KINDS,
) -> Plan:
    """Return the way to ask a question that has the least expected error.

    For a hard question the soft stand-in is chosen, too: profile, width of the band, and where it
    lies. The error is `Prediction.expected_error`: with the noise of n reports, the bias against
    the hard truth of the prior, and what the prior, being a sample, does not know of that bias.
    The same arguments give the same plan.

    Args:
        question: what is wanted; a query stands for its own mean.
        privacy: what each report is to promise, in the unit of the points; delta must be 0.
        prior: public.
        n: number of people who will report, ≥ 1.
        diameter: largest distance between two possible values, if known; then baselines of local
            privacy at ε·diameter are shown, which is a weaker promise to neighbours.
        kinds: names in `KINDS`, or "LinearProgramMechanism": what to consider.

    Raises:
        ParameterError: if an argument is out of range, or the dimensions differ.
        UnsupportedError: if no kind considered serves the question.

    Example:
        >>> from geoveil.gp.planner import HardThreshold, LogNormalPrior
        >>> best = plan(HardThreshold(1e5), GeoPrivacy(1.0, per=8e3), LogNormalPrior(11.5, 0.8),
        ...     n=50_000, kinds=("DebiasedLaplace", "LipschitzMechanism"))
        >>> best.choice.kind, round(best.choice.prediction.margin(50_000), 5)
        ('DebiasedLaplace', 0.00245)
    """
    asked = as_question(question)
    if not isinstance(privacy, GeoPrivacy) or privacy.delta > 0:
        raise ParameterError("privacy", privacy, "a GeoPrivacy with delta = 0")
    if not isinstance(prior, Prior):
        raise ParameterError("prior", prior, "a Prior, for example SamplePrior(values)")
    if prior.dimension != asked.dimension:
        raise ParameterError("prior.dimension", prior.dimension, f"{asked.dimension}")
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ParameterError("n", n, "an integer >= 1")
    if diameter is not None:
        diameter = validation.positive("diameter", diameter)
    for name in kinds:
        validation.choice("kinds", name, ALL_KINDS)
    survey = Survey(asked, privacy, prior, diameter)
    found = screened(survey, kinds, lambda a: a.prediction.expected_error(n))
    if not any(a.keeps for a in found):
        raise UnsupportedError(f"none of {', '.join(kinds)} serves {question!r}")
    return Plan(asked, privacy, n, tuple(found), survey)


def screened(
    survey: Survey, kinds: Collection[str], error: Callable[[Alternative], float]
) -> list[Alternative]:
    """Return the best alternative of each kind, those that keep the guarantee first."""
    best: dict[str, Alternative] = {}

    def consider(alternatives: Iterable[Alternative]) -> None:
        for a in alternatives:
            if a.kind not in best or error(a) < error(best[a.kind]):
                best[a.kind] = a

    queries = survey.queries()
    for name in (name for name in KINDS if name in kinds):
        for query in queries:
            consider(survey.alternatives(name, KINDS[name], query))
    for leading in sorted((a for a in best.values() if a.keeps), key=error)[:_REFINED]:
        consider(survey.neighbours(leading))
    if POINTS in kinds:
        consider(survey.regions())
    if CHANNEL in kinds:
        soft = [(error(a), a.query) for a in best.values() if a.keeps]
        on_scalar = [(e, query) for e, query in soft if isinstance(query, Query)]
        if on_scalar:
            consider(survey.channels(min(on_scalar, key=lambda pair: pair[0])[1]))
        elif queries:  # nothing to go by: a band of about two noise scales
            consider(survey.channels(queries[len(queries) // 3]))
    # Sorting is stable, so that of two equal kinds the first in the registry comes first.
    exact = map(survey.exact, best.values())
    return sorted(exact, key=lambda a: (not a.keeps, error(a)))
