"""How a mechanism is put to use in an application: set up by what is public, told what is not."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from geoveil.gp import validation
from geoveil.selection.base import SelectionMechanism
from geoveil.selection.scores import Scores

Public = TypeVar("Public")
"""What everybody may know: a number of outcomes, a bound."""
Private = TypeVar("Private")
"""What is known of the database."""


@dataclass(frozen=True, slots=True)
class Method(Generic[Public, Private]):
    """One way to answer an application's question.

    Attributes:
        set_up: makes the mechanism for an ε (nats per changed record), from what is public.
        tell: makes its scores, of the kind that it takes.
    """

    set_up: Callable[[float, Public], SelectionMechanism]
    tell: Callable[[Private, SelectionMechanism], Scores]


def chosen(methods: Mapping[str, Method[Public, Private]], name: str) -> Method[Public, Private]:
    """Return the method of that name.

    Raises:
        ParameterError: if there is none.
    """
    return methods[validation.choice("mechanism", name, methods)]
