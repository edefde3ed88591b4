"""What is asked: a query and the name of its row in tables."""

from dataclasses import dataclass

from geoveil.gp import ParameterError, Query, SmoothedRegion


@dataclass(frozen=True, slots=True)
class Question:
    """One query of a campaign and the name of its row in tables."""

    label: str
    query: Query

    def __post_init__(self) -> None:
        _check_label(self.label)


@dataclass(frozen=True, slots=True)
class PointQuestion:
    """One query that is asked of perturbed points, and the name of its row in tables."""

    label: str
    query: Query | SmoothedRegion

    def __post_init__(self) -> None:
        _check_label(self.label)
        if not isinstance(self.query, (Query, SmoothedRegion)):
            raise ParameterError("query", self.query, "a Query or a SmoothedRegion")


def _check_label(label: str) -> None:
    if not isinstance(label, str) or not 1 <= len(label) <= 100:
        raise ParameterError("query.label", label, "1 to 100 characters")
