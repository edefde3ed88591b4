"""Estimates of many questions from the same reports, without their covariances [MATH §8]."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.statistics.joint import QuestionMeans
from geoveil.analyst.statistics.simultaneous import critical_value_of_many

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class SeparateEstimates(QuestionMeans):
    """Estimates of the means of many soft questions, with separate errors.

    How errors go together is not known, so that there is no error of a difference or a sum; but
    intervals that hold all means at once need none.

    Example:
        >>> from geoveil.gp import GeoPrivacy
        >>> from geoveil.gp.intervals import Limits
        >>> found = SeparateEstimates(labels=("a", "b"), values=np.array([0.5, 0.3]),
        ...     standard_errors=np.array([0.02, 0.02]), n=1_000, confidence=0.95,
        ...     limits=(Limits((0.0, 1.0), (0.0, 1.0)),) * 2,
        ...     privacy=GeoPrivacy(1.0, per=500.0, unit="metre"))
        >>> [ends.round(3).tolist() for ends in found.band()]
        [[0.455, 0.255], [0.545, 0.345]]
    """

    standard_errors: Array
    """(m,), noise and sampling together."""

    def band(self, critical: float | None = None) -> tuple[Array, Array]:
        """Return the ends of intervals that cover all means at once, (m,) and (m,).

        Args:
            critical: how many standard errors hold all at once; by default what does whatever
                their correlations: see `critical_value_of_many`.
        """
        critical = critical or critical_value_of_many(len(self.labels), self.confidence)
        each = math.erf(critical / math.sqrt(2))
        intervals = [
            self._interval(place, self.n, error**2 * (self.n - 1), each)
            for place, error in enumerate(self.standard_errors.tolist())
        ]
        return np.array([interval.low for interval in intervals]), np.array(
            [interval.high for interval in intervals]
        )
