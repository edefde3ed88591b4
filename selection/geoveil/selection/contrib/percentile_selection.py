"""A private percentile: every mechanism, one function."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp.exact.bits import RandomSource
from geoveil.selection.base import Guarantee, SelectionMechanism
from geoveil.selection.contrib.method import Method, chosen
from geoveil.selection.contrib.percentile import Percentile
from geoveil.selection.exponential import ExponentialMechanism
from geoveil.selection.laplace_log_normal import LaplaceLogNormal
from geoveil.selection.local_dampening import LocalDampening
from geoveil.selection.one_sided_pareto import ExponentialPareto
from geoveil.selection.permute_and_flip import PermuteAndFlip
from geoveil.selection.scores import SmoothUtilities
from geoveil.selection.smooth_noisy_max import SmoothNoisyMax
from geoveil.selection.smooth_private_selection import SmoothPrivateSelection
from geoveil.selection.smooth_selection import SmoothSelection
from geoveil.selection.stability import StabilityMechanism

PercentileMethod: TypeAlias = Method[int, Percentile]
"""Set up by the number of candidates."""

_NOISE = ExponentialPareto(4.0)
"""Of smooth noisy max. Tails that heavy are the best of 1, 2 and 4 for thousands of candidates and
a margin of 1, and near it for one of 6; the same goes for half of ε for β."""

_DELTA = 1e-6
"""Of Laplace log-normal noise, whose change of scale costs √m and not m."""


def _smooth(known: Percentile, mechanism: SelectionMechanism) -> SmoothUtilities:
    assert isinstance(mechanism, SmoothSelection)
    return known.as_smooth(mechanism.beta)


PERCENTILE_METHODS: Mapping[str, PercentileMethod] = MappingProxyType(
    {
        "exponential": Method(
            lambda epsilon, _: ExponentialMechanism(epsilon, 1.0),
            lambda known, _: known.as_indicator(),
        ),
        "permute-and-flip": Method(
            lambda epsilon, _: PermuteAndFlip(epsilon, 1.0),
            lambda known, _: known.as_indicator(),
        ),
        "local dampening": Method(
            lambda epsilon, _: LocalDampening(epsilon, 1.0),
            lambda known, _: known.as_local(),
        ),
        "smooth private selection": Method(SmoothPrivateSelection, _smooth),
        "smooth private selection, log-normal": Method(
            lambda epsilon, outcomes: SmoothPrivateSelection(
                epsilon, outcomes, LaplaceLogNormal(), delta=_DELTA
            ),
            _smooth,
        ),
        "smooth noisy max": Method(
            lambda epsilon, outcomes: SmoothNoisyMax(epsilon, outcomes, _NOISE, share=0.5), _smooth
        ),
        "stability": Method(
            lambda epsilon, _: StabilityMechanism(epsilon),
            lambda known, _: known.as_margin(),
        ),
        "exponential, nearness": Method(
            lambda epsilon, _: ExponentialMechanism(epsilon, 1.0),
            lambda known, _: known.as_nearness(),
        ),
        "permute-and-flip, nearness": Method(
            lambda epsilon, _: PermuteAndFlip(epsilon, 1.0),
            lambda known, _: known.as_nearness(),
        ),
    }
)
"""Name → what it is. "Nearness" is the number of changes it takes, and all else the indicator."""


@dataclass(frozen=True, slots=True)
class PercentileEstimate:
    """A private percentile.

    Attributes:
        value: the candidate that was selected.
        guarantee: for one record more or less; twice its ε for one record changed.
    """

    value: float
    guarantee: Guarantee


def percentile(
    values: ArrayLike,
    p: float,
    candidates: Sequence[float] | NDArray[np.float64],
    *,
    epsilon: float,
    mechanism: str = "permute-and-flip, nearness",
    source: RandomSource | None = None,
) -> PercentileEstimate:
    """Return a private p-th percentile: the value at position ⌊pn/100⌋, counted from 0.

    The curator, who runs this, sees the records and is trusted with them; whoever gets the result
    is not. Candidates, p, epsilon and the mechanism have to be chosen without the records.

    Args:
        values: the records, shape (n,); see `Percentile`.
        p: in (0, 100).
        candidates: the values that may come out, increasing, shape (m,).
        epsilon: ε > 0, nats per record added or removed.
        mechanism: a name in `PERCENTILE_METHODS`. Those by nearness err to values near by, in
            rank; all others to any candidate alike.
        source: random bits; the operating system's by default.

    Raises:
        ParameterError: if a public argument is out of range.
        PrivateValueError: if a record is not a finite number.

    Example:
        >>> from geoveil.gp import SeededSource
        >>> ages = [23, 25, 31, 31, 34, 35, 35, 35, 41, 52, 57, 64]
        >>> percentile(ages, 50, range(120), epsilon=8.0, source=SeededSource(1)).value
        35.0
    """
    method = chosen(PERCENTILE_METHODS, mechanism)
    known = Percentile(values, p, candidates)
    selection = method.set_up(epsilon, known.outcomes)
    index = selection.select(method.tell(known, selection), source)
    return PercentileEstimate(float(known.candidates[index]), selection.guarantee)
