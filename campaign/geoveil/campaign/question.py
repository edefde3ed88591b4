"""What is asked: a query and the name of its row in tables."""

from dataclasses import dataclass

from geoveil.campaign.text import plain
from geoveil.gp import ParameterError, Query, SmoothedRegion


@dataclass(frozen=True, slots=True)
class Question:
    """One query of a campaign and the name of its row in tables."""

    label: str
    query: Query

    def __post_init__(self) -> None:
        plain("query.label", self.label, 100)
        if not isinstance(self.query, Query):
            raise ParameterError("query", self.query, "a Query")


@dataclass(frozen=True, slots=True)
class PointQuestion:
    """One query that is asked of perturbed points, and the name of its row in tables."""

    label: str
    query: Query | SmoothedRegion

    def __post_init__(self) -> None:
        plain("query.label", self.label, 100)
        if not isinstance(self.query, (Query, SmoothedRegion)):
            raise ParameterError("query", self.query, "a Query or a SmoothedRegion")
