"""Priors of logarithms, for plans and pilots of campaigns that compare values by ratio."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.planner.priors import MappedPrior, Prior
from geoveil.gp import LogScale

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LogPrior(MappedPrior):
    """The law of the logarithms of values, for campaigns that compare by ratio.

    Args:
        prior: of the values, in one dimension.
        scale: whose logarithms devices perturb; values below its floor count as the floor.

    Example:
        >>> from geoveil.analyst.planner.priors import HeapedPrior, LogNormalPrior
        >>> from geoveil.analyst.hard_question import Heap
        >>> incomes = HeapedPrior(LogNormalPrior(11.5, 0.8), (Heap(0.0, 0.1),))
        >>> logs = LogPrior(incomes, LogScale(floor=1_000))
        >>> round(logs.expectation(lambda y: y > 11.5, breaks=[11.5]), 6)
        0.45
        >>> round(logs.expectation(lambda y: y == np.log(1_000), breaks=[11.5]), 6)
        0.1
    """

    scale: LogScale

    def scaled(self, factor: float) -> Prior:
        """Return the law of the logarithms of a multiple of the values."""
        return replace(self, prior=self.prior.scaled(factor))

    def _of(self, numbers: Array) -> Array:
        return self.scale.to_log(numbers)

    def _back(self, numbers: Array) -> Array:
        return np.append(self.scale.from_log(numbers), self.scale.floor)


@dataclass(frozen=True)
class ExpPrior(MappedPrior):
    """The law of values given a law of their logarithms, for example from a pilot by ratio.

    Args:
        prior: of the logarithms, in one dimension.

    Example:
        >>> from geoveil.analyst.planner.priors import HistogramPrior
        >>> values = ExpPrior(HistogramPrior([0.0, 1.0, 2.0], [30, 70]))
        >>> round(values.expectation(lambda x: x > np.e, breaks=[np.e]), 12)
        0.7
    """

    def _of(self, numbers: Array) -> Array:
        return np.exp(numbers)

    def _back(self, numbers: Array) -> Array:
        return np.log(numbers[numbers > 0])
