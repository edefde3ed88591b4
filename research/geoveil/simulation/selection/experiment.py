"""Common parts of all experiments on private selection: mechanisms, settings and rows.

Many mechanisms choose by counts, which one record changes by 1: from tables (rows, outcomes) to
probabilities of the same shape. *Smooth noisy max as published* [SNM] is Algorithm 1 with
S = e^{−εk} of Proposition 6.4 and Theorem 7.3, which omits β and is no upper bound for k = 1.
"""

import hashlib
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.audit import OwnSelection, Selects, selections_in, source_files
from geoveil.gp import Laplace, Noise, ParameterError, validation
from geoveil.selection import (
    ExponentialMechanism,
    HeavyStudentT,
    LaplaceLogNormal,
    PermuteAndFlip,
    PublishedCalibrationWarning,
    ScoresLike,
    SmoothNoisyMax,
    SmoothUtilities,
    shift_cost,
    spent,
    winners_and_margins,
)
from geoveil.selection.contrib.forest import LABEL_RECIPES, LabelName
from geoveil.selection.contrib.recipe import SelectionRecipe
from geoveil.simulation.experiment import mean_and_error

STANDINGS = "equal ε", "paper, nominal", "no privacy", "yours"
KEPT, NOMINAL, OPEN, OWN = STANDINGS
"""A mechanism that provably keeps its row's ε; a paper's, at its nominal ε; one without privacy; or
a user's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionRow:
    """The result of one mechanism in one setting; ParameterError if it provably exceeds its ε."""

    application: str
    dataset: str
    setting: str
    """Other fixed parameters, for example "p=50" or "k=5"."""
    mechanism: str
    standing: str
    """One of `STANDINGS`."""
    epsilon: float
    """The axis of comparison, in nats per changed record."""
    proved_epsilon: float
    """The proved ε of the mechanism; infinite without a proof."""
    delta: float = 0.0
    measure: str
    value: float
    standard_error: float = 0.0
    """The standard error of `value`; 0 if nothing was drawn."""
    mode: str = "exact"
    """"exact" over the noise, or "monte-carlo"."""

    def __post_init__(self) -> None:
        # Proofs round up, by far less than 1e-9.
        if self.standing == KEPT and self.proved_epsilon > self.epsilon * (1 + 1e-9):
            raise ParameterError("proved_epsilon", self.proved_epsilon, f"at most {self.epsilon:g}")


Item = TypeVar("Item")


def evenly_spaced(items: Sequence[Item], most: int) -> list[Item]:
    """Return at most `most` evenly spaced items, including the first and the last."""
    places = np.linspace(0, len(items) - 1, min(most, len(items)))
    return [items[round(place)] for place in places.tolist()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """An experiment's options; ParameterError if the seed is out of range."""

    data: tuple[Path, ...] = ()
    """The application's files; without any it uses shipped or generated data."""
    seed: int = 1
    quick: bool = False
    """Whether to run only a small part."""
    module: Path | None = None
    """A Python file of mechanisms, functions of `epsilon` and `sensitivity`; it is run."""

    def __post_init__(self) -> None:
        validation.between("seed", self.seed, 0, 2**63)

    @property
    def key(self) -> str:
        """A text that identifies everything the rows depend on, including the contents of files."""
        given = (*self.data, *([] if self.module is None else source_files(self.module)))
        files = [hashlib.sha256(file.read_bytes()).hexdigest()[:12] for file in given]
        return " ".join([f"seed={self.seed} quick={self.quick}", *files])

    @property
    def own(self) -> Mapping[str, OwnSelection]:
        """The functions of `module` by name; empty without a file."""
        return {} if self.module is None else _in_file(self.module)


_in_file = lru_cache(maxsize=4)(selections_in)


Compute = Callable[[], Iterable[SelectionRow]]
"""Makes the rows of a part of an experiment."""
Array = NDArray[np.float64]
Choice = Callable[[Any], Any]
"""A database's private data → probabilities of outcomes, or choices."""


@dataclass(frozen=True, slots=True)
class Made:
    """A mechanism with its proved ε."""

    choice: Choice
    epsilon: float
    """The proved ε of a choice, in nats; infinite without a proof."""
    delta: float = 0.0


Make = Callable[[float, Any], Made]
"""ε and public facts, such as the number of outcomes → a mechanism."""


@dataclass(frozen=True, slots=True)
class SelectionContestant:
    """A way to choose one of several outcomes."""

    name: str
    make: Make
    standing: str = KEPT
    """One of `STANDINGS`."""


def of_recipes(recipes: Mapping[str, SelectionRecipe[Any, Any]]) -> list[SelectionContestant]:
    """Return the library's mechanisms for one application."""

    def make(recipe: SelectionRecipe[Any, Any], epsilon: float, public: Any) -> Made:
        mechanism = recipe.build(epsilon, public)
        return Made(
            lambda known: mechanism.probabilities(recipe.score(known, mechanism)),
            mechanism.guarantee.epsilon,
            mechanism.guarantee.delta,
        )

    return [SelectionContestant(n, partial(make, recipe)) for n, recipe in recipes.items()]


def brought(
    own: Mapping[str, OwnSelection], choice: Callable[[OwnSelection], Choice]
) -> list[SelectionContestant]:
    """Return a user's mechanisms, which have no proofs."""

    def make(given: OwnSelection, epsilon: float, _: Any) -> Made:
        return Made(choice(given.at(epsilon)), math.inf)

    return [SelectionContestant(n, partial(make, given), OWN) for n, given in own.items()]


def by_nearness(given: OwnSelection) -> Choice:
    """Return a choice by the number of changes after which each outcome wins."""
    return lambda known: given.probabilities(known.as_nearness())


def compared(
    contestants: Iterable[SelectionContestant],
    epsilons: Iterable[float],
    public: Any,
    databases: Iterable[Any],
    measured: Callable[[Choice, Any], Mapping[str, ArrayLike]],
    **place: Any,
) -> Iterator[SelectionRow]:
    """Yield the rows of mechanisms at every ε, each averaged over databases.

    `measured` returns a choice's numbers by measure on one database; `place` has a row's other
    fields.
    """
    cells = [(c, epsilon, c.make(epsilon, public)) for c, epsilon in product(contestants, epsilons)]
    results_by_database = [
        [measured(made.choice, database) for _, _, made in cells] for database in databases
    ]
    for (contestant, epsilon, made), results in zip(
        cells, zip(*results_by_database, strict=True), strict=True
    ):
        for measure in results[0]:
            values = np.ravel([result[measure] for result in results])
            value, error = mean_and_error(values)
            yield SelectionRow(
                mechanism=contestant.name,
                standing=contestant.standing,
                epsilon=epsilon,
                proved_epsilon=made.epsilon,
                delta=made.delta,
                measure=measure,
                value=value,
                standard_error=error,
                **place,
            )


Counts = NDArray[Any]
PairLaw = Callable[[int, int], tuple[float, float]]
"""Lead and number of outcomes → probabilities of the winner and of each other outcome."""
Leads = Callable[[Counts], tuple[NDArray[np.intp], NDArray[np.int64]]]
"""The winner of each row, and its lead."""


def by_rows(mechanism: Selects) -> Choice:
    """Return a choice by the counts themselves."""
    return lambda rows: np.array([mechanism.probabilities(row) for row in rows])


def directly(mechanism: type[ExponentialMechanism | PermuteAndFlip], *, monotone: bool) -> Make:
    """Return a choice by the counts themselves, or by any utilities of sensitivity 1."""
    return lambda epsilon, _: Made(by_rows(mechanism(epsilon, 1.0, monotone=monotone)), epsilon)


def openly(name: str) -> SelectionContestant:
    """Return the choice without privacy: always the first largest count."""

    def best(rows: Counts) -> Array:
        return np.asarray(np.eye(rows.shape[1])[rows.argmax(axis=1)])

    return SelectionContestant(name, lambda *_: Made(best, math.inf), OPEN)


def pair_law(mechanism: Selects, scores: Callable[[int, int], ScoresLike]) -> PairLaw:
    """Return the cached law of a mechanism that treats all losing outcomes alike.

    `scores` returns its scores by lead and number of outcomes, with the first outcome as winner.
    """

    @cache
    def law(lead: int, outcomes: int) -> tuple[float, float]:
        if outcomes == 1:
            return 1.0, 0.0
        probabilities = mechanism.probabilities(scores(lead, outcomes))
        return float(probabilities[0]), float(probabilities[-1])

    return law


def by_lead(law: PairLaw, leads: Leads = winners_and_margins) -> Choice:
    """Return a choice by the winner's lead, by default its margin."""

    def probabilities(counts: Counts) -> Array:
        winners, ahead = leads(counts)
        distinct, back = np.unique(ahead, return_inverse=True)
        pairs = np.array([law(lead, counts.shape[1]) for lead in distinct.tolist()])[back]
        won = np.arange(counts.shape[1]) == winners[:, None]
        return np.where(won, pairs[:, :1], pairs[:, 1:])

    return probabilities


def to_the_second(counts: Counts) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return the winner of each row and [SNM Proposition 6.3]'s k, its lead over the second."""
    top = np.sort(counts, axis=1)[:, -2:]
    return counts.argmax(axis=1), (top[:, -1] - top[:, 0]).astype(np.int64)


def by_margin(name: LabelName) -> Make:
    """Return one of `LABEL_RECIPES` that uses only the winner and its margin."""
    recipe = LABEL_RECIPES[name]

    def make(epsilon: float, outcomes: int) -> Made:
        mechanism = recipe.build(epsilon, max(outcomes, 2))

        def scores(margin: int, outcomes: int) -> ScoresLike:
            return recipe.score(np.eye(1, outcomes, dtype=np.int64)[0] * (margin - 1), mechanism)

        return Made(by_lead(pair_law(mechanism, scores)), epsilon)

    return make


PUBLISHED_NOISE: Mapping[str, Noise] = MappingProxyType(
    {"SNM-T": HeavyStudentT(3.0), "SNM-LAP": Laplace(), "SNM-LLN": LaplaceLogNormal(1.0)}
)
"""Name in the paper → its noise. The paper gives no σ for the log-normal scale."""


def delta_of(noise: Noise) -> float:
    """Return δ: 0 if the noise needs none, otherwise 1e-5, since the paper states none."""
    return 0.0 if math.isfinite(noise.scale_cost) else 1e-5


def published_mechanism(epsilon: float, outcomes: int, noise: Noise) -> SmoothNoisyMax:
    """Return Algorithm 1 without its warning, since rows state that they are nominal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PublishedCalibrationWarning)
        delta = delta_of(noise)
        return SmoothNoisyMax(epsilon, outcomes, noise, calibration="published", delta=delta)


def published_bound(epsilon: float, outcomes: int, noise: Noise) -> float:
    """Return the privacy bound of the winner, in nats, with `delta_of` the noise.

    e^ε S is ε-smooth and an upper bound of the local sensitivity, so the noise has α e^ε.
    """
    alpha = epsilon / 2 / float(shift_cost(noise))
    return spent(noise, math.exp(epsilon) * alpha, epsilon, outcomes, delta_of(noise))


@cache
def published_law(epsilon: float, noise: Noise) -> PairLaw:
    """Return the winner's law under [SNM Algorithm 1] by k of [SNM Proposition 6.3]."""
    mechanism = published_mechanism(epsilon, 2**20, noise)

    def scores(lead: int, outcomes: int) -> SmoothUtilities:
        bound = max(float(np.exp(-epsilon * lead)), 1 / validation.FARTHEST)
        return SmoothUtilities(np.eye(outcomes)[0], bound, beta=mechanism.beta)

    return pair_law(mechanism, scores)


def for_each_noise(make: Callable[[Noise, float, int], Made]) -> list[SelectionContestant]:
    """Return the paper's mechanisms, one for each noise."""
    return [
        SelectionContestant(name, partial(make, noise), NOMINAL)
        for name, noise in PUBLISHED_NOISE.items()
    ]


PUBLISHED = for_each_noise(
    lambda noise, epsilon, outcomes: Made(
        by_lead(published_law(epsilon, noise), to_the_second),
        published_bound(epsilon, outcomes, noise),
        delta_of(noise),
    )
)
"""The paper's mechanisms, with their proved ε."""


def _zero_one(mechanism: type[ExponentialMechanism | PermuteAndFlip]) -> Make:
    """Return a mechanism that uses only the winner; its ε is the cost of a changed winner."""

    def make(epsilon: float, classes: int) -> Made:
        law = pair_law(mechanism(epsilon, 1.0), lambda _, outcomes: np.eye(outcomes)[0])
        return Made(by_lead(law), float(np.log(np.divide(*law(1, classes)))))

    return make


LEAF_CONTESTANTS: Sequence[SelectionContestant] = (
    SelectionContestant("permute-and-flip, counts", directly(PermuteAndFlip, monotone=True)),
    SelectionContestant("exponential, counts", directly(ExponentialMechanism, monotone=True)),
    SelectionContestant("stability, optimal", by_margin("stability")),
    SelectionContestant("permute-and-flip, distance", by_margin("distance_permute_and_flip")),
    SelectionContestant("exponential, distance", by_margin("distance_exponential")),
    SelectionContestant("smooth noisy max, proved", by_margin("smooth_noisy_max")),
    SelectionContestant("permute-and-flip, 0/1", _zero_one(PermuteAndFlip), NOMINAL),
    SelectionContestant("exponential, 0/1", _zero_one(ExponentialMechanism), NOMINAL),
    *PUBLISHED,
)
"""Mechanisms for leaves' labels at real costs; local dampening of the 0/1 utility has D = j."""
