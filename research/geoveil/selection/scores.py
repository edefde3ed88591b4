"""The private scores of one database for selection mechanisms.

Each type states one kind of knowledge, so a mechanism cannot misuse a sensitivity. No repr, error
or comparison reveals a value.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import ParameterError, PrivateValueError, as_given, round_up, validation

Array = NDArray[np.float64]

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


_ADMISSIBLE = "an admissible bound: sensitivities >= 0 that do not fall as t grows"
_MOST_MARGIN = 2**53


def _is_integer(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def private_array(values: ArrayLike) -> Array:
    """Return a read-only float64 copy of private numbers, or refuse them without revealing any."""
    expected = validation.PRIVATE_NUMBERS
    array = validation.exact_array(values)
    if array is None:
        raise PrivateValueError(expected)
    if array.size and not (
        array.min() >= -validation.FARTHEST and array.max() <= validation.FARTHEST
    ):
        raise PrivateValueError(expected)
    array = array.copy()
    array.setflags(write=False)
    return array
