"""Plans of one question without a request."""

from geoveil.analyst.planner import (
    KINDS,
    Plan,
    PlanningProblem,
    PopulationMean,
    Prior,
    Search,
    SoftQuestion,
    planned,
)
from geoveil.gp import GeoPrivacy, Query


def plan(
    question: PopulationMean | Query,
    privacy: GeoPrivacy,
    prior: Prior,
    n: int,
    *,
    kinds: tuple[str, ...] = tuple(KINDS),
) -> Plan:
    """Return the plan of a question; a query stands for its own mean."""
    asked = SoftQuestion(question) if isinstance(question, Query) else question
    return planned(Search(PlanningProblem.of(asked, privacy, prior)), n, kinds)
