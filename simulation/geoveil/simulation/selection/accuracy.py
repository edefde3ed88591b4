"""What the experiments with trees and forests share: contestants, and rows of their accuracies."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.simulation.selection.rows import KEPT, Row

Array = NDArray[np.float64]
Choice = Callable[[NDArray[Any]], Array]
"""Probabilities of outcomes, by what an experiment knows of them."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A way to choose one of several outcomes.

    Args:
        name: of the mechanism and its utility.
        choice: from ε and the most outcomes that there are.
        proved: from the same two, what is proved of a choice; None where it is ε.
        standing: one of `STANDINGS`.
        delta: δ of a choice.
    """

    name: str
    choice: Callable[[float, int], Choice]
    proved: Callable[[float, int], float] | None = None
    standing: str = KEPT
    delta: float = 0.0

    def cost(self, epsilon: float, outcomes: int) -> float:
        """Return the ε that is proved of a choice."""
        return epsilon if self.proved is None else self.proved(epsilon, outcomes)

    def row(self, accuracies: Array, *, exact: bool, **place: Any) -> Row:
        """Return the mean of repeated experiments.

        Args:
            accuracies: shape (repetitions,).
            exact: whether they are expected values, and not drawn.
            place: all else that a row says.
        """
        return Row.averaged(
            accuracies,
            mechanism=self.name,
            standing=self.standing,
            measure="expected accuracy",
            mode="exact" if exact else "monte-carlo",
            **place,
        )
