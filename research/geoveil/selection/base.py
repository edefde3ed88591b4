"""The contract of private selection: pick one of m outcomes by private scores.

Neighbouring databases differ in one record. A mechanism sees only the database's `Scores` and
implements its distribution twice: `probabilities` in float64, `_draw` exactly.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import (
    ParameterError,
    RandomSource,
    ReprByArguments,
    UnsupportedError,
    ValueObject,
    as_given,
    chosen_source,
    round_down,
    validation,
)
from geoveil.selection.scores import Scores, Utilities

Array = NDArray[np.float64]

ScoresLike: TypeAlias = Scores | ArrayLike
"""Scores or, for mechanisms that need no more, an array of utilities, shape (m,)."""
_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Guarantee(ReprByArguments):
    """A guarantee: for neighbours x, y and any set A, P_x[A] ≤ e^ε P_y[A] + δ.

    Args:
        epsilon: ε ≥ 0, in nats per changed record; infinite if nothing is promised.
        delta: δ in [0, 1].
        statement: the promise in words, including its neighbours.
        source: a paper's theorem, or the place of the proof.
        proved: False for a published claim that this library could not confirm.

    Raises:
        ParameterError: if epsilon or delta is out of range.

    Example:
        >>> g = Guarantee(epsilon=1.0, statement="sup |u_r - u'_r| <= 2", source="[PF §2]")
        >>> print(g)
        ε = 1: sup |u_r - u'_r| <= 2 [PF §2]
    """

    epsilon: float
    delta: float = 0.0
    statement: str
    source: str
    proved: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", validation.non_negative("epsilon", self.epsilon))
        object.__setattr__(self, "delta", validation.between("delta", self.delta, 0, 1))

    def of_choices(self, k: int, epsilon: float) -> "Guarantee":
        """Return the guarantee of k choices together, each at ε/k; epsilon is the total (nats)."""
        made = "one choice at ε" if k == 1 else f"{k} choices at ε/{k} each"
        return replace(self, epsilon=epsilon, statement=f"{made}, for: {self.statement}")

    def __str__(self) -> str:
        delta = f", δ = {self.delta:g}" if self.delta else ""
        doubt = "" if self.proved else " (claimed, not proved)"
        return f"ε = {self.epsilon:g}{delta}{doubt}: {self.statement} {self.source}"


class SelectionMechanism(ValueObject, ABC):
    """A random choice among m outcomes that prefers better ones.

    A subclass names the kind of `Scores` that it takes, and implements `_probabilities` and `_draw`
    for it. It refuses kinds of scores that it would misuse, and states the reason.

    Args:
        epsilon: the largest log-ratio of probabilities (nats) between neighbouring databases, > 0.

    Raises:
        ParameterError: if epsilon is not a finite number > 0.
    """

    _kind: ClassVar[type[Scores]] = Utilities
    _refused: ClassVar[Mapping[type[Scores], str]] = MappingProxyType({})
    """Kind of scores that would break the guarantee → the reason; {} stands for the mechanism."""

    def __init__(self, epsilon: float) -> None:
        self.epsilon = round_down(as_given(epsilon, validation.positive("epsilon", epsilon)))

    def __reduce__(self) -> tuple[Any, ...]:
        # Rebuild from the arguments, since derived functions can't be pickled.
        return partial(type(self), **self._given()), ()

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The proved guarantee of this mechanism."""

    def probabilities(self, scores: ScoresLike | Mapping[Any, float]) -> Array:
        """Return the ideal probability of each outcome, shape (m,): as private as the scores.

        It serves experiments and audits. It takes the same scores as `select`.

        Raises:
            ParameterError: if the scores are of another kind, or have no outcome.
            PrivateValueError: if a private number is out of range.
            UnsupportedError: if scores of that kind would break the guarantee.
        """
        return self._probabilities(self._named(scores)[1])

    @overload
    def select(self, scores: Mapping[_Key, float], source: RandomSource | None = None) -> _Key: ...

    @overload
    def select(self, scores: ScoresLike, source: RandomSource | None = None) -> int: ...

    def select(
        self, scores: ScoresLike | Mapping[Any, float], source: RandomSource | None = None
    ) -> Any:
        """Return the index of one outcome: exact, and private on a real computer.

        The draw has exactly the ideal distribution for the given doubles [MATH §10]. The work does
        not depend on the scores, except for rare close draws (`geoveil.selection.draws`) and the
        mechanisms that docs/guarantees.md lists.

        Args:
            scores: scores of this mechanism's kind, or a dict of utilities, of which it returns a
                key. The keys are public: the same for every database.

        Raises:
            ParameterError: if the scores are of another kind or have no outcome, or `source` is
                not a RandomSource.
            PrivateValueError: if a private number is out of range.
            UnsupportedError: if scores of that kind would break the guarantee.

        Example:
            >>> from geoveil.gp import SeededSource
            >>> from geoveil.selection import PermuteAndFlip
            >>> votes = PermuteAndFlip(epsilon=1.0, sensitivity=1.0, monotone=True)
            >>> votes.select({"bus": 22, "tram": 8, "bicycle": 17}, SeededSource(1))
            'bus'
        """
        bits = chosen_source(source)
        names, utilities = self._named(scores)
        return names[int(self._draw(utilities, 1, bits)[0])]

    @overload
    def select_many(
        self, scores: Mapping[_Key, float], size: int, source: RandomSource | None = None
    ) -> list[_Key]: ...

    @overload
    def select_many(
        self, scores: ScoresLike, size: int, source: RandomSource | None = None
    ) -> NDArray[np.int64]: ...

    def select_many(
        self,
        scores: ScoresLike | Mapping[Any, float],
        size: int,
        source: RandomSource | None = None,
    ) -> Any:
        """Return independent selections for the same scores, shape (size,), faster than one by one.

        Each selection spends ε, so this is for databases with equal scores, such as the leaves of
        a forest. A dict gives a list of keys. Errors are those of `select`.

        Raises:
            ParameterError: if `size` is not an integer ≥ 1.
        """
        validation.require_count("size", size)
        bits = chosen_source(source)
        names, utilities = self._named(scores)
        drawn = self._draw(utilities, size, bits)
        return [names[r] for r in drawn.tolist()] if isinstance(scores, Mapping) else drawn

    # Each mechanism narrows the scores to its own kind, which `_checked` has ensured.

    @abstractmethod
    def _probabilities(self, scores: Any) -> Array:
        """Return the probabilities, shape (m,), for scores of this mechanism's kind."""

    @abstractmethod
    def _draw(self, scores: Any, size: int, source: RandomSource) -> NDArray[np.int64]:
        """Return the indices of `size` draws, for scores of this mechanism's kind."""

    def _named(self, scores: ScoresLike | Mapping[Any, float]) -> tuple[Sequence[Any], Any]:
        """Return the names of the outcomes, and scores of this mechanism's kind."""
        checked = self._checked(scores)
        return list(scores) if isinstance(scores, Mapping) else range(checked.outcomes), checked

    def _checked(self, scores: Any) -> Any:
        if not isinstance(scores, Scores):
            if self._kind is not Utilities:
                raise ParameterError("scores", type(scores), _how_to_make(self._kind))
            return Utilities(list(scores.values()) if isinstance(scores, Mapping) else scores)
        reason = self._refused.get(type(scores))
        if reason is not None:
            raise UnsupportedError(reason.format(type(self).__name__))
        # A subclass holds more knowledge than its parent; ignoring that would mislead.
        if type(scores) is not self._kind:
            raise ParameterError("scores", type(scores), _how_to_make(self._kind))
        return scores


def _how_to_make(kind: type[Scores]) -> str:
    """Return the constructor of a mechanism's scores: "Margin(winner, margin, outcomes)"."""
    return f"{kind.__name__}({', '.join(inspect.signature(kind).parameters)})"
