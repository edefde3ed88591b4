"""Recipes of applications: build a mechanism from public facts, and score private data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from geoveil.gp import validation
from geoveil.selection.base import ScoresLike, SelectionMechanism
from geoveil.selection.smooth import SmoothSelection

Public = TypeVar("Public")
"""Public facts, such as a number of outcomes or a bound."""
Private = TypeVar("Private")
"""Private facts about the database."""


@dataclass(frozen=True, slots=True)
class SelectionRecipe(Generic[Public, Private]):
    """A way to answer an application's question.

    Attributes:
        build: makes the mechanism from ε (nats per changed record) and public facts.
        score: makes the mechanism's kind of scores from private facts.
    """

    build: Callable[[float, Public], SelectionMechanism]
    score: Callable[[Private, SelectionMechanism], ScoresLike]


def plain(
    kind: Callable[..., SelectionMechanism],
    score: Callable[[Private], ScoresLike],
    *of_public: Callable[[Public], float],
    **fixed: Any,
) -> SelectionRecipe[Public, Private]:
    """Return a recipe whose mechanism takes ε, numbers from public facts, and fixed arguments."""
    return SelectionRecipe(
        lambda epsilon, public: kind(epsilon, *(of(public) for of in of_public), **fixed),
        lambda known, _: score(known),
    )


def by_beta(
    score: Callable[[Private, float], ScoresLike],
) -> Callable[[Private, SelectionMechanism], ScoresLike]:
    """Return how to score for a smooth selection, given how to score for its β."""

    def of_mechanism(known: Private, mechanism: SelectionMechanism) -> ScoresLike:
        assert isinstance(mechanism, SmoothSelection)
        return score(known, mechanism.beta)

    return of_mechanism


def recipe_named(
    recipes: Mapping[str, SelectionRecipe[Public, Private]], name: str
) -> SelectionRecipe[Public, Private]:
    """Return the recipe with a name; ParameterError if there is none."""
    return recipes[validation.choice("mechanism", name, recipes)]
