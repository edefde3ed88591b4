"""What every experiment of private selection is given, and what it gives: rows of its measure."""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.audit import OwnSelection, selections_in
from geoveil.gp import ParameterError, validation
from geoveil.selection.contrib.recipe import SelectionRecipe

KEPT = "equal ε"
"""The mechanism keeps the ε of its row, by proof."""
NOMINAL = "paper, nominal"
"""The mechanism as a paper prints it: its ε is what the paper says, whatever it keeps."""
OPEN = "no privacy"
"""What there is without a mechanism, as a level to compare with."""
OWN = "yours"
"""A mechanism that was given, at the ε that it was made for."""
STANDINGS = (KEPT, NOMINAL, OPEN, OWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionRow:
    """How well one mechanism does in one setting.

    Raises:
        ParameterError: if what is proved of a mechanism that keeps its ε exceeds it.
    """

    application: str
    dataset: str
    setting: str
    """What else is fixed: for example "p=50" or "k=5"."""
    mechanism: str
    standing: str
    """One of `STANDINGS`."""
    epsilon: float
    """The axis of comparison, in nats per changed record."""
    proved_epsilon: float
    """What is proved of the mechanism; infinite if nothing is."""
    delta: float = 0.0
    measure: str
    value: float
    standard_error: float = 0.0
    """The standard error of `value`; 0 if nothing was drawn."""
    mode: str = "exact"
    """"exact" over the noise, or "monte-carlo"."""

    def __post_init__(self) -> None:
        # The proofs round up; 1e-9 is far more than that.
        if self.standing == KEPT and self.proved_epsilon > self.epsilon * (1 + 1e-9):
            raise ParameterError("proved_epsilon", self.proved_epsilon, f"at most {self.epsilon:g}")

    @classmethod
    def averaged(cls, values: ArrayLike, **rest: Any) -> Self:
        """Return the row of the mean of n ≥ 1 values, with its standard error if there are two."""
        found = np.asarray(values, dtype=np.float64)
        spread = float(found.std(ddof=1)) if len(found) > 1 else 0.0
        error = spread / math.sqrt(len(found))
        return cls(value=float(found.mean()), standard_error=error, **rest)


def grouped(
    rows: Iterable[SelectionRow], *fields: str
) -> dict[tuple[str, ...], list[SelectionRow]]:
    """Return the rows by two fields or more, in the order in which these come up."""
    found: dict[tuple[str, ...], list[SelectionRow]] = {}
    for row in rows:
        found.setdefault(attrgetter(*fields)(row), []).append(row)
    return found


Item = TypeVar("Item")


def evenly_spaced(items: Sequence[Item], most: int) -> list[Item]:
    """Return a few of the items, the first and the last among them; all if they are few."""
    places = np.linspace(0, len(items) - 1, min(most, len(items)))
    return [items[round(place)] for place in places.tolist()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to run an experiment on.

    Raises:
        ParameterError: if the seed is out of range.
    """

    data: tuple[Path, ...] = ()
    """Files of the application's own kind; what ships, or is generated, without any."""
    seed: int = 1
    quick: bool = False
    """Whether to run a small part of it."""
    module: Path | None = None
    """A Python file of mechanisms, functions of `epsilon` and `sensitivity`; it is run."""

    def __post_init__(self) -> None:
        validation.between("seed", self.seed, 0, 2**63)

    @property
    def key(self) -> str:
        """Names all that rows depend on; of files their contents."""
        given = self.data if self.module is None else (*self.data, self.module)
        files = [hashlib.sha256(file.read_bytes()).hexdigest()[:12] for file in given]
        return " ".join([f"seed={self.seed} quick={self.quick}", *files])

    @property
    def own(self) -> Mapping[str, OwnSelection]:
        """The functions of the file, by name; none without one."""
        return {} if self.module is None else selections_in(self.module)


Compute = Callable[[], Iterable[SelectionRow]]
"""Makes the rows of a part of an experiment."""


Array = NDArray[np.float64]
Choice = Callable[[Any], Any]
"""Probabilities of outcomes, or what is chosen, by what is known of a database."""


@dataclass(frozen=True, slots=True)
class Made:
    """A mechanism at its ε."""

    choice: Choice
    epsilon: float
    """What is proved of a choice, nats; infinite if nothing is."""
    delta: float = 0.0


Make = Callable[[float, Any], Made]
"""A mechanism from ε and what is public, such as the number of outcomes."""


@dataclass(frozen=True, slots=True)
class SelectionContestant:
    """A way to choose one of several outcomes."""

    name: str
    make: Make
    standing: str = KEPT
    """One of `STANDINGS`."""


def of_recipes(recipes: Mapping[str, SelectionRecipe[Any, Any]]) -> list[SelectionContestant]:
    """Return the mechanisms of the library for one application."""

    def make(recipe: SelectionRecipe[Any, Any], epsilon: float, public: Any) -> Made:
        mechanism = recipe.build(epsilon, public)
        kept = mechanism.guarantee

        def choice(known: Any) -> Array:
            return mechanism.probabilities(recipe.score(known, mechanism))

        return Made(choice, kept.epsilon, kept.delta)

    return [SelectionContestant(n, partial(make, recipe)) for n, recipe in recipes.items()]


def brought(
    own: Mapping[str, OwnSelection], choice: Callable[[OwnSelection], Choice]
) -> list[SelectionContestant]:
    """Return mechanisms that were given, of which nothing is proved here."""

    def make(given: OwnSelection, epsilon: float, _: Any) -> Made:
        return Made(choice(given.at(epsilon)), math.inf)

    return [SelectionContestant(n, partial(make, given), OWN) for n, given in own.items()]


def by_nearness(given: OwnSelection) -> Choice:
    """Return a choice by how many changes it takes to let each outcome win."""
    return lambda known: given.probabilities(known.as_nearness())


def compared(
    contestants: Iterable[SelectionContestant],
    epsilons: Iterable[float],
    public: Any,
    databases: Iterable[Any],
    measured: Callable[[Choice, Any], Mapping[str, ArrayLike]],
    **place: Any,
) -> Iterator[SelectionRow]:
    """Yield the rows of mechanisms at all ε, each averaged over databases.

    `measured` returns numbers by their measure, of a choice and a database; of each database those
    of all mechanisms, before the next is asked for. `place` is all else that a row says.
    """
    cells = [(c, epsilon, c.make(epsilon, public)) for c, epsilon in product(contestants, epsilons)]
    found = [[measured(made.choice, known) for _, _, made in cells] for known in databases]
    for (contestant, epsilon, made), values in zip(cells, zip(*found, strict=True), strict=True):
        for measure in values[0]:
            yield SelectionRow.averaged(
                np.ravel([value[measure] for value in values]),
                mechanism=contestant.name,
                standing=contestant.standing,
                epsilon=epsilon,
                proved_epsilon=made.epsilon,
                delta=made.delta,
                measure=measure,
                **place,
            )
