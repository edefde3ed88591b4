"""What an analyst wants to know: a hard share, or the mean of a soft query as it is.

Whoever asks for the share above a threshold does not want a soft step; they get one because the
truth itself cannot be had at ε. So a hard question leaves open which soft query stands in for it:
how wide the band is, and where it lies. Softening is bias, and the planner weighs it [MATH §8].
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.errors import ParameterError
from geoveil.gp.queries.base import Query
from geoveil.gp.queries.indicator import SoftIndicator

Array = NDArray[np.float64]


class Question(ABC):
    """What is wanted: the mean of `truth` over the people."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of coordinates of a point."""

    @abstractmethod
    def truth(self, points: Array) -> Array:
        """Return what each point contributes to the truth, (n,)."""

    def clearance(self, points: Array) -> Array:
        """Return how far each point is, at least, from where the truth varies, (n,), ≥ 0.

        By default 0: it may vary anywhere.
        """
        return np.zeros(len(points))

    @property
    def length_scale(self) -> float:
        """Length over which the truth varies; ∞ where it jumps, as its place is all there is."""
        return math.inf


@dataclass(frozen=True, slots=True)
class SoftQuestion(Question):
    """The mean of a query as it is.

    Args:
        query: f.
    """

    query: Query

    def __post_init__(self) -> None:
        if not isinstance(self.query, Query):
            raise ParameterError("query", self.query, "a Query, for example GaussianKernel(...)")

    @property
    def dimension(self) -> int:
        """See `Question.dimension`."""
        return self.query.dimension

    def truth(self, points: Array) -> Array:
        """See `Question.truth`: f."""
        return self.query.value(points)

    def clearance(self, points: Array) -> Array:
        """See `Question.clearance`: what the query says."""
        return self.query.clearance(points)

    @property
    def length_scale(self) -> float:
        """See `Question.length_scale`."""
        return self.query.profile.length_scale


class HardQuestion(Question):
    """The share of people inside a region."""

    shifts: ClassVar[bool] = True
    """Whether to move the boundary inwards by d lowers every distance by d."""
    rounded: ClassVar[bool] = False
    """Whether the distance depends on the width of the band."""

    @abstractmethod
    def soft(self, width: float, profile: str, inwards: Sequence[float]) -> SoftIndicator:
        """Return a stand-in.

        Args:
            width: of the band.
            profile: "linear" or "smoothstep".
            inwards: by how much each boundary is moved into the region, `boundaries` numbers.

        Raises:
            ParameterError: if the region is too small for the band.
        """

    def fits(self, width: float, profile: str, inwards: Sequence[float]) -> bool:
        """Return whether there is a stand-in: see `soft`."""
        try:
            self.soft(width, profile, inwards)
        except ParameterError:
            return False
        return True

    @property
    def boundaries(self) -> int:
        """How many boundaries can be moved independently."""
        return 1

    def signed(self, points: Array, width: float) -> Array:
        """Return the distances to the boundary, > 0 inside, for bands of a width, (n,).

        Raises:
            ParameterError: if the region is too small for the band, and its width counts.
        """
        still = (0.0,) * self.boundaries
        while not self.rounded and not self.fits(width, "linear", still):
            width /= 2  # any band has the same boundary
        return np.asarray(self.soft(width, "linear", still).signed_distance(points))

    def clearance(self, points: Array) -> Array:
        """See `Question.clearance`: the distance to the boundary."""
        return np.abs(self.signed(points, 1.0))


def as_question(question: Question | Query) -> Question:
    """Return a question; a query stands for its own mean.

    Raises:
        ParameterError: if it is neither.
    """
    if isinstance(question, Query):
        return SoftQuestion(question)
    if not isinstance(question, Question):
        raise ParameterError("question", question, "a Question or a Query")
    return question
