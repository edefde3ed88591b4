"""Flag sudden changes: compare the newest cohort with those before it [MATH §13]."""

import math
from collections.abc import Callable

import numpy as np

from geoveil.gp import Array, ParameterError, validation

FALSE_ALARMS = 0.01
"""The probability of any flag in a year in which the mean's drift does not change."""
_WINDOWS = (1, 2, 4, 8, 13, 26, 52)
Margins = Callable[[float, int, int], tuple[float, float]]


def windows(epoch: int) -> tuple[int, ...]:
    """Return the numbers of cohorts to pool, of those in an epoch."""
    return tuple(length for length in _WINDOWS if length <= epoch)


def flagged(
    changes: Array,
    margins: Margins,
    epoch: int,
    false_alarms: float = FALSE_ALARMS,
    *,
    looks: int,
) -> Array:
    """Return whether the newest cohorts changed differently from those of the epoch before.

    Each cohort reveals how much its mean changed since its last epoch, in which differences between
    people cancel. The mean change of the last cohorts is compared with that of the epoch before
    them, for several numbers of cohorts, with limits recovered from those of both [ZD08], at
    Bonferroni's level for all comparisons. The epoch before has earlier changes of the same people,
    whose later changes begin where the earlier ones end: the two have a correlation of −1/2 at
    worst, so its square counts twice.

    Args:
        changes: mean changes of successive cohorts, in order of time.
        margins: (confidence, first, end) → how far the limits of the mean change of the cohorts
            from the first to before the end are below and above it.
        epoch: how many cohorts there are in an epoch, 2 or more.
        false_alarms: the probability of any flag while the mean drifts as before, in (0, 1).
        looks: the number of cohorts that this probability covers.

    Returns:
        An array like `changes`: NaN after too few cohorts, else 0 or 1.

    Raises:
        ParameterError: if a number is out of range.
    """
    confidence = 1 - 2 * _share(epoch, false_alarms, looks)
    exceeded = np.full(len(changes), np.nan)
    for end in range(epoch + 1, len(changes) + 1):
        beyond = False
        for length in windows(min(epoch, end - epoch)):
            start = end - length
            first = start - epoch
            shift = changes[start:end].mean() - changes[first:start].mean()
            recent, before = margins(confidence, start, end), margins(confidence, first, start)
            side = int(shift < 0)
            beyond |= abs(shift) > math.hypot(recent[side], math.sqrt(2) * before[1 - side])
        exceeded[end - 1] = beyond
    return exceeded


def _share(epoch: int, false_alarms: float, looks: int) -> float:
    if epoch < 2:
        raise ParameterError("epoch", epoch, "two or more cohorts")
    validation.require_count("looks", looks)
    rate = validation.between("false_alarms", false_alarms, 0, 1, low_open=True, high_open=True)
    return rate / (2 * looks * len(windows(epoch)))
