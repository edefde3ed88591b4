"""The contract of private selection: pick one of m outcomes by private scores.

Neighbouring databases differ in one record. A mechanism sees only the database's `Scores`: each
type states one kind of knowledge, so that no mechanism misuses a sensitivity, and no repr, error or
comparison reveals a value. A mechanism implements its distribution twice: `probabilities` in
float64, `_draw` exactly.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import (
    ParameterError,
    PrivateValueError,
    RandomSource,
    ReprByArguments,
    UnsupportedError,
    ValueObject,
    as_given,
    chosen_source,
    round_down,
    round_up,
    six_digits,
    validation,
)

Array = NDArray[np.float64]
_Key = TypeVar("_Key")
_ADMISSIBLE = "an admissible bound: sensitivities >= 0 that do not fall as t grows"
_MOST_MARGIN = 2**53

LocalSensitivity: TypeAlias = Callable[[int], ArrayLike]
"""t → δ(x, t, ·), the upper bounds at t changes from the given database, shape (m,)."""


class Scores(ABC):
    """Private scores of one database."""

    @property
    @abstractmethod
    def outcomes(self) -> int:
        """m, the number of outcomes to select from. Public."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.outcomes} outcomes, values not shown)"


class Utilities(Scores):
    """A utility per outcome, which is all that mechanisms for a public global sensitivity need.

    Args:
        values: u, shape (m,), higher is better. Rounding with errors up to ρ raises their
            sensitivity to Δ + 2ρ.

    Raises:
        ParameterError: if there is no outcome, or more than one axis.
        PrivateValueError: if a utility is not finite, or no double holds it exactly (2^53 + 1).

    Example:
        >>> Utilities([3.0, 1.0])
        Utilities(2 outcomes, values not shown)
    """

    def __init__(self, values: ArrayLike) -> None:
        self.values = private_array(values)
        if self.values.ndim != 1 or not self.values.size:
            raise ParameterError(
                "utilities", self.values.shape, "at least one number, in one dimension: shape (m,)"
            )

    @property
    def outcomes(self) -> int:
        return len(self.values)


class SmoothUtilities(Utilities):
    """Utilities, and a smooth upper bound of their sensitivity at this database.

    Args:
        values: u, shape (m,), higher is better.
        smooth_sensitivity: S > 0, at least the local sensitivity of every outcome, and at most e^β
            times the S of any neighbouring database. Private.
        beta: the β > 0 for which S is smooth. Public; a mechanism refuses one above its own.

    Raises:
        ParameterError: if there is no outcome, or beta is out of range.
        PrivateValueError: if a utility is not a finite number, or S is out of range.
    """

    def __init__(self, values: ArrayLike, smooth_sensitivity: float, *, beta: float) -> None:
        super().__init__(values)
        self.beta = round_up(as_given(beta, validation.positive("beta", beta)))
        expected = (
            f"a smooth sensitivity in [{1 / validation.FARTHEST:g}, {validation.FARTHEST:g}]"
            f" {validation.HELD}"
        )
        bound = validation.exact_array(smooth_sensitivity)
        if (
            bound is None
            or bound.ndim != 0
            or not 1 / validation.FARTHEST <= bound <= validation.FARTHEST
        ):
            raise PrivateValueError(expected)
        self.smooth_sensitivity = float(bound)


class LocalUtilities(Utilities):
    """Utilities, and upper bounds δ(x, t, r) of their sensitivity within t changes [LD Def. 3.3].

    The bounds must be admissible: δ(x, 0, r) is at least the local sensitivity of u_r, and
    δ(x, t + 1, r) ≥ δ(y, t, r) for x and all its neighbours y. The constructor checks that a table
    does not fall as t grows, which is all that one table can show. Functions are trusted.

    Args:
        values: u, shape (m,), higher is better.
        sensitivities: a table of shape (T, m), whose row t is δ(x, t, ·), or a function of t that
            returns such a row. Beyond a table's end the mechanism's global sensitivity applies.

    Raises:
        ParameterError: if there is no outcome, or a table is not of shape (T, m).
        PrivateValueError: if a number is not finite, or a table is negative or falls as t grows.
    """

    def __init__(self, values: ArrayLike, sensitivities: ArrayLike | LocalSensitivity) -> None:
        super().__init__(values)
        if callable(sensitivities):
            self._function: LocalSensitivity | None = sensitivities
            self._table = np.empty((0, self.outcomes))
            return
        self._function = None
        self._table = private_array(sensitivities)
        if self._table.ndim != 2 or self._table.shape[1] != self.outcomes:
            raise ParameterError("sensitivities", self._table.shape, "of shape (T, m)")
        if (self._table < 0).any() or (np.diff(self._table, axis=0) < 0).any():
            raise PrivateValueError(_ADMISSIBLE)

    @property
    def ends(self) -> bool:
        """Whether the bounds are a table, which has an end."""
        return self._function is None

    def sensitivity(self, changes: int) -> Array | None:
        """Return δ(x, t, ·) for t ≥ 0 changes, shape (m,), or None beyond the end of a table.

        Raises:
            ParameterError: if a function does not return a row of shape (m,).
            PrivateValueError: if a number is negative or not finite.
        """
        if self._function is None:
            return self._table[changes] if changes < len(self._table) else None
        row = private_array(self._function(changes))
        if row.shape != (self.outcomes,):
            raise ParameterError("sensitivities(t)", row.shape, "of shape (m,)")
        if (row < 0).any():
            raise PrivateValueError(_ADMISSIBLE)
        return row


class Margin(Scores):
    """A winner, and the number of changes of the database that make another outcome win.

    Args:
        winner: the winner's index, in [0, outcomes).
        margin: j ≥ 0, an integer: the exact number of changes, or a lower bound that differs by at
            most 1 between neighbours with the same winner and is at most 1 if the winner differs.
        outcomes: m ≥ 1, at most 2^53. Public.

    Raises:
        ParameterError: if `outcomes` is out of range.
        PrivateValueError: if the winner or the margin is.

    Example:
        >>> Margin(winner=2, margin=7, outcomes=3)
        Margin(3 outcomes, values not shown)
    """

    def __init__(self, winner: int, margin: int, outcomes: int) -> None:
        if not _is_integer(outcomes) or not 1 <= outcomes <= _MOST_MARGIN:
            raise ParameterError("outcomes", outcomes, f"an integer from 1 to {_MOST_MARGIN}")
        if not _is_integer(winner) or not 0 <= winner < outcomes:
            raise PrivateValueError("the index of an outcome, from 0")
        if not _is_integer(margin) or not 0 <= margin <= _MOST_MARGIN:
            raise PrivateValueError(f"a margin: an integer from 0 to {_MOST_MARGIN}")
        self.winner = int(winner)
        self.margin = int(margin)
        self._outcomes = int(outcomes)

    @property
    def outcomes(self) -> int:
        return self._outcomes


def _is_integer(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def private_array(values: ArrayLike) -> Array:
    """Return a read-only float64 copy of private numbers, or refuse them without revealing any."""
    array = validation.points(values, 1).copy()
    array.setflags(write=False)
    return array


ScoresLike: TypeAlias = Scores | ArrayLike
"""Scores or, for mechanisms that need no more, an array of utilities, shape (m,)."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Guarantee(ReprByArguments):
    """A guarantee: for neighbours x, y and any set A, P_x[A] ≤ e^ε P_y[A] + δ.

    Args:
        epsilon: ε ≥ 0, in nats per changed record; infinite if nothing is promised.
        delta: δ in [0, 1].
        statement: the promise in words, including its neighbours.
        source: a paper's theorem, or the place of the proof.

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", validation.non_negative("epsilon", self.epsilon))
        object.__setattr__(self, "delta", validation.between("delta", self.delta, 0, 1))

    def of_choices(self, k: int, epsilon: float) -> "Guarantee":
        """Return the guarantee of k choices together, each at ε/k; epsilon is the total (nats)."""
        made = "one choice at ε" if k == 1 else f"{k} choices at ε/{k} each"
        return replace(self, epsilon=epsilon, statement=f"{made}, for: {self.statement}")

    def __str__(self) -> str:
        # To six digits, and never less than the loss.
        delta = f", δ = {six_digits(self.delta, ROUND_CEILING)}" if self.delta else ""
        epsilon = six_digits(self.epsilon, ROUND_CEILING)
        return f"ε = {epsilon}{delta}: {self.statement} {self.source}"


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
